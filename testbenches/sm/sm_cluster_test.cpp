// Clusters on their SMs: the barrier of the CGA, what a CTA knows of it, and who waits for whom.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/cluster_bench.h"

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::FaultKind;
using heddle::arch::Order;
using heddle::arch::SpecialRegister;
using heddle::arch::Unit;
using heddle::sm::SmParams;
using heddle::test::ClusterBench;
using heddle::test::ListProgram;
using heddle::test::Warp;

namespace {

using Kind = heddle::protocol::ClusterNoticePacket::Kind;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::lt};

// Where a warp of a CTA of a CGA puts its number `index`, in the memory of its SM.
ListProgram::Address slot_of(std::uint32_t index) {
  return [=](const Warp& warp, std::uint32_t) {
    return 4096 * warp.place.rank + 256 * warp.place.warp + std::uint64_t{8} * index;
  };
}
std::uint32_t address_of(std::uint32_t rank, std::uint32_t warp, std::uint32_t index) {
  return 4096 * rank + 256 * warp + 8 * index;
}

void note_clock(ListProgram& p, std::uint32_t index) {
  ListProgram::Access one;
  one.lanes = ListProgram::only(0);
  p.special(SpecialRegister::clock, 0);
  p.store_registers(one, 0, slot_of(index));
}

// Warps compute for a while that differs, and meet; again and again.
ListProgram meets(std::uint32_t phases) {
  ListProgram p(4);
  for (std::uint32_t phase = 0; phase < phases; ++phase) {
    p.step({heddle::arch::OpCode::compute, Unit::fp32, {}, {}, {}},
           [=](const heddle::arch::WarpPlace& place, heddle::arch::WarpState&, heddle::arch::Operation& operation) {
             operation.count = 1 + (700 * place.warp + 1300 * place.rank + 500 * phase) % 5000;
           });
    note_clock(p, 2 * phase);
    p.cluster_arrive(phase % 2 == 0 ? Order::release : Order::relaxed);
    if (phase % 3 == 1) p.compute(Unit::fp32, 20, {}, {});
    p.cluster_wait();
    note_clock(p, 2 * phase + 1);
  }
  p.exit();
  return p;
}

std::vector<std::string> chain_of(ClusterBench& bench) {
  heddle::WaitGraph graph;
  bench.domain.collect_waits(graph);
  return graph.chain();
}

}  // namespace

TEST_CASE("no warp passes the barrier of its cluster before all have arrived", "[sm][CGA-13]") {
  constexpr std::uint32_t kPhases = 6;
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t warps : {1U, 5U}) {
      ClusterBench bench(3, {}, mode);
      bench.launch(bench.add(meets(kPhases), 32 * warps, 0, 4), {0, 1, 0, 2});
      bench.run_to_end();
      CHECK(bench.faults.empty());
      REQUIRE(bench.gpc.exits.size() == 4);
      CHECK(bench.gpc.barriers.size() == kPhases);
      CHECK(bench.gpc.count(Kind::arrived) == std::size_t{4} * kPhases);
      if (mode == TimingMode::lt) continue;
      const std::uint32_t where[] = {0, 1, 0, 2};
      for (std::uint32_t phase = 0; phase < kPhases; ++phase) {
        std::uint32_t last_before = 0;
        std::uint32_t first_after = ~std::uint32_t{0};
        for (std::uint32_t rank = 0; rank < 4; ++rank) {
          for (std::uint32_t warp = 0; warp < warps; ++warp) {
            const auto& l2 = *bench.l2[where[rank]];
            last_before = std::max(last_before, l2.get<std::uint32_t>(address_of(rank, warp, 2 * phase)));
            first_after = std::min(first_after, l2.get<std::uint32_t>(address_of(rank, warp, 2 * phase + 1)));
          }
        }
        CAPTURE(warps, phase);
        CHECK(first_after >= last_before + bench.gpc.barrier_cycles);
      }
    }
  }
}

