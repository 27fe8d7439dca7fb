// The nested scheduler: works on several chains of memory steps at a time, in the order of their arrival (TSK-13). One
// that waits for another writer gives its place away meanwhile, so that it never holds up the one that it waits for.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/domain.h"
#include "common/memory_socket.h"
#include "protocol/memory_client.h"
#include "task/nested_chain.h"

namespace heddle::task {

class NestedClient {
 public:
  virtual void chain_effect(const ChainEffect& effect) = 0;
  // Memory has done a step that is not one of waiting.
  virtual void chain_progress() = 0;

 protected:
  ~NestedClient() = default;
};

class NestedScheduler final : public EventHandler {
 public:
  // `in_flight` chains at a time, each after `cycles` of the scheduler's own; `retry` cycles between two looks at what
  // another writer is to write.
  NestedScheduler(Domain& domain, std::string name, MemoryOut& out, NestedClient& client, std::uint32_t in_flight,
                  Cycle cycles, Cycle retry);

  void enter(NestedChain chain);
  // Chains that are not over.
  std::size_t open() const { return slots_.size() - free_.size(); }
  std::size_t payloads() const { return memory_.payloads(); }
  void reset();

 private:
  static constexpr std::uint32_t kAnswer = 0;
  static constexpr std::uint32_t kSend = 1;
  static constexpr std::uint32_t kStep = 2;
  static constexpr std::uint32_t kRetry = 3;
  struct Tag {
    std::uint32_t slot = 0;
  };
  using Client = protocol::MemoryClient<Tag>;

  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void pump();
  void step(std::uint32_t slot);
  void do_step(const arch::MemoryStep& step, const Tag& tag);
  void answered(const Client::Answer& answer);

  Domain& domain_;
  const std::string name_;
  NestedClient& client_;
  const std::uint32_t in_flight_;
  const Cycle cycles_;
  const Cycle retry_;
  Client memory_;
  std::vector<std::unique_ptr<NestedChain>> slots_;
  std::vector<std::uint32_t> free_;
  struct Turn {
    std::uint32_t slot = 0;
    bool first = true;
  };
  std::deque<Turn> waiting_;
  std::uint32_t active_ = 0;
};

}  // namespace heddle::task
