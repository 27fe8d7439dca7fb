// What is said about a replay's quality, for workloads whose errors are known by construction.
#include "replay/comparison.h"

#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "replay/replay_bench.h"

namespace replay_comparison_test {

using namespace heddle;
using namespace heddle::test;
using replay::Comparison;
using replay::Match;
using replay::OpResult;
using workload::Workload;

namespace {

struct Case {
  Workload workload = empty_workload(2);
  std::vector<OpResult> results;
  std::vector<bool> launch_bound;

  // Recorded and modelled, from start to end.
  workload::Op& add(workload::Op op, workload::Nanoseconds from, workload::Nanoseconds to, double model_from,
                    double model_to) {
    op.recorded = workload::Recorded{from, to - from, -1.0, false};
    workload.ops.push_back(std::move(op));
    results.push_back({true, false, false, model_from, model_from, model_to});
    launch_bound.push_back(false);
    return workload.ops.back();
  }
  Comparison compare() const { return replay::compare(workload, results, preset_params("h100-sxm"), launch_bound); }
};

std::size_t count(const Comparison& c, Match match) { return c.counts[static_cast<std::size_t>(match)]; }
double time_of(const Comparison& c, Match match) { return c.time_ns[static_cast<std::size_t>(match)]; }

}  // namespace

TEST_CASE("errors, spans and sums of a replay, by hand", "[replay]") {
  Case k;
  k.add(copy_op(1, 500), 0, 500, 10, 510);            // counts for the span only
  k.add(kernel_op(0, 8, 1), 1000, 2000, 1000, 2000);  // exact
  k.add(kernel_op(0, 8, 1), 3000, 4000, 3000, 4040);  // 4 % long
  k.add(kernel_op(0, 8, 1), 5000, 7000, 5000, 6800);  // 10 % short
  k.add(kernel_op(0, 8, 1), 8000, 9000, 8100, 9300);  // 20 % long
  const Comparison c = k.compare();
  REQUIRE(c.kernels.size() == 4);
  CHECK(c.kernels[0].op == 1);
  CHECK(c.kernels[0].error == Approx(0).margin(1e-12));
  CHECK(c.kernels[1].error == Approx(0.04));
  CHECK(c.kernels[2].error == Approx(-0.10));
  CHECK(c.kernels[3].error == Approx(0.20));
  CHECK(c.span_recorded_ns == 9000);
  CHECK(c.span_modelled_ns == 9290);
  CHECK(c.kernel_time_recorded_ns == 5000);
  CHECK(c.kernel_time_modelled_ns == 5040);
  CHECK(c.alone == 4);
  CHECK(c.within_5 == 2);
  CHECK(c.error_p50 == Approx(0.04));
  CHECK(c.error_p95 == Approx(0.20));
  CHECK(c.error_max == Approx(0.20));
  CHECK(count(c, Match::ok) == 2);
  CHECK(count(c, Match::other) == 2);
  CHECK(time_of(c, Match::ok) == 2000);
  CHECK(time_of(c, Match::other) == 3000);
  CHECK(c.overlap_recorded_ns == 0);
  CHECK(c.overlap_modelled_ns == 0);
}

TEST_CASE("a kernel that does not match gets the first reason that applies", "[replay]") {
  Case k;
  k.workload.timings.resolution = 1000;
  k.add(kernel_op(0, 8, 1), 0, 100'000, 0, 120'000).recorded->overlaps = true;
  k.launch_bound[0] = true;                                       // overlaps comes first
  k.add(kernel_op(0, 8, 1), 200'000, 201'000, 200'000, 201'500);  // launch bound before resolution
  k.launch_bound[1] = true;
  k.add(kernel_op(0, 8, 1), 300'000, 303'000, 300'000, 303'900);  // 30 %, 900 ns: within the resolution
  k.add(kernel_op(0, 8, 1), 400'000, 403'000, 400'000, 404'100);  // 1,100 ns: beyond it
  k.workload.ops.back().grid_assumed = true;
  k.add(kernel_op(0, 8, 1), 500'000, 503'000, 500'000, 505'000);                            // no excuse
  k.add(kernel_op(0, 8, 1), 600'000, 700'000, 600'000, 699'000).recorded->overlaps = true;  // matches all the same
  const Comparison c = k.compare();
  const std::vector<Match> expected = {Match::overlaps,     Match::launch_bound, Match::resolution,
                                       Match::grid_assumed, Match::other,        Match::ok};
  REQUIRE(c.kernels.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(replay::match_name(c.kernels[i].match) == std::string(replay::match_name(expected[i])));
    CHECK(count(c, expected[i]) == 1);
  }
  CHECK(c.alone == 4);
  CHECK(c.coarse == 4);  // 1 us of 1 us and of 3 us is more than 5 %, of 100 us it is not
  CHECK(c.error_max == Approx(2.0 / 3));
}

TEST_CASE("overlap time is that of two kernels or more, counted once", "[replay]") {
  Case k;
  // Recorded: [0,100) [50,200) [60,80) [200,300): 50 … 100 is covered by two or more. The copy does not count.
  // Modelled: [0,100) [100,200) [100,150) [140,160): 100 … 160.
  k.add(kernel_op(0, 8, 1), 0, 100, 0, 100);
  k.add(kernel_op(1, 8, 1), 50, 200, 100, 200);
  k.add(kernel_op(1, 8, 1), 60, 80, 100, 150);
  k.add(kernel_op(0, 8, 1), 200, 300, 140, 160);
  k.add(copy_op(0, 1000), 0, 1000, 0, 1000);
  const Comparison c = k.compare();
  CHECK(c.overlap_recorded_ns == 50);
  CHECK(c.overlap_modelled_ns == 60);
}

TEST_CASE("occupancy is compared where the recording has it and the grid is known", "[replay][INP-08]") {
  Case k;
  // 132 CTAs of 256 threads on 132 SMs: 8 of 64 warps. 2,640 CTAs: full.
  k.add(kernel_op(0, 132, 1, 256), 0, 100, 0, 100).recorded->occupancy_percent = 12.5;
  k.add(kernel_op(0, 2640, 1, 256), 100, 200, 100, 200).recorded->occupancy_percent = 99.2;  // within a point
  k.add(kernel_op(0, 132, 1, 256), 200, 300, 200, 300).recorded->occupancy_percent = 14;     // not
  k.add(kernel_op(0, 132, 1, 256), 300, 400, 300, 400);                                      // not recorded
  k.add(kernel_op(0, 132, 1, 256), 400, 500, 400, 500).recorded->occupancy_percent = 77;
  k.workload.ops.back().grid_assumed = true;
  // 128 registers x 256 threads: two CTAs per SM, 16 of 64 warps.
  workload::Op& registers = k.add(kernel_op(0, 10'000, 1, 256), 500, 600, 500, 600);
  registers.kernel.registers_per_thread = 128;
  registers.recorded->occupancy_percent = 25;
  // 40 KiB + 1 KiB of 228 KiB: five CTAs of 4 warps.
  workload::Op& shared = k.add(kernel_op(0, 10'000, 1, 128), 600, 700, 600, 700);
  shared.kernel.shared_bytes = 40 * 1024;
  shared.recorded->occupancy_percent = 31.25;
  const Comparison c = k.compare();
  CHECK(c.occupancy_compared == 5);
  CHECK(c.occupancy_mismatches == 1);
}

TEST_CASE("edges and pinned operations are counted, and what is not done does not stretch the span",
          "[replay][INP-02][INP-03]") {
  Case k;
  k.add(kernel_op(0, 8, 1), 0, 100, 0, 100);
  k.add(kernel_op(1, 8, 1), 100, 200, 100, 200).after = {{0, workload::EdgeSource::recorded}};
  k.add(kernel_op(0, 8, 1), 300, 400, 300, 400).after = {{0, workload::EdgeSource::inferred},
                                                         {1, workload::EdgeSource::inferred}};
  k.workload.ops[1].not_before = 100;  // has a call: pinned
  k.workload.ops[2].not_before = 300;  // has none: its enqueue time is its start, nothing is odd about it
  k.workload.ops[2].enqueue.reset();
  k.add(kernel_op(0, 8, 1), 400, 500, 900, 1000);
  k.results[3].done = false;
  const Comparison c = k.compare();
  CHECK(c.edges_recorded == 1);
  CHECK(c.edges_inferred == 2);
  CHECK(c.pinned == 1);
  CHECK(c.span_modelled_ns == 400);
}

TEST_CASE("a workload without kernels or recording compares to nothing", "[replay]") {
  Case k;
  Comparison c = k.compare();
  CHECK(c.kernels.empty());
  CHECK(c.span_recorded_ns == 0);
  k.workload.ops = {kernel_op(0, 8, 1)};
  k.results = {{true, false, false, 0, 0, 50}};
  k.launch_bound = {false};
  c = k.compare();
  CHECK(c.kernels.empty());
  CHECK(c.span_modelled_ns == 50);
  CHECK(c.error_p95 == 0);
  Case zero;
  zero.add(kernel_op(0, 8, 1), 10, 10, 10, 400);  // a recorder's clock can be that coarse
  CHECK(zero.compare().kernels[0].error == 0);
}

TEST_CASE("the error of a signature's prediction is that of launches it was not fitted to", "[replay]") {
  const gpu::GpuParams params = preset_params("h100-sxm");
  const Clock clock(params.machine.clock);
  Case k;
  workload::Nanoseconds at = 0;
  const auto launch = [&](const char* name, std::uint32_t ctas, workload::Nanoseconds duration) {
    k.add(kernel_op(0, ctas, 1), at, at + duration, 0, 1).kernel.name = name;
    at += duration + 1000;
  };
  // Fitted to 10 us (launches 1, 3, 5: 10, 10, 40, median 10); predicted: 8, 10, 16 us.
  for (const workload::Nanoseconds us : {10, 8, 10, 10, 40, 16}) launch("a", 16, us * 1000);
  launch("a", 17, 500'000);  // another grid: another signature, of one launch
  launch("b", 16, 900'000);  // another name
  k.add(copy_op(1, 100), 0, 100, 0, 100);
  const replay::SignatureFit fit = replay::fit_signatures(k.workload, params);
  CHECK(fit.signatures == 1);
  CHECK(fit.launches == 3);
  const double cycle = clock.ns_for_cycles(1);
  CHECK(fit.error_p50 == Approx(0.25).margin(cycle / 8000));   // 10 / 8 - 1
  CHECK(fit.error_p95 == Approx(0.375).margin(cycle / 8000));  // 1 - 10 / 16
  CHECK(fit.time_error == Approx(30.0 / 34 - 1).margin(cycle / 8000));
  // Other registers or shared memory leave the signature what it is: name, grid and block.
  k.workload.ops[1].kernel.registers_per_thread = 64;
  CHECK(replay::fit_signatures(k.workload, params).launches == 3);
  // Another block does not.
  k.workload.ops[1].kernel.block = {64, 1, 1};
  CHECK(replay::fit_signatures(k.workload, params).launches == 2);
}

TEST_CASE("several GPUs are summed up by their kernels and their longest span", "[replay][INP-06]") {
  Case first, second;
  first.add(kernel_op(0, 8, 1), 0, 1000, 0, 1000);
  first.add(kernel_op(0, 8, 1), 1000, 2000, 1000, 2100);
  second.add(kernel_op(0, 132, 1, 256), 0, 5000, 0, 5050).recorded->occupancy_percent = 50;
  const Comparison a = first.compare();
  const Comparison b = second.compare();
  const Comparison c = replay::combine({a, b});
  CHECK(c.kernels.size() == 3);
  CHECK(c.span_recorded_ns == 5000);
  CHECK(c.span_modelled_ns == 5050);
  CHECK(c.alone == 3);
  CHECK(c.within_5 == 2);
  CHECK(c.error_p50 == Approx(0.01));
  CHECK(c.error_max == Approx(0.1));
  CHECK(c.kernel_time_recorded_ns == 7000);
  CHECK(c.occupancy_compared == 1);
  CHECK(c.occupancy_mismatches == 1);
  CHECK(c.signature.launches == 1);
  CHECK(c.signature.error_p50 == a.signature.error_p50);
}

TEST_CASE("the comparison's statistics have the names and units that others read", "[replay]") {
  Case k;
  k.add(kernel_op(0, 8, 1), 0, 1000, 0, 1100);
  k.add(kernel_op(0, 8, 1), 2000, 4000, 2000, 4000);
  Stats stats;
  replay::publish(k.compare(), "replay", stats);
  const nlohmann::json json = stats.to_json();
  const auto value = [&](const char* path) { return json.at(path).at("value").get<double>(); };
  CHECK(value("replay.kernels") == 2);
  CHECK(value("replay.span.recorded") == Approx(4.0));
  CHECK(json.at("replay.span.recorded").at("unit") == "us");
  CHECK(value("replay.span.modelled") == Approx(4.0));
  CHECK(value("replay.span.error") == Approx(0).margin(1e-9));
  CHECK(value("replay.kernel_duration_error.p95") == Approx(10));
  CHECK(json.at("replay.kernel_duration_error.p95").at("unit") == "%");
  CHECK(value("replay.kernels_alone") == 2);
  CHECK(value("replay.kernels_within_5_percent") == 1);
  CHECK(value("replay.occupancy.mismatches") == 0);
  CHECK(value("replay.match.ok") == 1);
  CHECK(value("replay.match.launch_bound") == 0);
  for (const auto& [path, entry] : json.items()) {
    CAPTURE(path);
    CHECK_FALSE(entry.at("unit").get<std::string>().empty());
    CHECK_FALSE(entry.at("description").get<std::string>().empty());
  }
}

}  // namespace replay_comparison_test
