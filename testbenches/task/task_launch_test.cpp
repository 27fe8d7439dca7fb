// Task management over its sockets: eviction, queue tasks, tasks of device code.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/byte_codec.h"
#include "common/observation.h"
#include "support/list_program.h"
#include "support/random.h"
#include "task/task_launch_bench.h"

namespace heddle::test::task_launch_test {
namespace {

using protocol::ChildPacket;
using protocol::DoneStatus;
using protocol::SubmitKind;
using protocol::SubmitPacket;
using protocol::TaskPacket;
namespace tmd = arch::tmd;
namespace context = arch::context;

SubmitPacket kernel(std::uint32_t operation, std::int32_t priority, bool head = false) {
  SubmitPacket packet = kernel_packet(operation, operation, {4, 1, 1}, {64, 1, 1});
  packet.priority = priority;
  packet.head = head;
  return packet;
}

std::vector<std::uint32_t> sent(const TaskLaunchBench& bench) {
  std::vector<std::uint32_t> result;
  for (const TaskPacket& task : bench.table.tasks) result.push_back(task.operation);
  return result;
}

// A child without a program, that lasts as long as the table says.
constexpr std::uint64_t kObject = 0x1000;
constexpr std::uint64_t kParent = 0x2000;   // TMD
constexpr std::uint64_t kContext = 0x3000;  // its context, with its CTA

void put_child(TaskLaunchBench& bench, std::uint64_t record, std::uint32_t stream, std::uint32_t tmdq,
               arch::LaunchMode mode = arch::LaunchMode::stream, std::uint64_t object = kObject) {
  task::RecordLine line{};
  arch::put_number(line, tmd::kContext, 8, kContext);
  arch::put_number(line, tmd::kKernel, 8, object);
  arch::put_number(line, tmd::kGridX, 4, 1);
  for (const std::uint32_t at : {tmd::kGridY, tmd::kGridZ}) arch::put_number(line, at, 2, 1);
  arch::put_number(line, tmd::kFlags, 4, tmdq | static_cast<std::uint32_t>(mode) << 8 | stream << 16);
  arch::put_number(line, tmd::kDepth, 4, 1);
  arch::put_number(line, tmd::kOpen, 8, 1);
  bench.memory.write(record, line);
}

// As many have been taken from a pool, as by an SM.
void take(TaskLaunchBench& bench, const arch::RecordPool& pool, std::uint64_t count) {
  bench.memory.put(pool.base + arch::ring::kTaken, count);
  bench.memory.put(pool.base + arch::ring::kUsed, count);
}

// As many have come back, and none is out.
void check_given(TaskLaunchBench& bench, const arch::RecordPool& pool, std::uint64_t count) {
  CHECK(bench.memory.get(pool.base + arch::ring::kGiven) == count);
  CHECK(bench.memory.get(pool.base + arch::ring::kUsed) == 0);
}

// A grid that nobody knows but memory, with one CTA and its context.
void put_parent(TaskLaunchBench& bench, std::uint64_t children) {
  arch::KernelObject object;
  object.duration = {100, 100};
  object.name = "leaf";
  bench.memory.write(kObject, arch::encode(object));
  bench.memory.put(kParent + tmd::kOpen, 2);
  bench.memory.put(kContext + context::kWork, 1 + children + arch::kWorkWaiter);
  bench.memory.put(kContext + context::kOwner, kParent);
  bench.memory.put(kContext + context::kHome, arch::home_of_sm(0));
}

}  // namespace

TEST_CASE("a more urgent task takes the slot of the least urgent and youngest, which comes back first",
          "[task][TSK-01][TSK-03]") {
  TaskLaunchBench bench(2);
  bench.table.work = [](const TaskPacket&) { return Cycle{1000}; };
  bench.host.submit(0, kernel(0, 1));
  bench.host.submit(1, kernel(1, 0));
  bench.host.submit(2, kernel(2, 0));
  bench.host.submit(3, kernel(3, 0, true));  // to the head
  bench.host.submit(300, kernel(4, 5));
  run_until_idle();
  CHECK(bench.table.evicted == std::vector<std::uint32_t>{1});
  CHECK(sent(bench) == std::vector<std::uint32_t>{0, 1, 4, 1, 3, 2});
  CHECK(bench.table.worked == std::map<std::uint32_t, Cycle>{{0, 1000}, {1, 1000}, {2, 1000}, {3, 1000}, {4, 1000}});
  CHECK(bench.table.most_held == 2);
  CHECK(bench.stat("evictions") == 1);
  CHECK(bench.stat("resumptions") == 1);
  CHECK(bench.host.results.size() == 5);
}

TEST_CASE("nobody is evicted for an equal, nor while a slot is free", "[task][TSK-03]") {
  TaskLaunchBench bench(2);
  bench.host.submit(0, kernel(0, 0));
  bench.host.submit(10, kernel(1, 9));
  bench.host.submit(20, kernel(2, 0));
  bench.host.submit(30, kernel(3, -1));
  run_until_idle();
  CHECK(bench.table.evicted.empty());
  CHECK(bench.host.results.size() == 4);
}

TEST_CASE("random tasks of random urgency: the table is never over-filled, and nothing is lost or done twice",
          "[task][TSK-03]") {
  std::uint64_t evictions = 0;
  for (const std::uint64_t seed : seeds(150)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t slots = random.between(1, 4);
    TaskLaunchBench bench(slots, random.chance(30) ? TimingMode::lt : TimingMode::at);
    Random other(seed + 1);
    std::map<std::uint32_t, Cycle> work;
    bench.table.work = [&](const TaskPacket& task) { return work[task.operation] = other.between(1, 2000); };
    const std::uint32_t refuse = random.chance(50) ? 0 : 30;
    bench.table.evicts = [&] { return !other.chance(refuse); };
    const std::uint32_t count = random.between(5, 40);
    Cycle when = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      bench.host.submit(when += random.below(300),
                        kernel(i, static_cast<std::int32_t>(random.below(5)), random.chance(20)));
    }
    run_until_idle();
    REQUIRE(bench.host.results.size() == count);
    REQUIRE(bench.table.most_held <= slots);
    REQUIRE(bench.table.worked == work);
    REQUIRE(bench.unit.launches_idle());
    evictions += bench.table.evicted.size();
  }
  CHECK(evictions > 100);
}

