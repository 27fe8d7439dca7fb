// Credits, masks and local-memory blocks against a model that counts everything anew after every step.
#include "cwd/tpc_holds.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

using heddle::CheckFailed;
using heddle::cwd::ShareRefusal;
using heddle::cwd::TpcHolds;
using heddle::cwd::TpcPrice;
using heddle::test::Random;
using Mode = TpcHolds::Mode;
using Bar = TpcPrice::Bar;

namespace {

constexpr std::uint32_t kNone = TpcHolds::kNone;
constexpr std::uint32_t kSubcontexts = heddle::arch::kSubcontexts;

struct Cta {
  std::uint32_t subcontext;
  std::uint32_t tpc;
  bool local;
};

// A launch in a session of its own, as the distributor does it.
void launch_alone(TpcHolds& holds, std::uint32_t subcontext, std::uint32_t tpc, bool local = false) {
  const TpcPrice price = holds.price(subcontext, tpc, local);
  holds.open_session(subcontext);
  if (price.credit) holds.reserve(1);
  if (holds.mode() == Mode::static_ && local) holds.reserve_block(tpc);
  holds.launch(subcontext, tpc, local);
  holds.close_session();
}

// Nothing but the CTAs that run; the rest follows.
struct Model {
  std::vector<Cta> ctas;
  std::map<std::uint32_t, std::int64_t> maximum;

  std::uint32_t count(std::uint32_t subcontext, std::uint32_t tpc, bool only_local = false) const {
    return static_cast<std::uint32_t>(std::count_if(ctas.begin(), ctas.end(), [&](const Cta& cta) {
      return cta.subcontext == subcontext && cta.tpc == tpc && (cta.local || !only_local);
    }));
  }
  std::uint32_t held(std::uint32_t subcontext) const {
    std::set<std::uint32_t> tpcs;
    for (const Cta& cta : ctas) {
      if (cta.subcontext == subcontext) tpcs.insert(cta.tpc);
    }
    return static_cast<std::uint32_t>(tpcs.size());
  }
  std::uint32_t holders(std::uint32_t tpc) const {
    std::set<std::uint32_t> subcontexts;
    for (const Cta& cta : ctas) {
      if (cta.tpc == tpc) subcontexts.insert(cta.subcontext);
    }
    return static_cast<std::uint32_t>(subcontexts.size());
  }
};

}  // namespace

TEST_CASE("the first CTA of a subcontext on a TPC takes a credit, the last one gives it back",
          "[cwd][PRT-02][PRT-04]") {
  TpcHolds holds(4, {Mode::dynamic, 2, 0});
  CHECK(holds.price(3, 0, false).credit);
  launch_alone(holds, 3, 0);
  CHECK(holds.credits(3) == 1);
  CHECK_FALSE(holds.price(3, 0, false).credit);  // room on a held TPC costs nothing
  launch_alone(holds, 3, 0);
  CHECK(holds.credits(3) == 1);
  launch_alone(holds, 3, 2);
  CHECK(holds.credits(3) == 0);
  CHECK(holds.credits(4) == 2);  // another's
  launch_alone(holds, 4, 2);
  CHECK(holds.holders(2) == 2);  // several may hold one TPC
  holds.complete(3, 0, false);
  CHECK(holds.credits(3) == 0);
  holds.complete(3, 0, false);
  CHECK(holds.credits(3) == 1);
  holds.complete(3, 2, false);
  CHECK_FALSE(holds.empty());
  holds.complete(4, 2, false);
  CHECK(holds.empty());
  CHECK_THROWS_AS(holds.complete(4, 2, false), CheckFailed);
}

TEST_CASE("a launch without a credit, or outside a session, is an error of ours", "[cwd][PRT-02][PRT-10]") {
  TpcHolds holds(4, {Mode::dynamic, 1, 0});
  CHECK_THROWS_AS(holds.launch(0, 0, false), CheckFailed);
  TpcHolds other(4, {Mode::dynamic, 1, 0});
  other.open_session(0);
  CHECK_THROWS_AS(other.reserve(2), CheckFailed);
  other.reserve(1);
  other.launch(0, 0, false);
  CHECK_THROWS_AS(other.launch(0, 1, false), CheckFailed);
}

