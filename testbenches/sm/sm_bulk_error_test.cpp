// Requests to the TMAU that come to nothing: rules that the SM finds broken, drops, errors of memory, and CTAs that end
// meanwhile.
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/bulk_requests.h"
#include "sm/cluster_bench.h"
#include "sm/program_bench.h"

namespace sm_bulk_error_test {

using Catch::Matchers::Contains;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::BulkKind;
using heddle::arch::BulkRequest;
using heddle::arch::FaultKind;
using heddle::arch::OpCode;
using heddle::arch::TensorRule;
using heddle::arch::Unit;
using heddle::sm::SmParams;
using heddle::sm::TensorErrors;
using heddle::test::always;
using heddle::test::block_of;
using heddle::test::ClusterBench;
using heddle::test::FakeTmau;
using heddle::test::ListProgram;
using heddle::test::load_block;
using heddle::test::only_if;
using heddle::test::ProgramBench;
using heddle::test::rank_is;
using heddle::test::store_block;
using heddle::test::tensor_of;

namespace {

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kShared = 1024;
using Done = FakeTmau::Done;

// What the SM finds broken.
TensorRule rule_of(OpCode code, const BulkRequest& request) {
  SmParams params;
  params.tensor_errors = TensorErrors::report;
  ProgramBench bench(params);
  ListProgram p(2);
  p.bulk(code, always(request));
  p.exit();
  bench.run(p, 32, kShared);
  REQUIRE(bench.tmau.seen.size() == 1);
  return bench.tmau.seen[0].packet.broken;
}
BulkRequest load_of(std::uint32_t shared, std::optional<std::uint32_t> barrier, std::uint64_t bytes = 64) {
  return block_of(BulkKind::load, 512, bytes, shared, barrier);
}

// In a cluster of three CTAs on SMs 0, 1 and 1 or 2: what CTA 0 asks for.
heddle::protocol::BulkRequestPacket asked(const BulkRequest& request, bool shares_sm = false, bool may_share = false) {
  SmParams params;
  params.tensor_errors = TensorErrors::report;
  ClusterBench bench(3, params, TimingMode::at, 16, may_share);
  ListProgram p(2);
  p.cluster_arrive().cluster_wait();
  only_if(p, 1, rank_is(0));
  p.bulk(request.kind == BulkKind::load ? OpCode::bulk_load : OpCode::bulk_send, always(request));
  p.cluster_arrive().cluster_wait();
  p.exit();
  const std::uint32_t number = bench.add(p, 32, kShared, 3);
  bench.launch(number, {0, 1, shares_sm ? 1U : 2U});
  bench.run_to_end();
  REQUIRE(bench.tmaus[0]->seen.size() == 1);
  return bench.tmaus[0]->seen[0].packet;
}

}  // namespace

TEST_CASE("rules about shared memory and barriers are checked when a request is made", "[sm][TMA-06]") {
  CHECK(rule_of(OpCode::bulk_load, load_of(128, 8)) == TensorRule::none);
  CHECK(rule_of(OpCode::bulk_load, load_of(128, std::nullopt)) == TensorRule::barrier_address);
  CHECK(rule_of(OpCode::bulk_load, load_of(128, 4)) == TensorRule::barrier_address);
  CHECK(rule_of(OpCode::bulk_load, load_of(128, kShared - 8)) == TensorRule::none);
  CHECK(rule_of(OpCode::bulk_load, load_of(128, kShared)) == TensorRule::barrier_address);
  CHECK(rule_of(OpCode::bulk_load, load_of(136, 8)) == TensorRule::shared_address);
  CHECK(rule_of(OpCode::bulk_load, load_of(kShared - 64, 8)) == TensorRule::none);
  CHECK(rule_of(OpCode::bulk_load, load_of(kShared - 48, 8)) == TensorRule::shared_address);
  CHECK(rule_of(OpCode::bulk_load, load_of(kShared, 8, 0)) == TensorRule::none);
  CHECK(rule_of(OpCode::bulk_load, load_of(kShared + 16, 8, 0)) == TensorRule::shared_address);
  BulkRequest endless = load_of(0, 8);
  endless.blocks = ~std::uint64_t{0} / 8;
  CHECK(rule_of(OpCode::bulk_load, endless) == TensorRule::shared_address);
  BulkRequest elsewhere = load_of(128, 8);
  elsewhere.barrier_cta = 1;
  CHECK(rule_of(OpCode::bulk_load, elsewhere) == TensorRule::barrier_cta);
  elsewhere.barrier_cta = 0;
  CHECK(rule_of(OpCode::bulk_load, elsewhere) == TensorRule::none);
  // Of a tensor, where it begins.
  CHECK(rule_of(OpCode::tensor_load, tensor_of(BulkKind::load, 256, kShared - 16, 8)) == TensorRule::none);
  CHECK(rule_of(OpCode::tensor_load, tensor_of(BulkKind::load, 256, kShared, 8)) == TensorRule::shared_address);
  CHECK(rule_of(OpCode::tensor_store, tensor_of(BulkKind::store, 256, 8)) == TensorRule::shared_address);
  CHECK(rule_of(OpCode::tensor_reduce, tensor_of(BulkKind::reduce, 256, kShared)) == TensorRule::shared_address);
  CHECK(rule_of(OpCode::bulk_store, block_of(BulkKind::store, 0, 64, kShared - 48)) == TensorRule::shared_address);
  // Where there is neither, neither is looked at.
  CHECK(rule_of(OpCode::bulk_copy, block_of(BulkKind::copy, 0, 64, 7, 3)) == TensorRule::none);
  CHECK(rule_of(OpCode::tensor_prefetch, tensor_of(BulkKind::prefetch, 256, 7, 3)) == TensorRule::none);
  BulkRequest send = block_of(BulkKind::send, 0, 64, 128);
  send.destination = kShared - 64;
  CHECK(rule_of(OpCode::bulk_send, send) == TensorRule::none);
  send.barrier = 12;
  CHECK(rule_of(OpCode::bulk_send, send) == TensorRule::barrier_address);
  send.barrier.reset();
  send.destination = kShared - 48;
  CHECK(rule_of(OpCode::bulk_send, send) == TensorRule::shared_address);
}

TEST_CASE("operands that their words do not hold are refused by the word's name", "[sm][TMA-30]") {
  BulkRequest request = load_of(0x100'0080, 8);
  CHECK(rule_of(OpCode::bulk_load, request) == TensorRule::address_word);
  request = load_of(128, 0x100'0008);
  CHECK(rule_of(OpCode::bulk_load, request) == TensorRule::address_word);
  request = load_of(128, 8);
  request.data_cta = 256;  // with 8 bits it would be CTA 0, which is the CTA itself
  CHECK(rule_of(OpCode::bulk_load, request) == TensorRule::address_word);
  request = load_of(128, 8);
  request.multicast = 0x1'0001;  // with 16 bits the same
  CHECK(rule_of(OpCode::bulk_load, request) == TensorRule::mask_word);
}

TEST_CASE("a CTA without a cluster reaches itself alone", "[sm][TMA-30]") {
  BulkRequest request = load_of(128, 8);
  request.multicast = 1;
  CHECK(rule_of(OpCode::bulk_load, request) == TensorRule::none);
  request.multicast = 3;
  CHECK(rule_of(OpCode::bulk_load, request) == TensorRule::receivers);
  request.multicast = 0;
  request.data_cta = 0;
  CHECK(rule_of(OpCode::bulk_load, request) == TensorRule::none);
  request.data_cta = 1;
  CHECK(rule_of(OpCode::bulk_load, request) == TensorRule::receivers);
  request.data_cta = 16;
  CHECK(rule_of(OpCode::bulk_load, request) == TensorRule::receivers);
}

TEST_CASE("receivers are found by their ids, with the SMs where they are", "[sm][TMA-30]") {
  BulkRequest request = load_of(128, 8);
  request.multicast = 0b101;
  auto packet = asked(request);
  CHECK(packet.broken == TensorRule::none);
  CHECK(packet.by_rank);
  CHECK(packet.ctas == 0b101);
  CHECK(packet.sms == 0b101);
  CHECK(packet.cga_id == ClusterBench::kCga);
  CHECK(packet.sequence == 1);
  CHECK(packet.rank == 0);

  request.multicast = 0b110;  // the one that asks need not be among them
  packet = asked(request);
  CHECK(packet.broken == TensorRule::none);
  CHECK(packet.sms == 0b110);
  request.barrier_cta = 2;
  CHECK(asked(request).broken == TensorRule::none);
  request.barrier_cta = 0;
  CHECK(asked(request).broken == TensorRule::barrier_cta);
  request.barrier_cta.reset();

  CHECK(asked(request, true).broken == TensorRule::receivers_share_sm);
  packet = asked(request, true, true);
  CHECK(packet.broken == TensorRule::none);
  CHECK(packet.ctas == 0b110);
  CHECK(packet.sms == 0b010);

  request.multicast = 0b1001;  // there is no CTA 3
  CHECK(asked(request).broken == TensorRule::receivers);

  request.multicast = 0;
  request.data_cta = 2;
  packet = asked(request);
  CHECK(packet.by_rank);
  CHECK(packet.ctas == 0b100);
  CHECK(packet.sms == 0b100);
  request.data_cta = 0;
  CHECK_FALSE(asked(request).by_rank);
  request.data_cta = 16;
  CHECK(asked(request).broken == TensorRule::receivers);

  BulkRequest send = block_of(BulkKind::send, 0, 64, 128);
  send.data_cta = 1;
  packet = asked(send);
  CHECK(packet.by_rank);
  CHECK(packet.ctas == 0b010);
  CHECK(packet.broken == TensorRule::none);
}

TEST_CASE("a receiver that has not been launched breaks the rule", "[sm][TMA-30]") {
  SmParams params;
  params.tensor_errors = TensorErrors::report;
  ClusterBench bench(2, params);
  ListProgram p(2);
  BulkRequest request = load_of(128, 8);
  request.multicast = 0b10;
  only_if(p, 1, rank_is(0));
  p.bulk(OpCode::bulk_load, always(request));
  p.exit();
  const std::uint32_t number = bench.add(p, 32, kShared, 2);
  bench.gpc.start(0, 0, bench.packet(number, 0, 0));
  bench.gpc.start(500, 1, bench.packet(number, 1, 1));
  bench.run_to_end();
  REQUIRE(bench.tmaus[0]->seen.size() == 1);
  CHECK(bench.tmaus[0]->seen[0].packet.broken == TensorRule::receivers);
}

TEST_CASE("a load for another CTA has that one's room, whatever the CTA that asks has given back", "[sm][TMA-30]") {
  for (const std::uint16_t multicast : {std::uint16_t{0}, std::uint16_t{0b10}}) {
    ClusterBench bench(2);
    ListProgram p(2);
    BulkRequest request = load_of(512, 8);
    request.multicast = multicast;
    if (multicast == 0) request.data_cta = request.barrier_cta = 1;
    p.cluster_arrive().cluster_wait();
    only_if(p, 2, rank_is(0));
    p.release_shared([](const heddle::test::Warp&, std::uint32_t) { return std::uint64_t{256}; });
    p.bulk(OpCode::bulk_load, always(request));
    p.cluster_arrive().cluster_wait();
    p.exit();
    const std::uint32_t number = bench.add(p, 32, kShared, 2);
    bench.launch(number, {0, 1});
    bench.run_to_end();
    REQUIRE(bench.tmaus[0]->seen.size() == 1);
    const auto& packet = bench.tmaus[0]->seen[0].packet;
    CHECK(packet.broken == TensorRule::none);
    CHECK(packet.room == kShared - 512);
  }
}

TEST_CASE("a dropped request is a fault that names the rule", "[sm][TMA-06]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    bench.tmau.answer = [](const FakeTmau::Seen& seen, Done& done) {
      if (seen.packet.request.global == 2 * 4096) {
        done.kind = Done::Kind::dropped;
        done.rule = TensorRule::block_address;
      }
      return seen.cycle + 400;
    };
    ListProgram p(2);
    store_block(p, 1);
    p.bulk(OpCode::bulk_store, always(block_of(BulkKind::store, 2 * 4096, 64)), ListProgram::only(5), {},
           "bulk_store x (line 9)");
    p.bulk_commit().bulk_wait(0);
    p.compute(Unit::fp32, 5000, {}, {});
    p.exit();
    const Cycle all = bench.run(p, 64, kShared);
    CHECK(all < 5000);
    REQUIRE(bench.faults.size() == 1);
    const heddle::arch::FaultRecord& fault = bench.faults[0];
    CHECK(fault.kind == FaultKind::tensor);
    CHECK(fault.rule == TensorRule::block_address);
    CHECK(fault.fatal);
    CHECK(fault.operation == OpCode::bulk_store);
    CHECK(fault.address == 2 * 4096);
    CHECK(fault.lane == 5);
    CHECK(fault.where == "bulk_store x (line 9)");
    CHECK(fault.sm == heddle::test::kBenchSm);
    CHECK(bench.mpc.exit_of(0).faulted);
    CHECK(bench.stat("faults") == 1);
  }
}

TEST_CASE("reported rules stop nobody: the rest goes on, and the group is over", "[sm][TMA-06]") {
  for (const TimingMode mode : kModes) {
    SmParams params;
    params.tensor_errors = TensorErrors::report;
    ProgramBench bench(params, mode);
    ListProgram p(4);
    p.bulk(OpCode::tensor_store, always(tensor_of(BulkKind::store, 4096, 8)));
    store_block(p, 1);
    p.bulk_commit().bulk_wait(0);
    p.store({}, ListProgram::constant(77), ListProgram::linear(0, 4));
    p.exit();
    bench.run(p, 32, kShared);
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].rule == TensorRule::shared_address);
    CHECK(bench.faults[0].address == 4096);
    CHECK_FALSE(bench.faults[0].fatal);
    CHECK_FALSE(bench.mpc.exit_of(0).faulted);
    CHECK(bench.l2.get<std::uint32_t>(0) == 77);
    CHECK(bench.tmau.seen.size() == 2);
  }
}

