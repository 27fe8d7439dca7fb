#include "replay/device_memory.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "arch/kernel_object.h"
#include "arch/page_table.h"
#include "gpu/gpu.h"
#include "scenario/memory_region.h"

namespace heddle::replay {
namespace {

using arch::kLargePage;
using arch::kSmallPage;
using workload::MemoryRegion;
using workload::RegionContents;

// Virtual address of the local memory of a translated subcontext: far from where regions find a place.
constexpr std::uint64_t kLocalWindow = std::uint64_t{1} << 48;

std::uint64_t round_down(std::uint64_t address, std::uint64_t to) { return address / to * to; }
std::uint64_t round_up(std::uint64_t address, std::uint64_t to) { return (address + to - 1) / to * to; }

// Pages of one address space, side by side.
struct Run {
  std::uint64_t begin = 0;  // virtual
  std::uint64_t end = 0;
  std::uint64_t frame = 0;
};

// What lies at its own address in every space.
struct Fixed {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool writable = false;
};

// Local memory of a thread of the subcontext, as its kernels need it, and whose need that is.
struct LocalNeed {
  std::uint32_t bytes = 0;
  const arch::KernelRecord* kernel = nullptr;

  void take(const arch::KernelRecord& other) {
    if (other.local_bytes <= bytes) return;
    bytes = other.local_bytes;
    kernel = &other;
  }
};

// Programs launch into their own subcontext.
std::map<std::uint8_t, LocalNeed> local_needs(const workload::Workload& workload) {
  std::map<std::uint8_t, LocalNeed> needs;
  for (const workload::Op& op : workload.ops) {
    if (op.kind != workload::OpKind::kernel) continue;
    LocalNeed& need = needs[op.kernel.subcontext];
    need.take(op.kernel);
    if (op.kernel.program == nullptr || !op.kernel.program->launches()) continue;
    for (const workload::LaunchedKernel& launched : workload.launched) need.take(launched.kernel);
  }
  return needs;
}

bool uses_linear_memory(const workload::Workload& workload, std::uint8_t subcontext) {
  const auto uses = [subcontext](const arch::KernelRecord& kernel) {
    return kernel.subcontext == subcontext && kernel.cluster.linear_memory;
  };
  return std::any_of(workload.ops.begin(), workload.ops.end(),
                     [&](const workload::Op& op) { return uses(op.kernel); }) ||
         std::any_of(workload.launched.begin(), workload.launched.end(),
                     [](const workload::LaunchedKernel& one) { return one.kernel.cluster.linear_memory; });
}

bool launches(const workload::Workload& workload, std::uint8_t subcontext) {
  return std::any_of(workload.ops.begin(), workload.ops.end(), [subcontext](const workload::Op& op) {
    const auto& program = op.kernel.program;
    return op.kernel.subcontext == subcontext && program != nullptr && program->launches();
  });
}

class Mapper {
 public:
  Mapper(const workload::Workload& workload, const std::string& instance, const gpu::GpuParams& params)
      : workload_(workload), instance_(instance), params_(params) {}

  MemoryMap map() {
    for (const MemoryRegion& region : workload_.memory) {
      map_.regions.push_back(region.address);
      if (!region.subcontext) map_.end = std::max(map_.end, region.address + region.bytes);
    }
    // Local memory and frames of a subcontext lie in its instance's memory, behind the regions there.
    const arch::Instances& instances = params_.machine.instances;
    for (std::uint32_t i = 0; i < instances.count(); ++i) next_[i] = instances.base(i);
    next_[std::nullopt] = std::max(map_.end, instances.base(instances.count()));
    map_.end = next_[std::nullopt];
    for (const MemoryRegion& region : workload_.memory) {
      if (region.subcontext || !region.instance) continue;
      next_[region.instance] = std::max(next_[region.instance], region.address + region.bytes);
    }
    local_memory();
    for (const workload::Subcontext& subcontext : workload_.subcontexts) {
      if (subcontext.translated) space(subcontext);
    }
    tables();
    return std::move(map_);
  }

