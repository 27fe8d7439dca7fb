#include "sweep/run_difference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "common/error.h"
#include "common/quantity.h"
#include "common/yaml_util.h"

namespace heddle::sweep {

using nlohmann::json;

namespace {

constexpr const char* kLimitExample = "as in: --fail-if 'gpu0.cwd.ctas_launched>1%'";
constexpr const char* kKernelPrefix = "kernel ";
constexpr std::size_t kStatsOnPage = 2000;

// Statistics that say at a glance what a run came to, as far as runs have them.
constexpr const char* kHeadline[] = {"sim.time",       "replay.span.modelled", "replay.kernel_time.modelled",
                                     "gpu*.occupancy", "gpu*.task.kernels",    "gpu*.cwd.ctas_launched",
                                     "gpu*.faults"};

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }

double weight(const DifferenceRow& row) {
  double most = 0;
  for (std::size_t i = 1; i < row.values.size(); ++i) {
    const std::optional<double> change = row.change(i);
    if (row.values[i] != row.values[0]) most = std::max(most, change ? std::fabs(*change) : HUGE_VAL);
  }
  return most;
}

DifferenceRow stat_row(const std::vector<RunResults>& runs, const std::string& path) {
  DifferenceRow row;
  row.name = path;
  for (const RunResults& run : runs) {
    row.values.push_back(run.stat(path));
    if (row.unit.empty()) row.unit = run.unit_of(path);
  }
  return row;
}

// Of all runs, each once; in the order of their first appearance.
std::vector<std::string> united(const std::vector<std::vector<std::string>>& lists) {
  std::vector<std::string> result;
  std::set<std::string> seen;
  for (const std::vector<std::string>& list : lists) {
    for (const std::string& name : list) {
      if (seen.insert(name).second) result.push_back(name);
    }
  }
  return result;
}

void compare_settings(const std::vector<RunResults>& runs, RunDifference& result) {
  std::vector<std::map<std::string, std::string>> all;
  std::set<std::string> paths;
  for (const RunResults& run : runs) {
    all.push_back(run.configuration());
    for (const auto& [path, value] : all.back()) paths.insert(path);
  }
  for (const std::string& path : paths) {
    SettingRow row{path, {}};
    for (const auto& one : all) {
      const auto found = one.find(path);
      row.values.push_back(found == one.end() ? std::nullopt : std::optional<std::string>(found->second));
    }
    const bool same = std::all_of(row.values.begin(), row.values.end(),
                                  [&](const auto& value) { return value == row.values.front(); });
    if (!same) result.settings.push_back(std::move(row));
  }
}

void compare_stats(const std::vector<RunResults>& runs, RunDifference& result) {
  std::vector<std::vector<std::string>> lists;
  for (const RunResults& run : runs) lists.push_back(run.stat_names());
  const std::vector<std::string> names = united(lists);
  for (const char* pattern : kHeadline) {
    for (const std::string& name : names) {
      if (matches_pattern(pattern, name)) result.headline.push_back(stat_row(runs, name));
    }
  }
  std::vector<std::pair<double, DifferenceRow>> weighed;
  for (const std::string& name : names) {
    DifferenceRow row = stat_row(runs, name);
    if (row.differs()) {
      const double its = weight(row);
      weighed.emplace_back(its, std::move(row));
    } else {
      ++result.equal_stats;
    }
  }
  std::stable_sort(weighed.begin(), weighed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [its, row] : weighed) result.stats.push_back(std::move(row));
}

void compare_figures(const std::vector<RunResults>& runs, RunDifference& result) {
  std::vector<std::vector<std::string>> lists;
  for (const RunResults& run : runs) lists.push_back(run.figure_names());
  for (const std::string& name : united(lists)) {
    DifferenceRow row;
    row.name = name;
    for (const RunResults& run : runs) {
      row.values.push_back(run.figure(name));
      if (row.unit.empty()) row.unit = run.figure_unit(name);
    }
    result.figures.push_back(std::move(row));
  }
}

void compare_kernels(const std::vector<RunResults>& runs, RunDifference& result) {
  using Key = std::pair<std::string, std::string>;
  std::map<Key, DifferenceRow> times;
  std::map<Key, DifferenceRow> counts;
  std::map<Key, std::map<std::string, DifferenceRow>> used;
  std::map<std::string, std::set<std::size_t>> having;  // runs, by column: earlier versions had fewer
  std::set<std::string> gpus;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const KernelSum& kernel : runs[i].kernels()) {
      const Key key{kernel.gpu, kernel.name};
      gpus.insert(kernel.gpu);
      for (auto* rows : {&times, &counts}) (*rows)[key].values.resize(runs.size());
      times[key].values[i] = kernel.total_us;
      counts[key].values[i] = static_cast<double>(kernel.us.size());
      for (const auto& [column, value] : kernel.used) {
        having[column].insert(i);
        DifferenceRow& row = used[key][column];
        row.values.resize(runs.size());
        row.values[i] = value;
      }
    }
  }
  std::vector<Key> order;
  for (auto& [key, row] : times) {
    row.name = (gpus.size() > 1 ? key.first + ": " : "") + key.second;
    row.unit = "us";
    counts[key].name = row.name;
    order.push_back(key);
  }
  const auto longest = [&](const Key& key) {
    double most = 0;
    for (const auto& value : times[key].values) most = std::max(most, value.value_or(0));
    return most;
  };
  std::stable_sort(order.begin(), order.end(), [&](const Key& a, const Key& b) { return longest(a) > longest(b); });
  for (const Key& key : order) {
    result.kernels.push_back(times[key]);
    result.launches.push_back(counts[key]);
    for (auto& [column, row] : used[key]) {
      if (having[column].size() < runs.size()) continue;
      const auto& first = row.values.front();
      if (std::all_of(row.values.begin(), row.values.end(), [&first](const auto& value) { return value == first; }))
        continue;
      row.name = times[key].name + ": " + column;
      result.used.push_back(row);
    }
  }
}

