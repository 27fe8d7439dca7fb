// Sets of pools for device-side launches: apart from each other, and found by subcontext and by address.
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/task_record.h"
#include "support/random.h"
#include "task/task_params.h"

namespace launch_memory_test {

using namespace heddle;

namespace {

// The pools of a set, in the order in which they lie.
std::vector<arch::RecordPool> pools_of(const arch::LaunchMemory& own) {
  return {own.tasks.pool, own.tasks.spill, own.contexts.pool, own.contexts.spill, own.chunks};
}

}  // namespace

TEST_CASE("each subcontext has a set of pools, on pages of its own", "[task][PRT-02][PRT-08][TSK-12]") {
  constexpr std::uint64_t kPage = 64 * 1024;
  for (const std::uint64_t seed : test::seeds(300)) {
    CAPTURE(seed);
    test::Random random(seed);
    task::NestedParams params;
    params.pending_launches = random.between(1, 3000);
    params.contexts = random.chance(30) ? 0 : random.between(1, 2000);
    params.memory = random.chance(10) ? 0 : random.between(1, 500) / 10.0;
    params.overflow = random.chance(50) ? task::LaunchOverflow::spill : task::LaunchOverflow::error;
    params.tmdqs = random.between(1, arch::kMaxTmdqs);
    params.parts = random.between(1, 64);
    task::LaunchRoom room;
    room.end = (std::uint64_t{1} << 40) + random.below(1 << 20);
    room.memory = std::uint64_t{random.between(1, 1000)} << 20;
    room.resident = random.between(1, 4000);
    const arch::LaunchMemory memory = task::nested_memory(params, room);
    REQUIRE(memory.base() + memory.bytes() <= room.end);
    const std::uint64_t context = arch::context::bytes(params.tmdqs);
    REQUIRE(context >= 32 + 16 * std::uint64_t{params.tmdqs});
    std::uint64_t before = memory.base();
    for (std::uint32_t s = 0; s < params.parts; ++s) {
      const arch::LaunchMemory own = memory.of(s);
      REQUIRE(own.tasks.pool.count == params.pending_launches);
      REQUIRE(own.contexts.pool.count == (params.contexts == 0 ? room.resident : params.contexts));
      REQUIRE(own.chunks.size == arch::kSaveChunk);
      // Behind them: shares of the memory that are what the page of parameters says, but for one record.
      const double share = static_cast<double>(room.memory) * params.memory / 100 / params.parts;
      const bool spills = params.overflow == task::LaunchOverflow::spill;
      const auto near = [&](const arch::RecordPool& pool, double bytes) {
        REQUIRE(static_cast<double>(pool.bytes()) <= bytes);
        REQUIRE(static_cast<double>(pool.bytes() + pool.size + 2 * arch::kRecordBytes) >= bytes);
      };
      near(own.tasks.spill, spills ? share / 8 : 0);
      near(own.contexts.spill, spills ? share / 8 : 0);
      near(own.chunks, spills ? share * 3 / 4 : share);
      // TMDs alone on their pages, then the rest, one behind the other.
      REQUIRE(own.tasks.pool.base % kPage == 0);
      std::uint64_t last_task = 0;
      std::uint64_t first_context = own.contexts.pool.base;
      for (const arch::RecordPool& pool : pools_of(own)) {
        if (pool.count == 0) continue;
        REQUIRE(pool.base >= before);
        REQUIRE(pool.base % arch::kRecordBytes == 0);
        REQUIRE(pool.record(0) >= pool.base + arch::ring::kSlots + 8 * pool.count);
        before = pool.record(pool.count - 1) + pool.size;
        for (const std::uint64_t address : {pool.base, pool.record(0), before - 1}) {
          REQUIRE(memory.part_at(address).base() == own.base());
        }
        REQUIRE(pool.has(pool.record(pool.count - 1)));
        REQUIRE_FALSE(pool.has(pool.record(pool.count)));
        REQUIRE_FALSE(pool.has(pool.record(0) + 16));
        REQUIRE_FALSE(pool.has(pool.record(0) - pool.size));
        if (pool.base < first_context) last_task = before - 1;
      }
      REQUIRE(first_context / kPage > last_task / kPage);
      REQUIRE(own.tasks.of(own.tasks.pool.record(0)).base == own.tasks.pool.base);
      if (own.tasks.spill.count > 0) {
        REQUIRE(own.tasks.of(own.tasks.spill.record(0)).base == own.tasks.spill.base);
      }
      if (s + params.parts < arch::kSubcontexts) REQUIRE(memory.of(s + params.parts).chunks.base == own.chunks.base);
    }
    REQUIRE(before <= room.end);
  }
}

}  // namespace launch_memory_test
