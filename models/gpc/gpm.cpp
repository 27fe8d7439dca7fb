#include "gpc/gpm.h"

#include <fmt/format.h>

#include "arch/gpu_observation.h"

namespace heddle::gpc {
namespace {

// A TPC's part of a GPC's SM mask.
std::uint64_t part_of(std::uint64_t mask, const arch::Topology::Tpc& tpc) {
  return mask >> tpc.first_sm & bits::below(tpc.sms);
}

std::uint32_t ctas_of(const protocol::LaunchPacket& launch) {
  std::uint32_t ctas = bits::count(launch.sm_mask);
  for (const std::uint64_t mask : launch.further_masks) ctas += bits::count(mask);
  return ctas;
}

// CTAs of a GPU_CGA or uGPU_CGA without GPC_CGAs: no GPM knows when the CGA is complete, so the CWD counts.
bool tracked(const protocol::LaunchPacket& launch) { return launch.shape.levels > 0 && launch.cga_ctas == 0; }

// Each MPC serves one TPC.
std::vector<std::uint32_t> mpc_tpcs(const arch::Topology::Gpc& gpc) {
  std::vector<std::uint32_t> tpcs;
  for (std::uint32_t t = 0; t < gpc.tpcs.size(); ++t) tpcs.push_back(t);
  return tpcs;
}

// Goes on in the raster order; late joiners of the rest are told the coordinate there.
void advance(protocol::LaunchPacket& launch, std::uint32_t ctas) {
  if (launch.late_mask != 0) {
    const std::uint64_t unit = arch::raster_unit(launch.shape);
    const std::uint64_t units = (launch.raster + ctas) / unit - launch.raster / unit;
    launch.late_coord = arch::advanced(launch.late_coord, units, arch::raster_extents(launch.shape));
  }
  launch.raster += ctas;
}

}  // namespace

Gpm::Gpm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
         const arch::Topology::Gpc& gpc, protocol::GpcId number, const CgaMemoryPool& memory)
    : Block(name, domain, path),
      launch_in("launch_in", domain, params.gpm_to_cwd, CreditReturn::by_owner),
      local_in("local_in", domain, params.gpm_to_cwd),
      abort_in("abort_in", domain, params.gpm_to_cwd),
      complete_out("complete_out", domain, params.gpm_to_cwd, kUnlimitedCredits),  // bounded by the CTAs that run
      cga_out("cga_out", domain, params.gpm_to_cwd, kUnlimitedCredits),            // bounded by the CGA ids
      shared_out("shared_out", domain, params.gpm_to_cwd, kUnlimitedCredits),      // bounded by the warps that run
      barrier_out("barrier_out", domain, params.gpm_to_cwd, kUnlimitedCredits),    // bounded by the CTAs that run
      barrier_in("barrier_in", domain, params.gpm_to_cwd),
      part_in("part_in", domain, params.gpm_to_cwd),
      tpc_launch_out("tpc_launch_out", domain, params.gpm_to_mpc, params.mpc_queue),
      local_out("local_out", domain, params.gpm_to_mpc, kUnlimitedCredits),  // an MPC always takes them
      abort_out("abort_out", domain, params.gpm_to_mpc, kUnlimitedCredits),  // at most one per task
      part_out("part_out", domain, params.gpm_to_mpc, kUnlimitedCredits),    // taken in at once
      complete_in("complete_in"),
      notice_in("notice_in"),
      order_out("order_out", domain, params.gpm_to_mpc, kUnlimitedCredits),  // at most two per barrier and CGA
      gpc_(gpc),
      memory_(memory),
      cgas_(domain, params, number, gpc, mpc_tpcs(gpc), {order_out, cga_out, barrier_out}, *this,
            domain.observation().prefix + "." + path, handler_name()),
      ctas_(counter("ctas", "CTAs", "CTAs started on this GPC")),
      traps_(counter("traps", "traps", "errors of CGAs whose CTA had gone")) {
  launch_in.on_packet<Gpm, &Gpm::on_launch>(*this);
  local_in.on_packet<Gpm, &Gpm::on_local>(*this);
  abort_in.on_packet<Gpm, &Gpm::on_abort>(*this);
  barrier_in.on_packet<Gpm, &Gpm::on_barrier>(*this);
  part_in.on_packet<Gpm, &Gpm::on_part>(*this);
  tpc_launch_out.on_credit<Gpm, &Gpm::on_credit>(*this);
  complete_in.init(gpc.tpcs.size(), [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::CtaCompletePacket>(socket, domain, params.gpm_to_mpc);
  });
  notice_in.init(gpc.tpcs.size(), [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::ClusterNoticePacket>(socket, domain, params.gpm_to_mpc);
  });
  for (std::uint32_t t = 0; t < gpc.tpcs.size(); ++t) {
    complete_in[t].on_packet<Gpm, &Gpm::on_complete>(*this, t);
    notice_in[t].on_packet_ahead<Gpm, &Gpm::on_notice>(*this, t);
  }
}

