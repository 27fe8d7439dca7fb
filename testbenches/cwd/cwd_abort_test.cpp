// Tasks that a fault ends: the rest of them is not placed, and everything they took comes back.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd_bench.h"
#include "support/random_cluster.h"
#include "support/random_machine.h"

namespace cwd_abort_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::Resource;
using heddle::arch::ResourceVector;
using heddle::protocol::TaskPacket;

namespace {

const ResourceVector kCapacity{{64, 2048, 65'536, 233'472, 32, 512}};

TaskPacket random_task(Random& random, std::uint32_t operation) {
  TaskPacket task;
  task.operation = operation;
  const Grouping grouping = random_grouping(random, 12);
  task.grid = grouping.grid;
  task.cluster = grouping.cluster;
  task.need[Resource::ctas] = 1;
  task.need[Resource::warps] = 64 / random.between(1, 4);
  task.need[Resource::shared_bytes] = 1024 * random.below(200);
  task.local_bytes = random.chance(25) ? 64 : 0;
  return task;
}

std::map<std::uint32_t, std::uint64_t> launched(const CwdBench& bench) {
  std::map<std::uint32_t, std::uint64_t> ctas;
  for (const LoggedLaunch& launch : bench.log.launches) ctas[launch.packet.operation] += launch.packet.num_ctas;
  return ctas;
}

}  // namespace

TEST_CASE("a fault ends its task and leaves the others alone", "[cwd]") {
  heddle::cwd::CwdParams params;
  params.session_limit = 4;
  CwdBench bench(heddle::arch::Shape::from_sms_per_gpc({2, 2}), params, kCapacity);
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t, std::uint64_t) { return Cycle{500}; };
    gpc.faults = [](std::uint32_t operation, std::uint64_t cta) { return operation == 7 && cta == 2; };
  });
  ResourceVector whole{};
  whole[Resource::warps] = 64;
  bench.tasks.submit(0, CwdBench::task(7, 100, whole));
  bench.tasks.submit(1, CwdBench::task(8, 6, whole));
  run_until_idle();
  CHECK(bench.log.problems == std::vector<std::string>{});
  CHECK(launched(bench).at(7) >= 4);
  CHECK(launched(bench).at(7) <= 8);  // the wave in which the fault was, and what came free before it was heard of
  CHECK(launched(bench).at(8) == 6);
  CHECK(bench.log.done.at(7).faulted);
  CHECK_FALSE(bench.log.done.at(8).faulted);
  CHECK(bench.log.aborted.count({0, 7}) == 1);
  CHECK(bench.log.aborted.count({1, 7}) == 1);
  CHECK(bench.log.aborted.size() == 2);
  CHECK(bench.cwd.quiescent());
}

TEST_CASE("an error of a CGA whose CTA has gone ends the task, though no CTA completes with it", "[cwd][CGA-08]") {
  heddle::cwd::CwdParams params;
  params.session_limit = 4;
  CwdBench bench(heddle::arch::Shape::from_sms_per_gpc({2, 2}), params, kCapacity);
  bench.all_gpcs([](auto& gpc) {
    gpc.duration = [](std::uint32_t, std::uint64_t) { return Cycle{500}; };
    gpc.flush = [](std::uint32_t, std::uint64_t) { return Cycle{300}; };
    gpc.traps = [](std::uint32_t, std::uint64_t sequence) { return sequence == 1; };
  });
  ResourceVector whole{};
  whole[Resource::warps] = 64;
  whole[Resource::ctas] = 1;
  TaskPacket task = CwdBench::task(7, 100, whole);
  task.cluster.of(heddle::arch::CgaLevel::gpc) = {2, 1, 1};
  bench.tasks.submit(0, task);
  run_until_idle();
  CHECK(bench.log.problems == std::vector<std::string>{});
  CHECK(launched(bench).at(7) >= 4);
  CHECK(launched(bench).at(7) < 20);
  CHECK(bench.log.done.at(7).faulted);
  CHECK(bench.log.aborted.size() == 2);
  CHECK(bench.stat("ctas_completed") == static_cast<double>(launched(bench).at(7)));
  CHECK(bench.cwd.quiescent());
}

TEST_CASE("faults at any time leave nothing behind", "[cwd][CGA-08][CGA-09]") {
  std::uint32_t cut = 0;
  for (const std::uint64_t seed : seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    const heddle::arch::Shape shape = random.shape(4);
    heddle::cwd::CwdParams params = random_cwd_params(random, shape.sms());
    const auto gpcs = static_cast<std::uint32_t>(shape.gpcs.size());
    const std::vector<std::uint32_t> ugpus = random_ugpus(random, gpcs);
    random_cluster_params(random, params, gpcs);
    if (random.chance(30)) {
      params.partition = heddle::protocol::PartitionMode::dynamic;
      params.tpc_credits = random.between(1, 6);
    }
    params.session_limit = random.between(1, 64);
    CwdBench bench(shape, params, kCapacity, random.chance(20) ? TimingMode::lt : TimingMode::at, 0, ugpus);
    Random draw(seed + 1'000'000);
    const std::uint32_t longest = random.chance(50) ? 20 : 400;
    const std::uint32_t rarity = random.between(2, 200);
    const bool merge = random.chance(50);
    std::map<std::uint32_t, std::uint64_t> ctas;
    std::map<std::uint32_t, std::uint32_t> shared;
    bench.all_gpcs([&](auto& gpc) {
      gpc.duration = [&](std::uint32_t, std::uint64_t) { return Cycle{draw.below(longest)}; };
      gpc.flush = [&](std::uint32_t, std::uint64_t) { return Cycle{draw.below(longest)}; };
      gpc.faults = [&](std::uint32_t, std::uint64_t) { return draw.below(rarity) == 0; };
      gpc.traps = [&](std::uint32_t, std::uint64_t) { return draw.below(rarity) == 0; };
      gpc.releases = [&](std::uint32_t operation, std::uint64_t) { return draw.below(shared.at(operation) + 1); };
      gpc.merge = merge;
    });
    const std::uint32_t tasks = random.between(1, 8);
    for (std::uint32_t operation = 0; operation < tasks; ++operation) {
      const TaskPacket task = random_task(random, operation);
      ctas[operation] = task.grid.count();
      shared[operation] = task.need[Resource::shared_bytes];
      bench.tasks.submit(random.below(1000), task);
    }
    run_until_idle();
    REQUIRE(bench.log.problems == std::vector<std::string>{});
    REQUIRE(bench.log.done.size() == tasks);
    REQUIRE(bench.cwd.quiescent());
    const auto started = launched(bench);
    for (const auto& [operation, done] : bench.log.done) {
      CAPTURE(operation);
      const auto found = started.find(operation);
      const std::uint64_t count = found == started.end() ? 0 : found->second;
      REQUIRE(done.faulted == (bench.log.faulted.count(operation) > 0));
      REQUIRE(count <= ctas.at(operation));
      if (!done.faulted && !done.rejected) REQUIRE(count == ctas.at(operation));
      cut += count > 0 && count < ctas.at(operation) ? 1 : 0;
      for (std::uint32_t g = 0; g < gpcs; ++g)
        REQUIRE(bench.log.aborted.count({g, operation}) == (done.faulted ? 1 : 0));
    }
  }
  CHECK(cut > 100);
}

}  // namespace cwd_abort_test