std::vector<DifferenceRow> rows_for(const Threshold& threshold, const std::vector<RunResults>& runs,
                                    const RunDifference& result) {
  std::vector<DifferenceRow> rows;
  if (starts_with(threshold.what, kFigurePrefix) || starts_with(threshold.what, kKernelPrefix)) {
    const bool figure = starts_with(threshold.what, kFigurePrefix);
    const std::string name = threshold.what.substr(std::string(figure ? kFigurePrefix : kKernelPrefix).size());
    for (const DifferenceRow& row : figure ? result.figures : result.kernels) {
      if (row.name == name || matches_pattern(name, row.name)) rows.push_back(row);
    }
    return rows;
  }
  std::vector<std::vector<std::string>> lists;
  for (const RunResults& run : runs) {
    lists.emplace_back();
    for (const auto& [path, value] : run.stats_like(threshold.what)) lists.back().push_back(path);
  }
  for (const std::string& path : united(lists)) rows.push_back(stat_row(runs, path));
  return rows;
}

bool within(const Threshold& threshold, double first, double value) {
  const double change = value - first;
  const double limit = threshold.percent ? threshold.limit / 100 * std::fabs(first) : threshold.limit;
  if (threshold.direction == Threshold::Direction::up) return change <= limit;
  if (threshold.direction == Threshold::Direction::down) return -change <= limit;
  return std::fabs(change) <= limit;
}

void check_thresholds(const std::vector<RunResults>& runs, const std::vector<Threshold>& thresholds,
                      RunDifference& result) {
  for (const Threshold& threshold : thresholds) {
    const std::vector<DifferenceRow> rows = rows_for(threshold, runs, result);
    if (rows.empty()) {
      std::vector<std::string> known = runs.front().stat_names();
      for (const DifferenceRow& row : result.figures) known.push_back(kFigurePrefix + row.name);
      for (const DifferenceRow& row : result.kernels) known.push_back(kKernelPrefix + row.name);
      const std::string near = nearest(threshold.what, known);
      throw InputError(fmt::format("threshold {}: no run has {}", threshold.text, threshold.what),
                       near.empty() ? "stats.json lists the statistics" : "did you mean " + near + "?");
    }
    for (const DifferenceRow& row : rows) {
      for (std::size_t i = 1; i < runs.size(); ++i) {
        ThresholdResult one{threshold, row.name, i, row.values[0], row.values[i]};
        // What one of the two does not have is a difference that no limit allows.
        one.ok = one.first && one.value ? within(threshold, *one.first, *one.value) : one.first == one.value;
        result.thresholds.push_back(std::move(one));
      }
    }
  }
}

