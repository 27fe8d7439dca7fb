#include "gpc/mpc.h"

#include <algorithm>
#include <cmath>

#include "common/bits.h"

namespace heddle::gpc {

using protocol::ClusterNoticePacket;
using protocol::ClusterOrderPacket;

namespace {

Cycle divide_cycles(const Domain& domain, const GpcParams& params) {
  return domain.cost(static_cast<Cycle>(std::ceil(params.divide_cycles * params.delta_bits)));
}

}  // namespace

Mpc::Mpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
         const MpcPlace& place)
    : Block(name, domain, path),
      launch_in("launch_in", domain, params.gpm_to_mpc, CreditReturn::by_owner),
      local_in("local_in", domain, params.gpm_to_mpc),
      abort_in("abort_in", domain, params.gpm_to_mpc),
      part_in("part_in", domain, params.gpm_to_mpc),
      start_out("start_out", domain, params.mpc_to_sm, kUnlimitedCredits),  // bounded by the CTA slots
      abort_out("abort_out", domain, params.mpc_to_sm, kUnlimitedCredits),  // at most one per task
      part_out("part_out", domain, params.mpc_to_sm, kUnlimitedCredits),    // taken in at once
      local_out("local_out", domain, params.mpc_to_sm, kUnlimitedCredits),  // taken in at once
      exit_in("exit_in"),
      complete_out("complete_out", domain, params.gpm_to_mpc, kUnlimitedCredits),
      entry_out("entry_out", domain, params.cta_broadcast, kUnlimitedCredits),  // bounded by the CTA slots
      notice_in("notice_in"),
      notice_out("notice_out", domain, params.gpm_to_mpc, kUnlimitedCredits),  // an MPC only passes them on
      order_in("order_in", domain, params.gpm_to_mpc),
      order_out("order_out", domain, params.mpc_to_sm, kUnlimitedCredits),  // a few per CGA and CTA
      place_(place),
      exit_permission_(params.exit_permission),
      permit_cycles_(domain.cost(params.mpc_to_sm)),
      barrier_way_(domain.cost(barrier_way(params, place.tpc, place.tpcs))),
      await_flush_(params.dsmem_flush),
      broadcast_cycles_(domain.cost(params.cta_broadcast)),
      slots_(place.sms, CtaSlots(place.cta_slots)),
      residency_(params.cga_ids),
      raster_(params.delta_bits, divide_cycles(domain, params), domain.cost(params.raster_cycles)),
      starts_(place.sms, StageClock::of_rate(heddle::has_costs(domain.mode()) ? params.cta_starts : 0)),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
  residents_.reserve(std::size_t{place.sms} * place.cta_slots);
  launch_in.on_packet_ahead<Mpc, &Mpc::on_launch>(*this);
  local_in.on_packet_ahead<Mpc, &Mpc::on_local>(*this);
  abort_in.on_packet<Mpc, &Mpc::on_abort>(*this);
  part_in.on_packet<Mpc, &Mpc::on_part>(*this);
  exit_in.init(place.sms, [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::CtaExitPacket>(socket, domain, params.mpc_to_sm);
  });
  notice_in.init(place.sms, [&](const char* socket, std::size_t) {
    return new PacketIn<ClusterNoticePacket>(socket, domain, params.mpc_to_sm);
  });
  for (std::uint32_t i = 0; i < place.sms; ++i) {
    exit_in[i].on_packet_ahead<Mpc, &Mpc::on_exit>(*this, i);
    notice_in[i].on_packet_ahead<Mpc, &Mpc::on_notice>(*this, i);
  }
  order_in.on_packet_ahead<Mpc, &Mpc::on_order>(*this);
}

Mpc::~Mpc() = default;

void Mpc::check_idle() {
  for (const CtaSlots& slots : slots_) HEDDLE_CHECK(slots.used() == 0, "CTA slots are in use on an idle machine");
}

void Mpc::reset() {
  for (CtaSlots& slots : slots_) slots.reset();
  residents_.clear();
  residency_.reset();
  raster_.reset();
  last_taken_ = 0;
  for (StageClock& starts : starts_) starts.reset();
}