 private:
  struct Space {
    const workload::Subcontext* subcontext;
    std::vector<Run> runs;
    std::map<std::uint64_t, bool> pages;  // writable
    std::vector<Fixed> fixed;
  };

  // PRT-06. Threads have whole words.
  void local_memory() {
    std::map<std::uint8_t, LocalNeed> needs = local_needs(workload_);
    for (const workload::Subcontext& subcontext : workload_.subcontexts) {
      if (!subcontext.local_bytes) continue;
      LocalNeed& need = needs[subcontext.id];
      if (need.bytes > *subcontext.local_bytes) {
        throw InputError(subcontext.where,
                         fmt::format("kernel '{}' takes {} bytes of local memory for each thread, but those of "
                                     "subcontext {} have {}",
                                     need.kernel->name, need.bytes, subcontext.id, *subcontext.local_bytes),
                         "raise `local` of the subcontext, or leave it out: it has what its kernels need then");
      }
      need.bytes = *subcontext.local_bytes;
    }
    for (const auto& [id, need] : needs) {
      if (need.bytes == 0) continue;
      const std::uint8_t subcontext = id;
      const auto is_its = [subcontext](const workload::Subcontext& one) { return one.id == subcontext; };
      const auto entry = std::find_if(workload_.subcontexts.begin(), workload_.subcontexts.end(), is_its);
      const bool listed = entry != workload_.subcontexts.end();
      arch::LocalMemory memory{kLocalWindow, static_cast<std::uint32_t>(round_up(need.bytes, arch::kLocalWord))};
      const std::uint64_t bytes = params_.local_memory(memory);
      const std::optional<std::uint32_t> instance = listed ? entry->instance : std::nullopt;
      const std::uint64_t begin = round_up(next_[instance], kSmallPage);
      const std::uint64_t limit = instance ? params_.machine.instances.base(*instance + 1) : params_.front_end_memory();
      if (bytes > limit || begin > limit - bytes) {
        throw InputError(
            listed ? entry->where : SourcePos{},
            fmt::format("the local memory of subcontext {} does not fit into {}: {} bytes, {} for each thread that can "
                        "be resident ({}), from byte {} on, but {} byte {} {}",
                        id, instance_, bytes, memory.bytes,
                        need.kernel == nullptr ? "as its entry says" : fmt::format("kernel '{}'", need.kernel->name),
                        begin, instance ? "its instance ends at" : "from", limit,
                        instance ? "of memory" : fmt::format("on lies what {} keeps itself", instance_)),
            "give kernels less (`local`), lower gpu.cwd.local_memory_blocks, or raise gpu.memory");
      }
      if (!listed || !entry->translated) {
        memory.address = begin;
        next_[instance] = begin + bytes;
        if (!instance) map_.end = begin + bytes;
      }
      map_.locals.push_back({id, memory});
    }
  }

  // The local memory of a translated subcontext lies in its space as a region does.
  void cover_local(std::uint8_t subcontext, Space& space) const {
    for (const MemoryMap::Local& local : map_.locals) {
      if (local.subcontext != subcontext) continue;
      const std::uint64_t end = kLocalWindow + round_up(params_.local_memory(local.memory), kSmallPage);
      for (std::uint64_t page = kLocalWindow; page < end; page += kSmallPage) space.pages.emplace(page, true);
    }
  }

  // Where it lies no region can.
  std::vector<Fixed> taken_by_local(std::uint8_t subcontext) const {
    std::vector<Fixed> taken;
    for (const MemoryMap::Local& local : map_.locals) {
      if (local.subcontext != subcontext) continue;
      taken.push_back({kLocalWindow, kLocalWindow + round_up(params_.local_memory(local.memory), kSmallPage), true});
    }
    return taken;
  }

