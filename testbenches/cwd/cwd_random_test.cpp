// The distributor over its sockets, in any interleaving of launches, credits and completions.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd_bench.h"
#include "support/random_machine.h"

namespace cwd_random_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::kResources;
using heddle::arch::Resource;
using heddle::arch::ResourceVector;
using heddle::cwd::CwdParams;
using heddle::protocol::TaskPacket;
using heddle::test::CwdBench;
using heddle::test::LoggedLaunch;
using heddle::test::Random;
using heddle::test::random_cwd_params;

namespace {

const ResourceVector kCapacity{{64, 2048, 65'536, 233'472, 32, 512}};

TaskPacket random_task(Random& random, std::uint32_t operation) {
  TaskPacket task;
  task.operation = operation;
  task.priority = static_cast<std::int32_t>(random.below(3)) - 1;
  task.grid = {random.between(1, 12), random.between(1, 5), random.between(1, 3)};
  const std::uint32_t per_sm = random.between(1, 32);
  for (std::size_t i = 0; i < kResources; ++i) {
    task.need.amount[i] = random.chance(50) ? kCapacity.amount[i] / per_sm : random.below(kCapacity.amount[i] / per_sm);
  }
  task.need[Resource::ctas] = 1;
  return task;
}

// What must hold for the launch packets of a whole run, in order of departure.
void judge_packets(const CwdBench& bench, const std::map<std::uint32_t, TaskPacket>& tasks) {
  std::map<std::uint32_t, std::uint64_t> raster;             // by operation
  std::map<std::uint64_t, std::uint32_t> session_operation;  // by sequence
  std::uint64_t next_sequence = 0;                           // of the session that sends now
  for (const LoggedLaunch& launch : bench.log.launches) {
    const auto& packet = launch.packet;
    REQUIRE(packet.sm_mask != 0);
    REQUIRE(packet.num_ctas == static_cast<std::uint32_t>(__builtin_popcountll(packet.sm_mask)));
    REQUIRE(packet.virtual_gpc == bench.topology.virtual_gpc(launch.gpc));
    REQUIRE(launch.position == raster[packet.operation]);
    raster[packet.operation] += packet.num_ctas;
    // Sessions do not interleave: after a session's last mask comes the next session, and only then.
    REQUIRE(packet.sequence == next_sequence);
    if (packet.last) ++next_sequence;
    REQUIRE(session_operation.emplace(packet.sequence, packet.operation).first->second == packet.operation);
    const TaskPacket& task = tasks.at(packet.operation);
    REQUIRE(packet.shape.grid == task.grid);
    REQUIRE(packet.need == task.need);
  }
  REQUIRE(static_cast<double>(next_sequence) == bench.stat("sessions"));
  for (const auto& [operation, task] : tasks) REQUIRE(raster[operation] == task.grid.count());
}

}  // namespace

TEST_CASE("no CTA is lost or launched twice, whatever the interleaving", "[cwd][CWD-02][CWD-07][CWD-30][CWD-31]") {
  for (const std::uint64_t seed : heddle::test::seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    const heddle::arch::Shape shape = random.shape(5);
    const CwdParams params = random_cwd_params(random, shape.sms());
    const TimingMode mode = random.chance(20) ? TimingMode::lt : TimingMode::at;
    CwdBench bench(shape, params, kCapacity, mode, random.chance(50) ? 0 : 1024);
    const Cycle longest = random.chance(50) ? 20 : 400;
    const Cycle slowest_credit = random.chance(50) ? 1 : 200;
    const bool merge = random.chance(50);
    Random delays(seed + 1'000'000);
    bench.all_gpcs([&](auto& gpc) {
      gpc.duration = [&delays, longest](std::uint32_t, std::uint64_t) { return Cycle{delays.below(longest)}; };
      gpc.credit_delay = [&delays, slowest_credit] { return Cycle{delays.below(slowest_credit)}; };
      gpc.merge = merge;
    });
    std::map<std::uint32_t, TaskPacket> tasks;
    double ctas = 0;
    const std::uint32_t count = random.between(1, 15);
    for (std::uint32_t operation = 0; operation < count; ++operation) {
      tasks[operation] = random_task(random, operation);
      ctas += static_cast<double>(tasks[operation].grid.count());
      bench.tasks.submit(random.below(2000), tasks[operation]);
    }
    heddle::test::run_until_idle();

    REQUIRE(bench.log.problems == std::vector<std::string>{});
    judge_packets(bench, tasks);
    REQUIRE(bench.log.done.size() == tasks.size());
    REQUIRE(bench.cwd.quiescent());
    REQUIRE(bench.stat("ctas_launched") == ctas);
    REQUIRE(bench.stat("ctas_completed") == ctas);
    REQUIRE(bench.stat("launch_packets") == static_cast<double>(bench.log.launches.size()));
    REQUIRE(bench.stat("tasks") == static_cast<double>(tasks.size()));
    heddle::WaitGraph waits;
    bench.domain.collect_waits(waits);
    REQUIRE(waits.empty());
  }
}

TEST_CASE("a reset in mid-flight leaves a distributor as new", "[cwd][CWD-07]") {
  const auto feed = [](CwdBench& bench) {
    Random random(77);
    for (std::uint32_t operation = 0; operation < 10; ++operation) {
      bench.tasks.submit(bench.domain.now() + random.below(300), random_task(random, operation));
    }
  };
  const auto durations = [](CwdBench& bench) {
    bench.all_gpcs([](auto& gpc) {
      gpc.duration = [](std::uint32_t operation, std::uint64_t index) {
        return 10 + (operation * 7 + index * 13) % 90;
      };
      gpc.credit_delay = [] { return Cycle{9}; };
    });
  };
  for (const std::uint64_t seed : heddle::test::seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    const heddle::arch::Shape shape = random.shape(3);
    const CwdParams params = random_cwd_params(random, shape.sms());
    std::vector<LoggedLaunch> fresh;
    {
      CwdBench bench(shape, params, kCapacity);
      durations(bench);
      feed(bench);
      heddle::test::run_until_idle();
      fresh = bench.log.launches;
      REQUIRE(bench.log.done.size() == 10);
    }
    CwdBench bench(shape, params, kCapacity);
    durations(bench);
    Random before(seed + 5000);
    for (std::uint32_t operation = 0; operation < 8; ++operation) {
      bench.tasks.submit(before.below(200), random_task(before, operation));
    }
    sc_core::sc_start(sc_core::sc_time(before.between(1, 900), sc_core::SC_NS));
    bench.domain.reset();
    bench.observation.stats.clear();
    bench.log = {};
    REQUIRE(bench.cwd.quiescent());
    REQUIRE(bench.domain.idle());
    feed(bench);
    heddle::test::run_until_idle();
    REQUIRE(bench.log.problems == std::vector<std::string>{});
    REQUIRE(bench.log.done.size() == 10);
    REQUIRE(bench.cwd.quiescent());
    REQUIRE(bench.log.launches.size() == fresh.size());
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      const LoggedLaunch& a = fresh[i];
      const LoggedLaunch& b = bench.log.launches[i];
      REQUIRE((a.cycle == b.cycle && a.gpc == b.gpc && a.packet.slot == b.packet.slot));
      REQUIRE((a.packet.operation == b.packet.operation && a.packet.sm_mask == b.packet.sm_mask));
      REQUIRE((a.packet.sequence == b.packet.sequence && a.position == b.position));
    }
  }
}

}  // namespace cwd_random_test
