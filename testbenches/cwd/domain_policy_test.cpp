// Which domains receive a CGA.
#include "cwd/domain_policy.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/topology.h"
#include "common/error.h"
#include "cwd/gpc_model.h"
#include "support/random.h"

namespace cwd_domain_policy_test {

using heddle::InputError;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::DomainAnswer;
using heddle::cwd::DomainView;
using heddle::cwd::GpcModel;
using heddle::cwd::GpcSlots;
using heddle::cwd::make_domain_policy;
using heddle::test::Random;

namespace {

using Domains = std::vector<std::uint32_t>;
using Answers = std::vector<DomainAnswer>;

constexpr DomainAnswer kFull{false, 0};

Domains choose(const std::string& policy, const Answers& answers, const Domains& priority, std::uint64_t cgas) {
  Domains chosen;
  make_domain_policy(policy)->choose({answers, priority, cgas}, chosen);
  return chosen;
}

}  // namespace

TEST_CASE("policies for domains are found by name", "[cwd][CWD-13]") {
  std::vector<std::string> names;
  for (const auto& [name, description] : heddle::cwd::domain_policies()) {
    names.push_back(name);
    CHECK_FALSE(description.empty());
    CHECK(make_domain_policy(name) != nullptr);
  }
  CHECK(names == std::vector<std::string>{"fastest", "first_fit", "tightest", "round_robin", "lookahead"});
  CHECK_THROWS_WITH(make_domain_policy("fastets"), Catch::Contains("'fastets'") && Catch::Contains("fastest?"));
  CHECK_THROWS_AS(make_domain_policy(""), InputError);
}

TEST_CASE("all domains that tie for the greatest speed receive a CGA, while CGAs remain", "[cwd][CWD-13]") {
  const Answers answers{{true, 2}, kFull, {true, 5}, {true, 5}, {false, 9}, {true, 5}};
  const Domains order{0, 1, 2, 3, 4, 5};
  CHECK(choose("fastest", answers, order, 8) == Domains{2, 3, 5});
  CHECK(choose("fastest", answers, order, 3) == Domains{2, 3, 5});
  CHECK(choose("fastest", answers, order, 2) == Domains{2, 3});
  CHECK(choose("fastest", answers, {5, 4, 3, 2, 1, 0}, 2) == Domains{5, 3});
  CHECK(choose("fastest", {kFull, kFull}, {0, 1}, 4).empty());
  CHECK(choose("fastest", {{true, 0}, {true, 0}}, {1, 0}, 4) == Domains{1, 0});  // no slot left is a speed too
}

TEST_CASE("first_fit takes the first domain that has room", "[cwd][CWD-13]") {
  const Answers answers{{true, 2}, kFull, {true, 5}, {true, 0}};
  CHECK(choose("first_fit", answers, {1, 3, 2, 0}, 4) == Domains{3});
  CHECK(choose("first_fit", answers, {0, 1, 2, 3}, 4) == Domains{0});
  CHECK(choose("first_fit", {kFull, kFull}, {0, 1}, 4).empty());
}

TEST_CASE("tightest takes the domain where least room remains", "[cwd][CWD-13]") {
  const Answers answers{{true, 3}, {false, 0}, {true, 1}, {true, 7}, {true, 1}};
  CHECK(choose("tightest", answers, {0, 1, 2, 3, 4}, 5) == Domains{2});
  CHECK(choose("tightest", answers, {4, 3, 2, 1, 0}, 5) == Domains{4});  // a tie goes by priority
  CHECK(choose("tightest", {kFull, kFull}, {0, 1}, 1).empty());
}

TEST_CASE("round_robin goes round the domains that have room, level by level", "[cwd][CWD-13]") {
  const auto policy = make_domain_policy("round_robin");
  const Answers answers{{true, 2}, {true, 9}, kFull, {true, 0}};
  const Domains order{0, 1, 2, 3};
  const auto next = [&](std::uint64_t cgas, heddle::arch::CgaLevel level, std::uint32_t within = 0) {
    Domains chosen;
    policy->choose({answers, order, cgas, 1, level, within}, chosen);
    return chosen;
  };
  CHECK(next(1, heddle::arch::CgaLevel::gpc) == Domains{0});
  CHECK(next(1, heddle::arch::CgaLevel::gpc) == Domains{1});
  CHECK(next(1, heddle::arch::CgaLevel::cpc, 0) == Domains{0});  // CPCs have a turn of their own, in every GPC
  CHECK(next(1, heddle::arch::CgaLevel::cpc, 1) == Domains{0});
  CHECK(next(1, heddle::arch::CgaLevel::cpc, 1) == Domains{1});
  CHECK(next(2, heddle::arch::CgaLevel::gpc) == Domains{3, 0});  // GPC 2 is full
  CHECK(next(9, heddle::arch::CgaLevel::gpc) == Domains{1, 3, 0});
  policy->reset();
  CHECK(next(1, heddle::arch::CgaLevel::gpc) == Domains{0});
  CHECK(choose("round_robin", {kFull}, {0}, 1).empty());
}

TEST_CASE("lookahead keeps the emptiest domain for a larger CGA that waits", "[cwd][CWD-13]") {
  const Answers answers{{true, 5, 40}, {true, 1, 50}, {true, 5, 20}, {false, 0, 60}};
  const auto with = [&](std::uint32_t waiting_ctas, const Answers& of) {
    heddle::protocol::WaitingWork waiting;
    waiting.tasks[waiting.count++] = {waiting_ctas, 1};
    Domains chosen;
    Domains order{0, 1, 2, 3};
    order.resize(of.size());
    make_domain_policy("lookahead")->choose({of, order, 9, 4, heddle::arch::CgaLevel::gpc, 0, waiting}, chosen);
    return chosen;
  };
  CHECK(with(4, answers) == Domains{0, 2});                      // as fastest
  CHECK(with(5, answers) == Domains{0, 2});                      // domain 1 is the emptiest, and slower anyway
  CHECK(with(5, {{true, 5, 40}, {true, 1, 30}}) == Domains{1});  // domain 0 is kept
  CHECK(with(4, {{true, 5, 40}, {true, 1, 30}}) == Domains{0});
  CHECK(with(5, {{true, 5, 40}, {false, 0, 50}}) == Domains{0});  // there is no other
  CHECK(with(5, {{true, 5, 40}, {true, 5, 40}}) == Domains{1});   // of equals the first one is kept
}

TEST_CASE("every policy keeps the promises of a policy", "[cwd][CWD-13]") {
  for (const auto& [name, description] : heddle::cwd::domain_policies()) {
    CAPTURE(name);
    const auto policy = make_domain_policy(name);
    std::uint32_t with_room = 0;
    for (const std::uint64_t seed : heddle::test::seeds(2000)) {
      CAPTURE(seed);
      Random random(seed);
      Answers answers(random.between(1, 12));
      bool any = false;
      std::uint32_t least = 100;
      std::uint32_t greatest = 0;
      for (DomainAnswer& answer : answers) {
        answer = {random.chance(60), random.below(4), random.below(40)};
        if (!answer.valid) continue;
        any = true;
        least = std::min(least, answer.speed);
        greatest = std::max(greatest, answer.speed);
      }
      const Domains priority = random.permutation(static_cast<std::uint32_t>(answers.size()));
      const std::uint64_t cgas = random.between(1, 6);
      Domains chosen{77};  // it appends
      heddle::protocol::WaitingWork waiting;
      if (random.chance(50)) waiting.tasks[waiting.count++] = {random.between(1, 8), 1};
      policy->choose({answers, priority, cgas, 4, heddle::arch::CgaLevel::gpc, 0, waiting}, chosen);
      REQUIRE(chosen.front() == 77);
      chosen.erase(chosen.begin());
      REQUIRE(chosen.empty() != any);
      REQUIRE(chosen.size() <= cgas);
      with_room += any ? 1 : 0;
      Domains in_order;
      for (const std::uint32_t domain : priority) {
        if (std::count(chosen.begin(), chosen.end(), domain) != 0) in_order.push_back(domain);
      }
      REQUIRE(chosen.size() == in_order.size());  // none twice
      if (name == "round_robin") {                // in priority order, from somewhere on
        const auto first = chosen.empty() ? in_order.begin() : std::find(in_order.begin(), in_order.end(), chosen[0]);
        std::rotate(in_order.begin(), first, in_order.end());
      }
      REQUIRE(chosen == in_order);
      for (const std::uint32_t domain : chosen) {
        REQUIRE(answers[domain].valid);
        if (name == "fastest") REQUIRE(answers[domain].speed == greatest);
        if (name == "tightest") REQUIRE(answers[domain].speed == least);
      }
    }
    CHECK(with_room > 1000);
  }
}

TEST_CASE("tightest keeps an empty GPC free for a large CGA, where fastest does not", "[cwd][CWD-13]") {
  const Topology topology(Shape::from_sms_per_gpc({4, 4}));
  const Domains order{0, 1};
  const auto lake = heddle::cwd::make_sm_policy("lake");
  const auto pairs = heddle::cwd::make_sm_policy("tpc_pairs");
  // GPC 0 is empty, GPC 1 half full. Two CGAs of two CTAs, then one of four that needs four empty SMs.
  const auto large_fits = [&](const std::string& name) {
    const auto policy = make_domain_policy(name);
    std::vector<GpcModel> gpcs;
    for (const std::uint32_t gpc : order) {
      gpcs.emplace_back(topology, gpc, Domains{0, 1, 2, 3, 4, 5, 6, 7}, *lake, *pairs, *policy);
      GpcSlots free{};
      for (std::size_t sm = 0; sm < 4; ++sm) free[sm] = gpc == 0 ? 2 : 1;
      gpcs.back().begin(free, {2, 0}, true, 10);
    }
    for (std::uint64_t cgas = 2; cgas > 0;) {
      const Answers answers{gpcs[0].query().answer, gpcs[1].query().answer};
      const Domains homes = choose(name, answers, order, cgas);
      REQUIRE_FALSE(homes.empty());
      for (const std::uint32_t gpc : order) {
        const bool home = std::count(homes.begin(), homes.end(), gpc) != 0;
        if (home) gpcs[gpc].reserve();
        if (!home && answers[gpc].valid) gpcs[gpc].cancel();
      }
      cgas -= homes.size();
    }
    const GpcSlots left = gpcs[0].left();
    return std::count(left.begin(), left.begin() + 4, 2) == 4;
  };
  CHECK(large_fits("tightest"));
  CHECK_FALSE(large_fits("fastest"));
  CHECK_FALSE(large_fits("first_fit"));
}

}  // namespace cwd_domain_policy_test
