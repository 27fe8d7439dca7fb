// `heddle compare`: what differs between the results of runs.
#include <filesystem>
#include <iostream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/run_outcome.h"
#include "report/report_page.h"
#include "sweep/run_difference.h"

namespace heddle::cli {

namespace po = boost::program_options;

namespace {

po::options_description compare_options() {
  po::options_description options = described_options();
  options.add_options()(
      "fail-if", po::value<std::vector<std::string>>()->value_name("WHAT>LIMIT"),
      "exit with status 1 if it differs from the first run's by more, e.g. 'sim.time>+2%', "
      "'gpu0.l2.slice*.hits>100', 'figure latency>1%', 'kernel gemm>1%'; + only growth, - only a fall; "
      "can be repeated")("thresholds", po::value<std::string>()->value_name("FILE"),
                         "a file with such limits, one a line")("page", po::value<std::string>()->value_name("FILE"),
                                                                "write the page to FILE; default compare.html")(
      "json", po::value<std::string>()->value_name("FILE"), "write what the page shows to FILE, for programs")(
      "rows", po::value<std::string>()->value_name("N"), "rows of a table on the terminal; default 20")(
      "quiet", "print only what is beyond its limit");
  return options;
}

constexpr const char* kCompareUsage = R"(heddle compare DIR DIR... [options]

What differs between results of `heddle run`: configuration, figures, statistics, kernels; each against the first.
Writes a page with them side by side. Exit status: 0, 1 something is beyond its limit, 2 bad input.

)";

}  // namespace

int compare_command(const std::vector<std::string>& arguments) {
  const CommandLine line("heddle compare", compare_options(), arguments);
  if (line.help()) {
    std::ostringstream text;
    text << kCompareUsage << compare_options();
    std::cout << text.str();
    return kSuccess;
  }
  if (line.words().size() < 2) {
    line.bad("two folders of results or more are expected", "as in: heddle compare heddle-out/a heddle-out/b");
  }
  const std::size_t rows = line.number<std::size_t>("rows", 1, std::numeric_limits<std::size_t>::max()).value_or(20);
  std::vector<sweep::Threshold> thresholds;
  for (const std::string& text : line.list("fail-if")) thresholds.push_back(sweep::read_threshold(text));
  if (const auto file = line.text("thresholds")) {
    for (sweep::Threshold& one : sweep::read_thresholds(*file)) thresholds.push_back(std::move(one));
  }
  std::vector<sweep::RunResults> runs;
  for (const std::string& folder : line.words()) runs.emplace_back(folder);
  const sweep::RunDifference difference = sweep::difference_of(runs, thresholds);
  const std::string page = line.text("page").value_or("compare.html");
  const nlohmann::json data = compare_page_data(difference);
  report::write_page("compare.html", page, data);
  if (const auto json = line.text("json"))
    write_text(data.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", *json);
  for (std::size_t i = 0; i < difference.runs.size() && !thresholds.empty(); ++i) {
    if (!difference.complete[i])
      std::cout << fmt::format("FAILED: {}: the run has not come to its end\n", difference.runs[i]);
  }
  if (line.has("quiet")) {
    for (const sweep::ThresholdResult& one : difference.thresholds) {
      if (!one.ok) std::cout << fmt::format("FAILED: {}: {}\n", one.threshold.text, one.name);
    }
  } else {
    std::cout << difference_text(difference, rows) << "\npage: " << page << '\n';
  }
  return difference.ok() ? kSuccess : kExpectationFailed;
}

}  // namespace heddle::cli
