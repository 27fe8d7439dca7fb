// Credits, masks and local-memory blocks against a model that counts everything anew after every step.
#include "cwd/tpc_quota.h"

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

namespace cwd_tpc_quota_test {

using heddle::CheckFailed;
using heddle::cwd::ShareRefusal;
using heddle::cwd::TpcPrice;
using heddle::cwd::TpcQuota;
using heddle::test::Random;
using Mode = TpcQuota::Mode;
using Bar = TpcPrice::Bar;

namespace {

constexpr std::uint32_t kNone = TpcQuota::kNone;
constexpr std::uint32_t kSubcontexts = heddle::arch::kSubcontexts;

struct Cta {
  std::uint32_t subcontext;
  std::uint32_t tpc;
  bool local;
};

// A launch in a session of its own, as the distributor does it.
void launch_alone(TpcQuota& quota, std::uint32_t subcontext, std::uint32_t tpc, bool local = false) {
  const TpcPrice price = quota.price(subcontext, tpc, local);
  quota.open_session(subcontext);
  if (price.credit) quota.reserve(1);
  if (quota.mode() == Mode::static_ && local) quota.reserve_block(tpc);
  quota.launch(subcontext, tpc, local);
  quota.close_session();
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
  TpcQuota quota(4, {Mode::dynamic, 2, 0});
  CHECK(quota.price(3, 0, false).credit);
  launch_alone(quota, 3, 0);
  CHECK(quota.credits(3) == 1);
  CHECK_FALSE(quota.price(3, 0, false).credit);  // room on a held TPC costs nothing
  launch_alone(quota, 3, 0);
  CHECK(quota.credits(3) == 1);
  launch_alone(quota, 3, 2);
  CHECK(quota.credits(3) == 0);
  CHECK(quota.credits(4) == 2);  // another's
  launch_alone(quota, 4, 2);
  CHECK(quota.holders(2) == 2);  // several may hold one TPC
  quota.complete(3, 0, false);
  CHECK(quota.credits(3) == 0);
  quota.complete(3, 0, false);
  CHECK(quota.credits(3) == 1);
  quota.complete(3, 2, false);
  CHECK_FALSE(quota.empty());
  quota.complete(4, 2, false);
  CHECK(quota.empty());
  CHECK_THROWS_AS(quota.complete(4, 2, false), CheckFailed);
}

TEST_CASE("a launch without a credit, or outside a session, is an error of ours", "[cwd][PRT-02][PRT-10]") {
  TpcQuota quota(4, {Mode::dynamic, 1, 0});
  CHECK_THROWS_AS(quota.launch(0, 0, false), CheckFailed);
  TpcQuota other(4, {Mode::dynamic, 1, 0});
  other.open_session(0);
  CHECK_THROWS_AS(other.reserve(2), CheckFailed);
  other.reserve(1);
  other.launch(0, 0, false);
  CHECK_THROWS_AS(other.launch(0, 1, false), CheckFailed);
}

TEST_CASE("credits change by the difference, and may become negative", "[cwd][PRT-07]") {
  TpcQuota quota(8, {Mode::dynamic, 5, 0});
  for (std::uint32_t tpc = 0; tpc < 4; ++tpc) launch_alone(quota, 7, tpc);
  CHECK(quota.set_credits(7, 2) == ShareRefusal::none);
  CHECK(quota.credits(7) == -2);
  quota.complete(7, 0, false);
  quota.complete(7, 1, false);
  CHECK(quota.credits(7) == 0);  // nothing is acquired until it is positive again
  quota.complete(7, 2, false);
  CHECK(quota.credits(7) == 1);
  CHECK(quota.set_credits(7, 0) == ShareRefusal::none);
  CHECK(quota.credits(7) == -1);
  CHECK(quota.set_credits(7, 4096) == ShareRefusal::none);
  CHECK(quota.credits(7) == 4095);
  CHECK(quota.set_credits(7, 4097) == ShareRefusal::value);
  CHECK(quota.set_credits(kSubcontexts, 1) == ShareRefusal::subcontext);
  CHECK(quota.credits(7) == 4095);
  CHECK(quota.set_credits(kSubcontexts - 1, 1) == ShareRefusal::none);  // 64 of them
  quota.complete(7, 3, false);
  CHECK(quota.empty());
  quota.reset();
  CHECK(quota.credits(7) == 5);
}

TEST_CASE("a cut of credits names the TPCs that are given up, those with fewest CTAs", "[cwd][PRT-07]") {
  TpcQuota quota(8, {Mode::dynamic, 5, 0});
  const std::uint32_t ctas[] = {1, 3, 2, 1, 1};
  for (std::uint32_t tpc = 0; tpc < 5; ++tpc) {
    for (std::uint32_t i = 0; i < ctas[tpc]; ++i) launch_alone(quota, 7, tpc);
  }
  launch_alone(quota, 6, 0);
  const auto kept = [&quota] {
    std::set<std::uint32_t> tpcs;
    for (std::uint32_t tpc = 0; tpc < 8; ++tpc) {
      if (quota.held(7, tpc) && quota.price(7, tpc, false).bar == Bar::none) tpcs.insert(tpc);
      CHECK(quota.gives_up(7, tpc) == (quota.price(7, tpc, false).bar == Bar::cut));
    }
    return tpcs;
  };
  CHECK(quota.set_credits(7, 2) == ShareRefusal::none);
  CHECK(kept() == std::set<std::uint32_t>{1, 2});
  CHECK(quota.price(6, 0, false).bar == Bar::none);  // nobody else's affair
  quota.complete(7, 4, false);
  CHECK(kept() == std::set<std::uint32_t>{1, 2});
  // One that is kept becomes empty by itself: another need not go.
  quota.complete(7, 2, false);
  quota.complete(7, 2, false);
  CHECK(kept() == std::set<std::uint32_t>{0, 1});
  CHECK(quota.credits(7) == -1);
  CHECK(quota.set_credits(7, 3) == ShareRefusal::none);
  CHECK(kept() == std::set<std::uint32_t>{0, 1, 3});
  CHECK(quota.set_credits(7, 0) == ShareRefusal::none);
  CHECK(kept().empty());
  CHECK(quota.set_mode(Mode::none) == ShareRefusal::none);
  CHECK(quota.price(7, 1, false).bar == Bar::none);  // credits are not asked for
  CHECK(quota.set_mode(Mode::dynamic) == ShareRefusal::none);
  CHECK(quota.price(7, 1, false).bar == Bar::cut);
  // What the mask has not goes first.
  CHECK(quota.set_credits(7, 1) == ShareRefusal::none);
  CHECK(kept() == std::set<std::uint32_t>{1});
  CHECK(quota.enable(7, 1, false) == ShareRefusal::none);
  CHECK(quota.price(7, 0, false).bar == Bar::none);
  CHECK(quota.gives_up(7, 1));
  CHECK(quota.enable(7, 1, true) == ShareRefusal::none);
  CHECK(kept() == std::set<std::uint32_t>{1});
  CHECK(quota.set_credits(7, 0) == ShareRefusal::none);
  for (const std::uint32_t tpc : {0U, 1U, 1U, 1U, 3U}) quota.complete(7, tpc, false);
  CHECK(kept().empty());
  CHECK(quota.credits(7) == 0);
  quota.complete(6, 0, false);
  CHECK(quota.empty());
}

TEST_CASE("a session reserves credits, and gives back what it has not used", "[cwd][PRT-10]") {
  TpcQuota quota(8, {Mode::dynamic, 4, 0});
  launch_alone(quota, 1, 0);
  quota.open_session(1);
  quota.reserve(3);
  CHECK(quota.credits(1) == 0);
  CHECK(quota.reserved(1) == 3);
  quota.launch(1, 5, false);
  CHECK(quota.reserved(1) == 2);
  quota.complete(1, 0, false);  // the session may count on that TPC
  CHECK(quota.reserved(1) == 3);
  CHECK(quota.set_credits(1, 1) == ShareRefusal::none);  // it began before
  CHECK(quota.credits(1) == -3);
  quota.launch(1, 0, false);
  quota.launch(1, 6, false);
  CHECK_FALSE(quota.empty());
  quota.close_session();
  CHECK(quota.reserved(1) == 0);
  CHECK(quota.credits(1) == -2);
  for (const std::uint32_t tpc : {0U, 5U, 6U}) quota.complete(1, tpc, false);
  CHECK(quota.empty());
}

TEST_CASE("masks of static mode do not overlap", "[cwd][PRT-05]") {
  TpcQuota quota(4, {Mode::static_, 0, 0});
  CHECK(quota.price(1, 0, false).bar == Bar::mask);  // nothing belongs to anybody yet
  CHECK(quota.enable(1, 0, true) == ShareRefusal::none);
  CHECK(quota.enable(2, 0, true) == ShareRefusal::overlap);
  CHECK(quota.enable(2, 1, true) == ShareRefusal::none);
  CHECK(quota.enable(2, 4, true) == ShareRefusal::tpc);
  CHECK(quota.price(1, 0, false).bar == Bar::none);
  CHECK_FALSE(quota.price(1, 0, false).credit);
  CHECK(quota.price(2, 0, false).bar == Bar::mask);
  launch_alone(quota, 1, 0);
  CHECK(quota.enable(1, 0, false) == ShareRefusal::none);
  CHECK(quota.enable(2, 0, true) == ShareRefusal::none);
  CHECK(quota.price(2, 0, false).bar == Bar::drains);  // not shared, not even for a moment
  quota.complete(1, 0, false);
  CHECK(quota.price(2, 0, false).bar == Bar::none);
}

TEST_CASE("a mode that does not fit the masks is refused", "[cwd][PRT-05][PRT-07]") {
  TpcQuota quota(3, {Mode::none, 1, 0});
  for (std::uint32_t tpc = 0; tpc < 3; ++tpc) {
    CHECK(quota.enable(1, tpc, tpc < 2) == ShareRefusal::none);
    CHECK(quota.enable(2, tpc, tpc > 0) == ShareRefusal::none);
  }
  for (std::uint32_t tpc = 0; tpc < 3; ++tpc) launch_alone(quota, 1, tpc);  // without limits
  CHECK(quota.credits(1) == -2);                                            // and counted
  CHECK(quota.set_mode(Mode::static_) == ShareRefusal::overlap);
  CHECK(quota.mode() == Mode::none);
  CHECK(quota.set_mode(Mode::dynamic) == ShareRefusal::none);
  CHECK(quota.price(1, 2, false).bar == Bar::mask);
  CHECK(quota.price(5, 2, false).bar == Bar::none);  // no mask was set for it
  CHECK(quota.enable(2, 1, false) == ShareRefusal::none);
  CHECK(quota.set_mode(Mode::static_) == ShareRefusal::none);
  CHECK(quota.price(5, 2, false).bar == Bar::mask);
  CHECK(quota.set_mode(static_cast<Mode>(7)) == ShareRefusal::value);
}

TEST_CASE("local-memory blocks are assigned on demand, and set by software in static mode", "[cwd][PRT-05][PRT-06]") {
  TpcQuota quota(4, {Mode::dynamic, 0, 2});
  CHECK(quota.price(0, 0, true).block);
  launch_alone(quota, 0, 0, true);
  launch_alone(quota, 0, 0, true);
  const std::uint32_t first = quota.block(0, 0);
  CHECK(first < 2);
  CHECK(quota.blocks(0) == 1);
  launch_alone(quota, 1, 0, true);  // the table is [subcontext][TPC], and each subcontext has its own blocks
  launch_alone(quota, 1, 1, true);
  CHECK(quota.block(1, 0) + quota.block(1, 1) == 1);
  CHECK(quota.blocks(1) == 0);
  CHECK(quota.blocks(0) == 1);
  CHECK_FALSE(quota.price(0, 0, true).block);
  CHECK(quota.price(0, 1, true).block);
  quota.complete(0, 0, true);
  CHECK(quota.block(0, 0) == first);
  quota.complete(0, 0, true);
  CHECK(quota.block(0, 0) == kNone);
  CHECK(quota.blocks(0) == 2);
  quota.complete(1, 1, true);
  CHECK(quota.blocks(1) == 1);

  CHECK(quota.set_mode(Mode::static_) == ShareRefusal::none);
  for (const std::uint32_t tpc : {1U, 2U}) CHECK(quota.enable(3, tpc, true) == ShareRefusal::none);
  CHECK(quota.price(3, 1, true).bar == Bar::block);
  CHECK(quota.price(3, 1, false).bar == Bar::none);
  CHECK(quota.set_block(3, 1, 2) == ShareRefusal::value);
  CHECK(quota.set_block(3, 1, 1) == ShareRefusal::none);
  CHECK(quota.set_block(3, 2, 1) == ShareRefusal::block);
  CHECK(quota.set_block(4, 2, 1) == ShareRefusal::none);  // another subcontext's is another
  quota.complete(1, 0, true);
  CHECK(quota.price(3, 1, true).bar == Bar::none);
  launch_alone(quota, 3, 1, true);
  CHECK(quota.block(3, 1) == 1);
  CHECK(quota.set_block(3, 1, kNone) == ShareRefusal::none);
  CHECK(quota.set_block(3, 2, 1) == ShareRefusal::none);
  CHECK(quota.price(3, 2, true).bar == Bar::block);
  quota.complete(3, 1, true);
  launch_alone(quota, 3, 2, true);
  quota.complete(3, 2, true);
  CHECK(quota.empty());
}

TEST_CASE("local memory does not change while its blocks are in use", "[cwd][PRT-06]") {
  using heddle::arch::LocalMemory;
  using heddle::cwd::LocalMemories;
  LocalMemories local;
  CHECK(local.holds(1, 500'000));  // nobody has said what it has
  CHECK(local.set_address(1, 0x1234'5680, false) == ShareRefusal::none);
  CHECK(local.set_address(1, 0x1234'5640, false) == ShareRefusal::value);
  CHECK(local.set_bytes(1, 64, false) == ShareRefusal::none);
  CHECK(local.set_bytes(1, 66, false) == ShareRefusal::value);
  CHECK(local.set_bytes(1, LocalMemories::kMostBytes + 4, false) == ShareRefusal::value);
  CHECK(local.set_bytes(heddle::arch::kSubcontexts, 4, false) == ShareRefusal::subcontext);
  CHECK(local.set_address(heddle::arch::kSubcontexts, 0, false) == ShareRefusal::subcontext);
  CHECK(local.of(1) == LocalMemory{0x1234'5680, 64});
  CHECK(local.holds(1, 64));
  CHECK_FALSE(local.holds(1, 65));
  CHECK(local.holds(2, 65));
  CHECK(local.set_bytes(1, 128, true) == ShareRefusal::in_use);
  CHECK(local.set_address(1, 0, true) == ShareRefusal::in_use);
  CHECK(local.of(1) == LocalMemory{0x1234'5680, 64});
  CHECK(local.set_bytes(1, LocalMemories::kMostBytes, false) == ShareRefusal::none);
  local.reset();
  CHECK(local.of(1) == LocalMemory{});
}

TEST_CASE("a block that a session of static mode has reserved comes back with it", "[cwd][PRT-06][PRT-10]") {
  TpcQuota quota(3, {Mode::static_, 0, 0});
  for (std::uint32_t tpc = 0; tpc < 3; ++tpc) {
    CHECK(quota.enable(0, tpc, true) == ShareRefusal::none);
    CHECK(quota.set_block(0, tpc, 2 - tpc) == ShareRefusal::none);
  }
  quota.open_session(0);
  for (std::uint32_t tpc = 0; tpc < 3; ++tpc) quota.reserve_block(tpc);
  CHECK(quota.blocks(0) == 0);
  CHECK(quota.set_mode(Mode::dynamic) == ShareRefusal::none);  // it began before
  CHECK(quota.set_block(0, 1, kNone) == ShareRefusal::none);
  CHECK(quota.launch(0, 1, true) == 1);
  quota.complete(0, 1, true);  // it may come back to that TPC
  CHECK(quota.blocks(0) == 0);
  CHECK(quota.launch(0, 1, true) == 1);
  quota.close_session();
  CHECK(quota.blocks(0) == 2);
  quota.complete(0, 1, true);
  CHECK(quota.empty());
}

TEST_CASE("random launches, exits and changes keep held + credits = maximum", "[cwd][PRT-04][PRT-06][PRT-07][PRT-10]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t tpcs = random.between(1, 12);
    const std::uint32_t blocks = random.between(1, 16);
    const std::uint32_t first = random.below(tpcs + 3);
    const std::uint32_t subcontexts = random.chance(20) ? kSubcontexts : random.between(1, 5);
    TpcQuota quota(tpcs, {static_cast<Mode>(random.below(3)), first, blocks});
    Model model;
    for (std::uint32_t s = 0; s < subcontexts; ++s) model.maximum[s] = first == 0 ? tpcs : first;
    std::uint32_t open = kNone;
    for (std::uint32_t step = 0; step < 600; ++step) {
      const std::uint32_t subcontext = open != kNone ? open : random.below(subcontexts);
      const std::uint32_t tpc = random.below(tpcs);
      switch (random.below(9)) {
        case 0: {
          const std::uint32_t maximum = random.below(2 * tpcs);
          REQUIRE(quota.set_credits(subcontext, maximum) == ShareRefusal::none);
          model.maximum[subcontext] = maximum;
          break;
        }
        case 1:
          quota.enable(random.below(subcontexts), tpc, random.chance(70));
          break;
        case 2:
          if (random.chance(30)) quota.set_mode(static_cast<Mode>(random.below(3)));
          break;
        case 3:
          quota.set_block(random.below(subcontexts), tpc, random.chance(20) ? kNone : random.below(blocks));
          break;
        case 4:
          if (open == kNone) {
            quota.open_session(open = subcontext);
            if (quota.mode() == Mode::dynamic && quota.credits(open) > 0) {
              quota.reserve(random.below(static_cast<std::uint64_t>(quota.credits(open)) + 1));
            }
          } else {
            quota.close_session();
            open = kNone;
          }
          break;
        case 5:
        case 6:
          if (!model.ctas.empty()) {
            const std::uint32_t which = random.below(model.ctas.size());
            const Cta cta = model.ctas[which];
            model.ctas.erase(model.ctas.begin() + which);
            quota.complete(cta.subcontext, cta.tpc, cta.local);
          }
          break;
        default: {
          const bool local = random.chance(40);
          const TpcPrice price = quota.price(subcontext, tpc, local);
          if (open != kNone || price.bar != Bar::none) break;
          if ((price.credit && quota.credits(subcontext) <= 0) || (price.block && quota.blocks(subcontext) == 0)) break;
          launch_alone(quota, subcontext, tpc, local);
          model.ctas.push_back({subcontext, tpc, local});
        }
      }
      for (std::uint32_t s = 0; s < subcontexts; ++s) {
        std::set<std::uint32_t> used;
        REQUIRE(quota.tpcs_held(s) == model.held(s));
        REQUIRE(quota.credits(s) + quota.reserved(s) + model.held(s) == model.maximum[s]);
        if (s != open) REQUIRE(quota.reserved(s) == 0);
        std::int64_t given_up = 0;
        for (std::uint32_t t = 0; t < tpcs; ++t) {
          given_up += quota.gives_up(s, t) ? 1 : 0;
          if (quota.gives_up(s, t)) REQUIRE(model.count(s, t) > 0);
        }
        const std::int64_t above = model.held(s) - model.maximum[s];
        REQUIRE(given_up == std::max<std::int64_t>(0, std::min<std::int64_t>(above, model.held(s))));
        for (std::uint32_t t = 0; t < tpcs; ++t) {
          REQUIRE(quota.held(s, t) == (model.count(s, t) > 0));
          if (model.count(s, t, true) > 0) REQUIRE(quota.block(s, t) < blocks);
          if (quota.block(s, t) == kNone) continue;
          REQUIRE((model.count(s, t, true) > 0 || s == open));
          REQUIRE(used.insert(quota.block(s, t)).second);  // no other TPC of it has it
        }
        REQUIRE(used.size() + quota.blocks(s) == blocks);
      }
      REQUIRE(quota.holders(tpc) == model.holders(tpc));
    }
    quota.close_session();
    for (const Cta& cta : model.ctas) quota.complete(cta.subcontext, cta.tpc, cta.local);
    REQUIRE(quota.empty());
  }
}

}  // namespace cwd_tpc_quota_test
