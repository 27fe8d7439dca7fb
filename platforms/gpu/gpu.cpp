#include "gpu/gpu.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "gpu/residency.h"

namespace heddle::gpu {
namespace {

const GpuParams& checked(const GpuParams& params) {
  params.check();
  return params;
}

// Who is bound to which socket of the memory hub.
constexpr std::uint32_t kPacketClient = 0;
constexpr std::uint32_t kApertureClient = 1;
constexpr std::uint32_t kTaskClient = 2;
constexpr std::uint32_t kFirstCopyClient = 3;  // then, with translation, the walkers of the MMU

host::DeviceIdentity identity_of(const GpuParams& params, const arch::Topology& topology) {
  host::DeviceIdentity identity;
  identity.sms = topology.sms();
  identity.gpcs = topology.gpcs();
  identity.queues = params.packet.queues;
  identity.copy_engines = params.copy.engines;
  identity.memory = params.machine.memory;
  identity.clock_mhz = static_cast<std::uint32_t>(std::llround(params.machine.clock * 1e3));
  identity.threads_limit = params.sm.limits.max_threads_per_cta;
  identity.shared_limit = params.sm.limits.max_shared_per_cta;
  return identity;
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

Gpu::Gpu(const sc_core::sc_module_name& name, const GpuParams& params, std::uint64_t seed, GpuObservation& observation,
         DeviceMemory memory)
    : sc_core::sc_module(name),
      params_(checked(params)),
      topology_(params.machine.shape, params.machine.ugpus),
      nested_(params.nested_memory()),
      domain_("domain", params.machine.clock, params.machine.timing, params.machine.run_ahead, observation),
      task_("task", domain_, "task", params.task, params.sm.limits, start_path(params), params.cwd.table_slots,
            {&codes_, nested_, topology_.sms()}),
      nobody_("nobody", domain_, 0, kUnlimitedCredits),
      cwd_("cwd", domain_, "cwd", params.cwd, topology_, arch::capacity_of(params.sm.limits),
           {params.gpc.cga_ids, params.gpc.cga_barriers}),
      memory_("memory", domain_, params, topology_, memory),
      host_("host", domain_, "host", params.host, identity_of(params, topology_), *this),
      hub_("hub", domain_, "hub", params.hub, memory_.map,
           kFirstCopyClient + params.copy.engines + (params.mmu.enabled ? 1 : 0),
           {params.mmu.enabled, params.mmu.distance}),
      packets_("packet", domain_, "packet", params.packet, params.sm.limits, codes_, *this, params.reference_tables()),
      copies_("copy", domain_, "copy", params.copy) {
  observation.load_map.configure(topology_.sms(), params.sm.limits.warps);
  // What tensor memory access units take for an address: a virtual one may lie above device memory.
  const std::uint64_t tensor_memory = params.mmu.enabled ? std::uint64_t{1} << arch::kVirtualBits : memory_.map.bytes();
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    const std::string gpc_name = fmt::format("gpc{}", g);
    GpuParams own = params_;
    if (!params.cwd.gpc_distances.empty()) own.gpc.gpm_to_cwd = params.cwd.gpc_distances[g];
    gpcs_.push_back(std::make_unique<Gpc>(
        gpc_name.c_str(), domain_, gpc_name, own, topology_.gpc(g), g,
        SmSurroundings{seed, codes_, memory_.map, topology_.sms(), tensor_memory, params.cga_memory(), nested_}));
  }
  std::vector<std::vector<std::uint32_t>> sms;
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) sms.push_back(topology_.gpc(g).sm_ids);
  observation.clusters.configure(std::move(sms));
  if (params.mmu.enabled) mmu_ = std::make_unique<MmuSystem>(domain_, params_.mmu, topology_);
  wire();
  wire_memory();
  wire_front_end();
}

Gpu::~Gpu() = default;

void Gpu::wire() {
  task_.task_out.bind(cwd_.task_in);
  task_.control_out.bind(cwd_.control_in);
  cwd_.done_out.bind(task_.task_done_in);
  task_.evict_out.bind(cwd_.evict_in);
  cwd_.evicted_out.bind(task_.evicted_in);
  task_.grow_out.bind(cwd_.grow_in);
  cwd_.idle_out.bind(task_.idle_in);
  task_.share_out.bind(cwd_.share_in);
  host_.share_out.bind(task_.share_in);
  cwd_.set_translates(params_.mmu.enabled);
  cwd_.on_share_refused([this](const protocol::SubcontextPacket& share, protocol::ShareRefusal why) {
    refused_shares_.push_back({share, why, domain_.now()});
    host_.note_share_refused(why);
  });
  for (std::uint32_t g = 0; g < gpcs_.size(); ++g) {
    cwd_.launch_out.bind(gpcs_[g]->gpm.launch_in);
    cwd_.local_out.bind(gpcs_[g]->gpm.local_in);
    cwd_.abort_out.bind(gpcs_[g]->gpm.abort_in);
    gpcs_[g]->gpm.complete_out.bind(cwd_.complete_in[g]);
    gpcs_[g]->gpm.cga_out.bind(cwd_.cga_in[g]);
    gpcs_[g]->gpm.shared_out.bind(cwd_.shared_in[g]);
  }
  for (std::uint32_t id = 0; id < topology_.sms(); ++id) {
    sm(id).child_out.bind(task_.child_in[id]);
    task_.wake_out.bind(sm(id).wake_in);
    sm(id).on_fault([this](const arch::FaultRecord& fault) {
      faults_.push_back(fault);
      host_.note_fault();
    });
  }
  task_.on_fault([this](const arch::FaultRecord& fault) {
    faults_.push_back(fault);
    host_.note_fault();
  });
}

void Gpu::wire_memory() {
  for (std::uint32_t id = 0; id < topology_.sms(); ++id) {
    const arch::Topology::Sm& place = topology_.sm(id);
    Gpc& gpc = *gpcs_[place.gpc];
    const std::uint32_t bit = topology_.gpc(place.gpc).tpcs[place.tpc].first_sm + place.in_tpc;
    tmau::Tmau& unit = gpc.tmau_of(bit);
    MemoryOut& bulk_out = unit.memory_out(gpc.place_at_tmau(bit));
    if (mmu_) {
      mmu_->bind_sm(sm(id).memory_out, place.gpc, bit, memory_.crossbar.sm_in(id));
      mmu_->bind_bulk(bulk_out, place.gpc, bit, memory_.crossbar.bulk_in(id));
    } else {
      sm(id).memory_out.bind(memory_.crossbar.sm_in(id));
      bulk_out.bind(memory_.crossbar.bulk_in(id));
    }
    memory_.crossbar.multicast_out(id).bind(unit.multicast_in[gpc.place_at_tmau(bit)]);
  }
}

void Gpu::before_end_of_elaboration() {
  if (task_.submit_in.get_base_port().bind_count() == 0) nobody_.bind(task_.submit_in);
}

void Gpu::wire_front_end() {
  copies_.on_error([this](const copy::CopyError& error) {
    host_.note_copy_fault({error.status, error.address, error.write, error.subcontext, error.sender,
                           error.begun ? error.engine : host::kNoEngine});
  });
  host_.command_out.bind(packets_.command_in);
  packets_.event_out.bind(host_.event_in);
  packets_.dispatch_out.bind(task_.dispatch_in);
  task_.dispatch_done_out.bind(packets_.dispatch_done_in);
  packets_.copy_out.bind(copies_.request_in(0));
  copies_.done_out(0).bind(packets_.copy_done_in);
  host_.copy_out.bind(copies_.request_in(1));
  copies_.done_out(1).bind(host_.copy_done_in);
  packets_.memory_out.bind(hub_.client_in(kPacketClient));
  host_.memory_out.bind(hub_.client_in(kApertureClient));
  task_.memory_out.bind(hub_.client_in(kTaskClient));
  if (mmu_) {
    task_.share_out.bind(mmu_->share_in());
    mmu_->bind_hub(hub_, kFirstCopyClient + copies_.engines());
  }
  for (std::uint32_t e = 0; e < copies_.engines(); ++e)
    copies_.memory_out(e).bind(hub_.client_in(kFirstCopyClient + e));
  for (std::uint32_t s = 0; s < memory_.map.slices(); ++s) hub_.slice_out(s).bind(memory_.slices[s]->hub_in());
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
    MemoryOut& out = mmu_ ? mmu_->debug_out() : sm(0).memory_out;
    if (out.debug(payload) != length) return false;
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

// A page at a time. No slice may keep anything of it: whoever has the pointer would not see it change.
bool Gpu::direct_memory(std::uint64_t address, std::uint8_t*& pointer, std::uint64_t& first, std::uint64_t& last) {
  if (memory_.hbm == nullptr || !memory_.map.contains(address, 1)) return false;
  memory::DirectMemory& direct = memory_.hbm->direct();
  const memory::DirectMemory::Range page = direct.page_of(address);
  first = page.first;
  last = page.last;
  for (const auto& slice : memory_.slices) {
    if (!slice->let_go(first, last)) return false;
  }
  pointer = direct.grant(address);
  return true;
}

bool Gpu::corrupt_memory(std::uint64_t address, std::uint64_t bytes) const {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t at = address; at < end;) {
    const std::uint64_t next = std::min(end, arch::line_of(at) + arch::kLineBytes);
    if (memory_.slices[memory_.map.slice_of(at)]->poisoned(at, next - at)) return true;
    at = next;
  }
  return false;
}

void Gpu::on_invalidate(std::function<void(std::uint64_t, std::uint64_t)> invalidate) {
  if (memory_.hbm != nullptr) memory_.hbm->direct().on_end(std::move(invalidate));
}

std::string Gpu::why_never_fits(const arch::KernelShape& kernel) const { return gpu::why_never_fits(params_, kernel); }

void Gpu::reset() {
  faults_.clear();
  refused_shares_.clear();
  codes_.reset();
  domain_.reset();
  domain_.observation().stats.clear();
  gpu_observation(domain_).load_map.clear();
  gpu_observation(domain_).clusters.clear();
  clear_records();
}

std::uint32_t Gpu::add_code(std::shared_ptr<const arch::WarpProgram> program, const arch::KernelShape& kernel) {
  if (program->launches() && nested_.tasks.count == 0) {
    throw InputError(fmt::format("a program launches tasks or appends to queues, but gpu.memory ({} bytes) has no room "
                                 "for their records",
                                 params_.machine.memory),
                     "raise gpu.memory, or lower gpu.task.nested.areas and area_bytes");
  }
  return codes_.add(std::move(program), kernel);
}

// Memory that holds zeros is how the pools begin (arch/task_record.h).
void Gpu::clear_records() {
  for (const arch::RecordPool& pool : {nested_.tasks, nested_.contexts, nested_.areas}) {
    if (pool.count == 0) continue;
    const std::vector<std::uint8_t> zeros(pool.ring_bytes());
    (void)write_memory(pool.base, zeros.data(), zeros.size());  // false before simulation, where another is attached
  }
}

std::size_t Gpu::payloads() const {
  std::size_t sum = host_.payloads() + hub_.payloads() + copies_.payloads() + task_.payloads();
  for (const auto& slice : memory_.slices) sum += slice->payloads();
  return sum;
}

void Gpu::check_quiescent() {
  HEDDLE_CHECK(host_.idle(), "an idle machine owes the host an answer");
  HEDDLE_CHECK(task_.open() == 0, "operations are open in an idle machine");
  HEDDLE_CHECK(task_.launches_idle(), "tasks of device code are open in an idle machine");
  HEDDLE_CHECK(mmu_ == nullptr || mmu_->idle(), "an idle machine translates addresses");
  for (const arch::RecordPool& pool : {nested_.tasks, nested_.contexts, nested_.areas}) {
    std::uint64_t taken = 0;
    std::uint64_t given = 0;
    if (pool.count == 0 || !read_memory(pool.base + arch::ring::kTaken, &taken, sizeof taken)) continue;
    (void)read_memory(pool.base + arch::ring::kGiven, &given, sizeof given);
    HEDDLE_CHECK(taken == given,
                 fmt::format("an idle machine has {} records of device-side launches too many in use", taken - given));
  }
  HEDDLE_CHECK(packets_.quiescent(), "the packet processor of an idle machine has work");
  HEDDLE_CHECK(codes_.lent() == 0, "launches of an idle machine hold their programs");
  HEDDLE_CHECK(copies_.idle(), "a copy engine of an idle machine has work");
  HEDDLE_CHECK(hub_.idle(), "requests of an idle machine are in its memory hub");
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
