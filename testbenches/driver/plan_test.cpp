// Plans keep what was asked for, whatever the list: read back by an interpreter of the tests and by the model.
#include <catch2/catch.hpp>

#include "driver/plan_lists.h"
#include "packet/reference_table.h"

namespace heddle::test::driver_plan_test {
namespace {

std::vector<Run> interpret(const Plan& made, Interpreter& interpreter) {
  interpreter.runs.clear();
  for (const heddle_planned& planned : made.packets) {
    const std::string wrong = interpreter.take(planned.packet.bytes);
    INFO(wrong);
    REQUIRE(wrong.empty());
  }
  return interpreter.runs;
}

// The model's reading of the same bytes.
void check_with_model(const Plan& made, const Kernels& kernels, packet::ReferenceTable& table) {
  std::size_t at = 0;
  for (const heddle_planned& planned : made.packets) {
    REQUIRE(planned.first == at);
    const arch::PacketBytes bytes = bytes_of(planned.packet);
    if (arch::type_of(bytes) != arch::PacketType::condensed_dispatch) {
      arch::KernelDispatch dispatch;
      REQUIRE(arch::decode(bytes, dispatch).ok());
      CHECK(dispatch.fields.kernarg == kernels[at].dispatch.kernarg);
      if (arch::type_of(bytes) == arch::PacketType::reference_dispatch)
        table.store(dispatch.reserved0, dispatch.fields);
      ++at;
      continue;
    }
    packet::CondensedKernels expanded;
    std::uint32_t bad = 0;
    REQUIRE(packet::expand(bytes, table, expanded, bad).ok());
    REQUIRE(expanded.count == planned.kernels);
    for (std::uint32_t i = 0; i < expanded.count; ++i, ++at) {
      const heddle_dispatch& wanted = kernels[at].dispatch;
      arch::DispatchFields fields = expanded.kernels[i].fields;
      CHECK(expanded.kernels[i].signal == wanted.completion_signal);
      fields.completion_signal = wanted.completion_signal;
      fields.synch_scopes = wanted.scopes;
      CHECK(fields == as_model(wanted));
    }
  }
  CHECK(at == kernels.size());
}

void check_counts(const Plan& made, const Kernels& kernels, const heddle_plan_options& options) {
  const heddle_plan_result& result = made.result;
  CHECK(result.cost == cost_of(made, kernels, options.costs));
  CHECK(result.plain_cost == kernels.size() * std::uint64_t{options.costs.plain});
  CHECK(result.cost <= result.plain_cost);
  CHECK(result.packets == result.plain + result.references + result.condensed);
  CHECK(kernels.size() == result.plain + result.references + result.diffs);
  for (const heddle_planned& planned : made.packets) {
    if (options.max_kernels != 0) CHECK(planned.kernels <= options.max_kernels);
  }
}

void check_plan(const Kernels& kernels, const heddle_plan_options& options) {
  heddle_table table;
  heddle_table_clear(&table);
  const Plan made = plan(kernels, options, table);
  REQUIRE(made.status == HEDDLE_OK);
  Interpreter interpreter;
  const std::vector<Run> runs = interpret(made, interpreter);
  CHECK(what_is_lost(kernels, runs, options) == "");
  packet::ReferenceTable model;
  check_with_model(made, kernels, model);
  for (std::uint32_t entry = 0; entry < 8; ++entry) {
    REQUIRE(model.valid(entry) == ((table.valid >> entry & 1) != 0));
    if (model.valid(entry)) CHECK(model.at(entry) == as_model(table.entries[entry]));
  }
  check_counts(made, kernels, options);
}

heddle_plan_options random_options(Random& random) {
  heddle_plan_options options{};
  options.costs.plain = random.between(100, 2000);
  options.costs.reference = random.between(100, 2000);
  options.costs.condensed = random.between(100, 2000);
  options.costs.diff = random.below(300);
  options.costs.own_clean_up = random.below(300);
  if (random.chance(20)) options.max_kernels = random.between(1, 10);
  options.serialise = random.chance(50);
  options.overlap = random.chance(30);
  if (random.chance(20)) options.entries = static_cast<std::uint8_t>(random.next());
  options.window = random.between(1, 40);
  options.beam = random.between(1, 6);
  return options;
}

TEST_CASE("a plan runs the kernels that were asked for, in order, with their signals and fences",
          "[driver][PKT-06][PKT-07]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 1500; ++round) {
    const std::uint64_t seed = dice.next();
    CAPTURE(round, seed);
    Random random(seed);
    Wildness wild;
    wild.kinds = random.between(1, 14);
    wild.changes = random.below(60);
    wild.signals = random.below(60);
    wild.scopes = random.below(60);
    wild.unordered = random.chance(50) ? 0 : random.below(101);
    wild.keeps = random.below(40);
    wild.periodic = random.chance(50);
    check_plan(random_list(random, random.between(1, 60), wild), random_options(random));
  }
}

TEST_CASE("with keep_fences every fence stays at its kernel", "[driver][PKT-07]") {
  HEDDLE_RANDOM(dice);
  Random random(dice.next());
  for (int round = 0; round < 200; ++round) {
    heddle_plan_options options = usual_options();
    options.keep_fences = true;
    options.costs.own_clean_up = 0;
    check_plan(random_list(random, 40, {}), options);
  }
}

TEST_CASE("a plan goes on with the table of the plan before", "[driver][PKT-05][PKT-06]") {
  HEDDLE_RANDOM(dice);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t seed = dice.next();
    CAPTURE(round, seed);
    Random random(seed);
    heddle_table table;
    heddle_table_clear(&table);
    Interpreter interpreter;
    packet::ReferenceTable model;
    Wildness wild;
    wild.kinds = random.between(2, 14);
    for (int part = 0; part < 4; ++part) {
      const heddle_plan_options options = random_options(random);
      const Kernels kernels = random_list(random, random.between(1, 30), wild);
      const Plan made = plan(kernels, options, table);
      CHECK(what_is_lost(kernels, interpret(made, interpreter), options) == "");
      check_with_model(made, kernels, model);
    }
  }
}

