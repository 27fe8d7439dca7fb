#include "replay/device_memory.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "scenario/memory_region.h"

namespace heddle::replay {

std::vector<std::uint32_t> load_programs(const workload::Workload& workload, gpu::Gpu& gpu) {
  std::vector<std::uint32_t> codes(workload.ops.size(), arch::kNoCode);
  std::map<const arch::WarpProgram*, std::uint32_t> known;  // a program belongs to one kernel
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    if (op.kind != workload::OpKind::kernel || op.kernel.program == nullptr) continue;
    const auto [found, fresh] = known.emplace(op.kernel.program.get(), arch::kNoCode);
    if (fresh) found->second = gpu.add_code(op.kernel.program, op.kernel);
    codes[i] = found->second;
  }
  return codes;
}

arch::KernelObject kernel_object_of(const arch::KernelRecord& kernel, std::uint32_t code) {
  for (const arch::Dim3& extents : kernel.cluster.extents) {
    if (std::max({extents.x, extents.y, extents.z}) <= 0xFFFF) continue;
    throw InputError(
        fmt::format("kernel '{}' cannot be launched by programs: a cluster extent is above 65,535", kernel.name),
        "use smaller clusters");
  }
  for (const arch::Dim3& extents : kernel.cluster.fallback) {
    if (std::max({extents.x, extents.y, extents.z}) <= 0xFF) continue;
    throw InputError(fmt::format("kernel '{}' cannot be launched by programs: an extent of a smaller cluster size is "
                                 "above 255",
                                 kernel.name),
                     "use smaller sizes in `fallback`");
  }
  arch::KernelObject object;
  object.program = code;
  object.registers_per_thread = kernel.registers_per_thread;
  object.static_shared = kernel.shared_bytes;
  object.duration = kernel.duration;
  object.cluster = kernel.cluster;
  object.name = kernel.name.substr(0, arch::kKernelNameBytes - 1);
  // Without a program nothing else says how many threads a CTA has.
  if (code == arch::kNoCode) object.threads_limit = static_cast<std::uint32_t>(kernel.block.count());
  return object;
}

namespace {

bool uses_linear_memory(const workload::Workload& workload) {
  const auto launched = [](const workload::LaunchedKernel& one) { return one.kernel.cluster.linear_memory; };
  return std::any_of(workload.launched.begin(), workload.launched.end(), launched) ||
         std::any_of(workload.ops.begin(), workload.ops.end(), [](const workload::Op& op) {
           return op.kind == workload::OpKind::kernel && op.kernel.cluster.linear_memory;
         });
}

bool uses_nested_memory(const workload::Workload& workload) {
  return std::any_of(workload.ops.begin(), workload.ops.end(), [](const workload::Op& op) {
    return op.queue || (op.kernel.program != nullptr && op.kernel.program->launches());
  });
}

// The records of device-side launches are not the workload's.
void check_nested(const workload::MemoryRegion& region, const std::string& instance, const gpu::GpuParams& params) {
  const arch::NestedMemory nested = params.nested_memory();
  if (region.address + region.bytes <= nested.base()) return;
  throw InputError(region.where,
                   fmt::format("region {}: it ends at byte {}, but from byte {} on lie the records of device-side "
                               "launches of {}",
                               region.name, region.address + region.bytes, nested.base(), instance),
                   "place it below, make it smaller, lower gpu.task.nested.pending_launches, contexts, areas or "
                   "area_bytes, or raise gpu.memory");
}

void write_objects(const workload::Workload& workload, gpu::Gpu& gpu) {
  for (const workload::LaunchedKernel& launched : workload.launched) {
    const arch::KernelRecord& kernel = launched.kernel;
    const std::uint32_t code = kernel.program == nullptr ? arch::kNoCode : gpu.add_code(kernel.program, kernel);
    const arch::KernelObjectBytes bytes = arch::encode(kernel_object_of(kernel, code));
    HEDDLE_CHECK(gpu.write_memory(launched.address, bytes.data(), bytes.size()), "a kernel object cannot be written");
  }
}

// Linear memories of CGAs (CWD-22) belong to whichever CGA has the slot: data of the workload must not lie there.
void check_pool(const workload::MemoryRegion& region, const std::string& instance, const gpu::GpuParams& params) {
  const gpc::CgaMemoryPool pool = params.cga_memory();
  if (region.address + region.bytes <= pool.base) return;
  throw InputError(
      region.where,
      fmt::format("region {}: it ends at byte {}, but from byte {} on lie the linear memories of CGAs of {}: {} "
                  "subcontexts x {} slots of {} bytes",
                  region.name, region.address + region.bytes, pool.base, instance, arch::kSubcontexts, pool.slots,
                  pool.slot_bytes),
      "place it below, make it smaller, lower gpu.cwd.memory_slots or gpu.gpc.cga_memory, or raise gpu.memory");
}

}  // namespace

void load_regions(const workload::Workload& workload, const std::string& instance, gpu::Gpu& gpu,
                  const MemoryMap& map) {
  const bool linear_memory = uses_linear_memory(workload);
  const bool nested = uses_nested_memory(workload);
  for (std::size_t i = 0; i < workload.memory.size(); ++i) {
    const workload::MemoryRegion& region = workload.memory[i];
    const std::uint64_t memory = gpu.params().machine.memory;
    if (!region.subcontext && (region.bytes > memory || region.address > memory - region.bytes)) {
      throw InputError(region.where,
                       fmt::format("region {}: it ends at byte {}, but {} has {} bytes of memory", region.name,
                                   region.address + region.bytes, instance, memory),
                       "make it smaller, or choose a machine with more memory: heddle show params gpu.memory");
    }
    if (linear_memory && !region.subcontext) check_pool(region, instance, gpu.params());
    if (nested && !region.subcontext) check_nested(region, instance, gpu.params());
    if (region.contents.kind == workload::RegionContents::Kind::zeros) continue;
    constexpr std::uint64_t kPortion = std::uint64_t{4} << 20;
    for (std::uint64_t offset = 0; offset < region.bytes; offset += kPortion) {
      const std::vector<std::uint8_t> bytes =
          scenario::initial_bytes(region, offset, std::min(kPortion, region.bytes - offset));
      HEDDLE_CHECK(gpu.write_memory(map.regions[i] + offset, bytes.data(), bytes.size()), "a region cannot be filled");
    }
  }
  write_objects(workload, gpu);
  for (const auto& [address, value] : map.entries) {
    std::array<std::uint8_t, 8> bytes{};
    for (unsigned i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(value >> 8 * i);
    HEDDLE_CHECK(gpu.write_memory(address, bytes.data(), bytes.size()), "a page table cannot be written");
  }
}

std::vector<std::vector<std::uint8_t>> read_regions(const workload::Workload& workload, gpu::Gpu& gpu,
                                                    const MemoryMap& map, const std::vector<std::string>& wanted) {
  std::vector<std::vector<std::uint8_t>> regions;
  for (std::size_t i = 0; i < workload.memory.size(); ++i) {
    const workload::MemoryRegion& region = workload.memory[i];
    regions.emplace_back();
    const bool named = std::find(wanted.begin(), wanted.end(), region.name) != wanted.end();
    if (!region.write && !named) continue;
    regions.back().resize(region.bytes);
    HEDDLE_CHECK(gpu.read_memory(map.regions[i], regions.back().data(), region.bytes), "a region cannot be read");
  }
  return regions;
}

}  // namespace heddle::replay
