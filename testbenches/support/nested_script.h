// Random programs of tasks that launch tasks, and a sequential reference for them.
//
// A Script is a forest of tasks. Every warp of every CTA of a task is an actor with steps of its own: launches of all
// modes, streams that come and go, waits for all tasks, for a stream or for a launch, and something forbidden. An actor
// notes a ticket of a global counter when it begins, after every wait and at its end, and computes a number from what
// it was given, from what tasks have left behind that must be over, and from its registers and its shared memory.
// ScriptJudge executes the script one task after another, in plain C++, and compares what every actor has computed; and
// it knows which tickets must lie behind which others (TSK-06 to TSK-16).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "arch/kernel_object.h"
#include "support/gpu_lab.h"
#include "support/list_program.h"
#include "support/random.h"

namespace heddle::test::script {

constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr std::uint32_t kSlots = 3;  // registers for streams, and as many for launches

struct Step {
  enum class Kind : std::uint8_t {
    launch,       // of task `task`
    wait_all,     //
    wait_stream,  // of stream slot `slot`; kNone: stream 0
    wait_launch,  // of launch slot `slot`, which holds task `task`
    create,       // into stream slot `slot`
    destroy,      //
    compute,      // `count` instructions
    peek,         // looks at the number of `task`, whether or not it is there
    read,         // the same, once it must be there
    crime,        // `count`: which
  };
  Kind kind = Kind::compute;
  std::uint32_t task = kNone;
  std::uint32_t slot = kNone;
  std::uint32_t count = 0;
};

enum class Crime : std::uint8_t { address, empty_grid, dead_stream, own_tail, too_deep, none };

struct Actor {
  std::vector<Step> steps;
  std::uint32_t waits = 0;
  std::uint32_t creates = 0;
};

struct Task {
  std::uint32_t parent = kNone;
  std::uint32_t by = 0;      // actor of it
  std::uint32_t number = 0;  // of that actor's launches
  std::uint32_t root = 0;
  std::uint32_t depth = 0;  // below the task of the host
  arch::LaunchMode mode = arch::LaunchMode::stream;
  std::uint32_t slot = kNone;    // stream of its parent; kNone: stream 0
  std::uint32_t create = kNone;  // number of the step that made that stream, of the parent's creates
  std::optional<std::int32_t> priority;
  bool head = false;
  bool known = false;                // its launch has a result
  std::uint32_t result = kNone;      // launch slot for it
  std::vector<std::uint32_t> reads;  // tasks that are over when it begins
  std::uint32_t warps = 1;
  std::uint32_t ctas = 1;
  std::uint32_t cluster = 0;  // CTAs; 0: none
  std::vector<Actor> actors;  // CTA by CTA
  std::uint32_t guilty = kNone;
  Crime crime = Crime::none;
  // Of tasks of the host.
  std::uint32_t stream = 0;
  Cycle when = 1;
  std::uint8_t subcontext = 0;
};

struct Options {
  std::uint32_t roots = 4;
  std::uint32_t tasks = 12;  // of a root, at most
  std::uint32_t depth = 4;   // below the host's tasks
  std::uint32_t max_depth = 24;
  std::uint32_t streams = 2;  // of the host
  std::uint32_t subcontexts = 1;
  bool priorities = true;
  bool clusters = true;
  bool crimes = true;
  bool all_known = false;  // every launch asks for its result
  bool waits_for_some = true;
};

class Script {
 public:
  static Script random(Random& random, const Options& options) {
    Script script;
    for (std::uint32_t i = 0; i < options.roots; ++i) {
      const auto root = static_cast<std::uint32_t>(script.tasks.size());
      Task task;
      task.root = root;
      task.stream = random.below(options.streams);
      task.when = random.between(1, 20'000);
      task.subcontext = static_cast<std::uint8_t>(task.stream % options.subcontexts);
      if (options.priorities) task.priority = static_cast<std::int32_t>(random.below(3)) - 1;
      script.tasks.push_back(task);
      script.roots.push_back(root);
      const std::uint32_t most = root + random.between(2, options.tasks);
      for (std::uint32_t next = root; next < script.tasks.size(); ++next) script.fill(next, most, random, options);
    }
    return script;
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(tasks.size()); }

  std::vector<Task> tasks;
  std::vector<std::uint32_t> roots;

 private:
  void fill(std::uint32_t number, std::uint32_t most, Random& random, const Options& options) {
    Task task = tasks[number];
    task.warps = random.chance(25) ? 2 : 1;
    task.ctas = random.chance(30) ? random.between(2, 3) : 1;
    if (options.clusters && random.chance(15)) task.ctas = task.cluster = 2;
    task.actors.resize(std::size_t{task.ctas} * task.warps);
    if (options.crimes && random.chance(8)) task.guilty = random.below(task.actors.size());
    for (std::uint32_t actor = 0; actor < task.actors.size(); ++actor) {
      if (task.guilty == kNone || actor == task.guilty) {
        act(number, task, actor, most, random, options);
      } else {
        // What it does when somebody else ends it is anybody's guess.
        task.actors[actor].steps.push_back({Step::Kind::compute, kNone, kNone, random.between(1, 3000)});
      }
    }
    tasks[number] = task;
  }

  struct Launched {
    std::uint32_t task;
    bool over = false;
  };

  void act(std::uint32_t number, Task& task, std::uint32_t index, std::uint32_t most, Random& random,
           const Options& options) {
    Actor& actor = task.actors[index];
    std::vector<Launched> launched;
    std::uint32_t live[kSlots] = {kNone, kNone, kNone};     // number of the create step
    std::uint32_t handles[kSlots] = {kNone, kNone, kNone};  // task
    const auto step = [&actor](Step::Kind kind, std::uint32_t what, std::uint32_t slot, std::uint32_t count) {
      actor.steps.push_back({kind, what, slot, count});
    };
    const auto over = [&](const auto& which) {
      for (Launched& one : launched) {
        if (tasks[one.task].mode != arch::LaunchMode::tail && which(one.task)) one.over = true;
      }
    };
    const auto wait = [&](Step::Kind kind, std::uint32_t what, std::uint32_t slot) {
      if (actor.waits == kMostWaits) return;
      ++actor.waits;
      step(kind, what, slot, 0);
      if (kind == Step::Kind::wait_all) over([](std::uint32_t) { return true; });
      if (kind == Step::Kind::wait_launch) over([what](std::uint32_t t) { return t == what; });
      const std::uint32_t made = slot == kNone ? kNone : live[slot];
      if (kind == Step::Kind::wait_stream) {
        over([&](std::uint32_t t) { return tasks[t].mode == arch::LaunchMode::stream && tasks[t].create == made; });
      }
    };
    const std::uint32_t steps = random.between(task.parent == kNone ? 4 : 0, 10);
    for (std::uint32_t i = 0; i < steps; ++i) {
      const std::uint32_t slot = random.below(kSlots);
      switch (random.below(13)) {
        case 0:
        case 6:
          if (actor.creates == kMostCreates) break;
          if (live[slot] != kNone) step(Step::Kind::destroy, kNone, slot, 0);
          live[slot] = actor.creates++;
          step(Step::Kind::create, kNone, slot, 0);
          break;
        case 1:
          if (live[slot] == kNone || !random.chance(50)) break;
          step(Step::Kind::destroy, kNone, slot, 0);
          live[slot] = kNone;
          break;
        case 2:
          wait(Step::Kind::wait_all, kNone, kNone);
          break;
        case 3:
          if (!options.waits_for_some) break;
          if (random.chance(50)) {
            wait(Step::Kind::wait_stream, kNone, live[slot] == kNone ? kNone : slot);
          } else if (handles[slot] != kNone) {
            wait(Step::Kind::wait_launch, handles[slot], slot);
          }
          break;
        case 4:
          step(Step::Kind::compute, kNone, kNone, random.between(1, random.chance(30) ? 4000 : 300));
          break;
        case 5:
          if (!launched.empty()) {
            const Launched& one = launched[random.below(launched.size())];
            step(one.over ? Step::Kind::read : Step::Kind::peek, one.task, kNone, 0);
          }
          break;
        default: {
          if (size() >= most || task.depth == options.depth || launched.size() == kMostLaunches) break;
          Task child;
          child.parent = number;
          child.by = index;
          child.number = static_cast<std::uint32_t>(launched.size());
          child.root = task.root;
          child.depth = task.depth + 1;
          const std::uint32_t kind = random.below(10);
          if (kind == 0) child.mode = arch::LaunchMode::fire_and_forget;
          if (kind == 1) child.mode = arch::LaunchMode::tail;
          if (child.mode == arch::LaunchMode::stream && live[slot] != kNone && random.chance(70)) {
            child.slot = slot;
            child.create = live[slot];
          }
          if (options.priorities && random.chance(40)) child.priority = static_cast<std::int32_t>(random.below(3)) - 1;
          child.head = options.priorities && random.chance(15);
          child.known = options.all_known || random.chance(50);
          if (child.known && child.mode != arch::LaunchMode::tail) {
            child.result = random.below(kSlots);
            handles[child.result] = size();
          }
          for (std::uint32_t j = static_cast<std::uint32_t>(launched.size()); j-- > 0 && child.reads.size() < 2;) {
            const Task& other = tasks[launched[j].task];
            const bool ahead =
                child.mode == arch::LaunchMode::stream && other.mode == child.mode && other.create == child.create;
            const bool before_tail =
                child.mode == arch::LaunchMode::tail && other.mode != child.mode && task.guilty == kNone;
            if (ahead || before_tail) child.reads.push_back(launched[j].task);
          }
          launched.push_back({size()});
          step(Step::Kind::launch, size(), kNone, 0);
          tasks.push_back(child);
          break;
        }
      }
    }
    if (task.guilty != index) return;
    // The last step of the guilty.
    std::vector<Crime> crimes{Crime::address, Crime::address, Crime::empty_grid};
    if (task.depth == options.max_depth) crimes = {Crime::too_deep};
    if (actor.creates > 0 && task.depth < options.max_depth) crimes.push_back(Crime::dead_stream);
    if (task.depth < options.max_depth && !options.all_known) crimes.push_back(Crime::own_tail);
    task.crime = crimes[random.below(crimes.size())];
    if (task.crime == Crime::dead_stream) {
      const std::uint32_t slot = random.below(kSlots);
      if (live[slot] == kNone) step(Step::Kind::create, kNone, slot, 0);
      if (live[slot] == kNone) ++actor.creates;
      step(Step::Kind::destroy, kNone, slot, 0);
      step(Step::Kind::crime, kNone, slot, 0);
      return;
    }
    step(Step::Kind::crime, kNone, kNone, 0);
  }

 public:
  static constexpr std::uint32_t kMostWaits = 6;
  static constexpr std::uint32_t kMostLaunches = 8;
  static constexpr std::uint32_t kMostCreates = 6;
};

// What an actor leaves in memory: words of 32 bits.
namespace note {
constexpr std::uint32_t kStarts = 0;
constexpr std::uint32_t kBegin = 1;   // tickets, from 1 on
constexpr std::uint32_t kEnd = 2;     //
constexpr std::uint32_t kNumber = 3;  // what it has computed
constexpr std::uint32_t kWaits = 4;   // tickets
constexpr std::uint32_t kMade = 10;   // of each stream that it created: 1: it was; 2: there was no room
constexpr std::uint32_t kKnown = 18;  // of each launch with a result: 1: it was; 2: there was no room
constexpr std::uint32_t kLanes = 32;  // each lane's own
constexpr std::uint32_t kWords = 64;
}  // namespace note
constexpr std::uint32_t kMostActors = 6;  // of a task

struct Place {
  std::uint64_t objects = 0x10'0000;  // kernel objects, by shape
  std::uint64_t counter = 0x10'1000;  // of tickets
  std::uint64_t gifts = 0x11'0000;    // u32 of each task
  std::uint64_t numbers = 0x13'0000;  // u32 of each task: that of its first actor, in a line of its own
  std::uint64_t notes = 0x40'0000;
};

constexpr std::uint32_t seed_of(std::uint32_t task, std::uint32_t actor) { return 1000 * task + 7 * actor + 1; }
constexpr std::uint32_t lane_of(std::uint32_t task, std::uint32_t actor, std::uint32_t lane) {
  return 31 * lane + 100'003 * task + actor;
}
constexpr std::uint32_t mix(std::uint32_t number, std::uint32_t with) { return number * 33 + with; }

// One program for all tasks: the number of its task is among its arguments. Then each warp goes on with its own steps.
class ScriptProgram final : public arch::WarpProgram {
 public:
  // `root`: of a task of the host, which has no arguments.
  ScriptProgram(const Script& script, const Place& place, std::uint32_t root = kNone)
      : script_(script), place_(place), root_(root) {
    find_.reads = {};
    find_.code = arch::OpCode::load;
    find_.unit = arch::Unit::memory;
    find_.writes = {{kTask, 1}};
    choose_.code = arch::OpCode::compute;
    choose_.unit = arch::Unit::int32;
    choose_.reads = {{kTask, 1}};
  }

