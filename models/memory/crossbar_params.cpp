#include "memory/crossbar_params.h"

#include "common/params.h"

namespace heddle::memory {

void CrossbarParams::describe(ParamTable<CrossbarParams>& t) {
  const char* latency = "assumption; together they make L2 hits of 258 cycles (near)";
  t.add("sm_to_tpc", &CrossbarParams::sm_to_tpc, {Unit::cycles, 0, 100'000}, "cycles between SM and TPC, each way",
        latency);
  t.add("tpc_to_cpc", &CrossbarParams::tpc_to_cpc, {Unit::cycles, 0, 100'000}, "cycles between TPC and CPC, each way",
        latency);
  t.add("cpc_to_gpc", &CrossbarParams::cpc_to_gpc, {Unit::cycles, 0, 100'000}, "cycles between CPC and GPC, each way",
        latency);
  t.add("gpc_to_slice", &CrossbarParams::gpc_to_slice, {Unit::cycles, 0, 100'000},
        "cycles between a GPC and an L2 slice of its partition, each way", latency);
  t.add("crossing", &CrossbarParams::crossing, {Unit::cycles, 0, 100'000},
        "further cycles to a slice of another partition, each way",
        "arXiv 2501.12084v2 table 4 on H800: L2 hits of 258 cycles near, 414 far");
  const auto bandwidth = [&t](const char* name, double CrossbarParams::*member, const char* what, const char* source) {
    t.add(name, member, {Unit::bytes_per_cycle, 0.25, 1'000'000.0}, what, source);
  };
  bandwidth("sm_bandwidth", &CrossbarParams::sm_bandwidth, "bytes per cycle between an SM and its TPC, each way",
            "NVIDIA: 64 bytes per cycle and SM from the L2");
  bandwidth("tpc_bandwidth", &CrossbarParams::tpc_bandwidth, "bytes per cycle between a TPC and its CPC, each way",
            "assumption: all that its SMs take");
  bandwidth("cpc_bandwidth", &CrossbarParams::cpc_bandwidth, "bytes per cycle between a CPC and its GPC, each way",
            "assumption: all that its TPCs take");
  bandwidth("gpc_bandwidth", &CrossbarParams::gpc_bandwidth, "bytes per cycle between a GPC and the slices, each way",
            "assumption: two thirds of what its SMs take, more than its share of the slices");
  bandwidth("crossing_bandwidth", &CrossbarParams::crossing_bandwidth,
            "bytes per cycle from one partition to another, each way", "assumption: what half of the slices deliver");
  bandwidth("slice_bandwidth", &CrossbarParams::slice_bandwidth, "bytes per cycle into an L2 slice, and out of it",
            "te42kyfo/gpu-benches on H200: 9.8 to 10.5 TB/s of L2 reads, over 80 slices at 1.98 GHz");
  t.add("queue", &CrossbarParams::queue, {Unit::count, 1, 65'536},
        "packets that wait at each input of a link, besides those that its wire holds", "assumption");
  t.add("header_bytes", &CrossbarParams::header_bytes, {Unit::bytes, 1, 1024},
        "bytes of a request without its data, and of an acknowledgement", "assumption: one 32-byte flit");
}

}  // namespace heddle::memory
