// Bulk data and the warps of the SM: who goes on when they come, and whose fault it is if they do not fit.
#include <cstdint>
#include <cstring>

#include <catch2/catch.hpp>

#include "sm/bulk_requests.h"
#include "sm/cluster_bench.h"
#include "sm/program_bench.h"

namespace sm_bulk_data_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::BulkKind;
using heddle::arch::FaultKind;
using heddle::arch::OpCode;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::protocol::BulkTarget;
using heddle::protocol::MemoryRequest;
using heddle::protocol::RequestPool;
using heddle::test::always;
using heddle::test::block_of;
using heddle::test::ClusterBench;
using heddle::test::FakeTmau;
using heddle::test::ListProgram;
using heddle::test::load_block;
using heddle::test::only_if;
using heddle::test::ProgramBench;
using heddle::test::rank_is;

namespace {

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kShared = 1024;
constexpr std::uint32_t kBytes = 64;

// What load_block() asks for: every byte is 7.
MemoryRequest& data_of(RequestPool& pool, const FakeTmau::Seen& seen) {
  MemoryRequest& request = pool.acquire();
  const auto& packet = seen.packet;
  request.aim(tlm::TLM_READ_COMMAND, packet.request.global, kBytes);
  std::memset(request.data.data(), 7, kBytes);
  BulkTarget& target = request.extension.bulk.get();
  target = {};
  target.piece.address = packet.request.global;
  target.piece.shared = packet.request.shared;
  target.piece.bytes = kBytes;
  target.piece.inside = heddle::arch::ByteMask::first(kBytes);
  target.by_rank = packet.by_rank;
  target.ctas = packet.ctas;
  target.barrier = packet.request.barrier;
  target.cta_slot = packet.cta_slot;
  target.cga_id = packet.cga_id;
  target.rank = packet.rank;
  target.sequence = packet.sequence;
  target.cta = packet.cta;
  target.warp = packet.warp;
  return request;
}

}  // namespace

TEST_CASE("a warp that waits for an mbarrier goes on when its bytes are there", "[sm][TMA-40]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    RequestPool pool;
    Cycle sent = 0;
    bench.tmau.answer = [&](const FakeTmau::Seen& seen, FakeTmau::Done&) {
      sent = seen.cycle + 1000;
      bench.tmau.data_out.send_at(sent, {&data_of(pool, seen), {}});
      return sent + 500;
    };
    ListProgram::Access shared;
    shared.space = Space::shared;
    ListProgram p(4);
    p.mbarrier_init(0, 1);
    p.mbarrier_arrive(Space::shared, 0, 1, kBytes);
    load_block(p, 1);
    p.mbarrier_wait(0, 0);
    p.special(heddle::arch::SpecialRegister::clock, 2, 2);
    p.load(shared, 0, ListProgram::constant(128 + kBytes - 4));
    p.store({}, ListProgram::of_register(0), ListProgram::linear(0, 4), {{0, 1}});
    p.store({}, ListProgram::of_register(2), ListProgram::linear(4096, 4), {{2, 2}});
    p.exit();
    bench.run(p, 32, kShared);
    CHECK(bench.faults.empty());
    CHECK(bench.l2.get<std::uint32_t>(0) == 0x0707'0707);
    CHECK(bench.l2.get<std::uint32_t>(4096) >= sent);
    CHECK(bench.l2.get<std::uint32_t>(4096) < sent + 60);
    CHECK(pool.in_use() == 0);
  }
}

TEST_CASE("data that do not fit are a fault of the CTA that asked, at its step", "[sm][TMA-40][TMA-06]") {
  for (const bool barrier : {false, true}) {
    ProgramBench bench;
    RequestPool pool;
    bench.tmau.answer = [&](const FakeTmau::Seen& seen, FakeTmau::Done&) {
      MemoryRequest& request = data_of(pool, seen);
      // Either there is no mbarrier, or the box is larger than what the CTA has.
      if (!barrier) request.extension.bulk.get().piece.shared = kShared - 16;
      bench.tmau.data_out.send_at(seen.cycle + 300, {&request, {}});
      return seen.cycle + 900;
    };
    ListProgram p(4);
    if (!barrier) p.mbarrier_init(0, 1).mbarrier_arrive(Space::shared, 0, 1, kBytes);
    load_block(p, 1, "load x (line 4)");
    p.compute(Unit::fp32, 5000, {}, {});
    p.exit();
    bench.run(p, 32, kShared);
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].kind == (barrier ? FaultKind::mbarrier : FaultKind::shared_bounds));
    CHECK(bench.faults[0].operation == OpCode::bulk_load);
    CHECK(bench.faults[0].where == "load x (line 4)");
    CHECK_FALSE(bench.faults[0].of_cga);
    CHECK(bench.mpc.exits[0].first >= 900);  // its request has to end first
    CHECK(bench.mpc.exits[0].first < 1500);
    CHECK(pool.in_use() == 0);
    CHECK(bench.sm.quiescent());
  }
}

TEST_CASE("data for a CTA that has exited are an error of its cluster", "[sm][CGA-08][TMA-30]") {
  for (const bool together : {false, true}) {
    ClusterBench bench(2);
    RequestPool pool;
    const std::uint32_t receiver = together ? 0 : 1;
    bench.tmaus[0]->answer = [&](const FakeTmau::Seen& seen, FakeTmau::Done&) {
      CHECK(seen.packet.by_rank);
      bench.tmaus[receiver]->data_out.send_at(seen.cycle + 2000,
                                              {&data_of(pool, seen), heddle::protocol::SmInGpc(receiver)});
      return seen.cycle + 3000;
    };
    heddle::arch::BulkRequest request = block_of(BulkKind::load, 4096, kBytes, 128, 0);
    request.multicast = 0b10;
    ListProgram p(2);
    p.compute(Unit::fp32, 50, {}, {});
    only_if(p, 1, rank_is(0));
    p.bulk(OpCode::bulk_load, always(request));
    p.exit();
    bench.launch(bench.add(p, 32, kShared, 2), {0, receiver});
    bench.run_to_end();
    REQUIRE(bench.faults.size() == 1);
    const heddle::arch::FaultRecord& fault = bench.faults[0];
    CHECK(fault.kind == FaultKind::cta_not_present);
    CHECK(fault.of_cga);
    CHECK(fault.target == 1);
    CHECK(fault.cta_id_in_cga == 0);
    CHECK(fault.gpc_local_cga_id == ClusterBench::kCga);
    // The SM of the receiver tells the MPC, unless the CTA that asked is here to be stopped.
    CHECK(bench.gpc.count(heddle::test::FakeGpc::Kind::trap) == (together ? 0U : 1U));
    CHECK(bench.gpc.exit_of(0, ClusterBench::kCga).packet.faulted == together);
    CHECK(pool.in_use() == 0);
  }
}

}  // namespace sm_bulk_data_test
