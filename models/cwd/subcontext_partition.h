// How subcontexts share the machine: who holds which TPCs and credits, what a session may use of them, and changes of
// the configuration by the host (PRT-02 to PRT-07, PRT-10).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/fair_progress.h"
#include "cwd/cwd_context.h"
#include "cwd/machine_ledger.h"
#include "cwd/occupancy.h"
#include "cwd/sm_shares.h"
#include "cwd/task_table.h"
#include "cwd/tpc_quota.h"

namespace heddle::cwd {

// What each subcontext got of the machine (PRT-09): statistics of those that are in use, and rows of the timeline for
// each of them. What still goes on, such as a wait for a credit, is counted up to the last end of a task, or the last
// CTA of a subcontext, so that a task that waits for ever shows.
class SubcontextStats {
 public:
  // `sm_capacity`: of an empty SM; `tpcs`: of the machine.
  SubcontextStats(const CwdContext& context, const arch::ResourceVector& sm_capacity);

  // From now on the subcontext is reported. Cheap if it is already.
  void use(std::uint32_t subcontext) {
    if (rows_[subcontext] == nullptr) add(subcontext);
  }
  bool used(std::uint32_t subcontext) const { return rows_[subcontext] != nullptr; }

  // Nothing happens for a subcontext that is not reported.

  // What the configuration promises to each: so many SMs.
  void entitle_all(const std::function<double(std::uint32_t)>& sms_of);
  void arrived(const protocol::TaskPacket& task);
  void launched(const protocol::TaskPacket& task, std::uint64_t ctas);
  // Not over: they have been preempted, and are to be placed again.
  void completed(const protocol::TaskPacket& task, std::uint64_t ctas, bool over);
  // TPCs that it holds from now on, and credits that it has left.
  void holds(std::uint32_t subcontext, std::uint32_t tpcs, std::int64_t credits);
  // The task cannot begin a session now: its subcontext's quota leaves it nothing.
  void kept_off(const protocol::TaskPacket& task, WaitReason reason);
  // A task of it has waited that long.
  void waited(const protocol::TaskPacket& task, const std::string& name, WaitReason reason, Cycle cycles);
  // The task has ended, whatever was left of it.
  void ended(const protocol::TaskPacket& task);
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
    Gauge& sm_cycles = gauge("sm_cycles", "SM cycles",
                             "what the subcontext's CTAs took of SMs, over time: a CTA takes one of the places that an "
                             "empty SM has for it");
    Counter& busy = counter("busy_cycles", "cycles", "time in which CTAs of the subcontext ran or were left to place");
    Gauge& throughput = gauge("ctas_per_us", "CTAs per us", "CTAs completed, over busy_cycles");
    Gauge& waiting = gauge("tasks_waiting", "tasks", "tasks of the subcontext with CTAs left to place");
    Counter& contested = counter("contested_cycles", "cycles", "of busy_cycles, those in which another one was busy");
    Gauge& progress =
        gauge("progress", "1",
              "over contested_cycles: what it took of SMs, of what it is entitled to; 1 where it wanted no "
              "more");
    std::array<Counter*, kWaitReasons> waits{};
    std::uint32_t held = 0;
    Cycle held_since = 0;
    std::uint64_t share = 0;  // of SMs that its CTAs take, in parts of kWholeSm
    double sm_time = 0;
    Cycle since = 0;  // busy and sm_time
    Cycle contested_counted = 0;
    std::uint32_t unplaced = 0;  // tasks with CTAs left to place
    std::optional<double> shown_credits;
    TrackId track;
    TrackId credits_track;
    TrackId waits_track;
  };
  // A task that has arrived and not ended.
  struct Job {
    std::uint32_t subcontext = 0;
    std::uint64_t share = 0;  // that one CTA takes, in parts of kWholeSm
    std::uint64_t left = 0;   // CTAs to place; 0 for a queue task, of which nobody knows
    std::uint64_t running = 0;
    WaitReason kept_off = WaitReason::none;
    Cycle kept_since = 0;
    Cycle counted = 0;  // of that wait
  };
  static constexpr std::uint64_t kWholeSm = std::uint64_t{1} << 32;

