// Operations that the host has pushed into TMDQs, which are ordered in memory: only that they have been pushed, and
// their ends, are noted here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/waits.h"
#include "protocol/host_task.h"

namespace heddle::task {

class PushedOperations {
 public:
  struct Pushed {
    protocol::SubmitPacket packet;
    Cycle submitted = 0;
    std::optional<std::uint32_t> behind;  // operation
    Cycle before = 0;                     // end of the one before it in its stream, or its submission
  };

  void push(const protocol::SubmitPacket& packet, Cycle now) {
    Pushed pushed{packet, now, std::nullopt, now};
    if (packet.kind == protocol::SubmitKind::queued) pushed.behind = packet.wait_for;
    HEDDLE_CHECK(open_.emplace(packet.operation, pushed).second, "an operation was pushed twice");
  }
  const Pushed& at(std::uint32_t operation) const { return open_.at(operation); }
  // It has been pushed with that TMD, and has not ended.
  bool awaits(std::uint32_t operation, std::uint64_t record) const {
    const auto found = open_.find(operation);
    return found != open_.end() && found->second.packet.record == record;
  }
  // It has ended.
  Pushed take(std::uint32_t operation, Cycle end) {
    const auto found = open_.find(operation);
    HEDDLE_CHECK(found != open_.end(), "a task of the host ended that it had not pushed");
    Pushed pushed = std::move(found->second);
    open_.erase(found);
    const auto [last, first] = ends_.emplace(pushed.packet.stream, end);
    if (!first) pushed.before = std::exchange(last->second, end);
    return pushed;
  }
  std::size_t open() const { return open_.size(); }
  // `started`: the task of an operation has been read from its TMD.
  template <class Name, class Started>
  void collect_waits(WaitGraph& graph, const Name& name, const Started& started) const {
    for (const auto& [operation, pushed] : open_) {
      if (started(operation)) continue;
      if (pushed.behind && open_.count(*pushed.behind) != 0) {
        graph.add(name(operation), "for its turn in its TMDQ, behind", name(*pushed.behind));
      } else {
        graph.add(name(operation), "to be started,", fmt::format("from its TMD at 0x{:x}", pushed.packet.record));
      }
    }
  }
  void reset() {
    open_.clear();
    ends_.clear();
  }

 private:
  std::map<std::uint32_t, Pushed> open_;           // by operation
  std::unordered_map<std::uint32_t, Cycle> ends_;  // by stream: of its last operation; looked up only
};

}  // namespace heddle::task
