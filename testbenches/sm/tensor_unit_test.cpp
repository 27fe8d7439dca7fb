// Asynchronous matrix multiplies: when they are done, in groups, and on what data.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tensor_data.h"
#include "sm/program_bench.h"
#include "support/random.h"

namespace tensor_unit_test {

using namespace heddle;
using heddle::arch::MatmulTile;
using heddle::arch::OpCode;
using heddle::arch::Space;
using heddle::arch::Swizzle;
using heddle::arch::Unit;
using heddle::test::ListProgram;
using heddle::test::ProgramBench;
using heddle::test::Random;
using heddle::test::Warp;

namespace {

constexpr TimingMode kModes[] = {TimingMode::at, TimingMode::fast, TimingMode::lt};
constexpr std::uint32_t kShared = 32'768;

ListProgram::Access in(Space space, std::uint8_t width = 4) {
  ListProgram::Access access;
  access.space = space;
  access.width = width;
  return access;
}

// Without bank conflicts: the tensor core decides, in n / 8 x k / 4 cycles.
MatmulTile tile_of(std::uint32_t n, std::uint32_t k) {
  MatmulTile tile;
  tile.n = n;
  tile.k = k;
  tile.a_pitch = tile.b_pitch = 128;
  tile.b = 4'096;
  tile.b_transposed = true;
  tile.a_swizzle = tile.b_swizzle = Swizzle::bytes128;
  return tile;
}

struct Step {
  OpCode code = OpCode::compute;
  std::uint32_t n = 0;        // multiplies
  std::uint32_t k = 0;        //
  std::uint16_t sums = 0;     // multiplies: the first; compute: that it reads
  std::uint32_t groups = 0;   // waits
  std::uint32_t repeats = 1;  // compute: instructions
  bool reads = false;         // compute: waits for its register
};

constexpr std::uint16_t kSets[] = {0, 16};  // of accumulators; register 40 belongs to none

ListProgram program_of(const std::vector<Step>& steps) {
  ListProgram p(41);
  for (const Step& step : steps) {
    switch (step.code) {
      case OpCode::matmul:
      case OpCode::matmul_async:
        p.matmul(tile_of(step.n, step.k), step.sums, step.code);
        break;
      case OpCode::matmul_commit:
        p.matmul_commit();
        break;
      case OpCode::matmul_wait:
        p.matmul_wait(step.groups);
        break;
      default:
        p.compute(Unit::fp32, step.repeats, {{step.reads ? step.sums : std::uint16_t{40}, 1}}, {});
    }
  }
  p.exit();
  return p;
}

std::vector<Step> random_steps(Random& random) {
  std::vector<Step> steps;
  const std::uint32_t count = random.below(40) + 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    Step step;
    step.sums = kSets[random.below(2)];
    step.n = 8 * (random.below(3) + 2);  // of 8, the operands take longer
    step.k = 16 * (random.below(4) + 1);
    switch (random.below(8)) {
      case 0:
      case 1:
      case 2:
        step.code = OpCode::matmul_async;
        break;
      case 3:
        step.code = OpCode::matmul;
        break;
      case 4:
      case 5:
        step.code = OpCode::matmul_commit;
        break;
      case 6:
        step.code = OpCode::matmul_wait;
        step.groups = random.below(8);
        break;
      default:
        step.repeats = random.below(30) + 1;
        step.reads = random.below(3) == 0;
    }
    steps.push_back(step);
  }
  return steps;
}

// Cycle by cycle: one warp, one tensor core. Gives the cycle in which the last of the steps has been issued and all
// multiplies are over.
class Stepped {
 public:
  Stepped(const std::vector<Step>& steps, std::uint32_t queue, std::uint32_t latency)
      : steps_(steps), queue_(queue), latency_(latency) {}

  Cycle run() {
    for (now_ = 0;; ++now_) {
      advance();
      if (next_ == steps_.size() && issues()) {  // the exit
        Cycle last = now_;
        for (const Multiply& each : all_) {
          if (each.group) last = std::max(last, each.end == kNever ? kNever : each.end - 1);
        }
        if (last != kNever) return last;
        while (!core_.empty()) {
          ++now_;
          advance();
        }
        return std::max(last_issue_, now_ - 1);
      }
      if (next_ < steps_.size() && issues()) issue();
      advance();
    }
  }

