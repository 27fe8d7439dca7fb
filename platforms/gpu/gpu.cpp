#include "gpu/gpu.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/brought_code.h"
#include "arch/gpu_observation.h"
#include "arch/idle_account.h"
#include "arch/kernel_account.h"
#include "arch/kernel_object.h"
#include "arch/race_checker.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "copy/copy_engines.h"
#include "cwd/cwd.h"
#include "fluid/fluid_unit.h"
#include "gpu/demand_peaks.h"
#include "gpu/gpc_tree.h"
#include "gpu/gpu_params.h"
#include "gpu/machine_state.h"
#include "gpu/saved_sharing.h"
#include "host/host_interface.h"
#include "host/memory_hub.h"
#include "link/link_unit.h"
#include "packet/packet_processor.h"
#include "power/power_unit.h"
#include "task/task_unit.h"

namespace heddle::gpu {
namespace {

// Those that there are.
std::vector<arch::RecordPool> record_pools(const arch::LaunchMemory& memory) {
  std::vector<arch::RecordPool> pools;
  for (std::uint32_t number = 0; number < memory.parts; ++number) {
    const arch::LaunchMemory part = memory.part(number);
    for (const arch::RecordPool& pool :
         {part.tasks.pool, part.tasks.spill, part.contexts.pool, part.contexts.spill, part.chunks}) {
      if (pool.count > 0) pools.push_back(pool);
    }
  }
  return pools;
}

const GpuParams& checked(const GpuParams& params) {
  params.check();
  return params;
}

// Who is bound to which socket of the memory hub.
constexpr std::uint32_t kPacketClient = 0;
constexpr std::uint32_t kApertureClient = 1;
constexpr std::uint32_t kTaskClient = 2;
constexpr std::uint32_t kFirstCopyClient = 3;  // then, with translation, the walkers of the MMU, and the links
std::uint32_t link_client(const GpuParams& params) {
  return kFirstCopyClient + params.copy.engines + (params.mmu.enabled ? 1 : 0);
}

// What flows through what CTAs with demands share may be so far from their fair shares before these are found anew.
constexpr double kShareTolerance = 0.005;

// A cycle is a whole number of steps of the simulation's time resolution. Whoever reads times in cycles or a frequency
// is told how far that is from what was asked for.
constexpr double kClockTolerance = 2e-3;
constexpr double kClockAstray = 5e-2;  // from there on with a warning

std::uint32_t packet_format_of(const packet::PacketParams& params) {
  const auto flag = [](bool value, std::uint32_t bit) { return (value ? 1U : 0U) << bit; };
  return params.entries | params.reference_bits << host::kPacketReferenceBit |
         params.vector_bits << host::kPacketVectorBit |
         flag(params.diff == arch::DiffOf::stored, host::kPacketStoredBit) |
         flag(params.table_owner == packet::TableOwner::agent, host::kPacketSharedTableBit) |
         flag(params.condensed == packet::CondensedOrder::overlap, host::kPacketOverlapBit);
}

host::DeviceIdentity identity_of(const GpuParams& params, const arch::Topology& topology, const Clock& clock) {
  host::DeviceIdentity identity;
  identity.sms = topology.sms();
  identity.gpcs = topology.gpcs();
  identity.queues = params.packet.queues;
  identity.copy_engines = params.copy.engines;
  identity.memory = params.machine.memory;
  identity.clock_mhz = static_cast<std::uint32_t>(std::llround(params.machine.clock * 1e3));
  identity.clock_period = static_cast<std::uint32_t>(std::llround(clock.period().to_seconds() * 1e12));
  identity.doorbell_page = params.host.doorbell_page;
  identity.packet_format = packet_format_of(params.packet);
  identity.host_windows = params.hub.host_windows;
  identity.limits = params.sm.limits;
  return identity;
}

}  // namespace

// The clock of the HBM where that of the chip may change: memory does not slow down with it. What is asked of the
// chip's domain as a whole is asked of this one as well.
class Gpu::MemoryClock final : private Resettable, private WaitSource, private IdleSource {
 public:
  MemoryClock(Domain& chip, const MachineParams& params)
      : domain("memory_domain", params.clock, params.timing, params.run_ahead, chip.observation()) {
    chip.add_resettable(*this);
    chip.add_wait_source(*this);
    chip.add_idle_source(*this);
  }

