#include "replay/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "arch/topology.h"
#include "cwd/lake_fill.h"
#include "cwd/launch_bits.h"
#include "gpu/gpu.h"
#include "gpu/gpu_params.h"
#include "replay/free_machine.h"

namespace heddle::replay {
namespace {

constexpr double kClose = 0.05;

// Cycles per CTA of the slowest stage of a launch, with packets of so many CTAs.
double launch_interval(const gpu::GpuParams& params, double packet) {
  const arch::Topology topology(params.machine.shape, params.machine.ugpus);
  const std::vector<std::uint32_t> gpcs = topology.sms_per_gpc();
  const double sms = topology.sms();
  const auto of_rate = [](double rate) { return rate > 0 ? 1 / rate : 0.0; };
  double port = 0;
  if (params.cwd.port_bits > 0) {
    const cwd::LaunchBits bits(params.cwd, topology);
    port = std::ceil(static_cast<double>(bits.of(protocol::LaunchPacket())) / params.cwd.port_bits);
  }
  // A GPC takes in gpc_queue packets per round trip of their credits; a packet comes to all of them.
  const double round_trip = params.cwd.gpc_distance + params.gpc.gpm_to_cwd;
  const double packets = std::max({port, of_rate(params.gpc.packets), round_trip / params.cwd.gpc_queue});
  const double largest = *std::max_element(gpcs.begin(), gpcs.end());
  const double ids = params.gpc.raster_cycles + std::ceil(params.gpc.divide_cycles * params.gpc.delta_bits);
  return std::max({of_rate(params.cwd.cta_commits), packets / packet, of_rate(params.gpc.mpc_launches) * largest / sms,
                   ids / sms, of_rate(params.gpc.cta_starts) / sms});
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::min(values.size() - 1, rank == 0 ? 0 : rank - 1)];
}

Match match_of(const workload::Op& op, double error, bool launch_bound, workload::Nanoseconds resolution) {
  if (std::abs(error) <= kClose) return Match::ok;
  if (op.recorded->overlaps) return Match::overlaps;
  if (launch_bound) return Match::launch_bound;
  if (std::abs(error) * static_cast<double>(op.recorded->duration) <= static_cast<double>(resolution)) {
    return Match::resolution;
  }
  return op.grid_assumed ? Match::grid_assumed : Match::other;
}

// Time in which at least two of the intervals run.
double overlap_time(const std::vector<std::pair<double, double>>& intervals) {
  std::vector<std::pair<double, int>> edges;
  for (const auto& [begin, end] : intervals) {
    edges.emplace_back(begin, 1);
    edges.emplace_back(end, -1);
  }
  std::sort(edges.begin(), edges.end());  // at equal times ends come first
  double sum = 0;
  double since = 0;
  int running = 0;
  for (const auto& [when, step] : edges) {
    if (running >= 2) sum += when - since;
    running += step;
    since = when;
  }
  return sum;
}

void summarise_errors(Comparison& c) {
  std::vector<double> errors;
  for (const KernelComparison& k : c.kernels) {
    if (!k.overlaps) errors.push_back(std::abs(k.error));
  }
  c.alone = errors.size();
  c.within_5 =
      static_cast<std::size_t>(std::count_if(errors.begin(), errors.end(), [](double e) { return e <= kClose; }));
  c.error_p50 = quantile(errors, 0.50);
  c.error_p95 = quantile(errors, 0.95);
  c.error_max = quantile(errors, 1.0);
}

constexpr double kRounding = 2;  // ns; recorders round starts and durations on their own

struct Interval {
  double begin = 0;
  double end = 0;
  std::size_t op = 0;
};

// Calls visit(a, b, time) for every two intervals of different streams that share more than `tolerance`. Those of one
// stream hardly overlap, so that few are open at any time.
template <typename Visit>
void each_pair(const workload::Workload& workload, std::vector<Interval> intervals, double tolerance, Visit visit) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return std::tie(a.begin, a.op) < std::tie(b.begin, b.op); });
  std::vector<Interval> open;
  for (const Interval& now : intervals) {
    open.erase(std::remove_if(open.begin(), open.end(), [&now](const Interval& o) { return o.end <= now.begin; }),
               open.end());
    for (const Interval& other : open) {
      const double shared = std::min(other.end, now.end) - now.begin;
      if (shared > tolerance && workload.ops[other.op].stream != workload.ops[now.op].stream) {
        visit(other.op, now.op, shared);
      }
    }
    open.push_back(now);
  }
}

}  // namespace