  static constexpr std::uint16_t kTicket = 0;
  static constexpr std::uint16_t kTask = 2;
  static constexpr std::uint16_t kAcc = 3;
  static constexpr std::uint16_t kLane = 4;
  static constexpr std::uint16_t kFound = 5;
  static constexpr std::uint16_t kStreams = 6;   // one each
  static constexpr std::uint16_t kHandles = 10;  // two each, and two for those of launches that nobody waits for
  static constexpr std::uint32_t kRegisters = 18;

  std::uint32_t registers() const override { return kRegisters; }
  bool launches() const override { return true; }
  void start(const arch::WarpPlace& place, arch::WarpState& state) const override {
    state.pc = 0;
    state.exited = false;
    state.registers.assign(std::size_t{kRegisters} * arch::kWarpLanes, 0);
    state.scalars = {root_ == kNone ? -2 : -1, static_cast<std::int64_t>(place.cta), place.warp};
  }
  const arch::OperationNeeds& demand(const arch::WarpState& state) const override {
    if (state.scalars[0] == -2) return find_;
    if (state.scalars[0] == -1) return choose_;
    return list_of(state).demand(state);
  }
  void issue(const arch::WarpPlace& place, arch::WarpState& state, arch::Operation& operation) const override {
    if (state.scalars[0] >= 0) return list_of(state).issue(place, state, operation);
    const arch::OperationNeeds& now = demand(state);
    operation = arch::Operation{};
    operation.code = now.code;
    operation.unit = now.unit;
    operation.lanes = place.lanes;
    if (state.scalars[0] == -2) {
      operation.destination = kTask;
      operation.address.fill(place.kernarg);
      state.scalars[0] = -1;
      return;
    }
    state.scalars[0] = root_ == kNone ? state.of(kTask)[0] : root_;
    state.pc = 0;
  }
  std::string describe(const arch::WarpState&) const override { return {}; }

