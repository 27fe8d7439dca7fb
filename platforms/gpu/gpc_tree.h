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

// What all SMs of a machine share.
struct SmSurroundings {
  std::uint64_t seed = 1;  // of CTA durations
  const arch::CodeStore& code;
  const arch::AddressMap& map;
  std::uint32_t sms = 0;     // of the machine
  std::uint64_t memory = 0;  // bytes of device memory
  gpc::CgaMemoryPool cga_memory;
  const arch::NestedMemory& nested;
};

class Tpc : public sc_core::sc_module {
 public:
  // `number`: of the TPC in its GPC; `gpc_number`: of that in the machine.
  Tpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpuParams& params,
      const arch::Topology::Gpc& gpc, std::uint32_t number, std::uint32_t gpc_number, const SmSurroundings& around);
  ~Tpc() override;

  gpc::Mpc mpc;
  std::vector<std::unique_ptr<sm::Sm>> sms;
};

class Cpc : public sc_core::sc_module {
 public:
  // `index`: of the CPC in its GPC. `path`: of the GPC. `gpc_number`: of that in the machine.
  Cpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpuParams& params,
      const arch::Topology::Gpc& gpc, std::uint32_t index, std::uint32_t gpc_number, const SmSurroundings& around);
  ~Cpc() override;

  std::vector<std::unique_ptr<Tpc>> tpcs;  // in the order of the GPC's masks
};

class Gpc : public sc_core::sc_module {
 public:
  // `number`: of the GPC in the machine.
  Gpc(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const GpuParams& params,
      const arch::Topology::Gpc& gpc, std::uint32_t number, const SmSurroundings& around);
  ~Gpc() override;

  gpc::Gpm gpm;
  gpc::SmNetwork network;
  std::vector<std::unique_ptr<Cpc>> cpcs;
  std::vector<std::unique_ptr<tmau::Tmau>> tmaus;  // each serves gpu.tmau.sms SMs, in the order of the GPC's masks

  // The unit of an SM, and its place among those of the unit.
  tmau::Tmau& tmau_of(std::uint32_t in_gpc) { return *tmaus[in_gpc / sms_per_tmau_]; }
  std::uint32_t place_at_tmau(std::uint32_t in_gpc) const { return in_gpc % sms_per_tmau_; }

 private:
  void wire(const arch::Topology::Gpc& gpc);
  void add_tmaus(Domain& domain, const std::string& path, const GpuParams& params, const arch::Topology::Gpc& gpc,
                 std::uint32_t number, std::uint64_t memory);
  void wire_tmaus(const std::vector<sm::Sm*>& sms);

  std::uint32_t sms_per_tmau_;
};

}  // namespace heddle::gpu
