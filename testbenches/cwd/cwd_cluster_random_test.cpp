// The distributor with grids of every kind, in any interleaving of launches, completions, flushes and credits.
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/cwd_bench.h"
#include "support/random_cluster.h"
#include "support/random_machine.h"

namespace cwd_cluster_random_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::ClusterShape;
using heddle::arch::kResources;
using heddle::arch::Resource;
using heddle::arch::ResourceVector;
using heddle::arch::Topology;
using heddle::cwd::CwdParams;
using heddle::cwd::GpcCgaLimits;
using heddle::protocol::TaskPacket;

namespace {

const ResourceVector kCapacity{{64, 2048, 65'536, 233'472, 32, 512}};

TaskPacket random_task(Random& random, std::uint32_t operation) {
  TaskPacket task;
  task.operation = operation;
  task.priority = static_cast<std::int32_t>(random.below(3)) - 1;
  const Grouping grouping = random_grouping(random);
  task.grid = grouping.grid;
  task.cluster = grouping.cluster;
  const std::uint32_t per_sm = random.chance(50) ? random.between(1, 4) : random.between(1, 32);
  for (std::size_t i = 0; i < kResources; ++i) {
    task.need.amount[i] = random.chance(50) ? kCapacity.amount[i] / per_sm : random.below(kCapacity.amount[i] / per_sm);
  }
  task.need[Resource::ctas] = 1;
  task.local_bytes = random.chance(25) ? 64 : 0;
  task.subcontext = static_cast<std::uint8_t>(random.below(3));
  return task;
}

struct Scene {
  heddle::arch::Shape shape;
  std::vector<std::uint32_t> ugpus;
  CwdParams params;
  GpcCgaLimits limits;
  TimingMode mode = TimingMode::at;
  Cycle run_ahead = 0;
  std::map<std::uint32_t, TaskPacket> tasks;
  std::map<std::uint32_t, Cycle> submitted;
  std::vector<std::pair<Cycle, heddle::protocol::TpcEnablePacket>> controls;
  Cycle longest = 20;
  Cycle longest_flush = 1;
  Cycle slowest_credit = 1;
  bool merge = true;
};

Scene random_scene(std::uint64_t seed) {
  Random random(seed);
  Scene scene;
  scene.shape = random.shape(5);
  const auto gpcs = static_cast<std::uint32_t>(scene.shape.gpcs.size());
  scene.ugpus = random_ugpus(random, gpcs);
  scene.params = random_cwd_params(random, scene.shape.sms());
  random_cluster_params(random, scene.params, gpcs);
  if (random.chance(30)) {
    scene.params.partition = heddle::protocol::PartitionMode::dynamic;
    scene.params.tpc_credits = random.between(1, 6);
  }
  if (random.chance(30)) scene.params.local_memory_blocks = random.between(1, 6);
  if (random.chance(40)) {
    for (std::uint32_t g = 0; g < gpcs; ++g) scene.params.gpc_distances.push_back(random.below(80));
  }
  scene.limits = {random.chance(50) ? 32 : random.between(1, 4), random.chance(50) ? 32 : random.between(1, 4)};
  scene.mode = random.chance(20) ? TimingMode::lt : TimingMode::at;
  scene.run_ahead = random.chance(50) ? 0 : 1024;
  scene.longest = random.chance(50) ? 20 : 400;
  scene.longest_flush = random.chance(50) ? 1 : 300;
  scene.slowest_credit = random.chance(50) ? 1 : 200;
  scene.merge = random.chance(50);
  const std::uint32_t count = random.between(1, 12);
  for (std::uint32_t operation = 0; operation < count; ++operation) {
    scene.tasks[operation] = random_task(random, operation);
    scene.submitted[operation] = random.below(2000);
  }
  const Topology topology(scene.shape, scene.ugpus);
  for (std::uint32_t i = random.below(4); i > 0; --i) {
    const std::uint32_t gpc = random.below(gpcs);
    const std::uint32_t tpc = random.below(topology.gpc(gpc).tpcs.size());
    const Cycle from = random.below(1500);
    scene.controls.push_back({from, switched(gpc, tpc, false)});
    scene.controls.push_back({from + random.between(1, 2000), switched(gpc, tpc, true)});
  }
  return scene;
}

// The SMs of one outermost CGA, in launch order, with what was said about them.
struct Unit {
  std::uint32_t operation = 0;
  std::uint64_t raster = 0;
  std::vector<std::uint32_t> sms;
  std::vector<std::vector<std::uint32_t>> gpc_cgas;  // SMs of each
  bool ended = false;
};

void require_one_domain(const Topology& topology, CgaLevel level, const std::vector<std::uint32_t>& sms,
                        std::size_t begin, std::size_t count) {
  const auto domain = [&](std::uint32_t id) {
    const Topology::Sm& sm = topology.sm(id);
    const std::uint32_t gpc = level == CgaLevel::ugpu ? 0 : sm.gpc;
    return std::tuple(topology.ugpu_of(sm.gpc), gpc, level == CgaLevel::cpc ? sm.cpc : 0);
  };
  REQUIRE(begin + count <= sms.size());
  for (std::size_t i = begin; i < begin + count; ++i) REQUIRE(domain(sms[i]) == domain(sms[begin]));
}

// Every CGA of the level is within one domain of it.
void judge_domains(const Topology& topology, const TaskPacket& task, const Unit& unit) {
  const ClusterShape& cluster = task.cluster;
  for (const CgaLevel level : {CgaLevel::cpc, CgaLevel::gpc, CgaLevel::ugpu}) {
    if (!cluster.has(level)) continue;
    const std::size_t ctas = level == cluster.outermost() ? unit.sms.size() : cluster.of(level).count();
    REQUIRE(unit.sms.size() % ctas == 0);
    for (std::size_t begin = 0; begin < unit.sms.size(); begin += ctas) {
      require_one_domain(topology, level, unit.sms, begin, ctas);
    }
  }
  if (!cluster.has(CgaLevel::gpc)) {
    REQUIRE(unit.gpc_cgas.empty());
    return;
  }
  const std::size_t ctas = cluster.outermost() == CgaLevel::gpc ? unit.sms.size() : cluster.of(CgaLevel::gpc).count();
  REQUIRE(unit.gpc_cgas.size() == unit.sms.size() / ctas);
  for (const auto& sms : unit.gpc_cgas) {
    REQUIRE(sms.size() == ctas);
    const std::set<std::uint32_t> distinct(sms.begin(), sms.end());
    if (cluster.mode == CgaMode::multicast) REQUIRE(distinct.size() == sms.size());
  }
}

// What must hold for the launch packets of a whole run. Returns the CTAs.
double judge_packets(const CwdBench& bench, const Scene& scene) {
  std::map<std::uint32_t, std::uint64_t> raster;  // by operation
  std::map<std::uint64_t, Unit> units;            // by sequence
  std::uint64_t next_sequence = 0;
  double ctas = 0;
  for (const LoggedLaunch& launch : bench.launches_in_order()) {
    const auto& packet = launch.packet;
    const TaskPacket& task = scene.tasks.at(packet.operation);
    const std::vector<std::uint32_t> sms = bench.sms_of(launch);
    REQUIRE(packet.sm_mask != 0);
    REQUIRE(packet.num_ctas == sms.size());
    REQUIRE(launch.position == raster[packet.operation]);
    raster[packet.operation] += sms.size();
    ctas += static_cast<double>(sms.size());
    REQUIRE(packet.sequence == next_sequence);
    if (packet.last) ++next_sequence;
    REQUIRE(packet.shape.grid == task.grid);
    REQUIRE(packet.memory_slot.has_value() == task.cluster.linear_memory);
    REQUIRE(packet.id.has_value() == scene.params.central_raster);
    if (scene.params.central_raster) {
      REQUIRE(sms.size() == 1);
      REQUIRE(packet.id->index == heddle::arch::linear_of(packet.id->cta, task.grid));
    }
    std::uint32_t masks = 1;
    for (const std::uint64_t mask : packet.further_masks) masks += mask != 0 ? 1 : 0;
    REQUIRE(masks <= (packet.cga_ctas > 0 ? scene.params.masks_per_packet : 1));
    if (!task.cluster.any()) continue;
    Unit& unit = units[packet.sequence];
    if (unit.sms.empty()) {
      unit.operation = packet.operation;
      unit.raster = launch.position;
    }
    REQUIRE((unit.operation == packet.operation && !unit.ended));
    unit.ended = packet.last;
    REQUIRE((packet.cga_ctas > 0) == task.cluster.has(CgaLevel::gpc));
    if (packet.cga_first) unit.gpc_cgas.emplace_back();
    unit.sms.insert(unit.sms.end(), sms.begin(), sms.end());
    if (packet.cga_ctas == 0) continue;
    REQUIRE(!unit.gpc_cgas.empty());
    unit.gpc_cgas.back().insert(unit.gpc_cgas.back().end(), sms.begin(), sms.end());
    REQUIRE(unit.gpc_cgas.back().size() <= packet.cga_ctas);
  }
  std::map<std::uint32_t, std::map<std::uint64_t, std::set<std::size_t>>> sizes;  // of units, by full-size CGA
  for (const auto& [sequence, unit] : units) {
    CAPTURE(sequence, unit.operation);
    const TaskPacket& task = scene.tasks.at(unit.operation);
    REQUIRE(unit.ended);
    std::uint32_t known = 0;
    for (std::uint32_t size = 0; size < task.cluster.sizes(); ++size) {
      known += task.cluster.size(size).count() == unit.sms.size() ? 1 : 0;
    }
    REQUIRE(known > 0);
    judge_domains(bench.topology, task, unit);
    sizes[unit.operation][unit.raster / task.cluster.size(0).count()].insert(unit.sms.size());
  }
  // A CGA of full size starts whole or in parts of one size (CWD-21).
  for (const auto& [operation, cgas] : sizes) {
    for (const auto& [cga, different] : cgas) REQUIRE(different.size() == 1);
  }
  for (const auto& [operation, task] : scene.tasks) {
    REQUIRE(raster[operation] == (bench.log.done.at(operation).rejected ? 0 : task.grid.count()));
  }
  return ctas;
}

enum class Fits { yes, no, unclear };

// Whether the empty machine can hold a CGA of that many CTAs, where that is easy to tell.
Fits simply_fits(const Topology& topology, const Scene& scene, const TaskPacket& task) {
  const CwdParams& params = scene.params;
  const std::uint64_t per_sm = heddle::arch::free_slots(kCapacity, {}, task.need);
  if (!task.cluster.any()) return Fits::yes;
  if (params.tpc_credits > 0 || (task.local_memory() && params.local_memory_blocks > 0)) return Fits::unclear;
  const CgaLevel outer = task.cluster.outermost();
  if (task.cluster.has(CgaLevel::cpc) || (outer != CgaLevel::gpc && task.cluster.has(CgaLevel::gpc))) {
    return Fits::unclear;
  }
  if (task.cluster.has(CgaLevel::gpc) && task.cluster.of(CgaLevel::gpc).count() > params.max_gpc_cga) return Fits::no;
  if (outer == CgaLevel::gpc && task.cluster.mode == CgaMode::load_balancing && params.load_balancing == "tpc_pairs") {
    return Fits::unclear;
  }
  std::map<std::uint32_t, std::uint64_t> room;  // by domain
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    const std::uint32_t gpc = topology.sm(id).gpc;
    const std::uint32_t domain = outer == CgaLevel::gpc ? gpc : outer == CgaLevel::ugpu ? topology.ugpu_of(gpc) : 0;
    room[domain] += outer == CgaLevel::gpc && task.cluster.mode == CgaMode::multicast ? 1 : per_sm;
  }
  for (std::uint32_t size = 0; size < task.cluster.sizes(); ++size) {
    for (const auto& [domain, slots] : room) {
      if (slots >= task.cluster.size(size).count()) return Fits::yes;
    }
  }
  return Fits::no;
}

