// The port through which launch packets leave the CWD: rates of packets, of CTAs and of CTA ids (CWD-34, CWD-43).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <vector>

#include "protocol/cwd_gpm.h"

namespace heddle::cwd {

class LaunchPort {
 public:
  struct Item {
    protocol::LaunchPacket packet;
    std::uint32_t gpc = 0;
    std::uint64_t session = 0;
    std::vector<protocol::LocalMemoryPacket> local;  // these follow it (CWD-32)
  };

  // Rates per cycle; 0 means without limit. `broadcast`: cycles that a packet takes to reach all GPCs, `id`: cycles
  // that the id of a CTA takes where the distributor makes and sends it; 0: neither.
  LaunchPort(double packets_per_cycle, double ctas_per_cycle, double broadcast = 0, double id = 0)
      : per_packet_(std::max(interval(packets_per_cycle), fractions(broadcast))),
        per_cta_(std::max(interval(ctas_per_cycle), fractions(id))) {}

  void push(const Item& item) { queue_.push_back(item); }
  bool empty() const { return queue_.empty(); }
  const Item& front() const { return queue_.front(); }
  // The first cycle, not before `now`, at which the front can leave: the cycle in which the port becomes free, not the
  // one after. Otherwise every packet would be rounded up to whole cycles, and the mean rate would be missed.
  std::uint64_t ready(std::uint64_t now) const { return std::max(now, busy_until_ / kFraction); }
  // The front leaves in cycle `now`, and the port is busy with it for a while.
  Item pop(std::uint64_t now) {
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_until_ = std::max(busy_until_, now * kFraction) + std::max(per_packet_, per_cta_ * item.packet.num_ctas);
    return item;
  }
  void reset() {
    queue_.clear();
    busy_until_ = 0;
  }

 private:
  // Times in parts of a cycle, so that rates need not divide one: fine enough for the highest rate of the parameters,
  // coarse enough for 2^48 cycles.
  static constexpr std::uint64_t kFraction = 65'536;
  static std::uint64_t fractions(double cycles) {
    return static_cast<std::uint64_t>(std::llround(cycles * double{kFraction}));
  }
  static std::uint64_t interval(double rate) { return rate <= 0 ? 0 : fractions(1 / rate); }

  std::uint64_t per_packet_;
  std::uint64_t per_cta_;
  std::uint64_t busy_until_ = 0;
  std::deque<Item> queue_;
};

}  // namespace heddle::cwd
