// How CTAs of clusters leave, and how their CGA is forgotten (CGA-11, CGA-12).
#include <algorithm>

#include "sm/warp_engine.h"

namespace heddle::sm {
namespace {

constexpr std::size_t kCgaIds = 256;  // a gpc_local_cga_id has 8 bits

}  // namespace

using protocol::ClusterNoticePacket;
using protocol::ClusterOrderPacket;

void WarpEngine::host_cga(const protocol::CtaStartPacket& start) {
  if (hosted_.empty()) hosted_.resize(kCgaIds);
  Hosted& cga = hosted_[start.tag.cga_id];
  HEDDLE_CHECK(!cga.here || cga.tag.sequence == start.tag.sequence,
               "an id of a CGA is used again while accesses of the old one are under way (CGA-12); "
               "gpu.gpc.dsmem_flush is what prevents that");
  if (cga.here) return;
  cga = {};
  cga.here = true;
  cga.tag = start.tag;
  cga.cga = start.id.cga;
  ++hosted_cgas_;
}

ClusterNoticePacket WarpEngine::notice_of(const Cta& cta, ClusterNoticePacket::Kind kind) const {
  ClusterNoticePacket notice;
  notice.kind = kind;
  notice.tag = cta.start.tag;
  notice.rank = cta.start.id.rank;
  notice.cta_slot = cta.start.cta_slot;
  return notice;
}

// Answers are known ahead of their arrival.
bool WarpEngine::in_flight(const Cta& cta) const {
  return memory_.in_flight_of_cta(cta.start.cta_slot) > 0 || cta.landed > domain_.now();
}

// Its warps have exited, and posted accesses of it are under way.
void WarpEngine::ask_to_leave(Cta& cta) {
  cta.exit = Exit::asked;
  host_.notify(notice_of(cta, ClusterNoticePacket::Kind::exit_wanted), domain_.now());
  if (memory_.in_flight_of_cta(cta.start.cta_slot) > 0) return;
  host_.notify(notice_of(cta, ClusterNoticePacket::Kind::drained), cta.landed);
}

void WarpEngine::permitted(std::uint32_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  HEDDLE_CHECK(cta.running && cta.exit == Exit::asked, "a CTA may leave that has not asked");
  const arch::CtaId& id = cta.start.id;
  if (memory_.in_flight_of_cta(cta_slot) > 0) memory_.abandon(cta_slot, id.index, id.rank);
  cta.exit = Exit::permitted;
  check_end(cta, domain_.now());
}

void WarpEngine::order(const ClusterOrderPacket& order, Cycle arrival) {
  switch (order.kind) {
    case ClusterOrderPacket::Kind::permit:
      domain_.schedule(arrival, *this, kPermitted, order.cta_slot);
      return;
    case ClusterOrderPacket::Kind::flush:
      return flush(order, arrival);
    case ClusterOrderPacket::Kind::barrier:
      break;
  }
  tables_.check(order.cga_id, order.sequence);
  for (Cta& cta : ctas_) {
    if (!cta.running || cta.killed || !cta.has_warps || cta.start.tag.cga_id != order.cga_id) continue;
    pass(cta, arrival);
  }
}

// All CTAs of the CGA have completed: whatever is answered from now on concerns nobody.
void WarpEngine::flush(const ClusterOrderPacket& order, Cycle arrival) {
  tables_.check(order.cga_id, order.sequence);
  tables_.forget(order.cga_id);
  if (hosted_.empty() || !hosted_[order.cga_id].here) return;
  Hosted& cga = hosted_[order.cga_id];
  cga.flushing = true;
  cga.quiet = std::max(cga.quiet, arrival);
  if (memory_.in_flight(order.cga_id) == 0) flushed(order.cga_id);
}

void WarpEngine::flushed(std::uint32_t cga_id) {
  Hosted& cga = hosted_[cga_id];
  ClusterNoticePacket notice;
  notice.kind = ClusterNoticePacket::Kind::flushed;
  notice.tag = cga.tag;
  host_.notify(notice, std::max(cga.quiet, domain_.now()));
  cga = {};
  --hosted_cgas_;
}

void WarpEngine::cluster_answered(std::uint32_t cga_id, std::uint32_t cta_slot, Cycle when) {
  if (cta_slot != kNoCta) {
    Cta& cta = ctas_[cta_slot];
    cta.landed = std::max(cta.landed, when);
    if (memory_.in_flight_of_cta(cta_slot) == 0) {
      if (cta.exit == Exit::asked) {
        host_.notify(notice_of(cta, ClusterNoticePacket::Kind::drained), std::max(cta.landed, domain_.now()));
      } else if (cta.killed) {
        check_end(cta, when);
      }
    }
  }
  if (cga_id == protocol::kNoCgaId) return;
  Hosted& cga = hosted_[cga_id];
  cga.quiet = std::max(cga.quiet, when);
  if (cga.flushing && memory_.in_flight(cga_id) == 0) flushed(cga_id);
}

WarpEngine::ClusterState WarpEngine::clusters() const {
  ClusterState state;
  state.cgas = tables_.cgas();
  state.windows = tables_.windows();
  state.hosted = hosted_cgas_;
  for (std::uint32_t id = 0; id < kCgaIds; ++id) state.in_flight += memory_.in_flight(id);
  state.served = memory_.served_waiting();
  state.open = memory_.open();
  state.payloads = memory_.payloads();
  state.shared_used = memory_.shared_memory().used();
  return state;
}

}  // namespace heddle::sm