// Heard ahead of its arrival: what it does depends on nothing but the packets before it. The raster unit takes one
// after another, and then the place in the queue is free; a start leaves when its id is there. Ids that come with their
// CTA, from a central rasteriser (CWD-43) or of a CTA that was saved, pass it by.
void Mpc::on_launch(const protocol::TpcLaunchPacket& launch, std::uint32_t, Cycle arrival) {
  const Cycle taken = launch.id ? arrival : raster_.take(arrival);
  if (!launch.id) {
    if (launch.raster.overflows > 0) stats_.overflows.add(launch.raster.overflows);
    stats_.updates.add(raster_.follow(launch.tag.slot, launch.shape, launch.raster) - launch.raster.overflows);
  }
  last_taken_ = std::max(last_taken_, taken);
  launch_in.return_credit_at(last_taken_);
  if (launch.sm_mask == 0) {
    stats_.raster_busy.add(raster_.count_busy());
    return;
  }
  protocol::CtaStartPacket start;
  protocol::launch_of(start) = protocol::launch_of(launch);
  start.tag = launch.tag;
  start.cga_memory = launch.cga_memory;
  std::uint32_t nth = 0;
  bits::for_each(launch.sm_mask, [&](std::uint32_t sm) {
    HEDDLE_CHECK(sm < slots_.size(), "a launch names an SM that the MPC does not have");
    Cycle ready = arrival;
    if (launch.id) {
      start.id = *launch.id;
    } else {
      make_id(launch, nth++, start);
      ready = raster_.deliver();
      if (ready > arrival) stats_.raster_waits.add(ready - arrival);
    }
    start_at(ready, start, sm, launch.entry_from);
  });
  stats_.raster_busy.add(raster_.count_busy());
}

// The CTAs of a packet stand one after another: in one outermost CGA, or in a plain grid.
void Mpc::make_id(const protocol::TpcLaunchPacket& launch, std::uint32_t nth, protocol::CtaStartPacket& start) {
  const bool in_cga = launch.shape.levels > 0;
  if (nth > 0 && !in_cga) stats_.updates.add(raster_.go_on(launch.tag.slot, launch.shape));
  const arch::Coord& outermost = raster_.current(launch.tag.slot);
  const arch::Dim3 extents = arch::raster_extents(launch.shape);
  HEDDLE_CHECK(outermost.z < extents.z, "a CTA is launched beyond the end of its grid");
  const std::uint32_t within = in_cga ? launch.raster.within + nth : 0;
  start.id = arch::resolve(launch.shape, outermost, within);
  start.order =
      in_cga ? arch::linear_of(outermost, extents) * arch::raster_unit(launch.shape) + within : start.id.index;
}

void Mpc::start_at(Cycle when, protocol::CtaStartPacket& start, std::uint32_t sm, Cycle entry_from) {
  start.cta_slot = protocol::CtaSlot(slots_[sm].take(when));
  resident(sm, start.cta_slot) = {start.tag, start.id.rank, true, false, false, 0};
  const Cycle starts = starts_[sm].pass(when);
  stats_.start_busy.add(starts_[sm].count_busy());
  if (starts > when) stats_.start_waits.add(starts - when);
  start_out.send_at(starts, start, sm);
  if (start.tag.in_cga()) announce(start, sm, std::max(starts, entry_from));
}

// Every SM of the GPC enters the CTA in its tables; when all have, the GPM hears of it (CGA-03, CGA-04). The way is as
// long to each of them, so that none has to answer.
void Mpc::announce(const protocol::CtaStartPacket& start, std::uint32_t sm, Cycle when) {
  residency_.add(*start.tag.cga_id, sm);
  const protocol::CtaEntryPacket entry{*start.tag.cga_id,
                                       start.tag.sequence,
                                       start.id.rank,
                                       start.id.cga_size,
                                       place_.tpc,
                                       in_tpc(sm),
                                       protocol::SmInGpc(place_.first_sm + sm)};
  const std::uint32_t links = entry_out.links();
  for (std::uint32_t link = 0; link < links; ++link) entry_out.send_at(when, entry, link);
  notice_out.send_at(when + broadcast_cycles_, {ClusterNoticePacket::Kind::entered, start.tag, start.id.rank,
                                                start.cta_slot, in_tpc(sm), 0, arch::CgaLevel::gpc, false});
}

void Mpc::on_local(const protocol::LocalMemoryPacket& local, std::uint32_t, Cycle arrival) {
  HEDDLE_CHECK(local.subcontext < arch::kSubcontexts, "a local-memory block is for a subcontext that does not exist");
  for (std::uint32_t sm = 0; sm < slots_.size(); ++sm) local_out.send_at(arrival, local, sm);
}

void Mpc::on_abort(const protocol::AbortPacket& abort, std::uint32_t) {
  for (std::uint32_t sm = 0; sm < slots_.size(); ++sm) abort_out.send(abort, sm);
}

