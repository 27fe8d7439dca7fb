// What the page and the summary tell of energy.
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run_outcome.h"
#include "power/energy_account.h"

namespace heddle::cli {

using nlohmann::json;

namespace {

double stat(const RunOutcome& outcome, std::size_t gpu, const std::string& name) {
  return outcome.stats[outcome.machines->gpus[gpu].instance + ".power." + name]["value"].get<double>();
}

json series_of(const PowerSeries& power) {
  json series = {{"us", json::array()}, {"watts", json::array()}, {"ghz", json::array()}};
  for (const PowerSeries::Stretch& stretch : power.stretches()) {
    series["us"].push_back(static_cast<double>(stretch.begin) * 1e-6);
    series["watts"].push_back(std::round(10 * stretch.watts()) / 10);
    series["ghz"].push_back(std::round(1e4 * stretch.gigahertz()) / 1e4);
  }
  series["us"].push_back(static_cast<double>(power.stretches().back().end) * 1e-6);
  return series;
}

}  // namespace

json power_of(const RunOutcome& outcome, std::size_t gpu) {
  if (!outcome.machines->gpus[gpu].params.power.counts()) return nullptr;
  const double joules = stat(outcome, gpu, "joules.total");
  const double watts = stat(outcome, gpu, "watts");
  json parts = json::array();
  for (std::size_t i = 0; i < power::kParts; ++i) {
    const auto part = static_cast<power::Part>(i);
    const double own = stat(outcome, gpu, std::string("joules.") + power::part_name(part));
    parts.push_back(
        {{"label", power::part_text(part)}, {"joules", own}, {"watts", joules > 0 ? watts * own / joules : 0.0}});
  }
  json data = {{"joules", joules}, {"watts", watts}, {"clock_ghz", stat(outcome, gpu, "clock")}, {"parts", parts}};
  const PowerSeries& series = outcome.result.jobs[gpu].observation->power;
  if (series.stretches().size() > 1) data["series"] = series_of(series);
  return data;
}

std::string power_text(const RunOutcome& outcome, std::size_t gpu) {
  if (!outcome.machines->gpus[gpu].params.power.counts()) return {};
  const double seconds = stat(outcome, gpu, "joules.total") / std::max(1e-30, stat(outcome, gpu, "watts"));
  std::string text =
      fmt::format("{:.0f} W on average over {}, an estimate", stat(outcome, gpu, "watts"), time_text(seconds * 1e6));
  if (outcome.machines->gpus[gpu].params.power.governor == power::Governor::off) return text;
  return text + fmt::format("; clock {:.3f} GHz on average, {:.3f} at least", stat(outcome, gpu, "clock"),
                            stat(outcome, gpu, "clock_least"));
}

}  // namespace heddle::cli
