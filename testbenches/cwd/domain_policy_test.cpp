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
  make_domain_policy(policy)->choose(answers, priority, cgas, chosen);
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
  CHECK(names == std::vector<std::string>{"fastest", "first_fit", "tightest"});
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
        answer = {random.chance(60), random.below(4)};
        if (!answer.valid) continue;
        any = true;
        least = std::min(least, answer.speed);
        greatest = std::max(greatest, answer.speed);
      }
      const Domains priority = random.permutation(static_cast<std::uint32_t>(answers.size()));
      const std::uint64_t cgas = random.between(1, 6);
      Domains chosen{77};  // it appends
      policy->choose(answers, priority, cgas, chosen);
      REQUIRE(chosen.front() == 77);
      chosen.erase(chosen.begin());
      REQUIRE(chosen.empty() != any);
      REQUIRE(chosen.size() <= cgas);
      with_room += any ? 1 : 0;
      Domains in_order;
      for (const std::uint32_t domain : priority) {
        if (std::count(chosen.begin(), chosen.end(), domain) != 0) in_order.push_back(domain);
      }
      REQUIRE(chosen == in_order);  // none twice, and in priority order
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
