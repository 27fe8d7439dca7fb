// Which part of its operations a run simulates: all, a region of interest (--from, --to), or what a checkpoint has left
// (--resume); and where it leaves checkpoints (--checkpoint). docs/checkpoints.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_outcome.h"
#include "replay/simulation.h"

namespace heddle::cli {

class RunParts {
 public:
  // Operations of recordings that are left out are taken out of `inputs`; of scenarios, expectations and figures that
  // are about whole runs. `streams`: operations are submitted to streams. Throws InputError for places that there are
  // not, and for what cannot be divided. `machines`: those of the inputs.
  RunParts(const RunOptions& options, Inputs& inputs, const Machines& machines, bool streams);

  bool any() const { return region_ || resumes_ || every_ > 0; }
  // Of a region of a scenario: simulates what stands before it, in the timing lt. What came of it, unless it came to
  // its end.
  std::optional<replay::SimulationResult> run_before(const std::vector<replay::Job>& jobs,
                                                     const replay::SimulationOptions& options);
  // The jobs are those of the run now: what they leave out, how they begin, and where checkpoints go.
  void prepare(std::vector<replay::Job>& jobs, replay::SimulationOptions& options,
               const std::filesystem::path& results);
  // Of a region: simulates what stands behind it, in the timing lt, so that memory is that of the end.
  std::optional<replay::SimulationResult> run_behind(const std::vector<replay::Job>& jobs,
                                                     const replay::SimulationOptions& options,
                                                     replay::SimulationResult& result);
  // Adds the faults of the other parts of the run, so that expectations are judged against all of them.
  void add_faults(replay::SimulationResult& result) const;
  const std::vector<std::string>& notes() const { return notes_; }  // what was left out: sentences
  // "12 of 40 operations", of the last checkpoint; empty: none was written.
  const std::string& kept() const { return kept_; }

 private:
  void read_region(const RunOptions& options, const Inputs& inputs);
  void resume(const RunOptions& options, const Inputs& inputs);
  void take_out(Inputs& inputs);
  void drop_expectations(scenario::Scenario& scenario);
  void keep(const replay::RestingPoint& point, const std::filesystem::path& results);
  replay::SimulationResult run_beside(const std::vector<replay::Job>& jobs, replay::SimulationOptions options,
                                      const std::vector<replay::OpSet>& left_out,
                                      const std::vector<std::string>& states, std::vector<replay::Faults>& faults);

  bool recorded_ = false;
  bool region_ = false;
  bool resumes_ = false;
  std::uint64_t every_ = 0;  // operations between checkpoints; 0: none
  replay::Pace pace_ = replay::Pace::recorded;
  std::string digest_;                 // of the inputs, as they are whole
  std::vector<replay::OpSet> before_;  // by GPU; all of these are of whole workloads
  std::vector<replay::OpSet> behind_;
  std::vector<replay::OpSet> left_out_;
  std::vector<std::int64_t> begins_;  // by GPU: ns, workload axis
  std::vector<std::string> states_;   // by GPU, with which the run begins
  std::vector<std::string> ends_;     // and ends
  std::vector<std::vector<std::uint32_t>> stretches_;
  std::vector<std::string> notes_;
  std::vector<replay::Faults> faults_before_;  // by GPU, or empty: of what was done before
  std::vector<replay::Faults> faults_behind_;
  std::string kept_;
};

}  // namespace heddle::cli
