// What an SM keeps of each resident CTA: one record, from its arrival to its end.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/kernel_object.h"
#include "arch/task_record.h"
#include "arch/warp_program.h"
#include "common/cycle.h"
#include "common/packet_port.h"
#include "protocol/gpm_mpc_sm.h"
#include "sm/l1_cache.h"
#include "sm/shared_memory.h"
#include "sm/sm_context.h"
#include "sm/sm_params.h"

namespace heddle::sm {

class ClusterTables;
class SmOccupancy;

// The named barriers of one CTA.

// A barrier opens when as many warps have arrived as its count says, or, without a count, all warps of the CTA that
// have not exited: a warp that exits no longer counts, and can open a barrier by that. A count is a promise: a barrier
// that waits for more warps than are left is a fault.
class CtaBarriers {
 public:
  static constexpr std::uint32_t kBarriers = 16;

  enum class Outcome : std::uint8_t {
    waits,
    opens,  // for all warps in opened(), the one that arrived included
    wrong,  // number or count out of range, or another count than those that wait already gave
  };

  void start(std::uint32_t warps);
  // `threads`: 0: all of the CTA.
  Outcome arrive(std::uint32_t barrier, std::uint32_t threads, std::uint32_t warp);
  // The warp has exited; it does not wait at any barrier. `wrong`: a barrier waits for a count that cannot be reached.
  Outcome leave();
  // Warps of the CTA that the last arrive() or leave() let go on.
  const std::vector<std::uint32_t>& opened() const { return opened_; }

  // For messages: warps at a barrier, and how many it needs.
  const std::vector<std::uint32_t>& arrived(std::uint32_t barrier) const { return barriers_[barrier].warps; }
  std::uint32_t needed(std::uint32_t barrier) const;

  // All of its state, to save and restore it (TSK-12). Barriers at which nobody waits have none.
  struct Waiting {
    std::uint32_t barrier = 0;
    std::uint32_t threads = 0;         // as the first of them has said
    std::vector<std::uint32_t> warps;  // in the order of their arrival
    bool operator==(const Waiting& other) const {
      return barrier == other.barrier && threads == other.threads && warps == other.warps;
    }
  };
  struct State {
    std::uint32_t warps = 0;  // of the CTA
    std::uint32_t left = 0;   // that have not exited
    std::vector<Waiting> waiting;
    bool operator==(const State& other) const {
      return warps == other.warps && left == other.left && waiting == other.waiting;
    }
  };
  State save() const;
  // Throws InputError for a state that no CTA can be in.
  void restore(const State& state);

 private:
  struct Barrier {
    std::uint32_t threads = 0;
    std::vector<std::uint32_t> warps;  // that have arrived
  };
  void open(Barrier& barrier);

  std::array<Barrier, kBarriers> barriers_;
  std::vector<std::uint32_t> opened_;
  std::uint32_t warps_ = 0;  // of the CTA
  std::uint32_t left_ = 0;   // that have not exited
};

// Where a CTA is between its arrival and its end. All ask their MPC before they leave (CGA-11).
enum class CtaStage : std::uint8_t {
  absent,
  running,
  ending,          // its end is an event that has been entered
  exit_asked,      // the MPC has been asked; accesses of it are in flight
  exit_drained,    // the MPC has been asked, and knows that nothing of it is in flight
  exit_permitted,  // it leaves when the permission arrives
};

// Whether it comes to its end by itself.
enum class CtaFate : std::uint8_t {
  lives,
  killed,   // its warps have stopped, and its accesses come to nothing
  refused,  // its operation was aborted before it came: it has no warps
};

struct Cta {
  CtaStage stage = CtaStage::absent;
  CtaFate fate = CtaFate::lives;
  protocol::CtaStartPacket start;
  // As in `start`, unless it was saved before: then it belongs to the task that it was launched for, by whatever it was
  // sent here.
  std::uint32_t operation = 0;
  std::uint64_t record = 0;
  bool queue = false;

  Cycle begin = 0;
  Cycle last = 0;              // the end of what has ended so far
  Cycle landed = 0;            // the end of accesses alone
  arch::ResourceVector need;   // less what it has given back
  std::uint32_t released = 0;  // bytes of shared memory that it has given back
  bool saved = false;          // it leaves the slot, and is not over (TSK-12)
  bool preempted = false;      // the same, to make room (TSK-16)
  bool owed = false;           // it was preempted before: its task counts it as one that runs
  Cycle ends = 0;        // of a CTA without a program: its next event, the end of its duration or the start of its work
  bool exposed = false;  // it is shown as saved, and may be over all the same

  // What follows belongs to its program. A CTA without one never touches it, and starts and ends in the lines before.
  const arch::Code* code = nullptr;             // null: it runs for a number of cycles
  arch::Dim3 block;                             // its threads: at the edge of a grid it can be partial (PKT-03)
  std::vector<std::uint32_t> warps;             // slots, by warp
  std::uint32_t live = 0;                       // warps that have not exited
  std::uint32_t open = 0;                       // accesses, bulk requests, multiplies, and failures on their way
  std::uint32_t bulk = 0;                       // the bulk requests among these
  std::vector<std::uint32_t> mbarrier_waiters;  // warp slots

  // At the barriers of its CGAs (CGA-13, CWD-09), by arch::barrier_index(). One of no CGA has the
  // first to itself.
  struct ClusterBarrier {
    std::uint32_t arrived = 0;  // warps, in the current phase
    bool reported = false;      // all of them have arrived, and the MPC knows
    std::uint64_t phases = 0;   // that have completed
  };
  std::array<ClusterBarrier, arch::kBarrierLevels> cluster;