  void space(const workload::Subcontext& subcontext) {
    if (!params_.mmu.enabled) {
      throw InputError(subcontext.where,
                       fmt::format("subcontext {} has an address space of its own, and {} does not translate addresses",
                                   subcontext.id, instance_),
                       "switch it on, as in config: {gpu: {mmu: {enabled: true}}}");
    }
    Space made{&subcontext, {}, {}, fixed_of(subcontext.id)};
    for (const MemoryRegion& region : workload_.memory) {
      if (region.subcontext == subcontext.id) cover(region, made);
    }
    cover_local(subcontext.id, made);
    std::uint64_t last = 0;
    for (const auto& [page, writable] : made.pages) {
      if (made.runs.empty() || page != last + kSmallPage) made.runs.push_back({page, page, 0});
      made.runs.back().end = page + kSmallPage;
      last = page;
    }
    for (Run& run : made.runs) {
      // Where a page of 2 MiB fits into the run, its frame lies so that there can be one.
      const bool large = round_up(run.begin, kLargePage) + kLargePage <= run.end;
      const std::uint64_t unit = large ? kLargePage : kSmallPage;
      std::uint64_t& next = next_[subcontext.instance];
      run.frame = round_up(next, unit) + run.begin % unit;
      next = run.frame + (run.end - run.begin);
    }
    for (std::size_t i = 0; i < workload_.memory.size(); ++i) {
      const MemoryRegion& region = workload_.memory[i];
      if (region.subcontext != subcontext.id) continue;
      for (const Run& run : made.runs) {
        if (region.address >= run.begin && region.address < run.end) {
          map_.regions[i] = run.frame + (region.address - run.begin);
        }
      }
    }
    spaces_.push_back(std::move(made));
  }

  void cover(const MemoryRegion& region, Space& space) {
    if (region.address + region.bytes > std::uint64_t{1} << arch::kVirtualBits) {
      throw InputError(region.where, fmt::format("region {}: it ends above the 49 bits of an address", region.name),
                       "leave out `at`, and it finds a place");
    }
    const std::uint64_t begin = round_down(region.address, kSmallPage);
    const std::uint64_t end = round_up(region.address + region.bytes, kSmallPage);
    std::vector<Fixed> taken = taken_by_local(*region.subcontext);
    taken.insert(taken.end(), space.fixed.begin(), space.fixed.end());
    for (const Fixed& fixed : taken) {
      if (begin >= fixed.end || fixed.begin >= end) continue;
      throw InputError(region.where,
                       fmt::format("region {}: from {:#x} to {:#x} lies what programs need of {} itself", region.name,
                                   fixed.begin, fixed.end, instance_),
                       "leave out `at`, and it finds a place");
    }
    const bool tensor = region.contents.kind == RegionContents::Kind::tensor;
    for (std::uint64_t page = begin; page < end; page += kSmallPage) {
      const auto [found, fresh] = space.pages.emplace(page, !region.read_only);
      if (fresh || tensor || found->second == !region.read_only) continue;
      throw InputError(
          region.where,
          fmt::format("region {}: it shares the page at {:#x} with a region of other `access`", region.name, page),
          "pages have 64 KiB: leave out `at` and `align`, and regions begin at pages of their own");
    }
  }

  // No other subcontext has the same pools of launches.
  void check_alone(std::uint8_t subcontext, std::uint32_t parts) const {
    for (const workload::Subcontext& other : workload_.subcontexts) {
      if (other.id == subcontext || other.id % parts != subcontext % parts) continue;
      throw InputError(other.where,
                       fmt::format("subcontexts {} and {} have the same pools of device-side launches, and the address "
                                   "space of one would show those of the other",
                                   std::min(subcontext, other.id), std::max(subcontext, other.id)),
                       "raise gpu.task.nested.parts, or number them otherwise: subcontexts have the pools in turn");
    }
  }

