#include "replay/submission.h"

#include <fmt/format.h>

#include "common/params.h"
#include "workload/workload.h"

namespace heddle::replay {
namespace {

constexpr std::size_t kLabelLength = 60;

}  // namespace

std::string operation_label(const workload::Workload& workload, std::size_t op) {
  std::string name = workload.ops[op].kernel.name;
  if (name.size() > kLabelLength) name = name.substr(0, kLabelLength) + "...";
  return fmt::format("{} (operation {}, stream {})", name, op, workload.streams[workload.ops[op].stream].name);
}

void SubmissionParams::describe(ParamTable<SubmissionParams>& t) {
  t.add("enqueue", &SubmissionParams::enqueue, {Unit::ns, 0.0, 1e9},
        "time that the host takes to write a packet into its ring; it writes one at a time",
        "assumption: 64 bytes and an atomic add on the write index, no driver call");
  t.add("doorbell", &SubmissionParams::doorbell, {Unit::ns, 0.0, 1e9},
        "time that the host takes to ring a doorbell: a posted write",
        "assumption: what a write to a register costs a processor that does not wait for it");
  t.add("poll", &SubmissionParams::poll, {Unit::ns, 1.0, 1e9},
        "time between two looks at the read index of a ring that is full", "assumption");
  t.add("ring", &SubmissionParams::ring, {Unit::count, std::uint32_t{2}, std::uint32_t{1} << 20},
        "packets that a ring holds, a power of two", "assumption: small beside the 16,384 of ROCm's runtime");
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
