// Who waits for what, when nothing goes on any more.
#include <fmt/format.h>

#include "task/task_unit.h"

namespace heddle::task {
namespace {

constexpr const char* kTable = "the task table";
constexpr const char* kRecords = "the records of tasks in memory";

}  // namespace

void TaskUnit::collect_waits(WaitGraph& graph) const {
  streams_.collect_waits(graph, [this](std::uint32_t operation) { return label(operation); });
  lists_.each([&](std::int32_t, std::uint32_t operation) { graph.add(label(operation), "for a slot of", kTable); });
  if (!lists_.empty()) {
    for (const std::uint32_t operation : table_.operations()) {
      graph.add(kTable, "for a slot, and one has", label(operation));
    }
  }
  collect_nested_waits(graph);
}

void TaskUnit::collect_nested_waits(WaitGraph& graph) const {
  bool records = false;
  for (const auto& [operation, task] : tasks_) {
    const std::string name = label(operation);
    if (task.run_over) graph.add(name, "for its descendants:", "children of " + name);
    if (task.origin == Task::Origin::restored) graph.add(label(task.packet.runs_as), "for its saved CTA,", name);
    if (task.launches && task.record() == 0) {
      graph.add(name, "for one of", kRecords);
      records = true;
    }
    if (task.origin == Task::Origin::child) {
      graph.add("children of " + label(task.parent), "for the end of", name);
    }
    if (task.queue != 0 && task.sent && queues_.at(task.queue).state.held_open()) {
      graph.add(name, "for entries, or the close, of", fmt::format("its queue at 0x{:x}", task.queue));
    }
  }
  // Their ends are not known any more: nothing but a reset ends what waits for them.
  for (const std::uint64_t record : refused_records_) {
    const std::string what = fmt::format("what lies at 0x{:x}, which memory refused", record);
    if (const auto queue = queues_.find(record); queue != queues_.end()) {
      graph.add(label(queue->second.operation), "for", what);
      continue;
    }
    const auto owner = records_.find(record);
    for (const auto& [operation, task] : tasks_) {
      const bool concerned = owner == records_.end() ? task.record() != 0 : operation == owner->second;
      if (concerned) graph.add("children of " + label(operation), "for", what);
    }
  }
  // Further launches, which nobody but memory knows of.
  for (const auto& [record, queued] : queued_) {
    const auto name = [&](std::uint64_t at) {
      const auto found = records_.find(at);
      return found == records_.end() ? fmt::format("the launch at 0x{:x}", at) : label(found->second);
    };
    graph.add(name(record), "for its turn in its TMDQ, behind", name(queued.behind));
  }
  if (!records) return;
  for (const auto& [operation, task] : tasks_) {
    if (task.record() != 0) graph.add(kRecords, "for one to be given back, as by", label(operation));
  }
}

}  // namespace heddle::task
