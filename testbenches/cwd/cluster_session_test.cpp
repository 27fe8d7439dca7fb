// The session core by itself: models that answer as told, and check what they are told.
#include "cwd/cluster_session.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

namespace cwd_cluster_session_test {

using heddle::CheckFailed;
using heddle::cwd::Act;
using heddle::cwd::ClusterSession;
using heddle::cwd::Command;
using heddle::cwd::DomainAnswer;
using heddle::cwd::Home;
using heddle::cwd::SessionRequest;
using heddle::test::Random;

namespace {

using Order = std::vector<std::uint32_t>;

// GPCs that have a speed for each of the CGAs that they can still hold, and check what they are told.
class Mimics {
 public:
  explicit Mimics(std::vector<std::vector<std::uint32_t>> speeds) : gpcs_(speeds.size()) {
    for (std::size_t g = 0; g < speeds.size(); ++g) gpcs_[g].speeds = std::move(speeds[g]);
  }

  // Runs the session to its end. Each step's GPCs that were asked: queries.
  void run(ClusterSession& session) {
    while (true) {
      const std::vector<Command> commands = session.step();
      if (commands.empty()) break;
      REQUIRE(!ended_);  // a step that asks nobody is the last one
      std::vector<std::uint32_t> asked;
      std::map<std::uint32_t, int> last_act;
      for (const Command& command : commands) {
        Gpc& gpc = gpcs_.at(command.gpc);
        const int act = static_cast<int>(command.act);
        REQUIRE((last_act.count(command.gpc) == 0 || last_act[command.gpc] < act));
        last_act[command.gpc] = act;
        switch (command.act) {
          case Act::reserve:
            REQUIRE(gpc.open);
            gpc.open = false;
            ++gpc.reserved;
            break;
          case Act::cancel:
            REQUIRE(gpc.open);
            gpc.open = false;
            break;
          case Act::revert:
            REQUIRE_FALSE(gpc.open);
            gpc.reserved = gpc.accepted;
            break;
          case Act::accept:
            REQUIRE_FALSE(gpc.open);
            gpc.accepted = gpc.reserved;
            break;
          case Act::query:
            REQUIRE_FALSE(gpc.open);
            asked.push_back(command.gpc);
            break;
        }
      }
      for (const std::uint32_t g : asked) {
        Gpc& gpc = gpcs_[g];
        gpc.open = gpc.reserved < gpc.speeds.size();
        session.answer(g, {gpc.open, gpc.open ? gpc.speeds[gpc.reserved] : 0});
      }
      if (asked.empty()) {
        ended_ = true;
      } else {
        queries.push_back(asked);
      }
    }
    for (const Gpc& gpc : gpcs_) {
      CHECK_FALSE(gpc.open);
      CHECK(gpc.reserved == gpc.accepted);
    }
  }
  std::uint32_t accepted(std::uint32_t gpc) const { return gpcs_[gpc].accepted; }

  std::vector<std::vector<std::uint32_t>> queries;

