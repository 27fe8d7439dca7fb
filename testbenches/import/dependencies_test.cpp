#include "import/dependencies.h"

#include <algorithm>
#include <cstdint>
#include <iostream>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace import_dependencies_test {

using namespace heddle::workload;
using namespace heddle::import;

namespace {

constexpr Nanoseconds kNoLaunch = INT64_MIN;

// Operations in order of their starts, with what derive_dependencies() is told about them.
struct Recording {
  Workload workload;
  std::vector<HostMoment> launches;
  std::vector<StreamWait> waits;

  explicit Recording(std::size_t streams, Nanoseconds resolution = 1) {
    workload.streams.resize(streams);
    workload.timings.resolution = resolution;
  }
  std::size_t add(std::size_t stream, Nanoseconds launch, Nanoseconds start, Nanoseconds duration,
                  std::uint64_t sequence = 0) {
    Op op;
    op.stream = stream;
    if (launch != kNoLaunch) op.enqueue = launch;
    op.recorded = Recorded{start, duration, -1.0, false};
    launches.push_back({launch, sequence});
    workload.ops.push_back(op);
    return workload.ops.size() - 1;
  }
  DependencyCounts derive() { return derive_dependencies(workload, launches, waits); }
  const Op& op(std::size_t index) const { return workload.ops[index]; }
};

}  // namespace

