// What a simulation wants of whoever submits the operations of a workload, however they are submitted.
#pragma once

#include <cstddef>
#include <vector>

namespace heddle {
class Domain;
}

namespace heddle::replay {

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

class Submitter {
 public:
  virtual ~Submitter() = default;

  // Begins, now. Called once before the simulation.
  virtual void start() = 0;
  virtual std::size_t done() const = 0;
  virtual const std::vector<OpResult>& results() const = 0;
  // Nanoseconds by which the simulation's time axis lies before the workload's: host calls precede the first start.
  virtual double lead() const = 0;
  virtual Domain& submitter_domain() = 0;

  std::size_t operations() const { return results().size(); }
  bool finished() const { return done() == operations(); }
};

}  // namespace heddle::replay