 private:
  struct Multiply {
    Cycle cycles = 0;
    Cycle begin = kNever;
    Cycle end = kNever;
    std::optional<std::uint32_t> group;
    std::uint16_t sums = 0;
    std::uint16_t registers = 0;
  };

  // The tensor core: what is over makes place for the next.
  void advance() {
    while (!core_.empty()) {
      Multiply& front = all_[core_.front()];
      if (front.begin == kNever && direct_ > now_) return;
      if (front.begin == kNever) front.begin = now_;
      if (now_ < front.begin + front.cycles) return;
      front.end = now_;
      apart_ = now_ + 1;
      core_.pop_front();
    }
  }

  bool issues() {
    if (now_ < free_) return false;
    if (next_ > 0 && !passed()) return false;
    last_issue_ = now_;
    if (next_ == steps_.size()) return true;
    const Step& step = steps_[next_];
    if (step.code == OpCode::matmul) {
      // To a core that works for nobody, and has not just done so for the queue.
      if (!core_.empty() || direct_ > now_ || apart_ > now_) return false;
    }
    if (step.code == OpCode::compute && step.reads) {
      for (const Multiply& each : all_) {
        const bool same = step.sums >= each.sums && step.sums < each.sums + each.registers;
        if (same && (each.end == kNever || each.end + latency_ > now_)) return false;
      }
    }
    return true;
  }

  // What the step before has to wait for.
  bool passed() const {
    const Step& before = steps_[next_ - 1];
    if (before.code == OpCode::matmul_async) {
      return core_.size() <= queue_ + 1 || place_ == kNever ||
             std::find(core_.begin(), core_.end(), place_) == core_.end() ||
             static_cast<std::uint32_t>(std::find(core_.begin(), core_.end(), place_) - core_.begin()) <= queue_;
    }
    if (before.code == OpCode::matmul_commit) return open() <= 8;
    if (before.code == OpCode::matmul_wait) return open() <= before.groups;
    return true;
  }

  // Groups from the oldest one on that is not over.
  std::uint32_t open() const {
    for (std::uint32_t group = 0; group < groups_; ++group) {
      for (const Multiply& each : all_) {
        if (each.group == group && (each.end == kNever || each.end + latency_ > now_)) return groups_ - group;
      }
    }
    return 0;
  }

  void issue() {
    const Step& step = steps_[next_++];
    free_ = now_ + 1;
    place_ = kNever;
    if (step.code == OpCode::compute) free_ = now_ + step.repeats;
    if (step.code == OpCode::matmul_commit) ++groups_;
    if (step.code != OpCode::matmul && step.code != OpCode::matmul_async) return;
    Multiply its;
    its.cycles = Cycle{step.n} * step.k * 32 / 1'024;
    its.sums = step.sums;
    its.registers = static_cast<std::uint16_t>(step.n / 2);
    if (step.code == OpCode::matmul_async) its.group = groups_;
    if (step.code == OpCode::matmul) {
      its.begin = now_;
      its.end = direct_ = now_ + its.cycles;
      all_.push_back(its);
      return;
    }
    place_ = all_.size();
    core_.push_back(all_.size());
    all_.push_back(its);
  }

  const std::vector<Step>& steps_;
  const std::uint32_t queue_;
  const Cycle latency_;
  Cycle now_ = 0;
  Cycle free_ = 0;
  Cycle direct_ = 0;  // the core works for an instruction until then
  Cycle apart_ = 0;   // it takes an instruction from then on
  Cycle last_issue_ = 0;
  std::size_t next_ = 0;
  std::size_t place_ = kNever;  // of the multiply that was issued last
  std::uint32_t groups_ = 0;
  std::deque<std::size_t> core_;
  std::vector<Multiply> all_;
};

// Each lane stores what `value` gives as rows of 128 bytes, 16 of A and 64 of B.
void fill(ListProgram& p, std::uint32_t first, std::uint32_t rows, float value) {
  const std::uint32_t pair = std::uint32_t{arch::f16_of(value)} * 0x1'0001U;
  for (std::uint32_t row = 0; row < rows; ++row) {
    p.store(
        in(Space::shared), [pair](const Warp&, std::uint32_t) { return pair; },
        [=](const Warp&, std::uint32_t lane) { return first + 128 * row + 4 * lane; });
  }
}

}  // namespace