  Domain domain;

 private:
  void reset() override { domain.reset(); }
  void collect_waits(WaitGraph& graph) const override { domain.collect_waits(graph); }
  void check_idle() override { domain.check_idle(); }
};

namespace {

// Every block of the GPU finds it in the observation.
std::unique_ptr<arch::RaceChecker> race_checker(const GpuParams& params, GpuObservation& observation) {
  observation.races = nullptr;
  if (!params.races.races) return nullptr;
  auto checker = std::make_unique<arch::RaceChecker>(
      params.races, params.mmu.enabled, observation.stats, observation.prefix,
      [prefix = observation.prefix](const arch::Race& race) {
        SC_REPORT_WARNING("/heddle/gpu/race", fmt::format("{}: {}", prefix, race.text()).c_str());
      });
  observation.races = checker.get();
  return checker;
}

// The results have it when the GPU is gone.
std::shared_ptr<IdleAccount> observe_idle(Domain& domain, GpuObservation& observation, std::uint32_t sms) {
  observation.idle =
      std::make_shared<IdleAccount>(domain, observation.stats, observation.prefix, sms, observation.labels);
  return observation.idle;
}

}  // namespace

// What the GPU consists of, and how it is wired.
class Gpu::Blocks : private host::Device, private packet::FitCheck {
 public:
  Blocks(const GpuParams& given, std::uint64_t seed, GpuObservation& observation, DeviceMemory kind,
         std::shared_ptr<const arch::CodeDecoder> decoder);
  ~Blocks() { gpu_observation(domain).races = nullptr; }

  void preload(const std::vector<SmPreload>& loads);
  // Why the machine cannot run the program, and what to do; empty: it can.
  struct Refusal {
    std::string message;
    std::string remedy;
  };
  Refusal why_not(const arch::WarpProgram& program) const;
  void reset();
  void check_idle();
  void settle(bool more);
  std::size_t payloads() const;
  // What is under way, for whoever wants the machine quiet.
  std::vector<std::string> open_work();
  void remove_codes();

  const GpuParams params;
  const arch::Topology topology;
  const arch::LaunchMemory nested;
  std::unique_ptr<arch::RaceChecker> races;  // null: off
  Domain domain;
  const std::shared_ptr<IdleAccount> idle;
  std::unique_ptr<MemoryClock> memory_clock;  // null: memory's controllers count the chip's cycles
  arch::CodeStore codes;
  arch::BroughtCode brought;
  FaultLog log;
  task::TaskUnit task;
  cwd::Cwd cwd;
  MemorySystem memory;
  MemoryBackdoor backdoor;
  host::HostInterface host;
  host::MemoryHub hub;
  packet::PacketProcessor packets;
  copy::CopyEngines copies;
  std::unique_ptr<link::LinkUnit> links;    // null: there are none
  std::unique_ptr<MmuSystem> mmu;           // null: addresses are not translated
  std::unique_ptr<power::PowerUnit> power;  // null: energy is not counted
  fluid::FluidUnit fluid;                   // of CTAs with demands
  sm::LoadBatch batch;                      // of SMs whose accesses are calls
  Children<Gpc> gpcs;
  SavedPrograms programs;
  std::unique_ptr<SavedSharing> sharing;
  MachineState state;

