// Accesses of warps that are under way, and the parts that they consist of.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/warp_program.h"
#include "common/clock.h"
#include "common/index_pool.h"

namespace heddle::sm {

enum class AccessKind : std::uint8_t {
  load,
  copy,
  store,
  atomic,
  reduce,
  flush,
  mbarrier,  // of another CTA of the CGA
};

// One warp instruction. It is over when the last of its parts is.
struct Access {
  AccessKind kind = AccessKind::load;
  bool dead = false;       // its CTA has been killed
  bool failed = false;     // a part of it has
  bool blocks = false;     // its warp does nothing before it has ended (acquire)
  bool acquires = false;   // the L1 forgets what it holds when it has ended
  bool cluster = false;    // of DSMEM: its registers are there when the last reply is, without the way through the L1
  bool posted = false;     // nobody waits for it: it does not count for its CTA
  bool orphan = false;     // posted, and its CTA has gone
  bool outside = false;    // copy: it failed because its destination has been released (CGA-09)
  bool poisoned = false;   // it failed because the data that came are corrupt
  bool unmapped = false;   // it failed because the subcontext has no page there (PRT-08)
  bool read_only = false;  // or has one, and may not write to it
  bool row = false;        // its lanes lie side by side
  bool step = false;       // of a device-side launch: what others rely on, even if its CTA is killed
  std::uint8_t width = 4;
  arch::OpCode code = arch::OpCode::load;
  std::uint16_t destination = arch::kNoRegister;
  std::uint32_t warp = 0;                       // warp slot
  std::uint32_t cta = 0;                        // CTA slot
  std::uint32_t pc = 0;                         // for messages
  std::uint32_t open = 0;                       // parts and requests
  Cycle last = 0;                               // latest arrival
  std::uint64_t group = 0;                      // copy: the warp's group
  std::uint64_t origin = 0;                     // orphan: linear id of the CTA that has gone
  std::uint32_t origin_rank = 0;                // the same, in its CGA
  arch::PerLane<std::uint8_t> offset{};         // in the line; of a row that of lane 0 alone
  arch::PerLane<std::uint32_t> shared_address;  // copy

  bool writes() const { return kind == AccessKind::store || kind == AccessKind::atomic || kind == AccessKind::reduce; }
  std::uint32_t offset_of(std::uint32_t lane) const {
    return row ? (offset[0] + lane * width) % arch::kLineBytes : offset[lane];
  }
};

// What of an access lies in one line.
struct Part {
  std::uint32_t access = 0;
  arch::LaneMask lanes = 0;
  std::uint8_t sectors = 0;  // that have not come
};

}  // namespace heddle::sm
