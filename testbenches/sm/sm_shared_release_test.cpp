// CTAs that give back the end of their shared memory before they exit.
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/cluster_bench.h"

namespace sm_shared_release_test {

using heddle::TimingMode;
using heddle::arch::FaultKind;
using heddle::arch::Resource;
using heddle::arch::Unit;
using heddle::test::ClusterBench;
using heddle::test::dsmem;
using heddle::test::FakeGpc;
using heddle::test::ListProgram;
using heddle::test::of_neighbour;
using heddle::test::only_if;
using heddle::test::own_shared;
using heddle::test::rank_is;
using heddle::test::Warp;

namespace {

using Kind = heddle::protocol::ClusterNoticePacket::Kind;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kShared = 1024;

}  // namespace

TEST_CASE("a CTA gives the end of its shared memory back", "[sm][CGA-09]") {
  for (const TimingMode mode : kModes) {
    ClusterBench bench(2, {}, mode);
    ListProgram p(8);
    p.cluster_arrive().cluster_wait();
    p.release_shared(1000);
    p.release_shared(500);
    p.release_shared(700);  // gone already
    p.cluster_arrive().cluster_wait();
    p.load(dsmem(), 1, of_neighbour(372, 4));
    p.cluster_arrive().cluster_wait();
    p.compute(Unit::fp32, 5000, {{1, 1}}, {});
    p.exit();
    const std::uint32_t code = bench.add(p, 32, kShared, 2);
    bench.launch(code, {0, 1});
    bench.run_to_end();
    CHECK(bench.faults.empty());
    // 1024 + 1024 bytes become 1000 + 1024, rounded to 128: 2048, and 500 + 1024: 1536.
    CHECK(bench.gpc.count(Kind::shared_released) == 2);
    const auto& notice = bench.gpc.notice(Kind::shared_released).packet;
    CHECK(notice.bytes == 512);
    CHECK(notice.tag.cga_id == ClusterBench::kCga);
    REQUIRE(bench.gpc.exits.size() == 2);
    for (const FakeGpc::Exit& exit : bench.gpc.exits) CHECK(exit.packet.released_shared_bytes == 512);
    for (const auto& sm : bench.sms) CHECK(sm->used() == heddle::arch::ResourceVector{});
  }
}

TEST_CASE("what a CTA has given back is nobody's", "[sm][CGA-09][CGA-08]") {
  for (const TimingMode mode : kModes) {
    for (const bool own : {false, true}) {
      ClusterBench bench(2, heddle::test::no_past_pcs(), mode);
      ListProgram p(8);
      p.release_shared(512);
      p.cluster_arrive().cluster_wait();
      only_if(p, 3, rank_is(1));
      p.cluster_arrive().cluster_wait();
      p.exit();
      if (own) {
        p.store(own_shared(), ListProgram::constant(1), ListProgram::linear(512 - 4, 4));
      } else {
        p.store(dsmem(), ListProgram::constant(1), of_neighbour(512 - 4, 4));
      }
      p.cluster_arrive().cluster_wait();
      p.exit();
      bench.launch(bench.add(p, 32, kShared, 2), {0, 1});
      bench.run_to_end();
      REQUIRE(bench.faults.size() == 1);
      CHECK(bench.faults[0].kind == (own ? FaultKind::shared_bounds : FaultKind::out_of_range));
      CHECK(bench.faults[0].of_cga == !own);
      CHECK(bench.faults[0].address == 512);
    }
  }
}

TEST_CASE("shared memory that was given back is there for another CTA", "[sm][CGA-09]") {
  ClusterBench bench(1);
  const std::uint32_t all = heddle::arch::SmLimits{}.max_shared_per_cta;
  ListProgram p(8);
  p.release_shared(0);
  p.compute(Unit::fp32, 10'000, {}, {});
  p.exit();
  const std::uint32_t code = bench.add(p, 32, all, 1);
  for (const std::uint32_t slot : {0U, 1U}) {
    auto packet = bench.packet(code, 0, slot);
    packet.tag.cga_id = std::nullopt;
    if (slot == 1) packet.need[Resource::shared_bytes] = 1024 + 128 * 1000;
    if (slot == 1) packet.code = bench.add(p, 32, 128 * 1000, 1);
    bench.gpc.start(slot * 1000, 0, packet);
  }
  heddle::test::run_until(sc_core::sc_time(500, sc_core::SC_NS));
  CHECK(bench.sms[0]->used()[Resource::shared_bytes] == 1024);
  bench.run_to_end();
  CHECK(bench.gpc.exits.size() == 2);
  CHECK(bench.sms[0]->used() == heddle::arch::ResourceVector{});
}

TEST_CASE("the L1 is what is left when shared memory was given back", "[sm][CGA-09][MEM-01]") {
  ClusterBench bench(1);
  constexpr std::uint32_t kKib = 1024;
  const auto program = [](bool gives_back, std::uint32_t cycles) {
    ListProgram p(4);
    if (gives_back) p.release_shared(10 * kKib);
    p.compute(Unit::fp32, cycles, {}, {});
    p.exit();
    return p;
  };
  const auto start = [&](heddle::Cycle cycle, std::uint32_t slot, const ListProgram& p, std::uint32_t kib) {
    auto packet = bench.packet(bench.add(p, 32, kib * kKib, 1), 0, slot);
    packet.tag.cga_id = std::nullopt;
    bench.gpc.start(cycle, 0, packet);
  };
  const auto at = [&bench](std::uint32_t cycle) {
    heddle::test::run_until(sc_core::sc_time(static_cast<double>(cycle), sc_core::SC_NS));
    return bench.sms[0]->core().memory.l1.capacity() / kKib;
  };
  // Of 256 KiB; the carve-out is the smallest that holds all windows, each with 1 KiB more.
  start(0, 0, program(true, 3000), 90);
  start(1000, 1, program(false, 200), 90);
  start(5000, 2, program(false, 200), 10);
  CHECK(at(15) == 256 - 100);
  CHECK(at(1100) == 256 - 132);  // of 11 and 91
  CHECK(at(5100) == 256 - 16);   // of 11 alone
  bench.run_to_end();
  CHECK(bench.gpc.exits.size() == 3);
}

TEST_CASE("a release is only of what the CTA had", "[sm][CGA-09]") {
  ClusterBench bench(1);
  ListProgram p(4);
  p.release_shared(kShared);
  p.release_shared(kShared + 1);
  p.exit();
  auto packet = bench.packet(bench.add(p, 32, kShared, 1), 0, 0);
  packet.tag.cga_id = std::nullopt;
  bench.gpc.start(0, 0, packet);
  bench.run_to_end();
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].kind == FaultKind::shared_bounds);
  CHECK(bench.gpc.notices.empty());
}

}  // namespace sm_shared_release_test
