// Matrix multiplies on the tensor cores (SM-04, TMA-21, TMA-22): one by one, as the warps issue them, or in a queue
// behind them.
#pragma once

#include <array>
#include <cstdint>

#include "arch/warp_program.h"
#include "common/fifo.h"
#include "common/timebase.h"
#include "sm/alu.h"
#include "sm/issue_unit.h"
#include "sm/l2_port.h"
#include "sm/shared_memory.h"
#include "sm/sm_params.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {

class Faults;

// An asynchronous multiply takes its turn at the tensor core of its partition without its warp. It reads its operands
// until it ends, so that a program which writes there before it has waited multiplies what it has written. A multiply
// that is not asynchronous issues once the queue is empty.
class TensorUnit final : private SmUnit, public IssueUnit, private EventHandler {
 public:
  struct Peers {
    WarpScheduler& scheduler;
    Faults& faults;
    CtaSupervisor& supervisor;
    const arch::SwizzleTable& swizzles;  // how boxes lie in shared memory
    const SharedMemory& shared;
    IssuePort& port;
  };
  TensorUnit(const UnitContext& context, const Peers& peers)
      : SmUnit(context),
        peers_(peers),
        tile_costs_(peers.swizzles),
        waits_(context, peers.scheduler, &Warp::multiplies, WarpWait::multiplies, context.stats.stall_tensor) {}

  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  // For messages: multiplies at the tensor core of the warp's partition, and behind it.
  std::size_t queued(std::uint32_t slot) const { return cores_[slot % kSubPartitions].queue.size(); }
  std::size_t of_cta(std::uint32_t cta_slot) const;
  void reset();

 private:
  struct Multiply {
    std::uint32_t slot = 0;
    std::uint32_t cta = 0;  // slot
    std::uint32_t pc = 0;
    arch::MatmulTile tile;
    arch::RegisterRange sums;
    std::uint64_t group = 0;
    bool stalls = false;  // its warp waits until it has a place in the queue
  };
  // Of a partition: the front is at work, if anything is.
  struct Core {
    Fifo<Multiply> queue;
    bool works = false;
    Cycle held = kNever;  // until when instructions are kept off, for the queue
  };

  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t partition) override;
  IssueResult enter(std::uint32_t slot, const arch::Operation& operation);
  void begin(std::uint32_t partition);
  void hold(Core& core, Cycle until);
  void end(std::uint32_t partition);
  void drop_dead(Core& core);
  void over(const Multiply& multiply);
  void sums_are_there(const Multiply& multiply, Cycle ready);
  void multiply(const Multiply& multiply);
  bool check(const Multiply& multiply);
  Cycle work(std::uint32_t kernel, const arch::MatmulTile& tile);
  Cycle read_tile(std::uint32_t kernel, const arch::MatmulTile& tile);

  Peers peers_;
  TileCosts tile_costs_;
  GroupWait waits_;
  std::array<Core, kSubPartitions> cores_;
};

}  // namespace heddle::sm
