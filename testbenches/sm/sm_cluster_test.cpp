// Clusters on their SMs: what a CTA knows of its cluster, how far it reaches, and resets.
#include <cstdint>
#include <memory>

#include <catch2/catch.hpp>

#include "sm/cluster_bench.h"

namespace sm_cluster_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::FaultKind;
using heddle::arch::SpecialRegister;
using heddle::test::ClusterBench;
using heddle::test::ListProgram;
using heddle::test::Warp;

namespace {

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};

}  // namespace

// A CTA of a GPU_CGA and, inside it, of a GPC_CGA or of none; rank 0 of its GPC_CGA.
TEST_CASE("a CTA arrives at the barrier of the level that it names, and passes that one", "[sm][CWD-09][CGA-13]") {
  using heddle::arch::CgaLevel;
  using Notice = heddle::protocol::ClusterNoticePacket;
  for (const bool nested : {false, true}) {
    ClusterBench bench(1);
    ListProgram p(4);
    p.cluster_arrive();  // of the innermost CGA
    p.cluster_arrive(heddle::arch::Order::relaxed, CgaLevel::gpu);
    if (!nested) p.exit();
    p.cluster_wait(heddle::arch::Order::acquire, CgaLevel::gpu);
    p.special(SpecialRegister::clock, 0);
    p.store_registers({}, 0, ListProgram::linear(0, 4));
    p.cluster_wait();
    p.special(SpecialRegister::clock, 0);
    p.store_registers({}, 0, ListProgram::linear(256, 4));
    p.exit();
    auto packet = bench.packet(bench.add(p, 32, 256, 2), 0, 0);
    if (!nested) packet.tag.cga_id = std::nullopt;
    packet.tag.barriers.gpu = heddle::protocol::BarrierSlot(5);
    bench.gpc.start(0, 0, packet);
    heddle::test::run_until(sc_core::sc_time(2000, sc_core::SC_NS));
    std::vector<CgaLevel> levels;
    for (const auto& notice : bench.gpc.notices) {
      if (notice.packet.kind == Notice::Kind::arrived) levels.push_back(notice.packet.level);
    }
    CAPTURE(nested);
    if (!nested) {
      // The second arrival without a wait is one too many: both mean the same barrier.
      CHECK(levels == std::vector<CgaLevel>{CgaLevel::gpu});
      REQUIRE(bench.faults.size() == 1);
      CHECK(bench.faults[0].kind == FaultKind::barrier);
      continue;
    }
    CHECK(levels == std::vector<CgaLevel>{CgaLevel::gpc, CgaLevel::gpu});
    CHECK(bench.faults.empty());
    const auto order = [&](CgaLevel level) {
      heddle::protocol::ClusterOrderPacket order_packet;
      order_packet.cga_id = heddle::protocol::CgaId(ClusterBench::kCga);
      order_packet.sequence = 1;
      order_packet.level = level;
      order_packet.barrier = heddle::protocol::BarrierSlot(5);
      bench.gpc.order_out.send(order_packet, 0);
    };
    order(CgaLevel::gpc);  // it waits for the other one
    heddle::test::run_until(sc_core::sc_time(3000, sc_core::SC_NS));
    order(CgaLevel::gpu);
    heddle::test::run_until(sc_core::sc_time(4000, sc_core::SC_NS));
    const auto passed = bench.l2[0]->get<std::uint32_t>(0);
    CHECK(passed >= 3000 + 4);
    CHECK(passed < 3100);
    CHECK(bench.l2[0]->get<std::uint32_t>(256) < 3200);  // the inner phase was over long ago
    CHECK(bench.l2[0]->get<std::uint32_t>(256) > passed);
  }
}

TEST_CASE("a barrier of a level that the CTA has no CGA of is a fault", "[sm][CWD-09]") {
  for (const bool wait : {false, true}) {
    ClusterBench bench(1);
    ListProgram p(4);
    if (wait) p.cluster_arrive(heddle::arch::Order::relaxed);
    if (wait) {
      p.cluster_wait(heddle::arch::Order::relaxed, heddle::arch::CgaLevel::ugpu);
    } else {
      p.cluster_arrive(heddle::arch::Order::relaxed, heddle::arch::CgaLevel::ugpu);
    }
    p.exit();
    auto packet = bench.packet(bench.add(p, 32, 256, 2), 0, 0);
    packet.tag.barriers.gpu = heddle::protocol::BarrierSlot(5);
    bench.gpc.start(0, 0, packet);
    heddle::test::run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == FaultKind::barrier);
  }
}

TEST_CASE("the CTAs of a CGA beyond its GPC do not reach each other", "[sm][CGA-15]") {
  for (const bool arrival : {false, true}) {
    ClusterBench bench(1);
    ListProgram p(4);
    if (arrival) {
      p.mbarrier_arrive(heddle::arch::Space::cluster, heddle::arch::dsmem_address(1, 64));
    } else {
      p.load(heddle::test::dsmem(), 1, heddle::test::of_neighbour(64, 4));
    }
    p.exit();
    auto packet = bench.packet(bench.add(p, 32, 256, 2), 0, 0);
    packet.tag.cga_id = std::nullopt;
    bench.gpc.start(0, 0, packet);
    bench.run_to_end();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == FaultKind::cluster_domain);
    CHECK(bench.faults[0].target == 1);
    CHECK(bench.faults[0].address == heddle::arch::dsmem_address(1, 64));
    CHECK(bench.gpc.exits.at(0).packet.faulted);
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
  packet.tag.cga_id = std::nullopt;
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
  std::uint8_t index = 0;
  for (const std::uint32_t size : {8U, 4U, 2U}) {
    heddle::protocol::CtaStartPacket start;
    start.id.size = index++;
    start.tag.cga_id = heddle::protocol::CgaId(size);
    start.cta_slot = heddle::protocol::CtaSlot(size);
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
      if (mode != TimingMode::lt) {
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

}  // namespace sm_cluster_test
