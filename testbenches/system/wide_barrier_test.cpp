// GPU_CGAs, uGPU_CGAs and nested CGAs at run time: their barriers, what CTAs know of each level, and sm_cga_slots.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "support/cluster_lab.h"
#include "support/random.h"

namespace system_wide_barrier_test {

using namespace heddle::test;
using heddle::arch::CgaLevel;
using heddle::arch::ClusterShape;
using heddle::arch::Dim3;
using heddle::arch::Order;
using heddle::arch::Space;
using heddle::arch::SpecialRegister;
using heddle::arch::Unit;

namespace {

constexpr std::uint64_t kIn = 0x20000;
constexpr std::uint64_t kOut = 0x60000;

ClusterShape shape_of(const std::map<CgaLevel, Dim3>& levels) {
  ClusterShape cluster;
  cluster.mode = heddle::arch::CgaMode::load_balancing;
  for (const auto& [level, extents] : levels) cluster.of(level) = extents;
  return cluster;
}

void barrier_at(ListProgram& p, std::optional<CgaLevel> level) {
  p.cluster_arrive(Order::release, level);
  p.cluster_wait(Order::acquire, level);
}

// The word of a CTA, among those of the kernel.
ListProgram::Address word(std::uint64_t base, std::uint32_t step = 0, std::uint32_t words = 1) {
  return [=](const Warp& warp, std::uint32_t) { return base + 4 * (std::uint64_t{warp.place.cta} * words + step); };
}

// One word of a special register.
void note(ListProgram& p, SpecialRegister which, std::uint32_t step, std::uint32_t words) {
  p.special(which, 0);
  p.store(one_lane(Space::global), ListProgram::of_register(0), word(kOut, step, words), {{0, 1}});
}

}  // namespace

// [0120]: the barrier of a GPU_CGA is what grid.sync does. Each CTA reads what the next one of its CGA, most often on
// another GPC, has written before the barrier; the first read brings the old line into the L1.
TEST_CASE("what the CTAs of a wide CGA wrote before its barrier is seen behind it", "[system][CWD-09][MEM-06]") {
  struct Case {
    std::map<CgaLevel, Dim3> levels;
    std::optional<CgaLevel> level;
    std::uint32_t ctas;  // of the CGA that meets
  };
  const std::vector<Case> cases{
      {{{CgaLevel::gpu, {24, 1, 1}}}, std::nullopt, 24},
      {{{CgaLevel::gpu, {24, 1, 1}}}, CgaLevel::gpu, 24},
      {{{CgaLevel::ugpu, {8, 1, 1}}}, std::nullopt, 8},
      {{{CgaLevel::gpu, {24, 1, 1}}, {CgaLevel::gpc, {4, 1, 1}}}, CgaLevel::gpu, 24},
      {{{CgaLevel::ugpu, {8, 1, 1}}, {CgaLevel::gpc, {4, 1, 1}}}, CgaLevel::ugpu, 8},
      {{{CgaLevel::gpu, {24, 1, 1}}, {CgaLevel::ugpu, {8, 1, 1}}, {CgaLevel::gpc, {2, 1, 1}}}, CgaLevel::ugpu, 8},
      {{{CgaLevel::gpu, {24, 1, 1}}, {CgaLevel::ugpu, {8, 1, 1}}, {CgaLevel::gpc, {2, 1, 1}}}, CgaLevel::gpu, 24},
  };
  constexpr std::uint32_t kRounds = 4;
  constexpr std::uint32_t kGrid = 72;
  for (const char* timing : {"gpu.timing=at", "gpu.timing=lt"}) {
    for (std::size_t which = 0; which < cases.size(); ++which) {
      const Case& one = cases[which];
      CAPTURE(timing, which);
      SimFixture sim;
      GpuLab lab(preset_params("small", {timing, "gpu.ugpus=[1, 1]"}));
      auto program = std::make_shared<ListProgram>(2);
      ListProgram& p = *program;
      const auto neighbour = [&one](const Warp& warp, std::uint32_t) {
        const auto cta = static_cast<std::uint32_t>(warp.place.cta);
        const std::uint32_t first = cta / one.ctas * one.ctas;
        return kIn + 128 * std::uint64_t{first + (cta - first + 1) % one.ctas};
      };
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        p.load(one_lane(Space::global), 0, neighbour);
        p.compute(Unit::fp32, 10, {{0, 1}});
        p.store(
            one_lane(Space::global), [=](const Warp& warp, std::uint32_t) { return mixed(warp.place.cta, round); },
            [](const Warp& warp, std::uint32_t) { return kIn + 128 * std::uint64_t{warp.place.cta}; });
        barrier_at(p, one.level);
        p.load(one_lane(Space::global), 1, neighbour);
        p.store(one_lane(Space::global), ListProgram::of_register(1), word(kOut, round, kRounds), {{1, 1}});
        barrier_at(p, one.level);  // nobody writes the next before all have read
      }
      p.exit();
      lab.run(program, {kGrid, 1, 1}, {32, 1, 1}, 0, shape_of(one.levels));
      CHECK(lab.gpu.log().faults().empty());
      for (std::uint32_t cta = 0; cta < kGrid; ++cta) {
        const std::uint32_t first = cta / one.ctas * one.ctas;
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          REQUIRE(lab.read<std::uint32_t>(kOut + 4 * (cta * kRounds + round)) ==
                  mixed(first + (cta - first + 1) % one.ctas, round));
        }
      }
      lab.gpu.check_quiescent();
    }
  }
}