void Mpc::on_part(const protocol::PartPacket& part, std::uint32_t) {
  protocol::PartPacket own = part;  // of the TPC's first SM
  if (own.part.sm != arch::kNoVirtual) own.part.sm += place_.first_in_tpc;
  for (std::uint32_t sm = 0; sm < slots_.size(); ++sm) {
    part_out.send(own, sm);
    if (own.part.sm != arch::kNoVirtual) ++own.part.sm;
  }
}

// A CTA asks whether it may leave (CGA-11). Heard ahead of the packet's arrival, as notices are: an MPC only passes on,
// and counts.
void Mpc::on_exit(const protocol::CtaExitPacket& exit, std::uint32_t sm, Cycle arrival) {
  Resident& cta = resident(sm, exit.cta_slot);
  HEDDLE_CHECK(cta.tag.slot == exit.tag.slot && cta.tag.cga_id == exit.tag.cga_id && !cta.wants_exit,
               "an SM says that a CTA has exited which was not started in that slot");
  cta.wants_exit = true;
  cta.preempted = exit.preempted;
  cta.released_shared_bytes = exit.released_shared_bytes;
  if (exit.drained || exit_permission_ == ExitPermission::at_once) permit(sm, exit.cta_slot, exit.faulted, arrival);
}

void Mpc::on_notice(const ClusterNoticePacket& notice, std::uint32_t sm, Cycle arrival) {
  switch (notice.kind) {
    case ClusterNoticePacket::Kind::drained:
      if (exit_permission_ == ExitPermission::drained) permit(sm, notice.cta_slot, notice.faulted, arrival);
      return;
    case ClusterNoticePacket::Kind::flushed:
      if (!await_flush_ || !residency_.answer(*notice.tag.cga_id, sm, arrival)) return;
      arrival = residency_.answered(*notice.tag.cga_id);
      break;
    case ClusterNoticePacket::Kind::arrived:
      arrival += barrier_way_;
      break;
    default:
      break;
  }
  ClusterNoticePacket passed = notice;
  passed.sm_in_tpc = in_tpc(sm);
  notice_out.send_at(arrival, passed);
}

// inval_cta_entry: the SM invalidates the CTA's entry of its CAM when it gets this. cta_complete says that all that the
// CTA had is free, and so leaves when the SM has let go of it.
void Mpc::permit(std::uint32_t sm, protocol::CtaSlot cta_slot, bool faulted, Cycle when) {
  Resident& cta = resident(sm, cta_slot);
  HEDDLE_CHECK(cta.wants_exit, "a CTA has drained that did not want to leave");
  cta.here = cta.wants_exit = false;
  slots_[sm].give(cta_slot, when + permit_cycles_);
  ClusterOrderPacket order;
  order.kind = ClusterOrderPacket::Kind::permit;
  if (cta.tag.cga_id) order.cga_id = *cta.tag.cga_id;
  order.cta_slot = cta_slot;
  order.sequence = cta.tag.sequence;
  order_out.send_at(when, order, sm);
  complete_out.send_at(when + permit_cycles_,
                       {cta.tag, in_tpc(sm), faulted, cta.rank, cta.released_shared_bytes, cta.preempted});
}

void Mpc::on_order(const ClusterOrderPacket& order, std::uint32_t, Cycle arrival) {
  HEDDLE_CHECK(order.kind != ClusterOrderPacket::Kind::permit, "an MPC was ordered what it orders itself");
  if (order.kind != ClusterOrderPacket::Kind::flush) return tell_ctas(order, arrival);
  if (await_flush_) {
    residency_.begin_flush(order.cga_id);
  } else {
    residency_.forget(order.cga_id);
  }
  for (std::uint32_t sm = 0; sm < slots_.size(); ++sm) order_out.send_at(arrival, order, sm);
}

// SMs without a CTA of the CGA are not told: the id of its CGA may be another's before they heard.
void Mpc::tell_ctas(const ClusterOrderPacket& order, Cycle arrival) {
  const bool wide = order.level != arch::CgaLevel::gpc;
  for (std::uint32_t sm = 0; sm < slots_.size(); ++sm) {
    for (std::uint32_t slot = 0; slot < place_.cta_slots; ++slot) {
      const Resident& cta = resident(sm, slot);
      if (!cta.here || cta.tag.sequence != order.sequence) continue;
      if (wide ? cta.tag.barriers.of(order.level) != order.barrier : cta.tag.cga_id != order.cga_id) continue;
      order_out.send_at(arrival, order, sm);
      break;
    }
  }
}

void Mpc::collect_waits(WaitGraph&) const {}  // an MPC passes on whatever it takes in, once its raster unit is free

}  // namespace heddle::gpc
