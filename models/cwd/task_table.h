// The CWD's task table and prioritised task table: which grids are being launched, and whose turn it is.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/cycle.h"
#include "common/stats.h"
#include "cwd/cwd_context.h"
#include "protocol/cwd_units.h"
#include "protocol/task_cwd.h"

namespace heddle::cwd {

// Entries of a queue task, all in all: its CTAs are those of a grid of one dimension (TSK-05).
constexpr std::uint32_t kMaxEntries = 0x7FFF'FFFF;

// GPC_CGAs of one task that each GPC can still hold (CWD-20): by size where the GPC_CGA is the outermost CGA, because
// only then do they differ by size.
class GpcCgaRoom {
 public:
  GpcCgaRoom() = default;
  GpcCgaRoom(std::uint32_t gpcs, std::uint32_t sizes)
      : gpcs_(gpcs), sizes_(sizes), most_(std::size_t{gpcs} * sizes), open_(most_.size()) {}

  std::uint32_t sizes() const { return sizes_; }
  // What the GPC can hold when it is empty; it changes with its TPCs.
  void set_most(std::uint32_t size, std::uint32_t gpc, std::uint32_t cgas) { most_[index(size, gpc)] = cgas; }
  std::uint32_t at(std::uint32_t size, std::uint32_t gpc) const {
    const std::size_t i = index(size, gpc);
    return most_[i] > open_[i] ? most_[i] - open_[i] : 0;
  }
  // A GPC_CGA has been launched there, or its cga_complete has arrived.
  void launch(std::uint32_t size, std::uint32_t gpc) { ++open_[index(size, gpc)]; }
  void complete(std::uint32_t size, std::uint32_t gpc) { --open_[index(size, gpc)]; }

 private:
  std::size_t index(std::uint32_t size, std::uint32_t gpc) const {
    return (sizes_ > 1 ? size : 0) * std::size_t{gpcs_} + gpc;
  }

  std::uint32_t gpcs_ = 0;
  std::uint32_t sizes_ = 0;
  std::vector<std::uint32_t> most_;
  std::vector<std::uint32_t> open_;
};

struct TaskEntry {
  enum class Residence : std::uint8_t {
    none,     // the entry is free
    slot,     // the task holds a slot of the task table
    leaving,  // it holds one, and gives it up once its session has ended (TSK-03)
    evicted,  // it holds none, and launches nothing until task management sends it again
    drains,   // it holds none, and needs none any more
  };
  enum class Outcome : std::uint8_t {
    accepted,
    rejected,  // nothing of the task was or will be placed (CWD-25)
    aborted,   // a fault has ended it: no more of it is placed
  };
  // The task could not be placed, and waits.
  struct Blocked {
    Cycle since = 0;
    std::uint64_t version = 0;  // state of the machine in which it could not be placed
  };

  protocol::TaskPacket task;
  Residence residence = Residence::none;
  Outcome outcome = Outcome::accepted;
  std::uint64_t total = 0;   // CTAs
  std::uint64_t placed = 0;  // CTAs that sessions have found places for
  std::uint64_t completed = 0;
  std::uint64_t order = 0;     // number of its arrival
  std::optional<Cycle> start;  // when the first launch packet left
  bool last = false;           // a queue task will get no more entries
  // CTAs, or CGAs as a whole, that go on where they stopped, before others begin: those that can, and how many more
  // CTAs have been preempted; below 0, they can go on before all have been heard of. They count as placed.
  std::deque<protocol::RestoredCta> returns;
  std::int64_t to_come = 0;
  bool returning = false;  // its session places such CTAs
  // Where it will have room, and when it last had others preempted.
  struct Claim {
    std::vector<std::uint16_t> ctas;  // of a task of CGAs: by SM; empty: it has placed some since it looked
    bool none = false;                // of a task of CGAs: it has looked, and there is none
    Cycle asked_at = 0;               // 0: never
  };
  Claim claim;
  Cycle waits_since = 0;  // its arrival, or when it last placed CTAs

  // CGAs.
  std::uint32_t size = 0;       // size index of the outermost CGA to try next, or into which one is being split
  std::uint64_t open_cgas = 0;  // GPC_CGAs started whose cga_complete has not arrived
  GpcCgaRoom room;
  std::optional<protocol::CutTie> tie;             // that the limit of its last session cut off (CWD-13),
  std::uint64_t tie_version = 0;                   // in that state of the machine
  std::map<std::uint64_t, std::uint32_t> size_of;  // of open GPC_CGAs by sequence number, where there are several sizes

