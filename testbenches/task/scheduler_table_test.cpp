// The scheduler table against a reference that looks at everything every time, and its cycles.
#include "task/scheduler_table.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "common/timebase.h"
#include "support/random.h"
#include "task/plain_task_bench.h"
#include "task/reference_lists.h"

namespace heddle::test::scheduler_table_test {
namespace {

using task::OpenTasks;
using task::SchedulerTable;
using task::Task;

// What the text of the table says, item by item: who is in, who waits outside, and who may enter.
class Reference {
 public:
  explicit Reference(std::uint32_t entries) : entries_(entries) {}

  void join(const Task& task) {
    tasks_[task.operation()] = task;
    outside_.push(task.urgency(), task.head, task.source, task.operation());
    let_in();
  }
  void come_back(const Task& task) {
    tasks_[task.operation()] = task;
    in_.push(task.urgency(), true, task.source, task.operation());
    --expected;
    let_in();
  }
  void remove(std::uint32_t operation) {
    in_.remove(operation);
    let_in();
  }
  template <class May>
  std::optional<std::uint32_t> take(const May& may) {
    const auto taken = in_.take_of([&](std::uint32_t operation) { return may(operation); });
    let_in();
    return taken;
  }
  void let_in() {
    while (const auto next = outside_.take_of([this](std::uint32_t operation) { return may_enter(operation); })) {
      const Task& task = tasks_.at(*next);
      in_.push(task.urgency(), task.head, task.source, *next);
    }
  }
  bool may_enter(std::uint32_t operation) const {
    if (in_.items().size() + expected < entries_) return true;
    return std::none_of(in_.items().begin(), in_.items().end(),
                        [&](const Waiting& w) { return list_of(w.item) == list_of(operation); });
  }
  using List = std::tuple<std::int32_t, std::uint32_t, std::uint32_t>;
  List list_of(std::uint32_t operation) const {
    const Task& task = tasks_.at(operation);
    return {task.packet.priority, task.packet.depth, task.packet.subcontext};
  }
  const std::vector<Waiting>& in() const { return in_.items(); }
  const std::vector<Waiting>& outside() const { return outside_.items(); }

  std::size_t expected = 0;

