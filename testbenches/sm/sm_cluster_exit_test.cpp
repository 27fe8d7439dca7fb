// How CTAs of clusters leave, what becomes of what they have under way, and how their CGA is forgotten.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/cluster_bench.h"

namespace sm_cluster_exit_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::dsmem_address;
using heddle::arch::FaultKind;
using heddle::arch::FaultRecord;
using heddle::arch::Order;
using heddle::arch::Unit;
using heddle::test::ClusterBench;
using heddle::test::dsmem;
using heddle::test::FakeGpc;
using heddle::test::ListProgram;
using heddle::test::no_past_pcs;
using heddle::test::of_neighbour;
using heddle::test::only_if;
using heddle::test::rank_is;
using heddle::test::Warp;

namespace {

using Kind = heddle::protocol::ClusterNoticePacket::Kind;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kShared = 512;

// All meet; CTA 1 leaves at once; CTA 0 stores to it after a while and leaves; further CTAs stay.
ListProgram stores_to_who_has_gone(bool load = false) {
  ListProgram p(4);
  p.cluster_arrive().cluster_wait();
  only_if(p, 1, rank_is(1));
  p.exit();
  only_if(p, 2, [](const Warp& w) { return w.place.rank > 1; });
  p.compute(Unit::fp32, 5000, {}, {});
  p.exit();
  p.compute(Unit::fp32, 1000, {}, {});
  if (load) {
    p.load(dsmem(), 1, ListProgram::linear(dsmem_address(1, 0), 4));
    p.compute(Unit::fp32, 1, {{1, 1}}, {});
  } else {
    p.store(dsmem(), ListProgram::constant(1), ListProgram::linear(dsmem_address(1, 0), 4));
  }
  p.exit();
  return p;
}

Cycle last_reply(const ClusterBench& bench) {
  Cycle last = 0;
  for (const auto& seen : bench.network.seen) {
    if (seen.reply) last = std::max(last, seen.cycle + bench.network.latency);
  }
  return last;
}

}  // namespace

TEST_CASE("a CTA with nothing under way asks, and leaves as soon as it may", "[sm][CGA-11]") {
  for (const TimingMode mode : kModes) {
    ClusterBench bench(2, {}, mode);
    ListProgram p(4);
    p.cluster_arrive().cluster_wait();
    p.load(dsmem(), 1, of_neighbour(0, 4));
    p.store(dsmem(), ListProgram::constant(1), of_neighbour(0, 4));
    p.cluster_arrive().cluster_wait();
    p.exit();
    bench.launch(bench.add(p, 64, kShared, 2), {0, 1});
    bench.run_to_end();
    CHECK(bench.gpc.exits.size() == 2);
    REQUIRE(bench.gpc.asks.size() == 2);
    for (const FakeGpc::Exit& ask : bench.gpc.asks) CHECK(ask.packet.drained);
    CHECK(bench.gpc.count(Kind::drained) == 0);
    // Both SMs answer the flush, and the id is free.
    CHECK(bench.gpc.count(Kind::flushed) == 2);
    REQUIRE(bench.gpc.flushed.size() == 1);
    CHECK(bench.gpc.flushed[0].second == ClusterBench::kCga);
  }
}

TEST_CASE("a CTA holds what it has until the permission has come, of a CGA or not", "[sm][CGA-11]") {
  for (const bool clustered : {false, true}) {
    ClusterBench bench(1);
    ListProgram p(4);
    p.compute(Unit::fp32, 500, {}, {});
    p.exit();
    auto packet = bench.packet(bench.add(p, 32, kShared, clustered ? 2 : 1), 0, 0);
    if (!clustered) packet.tag.cga_id = std::nullopt;
    struct Ends final : heddle::CtaListener {
      void cta_started(const Cta&) override {}
      void cta_ended(const Cta& cta) override { ended = cta.cycle; }
      Cycle ended = 0;
    } ends;
    bench.observation.ctas = &ends;
    bench.gpc.start(0, 0, packet);
    heddle::test::run_until_idle();
    REQUIRE(bench.gpc.asks.size() == 1);
    CAPTURE(clustered);
    CHECK(ends.ended == bench.gpc.asks[0].cycle + FakeGpc::kDistance);
    CHECK(bench.sms[0]->resident() == 0);
  }
}

