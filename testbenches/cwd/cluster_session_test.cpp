// Sessions of grids of CGAs: against the reference on random machines, and the texts' examples by hand.
#include "cwd/cluster_session.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "cwd/cluster_place.h"
#include "cwd/session_oracle.h"
#include "support/random.h"

using heddle::CheckFailed;
using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::ClusterShape;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::Act;
using heddle::cwd::ClusterPlacer;
using heddle::cwd::ClusterSession;
using heddle::cwd::Command;
using heddle::cwd::CwdParams;
using heddle::cwd::DomainAnswer;
using heddle::cwd::GpcCgaShape;
using heddle::cwd::Home;
using heddle::cwd::Policies;
using heddle::cwd::SessionRequest;
using heddle::test::Random;
using heddle::test::SessionOracle;

namespace {

using Slots = std::vector<std::uint16_t>;
using Order = std::vector<std::uint32_t>;

Order ascending(std::uint32_t n) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

// Bits in launch order: mask after mask, the least significant bit first.
Order bits_of(const std::vector<std::uint64_t>& masks) {
  Order result;
  for (const std::uint64_t mask : masks) {
    for (std::uint32_t bit = 0; bit < 64; ++bit) {
      if ((mask >> bit & 1) != 0) result.push_back(bit);
    }
  }
  return result;
}

SessionRequest request_of(const SessionOracle::Request& wanted) {
  SessionRequest request;
  request.units = wanted.units;
  request.single = wanted.gpu_cga == 0 && wanted.ugpu_cga == 0;
  if (wanted.ugpu_cga > 0) {
    request.ugpu_cgas = std::max(1U, wanted.gpu_cga);
    request.gpc_cgas = wanted.ugpu_cga;
  } else {
    request.gpc_cgas = std::max(1U, wanted.gpu_cga);
  }
  return request;
}

struct RandomCase {
  Topology topology;
  CwdParams params;
  Order sm_priority;
  Order gpc_priority;
  SessionOracle::Names names;

  explicit RandomCase(Random& random) : RandomCase(random, random.shape(6)) {}
  RandomCase(Random& random, const Shape& shape)
      : topology(shape, split(random, static_cast<std::uint32_t>(shape.gpcs.size()))),
        sm_priority(random.chance(50) ? ascending(topology.sms()) : random.permutation(topology.sms())),
        gpc_priority(random.chance(50) ? ascending(topology.gpcs()) : random.permutation(topology.gpcs())) {
    if (random.chance(25)) names.domain = random.chance(50) ? "first_fit" : "tightest";
    if (random.chance(15)) names.load_balancing = "packed";
    params.load_balancing = names.load_balancing;
    params.domain_policy = names.domain;
  }

  static Order split(Random& random, std::uint32_t gpcs) {
    Order parts;
    while (gpcs > 0) {
      parts.push_back(random.between(1, gpcs));
      gpcs -= parts.back();
    }
    return parts;
  }

  Slots slots(Random& random) const {
    Slots result(topology.sms());
    const std::uint32_t ceiling = random.between(0, random.chance(50) ? 2 : 6);
    const std::uint32_t full = random.chance(30) ? 60 : 15;
    for (std::uint16_t& count : result) {
      count = static_cast<std::uint16_t>(random.chance(full) ? 0 : random.between(0, ceiling));
    }
    if (random.chance(20)) std::fill(result.begin(), result.end(), static_cast<std::uint16_t>(ceiling));
    return result;
  }

  SessionOracle::Request request(Random& random) const {
    SessionOracle::Request request;
    request.multicast = random.chance(50);
    request.ctas = random.between(1, 8);
    if (random.chance(40)) {
      request.cpc_ctas = random.between(1, 3);
      request.ctas = request.cpc_ctas * random.between(1, 4);
    }
    if (random.chance(50)) request.gpu_cga = random.between(1, 5);
    if (random.chance(50)) request.ugpu_cga = random.between(1, 4);
    // A GPU_CGA of one uGPU_CGA is a uGPU_CGA: they are asked for in the same way.
    if (request.ugpu_cga > 0 && request.gpu_cga == 1) request.gpu_cga = 0;
    request.units = random.chance(40) ? 1000 : random.between(1, 5);
    return request;
  }
};

// Takes what was placed from the slots; never below 0.
void take(Slots& slots, const Topology& topology, std::uint32_t gpc, const Order& order) {
  for (const std::uint32_t bit : order) {
    REQUIRE(bit < topology.gpc(gpc).sms);
    std::uint16_t& count = slots[topology.gpc(gpc).sm_ids[bit]];
    REQUIRE(count > 0);
    --count;
  }
}

void expect_as_reference(const ClusterPlacer& placer, const std::vector<ClusterPlacer::Placed>& placed,
                         const std::vector<SessionOracle::Cga>& wanted, const Topology& topology, Slots slots) {
  REQUIRE(placed.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    REQUIRE(placed[i].home.gpc == wanted[i].gpc);
    REQUIRE(placed[i].home.unit == wanted[i].unit);
    REQUIRE(placed[i].home.speed == wanted[i].speed);
    REQUIRE(placed[i].home.last == wanted[i].last);
    REQUIRE(bits_of(placed[i].masks) == wanted[i].order);
    take(slots, topology, placed[i].home.gpc, wanted[i].order);
  }
  REQUIRE(placer.left() == slots);  // the models hold what was placed, and nothing else
}

}  // namespace

