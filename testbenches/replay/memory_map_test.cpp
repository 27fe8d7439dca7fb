// Regions of translated subcontexts: frames of their own, and page tables that lead there.
#include <algorithm>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/page_table.h"
#include "replay/device_memory.h"
#include "replay/replay_bench.h"
#include "support/random.h"
#include "support/sim_fixture.h"

namespace replay_memory_map_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;
using replay::MemoryMap;
using workload::MemoryRegion;
using workload::Workload;

namespace {

gpu::GpuParams translating() {
  gpu::GpuParams params = preset_params("small");
  params.mmu.enabled = true;
  return params;
}

void add_space(Workload& w, std::uint8_t id) {
  w.subcontexts.emplace_back();
  w.subcontexts.back().id = id;
  w.subcontexts.back().translated = true;
  w.subcontexts.back().where = {"s.yaml", 2, 1};
}

MemoryRegion& add_region(Workload& w, std::uint64_t address, std::uint64_t bytes, int subcontext = -1) {
  w.memory.emplace_back();
  MemoryRegion& region = w.memory.back();
  region.name = fmt::format("r{}", w.memory.size());
  region.address = address;
  region.bytes = bytes;
  if (subcontext >= 0) region.subcontext = static_cast<std::uint8_t>(subcontext);
  region.where = {"s.yaml", 5, 1};
  return region;
}

arch::Translation walk(const MemoryMap& map, std::uint8_t subcontext, std::uint64_t address) {
  std::map<std::uint64_t, std::uint64_t> words;
  for (const auto& [at, value] : map.entries) words[at] = value;
  for (const MemoryMap::Root& root : map.roots) {
    if (root.subcontext != subcontext) continue;
    arch::PageWalk walk(root.address, address);
    while (!walk.done()) walk.feed(words.count(walk.wanted()) != 0 ? words.at(walk.wanted()) : 0);
    return walk.result();
  }
  return {};
}

std::string error_of(const Workload& w, const gpu::GpuParams& params) {
  return failure_of([&] { replay::map_memory(w, "gpu0", params); });
}

}  // namespace

TEST_CASE("random regions of several spaces are reached through their tables, and nothing else is",
          "[replay][PRT-01][MEM-04]") {
  Random random(seed());
  const gpu::GpuParams params = translating();
  for (int round = 0; round < 40; ++round) {
    Workload w = empty_workload(1);
    add_region(w, 0x10'0000, random.between(1, 300'000));
    const std::uint32_t spaces = random.between(1, 3);
    for (std::uint32_t space = 1; space <= spaces; ++space) {
      add_space(w, static_cast<std::uint8_t>(space));
      std::uint64_t next = arch::kSmallPage * random.between(1, 100);
      for (std::uint32_t i = random.between(0, 5); i > 0; --i) {
        MemoryRegion& region =
            add_region(w, next, random.chance(20) ? random.between(1, 9'000'000) : random.between(1, 200'000),
                       static_cast<int>(space));
        region.read_only = random.chance(30);
        next = (next + region.bytes + arch::kSmallPage - 1) / arch::kSmallPage * arch::kSmallPage +
               arch::kSmallPage * random.below(3);
      }
    }
    const MemoryMap map = replay::map_memory(w, "gpu0", params);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> taken;  // physical
    std::uint64_t end_of_frames = 0;
    for (std::size_t i = 0; i < w.memory.size(); ++i) {
      const MemoryRegion& region = w.memory[i];
      taken.emplace_back(map.regions[i], map.regions[i] + region.bytes);
      end_of_frames = std::max(end_of_frames, taken.back().second);
      if (!region.subcontext) {
        CHECK(map.regions[i] == region.address);
        continue;
      }
      for (const std::uint64_t offset : {std::uint64_t{0}, region.bytes - 1, region.bytes / 2}) {
        const arch::Translation found = walk(map, *region.subcontext, region.address + offset);
        REQUIRE(found.present);
        CHECK(found.writable == !region.read_only);
        CHECK(found.physical(region.address + offset) == map.regions[i] + offset);
      }
      const std::uint64_t behind =
          (region.address + region.bytes + arch::kSmallPage - 1) / arch::kSmallPage * arch::kSmallPage;
      const bool other = std::any_of(w.memory.begin(), w.memory.end(), [&](const MemoryRegion& one) {
        return one.subcontext == region.subcontext && one.address == behind;
      });
      CHECK(walk(map, *region.subcontext, behind).present == other);
    }
    std::sort(taken.begin(), taken.end());
    for (std::size_t i = 1; i < taken.size(); ++i) CHECK(taken[i].first >= taken[i - 1].second);
    for (const auto& [at, value] : map.entries) {
      REQUIRE(at / arch::kSmallPage > (end_of_frames - 1) / arch::kSmallPage);  // on no page of a region
      REQUIRE(at + 8 <= map.end);
    }
    CHECK(map.roots.size() == spaces);
  }
}

TEST_CASE("queues keep their address in the spaces of those who use them", "[replay][TSK-05][MEM-04]") {
  Workload w = empty_workload(1);
  add_space(w, 3);
  add_space(w, 4);
  MemoryRegion& region = add_region(w, 0x20'0000, 4096);
  region.contents.kind = workload::RegionContents::Kind::queue;
  region.users = {3};
  add_region(w, 0x10'0000, 4096, 3);
  const MemoryMap map = replay::map_memory(w, "gpu0", translating());
  const arch::Translation queue = walk(map, 3, 0x20'0000);
  CHECK(queue.present);
  CHECK(queue.writable);
  CHECK(queue.physical(0x20'0008) == 0x20'0008);
  CHECK_FALSE(walk(map, 4, 0x20'0000).present);
}

TEST_CASE("without spaces nothing is translated and nothing is asked for", "[replay][MEM-04]") {
  Workload w = empty_workload(1);
  add_region(w, 0x10'0000, 5000);
  const MemoryMap map = replay::map_memory(w, "gpu0", preset_params("small"));
  CHECK(map.roots.empty());
  CHECK(map.entries.empty());
  CHECK(map.end == 0x10'0000 + 5000);
}

TEST_CASE("what cannot be mapped is said with its place", "[replay][MEM-04]") {
  Workload w = empty_workload(1);
  add_space(w, 1);
  add_region(w, 0x10'0000, 100, 1);
  CHECK_THAT(error_of(w, preset_params("small")),
             Contains("s.yaml:2:1: subcontext 1 has an address space of its own, and gpu0 does not translate") &&
                 Contains("mmu: {enabled: true}"));
  CHECK(error_of(w, translating()).empty());
  MemoryRegion& second = add_region(w, 0x10'0080, 100, 1);
  CHECK(error_of(w, translating()).empty());
  second.read_only = true;
  CHECK_THAT(error_of(w, translating()), Contains("region r2: it shares the page at 0x100000 with a region of other"));
  second.address = std::uint64_t{1} << 49;
  CHECK_THAT(error_of(w, translating()), Contains("region r2: it ends above the 49 bits of an address"));
  second.address = 0x40'0000;
  second.bytes = std::uint64_t{1} << 30;
  CHECK_THAT(error_of(w, translating()), Contains("raise gpu.memory"));
  second.bytes = 8;
  MemoryRegion& queue = add_region(w, 0x40'0000, 4096);
  queue.contents.kind = workload::RegionContents::Kind::queue;
  CHECK(error_of(w, translating()).empty());
  queue.users = {1};
  CHECK_THAT(error_of(w, translating()), Contains("region r2: from 0x400000 to 0x410000 lies what programs need"));
}

}  // namespace replay_memory_map_test
