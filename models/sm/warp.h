// What an SM keeps of each resident warp.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "arch/warp_program.h"
#include "common/bits.h"
#include "common/cycle.h"
#include "common/error.h"
#include "common/waits.h"
#include "sm/sub_partition.h"

namespace heddle::sm {

// Which requests of an SM are still open: what a release has to wait for (MEM-06).

// Told when a request that a fence may wait for has been answered.
class FenceListener {
 public:
  // A request of that epoch: what waits for earlier ones may go on.
  virtual void request_ended(std::uint64_t epoch, Cycle when) = 0;

 protected:
  ~FenceListener() = default;
};

// Requests end in any order; an epoch asks whether all that began before it have ended. Requests between two calls of
// epoch() are counted together.
class FenceTracker {
 public:
  using Epoch = std::uint64_t;

  FenceTracker() { reset(); }

  // Gives the epoch that the request belongs to, for end().
  Epoch begin() {
    ++counts_.back();
    ++open_;
    return first_ + counts_.size() - 1;
  }
  void end(Epoch epoch, Cycle arrival) {
    HEDDLE_CHECK(epoch >= first_ && counts_[epoch - first_] > 0, "a request ended twice");
    --counts_[epoch - first_];
    --open_;
    note(arrival);
    while (counts_.size() > 1 && counts_.front() == 0) {
      counts_.pop_front();
      ++first_;
    }
  }

  // Tells the listener of a request for which end() was called.
  void tell(Epoch epoch, Cycle when) {
    if (listener_ != nullptr) listener_->request_ended(epoch, when);
  }
  void listen(FenceListener& listener) { listener_ = &listener; }

  // Something was answered, or will have been at `arrival`, without having been open.
  void note(Cycle arrival) { latest_ = std::max(latest_, arrival); }
  // The latest arrival of all that have ended.
  Cycle latest() const { return latest_; }

  // Stands for all requests that have begun up to now.
  Epoch epoch() {
    if (counts_.back() == 0) return first_ + counts_.size() - 2;
    counts_.push_back(0);
    return first_ + counts_.size() - 2;
  }
  // True once all of them have ended.
  bool done(Epoch epoch) const { return epoch < first_; }
  std::uint64_t open() const { return open_; }

  void reset() {
    counts_.assign(1, 0);
    first_ = 1;
    open_ = 0;
    latest_ = 0;
  }

 private:
  std::deque<std::uint64_t> counts_;  // open requests by epoch; the last one takes what begins now
  Epoch first_ = 1;                   // number of the first epoch
  std::uint64_t open_ = 0;
  Cycle latest_ = 0;
  FenceListener* listener_ = nullptr;
};

// Why a warp does not issue.
enum class WarpWait : std::uint8_t {
  issue,      // for its turn: what it needs has a time
  fetch,      // for its next instruction, or for the parameters of its kernel
  registers,  // a load that is under way
  barrier,
  order,        // a release: for the acknowledgements of earlier requests
  flush,        // a fence or a release: for the slice that it asks or, at system scope, for all
  access,       // an acquire: for its own access
  copies,       // for groups of asynchronous copies
  multiplies,   // for groups of asynchronous matrix multiplies
  tensor,       // for a place behind the tensor core: its multiply came too early
  cluster,      // at the barrier of its CGA
  mbarrier,     // for phases of mbarriers
  bulk,         // for a place in the queue of the TMAU
  bulk_groups,  // for groups of bulk requests
  bulk_answer,  // for the end of its own request to the TMAU
  nested,       // for a memory step of a device-side launch or its like
  context,      // for another warp of its CTA, which makes their context
  children,     // for the tasks of its context
  dependency,   // for the kernel before its own
  occupancy,    // for the distributor's answer to a query
  restore,      // for the state of its CTA, which was saved
  frozen,       // its CTA is to be saved: it issues nothing more
  exited,
};

// Groups of what a warp has asked for: asynchronous copies, matrix multiplies, or bulk requests (TMA-41).
class WarpGroups {
 public:
  void begin() {
    groups_.assign(1, {});
    first_ = 0;
  }
  // The one that is not committed yet.
  std::uint64_t current() const { return first_ + groups_.size() - 1; }
  void add() { ++groups_.back().open; }
  // One that was never open belongs to the current group.
  void end(std::uint64_t group, Cycle ready, bool was_open) {
    Group& its = groups_[group - first_];
    if (was_open) --its.open;
    its.ready = std::max(its.ready, ready);
  }
  void commit(Cycle now) {
    retire(now);
    groups_.emplace_back();
  }
  // When at most `groups` of those that were committed are open; kNever if something in them has no time yet.
  Cycle ready(std::uint32_t groups, Cycle now) {
    retire(now);
    Cycle ready = now;
    for (std::size_t i = 0; i + 1 + groups < groups_.size(); ++i) {
      if (groups_[i].open > 0) return kNever;
      ready = std::max(ready, groups_[i].ready);
    }
    return ready;
  }
  // Groups that were committed and are open.
  std::size_t open() const { return groups_.size() - 1; }
  // All is over: nothing is lost if the groups begin anew.
  bool settled(Cycle now) const {
    return std::all_of(groups_.begin(), groups_.end(),
                       [now](const Group& group) { return group.open == 0 && group.ready <= now; });
  }
  bool under_way() const {
    return std::any_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.open > 0; });
  }

 private:
  struct Group {
    std::uint32_t open = 0;
    Cycle ready = 0;  // when the last of the others are over
  };
  void retire(Cycle now) {
    std::size_t over = 0;
    while (over + 1 < groups_.size() && groups_[over].open == 0 && groups_[over].ready <= now) ++over;
    groups_.erase(groups_.begin(), groups_.begin() + static_cast<std::ptrdiff_t>(over));
    first_ += over;
  }

  std::vector<Group> groups_ = std::vector<Group>(1);  // oldest first
  std::uint64_t first_ = 0;
};

