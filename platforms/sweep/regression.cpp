#include "sweep/regression.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "common/quantity.h"
#include "common/yaml_util.h"
#include "program/map_reader.h"
#include "sweep/child_pool.h"
#include "sweep/point_record.h"

namespace heddle::sweep {

namespace fs = std::filesystem;

namespace {

const MapSpec& expected_spec() {
  static const MapSpec kSpec{
      "expected",
      {
          {"heddle_test", true, kInteger, "1: the version of this format", between(1, 1)},
          {"collect", false, kList, "list of paths of statistics that --update keeps; * and ** allowed"},
          {"tolerances", false, kMap,
           "how much figures may differ: {sim.time: 1 %, '**': 0}; the first that fits counts"},
          {"scenarios", true, kMap, "what each scenario comes to, by the name of its file"},
      }};
  return kSpec;
}

const MapSpec& run_spec() {
  static const MapSpec kSpec{"scenario",
                             {
                                 {"status", true, kInteger, "exit status of the run", between(0, 5)},
                                 {"figures", false, kMap, "figures by name: {sim.time: 12.5}"},
                             }};
  return kSpec;
}

Tolerance read_tolerance(const MapReader& map, const YAML::Node& name, const YAML::Node& value) {
  Tolerance tolerance;
  tolerance.pattern = name.Scalar();
  std::string text = value.IsScalar() ? value.Scalar() : std::string();
  if (!text.empty() && text.back() == '%') {
    tolerance.percent = true;
    text.pop_back();
    while (!text.empty() && text.back() == ' ') text.pop_back();
  }
  try {
    tolerance.limit = parse_quantity<double>(text, {Unit::none, 0.0, 1e300});
  } catch (const InputError&) {
    map.fail("tolerances", value, fmt::format("{}: a number or a percentage is expected", tolerance.pattern));
  }
  return tolerance;
}

bool fits(const std::string& pattern, const std::string& name) {
  return pattern == name || matches_pattern(pattern, name);
}

double allowed(const std::string& name, double expected, const std::vector<Tolerance>& tolerances) {
  for (const Tolerance& tolerance : tolerances) {
    if (!fits(tolerance.pattern, name)) continue;
    return tolerance.percent ? tolerance.limit / 100 * std::fabs(expected) : tolerance.limit;
  }
  return 0;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (byte < ' ' && c != '\n' && c != '\t') {
      result += ' ';  // no character of XML
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

Expected default_expected() {
  Expected expected;
  expected.collect = {"sim.time", "gpu*.task.kernels", "gpu*.cwd.ctas_launched", "gpu*.faults"};
  return expected;
}

Expected read_expected(const std::string& path) {
  const MapReader map(load_yaml_file(path), expected_spec(), "expected", path);
  map.count("heddle_test");
  Expected expected = default_expected();
  if (map.has("collect")) {
    expected.collect.clear();
    for (const YAML::Node& item : map.items("collect")) {
      if (!item.IsScalar()) map.fail("collect", item, "the path of a statistic is expected");
      expected.collect.push_back(item.Scalar());
    }
  }
  if (map.has("tolerances")) {
    for (const auto& entry : map.node("tolerances")) {
      expected.tolerances.push_back(read_tolerance(map, entry.first, entry.second));
    }
  }
  for (const auto& entry : map.node("scenarios")) {
    const std::string& name = entry.first.Scalar();
    const MapReader its(entry.second, run_spec(), "scenario " + name, path);
    ExpectedRun run;
    run.status = static_cast<int>(its.count("status"));
    if (its.has("figures")) {
      for (const auto& figure : its.node("figures")) {
        run.figures[figure.first.Scalar()] = its.number<double>("figures", figure.second, {});
      }
    }
    expected.runs[name] = std::move(run);
  }
  return expected;
}

void write_expected(const Expected& expected, const std::string& path) {
  YAML::Emitter out;
  out << YAML::BeginMap << YAML::Key << "heddle_test" << YAML::Value << 1;
  out << YAML::Key << "collect" << YAML::Value << YAML::BeginSeq;
  for (const std::string& pattern : expected.collect) emit_text(out, pattern);
  out << YAML::EndSeq;
  if (!expected.tolerances.empty()) {
    out << YAML::Key << "tolerances" << YAML::Value << YAML::BeginMap;
    for (const Tolerance& tolerance : expected.tolerances) {
      out << YAML::Key;
      emit_text(out, tolerance.pattern);
      out << YAML::Value << number_text(tolerance.limit) + (tolerance.percent ? " %" : "");
    }
    out << YAML::EndMap;
  }
  out << YAML::Key << "scenarios" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, run] : expected.runs) {
    out << YAML::Key;
    emit_text(out, name);
    out << YAML::Value << YAML::BeginMap << YAML::Key << "status" << YAML::Value << run.status;
    if (!run.figures.empty()) {
      out << YAML::Key << "figures" << YAML::Value << YAML::BeginMap;
      for (const auto& [figure, value] : run.figures) {
        out << YAML::Key;
        emit_text(out, figure);
        out << YAML::Value << number_text(value);
      }
      out << YAML::EndMap;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndMap << YAML::EndMap;
  std::ofstream file(path, std::ios::binary);
  file << "# What `heddle test` expects; `--update` writes the figures anew and keeps `collect` and `tolerances`.\n"
       << out.c_str() << '\n';
  file.close();
  if (!file) throw InputError({path}, "cannot be written", "name another file with --expected FILE");
}

ExpectedRun actual_of(int status, const std::optional<RunResults>& results, const std::vector<std::string>& collect) {
  ExpectedRun actual;
  actual.status = status;
  if (!results) return actual;
  for (const std::string& pattern : collect) {
    for (const auto& [path, value] : results->stats_like(pattern)) actual.figures[path] = value;
  }
  for (const std::string& name : results->figure_names()) {
    if (const std::optional<double> value = results->figure(name)) actual.figures[kFigurePrefix + name] = *value;
  }
  return actual;
}

Verdict judge(const std::string& name, const ExpectedRun& actual, const std::optional<ExpectedRun>& expected,
              const std::vector<Tolerance>& tolerances, const std::string& reason) {
  Verdict verdict;
  verdict.name = name;
  verdict.actual = actual;
  const int wanted = expected ? expected->status : 0;
  if (actual.status != wanted) {
    verdict.problems.push_back(fmt::format("it ended with status {}, and {} was expected{}{}", actual.status, wanted,
                                           reason.empty() ? "" : ": ", reason));
    verdict.error = actual.status != 0 && actual.status != 1;
  }
  if (expected) {
    for (const auto& [figure, value] : expected->figures) {
      const auto found = actual.figures.find(figure);
      if (found == actual.figures.end()) {
        verdict.problems.push_back(fmt::format("{} is expected to be {}, and there is none", figure, value));
        continue;
      }
      if (std::fabs(found->second - value) <= allowed(figure, value, tolerances)) continue;
      const std::string change =
          value == 0 ? std::string() : fmt::format(" ({:+.3g} %)", 100 * (found->second - value) / std::fabs(value));
      verdict.problems.push_back(fmt::format("{} is {}, and {} was expected{}", figure, found->second, value, change));
    }
  }
  verdict.ok = verdict.problems.empty();
  return verdict;
}

std::optional<std::vector<Verdict>> run_regression(const std::vector<std::string>& files, const Expected& expected,
                                                   bool has_file, const RegressionSettings& settings,
                                                   const std::function<void(const Verdict&)>& tell) {
  std::vector<Verdict> verdicts;
  std::set<std::string> names;
  ChildPool pool;
  std::size_t next = 0;
  while (next < files.size() || pool.running() > 0) {
    while (next < files.size() && pool.running() < settings.jobs) {
      const fs::path out = settings.folder / fs::path(files[next]).filename();
      std::error_code error;
      fs::remove_all(out, error);
      fs::create_directories(out, error);
      std::vector<std::string> command{settings.program, "run", files[next]};
      command.insert(command.end(), settings.extra.begin(), settings.extra.end());
      command.insert(command.end(), {"--out", out.string()});
      pool.start(next++, command, out / kOutputFile, settings.limit_s);
    }
    const std::optional<ChildEnd> end = pool.wait(1);
    if (pool.interrupted()) return std::nullopt;
    if (!end) continue;
    const std::string name = fs::path(files[end->id]).filename().string();
    names.insert(name);
    const fs::path out = settings.folder / name;
    const PointRecord record = record_of(*end, read_text_file((out / kOutputFile).string()), settings.limit_s);
    std::optional<RunResults> results;
    if (record.exit >= 0 && record.exit != 2 && RunResults::present(out)) results.emplace(out);
    const ExpectedRun actual = actual_of(record.exit, results, expected.collect);
    const auto its = expected.runs.find(name);
    Verdict verdict = judge(name, actual, its == expected.runs.end() ? std::nullopt : std::optional(its->second),
                            expected.tolerances, record.reason);
    if (has_file && its == expected.runs.end()) {
      verdict.ok = false;
      verdict.problems.emplace_back("nothing is expected of it; --update writes what it comes to");
    }
    verdict.seconds = record.seconds;
    tell(verdict);
    verdicts.push_back(std::move(verdict));
  }
  for (const auto& [name, run] : expected.runs) {
    if (names.count(name) != 0) continue;
    Verdict verdict;
    verdict.name = name;
    verdict.ok = false;
    verdict.problems.emplace_back("something is expected of it, and there is no such scenario; --update forgets it");
    tell(verdict);
    verdicts.push_back(std::move(verdict));
  }
  std::sort(verdicts.begin(), verdicts.end(), [](const Verdict& a, const Verdict& b) { return a.name < b.name; });
  return verdicts;
}

std::string junit_of(const std::string& suite, const std::vector<Verdict>& verdicts) {
  std::size_t failures = 0;
  std::size_t errors = 0;
  double seconds = 0;
  for (const Verdict& verdict : verdicts) {
    failures += !verdict.ok && !verdict.error ? 1U : 0U;
    errors += !verdict.ok && verdict.error ? 1U : 0U;
    seconds += verdict.seconds;
  }
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
      "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{:.3f}\">\n",
      escaped(suite), verdicts.size(), failures, errors, seconds);
  for (const Verdict& verdict : verdicts) {
    text += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"", escaped(suite), escaped(verdict.name),
                        verdict.seconds);
    if (verdict.ok) {
      text += "/>\n";
      continue;
    }
    std::string all;
    for (const std::string& problem : verdict.problems) all += (all.empty() ? "" : "\n") + problem;
    const char* kind = verdict.error ? "error" : "failure";
    text += fmt::format(">\n<{} message=\"{}\">{}</{}>\n</testcase>\n", kind, escaped(verdict.problems.front()),
                        escaped(all), kind);
  }
  return text + "</testsuite>\n</testsuites>\n";
}

}  // namespace heddle::sweep
