// Reads and writes of many lines side by side as one call without payloads: what two of our own ends of a memory link
// offer each other beside b_transport, for whoever moves more than lines (copy engines).
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/cycle.h"

namespace heddle {

// Whole lines side by side, and when they pass: the first and the last, those between them evenly. After move() these
// are the times at which their answers set out on the last way, which others share; after come_back() those of their
// arrival.
struct RangeMove {
  std::uint64_t address = 0;  // of the first byte
  std::uint32_t bytes = 0;    // whole lines
  bool write = false;
  std::uint8_t subcontext = 0;   // whose address it is
  std::uint8_t* data = nullptr;  // as many bytes
  bool zeros = false;            // all bytes are 0: `data` is neither read nor written
  std::uint64_t behind = 0;      // bytes that whoever asks will move through the same caches after these
  Cycle first = 0;
  Cycle last = 0;
  Cycle accepted = 0;      // after move(): when the target would have room for the next line
  std::uint64_t note = 0;  // the target's

  // Takes a link for all of them at once, that has served them so many cycles after its beginning.
  void follow(Cycle begin, double cycles) {
    first = begin;
    last = std::max(last, begin + static_cast<Cycle>(cycles));
  }
  void delay(Cycle cycles) {
    first += cycles;
    last += cycles;
  }
  // When the line with that number of so many passes.
  Cycle time_of(std::uint32_t line, std::uint32_t lines) const {
    return lines < 2 ? first : first + (last - first) * line / (lines - 1);
  }
};

class RangeTarget {
 public:
  // Moves the bytes, and says when. False: these cannot be moved in this way now, and lines have to be asked for one by
  // one; bytes of a write may be in memory then, and nothing else has changed that anybody could notice.
  virtual bool move(RangeMove& range, std::uint32_t port) = 0;
  // Called at range.first.
  virtual void come_back(RangeMove& /*range*/, std::uint32_t /*port*/) {}

 protected:
  ~RangeTarget() = default;
};

// The other end of a link: who offers that there, and by which number it knows the link.
struct RangePort {
  RangeTarget* target = nullptr;  // null: nobody does
  std::uint32_t port = 0;

  bool offered() const { return target != nullptr; }
  bool move(RangeMove& range) const { return target != nullptr && target->move(range, port); }
  void come_back(RangeMove& range) const { target->come_back(range, port); }
};

}  // namespace heddle