 private:
  void wire();
  void wire_front_end();
  void wire_memory();
  void report_rounding() const;
  void clear_records();
  std::uint64_t events_in(const arch::RecordPool& pool);
  void add_fault(const arch::FaultRecord& fault);
  sm::Sm& sm(std::uint32_t id);
  // host::Device
  bool read_memory(std::uint64_t address, void* to, std::uint64_t bytes) override {
    return backdoor.read(address, to, bytes);
  }
  bool write_memory(std::uint64_t address, const void* from, std::uint64_t bytes) override {
    return backdoor.write(address, from, bytes);
  }
  bool direct_memory(std::uint64_t address, std::uint8_t*& pointer, std::uint64_t& first,
                     std::uint64_t& last) override {
    return backdoor.direct(address, pointer, first, last);
  }
  bool grants_direct() const override { return backdoor.grants_direct(); }
  bool corrupt_memory(std::uint64_t address, std::uint64_t bytes) const override {
    return backdoor.poisoned(address, bytes);
  }
  void on_invalidate(std::function<void(std::uint64_t, std::uint64_t)> invalidate) override {
    backdoor.on_invalidate(std::move(invalidate));
  }
  void reset_device() override { reset(); }
  bool settled() const override { return hub.settled(); }
  // packet::FitCheck
  std::string why_never_fits(const arch::KernelShape& kernel) const override {
    return gpu::why_never_fits(params, kernel);
  }
};

Gpu::Blocks::Blocks(const GpuParams& given, std::uint64_t seed, GpuObservation& observation, DeviceMemory kind,
                    std::shared_ptr<const arch::CodeDecoder> decoder)
    : params(checked(given)),
      topology(params.machine.shape, params.machine.ugpus),
      nested(params.nested_memory()),
      races(race_checker(params, observation)),
      domain("domain", params.machine.clock, params.machine.timing, params.machine.run_ahead, observation),
      idle(observe_idle(domain, observation, topology.sms())),
      memory_clock(params.power.governor == power::Governor::off
                       ? nullptr
                       : std::make_unique<MemoryClock>(domain, params.machine)),
      brought(codes, std::move(decoder), [this](const arch::WarpProgram& program) { return why_not(program).message; }),
      task("task", domain, "task", params.task, params.sm.limits, params.start_path(),
           {params.cwd.table_slots, params.cwd.partition != protocol::PartitionMode::none,
            params.cwd.preemption == cwd::PreemptionMode::instruction},
           {&codes, nested, topology.sms(), params.channels(), &brought}),
      cwd("cwd", domain, "cwd", params.cwd, topology, arch::capacity_of(params.sm.limits),
          {params.gpc.cga_ids, params.gpc.cga_barriers, params.sm.limits.cga_slots},
          cwd::SavesOfWaiting{params.sm.nested.save != sm::SavePolicy::off,
                              params.sm.nested.save == sm::SavePolicy::wanted}),
      memory("memory", domain, memory_clock ? memory_clock->domain : domain, params, topology, kind),
      backdoor(memory, races.get()),
      host("host", domain, "host", params.host, identity_of(params, topology, domain.clock()), *this),
      hub("hub", domain, "hub", params.hub, memory.map, link_client(params) + (params.links.enabled ? 1 : 0),
          {params.mmu.enabled, params.mmu.distance},
          kind == DeviceMemory::own ? host::DeviceMemoryUse::own : host::DeviceMemoryUse::shared,
          {params.links.enabled, link_client(params)}),
      packets("packet", domain, "packet", params.packet, params.sm.limits, codes, brought, *this,
              params.reference_tables()),
      copies("copy", domain, "copy", params.copy, params.machine.instances),
      fluid("demand", domain, "demand", fluid_machine(params, topology, params.machine.clock), kShareTolerance, codes),
      batch(domain, params.sm.memory.l1_latency),
      state(
          {params, domain, backdoor, [this] { return open_work(); }, [this] { reset(); }, [this] { remove_codes(); }}) {
  report_rounding();
  brought.on_refused([prefix = observation.prefix](const std::string& what) {
    SC_REPORT_INFO("/heddle/code", fmt::format("{}: {}", prefix, what).c_str());
  });
  observation.load_map.configure(topology.sms(), params.sm.limits.warps);
  // What tensor memory access units take for an address: a virtual one may lie above device memory.
  const std::uint64_t tensor_memory = params.mmu.enabled ? std::uint64_t{1} << arch::kVirtualBits : memory.map.bytes();
  const MachineContext machine{domain, params, seed, codes, memory.map, topology, tensor_memory, params.cga_memory(),
                               nested, &batch};
  const auto parts = arch::virtual_parts(topology, std::vector<bool>(topology.sms(), true));  // all TPCs are usable
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    const std::string gpc_name = fmt::format("gpc{}", g);
    gpcs.push_back(std::make_unique<Gpc>(
        gpc_name.c_str(), GpcContext{machine,
                                     topology.gpc(g),
                                     {protocol::GpcId(g), protocol::VirtualGpcId(topology.virtual_gpc(g))},
                                     gpc_name,
                                     parts[g]}));
  }
  std::vector<std::vector<std::uint32_t>> sms;
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) sms.push_back(topology.gpc(g).sm_ids);
  observation.clusters.configure(std::move(sms));
  if (params.links.enabled) {
    // Links do not slow down with the chip's clock.
    links = std::make_unique<link::LinkUnit>("links", memory_clock ? memory_clock->domain : domain, "links",
                                             params.links, memory.map.bytes());
  }
  if (params.mmu.enabled) mmu = std::make_unique<MmuSystem>(domain, params.mmu, topology);
  if (params.power.counts()) {
    power = std::make_unique<power::PowerUnit>("power", domain, "power", params.power, params.energy,
                                               params.machine.clock, params.sm.issue.tensor_flops);
  }
  wire();
  wire_memory();
  wire_front_end();
  backdoor.attach(mmu ? mmu->debug_out() : sm(0).memory_out);
  sharing = std::make_unique<SavedSharing>(
      SavedSharing::Sharers{task, cwd, memory.bandwidth, copies, mmu ? &mmu->mmu() : nullptr},
      [this] { return log.refused_shares().size(); });
  state.add_compared("programs", programs);
  state.add("code", brought);
  state.add("sharing", *sharing);
  state.add("packets", packets);
  state.add("windows", hub.dma_port().guard);
  state.add("registers", host);
}

