#include "sweep/sweep_run.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <fmt/format.h>

#include "common/yaml_util.h"

namespace heddle::sweep {

namespace fs = std::filesystem;

namespace {

bool redone(const PointRecord& record, Again again) {
  return again == Again::all || (again == Again::failed && record.state != PointState::done);
}

}  // namespace

std::string this_program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw InputError("the program does not know where it lies: /proc/self/exe cannot be read");
  return path.string();
}

SweepRun::SweepRun(const Sweep& sweep, const std::vector<Point>& points, std::string program, fs::path folder,
                   bool alone)
    : sweep_(sweep),
      points_(points),
      program_(std::move(program)),
      folder_(std::move(folder)),
      digests_(program_),
      figures_digest_(digest_of(sweep.figures)) {
  std::error_code error;
  fs::create_directories(folder_ / "points", error);
  const fs::path path = folder_ / ".lock";
  if (!error) lock_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) {
    throw InputError({folder_.string()}, "cannot be used as folder of a sweep", "choose another with --out DIR");
  }
  if (flock(lock_, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(lock_);
    throw InputError({folder_.string()}, "another sweep runs in this folder",
                     "wait for it, or choose another folder with --out DIR");
  }
}

SweepRun::~SweepRun() { close(lock_); }

std::vector<std::string> SweepRun::command_of(std::size_t index) const {
  std::vector<std::string> command{program_, "run"};
  const Point& point = points_[index];
  command.insert(command.end(), point.arguments.begin(), point.arguments.end());
  command.insert(command.end(), {"--out", folder_of(index).string()});
  return command;
}

void SweepRun::measure_into(std::size_t index, PointRecord& record) {
  record.figures.clear();
  record.figures_digest = figures_digest_;
  if (!record.measured() || !RunResults::present(folder_of(index))) return;
  const RunResults results(folder_of(index));
  if (!results.complete()) return;
  const std::vector<SweepFigure> figures =
      sweep_.figures.empty() ? default_figures(results, taken_columns(sweep_)) : sweep_.figures;
  const std::map<std::string, double> axes = points_[index].numbers(sweep_);
  for (const SweepFigure& figure : figures) record.figures[figure.name] = measure(figure, results, axes);
}

std::optional<PointRecord> SweepRun::record(std::size_t index) {
  std::optional<PointRecord> record = read_record(folder_of(index));
  if (!record || record->digest != digests_.of(points_[index])) return std::nullopt;
  if (record->figures_digest == figures_digest_ || !record->measured()) return record;
  // Other figures are asked for now.
  if (!RunResults::present(folder_of(index))) return std::nullopt;
  measure_into(index, *record);
  check_sources(*record, folder_of(index));
  write_record(*record, folder_of(index));
  return record;
}

// Once per run: what nobody measures is the sweep file's mistake, and no other point will have it.
void SweepRun::check_sources(const PointRecord& record, const fs::path& folder) {
  if (sources_checked_ || !record.measured() || !RunResults::present(folder)) return;
  sources_checked_ = true;
  if (const std::optional<InputError> error = unknown_source(sweep_.figures, RunResults(folder))) throw *error;
}

void SweepRun::keep(std::size_t index, const ChildEnd& end) {
  const fs::path folder = folder_of(index);
  PointRecord record = record_of(end, read_text_file((folder / kOutputFile).string()), sweep_.limit_s);
  record.digest = digests_.of(points_[index]);
  measure_into(index, record);
  check_sources(record, folder);
  if (!sweep_.keep) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename() != kOutputFile) fs::remove_all(entry.path());
    }
  }
  write_record(record, folder);
}

bool SweepRun::run(const std::vector<std::size_t>& chosen, unsigned jobs, Again again,
                   const std::function<void(const SweepProgress&)>& tell) {
  SweepProgress progress;
  progress.points = chosen.size();
  std::vector<std::size_t> open;
  for (const std::size_t index : chosen) {
    const std::optional<PointRecord> known = record(index);
    if (known && !redone(*known, again)) {
      ++progress.finished;
      ++progress.before;
      progress.failed += known->state != PointState::done ? 1U : 0U;
    } else {
      open.push_back(index);
    }
  }
  tell(progress);
  const auto begin = std::chrono::steady_clock::now();
  ChildPool pool;
  std::size_t next = 0;
  while ((next < open.size() || pool.running() > 0) && !pool.interrupted()) {
    while (next < open.size() && pool.running() < jobs) {
      const std::size_t index = open[next++];
      // What an earlier run of the point left must not look like this one's.
      std::error_code error;
      fs::remove_all(folder_of(index), error);
      fs::create_directories(folder_of(index), error);
      pool.start(index, command_of(index), folder_of(index) / kOutputFile, sweep_.limit_s);
    }
    const std::optional<ChildEnd> end = pool.wait(1);
    progress.point = nullptr;
    if (end) {
      keep(end->id, *end);
      const std::optional<PointRecord> its = read_record(folder_of(end->id));
      ++progress.finished;
      progress.failed += its && its->state != PointState::done ? 1U : 0U;
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      const auto ended = static_cast<double>(progress.finished - progress.before);
      progress.seconds_left = seconds / ended * static_cast<double>(progress.points - progress.finished);
      progress.point = &points_[end->id];
      progress.record = its ? &*its : nullptr;
      tell(progress);
    } else {
      tell(progress);
    }
  }
  return !pool.interrupted() || progress.finished == progress.points;
}

}  // namespace heddle::sweep
