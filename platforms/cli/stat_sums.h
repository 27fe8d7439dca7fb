// Sums of a GPU's statistics over its like blocks, for the page.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run_outcome.h"

namespace heddle::cli {

// Sums over all SMs or slices, by what stands behind their number: "l1.hits", "instructions.fp32".
class StatSums {
 public:
  StatSums(const RunOutcome& outcome, std::size_t gpu) : stats_(&outcome.stats) {
    const std::string instance = outcome.machines->gpus[gpu].instance;
    prefix_ = instance + ".";
    for (const std::string& path : outcome.result.jobs[gpu].sm_paths) sms_.push_back(prefix_ + path + ".");
    for (std::uint32_t i = 0; i < outcome.machines->gpus[gpu].params.l2.slices; ++i) {
      slices_.push_back(fmt::format("{}l2.slice{}.", prefix_, i));
    }
  }

  double sms(const std::string& name) const { return sum(sms_, name); }
  double slices(const std::string& name) const { return sum(slices_, name); }
  double one(const std::string& name) const { return value(prefix_ + name); }
  // Over all subcontexts, by what stands behind "memory.subcontext<n>.": "l2_bytes".
  double owners(const std::string& name) const {
    const std::string begin = prefix_ + "memory.subcontext";
    const std::string end = "." + name;
    double total = 0;
    const auto& all = stats_->get_ref<const nlohmann::json::object_t&>();
    for (auto at = all.lower_bound(begin); at != all.end() && at->first.compare(0, begin.size(), begin) == 0; ++at) {
      const std::string& path = at->first;
      const bool of_owner =
          path.size() > begin.size() + end.size() && path.compare(path.size() - end.size(), end.size(), end) == 0;
      if (of_owner) total += at->second["value"].get<double>();
    }
    return total;
  }

 private:
  double value(const std::string& path) const {
    const auto found = stats_->find(path);
    return found == stats_->end() ? 0 : (*found)["value"].get<double>();
  }
  double sum(const std::vector<std::string>& owners, const std::string& name) const {
    double total = 0;
    for (const std::string& owner : owners) total += value(owner + name);
    return total;
  }

  const nlohmann::json* stats_;
  std::string prefix_;
  std::vector<std::string> sms_;
  std::vector<std::string> slices_;
};

// Time in which at least one kernel with a program ran, in nanoseconds.
double program_time(const RunOutcome& outcome, std::size_t gpu);

// In percent; null of nothing.
inline nlohmann::json share_of(double part, double whole) {
  return whole > 0 ? nlohmann::json(100 * part / whole) : nlohmann::json();
}

}  // namespace heddle::cli
