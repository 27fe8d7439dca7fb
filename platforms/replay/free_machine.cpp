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

}  // namespace heddle::replay
