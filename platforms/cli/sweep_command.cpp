// `heddle sweep`: many runs of a scenario or a recording, over axes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/run_outcome.h"
#include "report/report_page.h"
#include "sweep/sweep_run.h"
#include "sweep/sweep_table.h"

namespace heddle::cli {

namespace fs = std::filesystem;
namespace po = boost::program_options;
using sweep::Again;
using sweep::PointRecord;
using sweep::Sweep;
using sweep::SweepProgress;
using sweep::SweepRun;
using sweep::SweepTable;

namespace {

constexpr unsigned kMostJobs = 1024;

po::options_description sweep_options() {
  po::options_description options = described_options();
  options.add_options()("jobs,j", po::value<std::string>()->value_name("N"),
                        "points that run side by side; default: as many as there are processors")(
      "again", po::value<std::string>()->value_name("failed|all"),
      "run points again that have been run with the same inputs: those that did not go well, or all")(
      "out", po::value<std::string>()->value_name("DIR"), "where results go; default heddle-out/NAME.sweep")(
      "quiet", "print only errors");
  return options;
}

constexpr const char* kSweepUsage =
    R"(heddle sweep FILE [options]             run the points that are not done yet, and collect
heddle sweep plan FILE                  print the points, one a line: number, values
heddle sweep point FILE N [options]     run one of them, and nothing else
heddle sweep collect FILE [options]     table, database and page of the points that are done

FILE says what is swept (docs/sweep.md). Every point is a run of `heddle run` in a process of its own. Results:
table.csv, table.sqlite, sweep.html, and a folder per point. Exit status: 0 all points went well, 1 some did not,
2 bad input, 5 interrupted; the same command goes on from there. `point` ends as its run does.

)";

// A scheduler's log wants lines, a terminal one that changes.
class SweepBar {
 public:
  SweepBar(const Sweep& sweep, bool quiet) : sweep_(sweep), quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}
  ~SweepBar() { clear(); }
  SweepBar(const SweepBar&) = delete;
  SweepBar& operator=(const SweepBar&) = delete;

  void show(const SweepProgress& progress) {
    if (quiet_) return;
    if (progress.point != nullptr && progress.record != nullptr) {
      const PointRecord& record = *progress.record;
      const bool well = record.state == sweep::PointState::done;
      if (terminal_ && well) return bar(progress);
      clear();
      std::cerr << fmt::format("{}/{} {}: {}{}{}, {:.1f} s{}\n", progress.finished, progress.points,
                               progress.point->text(sweep_), state_name(record.state),
                               record.reason.empty() ? "" : ": ", record.reason, record.seconds, left(progress));
    }
    if (terminal_) bar(progress);
  }

 private:
  static std::string left(const SweepProgress& progress) {
    if (progress.seconds_left <= 0) return "";
    const auto seconds = static_cast<long>(progress.seconds_left + 0.5);
    return seconds < 60 ? fmt::format("; {} s left", seconds)
                        : fmt::format("; {} min {} s left", seconds / 60, seconds % 60);
  }
  void bar(const SweepProgress& progress) {
    constexpr std::size_t kWidth = 30;
    const std::size_t full = kWidth * progress.finished / std::max<std::size_t>(progress.points, 1);
    std::cerr << fmt::format("\r{} [{}{}] {}/{}{}{}\033[K", sweep_.name, std::string(full, '#'),
                             std::string(kWidth - full, '.'), progress.finished, progress.points,
                             progress.failed > 0 ? fmt::format(", {} not well", progress.failed) : "", left(progress))
              << std::flush;
    shown_ = true;
  }
  void clear() {
    if (shown_) std::cerr << "\r\033[K";
    shown_ = false;
  }

  const Sweep& sweep_;
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
};

unsigned jobs_of(const CommandLine& line) {
  return line.number<unsigned>("jobs", 1, kMostJobs).value_or(std::max(1U, std::thread::hardware_concurrency()));
}

