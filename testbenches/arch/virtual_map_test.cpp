// Virtual numbers against what they say: they count usable parts, and SMs of one part share its number.
#include "arch/virtual_map.h"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace arch_virtual_map_test {

using namespace heddle::arch;
using heddle::test::Random;

// CWD-31, CWD-45: GPCs by their usable TPCs, most first; all other parts in their order; nothing unusable has a number.
TEST_CASE("virtual numbers count the usable parts of a machine", "[arch][CWD-45][CWD-31]") {
  for (const std::uint64_t seed : heddle::test::seeds(500)) {
    CAPTURE(seed);
    Random random(seed);
    const Shape shape = random.shape(random.between(1, 6));
    std::vector<std::uint32_t> ugpus;
    const auto gpcs = static_cast<std::uint32_t>(shape.gpcs.size());
    if (gpcs > 1 && random.chance(60)) ugpus = {random.between(1, gpcs - 1)};
    if (!ugpus.empty()) ugpus.push_back(gpcs - ugpus[0]);
    const Topology topology(shape, ugpus);
    std::vector<bool> usable;
    std::vector<std::uint32_t> count(gpcs, 0);
    for (std::uint32_t g = 0; g < gpcs; ++g) {
      for (std::size_t t = 0; t < topology.gpc(g).tpcs.size(); ++t) {
        usable.push_back(random.chance(70));
        count[g] += usable.back() ? 1 : 0;
      }
    }
    const auto parts = virtual_parts(topology, usable);
    std::set<std::uint32_t> sms;
    std::map<std::uint32_t, std::uint32_t> gpc_of;   // by virtual GPC
    std::map<std::uint32_t, std::uint32_t> ugpu_of;  // by virtual uGPU
    std::size_t at = 0;
    for (std::uint32_t g = 0; g < gpcs; ++g) {
      std::map<std::uint32_t, std::uint32_t> cpc_of;  // by virtual CPC of the GPC
      std::uint32_t tpc = 0;
      for (std::size_t t = 0; t < topology.gpc(g).tpcs.size(); ++t, ++at) {
        const VirtualPart& part = parts[g][t];
        if (!usable[at]) {
          REQUIRE(part == VirtualPart{});
          continue;
        }
        REQUIRE(part.tpc == tpc++);
        for (std::uint32_t i = 0; i < topology.gpc(g).tpcs[t].sms; ++i) REQUIRE(sms.insert(part.sm + i).second);
        REQUIRE(gpc_of.emplace(part.gpc, g).first->second == g);
        REQUIRE(cpc_of.emplace(part.cpc, topology.gpc(g).tpcs[t].cpc).first->second == topology.gpc(g).tpcs[t].cpc);
        REQUIRE(ugpu_of.emplace(part.ugpu, topology.ugpu_of(g)).first->second == topology.ugpu_of(g));
      }
      if (!cpc_of.empty()) REQUIRE(cpc_of.rbegin()->first == cpc_of.size() - 1);
    }
    if (sms.empty()) continue;
    REQUIRE(*sms.rbegin() == sms.size() - 1);
    REQUIRE(gpc_of.rbegin()->first == gpc_of.size() - 1);
    REQUIRE(ugpu_of.rbegin()->first == ugpu_of.size() - 1);
    for (auto one = gpc_of.begin(), next = std::next(one); next != gpc_of.end(); ++one, ++next) {
      const bool more = count[one->second] > count[next->second];
      REQUIRE((more || (count[one->second] == count[next->second] && one->second < next->second)));
    }
  }
}

TEST_CASE("with all TPCs usable, virtual GPCs are those of the topology", "[arch][CWD-31]") {
  const Topology topology(Shape::from_sms_per_gpc({14, 18, 16, 18}));
  const auto parts = virtual_parts(topology, std::vector<bool>(topology.sms(), true));
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) CHECK(parts[g][0].gpc == topology.virtual_gpc(g));
}

}  // namespace arch_virtual_map_test
