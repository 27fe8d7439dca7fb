// Placement against an oracle of the load-balancing text (text_oracle.h), and the text's own examples.
#include "cwd/text_oracle.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/topology.h"
#include "cwd/cluster_place.h"
#include "cwd/lake_fill.h"
#include "cwd/occupancy.h"
#include "support/random.h"

namespace cwd_text_oracle_test {

using heddle::arch::CgaLevel;
using heddle::arch::CgaMode;
using heddle::arch::ClusterShape;
using heddle::arch::Resource;
using heddle::arch::ResourceVector;
using heddle::arch::Shape;
using heddle::arch::Topology;
using heddle::cwd::ClusterPlacer;
using heddle::cwd::ClusterSession;
using heddle::cwd::CwdParams;
using heddle::cwd::DomainWideCga;
using heddle::cwd::DomainWideFill;
using heddle::cwd::EmptyMachine;
using heddle::cwd::kNoLimit;
using heddle::cwd::LakeFill;
using heddle::cwd::LakeOptions;
using heddle::cwd::LevelMask;
using heddle::cwd::LevelSearch;
using heddle::cwd::Occupancy;
using heddle::cwd::Placement;
using heddle::cwd::Policies;
using heddle::cwd::SessionRequest;
using heddle::cwd::UnitOrder;
using heddle::test::Random;
using heddle::test::seeds;
using heddle::test::text::Effort;
using heddle::test::text::GpcCga;
using heddle::test::text::Kind;
using heddle::test::text::Level;
using heddle::test::text::Machine;
using heddle::test::text::machine_of;
using heddle::test::text::State;
using heddle::test::text::Step;
using heddle::test::text::WideCga;

namespace {

using Ids = std::vector<std::uint32_t>;
using Slots = std::vector<std::uint16_t>;
constexpr std::uint32_t kDepth = 32;  // most free slots of an SM

Ids ascending(std::uint32_t n) {
  Ids ids(n);
  std::iota(ids.begin(), ids.end(), 0U);
  return ids;
}

// --- Random machines, loads and grids.

// 1 to 20 SMs in TPCs of one or two, in up to four CPCs.
std::vector<Ids> random_gpc(Random& random) {
  std::vector<Ids> cpcs(1);
  const std::uint32_t cpc_percent = random.chance(40) ? 0 : 35;
  for (std::uint32_t sms = random.between(1, 20); sms > 0;) {
    const std::uint32_t tpc = sms > 1 && random.chance(75) ? 2 : 1;
    if (!cpcs.back().empty() && cpcs.size() < 4 && random.chance(cpc_percent)) cpcs.emplace_back();
    cpcs.back().push_back(tpc);
    sms -= tpc;
  }
  return cpcs;
}

// Half of the machines have GPCs that are alike, for ties between them.
Shape random_shape(Random& random) {
  Shape shape;
  shape.gpcs.push_back(random_gpc(random));
  const bool alike = random.chance(50);
  for (std::uint32_t more = random.below(8); more > 0; --more) {
    shape.gpcs.push_back(alike && random.chance(85) ? shape.gpcs.front() : random_gpc(random));
  }
  return shape;
}

// The GPCs of one to three uGPUs.
Ids random_ugpus(Random& random, std::size_t gpcs) {
  Ids ugpus{static_cast<std::uint32_t>(gpcs)};
  while (ugpus.size() < 3 && random.chance(60)) {
    if (ugpus.back() < 2) break;
    const std::uint32_t split = random.between(1, ugpus.back() - 1);
    ugpus.push_back(ugpus.back() - split);
    ugpus[ugpus.size() - 2] = split;
  }
  return ugpus;
}

Ids random_order(Random& random, std::uint32_t n) {
  if (random.chance(50)) return random.permutation(n);
  Ids order = ascending(n);
  if (random.chance(40)) std::reverse(order.begin(), order.end());
  return order;
}

// What other work has left: free slots by SM id.
Slots random_slots(Random& random, const Topology& topology) {
  constexpr std::uint32_t kDepths[] = {1, 2, 3, 4, 8, kDepth};
  const std::uint32_t depth = kDepths[random.below(std::size(kDepths))];
  enum { empty, any, nearly_empty, nearly_full, by_gpc };
  const std::uint32_t load = random.below(5);
  Slots of_gpc;
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    of_gpc.push_back(static_cast<std::uint16_t>(random.between(0, depth)));
  }
  Slots slots(topology.sms());
  for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) {
    const std::uint32_t drawn = random.between(0, depth);
    std::uint32_t free = depth;
    if (load == any) free = drawn;
    if (load == nearly_empty && random.chance(15)) free = drawn;
    if (load == nearly_full) free = random.chance(25) ? drawn : 0;
    if (load == by_gpc) free = random.chance(10) ? drawn : of_gpc[topology.sm(sm).gpc];
    slots[sm] = static_cast<std::uint16_t>(free);
  }
  return slots;
}