TEST_CASE("a plan stores only in the entries that it may use", "[driver]") {
  heddle_plan_options options = usual_options();
  options.entries = 0x24;
  heddle_table table;
  heddle_table_clear(&table);
  const Plan made = plan(task_graph(20, false), options, table);
  CHECK(made.result.references >= 2);
  CHECK((table.valid & ~0x24) == 0);
}

TEST_CASE("a signal does not come to apply to another kernel", "[driver][PKT-07]") {
  // The entry of the first kernel has a signal. Later ones like it have none: last of a packet, and within it.
  Kernels kernels(4, {kernel_number(0), HEDDLE_KEEP_NOTHING});
  kernels[0].dispatch.completion_signal = 0x4000;
  heddle_plan_options options = usual_options();
  heddle_table table;
  heddle_table_clear(&table);
  const Plan made = plan(kernels, options, table);
  REQUIRE(made.result.packets == 2);
  Interpreter interpreter;
  const std::vector<Run> runs = interpret(made, interpreter);
  CHECK(runs[0].signal == 0x4000);
  for (std::size_t i = 1; i < 4; ++i) CHECK(runs[i].signal == 0);
  CHECK(made.result.half_words == 1 + 1 + 5);  // the last one clears it
}

TEST_CASE("a signal within a packet does not overtake the releases of kernels before it", "[driver][PKT-04][PKT-07]") {
  Kernels kernels(8, {kernel_number(0), HEDDLE_KEEP_NOTHING});
  for (heddle_kernel& kernel : kernels) {
    kernel.dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_SYSTEM);
  }
  const auto runs_of = [&](Interpreter& interpreter) {
    heddle_table table;
    heddle_table_clear(&table);
    const Plan made = plan(kernels, usual_options(), table);
    REQUIRE(made.result.packets == 2);
    const std::vector<Run> runs = interpret(made, interpreter);
    CHECK(what_is_lost(kernels, runs, usual_options()) == "");
    return runs;
  };
  kernels[4].dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_NONE);
  kernels[4].dispatch.completion_signal = 0x4000;
  Interpreter first;
  std::vector<Run> runs = runs_of(first);
  CHECK(runs[4].signal == 0x4000);
  CHECK(runs[4].release == HEDDLE_FENCE_SYSTEM);
  CHECK(runs[7].release == HEDDLE_FENCE_SYSTEM);

  // What has been released is not released again by the next signal.
  for (std::size_t i = 5; i < 8; ++i) {
    kernels[i].dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_AGENT);
  }
  kernels[6].dispatch.completion_signal = 0x4020;
  Interpreter second;
  runs = runs_of(second);
  CHECK(runs[4].release == HEDDLE_FENCE_SYSTEM);
  CHECK(runs[6].release == HEDDLE_FENCE_AGENT);
  CHECK(runs[7].release == HEDDLE_FENCE_AGENT);
}

