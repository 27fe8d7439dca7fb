// Plans keep what was asked for, whatever the list: read back by an interpreter of the tests and by the model.
#include <array>
#include <map>

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

// Objects of kernels, by address: what they say does not change.
const heddle_kernel_object& object_at(std::uint64_t address) {
  static std::map<std::uint64_t, heddle_kernel_object> objects;
  const auto [found, fresh] = objects.emplace(address, heddle_kernel_object{});
  if (!fresh) return found->second;
  Random random(address);
  heddle_kernel_object& object = found->second;
  object.program = random.chance(30) ? 0 : random.between(1, 4);
  object.registers_per_thread = random.between(1, 4) * 8;
  object.static_shared = random.below(3) * 128;
  object.shortest = object.longest = random.chance(70) ? 10 : 20;
  if (random.chance(20)) object.threads_limit = 1024;
  return object;
}

arch::KernelObject model_of(const heddle_kernel_object& object) {
  arch::KernelObject made;
  made.program = object.program;
  made.threads_limit = object.threads_limit;
  made.registers_per_thread = object.registers_per_thread;
  made.static_shared = object.static_shared;
  made.duration = {object.shortest, object.longest};
  return made;
}

arch::DiffFormat model_of(const heddle_diff_format& format) {
  return {format.stored ? arch::DiffOf::stored : arch::DiffOf::packet,
          format.reference_bits == 0 ? 3 : format.reference_bits, format.vector_bits == 0 ? 13 : format.vector_bits};
}

// The same kernel, for the machine: whether it says dimensions or sizes of 1 does not matter.
bool same_kernel(const packet::StoredKernel& made, const heddle_dispatch& wanted) {
  const arch::KernelObject object = model_of(object_at(wanted.kernel_object));
  const arch::KernelShape shape = arch::shape_of(as_model(wanted), object, 0);
  const arch::KernelShape other = arch::shape_of(made.fields, made.object, 0);
  return shape.grid == other.grid && shape.block == other.block && shape.shared_bytes == other.shared_bytes &&
         shape.registers_per_thread == other.registers_per_thread && shape.local_bytes == other.local_bytes &&
         shape.code == other.code && shape.duration.min == other.duration.min &&
         arch::items_of(made.fields).items == arch::items_of(as_model(wanted)).items &&
         made.object.threads_limit == object.threads_limit && made.fields.kernarg == wanted.kernarg;
}

