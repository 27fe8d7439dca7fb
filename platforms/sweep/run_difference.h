// What differs between runs, from what they left in their folders: configuration, statistics, figures, kernels; and
// whether that is more than somebody allows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweep/run_results.h"

namespace heddle::sweep {

// "gpu0.cwd.ctas_launched>1%": how much a figure may differ from that of the first run.
struct Threshold {
  enum class Direction : std::uint8_t { any, up, down };

  std::string text;                      // as it was written
  std::string what;                      // path of a statistic, * and ** allowed; or "figure NAME", "kernel NAME"
  Direction direction = Direction::any;  // of a change that is too much
  double limit = 0;                      // of the change, without sign
  bool percent = false;                  // of the first run's value
};

// Reads WHAT>[+|-]LIMIT[%]. "a>5%" is for a change by more than 5 % either way, "a>+5%" for a growth, "a>-5%" for a
// fall. Throws InputError without a place.
Threshold read_threshold(const std::string& text);
// One a line; empty lines and what follows a # are ignored. Throws InputError with file and line.
std::vector<Threshold> read_thresholds(const std::string& path);

// A number in all runs; absent in a run that has none of the name.
struct DifferenceRow {
  std::string name;
  std::string unit;
  std::vector<std::optional<double>> values;  // one per run
  bool differs() const;
  // Of run `i` against the first, as a part of it; absent where it means nothing.
  std::optional<double> change(std::size_t i) const;
};

struct ThresholdResult {
  Threshold threshold;
  std::string name;  // of what it was checked on
  std::size_t run = 0;
  std::optional<double> first;
  std::optional<double> value;
  bool ok = true;
};

struct SettingRow {
  std::string path;
  std::vector<std::optional<std::string>> values;  // one per run
};

// In place of names: the folders as they were given.
struct RunDifference {
  std::vector<std::string> runs;
  std::vector<std::string> commands;
  std::vector<bool> complete;
  std::vector<SettingRow> settings;     // that differ
  std::vector<DifferenceRow> figures;   // of the scenarios; all of them
  std::vector<DifferenceRow> headline;  // statistics that every run is judged by; all of them
  std::vector<DifferenceRow> stats;     // that differ, most first
  std::size_t equal_stats = 0;
  std::vector<DifferenceRow> kernels;   // total time by GPU and name, in us; all of them, largest first
  std::vector<DifferenceRow> launches;  // of the same kernels, in the same order: how often
  std::vector<DifferenceRow> used;      // what kernels used of the machines and that differs, in that order
  std::vector<ThresholdResult> thresholds;
  bool ok() const;
};

// `runs`: two or more. Throws InputError if a threshold names what no run has.
RunDifference difference_of(const std::vector<RunResults>& runs, const std::vector<Threshold>& thresholds);

// For a terminal. `rows`: most statistics and kernels that are shown.
std::string difference_text(const RunDifference& difference, std::size_t rows);
// As report/report_page.h describes it.
nlohmann::json compare_page_data(const RunDifference& difference);

}  // namespace heddle::sweep