void Gpu::Blocks::report_rounding() const {
  const double asked = params.machine.clock;
  const double simulated = 1e-9 / domain.clock().period().to_seconds();
  const double off = std::abs(simulated / asked - 1);
  if (off <= kClockTolerance) return;
  const std::string text =
      fmt::format("{}: a clock of {} GHz is simulated as {:.4g} GHz: time resolution {}", params.machine.device, asked,
                  simulated, sc_core::sc_get_time_resolution().to_string());
  if (off > kClockAstray) {
    SC_REPORT_WARNING("/heddle/clock", (text + "; a finer one before elaboration comes closer").c_str());
  } else {
    SC_REPORT_INFO("/heddle/clock", text.c_str());
  }
}

void Gpu::Blocks::wire() {
  task.task_out.bind(cwd.task_in);
  task.control_out.bind(cwd.control_in);
  cwd.done_out.bind(task.task_done_in);
  task.evict_out.bind(cwd.evict_in);
  cwd.evicted_out.bind(task.evicted_in);
  task.grow_out.bind(cwd.grow_in);
  cwd.idle_out.bind(task.idle_in);
  task.share_out.bind(cwd.share_in);
  host.share_out.bind(task.share_in);
  host.query_out.bind(task.query_in);
  task.query_out.bind(cwd.host_query_in);
  cwd.host_answer_out.bind(host.answer_in);
  cwd.set_translates(params.mmu.enabled);
  const auto note_refused = [this](const protocol::SubcontextPacket& share, protocol::ShareRefusal why) {
    log.add(RefusedShare{share, why, domain.now()});
    host.note(why);
  };
  cwd.on_share_refused(note_refused);
  task.share_out.bind(memory.bandwidth.share_in);
  memory.bandwidth.on_refused(note_refused);
  task.share_out.bind(copies.share_in);
  copies.on_refused(note_refused);
  for (std::uint32_t g = 0; g < gpcs.size(); ++g) {
    cwd.launch_out.bind(gpcs[g]->gpm.launch_in);
    cwd.local_out.bind(gpcs[g]->gpm.local_in);
    cwd.abort_out.bind(gpcs[g]->gpm.abort_in);
    gpcs[g]->gpm.complete_out.bind(cwd.complete_in[g]);
    gpcs[g]->gpm.cga_out.bind(cwd.cga_in[g]);
    gpcs[g]->gpm.shared_out.bind(cwd.shared_in[g]);
    gpcs[g]->gpm.barrier_out.bind(cwd.barrier_in[g]);
    cwd.barrier_out.bind(gpcs[g]->gpm.barrier_in);
    cwd.part_out.bind(gpcs[g]->gpm.part_in);
  }
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    sm(id).child_out.bind(task.child_in[id]);
    task.wake_out.bind(sm(id).wake_in);
    sm(id).query_out.bind(cwd.query_in[id]);
    cwd.answer_out.bind(sm(id).answer_in);
    sm(id).work_out.bind(fluid.work_in);
    fluid.done_out.bind(sm(id).work_done_in);
    sm(id).on_fault([this](const arch::FaultRecord& fault) { add_fault(fault); });
  }
  task.on_fault([this](const arch::FaultRecord& fault) { add_fault(fault); });
}

