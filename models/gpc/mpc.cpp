#include "gpc/mpc.h"

#include <algorithm>

namespace heddle::gpc {

Mpc::Mpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
         std::uint32_t sms, std::uint32_t cta_slots)
    : Block(name, domain, path),
      launch_in("launch_in", domain, params.gpm_to_mpc),
      local_in("local_in", domain, params.gpm_to_mpc),
      abort_in("abort_in", domain, params.gpm_to_mpc),
      start_out("start_out", domain, params.mpc_to_sm, kUnlimitedCredits),  // bounded by the CTA slots
      abort_out("abort_out", domain, params.mpc_to_sm, kUnlimitedCredits),  // at most one per task
      exit_in("exit_in"),
      complete_out("complete_out", domain, params.gpm_to_mpc, kUnlimitedCredits),
      raster_cycles_(domain.cost(params.raster_cycles)),
      delta_bits_(params.delta_bits),
      slots_(sms, CtaSlots(cta_slots)),
      updates_(counter("raster_updates", "updates", "raster positions decomposed for launches on this TPC")),
      overflows_(counter("delta_overflows", "overflows",
                         "times that launches elsewhere filled a delta counter, up to this TPC's last launch")) {
  local_blocks_.fill(kNoLocalMemory);
  launch_in.on_packet<Mpc, &Mpc::on_launch>(*this);
  local_in.on_packet<Mpc, &Mpc::on_local>(*this);
  abort_in.on_packet<Mpc, &Mpc::on_abort>(*this);
  exit_in.init(sms, [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::CtaExitPacket>(socket, domain, params.mpc_to_sm);
  });
  for (std::uint32_t i = 0; i < sms; ++i) exit_in[i].on_packet_ahead<Mpc, &Mpc::on_exit>(*this, i);
}

void Mpc::reset() {
  for (CtaSlots& slots : slots_) slots.reset();
  followers_.clear();
  raster_free_ = 0;
  local_blocks_.fill(kNoLocalMemory);
}

// One raster state per slot of the task table: concurrent grids do not disturb each other, and a new grid begins anew
// (CWD-42).
RasterFollower& Mpc::follower_of(const protocol::TpcLaunchPacket& launch) {
  if (launch.tag.slot >= followers_.size()) followers_.resize(launch.tag.slot + 1);
  std::optional<RasterFollower>& follower = followers_[launch.tag.slot];
  if (!follower || follower->operation() != launch.tag.operation) {
    follower.emplace(launch.tag.operation, launch.shape, delta_bits_);
  }
  if (launch.late) follower->join(launch.raster, launch.late_coord);
  return *follower;
}

// The raster unit delivers one id after another: a start leaves when its id is there. Ids from a central rasteriser
// pass it by (CWD-43).
void Mpc::on_launch(const protocol::TpcLaunchPacket& launch, std::uint32_t) {
  RasterFollower* follower = launch.has_id ? nullptr : &follower_of(launch);
  const std::uint64_t updates = follower != nullptr ? follower->updates() : 0;
  const std::uint64_t overflows = follower != nullptr ? follower->overflows() : 0;
  protocol::CtaStartPacket start;
  start.tag = launch.tag;
  start.order = launch.raster;
  start.id = launch.id;
  start.need = launch.need;
  start.duration = launch.duration;
  start.code = launch.code;
  start.departure = launch.departure;
  for (std::uint64_t mask = launch.sm_mask; mask != 0; mask &= mask - 1) {
    const auto sm = static_cast<std::uint32_t>(__builtin_ctzll(mask));
    HEDDLE_CHECK(sm < slots_.size(), "a launch names an SM that the TPC does not have");
    start.cta_slot = slots_[sm].take();
    Cycle ready = now();
    if (follower != nullptr) {
      start.id = follower->locate(launch.shape, start.order);
      ready = std::max(ready, raster_free_);
      raster_free_ = ready + raster_cycles_;
    }
    start_out.send_at(ready, start, sm);
    ++start.order;
  }
  if (follower == nullptr) return;
  updates_.add(follower->updates() - updates);
  overflows_.add(follower->overflows() - overflows);
}

void Mpc::on_local(const protocol::LocalMemoryPacket& local, std::uint32_t) {
  HEDDLE_CHECK(local.subcontext < local_blocks_.size(), "a local-memory block is for a subcontext that does not exist");
  local_blocks_[local.subcontext] = local.block;
}

void Mpc::on_abort(const protocol::AbortPacket& abort, std::uint32_t) {
  for (std::uint32_t sm = 0; sm < slots_.size(); ++sm) abort_out.send(abort, sm);
}

// Ahead of the packet's arrival: nobody can ask for the slot before the distributor has heard of the completion.
void Mpc::on_exit(const protocol::CtaExitPacket& exit, std::uint32_t sm, Cycle arrival) {
  slots_[sm].give(exit.cta_slot);
  complete_out.send_at(arrival, {exit.tag, sm, exit.faulted});
}

void Mpc::collect_waits(WaitGraph&) const {}  // an MPC passes on whatever it takes in, once its raster unit is free

}  // namespace heddle::gpc