TEST_CASE("a CTA with stores under way leaves when they are answered, or at once", "[sm][CGA-11]") {
  for (const bool at_once : {false, true}) {
    ClusterBench bench(2);
    bench.gpc.at_once = at_once;
    bench.network.latency = 1000;
    ListProgram p(4);
    p.cluster_arrive().cluster_wait();
    only_if(p, 2, rank_is(1));
    p.compute(Unit::fp32, 6000, {}, {});
    p.exit();
    p.store(dsmem(), ListProgram::constant(77), of_neighbour(0, 4));
    p.exit();
    bench.launch(bench.add(p, 32, kShared, 2), {0, 1});
    bench.run_to_end();
    CHECK(bench.faults.empty());
    REQUIRE(bench.gpc.exits.size() == 2);
    REQUIRE(bench.gpc.asks.size() == 2);
    CHECK_FALSE(bench.gpc.asks[0].packet.drained);
    const Cycle left = bench.gpc.exit_of(0, ClusterBench::kCga).cycle;  // the permission goes out
    if (at_once) {
      CHECK(left == bench.gpc.asks[0].cycle);
      CHECK(left < last_reply(bench));
    } else {
      REQUIRE(bench.gpc.count(Kind::drained) == 1);
      CHECK(left == last_reply(bench) + FakeGpc::kDistance);
      CHECK(left == bench.gpc.notice(Kind::drained).cycle);
    }
    // The flush waits for what is under way.
    REQUIRE(bench.gpc.flushed.size() == 1);
    CHECK(bench.gpc.flushed[0].first > last_reply(bench));
  }
}

TEST_CASE("resources are free when a CTA has left, and not before", "[sm][CGA-11]") {
  ClusterBench bench(2);
  bench.network.latency = 1000;
  ListProgram p(4);
  p.cluster_arrive().cluster_wait();
  only_if(p, 2, rank_is(1));
  p.compute(Unit::fp32, 6000, {}, {});
  p.exit();
  p.store(dsmem(), ListProgram::constant(77), of_neighbour(0, 4));
  p.exit();
  bench.launch(bench.add(p, 32, kShared, 2), {0, 1});
  heddle::test::run_until(sc_core::sc_time(2000, sc_core::SC_NS));
  REQUIRE(bench.gpc.asks.size() == 1);
  CHECK(bench.sms[0]->resident() == 1);
  CHECK(bench.sms[0]->clusters().windows == 1);
  CHECK(bench.sms[0]->clusters().in_flight == 1);
  CHECK_FALSE(bench.sms[0]->quiescent());
  heddle::test::run_until(sc_core::sc_time(3500, sc_core::SC_NS));
  CHECK(bench.sms[0]->resident() == 0);
  CHECK(bench.sms[0]->used() == heddle::arch::ResourceVector{});
  // The CGA lives on, but none of its CTAs is here any more: its sm_cga_slot is free, before the flush.
  CHECK(bench.sms[0]->clusters().windows == 0);
  CHECK(bench.sms[0]->clusters().cgas == 0);
  CHECK(bench.sms[1]->clusters().cgas == 1);
  CHECK(bench.sms[0]->clusters().hosted == 1);
  bench.run_to_end();
}

TEST_CASE("a CTA that waits for its stores is named", "[sm][CGA-11]") {
  ClusterBench bench(2);
  bench.network.latency = 100'000;
  ListProgram p(4);
  p.cluster_arrive().cluster_wait();
  only_if(p, 1, rank_is(1));
  p.exit();
  p.store(dsmem(), ListProgram::constant(77), of_neighbour(0, 4));
  p.exit();
  bench.launch(bench.add(p, 32, kShared, 2), {0, 1});
  heddle::test::run_until(sc_core::sc_time(2000, sc_core::SC_NS));
  heddle::WaitGraph graph;
  bench.domain.collect_waits(graph);
  REQUIRE(graph.chain().size() == 1);
  CHECK_THAT(graph.chain()[0], Catch::Contains("for 1 accesses of SM 10, CTA 2 to shared memory of its cluster"));
}

TEST_CASE("a load from a CTA that has exited is an error of the CGA", "[sm][CGA-08]") {
  for (const TimingMode mode : kModes) {
    for (const std::vector<std::uint32_t>& where : {std::vector<std::uint32_t>{0, 1, 1}, {0, 0, 1}}) {
      ClusterBench bench(2, no_past_pcs(), mode);
      bench.launch(bench.add(stores_to_who_has_gone(true), 32, kShared, 3), where);
      bench.run_to_end();
      REQUIRE(bench.faults.size() == 1);
      const FaultRecord& fault = bench.faults[0];
      CHECK(fault.kind == FaultKind::cta_not_present);
      CHECK(fault.of_cga);
      CHECK(fault.cta_id_in_cga == 0);
      CHECK(fault.target == 1);
      CHECK_THAT(heddle::arch::text_of(fault), Catch::Contains("the CTA has exited"));
      CHECK(bench.gpc.exit_of(0, ClusterBench::kCga).packet.faulted);
      CHECK_FALSE(bench.gpc.exit_of(2, ClusterBench::kCga).packet.faulted);
      CHECK(bench.gpc.count(Kind::trap) == 0);
    }
  }
}