TEST_CASE("no phase of a wide barrier completes before the last CTA has arrived", "[system][CWD-09][CGA-04]") {
  constexpr std::uint32_t kPhases = 5;
  constexpr std::uint32_t kCtas = 12;
  constexpr std::uint32_t kGrid = 48;
  std::uint64_t early_exits = 0;
  for (const std::uint64_t seed : seeds(12)) {
    CAPTURE(seed);
    Random random(seed);
    SimFixture sim;
    GpuLab lab(preset_params("small", {fmt::format("gpu.gpc.raster_cycles={}", random.below(120)),
                                       fmt::format("gpu.cwd.gpu_cga_barriers={}", random.between(1, 4))}));
    // A CTA takes part in that many phases, and exits.
    std::vector<std::uint32_t> takes(kGrid, kPhases);
    for (std::uint32_t& phases : takes) {
      if (random.chance(25)) phases = random.below(kPhases);
      early_exits += phases < kPhases ? 1 : 0;
    }
    const bool waits_last = random.chance(50);  // otherwise it exits when it has arrived
    auto program = std::make_shared<ListProgram>(1);
    ListProgram& p = *program;
    for (std::uint32_t phase = 0; phase < kPhases; ++phase) {
      only_if(
          p, [=](const Warp& warp) { return takes[warp.place.cta] == phase; }, [](ListProgram& q) { q.exit(); });
      p.step({heddle::arch::OpCode::compute, Unit::fp32, {}, {}, {}},
             [=](const heddle::arch::WarpPlace& place, heddle::arch::WarpState&, heddle::arch::Operation& operation) {
               operation.count = 1 + mixed(place.cta + seed, phase) % 900;
             });
      note(p, SpecialRegister::clock, 2 * phase, 2 * kPhases);
      p.cluster_arrive(Order::relaxed);
      if (!waits_last) {
        only_if(
            p, [=](const Warp& warp) { return takes[warp.place.cta] == phase + 1; }, [](ListProgram& q) { q.exit(); });
      }
      p.cluster_wait(Order::relaxed);
      note(p, SpecialRegister::clock, 2 * phase + 1, 2 * kPhases);
    }
    p.exit();
    ClusterShape cluster = shape_of({{CgaLevel::gpu, {kCtas, 1, 1}}});
    if (random.chance(50)) cluster.of(CgaLevel::gpc) = {random.chance(50) ? 2U : 4U, 1, 1};
    if (cluster.has(CgaLevel::gpc)) {
      program = std::make_shared<ListProgram>(1);
      ListProgram& q = *program;
      for (std::uint32_t phase = 0; phase < kPhases; ++phase) {
        only_if(
            q, [=](const Warp& warp) { return takes[warp.place.cta] == phase; }, [](ListProgram& r) { r.exit(); });
        q.compute(Unit::fp32, 1 + 37 * phase);
        note(q, SpecialRegister::clock, 2 * phase, 2 * kPhases);
        q.cluster_arrive(Order::relaxed, CgaLevel::gpu);
        q.cluster_wait(Order::relaxed, CgaLevel::gpu);
        note(q, SpecialRegister::clock, 2 * phase + 1, 2 * kPhases);
      }
      q.exit();
    }
    lab.run(program, {kGrid, 1, 1}, {32, 1, 1}, 0, cluster);
    CHECK(lab.gpu.log().faults().empty());
    lab.gpu.check_quiescent();
    for (std::uint32_t first = 0; first < kGrid; first += kCtas) {
      for (std::uint32_t phase = 0; phase < kPhases; ++phase) {
        std::uint32_t last_before = 0;
        std::uint32_t first_behind = ~0U;
        for (std::uint32_t cta = first; cta < first + kCtas; ++cta) {
          if (takes[cta] <= phase) continue;
          const std::uint64_t at = kOut + 4 * (std::uint64_t{cta} * 2 * kPhases + 2 * phase);
          last_before = std::max(last_before, lab.read<std::uint32_t>(at));
          const bool waited = waits_last || takes[cta] > phase + 1 || cluster.has(CgaLevel::gpc);
          if (waited) first_behind = std::min(first_behind, lab.read<std::uint32_t>(at + 4));
        }
        if (first_behind == ~0U) continue;
        CAPTURE(first, phase);
        // There and back over the modelled distances, at the least: SM - MPC - GPM - distributor.
        const auto& gpc = lab.gpu.params().gpc;
        const std::uint32_t least = 2 * (gpc.mpc_to_sm + gpc.gpm_to_mpc + std::min(gpc.barrier_near, gpc.barrier_far) +
                                         lab.gpu.params().cwd.gpc_distance);
        REQUIRE(first_behind >= last_before + least);
      }
    }
  }
  CHECK(early_exits > 50);
}