TEST_CASE("sessions place as the reference on random machines, all levels and modes",
          "[cwd][CWD-11][CWD-13][CWD-14][CWD-17][CWD-18][CWD-19][CWD-21]") {
  std::uint64_t placed_cgas = 0;
  std::uint64_t without_room = 0;
  for (const std::uint64_t seed : heddle::test::seeds(4000)) {
    CAPTURE(seed);
    Random random(seed);
    const RandomCase machine(random);
    const Topology& topology = machine.topology;
    const Policies policies(machine.params);
    ClusterPlacer placer(topology, policies, machine.sm_priority, machine.gpc_priority);
    SessionOracle oracle(topology, machine.sm_priority, machine.gpc_priority, machine.names);
    // Several sessions of the same objects: nothing of one may leak into the next.
    for (int round = 0; round < 2; ++round) {
      const Slots slots = machine.slots(random);
      const SessionOracle::Request request = machine.request(random);
      CAPTURE(round, request.ctas, request.cpc_ctas, request.multicast, request.units, request.gpu_cga,
              request.ugpu_cga);
      Order limits(topology.gpcs(), 1000);
      if (random.chance(30)) {
        for (std::uint32_t& limit : limits) limit = random.between(0, 3);
      }
      const auto& wanted = oracle.run(slots, limits, request);
      REQUIRE_FALSE(oracle.failed_in_pass_two());
      const auto& placed =
          placer.place(slots, {request.ctas, request.cpc_ctas},
                       request.multicast ? CgaMode::multicast : CgaMode::load_balancing, limits, request_of(request));
      expect_as_reference(placer, placed, wanted, topology, slots);
      REQUIRE(placer.session().placed() == oracle.units());
      const std::uint32_t per_unit = std::max(1U, request.gpu_cga) * std::max(1U, request.ugpu_cga);
      REQUIRE(placed.size() == oracle.units() * per_unit);
      REQUIRE(placer.session().passes() == (request.gpu_cga == 0 && request.ugpu_cga == 0 ? 1 : 2));
      placed_cgas += placed.size();
      without_room += placed.empty() ? 1 : 0;
    }
  }
  CHECK(placed_cgas > 4000);
  CHECK(without_room > 100);
}

namespace {

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
  CHECK(session.passes() == 1);
  CHECK(session.queries() == 5);
  CHECK(session.cancelled() == 1 + 2 + 1);  // GPC 1 three times, GPC 3 once
  for (std::uint64_t i = 0; i < session.homes().size(); ++i) {
    CHECK(session.homes()[i].unit == i);
    CHECK(session.homes()[i].last);
  }
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
    CHECK(session.passes() == 2);
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

// The texts' example: four GPCs of 8 SMs in two CPCs of 4, three levels of hierarchy.
struct FourGpcs {
  Topology topology{Shape{{{{2, 2}, {2, 2}}, {{2, 2}, {2, 2}}, {{2, 2}, {2, 2}}, {{2, 2}, {2, 2}}}}};
  Policies policies{CwdParams{}};
  ClusterPlacer placer{topology, policies, ascending(32), ascending(4)};
  Slots slots = Slots(32, 0);

  // By bit of the GPC's masks.
  void load(std::uint32_t gpc, const std::vector<std::uint16_t>& free) {
    for (std::uint32_t bit = 0; bit < 8; ++bit) slots[topology.gpc(gpc).sm_ids[bit]] = free[bit];
  }
};

}  // namespace

TEST_CASE("four GPCs: one full, one that just fits, two with room that tie", "[cwd][CWD-12][CWD-13][CWD-15][CWD-17]") {
  FourGpcs machine;
  // A GPC_CGA of 2 CPC_CGAs of 3 CTAs.
  machine.load(0, {1, 0, 0, 0, 0, 0, 1, 0});
  machine.load(1, {1, 1, 1, 0, 1, 1, 1, 0});
  machine.load(2, {4, 4, 4, 4, 4, 4, 4, 4});
  machine.load(3, {4, 4, 4, 1, 4, 4, 4, 1});
  const auto& placed = machine.placer.place(machine.slots, {6, 3}, CgaMode::load_balancing, Order(4, 100),
                                            SessionRequest{3, true, 0, 1});
  REQUIRE(placed.size() == 3);
  // GPC2 and GPC3 answer speed 3 both, and receive a CGA each in the first step, whatever their load in sum.
  CHECK(placed[0].home.gpc == 2);
  CHECK(placed[1].home.gpc == 3);
  CHECK(placed[0].home.speed == 3);
  CHECK(placed[1].home.speed == 3);
  CHECK(placed[0].masks == std::vector<std::uint64_t>{0b0000'0111, 0b0111'0000});
  // Now GPC2 has a CPC with an SM of 4 slots left and others of 3: three CTAs leave 2 on the slowest, as on GPC3.
  CHECK(placed[2].home.gpc == 2);
  CHECK(placed[2].home.speed == 2);
  CHECK(machine.placer.session().queries() == 2);
  CHECK(machine.placer.session().cancelled() == 1 + 2);  // GPC1, then GPC1 and GPC3
}