TEST_CASE("warps that have exited no longer count at the barrier of their cluster", "[sm][CGA-13]") {
  for (const TimingMode mode : kModes) {
    // Of each CTA, warp 0 leaves without a word, warp 1 after it has arrived; the whole of CTA 1 leaves in the end.
    for (const bool late : {false, true}) {
      ClusterBench bench(2, {}, mode);
      ListProgram p(2);
      const auto leave_if = [&](auto condition, std::uint32_t wait) {
        p.branch(p.here() + 3, [=](const Warp& w) { return !condition(w); }, {});
        p.compute(Unit::fp32, wait, {}, {});
        p.exit();
      };
      leave_if([](const Warp& w) { return w.place.warp == 0; }, late ? 3000U : 1U);
      p.cluster_arrive();
      leave_if([](const Warp& w) { return w.place.warp == 1; }, late ? 5000U : 1U);
      p.cluster_wait();
      leave_if([](const Warp& w) { return w.place.rank == 1; }, late ? 4000U : 1U);
      p.cluster_arrive(Order::relaxed);
      p.cluster_wait(Order::relaxed);
      p.exit();
      bench.launch(bench.add(p, 96, 0, 2), {0, 1});
      bench.run_to_end();
      CHECK(bench.faults.empty());
      CHECK(bench.gpc.exits.size() == 2);
      CHECK(bench.gpc.barriers.size() == 2);
    }
  }
}

TEST_CASE("a warp arrives once before it waits, and never waits without having arrived", "[sm][CGA-13]") {
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t ctas : {1U, 2U}) {
      for (const bool twice : {false, true}) {
        for (const bool passed : {false, true}) {
          ClusterBench bench(2, {}, mode);
          ListProgram p(2);
          if (passed || twice) p.cluster_arrive(Order::relaxed);
          if (passed) p.compute(Unit::fp32, 2000, {}, {});
          if (passed && !twice) p.cluster_wait();
          if (twice) p.cluster_arrive(Order::relaxed);
          p.cluster_wait();
          p.exit();
          const std::uint32_t code = bench.add(p, 64, 0, ctas);
          if (ctas == 2) {
            bench.launch(code, {0, 1});
          } else {
            auto packet = bench.packet(code, 0, 0);
            packet.tag.cga_id = heddle::protocol::kNoCgaId;
            bench.gpc.start(0, 0, packet);
          }
          bench.run_to_end();
          CAPTURE(ctas, twice, passed);
          REQUIRE(bench.faults.size() == ctas);
          CHECK(bench.faults[0].kind == FaultKind::barrier);
          CHECK(bench.faults[0].operation ==
                (twice ? heddle::arch::OpCode::cluster_arrive : heddle::arch::OpCode::cluster_wait));
          CHECK(bench.gpc.exits[0].packet.faulted);
        }
      }
    }
  }
}

TEST_CASE("a CTA without a cluster is a cluster of one", "[sm][CGA-13]") {
  const auto cycles = [](bool barrier) {
    ClusterBench bench(1);
    ListProgram p(4);
    if (barrier) p.cluster_arrive(Order::relaxed).cluster_wait(Order::relaxed);
    p.exit();
    auto packet = bench.packet(bench.add(p, 32, 0, 1), 0, 0);
    packet.tag.cga_id = heddle::protocol::kNoCgaId;
    bench.gpc.start(0, 0, packet);
    bench.run_to_end();
    CHECK(bench.faults.empty());
    CHECK(bench.gpc.notices.empty());
    REQUIRE(bench.gpc.exits.size() == 1);
    return bench.gpc.exits[0].cycle;
  };
  CHECK(cycles(true) - cycles(false) == SmParams{}.issue.barrier_latency);
}

TEST_CASE("a CGA beyond its GPC has no cluster barrier", "[sm][CGA-15]") {
  for (const bool own : {false, true}) {
    ClusterBench bench(1);
    ListProgram p(4);
    if (own) {
      // Its own memory it reaches all the same.
      p.store(heddle::test::dsmem(), ListProgram::constant(9), heddle::test::of_neighbour(0, 4, 0));
      p.load(heddle::test::own_shared(), 1, ListProgram::linear(0, 4));
      p.store_registers({}, 1, ListProgram::linear(0, 4));
    }
    p.cluster_arrive();
    p.exit();
    auto packet = bench.packet(bench.add(p, 32, 256, 2), 1, 0);
    packet.tag.cga_id = heddle::protocol::kNoCgaId;
    bench.gpc.start(0, 0, packet);
    bench.run_to_end();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == FaultKind::unsupported);
    CHECK(bench.faults[0].operation == heddle::arch::OpCode::cluster_arrive);
    if (own) CHECK(bench.l2[0]->get<std::uint32_t>(4 * 31) == 9);
  }
}