TEST_CASE("the latency of a barrier follows the distances that it covers", "[system][CWD-09][CGA-13]") {
  const auto latency = [](std::optional<CgaLevel> level, const std::vector<std::string>& sets) {
    SimFixture sim;
    GpuLab lab(preset_params("small", sets));
    auto program = std::make_shared<ListProgram>(2);
    ListProgram& p = *program;
    p.compute(Unit::fp32, 3000);
    for (std::uint32_t step = 0; step < 2; ++step) {  // the first one brings all together
      p.cluster_arrive(Order::relaxed, level);
      p.cluster_wait(Order::relaxed, level);
      note(p, SpecialRegister::clock, step, 2);
    }
    p.exit();
    lab.run(program, {8, 1, 1}, {32, 1, 1}, 0, shape_of({{CgaLevel::gpu, {8, 1, 1}}, {CgaLevel::gpc, {4, 1, 1}}}));
    CHECK(lab.gpu.log().faults().empty());
    std::uint32_t before = 0;
    std::uint32_t behind = 0;
    for (std::uint32_t cta = 0; cta < 8; ++cta) {
      before = std::max(before, lab.read<std::uint32_t>(kOut + 8 * cta));
      behind = std::max(behind, lab.read<std::uint32_t>(kOut + 8 * cta + 4));
    }
    return behind - before;
  };
  const std::vector<std::string> plain{"gpu.gpc.mpc_to_sm=4",     "gpu.gpc.gpm_to_mpc=8",    "gpu.gpc.barrier_near=100",
                                       "gpu.gpc.barrier_far=100", "gpu.cwd.gpc_distance=60", "gpu.gpc.gpm_to_cwd=60"};
  const auto with = [&plain](std::vector<std::string> more) {
    std::vector<std::string> sets = plain;
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
  };
  const std::uint32_t inner = latency(std::nullopt, plain);
  const std::uint32_t outer = latency(CgaLevel::gpu, plain);
  // The root is 60 cycles away from a GPM, and takes a cycle for each of the two reports.
  CHECK(outer > inner + 2 * 60);
  CHECK(outer < inner + 2 * 60 + 20);
  for (const auto& [level, base] :
       {std::pair<std::optional<CgaLevel>, std::uint32_t>{std::nullopt, inner}, {CgaLevel::gpu, outer}}) {
    CAPTURE(level.has_value());
    CHECK(latency(level, with({"gpu.gpc.barrier_near=150", "gpu.gpc.barrier_far=150"})) == base + 2 * 50);
    CHECK(latency(level, with({"gpu.gpc.mpc_to_sm=24"})) == base + 2 * 20);
    CHECK(latency(level, with({"gpu.gpc.gpm_to_mpc=38"})) == base + 2 * 30);
    CHECK(latency(level, with({"gpu.cwd.gpc_distance=100"})) == base + (level ? 40 : 0));
    CHECK(latency(level, with({"gpu.gpc.gpm_to_cwd=90"})) == base + (level ? 30 : 0));
    // A phase is four arrivals at a GPM.
    CHECK(latency(level, with({"gpu.gpc.barrier_arrivals=0.1"})) > base + 25);
    CHECK(latency(level, with({"gpu.cwd.barrier_report_cycles=11"})) == base + (level ? 20 : 0));
  }
}