void Gpu::Blocks::wire_memory() {
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    const arch::Topology::Sm& place = topology.sm(id);
    Gpc& gpc = *gpcs[place.gpc];
    const std::uint32_t bit = topology.gpc(place.gpc).tpcs[place.tpc].first_sm + place.in_tpc;
    tmau::Tmau& unit = gpc.tmau_of(bit);
    MemoryOut& bulk_out = unit.memory_out(gpc.place_at_tmau(bit));
    if (mmu) {
      mmu->bind_sm(sm(id).memory_out, place.gpc, bit, memory.crossbar.sm_in(id));
      mmu->bind_bulk(bulk_out, place.gpc, bit, memory.crossbar.bulk_in(id));
    } else {
      sm(id).memory_out.bind(memory.crossbar.sm_in(id));
      bulk_out.bind(memory.crossbar.bulk_in(id));
    }
    memory.crossbar.multicast_out(id).bind(unit.multicast_in[gpc.place_at_tmau(bit)]);
  }
}

void Gpu::Blocks::wire_front_end() {
  copies.on_error([this](const copy::CopyError& error) {
    host.note(host::CopyFault{error.status, error.address, error.write, error.subcontext, error.sender,
                              error.begun ? std::optional(error.engine) : std::nullopt});
  });
  hub.dma_port().guard.on_refused([this](const host::WindowFault& fault) { host.note(fault); });
  host.window_out.bind(hub.dma_port().guard.window_in);
  host.command_out.bind(packets.command_in);
  packets.event_out.bind(host.event_in);
  packets.dispatch_out.bind(task.dispatch_in);
  task.dispatch_done_out.bind(packets.dispatch_done_in);
  memory.watch.written_out.bind(packets.written_in);
  packets.copy_out.bind(copies.request_in(0));
  copies.done_out(0).bind(packets.copy_done_in);
  host.copy_out.bind(copies.request_in(1));
  copies.done_out(1).bind(host.copy_done_in);
  task.copy_out.bind(copies.request_in(2));
  copies.done_out(2).bind(task.copy_done_in);
  packets.memory_out.bind(hub.client_in(kPacketClient));
  host.memory_out.bind(hub.client_in(kApertureClient));
  task.memory_out.bind(hub.client_in(kTaskClient));
  if (mmu) {
    task.share_out.bind(mmu->share_in());
    mmu->bind_hub(hub, kFirstCopyClient + copies.engines());
  }
  for (std::uint32_t e = 0; e < copies.engines(); ++e) copies.memory_out(e).bind(hub.client_in(kFirstCopyClient + e));
  for (std::uint32_t s = 0; s < memory.map.slices(); ++s) hub.slice_out(s).bind(memory.slices[s]->hub_in());
  if (links == nullptr) return;
  for (std::uint32_t p = 0; p < links->ports(); ++p) memory.crossbar.link_out(p).bind(links->crossbar_in(p));
  hub.peer_out.bind(links->hub_in());
  links->home_out.bind(hub.client_in(link_client(params)));
}