TEST_CASE("an error of memory stops the CTA, unless errors are only reported", "[sm][TMA-06][MEM-05]") {
  for (const bool poison : {false, true}) {
    for (const TensorErrors errors : {TensorErrors::trap, TensorErrors::report}) {
      SmParams params;
      params.tensor_errors = errors;
      ProgramBench bench(params);
      bench.tmau.answer = [poison](const FakeTmau::Seen& seen, Done& done) {
        done.kind = Done::Kind::failed;
        done.address = 0x1234'0080;
        done.poison = poison;
        return seen.cycle + 400;
      };
      ListProgram p(2);
      load_block(p, 1, "load x (line 7)");
      p.compute(Unit::fp32, 5000, {}, {});
      p.exit();
      bench.run(p, 32, kShared);
      REQUIRE(bench.faults.size() == 1);
      CHECK(bench.faults[0].kind == (poison ? FaultKind::poison : FaultKind::address));
      CHECK(bench.faults[0].address == 0x1234'0080);
      CHECK(bench.faults[0].where == "load x (line 7)");
      CHECK(bench.faults[0].fatal == (errors == TensorErrors::trap));
      CHECK(bench.mpc.exit_of(0).faulted == (errors == TensorErrors::trap));
    }
  }
}

TEST_CASE("a faulted CTA stays until its requests have ended, and is not faulted twice", "[sm][TMA-06]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    bench.tmau.answer = [](const FakeTmau::Seen& seen, Done& done) {
      done.kind = Done::Kind::dropped;
      done.rule = TensorRule::unmapped;
      return seen.cycle + (seen.packet.request.global == 4096 ? 300 : 4000);
    };
    ListProgram p(2);
    store_block(p, 1);
    store_block(p, 2);
    p.bulk_commit().bulk_wait(0);
    p.exit();
    bench.run(p, 32, kShared);
    CHECK(bench.faults.size() == 1);
    CHECK(bench.mpc.exits[0].first >= 4000);
    CHECK(bench.sm.quiescent());
  }
}

