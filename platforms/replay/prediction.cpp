#include "replay/prediction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <tuple>

#include <fmt/format.h>

#include "replay/comparison.h"
#include "replay/free_machine.h"

namespace heddle::replay {
namespace {

using workload::Op;
using workload::OpKind;
using workload::Workload;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double quantile_of(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::min(values.size() - 1, rank == 0 ? 0 : rank - 1)];
}

bool usable(const Op& op) {
  return op.kind == OpKind::kernel && op.recorded && op.recorded->duration > 0 && !op.recorded->overlaps;
}

// Values under the names of the groups that they belong to, from the narrowest to all.
class Groups {
 public:
  void add(const std::vector<std::string>& groups, double value) {
    for (std::size_t i = 0; i < groups.size(); ++i) values_[{i, groups[i]}].push_back(value);
  }
  // The number of the narrowest that has any, and its middle.
  std::optional<std::pair<std::size_t, double>> middle(const std::vector<std::string>& groups) const {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto found = values_.find({i, groups[i]});
      if (found != values_.end()) return std::pair(i, median(found->second));
    }
    return std::nullopt;
  }

 private:
  std::map<std::pair<std::size_t, std::string>, std::vector<double>> values_;
};

std::string text_of(const arch::Dim3& extents) {
  return std::to_string(extents.x) + "," + std::to_string(extents.y) + "," + std::to_string(extents.z);
}

std::string signature_of(const Op& op) {
  return op.kernel.name + "|" + text_of(op.kernel.grid) + "|" + text_of(op.kernel.block);
}

// Of durations: signature, name, block, all.
std::vector<std::string> duration_groups(const Op& op) {
  return {signature_of(op), op.kernel.name, text_of(op.kernel.block), ""};
}

// Of factors: signature and work, signature, name, kind, all. Proportions mean nothing beyond launches of their
// signature.
std::vector<std::string> factor_groups(const Op& op, const demand::KernelDemand& its) {
  if (its.proportions) return {signature_of(op)};
  std::string work = signature_of(op);
  for (const double amount : its.estimate.cta.amounts) work += fmt::format("|{:.6g}", amount * its.estimate.ctas);
  return {work, signature_of(op), op.kernel.name, demand::kind_name(its.estimate.kind), ""};
}

// What kernels that were not held back say of others.
class Learned {
 public:
  void add(const Op& op, const demand::KernelDemand& its, const RecordedDemands::Factor& factor) {
    const std::vector<std::string> groups = factor_groups(op, its);
    if (factor.floor) return floors_.add(groups, *factor.floor);
    scales_.add(groups, factor.scale);
    memories_.add(groups, factor.memory);
  }
  std::optional<RecordedDemands::Factor> factor(const Op& op, const demand::KernelDemand& its) const {
    const std::vector<std::string> groups = factor_groups(op, its);
    const auto scale = scales_.middle(groups);
    const auto floor = floors_.middle(groups);
    if (!scale && !floor) return std::nullopt;
    RecordedDemands::Factor factor;
    if (scale) {
      factor.scale = scale->second;
      factor.memory = memories_.middle(groups)->second;
    }
    // Of those nearest to it: that they wait says nothing if nearer ones work.
    if (floor && (!scale || floor->first <= scale->first)) factor.floor = floor->second;
    return factor;
  }

 private:
  Groups scales_;
  Groups memories_;
  Groups floors_;
};

std::vector<bool> held_back(const Workload& workload, HoldBack what, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<bool> held(workload.ops.size(), false);
  std::map<std::string, bool> names;
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (!usable(workload.ops[i])) continue;
    if (what == HoldBack::launches) {
      held[i] = random() % 2 == 0;
      continue;
    }
    const auto [name, added] = names.emplace(workload.ops[i].kernel.name, false);
    if (added) name->second = random() % 2 == 0;
    held[i] = name->second;
  }
  return held;
}

// A kernel that is recorded without a grid has as many CTAs as its work falls into.
arch::KernelShape shape_of(const Op& op, const demand::Estimate& its) {
  arch::KernelShape shape = op.kernel;
  if (op.grid_assumed) shape.grid = {static_cast<std::uint32_t>(std::llround(its.ctas)), 1, 1};
  return shape;
}

