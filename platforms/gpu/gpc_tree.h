// The containers between the GPU and its SMs: GPC -> CPC -> TPC -> SM. They hold and wire, and have no behaviour.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpc/gpm.h"
#include "gpc/mpc.h"
#include "gpc/sm_network.h"
#include "gpu/gpu_params.h"
#include "sm/sm.h"
#include "tmau/tmau.h"

namespace heddle::gpu {

// What all GPCs of a machine share.
struct MachineContext {
  Domain& domain;
  const GpuParams& params;
  std::uint64_t seed = 1;  // of CTA durations
  const arch::CodeStore& code;
  const arch::AddressMap& map;
  std::uint32_t sms = 0;     // of the machine
  std::uint64_t memory = 0;  // bytes that tensor memory access units may address
  gpc::CgaMemoryPool cga_memory;
  const arch::LaunchMemory& nested;
};

// A GPC as its parts see it while they are built.
struct GpcContext {
  const MachineContext& machine;
  const arch::Topology::Gpc& shape;
  std::uint32_t number = 0;  // in the machine
  std::string path;          // of its statistics
};

class Tpc : public sc_core::sc_module {
 public:
  // `path`: of its statistics. `number`: in its GPC.
  Tpc(const sc_core::sc_module_name& name, const GpcContext& gpc, const std::string& path, std::uint32_t number);
  ~Tpc() override;

  gpc::Mpc mpc;
  std::vector<std::unique_ptr<sm::Sm>> sms;
};

class Cpc : public sc_core::sc_module {
 public:
  // `number`: in its GPC.
  Cpc(const sc_core::sc_module_name& name, const GpcContext& gpc, std::uint32_t number);
  ~Cpc() override;

  std::vector<std::unique_ptr<Tpc>> tpcs;  // in the order of the GPC's masks
};

class Gpc : public sc_core::sc_module {
 public:
  Gpc(const sc_core::sc_module_name& name, const GpcContext& gpc);
  ~Gpc() override;

  gpc::Gpm gpm;
  gpc::SmNetwork network;
  std::vector<std::unique_ptr<Cpc>> cpcs;
  std::vector<std::unique_ptr<tmau::Tmau>> tmaus;  // each serves gpu.tmau.sms SMs, in the order of the GPC's masks

  // The unit of an SM, and its place among those of the unit.
  tmau::Tmau& tmau_of(std::uint32_t in_gpc) { return *tmaus[in_gpc / sms_per_tmau_]; }
  std::uint32_t place_at_tmau(std::uint32_t in_gpc) const { return in_gpc % sms_per_tmau_; }

 private:
  void wire(const arch::Topology::Gpc& shape);
  void add_tmaus(const GpcContext& gpc);
  void wire_tmaus(const std::vector<sm::Sm*>& sms);

  std::uint32_t sms_per_tmau_;
};

}  // namespace heddle::gpu