 private:
  const ListProgram& list_of(const arch::WarpState& state) const {
    const auto number = static_cast<std::uint32_t>(state.scalars[0]);
    const Task& task = script_.tasks.at(number);
    const auto actor = static_cast<std::uint32_t>(state.scalars[1] * task.warps + state.scalars[2]);
    std::unique_ptr<ListProgram>& list = lists_[{number, actor}];
    if (!list) list = make(number, actor);
    return *list;
  }

  static ListProgram::Access lane_0(arch::Order order = arch::Order::weak) {
    ListProgram::Access access;
    access.lanes = ListProgram::only(0);
    access.order = order;
    return access;
  }
  std::unique_ptr<ListProgram> make(std::uint32_t number, std::uint32_t index) const {
    auto made = std::make_unique<ListProgram>(kRegisters);
    ListProgram& p = *made;
    const Task& task = script_.tasks[number];
    const Actor& actor = task.actors[index];
    const std::uint64_t notes = place_.notes + 4 * note::kWords * (std::uint64_t{kMostActors} * number + index);
    const auto at = [](std::uint64_t address) { return ListProgram::linear(address, 0); };
    const auto ticket = [&](std::uint32_t word) {
      p.atomic(lane_0(arch::Order::relaxed), arch::AtomicKind::add, arch::ValueType::u32, kTicket,
               ListProgram::constant(1), at(place_.counter));
      p.store(lane_0(), [](const Warp& w, std::uint32_t) { return std::uint64_t{w.reg(kTicket, 0)} + 1; },
              at(notes + 4 * word), {{kTicket, 1}});
    };
    const auto take = [&](std::uint64_t address) {
      p.load(lane_0(), kFound, at(address));
      p.set(kAcc, [](const Warp& w, std::uint32_t) { return mix(w.reg(kAcc, 0), w.reg(kFound, 0)); },
            {{kAcc, 1}, {kFound, 1}});
    };
    const auto put = [&](std::uint64_t address) {
      p.store(lane_0(), [](const Warp& w, std::uint32_t) { return std::uint64_t{w.reg(kAcc, 0)}; }, at(address),
              {{kAcc, 1}});
    };
    ListProgram::Access shared = lane_0();
    shared.space = arch::Space::shared;
    const std::uint64_t own = 4 * std::uint64_t{index % task.warps};
    ticket(note::kBegin);
    p.atomic(lane_0(arch::Order::relaxed), arch::AtomicKind::add, arch::ValueType::u32, arch::kNoRegister,
             ListProgram::constant(1), at(notes + 4 * note::kStarts));
    p.set(kLane, [=](const Warp&, std::uint32_t lane) { return std::uint64_t{lane_of(number, index, lane)}; });
    p.set(kAcc, ListProgram::constant(seed_of(number, index)));
    take(place_.gifts + 4 * std::uint64_t{number});
    for (const std::uint32_t other : task.reads) take(number_at(other));
    p.store(
        shared, [](const Warp& w, std::uint32_t) { return std::uint64_t{w.reg(kAcc, 0)}; },
        [own](const Warp&, std::uint32_t) { return own; }, {{kAcc, 1}});
    std::uint32_t waits = 0;
    std::uint32_t creates = 0;
    for (const Step& step : actor.steps) {
      const auto stream = static_cast<std::uint16_t>(kStreams + step.slot);
      const auto handle = static_cast<std::uint16_t>(kHandles + 2 * step.slot);
      switch (step.kind) {
        case Step::Kind::launch: {
          const Task& child = script_.tasks[step.task];
          put(place_.gifts + 4 * std::uint64_t{step.task});
          const auto result =
              static_cast<std::uint16_t>(kHandles + 2 * (child.result == kNone ? kSlots : child.result));
          launch(p, step.task, child, child.known ? result : arch::kNoRegister);
          if (!child.known) break;
          p.store(lane_0(),
                  [result](const Warp& w, std::uint32_t) {
                    return std::uint64_t{
                        (w.reg(result, 0) | w.reg(static_cast<std::uint16_t>(result + 1), 0)) != 0 ? 1U : 2U};
                  },
                  at(notes + 4 * (note::kKnown + child.number)), {{result, 2}});
          break;
        }
        case Step::Kind::wait_all:
          p.wait_children();
          ticket(note::kWaits + waits++);
          break;
        case Step::Kind::wait_stream:
          if (step.slot == kNone) {
            p.wait_for(arch::ChildWait::stream, ListProgram::constant(0));
          } else {
            p.wait_for(arch::ChildWait::stream,
                       [stream](const Warp& w, std::uint32_t) { return std::uint64_t{stream_in(w, stream)}; },
                       {{stream, 1}});
          }
          ticket(note::kWaits + waits++);
          break;
        case Step::Kind::wait_launch:
          p.wait_for(arch::ChildWait::launch,
                     [handle](const Warp& w, std::uint32_t) {
                       return w.reg(handle, 0) | std::uint64_t{w.reg(static_cast<std::uint16_t>(handle + 1), 0)} << 32;
                     },
                     {{handle, 2}});
          ticket(note::kWaits + waits++);
          break;
        case Step::Kind::create:
          p.stream_create(stream);
          p.store(lane_0(),
                  [stream](const Warp& w, std::uint32_t) {
                    return std::uint64_t{w.reg(stream, 0) == arch::kNoStream ? 2U : 1U};
                  },
                  at(notes + 4 * (note::kMade + creates++)), {{stream, 1}});
          break;
        case Step::Kind::destroy:
          p.stream_destroy([stream](const Warp& w, std::uint32_t) { return std::uint64_t{w.reg(stream, 0)}; },
                           {{stream, 1}},
                           [stream](const Warp& w) { return w.reg(stream, 0) == arch::kNoStream ? 0U : 1U; });
          break;
        case Step::Kind::compute:
          p.compute(arch::Unit::fp32, step.count);
          break;
        case Step::Kind::peek:
          p.load(lane_0(), kFound, at(number_at(step.task)));
          break;
        case Step::Kind::read:
          take(number_at(step.task));
          break;
        case Step::Kind::crime:
          commit(p, task, step);
          break;
      }
    }
    p.load(shared, kFound, [own](const Warp&, std::uint32_t) { return own; });
    p.set(kAcc, [](const Warp& w, std::uint32_t) { return mix(w.reg(kAcc, 0), w.reg(kFound, 0)); },
          {{kAcc, 1}, {kFound, 1}});
    p.store({}, ListProgram::of_register(kLane), ListProgram::linear(notes + 4 * note::kLanes, 4), {{kLane, 1}});
    put(notes + 4 * note::kNumber);
    if (index == 0 && task.guilty == kNone) put(number_at(number));
    ticket(note::kEnd);
    p.exit();
    return made;
  }

