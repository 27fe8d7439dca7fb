#include "cwd/subcontext_stats.h"

#include <fmt/format.h>

#include "arch/kernel_record.h"

namespace heddle::cwd {

double jain_index(const std::vector<double>& shares) {
  double sum = 0;
  double squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

SubcontextStats::SubcontextStats(const CwdContext& context) : context_(context), rows_(arch::kSubcontexts) {}

void SubcontextStats::add(std::uint32_t subcontext) {
  auto row = std::make_unique<Row>(context_.observation.stats,
                                   fmt::format("{}.subcontext{}", context_.stat_prefix, subcontext));
  row->since = context_.now();
  row->track = context_.track(fmt::format("subcontext {}: TPCs held", subcontext));
  rows_[subcontext] = std::move(row);
  ++in_use_;
}

Counter& SubcontextStats::Row::wait(WaitReason reason) {
  Counter*& entry = waits[static_cast<std::size_t>(reason)];
  if (entry == nullptr) {
    entry = &counter(fmt::format("wait.{}", wait_key(reason)), "task cycles",
                     fmt::format("time that tasks of the subcontext with CTAs left waited: {}", wait_text(reason)));
  }
  return *entry;
}

void SubcontextStats::launched(std::uint32_t subcontext, std::uint64_t ctas) {
  if (used(subcontext)) rows_[subcontext]->launched.add(ctas);
}

void SubcontextStats::completed(std::uint32_t subcontext, std::uint64_t ctas) {
  if (used(subcontext)) rows_[subcontext]->completed.add(ctas);
}

void SubcontextStats::holds(std::uint32_t subcontext, std::uint32_t tpcs, std::int64_t credits) {
  if (!used(subcontext)) return;
  Row& row = *rows_[subcontext];
  row.credits.set(static_cast<double>(credits));
  if (tpcs == row.held) return;
  const Cycle now = context_.now();
  row.tpc_cycles.add((now - row.since) * row.held);
  row.since = now;
  row.held = tpcs;
  row.tpcs.set(tpcs);
  if (context_.timeline() != nullptr) {
    context_.timeline()->counter(row.track, context_.timebase.time_of(now), "TPCs", tpcs);
  }
}

void SubcontextStats::waited(std::uint32_t subcontext, const std::string& task, WaitReason reason, Cycle cycles) {
  if (!used(subcontext)) return;
  Row& row = *rows_[subcontext];
  row.wait(reason).add(cycles);
  TimelineSink* timeline = context_.timeline();
  if (timeline == nullptr) return;
  if (row.waits_track.group == 0) {
    row.waits_track =
        timeline->track(context_.observation.prefix + " subcontexts", fmt::format("subcontext {} waits", subcontext));
  }
  context_.draw(row.waits_track, context_.now() - cycles, fmt::format("{}: {}", task, wait_text(reason)));
}

void SubcontextStats::show_fairness() {
  if (in_use_ < 2) return;
  if (fairness_ == nullptr) {
    fairness_ = &context_.observation.stats.gauge(
        context_.stat_prefix + ".subcontext_fairness", "1",
        "Jain's index over the TPC cycles of the subcontexts in use: 1 if all got as much");
  }
  std::vector<double> shares;
  for (const auto& row : rows_) {
    if (row == nullptr || row->launched.value() == 0) continue;
    const Cycle open = (context_.now() - row->since) * row->held;
    shares.push_back(static_cast<double>(row->tpc_cycles.value() + open));
  }
  if (shares.size() > 1) fairness_->set(jain_index(shares));
}

void SubcontextStats::reset() {
  for (const auto& row : rows_) {
    if (row == nullptr) continue;
    row->held = 0;
    row->since = 0;
  }
}

}  // namespace heddle::cwd
