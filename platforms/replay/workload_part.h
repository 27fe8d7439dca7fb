// Parts of a workload's operations: what is left out of a simulation, and where it comes to rest in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arch/fault.h"
#include "replay/submission.h"
#include "workload/workload.h"

namespace heddle::replay {

// By operation of a workload.
using OpSet = std::vector<bool>;

// What one simulation does of a workload that is submitted to streams.
struct WorkloadPart {
  OpSet left_out;  // they are not submitted, and whoever waits for one takes it as ended; empty: none
  // The number of the stretch that an operation belongs to: it is submitted once all of the earlier stretches have
  // ended. Empty: all belong to one.
  std::vector<std::uint32_t> stretches;
  std::optional<std::int64_t> begin;  // ns, workload axis: the simulation begins there; none: before its first time
  std::string state;                  // of the device then, as Gpu::state() saves it; empty: as the workload says

  bool leaves_out(std::size_t op) const { return !left_out.empty() && left_out[op]; }
  std::uint32_t stretch_of(std::size_t op) const { return stretches.empty() ? 0 : stretches[op]; }
};

// Faults of a device, in order of time.
struct Faults {
  std::vector<arch::FaultRecord> records;  // `task`: the operation
  std::vector<std::string> kernels;        // of each, if a program launched it; else empty
};

// A moment between two stretches, or behind the last one: all operations so far have ended, and the devices are quiet.
struct RestingPoint {
  std::uint32_t stretch = 0;        // that has ended
  std::vector<std::string> states;  // by GPU, for WorkloadPart::state
  std::vector<std::int64_t> times;  // by GPU: ns, workload axis
  std::vector<Faults> faults;       // by GPU, so far in this simulation
  std::string why_not;              // a device could not be saved: what is still under way there; else empty
};

// Operations by GPU, in the order in which hosts submit them.
using OpPlace = std::pair<std::size_t, std::size_t>;  // GPU, operation
std::vector<OpPlace> submission_order(const std::vector<const workload::Workload*>& workloads, Pace pace);

// By GPU, the stretches of `every` operations each, or a few more where they could not be divided: nothing waits for a
// later stretch, launches of graphs stay whole, and so do queues with the operations that feed them. `left_out`: by
// GPU, operations that do not count.
std::vector<std::vector<std::uint32_t>> stretches_of(const std::vector<const workload::Workload*>& workloads, Pace pace,
                                                     std::uint64_t every, const std::vector<OpSet>& left_out);

// What has to be done before a place in the order of submission.
struct Ahead {
  std::vector<OpSet> ops;            // by GPU
  std::map<OpPlace, OpPlace> needs;  // of those that stand behind the place: one of the set that needs it
};
// The operations that are submitted before `place`, and what these need, again and again: what they wait for, what
// stands before that in its stream, and the rest of a graph's launch.
Ahead ahead_of(const std::vector<const workload::Workload*>& workloads, Pace pace, std::size_t place);

// The operations of a recording that `left_out` leaves, as a workload of its own: nothing waits for the others.
workload::Workload without(const workload::Workload& recording, const OpSet& left_out);

}  // namespace heddle::replay