  std::uint64_t number_at(std::uint32_t task) const { return place_.numbers + 128 * std::uint64_t{task}; }
  static std::uint32_t stream_in(const Warp& w, std::uint16_t reg) {
    return w.reg(reg, 0) == arch::kNoStream ? 0 : w.reg(reg, 0);
  }
  std::uint64_t object_of(const Task& task) const {
    return place_.objects + 128 * (2 * (task.warps - 1) + (task.cluster != 0 ? 1 : 0));
  }
  void launch(ListProgram& p, std::uint32_t number, const Task& child, std::uint16_t result) const {
    arch::ChildLaunch launch;
    launch.kernel = object_of(child);
    launch.grid_x = child.ctas;
    launch.mode = child.mode;
    launch.priority = child.priority;
    launch.head = child.head;
    launch.args[0] = number;
    const std::uint16_t reg =
        child.slot == kNone ? arch::kNoRegister : static_cast<std::uint16_t>(kStreams + child.slot);
    ListProgram::Reads reads;
    if (reg != arch::kNoRegister) reads.push_back({reg, 1});
    p.launch_child(
        [launch, reg](const Warp& w, std::uint32_t) {
          arch::ChildLaunch one = launch;
          if (reg != arch::kNoRegister) one.stream = stream_in(w, reg);
          return one;
        },
        reads, {}, result);
  }
  void commit(ListProgram& p, const Task& task, const Step& step) const {
    arch::ChildLaunch launch;
    launch.kernel = object_of(task);
    const auto one = [&launch] { return [launch](const Warp&, std::uint32_t) { return launch; }; };
    const auto reg = static_cast<std::uint16_t>(kHandles + 2 * kSlots);
    switch (task.crime) {
      case Crime::address:
        p.load(lane_0(), kFound, ListProgram::linear(std::uint64_t{1} << 40, 4));
        // Nothing behind it is done, whatever time the answer takes.
        p.set(kAcc, ListProgram::of_register(kFound), {{kFound, 1}});
        return;
      case Crime::empty_grid:
        launch.grid_x = 0;
        p.launch_child(one());
        return;
      case Crime::too_deep:
        p.launch_child(one());
        return;
      case Crime::dead_stream: {
        const auto stream = static_cast<std::uint16_t>(kStreams + step.slot);
        p.launch_child(
            [launch, stream](const Warp& w, std::uint32_t) {
              arch::ChildLaunch dead = launch;
              dead.stream = w.reg(stream, 0);
              return dead;
            },
            {{stream, 1}});
        return;
      }
      case Crime::own_tail:
        // It runs when its parent has been stopped: a task that is nobody's, and notes nothing.
        launch.kernel = place_.objects + 128 * std::uint64_t{4};
        launch.mode = arch::LaunchMode::tail;
        p.launch_child(one(), {}, {}, reg);
        p.wait_for(arch::ChildWait::launch,
                   [reg](const Warp& w, std::uint32_t) {
                     return w.reg(reg, 0) | std::uint64_t{w.reg(static_cast<std::uint16_t>(reg + 1), 0)} << 32;
                   },
                   {{reg, 2}});
        return;
      case Crime::none:
        return;
    }
  }

