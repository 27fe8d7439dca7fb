// Random programs with bulk requests, and a TMAU that answers as it likes: waits are long enough, and nothing is lost.
// lost.
#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "common/bits.h"
#include "sm/bulk_requests.h"
#include "sm/program_bench.h"
#include "support/random.h"

namespace sm_bulk_random_test {

using heddle::Cycle;
using heddle::TimingMode;
using heddle::arch::BulkKind;
using heddle::arch::LaneMask;
using heddle::arch::OpCode;
using heddle::arch::SpecialRegister;
using heddle::arch::TensorRule;
using heddle::test::block_of;
using heddle::test::FakeTmau;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Random;
using heddle::test::Warp;

namespace {

constexpr std::uint32_t kShared = 1024;
constexpr std::uint64_t kNotes = 1 << 19;  // clocks: by wait and warp
constexpr std::uint32_t kWarps = 5;

// A program is the same for all warps; a request is known by its address: step, warp and lane.
std::uint64_t address_of(std::uint64_t step, std::uint64_t warp, std::uint64_t lane) {
  return (step << 16 | warp << 8 | lane) << 7;
}
std::uint64_t step_of(std::uint64_t address) { return address >> 23; }
std::uint64_t warp_of(std::uint64_t address) { return address >> 15 & 0xFF; }

// What a wait of the program has to have waited for: the steps of the groups that must be over.
struct Wait {
  bool read = false;
  bool drain = false;
  std::vector<std::uint64_t> steps;
};

struct Made {
  ListProgram program{4};
  std::vector<Wait> waits;
  std::map<std::uint64_t, BulkKind> kinds;  // by step
  std::map<std::uint64_t, std::uint32_t> lanes;
};

void add_request(Made& made, Random& random, std::uint64_t step) {
  struct Kind {
    OpCode code;
    BulkKind kind;
  };
  constexpr Kind kKinds[] = {{OpCode::bulk_load, BulkKind::load},
                             {OpCode::bulk_store, BulkKind::store},
                             {OpCode::bulk_reduce, BulkKind::reduce},
                             {OpCode::bulk_copy, BulkKind::copy},
                             {OpCode::bulk_prefetch, BulkKind::prefetch}};
  const Kind kind = kKinds[random.below(5)];
  const LaneMask lanes = random.chance(60) ? 1U : static_cast<LaneMask>(random.next() & random.next() & random.next());
  made.kinds[step] = kind.kind;
  made.lanes[step] = lanes;
  made.program.bulk(
      kind.code,
      [=](const Warp& warp, std::uint32_t lane) {
        return block_of(kind.kind, address_of(step, warp.place.warp, lane), 64, 128, 0);
      },
      [lanes](const Warp&) { return lanes; });
}

bool grouped(BulkKind kind) { return kind != BulkKind::load && kind != BulkKind::prefetch; }

Made make(Random& random) {
  Made made;
  ListProgram& p = made.program;
  std::vector<std::vector<std::uint64_t>> groups(1);
  const std::uint32_t steps = random.between(5, 30);
  for (std::uint64_t step = 1; step <= steps; ++step) {
    const std::uint32_t what = random.below(100);
    if (what < 55) {
      add_request(made, random, step);
      if (grouped(made.kinds[step])) groups.back().push_back(step);
      continue;
    }
    if (what < 75) {
      p.bulk_commit();
      groups.emplace_back();
      continue;
    }
    if (what < 80) {
      p.compute(heddle::arch::Unit::fp32, random.between(1, 200), {}, {});
      continue;
    }
    Wait wait;
    wait.drain = random.chance(15);
    wait.read = !wait.drain && random.chance(40);
    if (wait.drain) {
      p.bulk_drain();
    } else {
      const std::uint32_t open = random.below(4);
      p.bulk_wait(open, wait.read);
      for (std::size_t i = 0; i + 1 + open < groups.size(); ++i) {
        wait.steps.insert(wait.steps.end(), groups[i].begin(), groups[i].end());
      }
    }
    const std::uint64_t number = made.waits.size();
    made.waits.push_back(wait);
    p.special(SpecialRegister::clock, 0, 2);
    ListProgram::Access access;
    access.lanes = ListProgram::only(0);
    p.store(access, ListProgram::of_register(0),
            [number](const Warp& warp, std::uint32_t) { return kNotes + 4 * (number * kWarps + warp.place.warp); },
            {{0, 2}});
  }
  p.exit();
  return made;
}

struct Times {
  Cycle read = 0;
  Cycle over = 0;
};

void check_round(std::uint64_t seed, TimingMode mode) {
  Random random(seed);
  heddle::sm::SmContext place = heddle::test::bench_place();
  place.bulk_queue = random.between(1, 6);
  heddle::sm::SmParams params;
  params.tensor_errors = heddle::sm::TensorErrors::report;
  ProgramBench bench(params, mode, 1 << 20, 0, place);
  bench.tmau.pace = random.between(1, 30);
  const std::uint32_t slowest = random.between(1, 2000);
  std::map<std::uint64_t, Times> times;  // by address; `drains` by warp
  std::size_t dropped = 0;
  bench.tmau.read = [&](const FakeTmau::Seen& seen) {
    const auto& request = seen.packet.request;
    const bool reads = request.kind == BulkKind::store || request.kind == BulkKind::reduce;
    if (!reads || random.chance(20)) return heddle::kNever;
    const Cycle when = bench.domain.now() + random.between(1, slowest);
    times[request.global].read = when;
    return when;
  };
  bench.tmau.answer = [&](const FakeTmau::Seen& seen, FakeTmau::Done& done) {
    const auto& request = seen.packet.request;
    Times& its = times[request.global];
    Cycle when = std::max(bench.domain.now(), its.read) + random.between(1, slowest);
    if (request.kind != BulkKind::drain && random.chance(5)) {
      done.kind = FakeTmau::Done::Kind::dropped;
      done.rule = TensorRule::unmapped;
      ++dropped;
    }
    its.over = when;
    if (its.read == 0) its.read = when;
    return when;
  };
  const Made made = make(random);
  bench.run(made.program, 32 * kWarps, kShared);

  std::size_t expected = 0;
  for (const auto& [step, lanes] : made.lanes) {
    expected += kWarps * heddle::bits::count(lanes);
  }
  for (const Wait& wait : made.waits) expected += wait.drain ? kWarps : 0;
  CHECK(bench.tmau.seen.size() == expected);
  CHECK(bench.tmau.most_waiting <= place.bulk_queue);
  CHECK(bench.tmau.open == 0);
  CHECK(bench.faults.size() == dropped);
  CHECK_FALSE(bench.mpc.exit_of(0).faulted);
  CHECK(bench.sm.quiescent());

  // Requests of a warp leave in the order of its program.
  std::map<std::uint64_t, std::uint64_t> last;
  for (const FakeTmau::Seen& seen : bench.tmau.seen) {
    if (seen.packet.request.kind == BulkKind::drain) continue;
    const std::uint64_t at = seen.packet.request.global;
    std::uint64_t& before = last[warp_of(at)];
    CHECK(at > before);
    before = at;
  }
  for (std::size_t number = 0; number < made.waits.size(); ++number) {
    const Wait& wait = made.waits[number];
    if (wait.drain) continue;
    for (std::uint64_t warp = 0; warp < kWarps; ++warp) {
      Cycle latest = 0;
      for (const auto& [address, its] : times) {
        if (address == 0 || warp_of(address) != warp) continue;
        if (std::find(wait.steps.begin(), wait.steps.end(), step_of(address)) == wait.steps.end()) continue;
        latest = std::max(latest, wait.read ? its.read : its.over);
      }
      const Cycle noted = bench.l2.get<std::uint32_t>(kNotes + 4 * (number * kWarps + warp));
      CHECK(noted >= latest);
    }
  }
}

}  // namespace

TEST_CASE("random bulk requests, with answers in any order", "[sm][TMA-41][TMA-02]") {
  for (const std::uint64_t seed : heddle::test::seeds(120)) {
    CAPTURE(seed);
    check_round(seed, seed % 3 == 0 ? TimingMode::lt : TimingMode::at);
  }
}

}  // namespace sm_bulk_random_test
