// What a run of `heddle run` left in its folder, read back: statistics, figures, kernels, the configuration.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace heddle::sweep {

// Whether `text` is one of those that `pattern` means: * stands for any characters but a dot, ** for any at all.
bool matches_pattern(std::string_view pattern, std::string_view text);
bool is_pattern(std::string_view text);

// Without blanks at both ends.
std::string trimmed(const std::string& text);

// What names a figure of the scenario where names are mostly those of statistics: "figure latency".
constexpr const char* kFigurePrefix = "figure ";

// The launches of one kernel name on one GPU.
struct KernelSum {
  std::string gpu;   // "gpu0"
  std::string name;  // of the kernel
  std::vector<double> us;
  double total_us = 0;
  std::map<std::string, double> used;  // sums of what its launches used of the machine, by column of kernels.csv
};

class RunResults {
 public:
  // `folder`: as --out names it. Throws InputError if it has no stats.json, or one that cannot be read.
  explicit RunResults(std::filesystem::path folder);
  static bool present(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  // The run came to its end: only then are its statistics those of the whole workload.
  bool complete() const { return document_.value("completed", false); }
  // All of stats.json (docs/statistics.md).
  const nlohmann::json& document() const { return document_; }
  std::vector<std::string> stat_names() const;
  std::optional<double> stat(const std::string& path) const;
  std::string unit_of(const std::string& path) const;
  // Statistics that a path with or without wildcards means, in the order of their names.
  std::vector<std::pair<std::string, double>> stats_like(const std::string& pattern) const;
  // What the scenario measures (its list `figures`); absent where it has no value.
  std::optional<double> figure(const std::string& name) const;
  std::vector<std::string> figure_names() const;
  std::string figure_unit(const std::string& name) const;
  // By GPU and name, in the order of first launches. From report.html; empty without it.
  const std::vector<KernelSum>& kernels() const;
  // config.yaml, flattened: "gpu0.cwd.gpc_distance" -> "100". Empty without the file.
  std::map<std::string, std::string> configuration() const;
  // The command that made it; empty if nothing says so.
  std::string command() const;

 private:
  const nlohmann::json* figure_entry(const std::string& name) const;

  std::filesystem::path folder_;
  nlohmann::json document_;
  mutable std::optional<std::vector<KernelSum>> kernels_;
};

}  // namespace heddle::sweep
