// The tables of steps of programs that concern clusters.
#include "scenario/schema.h"

namespace heddle::workload {
namespace {

// Of mbarriers.
constexpr KeySpec kAtMbarrier{"at", true, kText,
                              "offset of the mbarrier in shared memory, a multiple of 8: an expression"};
constexpr KeySpec kMbarrierRank{
    "rank", false, kText,
    "number in the cluster of the CTA whose mbarrier it is: an expression; default: one of the own CTA"};
constexpr KeySpec kLanes{"lanes", false, kText,
                         "first or all: which of the lanes that take part do it, each for itself; default first"};
constexpr KeySpec kMbarrierScope{"scope", false, kText,
                                 "how far the order reaches: cta, cluster, gpu, system; default cta"};
constexpr KeySpec kWaitOrder{"order", false, kText, "acquire or relaxed; default acquire"};
constexpr KeySpec kParity{"parity", true, kText, "parity of the phase, 0 for the first: an expression"};

}  // namespace

const MapSpec& cluster_arrive_step_spec() {
  static const MapSpec kSpec{"cluster_arrive_step", {{"order", false, kText, "release or relaxed; default release"}}};
  return kSpec;
}

const MapSpec& cluster_wait_step_spec() {
  static const MapSpec kSpec{"cluster_wait_step", {kWaitOrder}};
  return kSpec;
}

const MapSpec& mbarrier_init_step_spec() {
  static const MapSpec kSpec{
      "mbarrier_init_step",
      {
          kAtMbarrier,
          {"count", true, kText, "arrivals that each phase expects, from 1 to 1048575: an expression"},
          kLanes,
      }};
  return kSpec;
}

const MapSpec& mbarrier_invalidate_step_spec() {
  static const MapSpec kSpec{"mbarrier_invalidate_step", {kAtMbarrier, kLanes}};
  return kSpec;
}

const MapSpec& mbarrier_arrive_step_spec() {
  static const MapSpec kSpec{
      "mbarrier_arrive_step",
      {
          kAtMbarrier,
          kMbarrierRank,
          {"count", false, kText, "arrivals: an expression; default 1"},
          {"expect", false, kText, "bytes that the phase expects beside those before: an expression; default 0"},
          {"to", false, kText, "name that gets the parity of the phase in which it arrives; not with rank"},
          {"order", false, kText, "release or relaxed; default release"},
          {"scope", false, kText,
           "how far the order reaches: cta, cluster, gpu, system; default cta, with rank cluster"},
          kLanes,
      }};
  return kSpec;
}

const MapSpec& mbarrier_bytes_step_spec() {
  static const MapSpec kSpec{"mbarrier_bytes_step",
                             {
                                 kAtMbarrier,
                                 kMbarrierRank,
                                 {"bytes", true, kText, "number of bytes: an expression"},
                                 kLanes,
                             }};
  return kSpec;
}

const MapSpec& mbarrier_wait_step_spec() {
  static const MapSpec kSpec{"mbarrier_wait_step", {kAtMbarrier, kParity, kWaitOrder, kMbarrierScope, kLanes}};
  return kSpec;
}

const MapSpec& mbarrier_test_step_spec() {
  static const MapSpec kSpec{
      "mbarrier_test_step",
      {
          kAtMbarrier,
          kParity,
          {"to", true, kText, "name that gets 1 if the phase has completed, else 0"},
          kWaitOrder,
          kMbarrierScope,
          {"lanes", false, kText,
           "all or first: which of the lanes that take part do it, each for itself; default all"},
      }};
  return kSpec;
}

const MapSpec& release_shared_step_spec() {
  static const MapSpec kSpec{
      "release_shared_step",
      {{"from", true, kText,
        "offset from which on the shared memory is given back: an expression, the same for all lanes"}}};
  return kSpec;
}

}  // namespace heddle::workload
