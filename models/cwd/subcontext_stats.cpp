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

SubcontextStats::SubcontextStats(Domain& domain, const std::string& path)
    : domain_(domain), path_(path), rows_(arch::kSubcontexts) {}

std::string SubcontextStats::path_of(std::uint32_t subcontext, const std::string& name) const {
  return fmt::format("{}.{}.subcontext{}.{}", domain_.observation().prefix, path_, subcontext, name);
}

void SubcontextStats::add(std::uint32_t subcontext) {
  Stats& stats = domain_.observation().stats;
  auto row = std::make_unique<Row>();
  const auto path = [&](const char* name) { return path_of(subcontext, name); };
  row->launched = &stats.counter(path("ctas_launched"), "CTAs", "CTAs of the subcontext that were placed");
  row->completed = &stats.counter(path("ctas_completed"), "CTAs", "CTAs of the subcontext that completed");
  row->tpc_cycles = &stats.counter(path("tpc_cycles"), "TPC cycles", "TPCs that the subcontext held, over time");
  row->tpcs = &stats.gauge(path("tpcs_held"), "TPCs", "TPCs that the subcontext holds");
  row->credits = &stats.gauge(path("credits"), "TPCs", "TPC credits that the subcontext has left");
  row->since = domain_.now();
  if (TimelineSink* timeline = domain_.observation().timeline; timeline != nullptr) {
    row->track =
        timeline->track(domain_.observation().prefix + " cwd", fmt::format("subcontext {}: TPCs held", subcontext));
  }
  rows_[subcontext] = std::move(row);
  ++in_use_;
}

void SubcontextStats::launched(std::uint32_t subcontext, std::uint64_t ctas) {
  if (used(subcontext)) rows_[subcontext]->launched->add(ctas);
}

void SubcontextStats::completed(std::uint32_t subcontext, std::uint64_t ctas) {
  if (used(subcontext)) rows_[subcontext]->completed->add(ctas);
}

void SubcontextStats::holds(std::uint32_t subcontext, std::uint32_t tpcs, std::int64_t credits) {
  if (!used(subcontext)) return;
  Row& row = *rows_[subcontext];
  row.credits->set(static_cast<double>(credits));
  if (tpcs == row.held) return;
  const Cycle now = domain_.now();
  row.tpc_cycles->add((now - row.since) * row.held);
  row.since = now;
  row.held = tpcs;
  row.tpcs->set(tpcs);
  if (TimelineSink* timeline = domain_.observation().timeline; timeline != nullptr) {
    timeline->counter(row.track, domain_.time_of(now), "TPCs", tpcs);
  }
}

void SubcontextStats::waited(std::uint32_t subcontext, const std::string& task, WaitReason reason, Cycle cycles) {
  if (!used(subcontext)) return;
  Counter*& counter = rows_[subcontext]->waits[static_cast<std::size_t>(reason)];
  if (counter == nullptr) {
    counter = &domain_.observation().stats.counter(
        path_of(subcontext, fmt::format("wait.{}", wait_key(reason))), "task cycles",
        fmt::format("time that tasks of the subcontext with CTAs left waited: {}", wait_text(reason)));
  }
  counter->add(cycles);
  if (TimelineSink* timeline = domain_.observation().timeline; timeline != nullptr) {
    TrackId& track = rows_[subcontext]->waits_track;
    if (track.group == 0) {
      track = timeline->track(domain_.observation().prefix + " subcontexts",
                              fmt::format("subcontext {} waits", subcontext));
    }
    const Timebase& clock = domain_;
    timeline->slice(track, clock.time_of(domain_.now() - cycles), clock.time_of(domain_.now()),
                    fmt::format("{}: {}", task, wait_text(reason)));
  }
}

void SubcontextStats::show_fairness() {
  if (in_use_ < 2) return;
  if (fairness_ == nullptr) {
    fairness_ = &domain_.observation().stats.gauge(
        fmt::format("{}.{}.subcontext_fairness", domain_.observation().prefix, path_), "1",
        "Jain's index over the TPC cycles of the subcontexts in use: 1 if all got as much");
  }
  std::vector<double> shares;
  for (const auto& row : rows_) {
    if (row == nullptr || row->launched->value() == 0) continue;
    const Cycle open = (domain_.now() - row->since) * row->held;
    shares.push_back(static_cast<double>(row->tpc_cycles->value() + open));
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