TEST_CASE("asynchronous multiplies take their time in order, and waits of groups theirs", "[sm][SM-03][SM-04]") {
  HEDDLE_RANDOM(random);
  for (int round = 0; round < 150; ++round) {
    CAPTURE(round);
    sm::SmParams params;
    params.issue.tensor_queue = random.below(4) + 1;
    params.issue.tensor_latency = random.below(40);
    const std::vector<Step> steps = random_steps(random);
    for (const TimingMode mode : kModes) {
      ProgramBench empty(params, mode);
      const Cycle none = empty.run(program_of({}), 32, kShared);
      ProgramBench bench(params, mode);
      const Cycle took = bench.run(program_of(steps), 32, kShared) - none;
      REQUIRE(bench.faults.empty());
      CHECK(took == Stepped(steps, params.issue.tensor_queue, params.issue.tensor_latency).run());
    }
  }
}

TEST_CASE("sums of asynchronous multiplies are those of others, in the order of their issue", "[sm][SM-04]") {
  HEDDLE_RANDOM(random);
  for (int round = 0; round < 20; ++round) {
    std::vector<Step> steps = random_steps(random);
    std::vector<Step> plain = steps;
    for (Step& step : plain) {
      if (step.code == OpCode::matmul_async) step.code = OpCode::matmul;
    }
    for (const TimingMode mode : kModes) {
      std::vector<std::vector<std::uint8_t>> results;
      for (const std::vector<Step>& its : {steps, plain}) {
        ListProgram p(41);
        for (std::uint32_t row = 0; row < 64; ++row) {
          p.store(
              in(Space::shared),
              [row](const Warp& w, std::uint32_t lane) {
                return std::uint32_t{arch::f16_of(0.37F * static_cast<float>((row * 7 + lane + w.place.warp) % 11))} |
                       std::uint32_t{arch::f16_of(-0.11F * static_cast<float>(row % 5))} << 16;
              },
              [row](const Warp&, std::uint32_t lane) { return 128 * (row < 16 ? row : row + 16) + 4 * lane; });
        }
        p.barrier();
        for (const Step& step : its) {
          if (step.code == OpCode::matmul || step.code == OpCode::matmul_async) {
            p.matmul(tile_of(step.n, step.k), step.sums, step.code);
          } else if (step.code == OpCode::matmul_commit) {
            p.matmul_commit();
          } else if (step.code == OpCode::matmul_wait) {
            p.matmul_wait(step.groups);
          }
        }
        for (std::uint16_t reg = 0; reg < 32; reg += 4) {
          p.store_registers(in(Space::global, 16), reg, [reg](const Warp& w, std::uint32_t lane) {
            return 16 * (32 * (8 * w.place.warp + reg / 4U) + lane);
          });
        }
        p.exit();
        ProgramBench bench({}, mode);
        bench.run(p, 256, kShared);  // two warps share each tensor core
        REQUIRE(bench.faults.empty());
        results.emplace_back(bench.l2.bytes.begin(), bench.l2.bytes.begin() + 32'768);
      }
      CHECK(results[0] == results[1]);
    }
  }
}

TEST_CASE("operands are read until a multiply is over: who overwrites them has to wait first", "[sm][SM-04]") {
  for (const TimingMode mode : kModes) {
    for (const bool waits : {false, true}) {
      ListProgram p(8);
      fill(p, 0, 16, 1);
      fill(p, 4'096, 8, 1);
      p.matmul(tile_of(8, 16), 4, OpCode::matmul_async);
      p.matmul_commit();
      if (waits) p.matmul_wait(0);
      fill(p, 0, 1, 3);  // the first row of A
      p.matmul_wait(0);
      p.store_registers(in(Space::global), 4, ListProgram::linear(0, 4));
      p.exit();
      sm::SmParams slow;
      slow.issue.tensor_flops = 16;  // 256 cycles
      ProgramBench its(slow, mode);
      its.run(p, 32, kShared);
      std::uint32_t bits = 0;
      std::memcpy(&bits, its.l2.bytes.data(), 4);
      CHECK(arch::float_of(bits) == (waits ? 16 : 48));
    }
  }
}

TEST_CASE("a CTA ends after its multiplies, and one that is stopped leaves them", "[sm][SM-04]") {
  for (const TimingMode mode : kModes) {
    sm::SmParams params;
    params.issue.tensor_flops = 16;
    const auto end_of = [&](bool faults) {
      ListProgram p(8);
      for (int i = 0; i < 3; ++i) p.matmul(tile_of(8, 16), 4, OpCode::matmul_async);
      if (faults) p.load(in(Space::shared), 0, ListProgram::constant(kShared));
      p.exit();
      ProgramBench bench(params, mode);
      const Cycle end = bench.run(p, 32, kShared);
      CHECK(bench.faults.size() == (faults ? 1 : 0));
      // The place is whole again.
      ListProgram after(1);
      after.exit();
      bench.start(bench.add(after, 32, kShared), 0, 1, 2'000);
      test::run_until_idle();
      CHECK(bench.mpc.exits.size() == 2);
      return end;
    };
    CHECK(end_of(false) == 3 * 256);
    CHECK(end_of(true) < 300);  // the one that had begun goes on to its end
  }
}

TEST_CASE("what an asynchronous multiply reads that is not there, or is corrupt, stops its CTA",
          "[sm][SM-04][MEM-05]") {
  sm::SmParams params;
  params.issue.tensor_flops = 16;
  const auto fault_of = [&](std::uint32_t b, bool corrupt) {
    MatmulTile tile = tile_of(8, 16);
    tile.b = b;
    ListProgram p(8);
    p.matmul(tile, 4, OpCode::matmul_async);
    p.matmul_commit();
    p.matmul_wait(0);
    p.exit();
    ProgramBench bench(params);
    bench.start(bench.add(p, 32, kShared));
    test::run_until(bench.domain.clock().time_of(bench.first_issue() + 20));
    if (corrupt) bench.sm.poison_shared(0, 4'096, 1);
    test::run_until_idle();
    CHECK(bench.mpc.exits.size() == 1);
    REQUIRE(bench.faults.size() == 1);
    CHECK(bench.faults[0].operation == OpCode::matmul_async);
    return bench.faults[0].kind;
  };
  CHECK(fault_of(kShared, false) == arch::FaultKind::shared_bounds);
  CHECK(fault_of(4'096, true) == arch::FaultKind::poison);
}

TEST_CASE("a warp that waits for multiplies says so, and for which", "[sm][SM-04]") {
  sm::SmParams params;
  params.issue.tensor_flops = 16;
  params.issue.tensor_queue = 1;
  const auto chain_at = [&](Cycle after) {
    ListProgram p(8);
    for (int i = 0; i < 3; ++i) {
      p.matmul(tile_of(8, 16), 4, OpCode::matmul_async);
      p.matmul_commit();
    }
    p.matmul_wait(1);
    p.exit();
    ProgramBench bench(params);
    bench.start(bench.add(p, 32, kShared));
    test::run_until(bench.domain.clock().time_of(bench.first_issue() + after));
    WaitGraph graph;
    bench.sm.collect_waits(graph);
    std::string text;
    for (const std::string& line : graph.chain()) text += line + "\n";
    test::run_until_idle();
    CHECK(bench.stat("stall.tensor") > 0);
    return text;
  };
  CHECK_THAT(chain_at(100), Catch::Contains("in matmul_async, for a place behind tensor core 0 of SM 3, with 3 "
                                            "multiplies"));
  CHECK_THAT(chain_at(300), Catch::Contains("in matmul_wait (3 groups of multiplies open, 1 may be), for tensor core"));
  CHECK_THAT(chain_at(600), Catch::Contains("1 matrix multiplies of SM 3, CTA 0, which nobody has waited for"));
}

}  // namespace tensor_unit_test