  void add(std::uint32_t subcontext);
  Job* job_of(const protocol::TaskPacket& task);
  void end_wait(Job& job) { job.kept_off = WaitReason::none; }
  // Counts the time since the last change of what it has or wants; to be called before every change.
  void settle(Row& row);
  // After the change.
  void changed(std::uint32_t subcontext);
  void forget(std::uint32_t operation);
  void show();

  const CwdContext& context_;
  const arch::ResourceVector sm_capacity_;
  FairProgress fair_;                            // in SMs
  std::vector<std::unique_ptr<Row>> rows_;       // by subcontext; empty: not in use
  std::unordered_map<std::uint32_t, Job> jobs_;  // by operation
  std::size_t in_use_ = 0;
  Gauge* fairness_ = nullptr;
};

// Which TPCs a session of a subcontext sees (PRT-02, PRT-03, CWD-19).
class TpcChoice {
 public:
  // What must outlive it is meant. `sm_priority`: SM ids, most preferred first.
  TpcChoice(const CwdContext& context, const LiveModel& live, const TpcQuota& quota,
            const std::vector<std::uint32_t>& sm_priority);

  // Takes from the free slots what the subcontext's quota of TPCs does not leave it, as SubcontextPartition::restrict()
  // says. Returns what was short, if anything.
  WaitReason restrict(const protocol::TaskPacket& task, std::vector<std::uint16_t>& slots,
                      std::optional<std::uint32_t> first);
  // By TPC, as the last look found them.
  const std::vector<TpcPrice>& prices() const { return prices_; }

 private:
  // Drops a TPC from what a session may use, and notes why.
  struct Shortage;
  void refuse(Shortage& shortage, std::uint32_t tpc, WaitReason why);
  void find_candidates(const protocol::TaskPacket& task, Shortage& shortage);
  void sort_candidates(const protocol::TaskPacket& task, const std::vector<std::uint16_t>& slots,
                       std::optional<std::uint32_t> first);

  const CwdContext& context_;
  const LiveModel& live_;
  const TpcQuota& quota_;
  std::vector<std::uint32_t> tpc_rank_;  // by TPC: place of its most preferred SM in the priority order
  // The last look at what a subcontext may use, by TPC.
  std::vector<std::uint32_t> tpc_room_;
  std::vector<TpcPrice> prices_;
  std::vector<std::uint32_t> candidates_;
};

class SubcontextPartition {
 public:
  // `sm_priority`: SM ids, most preferred first. `cgas_per_gpc`: GPC_CGAs that a GPC can hold.
  SubcontextPartition(const CwdContext& context, const arch::ResourceVector& sm_capacity,
                      const std::vector<std::uint32_t>& sm_priority, std::uint32_t cgas_per_gpc, const LiveModel& live);

  // Changes come at any time. A session that runs keeps what it has seen: it began before.
  void on_configure(const protocol::SubcontextPacket& change, std::uint32_t);
  // Called after every change that was carried out, and with every one that was refused, and why.
  void on_change(std::function<void()> sink) { on_change_ = std::move(sink); }
  void on_refusal(std::function<void(const protocol::SubcontextPacket&, ShareRefusal)> sink) {
    on_refusal_ = std::move(sink);
  }
  // Whether the machine has an MMU, which takes page tables; without one they are refused.
  void set_translates(bool translates) { translates_ = translates; }

  // A task has arrived: its subcontext is in use.
  void task_arrived(const protocol::TaskPacket& task);
  // False if the task can never run with the credits (CWD-25) or the local memory (PRT-06) that its subcontext has.
  // What its share of warps is too small for waits: shares change.
  bool admits(const protocol::TaskPacket& task);
  // A task that waits for this reason is kept from a part of the machine by its subcontext's quota. It holds nobody
  // back: the next task is considered (PRT-02).
  bool limits(WaitReason reason) const;
  // Subcontexts in use that may run on a TPC of the GPC; 0: the machine is not shared by masks, credits or shares.
  std::uint32_t sharers(std::uint32_t gpc) const { return sharers_[gpc]; }
  // The subcontext may run on a TPC of the GPC (PRT-05).
  bool reaches(std::uint32_t subcontext, std::uint32_t gpc) const;
  // Takes from `slots` what the subcontext cannot have. Where it cannot take all TPCs that it could use, it sees as
  // many as it can afford: those of GPC `first` and of the GPCs after it before others, if one is named, then the least
  // loaded ones, then by priority. What a session sees it can have, so that nothing is left to fail for (CWD-19); only
  // a plain grid under dynamic partitioning sees all TPCs and spends credits as its CTAs are placed (PRT-03). Returns
  // what was short, if anything.
  WaitReason restrict(const protocol::TaskPacket& task, std::vector<std::uint16_t>& slots,
                      std::optional<std::uint32_t> first = std::nullopt);

