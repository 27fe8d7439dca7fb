// What each subcontext got of the machine (PRT-09): statistics of those that are in use, and a row of the timeline for
// each of them.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cwd/wait_log.h"

namespace heddle::cwd {

class SubcontextStats {
 public:
  explicit SubcontextStats(const CwdContext& context);

  // From now on the subcontext is reported. Cheap if it is already.
  void use(std::uint32_t subcontext) {
    if (rows_[subcontext] == nullptr) add(subcontext);
  }
  bool used(std::uint32_t subcontext) const { return rows_[subcontext] != nullptr; }

  // Nothing happens for a subcontext that is not reported.
  void launched(std::uint32_t subcontext, std::uint64_t ctas);
  void completed(std::uint32_t subcontext, std::uint64_t ctas);
  // TPCs that it holds from now on, and credits that it has left.
  void holds(std::uint32_t subcontext, std::uint32_t tpcs, std::int64_t credits);
  // A task of it has waited that long.
  void waited(std::uint32_t subcontext, const std::string& task, WaitReason reason, Cycle cycles);
  // Jain's index over the TPC cycles of the subcontexts: 1 if all got as much, 1/n if one got all.
  void show_fairness();
  void reset();

 private:
  struct Row : StatGroup {
    using StatGroup::StatGroup;

    // Time that tasks of the subcontext waited for that: counted only where it happens.
    Counter& wait(WaitReason reason);

    Counter& launched = counter("ctas_launched", "CTAs", "CTAs of the subcontext that were placed");
    Counter& completed = counter("ctas_completed", "CTAs", "CTAs of the subcontext that completed");
    Counter& tpc_cycles = counter("tpc_cycles", "TPC cycles", "TPCs that the subcontext held, over time");
    Gauge& tpcs = gauge("tpcs_held", "TPCs", "TPCs that the subcontext holds");
    Gauge& credits = gauge("credits", "TPCs", "TPC credits that the subcontext has left");
    std::array<Counter*, kWaitReasons> waits{};
    std::uint32_t held = 0;
    Cycle since = 0;
    TrackId track;
    TrackId waits_track;
  };
  void add(std::uint32_t subcontext);

  const CwdContext& context_;
  std::vector<std::unique_ptr<Row>> rows_;  // by subcontext; empty: not in use
  std::size_t in_use_ = 0;
  Gauge* fairness_ = nullptr;
};

// 1 if all shares are alike, 1/n if one of n has everything; 1 without any.
double jain_index(const std::vector<double>& shares);

}  // namespace heddle::cwd
