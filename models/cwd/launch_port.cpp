#include "cwd/launch_port.h"

#include <algorithm>
#include <cmath>

namespace heddle::cwd {
namespace {

constexpr double kParts = 65'536;  // = kFraction

std::uint64_t fractions(double rate) { return rate <= 0 ? 0 : static_cast<std::uint64_t>(std::llround(kParts / rate)); }

std::uint64_t cycles(double count) { return static_cast<std::uint64_t>(std::llround(count * kParts)); }

}  // namespace

LaunchPort::LaunchPort(double packets_per_cycle, double ctas_per_cycle, double broadcast, double id)
    : per_packet_(std::max(fractions(packets_per_cycle), cycles(broadcast))),
      per_cta_(std::max(fractions(ctas_per_cycle), cycles(id))) {}

// In the cycle in which the port becomes free, not the one after: otherwise every packet would be rounded up to whole
// cycles, and the mean rate would be missed.
std::uint64_t LaunchPort::ready(std::uint64_t now) const { return std::max(now, busy_until_ / kFraction); }

LaunchPort::Item LaunchPort::pop(std::uint64_t now) {
  const Item item = queue_.front();
  queue_.pop_front();
  busy_until_ = std::max(busy_until_, now * kFraction) + std::max(per_packet_, per_cta_ * item.packet.num_ctas);
  return item;
}

void LaunchPort::reset() {
  queue_.clear();
  busy_until_ = 0;
}

}  // namespace heddle::cwd