// Groups of each lane of a warp: bulk requests belong to the thread (TMA-41). Most warps have none.
class LaneGroups {
 public:
  void begin() { lanes_.reset(); }
  WarpGroups& of(std::uint32_t lane) {
    if (lanes_ == nullptr) lanes_ = std::make_unique<std::array<WarpGroups, arch::kWarpLanes>>();
    return (*lanes_)[lane];
  }
  void commit(arch::LaneMask lanes, Cycle now) {
    if (lanes_ == nullptr) return;  // nothing to commit
    bits::for_each(lanes, [&](std::uint32_t lane) { of(lane).commit(now); });
  }
  // When each of the lanes has at most `groups` open; kNever if something in them has no time yet.
  Cycle ready(arch::LaneMask lanes, std::uint32_t groups, Cycle now) {
    Cycle ready = now;
    if (lanes_ == nullptr) return ready;
    bits::for_each(lanes, [&](std::uint32_t lane) { ready = std::max(ready, of(lane).ready(groups, now)); });
    return ready;
  }
  // Groups that were committed and are open, of all lanes.
  std::size_t open() const {
    std::size_t open = 0;
    if (lanes_ == nullptr) return open;
    for (const WarpGroups& groups : *lanes_) open += groups.open();
    return open;
  }
  bool settled(Cycle now) const {
    return lanes_ == nullptr ||
           std::all_of(lanes_->begin(), lanes_->end(), [now](const WarpGroups& lane) { return lane.settled(now); });
  }

 private:
  std::unique_ptr<std::array<WarpGroups, arch::kWarpLanes>> lanes_;
};

// What the warp does when it has its turn.
enum class WarpNext : std::uint8_t {
  fetch,     // the next operation of its program
  compute,   // further instructions of a compute operation
  deferred,  // Warp::operation, which has waited for the release part of its order
  launch,    // the next step of an operation of device-side launches
};

// A warp at the barrier of a CGA (CGA-13).
enum class ClusterArrival : std::uint8_t {
  none,
  arrived,  // it has arrived, and not waited since
  passed,   // it has arrived, and the phase completes at ClusterPhase::passes
};
struct ClusterPhase {
  ClusterArrival arrival = ClusterArrival::none;
  Cycle passes = 0;
};

// How far a fence or a release goes (MEM-06).
enum class FenceReach : std::uint8_t {
  requests,  // until the SM's earlier requests have been answered
  l2,        // then to the L2, the point of coherence, and back
  memory,    // or to all slices, which write back what they hold for others than the GPU to see
};

// What a warp waits for in a release (MEM-06).
struct ReleaseWait {
  FenceTracker::Epoch epoch = 0;  // requests up to there
  Cycle answered = 0;             // latest arrival of what it waits for
  Cycle earliest = 0;             // before that it does not go on: the pipeline drains
  Cycle acknowledged = 0;         // when it knows of all that
  FenceReach reach = FenceReach::requests;
};

// A closer look at a warp: does it go round and round? Its state (pc, registers, loop counters) at some operation is
// kept and compared whenever it is back there. Two rounds from there that write the same, to the same places, are
// followed by others like them, for as long as nobody else writes what it reads. The kept state is renewed after 1, 3,
// 7, … operations until it is met again, so that no round is too long, and none is missed for what came before it.
class WarpRound {
 public:
  // Where it has looked last: what the round depends on.
  struct Look {
    std::uint32_t pc = 0;
    arch::Space space = arch::Space::global;
    std::uint64_t address = 0;
  };

  // Of every operation: before and after its program has given it.
  void before(const arch::WarpState& state);
  void after(const arch::Operation& operation);

