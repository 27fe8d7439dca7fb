// Accesses to an L2 slice that take no place in its pipeline: blocking ones (loosely timed), those of a debugger, and
// what direct memory (HST-02) asks of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "arch/address_map.h"
#include "common/domain.h"
#include "common/line_source.h"
#include "common/reservation.h"
#include "memory/direct_memory.h"
#include "memory/l2_core.h"
#include "memory/l2_memory_port.h"
#include "memory/l2_twin.h"
#include "memory/memory_params.h"
#include "memory/write_watch.h"

namespace heddle::memory {

// Ends the grant of a page before an access of the machine to it takes effect.
inline void end_grant(DirectMemory* direct, const L2Access& access) {
  if (direct == nullptr || !direct->any() || access.walks()) return;
  direct->end(access.line * arch::kLineBytes, arch::kLineBytes);
}

// What calls take of a slice's data port, and of its way in.
class L2Calendars {
 public:
  explicit L2Calendars(const L2Params& params);

  // An access's turn, at `when` or later: returns the cycle.
  Cycle take(const L2DataPort::Turn& turn, Cycle when);
  void reset();

  PendingFills fills;

 private:
  static constexpr std::uint32_t kParts = 256;  // of a cycle

  ReservedLink port_;
  ReservedLink way_in_;
};

class L2FunctionalPath final : public LineSource {
 public:
  struct Statistics {
    Counter& requests;
    Counter& atomics;
    L2Counters& core;
  };
  // `direct`: null: nobody has pointers to pages. `watch`: null: nobody watches lines.
  L2FunctionalPath(L2Core& core, L2MemoryPort& memory, const arch::AddressMap& map, std::uint32_t slice,
                   const L2Params& params, Domain& domain, DirectMemory* direct, WriteWatch* watch,
                   const Statistics& stats);
  // The slice has a twin, whose lines can be here as copies.
  void use(L2Twin& twin) { twin_ = &twin; }

  // A whole transaction, done at once, that came by that port; its latency is added to `delay`. False: it was refused.
  bool blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay);
  // A line, without a payload: what hits, and what can be asked for in the same way, of memory or, for a copy, of the
  // twin. Whatever is corrupt or on its way is a matter for payloads.
  bool find(LineRead& read, std::uint32_t port) override;
  void take(LineRead& read, std::uint32_t port) override;
  void warm(LineRead& read, std::uint32_t port, bool line) const override;
  // The access is one that watches its line, or changes one that is watched.
  void note_watch(const L2Access& access) {
    if (watch_ == nullptr) return;
    if (access.changes() && watch_->any()) watch_->written(access.line, access.line);
    if (access.extension != nullptr && access.extension->watch != 0) watch_->add(access.line, access.extension->watch);
  }
  void reset() {
    if (calendars_ != nullptr) calendars_->reset();
  }
  // Without time or side effects, up to the end of the line. Returns the bytes done.
  unsigned debug(tlm::tlm_generic_payload& payload);

  // The slice is the line's home.
  bool is_mine(std::uint64_t line) const { return map_.slice_of(line * arch::kLineBytes) == slice_; }
  // A transfer works on one of these bytes, or they are corrupt.
  bool busy_with(std::uint64_t first, std::uint64_t last) const;
  // Writes what memory does not have of these lines, and forgets them. False if memory does not take it.
  bool clean_invalidate(std::uint64_t first, std::uint64_t last);

 private:
  class TimedMemory;

  void fetch(LineRead& read);
  bool can_fetch(LineRead& read);
  Cycle take_turn(std::uint64_t line, const L2DataPort::Turn& turn, Cycle tags, bool from_memory, Cycle wanted);
  void take_turn(const L2Access& access, const sc_core::sc_time& tags, bool from_memory, sc_core::sc_time& delay);
  unsigned debug_read(tlm::tlm_generic_payload& payload, std::uint32_t bytes);
  unsigned debug_write(tlm::tlm_generic_payload& payload, std::uint32_t bytes);
  bool clean(std::uint64_t line);

  Domain& domain_;
  L2Core& core_;
  L2MemoryPort& memory_;
  const L2DataPort turns_;
  std::unique_ptr<L2Calendars> calendars_;  // null: calls take no place
  const arch::AddressMap map_;
  const std::uint32_t slice_;
  DirectMemory* const direct_;
  WriteWatch* const watch_;
  const Statistics stats_;
  const Cycle tag_cycles_;
  const Cycle data_cycles_;
  const sc_core::sc_time tag_delay_;
  const sc_core::sc_time data_delay_;
  const sc_core::sc_time memory_delay_;
  L2Twin* twin_ = nullptr;  // null: it has none
  // Of a read that memory serves: what would be its payload's.
  protocol::MemoryExtension note_;
  std::array<std::uint8_t, arch::kLineBytes> image_{};
};

}  // namespace heddle::memory
