#include "gpu/gpu.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::gpu {
namespace {

const GpuParams& checked(const GpuParams& params) {
  params.check();
  return params;
}

}  // namespace

Cycle Gpu::start_path(const GpuParams& params) {
  // A grid on an empty machine: the bisection always takes the same steps, the scan one if the grid is small.
  Cycle steps = 1;
  if (params.cwd.level_search == cwd::LevelSearch::bisection) {
    steps = 0;
    for (std::uint32_t top = 1; top <= params.sm.limits.ctas; top *= 2) ++steps;
  }
  return Cycle{params.task.to_cwd} + params.cwd.session_pipeline + steps * params.cwd.session_step;
}

Gpu::Gpu(const sc_core::sc_module_name& name, const GpuParams& params, std::uint64_t seed, Observation& observation,
         DeviceMemory memory)
    : sc_core::sc_module(name),
      params_(checked(params)),
      topology_(params.machine.shape, params.machine.ugpus),
      domain_("domain", params.machine.clock, params.machine.timing, params.machine.run_ahead, observation),
      task_("task", domain_, "task", params.task, params.sm.limits, start_path(params), params.cwd.table_slots),
      cwd_("cwd", domain_, "cwd", params.cwd, topology_, arch::capacity_of(params.sm.limits),
           {params.gpc.cga_ids, params.gpc.cga_barriers}),
      memory_("memory", domain_, params, topology_, memory) {
  observation.load_map.configure(topology_.sms(), params.sm.limits.warps);
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    const std::string gpc_name = fmt::format("gpc{}", g);
    GpuParams own = params_;
    if (!params.cwd.gpc_distances.empty()) own.gpc.gpm_to_cwd = params.cwd.gpc_distances[g];
    gpcs_.push_back(std::make_unique<Gpc>(
        gpc_name.c_str(), domain_, gpc_name, own, topology_.gpc(g), g,
        SmSurroundings{seed, codes_, memory_.map, topology_.sms(), memory_.map.bytes(), params.cga_memory()}));
  }
  std::vector<std::vector<std::uint32_t>> sms;
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) sms.push_back(topology_.gpc(g).sm_ids);
  observation.clusters.configure(std::move(sms));
  wire();
}

void Gpu::wire() {
  task_.task_out.bind(cwd_.task_in);
  task_.control_out.bind(cwd_.control_in);
  cwd_.done_out.bind(task_.task_done_in);
  for (std::uint32_t g = 0; g < gpcs_.size(); ++g) {
    cwd_.launch_out.bind(gpcs_[g]->gpm.launch_in);
    cwd_.local_out.bind(gpcs_[g]->gpm.local_in);
    cwd_.abort_out.bind(gpcs_[g]->gpm.abort_in);
    gpcs_[g]->gpm.complete_out.bind(cwd_.complete_in[g]);
    gpcs_[g]->gpm.cga_out.bind(cwd_.cga_in[g]);
    gpcs_[g]->gpm.shared_out.bind(cwd_.shared_in[g]);
  }
  for (std::uint32_t id = 0; id < topology_.sms(); ++id) {
    sm(id).memory_out.bind(memory_.crossbar.sm_in(id));
    const arch::Topology::Sm& place = topology_.sm(id);
    Gpc& gpc = *gpcs_[place.gpc];
    const std::uint32_t bit = topology_.gpc(place.gpc).tpcs[place.tpc].first_sm + place.in_tpc;
    tmau::Tmau& unit = gpc.tmau_of(bit);
    unit.memory_out(gpc.place_at_tmau(bit)).bind(memory_.crossbar.bulk_in(id));
    memory_.crossbar.multicast_out(id).bind(unit.multicast_in[gpc.place_at_tmau(bit)]);
    sm(id).on_fault([this](const arch::FaultRecord& fault) { faults_.push_back(fault); });
  }
}

sm::Sm& Gpu::sm(std::uint32_t id) {
  const arch::Topology::Sm& place = topology_.sm(id);
  const Gpc& gpc = *gpcs_[place.gpc];
  std::uint32_t tpc = place.tpc;
  for (const auto& cpc : gpc.cpcs) {
    if (tpc < cpc->tpcs.size()) return *cpc->tpcs[tpc]->sms[place.in_tpc];
    tpc -= static_cast<std::uint32_t>(cpc->tpcs.size());
  }
  HEDDLE_CHECK(false, "an SM has no place in the tree");
  std::terminate();
}

