// Asynchronous transaction barriers in the SM: local and remote operations, waits, and what is wrong with them.
#include <algorithm>
#include <cstdint>
#include <string>

#include <catch2/catch.hpp>

#include "sm/cluster_bench.h"

namespace sm_mbarrier_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::dsmem_address;
using heddle::arch::FaultKind;
using heddle::arch::OpCode;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Space;
using heddle::arch::SpecialRegister;
using heddle::arch::Unit;
using heddle::sm::SmParams;
using heddle::test::ClusterBench;
using heddle::test::ListProgram;
using heddle::test::only_if;
using heddle::test::own_shared;
using heddle::test::Sync;
using heddle::test::Warp;

namespace {

using Access = ListProgram::Access;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kBar = 64;

Access one_lane(Space space = Space::global) {
  Access access;
  access.space = space;
  access.lanes = ListProgram::only(0);
  return access;
}

// A CTA without a CGA.
void launch_alone(ClusterBench& bench, const ListProgram& program, std::uint32_t threads, std::uint32_t shared = 256) {
  auto packet = bench.packet(bench.add(program, threads, shared, 1), 0, 0);
  packet.tag.cga_id = std::nullopt;
  bench.gpc.start(0, 0, packet);
}

// The one fault of a CTA of one warp with that program.
template <class Add>
heddle::arch::FaultRecord fault_of(Add add) {
  ClusterBench bench(1);
  ListProgram p(4);
  add(p);
  p.exit();
  launch_alone(bench, p, 32);
  bench.run_to_end();
  REQUIRE(bench.faults.size() == 1);
  REQUIRE(bench.gpc.exits.size() == 1);
  CHECK(bench.gpc.exits[0].packet.faulted);
  return bench.faults[0];
}

}  // namespace

TEST_CASE("warps hand data over through mbarriers", "[sm][CGA-14]") {
  // Warp 0 fills a buffer; the others read it; both sides have a barrier. Twenty phases of it.
  constexpr std::uint32_t kPhases = 20;
  constexpr std::uint32_t kFull = 64;
  constexpr std::uint32_t kEmpty = 72;
  for (const TimingMode mode : kModes) {
    ClusterBench bench(1, {}, mode);
    ListProgram p(8);
    p.mbarrier_init(kFull, 32, {});
    p.mbarrier_init(kEmpty, 96, {});
    p.barrier();
    const auto all = ListProgram::all();
    for (std::uint32_t phase = 0; phase < kPhases; ++phase) {
      // Writer: what was read before it overwrites.
      only_if(p, 3, [](const Warp& w) { return w.place.warp == 0; });
      if (phase == 0) {
        p.compute(Unit::fp32, 1, {}, {});
      } else {
        p.mbarrier_wait(kEmpty, (phase - 1) % 2, {{}, {}, all});
      }
      p.store(
          own_shared(), [=](const Warp&, std::uint32_t lane) { return 1000 * phase + lane; },
          ListProgram::linear(128, 4));
      p.mbarrier_arrive(Space::shared, kFull, 1, 0, {{}, {}, all});
      only_if(p, 4, [](const Warp& w) { return w.place.warp != 0; });
      p.mbarrier_wait(kFull, phase % 2, {{}, {}, all});
      p.load(own_shared(), 1, ListProgram::linear(128, 4));
      p.set(2, [](const Warp& w, std::uint32_t lane) { return w.reg(2, lane) + w.reg(1, lane); }, {{1, 1}, {2, 1}});
      p.mbarrier_arrive(Space::shared, kEmpty, 1, 0, {{}, {}, all});
    }
    p.store_registers({}, 2, [](const Warp& w, std::uint32_t lane) { return 256 * w.place.warp + 4 * lane; });
    p.exit();
    launch_alone(bench, p, 128);
    bench.run_to_end();
    REQUIRE(bench.faults.empty());
    for (std::uint32_t warp = 1; warp < 4; ++warp) {
      for (std::uint32_t lane = 0; lane < 32; ++lane) {
        const std::uint32_t sum = 1000 * (kPhases * (kPhases - 1) / 2) + kPhases * lane;
        REQUIRE(bench.l2[0]->get<std::uint32_t>(256 * warp + 4 * lane) == sum);
      }
    }
    if (mode != TimingMode::lt) CHECK(bench.stat(0, "stall.mbarrier") > 0);
  }
}

