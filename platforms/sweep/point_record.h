// What is kept of a point of a sweep: how its run ended, why, how long it took, and what it was made of.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "sweep/child_pool.h"
#include "sweep/sweep_figure.h"
#include "sweep/sweep_plan.h"

namespace heddle::sweep {

// What a run prints goes into this file of its folder.
constexpr const char* kOutputFile = "output.txt";

// How a run ended, in a word; of exit statuses as README.md lists them.
enum class PointState : std::uint8_t {
  done,
  failed,       // status 1: an expectation failed, or a fault; the run has come to its end
  bad_input,    // 2
  no_progress,  // 3
  internal,     // 4
  partial,      // 5
  limit,        // beyond the wall time of the sweep
  killed,       // by a signal
};
const char* state_name(PointState state);

struct PointRecord {
  std::string digest;  // of all that the point's run depends on
  PointState state = PointState::done;
  int exit = 0;        // status; -1: there is none
  std::string reason;  // the run's last word, if it did not go well
  double seconds = 0;  // of wall time
  std::string figures_digest;
  std::map<std::string, Measured> figures;

  // The run came to its end: it has figures.
  bool measured() const { return state == PointState::done || state == PointState::failed; }
};

// How a child ended, and the reason that its output gives.
PointRecord record_of(const ChildEnd& end, const std::string& output, double limit_s);

// The record in a point's folder; nothing where there is none, or one of another format.
std::optional<PointRecord> read_record(const std::filesystem::path& folder);
// Throws InputError if it cannot be written. Readers see the old record or the new one.
void write_record(const PointRecord& record, const std::filesystem::path& folder);

// Tells the inputs of runs apart: the program, the command, the files that it names, and, of YAML files, the files that
// those name.
class InputDigests {
 public:
  // `program`: path of the program that runs points.
  explicit InputDigests(const std::string& program);
  std::string of(const Point& point);

 private:
  const std::string& of_file(const std::string& path);

  std::map<std::string, std::string> files_;  // before what is made with it
  std::string program_;
};

// Of what a sweep collects: a record with another one holds other figures.
std::string digest_of(const std::vector<SweepFigure>& figures);

}  // namespace heddle::sweep
