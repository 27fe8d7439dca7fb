#include "task/task_params.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/params.h"

namespace heddle::task {

void NestedParams::describe(ParamTable<NestedParams>& t) {
  t.add("pending_launches", &NestedParams::pending_launches, {Unit::count, 1, 1'000'000},
        "tasks with a record in memory at a time: launched by device code and not completed, or launching",
        "CUDA: cudaLimitDevRuntimePendingLaunchCount");
  t.add("contexts", &NestedParams::contexts, {Unit::count, 1, 1'000'000},
        "thread-group contexts at a time: CTAs (or grids) that have launched, with what they launched", "assumption");
  t.add("areas", &NestedParams::areas, {Unit::count, 1, 1'000'000},
        "waiting CTAs that can be saved at a time, to give their slots to others (TSK-12)", "assumption");
  t.add("area_bytes", &NestedParams::area_bytes, {Unit::bytes, 256, 1024 * 1024},
        "room for a saved CTA, rounded up to whole lines; CTAs with more state stay where they are", "assumption");
  t.add(
      "parts", &NestedParams::parts, {Unit::count, 1, arch::kSubcontexts},
      "sets of pools, each with that many launches, contexts and areas: subcontexts have them in turn, as each process "
      "has memory of its own for them",
      "CUDA: the limit of pending launches is a process's own; how many processes, an assumption");
  t.add("tmdqs", &NestedParams::tmdqs, {Unit::count, 1, arch::kMaxTmdqs},
        "task metadata queues of a context: streams above that share one (TSK-11)", "TSK-07");
  t.add("max_depth", &NestedParams::max_depth, {Unit::none, 1, 1'000'000},
        "deepest nesting: a child of a task of the host runs at depth 1", "CUDA: maximum nesting depth 24");
  t.add_choice("shared_by", &NestedParams::shared_by, {{"cta", ContextSharing::cta}, {"grid", ContextSharing::grid}},
               "what shares the streams of one context: the threads of a CTA, or all of a grid", "TSK-07");
  t.add("in_flight", &NestedParams::in_flight, {Unit::count, 1, 4096},
        "starts and completions that the nested scheduler works on at a time", "assumption");
  t.add("schedule_cycles", &NestedParams::schedule_cycles, {Unit::cycles, 0, 1'000'000},
        "the nested scheduler's own work on each of them, before its first access to memory", "assumption");
  t.add("sm_distance", &NestedParams::sm_distance, {Unit::cycles, 0, 100'000},
        "cycles from task management to an SM: wakes of warps that wait (gpu.sm.nested.distance is the other way)",
        "assumption");
  t.add("retry", &NestedParams::retry, {Unit::cycles, 1, 1'000'000},
        "cycles after which something that another writer is to write is read again", "assumption");
}

void TaskParams::describe(ParamTable<TaskParams>& t) {
  t.add("stream_gap", &TaskParams::stream_gap, {Unit::ns, 0.0, 1e9},
        "from the end of an operation to the start of the next one of its stream, at least; the model's own path "
        "counts against it",
        "recordings of H100 SXM: at least 0.83 us, median 1.2 to 1.4 us");
  t.add("to_cwd", &TaskParams::to_cwd, {Unit::cycles, 0, 100'000}, "cycles from task management to the distributor",
        "assumption");
  t.add("submit_queue", &TaskParams::submit_queue, {Unit::count, 1, 1'000'000},
        "operations on their way from the host: credits. Task management itself takes in any number (TSK-02)",
        "assumption");
  t.add(
      "table_guarantee", &TaskParams::table_guarantee, {Unit::percent, 0.0, 100.0},
      "in the modes static and dynamic: what of an equal share of the task table is kept for each subcontext that the "
      "host has named or that has had a task; others may use the rest",
      "assumption; 0: whoever comes first has the slots");
  t.group("nested", &TaskParams::nested);
}

arch::LaunchMemory nested_memory(const NestedParams& params, std::uint64_t end) {
  constexpr std::uint64_t kLine = arch::kRecordBytes;
  arch::LaunchMemory memory;
  memory.tasks.count = params.pending_launches;
  memory.contexts.count = params.contexts;
  memory.areas.count = params.areas;
  memory.areas.size = (params.area_bytes + kLine - 1) / kLine * kLine;
  memory.tmdqs = params.tmdqs;
  memory.max_depth = params.max_depth;
  memory.shared_contexts = params.shared_by == ContextSharing::grid;
  memory.retry = params.retry;
  memory.parts = params.parts;
  // What a process may read of it, its TMDs, shares no page with anything else (PRT-08).
  constexpr std::uint64_t kPage = std::uint64_t{64} << 10;
  const auto whole = [](std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; };
  const std::uint64_t records = whole(memory.tasks.bytes());
  memory.part_bytes = records + whole(memory.contexts.bytes() + memory.areas.bytes());
  const std::uint64_t bytes = memory.parts * memory.part_bytes;
  const std::uint64_t top = end / kPage * kPage;
  if (top < bytes + kPage) {
    throw InputError(
        fmt::format("the records of device-side launches take {} bytes, and memory has {} for them; smaller "
                    "gpu.task.nested.areas, area_bytes, contexts, pending_launches or parts help",
                    bytes, end));
  }
  memory.tasks.base = top - bytes;
  memory.contexts.base = memory.tasks.base + records;
  memory.areas.base = memory.contexts.base + memory.contexts.bytes();
  return memory;
}

}  // namespace heddle::task