TEST_CASE("a waiter goes on a shared latency behind what completes its phase", "[sm][CGA-14]") {
  // By the CTA's own address, by its address in the cluster, and from another SM; an arrival is an atomic, which takes
  // its time wherever it comes from.
  enum class From { own, cluster, remote };
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t latency : {0U, 1U, 7U, 180U}) {
      for (const From from : {From::own, From::cluster, From::remote}) {
        CAPTURE(mode != TimingMode::lt, latency, static_cast<int>(from));
        SmParams params;
        params.memory.mbarrier_latency = latency;
        ClusterBench bench(2, params, mode);
        const bool remote = from == From::remote;
        ListProgram p(8);
        p.mbarrier_init(kBar, 1);
        p.cluster_arrive().cluster_wait();
        // Rank 0, warp 0 waits; warp 1 of it, or of the other CTA, arrives much later.
        only_if(p, 4, [](const Warp& w) { return w.place.rank == 0 && w.place.warp == 0; });
        p.mbarrier_wait(kBar, 0);
        p.special(SpecialRegister::clock, 1);
        p.store_registers(one_lane(), 1, ListProgram::constant(0));
        p.exit();
        only_if(p, 4, [=](const Warp& w) { return w.place.rank == (remote ? 1U : 0U) && w.place.warp == 1; });
        p.compute(Unit::fp32, 5000, {}, {});
        p.special(SpecialRegister::clock, 1);
        const bool own = from == From::own;
        p.mbarrier_arrive(own ? Space::shared : Space::cluster, own ? kBar : dsmem_address(0, kBar), 1, 0,
                          Sync{Order::relaxed, {}, {}});
        p.store_registers(one_lane(), 1, ListProgram::constant(128));
        p.cluster_arrive(Order::relaxed).cluster_wait();
        p.exit();
        bench.launch(bench.add(p, 64, 256, 2), {0, 1});
        bench.run_to_end();
        REQUIRE(bench.faults.empty());
        const auto went = bench.l2[0]->get<std::uint32_t>(0);
        const auto arrived = bench.l2[remote ? 1 : 0]->get<std::uint32_t>(128) + 1;
        // In lt, packets cost no time on networks.
        const Cycle network = bench.domain.cost(static_cast<std::uint32_t>(bench.network.latency));
        const Cycle way = remote ? params.memory.cluster_latency + network : 0;
        CHECK(went == arrived + way + params.memory.shared_latency + latency);
      }
    }
  }
}

TEST_CASE("a phase that is complete is seen when its last arrival is done", "[sm][CGA-14]") {
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t latency : {0U, 1U, 7U, 60U, 180U}) {
      for (const std::uint32_t between : {1U, 6U, 7U, 8U, 57U, 60U, 170U, 177U, 180U, 183U, 400U}) {
        CAPTURE(mode != TimingMode::lt, latency, between);
        SmParams params;
        params.memory.mbarrier_latency = latency;
        ClusterBench bench(1, params, mode);
        ListProgram p(8);
        p.mbarrier_init(kBar, 1);
        p.compute(Unit::fp32, 1000, {}, {});
        p.special(SpecialRegister::clock, 1);
        p.mbarrier_arrive(Space::shared, kBar);
        p.compute(Unit::fp32, between, {}, {});
        p.special(SpecialRegister::clock, 2);
        p.mbarrier_test(kBar, 0, 3);
        p.mbarrier_wait(kBar, 0);
        p.special(SpecialRegister::clock, 4);
        for (std::uint16_t reg = 1; reg <= 4; ++reg) {
          p.store_registers(one_lane(), reg, ListProgram::constant(128 * (reg - 1U)));
        }
        p.exit();
        launch_alone(bench, p, 32);
        bench.run_to_end();
        REQUIRE(bench.faults.empty());
        const auto read = [&](std::uint32_t reg) { return bench.l2[0]->get<std::uint32_t>(128 * (reg - 1)); };
        // Operations issue a cycle behind the clock that is read before them.
        const std::uint32_t arrived = read(1) + 1;
        const std::uint32_t tested = read(2) + 1;
        CHECK(read(3) == (tested >= arrived + latency ? 1U : 0U));
        const std::uint32_t seen = std::max(tested + 1, arrived + latency) + params.memory.shared_latency;
        CHECK(read(4) == seen);
      }
    }
  }
}

