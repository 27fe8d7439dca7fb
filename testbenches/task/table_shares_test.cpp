// Shares of the task table against their definition, over random arrivals and departures.
#include <algorithm>
#include <cstdint>
#include <map>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"
#include "task/task_dispatcher.h"

namespace heddle::test::table_shares_test {

using task::TableShares;

TEST_CASE("an equal part is kept for each subcontext in use, and the rest is whose comes", "[task][PRT-02]") {
  for (const std::uint64_t seed : seeds(2000)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t slots = random.between(1, 40);
    const double guarantee = random.one_in(2) ? 1.0 : random.between(0, 10) / 10.0;
    const std::uint32_t subcontexts = random.between(1, 6);
    TableShares shares(slots, guarantee, true);
    std::map<std::uint32_t, std::uint32_t> taken;
    std::uint32_t all = 0;
    for (std::uint32_t step = 0; step < 120; ++step) {
      const std::uint32_t one = random.below(subcontexts);
      if (random.one_in(8)) {
        shares.use(one);
        taken.try_emplace(one, 0);
      }
      const auto used = static_cast<std::uint32_t>(taken.size());
      const std::uint32_t share = used == 0 ? 0 : static_cast<std::uint32_t>(guarantee * (slots / used));
      REQUIRE(shares.share() == share);
      for (std::uint32_t s = 0; s < subcontexts; ++s) {
        // What is missing from the shares of the others must stay free.
        std::uint32_t others = 0;
        for (const auto& [other, count] : taken) others += other != s && count < share ? share - count : 0;
        const bool own = taken.count(s) != 0 && taken[s] < share;
        REQUIRE(shares.has_slot(s) == (all < slots && (own || slots - all > others)));
      }
      if (random.chance(60)) {
        if (!shares.has_slot(one)) continue;
        shares.enter(one);
        ++taken[one];
        ++all;
      } else if (taken.count(one) != 0 && taken[one] > 0) {
        shares.leave(one);
        --taken[one];
        --all;
      }
    }
    shares.set_partitioned(false);
    REQUIRE(shares.has_slot(0));
    shares.reset();
    REQUIRE(shares.partitioned());
    REQUIRE(shares.share() == 0);
    CHECK_THROWS_AS(shares.leave(0), CheckFailed);
  }
}

TEST_CASE("a slot is displaced within a subcontext, or from one beyond its share", "[task][PRT-02][TSK-03]") {
  TableShares shares(8, 1.0, true);
  for (int i = 0; i < 6; ++i) shares.enter(1);
  CHECK(shares.may_displace(1, 0, 1, 0));
  shares.use(2);
  CHECK(shares.share() == 4);
  CHECK(shares.may_displace(2, 0, 1, 0));
  CHECK_FALSE(shares.may_displace(1, 0, 2, 0));
  CHECK(shares.may_displace(2, 3, 1, 1));
  CHECK_FALSE(shares.may_displace(2, 4, 1, 1));
  CHECK_FALSE(shares.may_displace(2, 2, 1, 2));
  shares.leave(1);
  shares.leave(1);
  CHECK_FALSE(shares.may_displace(2, 0, 1, 0));  // no more than its share
  for (int i = 0; i < 4; ++i) shares.enter(2);
  shares.enter(1);
  CHECK_FALSE(shares.may_displace(2, 0, 1, 0));  // it has its own
  shares.set_partitioned(false);
  CHECK(shares.may_displace(2, 0, 1, 0));
}

}  // namespace heddle::test::table_shares_test