struct Totals {
  std::uint32_t rejected = 0;
  std::uint32_t tasks = 0;
  std::uint32_t split = 0;
  std::map<std::string, double> waits;
};

using Trace = std::vector<std::tuple<Cycle, std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t, std::uint64_t>>;

Trace run_scene(std::uint64_t seed, Totals* totals) {
  const Scene scene = random_scene(seed);
  CwdBench bench(scene.shape, scene.params, kCapacity, scene.mode, scene.run_ahead, scene.ugpus, scene.limits);
  Random delays(seed + 1'000'000);
  bench.all_gpcs([&](auto& gpc) {
    gpc.duration = [&](std::uint32_t, std::uint64_t) { return Cycle{delays.below(scene.longest)}; };
    gpc.flush = [&](std::uint32_t, std::uint64_t) { return Cycle{delays.below(scene.longest_flush)}; };
    gpc.credit_delay = [&] { return Cycle{delays.below(scene.slowest_credit)}; };
    gpc.merge = scene.merge;
  });
  for (const auto& [operation, task] : scene.tasks) {
    bench.tasks.submit(scene.submitted.at(operation), task);
  }
  for (const auto& [cycle, packet] : scene.controls) bench.tasks.control(cycle, packet);
  run_until_idle();
  Trace trace;
  for (const LoggedLaunch& launch : bench.log.launches) {
    trace.emplace_back(launch.cycle, launch.gpc, launch.packet.operation, launch.packet.sm_mask,
                       launch.packet.further_masks[0], launch.position);
  }
  if (totals == nullptr) return trace;

  REQUIRE(bench.log.problems == std::vector<std::string>{});
  heddle::WaitGraph waits;
  bench.domain.collect_waits(waits);
  INFO((waits.empty() ? std::string("nobody waits") : waits.chain().front()));
  REQUIRE(bench.log.done.size() == scene.tasks.size());
  REQUIRE(waits.empty());
  const double ctas = judge_packets(bench, scene);
  REQUIRE(bench.cwd.quiescent());
  for (const auto& [sequence, parts] : bench.log.open) REQUIRE(parts == 0);
  REQUIRE(bench.log.most_cgas <= std::min(scene.limits.ids, scene.limits.barriers));
  if (scene.params.tpc_credits > 0) REQUIRE(bench.log.most_tpcs <= scene.params.tpc_credits);
  REQUIRE(bench.stat("ctas_launched") == ctas);
  REQUIRE(bench.stat("ctas_completed") == ctas);
  REQUIRE(bench.stat("launch_packets") == static_cast<double>(bench.log.launches.size()));
  double rejected = 0;
  for (const auto& [operation, task] : scene.tasks) {
    CAPTURE(operation);
    const bool refused = bench.log.done.at(operation).rejected;
    const Fits fits = simply_fits(bench.topology, scene, task);
    if (fits != Fits::unclear) REQUIRE(refused == (fits == Fits::no));
    rejected += refused ? 1 : 0;
  }
  REQUIRE(bench.stat("rejected") == rejected);
  totals->rejected += static_cast<std::uint32_t>(rejected);
  totals->tasks += static_cast<std::uint32_t>(scene.tasks.size());
  for (const LoggedLaunch& launch : bench.log.launches) {
    const ClusterShape& cluster = scene.tasks.at(launch.packet.operation).cluster;
    const std::uint32_t levels = (cluster.has(CgaLevel::cpc) ? 1 : 0) + (cluster.has(CgaLevel::gpc) ? 1 : 0) +
                                 (cluster.has(CgaLevel::ugpu) ? 1 : 0) + (cluster.has(CgaLevel::gpu) ? 1 : 0);
    totals->split += launch.packet.shape.levels > levels ? 1 : 0;
  }
  for (const char* reason :
       {"free_slots", "cga_ids", "flush", "gpu_barrier", "memory_slot", "credits", "local_memory", "behind"}) {
    totals->waits[reason] += bench.waited(reason);
  }
  return trace;
}

}  // namespace

TEST_CASE("grids of every kind, whatever the interleaving",
          "[cwd][CWD-02][CWD-07][CWD-09][CWD-10][CWD-11][CWD-16][CWD-17][CWD-19][CWD-21][CWD-22][CWD-25][CWD-30]") {
  Totals totals;
  for (const std::uint64_t seed : seeds(600)) {
    CAPTURE(seed);
    run_scene(seed, &totals);
  }
  // The scenes are worth something: most tasks run, CGAs are split, and every reason for waiting has been seen.
  CHECK(totals.tasks > 3000);
  CHECK(totals.rejected > 100);
  CHECK(totals.rejected < totals.tasks / 2);
  CHECK(totals.split > 100);
  for (const auto& [reason, cycles] : totals.waits) {
    CAPTURE(reason);
    CHECK(cycles > 0);
  }
}

TEST_CASE("two runs of the same grids are the same", "[cwd]") {
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    const Trace first = run_scene(seed, nullptr);
    REQUIRE(run_scene(seed, nullptr) == first);
  }
}

}  // namespace cwd_cluster_random_test
