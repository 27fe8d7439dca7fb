// Which tensors of a sequence of kernels the L2 still holds when they are used again. Tensors have no names in a
// recording: one of the same extents and type as one that was used before is taken to be the one used last. Weights are
// never found: each layer has its own.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "demand/operator_work.h"

namespace heddle::demand {

// Bytes between L2 and memory.
struct MemoryTraffic {
  double read = 0;
  double written = 0;
};

// A cache of `bytes` that forgets what was used longest ago, tensors as wholes: one is there if everything that was
// used since, and itself, fit.
class L2Reuse {
 public:
  explicit L2Reuse(double bytes) : bytes_(bytes) {}

  // A kernel uses its tensors. What it writes stays until it is written over or has to leave: it counts as written back
  // unless its place was still there.
  MemoryTraffic use(const Work& work);

 private:
  bool holds(const Operand& operand) const;

  double bytes_;
  double used_ = 0;                                 // bytes, by all kernels so far
  std::unordered_map<std::uint64_t, double> last_;  // by shape: used_ when such a tensor was used last
};

}  // namespace heddle::demand
