// The widths that several structures share (gpu/structure_bits.h), and how these are put together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arch/address_map.h"
#include "arch/sm_limits.h"
#include "arch/task_record.h"
#include "common/packet_port.h"
#include "cwd/launch_bits.h"
#include "gpu/structure_bits.h"

namespace heddle::gpu {

// Ids of CWD-40, and extents of grids.
inline constexpr std::uint32_t kIdBits[] = {32, 16, 16};
constexpr std::uint32_t kAllIdBits = 64;
constexpr std::uint32_t kArrivalBits = 60;  // number of a task's arrival in the task table

struct Widths {
  explicit Widths(const GpuParams& its_params)
      : params(its_params), topology(topology_of(its_params)), capacity(arch::capacity_of(its_params.sm.limits)) {
    for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
      const arch::Topology::Gpc& its = topology.gpc(g);
      sms_of_gpc = std::max(sms_of_gpc, its.sms);
      cpcs_of_gpc = std::max(cpcs_of_gpc, its.cpcs);
      tpcs_of_gpc = std::max(tpcs_of_gpc, static_cast<std::uint32_t>(its.tpcs.size()));
      tpcs += static_cast<std::uint32_t>(its.tpcs.size());
      for (const arch::Topology::Tpc& one : its.tpcs) sms_of_tpc = std::max(sms_of_tpc, one.sms);
    }
    const bool shared = params.gpc.mpc == gpc::MpcPer::tpc;
    mpcs = shared ? tpcs : topology.sms();
    sms_of_mpc = shared ? sms_of_tpc : 1;
    mpcs_of_gpc = shared ? tpcs_of_gpc : sms_of_gpc;
    cgas_per_gpc = gpu::cgas_per_gpc(params);
    const arch::SmLimits& limits = params.sm.limits;
    ctas = limits.ctas;
    tasks = std::uint64_t{params.cwd.table_slots} + params.cwd.evicted_tasks;
    task = index_bits(tasks);
    gpc = index_bits(topology.gpcs());
    tpc = index_bits(tpcs_of_gpc);
    sm_in_tpc = index_bits(sms_of_tpc);
    sm_in_gpc = index_bits(sms_of_gpc);
    cta_slot = index_bits(ctas);
    free_slots = count_bits(ctas);
    gpc_ctas = count_bits(std::uint64_t{sms_of_gpc} * ctas);
    cga_ctas = count_bits(params.cwd.max_gpc_cga);
    cga = index_bits(params.gpc.cga_ids);
    rank = index_bits(arch::kMaxCgaCtas);
    barrier = index_bits(params.gpc.cga_barriers);
    gpu_barrier = index_bits(params.cwd.gpu_cga_barriers);
    sm_cga_slot = index_bits(limits.cga_slots);
    sequence = cwd::LaunchBits::kSequence;
    subcontext = index_bits(arch::kSubcontexts);
    blocks = params.cwd.local_memory_blocks == 0 ? tpcs : params.cwd.local_memory_blocks;
    block = index_bits(blocks);
    memory_slot = index_bits(params.cwd.memory_slots);
    granules = limits.shared_bytes / limits.shared_granularity;
    session_cgas = std::min<std::uint64_t>(params.cwd.session_limit, std::uint64_t{topology.sms()} * ctas);
    session = count_bits(session_cgas);
    session_cgas_of_gpc = std::min<std::uint64_t>(session_cgas, cgas_per_gpc);
  }

  // Of a count of that resource on an SM, in the units in which CTAs take it.
  std::uint32_t resource(arch::Resource which) const {
    const arch::SmLimits& limits = params.sm.limits;
    std::uint32_t unit = 1;
    if (which == arch::Resource::registers) unit = limits.register_granularity;
    if (which == arch::Resource::shared_bytes) unit = limits.shared_granularity;
    return count_bits(capacity[which] / unit);
  }
  // What a CTA takes, or an SM has in use.
  std::vector<BitField> resources() const {
    std::vector<BitField> fields;
    for (std::size_t i = 0; i < arch::kResources; ++i) {
      const auto which = static_cast<arch::Resource>(i);
      fields.push_back({arch::resource_name(which), resource(which)});
    }
    return fields;
  }