double l2_of(const gpu::GpuParams& machine) {
  // Copies of the other partition's lines take their part.
  const bool copies = machine.l2.copies == memory::L2Copies::near && machine.l2.partitions > 1;
  return static_cast<double>(machine.l2.bytes) / (copies ? machine.l2.partitions : 1);
}

}  // namespace

void fit_into(arch::KernelShape& shape, const arch::SmLimits& limits) {
  shape.shared_bytes = std::min(shape.shared_bytes, limits.max_shared_per_cta);
  const auto warps = static_cast<std::uint32_t>((shape.block.count() + limits.warp_size - 1) / limits.warp_size);
  const std::uint32_t most = limits.registers / std::max(1U, warps * limits.warp_size);
  shape.registers_per_thread = std::min({shape.registers_per_thread, limits.max_registers_per_thread, most});
  // They are given in pieces.
  while (shape.registers_per_thread > 1 && !arch::why_impossible(limits, shape).empty()) --shape.registers_per_thread;
}

RecordedDemands::RecordedDemands(const Workload& workload, const gpu::GpuParams& machine,
                                 const std::vector<workload::KernelCounters>& counters)
    : workload_(workload),
      l2_bytes_(l2_of(machine)),
      fit_(machine),
      demands_(demand::demands_of(workload, l2_bytes_, counters)),
      factors_(workload.ops.size()),
      unexplained_(workload.ops.size(), 0) {
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    if (!demands_[i]) continue;
    demand::Estimate& its = demands_[i]->estimate;
    its.cta.floor_ns = its.trips * fit_.memory_latency();
    if (is_recorded(i) && !workload.ops[i].recorded->overlaps) fit_to_recording(i, {});
  }
  share_machine(machine);
}

bool RecordedDemands::is_recorded(std::size_t op) const {
  const auto& recorded = workload_.ops[op].recorded;
  return demands_[op] && recorded && recorded->duration > 0;
}

void RecordedDemands::fit_to_recording(std::size_t op, const DemandFit::Left& left) {
  const auto ns = static_cast<double>(workload_.ops[op].recorded->duration);
  const DemandFit::Fit made = fit_.fit(shape(op), demands_[op]->estimate.cta, ns, left);
  factors_[op] = {made.scale, made.memory, made.waits ? std::optional(made.demand.floor_ns) : std::nullopt};
  unexplained_[op] = 1 - fit_.duration(shape(op), demand(op, {}), left) / ns;
}

// Where several want more than there is, each has as much of it as it wants of all that is wanted: so have their
// queues. And where less is known to be wanted than was there, all reached that much less of it. What each wants is
// what is known of it, not what is fitted: that would follow from what is fitted to the others.
void RecordedDemands::share_machine(const gpu::GpuParams& machine) {
  std::vector<std::size_t> shared;
  for (std::size_t i = 0; i < factors_.size(); ++i) {
    if (is_recorded(i) && workload_.ops[i].recorded->overlaps) shared.push_back(i);
  }
  if (shared.empty()) return;
  const std::vector<double> places = free_parts(workload_, machine);
  std::array<std::vector<double>, fluid::kWides> use;
  use.fill(std::vector<double>(factors_.size(), 0));
  for (const std::size_t i : shared) {
    const DemandFit::ByWide busy = fit_.busy(shape(i), demand(i, {}));
    const auto ns = static_cast<double>(workload_.ops[i].recorded->duration);
    for (std::size_t wide = 0; wide < use.size(); ++wide) use[wide][i] = busy[wide] / ns;
  }
  std::array<std::vector<double>, fluid::kWides> others;
  for (std::size_t wide = 0; wide < use.size(); ++wide) others[wide] = used_beside(workload_, use[wide]);
  for (const std::size_t i : shared) {
    DemandFit::Left left;
    left.places = places[i];
    for (std::size_t wide = 0; wide < use.size(); ++wide) {
      const double all = use[wide][i] + others[wide][i];
      if (use[wide][i] > 0) left.wide[wide] = std::max(kLeastFree, use[wide][i] / all);
    }
    fit_to_recording(i, left);
  }
}

arch::Demand RecordedDemands::demand(std::size_t op, const Factor& factor) const {
  arch::Demand its = with_memory(scaled(demands_[op]->estimate.cta, factor.scale), factor.memory);
  if (factor.floor) its.floor_ns = std::max(its.floor_ns, *factor.floor);
  return its;
}

