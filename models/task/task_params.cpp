#include "task/task_params.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/params.h"

namespace heddle::task {

void NestedParams::describe(ParamTable<NestedParams>& t) {
  t.add("pending_launches", &NestedParams::pending_launches, {Unit::count, 1, 1'000'000},
        "tasks with a record in memory at a time: launched by device code and not completed, or launching",
        "CUDA: cudaLimitDevRuntimePendingLaunchCount");
  t.add("contexts", &NestedParams::contexts, {Unit::count, 0, 1'000'000},
        "thread-group contexts at a time, before those in the memory behind: CTAs (or grids) that have launched, with "
        "what they launched; 0: as many as CTAs can be resident",
        "TSK-07: allocated for every context that can run at a time");
  t.add_choice("overflow", &NestedParams::overflow,
               {{"spill", LaunchOverflow::spill}, {"error", LaunchOverflow::error}},
               "a launch that finds no free record: takes one from the memory behind the pools, or fails (TSK-12)",
               "CUDA: a virtualized pool behind the fixed one, or cudaErrorLaunchPendingCountExceeded");
  t.add("memory", &NestedParams::memory, {Unit::percent, 0.0, 50.0},
        "of device memory, in equal sets: one eighth for records of launches behind the pools, one for contexts, the "
        "rest for the state of saved CTAs in chunks of 4 KiB (TSK-12)",
        "assumption");
  t.add(
      "parts", &NestedParams::parts, {Unit::count, 1, arch::kSubcontexts},
      "sets of pools, each with that many launches and contexts, and its part of the memory: subcontexts have them in "
      "turn, as each process has memory of its own for them",
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

void GapParams::describe(ParamTable<GapParams>& t) {
  t.add(
      "drain", &GapParams::drain, {Unit::ns, 0.0, 1e6},
      "time from the last completion of a grid until it has ended: its SMs let go of what they hold of it besides CTAs "
      "(instructions, constants, bindings), and every GPC has said so",
      "0: nothing but CTAs is let go of");
  t.add(
      "report", &GapParams::report,
      "the end of a kernel of a stream or of a graph is written to memory, and what waits for it goes on once that has "
      "been acknowledged",
      "off: an end is known at once");
  t.add("front_end", &GapParams::front_end, {Unit::ns, 0.0, 1e6},
        "time of the front end from when the end of an operation is known until it fetches the next one of the stream: "
        "it takes the end up, and goes on in the stream's channel",
        "0: it takes none");
  t.add("fetches", &GapParams::fetches, {Unit::count, 0, 16},
        "lines of memory, one after another, that are read of the next operation of a stream: its place in the "
        "channel, and its descriptor. A kernel of a graph has one line of its own, which is read once all that it "
        "waits for have ended",
        "0: task management knows them");
}

void TaskParams::describe(ParamTable<TaskParams>& t) {
  t.add("stream_gap", &TaskParams::stream_gap, {Unit::ns, 0.0, 1e9},
        "from the end of an operation to the start of the next one of its stream, at least; what gpu.task.gap takes "
        "and the model's own path count against it",
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
  t.add("host_records", &TaskParams::host_records,
        "every kernel of the host and of the packet processor has a record in memory: written when it is taken in, and "
        "read when it is scheduled (TSK-01). Without, those whose programs launch have one, and others get one when "
        "they are evicted",
        "off: the gap of streams and the launch figures that presets are compared with are of launches whose accesses "
        "to memory are part of that gap");
  t.add(
      "list_entries", &TaskParams::list_entries, {Unit::count, 1, 10'000'000},
      "entries of the scheduler table; besides, each subcontext's list of each priority and depth has one of its own. "
      "What finds none waits where it comes from, the host at the head of its stream (TSK-02)",
      "assumption");
  t.add("list_insert", &TaskParams::list_insert, {Unit::cycles, 0, 100'000},
        "cycles in which the scheduler table puts one task into its list, and puts in no other",
        "assumption: hidden in to_cwd");
  t.add("list_take", &TaskParams::list_take, {Unit::cycles, 0, 100'000},
        "cycles in which it takes one out, the most urgent that is in when it begins, and takes out no other",
        "assumption: hidden in to_cwd");
  t.group("gap", &TaskParams::gap);
  t.group("nested", &TaskParams::nested);
}

namespace {

// What a process may read of it, its TMDs, shares no page with anything else (PRT-08).
constexpr std::uint64_t kPage = std::uint64_t{64} << 10;
constexpr std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// As many records as fit into so many bytes, with their ring.
arch::RecordPool pool_of(std::uint64_t bytes, std::uint64_t size) {
  arch::RecordPool pool;
  pool.size = size;
  pool.count = bytes / (size + 8);
  while (pool.bytes() > bytes) --pool.count;
  return pool;
}

std::uint64_t lines_of(const arch::LaunchMemory& memory) { return memory.tasks.pool.count + memory.tasks.spill.count; }

std::uint64_t second_bytes(const arch::LaunchMemory& memory) {
  return whole_pages(memory.parts * lines_of(memory) * arch::kRecordBytes);
}

}  // namespace

std::uint64_t second_halves_of(const arch::LaunchMemory& memory) { return memory.base() - second_bytes(memory); }

std::uint64_t second_half_of(const arch::LaunchMemory& memory, std::uint64_t record) {
  const std::uint64_t part = (record - memory.base()) / memory.part_bytes;
  const arch::RecordSupply own = memory.part(static_cast<std::uint32_t>(part)).tasks;
  const bool spilled = own.spill.has(record);
  HEDDLE_CHECK(spilled || own.pool.has(record), "a task has a record that is in no pool");
  const arch::RecordPool& pool = own.of(record);
  const std::uint64_t line = (record - pool.record(0)) / pool.size + (spilled ? own.pool.count : 0);
  return second_halves_of(memory) + (part * lines_of(memory) + line) * arch::kRecordBytes;
}

arch::LaunchMemory nested_memory(const NestedParams& params, const LaunchRoom& room) {
  arch::LaunchMemory memory;
  memory.tmdqs = params.tmdqs;
  memory.max_depth = params.max_depth;
  memory.shared_contexts = params.shared_by == ContextSharing::grid;
  memory.retry = params.retry;
  memory.parts = params.parts;
  const auto behind = static_cast<std::uint64_t>(static_cast<double>(room.memory) * params.memory / 100 / params.parts);
  const std::uint64_t spill = params.overflow == LaunchOverflow::spill ? behind / 8 : 0;
  memory.tasks.pool.count = params.pending_launches;
  memory.tasks.spill = pool_of(spill, arch::kRecordBytes);
  const std::uint64_t context = arch::context::bytes(params.tmdqs);
  memory.contexts.pool = {0, params.contexts == 0 ? room.resident : params.contexts, context};
  memory.contexts.spill = pool_of(spill, context);
  memory.chunks = pool_of(behind - 2 * spill, arch::kSaveChunk);
  const std::uint64_t records = whole_pages(memory.tasks.bytes());
  memory.part_bytes = records + whole_pages(memory.contexts.bytes() + memory.chunks.bytes());
  const std::uint64_t bytes = memory.parts * memory.part_bytes;
  const std::uint64_t halves = second_bytes(memory);
  const std::uint64_t top = room.end / kPage * kPage;
  if (top < bytes + halves + kPage) {
    throw InputError(
        fmt::format("the records of device-side launches take {} bytes, and memory has {} for them; smaller "
                    "gpu.task.nested.memory, contexts, pending_launches or parts help",
                    bytes + halves, room.end));
  }
  memory.tasks.pool.base = top - bytes;
  memory.tasks.spill.base = memory.tasks.pool.base + memory.tasks.pool.bytes();
  memory.contexts.pool.base = memory.tasks.pool.base + records;
  memory.contexts.spill.base = memory.contexts.pool.base + memory.contexts.pool.bytes();
  memory.chunks.base = memory.contexts.spill.base + memory.contexts.spill.bytes();
  return memory;
}

}  // namespace heddle::task
