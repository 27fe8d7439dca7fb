// Random accesses to distributed shared memory against flat windows.
#include <array>
#include <cstring>

#include <catch2/catch.hpp>

#include "sm/memory_cluster_bench.h"
#include "support/random.h"

namespace sm_memory_cluster_random_test {

using namespace heddle;
using namespace heddle::test;
using arch::AtomicKind;
using arch::kWarpLanes;
using arch::LaneMask;
using arch::OpCode;
using arch::Operation;
using arch::ValueType;

namespace {

// Each warp has a slice of every window of its CGA, and goes on when its loads and atomics have ended: then the order
// of packets between two SMs makes its accesses come in its own order, and flat windows tell what it must find.
class Story : private EventHandler {
 public:
  struct Place {
    heddle::protocol::CgaId cga_id;
    std::uint32_t rank;
    std::uint32_t ctas;
    std::uint32_t sm;
    std::uint32_t window;
  };
  static constexpr std::uint32_t kWarpsOfCta = 2;
  static constexpr std::uint32_t kSlice = 208;  // bytes: neither whole lines nor whole sectors

  Story(std::uint64_t seed, TimingMode mode, int steps) : random_(seed), steps_(steps), bench_(shape(random_, mode)) {
    bench_.network.delay = [this](std::uint32_t, std::uint32_t) {
      return bench_.domain.mode() == TimingMode::lt ? 0 : random_.between(1, 200);
    };
    for (const Place& place : kPlaces) {
      // The last slice ends where the window does.
      const std::uint32_t bytes = place.ctas * kWarpsOfCta * kSlice - random_.below(100);
      bench_.place(place.cga_id, place.rank, place.ctas, place.sm, place.window, bytes);
      flat_.emplace_back(bytes);
      for (std::uint32_t warp = 0; warp < kWarpsOfCta; ++warp) {
        const std::uint32_t slot = place.window * kWarpsOfCta + warp;
        bench_.sms[place.sm]->set_warp(slot, place.window, place.cga_id);
        actors_.push_back({&place, slot, place.rank * kWarpsOfCta + warp, {}, {}, 0, false});
      }
    }
    for (std::uint32_t sm = 0; sm < 3; ++sm) {
      bench_.sms[sm]->on_ended = [this, sm](std::uint32_t warp, Cycle when) { wake(sm, warp, when); };
      bench_.sms[sm]->on_go = [this, sm] { go_on(sm); };
    }
  }

  bool run() {
    test::start();
    for (std::uint32_t i = 0; i < actors_.size(); ++i) bench_.domain.schedule(0, *this, kCheck, i);
    run_until_idle();
    for (std::size_t i = 0; i < kPlaces.size(); ++i) {
      const Place& place = kPlaces[i];
      const auto& memory = bench_.sms[place.sm]->unit.shared;
      right_ = right_ && std::equal(flat_[i].begin(), flat_[i].end(), memory.data(place.window));
    }
    for (const Actor& actor : actors_) right_ = right_ && actor.steps == steps_;
    for (const auto& sm : bench_.sms) right_ = right_ && sm->failed.empty() && sm->lost.empty();
    return right_ && bench_.quiet();
  }
  std::uint64_t requests() const { return bench_.network.requests; }
  std::uint64_t stops() const { return stops_; }

 private:
  static constexpr std::uint32_t kCheck = 0;  // the last result is there; argument: actor
  static constexpr std::uint32_t kIssue = 1;
  static constexpr heddle::protocol::CgaId kCga{5};
  static constexpr heddle::protocol::CgaId kOther{200};
  static constexpr std::array<Place, 6> kPlaces{{{kCga, 0, 4, 0, 3},
                                                 {kCga, 1, 4, 1, 0},
                                                 {kCga, 2, 4, 1, 2},
                                                 {kCga, 3, 4, 2, 1},
                                                 {kOther, 0, 2, 2, 6},
                                                 {kOther, 1, 2, 0, 1}}};
  struct Actor {
    const Place* place;
    std::uint32_t slot;   // warp slot
    std::uint32_t slice;  // of every window of the CGA
    std::vector<std::uint32_t> expected;
    Operation operation;
    int steps;
    bool stalled;
  };

  static UnitsShape shape(Random& random, TimingMode mode) {
    UnitsShape shape;
    shape.sms = 3;
    shape.credits = random.chance(40) ? 1 : random.between(2, 20);
    shape.mode = mode;
    shape.params.memory.cluster_queue = random.chance(40) ? 1 : random.between(2, 20);
    shape.params.memory.request_queue = random.chance(40) ? 1 : random.between(2, 100);
    shape.params.memory.requests = random.chance(40) ? random.between(1, 8) : 256;
    return shape;
  }

  void wake(std::uint32_t sm, std::uint32_t warp, Cycle when) {
    for (std::uint32_t i = 0; i < actors_.size(); ++i) {
      if (actors_[i].place->sm == sm && actors_[i].slot == warp) bench_.domain.schedule(when, *this, kCheck, i);
    }
  }
  void go_on(std::uint32_t sm) {
    for (std::uint32_t i = 0; i < actors_.size(); ++i) {
      if (actors_[i].place->sm != sm || !actors_[i].stalled) continue;
      actors_[i].stalled = false;
      bench_.domain.schedule(bench_.domain.now(), *this, kIssue, i);
    }
  }
  void on_event(std::uint32_t kind, std::uint64_t which) override {
    Actor& actor = actors_[which];
    UnitOfSm& sm = *bench_.sms[actor.place->sm];
    if (kind == kCheck) {
      right_ = right_ && (actor.expected.empty() || sm.warps[actor.slot].state.registers == actor.expected);
      if (actor.steps == steps_) return;
    }
    const Cycle free = sm.unit.gate.free();
    if (free == kNever) {
      ++stops_;
      actor.stalled = true;
      return;
    }
    if (free > bench_.domain.now()) return bench_.domain.schedule(free, *this, kIssue, which);
    ++actor.steps;
    choose(actor);
    apply(actor);
    const sm::MemoryResult result = sm.cluster(actor.operation, actor.slot, bench_.domain.now());
    right_ = right_ && !result.lost;
    const bool returns = actor.operation.code == OpCode::load ||
                         (actor.operation.code == OpCode::atomic && actor.operation.destination != arch::kNoRegister);
    right_ = right_ && (returns || !result.open);
    if (result.open) return;
    // A write goes on at once.
    bench_.domain.schedule(returns ? result.ready : bench_.domain.now() + 1, *this, kCheck, which);
  }