bool RecordedDemands::l2_differs(const gpu::GpuParams& other) const { return l2_of(other) != l2_bytes_; }

std::vector<std::optional<arch::Demand>> RecordedDemands::demands_on(
    const gpu::GpuParams& other, const std::vector<workload::KernelCounters>& counters) const {
  const demand::Demands there = demand::demands_of(workload_, l2_of(other), counters);
  std::vector<std::optional<arch::Demand>> all(there.size());
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (!there[i]) continue;
    const arch::Demand& amounts = there[i]->estimate.cta;
    all[i] = fitted(i);
    // Of what its operator needs from memory there, the part that the recording shows.
    for (const arch::DemandUnit unit : {arch::DemandUnit::dram_read, arch::DemandUnit::dram_write}) {
      all[i]->of(unit) = amounts.of(unit) * factors_[i].scale * factors_[i].memory;
    }
  }
  return all;
}

std::size_t RecordedDemands::limit(std::size_t op) const { return fit_.limit(shape(op), fitted(op)); }

arch::KernelShape RecordedDemands::shape(std::size_t op) const {
  return shape_of(workload_.ops[op], demands_[op]->estimate);
}

double RecordedDemands::duration(std::size_t op, const Factor& factor) const {
  return fit_.duration(shape(op), demand(op, factor));
}

std::vector<double> RecordedDemands::durations_on(const gpu::GpuParams& other) const {
  const DemandFit there(other);
  const demand::Demands demands = demand::demands_of(workload_, l2_of(other), {});
  std::vector<double> all(workload_.ops.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!demands[i]) continue;
    const demand::Estimate& estimate = demands[i]->estimate;
    arch::KernelShape shape = shape_of(workload_.ops[i], estimate);
    double part = 1;  // of a CTA's work that is one tile's
    if (estimate.tiles > estimate.ctas) {
      part = estimate.ctas / estimate.tiles;
      shape.grid = {static_cast<std::uint32_t>(std::llround(estimate.tiles)), 1, 1};
      shape.cluster = {};
    }
    fit_into(shape, other.sm.limits);
    arch::Demand its = with_memory(scaled(estimate.cta, part * factors_[i].scale), factors_[i].memory);
    its.floor_ns = std::max(estimate.trips * there.memory_latency(), factors_[i].floor.value_or(0));
    all[i] = there.duration(shape, its);
  }
  return all;
}

HeldBack predict(const RecordedDemands& recording, const gpu::GpuParams& machine, HoldBack what, bool with_demands,
                 std::uint64_t seed) {
  const Workload& workload = recording.workload();
  const std::vector<bool> held = held_back(workload, what, seed);
  const Clock clock(machine.machine.clock);
  Groups durations;
  Learned learned;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (!usable(op) || held[i]) continue;
    const double ns = static_cast<double>(op.recorded->duration);
    const std::uint64_t cycles = SoloKernel(machine, op.kernel).fit(ns / clock.ns_for_cycles(1));
    durations.add(duration_groups(op), static_cast<double>(cycles));
    const auto& its = recording.demands()[i];
    if (!its || !with_demands) continue;
    learned.add(op, *its, recording.factor(i));
  }
  HeldBack result;
  std::vector<double> errors;
  double predicted_sum = 0;
  double recorded_sum = 0;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (!held[i]) continue;
    const auto& its = recording.demands()[i];
    const auto factor = its && with_demands ? learned.factor(op, *its) : std::nullopt;
    double predicted = 0;
    if (factor) {
      predicted = recording.duration(i, *factor);
    } else if (const auto cycles = durations.middle(duration_groups(op))) {
      predicted = clock.ns_for_cycles(1) * SoloKernel(machine, op.kernel).duration(cycles->second);
    } else {
      continue;
    }
    const double ns = static_cast<double>(op.recorded->duration);
    errors.push_back(std::abs(predicted / ns - 1));
    predicted_sum += predicted;
    recorded_sum += ns;
  }
  result.launches = errors.size();
  result.error_p50 = quantile_of(errors, 0.50);
  result.error_p95 = quantile_of(errors, 0.95);
  result.time_error = recorded_sum > 0 ? predicted_sum / recorded_sum - 1 : 0;
  return result;
}

}  // namespace heddle::replay
