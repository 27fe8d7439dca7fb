// Recorded beside modelled: how well a replay reproduces its recording, and what it cannot reproduce and why.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/domain.h"
#include "common/stats.h"
#include "gpu/gpu_params.h"
#include "replay/submission.h"
#include "workload/workload.h"

namespace heddle::replay {

// Where a modelled kernel stands against its recording.
enum class Match {
  ok,            // within 5 %
  overlaps,      // not, and it shared the machine with another kernel: its recorded duration is not its own
  resolution,    // within the recorder's resolution, which is more than 5 % of the duration
  launch_bound,  // the recorded machine, as modelled, cannot start its CTAs that fast
  grid_assumed,  // the recording does not tell its grid
  other,
};
constexpr std::size_t kMatches = 6;
const char* match_name(Match match);

struct KernelComparison {
  std::size_t op = 0;
  double recorded_ns = 0;
  double modelled_ns = 0;
  double error = 0;  // modelled / recorded - 1
  bool overlaps = false;
  Match match = Match::ok;
};

// How well a CTA duration predicts launches that it was not fitted to: fitted to every other launch of a signature
// (name, grid, block), applied to the rest.
struct SignatureFit {
  std::size_t signatures = 0;  // with at least two launches
  std::size_t launches = 0;    // predicted
  double error_p50 = 0;        // |predicted / recorded - 1|
  double error_p95 = 0;
  double time_error = 0;  // sum of predicted / sum of recorded - 1
};

// Pairs of kernels of different streams. Two kernels overlap if they run at the same time for longer than the
// recorder's resolution (and than the 2 ns by which recorders round); less than that a recording cannot tell.
struct OverlapPairs {
  std::size_t recorded = 0;
  std::size_t modelled = 0;
  std::size_t both = 0;    // overlap in the recording, and at all in the model
  double recorded_ns = 0;  // sum over the recorded pairs of the time that they share
  double both_ns = 0;      // of it, what the model's pairs share at the least: per pair the smaller of the two
};

// Kernels with a recording. Takes time and memory of the kernels plus the pairs.
OverlapPairs overlap_pairs(const workload::Workload& workload, const std::vector<OpResult>& results);

struct Comparison {
  std::vector<KernelComparison> kernels;  // those with a recording
  double span_recorded_ns = 0;            // first start to last end of all operations
  double span_modelled_ns = 0;
  double error_p50 = 0, error_p95 = 0, error_max = 0;               // |error| of kernels that overlap no other
  std::size_t alone = 0;                                            // such kernels
  std::size_t within_5 = 0;                                         // of them, within 5 %
  double kernel_time_recorded_ns = 0, kernel_time_modelled_ns = 0;  // sums of durations
  double overlap_recorded_ns = 0, overlap_modelled_ns = 0;          // time in which two kernels or more ran
  OverlapPairs pairs;
  std::size_t coarse = 0;  // kernels whose recorded duration is uncertain by more than 5 % (resolution)
  std::size_t occupancy_compared = 0, occupancy_mismatches = 0;  // INP-08
  std::size_t edges_recorded = 0, edges_inferred = 0, pinned = 0;
  std::size_t counts[kMatches] = {};
  double time_ns[kMatches] = {};  // recorded time of the kernels of each kind
  SignatureFit signature;
};

// `machine`: the recorded machine, as modelled. `launch_bound[op]`: the fit could not go as short as the recording.
Comparison compare(const workload::Workload& workload, const std::vector<OpResult>& results,
                   const gpu::GpuParams& machine, const std::vector<bool>& launch_bound);

// Several GPUs as one: kernels and counts add up, the span is the longest, errors are those of all kernels together;
// of the signature fits the worst figures.
Comparison combine(const std::vector<Comparison>& parts);

// Kernels by signature (name, grid, block): indices of their operations, in order. Only kernels with a recording.
std::vector<std::vector<std::size_t>> signature_groups(const workload::Workload& workload);
// The CTA duration that stands for a signature: the (lower) median of the fits of its launches.
double signature_duration(std::vector<double> fitted);

SignatureFit fit_signatures(const workload::Workload& workload, const gpu::GpuParams& machine);

// Enters the comparison as statistics below `prefix` ("replay", "gpu0.replay").
// `judged`: with what says how near the model is to the recording; otherwise only what both did.
void publish(const Comparison& comparison, const std::string& prefix, Stats& stats, bool judged = true);

// How long the CTAs of a recorded kernel must run for the recorded machine to reproduce the kernel's duration.

// The duration of a kernel that has the machine to itself, in closed form: launches limited by the distributor's port
// or by the slots of the machine, whichever is slower. All times in cycles.
class SoloKernel {
 public:
  // The kernel must be able to run on the machine, and so must its clusters. `free`: the part of its places that it can
  // have, more than 0 and up to 1.
  SoloKernel(const gpu::GpuParams& params, const arch::KernelShape& kernel, double free = 1);

  // From the first launch packet to the last completion, for CTAs of `cta_cycles`. Grows with cta_cycles.
  double duration(double cta_cycles) const;
  // The same for CTAs that take `alone` with nobody beside them, where a wave of as many as the machine holds takes
  // `wave` at least, and the last one, of fewer, `last`: what they share does not go faster.
  double duration(double alone, double wave, double last) const;
  double slots() const { return slots_; }  // CTAs that the whole machine holds
  double last_wave() const { return ctas_ - std::floor((ctas_ - 1) / slots_) * slots_; }  // CTAs
  // The CTA duration, at least 1, with which duration() comes closest to `cycles`.
  std::uint64_t fit(double cycles) const;

 private:
  double ctas_;
  double sms_;
  double slots_;      // CTAs that the whole machine holds: with clusters, those of all that can be resident at once
  double interval_;   // between two CTAs at the launch port
  double packet_;     // CTAs of a large launch packet: one on every SM of a GPC, or all of a GPC_CGA
  double way_there_;  // launch packet to first instruction
  double end_;        // of the grid, behind its last completion
  double way_back_;   // last instruction to completion at the distributor: of the CTA, or of its flushed cluster
  double session_;
  bool clustered_;
};

}  // namespace heddle::replay
