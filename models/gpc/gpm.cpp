#include "gpc/gpm.h"

#include <fmt/format.h>

#include "arch/gpu_observation.h"

namespace heddle::gpc {
namespace {

// An MPC's part of a GPC's SM mask.
std::uint64_t part_of(std::uint64_t mask, const MpcPlace& mpc) { return mask >> mpc.first_sm & bits::below(mpc.sms); }

// The MPC of an SM; SMs and MPCs have the same order.
std::uint32_t mpc_of(const std::vector<MpcPlace>& mpcs, std::uint32_t sm) {
  std::uint32_t mpc = std::min(sm, static_cast<std::uint32_t>(mpcs.size()) - 1);
  while (mpcs[mpc].first_sm > sm) --mpc;
  return mpc;
}

std::vector<std::uint32_t> tpcs_of(const std::vector<MpcPlace>& mpcs) {
  std::vector<std::uint32_t> tpcs;
  for (const MpcPlace& mpc : mpcs) tpcs.push_back(mpc.tpc);
  return tpcs;
}

// In lt mode nothing of a launch takes time.
StageClock stage(const Domain& domain, double per_cycle) {
  return StageClock::of_rate(heddle::has_costs(domain.mode()) ? per_cycle : 0);
}

std::uint32_t ctas_of(const protocol::LaunchPacket& launch) {
  std::uint32_t ctas = bits::count(launch.sm_mask);
  for (const std::uint64_t mask : launch.further_masks) ctas += bits::count(mask);
  return ctas;
}

// CTAs of a GPU_CGA or uGPU_CGA without GPC_CGAs: no GPM knows when the CGA is complete, so the CWD counts.
bool tracked(const protocol::LaunchPacket& launch) { return launch.shape.levels > 0 && launch.cga_ctas == 0; }

}  // namespace

Gpm::Gpm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
         const arch::Topology::Gpc& gpc, const GpcNumbers& numbers, const CgaMemoryPool& memory)
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
      virtual_gpc_(numbers.virtual_gpc),
      memory_(memory),
      mpcs_(mpc_places(gpc, params.mpc, 0)),
      cgas_(domain, params, numbers.gpc, gpc, tpcs_of(mpcs_), {order_out, cga_out, barrier_out}, *this,
            domain.observation().prefix + "." + path, handler_name()),
      record_(tpcs_of(mpcs_), params.delta_bits),
      packets_(stage(domain, params.packets)),
      mpc_launches_(stage(domain, params.mpc_launches)),
      entries_(stage(domain, params.cta_entries)),
      to_mpc_(domain.cost(params.gpm_to_mpc)),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
  launch_in.on_packet_ahead<Gpm, &Gpm::on_launch>(*this);
  local_in.on_packet_ahead<Gpm, &Gpm::on_local>(*this);
  abort_in.on_packet<Gpm, &Gpm::on_abort>(*this);
  barrier_in.on_packet<Gpm, &Gpm::on_barrier>(*this);
  part_in.on_packet<Gpm, &Gpm::on_part>(*this);
  tpc_launch_out.on_credit<Gpm, &Gpm::on_credit>(*this);
  complete_in.init(mpcs_.size(), [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::CtaCompletePacket>(socket, domain, params.gpm_to_mpc);
  });
  notice_in.init(mpcs_.size(), [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::ClusterNoticePacket>(socket, domain, params.gpm_to_mpc);
  });
  for (std::uint32_t m = 0; m < mpcs_.size(); ++m) {
    complete_in[m].on_packet<Gpm, &Gpm::on_complete>(*this, m);
    notice_in[m].on_packet_ahead<Gpm, &Gpm::on_notice>(*this, m);
  }
}

Gpm::~Gpm() = default;

void Gpm::check_idle() {
  HEDDLE_CHECK(live_ctas() == 0, "a GPM of an idle machine counts live CTAs");
  HEDDLE_CHECK(live_cgas() == 0, "a GPM of an idle machine counts live CGAs");
}

void Gpm::reset() {
  queue_.clear();
  own_.clear();
  record_.reset();
  packets_.reset();
  mpc_launches_.reset();
  entries_.reset();
  wake_.reset();
  gathered_.clear();
  live_ctas_ = 0;
  cgas_.reset();
}