TEST_CASE("arrivals give the parity of their phase", "[sm][CGA-14]") {
  for (const TimingMode mode : kModes) {
    ClusterBench bench(1, {}, mode);
    ListProgram p(8);
    p.mbarrier_init(kBar, 8);
    // 32 arrivals in one instruction: four phases.
    p.mbarrier_arrive(Space::shared, kBar, 1, 0, {{}, {}, ListProgram::all()}, 1);
    p.store_registers({}, 1, ListProgram::linear(0, 4));
    p.mbarrier_test(kBar, [](const Warp&, std::uint32_t lane) { return lane % 2; }, 2, {{}, {}, ListProgram::all()});
    p.store_registers({}, 2, ListProgram::linear(128, 4));
    p.exit();
    launch_alone(bench, p, 32);
    bench.run_to_end();
    REQUIRE(bench.faults.empty());
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      CHECK(bench.l2[0]->get<std::uint32_t>(4 * lane) == lane / 8 % 2);
      // Of the four, that of parity 1 was the last.
      CHECK(bench.l2[0]->get<std::uint32_t>(128 + 4 * lane) == lane % 2);
    }
  }
}

TEST_CASE("a waiter sees each phase that one instruction completes", "[sm][CGA-14]") {
  for (const TimingMode mode : kModes) {
    ClusterBench bench(1, {}, mode);
    ListProgram p(8);
    p.mbarrier_init(kBar, 8);
    p.barrier();
    only_if(p, 2, [](const Warp& w) { return w.place.warp == 0; });
    p.mbarrier_wait(kBar, 0);
    p.exit();
    p.compute(Unit::fp32, 3000, {}, {});
    p.mbarrier_arrive(Space::shared, kBar, 1, 0, {{}, {}, [](const Warp&) { return 0xFFFFU; }});
    p.exit();
    launch_alone(bench, p, 64);
    bench.run_to_end();
    CHECK(bench.faults.empty());
    CHECK(bench.gpc.exits.size() == 1);
  }
}

TEST_CASE("data may come before they are expected", "[sm][CGA-14]") {
  for (const TimingMode mode : kModes) {
    ClusterBench bench(2, {}, mode);
    ListProgram p(8);
    p.mbarrier_init(kBar, 1);
    p.cluster_arrive().cluster_wait();
    only_if(p, 2, [](const Warp& w) { return w.place.rank == 1; });
    p.mbarrier_complete(Space::cluster, dsmem_address(0, kBar), 512);
    p.exit();
    p.compute(Unit::fp32, 2000, {}, {});
    p.mbarrier_test(kBar, 0, 1);
    p.store_registers(one_lane(), 1, ListProgram::constant(0));
    p.mbarrier_expect(Space::shared, kBar, 256);
    p.mbarrier_arrive(Space::shared, kBar, 1, 255);
    p.mbarrier_test(kBar, 0, 1);
    p.store_registers(one_lane(), 1, ListProgram::constant(4));
    p.mbarrier_expect(Space::shared, kBar, 1);
    p.mbarrier_wait(kBar, 0);
    p.mbarrier_test(kBar, 0, 1);
    p.store_registers(one_lane(), 1, ListProgram::constant(8));
    p.exit();
    bench.launch(bench.add(p, 32, 256, 2), {0, 1});
    bench.run_to_end();
    REQUIRE(bench.faults.empty());
    CHECK(bench.gpc.exits.size() == 2);
    CHECK(bench.l2[0]->get<std::uint32_t>(0) == 0);
    CHECK(bench.l2[0]->get<std::uint32_t>(4) == 0);
    CHECK(bench.l2[0]->get<std::uint32_t>(8) == 1);
  }
}

