// What an SM keeps of each resident warp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "arch/warp_program.h"
#include "common/clock.h"
#include "sm/request_ledger.h"
#include "sm/scoreboard.h"

namespace heddle::sm {

constexpr std::uint32_t kPartitions = 4;

// Why a warp does not issue.
enum class WarpWait : std::uint8_t {
  issue,      // for its turn: what it needs has a time
  registers,  // a load that is under way
  barrier,
  order,     // a release: for the acknowledgements of earlier requests
  flush,     // a release at system scope: for the slices
  access,    // an acquire: for its own access
  copies,    // for groups of asynchronous copies
  cluster,   // at the barrier of its CGA
  mbarrier,  // for phases of mbarriers
  exited,
};

struct Warp {
  bool resident = false;
  std::uint32_t cta = 0;  // CTA slot
  const arch::WarpProgram* program = nullptr;
  arch::WarpPlace place;
  arch::WarpState state;
  Scoreboard scoreboard;

  WarpWait wait = WarpWait::exited;
  Cycle since = 0;              // since when it has not issued
  std::uint32_t issued_pc = 0;  // of the last operation, for messages

  // Of the next operation, from its demand.
  arch::OpCode code = arch::OpCode::exit;
  arch::Unit unit = arch::Unit::none;
  std::vector<arch::RegisterRange> writes;
  arch::RegisterRange accumulators;

  // A compute operation that has not issued all its instructions.
  std::uint64_t compute_left = 0;
  std::uint32_t compute_latency = 0;

  std::uint32_t barrier = 0;     // at which it waits
  RequestLedger::Mark mark = 0;  // for which it waits
  Cycle answered = 0;            // latest arrival of what it waits for
  Cycle acknowledged = 0;        // when it knows of that
  bool wants_flush = false;      // the slices have to be asked before it goes on
  bool acquires = false;         // the L1 forgets what it holds before it goes on
  bool held = false;             // `operation` issues next: it has waited for the release part of its order
  std::unique_ptr<arch::Operation> operation;  // that is held, or a wait for mbarriers with the lanes that still wait

  // Barrier of the CGA (CGA-13): it has arrived and not waited since; and the phase has completed at that cycle.
  bool cluster_arrived = false;
  bool cluster_passed = false;
  Cycle cluster_passes = 0;
  bool in_table = false;  // bl_table knows its CGA

  // Asynchronous copies of a group.
  struct CopyGroup {
    std::uint32_t open = 0;
    Cycle ready = 0;  // when the last of the others are in shared memory
  };
  // Oldest first; the last group is not committed yet.
  std::deque<CopyGroup> copies = std::deque<CopyGroup>(1);
  std::uint64_t first_group = 0;
  std::uint32_t groups_wanted = 0;  // that may be open when it goes on

  void begin_copies() {
    copies.assign(1, {});
    first_group = 0;
  }
  std::uint64_t current_group() const { return first_group + copies.size() - 1; }
  void begin_copy() { ++copies.back().open; }
  // One that was never open belongs to the current group.
  void end_copy(std::uint64_t group, Cycle ready, bool was_open) {
    CopyGroup& its = copies[group - first_group];
    if (was_open) --its.open;
    its.ready = std::max(its.ready, ready);
  }
  void commit_group(Cycle now) {
    retire_groups(now);
    copies.emplace_back();
  }
  // When at most `groups` of those that were committed are open; kNeverReady if a copy has no time yet.
  Cycle copies_ready(std::uint32_t groups, Cycle now) {
    retire_groups(now);
    Cycle ready = now;
    for (std::size_t i = 0; i + 1 + groups < copies.size(); ++i) {
      if (copies[i].open > 0) return kNeverReady;
      ready = std::max(ready, copies[i].ready);
    }
    return ready;
  }
  // Groups that were committed and are open.
  std::size_t open_groups() const { return copies.size() - 1; }
  bool copies_under_way() const {
    return std::any_of(copies.begin(), copies.end(), [](const CopyGroup& group) { return group.open > 0; });
  }

 private:
  void retire_groups(Cycle now) {
    while (copies.size() > 1 && copies.front().open == 0 && copies.front().ready <= now) {
      copies.pop_front();
      ++first_group;
    }
  }
};

}  // namespace heddle::sm
