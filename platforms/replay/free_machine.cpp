#include "replay/free_machine.h"

#include <algorithm>
#include <tuple>

#include "replay/comparison.h"

namespace heddle::replay {
namespace {

struct Running {
  workload::Nanoseconds start = 0;
  workload::Nanoseconds end = 0;
  double held = 0;  // part of the machine
  std::size_t op = 0;
};

}  // namespace

std::vector<double> free_parts(const workload::Workload& workload, const gpu::GpuParams& machine) {
  std::vector<double> parts(workload.ops.size(), 1.0);
  std::vector<Running> kernels;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    if (op.kind != workload::OpKind::kernel || !op.recorded || op.recorded->duration <= 0) continue;
    Running its{op.recorded->start, op.recorded->start + op.recorded->duration, 0, i};
    if (op.recorded->overlaps) {
      const double ctas = static_cast<double>(op.kernel.grid.count());
      its.held = std::min(1.0, ctas / SoloKernel(machine, op.kernel).slots());
    }
    kernels.push_back(its);
  }
  std::sort(kernels.begin(), kernels.end(),
            [](const Running& a, const Running& b) { return std::tie(a.start, a.op) < std::tie(b.start, b.op); });
  std::vector<Running> open;  // that started before
  for (const Running& its : kernels) {
    open.erase(std::remove_if(open.begin(), open.end(), [&its](const Running& o) { return o.end <= its.start; }),
               open.end());
    double held = 0;  // of the machine, times ns
    for (const Running& other : open) {
      held += other.held * static_cast<double>(std::min(other.end, its.end) - its.start);
    }
    parts[its.op] = std::clamp(1 - held / static_cast<double>(its.end - its.start), kLeastFree, 1.0);
    open.push_back(its);
  }
  return parts;
}

// The integral of all use over time, from one begin or end of an operation to the next; of it each takes what is its
// own.
std::vector<double> used_beside(const workload::Workload& workload, const std::vector<double>& use) {
  struct Change {
    workload::Nanoseconds when = 0;
    double use = 0;
  };
  std::vector<Change> changes;
  const auto counts = [&workload](std::size_t i) {
    return workload.ops[i].recorded && workload.ops[i].recorded->duration > 0;
  };
  for (std::size_t i = 0; i < use.size(); ++i) {
    if (!counts(i)) continue;
    const workload::Recorded& its = *workload.ops[i].recorded;
    changes.push_back({its.start, use[i]});
    changes.push_back({its.start + its.duration, -use[i]});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return std::tie(a.when, a.use) < std::tie(b.when, b.use); });
  std::vector<double> sums(changes.size(), 0);  // until then
  double now = 0;
  for (std::size_t k = 1; k < changes.size(); ++k) {
    now += changes[k - 1].use;
    sums[k] = sums[k - 1] + now * static_cast<double>(changes[k].when - changes[k - 1].when);
  }
  const auto until = [&](workload::Nanoseconds when) {
    const auto at =
        std::lower_bound(changes.begin(), changes.end(), when,
                         [](const Change& change, workload::Nanoseconds time) { return change.when < time; });
    return sums[static_cast<std::size_t>(at - changes.begin())];
  };
  std::vector<double> beside(use.size(), 0);
  for (std::size_t i = 0; i < use.size(); ++i) {
    if (!counts(i)) continue;
    const workload::Recorded& its = *workload.ops[i].recorded;
    const double all = until(its.start + its.duration) - until(its.start);
    const double others = all / static_cast<double>(its.duration) - use[i];
    beside[i] = others > 1e-9 ? others : 0;  // what rounding leaves is nobody's
  }
  return beside;
}

}  // namespace heddle::replay
