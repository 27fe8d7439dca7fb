// What a simulation wants of the host of a workload, however it submits.
#pragma once

#include <cstddef>
#include <vector>

#include "common/domain.h"

namespace heddle::replay {

enum class Pace {
  recorded,  // operations are submitted at the workload's times
  asap,      // as soon as order allows: only streams and the edges between them hold operations back
};

// What the model made of an operation. Times in nanoseconds on the workload's own axis (0 is the recording's first
// start).
struct OpResult {
  bool done = false;
  bool rejected = false;
  bool faulted = false;
  double submitted = 0;
  double start = 0;
  double end = 0;
};

class Host {
 public:
  virtual ~Host() = default;

  // Begins, now. Called once before the simulation.
  virtual void start() = 0;
  virtual std::size_t done() const = 0;
  virtual const std::vector<OpResult>& results() const = 0;
  // Nanoseconds by which the simulation's time axis lies before the workload's: host calls precede the first start.
  virtual double lead() const = 0;
  virtual Domain& host_domain() = 0;

  std::size_t operations() const { return results().size(); }
  bool finished() const { return done() == operations(); }
};

}  // namespace heddle::replay