Kind random_kind(Random& random, bool multicast) {
  Kind kind;
  kind.multicast = multicast;
  kind.ctas = random.chance(50) ? random.between(1, 6) : random.between(1, 16);
  if (random.chance(35)) {
    kind.cpc_cgas = random.between(1, 4);
    kind.ctas = random.between(1, 5);
  }
  switch (random.below(5)) {
    case 0:
    case 1:
      break;
    case 2:
      kind.outermost = Kind::Outermost::gpu_cga;
      kind.gpc_cgas = random.between(1, 8);
      break;
    case 3:
      kind.outermost = Kind::Outermost::ugpu_cga;
      kind.gpc_cgas = random.between(1, 4);
      break;
    default:
      kind.outermost = Kind::Outermost::gpu_cga;
      kind.gpc_cgas = random.between(1, 3);
      // Where it has but one uGPU_CGA, the text leaves open whether uGPUs that tie serve two GPU_CGAs in one step, as
      // they serve uGPU_CGAs ([0171]), or the GPU_CGAs one after another ([0194]).
      kind.ugpu_cgas = random.between(2, 4);
      break;
  }
  return kind;
}

std::uint32_t random_units(Random& random) {
  return random.chance(60) ? random.between(1, 5) : random.chance(50) ? random.between(1, 30) : 5000;
}

// The grouping of a grid of that kind. `fallback`: only its second, smaller size is of the kind (CWD-21).
ClusterShape shape_of(const Kind& kind, bool fallback = false) {
  ClusterShape shape;
  shape.mode = kind.multicast ? CgaMode::multicast : CgaMode::load_balancing;
  if (kind.cpc_cgas > 0) shape.of(CgaLevel::cpc) = {kind.ctas, 1, 1};
  shape.of(CgaLevel::gpc) = {kind.ctas, kind.cpc_cgas == 0 ? 1 : kind.cpc_cgas, 1};
  heddle::arch::Dim3 extent = shape.of(CgaLevel::gpc);
  if (kind.outermost == Kind::Outermost::ugpu_cga || kind.ugpu_cgas > 0) {
    extent.y *= kind.gpc_cgas;
    shape.of(CgaLevel::ugpu) = extent;
  }
  if (kind.outermost == Kind::Outermost::gpu_cga) {
    extent.z *= kind.ugpu_cgas > 0 ? kind.ugpu_cgas : kind.gpc_cgas;
    shape.of(CgaLevel::gpu) = extent;
  }
  if (fallback) {
    shape.fallback[0] = shape.of(shape.outermost());
    shape.of(shape.outermost()).z *= 2;
  }
  return shape;
}

// A machine of the model, and the oracle's picture of it.
struct Pair {
  Shape shape;
  Ids gpcs_per_ugpu;
  Topology topology;
  Ids sm_priority;
  Ids gpc_priority;
  Machine machine;

  Pair(Shape the_shape, Ids ugpus, Ids sms, Ids gpcs)
      : shape(std::move(the_shape)),
        gpcs_per_ugpu(std::move(ugpus)),
        topology(shape, gpcs_per_ugpu),
        sm_priority(std::move(sms)),
        gpc_priority(std::move(gpcs)),
        machine(machine_of(topology, sm_priority, gpc_priority)) {}

  static Pair plain(const Ids& sms_per_gpc) {
    const Shape shape = Shape::from_sms_per_gpc(sms_per_gpc);
    return {shape, {}, ascending(shape.sms()), ascending(static_cast<std::uint32_t>(sms_per_gpc.size()))};
  }
  static Pair drawn(Random& random) {
    Shape shape = random_shape(random);
    const std::uint32_t sms = shape.sms();
    const auto gpcs = static_cast<std::uint32_t>(shape.gpcs.size());
    Ids ugpus = random_ugpus(random, gpcs);
    Ids sm_order = random_order(random, sms);
    Ids gpc_order = random_order(random, gpcs);
    return {std::move(shape), std::move(ugpus), std::move(sm_order), std::move(gpc_order)};
  }

  std::string text(const Slots& slots) const {
    std::string tpcs;
    for (const auto& gpc : shape.gpcs) tpcs += fmt::format("\n  GPC: SMs by CPC and TPC {}", gpc);
    std::string by_gpc;
    for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
      by_gpc += fmt::format("\n  GPC {} of uGPU {}: bit:priority:slots", gpc, topology.ugpu_of(gpc));
      for (const std::uint32_t sm : topology.gpc(gpc).sm_ids) {
        by_gpc += fmt::format(" {}:{}:{}", topology.sm(sm).in_gpc, machine.sm_rank[sm], slots[sm]);
      }
    }
    return fmt::format("machine{}\n  uGPUs {}\n  GPC priority {}{}", tpcs, gpcs_per_ugpu, gpc_priority, by_gpc);
  }
};

State state_of(const Slots& slots, const Ids& gpc_cgas_left) {
  return {Ids(slots.begin(), slots.end()), gpc_cgas_left};
}

std::uint64_t mask_of(const Machine& machine, const Step& step) {
  std::uint64_t mask = 0;
  for (const std::uint32_t sm : step) mask |= std::uint64_t{1} << machine.sms[sm].bit;
  return mask;
}

std::string name_of(const Kind& kind) {
  constexpr const char* kNames[] = {"GPC_CGAs", "uGPU_CGAs", "GPU_CGAs"};
  return fmt::format("{}: ugpu_cgas {} gpc_cgas {} cpc_cgas {} ctas {} {}", kNames[static_cast<int>(kind.outermost)],
                     kind.ugpu_cgas, kind.gpc_cgas, kind.cpc_cgas, kind.ctas,
                     kind.multicast ? "multicast" : "load balancing");
}