 private:
  struct Gpc {
    std::vector<std::uint32_t> speeds;
    bool open = false;
    std::uint32_t reserved = 0;
    std::uint32_t accepted = 0;
  };
  std::vector<Gpc> gpcs_;
  bool ended_ = false;
};

Order gpcs_of(const ClusterSession& session) {
  Order result;
  for (const Home& home : session.homes()) result.push_back(home.gpc);
  return result;
}

}  // namespace

TEST_CASE("equal-speed GPCs receive a CGA in the same step, and only they are asked again", "[cwd][CWD-13][CWD-14]") {
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  ClusterSession session({0, 0, 0, 0}, {0, 1, 2, 3}, *policy);
  Mimics mimics({{}, {0}, {5, 3}, {5, 2}});
  session.begin({10, true, 0, 1});
  mimics.run(session);
  CHECK(gpcs_of(session) == Order{2, 3, 2, 3, 1});
  const std::vector<std::vector<std::uint32_t>> wanted{{0, 1, 2, 3}, {2, 3}, {2}, {3}, {1}};
  CHECK(mimics.queries == wanted);
  CHECK(session.placed() == 5);
  CHECK(session.queries() == 5);
  CHECK(session.cancelled() == 1 + 2 + 1);  // GPC 1 three times, GPC 3 once
  for (std::uint64_t i = 0; i < session.homes().size(); ++i) {
    CHECK(session.homes()[i].unit == i);
    CHECK(session.homes()[i].last);
  }
}

TEST_CASE("a tie that a session's limit cuts off is finished by the next session", "[cwd][CWD-13][CWD-23]") {
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  // Priority 2 0 3 1. GPC 2 is as fast as before once it has its first CGA: it must wait for the others all the same.
  const std::vector<std::vector<std::uint32_t>> speeds{{7, 5}, {7, 4}, {7, 7, 3}, {7, 6}};
  ClusterSession whole({0, 0, 0, 0}, {2, 0, 3, 1}, *policy);
  Mimics all(speeds);
  whole.begin({7, true, 0, 1});
  all.run(whole);
  CHECK(gpcs_of(whole) == Order{2, 0, 3, 1, 2, 3, 0});
  for (const std::uint64_t limit : {1U, 2U, 3U, 5U}) {
    CAPTURE(limit);
    ClusterSession session({0, 0, 0, 0}, {2, 0, 3, 1}, *policy);
    std::vector<std::vector<std::uint32_t>> left = speeds;
    std::optional<heddle::protocol::CutTie> tie;
    Order placed;
    while (placed.size() < 7) {
      Mimics mimics(left);
      session.begin({std::min<std::uint64_t>(limit, 7 - placed.size()), true, 0, 1, 1, {}, tie});
      mimics.run(session);
      for (const std::uint32_t g : gpcs_of(session)) {
        placed.push_back(g);
        left[g].erase(left[g].begin());
      }
      tie = session.cut_tie();
    }
    CHECK(placed == gpcs_of(whole));
  }
  // Something was freed, and a GPC is faster than the tie: that is over, and its GPCs wait. One that is as fast as
  // those of the tie waits for them.
  ClusterSession faster({0, 0, 0}, {0, 1, 2}, *policy);
  Mimics emptier({{9, 8}, {7}, {7}});
  faster.begin({2, true, 0, 1, 1, {}, heddle::protocol::CutTie{0, 7, false}});
  emptier.run(faster);
  CHECK(gpcs_of(faster) == Order{0, 0});
  ClusterSession as_fast({0, 0, 0}, {0, 1, 2}, *policy);
  Mimics alike({{7, 7}, {7}, {7}});
  as_fast.begin({2, true, 0, 1, 1, {}, heddle::protocol::CutTie{0, 7, false}});
  alike.run(as_fast);
  CHECK(gpcs_of(as_fast) == Order{1, 2});
  // Nothing was freed: one that has had its CGA and is faster now waits for the others.
  ClusterSession served({0, 0, 0}, {0, 1, 2}, *policy);
  Mimics ahead({{9, 8}, {7}, {7}});
  served.begin({2, true, 0, 1, 1, {}, heddle::protocol::CutTie{0, 7}});
  ahead.run(served);
  CHECK(gpcs_of(served) == Order{1, 2});
  // Nothing is left of the tie: the session goes on as any other.
  ClusterSession later({0, 0}, {0, 1}, *policy);
  Mimics mimics({{4}, {6}});
  later.begin({2, true, 0, 1, 1, {}, heddle::protocol::CutTie{0, 7}});
  mimics.run(later);
  CHECK(gpcs_of(later) == Order{1, 0});
  CHECK_FALSE(later.cut_tie().has_value());
}

TEST_CASE("ties of uGPUs that a limit cuts off are finished, too", "[cwd][CWD-13][CWD-23][CWD-46]") {
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  // Three uGPUs of a GPC each, that stay as fast as they are: CGAs go round.
  const std::vector<std::vector<std::uint32_t>> speeds{{7, 7, 7}, {7, 7, 7}, {7, 7, 7}};
  for (const std::uint64_t limit : {1U, 2U, 4U, 7U}) {
    CAPTURE(limit);
    ClusterSession session({0, 1, 2}, {0, 1, 2}, *policy);
    std::vector<std::vector<std::uint32_t>> left = speeds;
    std::optional<heddle::protocol::CutTie> tie;
    Order placed;
    while (placed.size() < 7) {
      Mimics mimics(left);
      session.begin({std::min<std::uint64_t>(limit, 7 - placed.size()), false, 1, 1, 1, {}, tie});
      mimics.run(session);
      for (const std::uint32_t g : gpcs_of(session)) {
        placed.push_back(g);
        left[g].erase(left[g].begin());
      }
      tie = session.cut_tie();
    }
    CHECK(placed == Order{0, 1, 2, 0, 1, 2, 0});
  }
}

TEST_CASE("choices are counted that `fastest` makes otherwise", "[cwd][CWD-13]") {
  const auto slower = [](const char* name) {
    const auto policy = heddle::cwd::make_domain_policy(name);
    ClusterSession session({0, 0, 0}, {0, 1, 2}, *policy);
    Mimics mimics({{5, 5}, {3}, {7}});
    session.begin({10, true, 0, 1});
    mimics.run(session);
    CHECK(session.placed() == 4);
    return session.slower();
  };
  CHECK(slower("first_fit") == 3);    // twice GPC 0 and once GPC 1, while GPC 2 has 7; and then GPC 2
  CHECK(slower("round_robin") == 2);  // GPCs 0 and 1 in the step in which GPC 2 has 7; then GPC 0 is alone
  CHECK(slower("fastest") == 0);
}

TEST_CASE("with fewer CGAs than ties, GPC priority decides", "[cwd][CWD-13]") {
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  ClusterSession session({0, 0, 0, 0}, {3, 1, 0, 2}, *policy);
  Mimics mimics({{7}, {7}, {7}, {7}});
  session.begin({2, true, 0, 1});
  mimics.run(session);
  CHECK(gpcs_of(session) == Order{3, 1});
  CHECK(session.cancelled() == 2);
  CHECK(session.queries() == 1);
}

TEST_CASE("a GPU_CGA is counted before it is placed, and leaves no trace if there is no room",
          "[cwd][CWD-18][CWD-19][CWD-21]") {
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  ClusterSession session({0, 0, 0}, {0, 1, 2}, *policy);
  SECTION("room for two units and a part of a third") {
    Mimics mimics({{9, 8, 7}, {9, 1}, {2}});  // six GPC_CGAs, of which a third GPU_CGA would need one more
    session.begin({5, false, 0, 3});
    mimics.run(session);
    CHECK(session.placed() == 2);
    // The first: a tie of 9s, then 8; the second: 7, 2, 1.
    CHECK(gpcs_of(session) == Order{0, 1, 0, 0, 2, 1});
    const std::vector<bool> last{false, false, true, false, false, true};
    for (std::size_t i = 0; i < last.size(); ++i) {
      CHECK(session.homes()[i].last == last[i]);
      CHECK(session.homes()[i].unit == i / 3);
    }
    CHECK(session.homes()[3].nth == 2);
  }
  SECTION("one GPC_CGA too few") {
    Mimics mimics({{9, 8, 7}, {9, 1}, {2}});
    session.begin({5, false, 0, 7});
    mimics.run(session);
    CHECK(session.placed() == 0);
    CHECK(session.homes().empty());
    for (std::uint32_t g = 0; g < 3; ++g) CHECK(mimics.accepted(g) == 0);
    CHECK(mimics.queries.size() == 4);  // 3 + 2 + 1, and the refusal
  }
}

TEST_CASE("a uGPU_CGA goes to the uGPU of greatest speed", "[cwd][CWD-10][CWD-13][CWD-18]") {
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  ClusterSession session({0, 0, 1, 1, 2}, {0, 1, 2, 3, 4}, *policy);
  // Two GPC_CGAs each: uGPU 0 at speed 4, uGPU 1 at 6, uGPU 2 has no room for two.
  Mimics mimics({{9, 4}, {4}, {6}, {6, 6}, {9}});
  session.begin({3, false, 1, 2});
  mimics.run(session);
  CHECK(session.placed() == 2);
  CHECK(gpcs_of(session) == Order{2, 3, 0, 0});
  CHECK(mimics.accepted(4) == 0);
}

TEST_CASE("a GPU_CGA of uGPU_CGAs takes whole uGPU_CGAs only", "[cwd][CWD-10][CWD-18][CWD-19]") {
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  ClusterSession session({0, 0, 1, 1}, {0, 1, 2, 3}, *policy);
  SECTION("enough GPC_CGAs, but not where they are needed") {
    Mimics mimics({{5, 5}, {5}, {5, 5}, {5}});  // six GPC_CGAs, two uGPU_CGAs of two
    session.begin({1, false, 3, 2});
    mimics.run(session);
    CHECK(session.placed() == 0);
    for (std::uint32_t g = 0; g < 4; ++g) CHECK(mimics.accepted(g) == 0);
  }
  SECTION("room: what a uGPU reserved for comparison goes back") {
    Mimics mimics({{5, 5}, {5, 5}, {9, 9}, {9, 9}});
    session.begin({1, false, 2, 2});
    mimics.run(session);
    CHECK(session.placed() == 1);
    CHECK(gpcs_of(session) == Order{2, 3, 2, 3});
    CHECK(mimics.accepted(0) + mimics.accepted(1) == 0);
    CHECK(session.homes().back().last);
    CHECK_FALSE(session.homes()[1].last);
  }
}

TEST_CASE("a session that is reset at any step leaves nothing to the next one", "[cwd][CWD-13][CWD-18]") {
  const auto policy = heddle::cwd::make_domain_policy("fastest");
  for (const SessionRequest& request : {SessionRequest{5, true, 0, 1}, SessionRequest{2, false, 2, 2}}) {
    for (std::uint32_t steps = 0; steps < 6; ++steps) {
      for (const bool answered : {false, true}) {
        CAPTURE(request.single, steps, answered);
        ClusterSession session({0, 0, 1, 1}, {0, 1, 2, 3}, *policy);
        session.begin(request);
        for (std::uint32_t step = 0; step <= steps; ++step) {
          const std::vector<Command> commands = session.step();
          for (const Command& command : commands) {
            if (command.act == Act::query && (answered || step < steps)) session.answer(command.gpc, {true, 7});
          }
        }
        session.reset();
        session.begin(request);
        Mimics mimics({{4, 4}, {4, 4}, {3, 3}, {3, 3}});
        mimics.run(session);
        CHECK(session.placed() == request.units);
        CHECK(session.homes().size() == request.units * std::max(request.ugpu_cgas, 1U) * request.gpc_cgas);
      }
    }
  }
}

TEST_CASE("random answers: the session keeps to its protocol with its models", "[cwd][CWD-13][CWD-18][CWD-19]") {
  for (const std::uint64_t seed : heddle::test::seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t gpcs = random.between(1, 6);
    Order ugpu_of(gpcs, 0);
    for (std::uint32_t g = 1; g < gpcs; ++g) ugpu_of[g] = ugpu_of[g - 1] + (random.chance(30) ? 1 : 0);
    std::vector<std::vector<std::uint32_t>> speeds(gpcs);
    std::uint64_t room = 0;
    for (auto& list : speeds) {
      list.resize(random.below(5));
      for (std::uint32_t& speed : list) speed = random.below(4);
      room += list.size();
    }
    const auto policy = heddle::cwd::make_domain_policy(random.chance(70) ? "fastest" : "first_fit");
    ClusterSession session(ugpu_of, random.permutation(gpcs), *policy);
    SessionRequest request;
    request.units = random.between(1, 12);
    request.single = random.chance(30);
    if (!request.single) request.gpc_cgas = random.between(1, 4);
    if (!request.single && random.chance(50)) request.ugpu_cgas = random.between(1, 3);
    Mimics mimics(speeds);
    session.begin(request);
    mimics.run(session);
    const std::uint64_t per_unit = std::uint64_t{request.gpc_cgas} * std::max(1U, request.ugpu_cgas);
    REQUIRE(session.homes().size() == session.placed() * per_unit);
    if (request.ugpu_cgas == 0) {
      REQUIRE(session.placed() == std::min(request.units, room / per_unit));
    }
    Order accepted(gpcs, 0);
    for (const Home& home : session.homes()) REQUIRE(home.nth == accepted[home.gpc]++);
    for (std::uint32_t g = 0; g < gpcs; ++g) REQUIRE(mimics.accepted(g) == accepted[g]);
  }
}

namespace {

// Policies that break their word.
struct BadPolicy : heddle::cwd::DomainPolicy {
  Order answer;
  void choose(const heddle::cwd::DomainView&, Order& chosen) override { chosen = answer; }
};

}  // namespace

TEST_CASE("a session refuses wrong answers and wrong choices", "[cwd][CWD-13]") {
  BadPolicy policy;
  ClusterSession session({0, 0}, {0, 1}, policy);
  CHECK(session.step().empty());
  session.begin({1, true, 0, 1});
  CHECK_THROWS_AS(session.begin({1, true, 0, 1}), CheckFailed);
  CHECK_THROWS_AS(session.answer(0, {true, 1}), CheckFailed);  // nobody has asked yet
  REQUIRE(session.step().size() == 2);
  session.answer(0, {true, 1});
  CHECK_THROWS_AS(session.answer(0, {true, 1}), CheckFailed);
  CHECK_THROWS_AS(session.step(), CheckFailed);  // GPC 1 has not answered
  session.answer(1, {false, 0});
  const std::vector<std::pair<std::string, Order>> wrong{
      {"none", {}}, {"without room", {1}}, {"no such GPC", {2}}, {"more than CGAs", {0, 0}}};
  for (const auto& [what, chosen] : wrong) {
    CAPTURE(what);
    policy.answer = chosen;
    CHECK_THROWS_AS(session.step(), CheckFailed);
  }
  policy.answer = {0};
  CHECK_FALSE(session.step().empty());
  CHECK(session.placed() == 1);
  CHECK(session.step().empty());
}

}  // namespace cwd_cluster_session_test