sm::Sm& Gpu::Blocks::sm(std::uint32_t id) {
  const arch::Topology::Sm& place = topology.sm(id);
  const Gpc& gpc = *gpcs[place.gpc];
  std::uint32_t tpc = place.tpc;
  for (const auto& cpc : gpc.cpcs) {
    if (tpc < cpc->tpcs.size()) return *cpc->tpcs[tpc]->sms[place.in_tpc];
    tpc -= static_cast<std::uint32_t>(cpc->tpcs.size());
  }
  HEDDLE_CHECK(false, "an SM has no place in the tree");
  std::terminate();
}

void Gpu::Blocks::preload(const std::vector<SmPreload>& loads) {
  std::vector<arch::ResourceVector> sums(topology.sms());
  const arch::ResourceVector capacity = arch::capacity_of(params.sm.limits);
  for (const SmPreload& load : loads) {
    if (load.sm >= topology.sms()) {
      throw InputError(fmt::format("a load names SM {}, but the machine has SMs 0 to {}", load.sm, topology.sms() - 1));
    }
    sums[load.sm].add(load.amount);
    for (std::size_t i = 0; i < arch::kResources; ++i) {
      if (sums[load.sm].amount[i] <= capacity.amount[i]) continue;
      throw InputError(fmt::format("SM {} cannot hold its load: {} of {}, it has {}", load.sm, sums[load.sm].amount[i],
                                   arch::resource_name(static_cast<arch::Resource>(i)), capacity.amount[i]));
    }
  }
  for (const SmPreload& load : loads) {
    cwd.preload(load.sm, load.amount, load.until);
    sm(load.sm).preload(load.amount, load.until);
  }
}

Gpu::Blocks::Refusal Gpu::Blocks::why_not(const arch::WarpProgram& program) const {
  if (program.launches() && !nested.any()) {
    return {
        fmt::format("a program launches tasks or appends to queues, but gpu.memory ({} bytes) has no room for their "
                    "records",
                    params.machine.memory),
        "raise gpu.memory, or lower gpu.task.nested.memory, contexts or pending_launches"};
  }
  if (const char* missing = params.tmau.missing(program.tmau_needs()); missing != nullptr) {
    return {fmt::format("a program makes requests to {}, and {} has none", missing, params.machine.device),
            "choose a machine with such units, or set gpu.tmau.enabled and gpu.tmau.requests"};
  }
  return {};
}

void Gpu::Blocks::add_fault(const arch::FaultRecord& fault) {
  log.add(fault);
  host.note_fault();
  SC_REPORT_INFO(kFaultReport, fmt::format("{}: {}", domain.observation().prefix, arch::text_of(fault)).c_str());
}

void Gpu::Blocks::reset() {
  SC_REPORT_INFO(kResetReport, fmt::format("{}: reset", domain.observation().prefix).c_str());
  log.clear();
  codes.reset();
  brought.reset();
  if (races != nullptr) races->reset();
  domain.reset();
  domain.observation().stats.clear();
  for (auto& entry : domain.observation().packets) entry.second = 0;
  gpu_observation(domain).load_map.clear();
  gpu_observation(domain).clusters.clear();
  gpu_observation(domain).launched.reset();
  gpu_observation(domain).waits.reset();
  gpu_observation(domain).absences.reset();
  gpu_observation(domain).bulk.clear();
  gpu_observation(domain).power.clear();
  idle->clear();
  if (KernelAccount* kernels = kernel_account(domain)) kernels->clear();
  clear_records();
}

