// Groups of bulk requests: commit and wait, until their sources have been read or until they are over (TMA-41).
#include <cstdint>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/bulk_requests.h"
#include "sm/program_bench.h"

namespace sm_bulk_group_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::BulkKind;
using heddle::arch::OpCode;
using heddle::arch::SpecialRegister;
using heddle::test::always;
using heddle::test::block_of;
using heddle::test::FakeTmau;
using heddle::test::ListProgram;
using heddle::test::load_block;
using heddle::test::ProgramBench;
using heddle::test::store_block;

namespace {

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kShared = 1024;

// By number of a request, its cycles from its arrival.
using Cycles = std::map<std::uint64_t, Cycle>;

void answers(FakeTmau& tmau, Cycles complete, Cycles read = {}) {
  tmau.answer = [complete = std::move(complete)](const FakeTmau::Seen& seen, FakeTmau::Done&) {
    const auto found = complete.find(seen.packet.request.global / 4096);
    return seen.cycle + (found == complete.end() ? 50 : found->second);
  };
  if (read.empty()) return;
  tmau.read = [read = std::move(read)](const FakeTmau::Seen& seen) {
    const auto found = read.find(seen.packet.request.global / 4096);
    return found == read.end() ? heddle::kNever : seen.cycle + found->second;
  };
}

// The clock goes to that word of device memory. Uses registers 0 to 3.
ListProgram& note(ListProgram& p, std::uint64_t word) {
  p.special(SpecialRegister::clock, 0, 2);
  ListProgram::Access access;
  access.lanes = ListProgram::only(0);
  return p.store(access, ListProgram::of_register(0), ListProgram::constant(65'536 + 4 * word), {{0, 2}});
}
Cycle noted(ProgramBench& bench, std::uint64_t word) { return bench.l2.get<std::uint32_t>(65'536 + 4 * word); }

}  // namespace

TEST_CASE("a wait leaves the younger groups open, whatever the order of the answers", "[sm][TMA-41]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    answers(bench.tmau, {{1, 900}, {2, 3000}, {3, 200}, {4, 6000}});
    ListProgram p(4);
    store_block(p, 1).bulk_commit();
    store_block(p, 2);
    store_block(p, 3).bulk_commit();
    store_block(p, 4).bulk_commit();
    note(p.bulk_wait(3), 0);
    note(p.bulk_wait(2), 1);
    note(p.bulk_wait(1), 2);
    note(p.bulk_wait(0), 3);
    p.exit();
    bench.run(p, 32, kShared);
    const Cycle begin = bench.tmau.seen[0].cycle;
    CHECK(noted(bench, 0) < begin + 100);
    CHECK(noted(bench, 1) >= begin + 900);
    CHECK(noted(bench, 1) < begin + 1000);
    CHECK(noted(bench, 2) >= begin + 3000);
    CHECK(noted(bench, 2) < begin + 3100);
    CHECK(noted(bench, 3) >= begin + 6000);
    CHECK(noted(bench, 3) < begin + 6100);
    CHECK(bench.stat("stall.bulk") > 5800);
    CHECK(bench.stat("stall.bulk") < 6100);
  }
}

TEST_CASE("a wait ends when the L2 has taken the stores over, and a fence when memory has answered",
          "[sm][TMA-41][TMA-45][MEM-06]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    answers(bench.tmau, {{1, 3000}, {2, 5000}}, {{1, 100}, {2, 100}});
    bench.tmau.accepts = [](const FakeTmau::Seen& seen) { return seen.cycle + 300; };
    ListProgram p(4);
    store_block(p, 1).bulk_commit();
    note(p.bulk_wait(0), 0);
    p.fence(heddle::arch::Order::release, heddle::arch::Scope::gpu);
    note(p, 1);
    store_block(p, 2).bulk_commit();
    p.exit();
    bench.run(p, 32, kShared);
    const Cycle begin = bench.tmau.seen[0].cycle;
    CHECK(noted(bench, 0) >= begin + 300);
    CHECK(noted(bench, 0) < begin + 400);
    CHECK(noted(bench, 1) >= begin + 3000);
    CHECK(noted(bench, 1) < begin + 3500);
    // What is not waited for holds the CTA all the same.
    CHECK(bench.tmau.open == 0);
  }
}

TEST_CASE("a wait for reads goes on before the end, and what is over has been read", "[sm][TMA-41]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    answers(bench.tmau, {{1, 2000}, {2, 3000}, {3, 700}}, {{1, 300}, {2, 500}});
    ListProgram p(4);
    store_block(p, 1).bulk_commit();
    store_block(p, 2).bulk_commit();
    p.bulk(OpCode::bulk_copy, always(block_of(BulkKind::copy, 3 * 4096, 64))).bulk_commit();
    note(p.bulk_wait(2, true), 0);
    note(p.bulk_wait(1, true), 1);
    note(p.bulk_wait(0, true), 2);
    note(p.bulk_wait(0), 3);
    p.exit();
    bench.run(p, 32, kShared);
    const Cycle begin = bench.tmau.seen[0].cycle;
    CHECK(noted(bench, 0) >= begin + 300);
    CHECK(noted(bench, 0) < begin + 400);
    CHECK(noted(bench, 1) >= begin + 500);
    CHECK(noted(bench, 1) < begin + 600);
    CHECK(noted(bench, 2) >= begin + 700);  // the copy has no source in shared memory: its end counts
    CHECK(noted(bench, 2) < begin + 800);
    CHECK(noted(bench, 3) >= begin + 3000);
  }
}

TEST_CASE("loads and prefetches belong to no group, and an empty group is over", "[sm][TMA-41][TMA-42]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    bench.tmau.work = 4000;
    ListProgram p(4);
    p.mbarrier_init(0, 1);
    load_block(p, 1);
    p.bulk(OpCode::bulk_prefetch, always(block_of(BulkKind::prefetch, 8192, 64)));
    p.bulk_commit();
    note(p.bulk_wait(0), 0);
    p.bulk_commit();
    note(p.bulk_wait(0, true), 1);
    p.exit();
    const Cycle all = bench.run(p, 32, kShared);
    CHECK(noted(bench, 1) < bench.first_issue() + 200);
    CHECK(all >= 4000);
  }
}

