// Pairs of kernels that run at the same time, against every pair looked at by itself.
#include <algorithm>

#include <catch2/catch.hpp>

#include "replay/comparison.h"
#include "support/random.h"

namespace replay_overlap_pairs_test {

using namespace heddle;
using namespace heddle::test;
using replay::OpResult;
using replay::OverlapPairs;
using workload::Op;
using workload::OpKind;
using workload::Workload;

namespace {

struct Times {
  std::int64_t start, duration;
  double modelled_start, modelled_end;
};

struct Case {
  Workload workload;
  std::vector<OpResult> results;

  explicit Case(std::size_t streams) { workload.streams.resize(streams); }
  Op& add(std::size_t stream, const Times& times) {
    Op op;
    op.stream = stream;
    op.recorded = workload::Recorded{times.start, times.duration, -1.0, false};
    workload.ops.push_back(op);
    OpResult result;
    result.done = true;
    result.start = times.modelled_start;
    result.end = times.modelled_end;
    results.push_back(result);
    return workload.ops.back();
  }
  OverlapPairs pairs() const { return replay::overlap_pairs(workload, results); }
};

double shared(double a_begin, double a_end, double b_begin, double b_end) {
  return std::min(a_end, b_end) - std::max(a_begin, b_begin);
}

}  // namespace

TEST_CASE("pairs that overlap are counted in recording and model", "[replay][INP-04]") {
  Case c(3);
  c.add(0, {0, 100, 0, 100});
  c.add(1, {50, 100, 60, 160});   // with the first: 50 ns, in the model 40
  c.add(2, {90, 100, 160, 260});  // with both in the recording, with neither in the model
  OverlapPairs pairs = c.pairs();
  CHECK(pairs.recorded == 3);
  CHECK(pairs.modelled == 1);
  CHECK(pairs.both == 1);
  CHECK(pairs.recorded_ns == 50 + 10 + 60);
  CHECK(pairs.both_ns == 40);
  c.workload.timings.resolution = 20;  // the ten nanoseconds may be none
  pairs = c.pairs();
  CHECK(pairs.recorded == 2);
  CHECK(pairs.recorded_ns == 110);
  // Not kernels, of one stream, never done: no pairs.
  c.workload.ops[0].kind = OpKind::copy;
  c.workload.ops[2].stream = 1;
  CHECK(c.pairs().recorded == 0);
  c.workload.ops[2].stream = 2;
  c.results[2].done = false;
  CHECK(c.pairs().recorded == 0);
}

TEST_CASE("random pairs are those of an oracle that looks at every pair", "[replay][INP-04]") {
  for (const std::uint64_t number : seeds(500)) {
    CAPTURE(number);
    Random random(number);
    Case c(random.between(1, 5));
    c.workload.timings.resolution = random.chance(30) ? 20 : 1;
    const std::uint32_t count = random.between(0, 60);
    std::int64_t at = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      at += random.below(40);
      const std::int64_t duration = random.below(120);
      const double start = static_cast<double>(at) + random.below(50);
      Op& op = c.add(random.below(c.workload.streams.size()),
                     {at, duration, start, start + static_cast<double>(duration) + random.below(30)});
      if (random.chance(10)) op.kind = OpKind::copy;
    }
    OverlapPairs expected;
    const double tolerance = c.workload.timings.resolution == 20 ? 20 : 2;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Op& a = c.workload.ops[i];
        const Op& b = c.workload.ops[j];
        if (a.stream == b.stream || a.kind != OpKind::kernel || b.kind != OpKind::kernel) continue;
        const auto begin = [](const Op& op) { return static_cast<double>(op.recorded->start); };
        const auto end = [&begin](const Op& op) { return begin(op) + static_cast<double>(op.recorded->duration); };
        const double recorded = shared(begin(a), end(a), begin(b), end(b));
        const double modelled = shared(c.results[i].start, c.results[i].end, c.results[j].start, c.results[j].end);
        if (modelled > tolerance) ++expected.modelled;
        if (recorded <= tolerance) continue;
        ++expected.recorded;
        expected.recorded_ns += recorded;
        if (modelled > 0) ++expected.both;
        expected.both_ns += std::clamp(modelled, 0.0, recorded);
      }
    }
    const OverlapPairs pairs = c.pairs();
    REQUIRE(pairs.recorded == expected.recorded);
    REQUIRE(pairs.modelled == expected.modelled);
    REQUIRE(pairs.both == expected.both);
    REQUIRE(pairs.recorded_ns == expected.recorded_ns);
    REQUIRE(pairs.both_ns == expected.both_ns);
  }
}

}  // namespace replay_overlap_pairs_test