// A GPC_CGA that has a home, by either side: where its CTAs go, and the masks that start them there.
struct Home {
  std::string where;
  std::string masks;

  Home(std::uint64_t unit, bool last, std::uint32_t gpc, std::uint32_t speed, const std::vector<std::uint64_t>& masks_)
      : masks(fmt::format("{:#x}", fmt::join(masks_, " "))) {
    Ids bits;
    for (const std::uint64_t mask : masks_) {
      for (std::uint32_t bit = 0; bit < 64; ++bit) {
        if ((mask >> bit & 1) != 0) bits.push_back(bit);
      }
    }
    std::sort(bits.begin(), bits.end());
    where = fmt::format("CGA {}{} on GPC {} at speed {}: SMs of bits {}", unit, last ? " (last part)" : "", gpc, speed,
                        bits);
  }
};

std::vector<Home> homes_of(const Machine& machine, const std::vector<GpcCga>& cgas) {
  std::vector<Home> result;
  for (const GpcCga& cga : cgas) {
    std::vector<std::uint64_t> masks;
    for (const Step& step : cga.masks) masks.push_back(mask_of(machine, step));
    result.emplace_back(cga.unit, cga.last, cga.gpc, cga.speed, masks);
  }
  return result;
}

std::vector<Home> homes_of(const std::vector<ClusterPlacer::Placed>& placed) {
  std::vector<Home> result;
  for (const ClusterPlacer::Placed& cga : placed) {
    result.emplace_back(cga.home.unit, cga.home.last, cga.home.gpc, cga.home.speed, cga.masks);
  }
  return result;
}

// A level of a lake: its masks by GPC.
std::string line(std::uint32_t level, const std::vector<std::uint64_t>& masks) {
  return fmt::format("level {}: masks {:#x}", level, fmt::join(masks, " "));
}

std::vector<std::string> lines(const Machine& machine, const std::vector<Level>& levels) {
  std::vector<std::string> result;
  for (const Level& level : levels) {
    std::vector<std::uint64_t> masks(machine.sms_of_gpc.size());
    for (const std::uint32_t sm : level.sms) masks[machine.sms[sm].gpc] |= mask_of(machine, {sm});
    result.push_back(line(level.free, masks));
  }
  return result;
}

std::vector<std::string> lines(const Placement& placement) {
  std::vector<std::string> result;
  for (const LevelMask& level : placement.levels) result.push_back(line(level.level, level.mask));
  return result;
}

std::vector<std::string> lines(const Machine& machine, const std::vector<WideCga>& cgas) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < cgas.size(); ++i) {
    result.push_back(fmt::format("CGA {} on uGPU {} at speed {}", i, cgas[i].ugpu, cgas[i].speed));
    for (const std::string& level : lines(machine, cgas[i].levels)) result.push_back(level);
  }
  return result;
}

std::vector<std::string> lines(const std::vector<DomainWideCga>& cgas) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < cgas.size(); ++i) {
    result.push_back(fmt::format("CGA {} on uGPU {} at speed {}", i, cgas[i].ugpu, cgas[i].speed));
    for (const std::string& level : lines(cgas[i].placement)) result.push_back(level);
  }
  return result;
}

// The first line that differs; empty if none does.
std::string difference(const std::vector<std::string>& text, const std::vector<std::string>& model) {
  for (std::size_t i = 0; i < std::max(text.size(), model.size()); ++i) {
    const std::string of_text = i < text.size() ? text[i] : "nothing";
    const std::string of_model = i < model.size() ? model[i] : "nothing";
    if (of_text != of_model) return fmt::format("line {}\n  text:  {}\n  model: {}", i, of_text, of_model);
  }
  return "";
}

// What differs between text and model, in words; empty if nothing does.
struct Differences {
  std::string where;   // the SMs of a CGA, the order of CGAs, which ones fail, what is left
  std::string masks;   // and with them the ranks of CTAs
  std::string effort;  // of the session

  std::string all() const { return where + masks + effort; }
};

// Places grids of CGAs one after another on both sides.
class CgaTrial {
 public:
  explicit CgaTrial(const Pair& pair)
      : pair_(pair), policies_(CwdParams()), placer_(pair.topology, policies_, pair.sm_priority, pair.gpc_priority) {}