TEST_CASE("a CTA of nested CGAs knows its id, rank and shape at each level", "[system][CGA-10]") {
  SimFixture sim;
  GpuLab lab(preset_params("small", {"gpu.ugpus=[1, 1]"}));
  const std::map<CgaLevel, Dim3> levels{
      {CgaLevel::gpu, {8, 4, 1}}, {CgaLevel::ugpu, {4, 4, 1}}, {CgaLevel::gpc, {4, 2, 1}}, {CgaLevel::cpc, {2, 1, 1}}};
  const Dim3 grid{16, 8, 1};
  constexpr std::uint32_t kWords = 6 * 4;
  auto program = std::make_shared<ListProgram>(2);
  for (std::uint32_t i = 0; i < kWords; ++i) {
    note(*program, static_cast<SpecialRegister>(static_cast<std::uint32_t>(SpecialRegister::cpc_cga_id) + i), i,
         kWords);
  }
  program->exit();
  lab.run(program, grid, {32, 1, 1}, 0, shape_of(levels));
  CHECK(lab.gpu.log().faults().empty());
  for (std::uint32_t cta = 0; cta < grid.count(); ++cta) {
    const std::uint32_t x = cta % grid.x;
    const std::uint32_t y = cta / grid.x;
    for (const CgaLevel level : {CgaLevel::cpc, CgaLevel::gpc, CgaLevel::ugpu, CgaLevel::gpu}) {
      const Dim3 of = levels.at(level);
      const std::vector<std::uint32_t> expected{
          x / of.x + grid.x / of.x * (y / of.y), x % of.x + of.x * (y % of.y), of.x * of.y, of.x, of.y, 1};
      for (std::uint32_t i = 0; i < 6; ++i) {
        CAPTURE(cta, static_cast<int>(level), i);
        REQUIRE(lab.read<std::uint32_t>(kOut + 4 * (cta * kWords + 6 * static_cast<std::uint32_t>(level) + i)) ==
                expected[i]);
      }
    }
  }
}

TEST_CASE("a CTA reads the local-memory block of its subcontext on its TPC", "[system][CWD-32]") {
  SimFixture sim;
  // Six TPCs, five blocks: one TPC is left out.
  GpuLab lab(preset_params("small", {"gpu.shape=[[[2, 2], [2, 2]], [[2, 2]]]", "gpu.cwd.partition=dynamic",
                                     "gpu.cwd.local_memory_blocks=5"}));
  const auto& topology = lab.gpu.topology();
  REQUIRE(topology.sms() == 12);
  auto program = std::make_shared<ListProgram>(2);
  program->compute(Unit::fp32, 500);  // the block follows the launch
  program->special(SpecialRegister::sm, 0);
  program->store(one_lane(Space::global), ListProgram::of_register(0), word(kOut, 0, 2), {{0, 1}});
  program->special(SpecialRegister::local_memory_block, 0);
  program->store(one_lane(Space::global), ListProgram::of_register(0), word(kOut, 1, 2), {{0, 1}});
  program->exit();
  const auto blocks_of = [&](std::uint8_t subcontext, std::uint32_t local_bytes, std::uint32_t ctas) {
    auto packet = lab.packet(program, {ctas, 1, 1}, {1024, 1, 1}, 120 << 10);
    packet.kernel.subcontext = subcontext;
    packet.kernel.local_bytes = local_bytes;
    lab.submit(packet);
    run_until_idle();
    std::map<std::uint32_t, std::set<std::uint32_t>> by_tpc;  // all TPCs of the GPU
    for (std::uint32_t cta = 0; cta < ctas; ++cta) {
      const auto& place = topology.sm(lab.read<std::uint32_t>(kOut + 8 * cta));
      by_tpc[place.gpc * 16 + place.tpc].insert(lab.read<std::uint32_t>(kOut + 8 * cta + 4));
    }
    return by_tpc;
  };
  // A kernel without local memory is told none.
  const auto none = blocks_of(3, 0, 12);
  CHECK(none.size() == 6);
  for (const auto& [tpc, blocks] : none) CHECK(blocks == std::set<std::uint32_t>{heddle::arch::kNoLocalMemory});
  // The SMs of a TPC know one block, and no two TPCs the same.
  const auto told = blocks_of(3, 64, 10);
  CHECK(told.size() == 5);
  std::set<std::uint32_t> all;
  for (const auto& [tpc, blocks] : told) {
    CAPTURE(tpc);
    REQUIRE(blocks.size() == 1);
    CHECK(*blocks.begin() < 5);
    CHECK(all.insert(*blocks.begin()).second);
  }
}

