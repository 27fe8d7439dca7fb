#include "replay/host_params.h"

#include <fmt/format.h>

#include "common/params.h"

namespace heddle::replay {

void PacketHostParams::describe(ParamTable<PacketHostParams>& t) {
  t.add("enqueue", &PacketHostParams::enqueue, {Unit::ns, 0.0, 1e9},
        "time that the host takes to write a packet into its ring; it writes one at a time",
        "assumption: 64 bytes and an atomic add on the write index, no driver call");
  t.add("doorbell", &PacketHostParams::doorbell, {Unit::ns, 0.0, 1e9},
        "time that the host takes to ring a doorbell: a posted write",
        "assumption: what a write to a register costs a processor that does not wait for it");
  t.add("poll", &PacketHostParams::poll, {Unit::ns, 1.0, 1e9},
        "time between two looks at the read index of a ring that is full", "assumption");
  t.add("ring", &PacketHostParams::ring, {Unit::count, std::uint32_t{2}, std::uint32_t{1} << 20},
        "packets that a ring holds, a power of two", "assumption: small beside the 16,384 of ROCm's runtime");
  t.add("memory", &PacketHostParams::memory, {Unit::bytes, std::uint64_t{1} << 20, std::uint64_t{1} << 40},
        "bytes of the host's memory, which all GPUs of the run share", "assumption: room for queues and copies");
  t.add("memory_latency", &PacketHostParams::memory_latency, {Unit::ns, 0.0, 1e6},
        "time that the host's memory takes for an access of a GPU, beside the link (gpu.hub.link_latency)",
        "assumption: DRAM behind a server's memory controller");
}

void PacketHostParams::check() const {
  if ((ring & (ring - 1)) != 0) {
    throw InputError(fmt::format("host.ring = {} is not a power of two", ring), "as in: host.ring=1024");
  }
}

}  // namespace heddle::replay