TEST_CASE("credits change by the difference, and may become negative", "[cwd][PRT-07]") {
  TpcHolds holds(8, {Mode::dynamic, 5, 0});
  for (std::uint32_t tpc = 0; tpc < 4; ++tpc) launch_alone(holds, 7, tpc);
  CHECK(holds.set_credits(7, 2) == ShareRefusal::none);
  CHECK(holds.credits(7) == -2);
  holds.complete(7, 0, false);
  holds.complete(7, 1, false);
  CHECK(holds.credits(7) == 0);  // nothing is acquired until it is positive again
  holds.complete(7, 2, false);
  CHECK(holds.credits(7) == 1);
  CHECK(holds.set_credits(7, 0) == ShareRefusal::none);
  CHECK(holds.credits(7) == -1);
  CHECK(holds.set_credits(7, 4096) == ShareRefusal::none);
  CHECK(holds.credits(7) == 4095);
  CHECK(holds.set_credits(7, 4097) == ShareRefusal::value);
  CHECK(holds.set_credits(kSubcontexts, 1) == ShareRefusal::subcontext);
  CHECK(holds.credits(7) == 4095);
  CHECK(holds.set_credits(kSubcontexts - 1, 1) == ShareRefusal::none);  // 64 of them
  holds.complete(7, 3, false);
  CHECK(holds.empty());
  holds.reset();
  CHECK(holds.credits(7) == 5);
}

TEST_CASE("a session reserves credits, and gives back what it has not used", "[cwd][PRT-10]") {
  TpcHolds holds(8, {Mode::dynamic, 4, 0});
  launch_alone(holds, 1, 0);
  holds.open_session(1);
  holds.reserve(3);
  CHECK(holds.credits(1) == 0);
  CHECK(holds.reserved(1) == 3);
  holds.launch(1, 5, false);
  CHECK(holds.reserved(1) == 2);
  holds.complete(1, 0, false);  // the session may count on that TPC
  CHECK(holds.reserved(1) == 3);
  CHECK(holds.set_credits(1, 1) == ShareRefusal::none);  // it began before
  CHECK(holds.credits(1) == -3);
  holds.launch(1, 0, false);
  holds.launch(1, 6, false);
  CHECK_FALSE(holds.empty());
  holds.close_session();
  CHECK(holds.reserved(1) == 0);
  CHECK(holds.credits(1) == -2);
  for (const std::uint32_t tpc : {0U, 5U, 6U}) holds.complete(1, tpc, false);
  CHECK(holds.empty());
}

TEST_CASE("masks of static mode do not overlap", "[cwd][PRT-05]") {
  TpcHolds holds(4, {Mode::static_, 0, 0});
  CHECK(holds.price(1, 0, false).bar == Bar::mask);  // nothing belongs to anybody yet
  CHECK(holds.enable(1, 0, true) == ShareRefusal::none);
  CHECK(holds.enable(2, 0, true) == ShareRefusal::overlap);
  CHECK(holds.enable(2, 1, true) == ShareRefusal::none);
  CHECK(holds.enable(2, 4, true) == ShareRefusal::tpc);
  CHECK(holds.price(1, 0, false).bar == Bar::none);
  CHECK_FALSE(holds.price(1, 0, false).credit);
  CHECK(holds.price(2, 0, false).bar == Bar::mask);
  launch_alone(holds, 1, 0);
  CHECK(holds.enable(1, 0, false) == ShareRefusal::none);
  CHECK(holds.enable(2, 0, true) == ShareRefusal::none);
  CHECK(holds.price(2, 0, false).bar == Bar::drains);  // not shared, not even for a moment
  holds.complete(1, 0, false);
  CHECK(holds.price(2, 0, false).bar == Bar::none);
}