TEST_CASE("a signal releases for the kernels that it waits for, and not for those beside it", "[driver][PKT-07]") {
  // The device overlaps the kernels of a packet. Kernel 3 waits; 4 has begun when 3 has, so it is behind what 3 is.
  Kernels kernels(6, {kernel_number(0), HEDDLE_KEEP_NOTHING});
  for (heddle_kernel& kernel : kernels) {
    kernel.dispatch.scopes = HEDDLE_SCOPES(false, HEDDLE_FENCE_NONE, HEDDLE_FENCE_NONE);
  }
  kernels[1].dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_NONE, HEDDLE_FENCE_AGENT);
  kernels[2].dispatch.completion_signal = 0x4000;
  kernels[3].dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_NONE, HEDDLE_FENCE_SYSTEM);
  kernels[4].dispatch.completion_signal = 0x4020;
  heddle_plan_options options = usual_options();
  options.overlap = true;
  heddle_table table;
  heddle_table_clear(&table);
  const Plan made = plan(kernels, options, table);
  REQUIRE(made.result.packets == 2);
  Interpreter interpreter;
  const std::vector<Run> runs = interpret(made, interpreter);
  CHECK(what_is_lost(kernels, runs, options) == "");
  CHECK(runs[2].release == HEDDLE_FENCE_NONE);
  CHECK(runs[4].release == HEDDLE_FENCE_AGENT);
  CHECK(runs[5].release == HEDDLE_FENCE_SYSTEM);
}

TEST_CASE("bad calls of the planner change nothing", "[driver]") {
  Kernels kernels = task_graph(2, false);
  heddle_plan_options options = usual_options();
  heddle_table table;
  heddle_table_clear(&table);
  std::vector<std::uint64_t> workspace(heddle_plan_workspace(12, &options) / 8 + 1);
  std::vector<heddle_planned> packets(12);
  heddle_plan_result result;
  const auto call = [&](void* memory, std::size_t bytes, std::uint32_t capacity) {
    return heddle_plan(kernels.data(), 12, &options, &table, memory, bytes, packets.data(), capacity, &result);
  };
  const std::size_t bytes = workspace.size() * 8;
  CHECK(call(nullptr, bytes, 12) == HEDDLE_INVALID);
  CHECK(call(reinterpret_cast<char*>(workspace.data()) + 4, bytes, 12) == HEDDLE_INVALID);
  CHECK(call(workspace.data(), 100, 12) == HEDDLE_FULL);
  CHECK(call(workspace.data(), bytes, 3) == HEDDLE_FULL);
  kernels[5].dispatch.scopes = 0x18;  // release scope 3
  CHECK(call(workspace.data(), bytes, 12) == HEDDLE_INVALID);
  kernels[5].dispatch.scopes = 0x20;
  CHECK(call(workspace.data(), bytes, 12) == HEDDLE_INVALID);
  CHECK(table.valid == 0);
  options.beam = 65;
  CHECK(heddle_plan_workspace(12, &options) == 0);
  options.beam = 0;
  CHECK(heddle_plan_workspace((1U << 24) + 1, &options) == 0);
  kernels[5].dispatch.scopes = 1;
  CHECK(heddle_plan(kernels.data(), 0, &options, &table, nullptr, 0, nullptr, 0, &result) == HEDDLE_OK);
  CHECK(call(workspace.data(), bytes, 12) == HEDDLE_OK);
  CHECK(table.valid != 0);
}

}  // namespace
}  // namespace heddle::test::driver_plan_test
