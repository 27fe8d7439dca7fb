// Queue tasks whose CTAs launch tasks, on the whole machine (TSK-05, TSK-06): entries come from everywhere while they
// run, and what belongs to a queue task ends before it does.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/kernel_object.h"
#include "protocol/packet_task.h"
#include "support/gpu_lab.h"
#include "support/list_program.h"
#include "support/random.h"

namespace system_nested_queue_test {

using namespace heddle;
using namespace heddle::test;
using arch::LaunchMode;

namespace {

constexpr std::uint64_t kObject = 0x10'0000;
constexpr std::uint64_t kTickets = 0x10'0100;  // a global counter, u64
constexpr std::uint64_t kRoot = 0x10'0200;     // number of the root
constexpr std::uint64_t kSeen = 0x10'0300;     // tickets of the kernels behind the queue tasks, u32
constexpr std::uint64_t kNotes = 0x20'0000;    // of each item
constexpr std::uint64_t kQueues = 0x40'0000;   // 0x100 each
constexpr std::uint64_t kEntries = 0x50'0000;  // 0x1'0000 each
constexpr std::uint32_t kNobody = ~std::uint32_t{0};

constexpr std::uint64_t queue_at(std::uint32_t queue) { return kQueues + 0x100 * std::uint64_t{queue}; }

// With entries that are there from the start.
void make_queue(GpuLab& lab, std::uint32_t queue, std::uint64_t capacity, const std::vector<std::uint32_t>& values) {
  const std::uint64_t entries = kEntries + 0x1'0000 * std::uint64_t{queue};
  lab.write<std::uint64_t>(queue_at(queue) + arch::queue::kTickets, values.size());
  lab.write(queue_at(queue) + arch::queue::kCapacity, capacity);
  lab.write(queue_at(queue) + arch::queue::kEntries, entries);
  for (std::uint64_t t = 0; t < values.size(); ++t) {
    lab.write(entries + t * arch::kQueueEntryBytes, arch::turn_ready(t, capacity));
    lab.write<std::uint64_t>(entries + t * arch::kQueueEntryBytes + arch::kQueueEntryData, values[t]);
  }
}

void make_object(GpuLab& lab, std::uint32_t program, arch::CtaDuration duration = {}) {
  arch::KernelObject object;
  object.program = program;
  object.duration = duration;
  object.registers_per_thread = 16;
  object.name = "child";
  const arch::KernelObjectBytes bytes = arch::encode(object);
  REQUIRE(lab.gpu.memory().write(kObject, bytes.data(), bytes.size()));
}

// A piece of work: a kernel of the host (number 0), the entry of a queue, or a task that another item has launched.
struct Item {
  std::uint32_t by = kNobody;  // who launched or appended it
  std::uint32_t owner = 0;     // 0: the root; else the queue task of queue owner - 1
  bool entry = false;
  bool held = false;  // its queue cannot be closed while it runs
  std::uint32_t depth = 0;
  LaunchMode mode = LaunchMode::stream;
  std::uint32_t stream = 0;
  std::int32_t priority = 0;
  bool waits = false;
  std::uint32_t first = 0;  // that it launches
  std::uint32_t children = 0;
  std::uint32_t first_entry = 0;  // that it appends
  std::uint32_t entries = 0;
};

struct Work {
  std::vector<Item> items;
  std::array<std::vector<std::uint32_t>, 2> initial;  // entries that are in the queues from the start