std::string quoted_word(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t'\"\\$&;()<>|*?[]{}#~`!") == std::string::npos) return word;
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

SweepTable collected(SweepRun& run, const Sweep& sweep, const std::vector<sweep::Point>& points) {
  std::vector<std::optional<PointRecord>> records;
  for (std::size_t i = 0; i < points.size(); ++i) records.push_back(run.record(i));
  return table_of(sweep, points, std::move(records));
}

void write_results(const SweepTable& table, const fs::path& folder, const std::string& command) {
  write_text(csv_of(table), (folder / "table.csv").string());
  write_text(host_csv_of(table), (folder / "host.csv").string());
  write_sqlite(table, folder / "table.sqlite");
  report::write_page("sweep.html", folder / "sweep.html", sweep_page_data(table, command));
}

int run_point(SweepRun& run, const CommandLine& line, const std::vector<sweep::Point>& points,
              const std::string& number, Again again, const std::function<void(const SweepProgress&)>& tell) {
  std::size_t index = 0;
  const auto all_digits = [](const std::string& text) {
    return !text.empty() && text.size() < 9 && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (all_digits(number)) index = std::stoul(number);
  if (index < 1 || index > points.size()) {
    line.bad(fmt::format("{} is no point", number), fmt::format("the plan has the points 1 to {}", points.size()));
  }
  --index;
  if (!run.run({index}, 1, again, tell)) return kPartial;
  const std::optional<PointRecord> record = run.record(index);
  HEDDLE_CHECK(record.has_value(), "a point that was run has a record");
  if (record->state == sweep::PointState::limit) return kPartial;
  return record->exit >= 0 ? record->exit : kInternalError;
}

// Before points are run that could only say so, one after another.
void check_inputs(const Sweep& sweep) {
  const fs::path home = fs::path(sweep.file).parent_path();
  for (const std::string& input : sweep.inputs) {
    std::error_code ignored;
    if (fs::is_regular_file(home / input, ignored)) continue;
    throw InputError({sweep.file, 0, 0}, fmt::format("run: there is no file {}", (home / input).string()),
                     "names of files are relative to the sweep's folder");
  }
}

}  // namespace

int sweep_command(const std::vector<std::string>& arguments) {
  const CommandLine line("heddle sweep", sweep_options(), arguments);
  if (line.help()) {
    std::ostringstream text;
    text << kSweepUsage << sweep_options();
    std::cout << text.str();
    return kSuccess;
  }
  std::vector<std::string> words = line.words();
  std::string what = "run";
  if (words.size() > 1 || (words.size() == 1 && (words[0] == "plan" || words[0] == "point" || words[0] == "collect"))) {
    what = words.front();
    words.erase(words.begin());
  }
  if (what != "run" && what != "plan" && what != "point" && what != "collect") {
    line.bad(fmt::format("'{}' is neither plan, point nor collect", what), "one file of a sweep at a time");
  }
  const std::size_t wanted = what == "point" ? 2 : 1;
  if (words.size() != wanted) {
    line.bad(what == "point" ? "the file of a sweep and the number of a point are expected"
                             : "the file of a sweep is expected",
             what == "point" ? "as in: heddle sweep point sweep.yaml 12" : "docs/sweep.md tells how to write one");
  }
  const Again again =
      line.choice<Again>("again", {{"failed", Again::failed}, {"all", Again::all}}).value_or(Again::none);
  const Sweep sweep = sweep::read_sweep(words[0]);
  const std::vector<sweep::Point> points = plan_of(sweep);
  if (what == "plan") {
    for (const sweep::Point& point : points) std::cout << point.number << '\t' << point.text(sweep) << '\n';
    return kSuccess;
  }

  check_inputs(sweep);
  const fs::path folder = line.text("out").value_or((fs::path("heddle-out") / (sweep.name + ".sweep")).string());
  SweepRun run(sweep, points, sweep::this_program(), folder, what == "run");
  SweepBar bar(sweep, line.has("quiet"));
  const auto tell = [&bar](const SweepProgress& progress) { bar.show(progress); };
  if (what == "point") return run_point(run, line, points, words[1], again, tell);
  bool whole = true;
  if (what == "run") {
    std::vector<std::size_t> all(points.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    whole = run.run(all, jobs_of(line), again, tell);
  }
  std::vector<std::string> shown;
  for (const std::string& argument : arguments) shown.push_back(quoted_word(argument));
  const SweepTable table = collected(run, sweep, points);
  write_results(table, folder, fmt::format("heddle sweep {}", fmt::join(shown, " ")));
  if (!line.has("quiet")) {
    std::cout << summary_text(table);
    std::cout << fmt::format("\npage: {}\ntable: {}\n", (folder / "sweep.html").string(),
                             (folder / "table.csv").string());
  }
  if (!whole) {
    std::cerr << fmt::format("heddle: stopped: {} of {} points are done; the same command goes on from there\n",
                             points.size() - table.missing(), points.size());
    return kPartial;
  }
  return table.with_state(sweep::PointState::done) == points.size() ? kSuccess : kExpectationFailed;
}

}  // namespace heddle::cli
