// Sweep files, and folders of results without a run.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "import/kineto_text.h"
#include "sweep/sweep_plan.h"

namespace heddle::test {

// What is read of the text; messages call it s.yaml in the folder.
inline sweep::Sweep sweep_of(const TempDir& folder, const std::string& text) {
  return sweep::read_sweep(folder.write("s.yaml", text));
}

inline std::string message_of(const TempDir& folder, const std::string& text) {
  try {
    const sweep::Sweep sweep = sweep_of(folder, text);
    plan_of(sweep);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing is wrong";
}

inline std::vector<std::string> texts_of(const sweep::Sweep& sweep) {
  std::vector<std::string> result;
  for (const sweep::Point& point : plan_of(sweep)) result.push_back(point.text(sweep));
  return result;
}

// A folder as `heddle run` leaves it, with these statistics (unit "things"), figures and kernels.
inline std::string results_in(const TempDir& folder, const std::string& name,
                              const std::map<std::string, double>& stats,
                              const std::map<std::string, double>& figures = {},
                              const std::vector<std::pair<std::string, double>>& kernels = {},
                              const std::string& config = "gpu0:\n  cwd: {gpc_distance: 100}\n") {
  using nlohmann::json;
  json document = {{"schema", 1}, {"completed", true}, {"stats", json::object()}};
  for (const auto& [path, value] : stats) document["stats"][path] = {{"value", value}, {"unit", "things"}};
  for (const auto& [figure, value] : figures) {
    document["figures"].push_back({{"name", figure}, {"unit", "ns"}, {"value", value}});
  }
  std::filesystem::create_directories(folder.file(name));
  folder.write(name + "/stats.json", document.dump());
  json page = {{"gpus", {{{"name", "gpu0"}, {"kernels", json::array()}}}}};
  for (const auto& [kernel, us] : kernels) page["gpus"][0]["kernels"].push_back({{"name", kernel}, {"us", us}});
  folder.write(name + "/report.html",
               "<script type=\"application/json\" id=\"heddle-data\">" + page.dump() + "</script>");
  folder.write(name + "/config.yaml", config);
  return folder.file(name);
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace heddle::test