  const GpuParams& params;
  const arch::Topology topology;
  const arch::ResourceVector capacity;
  // Numbers. Of GPCs and TPCs: the largest of the machine.
  std::uint32_t sms_of_gpc = 0;
  std::uint32_t tpcs_of_gpc = 0;
  std::uint32_t cpcs_of_gpc = 0;
  std::uint32_t sms_of_tpc = 0;
  std::uint32_t tpcs = 0;
  std::uint32_t mpcs = 0;
  std::uint32_t sms_of_mpc = 0;
  std::uint32_t mpcs_of_gpc = 0;
  std::uint64_t tasks = 0;  // numbers of tasks: slots of the task table, and evicted tasks
  std::uint32_t ctas = 0;   // slots of an SM
  std::uint32_t cgas_per_gpc = 0;
  std::uint64_t session_cgas = 0;         // most CGAs, or CTAs, of a session
  std::uint64_t session_cgas_of_gpc = 0;  // most GPC_CGAs of it on one GPC
  std::uint32_t blocks = 0;               // of local memory
  std::uint32_t granules = 0;             // of shared memory
  // Widths.
  std::uint32_t task = 0;  // number of a task
  std::uint32_t gpc = 0;
  std::uint32_t tpc = 0;  // in its GPC
  std::uint32_t sm_in_tpc = 0;
  std::uint32_t sm_in_gpc = 0;
  std::uint32_t cta_slot = 0;
  std::uint32_t free_slots = 0;
  std::uint32_t gpc_ctas = 0;     // a count of CTAs on a GPC
  std::uint32_t cga_ctas = 0;     // a count of CTAs of a GPC_CGA
  std::uint32_t cga = 0;          // gpc_local_cga_id
  std::uint32_t rank = 0;         // cta_id_in_cga
  std::uint32_t barrier = 0;      // barrier slot of a GPC
  std::uint32_t gpu_barrier = 0;  // of GPU_CGAs and uGPU_CGAs
  std::uint32_t sm_cga_slot = 0;
  std::uint32_t sequence = 0;  // CGA sequence number: those that can be under way
  std::uint32_t subcontext = 0;
  std::uint32_t block = 0;        // of local memory
  std::uint32_t memory_slot = 0;  // of a subcontext's CGA linear memory
  std::uint32_t session = 0;      // CTAs of a session
};

using Fields = std::vector<BitField>;

inline Fields joined(Fields first, const Fields& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}
inline Fields extents_fields(const std::string& of) {
  return {{of + " x", kIdBits[0]}, {of + " y", kIdBits[1]}, {of + " z", kIdBits[2]}};
}

inline AccessLaw counted(const char* statistic, double times = 1) { return {statistic, nullptr, times}; }
template <class Packet>
AccessLaw sent(double times = 1) {
  return {{}, packet_kind<Packet>(), times};
}
// A statistic of every GPC2SM unit, times the SMs of its GPC.
inline std::vector<AccessLaw> by_sms(const Widths& w, const char* statistic) {
  std::vector<AccessLaw> laws;
  for (std::uint32_t g = 0; g < w.topology.gpcs(); ++g) {
    laws.push_back(
        {"cwd.gpc2sm" + std::to_string(g) + "." + statistic, nullptr, static_cast<double>(w.topology.gpc(g).sms)});
  }
  return laws;
}

// A statistic of every GPC2SM unit.
inline std::vector<AccessLaw> sum_over_gpcs(const Widths& w, const char* statistic) {
  std::vector<AccessLaw> laws;
  for (std::uint32_t g = 0; g < w.topology.gpcs(); ++g) {
    laws.push_back({"cwd.gpc2sm" + std::to_string(g) + "." + statistic, nullptr, 1});
  }
  return laws;
}

// Launch packets, as often as an MPC hears one: every MPC those that come to its GPC.
inline std::vector<AccessLaw> heard_by_mpcs(const Widths& w) {
  std::vector<AccessLaw> laws;
  for (std::uint32_t g = 0; g < w.topology.gpcs(); ++g) {
    const arch::Topology::Gpc& its = w.topology.gpc(g);
    const std::size_t mpcs = w.params.gpc.mpc == gpc::MpcPer::tpc ? its.tpcs.size() : its.sms;
    laws.push_back({"gpc" + std::to_string(g) + ".gpm.packets_heard", nullptr, static_cast<double>(mpcs)});
  }
  return laws;
}

// GPC_CGAs that have been started, times what each of them costs an SM of its GPC: every SM takes part.
inline std::vector<AccessLaw> cgas_by_sms(const Widths& w, double times) {
  std::vector<AccessLaw> laws;
  for (std::uint32_t g = 0; g < w.topology.gpcs(); ++g) {
    laws.push_back({"gpc" + std::to_string(g) + ".gpm.cgas", nullptr, times * w.topology.gpc(g).sms});
  }
  return laws;
}

// What lies in tables or queues as it came in a packet.
Fields launch_fields(const Widths& w);
Fields mpc_launch_fields(const Widths& w);
Fields complete_fields(const Widths& w);
Fields cga_complete_fields(const Widths& w);
Fields report_fields(const Widths& w);
Fields part_fields(const Widths& w);
Fields query_fields(const Widths& w);
Fields waiting_fields(const Widths& w);
Fields tie_fields(const Widths& w);
// The barriers of the wide CGAs around a CTA.
Fields wide_barrier_fields(const Widths& w);

// The catalogue, part by part.
void add_distributor(const Widths& w, std::vector<Structure>& list);
void add_sessions(const Widths& w, std::vector<Structure>& list);
void add_gpcs(const Widths& w, std::vector<Structure>& list);
void add_sms(const Widths& w, std::vector<Structure>& list);
void add_packets(const Widths& w, std::vector<Structure>& list);

}  // namespace heddle::gpu