  // The oracle's answer is in cgas().
  Differences place(Slots& slots, const Ids& gpc_cgas_left, const Kind& kind, std::uint64_t units,
                    bool fallback = false) {
    State state = state_of(slots, gpc_cgas_left);
    Effort effort;
    cgas_ = heddle::test::text::place(pair_.machine, state, kind, units, &effort);
    const ClusterShape shape = shape_of(kind, fallback);
    const std::uint32_t size = fallback ? 1 : 0;
    const std::vector<Home> text = homes_of(pair_.machine, cgas_);
    const std::vector<Home> model =
        homes_of(placer_.place(slots, heddle::cwd::gpc_cga_shape_for(shape, size), shape.mode, gpc_cgas_left,
                               heddle::cwd::request_for(shape, size, units)));
    const Slots left = placer_.left();
    const std::uint64_t placed = cgas_.empty() ? 0 : cgas_.back().unit + 1;

    const std::string setting = fmt::format("\n{} x {}, GPC_CGAs by GPC at most {}\n{}", units, name_of(kind),
                                            gpc_cgas_left, pair_.text(slots));
    slots = left;
    for (std::size_t i = 0; i < std::max(text.size(), model.size()); ++i) {
      const std::string of_text = i < text.size() ? text[i].where : "nothing";
      const std::string of_model = i < model.size() ? model[i].where : "nothing";
      if (of_text != of_model) return {both(of_text, of_model) + setting, "", ""};
    }
    if (Ids(left.begin(), left.end()) != state.slots) return {"slots left" + both(state.slots, left) + setting, "", ""};
    if (placer_.session().placed() != placed) {
      return {"CGAs placed" + both(placed, placer_.session().placed()) + setting, "", ""};
    }
    Differences differences;
    for (std::size_t i = 0; i < text.size() && differences.masks.empty(); ++i) {
      if (text[i].masks == model[i].masks) continue;
      differences.masks = text[i].where + both(text[i].masks, model[i].masks) + setting;
    }
    // A GPC whose counter has run out need not be asked (CWD-20), so that the steps cannot be told then.
    const bool limited = *std::min_element(gpc_cgas_left.begin(), gpc_cgas_left.end()) < kNoLimit;
    const bool ugpus = kind.outermost == Kind::Outermost::ugpu_cga || kind.ugpu_cgas > 0;
    const ClusterSession& session = placer_.session();
    if (!limited && !ugpus && session.queries() != effort.queries) {
      differences.effort = "steps with a query" + both(effort.queries, session.queries()) + setting;
    }
    if (kind.outermost == Kind::Outermost::gpc_cga && session.cancelled() != effort.cancelled) {
      differences.effort = "cancelled answers" + both(effort.cancelled, session.cancelled()) + setting;
    }
    return differences;
  }
  const std::vector<GpcCga>& cgas() const { return cgas_; }

 private:
  template <class Text, class Model>
  static std::string both(const Text& text, const Model& model) {
    return fmt::format("\n  text:  {}\n  model: {}", text, model);
  }

  const Pair& pair_;
  Policies policies_;
  ClusterPlacer placer_;
  std::vector<GpcCga> cgas_;
};