  std::uint32_t size() const { return static_cast<std::uint32_t>(items.size()); }
};

// What belongs to the root appends to both queues; what belongs to queue 0, to queue 1, and with `own` to queue 0 as
// far as somebody waits for it there.
Work random_work(Random& random, std::uint32_t most, bool own) {
  Work work;
  work.items.emplace_back();
  for (const std::uint32_t queue : {0U, 1U}) {
    for (std::uint32_t i = random.below(4); i > 0; --i) {
      work.initial[queue].push_back(work.size());
      Item& item = work.items.emplace_back();
      item.owner = queue + 1;
      item.entry = item.held = true;
    }
  }
  for (std::uint32_t number = 0; number < work.size(); ++number) {
    Item item = work.items[number];
    const auto room = [&] { return most - std::min(most, work.size()); };
    item.first = work.size();
    item.children = item.depth == 5 ? 0 : std::min(room(), number == 0 ? 3 : random.below(4));
    item.waits = item.children > 0 && random.chance(50);
    for (std::uint32_t i = 0; i < item.children; ++i) {
      Item& child = work.items.emplace_back();
      child.by = number;
      child.owner = item.owner;
      child.depth = item.depth + 1;
      const std::uint32_t kind = random.below(6);
      if (kind == 0) child.mode = LaunchMode::fire_and_forget;
      if (kind == 1) child.mode = LaunchMode::tail;
      child.held = item.held && item.waits && child.mode != LaunchMode::tail;
      child.stream = random.below(3);
      child.priority = static_cast<std::int32_t>(random.below(3)) - 1;
    }
    std::vector<std::uint32_t> targets;  // owners
    if (item.owner == 0) targets = {1, 2};
    if (item.owner == 1) targets = {2};
    if (item.owner != 0 && item.held && own) targets.push_back(item.owner);
    item.first_entry = work.size();
    if (!targets.empty()) item.entries = std::min(room(), number == 0 ? random.between(3, 9) : random.below(3));
    for (std::uint32_t i = 0; i < item.entries; ++i) {
      Item& entry = work.items.emplace_back();
      entry.by = number;
      entry.owner = targets[random.below(targets.size())];
      entry.entry = entry.held = true;
    }
    work.items[number] = item;
  }
  return work;
}

struct Note {
  std::uint32_t starts = 0;
  std::uint32_t begin = 0;   // tickets, from 1 on
  std::uint32_t waited = 0;  // 0: it did not wait
  std::uint32_t end = 0;
};

ListProgram::Access strong() {
  ListProgram::Access access;
  access.lanes = ListProgram::only(0);
  access.order = arch::Order::relaxed;
  return access;
}

// Takes a ticket into register 0, and writes it.
void ticket(ListProgram& p, const ListProgram::Address& to, const ListProgram::Reads& reads) {
  p.atomic(strong(), arch::AtomicKind::add, arch::ValueType::u64, 0, ListProgram::constant(1),
           ListProgram::linear(kTickets, 0));
  ListProgram::Reads all = reads;
  all.push_back({0, 1});
  p.store(
      strong(), [](const Warp& w, std::uint32_t) { return std::uint64_t{w.reg(0, 0)} + 1; }, to, all);
}

// One program for every item, which finds its number among its arguments. Registers: 0-1 ticket, 2 number, 3 count, 4
// scratch, 5 and 6 streams.
std::shared_ptr<const arch::WarpProgram> item_program(const std::vector<Item>& items) {
  auto made = std::make_shared<ListProgram>(8);
  ListProgram& p = *made;
  const auto note = [](std::uint32_t field) {
    return [field](const Warp& w, std::uint32_t) { return kNotes + sizeof(Note) * w.reg(2, 0) + 4 * field; };
  };
  const auto item = [items](const Warp& w) { return items[w.reg(2, 0)]; };
  const auto count = [&p] { p.set(3, [](const Warp& w, std::uint32_t) { return w.reg(3, 0) + 1; }, {{3, 1}}); };
  p.load(strong(), 2, [](const Warp& w, std::uint32_t) { return w.place.kernarg == 0 ? kRoot : w.place.kernarg; });
  p.atomic(strong(), arch::AtomicKind::add, arch::ValueType::u32, 4, ListProgram::constant(1), note(0), {{2, 1}});
  ticket(p, note(1), {{2, 1}});
  p.stream_create(5);
  p.stream_create(6);
  const std::uint32_t appends = p.here();
  const auto more_entries = [item](const Warp& w) { return w.reg(3, 0) < item(w).entries; };
  p.queue_append(
      [items, item](const Warp& w, std::uint32_t) {
        arch::QueueAppend append;
        append.data[0] = item(w).first_entry + w.reg(3, 0);
        append.queue = queue_at(items[append.data[0]].owner - 1);
        return append;
      },
      {{2, 1}, {3, 1}}, [more_entries](const Warp& w) { return more_entries(w) ? 1U : 0U; });
  count();
  p.branch(appends, more_entries, {{2, 1}, {3, 1}});
  p.set(3, ListProgram::constant(0));
  const std::uint32_t launches = p.here();
  const auto more_children = [item](const Warp& w) { return w.reg(3, 0) < item(w).children; };
  p.launch_child(
      [items, item](const Warp& w, std::uint32_t) {
        const std::uint32_t number = item(w).first + w.reg(3, 0);
        arch::ChildLaunch launch;
        launch.kernel = kObject;
        launch.mode = items[number].mode;
        // All CTAs of a queue task can share a context, and there may be no room for a stream of this one.
        const std::uint32_t stream = items[number].stream;
        const std::uint32_t own = stream == 0 ? 0 : w.reg(static_cast<std::uint16_t>(4 + stream), 0);
        launch.stream = own == arch::kNoStream ? 0 : own;
        launch.priority = items[number].priority;
        launch.args[0] = number;
        return launch;
      },
      {{2, 1}, {3, 1}, {5, 2}}, [more_children](const Warp& w) { return more_children(w) ? 1U : 0U; });
  count();
  p.branch(launches, more_children, {{2, 1}, {3, 1}});
  const std::uint32_t wait = p.here();
  p.branch(wait + 4, [item](const Warp& w) { return !item(w).waits; }, {{2, 1}});
  p.wait_children();
  ticket(p, note(2), {{2, 1}});
  ticket(p, note(3), {{2, 1}});
  p.exit();
  return made;
}

// A kernel that notes when it ran.
std::shared_ptr<const arch::WarpProgram> witness(std::uint32_t number) {
  auto made = std::make_shared<ListProgram>(4);
  ticket(*made, ListProgram::linear(kSeen + 4 * std::uint64_t{number}, 0), {});
  made->exit();
  return made;
}

class Judge {
 public:
  Judge(GpuLab& lab, const Work& work) : items_(work.items), last_(work.items.size()) {
    for (std::uint32_t i = 0; i < work.size(); ++i) notes_.push_back(lab.read<Note>(kNotes + sizeof(Note) * i));
    for (std::uint32_t i = work.size(); i-- > 0;) {
      last_[i] = std::max(last_[i], notes_[i].end);
      if (!items_[i].entry && i > 0) last_[items_[i].by] = std::max(last_[items_[i].by], last_[i]);
    }
  }
  std::vector<std::string> verdict() {
    for (std::uint32_t i = 0; i < items_.size() && problems_.size() < 10; ++i) item(i);
    return problems_;
  }
  // The last ticket of what belongs to a task of the host.
  std::uint32_t last_of(std::uint32_t owner) const {
    std::uint32_t last = 0;
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      if (items_[i].owner == owner) last = std::max(last, notes_[i].end);
    }
    return last;
  }

