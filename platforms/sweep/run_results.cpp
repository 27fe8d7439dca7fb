#include "sweep/run_results.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include <yaml-cpp/yaml.h>

#include "common/error.h"
#include "common/yaml_util.h"
#include "import/byte_source.h"

namespace heddle::sweep {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json parsed(const std::string& text, const fs::path& path) {
  try {
    return json::parse(text);
  } catch (const json::exception&) {
    throw InputError({path.string()}, "is not whole: this is no JSON", "run it again");
  }
}

// The data in the page; null if it has none.
json page_data(const fs::path& path) {
  const std::string html = read_text_file(path.string());
  const std::size_t tag = html.find("id=\"heddle-data\"");
  if (tag == std::string::npos) return nullptr;
  const std::size_t begin = html.find('>', tag);
  const std::size_t end = html.find("</script>", tag);
  if (begin == std::string::npos || end == std::string::npos || begin > end) return nullptr;
  return parsed(html.substr(begin + 1, end - begin - 1), path);
}

void flatten(const YAML::Node& node, const std::string& path, std::map<std::string, std::string>& into) {
  if (node.IsMap()) {
    for (const auto& entry : node) {
      const std::string& key = entry.first.Scalar();
      flatten(entry.second, path.empty() ? key : path + "." + key, into);
    }
    return;
  }
  if (node.IsScalar()) {
    into[path] = node.Scalar();
    return;
  }
  YAML::Emitter text;
  text << YAML::Flow << node;
  into[path] = node.IsSequence() ? text.c_str() : "";
}

// Columns of what kernels use, which can be summed (docs/statistics.md).
constexpr std::array<const char*, 19> kUsed{
    "instructions",       "warp_cycles",        "l1_hit_sectors",      "l1_miss_sectors",
    "tensor_cycles",      "tensor_operations",  "l2_requests",         "l2_hits",
    "l2_bytes",           "xbar_request_bytes", "xbar_response_bytes", "dram_read_bytes",
    "dram_written_bytes", "fp32_cycles",        "fp64_cycles",         "int32_cycles",
    "sfu_cycles",         "shared_cycles",      "atomic_cycles"};

double number_of(const import::CsvReader& reader, const std::string& field) {
  char* end = nullptr;
  const double value = std::strtod(field.c_str(), &end);
  if (end == field.c_str() || *end != '\0') reader.fail("'" + field + "' is no number", "run it again");
  return value;
}

// Kernels of the host; the others have other columns for what they were.
void read_kernels(const fs::path& path, std::vector<KernelSum>& kernels) {
  const std::unique_ptr<import::ByteSource> source = import::open_bytes(path.string());
  import::CsvReader reader(*source);
  if (!reader.next()) return;
  const std::vector<std::string> heads = reader.fields();
  const auto column = [&heads](const std::string& name) {
    return static_cast<std::size_t>(std::find(heads.begin(), heads.end(), name) - heads.begin());
  };
  const std::size_t gpu = column("gpu");
  const std::size_t kind = column("kind");
  const std::size_t name = column("name");
  const std::size_t duration = column("duration_ns");
  std::array<std::size_t, kUsed.size()> used{};
  std::transform(kUsed.begin(), kUsed.end(), used.begin(), column);
  std::map<std::pair<std::string, std::string>, std::size_t> rows;
  while (reader.next()) {
    const std::vector<std::string>& fields = reader.fields();
    if (fields.size() <= std::max({gpu, kind, name, duration}) || fields[kind] != "kernel") continue;
    const auto [row, fresh] = rows.emplace(std::pair(fields[gpu], fields[name]), kernels.size());
    if (fresh) kernels.push_back({fields[gpu], fields[name], {}, 0, {}});
    KernelSum& sum = kernels[row->second];
    sum.us.push_back(number_of(reader, fields[duration]) / 1e3);
    sum.total_us += sum.us.back();
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i] < fields.size() && !fields[used[i]].empty()) sum.used[kUsed[i]] += number_of(reader, fields[used[i]]);
    }
  }
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  while (!pattern.empty()) {
    if (pattern.front() != '*') {
      if (text.empty() || text.front() != pattern.front()) return false;
      pattern.remove_prefix(1);
      text.remove_prefix(1);
      continue;
    }
    const bool any = pattern.substr(0, 2) == "**";
    pattern.remove_prefix(any ? 2 : 1);
    for (std::size_t taken = 0; taken <= text.size(); ++taken) {
      if (matches_pattern(pattern, text.substr(taken))) return true;
      if (taken < text.size() && text[taken] == '.' && !any) return false;
    }
    return false;
  }
  return text.empty();
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos ? std::string() : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool is_pattern(std::string_view text) { return text.find('*') != std::string_view::npos; }

