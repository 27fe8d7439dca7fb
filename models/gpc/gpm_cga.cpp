// GPC_CGAs in the GPM: cluster barriers, errors, and the flush that ends with the return of an id.
//
// Notices of the SMs are heard ahead of their arrival: they only change what is known of a CGA, and say from when on.
#include <algorithm>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "gpc/gpm.h"

namespace heddle::gpc {

using protocol::ClusterNoticePacket;
using protocol::ClusterOrderPacket;

void Gpm::on_notice(const ClusterNoticePacket& notice, std::uint32_t tpc, Cycle arrival) {
  const std::uint32_t id = notice.tag.cga_id;
  switch (notice.kind) {
    case ClusterNoticePacket::Kind::entered:
      cgas_.enter(id, notice.rank, arrival);
      check_barrier(id);
      break;
    case ClusterNoticePacket::Kind::arrived:
      cgas_.barrier(id).arrive(notice.rank, arrival);
      check_barrier(id);
      break;
    case ClusterNoticePacket::Kind::flushed:
      if (await_flush_ && hosts_.answer(id, tpc, arrival)) {
        domain_.schedule(hosts_.answered(id) + flush_cycles_, *this, kFlushEnds, id);
      }
      break;
    case ClusterNoticePacket::Kind::shared_released:
      shared_out.send_at(arrival, {notice.tag.slot, gpc_.tpcs[tpc].first_sm + notice.sm_in_tpc, notice.bytes});
      break;
    case ClusterNoticePacket::Kind::trap:
      trap(notice.tag, arrival);
      break;
    default:
      HEDDLE_CHECK(false, "a GPM was told what is for an MPC alone");
  }
}

// An error whose CTA has gone ends the task as a fault of a CTA does; if its CGA has gone too, nobody is there to whom
// it matters (CGA-08).
void Gpm::trap(const protocol::CtaTag& tag, Cycle when) {
  if (!cgas_.is_open(tag.cga_id) || cgas_.cga(tag.cga_id).sequence != tag.sequence) return;
  traps_.add();
  protocol::CompletePacket packet;
  packet.slot = tag.slot;
  packet.faulted = true;
  complete_out.send_at(when, packet);
}

void Gpm::check_barrier(std::uint32_t cga_id) {
  CgaBarrier& barrier = cgas_.barrier(cga_id);
  if (!barrier.completes()) return;
  domain_.schedule(barrier.latest() + barrier_cycles_, *this, kPhaseEnds, cgas_.cga(cga_id).number * kMaxCgas + cga_id);
}

// By then all of its CTAs may have exited without waiting, and even its id may be another's.
void Gpm::end_phase(std::uint32_t cga_id, std::uint64_t number) {
  const CgaTable::Cga& cga = cgas_.cga(cga_id);
  if (!cgas_.is_open(cga_id) || cga.number != number || cga.live == 0) return;
  cgas_.barrier(cga_id).release();
  phases_.add();
  progress();
  for (std::uint64_t tpcs = hosts_.hosts(cga_id); tpcs != 0; tpcs &= tpcs - 1) {
    order_out.send({ClusterOrderPacket::Kind::barrier, cga_id, 0, cga.sequence},
                   static_cast<std::uint32_t>(__builtin_ctzll(tpcs)));
  }
}

void Gpm::cta_done(const protocol::CtaCompletePacket& complete) {
  const std::uint32_t id = complete.tag.cga_id;
  if (!cgas_.complete(id, complete.rank, now())) {
    check_barrier(id);
    return;
  }
  // A CTA can be shorter than the broadcast of its start: the SMs must not hear of it after they were told to forget
  // its CGA.
  const Cycle entered = cgas_.barrier(id).entered_from();
  if (entered > now()) {
    domain_.schedule(entered, *this, kFlushBegins, id);
  } else {
    begin_flush(id);
  }
}

// CGA-12. Without waiting for the answers, all else stays as it is: it shows what they are good for.
void Gpm::begin_flush(std::uint32_t cga_id) {
  HEDDLE_CHECK(cgas_.barrier(cga_id).all_entered(), "a CGA is to be forgotten before it is known");
  if (await_flush_) {
    hosts_.begin_flush(cga_id);
  } else {
    hosts_.forget(cga_id);
    domain_.schedule(now() + flush_cycles_, *this, kFlushEnds, cga_id);
  }
  for (std::uint32_t t = 0; t < gpc_.tpcs.size(); ++t) {
    order_out.send({ClusterOrderPacket::Kind::flush, cga_id, 0, cgas_.cga(cga_id).sequence}, t);
  }
}

// The id is free, and a launch that waits for one goes on.
void Gpm::end_flush(std::uint32_t cga_id) {
  const CgaTable::Cga cga = cgas_.close(cga_id);
  flush_times_.add(now() - cga.ended);
  if (timeline() != nullptr) draw(cga, cga_id);
  progress();
  cga_out.send({cga.slot, cga.sequence});
  forward();
}

void Gpm::draw(const CgaTable::Cga& cga, std::uint32_t cga_id) {
  const GpuObservation& observation = gpu_observation(domain_);
  if (tracks_.empty()) tracks_.resize(cgas_.ids());
  TrackId& track = tracks_[cga_id];
  if (track.group == 0) {
    track = observation.timeline->track(fmt::format("{} gpc{} CGAs", observation.prefix, number_),
                                        fmt::format("local id {:3}", cga_id));
  }
  observation.timeline->slice(track, domain_.time_of(cga.opened), domain_.time_of(now()),
                              observation.labels.of(cga.operation),
                              {{"ctas", cga.ctas},
                               {"sequence", static_cast<std::int64_t>(cga.sequence)},
                               {"barriers", cga.barrier.phases()},
                               {"flush_cycles", static_cast<std::int64_t>(now() - cga.ended)}});
}

void Gpm::collect_barrier_waits(WaitGraph& graph, std::uint32_t cga_id) const {
  const CgaTable::Cga& cga = cgas_.cga(cga_id);
  if (!cga.barrier.waited_for()) return;
  const std::string name = protocol::barrier_name(gpu_observation(domain_).labels.of(cga.operation), number_, cga_id);
  if (cga.waiting > 0)
    graph.add(name, fmt::format("for the launch of {} more CTAs by", cga.waiting), "the distributor");
  const auto arrived = static_cast<std::uint32_t>(__builtin_popcount(cga.barrier.arrived()));
  const auto gone = static_cast<std::uint32_t>(__builtin_popcount(cga.barrier.gone()));
  const std::string of =
      gone == 0 ? fmt::format("{} CTAs", cga.ctas) : fmt::format("the {} CTAs that are left", cga.ctas - gone);
  for (CgaBarrier::Mask missing = cga.barrier.live() & ~cga.barrier.arrived(); missing != 0; missing &= missing - 1) {
    graph.add(name, fmt::format("where {} of {} have arrived, for", arrived, of),
              protocol::cta_name(number_, cga_id, static_cast<std::uint32_t>(__builtin_ctz(missing))));
  }
}

// Somebody at an mbarrier may wait for a CTA that has gone: no SM but its own knows that it has.
void Gpm::show_exited(WaitGraph& graph, std::uint32_t cga_id) const {
  const CgaTable::Cga& cga = cgas_.cga(cga_id);
  if (cga.live == 0) return;
  for (CgaBarrier::Mask gone = cga.barrier.gone(); gone != 0; gone &= gone - 1) {
    graph.add(protocol::cta_name(number_, cga_id, static_cast<std::uint32_t>(__builtin_ctz(gone))), "which has",
              "exited");
  }
}

void Gpm::collect_flush_waits(WaitGraph& graph, std::uint32_t cga_id) const {
  for (std::uint64_t silent = hosts_.silent(cga_id); silent != 0; silent &= silent - 1) {
    graph.add(gpu_observation(domain_).labels.of(cgas_.cga(cga_id).operation),
              fmt::format("for the flush of CGA {} of GPC {}, and that for", cga_id, number_),
              fmt::format("the accesses in flight of TPC {}", __builtin_ctzll(silent)));
  }
}

}  // namespace heddle::gpc