TEST_CASE("a CTA is told what it did wrong with an mbarrier", "[sm][CGA-14]") {
  const auto kind = [](auto add) { return fault_of(add).kind; };
  const auto arrive = [](ListProgram& p) { p.mbarrier_arrive(Space::shared, kBar); };
  CHECK(kind(arrive) == FaultKind::mbarrier);  // memory begins as zeros
  CHECK(kind([](ListProgram& p) { p.mbarrier_wait(kBar, 0); }) == FaultKind::mbarrier);
  CHECK(kind([](ListProgram& p) { p.mbarrier_test(kBar, 0, 1); }) == FaultKind::mbarrier);
  CHECK(kind([](ListProgram& p) { p.mbarrier_expect(Space::shared, kBar, 8); }) == FaultKind::mbarrier);
  CHECK(kind([](ListProgram& p) { p.mbarrier_init(kBar, 0); }) == FaultKind::mbarrier);
  CHECK(kind([](ListProgram& p) { p.mbarrier_init(kBar, 1 << 20); }) == FaultKind::mbarrier);
  CHECK(kind([](ListProgram& p) { p.mbarrier_init(kBar, 2).mbarrier_arrive(Space::shared, kBar, 3); }) ==
        FaultKind::mbarrier);
  CHECK(kind([](ListProgram& p) { p.mbarrier_init(kBar, 2).mbarrier_complete(Space::shared, kBar, 1 << 20); }) ==
        FaultKind::mbarrier);
  CHECK(kind([&](ListProgram& p) { p.mbarrier_init(kBar, 2).mbarrier_invalidate(kBar), arrive(p); }) ==
        FaultKind::mbarrier);
  CHECK(kind([](ListProgram& p) { p.mbarrier_init(kBar + 4, 2); }) == FaultKind::misaligned);
  CHECK(kind([](ListProgram& p) { p.mbarrier_init(256, 2); }) == FaultKind::shared_bounds);
  CHECK(kind([](ListProgram& p) { p.mbarrier_arrive(Space::cluster, dsmem_address(0, kBar + 1)); }) ==
        FaultKind::misaligned);
  CHECK(kind([](ListProgram& p) { p.mbarrier_arrive(Space::cluster, dsmem_address(1, kBar)); }) ==
        FaultKind::cluster_rank);
  CHECK(kind([](ListProgram& p) { p.mbarrier_arrive(Space::global, kBar); }) == FaultKind::unsupported);
  CHECK(kind([](ListProgram& p) { p.mbarrier_arrive(Space::cluster, kBar, 1, 0, {}, 1); }) == FaultKind::unsupported);

  const heddle::arch::FaultRecord record = fault_of([](ListProgram& p) {
    p.mbarrier_init(kBar, 2);
    p.mbarrier_arrive(Space::shared, [](const Warp&, std::uint32_t lane) { return kBar + 8 * (lane - 3); }, 1, 0,
                      {{}, {}, [](const Warp&) { return 0x38U; }});
  });
  CHECK(record.lane == 4);
  CHECK(record.address == kBar + 8);
  CHECK(record.operation == OpCode::mbarrier_arrive);
  CHECK_FALSE(record.of_cga);
}

TEST_CASE("a waiter whose mbarrier goes away is a fault", "[sm][CGA-14][CGA-09]") {
  for (const std::uint32_t how : {0U, 1U, 2U, 3U, 4U}) {
    ClusterBench bench(1);
    ListProgram p(4);
    p.mbarrier_init(128, 1);
    p.barrier();
    only_if(p, 2, [](const Warp& w) { return w.place.warp == 0; });
    p.mbarrier_wait(128, 0);
    p.exit();
    p.compute(Unit::fp32, 1000, {}, {});
    if (how == 0) p.mbarrier_invalidate(128);
    if (how == 1) p.store(own_shared(), ListProgram::constant(0), ListProgram::linear(128, 4));
    if (how == 2) p.release_shared(128);
    if (how == 3) p.store(heddle::test::dsmem(), ListProgram::constant(0), ListProgram::linear(128, 4));
    if (how == 4) {
      p.atomic(heddle::test::dsmem(), heddle::arch::AtomicKind::exchange, heddle::arch::ValueType::u64, 0,
               ListProgram::constant(0), ListProgram::linear(128, 0));
    }
    p.load({}, 1, ListProgram::linear(0, 4));
    p.exit();
    launch_alone(bench, p, 64);
    bench.run_to_end();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == (how == 2 ? FaultKind::shared_bounds : FaultKind::mbarrier));
    CHECK(bench.faults[0].operation == OpCode::mbarrier_wait);
    CHECK(bench.faults[0].warp == 0);
  }
}

