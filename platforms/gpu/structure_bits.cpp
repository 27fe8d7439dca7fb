#include "gpu/structure_bits.h"

#include <map>
#include <set>

#include "gpu/structure_widths.h"

namespace heddle::gpu {
namespace {

// `*` stands for any number.
bool matches(const std::string& pattern, const std::string& path) {
  std::size_t at = 0;
  for (const char c : pattern) {
    if (c != '*') {
      if (at >= path.size() || path[at] != c) return false;
      ++at;
      continue;
    }
    const std::size_t from = at;
    while (at < path.size() && path[at] >= '0' && path[at] <= '9') ++at;
    if (at == from) return false;
  }
  return at == path.size();
}

double events_of(const AccessLaw& law, const Observation& observation) {
  if (law.packet != nullptr) {
    const auto found = observation.packets.find(law.packet);
    return found == observation.packets.end() ? 0 : static_cast<double>(found->second);
  }
  const std::string pattern = observation.prefix + "." + law.statistic;
  if (law.statistic.find('*') == std::string::npos) return observation.stats.value(pattern);
  double sum = 0;
  bool any = false;
  for (const Stats::Description& statistic : observation.stats.descriptions()) {
    if (!matches(pattern, statistic.path)) continue;
    sum += observation.stats.value(statistic.path);
    any = true;
  }
  HEDDLE_CHECK(any, "accesses are to be counted by a statistic that no machine has: " + pattern);
  return sum;
}

double sum_of(const std::vector<AccessLaw>& laws, const Observation& observation) {
  double sum = 0;
  for (const AccessLaw& law : laws) sum += law.times * events_of(law, observation);
  return sum;
}

}  // namespace

const char* structure_kind_name(StructureKind kind) {
  switch (kind) {
    case StructureKind::table:
      return "table";
    case StructureKind::registers:
      return "registers";
    case StructureKind::queue:
      return "queue";
    case StructureKind::packet:
      return "packet";
  }
  return "";
}

std::uint64_t Structure::entry_bits() const {
  std::uint64_t sum = 0;
  for (const BitField& field : fields) sum += std::uint64_t{field.bits} * field.times;
  return sum;
}

std::vector<Structure> structures_of(const GpuParams& params) {
  const Widths widths(params);
  std::vector<Structure> list;
  add_distributor(widths, list);
  add_gpcs(widths, list);
  add_sms(widths, list);
  add_packets(widths, list);
  return list;
}

Accesses accesses_of(const Structure& structure, const Observation& observation) {
  Accesses accesses{sum_of(structure.reads, observation), sum_of(structure.writes, observation), 0};
  accesses.bits = structure.moved.empty()
                      ? (accesses.reads + accesses.writes) * static_cast<double>(structure.entry_bits())
                      : sum_of(structure.moved, observation);
  return accesses;
}

}  // namespace heddle::gpu
