#include "gpc/launch_record.h"

#include <algorithm>

#include "common/bits.h"
#include "common/error.h"

namespace heddle::gpc {

using protocol::RasterStep;

LaunchRecord::LaunchRecord(std::vector<std::uint32_t> tpc_of, std::uint32_t delta_bits)
    : tpc_of_(std::move(tpc_of)),
      all_(bits::below(tpc_of_.empty() ? 0 : tpc_of_.back() + 1)),
      limit_(std::uint64_t{1} << delta_bits) {
  HEDDLE_CHECK(delta_bits >= 1 && delta_bits <= 63, "a delta counter of that width does not exist");
}

LaunchRecord::Slot& LaunchRecord::at(std::uint32_t slot) {
  while (slot >= slots_.size()) {
    slots_.emplace_back();
    slots_.back().states.resize(tpc_of_.size());
    slots_.back().full_at = limit_;
  }
  return slots_[slot];
}

// Those who do not hear it keep what they have heard.
template <class Change>
void LaunchRecord::change(std::uint32_t number, std::uint64_t listeners, Change&& change) {
  Slot& slot = at(number);
  if ((listeners & all_) != all_ && slot.apart.empty()) slot.apart.assign(tpc_of_.size(), slot.gpc);
  change(slot.gpc);
  for (std::uint32_t mpc = 0; mpc < slot.apart.size(); ++mpc) {
    if (hears(mpc, listeners)) change(slot.apart[mpc]);
  }
}

void LaunchRecord::begin(std::uint32_t number, const arch::RasterShape& shape, std::uint64_t listeners) {
  Slot& slot = at(number);
  const std::uint32_t grid = slot.gpc.grid + 1;
  if ((listeners & all_) == all_) slot.apart.clear();
  change(number, listeners, [grid](Heard& heard) { heard = {grid, 0, 0}; });
  slot.full_at = limit_;
  slot.shape = shape;
}

void LaunchRecord::launch(std::uint32_t slot, std::uint32_t ctas, bool in_cga, std::uint64_t listeners) {
  change(slot, listeners, [ctas, in_cga](Heard& heard) {
    if (in_cga) {
      heard.within += ctas;
    } else {
      heard.units += ctas;
    }
  });
}

void LaunchRecord::end_cga(std::uint32_t slot, std::uint32_t unit, std::uint64_t listeners) {
  change(slot, listeners, [unit](Heard& heard) {
    if (heard.within < unit) return;
    ++heard.units;
    heard.within = 0;
  });
}

// What the delta counter of the MPC would hold without a limit.
std::uint64_t LaunchRecord::gathered(const Slot& slot, std::uint32_t mpc) const {
  const Heard& its = heard(slot, mpc);
  const State& state = slot.states[mpc];
  return state.grid == its.grid ? its.units - state.units : its.units;
}

std::optional<std::uint32_t> LaunchRecord::due(std::uint32_t number) {
  Slot& slot = at(number);
  if (slot.apart.empty() && slot.gpc.units < slot.full_at) return std::nullopt;
  std::uint64_t most = 0;
  for (std::uint32_t mpc = 0; mpc < tpc_of_.size(); ++mpc) {
    const std::uint64_t delta = gathered(slot, mpc);
    if (delta >= limit_) return mpc;
    most = std::max(most, delta);
  }
  slot.full_at = slot.gpc.units - most + limit_;
  return std::nullopt;
}

// A counter that has been full has been decomposed as often as it was.
RasterStep LaunchRecord::step(Slot& slot, std::uint32_t mpc) {
  const Heard& its = heard(slot, mpc);
  const std::uint64_t delta = gathered(slot, mpc);
  RasterStep step;
  step.fresh = slot.states[mpc].grid != its.grid;
  step.overflows = static_cast<std::uint32_t>(delta / limit_);
  step.delta = delta % limit_;
  step.within = its.within;
  slot.states[mpc] = {its.grid, its.units};
  return step;
}

RasterStep LaunchRecord::overflow(std::uint32_t number, std::uint32_t mpc) {
  Slot& slot = at(number);
  RasterStep full = step(slot, mpc);
  slot.states[mpc].units -= full.delta;  // it goes on counting from there
  full.delta = 0;
  return full;
}

RasterStep LaunchRecord::read(std::uint32_t number, std::uint32_t mpc, std::uint32_t ctas, bool in_cga) {
  Slot& slot = at(number);
  const RasterStep read = step(slot, mpc);
  if (!in_cga) slot.states[mpc].units += ctas - 1;  // it goes on by one for each of them
  return read;
}

RasterStep LaunchRecord::tell(std::uint32_t number, std::uint32_t mpc, const arch::RasterShape& shape,
                              const protocol::LaunchPacket::Sync& sync) {
  Slot& slot = at(number);
  slot.shape = shape;
  if (slot.apart.empty()) slot.apart.assign(tpc_of_.size(), slot.gpc);
  slot.apart[mpc].within = sync.within;
  slot.states[mpc] = {slot.apart[mpc].grid, slot.apart[mpc].units};
  RasterStep step;
  step.told = sync.outermost;
  step.within = sync.within;
  return step;
}

std::uint32_t LaunchRecord::mpcs_of(std::uint64_t tpcs) const {
  if ((tpcs & all_) == all_) return static_cast<std::uint32_t>(tpc_of_.size());
  return static_cast<std::uint32_t>(
      std::count_if(tpc_of_.begin(), tpc_of_.end(), [tpcs](std::uint32_t tpc) { return (tpcs >> tpc & 1) != 0; }));
}

}  // namespace heddle::gpc