TEST_CASE("a mode that does not fit the masks is refused", "[cwd][PRT-05][PRT-07]") {
  TpcHolds holds(3, {Mode::none, 1, 0});
  for (std::uint32_t tpc = 0; tpc < 3; ++tpc) {
    CHECK(holds.enable(1, tpc, tpc < 2) == ShareRefusal::none);
    CHECK(holds.enable(2, tpc, tpc > 0) == ShareRefusal::none);
  }
  for (std::uint32_t tpc = 0; tpc < 3; ++tpc) launch_alone(holds, 1, tpc);  // without limits
  CHECK(holds.credits(1) == -2);                                            // and counted
  CHECK(holds.set_mode(Mode::static_) == ShareRefusal::overlap);
  CHECK(holds.mode() == Mode::none);
  CHECK(holds.set_mode(Mode::dynamic) == ShareRefusal::none);
  CHECK(holds.price(1, 2, false).bar == Bar::mask);
  CHECK(holds.price(5, 2, false).bar == Bar::none);  // no mask was set for it
  CHECK(holds.enable(2, 1, false) == ShareRefusal::none);
  CHECK(holds.set_mode(Mode::static_) == ShareRefusal::none);
  CHECK(holds.price(5, 2, false).bar == Bar::mask);
  CHECK(holds.set_mode(static_cast<Mode>(7)) == ShareRefusal::value);
}

TEST_CASE("local-memory blocks are assigned on demand, and set by software in static mode", "[cwd][PRT-05][PRT-06]") {
  TpcHolds holds(4, {Mode::dynamic, 0, 2});
  CHECK(holds.price(0, 0, true).block);
  launch_alone(holds, 0, 0, true);
  launch_alone(holds, 0, 0, true);
  const std::uint32_t first = holds.block(0, 0);
  CHECK(first < 2);
  CHECK(holds.blocks() == 1);
  launch_alone(holds, 1, 0, true);  // the table is [subcontext][TPC]
  CHECK(holds.block(1, 0) == 1 - first);
  CHECK(holds.blocks() == 0);
  CHECK_FALSE(holds.price(0, 0, true).block);
  CHECK(holds.price(0, 1, true).block);
  holds.complete(0, 0, true);
  CHECK(holds.block(0, 0) == first);
  holds.complete(0, 0, true);
  CHECK(holds.block(0, 0) == kNone);
  CHECK(holds.blocks() == 1);

  CHECK(holds.set_mode(Mode::static_) == ShareRefusal::none);
  for (const std::uint32_t tpc : {1U, 2U}) CHECK(holds.enable(3, tpc, true) == ShareRefusal::none);
  CHECK(holds.price(3, 1, true).bar == Bar::block);
  CHECK(holds.price(3, 1, false).bar == Bar::none);
  CHECK(holds.set_block(3, 1, 2) == ShareRefusal::value);
  CHECK(holds.set_block(3, 1, 1 - first) == ShareRefusal::none);
  CHECK(holds.set_block(3, 2, 1 - first) == ShareRefusal::block);
  CHECK(holds.price(3, 1, true).bar == Bar::block);  // another still has it
  holds.complete(1, 0, true);
  CHECK(holds.price(3, 1, true).bar == Bar::none);
  launch_alone(holds, 3, 1, true);
  CHECK(holds.block(3, 1) == 1 - first);
  CHECK(holds.set_block(3, 1, kNone) == ShareRefusal::none);
  CHECK(holds.set_block(3, 2, 1 - first) == ShareRefusal::none);
  CHECK(holds.price(3, 2, true).bar == Bar::block);
  holds.complete(3, 1, true);
  launch_alone(holds, 3, 2, true);
  holds.complete(3, 2, true);
  CHECK(holds.empty());
}

TEST_CASE("a block that a session of static mode has reserved comes back with it", "[cwd][PRT-06][PRT-10]") {
  TpcHolds holds(3, {Mode::static_, 0, 0});
  for (std::uint32_t tpc = 0; tpc < 3; ++tpc) {
    CHECK(holds.enable(0, tpc, true) == ShareRefusal::none);
    CHECK(holds.set_block(0, tpc, 2 - tpc) == ShareRefusal::none);
  }
  holds.open_session(0);
  for (std::uint32_t tpc = 0; tpc < 3; ++tpc) holds.reserve_block(tpc);
  CHECK(holds.blocks() == 0);
  CHECK(holds.set_mode(Mode::dynamic) == ShareRefusal::none);  // it began before
  CHECK(holds.set_block(0, 1, kNone) == ShareRefusal::none);
  CHECK(holds.launch(0, 1, true) == 1);
  holds.complete(0, 1, true);  // it may come back to that TPC
  CHECK(holds.blocks() == 0);
  CHECK(holds.launch(0, 1, true) == 1);
  holds.close_session();
  CHECK(holds.blocks() == 2);
  holds.complete(0, 1, true);
  CHECK(holds.empty());
}

