#include "cwd/part_map.h"

#include <utility>

namespace heddle::cwd {

void PartMap::announce(const LiveModel& live) {
  std::vector<bool> usable;
  for (std::uint32_t tpc = 0; tpc < live.tpcs(); ++tpc) usable.push_back(live.enabled(tpc));
  if (known_.empty()) known_ = arch::virtual_parts(context_.topology, std::vector<bool>(usable.size(), true));
  std::vector<std::vector<arch::VirtualPart>> parts = arch::virtual_parts(context_.topology, usable);
  for (std::uint32_t g = 0; g < parts.size(); ++g) {
    const Cycle extra = context_.timebase.cost(context_.params.distance_of(g) - context_.params.nearest_gpc());
    for (std::uint32_t t = 0; t < parts[g].size(); ++t) {
      if (parts[g][t] == known_[g][t]) continue;
      parts_.send_at(context_.now() + extra, {protocol::TpcInGpc(t), parts[g][t]}, g);
    }
  }
  known_ = std::move(parts);
}

}  // namespace heddle::cwd
