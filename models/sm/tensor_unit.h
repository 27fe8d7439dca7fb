// Matrix multiplies on the tensor cores (SM-04, TMA-21, TMA-22).
#pragma once

#include <cstdint>

#include "sm/issue_unit.h"
#include "sm/matmul.h"
#include "sm/memory_port.h"
#include "sm/shared_memory.h"

namespace heddle::sm {

class WarpScheduler;

class TensorUnit final : private SmUnit, public IssueUnit {
 public:
  TensorUnit(const UnitContext& context, WarpScheduler& scheduler, const arch::SwizzleTable& swizzles,
             const SharedMemory& shared, MemoryPort& port)
      : SmUnit(context),
        scheduler_(scheduler),
        swizzles_(swizzles),
        tile_costs_(swizzles),
        shared_(shared),
        port_(port) {}

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;

 private:
  Cycle read_tile(const arch::MatmulTile& tile);

  WarpScheduler& scheduler_;
  const arch::SwizzleTable& swizzles_;  // how boxes lie in shared memory
  TileCosts tile_costs_;
  const SharedMemory& shared_;
  MemoryPort& port_;
};

}  // namespace heddle::sm
