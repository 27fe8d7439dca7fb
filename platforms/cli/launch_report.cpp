// What bounds the rate at which CTAs are launched (CWD-34): the stages of a launch, and how much of the time in which
// CTAs were being launched each of them was busy.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/run_outcome.h"

namespace heddle::cli {
namespace {

using nlohmann::json;

struct Stage {
  const char* key;
  const char* name;
  const char* counter;  // of its busy time: how the paths of all its units end
};

constexpr std::array<Stage, 10> kStages{{
    {"decision", "the decisions of sessions", ".cwd.decision_cycles"},
    {"masks", "the mask generators", ".mask_busy_cycles"},
    {"tables", "the tables of the distributor", ".cwd.table_busy_cycles"},
    {"ids", "the rasteriser of the distributor", ".cwd.id_busy_cycles"},
    {"port", "the launch port", ".cwd.port_busy_cycles"},
    {"packets", "the GPMs, taking in packets", ".gpm.packet_busy_cycles"},
    {"gpms", "the GPMs, handing over CTAs", ".gpm.launch_busy_cycles"},
    {"entries", "the entries of CTAs in tables of SMs", ".gpm.entry_busy_cycles"},
    {"raster", "the raster units", ".raster_busy_cycles"},
    {"starts", "the starts of CTAs in SMs", ".start_busy_cycles"},
}};

// A stage that is busy for so much of the time bounds the rate; below, something else does.
constexpr double kBounds = 80;

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// By stage, the busy time of its busiest unit: levels of SMs wait for it.
std::array<double, kStages.size()> busy_times(const Stats& stats, const std::string& prefix) {
  std::array<double, kStages.size()> most{};
  for (const Stats::Description& counter : stats.descriptions()) {
    if (counter.kind != Stats::Kind::counter || counter.path.compare(0, prefix.size(), prefix) != 0) continue;
    for (std::size_t i = 0; i < kStages.size(); ++i) {
      if (ends_with(counter.path, kStages[i].counter)) most[i] = std::max(most[i], stats.value(counter.path));
    }
  }
  return most;
}

}  // namespace

void publish_launch(const std::string& instance, Stats& stats) {
  const auto value = [&](const char* name) { return stats.value(instance + ".cwd." + name); };
  const std::array<double, kStages.size()> busy = busy_times(stats, instance + ".");
  const double launching = value("launching_cycles");
  stats
      .gauge(instance + ".launch.rate", "CTAs/cycle",
             "CTAs launched per cycle of the time in which a session decided or launch packets had not left")
      .set(launching > 0 ? value("ctas_launched") / launching : 0);
  for (std::size_t i = 0; i < kStages.size(); ++i) {
    const Stage& stage = kStages[i];
    // A unit that still works on what it was given when that time is over has more than 100.
    stats
        .gauge(instance + ".launch." + stage.key, "%",
               fmt::format("busy time of {}, of the busiest unit, as a share of that time", stage.name))
        .set(launching > 0 ? 100 * busy[i] / launching : 0);
  }
  stats
      .gauge(instance + ".launch.queues", "%",
             "share of that time in which the launch port waited for a place in the queue of a GPC")
      .set(launching > 0 ? std::min(100.0, 100 * value("queue_stall_cycles") / launching) : 0);
}

std::string launch_line(const json& stats, const std::string& instance) {
  const auto value = [&](const std::string& name) { return stats.at(instance + "." + name)["value"].get<double>(); };
  if (value("cwd.ctas_launched") == 0) return {};
  std::array<const Stage*, kStages.size()> order{};
  std::transform(kStages.begin(), kStages.end(), order.begin(), [](const Stage& stage) { return &stage; });
  const auto share = [&](const Stage& stage) { return value(std::string("launch.") + stage.key); };
  std::stable_sort(order.begin(), order.end(), [&](const Stage* a, const Stage* b) { return share(*a) > share(*b); });
  const double waiting = value("cwd.no_slot_cycles");
  const double launching = value("cwd.launching_cycles");
  std::string line = fmt::format("{:.2f} CTAs per cycle; ", value("launch.rate"));
  if (share(*order[0]) >= kBounds) {
    line += fmt::format("bound by {}, busy {:.0f} % of the time, before {}, {:.0f} %", order[0]->name, share(*order[0]),
                        order[1]->name, share(*order[1]));
  } else if (value("launch.queues") >= 50) {
    line += fmt::format("bound by the places in the queues of GPCs, waited for in {:.0f} % of the time",
                        value("launch.queues"));
  } else {
    line += fmt::format("no part bounds it: busiest are {}, {:.0f} % of the time", order[0]->name, share(*order[0]));
  }
  if (waiting > launching) line += "; for longer than that, CTAs waited for free slots";
  return line;
}

}  // namespace heddle::cli