Gpm::~Gpm() = default;

void Gpm::check_idle() {
  HEDDLE_CHECK(live_ctas() == 0, "a GPM of an idle machine counts live CTAs");
  HEDDLE_CHECK(live_cgas() == 0, "a GPM of an idle machine counts live CGAs");
}

void Gpm::reset() {
  launches_.clear();
  gathered_.clear();
  live_ctas_ = 0;
  cgas_.reset();
}

void Gpm::on_launch(const protocol::LaunchPacket& launch, std::uint32_t) {
  HEDDLE_CHECK(launch.sm_mask != 0 && launch.num_ctas == ctas_of(launch),
               "a launch packet's CTA count differs from its masks");
  HEDDLE_CHECK(!launch.id || launch.num_ctas == 1, "a launch packet of several CTAs has one id");
  launches_.push_back(launch);
  forward();
}

// In order: a packet whose MPC has no place, or whose CGA finds no id, holds back those behind it.
void Gpm::forward() {
  while (!launches_.empty()) {
    protocol::LaunchPacket& launch = launches_.front();
    if (launch.cga_first && launch.cga_ctas > 0) {
      if (!cgas_.begin(launch)) return;
      launch.cga_first = false;  // it may be handed over in pieces
    }
    if (!hand_over(launch)) return;
    launches_.pop_front();
    launch_in.return_credit();
  }
}

// One packet per mask and TPC, in the order of the masks. False if an MPC has no place: then the rest goes later.
bool Gpm::hand_over(protocol::LaunchPacket& launch) {
  std::optional<protocol::CgaId> cga;
  if (launch.cga_ctas > 0) cga = cgas_.launching(launch);
  protocol::TpcLaunchPacket packet;
  protocol::grid_launch_of(packet) = protocol::grid_launch_of(launch);
  packet.tag = {launch.slot, launch.operation, launch.sequence, cga, tracked(launch), launch.barriers};
  if (launch.memory_slot) {
    packet.cga_memory = memory_.address(launch.subcontext, *launch.memory_slot);
  }
  for (std::size_t m = 0; m <= protocol::kFurtherMasks; ++m) {
    std::uint64_t& mask = m == 0 ? launch.sm_mask : launch.further_masks[m - 1];
    for (std::uint32_t t = 0; t < gpc_.tpcs.size() && mask != 0; ++t) {
      const arch::Topology::Tpc& tpc = gpc_.tpcs[t];
      const std::uint64_t part = part_of(mask, tpc);
      if (part == 0) continue;
      if (!tpc_launch_out.can_send(t)) return false;
      packet.sm_mask = part;
      packet.raster = launch.raster;
      packet.late = (part_of(launch.late_mask, tpc) & part) != 0;
      packet.late_coord = launch.late_coord;
      const std::uint32_t ctas = bits::count(part);
      if (packet.tag.in_any_cga()) cgas_.launch(packet.tag, t, part << tpc.first_sm);
      tpc_launch_out.send(packet, t);
      advance(launch, ctas);
      mask &= ~(part << tpc.first_sm);
      live_ctas_ += ctas;
      ctas_.add(ctas);
    }
    HEDDLE_CHECK(mask == 0, "a launch names an SM that the GPC does not have");
  }
  return true;
}

