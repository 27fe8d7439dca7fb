// Where the time of a kernel goes: parts of each launch, and parts as they lie behind each other in a queue.
#include <algorithm>
#include <numeric>

#include <catch2/catch.hpp>

#include "replay/packet_plan.h"
#include "support/random.h"

namespace replay_packet_parts_test {

using namespace heddle;
using namespace heddle::test;
using replay::kParts;
using replay::own_parts;
using replay::PacketLaunch;
using replay::Part;
using replay::Parts;

namespace {

PacketLaunch launch(std::uint32_t queue, std::uint64_t index, std::array<double, kParts + 1> times,
                    std::uint32_t kernel = 0) {
  PacketLaunch l;
  l.queue = queue;
  l.index = index;
  l.kernel = kernel;
  l.times = times;
  return l;
}

double sum(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

}  // namespace

TEST_CASE("the parts of a launch are the distances of its times", "[replay][PKT-08]") {
  const PacketLaunch l = launch(0, 0, {10, 12, 15, 19, 24, 30, 37, 45, 54});
  for (std::size_t p = 0; p < kParts; ++p) CHECK(l.part_ns(static_cast<Part>(p)) == 2.0 + static_cast<double>(p));
  // What a condensed packet takes as a whole is its first kernel's.
  const PacketLaunch second = launch(0, 0, {10, 12, 15, 51, 54, 60, 67, 75, 84}, 1);
  for (const Part p : {Part::enqueue, Part::fetch, Part::wait}) CHECK(second.part_ns(p) == 0);
  CHECK(second.part_ns(Part::decode) == 3);  // an acquire fence of its own
  CHECK(second.part_ns(Part::dispatch) == 6);
  CHECK(second.part_ns(Part::clean_up) == 9);
}

TEST_CASE("a time that a launch does not have makes no negative part", "[replay][PKT-08]") {
  const PacketLaunch l = launch(0, 0, {10, 12, 15, 19, 24, 30, 37, 45, 0});
  CHECK(l.part_ns(Part::clean_up) == 0);
  CHECK(l.part_ns(Part::execution) == 8);
}

TEST_CASE("behind each other, parts of a busy queue add up to its time", "[replay][PKT-08]") {
  // The second packet is there long before the first is over: only what comes after it is its own.
  const std::vector<PacketLaunch> launches{launch(0, 1, {5, 6, 7, 50, 55, 60, 62, 80, 90}),
                                           launch(0, 0, {0, 2, 4, 5, 10, 12, 14, 40, 50}),
                                           launch(1, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8})};
  const std::vector<Parts> own = own_parts(launches);
  CHECK(own[0] == Parts{0, 0, 0, 5, 5, 2, 18, 10});
  CHECK(own[1] == Parts{2, 2, 1, 5, 2, 2, 26, 10});
  CHECK(own[2] == Parts{1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(sum(own[0]) + sum(own[1]) == 90);
}

TEST_CASE("own parts never exceed the parts, and cover every moment once", "[replay][PKT-08]") {
  for (const std::uint64_t seed : seeds(500)) {
    Random random(seed);
    CAPTURE(seed);
    std::vector<PacketLaunch> launches;
    const std::uint32_t count = 1 + random.below(20U);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::array<double, kParts + 1> times{};
      double at = random.below(100U);
      for (double& time : times) time = at += random.below(20U);
      launches.push_back(launch(0, i, times));
    }
    // By hand: a moment belongs to the first launch that is on its way then.
    double covered = 0;
    for (int t = 0; t < 500; ++t) {
      covered += std::any_of(launches.begin(), launches.end(),
                             [t](const PacketLaunch& l) { return l.times.front() <= t && t + 1 <= l.times.back(); });
    }
    const std::vector<Parts> own = own_parts(launches);
    double all = 0;
    for (std::size_t i = 0; i < launches.size(); ++i) {
      for (std::size_t p = 0; p < kParts; ++p) {
        CHECK(own[i][p] >= 0);
        CHECK(own[i][p] <= launches[i].part_ns(static_cast<Part>(p)));
        all += own[i][p];
      }
    }
    // A launch that began before one behind it was covered is told of by neither; queues begin in order.
    CHECK(all <= covered);
    std::sort(launches.begin(), launches.end(),
              [](const PacketLaunch& a, const PacketLaunch& b) { return a.times.front() < b.times.front(); });
    for (std::size_t i = 0; i < launches.size(); ++i) launches[i].index = i;
    double ordered = 0;
    for (const Parts& parts : own_parts(launches)) ordered += sum(parts);
    CHECK(ordered == covered);
  }
}

}  // namespace replay_packet_parts_test
