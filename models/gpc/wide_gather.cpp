#include "gpc/wide_gather.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "common/bits.h"

namespace heddle::gpc {

using protocol::BarrierSlot;
using protocol::CtaTag;

// The CTA among those of the wide CGA on this GPC. Ranks are those in its GPC_CGA, if it has one.
std::uint64_t WideGather::key_of(const CtaTag& tag, std::uint32_t rank) {
  return tag.cga_id ? std::uint64_t{*tag.cga_id + 1U} << 32 | rank : rank;
}

WideGather::Part& WideGather::part_of(BarrierSlot slot, const CtaTag& tag) {
  const auto found = parts_.find(slot);
  HEDDLE_CHECK(found != parts_.end() && found->second.sequence == tag.sequence,
               "something happened at the barrier of a wide CGA that has no CTA on the GPC");
  return found->second;
}

// The slot may have been another CGA's, of which nothing is left.
void WideGather::launch(const CtaTag& tag, std::uint32_t mpc, std::uint32_t ctas) {
  tag.barriers.for_each([&](arch::CgaLevel level, BarrierSlot slot) {
    Part& part = parts_[slot];
    if (part.launched == 0 || part.sequence != tag.sequence) {
      HEDDLE_CHECK(part.launched == part.gone, "the barrier of a wide CGA was given to another while its CTAs run");
      part = {};
      part.level = level;
      part.operation = tag.operation;
      part.sequence = tag.sequence;
    }
    part.launched += ctas;
    if (!tag.in_cga()) part.entered += ctas;
    part.mpcs |= bits::one(mpc);
  });
}

void WideGather::enter(const CtaTag& tag, Cycle when) {
  tag.barriers.for_each([&](arch::CgaLevel, BarrierSlot slot) {
    Part& part = part_of(slot, tag);
    ++part.entered;
    part.latest = std::max(part.latest, when);
    report_if_complete(slot, part);
  });
}

void WideGather::arrive(const CtaTag& tag, std::uint32_t rank, arch::CgaLevel level, Cycle when) {
  const std::optional<BarrierSlot> slot = tag.barriers.of(level);
  HEDDLE_CHECK(slot.has_value(), "a CTA has arrived at a barrier that it does not have");
  Part& part = part_of(*slot, tag);
  const std::uint64_t key = key_of(tag, rank);
  HEDDLE_CHECK(std::find(part.arrived.begin(), part.arrived.end(), key) == part.arrived.end(),
               "a CTA has arrived twice at one phase of the barrier of a wide CGA");
  part.arrived.push_back(key);
  part.latest = std::max(part.latest, when);
  report_if_complete(*slot, part);
}

void WideGather::leave(const CtaTag& tag, std::uint32_t rank) {
  const std::uint64_t key = key_of(tag, rank);
  tag.barriers.for_each([&](arch::CgaLevel, BarrierSlot slot) {
    Part& part = part_of(slot, tag);
    HEDDLE_CHECK(part.gone < part.launched, "more CTAs of a wide CGA completed than were launched");
    ++part.gone;
    const auto found = std::find(part.arrived.begin(), part.arrived.end(), key);
    if (found != part.arrived.end()) part.arrived.erase(found);
    part.latest = std::max(part.latest, timebase_.now());
    report_if_complete(slot, part);
  });
}

// The GPC cannot know whether more CTAs come: the root has the number of all.
void WideGather::report_if_complete(BarrierSlot slot, Part& part) {
  const auto arrived = static_cast<std::uint32_t>(part.arrived.size());
  if (arrived + part.gone < part.launched || part.entered < part.launched) return;
  if (arrived == part.told_arrived && part.gone == part.told_gone) return;
  part.told_arrived = arrived;
  part.told_gone = part.gone;
  reports_.send_at(std::max(part.latest, timebase_.now()), {slot, part.sequence, part.phase, arrived, part.gone});
}

void WideGather::release(const protocol::BarrierReleasePacket& release) {
  const auto found = parts_.find(release.slot);
  if (found == parts_.end() || found->second.sequence != release.sequence) return;  // its CTAs did not wait for it
  Part& part = found->second;
  HEDDLE_CHECK(release.phase == part.phase + 1, "a barrier of the GPU has lost a phase");
  part.phase = release.phase;
  part.arrived.clear();
  part.told_arrived = 0;
  protocol::ClusterOrderPacket order;
  order.kind = protocol::ClusterOrderPacket::Kind::barrier;
  order.sequence = part.sequence;
  order.level = part.level;
  order.barrier = release.slot;
  if (part.gone == part.launched) return;
  bits::for_each(part.mpcs, [&](std::uint32_t mpc) { orders_.send_at(timebase_.now() + ways_[mpc], order, mpc); });
}

void WideGather::collect_waits(WaitGraph& graph) const {
  for (const auto& [slot, part] : parts_) {
    const std::size_t running = part.launched - part.gone;
    if (part.arrived.size() == running) continue;
    const std::string kernel = gpu_observation(timebase_).labels.of(part.operation);
    graph.add(protocol::wide_barrier_name(kernel, part.level, BarrierSlot(slot)),
              fmt::format("where {} of {} CTAs that run on GPC {} have arrived, for", part.arrived.size(), running,
                          gpc_.value()),
              fmt::format("the other CTAs of {} on GPC {}", kernel, gpc_.value()));
  }
}

}  // namespace heddle::gpc