  std::vector<std::uint8_t>& window_of(const Place& place, std::uint32_t rank) {
    std::size_t i = 0;
    while (kPlaces[i].cga_id != place.cga_id || kPlaces[i].rank != rank) ++i;
    return flat_[i];
  }

  void choose(Actor& actor) {
    constexpr std::array<OpCode, 4> kCodes{OpCode::load, OpCode::store, OpCode::store, OpCode::atomic};
    constexpr std::array<ValueType, 5> kTypes{ValueType::u32, ValueType::s32, ValueType::f32, ValueType::u64,
                                              ValueType::f16x2};
    const OpCode code = kCodes[random_.below(4)];
    Operation operation = cluster_op(code, 1U << random_.below(5),
                                     random_.chance(50) ? ~LaneMask{0} : static_cast<LaneMask>(random_.next()));
    operation.type = kTypes[random_.below(kTypes.size())];
    do {
      operation.atomic = static_cast<AtomicKind>(random_.below(10));
    } while (!arch::atomic_exists(operation.atomic, operation.type));
    if (code == OpCode::atomic) operation.width = static_cast<std::uint8_t>(arch::bytes_of(operation.type));
    if (code == OpCode::load || (code == OpCode::atomic && random_.chance(60))) operation.destination = 2;
    const std::uint32_t width = operation.width;
    const std::uint32_t rank = random_.below(actor.place->ctas);
    const bool one = random_.chance(50);  // all lanes to one CTA
    const bool row = random_.chance(50);
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      const std::uint32_t its = one ? rank : random_.below(actor.place->ctas);
      const std::uint32_t begin = actor.slice * kSlice;
      const auto end =
          std::min<std::uint32_t>(begin + kSlice, static_cast<std::uint32_t>(window_of(*actor.place, its).size()));
      const std::uint32_t slots = (end - begin) / width;
      const std::uint32_t slot = row ? lane % slots : random_.below(slots);
      operation.address[lane] = arch::dsmem_address(its, begin + slot * width);
      for (std::uint32_t& word : operation.data[lane]) word = static_cast<std::uint32_t>(random_.next());
      operation.compare[lane] = random_.below(2);
    }
    actor.operation = operation;
  }

  void apply(Actor& actor) {
    const Operation& operation = actor.operation;
    actor.expected = bench_.sms[actor.place->sm]->warps[actor.slot].state.registers;
    const std::uint32_t width = operation.width;
    for (std::uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if ((operation.lanes >> lane & 1) == 0) continue;
      const auto rank = static_cast<std::uint32_t>(operation.address[lane] >> 24);
      std::uint8_t* at = window_of(*actor.place, rank).data() + (operation.address[lane] & 0xFF'FFFF);
      if (operation.destination != arch::kNoRegister) {
        for (std::uint32_t i = 0; i < std::max(1U, width / 4); ++i) {
          std::uint32_t word = 0;
          std::memcpy(&word, at + std::size_t{4} * i, std::min(width, 4U));
          actor.expected[(operation.destination + i) * kWarpLanes + lane] = word;
        }
      }
      if (operation.code == OpCode::store) std::memcpy(at, operation.data[lane].data(), width);
      if (operation.code != OpCode::atomic) continue;
      std::uint64_t old = 0;
      std::uint64_t operand = 0;
      std::memcpy(&old, at, width);
      std::memcpy(&operand, operation.data[lane].data(), width);
      const std::uint64_t result =
          arch::atomic_result(operation.atomic, operation.type, old, operand, operation.compare[lane]);
      std::memcpy(at, &result, width);
    }
  }

  const char* handler_name() const override { return "story"; }

  Random random_;
  int steps_;
  UnitsBench bench_;
  std::vector<std::vector<std::uint8_t>> flat_;  // by place
  std::vector<Actor> actors_;
  std::uint64_t stops_ = 0;
  bool right_ = true;
};

}  // namespace

TEST_CASE("random accesses find what flat windows hold", "[sm][CGA-05][CGA-06]") {
  std::uint64_t requests = 0;
  std::uint64_t stops = 0;
  for (const std::uint64_t seed : seeds(150)) {
    CAPTURE(seed);
    Story story(seed, TimingMode::at, 40);
    REQUIRE(story.run());
    requests += story.requests();
    stops += story.stops();
  }
  CHECK(requests > 25'000);
  CHECK(stops > 500);  // units that had no room
}

TEST_CASE("random accesses find what flat windows hold, loosely timed", "[sm][CGA-06]") {
  for (const std::uint64_t seed : seeds(50)) {
    CAPTURE(seed);
    Story story(seed, TimingMode::lt, 40);
    REQUIRE(story.run());
  }
}

}  // namespace sm_memory_cluster_random_test