// Heard ahead of its arrival. What starts nothing here is counted, which takes no event as long as nothing that takes
// one is before it in the queue.
void Gpm::on_launch(const protocol::LaunchPacket& launch, std::uint32_t, Cycle arrival) {
  stats_.heard.add();
  stats_.bits.add(launch.bits);
  stats_.mpc_bits.add(std::uint64_t{launch.bits} * record_.mpcs_of(launch.listeners));
  queue_.emplace_back();
  Heard& heard = queue_.back();
  heard.own = launch.virtual_gpc == virtual_gpc_;
  heard.begins = launch.begins;
  heard.followed = !launch.id;
  if (launch.shape.levels > 0) heard.unit = static_cast<std::uint32_t>(arch::raster_unit(launch.shape));
  heard.last = launch.last;
  heard.slot = launch.slot;
  heard.ctas = launch.num_ctas;
  heard.listeners = launch.listeners;
  heard.time = arrival;
  if (heard.begins) heard.shape = launch.shape;
  if (heard.own) {
    HEDDLE_CHECK(launch.sm_mask != 0 && launch.num_ctas == ctas_of(launch),
                 "a launch packet's CTA count differs from its masks");
    HEDDLE_CHECK(!launch.id || launch.num_ctas == 1, "a launch packet of several CTAs has one id");
    own_.push_back(launch);
  }
  if (queue_.size() == 1) forward();
}

// In order of arrival: a packet whose MPC has no place, or whose CGA finds no id, holds back those behind it.
void Gpm::forward() {
  while (!queue_.empty() && pass(queue_.front())) {
    queue_.pop_front();
    packets_.take(now(), 0);
    launch_in.return_credit_at(packets_.ready(0));
  }
}

// True when the packet is done with.
bool Gpm::pass(Heard& heard) {
  if (heard.stage == Heard::Stage::waits && !take(heard)) return false;
  if (heard.stage == Heard::Stage::goes_over && !hand_over(heard)) return false;
  return !heard.followed || empty_full_counters(heard);
}

// A packet that starts nothing here can be taken before its time: it changes nothing but what is counted.
bool Gpm::take(Heard& heard) {
  const Cycle start = packets_.ready(heard.time);
  if (heard.own) {
    if (start > now()) {
      if (!wake_) domain_.schedule(start, *this, kForward);
      wake_ = start;
      return false;
    }
    protocol::LaunchPacket& launch = own_.front();
    if (launch.cga_first && launch.cga_ctas > 0 && !cgas_.begin(launch)) return false;
    stats_.waited.add(now() - heard.time);
  }
  heard.time = std::max(start, now());
  packets_.take(heard.time);
  stats_.packet_busy.add(packets_.count_busy());
  if (heard.begins) record_.begin(heard.slot, heard.shape, heard.listeners);
  heard.stage = Heard::Stage::goes_over;
  return true;
}

bool Gpm::hand_over(Heard& heard) {
  if (heard.own) {
    protocol::LaunchPacket& launch = own_.front();
    if (launch.sync && !tell_late(launch)) return false;
    if (!hand_over(launch, heard)) return false;
    packets_.not_before(mpc_launches_);
    stats_.busy.add(mpc_launches_.count_busy());
    stats_.entry_busy.add(entries_.count_busy());
    own_.pop_front();
  } else if (heard.followed) {
    record_.launch(heard.slot, heard.ctas, heard.unit > 0, heard.listeners);
  }
  if (heard.followed && heard.unit > 0 && heard.last) record_.end_cga(heard.slot, heard.unit, heard.listeners);
  heard.stage = Heard::Stage::counted;
  return true;
}