  const Script& script_;
  const Place place_;
  const std::uint32_t root_;
  arch::OperationNeeds find_;
  arch::OperationNeeds choose_;
  mutable std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<ListProgram>> lists_;
};

// Puts a script on a machine; the user keeps both.
class ScriptRun {
 public:
  ScriptRun(GpuLab& lab, const Script& script, const Place& place = {}) : script_(script) {
    const auto child = std::make_shared<ScriptProgram>(script, place);
    for (std::uint32_t warps = 1; warps <= 2; ++warps) {
      for (const std::uint32_t cluster : {0U, 2U}) {
        arch::KernelShape shape;
        shape.block = {32 * warps, 1, 1};
        shape.shared_bytes = kShared;
        put(lab, place.objects + 128 * (2 * (warps - 1) + (cluster != 0 ? 1 : 0)), child, shape, cluster);
      }
    }
    auto nobody = std::make_shared<ListProgram>(2);
    nobody->compute(arch::Unit::fp32, 20);
    nobody->exit();
    arch::KernelShape shape;
    shape.block = {32, 1, 1};
    put(lab, place.objects + 128 * 4, nobody, shape, 0);
    for (const std::uint32_t root : script.roots) {
      const Task& task = script.tasks[root];
      const arch::ClusterShape cluster = task.cluster == 0 ? arch::ClusterShape{} : clusters_of(task.cluster);
      protocol::SubmitPacket packet =
          lab.packet(std::make_shared<ScriptProgram>(script, place, root), {task.ctas, 1, 1}, {32 * task.warps, 1, 1},
                     kShared, task.stream, cluster);
      packet.priority = task.priority.value_or(0);
      packet.head = task.head;
      packet.kernel.subcontext = task.subcontext;
      packets_.push_back(packet);
    }
  }
  // In the order of their times: that of each stream is the one in which they come.
  void submit(GpuLab& lab) const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < packets_.size(); ++i) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return script_.tasks[script_.roots[a]].when < script_.tasks[script_.roots[b]].when;
    });
    for (const std::size_t i : order) lab.host.submit(script_.tasks[script_.roots[i]].when, packets_[i]);
  }
  std::uint32_t operation(std::size_t root) const { return packets_[root].operation; }

 private:
  static constexpr std::uint32_t kShared = 256;
  static void put(GpuLab& lab, std::uint64_t at, const std::shared_ptr<const arch::WarpProgram>& program,
                  const arch::KernelShape& shape, std::uint32_t cluster) {
    arch::KernelObject object;
    object.program = lab.gpu.add_code(program, shape);
    object.registers_per_thread = ScriptProgram::kRegisters;
    object.static_shared = shape.shared_bytes;
    if (cluster != 0) object.cluster = clusters_of(cluster);
    object.name = "task";
    const arch::KernelObjectBytes bytes = arch::encode(object);
    HEDDLE_CHECK(lab.gpu.memory().write(at, bytes.data(), bytes.size()), "no room for a kernel object");
  }

  const Script& script_;
  std::vector<protocol::SubmitPacket> packets_;
};