const char* match_name(Match match) {
  static constexpr const char* kNames[kMatches] = {"ok",           "overlaps",     "resolution",
                                                   "launch bound", "grid assumed", "other"};
  return kNames[static_cast<std::size_t>(match)];
}

std::vector<std::vector<std::size_t>> signature_groups(const workload::Workload& workload) {
  using Extents = std::array<std::uint32_t, 6>;
  std::map<std::pair<std::string, Extents>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    if (op.kind != workload::OpKind::kernel || !op.recorded || op.recorded->duration <= 0) continue;
    const arch::KernelRecord& k = op.kernel;
    const Extents extents = {k.grid.x, k.grid.y, k.grid.z, k.block.x, k.block.y, k.block.z};
    groups[{k.name, extents}].push_back(i);
  }
  std::vector<std::vector<std::size_t>> result;
  for (auto& [signature, launches] : groups) result.push_back(std::move(launches));
  return result;
}

double signature_duration(std::vector<double> fitted) { return quantile(std::move(fitted), 0.5); }

SignatureFit fit_signatures(const workload::Workload& workload, const gpu::GpuParams& machine) {
  const Clock clock(machine.machine.clock);
  SignatureFit result;
  std::vector<double> errors;
  double predicted_sum = 0;
  double recorded_sum = 0;
  const std::vector<double> free = free_parts(workload, machine);
  for (const std::vector<std::size_t>& launches : signature_groups(workload)) {
    if (launches.size() < 2) continue;
    ++result.signatures;
    // All launches of a signature have the same shape; those that shared the machine had less of it.
    const auto solo = [&](std::size_t i) {
      return SoloKernel(machine, workload.ops[launches[i]].kernel, free[launches[i]]);
    };
    std::vector<double> fitted;
    for (std::size_t i = 0; i < launches.size(); i += 2) {
      const auto ns = static_cast<double>(workload.ops[launches[i]].recorded->duration);
      fitted.push_back(static_cast<double>(solo(i).fit(ns / clock.ns_for_cycles(1))));
    }
    const double cycles = signature_duration(fitted);
    for (std::size_t i = 1; i < launches.size(); i += 2) {
      const auto ns = static_cast<double>(workload.ops[launches[i]].recorded->duration);
      const double predicted = clock.ns_for_cycles(solo(i).duration(cycles));
      errors.push_back(std::abs(predicted / ns - 1));
      predicted_sum += predicted;
      recorded_sum += ns;
    }
  }
  result.launches = errors.size();
  result.error_p50 = quantile(errors, 0.50);
  result.error_p95 = quantile(errors, 0.95);
  result.time_error = recorded_sum > 0 ? predicted_sum / recorded_sum - 1 : 0;
  return result;
}

Comparison compare(const workload::Workload& workload, const std::vector<OpResult>& results,
                   const gpu::GpuParams& machine, const std::vector<bool>& launch_bound) {
  Comparison c;
  const double infinity = std::numeric_limits<double>::infinity();
  double recorded_begin = infinity, recorded_end = -infinity, begin = infinity, end = -infinity;
  const std::uint32_t sms = machine.machine.shape.sms();
  std::vector<std::pair<double, double>> recorded_intervals, modelled_intervals;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    for (const workload::Edge& edge : op.after) {
      ++(edge.source == workload::EdgeSource::recorded ? c.edges_recorded : c.edges_inferred);
    }
    c.pinned += op.not_before && op.enqueue ? 1U : 0U;
    if (results[i].done) {
      begin = std::min(begin, results[i].start);
      end = std::max(end, results[i].end);
    }
    if (!op.recorded) continue;
    const auto start = static_cast<double>(op.recorded->start);
    const auto duration = static_cast<double>(op.recorded->duration);
    recorded_begin = std::min(recorded_begin, start);
    recorded_end = std::max(recorded_end, start + duration);
    if (op.kind != workload::OpKind::kernel) continue;

    KernelComparison k;
    k.op = i;
    k.recorded_ns = duration;
    k.modelled_ns = results[i].end - results[i].start;
    k.error = duration > 0 ? k.modelled_ns / duration - 1 : 0;
    k.overlaps = op.recorded->overlaps;
    k.match = match_of(op, k.error, launch_bound[i], workload.timings.resolution);
    ++c.counts[static_cast<std::size_t>(k.match)];
    c.time_ns[static_cast<std::size_t>(k.match)] += duration;
    c.kernel_time_recorded_ns += k.recorded_ns;
    c.kernel_time_modelled_ns += k.modelled_ns;
    recorded_intervals.emplace_back(start, start + duration);
    modelled_intervals.emplace_back(results[i].start, results[i].end);
    c.coarse += static_cast<double>(workload.timings.resolution) > kClose * duration ? 1U : 0U;
    if (op.recorded->occupancy_percent >= 0 && !op.grid_assumed) {
      ++c.occupancy_compared;
      const double modelled = arch::occupancy_percent(machine.sm.limits, op.kernel, sms);
      c.occupancy_mismatches += std::abs(modelled - op.recorded->occupancy_percent) > 1.0 ? 1U : 0U;
    }
    c.kernels.push_back(k);
  }
  c.span_recorded_ns = recorded_end > recorded_begin ? recorded_end - recorded_begin : 0;
  c.span_modelled_ns = end > begin ? end - begin : 0;
  c.overlap_recorded_ns = overlap_time(recorded_intervals);
  c.overlap_modelled_ns = overlap_time(modelled_intervals);
  c.pairs = overlap_pairs(workload, results);
  summarise_errors(c);
  c.signature = fit_signatures(workload, machine);
  return c;
}

