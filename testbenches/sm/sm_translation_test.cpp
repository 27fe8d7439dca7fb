// Subcontexts on one SM: whose requests they are, whose lines of the L1, and what a refused access comes to (PRT-08).
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/bulk_requests.h"
#include "sm/program_bench.h"
#include "support/random.h"

namespace sm_translation_test {

using Catch::Contains;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::AtomicKind;
using heddle::arch::BulkKind;
using heddle::arch::FaultKind;
using heddle::arch::kNoRegister;
using heddle::arch::OpCode;
using heddle::arch::ValueType;
using heddle::sm::SmParams;
using heddle::sm::TensorErrors;
using heddle::test::always;
using heddle::test::block_of;
using heddle::test::FakeL2;
using heddle::test::FakeTmau;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Random;
using heddle::test::Warp;

namespace {

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint64_t kSpace = 64 * 1024;  // of each subcontext in the L2's memory

// Every subcontext has its own bytes at the same addresses; nothing from `end` on, and nothing to write from `fixed`
// on.
void separate(ProgramBench& bench, std::uint64_t fixed = kSpace, std::uint64_t end = kSpace) {
  bench.l2.place = [=](const tlm::tlm_generic_payload& payload, const heddle::protocol::MemoryExtension& extension) {
    const std::uint64_t address = payload.get_address();
    if (address >= end) return FakeL2::kUnmapped;
    const bool read = payload.is_read();
    if (address >= fixed && !read) return FakeL2::kReadOnly;
    return address + extension.subcontext * kSpace;
  };
}

}  // namespace

TEST_CASE("subcontexts do not share lines of the L1", "[sm][PRT-08]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    separate(bench);
    constexpr std::uint64_t kFrom = 4096;
    constexpr std::uint64_t kTo = 8192;
    for (std::uint64_t subcontext = 0; subcontext < 4; ++subcontext) {
      for (std::uint32_t i = 0; i < 32; ++i) {
        bench.l2.put<std::uint32_t>(subcontext * kSpace + kFrom + 4 * i,
                                    static_cast<std::uint32_t>(1000 * subcontext + i));
      }
    }
    // Each loads the line twice, so that the second time finds it in the L1, changes it, and loads it again.
    ListProgram p(4);
    p.load({}, 1, ListProgram::linear(kFrom, 4));
    p.compute(heddle::arch::Unit::fp32, 500, {{1, 1}}, {{1, 1}});
    p.load({}, 2, ListProgram::linear(kFrom, 4));
    p.store({}, [](const Warp& w, std::uint32_t lane) { return w.reg(1, lane) + w.reg(2, lane); },
            ListProgram::linear(kFrom, 4), {{1, 1}, {2, 1}});
    p.load({}, 3, ListProgram::linear(kFrom, 4), {{1, 1}, {2, 1}});
    p.store_registers({}, 3, ListProgram::linear(kTo, 4), {{3, 1}});
    p.exit();
    const std::uint32_t number = bench.add(p, 32);
    for (std::uint32_t slot = 0; slot < 4; ++slot) {
      auto packet = bench.packet(number, slot, slot);
      packet.subcontext = static_cast<std::uint8_t>(slot);
      bench.mpc.start(37 * slot, packet);
    }
    heddle::test::run_until_idle();
    REQUIRE(bench.faults.empty());
    for (std::uint64_t subcontext = 0; subcontext < 4; ++subcontext) {
      for (std::uint32_t i = 0; i < 32; ++i) {
        const auto value = static_cast<std::uint32_t>(1000 * subcontext + i);
        REQUIRE(bench.l2.get<std::uint32_t>(subcontext * kSpace + kTo + 4 * i) == 2 * value);
      }
    }
    if (mode != TimingMode::lt) CHECK(bench.stat("l1.hits") > 0);
  }
}

TEST_CASE("every request names the subcontext of its CTA", "[sm][PRT-08]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    separate(bench);
    ListProgram::Access strong;
    strong.order = heddle::arch::Order::relaxed;
    ListProgram p(8);
    p.load({}, 1, ListProgram::linear(0, 4));
    p.load(strong, 2, ListProgram::linear(512, 4));
    p.store({}, ListProgram::constant(1), ListProgram::linear(1024, 4));
    p.atomic({}, AtomicKind::add, ValueType::u32, 3, ListProgram::constant(1), ListProgram::linear(2048, 4));
    p.atomic({}, AtomicKind::add, ValueType::u32, kNoRegister, ListProgram::constant(1), ListProgram::linear(2560, 4));
    p.async_copy({}, ListProgram::linear(3072, 4), ListProgram::linear(0, 4));
    p.async_commit().async_wait(0);
    p.bulk(OpCode::bulk_prefetch, always(block_of(BulkKind::prefetch, 4096, 64)));
    p.exit();
    auto packet = bench.packet(bench.add(p, 32, 1024));
    packet.subcontext = 5;
    bench.mpc.start(0, packet);
    heddle::test::run_until_idle();
    REQUIRE(bench.faults.empty());
    REQUIRE(bench.l2.seen.size() >= 6);
    for (const FakeL2::Seen& seen : bench.l2.seen) {
      CHECK(seen.subcontext == 5);
      CHECK_FALSE(seen.physical);
    }
    REQUIRE(bench.tmau.seen.size() == 1);
    CHECK(bench.tmau.seen[0].packet.subcontext == 5);
  }
}

