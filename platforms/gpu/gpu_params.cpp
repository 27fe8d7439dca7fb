#include "gpu/gpu_params.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/memory_op.h"
#include "common/error.h"
#include "common/param_table.h"
#include "common/params.h"
#include "cwd/cost_laws.h"
#include "host/register_table.h"
#include "packet/reference_table.h"
#include "task/channel.h"

namespace heddle::gpu {

namespace {

YAML::Node document(const std::string& name) {
  for (const PresetText& text : preset_texts()) {
    if (name == text.name) return load_yaml(text.yaml, fmt::format("preset {}", name));
  }
  const std::vector<std::string> names = preset_names();
  const std::string near = nearest(name, names);
  throw InputError(fmt::format("there is no preset '{}'", name),
                   near.empty() ? "heddle show presets lists them"
                                : fmt::format("did you mean {}? heddle show presets lists all", near));
}

}  // namespace

const char* name_of(TimingMode timing) {
  switch (timing) {
    case TimingMode::at:
      return "at";
    case TimingMode::fast:
      return "fast";
    case TimingMode::lt:
      break;
  }
  return "lt";
}

void MachineParams::describe(ParamTable<MachineParams>& t) {
  t.add("device", &MachineParams::device, "what the machine is called where something is refused that it lacks",
        "choice");
  t.add("clock", &MachineParams::clock, {Unit::ghz, 0.001, 100.0}, "clock of all blocks",
        "HPMLL/NVIDIA-Hopper-Benchmark logs of an H100 PCIe");
  t.add("shape", &MachineParams::shape, "the tree of GPCs, CPCs, TPCs and SMs",
        "NVIDIA: 132 SMs, 66 TPCs; uneven GPCs as cluster residency of a recording suggests");
  t.add("ugpus", &MachineParams::ugpus,
        "GPCs of each uGPU, in order, as many uGPUs as the L2 has partitions: each owns one (CWD-46); empty: the GPU "
        "is one, and its GPCs are dealt to the partitions evenly",
        "choice: no uGPUs");
  t.add("memory", &MachineParams::memory, {Unit::bytes, 1U << 20, std::uint64_t{511} << 30},
        "size of device memory, which begins at address 0", "NVIDIA: 80 GB on H100 SXM, taken as GiB");
  t.add("instances", &MachineParams::instances,
        "hard slices of the machine, each with GPCs, L2 slices with the memory channels behind them, copy engines and "
        "a part "
        "of device memory of its own (PRT-11); their memories follow each other from address 0 on; empty: none",
        "choice: the machine is one");
  t.add_choice("timing", &MachineParams::timing,
               {{"at", TimingMode::at}, {"fast", TimingMode::fast}, {"lt", TimingMode::lt}},
               "at: links and decisions take their cycles; fast: the same, but an access to memory reserves its way in "
               "one call; lt: only work takes time, for virtual platforms",
               "choice of the specification (HST-03)");
  t.add("run_ahead", &MachineParams::run_ahead, {Unit::cycles, 0, 1'000'000'000},
        "how far the GPU may simulate in front of the SystemC kernel while no other process has anything to do",
        "measured: beyond some hundred cycles a longer one gains nothing");
}

void GpuParams::bind(ParamBinder& binder) {
  binder.bind("gpu", machine);
  binder.bind("gpu.task", task);
  binder.bind("gpu.cwd", cwd);
  binder.bind("gpu.gpc", gpc);
  binder.bind("gpu.gpc.network", network);
  binder.bind("gpu.sm", sm);
  binder.bind("gpu.tmau", tmau);
  binder.bind("gpu.xbar", xbar);
  binder.bind("gpu.l2", l2);
  binder.bind("gpu.hbm", hbm);
  binder.bind("gpu.mmu", mmu);
  binder.bind("gpu.host", host);
  binder.bind("gpu.hub", hub);
  binder.bind("gpu.packet", packet);
  binder.bind("gpu.copy", copy);
  binder.bind("gpu.links", links);
  binder.bind("gpu.power", power);
  binder.bind("gpu.power.energy", energy);
  binder.bind("gpu.check", races);
}

gpc::CgaMemoryPool GpuParams::cga_memory() const {
  gpc::CgaMemoryPool pool{0, cwd.memory_slots, gpc.cga_memory};
  pool.base = machine.memory - std::min(machine.memory, pool.bytes());
  return pool;
}

std::uint64_t GpuParams::reference_tables() const {
  const std::uint64_t top = cga_memory().base;
  if (packet.table == packet::TablePlace::scratch) return top;
  return top - std::min(top, packet::table_bytes(packet));
}

arch::LaunchMemory GpuParams::nested_memory() const {
  task::LaunchRoom room{std::uint64_t{1} << 62, machine.memory, machine.shape.sms() * sm.limits.ctas};
  const arch::LaunchMemory memory = task::nested_memory(task.nested, room);
  const std::uint64_t wanted = memory.base() + memory.bytes() - task::second_halves_of(memory);
  room.end = reference_tables();
  if (wanted <= room.end / 2) return task::nested_memory(task.nested, room);
  arch::LaunchMemory none;
  none.tasks.pool.base = room.end;
  return none;
}

std::uint64_t GpuParams::local_memory(const arch::LocalMemory& memory) const {
  const arch::Topology topology(machine.shape, machine.ugpus);
  const std::uint64_t blocks = cwd.local_memory_blocks == 0 ? topology.tpcs() : cwd.local_memory_blocks;
  return blocks * memory.block_bytes(sm.warp_slots(), topology.sms_per_tpc());
}

std::uint64_t GpuParams::front_end_memory() const {
  const arch::LaunchMemory memory = nested_memory();
  const std::uint64_t base = memory.any() ? task::second_halves_of(memory) : memory.base();
  return task.gap.uses_memory() ? base - task::channel::kBytes : base;
}

Cycle GpuParams::start_path() const {
  // A grid on an empty machine: the bisection always takes the same steps, the scan one if the grid is small.
  Cycle steps = 1;
  if (cwd.level_search == cwd::LevelSearch::bisection) {
    steps = 0;
    for (std::uint32_t top = 1; top <= sm.limits.ctas; top *= 2) ++steps;
  }
  return Cycle{task.list_insert} + task.list_take + task.to_cwd +
         cwd::snapshot_cycles(machine.shape.sms(), cwd.snapshot_sms) + cwd.session_pipeline + steps * cwd.session_step +
         cwd.mask_cycles;
}

void GpuParams::check() const {
  const auto gpcs = static_cast<std::uint32_t>(machine.shape.gpcs.size());
  (void)cwd.sm_priority.resolve(machine.shape.sms(), "gpu.cwd.sm_priority");
  (void)cwd.gpc_priority.resolve(gpcs, "gpu.cwd.gpc_priority");
  (void)arch::Topology(machine.shape, machine.ugpus);
  if (!machine.ugpus.empty() && machine.ugpus.size() != l2.partitions) {
    throw InputError(fmt::format("gpu.ugpus has {} uGPUs, but gpu.l2.partitions is {}: each uGPU owns one partition of "
                                 "the L2",
                                 machine.ugpus.size(), l2.partitions),
                     "name as many uGPUs as there are partitions, or none");
  }
  if (!cwd.gpc_distances.empty() && cwd.gpc_distances.size() != gpcs) {
    throw InputError(fmt::format("gpu.cwd.gpc_distances has {} entries, but the machine has {} GPCs",
                                 cwd.gpc_distances.size(), gpcs),
                     "give one distance per GPC, or none");
  }
  hbm.check();
  l2.check();
  power.check();
  if (machine.memory % arch::kLineBytes != 0) {
    throw InputError(fmt::format("gpu.memory is {} bytes, which is not a whole number of lines", machine.memory),
                     fmt::format("make it a multiple of {} bytes", arch::kLineBytes));
  }
  if (gpc.cga_memory % arch::kLineBytes != 0) {
    throw InputError(
        fmt::format("gpu.gpc.cga_memory is {} bytes, which is not a whole number of lines", gpc.cga_memory),
        fmt::format("make it a multiple of {} bytes", arch::kLineBytes));
  }
  if (cga_memory().bytes() > machine.memory) {
    throw InputError(
        fmt::format("gpu.memory is {} bytes, but the linear memories of CGAs take {}: {} subcontexts x "
                    "gpu.cwd.memory_slots ({}) x gpu.gpc.cga_memory ({})",
                    machine.memory, cga_memory().bytes(), arch::kSubcontexts, cwd.memory_slots, gpc.cga_memory),
        "lower memory_slots or cga_memory, or raise memory");
  }
  const bool tables_in_memory = packet.table == packet::TablePlace::memory;
  if (tables_in_memory && packet::table_bytes(packet) > cga_memory().base) {
    throw InputError(
        fmt::format("gpu.memory is {} bytes, but reference state tables take {} (gpu.packet.table is memory) and the "
                    "linear memories of CGAs {}",
                    machine.memory, packet::table_bytes(packet), cga_memory().bytes()),
        "raise memory, lower gpu.packet.queues or entries, set gpu.packet.table_owner to agent, or gpu.packet.table to "
        "scratch");
  }
  // Tasks of the host hold records while they wait for a slot, while they have one, and while they are evicted, of
  // which one at least is to be possible: what they launch needs records as well (TSK-15). One more is for the head of
  // a list.
  const std::uint64_t held = 2 * std::uint64_t{cwd.table_slots} + std::min(cwd.evicted_tasks, 1U) + 1;
  if (nested_memory().any() && task.nested.pending_launches <= held) {
    throw InputError(
        fmt::format("gpu.task.nested.pending_launches is {}, and tasks of the host alone can hold {}: twice "
                    "gpu.cwd.table_slots ({}), one that is evicted, and one",
                    task.nested.pending_launches, held, cwd.table_slots),
        "raise pending_launches, or lower the others");
  }
  if (sm.nested.save == sm::SavePolicy::wanted && cwd.preemption != cwd::PreemptionMode::instruction) {
    throw InputError("gpu.sm.nested.save is wanted, and gpu.cwd.preemption is not instruction: nobody asks for slots",
                     "set gpu.cwd.preemption to instruction, or gpu.sm.nested.save to wait");
  }
  if (packet.entries > std::uint64_t{1} << packet.reference_bits) {
    throw InputError(fmt::format("gpu.packet.entries is {}, and gpu.packet.reference_bits is {}: a diff can name {}",
                                 packet.entries, packet.reference_bits, std::uint64_t{1} << packet.reference_bits),
                     "raise reference_bits or lower entries");
  }
  if (sm.memory.l1_tag_latency > sm.memory.l1_latency) {
    throw InputError(fmt::format("gpu.sm.memory.l1_tag_latency is {}, but gpu.sm.memory.l1_latency is {}",
                                 sm.memory.l1_tag_latency, sm.memory.l1_latency),
                     "the tags are a part of the way: lower l1_tag_latency or raise l1_latency");
  }
  if (l2.slices % l2.partitions != 0) {
    throw InputError(fmt::format("gpu.l2.slices is {} and gpu.l2.partitions {}", l2.slices, l2.partitions),
                     "every partition has as many slices as the others");
  }
  machine.instances.check(
      {gpcs, l2.slices, hbm.channels, copy.engines, machine.memory, machine.memory - front_end_memory()});
  // Otherwise an address could be an absolute one or a relative one.
  const auto check_base = [](const char* name, std::uint64_t base, std::uint64_t bytes) {
    if (base == 0 || base >= bytes) return;
    throw InputError(fmt::format("{} is {:#x}, but {:#x} bytes lie there", name, base, bytes),
                     "give 0 if the bus subtracts the base, else an address behind that many bytes");
  };
  if ((host.doorbell_page & (host.doorbell_page - 1)) != 0) {
    throw InputError(fmt::format("gpu.host.doorbell_page is {} bytes", host.doorbell_page),
                     "pages are powers of two: 4096, 8192, 16384, 32768 or 65536");
  }
  check_base("gpu.host.bar0", host.bar0, host::bar0_bytes(host.doorbell_page));
  check_base("gpu.host.bar1", host.bar1, machine.memory);
  const arch::SmLimits& limits = sm.limits;
  if (limits.max_threads_per_cta > limits.threads) {
    throw InputError(fmt::format("gpu.sm.limits.max_threads_per_cta is {}, but gpu.sm.limits.threads is {}",
                                 limits.max_threads_per_cta, limits.threads),
                     "a CTA cannot be larger than an SM: raise threads or lower max_threads_per_cta");
  }
  if (limits.max_shared_per_cta > limits.shared_bytes) {
    throw InputError(fmt::format("gpu.sm.limits.max_shared_per_cta is {} bytes, but gpu.sm.limits.shared_bytes is {}",
                                 limits.max_shared_per_cta, limits.shared_bytes),
                     "a CTA cannot have more shared memory than an SM: raise shared_bytes or lower max_shared_per_cta");
  }
}

std::string why_never_fits(const GpuParams& params, const arch::KernelShape& kernel) {
  std::string why = arch::why_impossible(params.sm.limits, kernel);
  if (!why.empty()) return why + " (of an SM)";
  if (!kernel.cluster.any() && !kernel.cooperative) return {};
  if (params.cwd.max_gpc_cga == 1 && arch::why_malformed(kernel.grid, kernel.cluster, arch::kMaxCgaCtas).empty() &&
      !arch::why_malformed(kernel.grid, kernel.cluster, 1).empty()) {
    return fmt::format("its CTAs come in clusters, and {} has none (gpu.cwd.max_gpc_cga is 1)", params.machine.device);
  }
  return cwd::why_never_fits(topology_of(params), params.cwd, params.sm.limits, kernel, cgas_per_gpc(params));
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PresetText& text : preset_texts()) names.emplace_back(text.name);
  return names;
}

std::string preset_description(const std::string& name) { return document(name)["description"].as<std::string>(); }

std::string preset_checked(const std::string& name) { return document(name)["checked"].as<std::string>(); }

std::vector<std::string> preset_unknown(const std::string& name) {
  const YAML::Node unknown = document(name)["unknown"];
  return unknown ? unknown.as<std::vector<std::string>>() : std::vector<std::string>{};
}

YAML::Node preset(const std::string& name) { return document(name)["gpu"]; }

// "H20" is in "H200" as well: the longest name counts.
std::string preset_for_device(const std::string& device) {
  std::string found;
  std::size_t longest = 0;
  for (const PresetText& text : preset_texts()) {
    const YAML::Node devices = document(text.name)["devices"];
    if (!devices) continue;
    for (const YAML::Node& pattern : devices) {
      const auto name = pattern.as<std::string>();
      if (name.size() <= longest || device.find(name) == std::string::npos) continue;
      longest = name.size();
      found = text.name;
    }
  }
  return found;
}

}  // namespace heddle::gpu