TEST_CASE("a queue task grows by its entries in the order of their tickets, and ends with its close",
          "[task][TSK-05]") {
  constexpr std::uint64_t kQueue = 0x4000;
  const bool held = GENERATE(false, true);
  TaskLaunchBench bench;
  bench.memory.put(kQueue + arch::queue::kTickets, 2);
  bench.memory.put(kQueue + arch::queue::kCapacity, 8);
  bench.memory.put(kQueue + arch::queue::kEntries, 0x5000);
  SubmitPacket worker = kernel(0, 0);
  worker.queue = kQueue;
  worker.entries = 2;
  worker.held_open = held;
  bench.host.submit(0, worker);
  SubmitPacket close;
  close.kind = SubmitKind::close;
  close.operation = 1;
  close.stream = 9;
  close.wait_for = 0;
  if (held) bench.host.submit(20'000, close);
  const auto append = [&](Cycle when, Cycle told) {
    bench.sm.at(when, [&bench, told] {
      const std::uint64_t ticket = bench.memory.add(kQueue + arch::queue::kTickets, 1);
      REQUIRE((ticket & arch::kQueueClosed) == 0);
      bench.sm.send(told, {ChildPacket::Kind::appended, kQueue, ticket, 0});
    });
  };
  append(100, 400);
  append(110, 200);  // told of before the one ahead of it
  append(120, 300);
  // While the queue is being closed, or held open without work.
  for (Cycle when = 480; when < 560; when += 7) append(when, when + 300);
  run_until_idle();
  REQUIRE(bench.host.results.count(0) == 1);
  CHECK(bench.host.results.at(0).status == DoneStatus::ok);
  const std::uint64_t tickets = bench.memory.get(kQueue + arch::queue::kTickets);
  CHECK((tickets & arch::kQueueClosed) != 0);
  CHECK(bench.table.entries.at(0) == (tickets & ~arch::kQueueClosed));
  CHECK(bench.stat("queue_entries") == 15);
  if (held) CHECK(bench.end_of(0) > 20'000);
  CHECK(bench.unit.launches_idle());
}

TEST_CASE("a queue task without a queue is rejected, and so is a second one of the same queue", "[task][TSK-05]") {
  constexpr std::uint64_t kQueue = 0x4000;
  TaskLaunchBench bench;
  bench.memory.put(kQueue + arch::queue::kCapacity, 8);
  for (std::uint32_t i = 0; i < 3; ++i) {
    SubmitPacket worker = kernel(i, 0);
    worker.queue = i == 2 ? 0x6000 : kQueue;
    bench.host.submit(i, worker);
  }
  run_until_idle();
  CHECK(bench.host.results.at(0).status == DoneStatus::ok);
  CHECK(bench.host.results.at(1).status == DoneStatus::rejected);
  CHECK(bench.host.results.at(2).status == DoneStatus::rejected);
}

TEST_CASE("a queue task that an entry will never come to ends as faulted, and its queue is closed", "[task][TSK-05]") {
  constexpr std::uint64_t kQueue = 0x4000;
  const Cycle lost = GENERATE(Cycle{10}, Cycle{2000});  // before the task begins, or while it runs
  TaskLaunchBench bench;
  bench.memory.put(kQueue + arch::queue::kTickets, 2);
  bench.memory.put(kQueue + arch::queue::kCapacity, 8);
  bench.memory.put(kQueue + arch::queue::kEntries, 0x5000);
  SubmitPacket worker = kernel(0, 0);
  worker.queue = kQueue;
  worker.held_open = true;
  bench.host.submit(100, worker);
  bench.sm.send(lost, {ChildPacket::Kind::lost_entry, kQueue, 0, 0});
  bench.sm.send(lost + 10, {ChildPacket::Kind::appended, kQueue, 1, 0});
  bench.sm.send(20'000, {ChildPacket::Kind::appended, kQueue, 2, 0});  // it was on its way
  bench.sm.send(20'001, {ChildPacket::Kind::lost_entry, kQueue, 3, 0});
  run_until_idle();
  CHECK(bench.host.results.at(0).status == DoneStatus::faulted);
  CHECK((bench.memory.get(kQueue + arch::queue::kTickets) & arch::kQueueClosed) != 0);
  CHECK(bench.table.entries.count(0) == 0);  // ticket 1 is behind the one that is missing
  CHECK(bench.unit.launches_idle());
  // Whoever makes the queue anew begins from nothing.
  bench.memory.put(kQueue + arch::queue::kTickets, 0);
  worker.operation = 1;
  worker.held_open = false;
  bench.host.submit(30'000, worker);
  bench.sm.send(29'000, {ChildPacket::Kind::appended, kQueue, 4, 0});
  run_until_idle();
  CHECK(bench.host.results.at(1).status == DoneStatus::ok);
}

TEST_CASE("entries of a queue that nobody works off keep nobody busy", "[task][TSK-05]") {
  TaskLaunchBench bench;
  bench.sm.send(100, {ChildPacket::Kind::appended, 0x4000, 0, 0});
  run_until_idle();
  CHECK(bench.unit.launches_idle());
}

TEST_CASE("a record that memory refuses is said by who waits for it", "[task][TSK-13]") {
  TaskLaunchBench bench;
  put_parent(bench, 1);
  const std::uint64_t child = bench.place.memory.tasks.pool.record(0);
  take(bench, bench.place.memory.tasks.pool, 1);
  put_child(bench, child, 0, 0);
  // Its TMDQ would lie behind the end of memory.
  constexpr std::uint64_t kLast = AtomicMemory::kBytes - context::kTmdqs;
  bench.memory.put(child + tmd::kContext, kLast);
  bench.memory.put(kLast + context::kOwner, kParent);
  bench.sm.send(100, {ChildPacket::Kind::start, child, 0, 90});
  run_until_idle();
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].where.find("memory refused") == 0);
  CHECK(bench.faults[0].task == bench.table.tasks.at(0).operation);
  CHECK_FALSE(bench.unit.launches_idle());
  WaitGraph graph;
  bench.unit.collect_waits(graph);
  const std::vector<std::string> chain = graph.chain();
  REQUIRE(chain.size() == 3);
  CHECK(chain[1].find("leaf #1 waits: for its descendants") == 0);
  CHECK(chain[2] == fmt::format("children of leaf #1 waits: for what lies at 0x{:x}, which memory refused", child));
}

TEST_CASE("children of a stream run one after another, and the last wakes their parent", "[task][TSK-06][TSK-10]") {
  TaskLaunchBench bench(1);
  put_parent(bench, 2);
  const std::uint64_t first = bench.place.memory.tasks.pool.record(0);
  const std::uint64_t second = bench.place.memory.tasks.pool.record(1);
  take(bench, bench.place.memory.tasks.pool, 2);
  const bool alias = GENERATE(false, true);
  put_child(bench, first, 1, 1);
  put_child(bench, second, alias ? 5 : 1, 1);
  bench.memory.put(first + tmd::kNext, second);
  bench.memory.put(kContext + context::last_task(1), second);
  bench.sm.send(100, {ChildPacket::Kind::start, first, 0, 90});
  run_until_idle();
  REQUIRE(bench.table.tasks.size() == 2);
  CHECK(bench.table.tasks[0].record == first);
  CHECK(bench.table.tasks[1].record == second);
  CHECK((bench.table.tasks[0].operation & protocol::kChildBit) != 0);
  CHECK(bench.sm.woken == std::vector<std::uint64_t>{kContext});
  CHECK(bench.memory.get(kContext + context::last_task(1)) == 0);
  CHECK(bench.memory.get(kContext + context::kHome) == arch::kHomeWoken);
  check_given(bench, bench.place.memory.tasks.pool, 2);
  CHECK(bench.stat("children") == 2);
  CHECK(bench.stat("wakes") == 1);
  CHECK(bench.stat("false_dependencies") == (alias ? 1 : 0));
  CHECK(bench.faults.empty());
  CHECK(bench.unit.launches_idle());
  CHECK(bench.unit.payloads() <= 16);
  // 10 to task management, three reads of 40 after its own 100, 30 to the distributor.
  const auto stats = bench.observation.stats.to_json();
  CHECK(stats.at("gpu0.task.child_launch.max").at("value") == 20);
  CHECK(stats.at("gpu0.task.child_read.max").at("value") == 100 + 3 * 40);
}

TEST_CASE("children need nothing of a host that has filled all lists", "[task][TSK-15]") {
  TaskLaunchBench bench(1);
  put_parent(bench, 1);
  const std::uint64_t record = bench.place.memory.tasks.pool.record(0);
  take(bench, bench.place.memory.tasks.pool, 1);
  put_child(bench, record, 0, 0);
  bench.memory.put(kContext + context::kTmdqs, record);
  for (std::uint32_t i = 0; i < 2000; ++i) bench.host.submit(0, kernel(i, -1));
  bench.sm.send(5000, {ChildPacket::Kind::start, record, 0, 4990});
  run_until_idle();
  const std::vector<std::uint32_t> order = sent(bench);
  const auto child = std::find_if(order.begin(), order.end(), [](std::uint32_t o) { return o >= protocol::kChildBit; });
  REQUIRE(child != order.end());
  CHECK(child - order.begin() < 100);  // it did not wait for all that was there before
  CHECK(bench.sm.woken.size() == 1);
}

TEST_CASE("a launch that cannot run completes as faulted, and what is behind it goes on", "[task][TSK-06]") {
  TaskLaunchBench bench;
  put_parent(bench, 2);
  const std::uint64_t first = bench.place.memory.tasks.pool.record(0);
  const std::uint64_t second = bench.place.memory.tasks.pool.record(1);
  take(bench, bench.place.memory.tasks.pool, 2);
  put_child(bench, first, 0, 0, arch::LaunchMode::stream, GENERATE(0x7000, 0x7001, AtomicMemory::kBytes, 0));
  put_child(bench, second, 0, 0);
  bench.memory.put(first + tmd::kNext, second);
  bench.memory.put(kContext + context::kTmdqs, second);
  bench.sm.send(100, {ChildPacket::Kind::start, first, 0, 90});
  run_until_idle();
  REQUIRE(bench.faults.size() == 1);
  CHECK(bench.faults[0].kind == arch::FaultKind::child);
  REQUIRE(bench.table.tasks.size() == 1);
  CHECK(bench.table.tasks[0].record == second);
  CHECK(bench.sm.woken.size() == 1);
  CHECK(bench.stat("child_faults") == 1);
  CHECK(bench.unit.launches_idle());
}

TEST_CASE("a saved parent is restored at the head of its list once its children have completed", "[task][TSK-12]") {
  TaskLaunchBench bench;
  // The parent is a child itself, so that task management knows it: its CTA is saved while it waits.
  put_parent(bench, 1);
  const arch::RecordPool& tasks = bench.place.memory.tasks.pool;
  const std::uint64_t parent = tasks.record(0);
  const std::uint64_t child = tasks.record(1);
  const std::uint64_t area = bench.place.memory.chunks.record(0);
  constexpr std::uint64_t kInner = 0x3800;  // the parent's own context
  take(bench, tasks, 2);
  put_child(bench, parent, 0, 0);
  bench.memory.put(parent + tmd::kOpen, 2);
  bench.memory.put(kContext + context::kTmdqs, parent);
  bench.memory.put(kInner + context::kWork, 2 + arch::kWorkWaiter);
  bench.memory.put(kInner + context::kOwner, parent);
  bench.memory.put(kInner + context::kHome, arch::saved_home(area));
  put_child(bench, child, 0, 0);
  bench.memory.put(child + tmd::kContext, kInner);
  bench.memory.put(kInner + context::kTmdqs, child);
  bench.memory.put(area + arch::saved::kRecord, parent);
  bench.memory.put(area + arch::saved::kIndex, 3);
  bench.memory.put(area + arch::saved::kCtaX, 3, 4);
  bench.table.on_end = [&](const TaskPacket& task) {
    if (task.kind == protocol::TaskKind::restore) {
      bench.sm.send(bench.domain.now(), {ChildPacket::Kind::leave, kInner, 0, 0});
    } else if (task.record == parent) {
      bench.memory.put(area + arch::saved::kOperation, task.operation, 4);
      bench.sm.send(bench.domain.now(), {ChildPacket::Kind::start, child, 0, 0});
    }
  };
  bench.sm.send(100, {ChildPacket::Kind::start, parent, 0, 90});
  run_until_idle();
  REQUIRE(bench.table.tasks.size() == 3);
  const TaskPacket& restored = bench.table.tasks[2];
  CHECK(restored.kind == protocol::TaskKind::restore);
  CHECK(restored.runs_as == bench.table.tasks[0].operation);
  CHECK(restored.operation != restored.runs_as);
  CHECK(restored.area == area);
  CHECK(restored.record == parent);
  CHECK(restored.id.index == 3);
  CHECK(restored.id.cta.x == 3);
  CHECK(bench.stat("restores") == 1);
  CHECK(bench.sm.woken == std::vector<std::uint64_t>{kContext});  // the parent has completed
  CHECK(bench.faults.empty());
  CHECK(bench.unit.launches_idle());
}

namespace {

// What is drawn, as "group/line: name".
class Rows : public TimelineSink {
 public:
  TrackId track(const std::string& group, const std::string& line) override {
    lines_.push_back(group + "/" + line);
    return {0, static_cast<std::uint32_t>(lines_.size() - 1)};
  }
  void slice(TrackId track, heddle::Picoseconds begin, heddle::Picoseconds end, std::string_view name,
             TimelineArgs) override {
    CHECK(begin <= end);
    slices[lines_.at(track.line) + ": " + std::string(name)] += static_cast<double>(end - begin) * 1e-3;
  }
  void counter(TrackId, heddle::Picoseconds, std::string_view, double) override {}
  std::map<std::string, double> slices;  // ns

 private:
  std::vector<std::string> lines_;
};

}  // namespace

TEST_CASE("a task of the host that launches has a record, and ends after its descendants", "[task][TSK-10][TSK-13]") {
  TaskLaunchBench bench;
  Rows rows;
  bench.observation.timeline = &rows;
  put_parent(bench, 1);
  const arch::RecordPool& tasks = bench.place.memory.tasks.pool;
  const std::uint64_t child = tasks.record(63);  // taken before
  auto program = std::make_shared<ListProgram>(2);
  program->wait_children();
  program->exit();
  SubmitPacket root = kernel(7, 0);
  root.kernel.code = bench.codes.add(program, root.kernel);
  std::uint64_t record = 0;
  bench.table.on_end = [&](const TaskPacket& task) {
    if (task.operation != 7) return;
    // Its CTA is saved, or waits; its context is open, with one child.
    record = task.record;
    CHECK(bench.memory.get(record + tmd::kOpen) == 1);
    CHECK(bench.memory.get(record + tmd::kDepth, 4) == 0);
    bench.memory.add(record + tmd::kOpen, 1);
    bench.memory.put(kContext + context::kWork, 1);  // its CTA has left already
    bench.memory.put(kContext + context::kOwner, record);
    take(bench, tasks, 2);
    take(bench, bench.place.memory.contexts.pool, 1);
    put_child(bench, child, 0, 0);
    bench.memory.put(kContext + context::kTmdqs, child);
    bench.sm.send(bench.domain.now() + 1000, {ChildPacket::Kind::start, child, 0, bench.domain.now()});
  };
  bench.host.submit(0, root);
  bench.host.submit(1, kernel(8, 0));  // nothing of it is in memory
  run_until_idle();
  REQUIRE(bench.host.order == std::vector<std::uint32_t>{8, 7});
  CHECK(record != 0);
  CHECK(bench.table.tasks[0].operation == 8);  // it did not wait for the record of the other
  CHECK(bench.table.tasks[0].record == 0);
  CHECK(bench.end_of(7) > 1000);
  check_given(bench, tasks, 2);
  check_given(bench, bench.place.memory.contexts.pool, 1);
  CHECK(bench.codes.lent() == 0);
  CHECK(bench.unit.open() == 0);
  CHECK(bench.unit.launches_idle());
  CHECK(rows.slices.at("gpu0 streams/stream 7 waits: waits for its descendants") > 1000);
  CHECK(rows.slices.count("gpu0 streams/stream 8 waits: waits for its descendants") == 0);
  CHECK(rows.slices.at("gpu0 nested/depth 1.0: leaf #1") > 100);
  CHECK(rows.slices.at("gpu0 nested/depth 1.0 waits: its launch is on its way") > 1000);
}

TEST_CASE("a kernel that does not launch asks nothing of memory", "[task]") {
  TaskLaunchBench bench;
  for (std::uint32_t i = 0; i < 20; ++i) bench.host.submit(i, kernel(i, 0));
  run_until_idle();
  CHECK(bench.host.results.size() == 20);
  CHECK(bench.memory.served == 0);
}

TEST_CASE("who waits for whom leads from a task to the children of its children", "[task][TSK-12]") {
  TaskLaunchBench bench(1);
  put_parent(bench, 2);
  bench.table.work = [](const TaskPacket&) { return Cycle{1'000'000}; };
  const std::uint64_t first = bench.place.memory.tasks.pool.record(0);
  const std::uint64_t second = bench.place.memory.tasks.pool.record(1);
  put_child(bench, first, 0, 0);
  put_child(bench, second, 1, 1);
  bench.sm.send(100, {ChildPacket::Kind::start, first, 0, 90});
  bench.sm.send(110, {ChildPacket::Kind::start, second, 0, 95});
  run_until(sc_core::sc_time(5, sc_core::SC_US));
  WaitGraph graph;
  bench.unit.collect_waits(graph);
  std::string chain;
  for (const std::string& line : graph.chain()) chain += line + "\n";
  INFO(chain);
  CHECK(chain.find("leaf #2 waits: for a slot of the task table") != std::string::npos);
  CHECK(chain.find("the task table waits: for a slot, and one has leaf #1") != std::string::npos);
  // A reset in the middle leaves nothing.
  bench.domain.reset();
  CHECK(bench.unit.launches_idle());
  WaitGraph none;
  bench.unit.collect_waits(none);
  CHECK(none.empty());
}

}  // namespace heddle::test::task_launch_test