TEST_CASE("a refused access stops its CTA, and the fault says whose it was", "[sm][PRT-08]") {
  struct Case {
    FaultKind kind;
    OpCode code;
    bool write;
    std::uint64_t address;
    const char* text;
  };
  constexpr std::uint64_t kFixed = 32 * 1024;
  for (const TimingMode mode : kModes) {
    for (const Case& one : std::vector<Case>{
             {FaultKind::unmapped, OpCode::load, false, kSpace, "no page there (subcontext 9, read)"},
             {FaultKind::unmapped, OpCode::store, true, kSpace, "no page there (subcontext 9, write)"},
             {FaultKind::unmapped, OpCode::async_copy, false, kSpace, "no page there (subcontext 9, read)"},
             {FaultKind::unmapped, OpCode::atomic, true, std::uint64_t{1} << 60, "(subcontext 9, write)"},
             {FaultKind::unmapped, OpCode::load, false, ~std::uint64_t{0} - 255, "(subcontext 9, read)"},
             {FaultKind::read_only, OpCode::store, true, kFixed, "may not write there (subcontext 9, write)"},
             {FaultKind::read_only, OpCode::atomic, true, kFixed, "may not write there (subcontext 9, write)"}}) {
      CAPTURE(one.address, heddle::arch::op_name(one.code));
      ProgramBench bench({}, mode);
      separate(bench, kFixed);
      const auto wrong = [&one](const Warp&, std::uint32_t lane) { return lane == 7 ? one.address : 4 * lane; };
      ListProgram p(4);
      if (one.code == OpCode::load) p.load({}, 1, wrong);
      if (one.code == OpCode::store) p.store({}, ListProgram::constant(1), wrong);
      if (one.code == OpCode::async_copy) p.async_copy({}, wrong, ListProgram::linear(0, 4));
      if (one.code == OpCode::atomic) {
        p.atomic({}, AtomicKind::add, ValueType::u32, 1, ListProgram::constant(1), wrong);
      }
      p.compute(heddle::arch::Unit::fp32, 2000, {}, {});
      p.store({}, ListProgram::constant(99), ListProgram::linear(8192, 4));
      p.exit();
      ListProgram fine(2);
      fine.compute(heddle::arch::Unit::fp32, 3000, {}, {});
      fine.store({}, ListProgram::constant(77), ListProgram::linear(8192, 4));
      fine.exit();
      auto packet = bench.packet(bench.add(p, 32, 1024), 0, 0, 8);
      packet.subcontext = 9;
      bench.mpc.start(0, packet);
      bench.mpc.start(0, bench.packet(bench.add(fine, 32), 2, 5));
      heddle::test::run_until_idle();
      REQUIRE(bench.faults.size() == 1);
      const heddle::arch::FaultRecord& fault = bench.faults[0];
      CHECK(fault.kind == one.kind);
      CHECK(fault.subcontext == 9);
      CHECK(fault.address == one.address);
      CHECK(fault.write == one.write);
      CHECK(fault.lane == 7);
      CHECK(fault.operation == one.code);
      CHECK(fault.fatal);
      CHECK_THAT(heddle::arch::text_of(fault), Contains(one.text));
      CHECK(bench.mpc.exit_of(0).faulted);
      CHECK_FALSE(bench.mpc.exit_of(2).faulted);
      CHECK(bench.l2.get<std::uint32_t>(8192) == 77);
    }
  }
}

