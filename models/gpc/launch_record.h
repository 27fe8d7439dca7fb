// What the MPCs of a GPC have heard of the launches of each grid (CWD-35, CWD-41): the delta counters of all of their
// raster states, in one place.
//
// Every MPC hears every launch packet, and adds most of them to a delta counter. Counters that have heard the same hold
// the same sums, so that one sum for all of them, and the sum at which each was read last, are as good as a counter for
// each; nothing happens in an MPC until its counter matters. The GPM keeps the record because packets pass through it
// one after another. Where TPCs do not listen to some packets, MPCs have sums of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/raster.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::gpc {

class LaunchRecord {
 public:
  // `tpc_of`: TPC of each MPC. `delta_bits`: width of the delta counters, 1 … 63.
  LaunchRecord(std::vector<std::uint32_t> tpc_of, std::uint32_t delta_bits);

  // `slot`: of the task table; `listeners`: TPCs that hear it, one bit each.
  // A grid begins.
  void begin(std::uint32_t slot, const arch::RasterShape& shape, std::uint64_t listeners);
  // CTAs are launched: of an outermost CGA that goes on, or of a plain grid.
  void launch(std::uint32_t slot, std::uint32_t ctas, bool in_cga, std::uint64_t listeners);
  // The end-of-CGA mark: the next CTA is one of the next CGA. Where CGAs have a smaller size than the one in which the
  // grid counts, that is in the next outermost CGA of `unit` CTAs only when all of those have been launched.
  void end_cga(std::uint32_t slot, std::uint32_t unit, std::uint64_t listeners);

  // An MPC whose delta counter is full: it has to be decomposed before anything else is launched. Cheap if there is
  // none.
  std::optional<std::uint32_t> due(std::uint32_t slot);
  protocol::RasterStep overflow(std::uint32_t slot, std::uint32_t mpc);
  // The next CTAs are launched on SMs of that MPC, which reads its counter for the first of them.
  protocol::RasterStep read(std::uint32_t slot, std::uint32_t mpc, std::uint32_t ctas, bool in_cga);
  // State synchronisation: the MPC is told where the grid of that shape stands (CWD-42). Nobody in the GPC may have
  // heard that it has begun.
  protocol::RasterStep tell(std::uint32_t slot, std::uint32_t mpc, const arch::RasterShape& shape,
                            const protocol::LaunchPacket::Sync& sync);

  // Extents of the grid in the slot, as far as the GPC has heard.
  const arch::RasterShape& shape(std::uint32_t slot) { return at(slot).shape; }
  // MPCs of those TPCs.
  std::uint32_t mpcs_of(std::uint64_t tpcs) const;
  void reset() { slots_.clear(); }

 private:
  // What has been heard of a grid.
  struct Heard {
    std::uint32_t grid = 0;    // grids of the slot that have begun
    std::uint64_t units = 0;   // outermost CGAs (or CTAs) of the last one that have been launched
    std::uint32_t within = 0;  // CTAs of the outermost CGA that is being launched
  };
  // Where the raster state of an MPC stands.
  struct State {
    std::uint32_t grid = 0;
    std::uint64_t units = 0;
  };
  struct Slot {
    Heard gpc;                 // everything that came to the GPC
    std::vector<Heard> apart;  // by MPC, where they differ; empty: all have heard everything
    std::vector<State> states;
    std::uint64_t full_at = 0;  // no counter is full before so many units, as long as none is apart
    arch::RasterShape shape;
  };

  Slot& at(std::uint32_t slot);
  bool hears(std::uint32_t mpc, std::uint64_t listeners) const { return (listeners >> tpc_of_[mpc] & 1) != 0; }
  template <class Change>
  void change(std::uint32_t slot, std::uint64_t listeners, Change&& change);
  const Heard& heard(const Slot& slot, std::uint32_t mpc) const {
    return slot.apart.empty() ? slot.gpc : slot.apart[mpc];
  }
  std::uint64_t gathered(const Slot& slot, std::uint32_t mpc) const;
  protocol::RasterStep step(Slot& slot, std::uint32_t mpc);

  std::vector<std::uint32_t> tpc_of_;
  std::uint64_t all_;    // TPCs
  std::uint64_t limit_;  // a counter stays below
  std::vector<Slot> slots_;
};

}  // namespace heddle::gpc