  // The search for a place since the task placed something for the last time.
  std::optional<Blocked> blocked;
  std::uint32_t selection = 0;  // which TPCs it tries next, where its subcontext cannot have all (PRT-10); 0: the first
  std::optional<std::uint64_t> first_failure;  // state of the machine in which the first of several sizes failed
  std::optional<std::uint64_t> pool_limit;     // pools of GPCs hid free slots from it, in that state of the pools

  std::vector<bool> missed;  // TPCs that did not listen to all of its launch packets (CWD-42); empty: none

  bool used() const { return residence != Residence::none; }
  bool evicted() const { return residence == Residence::evicted || residence == Residence::drains; }
  bool comes_back() const { return residence == Residence::evicted; }
  bool leaving() const { return residence == Residence::leaving; }
  bool rejected() const { return outcome == Outcome::rejected; }
  bool aborted() const { return outcome == Outcome::aborted; }
  bool queue() const { return task.kind == protocol::TaskKind::queue; }
  bool restored() const { return task.kind == protocol::TaskKind::restore; }
  // The operation that its CTAs belong to.
  std::uint32_t runs_as() const { return restored() ? task.runs_as : task.operation; }
  // CTAs of it have run, or are where they cannot be left.
  bool begun() const { return placed > 0 || restored() || aborted(); }
  std::uint64_t left() const { return total - placed; }
  // CGAs of the next smaller size (CWD-21). What tied for a larger one says nothing of them.
  void try_smaller() {
    ++size;
    tie.reset();
  }
  // No CTA of it is left to launch or to come.
  bool all_launched() const {
    return placed == total && returns.empty() && to_come == 0 && (!queue() || last || aborted());
  }
  // CTAs of an outermost CGA in that size, 1 in a plain grid.
  std::uint64_t unit_ctas(std::uint32_t size_index) const {
    return task.cluster.any() ? task.cluster.size(size_index).count() : 1;
  }
  // It launches more CTAs, or can. Those of it that are being preempted go on without a slot of the task table.
  bool needs_slot() const { return left() > 0 || !returns.empty() || (queue() && !last && !aborted()); }
  // Nothing of it is on the machine, and all else that is known of it lies in its TMD.
  bool only_in_memory() const {
    return comes_back() && left() > 0 && !queue() && !aborted() && completed == placed && open_cgas == 0 &&
           returns.empty() && to_come == 0;
  }
  protocol::TaskProgress progress() const { return {placed, size, order, start}; }
  // It goes on from there. CTAs that run are not among those that are left.
  void go_on(const protocol::TaskProgress& from, std::uint32_t tpcs) {
    const std::uint64_t running = placed - completed;
    if (from.next_cta != placed && from.next_cta >= running) {
      placed = from.next_cta;
      completed = placed - running;
      missed.assign(tpcs, true);  // no SM knows where it stands (CWD-42)
    }
    size = from.size;
    if (!start) start = from.start;
  }
  // True within a CGA of full size that was split into smaller ones.
  bool split() const { return placed % unit_ctas(0) != 0; }
  // A CGA that is not in the middle of a split one begins again with its full size.
  void restart_sizes() {
    if (!split()) size = 0;
  }
  // The next search begins anew, as after an arrival.
  void forget_search() {
    blocked.reset();
    selection = 0;
    first_failure.reset();
    pool_limit.reset();
    restart_sizes();
  }
};

class TaskTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // `evicted`: evicted tasks that can have a number at a time. One keeps its number, which its CTAs and their
  // completions carry, for as long as something of it is on the machine; it only no longer counts as a slot. So numbers
  // go up to slots + evicted.
  // `in_use`: shows how many slots are taken, if there is one.
  // `drains`: tasks that have begun go before all others.
  explicit TaskTable(std::uint32_t slots, std::uint32_t evicted = 0, Gauge* in_use = nullptr, bool drains = false);

  // Number of the new entry. A slot must be free.
  std::uint32_t insert(const protocol::TaskPacket& task);
  void remove(std::uint32_t slot);
  TaskEntry& at(std::uint32_t slot) { return entries_[slot]; }
  const TaskEntry& at(std::uint32_t slot) const { return entries_[slot]; }
  // The entry of an operation, or kNone.
  std::uint32_t find(std::uint32_t operation) const;

  // The prioritised task table: slots with CTAs left to place, most urgent first: by priority, then by
  // nesting depth, then by arrival.
  const std::vector<std::uint32_t>& waiting() const { return waiting_; }
  // Brings the prioritised task table up to date: who has waited `step` cycles counts as more urgent by one.
  void age(Cycle now, Cycle step);
  // The entry has no CTA left to place.
  void all_placed(std::uint32_t slot);
  // The entry has CTAs left to place, after it had none, or CTAs that go on: those it places without a slot as well.
  void more(std::uint32_t slot);