Comparison combine(const std::vector<Comparison>& parts) {
  Comparison all;
  for (const Comparison& part : parts) {
    all.kernels.insert(all.kernels.end(), part.kernels.begin(), part.kernels.end());
    all.span_recorded_ns = std::max(all.span_recorded_ns, part.span_recorded_ns);
    all.span_modelled_ns = std::max(all.span_modelled_ns, part.span_modelled_ns);
    all.coarse += part.coarse;
    all.kernel_time_recorded_ns += part.kernel_time_recorded_ns;
    all.kernel_time_modelled_ns += part.kernel_time_modelled_ns;
    all.overlap_recorded_ns += part.overlap_recorded_ns;
    all.overlap_modelled_ns += part.overlap_modelled_ns;
    all.pairs.recorded += part.pairs.recorded;
    all.pairs.modelled += part.pairs.modelled;
    all.pairs.both += part.pairs.both;
    all.pairs.recorded_ns += part.pairs.recorded_ns;
    all.pairs.both_ns += part.pairs.both_ns;
    all.occupancy_compared += part.occupancy_compared;
    all.occupancy_mismatches += part.occupancy_mismatches;
    all.edges_recorded += part.edges_recorded;
    all.edges_inferred += part.edges_inferred;
    all.pinned += part.pinned;
    for (std::size_t m = 0; m < kMatches; ++m) {
      all.counts[m] += part.counts[m];
      all.time_ns[m] += part.time_ns[m];
    }
    SignatureFit& fit = all.signature;
    fit.signatures += part.signature.signatures;
    fit.launches += part.signature.launches;
    fit.error_p50 = std::max(fit.error_p50, part.signature.error_p50);
    fit.error_p95 = std::max(fit.error_p95, part.signature.error_p95);
    if (std::abs(part.signature.time_error) > std::abs(fit.time_error)) fit.time_error = part.signature.time_error;
  }
  summarise_errors(all);
  return all;
}