RunResults::RunResults(fs::path folder) : folder_(std::move(folder)) {
  const fs::path path = folder_ / "stats.json";
  if (!present(folder_)) {
    throw InputError({folder_.string()}, "is no folder of results: it has no stats.json",
                     "name a folder that `heddle run` has written (--out)");
  }
  document_ = parsed(read_text_file(path.string()), path);
  if (!document_.is_object() || !document_.contains("stats") || !document_["stats"].is_object()) {
    throw InputError({path.string()}, "holds no statistics", "run it again");
  }
}

bool RunResults::present(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "stats.json", ignored);
}

std::vector<std::string> RunResults::stat_names() const {
  std::vector<std::string> names;
  for (const auto& item : document_["stats"].items()) names.push_back(item.key());
  return names;
}

std::optional<double> RunResults::stat(const std::string& path) const {
  const json& stats = document_["stats"];
  const auto found = stats.find(path);
  if (found == stats.end() || !(*found)["value"].is_number()) return std::nullopt;
  return (*found)["value"].get<double>();
}

std::string RunResults::unit_of(const std::string& path) const {
  const json& stats = document_["stats"];
  const auto found = stats.find(path);
  return found == stats.end() ? std::string() : found->value("unit", std::string());
}

std::vector<std::pair<std::string, double>> RunResults::stats_like(const std::string& pattern) const {
  std::vector<std::pair<std::string, double>> found;
  if (!is_pattern(pattern)) {
    if (const std::optional<double> value = stat(pattern)) found.emplace_back(pattern, *value);
    return found;
  }
  for (const auto& item : document_["stats"].items()) {
    if (!matches_pattern(pattern, item.key())) continue;
    if (const std::optional<double> value = stat(item.key())) found.emplace_back(item.key(), *value);
  }
  return found;
}

const json* RunResults::figure_entry(const std::string& name) const {
  const auto figures = document_.find("figures");
  if (figures == document_.end()) return nullptr;
  for (const json& entry : *figures) {
    if (entry.value("name", std::string()) == name) return &entry;
  }
  return nullptr;
}

std::optional<double> RunResults::figure(const std::string& name) const {
  const json* entry = figure_entry(name);
  if (entry == nullptr || !(*entry)["value"].is_number()) return std::nullopt;
  return (*entry)["value"].get<double>();
}

std::string RunResults::figure_unit(const std::string& name) const {
  const json* entry = figure_entry(name);
  return entry == nullptr ? std::string() : entry->value("unit", std::string());
}

std::vector<std::string> RunResults::figure_names() const {
  std::vector<std::string> names;
  const auto figures = document_.find("figures");
  if (figures == document_.end()) return names;
  for (const json& entry : *figures) names.push_back(entry.value("name", std::string()));
  return names;
}

const std::vector<KernelSum>& RunResults::kernels() const {
  if (kernels_) return *kernels_;
  kernels_.emplace();
  std::error_code ignored;
  if (fs::is_regular_file(folder_ / "kernels.csv", ignored)) {
    read_kernels(folder_ / "kernels.csv", *kernels_);
    return *kernels_;
  }
  // Earlier versions left none.
  if (!fs::is_regular_file(folder_ / "report.html", ignored)) return *kernels_;
  const json data = page_data(folder_ / "report.html");
  if (!data.is_object() || !data.contains("gpus")) return *kernels_;
  for (const json& gpu : data["gpus"]) {
    const std::string instance = gpu.value("name", std::string());
    std::map<std::string, std::size_t> rows;
    if (!gpu.contains("kernels")) continue;
    for (const json& launch : gpu["kernels"]) {
      if (!launch.contains("us") || !launch["us"].is_number()) continue;
      const std::string name = launch.value("name", std::string());
      const auto [row, fresh] = rows.emplace(name, kernels_->size());
      if (fresh) kernels_->push_back({instance, name, {}, 0, {}});
      KernelSum& sum = (*kernels_)[row->second];
      sum.us.push_back(launch["us"].get<double>());
      sum.total_us += sum.us.back();
    }
  }
  return *kernels_;
}

std::map<std::string, std::string> RunResults::configuration() const {
  std::map<std::string, std::string> result;
  std::error_code ignored;
  const fs::path path = folder_ / "config.yaml";
  if (fs::is_regular_file(path, ignored)) flatten(load_yaml_file(path.string()), "", result);
  return result;
}

std::string RunResults::command() const {
  std::error_code ignored;
  const fs::path path = folder_ / "host.json";
  if (!fs::is_regular_file(path, ignored)) return {};
  return parsed(read_text_file(path.string()), path).value("command", std::string());
}

}  // namespace heddle::sweep