TEST_CASE("random launches, exits and changes keep held + credits = maximum", "[cwd][PRT-04][PRT-06][PRT-07][PRT-10]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t tpcs = random.between(1, 12);
    const std::uint32_t blocks = random.between(1, 16);
    const std::uint32_t first = random.below(tpcs + 3);
    const std::uint32_t subcontexts = random.chance(20) ? kSubcontexts : random.between(1, 5);
    TpcHolds holds(tpcs, {static_cast<Mode>(random.below(3)), first, blocks});
    Model model;
    for (std::uint32_t s = 0; s < subcontexts; ++s) model.maximum[s] = first == 0 ? tpcs : first;
    std::uint32_t open = kNone;
    for (std::uint32_t step = 0; step < 600; ++step) {
      const std::uint32_t subcontext = open != kNone ? open : random.below(subcontexts);
      const std::uint32_t tpc = random.below(tpcs);
      switch (random.below(9)) {
        case 0: {
          const std::uint32_t maximum = random.below(2 * tpcs);
          REQUIRE(holds.set_credits(subcontext, maximum) == ShareRefusal::none);
          model.maximum[subcontext] = maximum;
          break;
        }
        case 1:
          holds.enable(random.below(subcontexts), tpc, random.chance(70));
          break;
        case 2:
          if (random.chance(30)) holds.set_mode(static_cast<Mode>(random.below(3)));
          break;
        case 3:
          holds.set_block(random.below(subcontexts), tpc, random.chance(20) ? kNone : random.below(blocks));
          break;
        case 4:
          if (open == kNone) {
            holds.open_session(open = subcontext);
            if (holds.mode() == Mode::dynamic && holds.credits(open) > 0) {
              holds.reserve(random.below(static_cast<std::uint64_t>(holds.credits(open)) + 1));
            }
          } else {
            holds.close_session();
            open = kNone;
          }
          break;
        case 5:
        case 6:
          if (!model.ctas.empty()) {
            const std::uint32_t which = random.below(model.ctas.size());
            const Cta cta = model.ctas[which];
            model.ctas.erase(model.ctas.begin() + which);
            holds.complete(cta.subcontext, cta.tpc, cta.local);
          }
          break;
        default: {
          const bool local = random.chance(40);
          const TpcPrice price = holds.price(subcontext, tpc, local);
          if (open != kNone || price.bar != Bar::none) break;
          if ((price.credit && holds.credits(subcontext) <= 0) || (price.block && holds.blocks() == 0)) break;
          launch_alone(holds, subcontext, tpc, local);
          model.ctas.push_back({subcontext, tpc, local});
        }
      }
      std::set<std::uint32_t> used;
      for (std::uint32_t s = 0; s < subcontexts; ++s) {
        REQUIRE(holds.tpcs_held(s) == model.held(s));
        REQUIRE(holds.credits(s) + holds.reserved(s) + model.held(s) == model.maximum[s]);
        if (s != open) REQUIRE(holds.reserved(s) == 0);
        for (std::uint32_t t = 0; t < tpcs; ++t) {
          REQUIRE(holds.held(s, t) == (model.count(s, t) > 0));
          if (model.count(s, t, true) > 0) REQUIRE(holds.block(s, t) < blocks);
          if (holds.block(s, t) == kNone) continue;
          REQUIRE((model.count(s, t, true) > 0 || s == open));
          REQUIRE(used.insert(holds.block(s, t)).second);  // nobody else has it
        }
      }
      REQUIRE(used.size() + holds.blocks() == blocks);
      REQUIRE(holds.holders(tpc) == model.holders(tpc));
    }
    holds.close_session();
    for (const Cta& cta : model.ctas) holds.complete(cta.subcontext, cta.tpc, cta.local);
    REQUIRE(holds.empty());
  }
}