// Memory that holds zeros is how the pools begin (arch/task_record.h). What nobody has used still holds them.
void Gpu::Blocks::clear_records() {
  for (const arch::RecordPool& pool : record_pools(nested)) {
    std::uint64_t given = 0;
    if (!backdoor.read(pool.base + arch::ring::kGiven, &given, sizeof given)) continue;  // another memory is attached
    const std::vector<std::uint8_t> zeros(arch::ring::kSlots + 8 * std::min(given, pool.count));
    (void)backdoor.write(pool.base, zeros.data(), zeros.size());
  }
}

void Gpu::Blocks::settle(bool more) {
  for (std::uint32_t id = 0; id < topology.sms(); ++id) sm(id).settle();
  idle->settle(more);
  if (power) power->settle();
}

std::size_t Gpu::Blocks::payloads() const {
  std::size_t sum = host.payloads() + hub.payloads() + copies.payloads() + task.payloads();
  if (links) sum += links->payloads();
  for (const auto& slice : memory.slices) sum += slice->payloads();
  return sum;
}

std::vector<std::string> Gpu::Blocks::open_work() {
  std::vector<std::string> open;
  const auto count = [&open](std::size_t number, const char* what) {
    if (number > 0) open.push_back(fmt::format("{} under way: {}", what, number));
  };
  count(task.open(), "kernels and other operations");
  count(packets.open(), "packets");
  if (!copies.idle()) open.emplace_back("copies are under way");
  if (!host.idle()) open.emplace_back("the host waits for an answer");
  if (!hub.settled()) open.emplace_back("the host's bus has not answered");
  if (!domain.idle() || (memory_clock && !memory_clock->domain.idle())) {
    open.emplace_back("its blocks still have something to do");
  }
  if (!open.empty()) return open;
  try {
    check_idle();
  } catch (const CheckFailed& failed) {
    open.emplace_back(failed.what());
  }
  return open;
}

// The last one first: whoever adds the same again is given the same numbers.
void Gpu::Blocks::remove_codes() {
  const std::vector<std::uint32_t> numbers = programs.numbers();
  const std::set<std::uint32_t> used = brought.used();
  std::vector<std::string> open = open_work();
  if (std::any_of(numbers.begin(), numbers.end(), [&used](std::uint32_t number) { return used.count(number) > 0; })) {
    open.emplace_back("entries of reference state tables have the programs that were loaded before");
  }
  if (!open.empty()) {
    throw InputError(fmt::format("what was loaded before is still used: {}", fmt::join(open, "; ")),
                     "reset the device, or restore it, first");
  }
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) codes.remove(*number);
  programs.clear();
  fluid.forget_kernels();
}

// Events that programs have not destroyed hold their records, as other memory of a program would.
std::uint64_t Gpu::Blocks::events_in(const arch::RecordPool& pool) {
  std::uint64_t events = 0;
  for (std::uint64_t i = 0; i < pool.count; ++i) {
    std::uint32_t flags = 0;
    (void)backdoor.read(pool.record(i) + arch::tmd::kFlags, &flags, sizeof flags);
    const std::uint32_t kind = flags >> arch::kRecordKindShift & 3;
    if (kind == static_cast<std::uint32_t>(arch::RecordKind::event)) ++events;
  }
  return events;
}