  std::vector<Fixed> fixed_of(std::uint8_t subcontext) const {
    std::vector<Fixed> fixed;
    const auto add = [&fixed](std::uint64_t begin, std::uint64_t bytes, bool writable) {
      if (bytes > 0) fixed.push_back({round_down(begin, kSmallPage), round_up(begin + bytes, kSmallPage), writable});
    };
    for (const MemoryRegion& region : workload_.memory) {
      if (region.users.count(subcontext) != 0) add(region.address, region.bytes, true);  // programs append
      // Launches from the device find their objects there.
      const bool objects = region.contents.kind == RegionContents::Kind::kernels;
      if (objects && launches(workload_, subcontext)) add(region.address, region.bytes, false);
    }
    const arch::LaunchMemory nested = params_.nested_memory();
    if (!workload_.launched.empty() && nested.any()) {
      check_alone(subcontext, nested.parts);
      // Its own launches alone: their arguments lie in their TMDs. Contexts and saved CTAs are on other pages.
      const arch::RecordSupply own = nested.of(subcontext).tasks;
      add(own.pool.base, own.bytes(), false);
    }
    if (uses_linear_memory(workload_, subcontext)) {
      const gpc::CgaMemoryPool pool = params_.cga_memory();
      const std::uint64_t own = std::uint64_t{pool.slots} * pool.slot_bytes;
      if (own % kSmallPage != 0 || pool.base % kSmallPage != 0) {
        throw InputError(
            fmt::format(
                "subcontext {} has an address space of its own, and the linear memories of its CGAs share pages "
                "with those of others: {} bytes for each subcontext, at {:#x}",
                subcontext, own, pool.base),
            "make gpu.cwd.memory_slots times gpu.gpc.cga_memory a multiple of 64 KiB");
      }
      add(pool.base + subcontext * own, own, true);
    }
    return fixed;
  }

  void tables() {
    if (spaces_.empty()) return;
    // No page that somebody has mapped holds a page table.
    for (auto& next : next_) next.second = round_up(next.second, kSmallPage);
    for (const Space& space : spaces_) {
      std::uint64_t& next = next_[space.subcontext->instance];
      const std::uint64_t base = round_up(next, arch::kPageTableAlignment);
      std::uint64_t ranges = 2 * space.runs.size() + space.fixed.size() + 1;
      std::uint64_t bytes = 0;
      for (const Run& run : space.runs) bytes += run.end - run.begin;
      for (const Fixed& fixed : space.fixed) bytes += fixed.end - fixed.begin;
      bool writable = true;  // a change of access is a further range
      for (const auto& page : space.pages) {
        if (page.second != writable) ++ranges;
        writable = page.second;
      }
      const std::uint64_t room = arch::page_table_bytes(ranges, bytes);
      arch::PageTables tables(base, room, [this](std::uint64_t address, std::uint64_t value) {
        map_.entries.emplace_back(address, value);
      });
      for (const Fixed& fixed : space.fixed)
        tables.map(fixed.begin, fixed.begin, fixed.end - fixed.begin, fixed.writable);
      for (const Run& run : space.runs) map_run(run, space, tables);
      map_.roots.push_back({space.subcontext->id, tables.root()});
      next = round_up(base + tables.used(), arch::kPageTableAlignment);
      check_instance(*space.subcontext, next);
    }
    map_.end = next_[std::nullopt];
    const std::uint64_t limit = params_.front_end_memory();
    if (map_.end <= limit) return;
    throw InputError(
        spaces_.front().subcontext->where,
        fmt::format("regions and local memory of translated subcontexts and their page tables end at byte {}, but from "
                    "byte {} on lies what {} keeps itself",
                    map_.end, limit, instance_),
        "make the regions smaller, or raise gpu.memory");
  }

  void check_instance(const workload::Subcontext& subcontext, std::uint64_t end) const {
    if (!subcontext.instance) return;
    const std::uint64_t limit = params_.machine.instances.base(*subcontext.instance + 1);
    if (end <= limit) return;
    throw InputError(
        subcontext.where,
        fmt::format("the regions of instance {} and the page tables of subcontext {} end at byte {}, and the "
                    "memory of the instance at byte {}",
                    *subcontext.instance, subcontext.id, end, limit),
        "make the regions smaller, or give the instance more memory");
  }

  static void map_run(const Run& run, const Space& space, arch::PageTables& tables) {
    for (std::uint64_t begin = run.begin; begin < run.end;) {
      const bool writable = space.pages.at(begin);
      std::uint64_t end = begin;
      while (end < run.end && space.pages.at(end) == writable) end += kSmallPage;
      tables.map(begin, run.frame + (begin - run.begin), end - begin, writable);
      begin = end;
    }
  }