// Executes a script one task after another, and compares.
class ScriptJudge {
 public:
  // `shared`: the CTAs of a task share their streams.
  ScriptJudge(GpuLab& lab, const Script& script, bool shared, const Place& place = {})
      : script_(script),
        shared_(shared),
        notes_(std::size_t{script.size()} * kMostActors * note::kWords),
        tasks_(script.size()) {
    HEDDLE_CHECK(lab.gpu.memory().read(place.notes, notes_.data(), 4 * notes_.size()), "a read outside memory");
  }

  // What is wrong; empty: nothing.
  std::vector<std::string> verdict() {
    for (const std::uint32_t root : script_.roots) execute(root, 0);
    for (std::uint32_t i = script_.size(); i-- > 0;) gather(i);
    for (std::uint32_t i = 0; i < script_.size() && problems_.size() < 10; ++i) judge(i);
    streams();
    host_streams();
    return problems_;
  }
  // Tasks that have run, and those of them that a fault has stopped.
  std::uint32_t ran() const { return ran_; }
  const std::vector<std::uint32_t>& guilty() const { return guilty_; }
  std::uint32_t refused() const { return refused_; }  // launches
  std::uint32_t strays() const { return strays_; }    // tail launches that are nobody's

 private:
  struct Outcome {
    bool runs = false;
    std::vector<std::uint32_t> numbers;  // of each actor, as they should be
    std::uint32_t first = 0;             // ticket of the task
    std::uint32_t last = 0;
    std::uint32_t last_below = 0;   // of it and of all that it has launched
    std::uint32_t launched_at = 0;  // the last ticket of who launched it, before that
    std::vector<std::uint32_t> tails;
  };

  std::uint32_t word(std::uint32_t task, std::uint32_t actor, std::uint32_t which) const {
    return notes_[(std::size_t{task} * kMostActors + actor) * note::kWords + which];
  }
  void wrong(std::uint32_t task, const std::string& what) {
    if (problems_.size() < 10) problems_.push_back(fmt::format("task {}: {}", task, what));
  }
  // What the first actor has left behind.
  std::uint32_t number_of(std::uint32_t task) const {
    const Outcome& outcome = tasks_[task];
    return outcome.runs && script_.tasks[task].guilty == kNone ? outcome.numbers.front() : 0;
  }