// The model's reading of the same bytes.
void check_with_model(const Plan& made, const Kernels& kernels, packet::ReferenceTable& table,
                      const heddle_diff_format& its_format = {}) {
  const arch::DiffFormat format = model_of(its_format);
  std::size_t at = 0;
  for (const heddle_planned& planned : made.packets) {
    REQUIRE(planned.first == at);
    const arch::PacketBytes bytes = bytes_of(planned.packet);
    if (arch::type_of(bytes) != arch::PacketType::condensed_dispatch) {
      arch::KernelDispatch dispatch;
      const heddle_dispatch& wanted = kernels[at++].dispatch;
      const bool reference = arch::type_of(bytes) == arch::PacketType::reference_dispatch;
      REQUIRE(arch::decode(bytes, dispatch).ok());
      CHECK(dispatch.fields.kernarg == wanted.kernarg);
      if (!reference) continue;
      const arch::KernelObject object = model_of(object_at(wanted.kernel_object));
      arch::KernelShape shape;
      if (format.of == arch::DiffOf::stored) shape = arch::shape_of(dispatch.fields, object, 0);
      table.store(bytes[10], {dispatch.fields, object, shape, {}});
      continue;
    }
    const packet::CondensedKernels expanded =
        packet::expand(packet::read_diffs(bytes, format, table.size()), format.of, table);
    INFO(arch::reason_text(expanded.result.reason));
    REQUIRE(expanded.result.ok());
    REQUIRE(expanded.kernels.size() == planned.kernels);
    for (const packet::CondensedKernel& kernel : expanded.kernels) {
      const heddle_dispatch& wanted = kernels[at++].dispatch;
      CHECK(kernel.signal == wanted.completion_signal);
      if (format.of == arch::DiffOf::stored) {
        CHECK(same_kernel(kernel.kernel, wanted));
        continue;
      }
      arch::DispatchFields fields = kernel.kernel.fields;
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
    if (model.valid(entry)) CHECK(model.at(entry).fields == as_model(table.entries[entry]));
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

// The kernels of a list that can be asked of a machine, with their objects.
Kernels with_objects(Kernels kernels) {
  for (heddle_kernel& kernel : kernels) {
    heddle_dispatch& d = kernel.dispatch;
    for (std::size_t i = 0; i < 3; ++i) d.grid[i] = std::max<std::uint32_t>(d.grid[i], d.workgroup[i]);
    kernel.object = &object_at(d.kernel_object);
    d.group_segment = std::max(d.group_segment, kernel.object->static_shared);
  }
  return kernels;
}

TEST_CASE("plans for devices with other formats of condensed packets", "[driver][PKT-06][PKT-13]") {
  HEDDLE_RANDOM(dice);
  std::array<std::uint64_t, 2> condensed{};
  std::array<std::uint64_t, 2> half_words{};
  for (int round = 0; round < 1000; ++round) {
    const std::uint64_t seed = dice.next();
    CAPTURE(round, seed);
    Random random(seed);
    heddle_plan_options options = random_options(random);
    options.entries = 0;
    options.format.reference_bits = random.between(1, 8);
    options.format.vector_bits = random.between(1, 20);
    options.format.stored = random.chance(50);
    options.table_entries = random.between(1, 32);
    Wildness wild;
    wild.kinds = random.between(1, 40);
    wild.changes = random.below(50);
    wild.periodic = random.chance(50);
    const Kernels kernels = with_objects(random_list(random, random.between(1, 80), wild));
    heddle_table table;
    heddle_table_clear(&table);
    const Plan made = plan(kernels, options, table);
    REQUIRE(made.status == HEDDLE_OK);
    packet::ReferenceTable model(options.table_entries);
    check_with_model(made, kernels, model, options.format);
    check_counts(made, kernels, options);
    for (std::uint32_t entry = 0; entry < 32; ++entry) {
      REQUIRE(model.valid(entry) == ((table.valid >> entry & 1) != 0));
      if (entry >> options.format.reference_bits != 0) REQUIRE_FALSE(model.valid(entry));
    }
    condensed[options.format.stored ? 1 : 0] += made.result.diffs;
    half_words[options.format.stored ? 1 : 0] += made.result.half_words;
  }
  for (const std::uint64_t kernels : condensed) CHECK(kernels > 1000);
  Kernels one{{kernel_number(0), HEDDLE_KEEP_NOTHING, nullptr}};
  heddle_table table;
  heddle_table_clear(&table);
  heddle_plan_options options = usual_options();
  options.format.stored = true;
  CHECK(plan(one, options, table).status == HEDDLE_INVALID);  // without its object
  options.format = {9, 13, false};
  CHECK(plan(one, options, table).status == HEDDLE_INVALID);
  options.format = {3, 25, false};
  CHECK(plan(one, options, table).status == HEDDLE_INVALID);
  options.format = {};
  options.table_entries = 33;
  CHECK(plan(one, options, table).status == HEDDLE_INVALID);
  options.table_entries = 4;
  options.entries = 0xF0;  // of which there are none
  CHECK(plan(one, options, table).status == HEDDLE_INVALID);
}

TEST_CASE("more entries, and diffs of stored information, take fewer half-words where they can", "[driver][PKT-13]") {
  // Twelve kernels in turn, of which eight entries cannot hold all.
  Kernels kernels;
  for (std::uint32_t i = 0; i < 240; ++i) kernels.push_back({kernel_number(i % 12), HEDDLE_KEEP_NOTHING, nullptr});
  kernels = with_objects(kernels);
  const auto half_words = [&](unsigned reference_bits, unsigned entries) {
    heddle_plan_options options = usual_options();
    options.format.reference_bits = reference_bits;
    options.format.vector_bits = 16 - reference_bits;
    options.table_entries = entries;
    heddle_table table;
    heddle_table_clear(&table);
    return plan(kernels, options, table).result.half_words;
  };
  CHECK(half_words(4, 16) < half_words(3, 8));
  // Grids of another y, and another program of the same shape: one half-word and two, where a packet's fields take two
  // and four.
  heddle_kernel_object first{};
  first.program = 1;
  first.registers_per_thread = 32;
  heddle_kernel_object second = first;
  second.program = 2;
  Kernels shapes;
  for (std::uint32_t i = 0; i < 60; ++i) {
    heddle_dispatch d = kernel_number(0);
    d.setup = 2;
    d.grid[1] = 1 + i % 7;
    d.kernel_object += i % 2 == 0 ? 0 : 128;
    shapes.push_back({d, HEDDLE_KEEP_NOTHING, i % 2 == 0 ? &first : &second});
  }
  heddle_plan_options options = usual_options();
  options.entries = 1;
  const auto of = [&](bool stored) {
    options.format.stored = stored;
    heddle_table table;
    heddle_table_clear(&table);
    return plan(shapes, options, table).result;
  };
  CHECK(of(true).packets < of(false).packets);
}

TEST_CASE("a kept acquire comes before its kernel, within its packet", "[driver][PKT-06]") {
  Kernels kernels(6, {kernel_number(0), HEDDLE_KEEP_NOTHING, nullptr});
  kernels[3].keep = HEDDLE_KEEP_ACQUIRE;
  kernels[3].dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_AGENT);
  heddle_table table;
  heddle_table_clear(&table);
  const Plan made = plan(kernels, usual_options(), table);
  CHECK(made.result.packets == 2);  // a reference packet and a condensed one
  Interpreter interpreter;
  const std::vector<Run> runs = interpret(made, interpreter);
  REQUIRE(runs.size() == 6);
  // The others see what those before them in the packet have written.
  for (std::size_t i = 2; i < 6; ++i) CHECK(runs[i].acquire == (i == 3 ? HEDDLE_FENCE_SYSTEM : HEDDLE_FENCE_AGENT));
  CHECK(runs[1].acquire == HEDDLE_FENCE_AGENT);  // no wider than those that are merged
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

TEST_CASE("another kernel at an address of the table is another kernel, if the table is told", "[driver][PKT-05]") {
  const Kernels kernels = task_graph(20, false);
  const heddle_plan_options options = usual_options();
  heddle_table table;
  heddle_table_clear(&table);
  const auto references = [&] { return plan(kernels, options, table).result.references; };
  CHECK(references() == 6);
  CHECK(references() == 0);  // all are there
  heddle_table_forget(&table, kernels[2].dispatch.kernel_object);
  CHECK(references() == 1);
  CHECK(references() == 0);
  heddle_table_forget(&table, 0x7000);  // nobody's
  CHECK(references() == 0);
}

TEST_CASE("a diff of stored information looks at the object, whatever its address says", "[driver][PKT-13]") {
  heddle_kernel_object before{};
  before.program = 1;
  before.registers_per_thread = 32;
  heddle_kernel_object after = before;
  heddle_plan_options options = usual_options();
  options.format.stored = true;
  options.entries = 1;
  const auto second_plan = [&] {
    heddle_table table;
    heddle_table_clear(&table);
    const Kernels first(6, {kernel_number(0), HEDDLE_KEEP_NOTHING, &before});
    REQUIRE(plan(first, options, table).result.condensed > 0);
    Kernels others = first;
    for (heddle_kernel& kernel : others) kernel.object = &after;
    return plan(others, options, table).result;
  };
  CHECK(second_plan().half_words == 6);  // an object with the same contents
  after.registers_per_thread = 48;
  const heddle_plan_result registers = second_plan();
  CHECK((registers.references == 1 || registers.half_words > 6));
  after.registers_per_thread = 32;
  after.threads_limit = 512;  // which no field has
  CHECK(second_plan().references == 1);
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
  Kernels kernels(4, {kernel_number(0), HEDDLE_KEEP_NOTHING, nullptr});
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
  Kernels kernels(8, {kernel_number(0), HEDDLE_KEEP_NOTHING, nullptr});
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
  Kernels kernels(6, {kernel_number(0), HEDDLE_KEEP_NOTHING, nullptr});
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