TEST_CASE("without room in the fast GPCs the one that just fits takes the next CGA", "[cwd][CWD-13][CWD-14]") {
  FourGpcs machine;
  machine.load(1, {1, 1, 1, 0, 1, 1, 1, 0});
  machine.load(2, {2, 2, 2, 0, 2, 2, 2, 0});
  machine.load(3, {2, 2, 2, 0, 2, 2, 2, 0});
  const auto& placed = machine.placer.place(machine.slots, {6, 3}, CgaMode::load_balancing, Order(4, 100),
                                            SessionRequest{9, true, 0, 1});
  Order gpcs;
  for (const auto& cga : placed) gpcs.push_back(cga.home.gpc);
  // Speed 1 for GPC2 and GPC3, then 0 for all three that have room; then nobody has.
  CHECK(gpcs == Order{2, 3, 1, 2, 3});
  CHECK(machine.placer.left() == Slots(32, 0));
  CHECK(machine.placer.session().queries() == 3);
}

TEST_CASE("a failed session leaves every model as it was", "[cwd][CWD-18][CWD-21]") {
  FourGpcs machine;
  machine.load(1, {1, 1, 1, 0, 1, 1, 1, 0});
  machine.load(2, {2, 2, 2, 1, 2, 2, 2, 1});
  // Three GPC_CGAs of 6 CTAs have room, with two slots to spare; a GPU_CGA of four has not.
  const GpcCgaShape shape{6, 3};
  CHECK(machine.placer.place(machine.slots, shape, CgaMode::multicast, Order(4, 100), {1, false, 0, 4}).empty());
  CHECK(machine.placer.left() == machine.slots);
  CHECK(machine.placer.place(machine.slots, shape, CgaMode::multicast, Order(4, 100), {1, false, 0, 3}).size() == 3);
  // Room, but no ids left on GPC2 for a second one.
  CHECK(machine.placer.place(machine.slots, shape, CgaMode::multicast, Order(4, 1), {1, false, 0, 3}).empty());
  CHECK(machine.placer.left() == machine.slots);
}

TEST_CASE("what a session is asked for follows from the grid's levels", "[cwd][CWD-10][CWD-21]") {
  ClusterShape shape;
  shape.of(CgaLevel::gpc) = {3, 2, 1};
  shape.fallback[0] = {3, 1, 1};
  CHECK(heddle::cwd::request_for(shape, 0, 7).single);
  CHECK(heddle::cwd::request_for(shape, 0, 7).units == 7);
  CHECK(heddle::cwd::gpc_cga_shape_for(shape, 0).ctas == 6);
  CHECK(heddle::cwd::gpc_cga_shape_for(shape, 1).ctas == 3);

  shape.of(CgaLevel::cpc) = {3, 1, 1};
  shape.of(CgaLevel::gpu) = {12, 2, 2};
  shape.fallback[0] = {6, 2, 1};
  SessionRequest request = heddle::cwd::request_for(shape, 0, 1);
  CHECK_FALSE(request.single);
  CHECK(request.ugpu_cgas == 0);
  CHECK(request.gpc_cgas == 8);
  CHECK(heddle::cwd::request_for(shape, 1, 1).gpc_cgas == 2);
  CHECK(heddle::cwd::gpc_cga_shape_for(shape, 1).ctas == 6);
  CHECK(heddle::cwd::gpc_cga_shape_for(shape, 1).cpc_ctas == 3);

  shape.of(CgaLevel::ugpu) = {6, 2, 1};
  request = heddle::cwd::request_for(shape, 0, 1);
  CHECK(request.ugpu_cgas == 4);
  CHECK(request.gpc_cgas == 2);
  shape.of(CgaLevel::gpu) = heddle::arch::kNoExtents;
  request = heddle::cwd::request_for(shape, 0, 1);
  CHECK(request.ugpu_cgas == 1);
  CHECK(request.gpc_cgas == 2);
  CHECK_FALSE(heddle::cwd::is_wide(shape));

  ClusterShape wide;
  wide.of(CgaLevel::gpu) = {137, 1, 1};
  CHECK(heddle::cwd::is_wide(wide));
  CHECK_FALSE(heddle::cwd::is_wide(ClusterShape{}));
}

namespace {

// Policies that break their word.
struct BadPolicy : heddle::cwd::DomainPolicy {
  Order answer;
  void choose(const std::vector<DomainAnswer>&, const Order&, std::uint64_t, Order& chosen) const override {
    chosen = answer;
  }
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