// Every block checks its own state; the records of device-side launches and the programs belong to none.
void Gpu::Blocks::check_idle() {
  domain.check_idle();
  idle->check_idle();
  HEDDLE_CHECK(codes.lent() == 0, "launches of an idle machine hold their programs");
  for (const arch::RecordPool& pool : record_pools(nested)) {
    std::uint64_t taken = 0;
    std::uint64_t given = 0;
    if (!backdoor.read(pool.base + arch::ring::kTaken, &taken, sizeof taken)) continue;
    (void)backdoor.read(pool.base + arch::ring::kGiven, &given, sizeof given);
    std::uint64_t used = 0;
    (void)backdoor.read(pool.base + arch::ring::kUsed, &used, sizeof used);
    const bool of_tasks = nested.part_at(pool.base).tasks.has(pool.record(0));
    const std::uint64_t events = used > 0 && of_tasks ? events_in(pool) : 0;
    HEDDLE_CHECK(
        taken == given + used && used <= events,
        fmt::format("an idle machine has records of device-side launches in use: {} taken, {} given, {} counted", taken,
                    given, used));
  }
}

Gpu::Gpu(const sc_core::sc_module_name& name, const GpuParams& params, std::uint64_t seed, GpuObservation& observation,
         DeviceMemory memory, std::shared_ptr<const arch::CodeDecoder> decoder)
    : sc_core::sc_module(name),
      blocks_(std::make_unique<Blocks>(params, seed, observation, memory, std::move(decoder))) {}

Gpu::~Gpu() = default;

Gpu::TargetSocket& Gpu::bar0() { return blocks_->host.bar0(); }
Gpu::TargetSocket& Gpu::bar1() { return blocks_->host.bar1(); }
Gpu::InitiatorSocket& Gpu::dma() { return blocks_->hub.dma(); }
sc_core::sc_out<bool>& Gpu::irq() { return blocks_->host.irq(); }
sc_core::sc_in<bool>& Gpu::rst() { return blocks_->host.rst(); }
MemoryOut& Gpu::memory_out(std::uint32_t slice) { return blocks_->memory.slices[slice]->memory_out; }
link::LinkUnit* Gpu::links() { return blocks_->links.get(); }
PacketIn<protocol::SubmitPacket>& Gpu::submit_in() { return blocks_->task.submit_in; }
PacketOut<protocol::DonePacket>& Gpu::done_out() { return blocks_->task.done_out; }

void Gpu::preload(const std::vector<SmPreload>& loads) { blocks_->preload(loads); }

std::uint32_t Gpu::add_code(std::shared_ptr<const arch::WarpProgram> program, const arch::KernelShape& kernel) {
  const auto why = blocks_->why_not(*program);
  if (!why.message.empty()) throw InputError(why.message, why.remedy);
  const std::uint32_t registers = program->registers();
  const std::uint32_t number = blocks_->codes.add(std::move(program), kernel);
  blocks_->programs.note(number, registers, kernel);
  return number;
}

std::uint32_t Gpu::add_code(std::shared_ptr<const arch::Demand> demand, const arch::KernelShape& kernel) {
  blocks_->fluid.check(*demand);
  const std::uint32_t number = blocks_->codes.add(std::move(demand), kernel);
  blocks_->programs.note(number, 0, kernel);
  return number;
}

MemoryBackdoor& Gpu::memory() { return blocks_->backdoor; }
packet::PacketProcessor& Gpu::packets() { return blocks_->packets; }
const FaultLog& Gpu::log() const { return blocks_->log; }
arch::RaceChecker* Gpu::races() { return blocks_->races.get(); }

Domain& Gpu::domain() { return blocks_->domain; }
const Domain& Gpu::domain() const { return blocks_->domain; }
Domain& Gpu::memory_domain() { return blocks_->memory_clock ? blocks_->memory_clock->domain : blocks_->domain; }
const arch::Topology& Gpu::topology() const { return blocks_->topology; }
const GpuParams& Gpu::params() const { return blocks_->params; }

void Gpu::reset() { blocks_->reset(); }

void Gpu::settle(bool more) { blocks_->settle(more); }

std::size_t Gpu::payloads() const { return blocks_->payloads(); }
std::size_t Gpu::open_operations() const { return blocks_->task.open() + blocks_->packets.open(); }
MachineState& Gpu::state() { return blocks_->state; }
void Gpu::check_quiescent() { blocks_->check_idle(); }

}  // namespace heddle::gpu
