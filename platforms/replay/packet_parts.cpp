#include "replay/packet_parts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace heddle::replay {
namespace {

constexpr std::array<const char*, kParts> kKeys{"enqueue",  "fetch",  "wait",      "decode",
                                                "dispatch", "launch", "execution", "clean_up"};
constexpr std::array<const char*, kParts> kTexts{
    "the host writes the packet and rings the doorbell",
    "the packet processor fetches the packet",
    "the packet waits for its turn",
    "the packet is decoded, what it names is read, and the acquire fence is done",
    "the kernel is handed to task management",
    "the kernel waits for its first CTA to be launched",
    "its CTAs run",
    "release fence, completion signal, and the end of the packet"};

// Where a part begins and ends, with nothing out of order.
std::array<double, kParts + 1> bounds_of(const PacketLaunch& launch) {
  std::array<double, kParts + 1> bounds = launch.times;
  constexpr auto kDecoded = static_cast<std::size_t>(Part::dispatch);
  if (launch.kernel > 0) {
    for (std::size_t i = 0; i < kDecoded; ++i) bounds[i] = bounds[kDecoded];
  }
  for (std::size_t i = 1; i < bounds.size(); ++i) bounds[i] = std::max(bounds[i], bounds[i - 1]);
  return bounds;
}

}  // namespace

const char* part_key(Part part) { return kKeys[static_cast<std::size_t>(part)]; }
const char* part_text(Part part) { return kTexts[static_cast<std::size_t>(part)]; }

double PacketLaunch::part_ns(Part part) const {
  const auto bounds = bounds_of(*this);
  const auto p = static_cast<std::size_t>(part);
  return bounds[p + 1] - bounds[p];
}

std::vector<Parts> own_parts(const std::vector<PacketLaunch>& launches) {
  std::vector<std::size_t> order(launches.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&launches](std::size_t a, std::size_t b) {
    const auto key = [](const PacketLaunch& l) { return std::tie(l.queue, l.index, l.kernel); };
    return key(launches[a]) < key(launches[b]);
  });
  std::vector<Parts> own(launches.size(), Parts{});
  std::map<std::uint32_t, double> covered;  // by queue: until when
  for (const std::size_t i : order) {
    const auto bounds = bounds_of(launches[i]);
    const auto [until, first] = covered.emplace(launches[i].queue, bounds.front());
    for (std::size_t p = 0; p < kParts; ++p) {
      own[i][p] = std::max(0.0, bounds[p + 1] - std::max(bounds[p], until->second));
    }
    until->second = std::max(until->second, bounds.back());
  }
  return own;
}

}  // namespace heddle::replay