TEST_CASE("an aborted CTA waits for its requests, and gives up those without a place", "[sm][TMA-02]") {
  for (const TimingMode mode : kModes) {
    heddle::sm::SmContext place = heddle::test::bench_place();
    place.bulk_queue = 2;
    ProgramBench bench({}, mode, 1 << 20, 0, place);
    bench.tmau.pace = 200;
    ListProgram doomed(2);
    for (std::uint64_t i = 0; i < 8; ++i) store_block(doomed, i);
    doomed.exit();
    ListProgram other(2);
    for (std::uint64_t i = 0; i < 3; ++i) store_block(other, 100 + i);
    other.exit();
    const std::uint32_t first = bench.add(doomed, 64, kShared);
    const std::uint32_t second = bench.add(other, 64, kShared);
    bench.mpc.start(0, bench.packet(first, 0, 0, 5));
    bench.mpc.start(0, bench.packet(second, 1, 0, 6));
    bench.mpc.abort(500, 5);
    heddle::test::run_until_idle();
    REQUIRE(bench.mpc.exits.size() == 2);
    CHECK(bench.mpc.exit_of(0).faulted);
    CHECK_FALSE(bench.mpc.exit_of(1).faulted);
    std::size_t of_other = 0;
    for (const FakeTmau::Seen& seen : bench.tmau.seen) of_other += seen.packet.request.global >= 100 * 4096 ? 1 : 0;
    CHECK(of_other == 6);
    CHECK(bench.tmau.seen.size() - of_other < 16);
    CHECK(bench.tmau.open == 0);
    CHECK(bench.faults.empty());
    CHECK(bench.sm.quiescent());
  }
}

TEST_CASE("requests that do not fit their operation are refused", "[sm][TMA-01]") {
  const auto kind_of = [](OpCode code, const BulkRequest& request, std::size_t requests) {
    ProgramBench bench;
    ListProgram p(2);
    p.step({code, Unit::memory, {}, {}, {}},
           [=](const heddle::arch::WarpPlace&, heddle::arch::WarpState&, heddle::arch::Operation& operation) {
             operation.lanes = 0b110;
             operation.bulk.assign(requests, request);
           });
    p.exit();
    bench.run(p, 32, kShared);
    return bench.faults.empty() ? FaultKind::address : bench.faults[0].kind;
  };
  const BulkRequest load = load_of(128, 8);
  CHECK(kind_of(OpCode::bulk_load, load, 2) == FaultKind::address);  // no fault
  CHECK(kind_of(OpCode::bulk_load, load, 1) == FaultKind::unsupported);
  CHECK(kind_of(OpCode::bulk_load, load, 3) == FaultKind::unsupported);
  CHECK(kind_of(OpCode::bulk_store, load, 2) == FaultKind::unsupported);
  CHECK(kind_of(OpCode::tensor_load, load, 2) == FaultKind::unsupported);
}

}  // namespace sm_bulk_error_test
