// The live model against a recomputation from the list of resident CTAs.
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "cwd/gpc_model.h"
#include "support/random.h"

namespace cwd_live_model_test {

using heddle::CheckFailed;
using heddle::arch::kResources;
using heddle::arch::Resource;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::LiveModel;
using heddle::test::Random;

namespace {

const ResourceVector kCapacity{{64, 2048, 65'536, 233'472, 32, 512}};

struct Resident {
  std::uint32_t slot;
  std::uint32_t sm;
  std::uint32_t released = 0;  // shared memory given back before its end
};

// All that the model should know, from nothing but who is where.
class Brute {
 public:
  Brute(std::uint32_t sms, std::uint32_t slots) : sms_(sms), open(slots, false), need(slots) {}

  ResourceVector used(std::uint32_t sm) const {
    ResourceVector sum;
    for (const Resident& cta : resident) {
      if (cta.sm != sm) continue;
      ResourceVector holds = need[cta.slot];
      holds[Resource::shared_bytes] -= cta.released;
      sum.add(holds);
    }
    return sum;
  }
  std::vector<std::uint16_t> free_slots(std::uint32_t slot) const {
    std::vector<std::uint16_t> result;
    for (std::uint32_t sm = 0; sm < sms_; ++sm) {
      ResourceVector in_use = used(sm);
      std::uint16_t count = 0;
      for (;; ++count) {  // one more CTA at a time, until one does not fit
        in_use.add(need[slot]);
        if (!in_use.within(kCapacity)) break;
      }
      result.push_back(count);
    }
    return result;
  }
  std::uint32_t running(std::uint32_t slot) const {
    std::uint32_t count = 0;
    for (const Resident& cta : resident) count += cta.slot == slot ? 1 : 0;
    return count;
  }

 private:
  std::uint32_t sms_;

 public:
  std::vector<bool> open;
  std::vector<ResourceVector> need;
  std::vector<Resident> resident;
};

ResourceVector random_need(Random& random) {
  ResourceVector need;
  for (std::size_t i = 0; i < kResources; ++i) need.amount[i] = random.below(kCapacity.amount[i] / 3);
  need[Resource::ctas] = 1;
  return need;
}

void compare(LiveModel& live, const Brute& brute, std::uint32_t sms, std::uint32_t slots) {
  for (std::uint32_t sm = 0; sm < sms; ++sm) REQUIRE(live.used(sm) == brute.used(sm));
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    if (!brute.open[slot]) continue;
    const std::vector<std::uint16_t> wanted = brute.free_slots(slot);
    bool any = false;
    for (const std::uint16_t count : wanted) any = any || count > 0;
    REQUIRE((live.total_free(slot) > 0) == any);
    REQUIRE(live.free_slots(slot) == wanted);
    REQUIRE(live.running(slot) == brute.running(slot));
  }
}

}  // namespace

TEST_CASE("the live model equals a recomputation after any sequence", "[cwd][CWD-01][CWD-02][CGA-09]") {
  std::uint32_t releases = 0;
  constexpr std::uint32_t kSlots = 5;
  for (const std::uint64_t seed : heddle::test::seeds(150)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t sms = random.between(1, 9);
    const Topology topology(Shape::from_sms_per_gpc({sms}));
    LiveModel live(kCapacity, topology, kSlots);
    Brute brute(sms, kSlots);
    const std::uint32_t compare_percent = random.between(5, 100);  // stale entries pile up between comparisons
    for (int step = 0; step < 300; ++step) {
      const std::uint32_t slot = random.below(kSlots);
      if (!brute.open[slot]) {
        brute.need[slot] = random_need(random);
        brute.open[slot] = true;
        live.open(slot, brute.need[slot]);
      } else if (random.chance(50)) {
        const std::uint32_t sm = random.below(sms);
        ResourceVector after = brute.used(sm);
        after.add(brute.need[slot]);
        if (after.within(kCapacity)) {
          live.launch(slot, sm);
          brute.resident.push_back({slot, sm});
        }
      } else if (random.chance(25) && !brute.resident.empty()) {
        Resident& cta = brute.resident[random.below(brute.resident.size())];
        const std::uint32_t bytes = random.below(brute.need[cta.slot][Resource::shared_bytes] - cta.released + 1);
        live.release(cta.slot, cta.sm, bytes);
        cta.released += bytes;
        ++releases;
      } else if (random.chance(85) && !brute.resident.empty()) {
        const std::uint32_t which = random.below(brute.resident.size());
        live.complete(brute.resident[which].slot, brute.resident[which].sm, brute.resident[which].released);
        brute.resident.erase(brute.resident.begin() + which);
      } else if (brute.running(slot) == 0) {
        live.close(slot);
        brute.open[slot] = false;
      }
      if (random.chance(compare_percent)) compare(live, brute, sms, kSlots);
    }
    compare(live, brute, sms, kSlots);
    CHECK_FALSE(live.empty());
    for (const Resident& cta : brute.resident) live.complete(cta.slot, cta.sm, cta.released);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      if (brute.open[slot]) live.close(slot);
    }
    CHECK(live.empty());
  }
  CHECK(releases > 1000);
}

