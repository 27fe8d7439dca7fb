#include "replay/device_memory.h"

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

void load_regions(const workload::Workload& workload, const std::string& instance, gpu::Gpu& gpu) {
  for (const workload::MemoryRegion& region : workload.memory) {
    const std::uint64_t memory = gpu.params().machine.memory;
    if (region.bytes > memory || region.address > memory - region.bytes) {
      throw InputError(region.where,
                       fmt::format("region {}: it ends at byte {}, but {} has {} bytes of memory", region.name,
                                   region.address + region.bytes, instance, memory),
                       "make it smaller, or choose a machine with more memory: heddle show params gpu.memory");
    }
    if (region.contents.kind == workload::RegionContents::Kind::zeros) continue;
    const std::vector<std::uint8_t> bytes = workload::initial_bytes(region);
    HEDDLE_CHECK(gpu.write_memory(region.address, bytes.data(), bytes.size()), "a region cannot be filled");
  }
}

std::vector<std::vector<std::uint8_t>> read_regions(const workload::Workload& workload, gpu::Gpu& gpu) {
  std::vector<std::vector<std::uint8_t>> regions;
  for (const workload::MemoryRegion& region : workload.memory) {
    regions.emplace_back(region.bytes);
    HEDDLE_CHECK(gpu.read_memory(region.address, regions.back().data(), region.bytes), "a region cannot be read");
  }
  return regions;
}

}  // namespace heddle::replay