// CWD-42: all MPCs of those TPCs hear it, whether a CTA starts there or not.
bool Gpm::tell_late(protocol::LaunchPacket& launch) {
  const auto is_late = [&launch](const MpcPlace& mpc) { return (launch.sync->tpcs >> mpc.tpc & 1) != 0; };
  for (std::uint32_t m = 0; m < mpcs_.size(); ++m) {
    if (is_late(mpcs_[m]) && !tpc_launch_out.can_send(m)) return false;
  }
  protocol::TpcLaunchPacket packet;
  packet.shape = launch.shape;
  packet.tag.slot = launch.slot;
  for (std::uint32_t m = 0; m < mpcs_.size(); ++m) {
    if (!is_late(mpcs_[m])) continue;
    packet.raster = record_.tell(launch.slot, m, launch.shape, *launch.sync);
    tpc_launch_out.send_at(mpc_launches_.pass(now()), packet, m);
  }
  launch.sync.reset();
  return true;
}

// One packet per mask and MPC, in the order of the masks. False if an MPC has no place: then the rest goes later.
bool Gpm::hand_over(protocol::LaunchPacket& launch, const Heard& heard) {
  std::optional<protocol::CgaId> cga;
  if (launch.cga_ctas > 0) cga = cgas_.launching(launch);
  protocol::TpcLaunchPacket packet;
  protocol::grid_launch_of(packet) = protocol::grid_launch_of(launch);
  packet.tag = {launch.slot, launch.operation, launch.sequence, cga, tracked(launch), launch.barriers};
  if (launch.memory_slot) {
    packet.cga_memory = memory_.address(launch.subcontext, *launch.memory_slot);
  }
  for (std::size_t mask_number = 0; mask_number <= protocol::kFurtherMasks; ++mask_number) {
    std::uint64_t& mask = mask_number == 0 ? launch.sm_mask : launch.further_masks[mask_number - 1];
    HEDDLE_CHECK((mask & ~bits::below(gpc_.sms)) == 0, "a launch names an SM that the GPC does not have");
    while (mask != 0) {
      const std::uint32_t m = mpc_of(mpcs_, bits::lowest(mask));
      const std::uint64_t part = part_of(mask, mpcs_[m]);
      if (!tpc_launch_out.can_send(m)) return false;
      const std::uint32_t ctas = bits::count(part);
      packet.sm_mask = part;
      if (heard.followed) {
        packet.raster = record_.read(heard.slot, m, ctas, heard.unit > 0);
        record_.launch(heard.slot, ctas, heard.unit > 0, heard.listeners);
      }
      const Cycle departure = mpc_launches_.pass(now());
      if (packet.tag.in_any_cga()) cgas_.launch(packet.tag, m, part << mpcs_[m].first_sm);
      if (cga) {
        for (std::uint32_t i = 0; i < ctas; ++i) packet.entry_from = entries_.pass(departure + to_mpc_);
      }
      tpc_launch_out.send_at(departure, packet, m);
      mask &= ~(part << mpcs_[m].first_sm);
      live_ctas_ += ctas;
      stats_.ctas.add(ctas);
    }
  }
  return true;
}

// MPCs whose delta counter is full have to divide, whatever they do besides.
bool Gpm::empty_full_counters(const Heard& heard) {
  while (const std::optional<std::uint32_t> mpc = record_.due(heard.slot)) {
    if (!tpc_launch_out.can_send(*mpc)) return false;
    protocol::TpcLaunchPacket packet;
    packet.shape = record_.shape(heard.slot);
    packet.tag.slot = heard.slot;
    packet.raster = record_.overflow(heard.slot, *mpc);
    tpc_launch_out.send_at(std::max(heard.time, now()), packet, *mpc);
  }
  return true;
}

void Gpm::on_credit(std::uint32_t) { forward(); }

// Noted ahead of its arrival, here and below: the CTA that it is for must not be there before it.
void Gpm::on_local(const protocol::LocalMemoryPacket& local, std::uint32_t, Cycle arrival) {
  stats_.bits.add(local.bits);
  stats_.mpc_bits.add(std::uint64_t{local.bits} * mpcs_.size());
  if (local.virtual_gpc != virtual_gpc_) return;
  HEDDLE_CHECK(local.tpc < gpc_.tpcs.size(), "a local-memory block is for a TPC that the GPC does not have");
  for (std::uint32_t m = 0; m < mpcs_.size(); ++m) {
    if (mpcs_[m].tpc == local.tpc) local_out.send_at(arrival, local, m);
  }
}

