// Shares and limits of bandwidth, against what the requirement says of each change (PRT-11).
#include "arch/bandwidth_table.h"

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace heddle::test::arch_bandwidth_table_test {

using arch::BandwidthTable;
using Refusal = BandwidthTable::Refusal;

TEST_CASE("changes of bandwidth are refused or carried out, and nothing in between", "[arch][PRT-11]") {
  for (const std::uint64_t round : seeds(50)) {
    CAPTURE(round);
    Random random(round);
    BandwidthTable table;
    std::map<std::uint32_t, std::uint64_t> share;
    std::map<std::uint32_t, std::uint64_t> limit;
    std::map<std::uint32_t, bool> used;
    bool any = false;
    for (int step = 0; step < 200; ++step) {
      const std::uint32_t who = random.below(6);
      const std::uint64_t value = random.below(10) == 0 ? 900 + random.below(300) : random.below(400);
      const auto own = [&](const std::map<std::uint32_t, std::uint64_t>& map, std::uint64_t without) {
        return map.count(who) != 0 ? map.at(who) : without;
      };
      if (random.below(5) == 0) {
        table.use(who);
        used[who] = true;
      } else if (random.below(2) == 0) {
        std::uint64_t others = 0;
        for (const auto& [one, its] : share) others += one == who ? 0 : its;
        const Refusal expected = value > 1000               ? Refusal::value
                                 : others + value > 1000    ? Refusal::sum
                                 : value > own(limit, 1000) ? Refusal::limit
                                                            : Refusal::none;
        CHECK(table.set_share(who, value) == expected);
        if (expected == Refusal::none) {
          share[who] = value;
          any = used[who] = true;
        }
      } else {
        const Refusal expected = value == 0 || value > 1000 ? Refusal::value
                                 : value < own(share, 0)    ? Refusal::limit
                                                            : Refusal::none;
        CHECK(table.set_limit(who, value) == expected);
        if (expected == Refusal::none) {
          limit[who] = value;
          any = used[who] = true;
        }
      }
      std::uint64_t rest = 1000;
      std::uint64_t without = 0;
      for (const auto& [one, its] : share) rest -= its;
      for (const auto& [one, is] : used) without += is && (share.count(one) == 0 || share.at(one) == 0) ? 1 : 0;
      CHECK(table.any() == any);
      for (const auto& [one, is] : used) {
        const std::uint64_t given = share.count(one) != 0 ? share.at(one) : 0;
        const std::uint64_t expected = given != 0 ? given : std::max<std::uint64_t>(1, rest / without);
        if (any || is) CHECK(table.weight(one) == expected);
        CHECK(table.limit(one) == (limit.count(one) != 0 ? limit.at(one) : 1000));
      }
    }
    table.reset();
    CHECK_FALSE(table.any());
    CHECK(table.weight(1) == table.weight(2));
  }
}

}  // namespace heddle::test::arch_bandwidth_table_test
