#include "sm/cta_table.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "common/error.h"
#include "sm/cluster_tables.h"
#include "sm/sm_occupancy.h"

namespace heddle::sm {
namespace {

[[noreturn]] void not_a_state(std::uint32_t barrier, const char* why) {
  throw InputError(fmt::format("the saved state of barrier {} of a CTA is damaged: {}", barrier, why),
                   "restore what save() gave, whole");
}

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

void CtaBarriers::start(std::uint32_t warps) {
  for (Barrier& barrier : barriers_) barrier.warps.clear();
  opened_.clear();
  warps_ = left_ = warps;
}

std::uint32_t CtaBarriers::needed(std::uint32_t barrier) const {
  const std::uint32_t threads = barriers_[barrier].threads;
  return threads == 0 ? left_ : threads / arch::kWarpLanes;
}

CtaBarriers::Outcome CtaBarriers::arrive(std::uint32_t number, std::uint32_t threads, std::uint32_t warp) {
  opened_.clear();
  if (number >= kBarriers || threads % arch::kWarpLanes != 0 || threads > warps_ * arch::kWarpLanes) {
    return Outcome::wrong;
  }
  Barrier& barrier = barriers_[number];
  if (!barrier.warps.empty() && barrier.threads != threads) return Outcome::wrong;
  barrier.threads = threads;
  barrier.warps.push_back(warp);
  if (needed(number) > left_) return Outcome::wrong;
  if (barrier.warps.size() < needed(number)) return Outcome::waits;
  open(barrier);
  return Outcome::opens;
}

CtaBarriers::Outcome CtaBarriers::leave() {
  HEDDLE_CHECK(left_ > 0, "more warps exited than a CTA has");
  opened_.clear();
  --left_;
  for (std::uint32_t number = 0; number < kBarriers; ++number) {
    Barrier& barrier = barriers_[number];
    if (barrier.warps.empty()) continue;
    if (needed(number) > left_) return Outcome::wrong;
    if (barrier.warps.size() == needed(number)) open(barrier);
  }
  return opened_.empty() ? Outcome::waits : Outcome::opens;
}

CtaBarriers::State CtaBarriers::save() const {
  State state;
  state.warps = warps_;
  state.left = left_;
  for (std::uint32_t number = 0; number < kBarriers; ++number) {
    const Barrier& barrier = barriers_[number];
    if (!barrier.warps.empty()) state.waiting.push_back({number, barrier.threads, barrier.warps});
  }
  return state;
}

void CtaBarriers::restore(const State& state) {
  if (state.left > state.warps) not_a_state(0, "more warps are left than there are");
  std::vector<bool> seen(state.warps);
  std::array<bool, kBarriers> used{};
  std::uint32_t waiting = 0;
  for (const Waiting& its : state.waiting) {
    if (its.barrier >= kBarriers) not_a_state(its.barrier, "there is no such barrier");
    if (used[its.barrier]) not_a_state(its.barrier, "it occurs twice");
    used[its.barrier] = true;
    if (its.threads % arch::kWarpLanes != 0) not_a_state(its.barrier, "its count is not of whole warps");
    const std::uint32_t needed = its.threads == 0 ? state.left : its.threads / arch::kWarpLanes;
    if (needed > state.left) not_a_state(its.barrier, "it waits for more warps than are left");
    if (its.warps.empty() || its.warps.size() >= needed) not_a_state(its.barrier, "nobody waits, or all have come");
    for (const std::uint32_t warp : its.warps) {
      if (warp >= state.warps || seen[warp]) not_a_state(its.barrier, "a warp does not exist, or waits twice");
      seen[warp] = true;
      ++waiting;
    }
  }
  if (waiting > state.left) not_a_state(0, "more warps wait than are left");
  start(state.warps);
  left_ = state.left;
  for (const Waiting& its : state.waiting) {
    barriers_[its.barrier].threads = its.threads;
    barriers_[its.barrier].warps = its.warps;
  }
}

void CtaBarriers::open(Barrier& barrier) {
  opened_.insert(opened_.end(), barrier.warps.begin(), barrier.warps.end());
  barrier.warps.clear();
}

// Vectors keep their memory.
// A number that lives is not given again soon: who uses one that was destroyed is found out.
void Cta::Context::learn(std::uint32_t tmdq, std::uint64_t live) {
  if (!is_known(tmdq)) {
    std::uint8_t next = 0;
    while (next < arch::kStreamsOfTmdq && live >> next != 0) ++next;
    streams.next[tmdq] = next % arch::kStreamsOfTmdq;
  }
  streams.live[tmdq] = live;
  streams.known |= std::uint64_t{1} << tmdq;
}

void Cta::arrive(const protocol::CtaStartPacket& packet, Cycle arrival) {
  stage = CtaStage::running;
  fate = CtaFate::lives;
  start = packet;
  operation = packet.tag.operation;
  record = packet.record;
  queue = packet.queue;
  begin = last = arrival;
  landed = 0;
  need = packet.need;
  released = 0;
  saved = exposed = preempted = owed = false;
  ends = 0;
  if (code != nullptr) forget_program();
}

void Cta::forget_program() {
  code = nullptr;
  warps.clear();
  live = open = bulk = 0;
  barriers = {};
  mbarrier_waiters.clear();
  cluster = {};
  context = {};
  turn.reset();
}

void CtaTable::make(std::uint32_t slot) {
  HEDDLE_CHECK(slot < slots_, "an SM has no such CTA slot");
  ctas_.resize(slot + 1);
}

const Cta& CtaTable::nobody() {
  static const Cta cta;
  return cta;
}

bool CtaTable::runs(std::uint32_t operation) const {
  return std::any_of(ctas_.begin(), ctas_.end(), [operation](const Cta& cta) {
    return cta.here() && cta.code != nullptr && cta.operation == operation;
  });
}

void CtaTable::reset() {
  for (Cta& cta : ctas_) {
    cta.stage = CtaStage::absent;
    cta.mbarrier_waiters.clear();
  }
}

void CtaMemory::enter(const Cta& cta) {
  held_ += cta.need[arch::Resource::shared_bytes];
  size_l1();
  ++ctas_;
  peers_.shared.open(cta.start.cta_slot, cta.code->shared_bytes);
  if (params_.memory.async_view && cta.code->program->stores_bulk()) peers_.shared.watch(cta.start.cta_slot);
  if (!cta.in_cga()) return;
  peers_.tables.open_window(*cta.start.tag.cga_id, cta.start.id.rank, cta.start.cta_slot);
  peers_.stats.cluster_ctas.add();
  peers_.stats.cluster_warps.add(cta.need[arch::Resource::warps]);
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