void Gpm::on_abort(const protocol::AbortPacket& abort, std::uint32_t) {
  for (std::uint32_t m = 0; m < mpcs_.size(); ++m) abort_out.send(abort, m);
}

// To all MPCs of the TPC; each knows the numbers of its own SMs from those of the TPC's first one.
void Gpm::on_part(const protocol::PartPacket& part, std::uint32_t) {
  for (std::uint32_t m = 0; m < mpcs_.size(); ++m) {
    if (mpcs_[m].tpc == part.tpc) part_out.send(part, m);
  }
}

void Gpm::on_complete(const protocol::CtaCompletePacket& complete, std::uint32_t mpc) {
  HEDDLE_CHECK(live_ctas_ > 0, "a completion without a launch");
  --live_ctas_;
  const std::uint32_t sm = sm_of(mpc, complete.sm_in_tpc);
  gather(complete, sm, complete.tag.in_any_cga() ? cgas_.cta_done(complete, sm) : 0);
}

// One bit per SM: two CTAs of one SM, two sm_cga_slots of one, or CTAs that gave back different parts of their shared
// memory, take a packet each.
void Gpm::gather(const protocol::CtaCompletePacket& complete, std::uint32_t sm, std::uint64_t cga_slots) {
  const protocol::CtaTag& tag = complete.tag;
  const std::uint64_t bit = bits::one(sm);
  const std::uint64_t sequence = tag.tracked ? tag.sequence : 0;
  if (gathered_.empty()) domain_.schedule(now(), *this, kGathered);
  for (protocol::CompletePacket& packet : gathered_) {
    if (packet.slot == tag.slot && packet.sequence == sequence && (packet.sm_mask & bit) == 0 &&
        packet.preempted == complete.preempted && packet.released_shared_bytes == complete.released_shared_bytes &&
        (packet.cga_slots & cga_slots) == 0) {
      packet.sm_mask |= bit;
      packet.cga_slots |= cga_slots;
      packet.faulted = packet.faulted || complete.faulted;
      return;
    }
  }
  gathered_.push_back({tag.slot, bit, sequence, tag.tracked, complete.faulted, complete.released_shared_bytes,
                       cga_slots, complete.preempted});
}

void Gpm::on_event(std::uint32_t kind, std::uint64_t /*argument*/) {
  if (kind == kForward) {
    wake_.reset();
    forward();
    return;
  }
  for (const protocol::CompletePacket& packet : gathered_) complete_out.send(packet);
  gathered_.clear();
}

// Heard ahead of their arrival.
void Gpm::on_notice(const protocol::ClusterNoticePacket& notice, std::uint32_t mpc, Cycle arrival) {
  switch (notice.kind) {
    case protocol::ClusterNoticePacket::Kind::shared_released:
      shared_out.send_at(arrival, {notice.tag.slot, protocol::SmInGpc(sm_of(mpc, notice.sm_in_tpc)), notice.bytes});
      break;
    case protocol::ClusterNoticePacket::Kind::trap:
      trap(notice.tag, arrival);
      break;
    default:
      cgas_.notice(notice, mpc, arrival);
      break;
  }
}

// An error whose CTA has gone ends the task as a fault of a CTA does; if its CGA has gone too, it matters to none
// (CGA-08).
void Gpm::trap(const protocol::CtaTag& tag, Cycle when) {
  if (!cgas_.is_open(tag)) return;
  stats_.traps.add();
  protocol::CompletePacket packet;
  packet.slot = tag.slot;
  packet.faulted = true;
  complete_out.send_at(when, packet);
}

void Gpm::collect_waits(WaitGraph& graph) const {
  cgas_.collect_waits(graph);
  if (!own_.empty()) {
    const protocol::LaunchPacket& launch = own_.front();
    const bool begins = launch.cga_ctas > 0 && launch.cga_first;
    graph.add(gpu_observation(domain_).labels.of(launch.operation),
              begins ? cgas_.what_lacks() : "for a place in the queues of the MPCs of",
              domain_.observation().prefix + "." + path());
  }
  // Last: what is waited for goes before what only explains it.
  cgas_.show_exited(graph);
}

}  // namespace heddle::gpc