void Gpu::preload(const std::vector<SmLoad>& loads) {
  std::vector<arch::ResourceVector> sums(topology_.sms());
  const arch::ResourceVector capacity = arch::capacity_of(params_.sm.limits);
  for (const SmLoad& load : loads) {
    if (load.sm >= topology_.sms()) {
      throw InputError(
          fmt::format("a load names SM {}, but the machine has SMs 0 to {}", load.sm, topology_.sms() - 1));
    }
    sums[load.sm].add(load.amount);
    for (std::size_t i = 0; i < arch::kResources; ++i) {
      if (sums[load.sm].amount[i] <= capacity.amount[i]) continue;
      throw InputError(fmt::format("SM {} cannot hold its load: {} of {}, it has {}", load.sm, sums[load.sm].amount[i],
                                   arch::resource_name(static_cast<arch::Resource>(i)), capacity.amount[i]));
    }
  }
  for (const SmLoad& load : loads) {
    cwd_.preload(load.sm, load.amount, load.until);
    sm(load.sm).preload(load.amount, load.until);
  }
}

// Line by line, since slices take no more at once. Before simulation links are not there yet, and caches are empty.
bool Gpu::move_memory(tlm::tlm_command command, std::uint64_t address, std::uint8_t* data, std::uint64_t bytes) {
  if (!memory_.map.contains(address, bytes)) return false;
  if (!sc_core::sc_start_of_simulation_invoked()) {
    if (memory_.hbm == nullptr) return false;
    if (command == tlm::TLM_READ_COMMAND) {
      memory_.hbm->storage().read(address, data, bytes);
    } else {
      memory_.hbm->storage().write(address, data, bytes);
    }
    return true;
  }
  tlm::tlm_generic_payload payload;
  payload.set_command(command);
  while (bytes > 0) {
    const std::uint64_t in_line = std::min<std::uint64_t>(bytes, arch::kLineBytes - address % arch::kLineBytes);
    const auto length = static_cast<unsigned>(in_line);
    payload.set_address(address);
    payload.set_data_ptr(data);
    payload.set_data_length(length);
    payload.set_streaming_width(length);
    if (sm(0).memory_out.debug(payload) != length) return false;
    address += length;
    data += length;
    bytes -= length;
  }
  return true;
}

bool Gpu::read_memory(std::uint64_t address, void* to, std::uint64_t bytes) {
  return move_memory(tlm::TLM_READ_COMMAND, address, static_cast<std::uint8_t*>(to), bytes);
}

bool Gpu::write_memory(std::uint64_t address, const void* from, std::uint64_t bytes) {
  // A payload's data pointer is not const; a write only reads through it.
  auto* data = const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(from));  // NOLINT
  return move_memory(tlm::TLM_WRITE_COMMAND, address, data, bytes);
}

bool Gpu::poison_memory(std::uint64_t address, std::uint64_t bytes) {
  if (!memory_.map.contains(address, bytes)) return false;
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end;) {
    const std::uint64_t next = std::min(end, arch::line_of(at) + arch::kLineBytes);
    memory_.slices[memory_.map.slice_of(at)]->poison(at, next - at);
    at = next;
  }
  return true;
}

void Gpu::reset() {
  faults_.clear();
  domain_.reset();
  domain_.observation().stats.clear();
  domain_.observation().load_map.clear();
  domain_.observation().clusters.clear();
}

void Gpu::check_quiescent() const {
  HEDDLE_CHECK(task_.open() == 0, "operations are open in an idle machine");
  HEDDLE_CHECK(cwd_.quiescent(), "the distributor of an idle machine still accounts for work");
  HEDDLE_CHECK(memory_.crossbar.in_flight() == 0, "requests of an idle machine are on their way to memory");
  for (const auto& slice : memory_.slices) HEDDLE_CHECK(slice->idle(), "a slice of an idle machine has work");
  for (const auto& gpc : gpcs_) {
    HEDDLE_CHECK(gpc->gpm.live_ctas() == 0, "a GPM of an idle machine counts live CTAs");
    HEDDLE_CHECK(gpc->gpm.live_cgas() == 0, "a GPM of an idle machine counts live CGAs");
    HEDDLE_CHECK(gpc->network.packets() == 0, "packets of an idle machine are between its SMs");
    for (const auto& unit : gpc->tmaus) {
      HEDDLE_CHECK(unit->quiescent(), "a tensor memory access unit of an idle machine has work");
    }
    for (const auto& cpc : gpc->cpcs) {
      for (const auto& tpc : cpc->tpcs) {
        for (std::uint32_t i = 0; i < tpc->sms.size(); ++i) {
          HEDDLE_CHECK(tpc->mpc.slots_used(i) == 0, "CTA slots are in use on an idle machine");
          HEDDLE_CHECK(tpc->sms[i]->resident() == 0 && tpc->sms[i]->used() == tpc->sms[i]->base(),
                       "an SM of an idle machine holds resources");
          HEDDLE_CHECK(tpc->sms[i]->quiescent(), "an SM of an idle machine knows of CGAs");
        }
      }
    }
  }
}

}  // namespace heddle::gpu
