#include "replay/submission.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "common/params.h"
#include "workload/workload.h"

namespace heddle::replay {
namespace {

constexpr std::size_t kLabelLength = 60;

}  // namespace

const char* pace_name(Pace pace) {
  constexpr const char* kNames[] = {"recorded", "host", "asap"};
  return kNames[static_cast<std::size_t>(pace)];
}

std::string operation_label(const workload::Workload& workload, std::size_t op) {
  std::string name = workload.ops[op].kernel.name;
  if (name.size() > kLabelLength) name = name.substr(0, kLabelLength) + "...";
  return fmt::format("{} (operation {}, stream {})", name, op, workload.streams[workload.ops[op].stream].name);
}

std::vector<std::int64_t> host_times(const workload::Workload& workload, Pace pace, const SubmissionTimings& timings) {
  constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();
  const auto kernel_path = static_cast<std::int64_t>(std::llround(timings.start_path_ns));
  const auto copy_path = static_cast<std::int64_t>(std::llround(timings.copy_path_ns));
  const auto latency = static_cast<std::int64_t>(std::llround(timings.launch_latency_ns));
  std::vector<std::int64_t> stream_time(workload.streams.size(), kNoTime);
  std::vector<std::int64_t> times;
  for (const workload::Op& op : workload.ops) {
    const std::int64_t before_start = op.kind == workload::OpKind::kernel ? kernel_path : copy_path;
    std::int64_t when = stream_time[op.stream];
    if (pace == Pace::asap) {
      when = 0;
    } else {
      if (op.enqueue) when = std::max(when, *op.enqueue + std::max<std::int64_t>(0, latency - before_start));
      if (op.not_before && pace == Pace::recorded) when = std::max(when, *op.not_before - before_start);
      if (when == kNoTime) when = 0;
    }
    stream_time[op.stream] = when;
    times.push_back(when);
  }
  return times;
}

void SubmissionParams::describe(ParamTable<SubmissionParams>& t) {
  t.add("enqueue", &SubmissionParams::enqueue, {Unit::ns, 0.0, 1e9},
        "time that the host takes to write a packet into its ring; it writes one at a time. The same of a TMD, which "
        "each "
        "stream's own thread of the host writes",
        "assumption: 64 bytes and an atomic add on the write index, no driver call");
  t.add(
      "plan", &SubmissionParams::plan, {Unit::ns, 0.0, 1e9},
      "time of the host for each kernel of a list of which it makes condensed packets, before it writes the first",
      "0: planned ahead, as of a graph that is launched again and again; docs/results/packets.md has what heddle_plan "
      "takes");
  t.add("doorbell", &SubmissionParams::doorbell, {Unit::ns, 0.0, 1e9},
        "time that the host takes to ring a doorbell: a posted write",
        "assumption: what a write to a register costs a processor that does not wait for it");
  t.add("poll", &SubmissionParams::poll, {Unit::ns, 1.0, 1e9},
        "time between two looks at the read index of a ring that is full", "assumption");
  t.add("ring", &SubmissionParams::ring, {Unit::count, std::uint32_t{2}, std::uint32_t{1} << 20},
        "packets that a ring holds, a power of two", "assumption: small beside the 16,384 of ROCm's runtime");
  t.add("tmds", &SubmissionParams::tmds, {Unit::count, std::uint32_t{1}, std::uint32_t{1} << 20},
        "TMDs that the host has in the memory of a GPU whose streams are TMDQs (by: tmdq): tasks that it has pushed "
        "and of "
        "whose ends it does not know",
        "assumption: as many as packets in a ring");
  t.add("memory", &SubmissionParams::memory, {Unit::bytes, std::uint64_t{1} << 20, std::uint64_t{1} << 40},
        "bytes of the host's memory, which all GPUs of the run share", "assumption: room for queues and copies");
  t.add("memory_latency", &SubmissionParams::memory_latency, {Unit::ns, 0.0, 1e6},
        "time that the host's memory takes for an access of a GPU, beside the link (gpu.hub.link_latency)",
        "assumption: DRAM behind a server's memory controller");
}

void SubmissionParams::check() const {
  if ((ring & (ring - 1)) != 0) {
    throw InputError(fmt::format("host.ring = {} is not a power of two", ring), "as in: host.ring=1024");
  }
}

}  // namespace heddle::replay
