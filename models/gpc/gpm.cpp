#include "gpc/gpm.h"

#include <fmt/format.h>

namespace heddle::gpc {
namespace {

// A TPC's part of a GPC's SM mask.
std::uint64_t part_of(std::uint64_t mask, const arch::Topology::Tpc& tpc) {
  const std::uint64_t ones = tpc.sms >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << tpc.sms) - 1;
  return mask >> tpc.first_sm & ones;
}

}  // namespace

Gpm::Gpm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpcParams& params,
         const arch::Topology::Gpc& gpc)
    : Block(name, domain, path),
      launch_in("launch_in", domain, params.gpm_to_cwd, CreditReturn::by_owner),
      complete_out("complete_out", domain, params.gpm_to_cwd, kUnlimitedCredits),  // bounded by the CTAs that run
      tpc_launch_out("tpc_launch_out", domain, params.gpm_to_mpc, params.mpc_queue),
      complete_in("complete_in"),
      gpc_(gpc),
      ctas_(counter("ctas", "CTAs", "CTAs started on this GPC")) {
  launch_in.on_packet<Gpm, &Gpm::on_launch>(*this);
  tpc_launch_out.on_credit<Gpm, &Gpm::on_credit>(*this);
  complete_in.init(gpc.tpcs.size(), [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::CtaCompletePacket>(socket, domain, params.gpm_to_mpc);
  });
  for (std::uint32_t t = 0; t < gpc.tpcs.size(); ++t) complete_in[t].on_packet<Gpm, &Gpm::on_complete>(*this, t);
}

void Gpm::reset() {
  launches_.clear();
  gathered_.clear();
  live_ctas_ = 0;
}

void Gpm::on_launch(const protocol::LaunchPacket& launch, std::uint32_t) {
  HEDDLE_CHECK(
      launch.sm_mask != 0 && launch.num_ctas == static_cast<std::uint32_t>(__builtin_popcountll(launch.sm_mask)),
      "a launch packet's CTA count differs from its mask");
  launches_.push_back(launch);
  forward();
}

// In order: a packet whose MPC has no place holds back those behind it.
void Gpm::forward() {
  while (!launches_.empty()) {
    protocol::LaunchPacket& launch = launches_.front();
    for (std::uint32_t t = 0; t < gpc_.tpcs.size() && launch.sm_mask != 0; ++t) {
      const arch::Topology::Tpc& tpc = gpc_.tpcs[t];
      const std::uint64_t part = part_of(launch.sm_mask, tpc);
      if (part == 0) continue;
      if (!tpc_launch_out.can_send(t)) return;
      tpc_launch_out.send({launch.slot, launch.operation, part, launch.raster, launch.need, launch.duration}, t);
      const auto ctas = static_cast<std::uint32_t>(__builtin_popcountll(part));
      launch.raster += ctas;
      launch.sm_mask &= ~(part << tpc.first_sm);
      live_ctas_ += ctas;
      ctas_.add(ctas);
    }
    HEDDLE_CHECK(launch.sm_mask == 0, "a launch names an SM that the GPC does not have");
    launches_.pop_front();
    launch_in.return_credit();
  }
}

void Gpm::on_credit(std::uint32_t) { forward(); }

void Gpm::on_complete(const protocol::CtaCompletePacket& complete, std::uint32_t tpc) {
  HEDDLE_CHECK(live_ctas_ > 0, "a completion without a launch");
  --live_ctas_;
  const std::uint64_t bit = std::uint64_t{1} << (gpc_.tpcs[tpc].first_sm + complete.sm_in_tpc);
  if (gathered_.empty()) domain_.schedule(now(), *this, 0);
  for (protocol::CompletePacket& packet : gathered_) {
    if (packet.slot == complete.slot && (packet.sm_mask & bit) == 0) {
      packet.sm_mask |= bit;
      return;
    }
  }
  gathered_.push_back({complete.slot, bit});
}

void Gpm::on_event(std::uint32_t, std::uint64_t) {
  for (const protocol::CompletePacket& packet : gathered_) complete_out.send(packet);
  gathered_.clear();
}

void Gpm::collect_waits(WaitGraph& graph) const {
  if (!launches_.empty()) {
    graph.add(domain_.observation().labels.of(launches_.front().operation), "for a place in the queues of the MPCs of",
              domain_.observation().prefix + "." + path());
  }
}

}  // namespace heddle::gpc