 private:
  void wrong(std::uint32_t number, const std::string& what) {
    problems_.push_back(fmt::format("item {}: {}", number, what));
  }
  void item(std::uint32_t number) {
    const Item& item = items_[number];
    const Note& note = notes_[number];
    if (note.starts != 1) return wrong(number, fmt::format("ran {} times", note.starts));
    if (note.end <= note.begin) return wrong(number, "did not end");
    if (item.waits != (note.waited != 0)) return wrong(number, "waited, or did not, against its orders");
    if (item.by != kNobody && note.begin < notes_[item.by].begin) wrong(number, "began before who asked for it");
    if (item.by != kNobody && item.mode == LaunchMode::tail) tail(number);
    std::array<std::uint32_t, 3> before{};  // by stream: last ticket of what is ahead
    for (std::uint32_t child = item.first; child < item.first + item.children; ++child) {
      if (items_[child].mode == LaunchMode::tail) continue;
      if (item.waits && last_[child] > note.waited) wrong(number, fmt::format("did not wait for {}", child));
      if (items_[child].mode != LaunchMode::stream) continue;
      std::uint32_t& ahead = before[items_[child].stream];
      if (ahead > notes_[child].begin) wrong(child, "overtook what is ahead of it in its stream");
      ahead = last_[child];
    }
  }
  // The grid that it follows is the item that launched it, or all entries of that one's queue.
  void tail(std::uint32_t number) {
    const Item& parent = items_[items_[number].by];
    for (std::uint32_t i = 0; i < items_.size(); ++i) {
      const bool same_grid =
          i == items_[number].by || (parent.entry && items_[i].entry && items_[i].owner == parent.owner);
      if (!same_grid) continue;
      if (notes_[i].end > notes_[number].begin) wrong(number, fmt::format("began before the end of {}", i));
      for (std::uint32_t child = items_[i].first; child < items_[i].first + items_[i].children; ++child) {
        const bool first =
            items_[child].mode != LaunchMode::tail || (items_[child].by == items_[number].by && child < number);
        if (first && last_[child] > notes_[number].begin)
          wrong(number, fmt::format("began before the end of {}", child));
      }
    }
  }

  const std::vector<Item>& items_;
  std::vector<std::uint32_t> last_;  // ticket of an item and all that it has launched
  std::vector<Note> notes_;
  std::vector<std::string> problems_;
};

class Ends final : public CtaListener {
 public:
  void cta_started(const Cta&) override {}
  void cta_ended(const Cta& cta) override {
    if ((cta.task & protocol::kChildBit) == 0) return;
    ++children;
    last = std::max(last, cta.cycle);
  }
  std::uint32_t children = 0;
  std::uint64_t last = 0;  // of a child
};

}  // namespace

