// What ran in the named ranges of a recording.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run_outcome.h"
#include "common/error.h"
#include "replay/csv_field.h"

namespace heddle::cli {
namespace {

using nlohmann::json;

// From the start of the first operation to the end of the last, and what kernels took together.
struct Extent {
  double begin = 0;
  double end = 0;
  double kernels = 0;
  bool any = false;

  void add(double from, double to, bool kernel) {
    begin = any ? std::min(begin, from) : from;
    end = any ? std::max(end, to) : to;
    if (kernel) kernels += to - from;
    any = true;
  }
  double span() const { return end - begin; }
};

// One range as it was recorded, as it ran, and as the recorded machine runs it where that is another one.
struct RangeTimes {
  std::size_t operations = 0;
  std::size_t kernels = 0;
  Extent recorded;
  Extent here;
  Extent baseline;
};

RangeTimes times_of(const RunOutcome& outcome, std::size_t gpu, const workload::NamedRange& range) {
  const workload::Workload& workload = *outcome.workloads[gpu];
  RangeTimes times;
  for (const std::size_t i : range.ops) {
    const workload::Op& op = workload.ops[i];
    const replay::OpResult& result = outcome.result.jobs[gpu].results[i];
    if (!result.done) continue;
    const bool kernel = op.kind == workload::OpKind::kernel;
    ++times.operations;
    times.kernels += kernel ? 1 : 0;
    times.here.add(result.start, result.end, kernel);
    if (op.recorded) {
      const auto start = static_cast<double>(op.recorded->start);
      times.recorded.add(start, start + static_cast<double>(op.recorded->duration), kernel);
    }
    if (!outcome.baseline.empty()) {
      const replay::OpResult& base = outcome.baseline[gpu][i];
      if (base.done) times.baseline.add(base.start, base.end, kernel);
    }
  }
  return times;
}

}  // namespace

bool has_ranges(const RunOutcome& outcome) {
  return std::any_of(outcome.workloads.begin(), outcome.workloads.end(),
                     [](const workload::Workload* workload) { return !workload->ranges.empty(); });
}

void write_ranges(const RunOutcome& outcome, const std::string& path) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "gpu,range,within,name,operations,kernels,start_ns,end_ns,span_ns,kernel_ns,recorded_start_ns,"
                 "recorded_span_ns,recorded_kernel_ns,baseline_span_ns\n");
  for (std::size_t gpu = 0; gpu < outcome.workloads.size(); ++gpu) {
    const std::vector<workload::NamedRange>& ranges = outcome.workloads[gpu]->ranges;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const RangeTimes times = times_of(outcome, gpu, ranges[i]);
      if (times.operations == 0) continue;
      fmt::format_to(out, "{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},", outcome.machines->gpus[gpu].instance, i,
                     ranges[i].within ? std::to_string(*ranges[i].within) : "", replay::csv_field(ranges[i].name),
                     times.operations, times.kernels, times.here.begin, times.here.end, times.here.span(),
                     times.here.kernels);
      if (times.recorded.any) {
        fmt::format_to(out, "{:.0f},{:.0f},{:.0f},", times.recorded.begin, times.recorded.span(),
                       times.recorded.kernels);
      } else {
        fmt::format_to(out, ",,,");
      }
      if (times.baseline.any) fmt::format_to(out, "{:.3f}", times.baseline.span());
      fmt::format_to(out, "\n");
    }
  }
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw InputError({path, 0, 0}, "cannot be written", "choose another place for it, or free the disk");
}

json ranges_of(const RunOutcome& outcome, std::size_t gpu) {
  struct Row {
    std::string name;
    std::size_t depth = 0;
    std::size_t times = 0;
    std::size_t kernels = 0;
    double recorded = 0;
    double here = 0;
    double baseline = 0;
    std::vector<std::size_t> inner;  // rows
  };
  const std::vector<workload::NamedRange>& ranges = outcome.workloads[gpu]->ranges;
  std::vector<Row> rows;
  std::vector<std::size_t> outermost;
  std::vector<std::optional<std::size_t>> row_of(ranges.size());
  std::map<std::pair<std::optional<std::size_t>, std::string>, std::size_t> known;  // by outer row and name
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const RangeTimes times = times_of(outcome, gpu, ranges[i]);
    if (times.operations == 0) continue;
    // What holds a range that ran has run as well.
    const std::optional<std::size_t> outer = ranges[i].within ? row_of[*ranges[i].within] : std::nullopt;
    const auto [at, added] = known.try_emplace({outer, ranges[i].name}, rows.size());
    if (added) {
      rows.push_back({ranges[i].name, outer ? rows[*outer].depth + 1 : 0, 0, 0, 0, 0, 0, {}});
      (outer ? rows[*outer].inner : outermost).push_back(at->second);
    }
    Row& row = rows[at->second];
    row_of[i] = at->second;
    ++row.times;
    row.kernels += times.kernels;
    row.recorded += times.recorded.span();
    row.here += times.here.span();
    row.baseline += times.baseline.span();
  }
  if (rows.empty()) return nullptr;
  json list = json::array();
  std::vector<std::size_t> next(outermost.rbegin(), outermost.rend());
  while (!next.empty() && list.size() < kRangeRows) {
    const Row& row = rows[next.back()];
    next.pop_back();
    json entry = {{"name", row.name},       {"depth", row.depth},   {"times", row.times},
                  {"kernels", row.kernels}, {"us", row.here / 1e3}, {"recorded_us", row.recorded / 1e3}};
    if (!outcome.baseline.empty()) entry["baseline_us"] = row.baseline / 1e3;
    list.push_back(std::move(entry));
    next.insert(next.end(), row.inner.rbegin(), row.inner.rend());
  }
  return {{"rows", std::move(list)}, {"left_out", rows.size() - std::min(rows.size(), kRangeRows)}};
}

void draw_ranges(const RunOutcome& outcome, TimelineSink& timeline) {
  for (std::size_t gpu = 0; gpu < outcome.workloads.size(); ++gpu) {
    const std::vector<workload::NamedRange>& ranges = outcome.workloads[gpu]->ranges;
    if (ranges.empty()) continue;
    const double lead = outcome.result.jobs[gpu].lead_ns;
    const auto time = [lead](double ns) { return static_cast<Picoseconds>(std::llround((ns + lead) * 1e3)); };
    const TrackId track = timeline.track(outcome.machines->gpus[gpu].instance + " ranges", "named ranges");
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const RangeTimes times = times_of(outcome, gpu, ranges[i]);
      if (times.operations == 0) continue;
      timeline.slice(track, time(times.here.begin), time(times.here.end), ranges[i].name,
                     {{"range", static_cast<std::int64_t>(i)}, {"kernels", static_cast<std::int64_t>(times.kernels)}});
    }
  }
}

}  // namespace heddle::cli