TEST_CASE("a store to a CTA that has exited is told to whoever is left of its CGA", "[sm][CGA-08][CGA-11]") {
  enum class Left { cta, cga, nobody };
  for (const Left left : {Left::cta, Left::cga, Left::nobody}) {
    ClusterBench bench(3, no_past_pcs());
    bench.network.latency = 800;
    bench.gpc.at_once = left != Left::cta;
    const std::vector<std::uint32_t> two = {0, 1};
    const std::vector<std::uint32_t> three = {0, 1, 2};
    bench.launch(bench.add(stores_to_who_has_gone(), 32, kShared, left == Left::nobody ? 2 : 3),
                 left == Left::nobody ? two : three);
    bench.run_to_end();
    CAPTURE(static_cast<int>(left));
    CHECK(bench.gpc.exits.size() == (left == Left::nobody ? 2 : 3));
    CHECK(bench.gpc.exit_of(0, ClusterBench::kCga).packet.faulted == (left == Left::cta));
    CHECK(bench.stat(0, "cluster.dropped_errors") == (left == Left::nobody ? 1 : 0));
    CHECK(bench.gpc.count(Kind::trap) == (left == Left::cga ? 1 : 0));
    REQUIRE(bench.gpc.flushed.size() == 1);
    CHECK(bench.gpc.flushed[0].first > last_reply(bench));
    if (left == Left::nobody) {
      CHECK(bench.faults.empty());
      continue;
    }
    REQUIRE(bench.faults.size() == 1);
    const FaultRecord& fault = bench.faults[0];
    CHECK(fault.kind == FaultKind::cta_not_present);
    CHECK(fault.of_cga);
    CHECK(fault.task == 5);
    CHECK(fault.cga == 1);
    CHECK(fault.cta == 3);
    CHECK(fault.cta_id_in_cga == 0);
    CHECK(fault.target == 1);
    CHECK(fault.sm == ClusterBench::kFirstSm);
    if (left == Left::cga) {
      const auto& trap = bench.gpc.notice(Kind::trap).packet;
      CHECK(trap.tag.operation == 5);
      CHECK(trap.tag.cga_id == ClusterBench::kCga);
      CHECK(trap.tag.sequence == 1);
    }
  }
}

TEST_CASE("errors of a CTA that was stopped are swallowed", "[sm][CGA-08][CGA-11]") {
  for (const bool posted : {false, true}) {
    for (const Cycle abort : {1430U, 1700U, 2500U, 3100U}) {
      ClusterBench bench(2);
      bench.network.latency = 800;
      bench.launch(bench.add(stores_to_who_has_gone(!posted), 32, kShared, 3), {0, 1, 1});
      bench.gpc.abort(abort, 5);
      bench.run_to_end();
      CAPTURE(posted, abort);
      CHECK(bench.gpc.exits.size() == 3);
      CHECK(bench.gpc.count(Kind::trap) == 0);
      if (bench.faults.empty()) {
        // What it had sent is answered before it leaves.
        CHECK(bench.gpc.exit_of(0, ClusterBench::kCga).cycle > last_reply(bench));
      } else {
        CHECK(abort > last_reply(bench));
      }
    }
  }
}

