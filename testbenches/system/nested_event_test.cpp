// Events of device code, and queue tasks that it launches, on the whole machine: what a program makes streams wait for
// is over before what comes behind it begins, and a queue task ends when it is closed and empty.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/kernel_object.h"
#include "support/gpu_lab.h"
#include "support/list_program.h"
#include "support/random.h"

namespace system_nested_event_test {

using namespace heddle;
using namespace heddle::test;
using arch::LaunchMode;
using arch::OpCode;

namespace {

constexpr std::uint64_t kObject = 0x10'0000;
constexpr std::uint64_t kTickets = 0x10'0200;
constexpr std::uint64_t kSeen = 0x10'0300;
constexpr std::uint64_t kNotes = 0x20'0000;  // begin and end of each child, u32 each
constexpr std::uint64_t kQueue = 0x40'0000;
constexpr std::uint64_t kEntries = 0x41'0000;

ListProgram::Access strong() {
  ListProgram::Access access;
  access.lanes = ListProgram::only(0);
  access.order = arch::Order::relaxed;
  return access;
}

// Takes a ticket, from 1 on, into register 0 and adds it up there: what is there once is the ticket, what is there
// twice is none.
void ticket(ListProgram& p, const ListProgram::Address& to, const ListProgram::Reads& reads) {
  p.atomic(strong(), arch::AtomicKind::add, arch::ValueType::u32, 0, ListProgram::constant(1),
           ListProgram::linear(kTickets, 0));
  ListProgram::Reads all = reads;
  all.push_back({0, 1});
  p.atomic(
      strong(), arch::AtomicKind::add, arch::ValueType::u32, 1,
      [](const Warp& w, std::uint32_t) { return std::uint64_t{w.reg(0, 0)} + 1; }, to, all);
}

// Notes when it began and when it ended.
std::shared_ptr<const arch::WarpProgram> child_program(std::uint32_t work) {
  auto made = std::make_shared<ListProgram>(8);
  ListProgram& p = *made;
  const auto note = [](std::uint32_t field) {
    return [field](const Warp& w, std::uint32_t) { return kNotes + 8 * std::uint64_t{w.reg(2, 0)} + 4 * field; };
  };
  p.load(strong(), 2, [](const Warp& w, std::uint32_t) { return w.place.kernarg; });
  ticket(p, note(0), {{2, 1}});
  p.compute(arch::Unit::int32, work);
  p.atomic(strong(), arch::AtomicKind::add, arch::ValueType::u32, 3, ListProgram::constant(0),
           ListProgram::linear(kTickets, 0));
  ticket(p, note(1), {{2, 1}, {3, 1}});
  p.exit();
  return made;
}

void make_object(GpuLab& lab, std::uint32_t program) {
  arch::KernelObject object;
  object.program = program;
  object.registers_per_thread = 16;
  object.name = "child";
  const arch::KernelObjectBytes bytes = arch::encode(object);
  REQUIRE(lab.gpu.memory().write(kObject, bytes.data(), bytes.size()));
}

struct Step {
  enum class Kind : std::uint8_t { launch, record, wait, renew };
  Kind kind = Kind::launch;
  std::uint32_t stream = 0;
  std::uint32_t event = 0;
  std::uint32_t child = 0;
};

struct Script {
  std::uint32_t streams = 1;
  std::uint32_t events = 1;
  std::uint32_t children = 0;
  std::vector<Step> steps;
};

Script random_script(Random& random) {
  Script script;
  script.streams = random.between(2, 8);
  script.events = random.between(1, 3);
  for (std::uint32_t i = random.between(25, 60); i > 0; --i) {
    Step step;
    const std::uint32_t kind = random.below(100);
    step.kind = kind < 35   ? Step::Kind::launch
                : kind < 65 ? Step::Kind::record
                : kind < 94 ? Step::Kind::wait
                            : Step::Kind::renew;
    step.stream = random.below(script.streams);
    step.event = random.below(script.events);
    if (step.kind == Step::Kind::launch) step.child = script.children++;
    script.steps.push_back(step);
  }
  return script;
}

// Registers: 2-9 streams (0 is the first), from 10 on the handles of events.
std::shared_ptr<const arch::WarpProgram> parent_program(const Script& script) {
  auto made = std::make_shared<ListProgram>(10 + 2 * script.events);
  ListProgram& p = *made;
  const auto stream_in = [](std::uint32_t stream) { return static_cast<std::uint16_t>(2 + stream); };
  const auto event_in = [](std::uint32_t event) { return static_cast<std::uint16_t>(10 + 2 * event); };
  for (std::uint32_t i = 1; i < script.streams; ++i) p.stream_create(stream_in(i));
  for (std::uint32_t i = 0; i < script.events; ++i) p.event_create(event_in(i));
  for (const Step& step : script.steps) {
    const std::uint16_t s = stream_in(step.stream);
    const std::uint16_t e = event_in(step.event);
    const auto stream = [=](const Warp& w, std::uint32_t) {
      return step.stream == 0 ? std::uint64_t{0} : std::uint64_t{w.reg(s, 0)};
    };
    const auto event = [=](const Warp& w, std::uint32_t) {
      return w.reg(e, 0) | std::uint64_t{w.reg(static_cast<std::uint16_t>(e + 1), 0)} << 32;
    };
    const ListProgram::Reads reads = {{s, 1}, {e, 2}};
    switch (step.kind) {
      case Step::Kind::launch:
        p.launch_child(
            [=](const Warp& w, std::uint32_t lane) {
              arch::ChildLaunch launch;
              launch.kernel = kObject;
              launch.stream = static_cast<std::uint32_t>(stream(w, lane));
              launch.args[0] = step.child;
              return launch;
            },
            reads);
        break;
      case Step::Kind::record:
        p.event(OpCode::event_record, event, stream, reads);
        break;
      case Step::Kind::wait:
        p.event(OpCode::stream_wait, event, stream, reads);
        break;
      case Step::Kind::renew:  // what waits for it goes on waiting
        p.event(OpCode::event_destroy, event, ListProgram::constant(0), reads);
        p.event_create(e);
        break;
    }
  }
  p.exit();
  return made;
}

// What has to be over before each child begins, as CUDA says it: what its stream had before it, and what the stream of
// an event that its stream waits for had before the event was recorded last.
std::vector<std::set<std::uint32_t>> before(const Script& script) {
  std::vector<std::set<std::uint32_t>> streams(script.streams);
  std::vector<std::set<std::uint32_t>> events(script.events);
  std::vector<std::set<std::uint32_t>> result(script.children);
  for (const Step& step : script.steps) {
    std::set<std::uint32_t>& stream = streams[step.stream];
    std::set<std::uint32_t>& event = events[step.event];
    switch (step.kind) {
      case Step::Kind::launch:
        result[step.child] = stream;
        stream.insert(step.child);
        break;
      case Step::Kind::record:
        event = stream;
        break;
      case Step::Kind::wait:
        stream.insert(event.begin(), event.end());
        break;
      case Step::Kind::renew:
        event.clear();
        break;
    }
  }
  return result;
}

}  // namespace

TEST_CASE("streams that wait for events: children begin behind what a plain list says, and none is lost",
          "[system][TSK-08][TSK-10][TSK-11]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  double awaited = 0;
  std::uint32_t beside = 0;  // pairs of children that ran at the same time
  for (const std::uint64_t round : seeds(25)) {
    CAPTURE(round, timing);
    Random random(round);
    std::vector<std::string> sets = {"gpu.timing=" + timing, "gpu.sm.nested.launch_instructions=4",
                                     "gpu.sm.nested.save_delay=200",
                                     fmt::format("gpu.task.nested.in_flight={}", random.between(1, 8)),
                                     fmt::format("gpu.task.nested.tmdqs={}", random.between(1, 10))};
    if (random.chance(30)) sets.emplace_back("gpu.task.nested.shared_by=grid");
    const Script script = random_script(random);
    SimFixture fixture;
    GpuLab lab(preset_params("small", sets));
    const auto parent = lab.packet(parent_program(script), {1, 1, 1}, {32, 1, 1});
    const auto child = lab.packet(child_program(random.between(1, 40'000)), {1, 1, 1}, {32, 1, 1});
    make_object(lab, child.kernel.code);
    const std::uint32_t operation = lab.submit(parent);
    run_until_idle();
    REQUIRE(lab.gpu.log().faults().empty());
    REQUIRE(lab.host.results.count(operation) == 1);
    std::vector<std::uint32_t> begin;
    std::vector<std::uint32_t> end;
    for (std::uint32_t i = 0; i < script.children; ++i) {
      begin.push_back(lab.read<std::uint32_t>(kNotes + 8 * std::uint64_t{i}));
      end.push_back(lab.read<std::uint32_t>(kNotes + 8 * std::uint64_t{i} + 4));
    }
    std::set<std::uint32_t> tickets(begin.begin(), begin.end());
    tickets.insert(end.begin(), end.end());
    CHECK(tickets.size() == 2 * std::size_t{script.children});  // each ran once
    CHECK((tickets.empty() || *tickets.rbegin() == 2 * script.children));
    const auto all = before(script);
    for (std::uint32_t i = 0; i < script.children; ++i) {
      for (const std::uint32_t first : all[i]) {
        CAPTURE(i, first);
        CHECK(begin[i] > end[first]);
      }
      for (std::uint32_t j = 0; j < i; ++j) beside += begin[i] < end[j] && begin[j] < end[i] ? 1 : 0;
    }
    awaited += lab.stat("task.event_waits");
    lab.gpu.check_quiescent();
  }
  CHECK(awaited > 20);
  CHECK(beside > 20);
}

TEST_CASE("a wait for an event that was never recorded does not wait", "[system][TSK-11]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  const bool recorded = GENERATE(false, true);
  Script script;
  script.streams = 2;
  script.steps = {{Step::Kind::launch, 0, 0, 0}, {Step::Kind::wait, 1, 0, 0}, {Step::Kind::launch, 1, 0, 1}};
  if (recorded) script.steps.insert(script.steps.begin() + 1, {Step::Kind::record, 0, 0, 0});
  script.children = 2;
  SimFixture fixture;
  GpuLab lab(preset_params("small", {"gpu.timing=" + timing}));
  const auto parent = lab.packet(parent_program(script), {1, 1, 1}, {32, 1, 1});
  make_object(lab, lab.packet(child_program(50'000), {1, 1, 1}, {32, 1, 1}).kernel.code);
  lab.submit(parent);
  run_until_idle();
  const auto note = [&lab](std::uint32_t child, std::uint32_t field) {
    return lab.read<std::uint32_t>(kNotes + 8 * std::uint64_t{child} + 4 * field);
  };
  CHECK((note(1, 0) > note(0, 1)) == recorded);
  CHECK(lab.stat("task.event_waits") == (recorded ? 1 : 0));
  lab.gpu.check_quiescent();
}

TEST_CASE("an event that is destroyed may not be used any more", "[system][TSK-11]") {
  const OpCode code = GENERATE(OpCode::event_record, OpCode::stream_wait, OpCode::event_destroy);
  SimFixture fixture;
  GpuLab lab(preset_params("small"));
  auto made = std::make_shared<ListProgram>(8);
  const auto event = [](const Warp& w, std::uint32_t) { return w.reg(2, 0) | std::uint64_t{w.reg(3, 0)} << 32; };
  made->event_create(2);
  made->event(OpCode::event_destroy, event, ListProgram::constant(0), {{2, 2}});
  made->event(code, event, ListProgram::constant(0), {{2, 2}});
  made->store(strong(), ListProgram::constant(1), ListProgram::linear(kSeen, 0));
  made->exit();
  const std::uint32_t operation = lab.run(made, {1, 1, 1}, {32, 1, 1});
  REQUIRE(lab.gpu.log().faults().size() == 1);
  CHECK(lab.gpu.log().faults()[0].kind == arch::FaultKind::child);
  CHECK(lab.gpu.log().faults()[0].operation == code);
  CHECK(lab.host.results.at(operation).status == protocol::DoneStatus::faulted);
  CHECK(lab.read<std::uint32_t>(kSeen) == 0);
  lab.gpu.check_quiescent();
}

namespace {

// A queue without entries.
void make_queue(GpuLab& lab, std::uint64_t capacity) {
  lab.write(kQueue + arch::queue::kCapacity, capacity);
  lab.write(kQueue + arch::queue::kEntries, kEntries);
}

arch::ChildLaunch queue_task(bool held_open) {
  arch::ChildLaunch launch;
  launch.kernel = kObject;
  launch.queue = kQueue;
  launch.held_open = held_open;
  return launch;
}

// Appends the numbers from `first` on.
void append(ListProgram& p, std::uint32_t first, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    p.queue_append([number = first + i](const Warp&, std::uint32_t) {
      arch::QueueAppend entry;
      entry.queue = kQueue;
      entry.data[0] = number;
      return entry;
    });
  }
}

}  // namespace

TEST_CASE("a queue task that a program launches runs every entry once, and ends when it is closed and empty",
          "[system][TSK-01][TSK-05][TSK-10]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  const bool before_task = GENERATE(false, true);  // entries, and the close, come before the launch
  const bool shared = GENERATE(false, true);
  constexpr std::uint32_t kCount = 9;
  SimFixture fixture;
  std::vector<std::string> sets = {"gpu.timing=" + timing, "gpu.sm.nested.save_delay=200"};
  if (shared) sets.emplace_back("gpu.task.nested.shared_by=grid");
  GpuLab lab(preset_params("small", sets));
  make_queue(lab, before_task ? 16 : 2);
  auto parent = std::make_shared<ListProgram>(8);
  if (before_task) {
    append(*parent, 0, kCount);
    parent->queue_close(kQueue);
    parent->launch_child([](const Warp&, std::uint32_t) { return queue_task(true); });
  } else {
    parent->launch_child([](const Warp&, std::uint32_t) { return queue_task(true); });
    append(*parent, 0, 4);
    parent->compute(arch::Unit::int32, 20'000);
    append(*parent, 4, kCount - 4);
    parent->queue_close(kQueue);
  }
  // Behind it in its stream.
  parent->launch_child([](const Warp&, std::uint32_t) {
    arch::ChildLaunch launch;
    launch.kernel = kObject;
    launch.args[0] = kCount;
    return launch;
  });
  parent->wait_children();
  ticket(*parent, ListProgram::linear(kSeen, 0), {});
  parent->exit();
  const auto packet = lab.packet(parent, {1, 1, 1}, {32, 1, 1});
  make_object(lab, lab.packet(child_program(500), {1, 1, 1}, {32, 1, 1}).kernel.code);
  lab.submit(packet);
  run_until_idle();
  REQUIRE(lab.gpu.log().faults().empty());
  REQUIRE(lab.host.results.at(packet.operation).status == protocol::DoneStatus::ok);
  std::set<std::uint32_t> tickets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const std::uint32_t begin = lab.read<std::uint32_t>(kNotes + 8 * std::uint64_t{i});
    const std::uint32_t end = lab.read<std::uint32_t>(kNotes + 8 * std::uint64_t{i} + 4);
    CHECK(begin < end);
    tickets.insert({begin, end});
    last = std::max(last, end);
  }
  CHECK(tickets.size() == 2 * kCount);
  CHECK(last == 2 * kCount);
  CHECK(lab.read<std::uint32_t>(kNotes + 8 * std::uint64_t{kCount}) == last + 1);
  CHECK(lab.read<std::uint32_t>(kSeen) == 2 * kCount + 3);
  CHECK(lab.read<std::uint64_t>(kQueue + arch::queue::kTickets) == (arch::kQueueClosed | kCount));
  CHECK(lab.stat("task.children") == 2);
  lab.gpu.check_quiescent();
}

TEST_CASE("a queue that is closed, or that a task has, takes no other task", "[system][TSK-05]") {
  SimFixture fixture;
  GpuLab lab(preset_params("small"));
  make_queue(lab, 4);
  auto parent = std::make_shared<ListProgram>(4);
  SECTION("closed by the end of its task") {
    parent->launch_child([](const Warp&, std::uint32_t) { return queue_task(false); });
    parent->wait_children();
    parent->launch_child([](const Warp&, std::uint32_t) { return queue_task(false); });
  }
  SECTION("closed twice") {
    parent->launch_child([](const Warp&, std::uint32_t) { return queue_task(true); });
    parent->queue_close(kQueue);
    parent->wait_children();
    parent->queue_close(kQueue);
  }
  parent->exit();
  make_object(lab, lab.packet(child_program(5), {1, 1, 1}, {32, 1, 1}).kernel.code);
  const std::uint32_t operation = lab.run(parent, {1, 1, 1}, {32, 1, 1});
  REQUIRE(lab.gpu.log().faults().size() == 1);
  CHECK(lab.gpu.log().faults()[0].kind == arch::FaultKind::queue_closed);
  CHECK(lab.gpu.log().faults()[0].address == kQueue);
  CHECK(lab.host.results.at(operation).status == protocol::DoneStatus::faulted);
  lab.gpu.check_quiescent();
}

TEST_CASE("of two tasks that want one queue at the same time the second one is refused, with what it is",
          "[system][TSK-05]") {
  SimFixture fixture;
  GpuLab lab(preset_params("small"));
  make_queue(lab, 4);
  auto parent = std::make_shared<ListProgram>(4);
  for (std::uint32_t i = 0; i < 2; ++i) {
    parent->launch_child([](const Warp&, std::uint32_t) {
      arch::ChildLaunch launch = queue_task(true);
      launch.mode = LaunchMode::fire_and_forget;
      return launch;
    });
  }
  parent->compute(arch::Unit::int32, 20'000);
  append(*parent, 0, 3);
  parent->queue_close(kQueue);
  parent->exit();
  make_object(lab, lab.packet(child_program(5), {1, 1, 1}, {32, 1, 1}).kernel.code);
  lab.run(parent, {1, 1, 1}, {32, 1, 1});
  REQUIRE(lab.gpu.log().faults().size() == 1);
  CHECK(lab.gpu.log().faults()[0].kind == arch::FaultKind::child);
  CHECK(lab.gpu.log().faults()[0].where.find("another task has it") != std::string::npos);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(lab.read<std::uint32_t>(kNotes + 8 * std::uint64_t{i} + 4) > 0);
  CHECK(lab.read<std::uint64_t>(kQueue + arch::queue::kTickets) == (arch::kQueueClosed | 3));
  lab.gpu.check_quiescent();
}

}  // namespace system_nested_event_test
