// Which queue is served next (PKT-10): the most urgent one, round robin among equals. Plain C++.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle::packet {

class TurnOrder {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Without `by_priority` all queues are equals.
  TurnOrder(std::uint32_t queues, bool by_priority) : wants_(queues, false), by_priority_(by_priority) {
    priorities_.assign(queues, 0);
  }

  void set_priority(std::uint32_t queue, std::int32_t priority) { priorities_[queue] = priority; }
  void want(std::uint32_t queue) { wants_[queue] = true; }
  void forget(std::uint32_t queue) { wants_[queue] = false; }
  bool wants(std::uint32_t queue) const { return wants_[queue]; }

  // The queue that is served, which wants nothing more then; kNone: none wants anything.
  std::uint32_t take() {
    const auto queues = static_cast<std::uint32_t>(wants_.size());
    std::uint32_t best = kNone;
    for (std::uint32_t i = 1; i <= queues; ++i) {
      const std::uint32_t queue = (last_ + i) % queues;
      if (!wants_[queue]) continue;
      if (best == kNone || (by_priority_ && priorities_[queue] > priorities_[best])) best = queue;
    }
    if (best == kNone) return kNone;
    wants_[best] = false;
    last_ = best;
    return best;
  }

  void reset() {
    wants_.assign(wants_.size(), false);
    priorities_.assign(priorities_.size(), 0);
    last_ = static_cast<std::uint32_t>(wants_.size()) - 1;
  }

 private:
  std::vector<bool> wants_;
  std::vector<std::int32_t> priorities_;
  std::uint32_t last_ = static_cast<std::uint32_t>(wants_.size()) - 1;  // so that queue 0 is first
  bool by_priority_ = false;
};

}  // namespace heddle::packet
