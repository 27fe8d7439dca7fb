#include "sweep/point_record.h"

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "common/yaml_util.h"

namespace heddle::sweep {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kSchema = 1;
constexpr const char* kFile = "point.json";
constexpr std::array<const char*, 8> kStates{"done",     "failed",  "bad input", "no progress",
                                             "internal", "partial", "limit",     "killed"};

// Columns of what is printed are no columns of a table.
std::string with_single_blanks(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' || result.empty() || result.back() != ' ') result += c;
  }
  return result;
}

// What a run says of its end: the message of the program, or else the first expectation that failed, or what the device
// did.
std::string reason_in(const std::string& output) {
  constexpr std::array<const char*, 3> kDevice{"FAILED:", "FAULT:", "RACE:"};
  std::string found;
  std::string last;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    if (line.rfind("heddle: ", 0) == 0) return line.substr(std::strlen("heddle: "));
    for (const char* word : kDevice) {
      if (found.empty() && line.rfind(word, 0) == 0) found = with_single_blanks(line);
    }
    if (line.rfind("note: ", 0) == 0) last = line;  // kernels that the device has rejected
  }
  return found.empty() ? last : found;
}

// Files that a YAML file names, as far as they exist beside it.
void named_files(const YAML::Node& node, const fs::path& folder, std::set<std::string>& into) {
  if (node.IsMap()) {
    for (const auto& entry : node) named_files(entry.second, folder, into);
  } else if (node.IsSequence()) {
    for (const auto& item : node) named_files(item, folder, into);
  } else if (node.IsScalar() && !node.Scalar().empty() && node.Scalar().size() < 1024) {
    std::error_code ignored;
    const fs::path path = folder / node.Scalar();
    if (fs::is_regular_file(path, ignored)) into.insert(path.string());
  }
}

bool is_yaml(const fs::path& path) { return path.extension() == ".yaml" || path.extension() == ".yml"; }

}  // namespace

const char* state_name(PointState state) { return kStates.at(static_cast<std::size_t>(state)); }

PointRecord record_of(const ChildEnd& end, const std::string& output, double limit_s) {
  PointRecord record;
  record.exit = end.status;
  record.seconds = end.seconds;
  if (end.over_limit) {
    record.state = PointState::limit;
    record.reason = fmt::format("stopped after {:.4g} s of wall time (limit)", limit_s);
  } else if (end.status < 0) {
    record.state = PointState::killed;
    record.reason = end.by_signal == 0
                        ? std::string("ended in a way that nobody knows")
                        : fmt::format("killed by signal {} ({})", end.by_signal, strsignal(end.by_signal));
  } else if (end.status > static_cast<int>(PointState::partial)) {
    record.state = PointState::killed;
    record.reason = fmt::format("ended with status {}: {}", end.status, reason_in(output));
  } else {
    record.state = static_cast<PointState>(end.status);
    if (end.status != 0) record.reason = reason_in(output);
  }
  return record;
}

std::optional<PointRecord> read_record(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kFile, ignored)) return std::nullopt;
  const json document = json::parse(read_text_file((folder / kFile).string()), nullptr, false);
  if (!document.is_object() || document.value("schema", 0) != kSchema) return std::nullopt;
  PointRecord record;
  const std::string state = document.value("state", std::string());
  std::size_t number = 0;
  while (number < kStates.size() && state != kStates[number]) ++number;
  if (number == kStates.size()) return std::nullopt;
  record.state = static_cast<PointState>(number);
  record.digest = document.value("digest", std::string());
  record.exit = document.value("exit", -1);
  record.reason = document.value("reason", std::string());
  record.seconds = document.value("seconds", 0.0);
  record.figures_digest = document.value("figures_digest", std::string());
  for (const json& entry : document.value("figures", json::array())) {
    Measured measured;
    if (entry.contains("value") && entry["value"].is_number()) measured.value = entry["value"].get<double>();
    measured.unit = entry.value("unit", std::string());
    measured.why = entry.value("why", std::string());
    record.figures[entry.value("name", std::string())] = measured;
  }
  return record;
}

void write_record(const PointRecord& record, const fs::path& folder) {
  json document = {{"schema", kSchema},
                   {"digest", record.digest},
                   {"state", state_name(record.state)},
                   {"exit", record.exit},
                   {"reason", record.reason},
                   {"seconds", record.seconds},
                   {"figures_digest", record.figures_digest},
                   {"figures", json::array()}};
  for (const auto& [name, measured] : record.figures) {
    json entry = {{"name", name}, {"unit", measured.unit}, {"why", measured.why}};
    entry["value"] = measured.value ? json(*measured.value) : json();
    document["figures"].push_back(std::move(entry));
  }
  const fs::path path = folder / kFile;
  const fs::path fresh = folder / fmt::format(".{}.{}", kFile, getpid());
  std::ofstream file(fresh, std::ios::binary);
  file << document.dump(1, ' ', false, json::error_handler_t::replace) << '\n';
  file.close();
  std::error_code error;
  if (file) fs::rename(fresh, path, error);
  if (!file || error) {
    throw InputError({path.string()}, "cannot be written", "choose another folder with --out DIR, or free the disk");
  }
}

InputDigests::InputDigests(const std::string& program) : program_(of_file(program)) {}

const std::string& InputDigests::of_file(const std::string& path) {
  const auto known = files_.find(path);
  if (known != files_.end()) return known->second;
  Digest digest;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) {
    digest.add("no file");  // whatever it is, the run will say
  } else {
    const std::string text = read_text_file(path);
    digest.add(text);
    if (is_yaml(path)) {
      std::set<std::string> named;
      try {
        named_files(load_yaml(text, path), fs::path(path).parent_path(), named);
      } catch (const InputError&) {
        named.clear();  // the run will say so
      }
      named.erase(path);
      for (const std::string& other : named) digest.add(read_text_file(other));
    }
  }
  return files_.emplace(path, digest.text()).first->second;
}

std::string InputDigests::of(const Point& point) {
  Digest digest;
  digest.add(program_);
  digest.add(point.key);
  for (const std::string& file : point.files) digest.add(of_file(file));
  return digest.text();
}

std::string digest_of(const std::vector<SweepFigure>& figures) {
  Digest digest;
  for (const SweepFigure& figure : figures) {
    digest.add(figure.name);
    digest.add(figure.unit);
    digest.add(figure.value);
    for (const FigureSource& source : figure.sources) {
      digest.add(source.name);
      digest.add(source.what);
      digest.add(fmt::format("{} {} {}", static_cast<int>(source.kind), static_cast<int>(source.take),
                             source.otherwise ? fmt::format("{}", *source.otherwise) : "none"));
    }
  }
  return digest.text();
}

}  // namespace heddle::sweep