TEST_CASE("a CTA knows where it runs, and virtual numbers follow the TPC enable table", "[system][CWD-45]") {
  constexpr SpecialRegister kRegisters[] = {SpecialRegister::sm,          SpecialRegister::tpc,
                                            SpecialRegister::cpc,         SpecialRegister::gpc,
                                            SpecialRegister::ugpu,        SpecialRegister::virtual_sm,
                                            SpecialRegister::virtual_tpc, SpecialRegister::virtual_cpc,
                                            SpecialRegister::virtual_gpc, SpecialRegister::virtual_ugpu};
  constexpr std::uint32_t kWords = 10;
  SimFixture sim;
  // CPCs of two TPCs; GPC 1 is the larger one.
  GpuLab lab(preset_params("small", {"gpu.shape=[[[2, 2], [2, 2]], [[2, 2], [2, 2], [2]]]", "gpu.ugpus=[1, 1]"}));
  const auto& topology = lab.gpu.topology();
  const auto places = [&](std::uint64_t base) {
    auto program = std::make_shared<ListProgram>(2);
    for (std::uint32_t i = 0; i < kWords; ++i) {
      program->special(kRegisters[i], 0);
      program->store(one_lane(Space::global), ListProgram::of_register(0), word(base, i, kWords), {{0, 1}});
    }
    program->compute(Unit::fp32, 3000);
    program->exit();
    lab.run(program, {topology.sms(), 1, 1}, {1024, 1, 1}, 120 << 10);
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_sm;
    for (std::uint32_t cta = 0; cta < topology.sms(); ++cta) {
      std::vector<std::uint32_t> row;
      for (std::uint32_t i = 0; i < kWords; ++i) row.push_back(lab.read<std::uint32_t>(base + 4 * (cta * kWords + i)));
      by_sm[row[0]] = row;
    }
    return by_sm;
  };
  const auto whole = places(kOut);
  REQUIRE(whole.size() == topology.sms());
  for (const auto& [sm, row] : whole) {
    const auto& place = topology.sm(sm);
    CAPTURE(sm);
    // The larger GPC comes first.
    const std::uint32_t virtual_gpc = place.gpc == 1 ? 0 : 1;
    CHECK(row == std::vector<std::uint32_t>{sm, place.tpc, place.cpc, place.gpc, topology.ugpu_of(place.gpc),
                                            place.in_gpc + (place.gpc == 0 ? topology.gpc(1).sms : 0), place.tpc,
                                            place.cpc, virtual_gpc, topology.ugpu_of(place.gpc)});
  }
  // The first CPC of GPC 1, and its third TPC, are switched off: GPC 0 has more by now.
  for (const std::uint32_t tpc : {0U, 1U, 2U}) {
    heddle::protocol::SubmitPacket control;
    control.kind = heddle::protocol::SubmitKind::control;
    control.tpc = {heddle::protocol::GpcId(1), heddle::protocol::TpcInGpc(tpc), false};
    lab.host.submit(lab.host.now() + 1, control);
  }
  run_until_idle();
  const auto rest = places(kOut + 0x8000);
  CHECK(rest.size() == topology.sms() - 6);
  for (const auto& [sm, row] : rest) {
    const auto& place = topology.sm(sm);
    CAPTURE(sm);
    const std::uint32_t off = place.gpc == 1 ? 3 : 0;
    const std::uint32_t cpc = place.gpc == 1 ? place.cpc - 1 : place.cpc;
    CHECK(row == std::vector<std::uint32_t>{sm, place.tpc, place.cpc, place.gpc, topology.ugpu_of(place.gpc),
                                            place.in_gpc - 2 * off + (place.gpc == 1 ? topology.gpc(0).sms : 0),
                                            place.tpc - off, cpc, place.gpc, topology.ugpu_of(place.gpc)});
  }
}

