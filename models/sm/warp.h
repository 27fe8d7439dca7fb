// What an SM keeps of each resident warp.
#pragma once

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
  order,   // a release: for the acknowledgements of earlier requests
  flush,   // a release at system scope: for the slices
  access,  // an acquire: for its own access
  copies,  // for groups of asynchronous copies
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
  bool wants_flush = false;      // the slices have to be asked before it goes on
  bool acquires = false;         // the L1 forgets what it holds before it goes on
  bool held = false;             // `operation` issues next: it has waited for the release part of its order
  std::unique_ptr<arch::Operation> operation;

  // Open asynchronous copies by group, oldest first; the last group is not committed yet.
  std::deque<std::uint32_t> copies{0};
  std::uint64_t first_group = 0;
  std::uint32_t groups_wanted = 0;  // that may be open when it goes on

  void begin_copies() {
    copies.assign(1, 0);
    first_group = 0;
  }
  std::uint64_t current_group() const { return first_group + copies.size() - 1; }
  void end_copy(std::uint64_t group) {
    --copies[group - first_group];
    retire_groups();
  }
  void commit_group() {
    copies.push_back(0);
    retire_groups();
  }
  // Groups that were committed and are open.
  std::size_t open_groups() const { return copies.size() - 1; }

 private:
  void retire_groups() {
    while (copies.size() > 1 && copies.front() == 0) {
      copies.pop_front();
      ++first_group;
    }
  }
};

}  // namespace heddle::sm