  void execute(std::uint32_t number, std::uint32_t gift) {
    const Task& task = script_.tasks[number];
    Outcome& outcome = tasks_[number];
    outcome.runs = true;
    ++ran_;
    if (task.guilty != kNone) guilty_.push_back(number);
    for (std::uint32_t i = 0; i < task.actors.size(); ++i) {
      const bool stopped = task.guilty != kNone && task.guilty != i;
      std::uint32_t acc = mix(seed_of(number, i), gift);
      for (const std::uint32_t other : task.reads) acc = mix(acc, number_of(other));
      const std::uint32_t kept = acc;
      std::uint32_t last = word(number, i, note::kBegin);
      std::uint32_t waits = 0;
      for (const Step& step : stopped ? std::vector<Step>{} : task.actors[i].steps) {
        switch (step.kind) {
          case Step::Kind::launch: {
            const Task& child = script_.tasks[step.task];
            const std::uint32_t known = child.known ? word(number, i, note::kKnown + child.number) : 1;
            if (known != 1 && known != 2) wrong(number, fmt::format("did not say what became of task {}", step.task));
            if (known != 1) {
              ++refused_;
              break;
            }
            tasks_[step.task].launched_at = last;
            if (child.mode == arch::LaunchMode::tail) {
              outcome.tails.push_back(step.task);
              gifts_[step.task] = acc;
            } else {
              execute(step.task, acc);
            }
            break;
          }
          case Step::Kind::wait_all:
          case Step::Kind::wait_stream:
          case Step::Kind::wait_launch:
            last = word(number, i, note::kWaits + waits++);
            break;
          case Step::Kind::read:
            acc = mix(acc, number_of(step.task));
            break;
          case Step::Kind::crime:
            if (task.crime == Crime::own_tail) ++strays_;
            break;
          default:
            break;
        }
      }
      outcome.numbers.push_back(mix(acc, kept));
    }
    for (const std::uint32_t tail : outcome.tails) execute(tail, gifts_[tail]);
  }

  void gather(std::uint32_t number) {
    const Task& task = script_.tasks[number];
    Outcome& outcome = tasks_[number];
    if (!outcome.runs) return;
    outcome.first = ~std::uint32_t{0};
    for (std::uint32_t i = 0; i < task.actors.size(); ++i) {
      const std::uint32_t begin = word(number, i, note::kBegin);
      if (begin != 0) outcome.first = std::min(outcome.first, begin);
      outcome.last = std::max({outcome.last, begin, word(number, i, note::kEnd)});
      for (std::uint32_t w = 0; w < Script::kMostWaits; ++w) {
        outcome.last = std::max(outcome.last, word(number, i, note::kWaits + w));
      }
    }
    outcome.last_below = std::max(outcome.last_below, outcome.last);
    if (task.parent == kNone) return;
    Outcome& parent = tasks_[task.parent];
    parent.last_below = std::max(parent.last_below, outcome.last_below);
  }

  void judge(std::uint32_t number) {
    const Task& task = script_.tasks[number];
    const Outcome& outcome = tasks_[number];
    for (std::uint32_t i = 0; i < task.actors.size(); ++i) {
      const std::uint32_t starts = word(number, i, note::kStarts);
      if (!outcome.runs) {
        if (starts != 0) wrong(number, "ran, and nobody has launched it");
        continue;
      }
      const bool stopped = task.guilty != kNone && task.guilty != i;
      if (stopped ? starts > 1 : starts != 1) wrong(number, fmt::format("its actor {} began {} times", i, starts));
      if (stopped || starts != 1) continue;
      if (word(number, i, note::kBegin) <= outcome.launched_at) wrong(number, "began before it was launched");
      if (task.guilty == i) {
        if (word(number, i, note::kEnd) != 0) wrong(number, "went on after its fault");
      } else {
        ended(number, i);
      }
      waits(number, i);
    }
    if (!outcome.runs) return;
    if (task.parent != kNone && task.mode == arch::LaunchMode::tail) tail(number);
  }

