#include "replay/device_memory.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "workload/memory_region.h"

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

namespace {

bool uses_linear_memory(const workload::Workload& workload) {
  return std::any_of(workload.ops.begin(), workload.ops.end(), [](const workload::Op& op) {
    return op.kind == workload::OpKind::kernel && op.kernel.cluster.linear_memory;
  });
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

void load_regions(const workload::Workload& workload, const std::string& instance, gpu::Gpu& gpu) {
  const bool linear_memory = uses_linear_memory(workload);
  for (const workload::MemoryRegion& region : workload.memory) {
    const std::uint64_t memory = gpu.params().machine.memory;
    if (region.bytes > memory || region.address > memory - region.bytes) {
      throw InputError(region.where,
                       fmt::format("region {}: it ends at byte {}, but {} has {} bytes of memory", region.name,
                                   region.address + region.bytes, instance, memory),
                       "make it smaller, or choose a machine with more memory: heddle show params gpu.memory");
    }
    if (linear_memory) check_pool(region, instance, gpu.params());
    if (region.contents.kind == workload::RegionContents::Kind::zeros) continue;
    constexpr std::uint64_t kPortion = std::uint64_t{4} << 20;
    for (std::uint64_t offset = 0; offset < region.bytes; offset += kPortion) {
      const std::vector<std::uint8_t> bytes =
          workload::initial_bytes(region, offset, std::min(kPortion, region.bytes - offset));
      HEDDLE_CHECK(gpu.write_memory(region.address + offset, bytes.data(), bytes.size()), "a region cannot be filled");
    }
  }
}

std::vector<std::vector<std::uint8_t>> read_regions(const workload::Workload& workload, gpu::Gpu& gpu,
                                                    const std::vector<std::string>& wanted) {
  std::vector<std::vector<std::uint8_t>> regions;
  for (const workload::MemoryRegion& region : workload.memory) {
    regions.emplace_back();
    const bool named = std::find(wanted.begin(), wanted.end(), region.name) != wanted.end();
    if (!region.write && !named) continue;
    regions.back().resize(region.bytes);
    HEDDLE_CHECK(gpu.read_memory(region.address, regions.back().data(), region.bytes), "a region cannot be read");
  }
  return regions;
}

}  // namespace heddle::replay