  // What a subcontext may use of the machine when nothing else runs there: TPCs that the TPC enable table and its mask
  // leave it, as many of them as it has credits, and its shares of SMs and warps. `local_memory`: in static mode, those
  // with a local-memory block.
  MachineShare share_of(std::uint32_t subcontext, bool local_memory) const;

  // A session of the task begins on these free slots. What it may newly take is its own until it ends (PRT-10).
  void open_session(const protocol::TaskPacket& task, const std::vector<std::uint16_t>& slots);
  // Where the subcontext spends credits CTA by CTA, the session's plain grid is placed here; null elsewhere. restrict()
  // must have been called for it.
  const Placement* place_by_credit(const protocol::TaskPacket& task, const std::vector<std::uint16_t>& slots,
                                   std::uint64_t ctas);
  void close_session(const protocol::TaskPacket& task);

  // A CTA goes to the SM. Returns the local-memory block that this has assigned to the subcontext on its TPC, with
  // where its memory lies; or none.
  struct AssignedBlock {
    std::uint32_t number = TpcQuota::kNone;
    arch::LocalMemory memory;
  };
  AssignedBlock launch(const protocol::TaskPacket& task, std::uint32_t sm) {
    const std::uint32_t held = quota_.tpcs_held(task.subcontext);
    shares_.launch(task.subcontext, sm, task.need[arch::Resource::warps]);
    const std::uint32_t block = quota_.launch(task.subcontext, live_.tpc_of(sm), task.local_memory());
    stats_.credit_moves.add(quota_.tpcs_held(task.subcontext) - held);
    return {block, local_.of(task.subcontext)};
  }
  void complete(const protocol::TaskPacket& task, std::uint32_t sm) {
    const std::uint32_t held = quota_.tpcs_held(task.subcontext);
    shares_.complete(task.subcontext, sm, task.need[arch::Resource::warps]);
    quota_.complete(task.subcontext, live_.tpc_of(sm), task.local_memory());
    stats_.credit_moves.add(held - quota_.tpcs_held(task.subcontext));
  }
  // That many have been launched, or have completed, one by one: for the statistics.
  void count_launched(const protocol::TaskPacket& task, std::uint32_t ctas);
  void count_completed(const protocol::TaskPacket& task, std::uint32_t ctas, bool over);
  // A task has waited that long, or has ended.
  void count_wait(const protocol::TaskPacket& task, const std::string& name, WaitReason reason, Cycle cycles) {
    usage_.waited(task, name, reason, cycles);
  }
  void task_ended(const protocol::TaskPacket& task) { usage_.ended(task); }

  const TpcQuota& quota() const { return quota_; }
  const SmShares& shares() const { return shares_; }
  bool empty() const { return quota_.empty() && shares_.empty(); }
  void reset();

 private:
  friend class SavedShares;
  struct PartitionStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& changes = counter("share_changes", "changes", "changes of how the machine is shared");
    Counter& credit_moves =
        counter("credit_moves", "credits", "TPC credits that CTAs have taken, and those that they have given back");
    Counter& refused = counter("share_refused", "changes", "changes of how the machine is shared that were refused");
  };

  ShareRefusal configure(const protocol::SubcontextPacket& change);
  // The statistics hear how many SMs credits, masks and shares promise to each.
  void entitle_all();
  void show(std::uint32_t subcontext);

  const CwdContext& context_;
  const LiveModel& live_;
  TpcQuota quota_;
  SmShares shares_;
  LocalMemories local_;
  TpcChoice choice_;
  CreditFill credit_;
  SubcontextStats usage_;
  // With the credits of the start, in dynamic mode.
  std::unique_ptr<Admission> first_credits_;
  bool translates_ = false;
  std::function<void()> on_change_;
  std::function<void(const protocol::SubcontextPacket&, ShareRefusal)> on_refusal_;
  PartitionStats stats_;

  std::vector<std::uint32_t> sharers_;  // by GPC
};

}  // namespace heddle::cwd