TEST_CASE("a CTA of a cluster knows where it is", "[sm][CGA-10]") {
  struct Expected {
    SpecialRegister which;
    std::uint64_t value;
  };
  ClusterBench bench(2);
  const Expected expected[] = {
      {SpecialRegister::sm, ClusterBench::kFirstSm + 1},
      {SpecialRegister::sms, 100},
      {SpecialRegister::cta_slot, 5},
      {SpecialRegister::cta_id_x, 11},
      {SpecialRegister::cta_id_y, 12},
      {SpecialRegister::cta_id_z, 13},
      {SpecialRegister::grid_x, 24},
      {SpecialRegister::grid_y, 1},
      {SpecialRegister::grid_z, 1},
      {SpecialRegister::block_x, 48},
      {SpecialRegister::block_y, 1},
      {SpecialRegister::block_z, 1},
      {SpecialRegister::cga_id, 0x1'2345'6789},
      {SpecialRegister::cga_cta_id, 1},
      {SpecialRegister::cga_size, 6},
      {SpecialRegister::cga_x, 6},
      {SpecialRegister::cga_y, 1},
      {SpecialRegister::cga_z, 1},
      {SpecialRegister::gpc_local_cga_id, 200},
      {SpecialRegister::task_id, 5},
      {SpecialRegister::queue_position, 0},
      {SpecialRegister::cga_memory, 0xAB'CDEF'0000},
  };
  ListProgram p(4);
  std::uint32_t index = 0;
  for (const Expected& one : expected) {
    p.special(one.which, 0, 2);
    ListProgram::Access wide;
    wide.width = 8;
    p.store_registers(wide, 0, ListProgram::linear(std::uint64_t{256} * index++, 8));
  }
  p.exit();
  auto packet = bench.packet(bench.add(p, 48, 0, 6), 1, 5, 200);
  packet.id.cta = {11, 12, 13};
  packet.id.cga = 0x1'2345'6789;
  packet.cga_memory = 0xAB'CDEF'0000;
  bench.gpc.start(0, 1, packet);
  heddle::test::run_until_idle();
  CHECK(bench.faults.empty());
  index = 0;
  for (const Expected& one : expected) {
    CAPTURE(heddle::arch::special_name(one.which));
    CHECK(bench.l2[1]->get<std::uint64_t>(256 * index + 8 * 7) == one.value);
    ++index;
  }
}

