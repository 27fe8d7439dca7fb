// `heddle test`: a folder of scenarios as a regression.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/run_outcome.h"
#include "common/quantity.h"
#include "scenario/scenario.h"
#include "sweep/regression.h"
#include "sweep/sweep_run.h"

namespace heddle::cli {

namespace fs = std::filesystem;
namespace po = boost::program_options;

namespace {

po::options_description test_options() {
  po::options_description options = described_options();
  options.add_options()("jobs,j", po::value<std::string>()->value_name("N"),
                        "scenarios that run side by side; default: as many as there are processors")(
      "expected", po::value<std::string>()->value_name("FILE"), "what is expected; default DIR/expected.yaml")(
      "update", "write what the scenarios come to into the file of what is expected")(
      "junit", po::value<std::string>()->value_name("FILE"), "write JUnit's XML")(
      "limit", po::value<std::string>()->value_name("TIME"), "wall time that a scenario may take, e.g. 60s")(
      "out", po::value<std::string>()->value_name("DIR"), "where results go; default heddle-out/NAME.test")(
      "timing", po::value<std::string>()->value_name("at|fast|lt"), "of every run; default as the scenarios say")(
      "quiet", "print only failures");
  return options;
}

constexpr const char* kTestUsage = R"(heddle test DIR [options]

Runs every scenario of a folder, each in a process of its own, and compares how it ends and what it comes to with the
file of what is expected (docs/sweep.md). Without that file, every scenario must end with status 0. Exit status: 0,
1 something is not as expected, 2 bad input, 5 interrupted.

)";

bool is_scenario(const fs::path& path) {
  if (path.extension() != ".yaml" && path.extension() != ".yml") return false;
  std::ifstream file(path, std::ios::binary);
  std::string head(4096, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return scenario::looks_like_scenario(head);
}

std::vector<std::string> scenarios_in(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw InputError({folder}, "is no folder", "name a folder of scenarios, as in: heddle test scenarios");
  }
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && is_scenario(entry.path())) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) throw InputError({folder}, "holds no scenarios", "a scenario is YAML with `heddle: 1` at its top");
  return files;
}

}  // namespace

int test_command(const std::vector<std::string>& arguments) {
  const CommandLine line("heddle test", test_options(), arguments);
  if (line.help()) {
    std::ostringstream text;
    text << kTestUsage << test_options();
    std::cout << text.str();
    return kSuccess;
  }
  if (line.words().size() != 1) line.bad("a folder of scenarios is expected", "as in: heddle test scenarios");
  const std::string& folder = line.words().front();
  const std::vector<std::string> files = scenarios_in(folder);
  const unsigned jobs =
      line.number<unsigned>("jobs", 1, 1024).value_or(std::max(1U, std::thread::hardware_concurrency()));
  const std::string file = line.text("expected").value_or((fs::path(folder) / "expected.yaml").string());
  std::error_code ignored;
  const bool has_file = fs::exists(file, ignored);
  const bool update = line.has("update");
  if (line.has("expected") && !has_file && !update) {
    throw InputError({file}, "there is no such file", "--update writes it");
  }
  sweep::Expected expected = has_file ? sweep::read_expected(file) : sweep::default_expected();

  // What it is called, also for "." and "scenarios/".
  const fs::path whole = fs::weakly_canonical(folder, ignored);
  const std::string name = whole.filename().string();
  sweep::RegressionSettings settings;
  settings.program = sweep::this_program();
  settings.folder = line.text("out").value_or((fs::path("heddle-out") / (name + ".test")).string());
  settings.jobs = jobs;
  if (const auto timing = line.choice<std::string>("timing", {{"at", "at"}, {"fast", "fast"}, {"lt", "lt"}})) {
    settings.extra = {"--timing", *timing};
  }
  if (const auto limit = line.text("limit")) {
    try {
      settings.limit_s = parse_quantity<double>(*limit, {Unit::s, 0.001, 1e9}, BareNumber::refused);
    } catch (const InputError& error) {
      line.bad(fmt::format("--limit {}: {}", *limit, error.message()), "as in: --limit 60s");
    }
  }
  const bool quiet = line.has("quiet");
  const auto tell = [quiet, update](const sweep::Verdict& verdict) {
    if (verdict.ok || update) {
      if (!quiet)
        std::cout << fmt::format("  {}  {}, {:.1f} s\n", update ? "run     " : "ok      ", verdict.name,
                                 verdict.seconds);
      return;
    }
    std::cout << fmt::format("  {}  {}\n", verdict.error ? "ERROR:  " : "FAILED: ", verdict.name);
    for (const std::string& problem : verdict.problems) std::cout << "            " << problem << '\n';
  };
  const auto verdicts = sweep::run_regression(files, expected, has_file && !update, settings, tell);
  if (!verdicts) {
    std::cerr << "heddle: stopped before all scenarios were run\n";
    return kPartial;
  }
  if (update) {
    expected.runs.clear();
    for (const sweep::Verdict& verdict : *verdicts) {
      // A scenario that is gone has not been run, and one that was killed comes to nothing.
      if (!fs::exists(fs::path(folder) / verdict.name, ignored)) continue;
      // Neither does a bug of the program, or a run that was stopped.
      if (verdict.actual.status < 0 || verdict.actual.status == kInternalError || verdict.actual.status == kPartial) {
        throw InputError({(fs::path(folder) / verdict.name).string()}, "comes to nothing that could be expected",
                         verdict.problems.empty() ? "" : verdict.problems.front());
      }
      expected.runs[verdict.name] = verdict.actual;
    }
    sweep::write_expected(expected, file);
    if (!quiet) std::cout << fmt::format("\nexpected: {}\n", file);
    return kSuccess;
  }
  if (const auto junit = line.text("junit")) write_text(sweep::junit_of(name, *verdicts), *junit);
  const auto failed = static_cast<std::size_t>(
      std::count_if(verdicts->begin(), verdicts->end(), [](const sweep::Verdict& verdict) { return !verdict.ok; }));
  if (!quiet || failed > 0) {
    std::cout << fmt::format("\n{} of {} scenarios are as expected\n", verdicts->size() - failed, verdicts->size());
  }
  return failed == 0 ? kSuccess : kExpectationFailed;
}

}  // namespace heddle::cli
