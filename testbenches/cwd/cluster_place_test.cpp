// Sessions in zero time: against the reference on random machines, and the texts' examples by hand.
#include "cwd/cluster_place.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <catch2/catch.hpp>

#include "cwd/session_oracle.h"
#include "support/random.h"

namespace cwd_cluster_place_test {

using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::ClusterShape;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::ClusterPlacer;
using heddle::cwd::CwdParams;
using heddle::cwd::GpcCgaShape;
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
      placed_cgas += placed.size();
      without_room += placed.empty() ? 1 : 0;
    }
  }
  CHECK(placed_cgas > 4000);
  CHECK(without_room > 100);
}

namespace {

// The texts' example: four GPCs of 8 SMs in two CPCs of 4, three levels of hierarchy.
struct FourGpcs {
  Topology topology{Shape{{{{2, 2}, {2, 2}}, {{2, 2}, {2, 2}}, {{2, 2}, {2, 2}}, {{2, 2}, {2, 2}}}}};
  CwdParams params;
  Policies policies{params};
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
  CHECK_FALSE(heddle::cwd::is_domain_wide(shape));

  ClusterShape wide;
  wide.of(CgaLevel::gpu) = {137, 1, 1};
  CHECK(heddle::cwd::is_domain_wide(wide));
  CHECK_FALSE(heddle::cwd::is_domain_wide(ClusterShape{}));
}

}  // namespace cwd_cluster_place_test