TEST_CASE("queue tasks that launch, and feed each other: every entry and every child runs once, and before their end",
          "[system][TSK-05][TSK-06][TSK-10]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  for (const std::uint64_t round : seeds(12)) {
    CAPTURE(round, timing);
    Random random(round);
    // Few slots and parents that are saved; queues that are full; contexts that all CTAs of a queue task share.
    const std::uint64_t kind = round % 3;
    std::vector<std::string> sets = {"gpu.timing=" + timing, "gpu.sm.nested.launch_instructions=12",
                                     "gpu.sm.nested.save_delay=200",
                                     fmt::format("gpu.task.nested.in_flight={}", random.between(1, 8)),
                                     fmt::format("gpu.task.nested.tmdqs={}", random.between(1, 4))};
    if (kind == 0) {
      sets.push_back(fmt::format("gpu.cwd.table_slots={}", random.between(1, 8)));
    } else {
      sets.insert(sets.end(), {"gpu.sm.nested.save=false", "gpu.cwd.active_pool=0"});
    }
    if (kind == 2) sets.emplace_back("gpu.task.nested.shared_by=grid");
    const Work work = random_work(random, random.between(30, 120), kind != 1);
    SimFixture fixture;
    GpuLab lab(preset_params("small", sets));
    const auto program = item_program(work.items);
    std::array<protocol::SubmitPacket, 3> tasks;  // the root, and the queue tasks
    for (std::uint32_t i = 0; i < 3; ++i) tasks[i] = lab.packet(program, {1, 1, 1}, {32, 1, 1}, 0, i);
    make_object(lab, tasks[0].kernel.code);
    for (const std::uint32_t queue : {0U, 1U}) {
      const std::vector<std::uint32_t>& initial = work.initial[queue];
      make_queue(lab, queue, kind == 1 ? std::max<std::size_t>(initial.size(), random.between(1, 4)) : 128, initial);
      tasks[queue + 1].queue = queue_at(queue);
      tasks[queue + 1].entries = initial.size();
      tasks[queue + 1].held_open = true;
    }
    // Queue 0 is open until the root has ended, queue 1 until queue task 0 has: each with its descendants.
    for (std::uint32_t i = 0; i < 3; ++i) {
      const Cycle when = random.between(1, 15'000);
      lab.host.submit(when, tasks[i]);
      lab.host.submit(when, lab.packet(witness(i), {1, 1, 1}, {32, 1, 1}, 0, i));
      if (i == 2) continue;
      protocol::SubmitPacket close;
      close.kind = protocol::SubmitKind::close;
      close.operation = close.wait_for = tasks[i + 1].operation;
      close.stream = i;
      lab.host.submit(when, close);
    }
    run_until_idle();

    Judge judge(lab, work);
    CHECK(judge.verdict() == std::vector<std::string>{});
    CHECK(lab.gpu.log().faults().empty());
    CHECK(lab.host.results.size() == 6);
    for (const auto& [operation, done] : lab.host.results) CHECK(done.status == protocol::DoneStatus::ok);
    for (std::uint32_t i = 0; i < 3; ++i) CHECK(lab.read<std::uint32_t>(kSeen + 4 * i) > judge.last_of(i));
    std::array<std::uint32_t, 2> entries{};  // of each queue
    for (const Item& item : work.items) {
      if (item.entry) ++entries[item.owner - 1];
    }
    for (const std::uint32_t queue : {0U, 1U}) {
      const std::uint64_t tickets = arch::kQueueClosed | entries[queue];
      CHECK(lab.read<std::uint64_t>(queue_at(queue) + arch::queue::kTickets) == tickets);
    }
    const std::uint32_t all = entries[0] + entries[1];
    const std::size_t initial = work.initial[0].size() + work.initial[1].size();
    CHECK(lab.stat("cwd.queue_entries") == all);
    CHECK(lab.stat("task.queue_entries") == static_cast<double>(all - initial));
    CHECK(lab.stat("task.children") == static_cast<double>(work.size() - 1 - all));
    lab.gpu.check_quiescent();
  }
}