// Every SM of a GPC has a slot for each CGA that lives there ([0238]-[0242]); one slot is one CGA at a time.
TEST_CASE("sm_cga_slots limit the CGAs of a GPC, and a task that lacks one says so", "[system][CWD-01][CGA-11]") {
  for (const std::uint32_t slots : {1U, 3U, 256U}) {
    CAPTURE(slots);
    SimFixture sim;
    GpuLab lab(preset_params("small", {fmt::format("gpu.sm.limits.cga_slots={}", slots)}));
    auto program = std::make_shared<ListProgram>(1);
    program->cluster_arrive().cluster_wait().compute(Unit::fp32, 4000).exit();
    lab.run(program, {64, 1, 1}, {32, 1, 1}, 0, clusters_of(2));
    CHECK(lab.gpu.log().faults().empty());
    lab.gpu.check_quiescent();
    std::map<std::uint32_t, std::vector<std::pair<std::uint64_t, int>>> changes;  // by GPC
    for (const auto& cluster : lab.observation.clusters.kept()) {
      std::uint64_t begin = ~0ULL;
      std::uint64_t end = 0;
      for (const auto& cta : cluster.ctas) {
        begin = std::min(begin, cta.begin);
        end = std::max(end, cta.end);
      }
      changes[cluster.gpc].emplace_back(begin, 1);
      changes[cluster.gpc].emplace_back(end, -1);
    }
    int most = 0;
    for (auto& [gpc, list] : changes) {
      std::sort(list.begin(), list.end());
      int live = 0;
      for (const auto& [cycle, change] : list) most = std::max(most, live += change);
    }
    if (slots < 256) {
      CHECK(most == static_cast<int>(slots));
      CHECK(lab.stat("cwd.wait.cga_slots") > 0);
      CHECK(lab.stat("cwd.wait.cga_ids") == 0);
    } else {
      CHECK(most > 3);
      CHECK(lab.stat("cwd.wait.cga_slots") == 0);
    }
  }
}

// [0258]: the slot is free before the flush, the id only after it.
TEST_CASE("an sm_cga_slot is free before the flush of its CGA", "[system][CGA-11]") {
  const auto second_begin = [](const char* limit) {
    SimFixture sim;
    GpuLab lab(preset_params("small", {"gpu.shape=[4]", limit, "gpu.gpc.cga_flush=5000"}));
    auto program = std::make_shared<ListProgram>(1);
    program->compute(Unit::fp32, 100).exit();
    // Of two kernels: those of one wait for the flush, whose end raises the counter of CWD-20.
    for (const std::uint32_t stream : {0U, 1U}) {
      lab.submit(lab.packet(program, {2, 1, 1}, {32, 1, 1}, 0, stream, clusters_of(2)));
    }
    run_until_idle();
    const auto& clusters = lab.observation.clusters.kept();
    REQUIRE(clusters.size() == 2);
    return clusters[1].ctas.front().begin - clusters[0].ctas.front().end;
  };
  CHECK(second_begin("gpu.sm.limits.cga_slots=1") < 1000);
  CHECK(second_begin("gpu.gpc.cga_ids=1") > 5000);
}

TEST_CASE("what a wide barrier waits for is named", "[system][CWD-09]") {
  SimFixture sim;
  GpuLab lab(preset_params("small"));
  auto program = std::make_shared<ListProgram>(1);
  ListProgram& p = *program;
  only_if(
      p, [](const Warp& warp) { return warp.place.rank == 5; },
      [](ListProgram& q) {
        q.mbarrier_init(0, 1);
        q.mbarrier_wait(0, 0);
      });
  p.cluster_arrive().cluster_wait().exit();
  lab.submit(lab.packet(program, {8, 1, 1}, {32, 1, 1}, 64, 0, shape_of({{CgaLevel::gpu, {8, 1, 1}}})));
  run_until_idle();
  heddle::WaitGraph waits;
  lab.gpu.domain().collect_waits(waits);
  std::string all;
  for (const std::string& line : waits.chain()) all += line + "\n";
  CHECK_THAT(all, Catch::Contains("barrier 0 of the GPU, of a GPU_CGA of"));
}

}  // namespace system_wide_barrier_test