TEST_CASE("shared memory that is given back early makes room at once, and is not given back twice", "[cwd][CGA-09]") {
  const Topology topology(Shape::from_sms_per_gpc({1}));
  LiveModel live(kCapacity, topology, 2);
  live.open(0, {{8, 256, 0, 200'000, 1, 0}});
  live.open(1, {{8, 256, 0, 100'000, 1, 0}});
  live.launch(0, 0);
  CHECK(live.free_slots(0)[0] == 0);
  CHECK(live.free_slots(1)[0] == 0);
  live.release(0, 0, 90'000);
  CHECK(live.free_slots(1)[0] == 1);
  CHECK(live.total_free(1) == 1);
  live.release(0, 0, 90'000);
  CHECK(live.free_slots(1)[0] == 2);
  CHECK(live.free_slots(0)[0] == 1);  // its own task's too
  CHECK(live.used(0)[Resource::shared_bytes] == 20'000);
  CHECK_THROWS_AS(live.release(0, 0, 20'001), CheckFailed);
  CHECK_THROWS_AS(live.release(1, 0, 1), CheckFailed);
  CHECK_THROWS_AS(live.complete(0, 0, 180'001), CheckFailed);
  live.launch(0, 0);
  live.complete(0, 0, 180'000);
  CHECK(live.used(0)[Resource::shared_bytes] == 200'000);
  CHECK(live.free_slots(1)[0] == 0);
  CHECK_THROWS_AS(live.complete(0, 0, 1), CheckFailed);
  live.complete(0, 0);
  CHECK(live.used(0) == ResourceVector{});
}

TEST_CASE("a snapshot does not move with the live model", "[cwd][CWD-02]") {
  const Topology topology(Shape::from_sms_per_gpc({3}));
  LiveModel live(kCapacity, topology, 2);
  ResourceVector need{{32, 1024, 0, 0, 1, 0}};
  live.open(0, need);
  live.launch(0, 0);
  live.launch(0, 1);
  const std::vector<std::uint16_t> snapshot = live.free_slots(0);
  CHECK(snapshot == std::vector<std::uint16_t>{1, 1, 2});
  live.complete(0, 0);
  CHECK(snapshot == std::vector<std::uint16_t>{1, 1, 2});
  CHECK(live.free_slots(0) == std::vector<std::uint16_t>{2, 1, 2});
  // The snapshot was pessimistic, never optimistic: what it allows still fits.
  live.launch(0, 0);
  CHECK(live.used(0)[Resource::threads] == 1024);
}

TEST_CASE("tasks share the resources of an SM", "[cwd][CWD-01]") {
  const Topology topology(Shape::from_sms_per_gpc({1}));
  LiveModel live(kCapacity, topology, 2);
  live.open(0, {{8, 256, 0, 100'000, 1, 0}});  // two fit, by shared memory
  live.open(1, {{16, 512, 30'000, 0, 1, 0}});  // two fit, by registers
  CHECK(live.free_slots(0)[0] == 2);
  CHECK(live.free_slots(1)[0] == 2);
  live.launch(0, 0);
  live.launch(0, 0);
  CHECK(live.free_slots(0)[0] == 0);
  CHECK(live.free_slots(1)[0] == 2);
  live.launch(1, 0);
  live.complete(0, 0);
  CHECK(live.free_slots(0)[0] == 1);
  CHECK(live.free_slots(1)[0] == 1);
  CHECK_FALSE(live.empty());
  live.reset();
  CHECK(live.empty());
  live.open(0, {{8, 256, 0, 100'000, 1, 0}});
  CHECK(live.free_slots(0)[0] == 2);
}

TEST_CASE("the live model refuses what cannot be", "[cwd][CWD-07]") {
  const Topology topology(Shape::from_sms_per_gpc({2}));
  LiveModel live(kCapacity, topology, 2);
  live.open(0, {{64, 2048, 0, 0, 1, 0}});
  CHECK_THROWS_AS(live.open(0, {}), CheckFailed);
  live.launch(0, 1);
  CHECK_THROWS_AS(live.close(0), CheckFailed);
  CHECK_THROWS_AS(live.complete(0, 0), CheckFailed);
  CHECK_THROWS_AS(live.complete(1, 1), CheckFailed);
  CHECK_THROWS_AS(live.launch(0, 1), CheckFailed);
}

}  // namespace cwd_live_model_test
