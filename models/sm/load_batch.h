// Loads of all SMs of a machine that are carried out together, a few cycles after they have issued.
//
// No load is ready before it has gone through the L1, so where accesses are calls it makes no difference in which of
// these cycles the call is made: it begins at the load's own time. Made one after the other, the calls find what they
// touch in the computer's caches, because it has been fetched while others were served.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/warp_program.h"
#include "common/line_source.h"
#include "common/timebase.h"
#include "sm/l1_cache.h"
#include "sm/lane_data.h"

namespace heddle::sm {

class LoadBatch;

// A weak load of all lanes, side by side.
struct PutOffLoad {
  static constexpr std::uint32_t kLines = arch::kWarpLanes * 16 / arch::kLineBytes + 1;
  struct Line {
    LineAccess access;
    LinePlace at;         // in the L2, as warm() has found it
    L1Cache::Place here;  // and in the L1
  };

  std::uint64_t address = 0;           // of lane 0
  std::uint32_t* registers = nullptr;  // the first that it writes; may have moved when it is carried out
  Cycle begin = 0;                     // at the port
  std::uint32_t warp = 0;              // slot
  std::uint32_t epoch = 0;             // of the L1
  std::uint32_t place = 0;             // the first of its places at the gate
  std::uint16_t destination = 0;
  std::uint8_t subcontext = 0;
  std::uint32_t kernel = 0;  // row
  std::uint8_t width = 4;
  std::uint64_t issued = 0;  // Warp::issued then
  std::uint32_t pc = 0;      // for messages
  std::uint32_t lines = 0;
  std::array<Line, kLines> line;
};

// Who puts off loads: an SM.
class LoadOwner {
 public:
  // Soon finish() comes: fetches into the computer's caches, first what leads to the data and then these.
  virtual void warm(PutOffLoad& load, bool data) const = 0;
  virtual void finish(PutOffLoad& load) = 0;

 protected:
  ~LoadOwner() = default;
};

class LoadBatch final : private EventHandler, private Resettable {
 public:
  // `l1_latency`: cycles before which no load is ready.
  LoadBatch(Timebase& time, Cycle l1_latency);

  // Cycles after the first load of a batch in which it is carried out.
  Cycle delay() const { return delay_; }
  // One more, which the owner fills in. The reference holds until the next call.
  PutOffLoad& add(LoadOwner& owner);
  // All of an owner's are carried out now: what comes next must find them done.
  void settle(const LoadOwner& owner);

 private:
  // How far ahead of a load what it touches is fetched.
  static constexpr std::size_t kFar = 24;
  static constexpr std::size_t kNear = 8;
  static constexpr Cycle kDelay = 24;

  struct Entry {
    LoadOwner* owner = nullptr;  // null: it has been carried out
    PutOffLoad load;
  };

  const char* handler_name() const override { return "loads"; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override { count_ = 0; }
  void warm(std::size_t index, bool data) {
    if (index < count_ && entries_[index].owner != nullptr) {
      entries_[index].owner->warm(entries_[index].load, data);
    }
  }

  Timebase& time_;
  const Cycle delay_;
  std::vector<Entry> entries_;  // the first count_ are the batch, in the order of their issue
  std::size_t count_ = 0;
};

}  // namespace heddle::sm
