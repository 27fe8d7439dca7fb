// Random programs of many warps against a flat memory (SM-04): at any speed of memory, and in both timing modes.
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/program_bench.h"
#include "support/flat_machine.h"
#include "support/random.h"

namespace sm_random_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::AtomicKind;
using heddle::arch::LaneMask;
using heddle::arch::Order;
using heddle::arch::Scope;
using heddle::arch::Space;
using heddle::arch::Unit;
using heddle::arch::ValueType;
using heddle::sm::SmParams;
using heddle::sm::WarpPolicy;
using heddle::test::FlatMachine;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Random;
using heddle::test::scramble;
using heddle::test::Warp;

namespace {

constexpr std::uint64_t kMemory = 1 << 18;
constexpr std::uint64_t kPrivate = 2048;      // bytes of global memory that a warp has for itself
constexpr std::uint64_t kCommon = 128 << 10;  // where they lie
constexpr std::uint64_t kCounters = 0;        // that all add to
constexpr std::uint64_t kTable = 4096;        // that all read
constexpr std::uint32_t kShared = 4096;
constexpr std::uint32_t kRegisters = 24;

// Warps write to what is theirs, read that and a table, and add to common counters: no races.
ListProgram random_program(Random& random, std::uint32_t warps) {
  ListProgram p(kRegisters);
  const std::uint32_t steps = random.between(10, 60);
  const auto loop = p.loop(random.between(1, 3));
  for (std::uint32_t i = 0; i < steps; ++i) {
    const std::uint64_t salt = random.next();
    ListProgram::Access access;
    access.width = static_cast<std::uint8_t>(1U << random.below(5));
    const bool shared = random.chance(30);
    access.space = shared ? Space::shared : Space::global;
    if (random.chance(25)) {
      access.order = static_cast<Order>(random.below(5));
      access.scope = static_cast<Scope>(random.below(4));
    }
    const LaneMask mask = random.chance(70) ? ~LaneMask{0} : static_cast<LaneMask>(random.next());
    access.lanes = [mask](const Warp&) { return mask; };
    const std::uint32_t pattern = random.below(4);  // rows, one place, anywhere, by a register's value
    const auto source = static_cast<std::uint16_t>(random.below(kRegisters));
    const auto place = [=](const Warp& w, std::uint32_t lane, std::uint64_t width, std::uint64_t room) {
      const std::uint64_t places = room / width;
      const std::uint64_t number = pattern == 0   ? salt + lane
                                   : pattern == 1 ? salt
                                   : pattern == 2 ? scramble(salt + lane + 64 * w.count(loop))
                                                  : scramble(w.reg(source, lane) + salt);
      return number % places * width;
    };
    const std::uint64_t shared_room = kShared / warps / 16 * 16;
    const auto own = [=](std::uint64_t width) {
      return [=](const Warp& w, std::uint32_t lane) {
        if (shared) return shared_room * w.place.warp + place(w, lane, width, shared_room);
        return kCommon + kPrivate * (w.place.cta * warps + w.place.warp) + place(w, lane, width, kPrivate);
      };
    };
    const ListProgram::Reads reads{{source, 1}};
    const auto target = static_cast<std::uint16_t>(random.below(kRegisters - 4));
    switch (random.below(7)) {
      case 0:
      case 1:
        p.load(access, target, own(access.width), reads);
        break;
      case 2:
      case 3:
        p.store_registers(access, target, own(access.width), reads);
        break;
      case 4:
        if (shared) {
          p.compute(Unit::int32, 3, reads, {{target, 1}});
        } else {
          p.load(
              access, target,
              [=](const Warp& w, std::uint32_t lane) { return kTable + place(w, lane, access.width, 8192); }, reads);
        }
        break;
      case 5: {
        const AtomicKind kinds[] = {AtomicKind::add, AtomicKind::max, AtomicKind::bit_xor, AtomicKind::exchange,
                                    AtomicKind::compare_exchange};
        const ValueType type = random.chance(50) ? ValueType::u32 : ValueType::u64;
        const std::uint16_t destination = random.chance(30) ? heddle::arch::kNoRegister : target;
        p.atomic(access, kinds[random.below(5)], type, destination, ListProgram::of_register(source),
                 own(heddle::arch::bytes_of(type)), reads, ListProgram::constant(random.below(3)));
        break;
      }
      default:
        access.space = Space::global;
        p.atomic(
            access, AtomicKind::add, ValueType::u32, heddle::arch::kNoRegister,
            [=](const Warp& w, std::uint32_t lane) { return scramble(w.thread(lane) + salt) & 0xFFFF; },
            [=](const Warp& w, std::uint32_t lane) { return kCounters + place(w, lane, 4, 1024); }, reads);
    }
  }
  p.end_loop();
  for (std::uint16_t r = 0; r < kRegisters; r = static_cast<std::uint16_t>(r + 4)) {
    ListProgram::Access all;
    all.width = 16;
    p.store_registers(all, r, [=](const Warp& w, std::uint32_t lane) {
      return kMemory / 8 * 7 + 4096 * (w.place.cta * warps + w.place.warp) % (kMemory / 8) + 512 * (r / 4U) + 16 * lane;
    });
  }
  p.exit();
  return p;
}

SmParams random_params(Random& random) {
  SmParams params;
  params.issue.policy = random.chance(50) ? WarpPolicy::greedy_oldest : WarpPolicy::round_robin;
  params.memory.queue = random.between(1, 16);
  params.memory.requests = random.between(1, 64);
  params.memory.request_queue = random.between(1, 16);
  params.memory.unified_bytes = random.chance(30) ? 16'384 : 262'144;
  params.memory.l1_ways = random.between(1, 8);
  return params;
}

}  // namespace

