// The model of a GPC against a reference that places one CTA after another, straight from the specification.
#include "cwd/gpc_model.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "cwd/gpc_oracle.h"
#include "support/random.h"

namespace cwd_gpc_model_test {

using heddle::CheckFailed;
using heddle::InputError;
using heddle::arch::kMaxSmsPerGpc;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::DomainPolicy;
using heddle::cwd::GpcCgaShape;
using heddle::cwd::GpcModel;
using heddle::cwd::GpcReply;
using heddle::cwd::GpcSlots;
using heddle::cwd::SmPolicy;
using heddle::test::GpcOracle;
using heddle::test::Random;

namespace {

using Masks = std::vector<std::uint64_t>;
using Bits = std::vector<std::uint32_t>;

GpcSlots slots(const Bits& free) {
  GpcSlots result{};
  for (std::size_t i = 0; i < free.size(); ++i) result[i] = static_cast<std::uint16_t>(free[i]);
  return result;
}

// The SMs in launch order.
Bits unrolled(const Masks& masks) {
  Bits order;
  for (const std::uint64_t mask : masks) {
    for (std::uint32_t bit = 0; bit < 64; ++bit) {
      if ((mask >> bit & 1) != 0) order.push_back(bit);
    }
  }
  return order;
}

Bits ascending(std::uint32_t n) {
  Bits order(n);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

// A model with its policies.
struct Mimic {
  Mimic(const Topology& topology, std::uint32_t gpc, const Bits& priority, const std::string& load_balancing = "lake",
        const std::string& cpc = "fastest")
      : sharing(heddle::cwd::make_sm_policy(load_balancing)),
        multicast(heddle::cwd::make_sm_policy("tpc_pairs")),
        domains(heddle::cwd::make_domain_policy(cpc)),
        model(topology, gpc, priority, *sharing, *multicast, *domains) {}

  std::unique_ptr<SmPolicy> sharing;
  std::unique_ptr<SmPolicy> multicast;
  std::unique_ptr<DomainPolicy> domains;
  GpcModel model;
};

// A machine with one GPC of one CPC, TPCs of two SMs.
Topology one_gpc(std::uint32_t sms) { return Topology(Shape{{{Bits(sms / 2, 2)}}}); }

}  // namespace

TEST_CASE("the speed is the fewest slots that remain where a CTA goes", "[cwd][CWD-12][CWD-15]") {
  const Topology topology = one_gpc(4);
  Mimic mimic(topology, 0, ascending(4));
  GpcModel& model = mimic.model;
  // Levels 5 (SM 0), 4 (SMs 0 and 2), 3 (SM 0 of 0, 2 and 3): SM 0 receives three CTAs and is left with two slots.
  model.begin(slots({5, 1, 4, 3}), {4, 0}, false, 10);
  GpcReply reply = model.query();
  REQUIRE(reply.answer.valid);
  CHECK(reply.answer.speed == 2);
  CHECK(reply.steps == 3);
  CHECK(model.masks() == Masks{0b0101, 0b0001, 0b0001});
  model.reserve();
  CHECK(model.left() == slots({2, 1, 3, 3}));
  // The next: level 3 (SMs 2 and 3), then two of the three SMs on level 2.
  reply = model.query();
  CHECK(reply.answer.speed == 1);
  CHECK(model.masks() == Masks{0b1101, 0b0100});
  model.reserve();
  CHECK(model.left() == slots({1, 1, 1, 2}));
  CHECK(model.query().answer.speed == 0);
  model.reserve();
  CHECK(model.reserved() == 3);
  CHECK_FALSE(model.query().answer.valid);  // one slot for four CTAs
  CHECK(model.left() == slots({0, 0, 0, 1}));
}

TEST_CASE("multicast takes the emptiest whole TPCs first, and an odd CTA the emptier SM of the next",
          "[cwd][CWD-12][CWD-16]") {
  const Topology topology = one_gpc(8);
  Mimic mimic(topology, 0, ascending(8));
  GpcModel& model = mimic.model;
  // TPC 0 has one SM with room, TPCs 1 and 3 two, TPC 2 one.
  const GpcSlots free = slots({0, 9, 2, 1, 7, 0, 3, 5});
  const auto place = [&](std::uint32_t ctas, std::uint32_t steps) {
    model.begin(free, {ctas, 0}, true, 1);
    const GpcReply reply = model.query();
    CHECK(reply.steps == steps);
    return reply.answer;
  };
  // TPC 3 stands on level 3, TPC 1 on level 1: its SMs have 2 slots and 1.
  CHECK(place(1, 1).speed == 4);
  CHECK(model.masks() == Masks{0b1000'0000});
  CHECK(place(2, 1).speed == 2);
  CHECK(model.masks() == Masks{0b1100'0000});
  CHECK(place(3, 3).speed == 1);  // the scan comes down from level 3 to level 1
  CHECK(model.masks() == Masks{0b1100'0100});
  CHECK(place(5, 2).speed == 0);  // the whole TPCs together, and the highest level of the others
  CHECK(model.masks() == Masks{0b1100'1110});
  CHECK(place(6, 2).valid);
  CHECK(model.masks() == Masks{0b1101'1110});
  CHECK_FALSE(place(7, 1).valid);  // six SMs have room, whatever the number of slots
}

TEST_CASE("a tie between TPCs goes by the more preferred SM", "[cwd][CWD-16]") {
  const Topology topology(Shape{{{{2, 1, 3}}}});  // SMs 0 1 | 2 | 3 4 5
  Mimic mimic(topology, 0, {4, 1, 5, 2, 0, 3});
  GpcModel& model = mimic.model;
  const auto place = [&](const Bits& free, std::uint32_t ctas) {
    model.begin(slots(free), {ctas, 0}, true, 1);
    REQUIRE(model.query().answer.valid);
    REQUIRE(model.masks().size() == 1);
    return model.masks().front();
  };
  const Bits all(6, 1);
  CHECK(place(all, 1) == 0b010000);
  CHECK(place(all, 2) == 0b110000);
  CHECK(place(all, 4) == 0b111010);
  CHECK(place(all, 6) == 0b111111);
  // Whole is TPC 0; two SMs of the large TPC, and the TPC of a single SM, come after it.
  CHECK(place({1, 1, 1, 1, 1, 0}, 1) == 0b000010);
  CHECK(place({1, 1, 1, 1, 1, 0}, 3) == 0b010011);
  CHECK(place({1, 1, 1, 1, 1, 0}, 4) == 0b011011);
}

TEST_CASE("CPC_CGAs go one after another to the CPC where they are fastest", "[cwd][CWD-17]") {
  const Topology topology(Shape{{{{2}, {2}, {2}}}});  // three CPCs of one TPC
  Mimic mimic(topology, 0, ascending(6));
  GpcModel& model = mimic.model;
  // CPC_CGAs of two CTAs. Speeds: CPC 0: 3, CPC 1: 4, CPC 2: no room for two.
  model.begin(slots({4, 4, 5, 5, 1, 0}), {6, 2}, false, 9);
  const GpcReply reply = model.query();
  REQUIRE(reply.answer.valid);
  CHECK(model.masks() == Masks{0b001100, 0b000011, 0b001100});  // CPC 1 (4), a tie at 3: CPC 0, then CPC 1 (3)
  CHECK(reply.answer.speed == 3);
  CHECK(reply.steps == 3);
  model.reserve();
  CHECK(model.left() == slots({3, 3, 3, 3, 1, 0}));

  // Enough slots in the GPC, but not for a second CPC_CGA in one CPC.
  model.begin(slots({1, 1, 1, 0, 1, 0}), {4, 2}, false, 9);
  CHECK_FALSE(model.query().answer.valid);
  CHECK(model.left() == slots({1, 1, 1, 0, 1, 0}));
  model.begin(slots({1, 1, 1, 0, 1, 0}), {4, 0}, false, 9);
  CHECK(model.query().answer.valid);

  // Multicast: one CTA of the GPC_CGA per SM, so that two CPC_CGAs do not share SMs either.
  model.begin(slots({8, 8, 0, 0, 0, 0}), {4, 2}, true, 9);
  CHECK_FALSE(model.query().answer.valid);
  model.begin(slots({8, 8, 2, 2, 0, 0}), {4, 2}, true, 9);
  CHECK(model.query().answer.speed == 1);
  CHECK(model.masks() == Masks{0b000011, 0b001100});
}

namespace {

struct Case {
  Topology topology;
  std::uint32_t gpc;
  Bits priority;
  std::string load_balancing;
  std::string cpc_policy;
};

Case random_case(Random& random) {
  static const char* const kSharing[] = {"lake", "lake", "one_at_a_time", "packed"};
  static const char* const kDomains[] = {"fastest", "fastest", "first_fit", "tightest"};
  Topology topology(random.chance(90) ? random.shape(4) : random.shape(2, 5, 4));
  const std::uint32_t gpc = random.below(topology.gpcs());
  Bits priority = ascending(topology.sms());
  if (random.chance(30)) std::reverse(priority.begin(), priority.end());
  if (random.chance(50)) random.shuffle(priority);
  const char* sharing = kSharing[random.below(4)];
  return {std::move(topology), gpc, std::move(priority), sharing, kDomains[random.below(4)]};
}

Bits random_free(Random& random, std::uint32_t sms) {
  const std::uint32_t ceiling = random.between(0, random.chance(20) ? 64 : 8);
  Bits free(sms);
  for (std::uint32_t& count : free) count = random.chance(20) ? 0 : random.between(0, ceiling);
  return free;
}

GpcCgaShape random_cga(Random& random, std::uint32_t sms) {
  if (random.chance(50)) return {random.between(1, sms + 4), 0};
  const std::uint32_t cpc_ctas = random.between(1, 6);
  return {cpc_ctas * random.between(1, 4), cpc_ctas};
}

}  // namespace

TEST_CASE("random GPCs answer and reserve as the reference, CTA by CTA",
          "[cwd][CWD-08][CWD-12][CWD-15][CWD-16][CWD-17]") {
  std::uint32_t valid = 0;
  std::uint32_t refused = 0;
  for (const std::uint64_t seed : heddle::test::seeds(6000)) {
    CAPTURE(seed);
    Random random(seed);
    const Case c = random_case(random);
    const std::uint32_t sms = c.topology.gpc(c.gpc).sms;
    CAPTURE(c.load_balancing, c.cpc_policy, sms);
    Mimic mimic(c.topology, c.gpc, c.priority, c.load_balancing, c.cpc_policy);
    GpcModel& model = mimic.model;
    GpcOracle oracle(c.topology, c.gpc, c.priority, c.load_balancing, "tpc_pairs", c.cpc_policy);
    // Several sessions of the same model: nothing of one may leak into the next.
    for (int session = 0; session < 2; ++session) {
      const Bits free = random_free(random, sms);
      const GpcCgaShape cga = random_cga(random, sms);
      const bool multicast = random.chance(50);
      const std::uint32_t cgas = random.chance(20) ? random.below(3) : 1000;
      GpcSlots padded = slots(free);
      for (std::size_t i = sms; i < kMaxSmsPerGpc; ++i) padded[i] = 7;  // no SMs: must not matter
      model.begin(padded, cga, multicast, cgas);
      oracle.begin(free, cga.ctas, cga.cpc_ctas, multicast, cgas);
      CAPTURE(free, cga.ctas, cga.cpc_ctas, multicast, cgas);
      for (int action = 0; action < 12; ++action) {
        const GpcReply reply = model.query();
        const auto wanted = oracle.query();
        REQUIRE(reply.answer.valid == wanted.has_value());
        REQUIRE(model.left() == slots(oracle.left()));  // a query leaves no trace
        if (wanted) {
          ++valid;
          REQUIRE(reply.answer.speed == wanted->speed);
          REQUIRE(unrolled(model.masks()) == wanted->order);
          REQUIRE(reply.steps > 0);
          if (random.chance(75)) {
            model.reserve();
            oracle.reserve();
          } else {
            model.cancel();
          }
        } else {
          ++refused;
        }
        const std::uint32_t next = random.below(10);
        if (next == 0) {
          model.revert();
          oracle.revert();
        } else if (next < 5) {
          model.accept();
          oracle.accept();
        }
        REQUIRE(model.left() == slots(oracle.left()));
        REQUIRE(model.reserved() == oracle.reserved());
      }
    }
  }
  CHECK(valid > 10'000);
  CHECK(refused > 10'000);
}

TEST_CASE("filled up with CGAs, no SM has more CTAs than slots and none of a CGA is missing",
          "[cwd][CWD-11][CWD-12][CWD-16]") {
  std::uint64_t reserved = 0;
  for (const std::uint64_t seed : heddle::test::seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    const Case c = random_case(random);
    const std::uint32_t sms = c.topology.gpc(c.gpc).sms;
    Mimic mimic(c.topology, c.gpc, c.priority, c.load_balancing, c.cpc_policy);
    GpcModel& model = mimic.model;
    const Bits free = random_free(random, sms);
    const GpcCgaShape cga = random_cga(random, sms);
    const bool multicast = random.chance(50);
    model.begin(slots(free), cga, multicast, 100'000);
    Bits on_sm(sms, 0);
    while (model.query().answer.valid) {
      Bits of_cga(sms, 0);
      const Bits order = unrolled(model.masks());
      REQUIRE(order.size() == cga.ctas);
      for (const std::uint32_t bit : order) {
        REQUIRE(bit < sms);
        ++on_sm[bit];
        ++of_cga[bit];
        REQUIRE(on_sm[bit] <= free[bit]);
        if (multicast) REQUIRE(of_cga[bit] == 1);
      }
      model.reserve();
    }
    Bits left = free;
    for (std::size_t i = 0; i < sms; ++i) left[i] -= on_sm[i];
    REQUIRE(model.left() == slots(left));
    reserved += model.reserved();
    // What remains has no room for a CGA without CPC_CGAs.
    if (cga.cpc_ctas == 0) {
      std::uint32_t room = 0;
      for (const std::uint32_t count : left) room += multicast ? std::min(count, 1U) : count;
      REQUIRE(room < cga.ctas);
    }
    model.revert();
    REQUIRE(model.left() == slots(free));
    REQUIRE(model.reserved() == 0);
  }
  CHECK(reserved > 2000);
}

TEST_CASE("filling the lake, a GPC_CGA is as fast as its last CPC_CGA", "[cwd][CWD-17]") {
  std::uint32_t several = 0;
  for (const std::uint64_t seed : heddle::test::seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    const Topology topology(random.shape(2));
    const Bits priority = random.permutation(topology.sms());
    GpcOracle oracle(topology, 0, priority, "lake", "tpc_pairs", "fastest");
    Mimic mimic(topology, 0, priority);
    const std::uint32_t sms = topology.gpc(0).sms;
    const Bits free = random_free(random, sms);
    const std::uint32_t cpc_ctas = random.between(1, 3);
    const std::uint32_t ctas = cpc_ctas * random.between(2, 4);
    oracle.begin(free, ctas, cpc_ctas, false, 1);
    mimic.model.begin(slots(free), {ctas, cpc_ctas}, false, 1);
    const auto wanted = oracle.query();
    const GpcReply reply = mimic.model.query();
    REQUIRE(reply.answer.valid == wanted.has_value());
    if (!wanted) continue;
    ++several;
    REQUIRE(wanted->speeds.size() == ctas / cpc_ctas);
    REQUIRE(std::is_sorted(wanted->speeds.rbegin(), wanted->speeds.rend()));
    REQUIRE(reply.answer.speed == wanted->speeds.back());
  }
  CHECK(several > 500);
}

TEST_CASE("where multicast takes a loaded whole TPC before an empty broken one, the smallest speed counts",
          "[cwd][CWD-12][CWD-17]") {
  const Topology topology(Shape{{{{2, 2}}}});
  Mimic mimic(topology, 0, ascending(4));
  mimic.model.begin(slots({1, 1, 9, 0}), {2, 1}, true, 1);
  const GpcReply reply = mimic.model.query();
  REQUIRE(reply.answer.valid);
  CHECK(mimic.model.masks() == Masks{0b0001, 0b0100});  // speeds 0, then 8: TPC 0 has become the fuller broken one
  CHECK(reply.answer.speed == 0);
}

TEST_CASE("CPCs answer in parallel: the slowest counts for every CPC_CGA", "[cwd][CWD-08][CWD-17]") {
  const Topology topology(Shape{{{{2}, {2}}}});
  Mimic lake(topology, 0, ascending(4));
  // Both CPC_CGAs of three CTAs: levels of CPC 0: 2 and 1 (two steps), of CPC 1: 9, 8 and 7 (three).
  lake.model.begin(slots({2, 2, 9, 0}), {6, 3}, false, 1);
  CHECK(lake.model.query().steps == 6);
  CHECK(lake.model.masks() == Masks{0b0100, 0b0100, 0b0100, 0b0100, 0b0100, 0b0100});
  Mimic prior(topology, 0, ascending(4), "one_at_a_time");
  prior.model.begin(slots({8, 8, 8, 8}), {8, 0}, false, 1);
  CHECK(prior.model.query().steps == 8);
  CHECK(prior.model.masks().size() == 8);
}

TEST_CASE("a query counts prefixes where it cuts a level of equal SMs", "[cwd][CWD-05][CWD-15][CWD-17]") {
  const Topology topology = one_gpc(8);
  Mimic lake(topology, 0, ascending(8));
  GpcModel& model = lake.model;
  // 8 SMs are a tree of three levels, which is gone up and down.
  model.begin(slots({2, 2, 2, 2, 2, 2, 2, 2}), {5, 0}, false, 9);
  CHECK(model.query().prefix_levels == 6);
  model.begin(slots({2, 2, 2, 2, 2, 2, 2, 2}), {8, 0}, false, 9);
  CHECK(model.query().prefix_levels == 0);  // the whole level
  model.begin(slots({2, 2, 1, 1, 1, 1, 0, 0}), {2, 0}, false, 9);
  CHECK(model.query().prefix_levels == 0);  // the two fullest alone
  model.begin(slots({2, 2, 1, 1, 1, 1, 0, 0}), {4, 0}, false, 9);
  CHECK(model.query().prefix_levels == 6);  // two of level 2, then two of the six of level 1
  model.begin(slots({1, 1, 1, 1, 0, 0, 0, 0}), {2, 0}, true, 9);
  CHECK(model.query().prefix_levels == 6);  // multicast as well
  model.begin(slots({1, 1, 1, 1, 0, 0, 0, 0}), {4, 0}, true, 9);
  CHECK(model.query().prefix_levels == 0);
  model.begin(slots({1, 1, 0, 0, 0, 0, 0, 0}), {4, 0}, true, 9);
  CHECK(model.query().prefix_levels == 0);  // refused
  Mimic prior(topology, 0, ascending(8), "one_at_a_time");
  prior.model.begin(slots({2, 2, 2, 2, 2, 2, 2, 2}), {5, 0}, false, 9);
  CHECK(prior.model.query().prefix_levels == 0);  // it compares all SMs in each of its steps

  // The third CTA goes to one of three SMs on level 1, and is in the first mask all the same.
  Mimic last_first(topology, 0, {7, 6, 5, 4, 3, 2, 1, 0});
  last_first.model.begin(slots({3, 1, 1, 0, 0, 0, 0, 0}), {3, 0}, false, 9);
  CHECK(last_first.model.query().prefix_levels == 6);
  CHECK(last_first.model.masks() == Masks{0b101, 0b001});
  // Multicast: among TPCs of the same class and level. TPC 0 is whole; of TPC 1 only one SM can, although emptier.
  model.begin(slots({1, 1, 5, 0, 0, 0, 0, 0}), {2, 0}, true, 9);
  CHECK(model.query().prefix_levels == 0);
  model.begin(slots({3, 3, 2, 2, 1, 1, 0, 0}), {4, 0}, true, 9);
  CHECK(model.query().prefix_levels == 0);
  model.begin(slots({3, 3, 2, 2, 1, 1, 0, 0}), {3, 0}, true, 9);
  CHECK(model.query().prefix_levels == 6);  // one SM of the second TPC
  model.begin(slots({1, 1, 5, 0, 5, 0, 0, 0}), {3, 0}, true, 9);
  CHECK(model.query().prefix_levels == 6);  // TPC 0, and one of two broken ones
  // A policy that fills SM by SM while a larger CGA waits, and levels when nothing does.
  Mimic yielding(topology, 0, ascending(8), "yielding");
  heddle::protocol::WaitingWork waiting;
  waiting.tasks[0] = {16, 1};
  waiting.count = 1;
  yielding.model.begin(slots({2, 2, 2, 2, 2, 2, 2, 2}), {5, 0}, false, 9, waiting);
  CHECK(yielding.model.query().prefix_levels == 0);
  yielding.model.begin(slots({2, 2, 2, 2, 2, 2, 2, 2}), {5, 0}, false, 9);
  CHECK(yielding.model.query().prefix_levels == 6);
}

TEST_CASE("misuse of a GPC model is refused", "[cwd][CWD-12]") {
  const Topology topology = one_gpc(4);
  Mimic mimic(topology, 0, ascending(4));
  GpcModel& model = mimic.model;
  model.begin(slots({1, 1, 1, 1}), {2, 0}, true, 9);
  CHECK_THROWS_AS(model.reserve(), CheckFailed);
  CHECK_THROWS_AS(model.cancel(), CheckFailed);
  REQUIRE(model.query().answer.valid);
  CHECK_THROWS_AS(model.query(), CheckFailed);
  CHECK_THROWS_AS(model.accept(), CheckFailed);
  CHECK_THROWS_AS(model.revert(), CheckFailed);
  model.reserve();
  CHECK_THROWS_AS(model.reserve(), CheckFailed);
  REQUIRE(model.query().answer.valid);
  model.begin(slots({1, 1, 1, 1}), {2, 0}, true, 9);  // drops the answer
  CHECK_THROWS_AS(model.cancel(), CheckFailed);
  CHECK_THROWS_AS(model.begin({}, {0, 0}, true, 1), CheckFailed);
  CHECK_THROWS_AS(model.begin({}, {3, 2}, true, 1), CheckFailed);
  CHECK_THROWS_AS(Mimic(topology, 0, {0, 1, 2}), CheckFailed);
  CHECK_THROWS_AS(Mimic(topology, 0, {0, 1, 2, 2}), CheckFailed);
  CHECK_THROWS_AS(Mimic(topology, 0, {0, 1, 2, 4}), CheckFailed);
  CHECK_THROWS_AS(GpcModel(topology, 0, ascending(4), *mimic.sharing, *mimic.sharing, *mimic.domains), InputError);
}

namespace {

// What a user's policy could get wrong.
struct Wrong final : SmPolicy {
  explicit Wrong(Masks masks_) : masks(std::move(masks_)) {}
  bool choose(const heddle::cwd::SmView&, std::uint32_t, heddle::cwd::SmChoice& choice) override {
    choice.masks = masks;
    return true;
  }
  bool one_per_sm() const override { return true; }
  Masks masks;
};

}  // namespace

TEST_CASE("a policy that breaks the rules is found out", "[cwd][CWD-12][CWD-16]") {
  const Topology topology = one_gpc(4);
  const auto domains = heddle::cwd::make_domain_policy("fastest");
  const auto ask = [&](const Masks& masks, bool multicast) {
    Wrong wrong(masks);
    GpcModel model(topology, 0, ascending(4), wrong, wrong, *domains);
    model.begin(slots({2, 1, 0, 1}), {2, 0}, multicast, 1);
    return model.query().answer.valid;
  };
  CHECK(ask({0b0011}, true));
  CHECK(ask({0b0001, 0b0001}, false));
  CHECK_THROWS_AS(ask({0b0001, 0b0001}, true), CheckFailed);   // two of a multicast CGA on an SM
  CHECK_THROWS_AS(ask({0b0010, 0b0010}, false), CheckFailed);  // more than free slots
  CHECK_THROWS_AS(ask({0b0101}, false), CheckFailed);          // a full SM
  CHECK_THROWS_AS(ask({0b0001}, false), CheckFailed);          // too few
  CHECK_THROWS_AS(ask({0b1011}, false), CheckFailed);          // too many
  CHECK_THROWS_AS(ask({0b10001}, false), CheckFailed);         // no SM of this GPC
  CHECK_THROWS_AS(ask({0b0011, 0}, false), CheckFailed);       // an empty mask
}

}  // namespace cwd_gpc_model_test
