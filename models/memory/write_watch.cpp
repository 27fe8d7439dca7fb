#include "memory/write_watch.h"

#include <algorithm>

namespace heddle::memory {

WriteWatch::WriteWatch(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, Cycle latency)
    : Block(name, domain, path),
      written_out("written_out", domain, latency, kUnlimitedCredits),
      told_(counter("told", "lines", "writes to lines that somebody watched")) {}

void WriteWatch::add(std::uint64_t line, std::uint64_t watch) {
  HEDDLE_CHECK(watch != 0 && written_out.links() > 0, "somebody watches memory who cannot be told");
  std::vector<std::uint64_t>& numbers = lines_[line];
  if (std::find(numbers.begin(), numbers.end(), watch) == numbers.end()) numbers.push_back(watch);
}

void WriteWatch::written(std::uint64_t first, std::uint64_t last) {
  const auto begin = lines_.lower_bound(first);
  const auto end = lines_.upper_bound(last);
  for (auto line = begin; line != end; ++line) {
    for (const std::uint64_t watch : line->second) {
      told_.add();
      written_out.send({watch});
    }
  }
  lines_.erase(begin, end);
}

}  // namespace heddle::memory