TEST_CASE("queue tasks without entries keep no slot that others wait for, whatever the priority",
          "[system][TSK-03][TSK-05]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  const std::uint32_t slots = GENERATE(1U, 2U, 3U);
  const std::int32_t priority = GENERATE(-1, 0, 1);  // of the others; that of queue tasks is 0
  constexpr std::uint32_t kTasks = 4;
  SimFixture fixture;
  GpuLab lab(preset_params("small", {"gpu.timing=" + timing, fmt::format("gpu.cwd.table_slots={}", slots)}));
  const auto entry = [](std::uint32_t queue) {
    auto made = std::make_shared<ListProgram>(4);
    ticket(*made, ListProgram::linear(kNotes + 8 * std::uint64_t{queue}, 0), {});
    made->exit();
    return made;
  };
  std::vector<std::uint32_t> tasks;
  for (std::uint32_t i = 0; i < kTasks; ++i) {
    make_queue(lab, i, 4, i % 2 == 0 ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{7, 8});
    protocol::SubmitPacket task = lab.packet(entry(i), {1, 1, 1}, {32, 1, 1}, 0, i);
    task.queue = queue_at(i);
    task.entries = i % 2 == 0 ? 0 : 2;
    task.held_open = true;
    lab.host.submit(1, task);
    tasks.push_back(task.operation);
  }
  // All queue tasks are closed behind it.
  protocol::SubmitPacket other = lab.packet(witness(0), {1, 1, 1}, {32, 1, 1}, 0, 9);
  other.priority = priority;
  lab.host.submit(20'000, other);
  for (const std::uint32_t task : tasks) {
    protocol::SubmitPacket close;
    close.kind = protocol::SubmitKind::close;
    close.operation = close.wait_for = task;
    close.stream = 9;
    lab.host.submit(20'001, close);
  }
  run_until_idle();
  REQUIRE(lab.host.results.size() == kTasks + 1);
  CHECK(lab.host.order.front() == other.operation);
  for (const auto& [operation, done] : lab.host.results) CHECK(done.status == protocol::DoneStatus::ok);
  for (std::uint32_t i = 0; i < kTasks; ++i) {
    CHECK(lab.read<std::uint64_t>(queue_at(i) + arch::queue::kTickets) == (arch::kQueueClosed | (i % 2 == 0 ? 0 : 2)));
    CHECK((lab.read<std::uint32_t>(kNotes + 8 * std::uint64_t{i}) != 0) == (i % 2 != 0));
  }
  CHECK(lab.stat("task.evictions") >= kTasks + 1 - slots);
  CHECK(lab.stat("cwd.wait.evicted") == 0);  // nothing of them was left to be launched
  lab.gpu.check_quiescent();
}

TEST_CASE("a queue task ends with the last child of its entries, and its stream goes on then",
          "[system][TSK-05][TSK-06][TSK-10]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  const LaunchMode mode = GENERATE(LaunchMode::stream, LaunchMode::fire_and_forget, LaunchMode::tail);
  constexpr std::uint64_t kLong = 50'000;
  SimFixture fixture;
  GpuLab lab(preset_params("small", {"gpu.timing=" + timing, "gpu.sm.nested.launch_instructions=12"}));
  Ends ends;
  lab.observation.ctas = &ends;
  auto launcher = std::make_shared<ListProgram>(2);
  launcher->launch_child([mode](const Warp&, std::uint32_t) {
    arch::ChildLaunch launch;
    launch.kernel = kObject;
    launch.mode = mode;
    return launch;
  });
  launcher->exit();
  make_object(lab, arch::kNoCode, {kLong, kLong});
  make_queue(lab, 0, 4, {0, 0, 0});
  protocol::SubmitPacket worker = lab.packet(launcher, {1, 1, 1}, {32, 1, 1});
  worker.queue = queue_at(0);
  worker.entries = 3;
  const std::uint32_t queue_task = lab.submit(worker);
  const std::uint32_t behind = lab.submit(witness(0), {1, 1, 1}, {32, 1, 1});
  run_until(sc_core::sc_time(kLong - 5000.0, sc_core::SC_NS));
  // A CTA whose children run may have been saved, and append when it comes back; tail launches begin behind the end.
  const std::uint64_t closed = mode == LaunchMode::tail ? arch::kQueueClosed : 0;
  CHECK(lab.read<std::uint64_t>(queue_at(0) + arch::queue::kTickets) == (closed | 3));
  CHECK(lab.host.results.empty());
  run_until_idle();
  CHECK(lab.read<std::uint64_t>(queue_at(0) + arch::queue::kTickets) == (arch::kQueueClosed | 3));
  REQUIRE(lab.host.order == std::vector<std::uint32_t>{queue_task, behind});
  CHECK(ends.children == 3);
  const auto ns = [](heddle::Picoseconds time) { return static_cast<double>(time) * 1e-3; };
  CHECK(ns(lab.host.results.at(queue_task).end) >= static_cast<double>(ends.last));
  CHECK(ns(lab.host.results.at(behind).start) >= static_cast<double>(ends.last));
  lab.gpu.check_quiescent();
}

}  // namespace system_nested_queue_test
