// CTAs that come with their ids, because they were saved, beside grids that the raster units follow.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include "gpc/gpc_bench.h"
#include "support/random.h"

namespace gpc_restored_test {

using namespace heddle::test;

TEST_CASE("what device-side launches need reaches the SMs", "[gpc][task][TSK-05][TSK-12]") {
  GpcBench bench(uneven(), plain());
  BenchLaunch packet = bench.launch(0, 0b1111'1111, 0);
  packet.record = 0x8000'0080;
  packet.queue = true;
  packet.subcontext = 9;
  bench.cwd.script = {packet};
  packet = bench.launch(1, 0b0000'0100, 0);
  packet.area = 0x9000'0000;
  packet.id.emplace();
  packet.id->index = 77;
  packet.id->cta = {7, 11, 0};
  bench.cwd.script.push_back(packet);
  bench.cwd.start(0);
  run_until_idle();
  REQUIRE(bench.starts.size() == 9);
  for (const Start& start : bench.starts) {
    const bool saved = start.packet.tag.slot == 1;
    CHECK(start.packet.record == (saved ? 0 : 0x8000'0080));
    CHECK(start.packet.queue == !saved);
    CHECK(start.packet.subcontext == (saved ? 0 : 9));
    CHECK(start.packet.area == (saved ? 0x9000'0000 : 0));
    if (!saved) continue;
    CHECK(start.packet.id.index == 77);
    CHECK(start.packet.id.cta == heddle::arch::Coord{7, 11, 0});
  }
  bench.expect_idle();
}

// A task's slot serves a restored CTA of it, and of others, before, between and after packets of grids; an evicted
// task's grid goes on where it stood, in its own slot.
TEST_CASE("restored CTAs leave the raster units as they are", "[gpc][task][TSK-03][TSK-12]") {
  std::uint32_t restored_ctas = 0;
  for (const std::uint64_t seed : seeds(300)) {
    CAPTURE(seed);
    Random random(seed);
    GpcBench bench(uneven(), plain());
    std::vector<std::uint64_t> position(3, 0);  // by slot
    for (std::uint32_t i = random.between(1, 60); i > 0; --i) {
      const std::uint32_t slot = random.below(3);
      if (random.chance(40)) {
        BenchLaunch packet = bench.launch(slot, std::uint64_t{1} << random.below(8), 0);
        packet.operation = 100 + random.below(4);
        packet.area = 64;
        packet.id.emplace();
        packet.id->index = 1'000'000 + i;
        bench.cwd.script.push_back(packet);
        ++restored_ctas;
        continue;
      }
      position[slot] += random.chance(50) ? random.below(100) : 0;  // elsewhere
      bench.cwd.script.push_back(bench.launch(slot, 1 + random.below(255), position[slot]));
      position[slot] += bench.cwd.script.back().num_ctas;
    }
    bench.cwd.start(0);
    run_until_idle();
    for (const Start& start : bench.starts) {
      if (start.packet.area != 0) {
        REQUIRE(start.packet.id.index > 1'000'000);
      } else {
        REQUIRE(start.packet.id.index == start.packet.order);
      }
    }
    bench.expect_idle();
  }
  CHECK(restored_ctas > 1000);
}

}  // namespace gpc_restored_test