TEST_CASE("a store that is refused does not stay in the L1", "[sm][PRT-08]") {
  for (const TimingMode mode : kModes) {
    ProgramBench bench({}, mode);
    separate(bench, 4096);
    bench.l2.put<std::uint32_t>(2 * kSpace + 4096, 11);
    const auto only_first = [](const Warp&) { return 1U; };
    ListProgram::Access one;
    one.lanes = only_first;
    // The other has the line in the L1 before and looks again after the fault.
    ListProgram other(4);
    other.load(one, 1, ListProgram::constant(4096));
    other.compute(heddle::arch::Unit::fp32, 4000, {{1, 1}}, {{1, 1}});
    other.load(one, 2, ListProgram::constant(4096), {{1, 1}});
    other.store_registers(one, 2, ListProgram::constant(128), {{2, 1}});
    other.exit();
    ListProgram guilty(2);
    guilty.compute(heddle::arch::Unit::fp32, 1000, {}, {});
    guilty.store(one, ListProgram::constant(22), ListProgram::constant(4096));
    guilty.exit();
    auto first = bench.packet(bench.add(other, 32), 0, 0, 1);
    auto second = bench.packet(bench.add(guilty, 32), 1, 0, 2);
    first.subcontext = second.subcontext = 2;
    bench.mpc.start(0, first);
    bench.mpc.start(0, second);
    heddle::test::run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].task == 2);
    CHECK(bench.l2.get<std::uint32_t>(2 * kSpace + 128) == 11);
  }
}

TEST_CASE("a bulk request that is refused stops its CTA, whatever else is only reported", "[sm][TMA-06][PRT-08]") {
  for (const TensorErrors errors : {TensorErrors::trap, TensorErrors::report}) {
    for (const bool read_only : {false, true}) {
      SmParams params;
      params.tensor_errors = errors;
      ProgramBench bench(params);
      bench.tmau.answer = [read_only](const FakeTmau::Seen& seen, FakeTmau::Done& done) {
        done.kind = FakeTmau::Done::Kind::failed;
        done.address = 0x4321'0000;
        done.unmapped = true;
        done.read_only = read_only;
        done.write = read_only;
        return seen.cycle + 50;
      };
      ListProgram p(2);
      p.bulk(OpCode::bulk_store, always(block_of(BulkKind::store, 0x4321'0000, 64)));
      p.compute(heddle::arch::Unit::fp32, 2000, {}, {});
      p.exit();
      auto packet = bench.packet(bench.add(p, 32, 1024));
      packet.subcontext = 3;
      bench.mpc.start(0, packet);
      heddle::test::run_until_idle();
      REQUIRE_FALSE(bench.faults.empty());
      CHECK(bench.faults[0].kind == (read_only ? FaultKind::read_only : FaultKind::unmapped));
      CHECK(bench.faults[0].subcontext == 3);
      CHECK(bench.faults[0].address == 0x4321'0000);
      CHECK(bench.faults[0].write == read_only);
      CHECK(bench.faults[0].fatal);
      CHECK(bench.mpc.exit_of(0).faulted);
    }
  }
}

TEST_CASE("addresses that look like another subcontext's lines reach nothing of it", "[sm][random][PRT-08]") {
  for (const std::uint64_t seed : heddle::test::seeds(20)) {
    CAPTURE(seed);
    Random random(seed);
    ProgramBench bench({}, random.chance(50) ? TimingMode::at : TimingMode::lt);
    separate(bench);
    bench.l2.put<std::uint32_t>(1 * kSpace, 1111);
    const auto only_first = [](const Warp&) { return 1U; };
    ListProgram::Access one;
    one.lanes = only_first;
    ListProgram owner(4);
    const auto loop = owner.loop(40);
    owner.load(one, 1, ListProgram::constant(0));
    owner.store_registers(one, 1, [=](const Warp& w, std::uint32_t) { return 4096 + 4 * w.count(loop); }, {{1, 1}});
    owner.compute(heddle::arch::Unit::fp32, 20, {}, {});
    owner.end_loop();
    owner.exit();
    // The top byte is where the L1 keeps the owner.
    const std::uint64_t alias = (random.between(1, 255)) * (std::uint64_t{1} << 56);
    ListProgram thief(4);
    thief.compute(heddle::arch::Unit::fp32, random.between(1, 900), {}, {});
    if (random.chance(50)) {
      thief.store(one, ListProgram::constant(2222), ListProgram::constant(alias));
    } else {
      thief.load(one, 1, ListProgram::constant(alias));
      thief.store_registers(one, 1, ListProgram::constant(64), {{1, 1}});
    }
    thief.exit();
    auto first = bench.packet(bench.add(owner, 32), 0, 0, 1);
    auto second = bench.packet(bench.add(thief, 32), 1, 0, 2);
    first.subcontext = 1;
    bench.mpc.start(0, first);
    bench.mpc.start(0, second);
    heddle::test::run_until_idle();
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].task == 2);
    CHECK(bench.faults[0].kind == FaultKind::unmapped);
    for (std::uint32_t i = 0; i < 40; ++i) REQUIRE(bench.l2.get<std::uint32_t>(1 * kSpace + 4096 + 4 * i) == 1111);
    CHECK(bench.l2.get<std::uint32_t>(64) == 0);
  }
}

}  // namespace sm_translation_test