  void ended(std::uint32_t number, std::uint32_t actor) {
    const std::uint32_t found = word(number, actor, note::kNumber);
    const std::uint32_t expected = tasks_[number].numbers[actor];
    if (word(number, actor, note::kEnd) == 0) wrong(number, fmt::format("its actor {} did not end", actor));
    if (found != expected) wrong(number, fmt::format("actor {} computed {}, not {}", actor, found, expected));
    for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
      if (word(number, actor, note::kLanes + lane) == lane_of(number, actor, lane)) continue;
      wrong(number, fmt::format("lane {} of actor {} has lost its number", lane, actor));
      return;
    }
  }

  // All that it waits for has completed, with all that belongs to that.
  void waits(std::uint32_t number, std::uint32_t index) {
    const Actor& actor = script_.tasks[number].actors[index];
    std::vector<std::uint32_t> launched;
    std::vector<std::uint32_t> made(kSlots, kNone);
    std::uint32_t before = word(number, index, note::kBegin);
    std::uint32_t waits = 0;
    std::uint32_t creates = 0;
    for (const Step& step : actor.steps) {
      if (step.kind == Step::Kind::launch) launched.push_back(step.task);
      if (step.kind == Step::Kind::create) {
        // One for which there was no room is stream 0.
        made[step.slot] = word(number, index, note::kMade + creates) == 1 ? creates : kNone;
        ++creates;
      }
      const bool all = step.kind == Step::Kind::wait_all;
      const bool stream = step.kind == Step::Kind::wait_stream;
      if (!all && !stream && step.kind != Step::Kind::wait_launch) continue;
      const std::uint32_t ticket = word(number, index, note::kWaits + waits++);
      if (ticket <= before) wrong(number, fmt::format("wait {} has no place in the order", waits - 1));
      before = ticket;
      for (const std::uint32_t child : launched) {
        const Task& its = script_.tasks[child];
        if (its.mode == arch::LaunchMode::tail || !tasks_[child].runs) continue;
        const std::uint32_t wanted = step.slot == kNone ? kNone : made[step.slot];
        const bool counts =
            all || (stream ? its.mode == arch::LaunchMode::stream && stream_of(child) == wanted : child == step.task);
        if (counts && tasks_[child].last_below > ticket) {
          wrong(number, fmt::format("went on before task {} had completed", child));
        }
      }
    }
  }

  // The create step of the stream that it was launched into; kNone: stream 0.
  std::uint32_t stream_of(std::uint32_t number) const {
    const Task& task = script_.tasks[number];
    if (task.create == kNone) return kNone;
    return word(task.parent, task.by, note::kMade + task.create) == 1 ? task.create : kNone;
  }

  void tail(std::uint32_t number) {
    const Task& task = script_.tasks[number];
    const Outcome& outcome = tasks_[number];
    if (tasks_[task.parent].last > outcome.first) wrong(number, "a tail launch began before the end of its parent");
    for (std::uint32_t other = 0; other < script_.size(); ++other) {
      const Task& its = script_.tasks[other];
      if (other == number || its.parent != task.parent || !tasks_[other].runs) continue;
      const bool earlier = its.mode != arch::LaunchMode::tail || (its.by == task.by && its.number < task.number);
      if (earlier && tasks_[other].last_below > outcome.first) {
        wrong(number, fmt::format("a tail launch began before task {} had completed", other));
      }
      const bool apart = tasks_[other].last_below < outcome.first || outcome.last_below < tasks_[other].first;
      if (!apart) wrong(number, fmt::format("overlaps with tail launch {}", other));
    }
  }

  // Those of one stream of an actor: in its order, one after another. Stream 0 is that of all actors of a context.
  void streams() {
    std::map<std::vector<std::uint32_t>, std::uint32_t> before;  // the task ahead
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> zeros;
    for (std::uint32_t i = 0; i < script_.size(); ++i) {
      const Task& task = script_.tasks[i];
      if (task.parent == kNone || task.mode != arch::LaunchMode::stream || !tasks_[i].runs) continue;
      const std::vector<std::uint32_t> key{task.parent, task.by, stream_of(i)};
      const std::uint32_t cta = shared_ ? 0 : task.by / script_.tasks[task.parent].warps;
      if (stream_of(i) == kNone) zeros[{task.parent, cta}].push_back(i);
      const auto [found, fresh] = before.emplace(key, i);
      if (fresh) continue;
      if (tasks_[found->second].last_below > tasks_[i].first) {
        wrong(i, fmt::format("began before task {}, ahead of it in its stream, had completed", found->second));
      }
      found->second = i;
    }
    for (auto& [context, tasks] : zeros) {
      std::sort(tasks.begin(), tasks.end(),
                [this](std::uint32_t a, std::uint32_t b) { return tasks_[a].first < tasks_[b].first; });
      for (std::size_t i = 1; i < tasks.size(); ++i) {
        if (tasks_[tasks[i - 1]].last_below > tasks_[tasks[i]].first) {
          wrong(tasks[i], fmt::format("runs beside task {}, in stream 0 of the same context", tasks[i - 1]));
        }
      }
    }
  }

  void host_streams() {
    std::vector<std::uint32_t> roots = script_.roots;
    std::stable_sort(roots.begin(), roots.end(), [this](std::uint32_t a, std::uint32_t b) {
      return script_.tasks[a].when < script_.tasks[b].when;
    });
    std::map<std::uint32_t, std::uint32_t> before;
    for (const std::uint32_t root : roots) {
      const auto [found, fresh] = before.emplace(script_.tasks[root].stream, root);
      if (!fresh && tasks_[found->second].last_below > tasks_[root].first) {
        wrong(root,
              fmt::format("began before task {}, ahead of it in its stream of the host, had completed", found->second));
      }
      found->second = root;
    }
  }

  const Script& script_;
  const bool shared_;
  std::vector<std::uint32_t> notes_;
  std::vector<Outcome> tasks_;
  std::map<std::uint32_t, std::uint32_t> gifts_;
  std::vector<std::string> problems_;
  std::vector<std::uint32_t> guilty_;
  std::uint32_t ran_ = 0;
  std::uint32_t refused_ = 0;
  std::uint32_t strays_ = 0;
};

}  // namespace heddle::test::script
