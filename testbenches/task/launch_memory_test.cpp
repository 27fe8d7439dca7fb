// Sets of pools for device-side launches: apart from each other, and found by subcontext and by address.
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/task_record.h"
#include "support/random.h"
#include "task/task_params.h"

namespace launch_memory_test {

using namespace heddle;

TEST_CASE("each subcontext has a set of pools, on pages of its own", "[task][PRT-02][PRT-08]") {
  constexpr std::uint64_t kPage = 64 * 1024;
  for (const std::uint64_t seed : test::seeds(300)) {
    CAPTURE(seed);
    test::Random random(seed);
    task::NestedParams params;
    params.pending_launches = random.between(1, 3000);
    params.contexts = random.between(1, 2000);
    params.areas = random.between(1, 300);
    params.area_bytes = random.between(1, 70'000);
    params.parts = random.between(1, 64);
    const std::uint64_t end = (std::uint64_t{1} << 40) + random.below(1 << 20);
    const arch::LaunchMemory memory = task::nested_memory(params, end);
    REQUIRE(memory.base() + memory.bytes() <= end);
    std::uint64_t before = memory.base();
    for (std::uint32_t s = 0; s < params.parts; ++s) {
      const arch::LaunchMemory own = memory.of(s);
      REQUIRE(own.tasks.count == params.pending_launches);
      REQUIRE(own.contexts.count == params.contexts);
      REQUIRE(own.areas.count == params.areas);
      // TMDs alone on their pages, then the rest, one behind the other.
      REQUIRE(own.tasks.base % kPage == 0);
      REQUIRE(own.tasks.base >= before);
      const std::uint64_t last = own.tasks.record(own.tasks.count - 1) + own.tasks.size - 1;
      REQUIRE(own.contexts.base / kPage > last / kPage);
      REQUIRE(own.areas.base >= own.contexts.record(own.contexts.count - 1) + own.contexts.size);
      before = own.areas.record(own.areas.count - 1) + own.areas.size;
      for (const std::uint64_t address : {own.tasks.base, last, own.contexts.record(0), before - 1}) {
        REQUIRE(memory.part_at(address).tasks.base == own.tasks.base);
      }
      if (s + params.parts < arch::kSubcontexts) REQUIRE(memory.of(s + params.parts).areas.base == own.areas.base);
    }
    REQUIRE(before <= end);
  }
}

}  // namespace launch_memory_test