TEST_CASE("a CTA without a cluster says so", "[sm][CGA-10]") {
  ClusterBench bench(1);
  ListProgram p(4);
  const SpecialRegister all[] = {SpecialRegister::cga_size, SpecialRegister::cga_cta_id, SpecialRegister::cga_x,
                                 SpecialRegister::gpc_local_cga_id, SpecialRegister::cga_memory};
  for (std::uint32_t i = 0; i < 5; ++i) {
    p.special(all[i], 0, 2);
    ListProgram::Access wide;
    wide.width = 8;
    p.store_registers(wide, 0, ListProgram::linear(std::uint64_t{256} * i, 8));
  }
  p.exit();
  auto packet = bench.packet(bench.add(p, 32, 0, 1), 0, 0);
  packet.tag.cga_id = heddle::protocol::kNoCgaId;
  bench.gpc.start(0, 0, packet);
  bench.run_to_end();
  const auto value = [&](std::uint64_t i) { return bench.l2[0]->get<std::uint64_t>(256 * i); };
  CHECK(value(0) == 1);
  CHECK(value(1) == 0);
  CHECK(value(2) == 1);
  CHECK(value(3) == 0xFFFF'FFFF);
  CHECK(value(4) == ~std::uint64_t{0});
}

TEST_CASE("the extents of a split CGA are those of its smaller size", "[sm][CGA-10]") {
  ClusterBench bench(1);
  heddle::arch::KernelShape shape;
  shape.grid = {8, 8, 1};
  shape.block = {32, 1, 1};
  shape.cluster.of(heddle::arch::CgaLevel::gpc) = {4, 2, 1};
  shape.cluster.fallback[0] = {2, 2, 1};
  shape.cluster.fallback[1] = {1, 2, 1};
  ListProgram p(4);
  const SpecialRegister all[] = {SpecialRegister::cga_x, SpecialRegister::cga_y, SpecialRegister::cga_z};
  for (std::uint32_t i = 0; i < 3; ++i) {
    p.special(all[i], 0);
    p.store_registers({}, 0, [=](const Warp& w, std::uint32_t) { return 64 * w.place.cluster_size + 4 * i; });
  }
  p.exit();
  const std::uint32_t code = bench.code.add(std::make_shared<ListProgram>(p), shape);
  for (const std::uint32_t size : {8U, 4U, 2U}) {
    heddle::protocol::CtaStartPacket start;
    start.tag.cga_id = size;
    start.cta_slot = size;
    start.id.cga_size = size;
    start.need = heddle::arch::need_of(bench.params.limits, shape);
    start.code = code;
    bench.gpc.start(0, 0, start);
  }
  heddle::test::run_until_idle();
  const auto extents = [&](std::uint32_t size) {
    return heddle::arch::Dim3{bench.l2[0]->get<std::uint32_t>(64 * size),
                              bench.l2[0]->get<std::uint32_t>(64 * size + 4),
                              bench.l2[0]->get<std::uint32_t>(64 * size + 8)};
  };
  CHECK(extents(8) == heddle::arch::Dim3{4, 2, 1});
  CHECK(extents(4) == heddle::arch::Dim3{2, 2, 1});
  CHECK(extents(2) == heddle::arch::Dim3{1, 2, 1});
}

TEST_CASE("an arrival with release comes behind what was written before", "[sm][CGA-13][MEM-06]") {
  for (const Order order : {Order::release, Order::relaxed}) {
    ClusterBench bench(2);
    bench.l2[0]->latency = 3000;
    ListProgram p(4);
    p.store({}, ListProgram::constant(1), ListProgram::linear(0, 4));
    p.cluster_arrive(order);
    p.cluster_wait();
    p.exit();
    bench.launch(bench.add(p, 32, 0, 2), {0, 1});
    bench.run_to_end();
    REQUIRE(bench.gpc.barriers.size() == 1);
    CHECK((bench.gpc.barriers[0] > 3000) == (order == Order::release));
  }
}

TEST_CASE("who waits at the barrier of a hung cluster is named", "[sm][CGA-13]") {
  ClusterBench hung(2);
  ListProgram q(4);
  q.cluster_arrive();
  q.cluster_wait();
  q.exit();
  hung.gpc.start(0, 0, hung.packet(hung.add(q, 64, 0, 2), 0, 0));
  heddle::test::run_until_idle();
  const std::vector<std::string> chain = chain_of(hung);
  REQUIRE(chain.size() >= 2);
  CHECK_THAT(chain[1], Catch::Contains("SM 10, CTA 2, warp") && Catch::Contains("in cluster_wait, for") &&
                           Catch::Contains("CGA 7 of GPC 2"));
}

TEST_CASE("clusters survive a reset in mid-flight", "[sm][CGA-12]") {
  for (const TimingMode mode : kModes) {
    for (Cycle stop = 20; stop < 1500; stop += 61) {
      ClusterBench bench(3, {}, mode);
      ListProgram p(4);
      p.mbarrier_init(64, 6).cluster_arrive().cluster_wait();
      p.store(heddle::test::dsmem(), ListProgram::constant(3), heddle::test::of_neighbour(128, 4));
      p.load(heddle::test::dsmem(), 1, heddle::test::of_neighbour(128, 4, 2));
      p.mbarrier_arrive(
          heddle::arch::Space::cluster,
          [](const Warp& w, std::uint32_t) { return heddle::arch::dsmem_address((w.place.rank + 1) % 3, 64); }, 3);
      p.mbarrier_wait(64, 0);
      p.cluster_arrive().cluster_wait();
      p.exit();
      const std::uint32_t code = bench.add(p, 64, 512, 3);
      bench.launch(code, {0, 1, 2});
      if (mode == TimingMode::at) {
        heddle::test::run_until(sc_core::sc_time(static_cast<double>(stop), sc_core::SC_NS));
      } else {
        heddle::test::start();
      }
      bench.domain.reset();
      CHECK(bench.quiescent());
      for (const auto& sm : bench.sms) CHECK(sm->used() == heddle::arch::ResourceVector{});
      bench.gpc.exits.clear();
      bench.faults.clear();
      bench.launch(code, {2, 0, 1}, bench.domain.now() + 10, ClusterBench::kCga, 9);
      bench.run_to_end();
      CHECK(bench.gpc.exits.size() == 3);
      CHECK(bench.faults.empty());
    }
  }
}
