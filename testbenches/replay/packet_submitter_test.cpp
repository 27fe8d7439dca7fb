// Workloads that are submitted by packets to real machines: order, results, errors, full rings, shared queues.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "replay/replay_bench.h"
#include "support/sim_fixture.h"

namespace replay_packet_submitter_test {

using namespace heddle;
using namespace heddle::test;
using replay::OpResult;
using replay::Pace;
using replay::Part;
using replay::SimulationOptions;
using replay::SimulationResult;
using workload::CopyBy;
using workload::PacketFormat;
using workload::PacketOptions;
using workload::QueuePlace;
using workload::Workload;

namespace {

struct Run {
  PacketOptions packets;
  Pace pace = Pace::asap;
  gpu::GpuParams params = preset_params("small");
  SimulationOptions options;
};

SimulationResult run(const Workload& workload, const Run& how) {
  replay::Job job = job_of(workload, how.params);
  job.pace = how.pace;
  job.packets = how.packets;
  return replay::simulate({job}, how.options);
}

void check_run(const Workload& w, const SimulationResult& result) {
  check_order(w, result);
  for (const OpResult& r : result.jobs[0].results) CHECK_FALSE(r.faulted);
  CHECK(result.jobs[0].problems.empty());
}

}  // namespace

TEST_CASE("streams keep their order and edges hold, whatever carries the operations", "[replay][PKT-04]") {
  for (const std::uint64_t seed : seeds(8)) {
    Random random(seed);
    const Workload w = random_workload(random, 80);
    Run how;
    how.pace = random.chance(50) ? Pace::recorded : Pace::asap;
    how.packets.format = static_cast<PacketFormat>(random.below(3U));
    how.packets.queues = random.chance(50) ? QueuePlace::host : QueuePlace::device;
    how.packets.copies = random.chance(50) ? CopyBy::recorded : CopyBy::engines;
    how.packets.signals = random.chance(50) ? workload::SignalFor::each : workload::SignalFor::needed;
    how.params.packet.queues = random.between(2, 6);
    how.options.host.ring = random.chance(50) ? 4 : 64;
    CAPTURE(seed, static_cast<int>(how.packets.format), how.params.packet.queues, how.options.host.ring);
    const SimulationResult result = run(w, how);
    check_run(w, result);
    const auto kernels = static_cast<std::size_t>(std::count_if(
        w.ops.begin(), w.ops.end(), [](const workload::Op& op) { return op.kind == workload::OpKind::kernel; }));
    CHECK(result.jobs[0].launches.size() == kernels);
    for (const replay::PacketLaunch& launch : result.jobs[0].launches) {
      CHECK(std::is_sorted(launch.times.begin(), launch.times.end()));
    }
  }
}

TEST_CASE("a ring of two packets carries as many as a large one, more slowly", "[replay][PKT-01]") {
  Workload w = empty_workload(1);
  for (int i = 0; i < 40; ++i) w.ops.push_back(kernel_op(0, 2, 50));
  Run how;
  how.params.cwd.gpc_distance = how.params.gpc.gpm_to_cwd = 1;  // so that kernels are shorter than the host's way
  how.options.host.ring = 2;
  const SimulationResult narrow = run(w, how);
  check_run(w, narrow);
  how.options.host.ring = 256;
  const SimulationResult wide = run(w, how);
  check_run(w, wide);
  CHECK(narrow.jobs[0].results.back().end > wide.jobs[0].results.back().end);
}

TEST_CASE("the host is busy for every packet that it writes", "[replay][PKT-08]") {
  Workload w = empty_workload(1);
  for (int i = 0; i < 10; ++i) w.ops.push_back(kernel_op(0, 1, 10));
  Run how;
  how.options.host.enqueue = 20'000;
  how.options.host.doorbell = 1000;
  const SimulationResult result = run(w, how);
  check_run(w, result);
  const auto& launches = result.jobs[0].launches;
  REQUIRE(launches.size() == 10);
  for (std::size_t i = 1; i < 10; ++i) {
    CHECK(launches[i].times[0] - launches[i - 1].times[0] == Approx(21'000));
    CHECK(launches[i].part_ns(Part::enqueue) == Approx(20'000).margin(500));
  }
}

TEST_CASE("the host plans condensed packets before it writes the first of them", "[replay][PKT-08]") {
  Workload w = empty_workload(1);
  for (int i = 0; i < 40; ++i) w.ops.push_back(kernel_op(0, 1, 10));
  Run how;
  how.options.host.enqueue = 1000;
  how.options.host.plan = 5000;
  const std::array<std::uint32_t, 2> batches{10, 40};
  for (const std::uint32_t batch : batches) {
    how.packets.format = PacketFormat::condensed;
    how.packets.batch = batch;
    const SimulationResult result = run(w, how);
    check_run(w, result);
    std::set<std::uint64_t> packets;
    double planning = 0;
    for (const replay::PacketLaunch& launch : result.jobs[0].launches) {
      if (!packets.insert(launch.index).second) continue;
      planning += launch.part_ns(Part::enqueue) - 1000;
    }
    CHECK(packets.size() < 40);
    CHECK(planning == Approx(40 * 5000).margin(500.0 * static_cast<double>(packets.size())));
    CHECK(result.jobs[0].launches.front().part_ns(Part::enqueue) == Approx(1000 + 5000.0 * batch).margin(500));
  }
  // One packet for each kernel needs no plan.
  how.packets.format = PacketFormat::plain;
  const SimulationResult plain = run(w, how);
  check_run(w, plain);
  for (const replay::PacketLaunch& launch : plain.jobs[0].launches) {
    CHECK(launch.part_ns(Part::enqueue) == Approx(1000).margin(500));
  }
}

TEST_CASE("at the recorded pace only what has been called is condensed together", "[replay][PKT-06]") {
  Workload w = empty_workload(1);
  for (int i = 0; i < 12; ++i) {
    w.ops.push_back(kernel_op(0, 1, 10));
    w.ops.back().enqueue = 50'000 * (i / 4);
  }
  Run how;
  how.packets.format = PacketFormat::condensed;
  how.pace = Pace::recorded;
  const auto packets_of = [](const SimulationResult& result) {
    std::map<std::uint64_t, std::set<std::size_t>> packets;
    for (const replay::PacketLaunch& launch : result.jobs[0].launches) packets[launch.index].insert(launch.op / 4);
    return packets;
  };
  for (const auto& [index, calls] : packets_of(run(w, how))) CHECK(calls.size() == 1);
  how.pace = Pace::asap;
  const SimulationResult together = run(w, how);
  check_run(w, together);
  std::size_t most = 0;
  for (const auto& [index, calls] : packets_of(together)) most = std::max(most, calls.size());
  CHECK(most == 3);
}

TEST_CASE("what comes out of memory is the same by streams and by packets", "[replay]") {
  // Copies by engines do not touch the workload's own memory, and kernels without programs none.
  Workload w = empty_workload(2);
  workload::MemoryRegion region;
  region.name = "x";
  region.address = 1 << 20;
  region.bytes = 8192;
  region.contents.kind = workload::RegionContents::Kind::random;
  region.contents.seed = 5;
  w.memory = {region};
  w.ops = {copy_op(0, 100), kernel_op(1, 3, 40), copy_op(1, 100)};
  w.ops[0].direction = workload::CopyDirection::host_to_device;
  for (const CopyBy copies : {CopyBy::recorded, CopyBy::engines}) {
    replay::Job job = job_of(w, preset_params("small"));
    job.regions = {"x"};
    const auto streams = replay::simulate({job}, {}).jobs[0].regions;
    job.packets.emplace();
    job.packets->copies = copies;
    const SimulationResult packets = replay::simulate({job}, {});
    check_run(w, packets);
    CHECK(packets.jobs[0].regions == streams);
  }
}

TEST_CASE("copy engines take the time of the link, beside kernels", "[replay][HST-05][INP-11]") {
  Workload w = empty_workload(2);
  w.ops = {copy_op(0, 1), kernel_op(1, 16, 20'000)};
  w.ops[0].direction = workload::CopyDirection::host_to_device;
  w.ops[0].bytes = 256 << 10;
  Run how;
  const double held = run(w, how).jobs[0].results[0].end;
  how.packets.copies = CopyBy::engines;
  const SimulationResult moved = run(w, how);
  check_run(w, moved);
  const OpResult& copy = moved.jobs[0].results[0];
  CHECK(copy.end > held);
  CHECK(copy.end - copy.start > static_cast<double>(w.ops[0].bytes) / how.params.hub.link_bandwidth);
  // The kernel runs meanwhile.
  const OpResult& kernel = moved.jobs[0].results[1];
  CHECK(kernel.start < copy.end);
  CHECK(copy.start < kernel.end);
}

TEST_CASE("two GPUs share the host's memory, and do what they would do alone", "[replay]") {
  Random random(77);
  const Workload first = random_workload(random, 60);
  const Workload second = random_workload(random, 60);
  std::vector<replay::Job> jobs{job_of(first, preset_params("small"), "gpu0"),
                                job_of(second, preset_params("a100"), "gpu1")};
  for (replay::Job& job : jobs) job.packets.emplace();
  const SimulationResult both = replay::simulate(jobs, {});
  REQUIRE(both.progress);
  for (std::size_t i = 0; i < 2; ++i) {
    const SimulationResult alone = replay::simulate({jobs[i]}, {});
    REQUIRE(alone.progress);
    for (std::size_t op = 0; op < 60; ++op) {
      CAPTURE(i, op);
      CHECK(both.jobs[i].results[op].start == alone.jobs[0].results[op].start);
      CHECK(both.jobs[i].results[op].end == alone.jobs[0].results[op].end);
    }
  }
}

}  // namespace replay_packet_submitter_test
