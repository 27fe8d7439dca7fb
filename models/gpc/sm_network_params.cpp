#include "gpc/sm_network_params.h"

#include "common/params.h"

namespace heddle::gpc {

void SmNetworkParams::describe(ParamTable<SmNetworkParams>& t) {
  const char* latency =
      "fitted to HPMLL/NVIDIA-Hopper-Benchmark, DSM log, H800: remote loads of 180 to 213 cycles, a part of the source "
      "plus a part of the target";
  t.add("near", &SmNetworkParams::near, {Unit::cycles, 0, 10'000},
        "cycles between the SMs of the GPC's first TPC and the middle of the network; a way is the source's part plus "
        "the target's",
        latency);
  t.add("far", &SmNetworkParams::far, {Unit::cycles, 0, 10'000},
        "the same for the SMs of its last TPC; those between lie on a line", latency);
  t.add("bandwidth", &SmNetworkParams::bandwidth, {Unit::bytes_per_cycle, 0.25, 10'000.0},
        "bytes per cycle, headers included, out of each SM and into it, for requests and again for replies",
        "fitted to arXiv 2402.13499, H800: a ring copy in clusters of 2 reaches 3.27 TB/s on 114 SMs at 1.755 GHz, "
        "16.3 bytes of data per cycle and SM, which take 18.4 with their headers");
  t.add("queue", &SmNetworkParams::queue, {Unit::count, 1, 65'536},
        "packets of each source that wait at an SM's port, besides those that the wire holds, and that wait behind the "
        "port for the SM",
        "assumption");
}

}  // namespace heddle::gpc
