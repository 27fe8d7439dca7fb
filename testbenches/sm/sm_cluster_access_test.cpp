// Accesses of programs to shared memory of their cluster: what they reach and cost, and what is wrong with them.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/cluster_bench.h"

namespace sm_cluster_access_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::dsmem_address;
using heddle::arch::FaultKind;
using heddle::arch::FaultRecord;
using heddle::arch::kNoRegister;
using heddle::arch::OpCode;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Space;
using heddle::arch::SpecialRegister;
using heddle::arch::Unit;
using heddle::arch::ValueType;
using heddle::test::ClusterBench;
using heddle::test::dsmem;
using heddle::test::FakeGpc;
using heddle::test::ListProgram;
using heddle::test::no_past_pcs;
using heddle::test::of_neighbour;
using heddle::test::only_if;
using heddle::test::own_shared;
using heddle::test::rank_is;
using heddle::test::Warp;

namespace {

using Kind = heddle::protocol::ClusterNoticePacket::Kind;
constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kShared = 1024;

// One access of CTA 0, lane 5 first, of a cluster of two; CTA 1 stays there for long.
struct Case {
  std::vector<FaultRecord> faults;
  std::vector<FakeGpc::Exit> exits;
};
template <class Add>
Case one_access(Add add, TimingMode mode = TimingMode::at, Cycle second_at = 0, bool same_sm = false) {
  ClusterBench bench(2, no_past_pcs(), mode);
  ListProgram p(8);
  only_if(p, 2, rank_is(1));
  p.compute(Unit::fp32, 4000, {}, {});
  p.exit();
  p.compute(Unit::fp32, 100, {}, {});
  add(p);
  p.compute(Unit::fp32, 1000, {{1, 4}}, {});
  p.exit();
  const std::uint32_t code = bench.add(p, 32, kShared, 2);
  bench.gpc.start(0, 0, bench.packet(code, 0, 0));
  bench.gpc.start(second_at, same_sm ? 0 : 1, bench.packet(code, 1, 1));
  bench.run_to_end();
  return {bench.faults, bench.gpc.exits};
}
ListProgram::Access from_lane_5(std::uint8_t width = 4) {
  ListProgram::Access access = dsmem(width);
  access.lanes = [](const Warp&) { return 0xFFFF'FFE0U; };
  return access;
}
void load_at(ListProgram& p, std::uint64_t address, std::uint64_t stride = 0, std::uint8_t width = 4) {
  p.load(from_lane_5(width), 1, [=](const Warp&, std::uint32_t lane) { return address + stride * (lane - 5); });
}

// Of a load that everything waits for, in cycles.
Cycle load_latency(std::uint32_t next, bool same_sm) {
  ClusterBench bench(2);
  ListProgram p(8);
  p.cluster_arrive().cluster_wait();
  p.special(SpecialRegister::clock, 0);
  p.load(dsmem(), 1, of_neighbour(0, 4, next));
  p.set(2, ListProgram::of_register(1), {{1, 1}});
  p.special(SpecialRegister::clock, 3);
  p.store_registers({}, 0, ListProgram::linear(0, 4));
  p.store_registers({}, 3, ListProgram::linear(128, 4));
  p.cluster_arrive().cluster_wait();
  p.exit();
  bench.launch(bench.add(p, 32, kShared, 2), {0, same_sm ? 0U : 1U});
  bench.run_to_end();
  CHECK(bench.faults.empty());
  return bench.l2[0]->get<std::uint32_t>(128) - bench.l2[0]->get<std::uint32_t>(0) - 2;
}

}  // namespace

TEST_CASE("shared memory of the cluster is as far as it was measured", "[sm][CGA-06]") {
  CHECK(load_latency(0, false) == 33);
  CHECK(load_latency(1, false) == 33 + 2 * 80);
  CHECK(load_latency(0, true) >= 33);  // two CTAs share the port
  CHECK(load_latency(0, true) <= 34);
  CHECK(load_latency(1, true) <= 34);
}

TEST_CASE("CTAs of a cluster exchange what they wrote", "[sm][CGA-06]") {
  // Every CTA writes a row to each other one, then adds to a counter of each by atomics, then reads all rows of all.
  for (const TimingMode mode : kModes) {
    for (const std::vector<std::uint32_t>& where :
         {std::vector<std::uint32_t>{0, 1, 2, 3}, {0, 0, 1, 1}, {2, 2, 2, 2}, {3, 1, 3, 0}}) {
      const auto ctas = static_cast<std::uint32_t>(where.size());
      ClusterBench bench(4, {}, mode);
      ListProgram p(8);
      p.cluster_arrive().cluster_wait();
      for (std::uint32_t next = 0; next < ctas; ++next) {
        const auto row = [=](const Warp& w, std::uint32_t lane) {
          return dsmem_address((w.place.rank + next) % ctas, 128 * w.place.rank + 4 * lane);
        };
        p.store(
            dsmem(), [=](const Warp& w, std::uint32_t lane) { return 1000 * w.place.rank + 10 * lane + next; }, row);
        p.atomic(dsmem(), heddle::arch::AtomicKind::add, ValueType::u32, next % 2 == 0 ? kNoRegister : 3,
                 ListProgram::constant(1), of_neighbour(kShared - 128, 4, next));
      }
      p.cluster_arrive().cluster_wait();
      for (std::uint32_t next = 0; next < ctas; ++next) {
        for (std::uint32_t from = 0; from <= ctas; ++from) {
          const std::uint32_t offset = from == ctas ? kShared - 128 : 128 * from;
          p.load(dsmem(), 1, of_neighbour(offset, 4, next));
          p.store_registers({}, 1, [=](const Warp& w, std::uint32_t lane) {
            return 8192 * w.place.rank + 1024 * next + 128 * from + 4 * lane;
          });
        }
      }
      p.cluster_arrive().cluster_wait();
      p.exit();
      bench.launch(bench.add(p, 32, kShared, ctas), where);
      bench.run_to_end();
      REQUIRE(bench.faults.empty());
      REQUIRE(bench.gpc.exits.size() == ctas);
      std::size_t wrong = 0;
      for (std::uint32_t rank = 0; rank < ctas; ++rank) {
        for (std::uint32_t next = 0; next < ctas; ++next) {
          const std::uint32_t owner = (rank + next) % ctas;
          for (std::uint32_t from = 0; from <= ctas; ++from) {
            for (std::uint32_t lane = 0; lane < 32; ++lane) {
              const std::uint32_t expected =
                  from == ctas ? ctas : 1000 * from + 10 * lane + (owner + ctas - from) % ctas;
              const std::uint32_t at = 8192 * rank + 1024 * next + 128 * from + 4 * lane;
              wrong += bench.l2[where[rank]]->get<std::uint32_t>(at) != expected ? 1 : 0;
            }
          }
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the source sees what is no address of its cluster", "[sm][CGA-07]") {
  const std::uint32_t largest = heddle::sm::SmParams{}.limits.max_shared_per_cta;
  for (const TimingMode mode : kModes) {
    const auto only = [mode](auto add, Cycle second_at = 0) {
      const Case result = one_access(add, mode, second_at);
      REQUIRE(result.faults.size() == 1);
      return result.faults[0];
    };
    for (const std::uint64_t rank : {std::uint64_t{2}, std::uint64_t{255}, std::uint64_t{1} << 30}) {
      const FaultRecord fault = only([=](ListProgram& p) { load_at(p, rank << 24, 0); });
      CHECK(fault.kind == FaultKind::cluster_rank);
      CHECK(fault.lane == 5);
      CHECK(fault.warp == 0);
      CHECK(fault.operation == OpCode::load);
      CHECK(fault.address == rank << 24);
      CHECK(fault.gpc_local_cga_id == ClusterBench::kCga);
      CHECK(fault.cta_id_in_cga == 0);
      CHECK_FALSE(fault.of_cga);
    }
    const FaultRecord beyond = only([=](ListProgram& p) { load_at(p, dsmem_address(1, largest - 8), 4); });
    CHECK(beyond.kind == FaultKind::cluster_offset);
    CHECK(beyond.lane == 7);
    CHECK(beyond.target == 1);
    const FaultRecord crooked = only([=](ListProgram& p) { load_at(p, dsmem_address(1, 4), 0, 8); });
    CHECK(crooked.kind == FaultKind::misaligned);
    const FaultRecord early = only([](ListProgram& p) { load_at(p, dsmem_address(1, 0)); }, 1000);
    CHECK(early.kind == FaultKind::cluster_absent);
    CHECK(early.target == 1);
    CHECK(early.lane == 5);
    const FaultRecord copy =
        only([](ListProgram& p) { p.async_copy(dsmem(), ListProgram::linear(0, 4), ListProgram::linear(0, 4)); });
    CHECK(copy.kind == FaultKind::unsupported);
  }
}

TEST_CASE("the target sees what is beyond its window", "[sm][CGA-08]") {
  for (const TimingMode mode : kModes) {
    for (const bool same_sm : {false, true}) {
      for (const bool posted : {false, true}) {
        const Case result = one_access(
            [=](ListProgram& p) {
              if (posted) {
                p.store(dsmem(), ListProgram::constant(1), ListProgram::linear(dsmem_address(1, kShared - 64), 4));
              } else {
                load_at(p, dsmem_address(1, kShared - 64), 4);
              }
            },
            mode, 0, same_sm);
        CAPTURE(same_sm, posted);
        REQUIRE(result.faults.size() == 1);
        const FaultRecord& fault = result.faults[0];
        CHECK(fault.kind == FaultKind::out_of_range);
        CHECK(fault.of_cga);
        CHECK(fault.task == 5);
        CHECK(fault.cta == 2);
        CHECK(fault.cga == 1);
        CHECK(fault.gpc == ClusterBench::kGpc);
        CHECK(fault.gpc_local_cga_id == ClusterBench::kCga);
        CHECK(fault.cta_id_in_cga == 0);
        CHECK(fault.target == 1);
        CHECK(fault.address == kShared);
        CHECK(fault.where.empty());
        for (const FakeGpc::Exit& exit : result.exits) CHECK(exit.packet.faulted == (exit.packet.rank == 0));
      }
    }
  }
  // The last bytes are inside.
  CHECK(one_access([](ListProgram& p) { load_at(p, dsmem_address(1, kShared - 27 * 4), 4); }).faults.empty());
}

// [0252]: a FIFO of past pcs attributes an error to warp, thread and pc until the pc has dropped out of it.
TEST_CASE("an error that comes back is the instruction's while its pc is in the FIFO", "[sm][CGA-07][CGA-08]") {
  for (const std::uint32_t depth : {0U, 1U, 3U, 8U}) {
    for (const std::uint32_t behind : {0U, 1U, 2U, 3U, 7U, 8U, 20U}) {
      heddle::sm::SmParams params;
      params.memory.pc_fifo = depth;
      ClusterBench bench(2, params);
      bench.network.latency = 500;
      ListProgram p(4);
      p.cluster_arrive().cluster_wait();
      only_if(p, 2, rank_is(1));
      p.compute(Unit::fp32, 4000, {}, {});
      p.exit();
      p.store(dsmem(), ListProgram::constant(1), ListProgram::linear(dsmem_address(1, kShared - 20), 4));
      for (std::uint32_t i = 0; i < behind; ++i) p.set(2, ListProgram::constant(i));
      // It stays in one operation until the error has come; that one's pc is in the FIFO as well.
      p.compute(Unit::fp32, 3000, {}, {});
      p.exit();
      bench.launch(bench.add(p, 64, kShared, 2), {0, 1});
      bench.run_to_end();
      CAPTURE(depth, behind);
      REQUIRE(bench.faults.size() >= 1);
      const FaultRecord& fault = bench.faults[0];
      CHECK(fault.kind == FaultKind::out_of_range);
      CHECK(fault.target == 1);
      CHECK(fault.cta_id_in_cga == 0);
      const bool known = behind + 1 < depth;
      CHECK(fault.of_cga == !known);
      if (known) {
        CHECK(fault.lane == 5);
        CHECK(fault.operation == OpCode::store);
        CHECK(fault.address == dsmem_address(1, kShared));
      } else {
        CHECK(fault.address == kShared);
        CHECK(fault.where.empty());
      }
    }
  }
}

TEST_CASE("a handler reads whose access a target has refused", "[sm][CGA-08][CGA-10]") {
  ClusterBench bench(2);
  const auto reads = [](ListProgram& p) {
    p.special(SpecialRegister::trap_gpc_local_cga_id, 0);
    p.store_registers({}, 0, ListProgram::linear(0, 4));
    p.special(SpecialRegister::trap_cga_cta_id, 0);
    p.store_registers({}, 0, ListProgram::linear(256, 4));
    p.exit();
  };
  ListProgram before(2);
  reads(before);
  auto packet = bench.packet(bench.add(before, 32, 0, 1), 0, 9);
  packet.tag.cga_id = std::nullopt;
  bench.gpc.start(0, 0, packet);
  heddle::test::run_until_idle();
  CHECK(bench.l2[0]->get<std::uint32_t>(0) == heddle::arch::kNoLocalCgaId);
  CHECK(bench.l2[0]->get<std::uint32_t>(256) == heddle::arch::kNoLocalCgaId);
  ListProgram p(4);
  p.cluster_arrive().cluster_wait();
  only_if(p, 2, rank_is(0));
  p.compute(Unit::fp32, 4000, {}, {});
  p.exit();
  p.store(dsmem(), ListProgram::constant(1), ListProgram::linear(dsmem_address(0, kShared), 4));
  p.exit();
  const Cycle now = bench.domain.now();
  bench.launch(bench.add(p, 32, kShared, 2), {0, 1}, now + 10, 33);
  heddle::test::run_until_idle();
  REQUIRE(bench.faults.size() == 1);
  ListProgram handler(2);
  reads(handler);
  for (const std::uint32_t sm : {0U, 1U}) {
    packet = bench.packet(bench.add(handler, 32, 0, 1), 0, 9);
    packet.tag.cga_id = std::nullopt;
    bench.gpc.start(bench.domain.now() + 10, sm, packet);
  }
  bench.run_to_end();
  CHECK(bench.l2[1]->get<std::uint32_t>(0) == 33);
  CHECK(bench.l2[1]->get<std::uint32_t>(256) == 1);
  CHECK(bench.l2[0]->get<std::uint32_t>(0) == heddle::arch::kNoLocalCgaId);  // the target has no part in it
}

TEST_CASE("corrupt data are an error where they are read", "[sm][CGA-08]") {
  for (const TimingMode mode : kModes) {
    for (const std::uint32_t how : {0U, 1U, 2U, 3U, 4U}) {
      ClusterBench bench(2, no_past_pcs(), mode);
      ListProgram p(8);
      p.cluster_arrive().cluster_wait();
      only_if(p, 3, rank_is(1));
      p.cluster_arrive().cluster_wait();
      p.exit();
      if (how == 0) p.load(dsmem(), 1, ListProgram::linear(dsmem_address(1, 0), 16));
      if (how == 1) p.load(own_shared(), 1, ListProgram::linear(0, 16));
      if (how == 2) p.store(dsmem(), ListProgram::constant(1), ListProgram::linear(dsmem_address(1, 0), 4));
      if (how == 3) p.mbarrier_init(256, 1).mbarrier_arrive(Space::shared, 256);
      if (how == 4) p.mbarrier_test(256, 0, 1);
      p.cluster_arrive().cluster_wait();
      p.exit();
      bench.launch(bench.add(p, 32, kShared, 2), {0, 1});
      if (mode != TimingMode::lt) {
        heddle::test::run_until(sc_core::sc_time(100, sc_core::SC_NS));
      } else {
        heddle::test::start();
      }
      for (const auto& [sm, slot] : {std::pair{0U, 0U}, std::pair{1U, 1U}}) bench.sms[sm]->poison_shared(slot, 260, 1);
      heddle::test::run_until_idle();
      CAPTURE(how);
      if (how == 2) {
        CHECK(bench.faults.empty());
        continue;
      }
      REQUIRE(bench.faults.size() == 1);
      // What is initialised covers a part of what is corrupt only.
      if (how == 3) CHECK(bench.faults[0].operation == OpCode::mbarrier_arrive);
      CHECK(bench.faults[0].kind == FaultKind::poison);
      CHECK(bench.faults[0].of_cga == (how == 0));
      if (how == 1) CHECK(bench.faults[0].lane == 16);
    }
  }
}

TEST_CASE("a release waits for stores to other CTAs", "[sm][CGA-06][MEM-06]") {
  for (const Order order : {Order::release, Order::acquire_release}) {
    ClusterBench bench(2);
    bench.network.latency = 2000;
    ListProgram p(8);
    p.cluster_arrive().cluster_wait();
    p.store(dsmem(), ListProgram::constant(1), of_neighbour(0, 4));
    p.special(SpecialRegister::clock, 0);
    p.fence(order, Scope::cluster);
    p.special(SpecialRegister::clock, 1);
    p.store_registers({}, 0, ListProgram::linear(0, 4));
    p.store_registers({}, 1, ListProgram::linear(128, 4));
    p.cluster_arrive().cluster_wait();
    p.exit();
    bench.launch(bench.add(p, 32, kShared, 2), {0, 1});
    bench.run_to_end();
    CHECK(bench.faults.empty());
    const std::uint32_t waited = bench.l2[0]->get<std::uint32_t>(128) - bench.l2[0]->get<std::uint32_t>(0);
    const Cycle fence = bench.l2[0]->latency;
    CHECK(waited >= 4000 + fence);
    CHECK(waited < 4200 + fence);
  }
}

TEST_CASE("a full network holds requests back", "[sm][CGA-06]") {
  // One credit: the exchange takes long, and loses nothing.
  heddle::sm::SmParams params;
  params.memory.cluster_queue = 1;
  params.memory.request_queue = 2;
  ClusterBench bench(3, params, TimingMode::at, 1);
  bench.network.extra = [](const heddle::protocol::DsmemPacket& packet, bool reply) {
    return Cycle{packet.rank * 20 + (reply ? 7 : 0)};
  };
  ListProgram p(8);
  p.cluster_arrive().cluster_wait();
  for (std::uint32_t i = 0; i < 12; ++i) {
    p.atomic(dsmem(), heddle::arch::AtomicKind::add, ValueType::u32, i % 3 == 0 ? 2 : kNoRegister,
             ListProgram::constant(1), of_neighbour(0, 4, 1 + i % 2));
    p.atomic(dsmem(), heddle::arch::AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::constant(1),
             of_neighbour(0, 132 / 4 * 4, 1 + i % 2));
  }
  p.cluster_arrive().cluster_wait();
  p.load(own_shared(), 1, ListProgram::linear(0, 4));
  p.store_registers({}, 1, [](const Warp& w, std::uint32_t lane) { return 128 * w.place.rank + 4 * lane; });
  p.exit();
  bench.launch(bench.add(p, 64, 8192, 3), {0, 1, 2});
  bench.run_to_end();
  REQUIRE(bench.faults.empty());
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(bench.l2[rank]->get<std::uint32_t>(128 * rank) == 2 * 12 * 2);
    CHECK(bench.l2[rank]->get<std::uint32_t>(128 * rank + 4) == 2 * 12);
  }
}

}  // namespace sm_cluster_access_test
