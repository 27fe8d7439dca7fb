// Evictions at any time, of tasks of every kind: no CTA is lost or launched twice, and everything comes back.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd_bench.h"
#include "support/random_cluster.h"
#include "support/random_machine.h"

namespace cwd_evict_random_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::Resource;
using heddle::arch::ResourceVector;
using heddle::cwd::CwdParams;
using heddle::protocol::TaskKind;
using heddle::protocol::TaskPacket;

namespace {

const ResourceVector kCapacity{{64, 2048, 65'536, 233'472, 32, 512}};

TaskPacket random_task(Random& random, std::uint32_t operation) {
  TaskPacket task;
  task.operation = operation;
  task.priority = static_cast<std::int32_t>(random.below(4));
  const Grouping grouping = random_grouping(random, 6);
  task.grid = grouping.grid;
  task.cluster = grouping.cluster;
  task.need[Resource::ctas] = 1;
  task.need[Resource::warps] = 64 / random.between(1, 4);
  task.need[Resource::shared_bytes] = 1024 * random.below(200);
  task.local_bytes = random.chance(20) ? 64 : 0;
  if (!task.cluster.any() && random.chance(30)) {
    task.kind = TaskKind::queue;
  } else if (!task.cluster.any() && random.chance(30)) {
    task.kind = TaskKind::restore;
    task.runs_as = 1000 + operation % 3;
    task.local_bytes = 0;  // the bench knows it by operation
    task.area = 64 * (operation + 1);
    task.id.index = operation;
  }
  return task;
}

struct Scene {
  explicit Scene(std::uint64_t seed) : random(seed), draw(seed + 1'000'000) {
    const heddle::arch::Shape shape = random.shape(4);
    params = random_cwd_params(random, shape.sms());
    const auto gpcs = static_cast<std::uint32_t>(shape.gpcs.size());
    const std::vector<std::uint32_t> ugpus = random_ugpus(random, gpcs);
    random_cluster_params(random, params, gpcs);
    params.evicted_tasks = random.below(6);
    params.active_pool = random.below(4);
    params.pending_pool = random.below(4);
    quick_port = random.chance(50);
    if (quick_port) {
      params.port_bits = 0;
      params.cta_commits = 0;
      params.gpc_queue = 10'000;
      params.broadcast_width = 4096;
      params.central_raster = false;
    }
    mode = random.chance(20) ? TimingMode::lt : TimingMode::at;
    bench = std::make_unique<CwdBench>(shape, params, kCapacity, mode, random.chance(50) ? 0 : 1024, ugpus);
    longest = random.chance(50) ? 30 : 500;
    merge = random.chance(50);
    rarity = random.chance(30) ? random.between(10, 500) : 0;
    prepare_gpcs();
    bench->tasks.back = [this](std::uint32_t) { return Cycle{draw.chance(50) ? 0 : draw.below(2000)}; };
    const std::uint32_t count = random.between(1, 10);
    for (std::uint32_t operation = 0; operation < count; ++operation) add_task(operation);
    evictions = random.below(25);
    for (std::uint32_t i = 0; i < evictions; ++i) bench->tasks.evict(random.below(3000), random.below(count));
  }

