// Shares below a TPC: of how many SMs, and of how many warps of an SM (PRT-11).
#include "cwd/sm_shares.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/task_record.h"
#include "support/random.h"

namespace cwd_sm_shares_test {

using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::ShareRefusal;
using heddle::cwd::SmShares;
using heddle::test::Random;

namespace {

std::vector<std::uint32_t> backwards(std::uint32_t sms) {
  std::vector<std::uint32_t> priority;
  for (std::uint32_t sm = sms; sm-- > 0;) priority.push_back(sm);
  return priority;
}

constexpr std::uint32_t kWarps = 48;

// What it should know of one subcontext, and what it may do with free slots.
struct Known {
  std::vector<std::uint32_t> warps;  // by SM
  std::vector<std::uint32_t> ctas;
  std::uint32_t most_sms = 0;
  std::uint32_t most_warps = 0;

  std::set<std::uint32_t> held() const {
    std::set<std::uint32_t> sms;
    for (std::uint32_t sm = 0; sm < warps.size(); ++sm) {
      if (ctas[sm] > 0) sms.insert(sm);
    }
    return sms;
  }
};

void check(const Known& known, const SmShares::Need& need, const Topology& topology,
           const std::vector<std::uint16_t>& before, const std::vector<std::uint16_t>& after, bool taken) {
  CHECK(taken == (before != after));
  std::vector<std::uint16_t> fit = before;  // with the limit of warps alone
  for (std::uint32_t sm = 0; sm < before.size(); ++sm) {
    std::uint32_t ctas = 0;
    while (need.warps > 0 && ctas < before[sm] && known.warps[sm] + (ctas + 1) * need.warps <= known.most_warps) ++ctas;
    if (known.most_warps < kWarps && need.warps > 0) fit[sm] = static_cast<std::uint16_t>(ctas);
    CHECK((after[sm] == fit[sm] || after[sm] == 0));
  }
  const std::set<std::uint32_t> held = known.held();
  std::set<std::uint32_t> touched = held;
  std::set<std::uint32_t> fresh;    // not held, and left
  std::set<std::uint32_t> dropped;  // not held, and kept from it
  std::size_t used_held = 0;
  std::uint32_t least_used = ~0U;
  std::uint32_t most_dropped = 0;
  for (std::uint32_t sm = 0; sm < before.size(); ++sm) {
    if (after[sm] > 0) touched.insert(sm);
    if (held.count(sm) != 0) {
      used_held += after[sm] > 0 ? 1 : 0;
      if (after[sm] > 0) least_used = std::min(least_used, known.ctas[sm]);
      if (fit[sm] > 0 && after[sm] == 0) most_dropped = std::max(most_dropped, known.ctas[sm]);
    } else if (after[sm] > 0) {
      fresh.insert(sm);
    } else if (fit[sm] > 0) {
      dropped.insert(sm);
    }
  }
  if (held.size() > known.most_sms) {
    CHECK(fresh.empty());
    CHECK(used_held <= known.most_sms);
    CHECK(least_used >= most_dropped);
    return;
  }
  CHECK(most_dropped == 0);
  CHECK(touched.size() <= known.most_sms);
  if (!dropped.empty()) CHECK(touched.size() == known.most_sms);
  // By free slots, then by priority; for CGAs GPC by GPC.
  const auto open = [&](std::uint32_t gpc) {
    std::uint32_t sms = 0;
    for (std::uint32_t sm = 0; sm < fit.size(); ++sm) sms += topology.sm(sm).gpc == gpc && fit[sm] > 0 ? 1 : 0;
    return sms;
  };
  for (const std::uint32_t in : fresh) {
    for (const std::uint32_t out : dropped) {
      const std::uint32_t a = topology.sm(in).gpc;
      const std::uint32_t b = topology.sm(out).gpc;
      if (need.clustered && a != b) {
        const std::uint32_t gpcs = topology.gpcs();
        if (need.first) {
          CHECK((a + gpcs - *need.first) % gpcs < (b + gpcs - *need.first) % gpcs);
        } else {
          CHECK(std::pair(open(a), b) >= std::pair(open(b), a));
        }
        continue;
      }
      CHECK(std::pair<std::uint32_t, std::uint32_t>(fit[in], in) >
            std::pair<std::uint32_t, std::uint32_t>(fit[out], out));
    }
  }
}

}  // namespace

TEST_CASE("shares are percentages, rounded up, of one subcontext", "[cwd][PRT-11]") {
  const Topology topology(Shape::from_sms_per_gpc({18, 14}));
  SmShares shares(topology, 64, backwards(32));
  CHECK_FALSE(shares.limited(5));
  CHECK(shares.set_sms(5, 50) == ShareRefusal::none);
  CHECK(shares.most_sms(5) == 16);
  CHECK(shares.set_sms(5, 1) == ShareRefusal::none);
  CHECK(shares.most_sms(5) == 1);
  CHECK(shares.set_sms(5, 51) == ShareRefusal::none);
  CHECK(shares.most_sms(5) == 17);
  CHECK(shares.limited(5));
  CHECK_FALSE(shares.limited(4));
  CHECK(shares.set_sms(5, 100) == ShareRefusal::none);
  CHECK_FALSE(shares.limited(5));
  CHECK(shares.set_warps(5, 33) == ShareRefusal::none);
  CHECK(shares.most_warps(5) == 22);
  CHECK(shares.part_of_sm(5) == 22.0 / 64);
  CHECK(shares.limited(5));
  for (const std::uint64_t wrong : {std::uint64_t{0}, std::uint64_t{101}, ~std::uint64_t{0}}) {
    CHECK(shares.set_sms(5, wrong) == ShareRefusal::value);
    CHECK(shares.set_warps(5, wrong) == ShareRefusal::value);
  }
  CHECK(shares.set_sms(heddle::arch::kSubcontexts, 5) == ShareRefusal::subcontext);
  CHECK(shares.set_warps(heddle::arch::kSubcontexts, 5) == ShareRefusal::subcontext);
  CHECK(shares.most_warps(5) == 22);
  shares.launch(5, 3, 8);
  CHECK_FALSE(shares.empty());
  CHECK_THROWS(shares.complete(5, 3, 9));
  shares.complete(5, 3, 8);
  CHECK(shares.empty());
  CHECK_THROWS(shares.complete(5, 3, 8));
  shares.reset();
  CHECK_FALSE(shares.limited(5));
}

TEST_CASE("random launches and shares: nobody sees more SMs or warps than it may have", "[cwd][PRT-11]") {
  HEDDLE_RANDOM(random);
  const Topology topology(Shape::from_sms_per_gpc({6, 4, 5}));
  constexpr std::uint32_t kSms = 15;
  for (int round = 0; round < 60; ++round) {
    SmShares shares(topology, kWarps, backwards(kSms));
    std::vector<Known> known(3,
                             {std::vector<std::uint32_t>(kSms, 0), std::vector<std::uint32_t>(kSms, 0), kSms, kWarps});
    struct Cta {
      std::uint32_t subcontext, sm, warps;
    };
    std::vector<Cta> running;
    for (int step = 0; step < 120; ++step) {
      const std::uint32_t subcontext = random.below(3);
      Known& its = known[subcontext];
      if (random.chance(10)) {
        const std::uint32_t percent = random.between(1, 100);
        if (random.chance(50)) {
          REQUIRE(shares.set_sms(subcontext, percent) == ShareRefusal::none);
          its.most_sms = (kSms * percent + 99) / 100;
        } else {
          REQUIRE(shares.set_warps(subcontext, percent) == ShareRefusal::none);
          its.most_warps = (kWarps * percent + 99) / 100;
        }
      }
      if (random.chance(30) && !running.empty()) {
        const std::size_t which = random.below(running.size());
        const Cta cta = running[which];
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
        shares.complete(cta.subcontext, cta.sm, cta.warps);
        known[cta.subcontext].warps[cta.sm] -= cta.warps;
        --known[cta.subcontext].ctas[cta.sm];
      }
      SmShares::Need need;
      need.warps = random.between(0, 12);
      need.clustered = random.chance(40);
      if (need.clustered && random.chance(40)) need.first = random.below(3);
      std::vector<std::uint16_t> before(kSms);
      for (std::uint16_t& slots : before) slots = static_cast<std::uint16_t>(random.chance(30) ? 0 : random.below(5));
      std::vector<std::uint16_t> after = before;
      const bool taken = shares.restrict(subcontext, need, after);
      check(its, need, topology, before, after, taken);
      for (std::uint32_t sm = 0; sm < kSms; ++sm) {
        if (after[sm] == 0 || random.chance(60)) continue;
        shares.launch(subcontext, sm, need.warps);
        its.warps[sm] += need.warps;
        ++its.ctas[sm];
        running.push_back({subcontext, sm, need.warps});
      }
      CHECK(shares.sms_held(subcontext) == its.held().size());
      CHECK(shares.warps_on(subcontext, 7) == its.warps[7]);
    }
    for (const Cta& cta : running) shares.complete(cta.subcontext, cta.sm, cta.warps);
    CHECK(shares.empty());
  }
}

}  // namespace cwd_sm_shares_test