// 10,000 machines, on each of them three grids of CGAs one after another.
void compare_cgas(bool multicast) {
  std::uint64_t homes = 0;
  std::uint64_t refused = 0;
  std::uint64_t stacked = 0;
  Differences first;
  std::uint64_t other_masks = 0;
  for (const std::uint64_t seed : seeds(heddle::test::long_tests() ? 10'000 : 4'000)) {
    Random random(seed);
    const Pair pair = Pair::drawn(random);
    CgaTrial trial(pair);
    Slots slots = random_slots(random, pair.topology);
    for (std::uint32_t grid = 0; grid < 3; ++grid) {
      const Kind kind = random_kind(random, multicast);
      const std::uint64_t units = random_units(random);
      Ids gpc_cgas_left(pair.topology.gpcs(), kNoLimit);
      if (random.chance(25)) {
        for (std::uint32_t& left : gpc_cgas_left) left = random.below(5);
      }
      const Differences differ = trial.place(slots, gpc_cgas_left, kind, units, random.chance(10));
      const std::string at = fmt::format("HEDDLE_TEST_SEED={}, grid {}: ", seed, grid);
      if (!differ.where.empty()) FAIL(at << differ.where);
      if (first.masks.empty() && !differ.masks.empty()) first.masks = at + differ.masks;
      if (first.effort.empty() && !differ.effort.empty()) first.effort = at + differ.effort;
      if (!differ.masks.empty()) ++other_masks;
      homes += trial.cgas().size();
      if (trial.cgas().empty() || trial.cgas().back().unit + 1 < units) ++refused;
      for (const GpcCga& cga : trial.cgas()) stacked += cga.masks.size() > std::max(1U, kind.cpc_cgas) ? 1U : 0U;
    }
  }
  INFO(other_masks << " grids with other masks");
  CHECK(first.masks == "");
  CHECK(first.effort == "");
  // The draws reach both ends.
  CHECK(homes > 20'000);
  CHECK(refused > 2'000);
  CHECK((stacked > 400) == !multicast);
}

// CTAs of the oracle's CGAs by SM id.
Ids ctas_by_sm(const Machine& machine, const std::vector<GpcCga>& cgas) {
  Ids ctas(machine.sms.size());
  for (const GpcCga& cga : cgas) {
    for (const Step& mask : cga.masks) {
      for (const std::uint32_t sm : mask) ++ctas[sm];
    }
  }
  return ctas;
}

std::uint32_t count_of(const Ids& values, std::uint32_t value) {
  return static_cast<std::uint32_t>(std::count(values.begin(), values.end(), value));
}

// SMs of the H100 that receive 1, 2 … CTAs of that many clusters.
Ids touched_by(std::uint32_t clusters, std::uint32_t ctas, bool multicast) {
  const Pair pair = Pair::plain({18, 18, 18, 18, 16, 16, 14, 14});
  CgaTrial trial(pair);
  Slots slots(132, 8);  // 256 threads each
  Kind kind;
  kind.ctas = ctas;
  kind.multicast = multicast;
  CHECK(trial.place(slots, Ids(8, kNoLimit), kind, clusters).all() == "");
  const Ids by_sm = ctas_by_sm(pair.machine, trial.cgas());
  CHECK(trial.cgas().size() == clusters);
  return {count_of(by_sm, 1), count_of(by_sm, 2), 132 - count_of(by_sm, 0)};
}

}  // namespace

TEST_CASE("CGAs of random machines in load-balancing mode go where the text says",
          "[cwd][CWD-11][CWD-12][CWD-13][CWD-14][CWD-15][CWD-17][CWD-18][CWD-19][CWD-20]") {
  compare_cgas(false);
}

TEST_CASE("CGAs of random machines in multicast mode go where the text says",
          "[cwd][CWD-11][CWD-12][CWD-13][CWD-14][CWD-16][CWD-17][CWD-18][CWD-19][CWD-20]") {
  compare_cgas(true);
}

TEST_CASE("a grid that several sessions place goes where one session would place it", "[cwd][CWD-13][CWD-14][CWD-23]") {
  // [0203] limits a session, [0168] goes on until the grid has no CGAs: the text knows no ties that a limit cuts off.
  std::uint64_t cuts = 0;
  for (const std::uint64_t seed : seeds(4'000)) {
    Random random(seed);
    const Pair pair = Pair::drawn(random);
    const Slots slots = random_slots(random, pair.topology);
    Kind kind = random_kind(random, random.chance(50));
    if (kind.outermost != Kind::Outermost::ugpu_cga) {
      kind.outermost = Kind::Outermost::gpc_cga;
      kind.gpc_cgas = 1;
      kind.ugpu_cgas = 0;
    }
    const Ids unlimited(pair.topology.gpcs(), kNoLimit);
    State state = state_of(slots, unlimited);
    std::vector<std::string> text;
    for (const Home& home : homes_of(pair.machine, heddle::test::text::place(pair.machine, state, kind, 60))) {
      text.push_back(home.where.substr(home.where.find(" on GPC")));
    }

    const Policies policies((CwdParams()));
    ClusterPlacer placer(pair.topology, policies, pair.sm_priority, pair.gpc_priority);
    const ClusterShape shape = shape_of(kind);
    Slots now = slots;
    std::vector<std::string> model;
    decltype(SessionRequest::tie) tie;
    for (std::uint64_t left = 60; left > 0;) {
      SessionRequest request = heddle::cwd::request_for(shape, 0, std::min<std::uint64_t>(left, random.between(1, 5)));
      request.tie = tie;
      const std::vector<Home> homes =
          homes_of(placer.place(now, heddle::cwd::gpc_cga_shape_for(shape, 0), shape.mode, unlimited, request));
      for (const Home& home : homes) model.push_back(home.where.substr(home.where.find(" on GPC")));
      if (placer.session().placed() < request.units) break;
      left -= request.units;
      now = placer.left();
      tie = placer.session().cut_tie();
      if (tie) ++cuts;
    }
    INFO("HEDDLE_TEST_SEED=" << seed << "\n" << name_of(kind) << "\n" << pair.text(slots));
    for (std::size_t i = 0; i < std::max(text.size(), model.size()); ++i) {
      INFO("CGA " << i);
      REQUIRE((i < text.size() ? text[i] : "nothing") == (i < model.size() ? model[i] : "nothing"));
    }
  }
  CHECK(cuts > 3'000);
}

TEST_CASE("plain grids and CGAs of CTAs over a whole domain fill random machines as the text says",
          "[cwd][CWD-03][CWD-04][CWD-05][CWD-07][CWD-08][CWD-09]") {
  const auto fastest = heddle::cwd::make_domain_policy("fastest");
  std::uint64_t refused = 0;
  std::uint64_t placed = 0;
  for (const std::uint64_t seed : seeds(10'000)) {
    Random random(seed);
    const Pair pair = Pair::drawn(random);
    const Slots slots = random_slots(random, pair.topology);
    const std::uint64_t free = std::accumulate(slots.begin(), slots.end(), std::uint64_t{0});
    const LevelSearch search = random.chance(50) ? LevelSearch::scan : LevelSearch::bisection;
    const bool one_at_a_time = random.chance(20);
    INFO("HEDDLE_TEST_SEED=" << seed << "\n" << pair.text(slots));

    // A plain grid on some of the GPCs, or on all.
    LakeOptions options;
    options.one_at_a_time = one_at_a_time;
    Ids inside;
    for (std::uint32_t gpc = 0; gpc < pair.topology.gpcs(); ++gpc) {
      if (random.chance(50)) options.gpcs.push_back(gpc);
    }
    if (random.chance(60)) options.gpcs.clear();
    for (const std::uint32_t sm : pair.machine.all_sms) {
      const std::uint32_t gpc = pair.machine.sms[sm].gpc;
      const bool in = std::find(options.gpcs.begin(), options.gpcs.end(), gpc) != options.gpcs.end();
      if (in || options.gpcs.empty()) inside.push_back(sm);
    }
    LakeFill lake(pair.topology, kDepth, search, pair.sm_priority, options);
    for (std::uint32_t grid = 0; grid < 2; ++grid) {
      const std::uint64_t ctas = random.between(1, random.chance(50) ? 20 : free + 3);
      INFO(ctas << " CTAs on GPCs " << fmt::format("{}", options.gpcs));
      State state = state_of(slots, {});
      std::vector<Level> levels;
      if (one_at_a_time) {  // each step compares all SMs and gives one CTA away ([0127], CWD-08)
        while (levels.size() < ctas) {
          const std::vector<Level> step = heddle::test::text::pour(pair.machine, state, inside, 1);
          if (step.empty()) break;
          levels.push_back(step.front());
        }
      } else {
        levels = heddle::test::text::pour(pair.machine, state, inside, ctas);
      }
      const Placement& placement = lake.place(slots, ctas);
      std::uint64_t count = 0;
      for (const Level& level : levels) count += level.sms.size();
      REQUIRE(difference(lines(pair.machine, levels), lines(placement)) == "");
      REQUIRE(placement.ctas == count);
      for (std::size_t i = 0; i < levels.size(); ++i) REQUIRE(placement.levels[i].ctas == levels[i].sms.size());
      if (one_at_a_time) REQUIRE(placement.steps == count);  // a step for each CTA ([0127], [0130])
      if (one_at_a_time || levels.empty()) continue;
      // The scan goes down from the largest number of free slots, a level per step ([0156]); the bisection halves what
      // it searches, which begins with all levels ([0155]).
      std::uint32_t most = 0;
      for (const std::uint32_t sm : inside) most = std::max<std::uint32_t>(most, slots[sm]);
      if (search == LevelSearch::scan) REQUIRE(placement.steps == most - levels.back().free + 1);
      if (search == LevelSearch::bisection) REQUIRE((placement.steps >= 1 && placement.steps <= 6));
      // Where SMs on the final level receive nothing, a reduction and an accumulation over a tree choose among them
      // ([0157], CWD-05).
      const auto reached = std::count_if(inside.begin(), inside.end(),
                                         [&](std::uint32_t sm) { return slots[sm] >= levels.back().free; });
      std::uint32_t tree = 0;
      while ((std::size_t{1} << tree) < inside.size()) ++tree;
      const bool partly = levels.back().sms.size() < static_cast<std::size_t>(reached);
      REQUIRE(placement.prefix_levels == (partly ? 2 * tree : 0));
    }

    // CGAs of CTAs.
    DomainWideFill fill(pair.topology, kDepth, search, pair.sm_priority, *fastest);
    for (std::uint32_t grid = 0; grid < 2; ++grid) {
      const bool within_ugpus = random.chance(60);
      const std::uint64_t ctas = random.between(1, random.chance(50) ? 12 : 1 + free / random.between(1, 4));
      const std::uint64_t units = random.chance(70) ? random.between(1, 6) : 5000;
      INFO(units << " CGAs of " << ctas << " CTAs, of " << (within_ugpus ? "a uGPU each" : "the GPU"));
      State state = state_of(slots, {});
      const std::vector<WideCga> cgas = heddle::test::text::place_wide(pair.machine, state, within_ugpus, ctas, units);
      const std::vector<DomainWideCga>& model =
          fill.place(slots, ctas, units, within_ugpus ? CgaLevel::ugpu : CgaLevel::gpu);
      REQUIRE(difference(lines(pair.machine, cgas), lines(model)) == "");
      REQUIRE(Ids(fill.left().begin(), fill.left().end()) == state.slots);
      placed += cgas.size();
      if (cgas.size() < units) ++refused;
      if (within_ugpus || search != LevelSearch::scan) continue;
      // Every CGA is scanned from the largest number of free slots that is left ([0156]); the one that fails has been
      // scanned to the ground, and a look at a full machine is a step.
      std::uint64_t steps = 0;
      Ids free_now(slots.begin(), slots.end());
      for (const WideCga& cga : cgas) {
        steps += *std::max_element(free_now.begin(), free_now.end()) - cga.levels.back().free + 1;
        for (const Level& taken : cga.levels) {
          for (const std::uint32_t sm : taken.sms) --free_now[sm];
        }
      }
      if (cgas.size() < units) steps += std::max(1U, *std::max_element(free_now.begin(), free_now.end()));
      REQUIRE(fill.work().steps == steps);
    }
  }
  CHECK(placed > 20'000);
  CHECK(refused > 2'000);
}

TEST_CASE("occupancy is as many CGAs as find homes one after another on an empty machine", "[cwd][CWD-24]") {
  for (const std::uint64_t seed : seeds(2'000)) {
    Random random(seed);
    const Pair pair = Pair::drawn(random);
    const std::uint32_t per_sm = random.chance(50) ? random.between(1, 3) : random.between(1, kDepth);
    const std::uint32_t ids = random.chance(70) ? kNoLimit : random.between(1, 12);
    const Slots slots(pair.topology.sms(), static_cast<std::uint16_t>(per_sm));
    CwdParams params;
    params.sm_priority = {UnitOrder::Order::listed, pair.sm_priority};
    params.gpu_cga_barriers = kNoLimit;
    params.gpc_priority = {UnitOrder::Order::listed, pair.gpc_priority};
    ResourceVector capacity;
    ResourceVector need;
    capacity.amount.fill(1000);
    need.amount.fill(1);
    capacity[Resource::threads] = per_sm;
    EmptyMachine empty(pair.topology, params, capacity, ids);

    Kind kind = random_kind(random, random.chance(50));
    ClusterShape shape = shape_of(kind);
    const bool wide = random.chance(20);
    const bool within_ugpus = random.chance(50);
    std::uint64_t cgas = 0;
    Ids gpc_cgas(pair.topology.gpcs());
    Ids ctas(pair.topology.gpcs());
    State state = state_of(slots, Ids(pair.topology.gpcs(), ids));
    if (wide) {
      const std::uint32_t size = random.between(1, 200);
      shape = ClusterShape();
      shape.of(within_ugpus ? CgaLevel::ugpu : CgaLevel::gpu) = {size, 1, 1};
      for (std::size_t found = 1; found > 0; cgas += found) {
        found = heddle::test::text::place_wide(pair.machine, state, within_ugpus, size, 1).size();
      }
    } else {
      for (bool found = true; found;) {
        const std::vector<GpcCga> parts = heddle::test::text::place(pair.machine, state, kind, 1);
        found = !parts.empty();
        cgas += found ? 1U : 0U;
        for (const GpcCga& part : parts) ++gpc_cgas[part.gpc];
      }
    }
    Ids unused(pair.topology.gpcs());
    for (const std::uint32_t sm : pair.machine.all_sms) {
      ctas[pair.machine.sms[sm].gpc] += per_sm - state.slots[sm];
      unused[pair.machine.sms[sm].gpc] += state.slots[sm] == per_sm ? 1U : 0U;
    }
    INFO("HEDDLE_TEST_SEED=" << seed << "\n" << pair.text(slots) << "\n" << (wide ? "wide" : name_of(kind)));
    if (wide && ids != kNoLimit) continue;  // ids and barriers of wide CGAs are not those of GPCs
    const Occupancy occupancy = empty.occupancy(need, shape);
    REQUIRE(occupancy.cgas == cgas);
    REQUIRE(occupancy.gpc_cgas == gpc_cgas);
    REQUIRE(occupancy.ctas == ctas);
    REQUIRE(occupancy.unused_sms == unused);
  }
}

TEST_CASE("figure 21: 137 CTAs on 32 SMs, some of them busy", "[cwd][CWD-03][CWD-05][CWD-07]") {
  // [0146] to [0148]: SMs 3, 4, 6, 8 and 31 take no more work; 10, 11, 12, 17 and 18 have some slots; others are empty.
  // The figure's numbers are not in the text (which has SM 18 in both lists); these are of its kind.
  constexpr std::uint32_t kEmpty = 8;
  Slots slots(32, kEmpty);
  for (const std::uint32_t sm : {3, 4, 6, 8, 31}) slots[sm] = 0;
  for (const std::uint32_t sm : {10, 11, 12, 17, 18}) slots[sm] = static_cast<std::uint16_t>(1 + sm % 5);
  const Pair pair = Pair::plain({32});
  State state = state_of(slots, {});
  const std::vector<Level> levels = heddle::test::text::pour(pair.machine, state, pair.machine.all_sms, 137);
  for (const LevelSearch search : {LevelSearch::scan, LevelSearch::bisection}) {
    LakeFill lake(pair.topology, kEmpty, search, pair.sm_priority);
    const Placement& placement = lake.place(slots, 137);
    CHECK(difference(lines(pair.machine, levels), lines(placement)) == "");
    // What the figure shows of any filled lake: it is as deep everywhere, but for the last, partly filled level, whose
    // CTAs are on the SMs of highest priority; SMs that were fuller than that have received nothing.
    Slots left = slots;
    for (const LevelMask& level : placement.levels) {
      for (std::uint32_t sm = 0; sm < 32; ++sm) {
        if ((level.mask[0] >> pair.topology.sm(sm).in_gpc & 1) != 0) --left[sm];
      }
    }
    CHECK(placement.ctas == 137);
    CHECK(std::accumulate(slots.begin(), slots.end(), 0) - std::accumulate(left.begin(), left.end(), 0) == 137);
    const std::uint16_t surface = *std::max_element(left.begin(), left.end());
    bool may_be_deeper = true;
    for (std::uint32_t sm = 0; sm < 32; ++sm) {
      CHECK((left[sm] == slots[sm] || left[sm] + 1 >= surface));
      if (slots[sm] < surface) continue;
      if (left[sm] == surface) may_be_deeper = false;
      CHECK((left[sm] == surface || may_be_deeper));
    }
    CHECK_FALSE(may_be_deeper);
  }
}

TEST_CASE("figure 28: a full GPC, one that would be exhausted, and two that tie", "[cwd][CWD-12][CWD-13][CWD-17]") {
  // [0166], [0170]: four GPCs of 8 SMs, here of two CPCs. GPC 0: SM 0 is empty, SMs 1 and 2 are partly loaded, the
  // others full. GPC 1 can take one GPC_CGA and is exhausted then. GPC 2 is empty, GPC 3 is not, but its answer is the
  // same.
  const Pair pair(Shape{{4, {{2, 2}, {2, 2}}}}, {}, ascending(32), ascending(4));
  const std::vector<Ids> free{{3, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 1, 1, 0, 0}, Ids(8, 3), {3, 3, 0, 0, 3, 3, 0, 0}};
  Slots slots(32);
  for (std::uint32_t sm = 0; sm < 32; ++sm) {
    slots[sm] = static_cast<std::uint16_t>(free[pair.topology.sm(sm).gpc][pair.topology.sm(sm).in_gpc]);
  }
  Kind kind;  // grids of GPC_CGAs of two CPC_CGAs of two CTAs
  kind.cpc_cgas = 2;
  kind.ctas = 2;
  for (const bool multicast : {false, true}) {
    kind.multicast = multicast;
    CgaTrial trial(pair);
    Slots now = slots;
    // CGAs 0 and 1 go to GPCs 2 and 3 in the same step, although GPC 2 is less loaded.
    CHECK(trial.place(now, Ids(4, kNoLimit), kind, 2).all() == "");
    REQUIRE(trial.cgas().size() == 2);
    CHECK((trial.cgas()[0].gpc == 2 && trial.cgas()[0].speed == 2));
    CHECK((trial.cgas()[1].gpc == 3 && trial.cgas()[1].speed == 2));
    // "What follows figure 28c: CGA 2 goes to GPC 2", so that two run on it.
    CHECK(trial.place(now, Ids(4, kNoLimit), kind, 1).all() == "");
    REQUIRE(trial.cgas().size() == 1);
    CHECK((trial.cgas()[0].gpc == 2 && trial.cgas()[0].speed == 2));
    // GPC 1 comes last, GPC 0 never.
    CHECK(trial.place(now, Ids(4, kNoLimit), kind, 100).all() == "");
    REQUIRE(!trial.cgas().empty());
    CHECK(trial.cgas().front().speed == 1);
    CHECK(trial.cgas().back().speed == 0);
    for (const GpcCga& cga : trial.cgas()) CHECK(cga.gpc != 0);
    CHECK(std::count_if(trial.cgas().begin(), trial.cgas().end(), [](const GpcCga& cga) { return cga.gpc == 1; }) == 1);
  }
}

TEST_CASE("figure 12: the text's grids on its GPU of 8 GPCs of 18 SMs", "[cwd][CWD-09][CWD-10][CWD-11][CWD-18]") {
  const Pair pair = Pair::plain(Ids(8, 18));  // [0131]
  const Slots one(144, 1);
  const Slots two(144, 2);

  // (1) 18 x 12 x 1 CTAs ([0118]): 216, so 72 SMs have two.
  LakeFill lake(pair.topology, kDepth, LevelSearch::bisection, pair.sm_priority);
  const Placement& plain = lake.place(two, 216);
  State state = state_of(two, {});
  CHECK(difference(lines(pair.machine, heddle::test::text::pour(pair.machine, state, pair.machine.all_sms, 216)),
                   lines(plain)) == "");
  REQUIRE(plain.levels.size() == 2);
  CHECK(plain.levels[0].ctas == 144);
  CHECK(plain.levels[1].ctas == 72);
  CHECK(lake.place(one, 216).ctas == 144);  // the other 72 wait ([0161])

  CgaTrial trial(pair);
  for (const bool multicast : {false, true}) {
    // (2) 6 x 6 x 1 GPC_CGAs of 3 x 2 x 1 CTAs ([0119]): a GPC of 18 SMs has three on an SM each; 36 CGAs need a second
    // CTA on half of the SMs.
    Kind kind;
    kind.multicast = multicast;
    kind.ctas = 6;
    Slots slots = one;
    CHECK(trial.place(slots, Ids(8, kNoLimit), kind, 36).all() == "");
    CHECK(trial.cgas().size() == 24);
    CHECK(count_of(ctas_by_sm(pair.machine, trial.cgas()), 1) == 144);
    slots = two;
    CHECK(trial.place(slots, Ids(8, kNoLimit), kind, 36).all() == "");
    CHECK(trial.cgas().size() == 36);
    CHECK(count_of(ctas_by_sm(pair.machine, trial.cgas()), 1) == 72);
    CHECK(count_of(ctas_by_sm(pair.machine, trial.cgas()), 2) == 72);

    // (4) 2 x 2 x 1 GPU_CGAs of 3 x 3 x 1 GPC_CGAs of 3 x 2 x 1 CTAs ([0121]): nine homes each, of 24, so two and not
    // 24 / 9 of them start.
    kind.outermost = Kind::Outermost::gpu_cga;
    kind.gpc_cgas = 9;
    slots = one;
    CHECK(trial.place(slots, Ids(8, kNoLimit), kind, 4).all() == "");
    CHECK(trial.cgas().size() == 18);
    CHECK(std::accumulate(slots.begin(), slots.end(), 0) == 36);
    slots = two;
    CHECK(trial.place(slots, Ids(8, kNoLimit), kind, 4).all() == "");
    CHECK(trial.cgas().size() == 36);
  }

  // (3) 2 x 2 x 1 GPU_CGAs of 9 x 6 x 1 CTAs ([0120]): with 144 slots two of 54 start, with 288 all four.
  const auto fastest = heddle::cwd::make_domain_policy("fastest");
  DomainWideFill fill(pair.topology, kDepth, LevelSearch::scan, pair.sm_priority, *fastest);
  CHECK(fill.place(one, 54, 4, CgaLevel::gpu).size() == 2);
  CHECK(std::accumulate(fill.left().begin(), fill.left().end(), 0) == 36);
  CHECK(fill.place(two, 54, 4, CgaLevel::gpu).size() == 4);
}

TEST_CASE("clusters spread over an empty H100", "[cwd][CWD-15][CWD-16]") {
  for (const bool multicast : {false, true}) {
    CAPTURE(multicast);
    CHECK(touched_by(66, 2, multicast) == Ids{132, 0, 132});
    CHECK(touched_by(33, 4, multicast) == Ids{120, 6, 126});
    CHECK(touched_by(16, 8, multicast) == Ids{104, 12, 116});
    CHECK(touched_by(17, 8, multicast)[2] == 118);
  }
}

}  // namespace cwd_text_oracle_test
