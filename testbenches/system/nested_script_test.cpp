// Random programs of tasks that launch tasks, against a sequential reference (TSK-06 to TSK-16), on machines of all
// kinds: parents that are saved or not, contexts of CTAs or of grids, few slots or many, few records, preemption in
// every way, time slices.
#include "support/nested_script.h"

#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "support/nested_parents.h"

namespace system_nested_script_test {

using namespace heddle;
using namespace heddle::test;

namespace {

struct Totals {
  double programs = 0;
  double tasks = 0;
  double guilty = 0;
  double saves = 0;
  double refused = 0;
  double preempted = 0;
  double slices = 0;
  double evictions = 0;
  double false_dependencies = 0;
};

struct Plan {
  std::vector<std::string> sets;
  script::Options options;
  bool shared = false;
};

Plan plan_of(Random& random) {
  Plan plan;
  const auto set = [&plan](const std::string& name, const auto& value) {
    plan.sets.push_back(fmt::format("gpu.{}={}", name, value));
  };
  const auto number = [&](const char* name, std::uint32_t low, std::uint32_t high) {
    set(name, random.between(low, high));
  };
  script::Options& options = plan.options;
  options.roots = random.between(4, 10);
  options.tasks = random.between(4, 24);
  options.depth = random.between(2, 6);
  options.streams = random.between(1, 4);
  set("timing", random.chance(40) ? "lt" : "at");
  if (random.chance(30)) set("shape", random.chance(50) ? "[2]" : "[2, 3]");
  plan.shared = random.chance(30);
  const bool save = random.chance(70);
  set("sm.nested.launch_instructions", 12);
  set("sm.nested.save", save ? "true" : "false");
  if (random.chance(30)) set("sm.fetch.cache_bytes", 512U << random.below(4));
  number("sm.nested.save_delay", 1, 600);
  if (plan.shared) set("task.nested.shared_by", "grid");
  number("task.nested.tmdqs", 1, random.chance(60) ? 2 : 6);
  number("task.nested.in_flight", 1, 8);
  if (random.chance(20)) set("task.nested.max_depth", options.max_depth = options.depth);
  // Who cannot be saved keeps its places: CTAs of clusters and those that wait for some tasks, where grids share
  // contexts; and everybody, if nobody is saved.
  const bool tight = save && random.chance(60);
  if (tight) {
    const std::uint32_t slots = random.between(2, 6);
    set("cwd.table_slots", slots);
    if (random.chance(40)) {  // few records
      set("cwd.evicted_tasks", 2);
      set("task.nested.pending_launches", 2 * slots + 3 + random.between(1, 8));
      number("task.nested.contexts", 2, 6);
      if (random.chance(50)) {
        set("task.nested.overflow", "error");
        options.all_known = true;
      }
    }
    number("sm.limits.ctas", 2, 4);
    options.clusters = !plan.shared;
    options.waits_for_some = !plan.shared;
  } else {
    set("cwd.active_pool", 0);
    set("cwd.pending_pool", 0);
    set("cwd.table_slots", 512);
    options.roots = std::min(options.roots, 5U);
    options.tasks = std::min(options.tasks, 14U);
  }
  if (random.chance(40)) {
    set("cwd.preemption", random.chance(70) ? "instruction" : "drain");
    number("cwd.preempt_again", 200, 5000);
  }
  if (random.chance(15)) {
    options.subcontexts = 2;
    number("cwd.time_slice", 3000, 30'000);
  }
  if (random.chance(10)) number("cwd.ageing", 1000, 50'000);
  return plan;
}

void run(std::uint64_t seed, Totals& totals) {
  Random random(seed);
  const Plan plan = plan_of(random);
  const script::Script program = script::Script::random(random, plan.options);
  INFO("seed " << seed << ": " << fmt::format("{}", fmt::join(plan.sets, " ")));
  SimFixture fixture;
  GpuLab lab(preset_params("small", plan.sets));
  const script::ScriptRun run(lab, program);
  run.submit(lab);
  run_until_idle();

  script::ScriptJudge judge(lab, program, plan.shared);
  REQUIRE(judge.verdict() == std::vector<std::string>{});
  REQUIRE(lab.host.results.size() == program.roots.size());
  for (std::size_t i = 0; i < program.roots.size(); ++i) {
    const bool guilty = program.tasks[program.roots[i]].guilty != script::kNone;
    const protocol::DoneStatus expected = guilty ? protocol::DoneStatus::faulted : protocol::DoneStatus::ok;
    REQUIRE(lab.host.results.at(run.operation(i)).status == expected);
  }
  REQUIRE(lab.gpu.log().faults().size() == judge.guilty().size());
  REQUIRE(lab.stat("task.children") == static_cast<double>(judge.ran() - program.roots.size() + judge.strays()));
  lab.gpu.check_quiescent();
  parents::check_all_pools(lab);

  totals.programs += static_cast<double>(program.roots.size());
  totals.tasks += judge.ran();
  totals.guilty += static_cast<double>(judge.guilty().size());
  totals.refused += judge.refused();
  totals.saves += lab.stat("task.restores");
  totals.preempted += lab.stat("cwd.ctas_preempted");
  totals.slices += lab.stat("cwd.time_slices");
  totals.evictions += lab.stat("task.evictions");
  totals.false_dependencies += lab.stat("task.false_dependencies");
}

}  // namespace

// With HEDDLE_LONG_TESTS=1, a hundred thousand programs.
TEST_CASE("random programs of nested tasks do what a sequential reference says, on every kind of machine",
          "[system][TSK-06][TSK-07][TSK-08][TSK-10][TSK-11][TSK-12][TSK-14][TSK-16]") {
  const double wanted = long_tests() ? 100'000 : 2000;
  Totals totals;
  for (std::uint64_t seed = seeds(1).front(); totals.programs < wanted; ++seed) run(seed, totals);
  INFO(
      fmt::format("{} programs, {} tasks, {} faults, {} saves, {} refused, {} preempted, {} slices, {} "
                  "evictions, {} false dependencies",
                  totals.programs, totals.tasks, totals.guilty, totals.saves, totals.refused, totals.preempted,
                  totals.slices, totals.evictions, totals.false_dependencies));
  CHECK(totals.tasks > 5 * totals.programs);
  CHECK(totals.guilty > 0.2 * totals.programs);
  CHECK(totals.saves > 0.5 * totals.programs);
  CHECK(totals.refused > 0.02 * totals.programs);
  CHECK(totals.preempted > 0.02 * totals.programs);
  CHECK(totals.slices > 0.02 * totals.programs);
  CHECK(totals.evictions > 0.1 * totals.programs);
  CHECK(totals.false_dependencies > 0.1 * totals.programs);
}

// The test of the test: of what a run has left in memory, one thing is changed.
TEST_CASE("the reference for nested tasks notices what is not as it should be", "[system][TSK-08][TSK-10]") {
  script::Options options;
  options.roots = 3;
  options.tasks = 24;
  options.crimes = false;
  Random random(seed());
  const script::Script program = script::Script::random(random, options);
  SimFixture fixture;
  GpuLab lab(preset_params("small"));
  const script::ScriptRun run(lab, program);
  run.submit(lab);
  run_until_idle();
  const auto noticed = [&] { return !script::ScriptJudge(lab, program, false).verdict().empty(); };
  REQUIRE_FALSE(noticed());
  const auto at = [](std::uint32_t task, std::uint32_t actor, std::uint32_t word) {
    return script::Place{}.notes +
           4 * (script::note::kWords * (script::kMostActors * std::uint64_t{task} + actor) + word);
  };
  const auto notices = [&](std::uint64_t address, std::uint32_t value) {
    const auto before = lab.read<std::uint32_t>(address);
    lab.write(address, value);
    const bool result = noticed();
    lab.write(address, before);
    return result;
  };
  std::uint32_t waits = 0;
  std::uint32_t behind = 0;
  for (std::uint32_t task = 0; task < program.size(); ++task) {
    CAPTURE(task);
    const script::Task& its = program.tasks[task];
    for (std::uint32_t actor = 0; actor < its.actors.size(); ++actor) {
      CHECK(notices(at(task, actor, script::note::kStarts), 2));
      CHECK(notices(at(task, actor, script::note::kStarts), 0));
      CHECK(notices(at(task, actor, script::note::kEnd), 0));
      CHECK(notices(at(task, actor, script::note::kNumber), 4711));
      CHECK(notices(at(task, actor, script::note::kLanes + 17), 0));
      if (its.parent != script::kNone) CHECK(notices(at(task, actor, script::note::kBegin), 1));
    }
    if (its.parent == script::kNone) continue;
    // What is behind it in its stream began before its end.
    const auto end = lab.read<std::uint32_t>(at(task, 0, script::note::kEnd));
    for (std::uint32_t other = task + 1; other < program.size(); ++other) {
      const script::Task& next = program.tasks[other];
      const bool same = next.parent == its.parent && next.by == its.by && next.mode == arch::LaunchMode::stream &&
                        its.mode == next.mode && next.create == its.create;
      if (!same) continue;
      ++behind;
      CHECK(notices(at(other, 0, script::note::kBegin), end - 1));
      break;
    }
    // Its parent went on from a wait for all before its end.
    const script::Actor& parent = program.tasks[its.parent].actors[its.by];
    std::uint32_t wait = 0;
    bool launched = false;
    for (const script::Step& step : parent.steps) {
      launched |= step.kind == script::Step::Kind::launch && step.task == task;
      const bool all = step.kind == script::Step::Kind::wait_all;
      if (all && launched && its.mode != arch::LaunchMode::tail) {
        ++waits;
        CHECK(notices(at(its.parent, its.by, script::note::kWaits + wait), end - 1));
      }
      wait += all || step.kind == script::Step::Kind::wait_stream || step.kind == script::Step::Kind::wait_launch;
    }
  }
  CHECK(waits > 3);
  CHECK(behind > 3);
}

}  // namespace system_nested_script_test