 private:
  const std::uint32_t entries_;
  std::map<std::uint32_t, Task> tasks_;
  ReferenceLists in_;
  ReferenceLists outside_;
};

Task random_task(Random& random, std::uint32_t operation) {
  Task task;
  task.packet.operation = operation;
  task.packet.priority = static_cast<std::int32_t>(random.below(3)) - 1;
  task.packet.depth = random.below(3);
  task.packet.subcontext = static_cast<std::uint8_t>(random.below(3));
  task.source = 10 * task.packet.subcontext + random.below(3);
  task.head = random.chance(20);
  return task;
}

std::set<std::uint32_t> of(const task::PriorityLists& lists) {
  std::set<std::uint32_t> result;
  lists.each([&result](std::int32_t, std::uint32_t item) { result.insert(item); });
  return result;
}
std::set<std::uint32_t> of(const std::vector<Waiting>& items) {
  std::set<std::uint32_t> result;
  for (const Waiting& w : items) result.insert(w.item);
  return result;
}

}  // namespace

TEST_CASE("a table of any capacity keeps what a naive one keeps, and loses nothing", "[task][TSK-02][TSK-12][PRT-02]") {
  std::uint64_t outside = 0;
  for (const std::uint64_t seed : seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    GpuObservation observation{"gpu0"};
    PlainTimebase timebase{TimingMode::at, observation};
    OpenTasks tasks;
    const std::uint32_t entries = random.between(1, 12);
    SchedulerTable table(
        timebase, "lists", tasks, {entries, 0, 0}, [](Task&) {}, "gpu0.task");
    Reference reference(entries);
    std::vector<std::uint32_t> running;  // have been taken, and may be evicted
    std::vector<std::uint32_t> leaving;  // have been asked
    std::uint32_t next = 0;
    for (std::uint32_t step = 0; step < 100; ++step) {
      const std::uint32_t what = random.below(100);
      if (what < 45) {
        Task& task = tasks.add(random_task(random, next++));
        reference.join(task);
        table.join(task);
      } else if (what < 75) {
        const std::uint32_t closed = random.below(6);  // a subcontext that may have no slot, if it is one
        const auto may = [&](std::uint32_t operation) { return tasks.at(operation).packet.subcontext != closed; };
        const auto taken = table.take_if(may);
        const auto wanted = reference.take(may);
        REQUIRE(taken.has_value() == wanted.has_value());
        if (!taken) continue;
        REQUIRE(taken->operation == *wanted);
        REQUIRE(taken->out == timebase.now());
        tasks.at(*wanted).state = Task::State::running;
        running.push_back(*wanted);
      } else if (what < 85 && !running.empty()) {
        const std::size_t which = random.below(running.size());
        leaving.push_back(running[which]);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
        table.expect();
        ++reference.expected;
      } else if (what < 95 && !leaving.empty()) {
        Task& task = tasks.at(leaving.back());
        task.state = Task::State::suspended;
        leaving.pop_back();
        table.come_back(task);
        reference.come_back(task);
      } else if (what < 98 && !leaving.empty()) {
        running.push_back(leaving.back());  // it has not left
        leaving.pop_back();
        --reference.expected;
        reference.let_in();
        table.expect_less();
      } else if (!reference.in().empty()) {
        const std::uint32_t gone = reference.in()[random.below(reference.in().size())].item;
        REQUIRE(table.remove(tasks.at(gone)));
        reference.remove(gone);
      }
      REQUIRE(of(table.lists()) == of(reference.in()));
      REQUIRE(of(table.outside()) == of(reference.outside()));
      REQUIRE(table.used() == reference.in().size());
      outside += reference.outside().size();
      // Who is outside waits behind one of its own list, and somebody who waits is as urgent as it.
      std::set<Reference::List> lists;
      for (const Waiting& w : reference.in()) lists.insert(reference.list_of(w.item));
      for (const Waiting& w : reference.outside()) REQUIRE(lists.count(reference.list_of(w.item)) == 1);
      // Beside the entries, each list has one of its own, and each task that came back.
      const auto came_back = [&](const Waiting& w) { return tasks.at(w.item).state == Task::State::suspended; };
      const auto back = std::count_if(reference.in().begin(), reference.in().end(), came_back);
      REQUIRE(table.used() <= entries + lists.size() + static_cast<std::size_t>(back));
    }
    const auto all = [](std::uint32_t) { return true; };
    while (const auto taken = table.take_if(all)) REQUIRE(taken->operation == reference.take(all));
    REQUIRE(table.used() == 0);
    REQUIRE(reference.outside().empty());
  }
  CHECK(outside > 10'000);
}

TEST_CASE("the table puts in one task after another, and takes out one after another meanwhile", "[task][TSK-02]") {
  task::TaskParams params;
  params.list_insert = 3;
  params.list_take = 2;
  PlainBench bench(8, TimingMode::at, false, params);
  for (std::uint32_t i = 0; i < 3; ++i) bench.submit(10, kernel(i, i));
  bench.submit(1000, kernel(3, 3));
  bench.timebase.run();
  const auto start = [&](std::uint32_t operation) { return bench.results.at(operation).start / 1000; };
  // In at 13, 16 and 19, and taken out at once.
  CHECK(start(0) == 10 + 3 + 2);
  CHECK(start(1) == 10 + 2 * 3 + 2);
  CHECK(start(2) == 10 + 3 * 3 + 2);
  CHECK(start(3) == 1000 + 3 + 2);
}

TEST_CASE("who comes while others wait to be taken out is the next if it is the most urgent", "[task][TSK-02]") {
  for (const Cycle take : {Cycle{0}, Cycle{10}, Cycle{100}, Cycle{400}}) {
    CAPTURE(take);
    task::TaskParams params;
    params.list_take = static_cast<std::uint32_t>(take);
    PlainBench bench(64, TimingMode::at, false, params);
    for (std::uint32_t i = 0; i < 40; ++i) bench.submit(10, kernel(i, i));
    const Cycle arrival = 10 + 5 * take + take / 2;  // the sixth is being taken out
    bench.submit(arrival, kernel(40, 40, 9));
    bench.timebase.run();
    REQUIRE(bench.results.size() == 41);
    CHECK(bench.results.at(40).start / 1000 == (take == 0 ? arrival : 10 + 7 * take));
    for (std::uint32_t i = 0; i < 40; ++i) {
      CHECK(bench.results.at(i).start / 1000 == 10 + (i < 6 ? i + 1 : i + 2) * take);
    }
  }
}

TEST_CASE("tasks are taken in at their own rate, however slowly they are taken out", "[task][TSK-02]") {
  task::TaskParams params;
  params.list_insert = 5;
  params.list_take = 1000;
  PlainBench bench(64, TimingMode::at, false, params);
  for (std::uint32_t i = 0; i < 20; ++i) bench.submit(10, kernel(i, i));
  for (std::uint32_t i = 1; i <= 20; ++i) {
    bench.at(10 + i * 5 + 1, [&bench, i] {
      WaitGraph graph;
      bench.unit.collect_waits(graph);
      CHECK(graph.size() == i - 1);  // those that are in, but for the first, which was taken out at once
    });
  }
  bench.timebase.run();
  CHECK(bench.results.size() == 20);
}

TEST_CASE("with the table full kernels of the host wait in their streams, and enter one by one", "[task][TSK-02]") {
  task::TaskParams params;
  params.list_entries = 2;
  PlainBench bench(1, TimingMode::at, false, params);
  bench.work = [](const TaskPacket&) { return Cycle{1000}; };
  // One runs, two are in the list, and three wait for an entry.
  for (std::uint32_t i = 0; i < 6; ++i) bench.submit(10 + i, kernel(i, i));
  const auto value = [&](const char* name) { return bench.observation.stats.value(std::string("gpu0.task.") + name); };
  bench.at(500, [&] {
    CHECK(value("list_used") == 2);
    CHECK(value("list_waits") == 3);
    WaitGraph graph;
    bench.unit.collect_waits(graph);
    CHECK_FALSE(graph.chain().empty());
  });
  bench.timebase.run();
  REQUIRE(bench.order == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5});
  CHECK(value("list_used.max") == 2);
  // Until the ends of the first, the second and the third: 1010, 2010 and 3010.
  CHECK(value("list_wait_cycles") == (1010 - 13) + (2010 - 14) + (3010 - 15));
}

}  // namespace heddle::test::scheduler_table_test
