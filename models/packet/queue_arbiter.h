// Which queue is served next (PKT-10): the most urgent one, round robin among equals. Plain C++.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace heddle::packet {

class QueueArbiter {
 public:
  // Without `by_priority` all queues are equals.
  QueueArbiter(std::uint32_t queues, bool by_priority)
      : requests_(queues, false), priorities_(queues, 0), by_priority_(by_priority) {}

  void set_priority(std::uint32_t queue, std::int32_t priority) { priorities_[queue] = priority; }
  void request(std::uint32_t queue) { requests_[queue] = true; }
  void withdraw(std::uint32_t queue) { requests_[queue] = false; }
  bool requests(std::uint32_t queue) const { return requests_[queue]; }

  // The queue that is served, whose request is gone then; nothing if there is no request.
  std::optional<std::uint32_t> grant() {
    const auto queues = static_cast<std::uint32_t>(requests_.size());
    std::optional<std::uint32_t> best;
    for (std::uint32_t i = 1; i <= queues; ++i) {
      const std::uint32_t queue = (last_ + i) % queues;
      if (!requests_[queue]) continue;
      if (!best || (by_priority_ && priorities_[queue] > priorities_[*best])) best = queue;
    }
    if (!best) return best;
    requests_[*best] = false;
    last_ = *best;
    return best;
  }

  void reset() {
    requests_.assign(requests_.size(), false);
    priorities_.assign(priorities_.size(), 0);
    last_ = static_cast<std::uint32_t>(requests_.size()) - 1;
  }

 private:
  std::vector<bool> requests_;
  std::vector<std::int32_t> priorities_;
  std::uint32_t last_ = static_cast<std::uint32_t>(requests_.size()) - 1;  // so that queue 0 is first
  bool by_priority_ = false;
};

}  // namespace heddle::packet
