// What a scenario expects, judged and told.
#include <cmath>

#include <fmt/format.h>

#include "common/quantity.h"
#include "scenario/scenario.h"

namespace heddle::scenario {

using namespace workload;

bool Expectation::holds(double value) const {
  if (equals && value != *equals) return false;
  if (min && !(value >= *min)) return false;
  if (max && !(value <= *max)) return false;
  if (about) {
    const double distance = within_percent ? std::abs(*about) * within / 100.0 : within;
    if (!(std::abs(value - *about) <= distance)) return false;
  }
  return true;
}

bool Expectation::holds(const std::vector<std::string>& chain) const {
  return fmt::format("{}", fmt::join(chain, "; ")).find(waits) != std::string::npos;
}

std::string Expectation::text() const {
  const std::string near = within > 0 ? fmt::format(" +- {}{}", number_text(within), within_percent ? " %" : "") : "";
  if (kind == ExpectationKind::memory) return (pattern.empty() ? "like " + file : "= " + pattern) + near;
  if (kind == ExpectationKind::no_progress) return "because of: " + waits;
  if (kind == ExpectationKind::fault) {
    return "in kernel " + kernel + (cluster ? fmt::format(", cluster {}", *cluster) : "") +
           (rank ? fmt::format(", rank {}", *rank) : "") +
           (rule ? fmt::format(", rule {}", arch::rule_key(*rule)) : "") +
           (subcontext ? fmt::format(", subcontext {}", *subcontext) : "") +
           (address ? fmt::format(", address {:#x}", *address) : "");
  }
  if (equals) return "= " + number_text(*equals);
  if (about) return fmt::format("{} +- {}{}", number_text(*about), number_text(within), within_percent ? " %" : "");
  if (min && max) return fmt::format("{} to {}", number_text(*min), number_text(*max));
  if (min) return ">= " + number_text(*min);
  return "<= " + number_text(max.value_or(0));
}

}  // namespace heddle::scenario
