#include "host/boundary_params.h"

#include "common/param_table.h"
#include "common/params.h"

namespace heddle::host {

void HostParams::describe(ParamTable<HostParams>& t) {
  constexpr std::uint64_t kHighest = std::uint64_t{1} << 62;
  t.add("register_latency", &HostParams::register_latency, {Unit::ns, 0.0, 1'000'000.0},
        "time of a register access as the host sees it", "assumption: on-board link without a switch");
  t.add("aperture_latency", &HostParams::aperture_latency, {Unit::ns, 0.0, 1'000'000.0},
        "time of a blocking access to the aperture, and of a direct one",
        "assumption: a read across PCIe takes 400 to 900 ns");
  t.add("doorbell", &HostParams::doorbell, {Unit::cycles, 0, 100'000},
        "from the register block to the packet processor and the copy engines", "assumption: half of a die");
  t.add("doorbell_page", &HostParams::doorbell_page, {Unit::bytes, 4096, 65'536},
        "size of a page of doorbells, of which each subcontext has one: what an operating system maps as one; a power "
        "of two",
        "PKT-14: pages of 4 KiB");
  t.add("bar0", &HostParams::bar0, {Unit::bytes, 0, kHighest},
        "where the registers lie on the host's bus: addresses from there on are absolute, others relative; 0 for a bus "
        "that subtracts the base",
        "assumption: 0, all addresses relative");
  t.add("bar1", &HostParams::bar1, {Unit::bytes, 0, kHighest}, "the same of the device memory aperture",
        "assumption: as bar0");
  t.add("aperture_queue", &HostParams::aperture_queue, {Unit::count, 1, 65'536},
        "non-blocking accesses to the aperture that are inside at a time", "assumption");
  t.add("event_fifo", &HostParams::event_fifo, {Unit::count, 1, 65'536},
        "event ids of signals that wait in the register EVENT before one is lost", "assumption: one per queue");
}

void HubParams::describe(ParamTable<HubParams>& t) {
  t.add("latency", &HubParams::latency, {Unit::cycles, 0, 100'000},
        "cycles from the hub to an L2 slice, and the same back", "assumption: as far as an SM's way to a slice");
  t.add("bandwidth", &HubParams::bandwidth, {Unit::bytes_per_cycle, 0.25, 10'000.0},
        "bytes per cycle, headers included, from the hub to all slices together, and the same back",
        "assumption: twice what the host's bus carries");
  t.add("link_latency", &HubParams::link_latency, {Unit::ns, 0.0, 1e6},
        "time from the hub to the host's bus, and the same back",
        "assumption: a read of host memory takes about 500 ns besides the memory's own time; chosen with the costs of "
        "gpu.packet");
  t.add("link_bandwidth", &HubParams::link_bandwidth, {Unit::none, 0.01, 10'000.0},
        "GB/s to the host's bus, headers included, and the same back",
        "PCIe 5.0 x16: 63 GB/s after coding, of which large copies reach about 55");
  t.add("link_tags", &HubParams::link_tags, {Unit::count, 1, 65'536},
        "requests that are under way on the host's bus at a time", "PCIe base specification: tags of 8 bits");
  t.add("queue", &HubParams::queue, {Unit::count, 1, 65'536}, "requests of each client that wait in the hub",
        "assumption");
}

}  // namespace heddle::host
