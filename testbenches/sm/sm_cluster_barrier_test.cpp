// The barrier of a cluster on its SMs: who passes it when, what it orders, and who waits for whom.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/cluster_bench.h"

namespace sm_cluster_barrier_test {

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
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

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

TEST_CASE("who has arrived and exited does not arrive for those that are left", "[sm][CGA-13]") {
  for (const TimingMode mode : kModes) {
    ClusterBench bench(2, {}, mode);
    const auto only_if = [](ListProgram& p, std::uint32_t steps, auto condition) {
      p.branch(p.here() + 1 + steps, [=](const Warp& w) { return !condition(w); }, {});
    };
    ListProgram p(2);
    // Of CTA 0, warp 1 is gone long before warp 2 arrives, the only one that is left.
    only_if(p, 1, [](const Warp& w) { return w.place.warp == 0; });
    p.exit();
    only_if(p, 2, [](const Warp& w) { return w.place.rank == 0 && w.place.warp == 1; });
    p.cluster_arrive(Order::relaxed);
    p.exit();
    only_if(p, 1, [](const Warp& w) { return w.place.rank == 0; });
    p.compute(Unit::fp32, 3000, {}, {});
    note_clock(p, 0);
    p.cluster_arrive(Order::relaxed);
    p.cluster_wait();
    note_clock(p, 1);
    p.exit();
    bench.launch(bench.add(p, 96, 0, 2), {0, 1});
    bench.run_to_end();
    CHECK(bench.faults.empty());
    CHECK(bench.gpc.exits.size() == 2);
    CHECK(bench.gpc.count(Kind::arrived) == 2);
    REQUIRE(bench.gpc.barriers.size() == 1);
    const auto arrives = bench.l2[0]->get<std::uint32_t>(address_of(0, 2, 0));
    CHECK(arrives > 3000);
    CHECK(bench.gpc.barriers[0] >= arrives + bench.gpc.barrier_cycles);
    for (const std::uint32_t warp : {1U, 2U}) {
      CHECK(bench.l2[1]->get<std::uint32_t>(address_of(1, warp, 1)) >= arrives + bench.gpc.barrier_cycles);
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
            packet.tag.cga_id = std::nullopt;
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
    packet.tag.cga_id = std::nullopt;
    bench.gpc.start(0, 0, packet);
    bench.run_to_end();
    CHECK(bench.faults.empty());
    CHECK(bench.gpc.notices.empty());
    REQUIRE(bench.gpc.exits.size() == 1);
    return bench.gpc.exits[0].cycle;
  };
  CHECK(cycles(true) - cycles(false) == SmParams{}.issue.barrier_latency);
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

TEST_CASE("a wait for the cluster with acquire forgets what the L1 holds", "[sm][CGA-13][MEM-06]") {
  for (const TimingMode mode : kModes) {
    for (const Order order : {Order::acquire, Order::relaxed}) {
      for (const bool passed : {false, true}) {
        ClusterBench bench(2, {}, mode);
        ListProgram p(4);
        p.load({}, 1, ListProgram::linear(0, 4));
        p.set(2, ListProgram::of_register(1), {{1, 1}});
        p.cluster_arrive(Order::relaxed);
        p.compute(Unit::fp32, passed ? 5000 : 1, {{2, 1}}, {});
        p.cluster_wait(order);
        p.load({}, 1, ListProgram::linear(0, 4));
        p.exit();
        bench.launch(bench.add(p, 32, 0, 2), {0, 1});
        bench.run_to_end();
        CAPTURE(passed, order == Order::acquire);
        CHECK(bench.faults.empty());
        // The phase was over before the wait, or ended in it.
        CHECK((bench.stat(0, "stall.cluster") == 0) == passed);
        for (const auto& l2 : bench.l2) {
          CHECK(l2->count(tlm::TLM_READ_COMMAND) == (order == Order::acquire ? 2 : 1));
        }
      }
    }
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

}  // namespace sm_cluster_barrier_test