TEST_CASE("a CTA that was stopped leaves when its stores to others have been answered", "[sm][CGA-11]") {
  for (const Cycle abort : {1000U, 4500U}) {  // before they arrive, and while the answers are under way
    ClusterBench bench(2);
    bench.network.latency = 3000;
    ListProgram p(4);
    p.cluster_arrive().cluster_wait();
    only_if(p, 1, rank_is(0));
    p.store(dsmem(), ListProgram::constant(1), of_neighbour(0, 4));
    p.compute(Unit::fp32, 50'000, {}, {});
    p.exit();
    bench.launch(bench.add(p, 32, kShared, 2), {0, 1});
    bench.gpc.abort(abort, 5);
    heddle::test::run_until(sc_core::sc_time(static_cast<double>(abort + 100), sc_core::SC_NS));
    CAPTURE(abort);
    CHECK(bench.sms[0]->resident() == 1);
    CHECK(bench.sms[0]->clusters().in_flight == 1);
    bench.run_to_end();
    REQUIRE(bench.gpc.exits.size() == 2);
    CHECK(last_reply(bench) > 6000);
    CHECK(bench.gpc.exit_of(0, ClusterBench::kCga).cycle == last_reply(bench) + FakeGpc::kDistance);
    CHECK(bench.gpc.exit_of(1, ClusterBench::kCga).cycle < abort + 100);
    CHECK(bench.faults.empty());
  }
}

TEST_CASE("a CTA of a stopped task that never ran answers the flush as well", "[sm][CGA-12]") {
  for (const TimingMode mode : kModes) {
    ClusterBench bench(2, {}, mode);
    ListProgram p(4);
    p.cluster_arrive().cluster_wait();
    p.exit();
    const std::uint32_t code = bench.add(p, 32, kShared, 2);
    bench.gpc.abort(0, 5);
    bench.launch(code, {0, 1}, 100);
    bench.run_to_end();
    CHECK(bench.gpc.exits.size() == 2);
    CHECK(bench.gpc.flushed.size() == 1);
  }
}

TEST_CASE("an id is used again when its CGA is flushed", "[sm][CGA-12]") {
  for (const TimingMode mode : kModes) {
    for (const bool at_once : {false, true}) {
      ClusterBench bench(3, {}, mode);
      bench.gpc.at_once = at_once;
      ListProgram p(4);
      p.cluster_arrive().cluster_wait();
      p.store(
          dsmem(), [](const Warp& w, std::uint32_t) { return w.place.cluster; }, of_neighbour(0, 4));
      p.cluster_arrive(Order::relaxed).cluster_wait();
      p.store(dsmem(), ListProgram::constant(9), of_neighbour(128, 4, 0));
      p.compute(Unit::fp32, 400, {}, {});
      p.exit();
      const std::uint32_t code = bench.add(p, 64, kShared, 3);
      for (std::uint64_t round = 0; round < 20; ++round) {
        const auto turn = static_cast<std::uint32_t>(round % 3);
        bench.launch(code, {turn, (turn + 1) % 3, (turn + 2) % 3}, bench.domain.now() + 1, ClusterBench::kCga,
                     100 + round);
        bench.run_to_end();
        REQUIRE(bench.gpc.flushed.size() == round + 1);
      }
      CHECK(bench.faults.empty());
    }
  }
}

TEST_CASE("an id that is used again while its CGA is in flight does not pass", "[sm][CGA-12]") {
  // As without a flush: the new CGA begins when the last CTA of the old one has left.
  const std::string failure = heddle::test::failure_of([] {
    ClusterBench bench(2);
    bench.gpc.at_once = true;
    bench.network.latency = 5000;
    ListProgram p(4);
    p.cluster_arrive().cluster_wait();
    p.store(dsmem(), ListProgram::constant(1), of_neighbour(0, 4));
    p.exit();
    const std::uint32_t code = bench.add(p, 32, kShared, 2);
    bench.launch(code, {0, 1});
    bench.launch(code, {0, 1}, 2000, ClusterBench::kCga, 2);
    heddle::test::run_until_idle();
  });
  CHECK_THAT(failure, Catch::Contains("CGA-12") && Catch::Contains("gpu.gpc.dsmem_flush is what prevents that"));
}

TEST_CASE("clusters and their waits are shown", "[sm][CGA-13]") {
  ClusterBench bench(2);
  ListProgram p(4);
  p.cluster_arrive();
  p.cluster_wait();
  only_if(p, 1, rank_is(0));
  p.exit();
  p.cluster_arrive();
  p.cluster_wait();
  p.exit();
  bench.launch(bench.add(p, 64, kShared, 3), {0, 1, 1});
  bench.run_to_end();
  const auto& kept = bench.observation.clusters.kept();
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].size == 3);
  CHECK(kept[0].gpc == ClusterBench::kGpc);
  CHECK(kept[0].local_id == ClusterBench::kCga);
  CHECK(kept[0].barriers == 2);
  CHECK(kept[0].ctas.size() == 3);
  for (const auto& cta : kept[0].ctas) CHECK(cta.end > cta.begin);
  const double stalls = bench.stat(0, "stall.cluster") + bench.stat(1, "stall.cluster");
  CHECK(static_cast<double>(kept[0].waited) == stalls);
  CHECK(stalls >= 2 * 3 * 300);
}

}  // namespace sm_cluster_exit_test
