// Steps of control flow: what a warp executes next.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/yaml_util.h"
#include "program/step_table.h"

namespace heddle::program {

using arch::LaunchMode;

namespace {

constexpr std::pair<const char*, LaunchMode> kModes[] = {
    {"stream", LaunchMode::stream}, {"fire_and_forget", LaunchMode::fire_and_forget}, {"tail", LaunchMode::tail}};
constexpr std::int32_t kMostPriority = 1000;
constexpr const char* kBarrierLevelNames[arch::kBarrierLevels] = {"gpc", "ugpu", "gpu"};

const char* mode_name(LaunchMode mode) { return kModes[static_cast<std::size_t>(mode)].first; }

// The list behind `key`, of at most `most` values of 64 bits; without the key nothing.
void read_words(ProgramBuilder& program, const MapReader& map, const char* key, std::size_t most, ProgramStep& step,
                ChildStep& child) {
  if (!map.has(key)) return;
  const std::vector<YAML::Node> items = map.items(key);
  if (items.empty() || items.size() > most) map.fail(key, fmt::format("{} values, of 1 to {}", items.size(), most));
  for (const YAML::Node& item : items) {
    const ProgramValue made = program.value(map, key, item);
    program.read(step, made);
    child.values.push_back(made);
  }
}

void read_grid(ProgramBuilder& program, const MapReader& map, ProgramStep& step, ChildStep& child) {
  if (!map.has("grid")) return;
  arch::ChildLaunch& launch = child.launch;
  const std::vector<YAML::Node> items = map.items("grid");
  if (items.empty() || items.size() > 3) {
    map.fail("grid", fmt::format("one to three numbers are expected, found {}", items.size()));
  }
  launch.grid_x = launch.grid_y = launch.grid_z = 1;
  constexpr std::uint32_t kMost[] = {arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ};
  for (std::size_t axis = 0; axis < items.size(); ++axis) {
    const std::uint32_t made = program.expression(map, "grid", items[axis]);
    const Expression& extent = program.at(made).expression;
    if (extent.constant() && !(extent.value() >= 1 && extent.value() < kMost[axis] + 1.0)) {
      map.fail("grid", items[axis], fmt::format("{} CTAs, of 1 to {}", extent.value(), kMost[axis]));
    }
    program.read(step, made);
    child.grid[axis] = made;
  }
}

// The queue that `key` names.
const workload::MemoryRegion& read_queue(ProgramBuilder& program, const MapReader& map, const char* key) {
  const std::string name = map.name(key);
  const workload::MemoryRegion* queue = program.names().queue(name);
  if (queue != nullptr) return *queue;
  throw InputError(map.where(key), fmt::format("{}: there is no queue {}", map.thing(), name),
                   "describe it in the list `queues`: {name: work, capacity: 1024}");
}

// Its CTAs are those of the queue, and so are their arguments.
void read_queue_task(ProgramBuilder& program, const MapReader& map, const LaunchTarget& target,
                     arch::ChildLaunch& launch) {
  if (!map.has("queue")) {
    if (map.has("open")) map.fail("open", "only a launch with `queue` can be held open");
    return;
  }
  for (const char* key : {"grid", "args"}) {
    if (map.has(key))
      map.fail(key, "the CTAs of a queue task, and what they find at `kernarg`, are those of its queue");
  }
  if (!target.program) {
    throw InputError(
        map.where("kernel"),
        fmt::format("{}: kernel {} has no program, and could not read its entries", map.thing(), map.name("kernel")),
        "give it a program instead of `cycles`; an entry lies at `kernarg`");
  }
  if (target.clusters) map.fail("queue", "its kernel has clusters; the CTAs of entries start one by one");
  const workload::MemoryRegion& queue = read_queue(program, map, "queue");
  launch.queue = queue.address;
  launch.entries = queue.contents.entries.size();
  launch.held_open = map.has("open") && map.flag("open");
}

// Handles and streams, 64 bits each.
void store_words(ProgramBuilder& program, ProgramStep& step, const std::vector<ProgramValue>& values) {
  for (const ProgramValue& value : values) {
    step.values.push_back(value);
    program.read(step, value);
  }
  step.element = arch::ValueType::u64;
  step.width = static_cast<std::uint8_t>(8 * values.size());
  step.fields |= kStored;
}

}  // namespace

void compile_let(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  for (const auto& entry : map.node("let")) {
    const std::string& name = entry.first.Scalar();
    // Nothing evaluates it: it goes into the expressions that name it.
    NamedValue value = program.take_named(program.expression(map, "let", entry.second));
    program.names().let(name, position(entry.first, program.file()), std::move(value));
  }
}

// The counter and its limit stand in two scalars.
void compile_loop(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  ProgramStep begin = program.make_control(StepKind::loop_begin, "loop", map.where());
  begin.at = map.has("from") ? program.uniform(map, "from") : program.constant(0);
  begin.to = program.uniform(map, "to");
  if (map.has("step")) begin.increment = map.number<std::int64_t>("step", {Unit::none, -1'000'000'000, 1'000'000'000});
  if (begin.increment == 0) map.fail("step", "a loop with step 0 never ends");
  program.names().open();
  begin.scalar = program.names().loop(map.name("var"), map.where("var"));
  ProgramStep end = program.make_control(StepKind::loop_end, "loop", map.where());
  end.scalar = begin.scalar;
  end.increment = begin.increment;
  const std::uint32_t at = program.add(std::move(begin));
  end.target = at + 1;
  program.block(map.node("do"), map.thing() + ", do");
  program.names().close();
  program.add(std::move(end));
  program.jump_here(at);
}

void compile_while(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  ProgramStep begin = program.make_control(StepKind::while_begin, "while", map.where());
  begin.scalar = program.names().scalars(1);
  ProgramStep test = program.make_control(StepKind::while_test, "while", map.where());
  test.scalar = begin.scalar;
  test.at = program.expression(map, "cond");
  test.free = false;  // so that no loop runs without an instruction
  program.read(test, test.at);
  ProgramStep back = program.make_control(StepKind::while_end, "while", map.where());
  program.add(std::move(begin));
  back.target = program.add(std::move(test));
  const std::uint32_t at = back.target;
  program.block(map.node("do"), map.thing() + ", do");
  program.add(std::move(back));
  program.jump_here(at);
}

void compile_if(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  ProgramStep begin = program.make_control(StepKind::if_begin, "if", map.where());
  begin.at = program.expression(map, "cond");
  begin.free = program.at(begin.at).uniform();
  begin.scalar = program.names().scalars(2);
  program.read(begin, begin.at);
  ProgramStep other = program.make_control(StepKind::if_else, "else", map.where());
  ProgramStep end = program.make_control(StepKind::if_end, "if", map.where());
  other.scalar = end.scalar = begin.scalar;
  const std::uint32_t at = program.add(std::move(begin));
  program.block(map.node("then"), map.thing() + ", then");
  const std::uint32_t middle = program.here();
  program.jump_here(at);
  program.add(std::move(other));
  if (map.has("else")) program.block(map.node("else"), map.thing() + ", else");
  program.jump_here(middle);
  program.add(std::move(end));
}

void compile_roles(ProgramBuilder& program, const StepSource& source) {
  // A block that large has no machine; the machine says so later.
  const std::uint64_t warps =
      std::min<std::uint64_t>((program.kernel().block.count() + arch::kWarpLanes - 1) / arch::kWarpLanes, 1U << 30);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> taken;
  std::vector<std::uint32_t> jumps;
  for (const YAML::Node& node : source.map.items("roles")) {
    const MapReader map(node, role_spec(), program.thing() + ", role", program.file());
    const std::vector<YAML::Node> items = map.items("warps");
    if (items.empty() || items.size() > 2) map.fail("warps", "a warp, or the first and the last, are expected");
    const Limits<std::uint32_t> limits{Unit::none, 0, static_cast<std::uint32_t>(warps - 1)};
    const auto first = map.number<std::uint32_t>("warps", items.front(), limits);
    const auto last = map.number<std::uint32_t>("warps", items.back(), limits);
    if (first > last) map.fail("warps", "the first is behind the last");
    for (const auto& [from, to] : taken) {
      if (first <= to && from <= last) map.fail("warps", "a warp of these has another role already");
    }
    taken.emplace_back(first, last);
    ProgramStep role = program.make_control(StepKind::role, "role", map.where());
    role.first_warp = first;
    role.last_warp = last;
    const std::uint32_t at = program.add(std::move(role));
    program.block(map.node("do"), map.thing() + ", do");
    jumps.push_back(program.add(program.make_control(StepKind::jump, "role", map.where())));
    program.jump_here(at);
  }
  if (jumps.empty()) source.map.fail("roles", "the list is empty");
  for (const std::uint32_t jump : jumps) program.jump_here(jump);
}

void compile_exit(ProgramBuilder& program, const StepSource& source) {
  program.add(program.make_control(StepKind::leave, source.row.name, source.where));
}

std::optional<arch::CgaLevel> read_cga_level(const ProgramBuilder& program, const MapReader& map, const char* key) {
  if (!map.has(key)) return std::nullopt;
  const std::string word = map.choice(key);
  for (std::size_t index = 0; index < arch::kBarrierLevels; ++index) {
    const arch::CgaLevel level = arch::barrier_level(index);
    if (word != kBarrierLevelNames[index]) continue;
    if (program.kernel().cluster.has(level)) return level;
    map.fail(key, fmt::format("the kernel has no {}", arch::cga_name(level)));
  }
  return std::nullopt;
}

void compile_cluster_barrier(ProgramBuilder& program, const StepSource& source) {
  const std::optional<arch::CgaLevel> level = read_cga_level(program, source.map, "level");
  ProgramStep arrive = program.make(StepKind::operation, arch::OpCode::cluster_arrive, source.row.name, source.where);
  arrive.order = arch::Order::release;
  arrive.scope = arch::Scope::cluster;
  arrive.cga_level = level;
  program.add(std::move(arrive));
  ProgramStep wait = program.make(StepKind::operation, arch::OpCode::cluster_wait, source.row.name, source.where);
  wait.order = arch::Order::acquire;
  wait.scope = arch::Scope::cluster;
  wait.cga_level = level;
  program.add(std::move(wait));
}

namespace {

// A barrier of the whole CTA.
void add_cta_barrier(ProgramBuilder& program, const StepSource& source) {
  ProgramStep step = program.make(StepKind::operation, arch::OpCode::barrier, source.row.name, source.where);
  step.to = program.constant(0);
  step.fields |= kBarrier;
  step.count = 0;
  program.add(std::move(step));
}

void add_gpu_fence(ProgramBuilder& program, const StepSource& source) {
  ProgramStep step = program.make(StepKind::operation, arch::OpCode::fence, "the fence of grid_barrier", source.where);
  step.order = arch::Order::acquire_release;
  step.scope = arch::Scope::gpu;
  program.add(std::move(step));
}

// An access to the word of a grid barrier, whose result goes to that name.
ProgramStep word_access(ProgramBuilder& program, const StepSource& source, arch::OpCode code, const char* text,
                        const std::string& to) {
  ProgramStep step = program.make(StepKind::operation, code, text, source.where);
  step.at = program.uniform(source.map, "at");
  program.read(step, step.at);
  step.fields |= kAddress;
  step.order = arch::Order::relaxed;
  step.scope = arch::Scope::gpu;
  step.element = step.type = arch::ValueType::u32;
  step.width = 4;
  step.destination = program.names().together({to}, arch::ValueType::u32, source.where).front().first;
  step.demand.writes.push_back({step.destination, 1});
  return step;
}

}  // namespace

// One thread of each CTA adds to a word: CTA 0 what brings the sum of all to 2^31, so that the highest bit turns over
// once all have arrived, and each of the others 1. So the word can be used again at once, whatever it holds.
void compile_grid_barrier(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  if (!program.kernel().cooperative) {
    throw InputError(
        source.where,
        fmt::format("{}: a kernel whose CTAs need not all be on the machine cannot wait for them", map.thing()),
        "give the kernel `cooperative: true`");
  }
  const std::string before = "_grid_barrier_before";
  const std::string now = "_grid_barrier_now";
  add_cta_barrier(program, source);

  ProgramStep first = program.make_control(StepKind::if_begin, source.row.name, source.where);
  first.at = program.expression(map, "at", YAML::Node("thread == 0"));
  first.scalar = program.names().scalars(2);
  program.read(first, first.at);
  ProgramStep others = program.make_control(StepKind::if_else, source.row.name, source.where);
  ProgramStep end = program.make_control(StepKind::if_end, source.row.name, source.where);
  others.scalar = end.scalar = first.scalar;
  const std::uint32_t at_first = program.add(std::move(first));
  program.names().open();
  add_gpu_fence(program, source);
  ProgramStep arrive = word_access(program, source, arch::OpCode::atomic, "the arrival at grid_barrier", before);
  arrive.atomic = arch::AtomicKind::add;
  arrive.values.push_back(program.value(map, "at", YAML::Node("cta == 0 ? 2147483649 - grid : 1")));
  program.read(arrive, arrive.values.front());
  arrive.fields |= kStored;
  program.add(std::move(arrive));

  // As `while`, but for a load before the first test.
  const auto look = [&] {
    program.add(
        word_access(program, source, arch::OpCode::load, "grid_barrier, whose last CTAs have not arrived", now));
  };
  look();
  ProgramStep begin = program.make_control(StepKind::while_begin, source.row.name, source.where);
  begin.scalar = program.names().scalars(1);
  ProgramStep test = program.make_control(StepKind::while_test, source.row.name, source.where);
  test.scalar = begin.scalar;
  test.at = program.expression(map, "at", YAML::Node(fmt::format("(({} xor {}) & 2147483648) == 0", before, now)));
  test.free = false;
  program.read(test, test.at);
  ProgramStep back = program.make_control(StepKind::while_end, source.row.name, source.where);
  program.add(std::move(begin));
  const std::uint32_t at_test = program.add(std::move(test));
  back.target = at_test;
  look();
  program.add(std::move(back));
  program.jump_here(at_test);
  add_gpu_fence(program, source);
  program.names().close();

  const std::uint32_t middle = program.here();
  program.jump_here(at_first);
  program.add(std::move(others));
  program.jump_here(middle);
  program.add(std::move(end));
  add_cta_barrier(program, source);
}

// Steps that launch tasks, and feed queues.

bool reads_head(const MapReader& map) { return map.has("insert") && map.choice("insert") == "head"; }

void compile_launch(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const LaunchTarget& target = program.launched(map, "kernel");
  ProgramStep made = program.make(StepKind::operation, source.row.code, "launch " + map.name("kernel"), map.where());
  ChildStep child;
  arch::ChildLaunch& launch = child.launch;
  launch.kernel = target.address;
  launch.grid_x = target.grid.x;
  launch.grid_y = target.grid.y;
  launch.grid_z = target.grid.z;
  if (map.has("mode")) launch.mode = chosen(map, "mode", LaunchMode::tail, mode_name);
  if (map.has("priority")) {
    launch.priority = map.number<std::int32_t>("priority", {Unit::none, -kMostPriority, kMostPriority});
  }
  launch.head = reads_head(map);
  read_queue_task(program, map, target, launch);
  read_grid(program, map, made, child);
  if (map.has("stream")) {
    if (launch.mode != LaunchMode::stream) {
      map.fail("stream", fmt::format("a launch of mode {} enters no stream", mode_name(launch.mode)));
    }
    child.stream = program.expression(map, "stream");
    program.read(made, *child.stream);
  }
  read_words(program, map, "args", arch::kChildArgs, made, child);
  if (map.has("to")) {
    const ProgramVariable handle =
        program.names().together({map.text("to")}, arch::ValueType::u64, map.where("to")).front();
    made.destination = handle.first;
    made.demand.writes.push_back(handle.range());
  }
  made.child = program.add(std::move(child));
  program.add(std::move(made));
}

// Alone it waits for all.
void compile_wait_children(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  ProgramStep made = program.make(StepKind::operation, source.row.code, source.row.name, source.where);
  const auto wait = [&](const char* key, arch::ChildWait kind) {
    if (!map.has(key)) return;
    if (made.wait != arch::ChildWait::all) map.fail(key, "a wait is for a stream or for a launch, not for both");
    made.wait = kind;
    store_words(program, made, {program.value(map, key, map.node(key))});
  };
  wait("stream", arch::ChildWait::stream);
  wait("launch", arch::ChildWait::launch);
  program.add(std::move(made));
}

void compile_append(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const std::uint64_t queue = read_queue(program, map, "queue").address;
  ProgramStep made = program.make(StepKind::operation, source.row.code, "append " + map.name("queue"), map.where());
  ChildStep child;
  child.queue = queue;
  read_words(program, map, "value", arch::kQueueEntryWords, made, child);
  made.child = program.add(std::move(child));
  program.add(std::move(made));
}

void compile_queue_close(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const char* key = source.row.name;
  ChildStep child;
  child.queue = read_queue(program, map, key).address;
  ProgramStep made =
      program.make(StepKind::operation, source.row.code, fmt::format("{} {}", key, map.name(key)), source.where);
  made.child = program.add(std::move(child));
  program.add(std::move(made));
}

void compile_event_create(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const char* key = source.row.name;
  ProgramStep made = program.make(StepKind::operation, source.row.code, key, source.where);
  const ProgramVariable handle =
      program.names().together({map.text(key)}, arch::ValueType::u64, map.where(key)).front();
  made.destination = handle.first;
  made.demand.writes.push_back(handle.range());
  program.add(std::move(made));
}

void compile_event_destroy(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  const char* key = source.row.name;
  ProgramStep made = program.make(StepKind::operation, source.row.code, key, source.where);
  store_words(program, made, {program.value(map, key, map.node(key))});
  program.add(std::move(made));
}

void compile_event_mark(ProgramBuilder& program, const StepSource& source) {
  const MapReader& map = source.map;
  ProgramStep made = program.make(StepKind::operation, source.row.code, source.row.name, source.where);
  const YAML::Node stream = map.has("stream") ? map.node("stream") : YAML::Node(0);
  store_words(program, made, {program.value(map, "event", map.node("event")), program.value(map, "stream", stream)});
  program.add(std::move(made));
}

}  // namespace heddle::program