std::string number_of(const std::optional<double>& value) { return value ? fmt::format("{:.6g}", *value) : "-"; }

std::string change_of(const DifferenceRow& row, std::size_t i) {
  const std::optional<double> change = row.change(i);
  if (row.values[i] == row.values[0]) return "";
  return change ? fmt::format(" ({:+.2f} %)", 100 * *change) : "";
}

void put_rows(std::string& text, const char* title, const std::vector<DifferenceRow>& rows, std::size_t most) {
  if (rows.empty()) return;
  text += fmt::format("\n{}\n", title);
  std::size_t width = 0;
  const std::size_t shown = std::min(most, rows.size());
  for (std::size_t r = 0; r < shown; ++r) width = std::max(width, std::min<std::size_t>(rows[r].name.size(), 60));
  for (std::size_t r = 0; r < shown; ++r) {
    const DifferenceRow& row = rows[r];
    text += fmt::format("  {:<{}}", row.name, width);
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      text += fmt::format("  {:>24}", number_of(row.values[i]) + (i > 0 ? change_of(row, i) : std::string()));
    }
    text += fmt::format("  {}\n", row.unit);
  }
  if (rows.size() > shown) text += fmt::format("  and {} more, on the page\n", rows.size() - shown);
}

json values_json(const std::vector<std::optional<double>>& values) {
  json result = json::array();
  for (const auto& value : values) result.push_back(value ? json(*value) : json());
  return result;
}

json rows_json(const std::vector<DifferenceRow>& rows, std::size_t most) {
  json result = json::array();
  for (std::size_t r = 0; r < std::min(most, rows.size()); ++r) {
    result.push_back({{"name", rows[r].name}, {"unit", rows[r].unit}, {"values", values_json(rows[r].values)}});
  }
  return result;
}

}  // namespace

Threshold read_threshold(const std::string& text) {
  Threshold threshold;
  threshold.text = text;
  const std::size_t at = text.rfind('>');
  if (at == std::string::npos)
    throw InputError(fmt::format("threshold {}: WHAT>LIMIT is expected", text), kLimitExample);
  threshold.what = trimmed(text.substr(0, at));
  std::string limit = trimmed(text.substr(at + 1));
  if (!limit.empty() && (limit.front() == '+' || limit.front() == '-')) {
    threshold.direction = limit.front() == '+' ? Threshold::Direction::up : Threshold::Direction::down;
    limit = trimmed(limit.substr(1));
  }
  if (!limit.empty() && limit.back() == '%') {
    threshold.percent = true;
    limit = trimmed(limit.substr(0, limit.size() - 1));
  }
  if (threshold.what.empty()) throw InputError(fmt::format("threshold {}: it names nothing", text), kLimitExample);
  try {
    threshold.limit = parse_quantity<double>(limit, {Unit::none, 0.0, 1e300});
  } catch (const InputError&) {
    throw InputError(fmt::format("threshold {}: {} is no limit", text, limit.empty() ? "nothing" : limit),
                     kLimitExample);
  }
  return threshold;
}

