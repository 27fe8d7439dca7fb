// The front end of the host's streams: what lies between the end of an operation and the start of the next one
// (gpu.task.gap). It goes on in the stream's channel, reads there what comes next, and keeps the gap that streams have
// at least.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "arch/idle_account.h"
#include "common/timebase.h"
#include "task/launch_scheduler.h"

namespace heddle::task {

class StreamFront final : private EventHandler {
 public:
  struct Costs {
    Cycle gap = 0;               // from the end of an operation to the start of the next one of its stream, at least
    Cycle start_path = 0;        // from here to a task's first launch packet on an idle machine
    Cycle front_end = 0;         // from when an end is known until the next operation is fetched
    std::uint32_t fetches = 0;   // lines of memory that are read of it then
    std::uint64_t channels = 0;  // where they lie (task/channel.h); 0: nowhere, and nothing is read
    bool early = false;          // a kernel is handed on as soon as nothing but the gap is left
  };
  class Client {
   public:
    virtual void operation_due(std::uint32_t operation) = 0;
    // The descriptor of a kernel of a graph has been read.
    virtual void node_taken(std::uint32_t operation) = 0;

   protected:
    ~Client() = default;
  };
  // An operation whose turn in its stream has come.
  struct Turn {
    std::uint32_t operation = 0;
    std::uint32_t stream = 0;
    Cycle submitted = 0;
    std::optional<Cycle> released;  // the end of what it waited for; absent: it waited for nothing
    bool kernel = false;            // alone: not a graph
  };
  struct Started {
    std::uint32_t stream = 0;
    Cycle released = 0;  // when nothing but the launch itself was left to wait for
    Cycle due = 0;       // when it was ready to be sent
  };

  StreamFront(Timebase& timebase, std::string name, const Costs& costs, LaunchScheduler& scheduler, Client& client);

  // operation_due() follows.
  void take(const Turn& turn);
  // Kernels of a graph that nothing keeps: node_taken() follows, at once where nothing is read; then operation_due().
  void take_node(std::uint32_t operation, std::uint32_t stream);
  void start_node(std::uint32_t operation, std::uint32_t stream, Cycle released);
  // What was to be read of it has been.
  void fetched(std::uint32_t operation);
  // It is due later, all the same.
  void due_at(std::uint32_t operation, Cycle when) { timebase_.schedule(when, *this, kDue, operation); }

  // From its turn on.
  const Started& started(std::uint32_t operation) const { return started_.at(operation); }
  void forget(std::uint32_t operation) { started_.erase(operation); }
  void reset() { started_.clear(); }

 private:
  static constexpr std::uint32_t kDue = 0;
  static constexpr std::uint32_t kFetch = 1;
  struct Open : Started {
    bool early = false;
    bool waits = false;  // it is not due
  };

  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void due(std::uint32_t operation);
  bool fetches() const { return costs_.fetches > 0 && costs_.channels != 0; }

  Timebase& timebase_;
  const std::string name_;
  const Costs costs_;
  LaunchScheduler& scheduler_;
  Client& client_;
  IdleWork work_;
  std::unordered_map<std::uint32_t, Open> started_;  // by operation; looked up only
};

}  // namespace heddle::task
