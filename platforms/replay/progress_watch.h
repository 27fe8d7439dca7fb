// Decides when a simulation that still has events makes no progress any more.
#pragma once

#include <cstdint>

namespace heddle::replay {

// Times are simulated, in any unit. What counts is time in which something happened and no work moved. A jump to the
// next event, however long (a CTA that runs for seconds), is not a standstill: that event is what will move the work.
class ProgressWatch {
 public:
  // `patience` of 0 or less: never.
  explicit ProgressWatch(double patience) : patience_(patience) {}

  // After a stretch of simulation from `begin` to `end`, of which the first `jump` had no event. `progress`: a count
  // that goes up whenever work is taken in, started or finished. `open`: work waits. True: no progress for too long.
  bool stuck(double begin, double end, double jump, std::uint64_t progress, bool open) {
    if (progress != seen_ || !open) {
      seen_ = progress;
      idle_ = 0;
      return false;
    }
    idle_ += end - begin - jump;
    return patience_ > 0 && idle_ >= patience_;
  }
  double idle() const { return idle_; }

 private:
  double patience_;
  std::uint64_t seen_ = 0;
  double idle_ = 0;
};

}  // namespace heddle::replay