std::vector<Threshold> read_thresholds(const std::string& path) {
  std::vector<Threshold> thresholds;
  std::istringstream lines(read_text_file(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    try {
      thresholds.push_back(read_threshold(line));
    } catch (const InputError& error) {
      throw InputError({path, number, 0}, error.message(), "as in: gpu0.cwd.ctas_launched>1%");
    }
  }
  return thresholds;
}

bool DifferenceRow::differs() const {
  return std::any_of(values.begin(), values.end(), [this](const auto& value) { return value != values.front(); });
}

std::optional<double> DifferenceRow::change(std::size_t i) const {
  if (!values[0] || !values[i] || *values[0] == 0) return std::nullopt;
  return (*values[i] - *values[0]) / std::fabs(*values[0]);
}

bool RunDifference::ok() const {
  // Of a run that has not come to its end no figure says anything.
  const bool whole = thresholds.empty() || std::find(complete.begin(), complete.end(), false) == complete.end();
  return whole && std::all_of(thresholds.begin(), thresholds.end(), [](const ThresholdResult& one) { return one.ok; });
}

RunDifference difference_of(const std::vector<RunResults>& runs, const std::vector<Threshold>& thresholds) {
  RunDifference result;
  for (const RunResults& run : runs) {
    result.runs.push_back(run.folder().string());
    result.commands.push_back(run.command());
    result.complete.push_back(run.complete());
  }
  compare_settings(runs, result);
  compare_figures(runs, result);
  compare_stats(runs, result);
  compare_kernels(runs, result);
  check_thresholds(runs, thresholds, result);
  return result;
}

std::string difference_text(const RunDifference& difference, std::size_t rows) {
  std::string text;
  for (std::size_t i = 0; i < difference.runs.size(); ++i) {
    text += fmt::format("  {}  {}{}\n", i + 1, difference.runs[i],
                        difference.complete[i] ? "" : "  (has not come to its end)");
  }
  text += difference.settings.empty() ? "\nConfiguration: the same\n" : "\nConfiguration\n";
  for (std::size_t r = 0; r < std::min(rows, difference.settings.size()); ++r) {
    const SettingRow& row = difference.settings[r];
    text += "  " + row.path;
    for (const auto& value : row.values) text += "  " + value.value_or("-");
    text += "\n";
  }
  if (difference.settings.size() > rows) {
    text += fmt::format("  and {} more, on the page\n", difference.settings.size() - rows);
  }
  put_rows(text, "Figures", difference.figures, rows);
  put_rows(text, "Run", difference.headline, rows);
  put_rows(text, "Kernels, total time", difference.kernels, rows);
  put_rows(text, "What kernels used, where it differs", difference.used, rows);
  put_rows(text, fmt::format("Statistics that differ, most first ({} are equal)", difference.equal_stats).c_str(),
           difference.stats, rows);
  for (const ThresholdResult& one : difference.thresholds) {
    if (one.ok) continue;
    text += fmt::format("  FAILED: {}: {} is {} in {}, and {} in {}\n", one.threshold.text, one.name,
                        number_of(one.value), difference.runs[one.run], number_of(one.first), difference.runs[0]);
  }
  return text;
}

json compare_page_data(const RunDifference& difference) {
  json data = {{"schema", 1},
               {"title", "Comparison of runs"},
               {"equal_stats", difference.equal_stats},
               {"figures", rows_json(difference.figures, kStatsOnPage)},
               {"headline", rows_json(difference.headline, kStatsOnPage)},
               {"stats", rows_json(difference.stats, kStatsOnPage)},
               {"stats_left_out", difference.stats.size() - std::min(kStatsOnPage, difference.stats.size())},
               {"kernels", rows_json(difference.kernels, kStatsOnPage)},
               {"used", rows_json(difference.used, kStatsOnPage)}};
  for (std::size_t k = 0; k < data["kernels"].size(); ++k) {
    data["kernels"][k]["launches"] = values_json(difference.launches[k].values);
  }
  for (std::size_t i = 0; i < difference.runs.size(); ++i) {
    data["runs"].push_back({{"name", difference.runs[i]},
                            {"command", difference.commands[i]},
                            {"complete", static_cast<bool>(difference.complete[i])}});
  }
  data["settings"] = json::array();
  for (const SettingRow& row : difference.settings) {
    json values = json::array();
    for (const auto& value : row.values) values.push_back(value ? json(*value) : json());
    data["settings"].push_back({{"path", row.path}, {"values", values}});
  }
  data["thresholds"] = json::array();
  for (const ThresholdResult& one : difference.thresholds) {
    data["thresholds"].push_back({{"text", one.threshold.text},
                                  {"name", one.name},
                                  {"run", one.run},
                                  {"ok", one.ok},
                                  {"first", one.first ? json(*one.first) : json()},
                                  {"value", one.value ? json(*one.value) : json()}});
  }
  return data;
}

}  // namespace heddle::sweep
