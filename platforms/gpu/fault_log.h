// What went wrong on a machine since its start or its last reset, in the order of time.
#pragma once

#include <vector>

#include "arch/fault.h"
#include "common/cycle.h"
#include "protocol/host_task.h"

namespace heddle::gpu {

// A change of how the machine is shared that was not carried out.
struct RefusedShare {
  protocol::SubcontextPacket share;
  protocol::ShareRefusal why = protocol::ShareRefusal::none;
  Cycle when = 0;
};

class FaultLog {
 public:
  void add(const arch::FaultRecord& fault) { faults_.push_back(fault); }
  void add(const RefusedShare& refused) { refused_shares_.push_back(refused); }
  void clear() {
    faults_.clear();
    refused_shares_.clear();
  }

  // Operations that could not be carried out.
  const std::vector<arch::FaultRecord>& faults() const { return faults_; }
  const std::vector<RefusedShare>& refused_shares() const { return refused_shares_; }

 private:
  std::vector<arch::FaultRecord> faults_;
  std::vector<RefusedShare> refused_shares_;
};

}  // namespace heddle::gpu