  void prepare_gpcs() {
    bench->all_gpcs([this](auto& gpc) {
      gpc.duration = [this](std::uint32_t, std::uint64_t) { return Cycle{draw.below(longest)}; };
      gpc.flush = [this](std::uint32_t, std::uint64_t) { return Cycle{draw.below(longest)}; };
      gpc.faults = [this](std::uint32_t operation, std::uint64_t) {
        return rarity > 0 && operation < 1000 && draw.below(rarity) == 0;
      };
      gpc.merge = merge;
    });
  }
  void add_task(std::uint32_t operation) {
    TaskPacket& task = tasks[operation] = random_task(random, operation);
    const Cycle cycle = random.below(1500);
    bench->tasks.submit(cycle, task);
    ctas[operation] = task.grid.count();
    if (task.kind != TaskKind::queue) return;
    has_queues = true;  // one may be closed while it is out
    ctas[operation] = 0;
    Cycle later = 100'000;  // by then it has had its slot
    for (std::uint32_t i = random.below(6); i > 0; --i) {
      const std::uint64_t count = random.between(1, 20);
      later += random.below(300);
      bench->tasks.grow(later, {operation, count, i == 1});
      ctas[operation] += count;
    }
    if (ctas[operation] == 0) bench->tasks.grow(later, {operation, 0, true});
    if (random.chance(50)) {
      bench->tasks.evict(100'000 + random.below(1500), operation);
      ++evictions_of_queues;
    }
  }

  // Between its eviction and its return, nothing of a task leaves, but what was on its way already.
  void judge_pauses() const {
    if (!quick_port || mode == TimingMode::lt) return;
    for (const LoggedAnswer& answer : bench->log.evicted) {
      if (!answer.packet.evicted) continue;
      const Cycle from = answer.cycle - params.done_distance;
      Cycle until = ~Cycle{0};
      for (const LoggedTask& sent : bench->log.sent) {
        const bool comes_back = sent.packet.operation == answer.packet.operation && sent.packet.resumed;
        if (comes_back && sent.cycle >= answer.cycle) until = std::min(until, sent.cycle);
      }
      for (const LoggedLaunch& launch : bench->log.launches) {
        if (launch.packet.operation != answer.packet.operation) continue;
        const bool on_its_way = answer.packet.remainder && launch.packet.area == 0 &&
                                launch.position + launch.packet.num_ctas <= answer.packet.progress.next_cta;
        REQUIRE((launch.packet.departure <= from + 1 || launch.packet.departure >= until || on_its_way));
      }
    }
  }

  Random random;
  Random draw;
  CwdParams params;
  TimingMode mode = TimingMode::at;
  bool quick_port = false;
  bool merge = false;
  bool has_queues = false;
  Cycle longest = 0;
  std::uint32_t rarity = 0;
  std::uint32_t evictions = 0;
  std::uint32_t evictions_of_queues = 0;
  std::map<std::uint32_t, TaskPacket> tasks;
  std::map<std::uint32_t, std::uint64_t> ctas;
  std::unique_ptr<CwdBench> bench;
};

}  // namespace

TEST_CASE("evictions at any time lose nothing", "[cwd][task][TSK-03][TSK-04][TSK-05]") {
  double evictions = 0;
  double resumed = 0;
  std::uint32_t drained = 0;
  std::uint32_t refused = 0;
  double pool_waits = 0;
  std::uint32_t gone = 0;      // at once
  std::uint32_t numbered = 0;  // with CTAs that ran, or with a queue
  std::uint32_t later = 0;     // of those, that were gone in the end
  std::uint32_t in_vain = 0;   // that had been sent again before that was known
  for (const std::uint64_t seed : seeds(700)) {
    CAPTURE(seed);
    Scene scene(seed);
    CwdBench& bench = *scene.bench;
    run_until_idle();
    REQUIRE(bench.log.problems == std::vector<std::string>{});
    heddle::WaitGraph waits;
    bench.domain.collect_waits(waits);
    REQUIRE(waits.chain() == std::vector<std::string>{});
    REQUIRE(bench.log.done.size() == scene.tasks.size());
    REQUIRE(bench.cwd.quiescent());
    REQUIRE(bench.tasks.task_out.outstanding() == 0);
    REQUIRE(bench.stat("table_used.max") <= scene.params.table_slots);
    std::map<std::uint32_t, std::uint64_t> raster;
    std::uint32_t restored = 0;
    for (const LoggedLaunch& launch : bench.launches_in_order()) {
      const auto& packet = launch.packet;
      restored += packet.area != 0 ? 1 : 0;
      if (packet.area != 0) continue;
      REQUIRE(launch.position == raster[packet.operation]);
      raster[packet.operation] += packet.num_ctas;
      REQUIRE(packet.queue == (scene.tasks.at(packet.operation).kind == TaskKind::queue));
    }
    std::uint32_t remainders = 0;
    std::uint32_t out = 0;
    for (const LoggedAnswer& answer : bench.log.evicted) {
      out += answer.packet.evicted ? 1 : 0;
      remainders += answer.packet.remainder ? 1 : 0;
      refused += answer.packet.evicted ? 0 : 1;
    }
    drained += out - remainders;
    REQUIRE(bench.log.evicted.size() == scene.evictions + scene.evictions_of_queues);  // every one is answered
    REQUIRE(bench.stat("evictions") == out);
    bool any_fault = false;
    std::uint32_t to_restore = 0;
    for (const auto& [operation, task] : scene.tasks) {
      CAPTURE(operation);
      const auto& done = bench.log.done.at(operation);
      any_fault = any_fault || done.faulted;
      if (task.kind == TaskKind::restore) {
        ++to_restore;
        continue;
      }
      REQUIRE(done.faulted == (bench.log.faulted.count(operation) > 0));
      REQUIRE(raster[operation] <= scene.ctas.at(operation));
      if (!done.rejected && !done.faulted) REQUIRE(raster[operation] == scene.ctas.at(operation));
    }
    REQUIRE(restored == to_restore);
    REQUIRE(bench.stat("restored") == to_restore);
    for (const LoggedAnswer& answer : bench.log.evicted) {
      if (answer.packet.remainder) ++(answer.packet.gone ? gone : numbered);
    }
    later += static_cast<std::uint32_t>(bench.log.gone.size());
    in_vain += bench.log.in_vain;
    REQUIRE(bench.stat("resumed") <= remainders);
    if (!any_fault && !scene.has_queues) REQUIRE(bench.stat("resumed") == remainders);
    scene.judge_pauses();
    evictions += bench.stat("evictions");
    resumed += bench.stat("resumed");
    pool_waits += bench.waited("pool");
  }
  CHECK(evictions > 1500);
  CHECK(resumed > 1000);
  CHECK(drained > 50);
  CHECK(refused > 500);
  CHECK(pool_waits > 0);
  CHECK(gone > 100);
  CHECK(numbered > 100);
  CHECK(later > 100);
  CHECK(in_vain > 2);
}

}  // namespace cwd_evict_random_test