  const workload::Workload& workload_;
  const std::string& instance_;
  const gpu::GpuParams& params_;
  MemoryMap map_;
  std::map<std::optional<std::uint32_t>, std::uint64_t> next_;  // free physical memory, of each instance or of none
  std::vector<Space> spaces_;
};

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
  const std::uint64_t begin = params.front_end_memory();
  if (region.address + region.bytes <= begin || params.nested_memory().bytes() == 0) return;
  throw InputError(region.where,
                   fmt::format("region {}: it ends at byte {}, but from byte {} on lie the records of device-side "
                               "launches of {}",
                               region.name, region.address + region.bytes, begin, instance),
                   "place it below, make it smaller, lower gpu.task.nested.pending_launches, contexts or "
                   "memory, or raise gpu.memory");
}

// TMA-46.
void check_units(const arch::KernelRecord& kernel, const gpu::GpuParams& params) {
  if (kernel.program == nullptr) return;
  const char* missing = params.tmau.missing(kernel.program->tmau_needs());
  if (missing == nullptr) return;
  throw InputError(
      fmt::format("kernel '{}' makes requests to {}, and {} has none", kernel.name, missing, params.machine.device),
      "choose a machine with such units, as h100-sxm, or set gpu.tmau.enabled and gpu.tmau.requests");
}

std::uint32_t add_code(const arch::KernelRecord& kernel, gpu::Gpu& gpu) {
  if (kernel.program != nullptr) return gpu.add_code(kernel.program, kernel);
  return kernel.demand != nullptr ? gpu.add_code(kernel.demand, kernel) : arch::kNoCode;
}

void write_objects(const workload::Workload& workload, gpu::Gpu& gpu) {
  for (const workload::LaunchedKernel& launched : workload.launched) {
    const arch::KernelRecord& kernel = launched.kernel;
    check_units(kernel, gpu.params());
    const std::uint32_t code = add_code(kernel, gpu);
    const arch::KernelObjectBytes bytes = arch::encode(kernel_object_of(kernel, code));
    HEDDLE_CHECK(gpu.memory().write(launched.address, bytes.data(), bytes.size()), "a kernel object cannot be written");
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

MemoryMap map_memory(const workload::Workload& workload, const std::string& instance, const gpu::GpuParams& params) {
  return Mapper(workload, instance, params).map();
}

std::vector<std::uint32_t> load_programs(const workload::Workload& workload, gpu::Gpu& gpu) {
  std::vector<std::uint32_t> codes(workload.ops.size(), arch::kNoCode);
  std::map<const void*, std::uint32_t> known;  // a program or demand belongs to one kernel
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const workload::Op& op = workload.ops[i];
    const void* program = op.kernel.program.get();
    if (program == nullptr) program = op.kernel.demand.get();
    if (op.kind != workload::OpKind::kernel || program == nullptr) continue;
    const auto [found, fresh] = known.emplace(program, arch::kNoCode);
    check_units(op.kernel, gpu.params());
    if (fresh) found->second = add_code(op.kernel, gpu);
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
  object.raster = kernel.raster;
  object.cooperative = kernel.cooperative;
  object.name = kernel.name.substr(0, arch::kKernelNameBytes - 1);
  // Without a program nothing else says how many threads a CTA has.
  if (code == arch::kNoCode) object.threads_limit = static_cast<std::uint32_t>(kernel.block.count());
  return object;
}

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
      HEDDLE_CHECK(gpu.memory().write(map.regions[i] + offset, bytes.data(), bytes.size()),
                   "a region cannot be filled");
    }
  }
  write_objects(workload, gpu);
  for (const auto& [address, value] : map.entries) {
    std::array<std::uint8_t, 8> bytes{};
    for (unsigned i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(value >> 8 * i);
    HEDDLE_CHECK(gpu.memory().write(address, bytes.data(), bytes.size()), "a page table cannot be written");
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
    HEDDLE_CHECK(gpu.memory().read(map.regions[i], regions.back().data(), region.bytes), "a region cannot be read");
  }
  return regions;
}

}  // namespace heddle::replay
