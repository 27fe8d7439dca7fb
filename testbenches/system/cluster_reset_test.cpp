// A reset of the machine while clusters of every kind are placed, launched, at their barriers, in each other's shared
// memory, on their way out: what is submitted afterwards runs as on a machine that is new.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/cluster_lab.h"
#include "support/random.h"

namespace system_cluster_reset_test {

using namespace heddle::test;
using heddle::Cycle;
using heddle::arch::AtomicKind;
using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::ClusterShape;
using heddle::arch::dsmem_address;
using heddle::arch::kNoRegister;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;

namespace {

constexpr std::uint64_t kSums = 0x40000;  // one of each kernel
constexpr std::uint32_t kCtas = 24;       // of each kernel
constexpr std::uint32_t kWarps = 2;
constexpr std::uint32_t kRounds = 3;
// In the shared memory of each CTA.
constexpr std::uint32_t kBarrier = 0;
constexpr std::uint32_t kFarewells = 8;
constexpr std::uint32_t kWordsAt = 256;
constexpr std::uint32_t kWords = 32;
constexpr std::uint32_t kShared = kWordsAt + 4 * kWords;

ClusterShape nested(std::uint32_t gpu, std::uint32_t ugpu, std::uint32_t gpc, std::uint32_t cpc) {
  ClusterShape cluster;
  cluster.mode = CgaMode::load_balancing;
  if (gpu != 0) cluster.of(CgaLevel::gpu) = {gpu, 1, 1};
  if (ugpu != 0) cluster.of(CgaLevel::ugpu) = {ugpu, 1, 1};
  if (gpc != 0) cluster.of(CgaLevel::gpc) = {gpc, 1, 1};
  if (cpc != 0) cluster.of(CgaLevel::cpc) = {cpc, 1, 1};
  return cluster;
}

// Of every kind, and CTAs without a cluster.
std::vector<ClusterShape> shapes() {
  std::vector<ClusterShape> all{{},
                                clusters_of(4, CgaMode::multicast),
                                clusters_of(6, CgaMode::load_balancing),
                                nested(0, 0, 4, 2),
                                nested(8, 0, 4, 0),
                                nested(0, 4, 2, 0),
                                nested(8, 4, 2, 0),
                                nested(8, 0, 0, 0),
                                nested(0, 6, 0, 0),
                                clusters_of(8, CgaMode::multicast)};
  all.back().fallback[0] = {2, 1, 1};  // no GPC has as many SMs
  all[1].linear_memory = all[4].linear_memory = true;
  return all;
}

ListProgram::Address in_next_cta(std::uint32_t offset) {
  return [=](const Warp& warp, std::uint32_t) {
    return dsmem_address((warp.place.rank + 1) % warp.place.cluster_size, offset);
  };
}

// All CTAs add to the words of all. Those of rank 0 stay until what the others have left behind has come.
std::shared_ptr<ListProgram> traffic(std::uint64_t sum) {
  auto program = std::make_shared<ListProgram>(2);
  ListProgram& p = *program;
  const auto first_warp = [](const Warp& warp) { return warp.place.warp == 0; };
  only_if(p, first_warp, [](ListProgram& q) { q.mbarrier_init(kBarrier, kWarps); });
  cluster_barrier(p);
  const std::size_t round = p.loop(kRounds);
  p.atomic(access_to(Space::cluster, Order::relaxed), AtomicKind::add, ValueType::u32, kNoRegister,
           ListProgram::constant(1), [round](const Warp& warp, std::uint32_t lane) {
             const std::uint32_t draw = mixed(warp.global_thread(lane / 8 * 8), warp.count(round));
             return dsmem_address(draw % warp.place.cluster_size, kWordsAt + 4 * ((draw + lane) % kWords));
           });
  p.load(access_to(Space::cluster), 1, in_next_cta(kWordsAt));
  p.compute(Unit::fp32, 20, {{1, 1}});
  p.end_loop();
  p.mbarrier_arrive(Space::cluster, in_next_cta(kBarrier));
  p.mbarrier_wait(kBarrier, 0, {{}, Scope::cluster, {}});
  cluster_barrier(p);
  only_if(p, first_warp, [sum](ListProgram& q) {
    q.load(access_to(Space::shared), 0, ListProgram::linear(kWordsAt, 4));
    q.atomic(access_to(Space::global, Order::relaxed), AtomicKind::add, ValueType::u64, kNoRegister,
             ListProgram::of_register(0), ListProgram::constant(sum), {{0, 1}});
  });
  p.atomic(one_lane(Space::cluster, Order::relaxed), AtomicKind::add, ValueType::u32, kNoRegister,
           ListProgram::constant(1), ListProgram::constant(dsmem_address(0, kFarewells)));
  only_rank(p, 0, [](ListProgram& q) {
    const std::uint32_t again = q.here();
    q.load(access_to(Space::shared), 0, ListProgram::constant(kFarewells));
    q.branch(again, [](const Warp& warp) { return warp.reg(0, 0) < warp.place.cluster_size * kWarps; }, {{0, 1}});
  });
  p.exit();
  return program;
}

// As many additions, without a cluster.
std::shared_ptr<ListProgram> alone(std::uint64_t sum) {
  auto program = std::make_shared<ListProgram>(1);
  const std::size_t loop = program->loop(kRounds);
  (void)loop;
  program->compute(Unit::fp32, 60);
  program->atomic(access_to(Space::global, Order::relaxed), AtomicKind::add, ValueType::u64, kNoRegister,
                  ListProgram::constant(1), ListProgram::constant(sum));
  program->end_loop();
  program->exit();
  return program;
}

class ResetLab {
 public:
  explicit ResetLab(const std::vector<std::string>& sets) : lab_(preset_params("small", sets)) {}