TEST_CASE("a remote arrival before the mbarrier is initialised is a fault of the CGA", "[sm][CGA-14][CGA-08]") {
  for (const TimingMode mode : kModes) {
    ClusterBench bench(2, heddle::test::no_past_pcs(), mode);
    ListProgram p(4);
    only_if(p, 2, [](const Warp& w) { return w.place.rank == 1; });
    p.compute(Unit::fp32, 500, {}, {});
    p.mbarrier_arrive(Space::cluster, dsmem_address(0, kBar));
    p.compute(Unit::fp32, 3000, {}, {});
    p.exit();
    bench.launch(bench.add(p, 32, 256, 2), {0, 1});
    bench.run_to_end();
    REQUIRE(bench.faults.size() == 1);
    const heddle::arch::FaultRecord& fault = bench.faults[0];
    CHECK(fault.kind == FaultKind::mbarrier);
    CHECK(fault.of_cga);
    CHECK(fault.cta_id_in_cga == 1);
    CHECK(fault.target == 0);
    CHECK(fault.address == kBar);
    CHECK(fault.gpc_local_cga_id == ClusterBench::kCga);
    CHECK(bench.gpc.exit_of(1, ClusterBench::kCga).packet.faulted);
    CHECK_FALSE(bench.gpc.exit_of(0, ClusterBench::kCga).packet.faulted);
  }
}

TEST_CASE("an arrival at cluster scope comes behind what was written before", "[sm][CGA-14][MEM-06]") {
  for (const Scope scope : {Scope::cta, Scope::cluster}) {
    ClusterBench bench(1);
    bench.l2[0]->latency = 3000;
    ListProgram p(4);
    p.mbarrier_init(kBar, 1);
    p.store({}, ListProgram::constant(1), ListProgram::linear(0, 4));
    p.mbarrier_arrive(Space::shared, kBar, 1, 0, Sync{{}, scope, {}});
    p.mbarrier_wait(kBar, 0);
    p.special(SpecialRegister::clock, 1);
    p.store_registers(one_lane(), 1, ListProgram::constant(256));
    p.exit();
    launch_alone(bench, p, 32);
    bench.run_to_end();
    CHECK((bench.l2[0]->get<std::uint32_t>(256) > 3000) == (scope == Scope::cluster));
  }
}

TEST_CASE("a wait at cluster scope forgets what the L1 holds", "[sm][CGA-14][MEM-06]") {
  for (const Scope scope : {Scope::cta, Scope::cluster}) {
    for (const bool passed : {false, true}) {
      ClusterBench bench(1);
      ListProgram p(4);
      p.mbarrier_init(kBar, 1);
      p.barrier();
      only_if(p, 3, [](const Warp& w) { return w.place.warp == 1; });
      p.compute(Unit::fp32, passed ? 1 : 4000, {}, {});
      p.mbarrier_arrive(Space::shared, kBar);
      p.exit();
      p.load({}, 1, ListProgram::linear(0, 4));
      p.set(2, ListProgram::of_register(1), {{1, 1}});
      p.compute(Unit::fp32, passed ? 2000 : 1, {}, {});
      p.mbarrier_wait(kBar, 0, Sync{{}, scope, {}});
      p.load({}, 1, ListProgram::linear(0, 4));
      p.exit();
      launch_alone(bench, p, 64);
      bench.run_to_end();
      CHECK(bench.faults.empty());
      CHECK(bench.l2[0]->count(tlm::TLM_READ_COMMAND) == (scope == Scope::cluster ? 2 : 1));
    }
  }
}

TEST_CASE("who a hung mbarrier waits for is named", "[sm][CGA-14]") {
  ClusterBench bench(2);
  ListProgram p(4);
  p.mbarrier_init(kBar, 4);
  p.cluster_arrive().cluster_wait();
  only_if(p, 2, [](const Warp& w) { return w.place.rank == 1; });
  p.cluster_arrive().cluster_wait();
  p.mbarrier_arrive(Space::shared, kBar, 1, 128);
  p.mbarrier_wait(kBar, 0);
  p.exit();
  bench.launch(bench.add(p, 32, 256, 2), {0, 1});
  heddle::test::run_until_idle();
  CHECK(bench.gpc.exits.empty());
  heddle::WaitGraph graph;
  bench.domain.collect_waits(graph);
  std::string all;
  for (const std::string& line : graph.chain()) all += line + "\n";
  CAPTURE(all);
  CHECK_THAT(all, Catch::Contains("in mbarrier_wait, for parity 0 of the mbarrier at 0x40: its phase has parity 0, "
                                  "and 3 of 4 arrivals and 128 bytes are outstanding, for CTA 1 of CGA 7 of GPC 2"));
  CHECK_THAT(all, Catch::Contains("CTA 1 of CGA 7 of GPC 2") && Catch::Contains("which is SM 11, CTA 3, warp 0"));
  CHECK_THAT(all, Catch::Contains("CGA 7 of GPC 2"));
}

}  // namespace sm_mbarrier_test
