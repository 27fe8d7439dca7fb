#include "demand/l2_reuse.h"

namespace heddle::demand {

bool L2Reuse::holds(const Operand& operand) const {
  if (operand.weight) return false;
  const auto last = last_.find(operand.shape);
  return last != last_.end() && used_ - last->second + operand.bytes <= bytes_;
}

MemoryTraffic L2Reuse::use(const Work& work) {
  MemoryTraffic traffic;
  for (const Operand& operand : work.reads) traffic.read += holds(operand) ? 0 : operand.bytes;
  for (const Operand& operand : work.writes) traffic.written += holds(operand) ? 0 : operand.bytes;
  used_ += work.bytes();
  for (const Operand& operand : work.reads) last_[operand.shape] = used_;
  for (const Operand& operand : work.writes) last_[operand.shape] = used_;
  return traffic;
}

}  // namespace heddle::demand
