// Brings the masks of a session's GPC_CGAs into launch order, whichever GPC2SM unit was faster: masks of different CGAs
// never interleave (CWD-30).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/error.h"
#include "protocol/cwd_units.h"

namespace heddle::cwd {

// All masks of one GPC_CGA.
struct CgaMasks {
  std::uint32_t gpc = 0;
  std::uint64_t unit = 0;
  bool last = false;      // GPC_CGA of its outermost CGA
  bool complete = false;  // no mask is missing
  std::vector<std::uint64_t> masks;
};

class MaskReorder {
 public:
  void push(const protocol::MaskPacket& packet, std::uint32_t gpc) {
    HEDDLE_CHECK(packet.order >= next_, "masks of a CGA arrived after it had been started");
    CgaMasks& cga = waiting_[packet.order];
    HEDDLE_CHECK(!cga.complete && (cga.masks.empty() || cga.gpc == gpc), "masks of one CGA came from two GPCs");
    cga.gpc = gpc;
    cga.unit = packet.unit;
    cga.last = packet.last;
    cga.complete = packet.final;
    cga.masks.insert(cga.masks.end(), packet.masks.begin(), packet.masks.begin() + packet.count);
  }
  // The next GPC_CGA in launch order, if it is complete. False: not yet.
  bool pop(CgaMasks& cga) {
    const auto first = waiting_.begin();
    if (first == waiting_.end() || first->first != next_ || !first->second.complete) return false;
    cga = std::move(first->second);
    waiting_.erase(first);
    ++next_;
    return true;
  }
  std::uint32_t popped() const { return next_; }
  void reset() {
    waiting_.clear();
    next_ = 0;
  }

 private:
  std::map<std::uint32_t, CgaMasks> waiting_;  // by order in the session
  std::uint32_t next_ = 0;
};

}  // namespace heddle::cwd
