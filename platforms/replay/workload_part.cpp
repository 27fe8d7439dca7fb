#include "replay/workload_part.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace heddle::replay {
namespace {

using workload::Workload;

// All operations of a run in the order of their submission, and what each of them needs.
class SubmissionList {
 public:
  SubmissionList(const std::vector<const Workload*>& workloads, Pace pace)
      : workloads_(workloads), order_(submission_order(workloads, pace)) {
    for (const Workload* workload : workloads) {
      positions_.emplace_back(workload->ops.size());
      last_of_launch_.push_back(launches_of(*workload));
    }
    for (std::size_t p = 0; p < order_.size(); ++p) positions_[order_[p].first][order_[p].second] = p;
  }

  const std::vector<OpPlace>& order() const { return order_; }

  // The last of the positions of what the operation at `position` needs to end, its own included.
  std::size_t reach(std::size_t position) const {
    const auto [gpu, index] = order_[position];
    const workload::Op& op = workloads_[gpu]->ops[index];
    std::size_t last = std::max(position, positions_[gpu][last_of_launch_[gpu][index]]);
    for (const workload::Edge& edge : op.after) {
      last = std::max(last, positions_[edge.gpu.value_or(gpu)][edge.from]);
    }
    if (op.queue) {
      for (const std::size_t other : op.queue->until) last = std::max(last, positions_[gpu][other]);
    }
    return last;
  }

 private:
  // Of each operation the last one of its launch: itself, unless it belongs to a graph.
  static std::vector<std::size_t> launches_of(const Workload& workload) {
    std::vector<std::size_t> last(workload.ops.size());
    for (std::size_t i = workload.ops.size(); i-- > 0;) {
      const auto& graph = workload.ops[i].graph;
      last[i] = graph && !graph->last && i + 1 < workload.ops.size() ? last[i + 1] : i;
    }
    return last;
  }

  const std::vector<const Workload*>& workloads_;
  const std::vector<OpPlace> order_;
  std::vector<std::vector<std::size_t>> positions_;       // by GPU and operation
  std::vector<std::vector<std::size_t>> last_of_launch_;  // the same
};

// What an operation needs beside itself.
class Predecessors {
 public:
  explicit Predecessors(const std::vector<const Workload*>& workloads) : workloads_(workloads) {
    for (const Workload* workload : workloads) {
      std::vector<std::optional<std::size_t>> last(workload->streams.size());
      std::vector<std::optional<std::size_t>> before;
      for (std::size_t i = 0; i < workload->ops.size(); ++i) {
        before.push_back(last[workload->ops[i].stream]);
        last[workload->ops[i].stream] = i;
      }
      before_.push_back(std::move(before));
    }
  }

  std::vector<OpPlace> of(const OpPlace& place) const {
    const auto [gpu, index] = place;
    const workload::Op& op = workloads_[gpu]->ops[index];
    std::vector<OpPlace> needed;
    if (before_[gpu][index]) needed.emplace_back(gpu, *before_[gpu][index]);
    for (const workload::Edge& edge : op.after) needed.emplace_back(edge.gpu.value_or(gpu), edge.from);
    if (op.queue) {
      for (const std::size_t other : op.queue->until) needed.emplace_back(gpu, other);
    }
    if (op.graph && !op.graph->last && index + 1 < workloads_[gpu]->ops.size()) needed.emplace_back(gpu, index + 1);
    return needed;
  }

 private:
  const std::vector<const Workload*>& workloads_;
  std::vector<std::vector<std::optional<std::size_t>>> before_;  // by GPU and operation: the one ahead in its stream
};

std::vector<OpSet> sets_like(const std::vector<const Workload*>& workloads) {
  std::vector<OpSet> sets;
  for (const Workload* workload : workloads) sets.emplace_back(workload->ops.size());
  return sets;
}

}  // namespace

std::vector<OpPlace> submission_order(const std::vector<const Workload*>& workloads, Pace pace) {
  std::vector<std::tuple<std::int64_t, std::size_t, std::size_t>> timed;  // time, GPU, operation
  for (std::size_t gpu = 0; gpu < workloads.size(); ++gpu) {
    const std::vector<std::int64_t> times = host_times(*workloads[gpu], pace, {});
    for (std::size_t i = 0; i < times.size(); ++i) timed.emplace_back(times[i], gpu, i);
  }
  std::sort(timed.begin(), timed.end());
  std::vector<OpPlace> order;
  order.reserve(timed.size());
  for (const auto& [time, gpu, op] : timed) order.emplace_back(gpu, op);
  return order;
}

std::vector<std::vector<std::uint32_t>> stretches_of(const std::vector<const Workload*>& workloads, Pace pace,
                                                     std::uint64_t every, const std::vector<OpSet>& left_out) {
  const SubmissionList list(workloads, pace);
  std::vector<std::vector<std::uint32_t>> stretches;
  for (const Workload* workload : workloads) stretches.emplace_back(workload->ops.size());
  std::uint32_t stretch = 0;
  std::uint64_t count = 0;
  std::size_t reach = 0;
  for (std::size_t p = 0; p < list.order().size(); ++p) {
    const auto [gpu, op] = list.order()[p];
    stretches[gpu][op] = stretch;
    if (!left_out[gpu].empty() && left_out[gpu][op]) continue;
    reach = std::max(reach, list.reach(p));
    if (++count < every || reach > p) continue;
    ++stretch;
    count = 0;
  }
  return stretches;
}

Ahead ahead_of(const std::vector<const Workload*>& workloads, Pace pace, std::size_t place) {
  Ahead ahead{sets_like(workloads), {}};
  const std::vector<OpPlace> order = submission_order(workloads, pace);
  std::vector<OpPlace> open(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(std::min(place, order.size())));
  for (const auto& [gpu, op] : open) ahead.ops[gpu][op] = true;
  const Predecessors predecessors(workloads);
  while (!open.empty()) {
    const OpPlace who = open.back();
    open.pop_back();
    for (const OpPlace& needed : predecessors.of(who)) {
      if (ahead.ops[needed.first][needed.second]) continue;
      ahead.ops[needed.first][needed.second] = true;
      ahead.needs.emplace(needed, who);
      open.push_back(needed);
    }
  }
  return ahead;
}

Workload without(const Workload& recording, const OpSet& left_out) {
  Workload part = recording;
  part.ops.clear();
  std::vector<std::size_t> numbers(recording.ops.size());
  for (std::size_t i = 0; i < recording.ops.size(); ++i) {
    if (left_out[i]) continue;
    numbers[i] = part.ops.size();
    part.ops.push_back(recording.ops[i]);
  }
  for (workload::Op& op : part.ops) {
    op.after.erase(std::remove_if(op.after.begin(), op.after.end(),
                                  [&left_out](const workload::Edge& edge) { return !edge.gpu && left_out[edge.from]; }),
                   op.after.end());
    for (workload::Edge& edge : op.after) {
      if (!edge.gpu) edge.from = numbers[edge.from];
    }
    if (!op.graph) continue;
    for (std::size_t& before : op.graph->after) before = numbers[before];
  }
  return part;
}

}  // namespace heddle::replay
