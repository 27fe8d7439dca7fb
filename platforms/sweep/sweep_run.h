// Runs the points of a sweep, each as a process of its own, and keeps what comes of them in a folder.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sweep/point_record.h"
#include "sweep/sweep_file.h"
#include "sweep/sweep_plan.h"

namespace heddle::sweep {

// Which points that have been run before are run again although nothing they depend on has changed.
enum class Again : std::uint8_t { none, failed, all };

struct SweepProgress {
  std::size_t points = 0;
  std::size_t finished = 0;  // in this run or before
  std::size_t before = 0;    // of them, before: with the same inputs
  std::size_t failed = 0;
  double seconds_left = 0;              // an estimate; 0: none yet
  const Point* point = nullptr;         // that has just ended; null: none
  const PointRecord* record = nullptr;  // of it
};

class SweepRun {
 public:
  // `program`: that runs points; `folder`: of the results. They must outlive it. Throws InputError if the folder cannot
  // be used, or if another sweep uses it. `alone`: nobody else may, not even for other points.
  SweepRun(const Sweep& sweep, const std::vector<Point>& points, std::string program, std::filesystem::path folder,
           bool alone);
  ~SweepRun();
  SweepRun(const SweepRun&) = delete;
  SweepRun& operator=(const SweepRun&) = delete;

  // Runs the points `chosen` (indices into the plan), at most `jobs` side by side. False if it was interrupted; what
  // has ended by then is kept. Throws InputError, after the first run that comes to its end, if a figure names
  // something that it does not have.
  bool run(const std::vector<std::size_t>& chosen, unsigned jobs, Again again,
           const std::function<void(const SweepProgress&)>& tell);

  // What is known of a point: its record if its inputs are those of today, figures included.
  std::optional<PointRecord> record(std::size_t index);
  std::filesystem::path folder_of(std::size_t index) const { return folder_ / points_[index].folder; }
  // Its command, with the folder of its results.
  std::vector<std::string> command_of(std::size_t index) const;

 private:
  void measure_into(std::size_t index, PointRecord& record);
  void check_sources(const PointRecord& record, const std::filesystem::path& folder);
  void keep(std::size_t index, const ChildEnd& end);

  const Sweep& sweep_;
  const std::vector<Point>& points_;
  std::string program_;
  std::filesystem::path folder_;
  InputDigests digests_;
  std::string figures_digest_;
  bool sources_checked_ = false;
  int lock_ = -1;
};

// The program that is running, as a path.
std::string this_program();

}  // namespace heddle::sweep