TEST_CASE("random programs leave what a flat memory would hold", "[sm][SM-04]") {
  for (const std::uint64_t seed : heddle::test::seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t warps = random.between(1, 8);
    const std::uint32_t threads = warps * 32 - (random.chance(30) ? random.below(31) : 0);
    const std::uint32_t ctas = random.between(1, 32 / (warps * 4));
    const ListProgram program = random_program(random, warps);
    FlatMachine flat(kMemory);
    for (std::uint64_t i = 0; i < kMemory; ++i) flat.memory[i] = static_cast<std::uint8_t>(scramble(i / 3));
    const std::vector<std::uint8_t> before = flat.memory;
    flat.run(program, {ctas, 1, 1}, {threads, 1, 1}, kShared);
    for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
      CAPTURE(mode != TimingMode::lt);
      ProgramBench bench(random_params(random), mode, kMemory);
      bench.l2.bytes = before;
      bench.l2.latency = random.between(1, 400);
      const std::uint64_t salt = random.next();
      bench.l2.extra = [salt](std::uint64_t number) { return Cycle{scramble(number + salt) % 300}; };
      bench.l2.room = random.chance(50) ? 1000 : random.between(1, 10);
      const std::uint32_t code = bench.add(program, threads, kShared, ctas);
      for (std::uint32_t cta = 0; cta < ctas; ++cta) bench.start(code, cta, cta, random.below(500));
      heddle::test::run_until_idle();
      REQUIRE(bench.faults.empty());
      REQUIRE(bench.mpc.exits.size() == ctas);
      REQUIRE(bench.l2.bytes == flat.memory);
    }
  }
}

TEST_CASE("warps that were saved at a barrier go on from there", "[sm][SM-02]") {
  // Four warps work, meet, and work on what they had; meanwhile somebody else uses their registers.
  const auto program = [] {
    ListProgram p(4);
    p.set(0, [](const Warp& w, std::uint32_t lane) { return scramble(w.thread(lane)); });
    const auto loop = p.loop(3);
    p.set(1, [=](const Warp& w, std::uint32_t lane) { return w.reg(0, lane) * 3 + w.reg(1, lane) + w.count(loop); },
          {{0, 2}});
    p.store_registers(
        [] {
          ListProgram::Access access;
          access.space = Space::shared;
          return access;
        }(),
        1, [](const Warp& w, std::uint32_t lane) { return 4 * w.thread(lane); });
    p.barrier(2);
    p.load(
        [] {
          ListProgram::Access access;
          access.space = Space::shared;
          return access;
        }(),
        2, [](const Warp& w, std::uint32_t lane) { return 4 * ((w.thread(lane) + 40) % 128); });
    p.barrier(2);
    p.set(1, [](const Warp& w, std::uint32_t lane) { return w.reg(1, lane) ^ w.reg(2, lane); }, {{1, 2}});
    p.end_loop();
    p.store_registers({}, 1, [](const Warp& w, std::uint32_t lane) { return 4 * w.thread(lane); });
    p.exit();
    return p;
  }();
  ProgramBench plain({}, TimingMode::at, kMemory);
  plain.start(plain.add(program, 128, 512));
  heddle::test::run_until_idle();

  ProgramBench bench({}, TimingMode::at, kMemory);
  bench.start(bench.add(program, 128, 512));
  auto& core = bench.sm.core();
  // The warp waits for nothing but a barrier, and no bulk request of its CTA is open, so that its state is all there is
  // of it (TMA-31).
  const auto rests = [&core](std::uint32_t number) {
    const heddle::sm::Cta& cta = core.ctas[0];
    if (!cta.here() || number >= cta.warps.size() || cta.bulk > 0) return false;
    const heddle::sm::Warp& warp = core.warps[cta.warps[number]];
    return warp.wait == heddle::sm::WarpWait::barrier && warp.scoreboard.under_way() == 0 && !warp.copies.under_way();
  };
  // As a CTA that was saved gets its warps back.
  const auto restore = [&core](std::uint32_t number, const std::vector<std::uint8_t>& bytes) {
    heddle::arch::WarpState& state = core.warps[core.ctas[0].warps[number]].state;
    heddle::sm::SavedWarp saved;
    saved.at = heddle::sm::SavedWarp::At::barrier;
    saved.state = heddle::arch::restore(bytes);
    heddle::sm::check_fits(saved, state, number);
    state = saved.state;
  };
  std::uint32_t times = 0;
  for (int step = 0; step < 400 && bench.mpc.exits.empty(); ++step) {
    heddle::test::run_until(sc_core::sc_time_stamp() + bench.domain.clock().period());
    if (bench.sm.resident() == 0 || step < 30) continue;
    for (std::uint32_t warp = 0; warp < 4; ++warp) {
      if (!rests(warp)) continue;
      const std::vector<std::uint8_t> saved = heddle::arch::save(core.warps[core.ctas[0].warps[warp]].state);
      heddle::arch::WarpState other = heddle::arch::restore(saved);
      for (std::uint32_t& value : other.registers) value ^= 0xDEAD'BEEF;
      other.pc = 1;
      restore(warp, heddle::arch::save(other));
      restore(warp, saved);
      other.scalars.push_back(0);
      CHECK_THROWS_AS(restore(warp, heddle::arch::save(other)), heddle::InputError);
      other.scalars.pop_back();
      other.registers.resize(other.registers.size() - heddle::arch::kWarpLanes);
      CHECK_THROWS_AS(restore(warp, heddle::arch::save(other)), heddle::InputError);
      ++times;
    }
  }
  heddle::test::run_until_idle();
  CHECK(times > 4);
  CHECK(bench.l2.bytes == plain.l2.bytes);
  CHECK(bench.mpc.exits.size() == 1);
}

}  // namespace sm_random_test
