#include "import/dependencies.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::import {

using namespace workload;
namespace {

constexpr Nanoseconds kDefaultLatency = 5'000;  // where no launch found its stream idle
constexpr Nanoseconds kLaunchedAhead = 20'000;  // launched so long before it could start: the wait was not the host's
constexpr Nanoseconds kLeastGap = 500;          // what follows sooner follows at once
constexpr Nanoseconds kLatestSignal = 20'000;   // from an end to what waits for it in another stream; ROCm's take 16 us
constexpr Nanoseconds kContradiction = 1'000;   // ends and starts of neighbours cross by less than this in recordings

Nanoseconds start_of(const Op& op) { return op.recorded->start; }
Nanoseconds end_of(const Op& op) { return op.recorded->start + op.recorded->duration; }

bool before(const HostMoment& a, const HostMoment& b) {
  return std::tie(a.time, a.sequence) < std::tie(b.time, b.sequence);
}

class Deriver {
 public:
  Deriver(Workload& workload, const std::vector<HostMoment>& launches)
      : workload_(workload), ops_(workload.ops), launches_(launches), streams_(workload.streams.size()) {
    std::vector<std::optional<std::size_t>> last(streams_.size());
    predecessor_.reserve(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      predecessor_.push_back(last[ops_[i].stream]);
      last[ops_[i].stream] = i;
      streams_[ops_[i].stream].push_back(i);
    }
  }

  DependencyCounts run(const std::vector<StreamWait>& waits) {
    find_ends();
    measure_latency();
    measure_gap();
    add_recorded(waits);
    explain_late_starts();
    mark_overlaps();
    mark_programmatic();
    check();
    warn();
    return counts_;
  }

 private:
  // It is of a graph whose first operation is another.
  bool within_graph(std::size_t i) const {
    if (!ops_[i].graph || !predecessor_[i]) return false;
    const std::optional<GraphUse>& before = ops_[*predecessor_[i]].graph;
    return before && !before->last;
  }
  // Its end can be waited for from outside: it is of no graph, or the last of its own.
  bool has_end(std::size_t i) const { return !ops_[i].graph || ops_[i].graph->last; }

  // Of a graph's last operation: when all of the graph have ended.
  void find_ends() {
    ends_.resize(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      ends_[i] = end_of(ops_[i]);
      if (within_graph(i)) ends_[i] = std::max(ends_[i], ends_[*predecessor_[i]]);
    }
  }

  // Lower quartile of (start - launch) over the operations that found their stream idle: the upper ones also waited for
  // other streams or for a host busy with something else.
  void measure_latency() {
    std::vector<Nanoseconds> samples;
    std::vector<Nanoseconds>
        first;  // of each stream: idle as far as the recording tells; used if there is nothing else
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (!ops_[i].enqueue || *ops_[i].enqueue > start_of(ops_[i]) || within_graph(i)) continue;
      const Nanoseconds latency = start_of(ops_[i]) - *ops_[i].enqueue;
      if (!predecessor_[i]) {
        first.push_back(latency);
      } else if (*ops_[i].enqueue >= ends_[*predecessor_[i]]) {
        samples.push_back(latency);
      }
    }
    if (samples.empty()) samples = std::move(first);
    if (samples.empty()) return;
    const auto quartile = samples.begin() + static_cast<std::ptrdiff_t>((samples.size() - 1) / 4);
    std::nth_element(samples.begin(), quartile, samples.end());
    workload_.timings.launch_latency = *quartile;
  }