void Gpm::on_credit(std::uint32_t) { forward(); }

void Gpm::on_local(const protocol::LocalMemoryPacket& local, std::uint32_t) {
  HEDDLE_CHECK(local.tpc < gpc_.tpcs.size(), "a local-memory block is for a TPC that the GPC does not have");
  local_out.send(local, local.tpc);
}

void Gpm::on_abort(const protocol::AbortPacket& abort, std::uint32_t) {
  for (std::uint32_t t = 0; t < gpc_.tpcs.size(); ++t) abort_out.send(abort, t);
}

void Gpm::on_complete(const protocol::CtaCompletePacket& complete, std::uint32_t tpc) {
  HEDDLE_CHECK(live_ctas_ > 0, "a completion without a launch");
  --live_ctas_;
  const std::uint32_t sm = gpc_.tpcs[tpc].first_sm + complete.sm_in_tpc;
  gather(complete, sm, complete.tag.in_any_cga() ? cgas_.cta_done(complete, sm) : 0);
}

// One bit per SM: two CTAs of one SM, two sm_cga_slots of one, or CTAs that gave back different parts of their shared
// memory, take a packet each.
void Gpm::gather(const protocol::CtaCompletePacket& complete, std::uint32_t sm, std::uint64_t cga_slots) {
  const protocol::CtaTag& tag = complete.tag;
  const std::uint64_t bit = bits::one(sm);
  const std::uint64_t sequence = tag.tracked ? tag.sequence : 0;
  if (gathered_.empty()) domain_.schedule(now(), *this, 0);
  for (protocol::CompletePacket& packet : gathered_) {
    if (packet.slot == tag.slot && packet.sequence == sequence && (packet.sm_mask & bit) == 0 &&
        packet.released_shared_bytes == complete.released_shared_bytes && (packet.cga_slots & cga_slots) == 0) {
      packet.sm_mask |= bit;
      packet.cga_slots |= cga_slots;
      packet.faulted = packet.faulted || complete.faulted;
      return;
    }
  }
  gathered_.push_back(
      {tag.slot, bit, sequence, tag.tracked, complete.faulted, complete.released_shared_bytes, cga_slots});
}

void Gpm::on_event(std::uint32_t /*kind*/, std::uint64_t /*argument*/) {
  for (const protocol::CompletePacket& packet : gathered_) complete_out.send(packet);
  gathered_.clear();
}

// Heard ahead of their arrival.
void Gpm::on_notice(const protocol::ClusterNoticePacket& notice, std::uint32_t tpc, Cycle arrival) {
  switch (notice.kind) {
    case protocol::ClusterNoticePacket::Kind::shared_released:
      shared_out.send_at(
          arrival, {notice.tag.slot, protocol::SmInGpc(gpc_.tpcs[tpc].first_sm + notice.sm_in_tpc), notice.bytes});
      break;
    case protocol::ClusterNoticePacket::Kind::trap:
      trap(notice.tag, arrival);
      break;
    default:
      cgas_.notice(notice, tpc, arrival);
      break;
  }
}

// An error whose CTA has gone ends the task as a fault of a CTA does; if its CGA has gone too, it matters to none
// (CGA-08).
void Gpm::trap(const protocol::CtaTag& tag, Cycle when) {
  if (!cgas_.is_open(tag)) return;
  traps_.add();
  protocol::CompletePacket packet;
  packet.slot = tag.slot;
  packet.faulted = true;
  complete_out.send_at(when, packet);
}

void Gpm::collect_waits(WaitGraph& graph) const {
  cgas_.collect_waits(graph);
  if (!launches_.empty()) {
    const protocol::LaunchPacket& launch = launches_.front();
    const bool begins = launch.cga_ctas > 0 && launch.cga_first;
    graph.add(gpu_observation(domain_).labels.of(launch.operation),
              begins ? cgas_.what_lacks() : "for a place in the queues of the MPCs of",
              domain_.observation().prefix + "." + path());
  }
  // Last: what is waited for goes before what only explains it.
  cgas_.show_exited(graph);
}

}  // namespace heddle::gpc
