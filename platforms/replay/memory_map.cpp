#include "replay/memory_map.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "arch/page_table.h"

namespace heddle::replay {
namespace {

using arch::kLargePage;
using arch::kSmallPage;
using workload::MemoryRegion;
using workload::RegionContents;

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

bool uses_linear_memory(const workload::Workload& workload, std::uint8_t subcontext) {
  const auto uses = [subcontext](const arch::KernelRecord& kernel) {
    return kernel.subcontext == subcontext && kernel.cluster.linear_memory;
  };
  return std::any_of(workload.ops.begin(), workload.ops.end(),
                     [&](const workload::Op& op) { return uses(op.kernel); }) ||
         std::any_of(workload.launched.begin(), workload.launched.end(),
                     [](const workload::LaunchedKernel& one) { return one.kernel.cluster.linear_memory; });
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
    next_ = map_.end;
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
      run.frame = round_up(next_, unit) + run.begin % unit;
      next_ = run.frame + (run.end - run.begin);
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
    for (const Fixed& fixed : space.fixed) {
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

  std::vector<Fixed> fixed_of(std::uint8_t subcontext) const {
    std::vector<Fixed> fixed;
    const auto add = [&fixed](std::uint64_t begin, std::uint64_t bytes, bool writable) {
      if (bytes > 0) fixed.push_back({round_down(begin, kSmallPage), round_up(begin + bytes, kSmallPage), writable});
    };
    for (const MemoryRegion& region : workload_.memory) {
      if (region.users.count(subcontext) != 0) add(region.address, region.bytes, true);  // programs append
    }
    const arch::NestedMemory nested = params_.nested_memory();
    if (!workload_.launched.empty() && nested.tasks.count > 0) add(nested.tasks.base, nested.tasks.bytes(), false);
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
    std::uint64_t base = round_up(next_, arch::kPageTableAlignment);
    for (const Space& space : spaces_) {
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
      base = round_up(base + tables.used(), arch::kPageTableAlignment);
    }
    map_.end = base;
    const std::uint64_t limit = params_.front_end_memory();
    if (map_.end <= limit) return;
    throw InputError(spaces_.front().subcontext->where,
                     fmt::format("regions of translated subcontexts and their page tables end at byte {}, but from "
                                 "byte {} on lies what {} keeps itself",
                                 map_.end, limit, instance_),
                     "make the regions smaller, or raise gpu.memory");
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
  std::uint64_t next_ = 0;  // free physical memory
  std::vector<Space> spaces_;
};

}  // namespace

MemoryMap map_memory(const workload::Workload& workload, const std::string& instance, const gpu::GpuParams& params) {
  return Mapper(workload, instance, params).map();
}

}  // namespace heddle::replay