  // It goes round.
  bool closed() const { return closed_; }
  // It has done what others can see, and more than the same again and again.
  bool acts() const { return !closed_ && acts_; }
  std::uint64_t issued() const { return issued_; }
  // Operations of a round.
  std::uint64_t length() const { return length_; }
  const std::optional<Look>& look() const { return look_; }

 private:
  void met();

  arch::WarpState mark_;
  std::uint64_t marked_ = 0;   // operations before the mark was set
  std::uint64_t renewed_ = 0;  // operations before it is set anew
  std::uint64_t issued_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t at_ = 0;                // operations before the mark was met last
  std::uint64_t writes_ = 0;            // since then, as a hash
  std::optional<std::uint64_t> round_;  // the same of the round before
  std::uint32_t pc_ = 0;
  std::optional<Look> look_;
  bool closed_ = false;
  bool acts_ = false;
  bool counts_ = false;  // it has written, or read off the clock, what is another value each time
};

// What of its program a warp has at hand.
struct WarpFront {
  static constexpr std::uint64_t kNoLine = ~std::uint64_t{0};
  std::uint64_t line = kNoLine;  // of its last operation
  std::uint32_t constants = 0;   // lines of its kernel's parameters
  std::uint32_t runtime = 0;  // what it waits for is that instruction of the device runtime, counted from 1; 0: its own
  std::uint32_t fetch = 0;    // number of the last line that it has waited for, whatever program the slot had

  void begin() {
    line = kNoLine;
    constants = 0;
    runtime = 0;
  }
};

struct Warp {
  std::uint32_t cta = 0;  // CTA slot
  std::uint8_t subcontext = 0;
  std::uint32_t kernel = 0;  // its CTA's
  const arch::WarpProgram* program = nullptr;
  arch::WarpPlace place;
  arch::WarpState state;
  Scoreboard scoreboard;

  WarpFront front;
  WarpWait wait = WarpWait::exited;
  WarpNext next = WarpNext::fetch;
  bool frozen = false;          // at the next instruction it stops
  Cycle since = 0;              // since when it has not issued
  Cycle loads_until = 0;        // what it has asked memory for has come by then, as far as that is known
  std::uint32_t issued_pc = 0;  // of the last operation, for messages
  std::uint64_t issued = 0;     // operations: pcs that have gone into its FIFO of past pcs (CGA-07)

  // The next operation, as its demand says.
  arch::OpCode code = arch::OpCode::exit;
  arch::Unit unit = arch::Unit::none;
  std::vector<arch::RegisterRange> writes;
  arch::RegisterRange accumulators;

  // A compute operation that has not issued all its instructions.
  std::uint64_t compute_left = 0;
  std::uint32_t compute_latency = 0;

  std::uint32_t barrier = 0;  // at which it waits
  ReleaseWait release;
  bool acquires = false;  // the L1 forgets what it holds before it goes on
  // The operation that is deferred, that waits for a place at the TMAU, or that waits for mbarriers, with the lanes
  // that still wait.
  std::unique_ptr<arch::Operation> operation;

  std::array<ClusterPhase, arch::kBarrierLevels> cluster;
  std::size_t cluster_level = 0;  // at which it waits, as an index

  WarpGroups copies;
  WarpGroups multiplies;
  std::uint32_t groups_wanted = 0;  // groups that may be open when it goes on

  // Requests to the TMAU that belong to groups: until they are over, and until their sources have been read.
  LaneGroups bulk;
  LaneGroups bulk_reads;
  std::unique_ptr<WarpRound> round;  // null: nobody looks closely
  arch::LaneMask group_lanes = 0;    // that wait for theirs
  bool wants_reads = false;          // they wait for bulk_reads
  std::uint32_t bulk_sent = 0;       // requests of the operation that has not sent all

  void keep(const arch::Operation& its) {
    if (operation == nullptr) operation = std::make_unique<arch::Operation>();
    *operation = its;
  }
  void note_load(Cycle ready) { loads_until = std::max(loads_until, ready); }
  void write_results(Cycle ready) {
    for (const arch::RegisterRange& range : writes) scoreboard.write(range, ready);
  }
  // For a warp that begins.
  void begin() {
    next = WarpNext::fetch;
    frozen = false;
    front.begin();
    compute_left = 0;
    loads_until = 0;
    acquires = false;
    release.reach = FenceReach::requests;
    for (ClusterPhase& phase : cluster) phase.arrival = ClusterArrival::none;
    issued_pc = state.pc;
    copies.begin();
    multiplies.begin();
    bulk.begin();
    bulk_reads.begin();
  }
};

// Of a warp that somebody has looked at closely for a while.
Course course(const Warp& warp, Cycle now);

}  // namespace heddle::sm
