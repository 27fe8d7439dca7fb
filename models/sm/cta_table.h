// What an SM keeps of each resident CTA: one record, from its arrival to its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/code_store.h"
#include "common/cycle.h"
#include "protocol/gpm_mpc_sm.h"
#include "sm/cta_barriers.h"

namespace heddle::sm {

// Where a CTA is between its arrival and its end. One of a CGA whose warps have exited, and whose accesses have not all
// been answered, leaves in steps (CGA-11).
enum class CtaStage : std::uint8_t {
  absent,
  running,
  ending,          // its end is an event that has been entered
  exit_asked,      // the MPC has been asked whether it may leave
  exit_permitted,  // it leaves as soon as nothing of it has to be reported any more
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
  Cycle last = 0;                    // the end of what has ended so far
  Cycle landed = 0;                  // the end of accesses alone
  const arch::Code* code = nullptr;  // null: it runs for a number of cycles
  arch::Dim3 block;                  // its threads: at the edge of a grid it can be partial (PKT-03)
  std::vector<std::uint32_t> warps;  // slots, by warp
  std::uint32_t live = 0;            // warps that have not exited
  std::uint32_t open = 0;            // accesses and bulk requests, and failures on their way
  std::uint32_t bulk = 0;            // the bulk requests among these
  CtaBarriers barriers;
  arch::ResourceVector need;                    // less what it has given back
  std::uint32_t released = 0;                   // bytes of shared memory that it has given back
  std::vector<std::uint32_t> mbarrier_waiters;  // warp slots

  // At the barrier of its CGA (CGA-13).
  struct ClusterBarrier {
    std::uint32_t arrived = 0;  // warps, in the current phase
    bool reported = false;      // all of them have arrived, and the MPC knows
    std::uint64_t phases = 0;   // that have completed
  };
  ClusterBarrier cluster;

  // Its thread-group context (TSK-07).
  struct Context {
    enum class State : std::uint8_t { none, being_made, here };
    State state = State::none;
    std::uint64_t address = 0;           // its own, or the one that its grid shares
    bool home_here = false;              // kHome names this SM: nobody has woken it since
    std::optional<std::uint32_t> depth;  // of its task, once it is known
    std::uint64_t streams = 0;           // of the context, as far as is known
    bool here() const { return state == State::here; }
  };
  Context context;

  // The entry of a queue task, which is to be given back (TSK-05).
  struct QueueTurn {
    std::uint64_t entry = 0;
    std::uint64_t value = 0;  // to be written there
  };
  std::optional<QueueTurn> turn;

  bool saved = false;    // it leaves the slot, and is not over (TSK-12)
  bool exposed = false;  // it is shown as saved, and may be over all the same

  bool here() const { return stage != CtaStage::absent; }
  bool killed() const { return fate == CtaFate::killed; }
  bool has_warps() const { return !warps.empty(); }
  bool in_cga() const { return start.tag.cga_id != protocol::kNoCgaId; }
  bool was_saved() const { return start.area != 0; }

  // It arrives.
  void arrive(const protocol::CtaStartPacket& packet, Cycle arrival);
};

inline protocol::ClusterNoticePacket notice_of(const Cta& cta, protocol::ClusterNoticePacket::Kind kind) {
  protocol::ClusterNoticePacket notice;
  notice.kind = kind;
  notice.tag = cta.start.tag;
  notice.rank = cta.start.id.rank;
  notice.cta_slot = cta.start.cta_slot;
  return notice;
}

class CtaTable {
 public:
  explicit CtaTable(std::uint32_t slots) : ctas_(slots) {}

  Cta& operator[](std::uint32_t slot) { return ctas_[slot]; }
  const Cta& operator[](std::uint32_t slot) const { return ctas_[slot]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(ctas_.size()); }
  std::vector<Cta>::iterator begin() { return ctas_.begin(); }
  std::vector<Cta>::iterator end() { return ctas_.end(); }
  std::vector<Cta>::const_iterator begin() const { return ctas_.begin(); }
  std::vector<Cta>::const_iterator end() const { return ctas_.end(); }

  // Whether a CTA with a program of that operation is here.
  bool runs(std::uint32_t operation) const;
  void reset();

 private:
  std::vector<Cta> ctas_;  // by CTA slot
};

}  // namespace heddle::sm
