#include "demand/sources.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "demand/l2_reuse.h"
#include "demand/name_work.h"
#include "demand/operator_work.h"

namespace heddle::demand {
namespace {

using arch::DemandUnit;
using workload::KernelCounters;
using workload::Op;
using workload::OpKind;
using workload::Workload;

// "void ns::f<int>(float*)" and "f": profilers write names as they like.
std::string bare_name(std::string_view name) {
  std::string kept;
  int depth = 0;
  for (const char letter : name) {
    if (letter == '<') ++depth;
    if (letter == '(' && depth == 0 && !kept.empty() && kept.back() != ' ' && kept.back() != ':') break;
    if (depth == 0) kept.push_back(letter);
    if (letter == '>') --depth;
  }
  const std::size_t cut = kept.find_last_of(" :");
  return cut == std::string::npos ? kept : kept.substr(cut + 1);
}

using Signature = std::tuple<std::string, std::uint64_t, std::uint64_t>;  // name, CTAs, threads

class CounterMatch {
 public:
  CounterMatch(const Workload& workload, const std::vector<KernelCounters>& counters) {
    for (const KernelCounters& its : counters) {
      if (its.known.any()) counted_[{bare_name(its.kernel), its.ctas, its.threads}].push_back(&its);
    }
    if (counters.empty()) return;
    for (const Op& op : workload.ops) {
      if (op.kind == OpKind::kernel) ++launches_[signature(op)];
    }
  }

  // In the order of the operations.
  const KernelCounters* next(const Op& op) {
    if (counted_.empty()) return nullptr;
    const Signature its = signature(op);
    const auto found = counted_.find(its);
    if (found == counted_.end()) return nullptr;
    const bool one_each = found->second.size() == launches_[its];
    return found->second[one_each ? seen_[its]++ : 0];
  }

 private:
  static Signature signature(const Op& op) {
    return {bare_name(op.kernel.name), op.kernel.grid.count(), op.kernel.block.count()};
  }

  std::map<Signature, std::vector<const KernelCounters*>> counted_;
  std::map<Signature, std::size_t> launches_;
  std::map<Signature, std::size_t> seen_;
};

// What was counted stands above what was estimated; the rest of an estimate stays, scaled to the CTAs that ran.
KernelDemand count_in(const KernelCounters& counters, std::optional<KernelDemand> estimated) {
  KernelDemand made;
  if (estimated && !estimated->proportions) {
    made = std::move(*estimated);
    const double part = made.estimate.ctas / static_cast<double>(counters.ctas);
    for (double& amount : made.estimate.cta.amounts) amount *= part;
    made.estimate.cta.bulk_read *= part;
  } else if (estimated) {
    made.estimate.kind = estimated->estimate.kind;
  }
  made.source = Source::counters;
  made.estimate.ctas = static_cast<double>(counters.ctas);
  arch::Demand& cta = made.estimate.cta;
  const auto known = [&counters](DemandUnit unit) { return counters.known[static_cast<std::size_t>(unit)]; };
  for (std::size_t unit = 0; unit < arch::kDemandUnits; ++unit) {
    if (counters.known[unit]) cta.amounts[unit] = counters.all.amounts[unit] / made.estimate.ctas;
  }
  // What comes from memory or goes there is a part of what passes the L2: what was counted of one bounds the other.
  const auto bound = [&](DemandUnit dram, DemandUnit l2) {
    if (!known(dram) && known(l2)) cta.of(dram) = std::min(cta.of(dram), cta.of(l2));
    if (known(dram)) cta.of(l2) = std::max(cta.of(dram), cta.of(l2));
  };
  bound(DemandUnit::dram_read, DemandUnit::l2_read);
  bound(DemandUnit::dram_write, DemandUnit::l2_write);
  cta.bulk_read = std::min(cta.bulk_read, cta.of(DemandUnit::l2_read));
  return made;
}

// Amounts of a launch that a machine could work through, and CTAs that a grid can have.
bool plausible(const Estimate& its) {
  constexpr double kMostAmount = 1e15;
  constexpr double kMostCtas = 2147483647;
  const auto& amounts = its.cta.amounts;
  return its.ctas <= kMostCtas && its.tiles <= kMostCtas &&
         std::all_of(amounts.begin(), amounts.end(), [&its](double each) { return each * its.ctas <= kMostAmount; });
}

}  // namespace

const char* source_name(Source source) {
  static constexpr std::array<const char*, kSources> kNames = {"counters", "operators", "names"};
  return kNames[static_cast<std::size_t>(source)];
}

Demands demands_of(const Workload& workload, double l2_bytes, const std::vector<KernelCounters>& counters) {
  Demands all(workload.ops.size());
  L2Reuse cache(l2_bytes);
  CounterMatch match(workload, counters);
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (op.kind != OpKind::kernel) continue;
    const double grid = static_cast<double>(op.kernel.grid.count());
    const std::optional<double> ctas = op.grid_assumed ? std::nullopt : std::optional(grid);
    std::optional<Work> work;
    bool proportions = false;
    Source source = Source::operators;
    if (op.op_of) work = work_of(workload.operators[*op.op_of], op.kernel.name);
    if (!work && ctas) {
      if (auto named = work_of_name(op.kernel.name, grid, static_cast<double>(op.kernel.block.count()))) {
        work = std::move(named->work);
        proportions = named->proportions;
        source = Source::names;
      }
    }
    const MemoryTraffic traffic = work ? cache.use(*work) : MemoryTraffic{};
    if (work) {
      KernelDemand made{source, estimate(*work, traffic, op.kernel.name, ctas, grid), proportions};
      if (plausible(made.estimate)) all[i] = std::move(made);
    }
    if (const KernelCounters* counted = match.next(op)) all[i] = count_in(*counted, std::move(all[i]));
  }
  return all;
}

Coverage coverage_of(const Workload& workload, const Demands& demands) {
  Coverage coverage;
  for (std::size_t i = 0; i < workload.ops.size(); ++i) {
    const Op& op = workload.ops[i];
    if (op.kind != OpKind::kernel) continue;
    const double time = op.recorded ? static_cast<double>(op.recorded->duration) : 0;
    ++coverage.kernels;
    coverage.time += time;
    if (!demands[i]) continue;
    ++coverage.by_source[static_cast<std::size_t>(demands[i]->source)];
    coverage.time_covered += time;
    for (std::size_t unit = 0; unit < arch::kDemandUnits; ++unit) {
      if (demands[i]->estimate.cta.amounts[unit] > 0) ++coverage.by_unit[unit];
    }
  }
  return coverage;
}

}  // namespace heddle::demand
