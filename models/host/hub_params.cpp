#include "host/hub_params.h"

#include "common/params.h"

namespace heddle::host {

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
