#include "arch/virtual_map.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace heddle::arch {

std::vector<std::vector<VirtualPart>> virtual_parts(const Topology& topology, const std::vector<bool>& usable) {
  std::vector<std::vector<VirtualPart>> parts(topology.gpcs());
  std::vector<std::vector<bool>> on(topology.gpcs());
  std::vector<std::uint32_t> tpcs(topology.gpcs(), 0);  // usable ones, by GPC
  std::set<std::uint32_t> ugpus;
  std::size_t first = 0;
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    const std::size_t count = topology.gpc(g).tpcs.size();
    parts[g].resize(count);
    for (std::size_t t = 0; t < count; ++t) {
      on[g].push_back(usable[first + t]);
      tpcs[g] += usable[first + t] ? 1 : 0;
    }
    first += count;
    if (tpcs[g] > 0) ugpus.insert(topology.ugpu_of(g));
  }
  std::vector<std::uint32_t> order(topology.gpcs());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&tpcs](std::uint32_t a, std::uint32_t b) { return tpcs[a] > tpcs[b]; });
  std::uint32_t sm = 0;
  for (std::uint32_t number = 0; number < order.size(); ++number) {
    const std::uint32_t g = order[number];
    const Topology::Gpc& gpc = topology.gpc(g);
    std::uint32_t tpc = 0;
    std::set<std::uint32_t> cpcs;  // with a usable TPC, up to this one: TPCs of one CPC are consecutive
    for (std::size_t t = 0; t < gpc.tpcs.size(); ++t) {
      if (!on[g][t]) continue;
      cpcs.insert(gpc.tpcs[t].cpc);
      const auto ugpu = static_cast<std::uint32_t>(std::distance(ugpus.begin(), ugpus.find(topology.ugpu_of(g))));
      parts[g][t] = {sm, tpc++, static_cast<std::uint32_t>(cpcs.size() - 1), number, ugpu};
      sm += gpc.tpcs[t].sms;
    }
  }
  return parts;
}

}  // namespace heddle::arch