  void measure_gap() {
    std::vector<Nanoseconds> samples;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (!ops_[i].enqueue || !predecessor_[i] || within_graph(i)) continue;
      const Nanoseconds ready = ends_[*predecessor_[i]];
      if (ready - *ops_[i].enqueue > kLaunchedAhead) samples.push_back(start_of(ops_[i]) - ready);
    }
    if (samples.empty()) return;
    std::sort(samples.begin(), samples.end());
    // Where most have no gap at all, the median says nothing of those that have one: theirs does, as far as it is not
    // that of waits.
    const auto gaps = std::lower_bound(samples.begin(), samples.end(), kLeastGap);
    const Nanoseconds median = samples[samples.size() / 2];
    const Nanoseconds of_gaps = gaps == samples.end() ? kLeastGap : *(gaps + (samples.end() - gaps) / 2);
    const Nanoseconds most = std::max(4 * median, std::min(4 * of_gaps, kUnexplained));
    double sum = 0.0;
    std::size_t count = 0;
    for (const Nanoseconds sample : samples) {
      if (sample > most) break;
      sum += static_cast<double>(sample);
      ++count;
    }
    // Negative where kernels of a stream overlap by the recorder's rounding: no gap then.
    const double mean = std::max(sum / static_cast<double>(std::max<std::size_t>(count, 1)), 0.0);
    workload_.timings.stream_gap = std::llround(mean);
  }

  // When each operation of a stream was given to it. A stream is a FIFO: an operation without launch call, or one
  // launched by another thread, was there before its successor was.
  std::vector<HostMoment> enqueued(const std::vector<std::size_t>& stream) const {
    std::vector<HostMoment> moments(stream.size());
    for (std::size_t k = stream.size(); k-- > 0;) {
      const Op& op = ops_[stream[k]];
      moments[k] = op.enqueue ? launches_[stream[k]] : HostMoment{start_of(op), 0};
      if (k + 1 < stream.size() && before(moments[k + 1], moments[k])) moments[k] = moments[k + 1];
    }
    return moments;
  }

  void add_recorded(const std::vector<StreamWait>& waits) {
    if (waits.empty()) return;
    std::vector<std::vector<HostMoment>> moments;
    moments.reserve(streams_.size());
    for (const auto& stream : streams_) moments.push_back(enqueued(stream));
    for (const StreamWait& wait : waits) {
      if (wait.waiting == wait.source) continue;  // the order of the stream already says so
      const auto& given = moments[wait.source];
      const auto after_source = std::lower_bound(given.begin(), given.end(), wait.recorded, before);
      const auto& taken = moments[wait.waiting];
      const auto target = std::upper_bound(taken.begin(), taken.end(), wait.called, before);
      if (after_source == given.begin() || target == taken.end()) continue;  // nothing to wait for, or nothing waits
      add_edge(streams_[wait.source][static_cast<std::size_t>(after_source - given.begin()) - 1],
               streams_[wait.waiting][static_cast<std::size_t>(target - taken.begin())]);
    }
  }

  void add_edge(std::size_t from, std::size_t to) {
    auto& after = ops_[to].after;
    for (const Edge& edge : after) {
      if (edge.from == from) return;
    }
    const Nanoseconds tolerance = workload_.timings.resolution + kContradiction;
    if (from >= to || within_graph(to) || !has_end(from) || ends_[from] > start_of(ops_[to]) + tolerance) {
      ++counts_.contradicted;
      return;
    }
    after.push_back({from, EdgeSource::recorded});
    ++counts_.recorded;
  }

  void explain_late_starts() {
    by_end_.resize(ops_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) by_end_[i] = i;
    std::sort(by_end_.begin(), by_end_.end(), [this](std::size_t a, std::size_t b) {
      return std::make_tuple(ends_[a], a) < std::make_tuple(ends_[b], b);
    });
    const Nanoseconds latency = workload_.timings.launch_latency.value_or(kDefaultLatency);
    const Nanoseconds gap = workload_.timings.stream_gap.value_or(0);
    const bool calls = std::any_of(ops_.begin(), ops_.end(), [](const Op& op) { return op.enqueue.has_value(); });
    std::vector<bool> called(streams_.size());
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      Op& op = ops_[i];
      if (within_graph(i)) continue;
      Nanoseconds expected = 0;
      if (op.enqueue) {
        if (*op.enqueue > start_of(op)) ++started_early_;
        expected = *op.enqueue + latency;
        called[op.stream] = true;
      } else {
        op.not_before = start_of(op);  // INP-03
        ++launched_before_;
        // The GPU had it when the recording began, if its stream has not had a call since.
        if (!calls || called[op.stream]) continue;
      }
      if (predecessor_[i]) expected = std::max(expected, ends_[*predecessor_[i]] + gap);
      for (const Edge& edge : op.after) expected = std::max(expected, ends_[edge.from] + gap);
      if (start_of(op) <= expected + kUnexplained) continue;
      const std::optional<std::size_t> cause = last_to_end_before(i);
      if (cause) {
        op.after.push_back({*cause, EdgeSource::inferred});
        ++counts_.inferred;
      } else if (op.enqueue) {
        op.not_before = start_of(op);
        ++counts_.pinned;
      }
    }
  }

  // The operation of another stream that ended last within the time before operation `i` started, and started before.
  std::optional<std::size_t> last_to_end_before(std::size_t i) const {
    const Nanoseconds start = start_of(ops_[i]);
    auto at = std::upper_bound(by_end_.begin(), by_end_.end(), start + workload_.timings.resolution,
                               [this](Nanoseconds time, std::size_t op) { return time < ends_[op]; });
    while (at != by_end_.begin()) {
      --at;
      if (ends_[*at] <= start - kLatestSignal) break;
      if (ops_[*at].stream != ops_[i].stream && has_end(*at) && *at < i && start_of(ops_[*at]) < start) return *at;
    }
    return std::nullopt;
  }

  // One sweep over the starts. Kernels no longer than the tolerance cannot overlap by more than it, and of the others
  // only those wait in `open` that have not overlapped yet: it stays short.
  void mark_overlaps() {
    const Nanoseconds tolerance = std::max(workload_.timings.resolution, kRecordedRounding);
    Nanoseconds latest_end = std::numeric_limits<Nanoseconds>::min();
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      Op& op = ops_[i];
      if (op.kind != OpKind::kernel || op.recorded->duration <= tolerance) continue;
      const Nanoseconds start = start_of(op);
      const Nanoseconds end = end_of(op);
      const auto done = [&](std::size_t other) {
        ops_[other].recorded->overlaps = std::min(end_of(ops_[other]), end) > start + tolerance;
        return ops_[other].recorded->overlaps || end_of(ops_[other]) <= start;
      };
      open.erase(std::remove_if(open.begin(), open.end(), done), open.end());
      op.recorded->overlaps = std::min(latest_end, end) > start + tolerance;
      if (!op.recorded->overlaps) open.push_back(i);
      latest_end = std::max(latest_end, end);
    }
  }

  // Kernels whose stream does not make them wait for the end of the one before them.
  void mark_programmatic() {
    const Nanoseconds tolerance = std::max(workload_.timings.resolution, kRecordedRounding);
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (!predecessor_[i]) continue;
      const Op& before = ops_[*predecessor_[i]];
      Op& op = ops_[i];
      if (op.kind != OpKind::kernel || before.kind != OpKind::kernel || op.graph || before.graph) continue;
      op.programmatic = std::min(end_of(before), end_of(op)) > start_of(op) + tolerance;
      if (op.programmatic) ++programmatic_;
    }
  }

  // No cycle: both the order of a stream and every edge lead from a lower index to a higher one.
  void check() const {
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      for (const Edge& edge : ops_[i].after) {
        HEDDLE_CHECK(edge.from < i, "an edge between streams leads backwards in the order of submission");
      }
    }
  }

  void warn() {
    const auto say = [this](std::string text) { workload_.warnings.push_back(std::move(text)); };
    if (launched_before_ > 0) {
      say(
          fmt::format("{} of {} operations have no launch call in the recording; they start at their recorded time at "
                      "the earliest.",
                      launched_before_, ops_.size()));
    }
    if (counts_.inferred > 0) {
      say(fmt::format("{} waits between streams are not recorded and were inferred from coinciding ends.",
                      counts_.inferred));
    }
    if (counts_.pinned > 0) {
      say(fmt::format(
          "{} operations start at their recorded time because nothing in the recording explains their wait.",
          counts_.pinned));
    }
    if (counts_.contradicted > 0) {
      say(fmt::format("{} recorded waits between streams were ignored: what they wait for ended after they were over.",
                      counts_.contradicted));
    }
    if (programmatic_ > 0) {
      say(
          fmt::format("{} kernels begin before the kernel ahead of them in their stream has ended; each may start once "
                      "the CTAs of that one have ended, without a gap between them.",
                      programmatic_));
    }
    if (started_early_ > 0) {
      say(
          fmt::format("{} operations start before their launch call: the clocks of host and device disagree in this "
                      "recording.",
                      started_early_));
    }
  }

  Workload& workload_;
  std::vector<Op>& ops_;
  const std::vector<HostMoment>& launches_;
  std::vector<std::vector<std::size_t>> streams_;        // indices of operations, in order
  std::vector<std::optional<std::size_t>> predecessor_;  // in the same stream
  std::vector<Nanoseconds> ends_;                        // of operations: see find_ends()
  std::vector<std::size_t> by_end_;                      // indices of operations by recorded end
  DependencyCounts counts_;
  std::size_t launched_before_ = 0;
  std::size_t started_early_ = 0;
  std::size_t programmatic_ = 0;
};

}  // namespace

DependencyCounts derive_dependencies(Workload& workload, const std::vector<HostMoment>& launches,
                                     const std::vector<StreamWait>& waits) {
  HEDDLE_CHECK(launches.size() == workload.ops.size(), "one launch moment per operation");
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    HEDDLE_CHECK(workload.ops[i].recorded.has_value(), "dependencies need recorded times");
    HEDDLE_CHECK(i == 0 || start_of(workload.ops[i - 1]) <= start_of(workload.ops[i]), "operations by recorded start");
    HEDDLE_CHECK(workload.ops[i].stream < workload.streams.size(), "the stream of an operation exists");
  }
  for (const StreamWait& wait : waits) {
    HEDDLE_CHECK(wait.waiting < workload.streams.size() && wait.source < workload.streams.size(),
                 "the streams of a wait exist");
  }
  return Deriver(workload, launches).run(waits);
}

}  // namespace heddle::import