  // From now on no other entry is more urgent, and those that are as urgent are so for the same reason: CTAs of it that
  // were saved come to an SM only to be ended there.
  void make_most_urgent(std::uint32_t slot);

  bool can_evict() const { return evicted_ < max_evicted_; }
  // The entry gives up its slot, and takes one again.
  void evict(std::uint32_t slot);
  void resume(std::uint32_t slot);
  // An evicted entry of which nothing is on the machine gives up its number.
  void forget(std::uint32_t slot);

  // All entries, evicted ones as well.
  const std::vector<std::uint32_t>& used() const { return used_; }
  std::uint32_t in_slots() const { return static_cast<std::uint32_t>(used_.size()) - evicted_; }
  std::uint32_t evicted() const { return evicted_; }
  void reset();

 private:
  void enter(std::uint32_t slot);
  void give_up(std::uint32_t slot);
  void show_use() const;

  std::vector<TaskEntry> entries_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> waiting_;
  std::vector<std::uint32_t> used_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_operation_;  // looked up only
  std::uint32_t slots_;
  std::uint32_t max_evicted_;
  std::uint32_t evicted_ = 0;
  std::uint64_t arrivals_ = 0;
  const bool drains_;
  Gauge* in_use_;
};

// Why the tasks of the task table wait: time by reason, and lines of the timeline.
enum class WaitReason : std::uint8_t {
  none,
  free_slots,    // no SM has room for a CTA, or no domain for a CGA
  cga_ids,       // no gpc_local_cga_id or barrier slot where there would be room
  cga_slots,     // no sm_cga_slot on an SM of a GPC where there would be room (CWD-01)
  flush,         // the GPCs hold as many CGAs of the grid as they can; some of them are being flushed
  gpu_barrier,   // no barrier for a GPU_CGA
  memory_slot,   // no CGA memory slot (CWD-22)
  credits,       // no TPC credit
  local_memory,  // no local-memory block
  behind,        // a task before it in the prioritised table waits and lets none pass
  pool,          // free slots only on GPCs in whose pools it has no place (TSK-04)
  evicted,       // it has no slot of the task table (TSK-03)
  tpc_mask,      // no room on the TPCs that its subcontext may use (PRT-05)
  share,         // its subcontext has as many SMs, or as many of their warps, as it may have (PRT-11)
  time_slice,    // another subcontext has the machine (TSK-16)
  preempted,     // CTAs of it that were preempted go on first
  claimed,       // free slots are kept for CGAs of a more urgent task
  cooperative,   // a cooperative grid before it has begun, and is not placed as a whole
};
constexpr std::size_t kWaitReasons = 18;
static_assert(kWaitReasons <= TaskWaits::kMost);
// For statistics ("cga_ids") and for people ("no CGA id or barrier slot on a GPC with room"). `clusters`: of a task
// whose CTAs come in CGAs.
const char* wait_key(WaitReason reason);
const char* wait_text(WaitReason reason, bool clusters = false);

class WaitLog {
 public:
  // `text` gives, by slot, what the timeline says of a task that has waited.
  using Text = std::function<std::string(std::uint32_t, WaitReason)>;
  WaitLog(const CwdContext& context, std::uint32_t slots, Text text);

  // Told of every wait that has ended: slot, what for, cycles.
  void on_end(std::function<void(std::uint32_t, WaitReason, Cycle)> sink) { on_end_ = std::move(sink); }

  // From now on the task waits for that, or for nothing.
  void set(std::uint32_t slot, WaitReason reason);
  WaitReason reason(std::uint32_t slot) const { return waits_[slot].reason; }
  Cycle since(std::uint32_t slot) const { return waits_[slot].since; }
  // The task has another number from now on, and has waited since that cycle: without a number, and without a line.
  void leave(std::uint32_t slot) { waits_[slot].reason = WaitReason::none; }
  void go_on(std::uint32_t slot, WaitReason reason, Cycle since) {
    waits_[slot].reason = reason;
    waits_[slot].since = since;
    waits_[slot].drawn_from = context_.now();
  }
  void reset();

 private:
  struct Wait {
    WaitReason reason = WaitReason::none;
    Cycle since = 0;
    Cycle drawn_from = 0;
    TrackId track;
  };

  const CwdContext& context_;
  Text text_;
  std::function<void(std::uint32_t, WaitReason, Cycle)> on_end_;
  std::vector<Wait> waits_;
  std::array<Counter*, kWaitReasons> cycles_{};
};

}  // namespace heddle::cwd