TEST_CASE("every kind that has a group is waited for", "[sm][TMA-41]") {
  struct Case {
    OpCode code;
    heddle::arch::BulkRequest request;
  };
  const std::vector<Case> cases{
      {OpCode::tensor_store, heddle::test::tensor_of(BulkKind::store, 256, 128)},
      {OpCode::tensor_reduce, heddle::test::tensor_of(BulkKind::reduce, 256, 128)},
      {OpCode::bulk_store, block_of(BulkKind::store, 512, 64, 128)},
      {OpCode::bulk_reduce, block_of(BulkKind::reduce, 512, 64, 128)},
      {OpCode::bulk_copy, block_of(BulkKind::copy, 512, 64)},
      {OpCode::bulk_send, block_of(BulkKind::send, 0, 64, 128)},
  };
  for (const Case& c : cases) {
    CAPTURE(heddle::arch::op_name(c.code));
    for (const bool read : {false, true}) {
      ProgramBench bench;
      bench.tmau.work = 800;
      ListProgram p(4);
      p.bulk(c.code, always(c.request)).bulk_commit();
      note(p.bulk_wait(0, read), 0);
      p.exit();
      bench.run(p, 32, kShared);
      CHECK(noted(bench, 0) >= bench.tmau.seen[0].cycle + 800);
    }
  }
}

TEST_CASE("what is not committed is not waited for, and belongs to the next group", "[sm][TMA-41]") {
  ProgramBench bench;
  bench.tmau.work = 1500;
  ListProgram p(4);
  store_block(p, 1);
  note(p.bulk_wait(0), 0);
  store_block(p, 2).bulk_commit();
  note(p.bulk_wait(0), 1);
  p.exit();
  bench.run(p, 32, kShared);
  const Cycle begin = bench.tmau.seen[0].cycle;
  CHECK(noted(bench, 0) < begin + 100);
  CHECK(noted(bench, 1) >= begin + 1500);
}

TEST_CASE("groups belong to the thread", "[sm][TMA-41]") {
  for (const bool read : {false, true}) {
    CAPTURE(read);
    ProgramBench bench;
    // Of lane 0, slow; of lane 1, fast.
    bench.tmau.answer = [](const FakeTmau::Seen& seen, FakeTmau::Done&) {
      return seen.cycle + (seen.packet.request.global == 0 ? 4000 : 60);
    };
    ListProgram p(4);
    p.bulk(
        OpCode::bulk_store,
        [](const heddle::test::Warp&, std::uint32_t lane) { return block_of(BulkKind::store, 4096 * lane, 64); },
        [](const heddle::test::Warp&) { return heddle::arch::LaneMask{3}; });
    p.bulk_commit(1);  // the group of lane 1 is not committed
    note(p.bulk_wait(0, read, 2), 0);
    p.bulk_commit(2);
    note(p.bulk_wait(0, read, 2), 1);
    note(p.bulk_wait(0, read, 4), 2);  // asked for nothing
    note(p.bulk_wait(1, read, 3), 3);
    note(p.bulk_wait(0, read, 3), 4);
    p.exit();
    bench.run(p, 32, kShared);
    const Cycle begin = bench.tmau.seen[0].cycle;
    CHECK(noted(bench, 0) < begin + 50);
    CHECK(noted(bench, 1) >= begin + 60);
    CHECK(noted(bench, 1) < begin + 300);
    CHECK(noted(bench, 2) < begin + 400);
    CHECK(noted(bench, 3) < begin + 500);
    CHECK(noted(bench, 4) >= begin + 4000);
  }
}

TEST_CASE("groups are the warp's own, and apart from those of asynchronous copies", "[sm][TMA-41]") {
  ProgramBench bench;
  // Of warp 0, slow; of warp 1, fast.
  bench.tmau.answer = [](const FakeTmau::Seen& seen, FakeTmau::Done&) {
    return seen.cycle + (seen.packet.request.global == 0 ? 4000 : 60);
  };
  ListProgram p(4);
  p.bulk(OpCode::bulk_store, [](const heddle::test::Warp& warp, std::uint32_t) {
    return block_of(BulkKind::store, 4096 * warp.place.warp, 64);
  });
  p.bulk_commit();
  ListProgram::Access access;
  access.lanes = ListProgram::only(0);
  const auto clock_to = [&](std::uint64_t word) {
    p.special(SpecialRegister::clock, 0, 2);
    p.store(access, ListProgram::of_register(0),
            [word](const heddle::test::Warp& warp, std::uint32_t) { return 65'536 + 4 * (word + warp.place.warp); },
            {{0, 2}});
  };
  p.async_wait(0);
  clock_to(0);
  p.bulk_wait(0);
  clock_to(2);
  p.exit();
  bench.run(p, 64, kShared);
  const Cycle begin = bench.tmau.seen[0].cycle;
  CHECK(noted(bench, 0) < begin + 100);
  CHECK(noted(bench, 1) < begin + 100);
  CHECK(noted(bench, 2) >= begin + 4000);
  CHECK(noted(bench, 3) < begin + 200);
}

}  // namespace sm_bulk_group_test
