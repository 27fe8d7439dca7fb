#include "replay/overlap_pairs.h"

#include <algorithm>
#include <tuple>

namespace heddle::replay {
namespace {

constexpr double kRounding = 2;  // ns; recorders round starts and durations on their own

struct Interval {
  double begin = 0;
  double end = 0;
  std::size_t op = 0;
};

// Calls visit(a, b, time) for every two intervals of different streams that share more than `tolerance`. Those of one
// stream hardly overlap, so that few are open at any time.
template <typename Visit>
void each_pair(const workload::Workload& workload, std::vector<Interval> intervals, double tolerance, Visit visit) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return std::tie(a.begin, a.op) < std::tie(b.begin, b.op); });
  std::vector<Interval> open;
  for (const Interval& now : intervals) {
    open.erase(std::remove_if(open.begin(), open.end(), [&now](const Interval& o) { return o.end <= now.begin; }),
               open.end());
    for (const Interval& other : open) {
      const double shared = std::min(other.end, now.end) - now.begin;
      if (shared > tolerance && workload.ops[other.op].stream != workload.ops[now.op].stream) {
        visit(other.op, now.op, shared);
      }
    }
    open.push_back(now);
  }
}

}  // namespace

OverlapPairs overlap_pairs(const workload::Workload& workload, const std::vector<OpResult>& results) {
  std::vector<Interval> recorded;
  std::vector<Interval> modelled;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    if (op.kind != workload::OpKind::kernel || !op.recorded || !results[i].done) continue;
    const auto start = static_cast<double>(op.recorded->start);
    recorded.push_back({start, start + static_cast<double>(op.recorded->duration), i});
    modelled.push_back({results[i].start, results[i].end, i});
  }
  const double tolerance = std::max(static_cast<double>(workload.timings.resolution), kRounding);
  OverlapPairs pairs;
  each_pair(workload, std::move(recorded), tolerance, [&](std::size_t a, std::size_t b, double shared) {
    const double in_model = std::min(results[a].end, results[b].end) - std::max(results[a].start, results[b].start);
    ++pairs.recorded;
    pairs.recorded_ns += shared;
    pairs.both += in_model > 0 ? 1U : 0U;
    pairs.both_ns += std::clamp(in_model, 0.0, shared);
  });
  each_pair(workload, std::move(modelled), tolerance, [&pairs](std::size_t, std::size_t, double) { ++pairs.modelled; });
  return pairs;
}

}  // namespace heddle::replay
