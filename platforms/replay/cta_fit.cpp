#include "replay/cta_fit.h"

#include <algorithm>
#include <cmath>

#include "gpu/gpu.h"
#include "gpu/residency.h"

namespace heddle::replay {

SoloKernel::SoloKernel(const gpu::GpuParams& params, const arch::KernelShape& kernel) {
  const bool at = params.machine.timing == TimingMode::at;
  const auto cost = [at](double cycles) { return at ? cycles : 0.0; };
  sms_ = params.machine.shape.sms();
  const arch::SmLimits& limits = params.sm.limits;
  ctas_ = static_cast<double>(kernel.grid.count());
  clustered_ = kernel.cluster.any();
  const auto gpcs = static_cast<double>(params.machine.shape.gpcs.size());
  double decision = 0;  // cycles per CTA that finding homes for its cluster takes
  session_ = static_cast<double>(params.start_path()) - params.task.to_cwd;
  if (clustered_) {
    const arch::ClusterShape& cluster = kernel.cluster;
    const double size = static_cast<double>(cluster.of(cluster.outermost()).count());
    slots_ = static_cast<double>(residency(params, kernel).cgas) * size;
    // A launch packet starts the CTAs of one GPC_CGA at most.
    packet_ =
        cluster.has(arch::CgaLevel::gpc) ? static_cast<double>(cluster.of(arch::CgaLevel::gpc).count()) : sms_ / gpcs;
    // A step of the session asks all GPCs; those that tie, about half of them, receive a cluster.
    const double step = 2.0 * params.cwd.query_distance + params.cwd.session_step;
    decision = step / (packet_ * std::max(1.0, gpcs / 2));
    session_ = params.cwd.session_pipeline + step + params.cwd.query_distance + params.cwd.mask_cycles;
  } else {
    slots_ = sms_ * arch::free_slots(arch::capacity_of(limits), {}, arch::need_of(limits, kernel));
    packet_ = sms_ / gpcs;
  }
  HEDDLE_CHECK(slots_ > 0, "a kernel that can never run is to be fitted");
  // A GPC takes in gpc_queue packets per round trip of their credits.
  const double round_trip = params.cwd.gpc_distance + params.gpc.gpm_to_cwd;
  interval_ = cost(std::max({1.0 / params.cwd.ctas_per_cycle, 1.0 / (params.cwd.packets_per_cycle * packet_),
                             round_trip / (params.cwd.gpc_queue * packet_ * gpcs), decision}));
  way_there_ = cost(params.cwd.gpc_distance + params.gpc.gpm_to_mpc + params.gpc.mpc_to_sm + params.sm.start_cycles);
  // The second CTA of a TPC waits for the first one's id. A few CTAs of a plain grid lie on TPCs of their own.
  if (clustered_ ? packet_ > 1 : 2 * ctas_ > sms_) way_there_ += cost(params.gpc.raster_cycles);
  way_back_ = cost(params.gpc.mpc_to_sm + params.gpc.gpm_to_mpc + params.gpc.gpm_to_cwd);
  // The flush of a cluster: to its SMs and back, and what the GPM takes.
  if (clustered_ && kernel.cluster.has(arch::CgaLevel::gpc)) {
    way_back_ += cost(2.0 * (params.gpc.gpm_to_mpc + params.gpc.mpc_to_sm) + params.gpc.cga_flush);
  }
  session_ = cost(session_);
}

double SoloKernel::duration(double cta_cycles) const {
  const double waves = std::floor((ctas_ - 1) / slots_);
  const double rest = ctas_ - 1 - waves * slots_;
  // A slot is used again after the CTA's run, the way back, a session, and the way there.
  const double period = std::max(slots_ * interval_, way_there_ + cta_cycles + way_back_ + session_);
  // The CTAs of one packet start together: the last packet leaves that much before its last CTA's share of the port.
  // On an empty machine the last level spreads what is left of the grid over all GPCs; later, CTAs follow those that
  // end, in packets of any size: half of a full one, say.
  const double last_level = std::fmod(rest, sms_) + 1;
  // A cluster starts as a whole, whenever it does.
  const double together = clustered_  ? std::min(rest, packet_ - 1)
                          : waves > 0 ? std::min(rest, (packet_ - 1) / 2)
                                      : std::max(0.0, last_level / sms_ * packet_ - 1);
  return waves * period + (rest - together) * interval_ + way_there_ + cta_cycles + way_back_;
}

std::uint64_t SoloKernel::fit(double cycles) const {
  double low = 1;
  double high = std::max(1.0, cycles);
  if (duration(low) >= cycles) return 1;
  while (high - low > 0.25) {
    const double middle = (low + high) / 2;
    (duration(middle) < cycles ? low : high) = middle;
  }
  return static_cast<std::uint64_t>(std::max(1.0, std::round((low + high) / 2)));
}

}  // namespace heddle::replay