  // Its thread-group context (TSK-07).
  struct Context {
    enum class State : std::uint8_t { none, being_made, here };
    State state = State::none;
    std::uint64_t address = 0;           // its own, or the one that its grid shares
    bool home_here = false;              // kHome names this SM: nobody has woken it since
    std::optional<std::uint32_t> depth;  // of its task, once it is known
    std::int32_t priority = 0;           // the same
    // Its streams, as far as is known: which of those of a TMDQ live, and which of them is created next.
    struct Streams {
      std::array<std::uint64_t, arch::kMaxTmdqs> live{};
      std::array<std::uint8_t, arch::kMaxTmdqs> next{};
      std::uint64_t known = 0;  // TMDQs
    };
    Streams streams;
    bool here() const { return state == State::here; }
    bool is_known(std::uint32_t tmdq) const { return (streams.known >> tmdq & 1) != 0; }
    bool lives(std::uint32_t stream) const {
      return stream == 0 || (streams.live[arch::tmdq_of(stream)] >> arch::place_of(stream) & 1) != 0;
    }
    void learn(std::uint32_t tmdq, std::uint64_t live);
  };
  Context context;

  // The entry of a queue task, which is to be given back (TSK-05).
  struct QueueTurn {
    std::uint64_t entry = 0;
    std::uint64_t value = 0;  // to be written there
  };
  std::optional<QueueTurn> turn;
  CtaBarriers barriers;

  bool here() const { return stage != CtaStage::absent; }
  bool killed() const { return fate == CtaFate::killed; }
  bool has_warps() const { return !warps.empty(); }
  bool in_cga() const { return start.tag.in_cga(); }
  bool was_saved() const { return start.area != 0; }

  // It arrives in a slot that may have had another.
  void arrive(const protocol::CtaStartPacket& packet, Cycle arrival);

 private:
  void forget_program();
};

inline protocol::ClusterNoticePacket notice_of(const Cta& cta, protocol::ClusterNoticePacket::Kind kind) {
  protocol::ClusterNoticePacket notice;
  notice.kind = kind;
  notice.tag = cta.start.tag;
  notice.rank = cta.start.id.rank;
  notice.cta_slot = cta.start.cta_slot;
  return notice;
}

// Records are made when their slots are first asked for: most SMs of a large machine never need more than a few, and
// they are large. They stay where they are.
class CtaTable {
 public:
  explicit CtaTable(std::uint32_t slots) : slots_(slots) { ctas_.reserve(slots); }
  CtaTable(const CtaTable&) = delete;
  CtaTable& operator=(const CtaTable&) = delete;

  Cta& operator[](std::uint32_t slot) {
    if (slot >= ctas_.size()) make(slot);
    return ctas_[slot];
  }
  const Cta& operator[](std::uint32_t slot) const { return slot < ctas_.size() ? ctas_[slot] : nobody(); }
  // Slots.
  std::uint32_t size() const { return slots_; }
  // Of those that have been asked for; in the others there is nobody.
  auto begin() { return ctas_.begin(); }
  auto end() { return ctas_.end(); }
  auto begin() const { return ctas_.begin(); }
  auto end() const { return ctas_.end(); }

  // Whether a CTA with a program of that operation is here.
  bool runs(std::uint32_t operation) const;
  void reset();

 private:
  void make(std::uint32_t slot);
  static const Cta& nobody();

  std::uint32_t slots_;
  std::vector<Cta> ctas_;  // by CTA slot; it has room for all
};

// How long a CTA runs: the same in every run of one seed, whatever the order of events.

// Uniform over [duration.min, duration.max], from seed, operation and CTA alone.
inline std::uint64_t draw_cycles(const arch::CtaDuration& duration, std::uint64_t seed, std::uint32_t operation,
                                 std::uint64_t cta) {
  if (duration.max <= duration.min) return duration.min;
  // SplitMix64's finaliser over the three numbers.
  std::uint64_t z = (seed + 1) * 0x9E37'79B9'7F4A'7C15U + std::uint64_t{operation} * 0xD1B5'4A32'D192'ED03U + cta;
  z = (z ^ (z >> 30)) * 0xBF58'476D'1CE4'E5B9U;
  z = (z ^ (z >> 27)) * 0x94D0'49BB'1331'11EBU;
  z ^= z >> 31;
  const std::uint64_t range = duration.max - duration.min + 1;
  return duration.min + (range == 0 ? z : z % range);
}

// The share of an SM's memory that its CTAs have: their windows of shared memory, and what is left for the L1 (CGA-09).
class CtaMemory {
 public:
  struct Peers {
    SharedMemory& shared;
    L1Cache& l1;
    ClusterTables& tables;
    SmOccupancy& occupancy;
    PacketSender<protocol::ClusterNoticePacket>& notices;
    SmStats& stats;
  };
  CtaMemory(Timebase& time, const SmParams& params, const Peers& peers) : time_(time), params_(params), peers_(peers) {}

  void enter(const Cta& cta);
  void leave(const Cta& cta);
  // The CTA gives back what lies behind that offset; gives the number of bytes that its window has lost. What lies
  // behind an earlier end is gone already.
  std::uint32_t give_back(Cta& cta, std::uint64_t from);
  void reset() { ctas_ = held_ = 0; }

 private:
  void size_l1();

  Timebase& time_;
  const SmParams& params_;
  Peers peers_;
  std::uint32_t ctas_ = 0;
  std::uint32_t held_ = 0;  // bytes, with reserves
};

}  // namespace heddle::sm