void publish(const Comparison& c, const std::string& prefix, Stats& stats, bool judged) {
  const auto put = [&](const char* name, const char* unit, const char* what, double value) {
    stats.gauge(prefix + "." + name, unit, what).set(value);
  };
  const auto count = [&](const char* name, const char* unit, const char* what, std::size_t value) {
    stats.counter(prefix + "." + name, unit, what).add(value);
  };
  count("kernels", "kernels", "kernels of the recording that were replayed", c.kernels.size());
  put("span.recorded", "us", "recorded time from the first start to the last end of any operation",
      c.span_recorded_ns / 1e3);
  put("span.modelled", "us", "the same in the model", c.span_modelled_ns / 1e3);
  if (judged) {
    put("span.error", "%", "modelled span over recorded span, less 1",
        c.span_recorded_ns > 0 ? 100 * (c.span_modelled_ns / c.span_recorded_ns - 1) : 0);
  }
  put("kernel_time.recorded", "us", "sum of the recorded durations of all kernels", c.kernel_time_recorded_ns / 1e3);
  put("kernel_time.modelled", "us", "the same in the model", c.kernel_time_modelled_ns / 1e3);
  put("overlap.recorded", "us", "recorded time in which two kernels or more ran", c.overlap_recorded_ns / 1e3);
  put("overlap.modelled", "us", "the same in the model", c.overlap_modelled_ns / 1e3);
  count("overlap.pairs.recorded", "pairs", "kernels of different streams that ran at the same time in the recording",
        c.pairs.recorded);
  count("overlap.pairs.modelled", "pairs", "the same in the model", c.pairs.modelled);
  count("overlap.pairs.both", "pairs", "of the recorded pairs, those that ran at the same time in the model as well",
        c.pairs.both);
  put("overlap.pairs.time", "us", "recorded time that pairs shared, summed over the pairs", c.pairs.recorded_ns / 1e3);
  put("overlap.pairs.time_both", "us", "of it, what the pairs shared in the model as well", c.pairs.both_ns / 1e3);
  count("edges.recorded", "edges", "waits between streams that the recording shows", c.edges_recorded);
  count("edges.inferred", "edges", "waits between streams that coinciding ends suggest", c.edges_inferred);
  count("pinned", "operations", "operations held until their recorded start, because nothing explains their wait",
        c.pinned);
  if (!judged) return;
  const char* alone = "absolute error of the duration of kernels that overlap no other";
  put("kernel_duration_error.p50", "%", alone, 100 * c.error_p50);
  put("kernel_duration_error.p95", "%", alone, 100 * c.error_p95);
  put("kernel_duration_error.max", "%", alone, 100 * c.error_max);
  count("kernels_alone", "kernels", "kernels that overlap no other", c.alone);
  count("kernels_within_5_percent", "kernels", "of those, modelled within 5 % of the recorded duration", c.within_5);
  count("kernels_coarse", "kernels",
        "kernels whose recorded duration is uncertain by more than 5 %: the recorder's resolution", c.coarse);
  count("occupancy.compared", "kernels", "kernels with a usable recorded occupancy", c.occupancy_compared);
  count("occupancy.mismatches", "kernels", "of those, modelled more than one point off (INP-08)",
        c.occupancy_mismatches);
  for (std::size_t m = 0; m < kMatches; ++m) {
    std::string name = match_name(static_cast<Match>(m));
    std::replace(name.begin(), name.end(), ' ', '_');
    stats.counter(fmt::format("{}.match.{}", prefix, name), "kernels", "kernels by how they match their recording")
        .add(c.counts[m]);
  }
  const char* held_out = "launches predicted from other launches of their signature (name, grid, block)";
  count("signature_fit.signatures", "signatures", "signatures with two launches or more", c.signature.signatures);
  count("signature_fit.launches", "kernels", held_out, c.signature.launches);
  put("signature_fit.error.p50", "%", held_out, 100 * c.signature.error_p50);
  put("signature_fit.error.p95", "%", held_out, 100 * c.signature.error_p95);
  put("signature_fit.time_error", "%", held_out, 100 * c.signature.time_error);
}

OverlapPairs overlap_pairs(const workload::Workload& workload, const std::vector<OpResult>& results) {
  std::vector<Interval> recorded;
  std::vector<Interval> modelled;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    if (op.kind != workload::OpKind::kernel || !op.recorded || !results[i].done) continue;
    const auto start = static_cast<double>(op.recorded->start);
    recorded.push_back({start, start + static_cast<double>(op.recorded->duration), i});
    modelled.push_back({results[i].start, results[i].end, i});
  }
  const double tolerance = std::max(static_cast<double>(workload.timings.resolution), kRounding);
  OverlapPairs pairs;
  each_pair(workload, std::move(recorded), tolerance, [&](std::size_t a, std::size_t b, double shared) {
    const double in_model = std::min(results[a].end, results[b].end) - std::max(results[a].start, results[b].start);
    ++pairs.recorded;
    pairs.recorded_ns += shared;
    pairs.both += in_model > 0 ? 1U : 0U;
    pairs.both_ns += std::clamp(in_model, 0.0, shared);
  });
  each_pair(workload, std::move(modelled), tolerance, [&pairs](std::size_t, std::size_t, double) { ++pairs.modelled; });
  return pairs;
}