  // A kernel of every kind, in an order that differs, all at once.
  void submit(Random& random) {
    sums_.clear();
    std::vector<ClusterShape> all = shapes();
    random.shuffle(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint64_t sum = kSums + 8 * kernels_++;
      const bool clustered = all[i].has(CgaLevel::gpc) || !all[i].any();
      const auto packet = lab_.packet(clustered ? traffic(sum) : alone(sum), {kCtas, 1, 1}, {32 * kWarps, 1, 1},
                                      kShared, static_cast<std::uint32_t>(i % 5), all[i]);
      lab_.host.submit_until_forgotten(lab_.host.now() + 1, packet);
      sums_.push_back(sum);
    }
  }
  // The host's actions keep the GPU from running ahead of the reset. False if there was nothing left to reset.
  bool reset_after(Cycle ns) {
    for (Cycle i = 1; i <= ns; ++i) lab_.host.at(lab_.host.now() + i, [] {});
    run_until(sc_core::sc_time_stamp() + sc_core::sc_time(static_cast<double>(ns), sc_core::SC_NS));
    const bool busy = lab_.gpu.open_operations() > 0;
    lab_.gpu.reset();
    lab_.host.forget();
    lab_.gpu.check_quiescent();
    return busy;
  }
  // What is submitted runs to its end. Returns how long it took, in ns.
  double finish() {
    const double begin = sc_core::sc_time_stamp().to_seconds();
    run_until_idle();
    lab_.gpu.check_quiescent();
    for (const heddle::arch::FaultRecord& fault : lab_.gpu.log().faults()) FAIL(text_of(fault));
    REQUIRE(lab_.host.problems.empty());
    REQUIRE(lab_.host.results.size() == sums_.size());
    for (const std::uint64_t sum : sums_)
      REQUIRE(lab_.read<std::uint64_t>(sum) == std::uint64_t{kCtas} * kWarps * kRounds * heddle::arch::kWarpLanes);
    double end = begin;
    for (const auto& [operation, done] : lab_.host.results) end = std::max(end, static_cast<double>(done.end) * 1e-12);
    return (end - begin) * 1e9;
  }

 private:
  SimFixture sim_;
  GpuLab lab_;
  std::uint64_t kernels_ = 0;
  std::vector<std::uint64_t> sums_;
};

// One machine, reset again and again, later and later; the sums of every second run are looked at.
void resets(const std::vector<std::string>& sets, std::uint32_t points, std::uint64_t seed) {
  CAPTURE(sets, seed);
  Random random(seed);
  std::vector<std::string> all{"gpu.ugpus=[1, 1]"};
  all.insert(all.end(), sets.begin(), sets.end());
  ResetLab lab(all);
  lab.submit(random);
  const double length = lab.finish();
  CAPTURE(length);
  std::uint32_t busy = 0;
  for (std::uint32_t i = 0; i < points; ++i) {
    const auto step = static_cast<std::uint64_t>(length / points);
    const Cycle ns = 1 + i * step + random.below(step);
    CAPTURE(ns);
    lab.submit(random);
    busy += lab.reset_after(ns) ? 1 : 0;
    lab.submit(random);
    if (random.chance(30)) {
      lab.reset_after(1 + random.below(static_cast<std::uint64_t>(length)));
      lab.submit(random);
    }
    lab.finish();
  }
  CHECK(busy >= points * 9 / 10);
}

}  // namespace

TEST_CASE("clusters run as on a new machine after a reset at any time", "[system][CWD-13][CGA-02][CGA-11][CGA-12]") {
  for (const char* permission : {"drained", "at_once"}) {
    const std::string exit = std::string("gpu.gpc.exit_permission=") + permission;
    resets({exit}, 60, seed());
    resets({exit, "gpu.timing=lt"}, 30, seed() + 1);
    // Long sessions, few ids, a crowded network.
    resets({exit, "gpu.cwd.query_distance=20", "gpu.gpc.cga_ids=3", "gpu.gpc.network={bandwidth: 4, queue: 1}"}, 60,
           seed() + 2);
  }
}

TEST_CASE("a reset while the distributor places clusters does not stay in its way", "[system][CWD-13]") {
  for (Cycle ns = 10; ns < 300; ns += 2) {
    CAPTURE(ns);
    Random random(ns);
    ResetLab lab({"gpu.ugpus=[1, 1]"});
    lab.submit(random);
    REQUIRE(lab.reset_after(ns));
    lab.submit(random);
    lab.finish();
  }
}

}  // namespace system_cluster_reset_test