TEST_CASE("launch latency is the lower quartile over idle streams", "[workload][INP-03]") {
  Recording recording(1);
  recording.add(0, 0, 40'000, 1'000);  // first of its stream: not known to be idle
  Nanoseconds at = 100'000;
  for (const Nanoseconds latency : {9'000, 6'000, 5'500, 70'000, 8'000}) {
    recording.add(0, at, at + latency, 1'000);
    at += 100'000;
  }
  recording.add(0, at - 99'000, at, 10);       // launched on an idle stream, but late
  recording.add(0, at - 1'000, at + 100, 10);  // its stream was busy
  recording.derive();
  CHECK(recording.workload.timings.launch_latency == 6'000);
  CHECK_FALSE(recording.workload.timings.stream_gap.has_value());
}

TEST_CASE("without an idle stream the first launches give the latency, or nothing does", "[workload][INP-03]") {
  Recording first(1);
  first.add(0, 0, 7'000, 100'000);
  first.add(0, 1'000, 107'500, 100);
  first.derive();
  CHECK(first.workload.timings.launch_latency == 7'000);
  Recording none(1);
  none.add(0, kNoLaunch, 0, 100);
  none.derive();
  CHECK_FALSE(none.workload.timings.launch_latency.has_value());
}

TEST_CASE("the stream gap is a mean without outliers and never negative", "[workload][INP-03]") {
  Recording recording(1);
  Nanoseconds end = 0;
  for (const Nanoseconds gap : {0, 1'000, 1'200, 1'400, 800, 9'000}) {
    recording.add(0, end - 50'000, end + gap, 100'000);
    end += gap + 100'000;
  }
  recording.derive();
  CHECK(recording.workload.timings.stream_gap == 1'100);

  Recording overlapping(1);
  end = 0;
  for (int i = 0; i < 4; ++i) {
    overlapping.add(0, end - 50'000, end - 2, 100'000);
    end += 99'998;
  }
  overlapping.derive();
  CHECK(overlapping.workload.timings.stream_gap == 0);
}

TEST_CASE("the stream gap does not jump where the median is near nothing", "[workload][INP-03]") {
  Nanoseconds gaps[2] = {};
  for (const Nanoseconds middle : {499, 501}) {
    Recording recording(1);
    Nanoseconds end = 0;
    for (const Nanoseconds gap :
         {Nanoseconds{0}, Nanoseconds{100}, Nanoseconds{100}, Nanoseconds{100}, Nanoseconds{100}, middle,
          Nanoseconds{3400}, Nanoseconds{3400}, Nanoseconds{3400}, Nanoseconds{3400}}) {
      recording.add(0, end - 50'000, end + gap, 100'000);
      end += gap + 100'000;
    }
    recording.derive();
    gaps[middle == 499 ? 0 : 1] = *recording.workload.timings.stream_gap;
  }
  CHECK(gaps[0] == 1611);  // the mean of all nine
  CHECK(gaps[1] == 1611);
}

TEST_CASE("an operation without launch call is pinned to its start", "[workload][INP-03]") {
  Recording recording(2);
  recording.add(0, kNoLaunch, 0, 50'000);
  const std::size_t late = recording.add(1, kNoLaunch, 50'500, 100);
  const DependencyCounts counts = recording.derive();
  CHECK(recording.op(late).not_before == 50'500);
  CHECK(recording.op(late).after.empty());
  CHECK(counts.pinned == 0);
}

TEST_CASE("what the GPU had when the recording began waits for other streams as well", "[workload][INP-02][INP-16]") {
  Recording recording(3);
  const std::size_t cause = recording.add(0, kNoLaunch, 0, 50'000);
  const std::size_t held =
      recording.add(1, kNoLaunch, 66'000, 100);  // 16 us behind it: signals between queues take time
  recording.add(1, 60'000, 67'000, 100);
  recording.add(0, kNoLaunch, 69'000, 20'000);
  const std::size_t later = recording.add(1, kNoLaunch, 100'000, 100);  // its stream has had a call: it was not there
  const DependencyCounts counts = recording.derive();
  REQUIRE(recording.op(held).after.size() == 1);
  CHECK(recording.op(held).after[0].from == cause);
  CHECK(recording.op(held).after[0].source == EdgeSource::inferred);
  CHECK(recording.op(held).not_before == 66'000);
  CHECK(recording.op(later).after.empty());
  CHECK(recording.op(later).not_before == 100'000);
  CHECK(counts.pinned == 0);
}

TEST_CASE("where most operations follow at once, gaps of the others count as well", "[workload][INP-03]") {
  Recording recording(1);
  Nanoseconds end = 0;
  for (const Nanoseconds gap : {1, 1, 3'400, 1, 1, 3'600, 1, 16'000}) {
    recording.add(0, end - 50'000, end + gap, 100'000);
    end += gap + 100'000;
  }
  recording.derive();
  CHECK(recording.workload.timings.stream_gap == 1'167);  // of six: the first has none, and the last has waited
}

TEST_CASE("a late start right after another stream's end is an inferred wait", "[workload][INP-02]") {
  Recording recording(3);
  recording.add(0, 0, 5'000, 95'000);
  const std::size_t cause = recording.add(1, 100, 5'000, 97'000);
  recording.add(2, 200, 5'000, 1'000);
  const std::size_t held = recording.add(2, 300, 103'000, 1'000);
  const std::size_t pinned = recording.add(2, 400, 160'000, 1'000);
  const std::size_t prompt = recording.add(2, 500, 161'500, 1'000);
  const DependencyCounts counts = recording.derive();
  REQUIRE(recording.op(held).after.size() == 1);
  CHECK(recording.op(held).after[0].from == cause);  // the last to end, not the first
  CHECK(recording.op(held).after[0].source == EdgeSource::inferred);
  CHECK_FALSE(recording.op(held).not_before.has_value());
  CHECK(recording.op(pinned).not_before == 160'000);
  CHECK(recording.op(pinned).after.empty());
  CHECK_FALSE(recording.op(prompt).not_before.has_value());
  CHECK(counts.inferred == 1);
  CHECK(counts.pinned == 1);
  REQUIRE(recording.workload.warnings.size() == 2);
  CHECK(recording.workload.warnings[0] ==
        "1 waits between streams are not recorded and were inferred from coinciding ends.");
}

TEST_CASE("no wait is inferred for what started first or with it", "[workload][INP-02]") {
  Recording recording(2);
  recording.add(0, 0, 5'000, 10);
  recording.add(0, 100, 200'000, 0);  // same start as the next, and its end coincides
  const std::size_t other = recording.add(1, 0, 200'000, 0);
  recording.derive();
  CHECK(recording.op(other).after.empty());
  CHECK(recording.op(other).not_before == 200'000);
}

TEST_CASE("a recorded wait explains a start", "[workload][INP-02]") {
  Recording recording(2);
  const std::size_t source = recording.add(0, 0, 5'000, 100'000);
  const std::size_t held = recording.add(1, 300, 106'000, 1'000);
  recording.waits.push_back({1, {200, 0}, 0, {100, 0}});
  recording.waits.push_back({1, {210, 0}, 0, {110, 0}});  // the same edge again
  recording.waits.push_back({0, {220, 0}, 0, {110, 0}});  // within a stream: nothing to add
  const DependencyCounts counts = recording.derive();
  REQUIRE(recording.op(held).after.size() == 1);
  CHECK(recording.op(held).after[0].from == source);
  CHECK(recording.op(held).after[0].source == EdgeSource::recorded);
  CHECK(counts.recorded == 1);
  CHECK(counts.inferred + counts.pinned == 0);
}

TEST_CASE("calls within one tick of the clock are ordered by their sequence", "[workload][INP-02]") {
  Recording recording(2, 1'000);
  recording.add(0, 1'000, 5'000, 10'000, 1);
  const std::size_t late = recording.add(0, 1'000, 16'000, 10'000, 3);  // launched after the record
  const std::size_t early = recording.add(1, 1'000, 18'000, 1'000, 4);  // launched before the wait
  const std::size_t held = recording.add(1, 1'000, 20'000, 1'000, 6);
  recording.waits.push_back({1, {1'000, 5}, 0, {1'000, 2}});
  recording.derive();
  CHECK(recording.op(early).after.empty());
  REQUIRE(recording.op(held).after.size() == 1);
  CHECK(recording.op(held).after[0].from == 0);
  CHECK(recording.op(late).after.empty());
}

TEST_CASE("what was launched before the window was in its stream before its successor", "[workload][INP-02][INP-03]") {
  Recording recording(2);
  recording.add(0, kNoLaunch, 0, 1'000);
  const std::size_t queued = recording.add(0, kNoLaunch, 50'000, 1'000);  // starts long after the record call
  recording.add(0, 30'000, 51'500, 9'000);
  const std::size_t held = recording.add(1, 33'000, 51'600, 1'000);
  recording.waits.push_back({1, {32'000, 0}, 0, {29'999, 0}});
  recording.waits.push_back({1, {32'000, 0}, 0, {31'000, 0}});
  const DependencyCounts counts = recording.derive();
  // The first record comes before the stream is known to hold anything but its first operation; the second comes after
  // the third operation, which ended after `held` started: the recording refutes itself.
  REQUIRE(recording.op(held).after.size() == 1);
  CHECK(recording.op(held).after[0].from == 0);
  CHECK(counts.contradicted == 1);
  CHECK(recording.op(queued).after.empty());
}

TEST_CASE("overlaps are marked beyond the resolution of the recorder", "[workload]") {
  Recording fine(2);
  fine.add(0, 0, 0, 1'000);
  fine.add(0, 0, 998, 1'000);     // 2 ns of rounding
  fine.add(1, 0, 1'995, 1'000);   // 3 ns of the one before
  fine.add(0, 0, 3'000, 10'000);  // both of the next lie in it
  fine.add(1, 0, 4'000, 100);
  fine.add(1, 0, 5'000, 100);
  fine.add(1, 0, 20'000, 100);
  fine.derive();
  const std::vector<bool> expected = {false, true, true, true, true, true, false};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(fine.op(i).recorded->overlaps == expected[i]);
  }
  Recording coarse(2, 1'000);
  coarse.add(0, 0, 0, 5'000);
  coarse.add(1, 0, 4'000, 5'000);
  coarse.derive();
  CHECK_FALSE(coarse.op(0).recorded->overlaps);
  CHECK_FALSE(coarse.op(1).recorded->overlaps);
}

TEST_CASE("overlaps equal those found pair by pair, and edges never lead backwards", "[workload][INP-02]") {
  const std::uint32_t seed = 7;
  std::cout << "random recordings: seed " << seed << "\n";
  heddle::test::Random random(seed);
  for (int round = 0; round < 300; ++round) {
    const Nanoseconds resolution = round % 2 == 0 ? 1 : 1'000;
    Recording recording(3, resolution);
    Nanoseconds start = 0;
    const Nanoseconds scale = round % 3 == 0 ? 40'000 : 3'000;
    for (std::size_t i = 0; i < 60; ++i) {
      start += static_cast<Nanoseconds>(random.below(static_cast<std::uint64_t>(scale)));
      const Nanoseconds launch =
          random.below(5) == 0 ? kNoLaunch : start - static_cast<Nanoseconds>(random.below(90'000));
      const std::size_t op = recording.add(random.below(3), launch, start, random.below(6'000), i + 1);
      if (random.below(4) == 0) recording.workload.ops[op].kind = OpKind::copy;
    }
    for (int i = 0; i < 40; ++i) {
      recording.waits.push_back({random.below(3),
                                 {static_cast<Nanoseconds>(random.below(100'000)), random.below(60)},
                                 random.below(3),
                                 {static_cast<Nanoseconds>(random.below(100'000)), random.below(60)}});
    }
    const DependencyCounts counts = recording.derive();
    std::size_t edges = 0;
    const auto& ops = recording.workload.ops;
    const Nanoseconds tolerance = std::max<Nanoseconds>(resolution, 2);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      edges += ops[i].after.size();
      for (const Edge& edge : ops[i].after) {
        CHECK(edge.from < i);
        CHECK(ops[edge.from].stream != ops[i].stream);
      }
      bool overlaps = false;
      for (std::size_t j = 0; j < ops.size(); ++j) {
        if (i == j || ops[i].kind != OpKind::kernel || ops[j].kind != OpKind::kernel) continue;
        const Recorded& a = *ops[i].recorded;
        const Recorded& b = *ops[j].recorded;
        overlaps |= std::min(a.start + a.duration, b.start + b.duration) - std::max(a.start, b.start) > tolerance;
      }
      CAPTURE(round, i);
      CHECK(ops[i].recorded->overlaps == overlaps);
    }
    CHECK(edges == counts.recorded + counts.inferred);
  }
}

}  // namespace import_dependencies_test
