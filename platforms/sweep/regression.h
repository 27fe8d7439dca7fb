// A folder of scenarios as a regression: every scenario is run, and what comes out is compared with what a file
// expects.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sweep/run_results.h"

namespace heddle::sweep {

// What a run is to come to.
struct ExpectedRun {
  int status = 0;                         // exit status of the run
  std::map<std::string, double> figures;  // statistics by path, and "figure NAME" for what the scenario measures
};

struct Tolerance {
  std::string pattern;  // of names of figures
  double limit = 0;
  bool percent = false;  // of the expected value
};

// The file expected.yaml (docs/sweep.md).
struct Expected {
  std::vector<std::string> collect;         // paths of statistics, * and ** allowed: what --update keeps
  std::vector<Tolerance> tolerances;        // the first that fits counts; none: equal
  std::map<std::string, ExpectedRun> runs;  // by file name of the scenario
};

// What is collected where no file says it: launches, kernels, faults and the simulated time.
Expected default_expected();
// Throws InputError with file and line.
Expected read_expected(const std::string& path);
// Throws InputError if it cannot be written. The same expectations give the same bytes.
void write_expected(const Expected& expected, const std::string& path);

struct Verdict {
  std::string name;  // of the scenario
  bool ok = true;
  bool error = false;                 // it did not come to figures that could be compared
  std::vector<std::string> problems;  // in sentences
  double seconds = 0;
  ExpectedRun actual;
};

// The figures of a run that is over. `results`: absent if it left none.
ExpectedRun actual_of(int status, const std::optional<RunResults>& results, const std::vector<std::string>& collect);
// `expected`: of the scenario; absent: that it ends with status 0. `reason`: what the run said at its end.
Verdict judge(const std::string& name, const ExpectedRun& actual, const std::optional<ExpectedRun>& expected,
              const std::vector<Tolerance>& tolerances, const std::string& reason);

struct RegressionSettings {
  std::string program;             // that runs scenarios
  std::vector<std::string> extra;  // options of every run
  std::filesystem::path folder;    // of the results, one for each scenario
  unsigned jobs = 1;
  double limit_s = 0;  // of wall time for each; 0: none
};

// Runs the files, and judges them in the order in which they end. `has_file`: somebody wrote expectations; a scenario
// without any is wrong then. Nothing if it was interrupted.
std::optional<std::vector<Verdict>> run_regression(const std::vector<std::string>& files, const Expected& expected,
                                                   bool has_file, const RegressionSettings& settings,
                                                   const std::function<void(const Verdict&)>& tell);

// As JUnit's XML: a test case per scenario.
std::string junit_of(const std::string& suite, const std::vector<Verdict>& verdicts);

}  // namespace heddle::sweep