SoloKernel::SoloKernel(const gpu::GpuParams& params, const arch::KernelShape& kernel, double free) {
  const bool at = params.machine.timing != TimingMode::lt;
  const auto cost = [at](double cycles) { return at ? cycles : 0.0; };
  sms_ = params.machine.shape.sms();
  const arch::SmLimits& limits = params.sm.limits;
  ctas_ = static_cast<double>(kernel.grid.count());
  clustered_ = kernel.cluster.any();
  const auto gpcs = static_cast<double>(params.machine.shape.gpcs.size());
  double decision = 0;  // cycles per CTA that finding homes for its cluster takes
  session_ = static_cast<double>(params.start_path()) - params.task.to_cwd;
  if (clustered_) {
    const arch::ClusterShape& cluster = kernel.cluster;
    const double size = static_cast<double>(cluster.of(cluster.outermost()).count());
    slots_ = static_cast<double>(residency(params, kernel).cgas) * size;
    // A launch packet starts the CTAs of one GPC_CGA at most.
    packet_ =
        cluster.has(arch::CgaLevel::gpc) ? static_cast<double>(cluster.of(arch::CgaLevel::gpc).count()) : sms_ / gpcs;
    // A step of the session asks all GPCs; those that tie, about two thirds of them, receive a cluster.
    // On SMs of one load a scan finds the level at once; a bisection does not know.
    const std::uint32_t search =
        cwd::level_search_steps(params.cwd.level_search, 1, 1, arch::capacity_of(limits)[arch::Resource::ctas]);
    const double step = 2.0 * params.cwd.query_distance + 1.0 * params.cwd.session_step * search +
                        static_cast<double>(cwd::tree_cycles(cwd::tree_levels(params.machine.shape.gpcs.size()),
                                                             params.cwd.compare_step));
    decision = step / (packet_ * std::max(1.0, gpcs * 2 / 3));
    session_ = static_cast<double>(cwd::snapshot_cycles(params.machine.shape.sms(), params.cwd.snapshot_sms)) +
               params.cwd.session_pipeline + step + params.cwd.query_distance + params.cwd.mask_cycles;
  } else {
    slots_ = sms_ * arch::free_slots(arch::capacity_of(limits), {}, arch::need_of(limits, kernel));
    session_ +=
        static_cast<double>(cwd::tree_cycles(2 * cwd::tree_levels(params.machine.shape.sms()), params.cwd.prefix_step));
    packet_ = sms_ / gpcs;
  }
  HEDDLE_CHECK(slots_ > 0, "a kernel that can never run is to be fitted");
  slots_ = std::max(1.0, std::round(slots_ * free));
  interval_ = cost(std::max(launch_interval(params, packet_), decision));
  way_there_ = cost(params.cwd.gpc_distance + params.gpc.gpm_to_mpc + params.gpc.mpc_to_sm + params.sm.start_cycles);
  // All but the first CTA of a grid wait for a division.
  if (ctas_ > 1) way_there_ += cost(std::ceil(params.gpc.divide_cycles * params.gpc.delta_bits));
  // A CTA asks its MPC and waits for the answer before its completion leaves there (CGA-11).
  way_back_ = cost(2.0 * params.gpc.mpc_to_sm + params.gpc.gpm_to_mpc + params.gpc.gpm_to_cwd);
  // The flush of a cluster: to its SMs and back, and what the GPM takes.
  if (clustered_ && kernel.cluster.has(arch::CgaLevel::gpc)) {
    way_back_ += cost(2.0 * (params.gpc.gpm_to_mpc + params.gpc.mpc_to_sm) + params.gpc.cga_flush);
  }
  session_ = cost(session_);
  end_ = cost(params.task.gap.drain * params.machine.clock);
}

double SoloKernel::duration(double cta_cycles) const { return duration(cta_cycles, 0, 0); }

double SoloKernel::duration(double alone, double wave, double last) const {
  const double waves = std::floor((ctas_ - 1) / slots_);
  const double rest = ctas_ - 1 - waves * slots_;
  // A slot is used again after the CTA's run, the way back, a session, and the way there.
  const double period = std::max({slots_ * interval_, way_there_ + alone + way_back_ + session_, wave});
  // The CTAs of one packet start together: the last packet leaves that much before its last CTA's share of the port.
  // On an empty machine the last level spreads what is left of the grid over all GPCs; later, CTAs follow those that
  // end, in packets of any size: half of a full one, say.
  const double last_level = std::fmod(rest, sms_) + 1;
  // A cluster starts as a whole, whenever it does.
  const double together = clustered_  ? std::min(rest, packet_ - 1)
                          : waves > 0 ? std::min(rest, (packet_ - 1) / 2)
                                      : std::max(0.0, last_level / sms_ * packet_ - 1);
  // CTAs that share work while the later ones of them still arrive.
  const double arrive = (rest - together) * interval_;
  return waves * period + std::max(arrive + alone, last) + way_there_ + way_back_ + end_;
}

std::uint64_t SoloKernel::fit(double cycles) const {
  double low = 1;
  double high = std::max(1.0, cycles);
  if (duration(low) >= cycles) return 1;
  while (high - low > 0.25) {
    const double middle = (low + high) / 2;
    (duration(middle) < cycles ? low : high) = middle;
  }
  return static_cast<std::uint64_t>(std::max(1.0, std::round((low + high) / 2)));
}

}  // namespace heddle::replay
