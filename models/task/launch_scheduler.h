// The launch scheduler: works on several chains of memory steps at a time, in the order of their arrival (TSK-13). One
// that waits for another writer gives up its place meanwhile, so that it never holds up the one that it waits for.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "common/index_pool.h"
#include "common/timebase.h"
#include "task/launch_chain.h"
#include "task/task_stats.h"

namespace heddle::task {

// Device memory as chains see it: any number of accesses at a time, each answered once, in any order, by a call of
// LaunchScheduler::answered() with its tag.
class ChainMemory {
 public:
  virtual void read_line(std::uint64_t address, std::uint32_t tag) = 0;
  virtual void write_line(std::uint64_t address, const RecordLine& line, std::uint32_t tag) = 0;
  virtual void step(const arch::MemoryStep& step, std::uint32_t tag) = 0;

 protected:
  ~ChainMemory() = default;
};

struct ChainAnswer {
  std::uint32_t tag = 0;
  bool ok = false;
  std::uint64_t old = 0;  // of an atomic: the value before
  RecordLine data{};      // of a read, from its first byte on
};

class LaunchScheduler final : private EventHandler {
 public:
  class Client {
   public:
    virtual void chain_effect(const ChainEffect& effect) = 0;

   protected:
    ~Client() = default;
  };
  struct Costs {
    std::uint32_t in_flight = 1;  // chains at a time
    Cycle cycles = 0;             // of the scheduler's own before the first access of a chain
    Cycle retry = 1;              // between two looks at what another writer is to write
  };

  LaunchScheduler(Timebase& timebase, std::string name, ChainMemory& memory, Client& client, const Costs& costs,
                  const std::string& stat_prefix);

  void enter(ChainPtr chain);
  void answered(const ChainAnswer& answer);
  // Chains that are not over.
  std::size_t open() const { return slots_.in_use(); }
  void reset();

 private:
  static constexpr std::uint32_t kStep = 0;
  static constexpr std::uint32_t kRetry = 1;
  struct Waiting {
    std::uint32_t slot = 0;
    bool first = true;  // its first access is ahead of it
  };

  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void begin_waiting();
  void access(std::uint32_t slot);

  Timebase& timebase_;
  const std::string name_;
  ChainMemory& memory_;
  Client& client_;
  const Costs costs_;
  ChainStats stats_;
  IndexPool<ChainPtr> slots_;
  std::deque<Waiting> waiting_;
  std::uint32_t active_ = 0;
};

}  // namespace heddle::task
