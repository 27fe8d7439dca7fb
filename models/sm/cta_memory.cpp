#include "sm/cta_memory.h"

#include <array>

#include "sm/cluster_tables.h"
#include "sm/sm_occupancy.h"

namespace heddle::sm {
namespace {

// What of the unified memory can be shared memory; the rest is L1. As published for compute capability 9.0.
constexpr std::array<std::uint32_t, 10> kCarveOuts = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
constexpr std::uint32_t kKib = 1024;

// Bytes that the resource accounting counts for a window of that size.
std::uint32_t held_for(const arch::SmLimits& limits, std::uint64_t size) {
  const std::uint64_t bytes = size + limits.shared_reserve;
  const std::uint64_t unit = limits.shared_granularity;
  return static_cast<std::uint32_t>(unit == 0 ? bytes : (bytes + unit - 1) / unit * unit);
}

}  // namespace

void CtaMemory::enter(const Cta& cta) {
  held_ += cta.need[arch::Resource::shared_bytes];
  size_l1();
  ++ctas_;
  peers_.shared.open(cta.start.cta_slot, cta.code->shared_bytes);
  if (cta.in_cga()) peers_.tables.open_window(cta.start.tag.cga_id, cta.start.id.rank, cta.start.cta_slot);
}

// The L1 is what CTAs leave of the unified memory. While some are here it can only shrink.
void CtaMemory::size_l1() {
  std::uint32_t carve_out = params_.limits.shared_bytes;
  for (const std::uint32_t option : kCarveOuts) {
    if (option * kKib < held_) continue;
    carve_out = option * kKib;
    break;
  }
  const std::uint32_t unified = params_.memory.unified_bytes;
  const std::uint32_t bytes = unified > carve_out ? unified - carve_out : 0;
  if (ctas_ == 0 || bytes < peers_.l1.capacity()) peers_.l1.resize(bytes);
}

void CtaMemory::leave(const Cta& cta) {
  if (cta.in_cga()) peers_.tables.invalidate(cta.start.cta_slot);
  peers_.shared.close(cta.start.cta_slot);
  held_ -= cta.need[arch::Resource::shared_bytes];
  --ctas_;
}

std::uint32_t CtaMemory::give_back(Cta& cta, std::uint64_t from) {
  const std::uint32_t window = cta.start.cta_slot;
  const std::uint32_t before = held_for(params_.limits, peers_.shared.size(window));
  const std::uint32_t gone = peers_.shared.release(window, from);
  const std::uint32_t bytes = gone > 0 ? before - held_for(params_.limits, from) : 0;
  if (bytes == 0) return gone;
  held_ -= bytes;
  peers_.occupancy.release_shared(cta, bytes);
  protocol::ClusterNoticePacket notice = notice_of(cta, protocol::ClusterNoticePacket::Kind::shared_released);
  notice.bytes = bytes;
  peers_.notices.send_at(time_.now(), notice);
  return gone;
}

}  // namespace heddle::sm
