#include "scenario/scenario.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "common/quantity.h"
#include "common/yaml_util.h"
#include "scenario/scenario_entries.h"
#include "scenario/scenario_kernels.h"
#include "scenario/scenario_memory.h"
#include "scenario/scenario_packets.h"
#include "scenario/scenario_schema.h"
#include "scenario/scenario_submit.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

constexpr std::size_t kMaxGpus = 64;

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file), submit_(file, regions_, kernels_, scenario_.workloads) {
    scenario_.file = file;
  }

  Scenario read(const YAML::Node& root) {
    if (!root.IsDefined() || root.IsNull()) {
      throw InputError(SourcePos{file_, 0, 0}, "the file is empty", "a scenario begins with \"heddle: 1\"");
    }
    check_version(root);
    const MapReader map(root, scenario_spec(), "scenario", file_);
    scenario_.name = map.has("name") ? map.name("name") : std::filesystem::path(file_).stem().string();
    if (map.has("description")) scenario_.description = map.text("description");
    if (map.has("seed")) scenario_.seed = map.number<std::uint64_t>("seed", {});
    if (map.has("config")) scenario_.config.reset(map.node("config"));
    read_gpus(map);
    scenario_.workloads.resize(scenario_.gpus.size());
    for (Workload& workload : scenario_.workloads) {
      workload.name = scenario_.name;
      workload.format = "scenario";
    }
    read_regions(map);
    kernels_.read(list(map, "kernels"), file_, regions_, kernel_objects());
    submit_.read_streams(list(map, "streams"));
    read_submit(map);
    read_loads(list(map, "load"));
    read_tpc_switches(list(map, "tpcs"));
    read_shares(list(map, "share"));
    for (const auto& node : list(map, "expect")) {
      scenario_.expectations.push_back(read_expectation(node, file_, regions_, kernels_.names()));
    }
    for (Workload& workload : scenario_.workloads) {
      workload.launched = kernels_.launched_by(workload);
      kernels_.note_queue_users(workload);
    }
    // A kernel that is described and never launched is most likely a misspelling or a line too few.
    std::vector<std::string>& warnings = scenario_.workloads.front().warnings;
    for (std::string& sentence : kernels_.unused(file_)) warnings.push_back(std::move(sentence));
    submit_.warn_of_unused();
    return std::move(scenario_);
  }

 private:
  // Before the keys are checked: those of another version may differ.
  void check_version(const YAML::Node& root) const {
    const YAML::Node version = root.IsMap() ? root["heddle"] : YAML::Node();
    if (!root.IsMap() || !version.IsDefined()) {
      throw InputError(position(root, file_), "this is not a scenario: the key \"heddle\" is missing",
                       "a scenario begins with \"heddle: 1\", the version of its format");
    }
    if (!version.IsScalar() || version.Scalar() != std::to_string(kScenarioVersion)) {
      throw InputError(position(version, file_), fmt::format("format version {} is not known", kind_text(version)),
                       fmt::format("this program reads version {}: heddle: {}", kScenarioVersion, kScenarioVersion));
    }
  }

  void read_gpus(const MapReader& map) {
    if (map.has("gpu") && map.has("gpus")) map.fail("gpus", "`gpu` stands in the file too; use one of the two");
    scenario_.gpus_named = map.has("gpu") || map.has("gpus");
    if (!scenario_.gpus_named) {
      scenario_.gpus = {kDefaultPreset};
      return;
    }
    const char* key = map.has("gpu") ? "gpu" : "gpus";
    for (const YAML::Node& item : map.items(key)) {
      if (item.IsMap()) {
        scenario_.gpus.push_back(MapReader(item, gpu_spec(), "GPU", file_).name("preset"));
      } else if (item.IsScalar() && !item.Scalar().empty()) {
        scenario_.gpus.push_back(item.Scalar());
      } else {
        map.fail(key, item, fmt::format("the name of a preset is expected, found {}", kind_text(item)));
      }
    }
    if (scenario_.gpus.empty()) map.fail(key, "the list is empty: a scenario needs a GPU");
    if (scenario_.gpus.size() > kMaxGpus) map.fail(key, fmt::format("more than {} GPUs", kMaxGpus));
  }

  // Null where the file has none.
  static YAML::Node list(const MapReader& map, const char* key) { return map.has(key) ? map.node(key) : YAML::Node(); }

  void read_regions(const MapReader& map) {
    MemoryLists lists;
    lists.memory.reset(list(map, "memory"));
    lists.tensors.reset(list(map, "tensors"));
    lists.queues.reset(list(map, "queues"));
    const YAML::Node kernels = list(map, "kernels");
    if (programs_launch(kernels)) lists.kernels = kernels.size();
    lists.subcontexts = read_subcontexts(list(map, "subcontexts"), file_, scenario_.gpus.size());
    regions_ = read_memory(lists, file_);
    for (const MemoryRegion& region : regions_) scenario_.workloads[region.gpu].memory.push_back(region);
    for (std::size_t gpu = 0; gpu < scenario_.gpus.size(); ++gpu) {
      scenario_.workloads[gpu].subcontexts = lists.subcontexts[gpu];
    }
  }

  // Where they begin, on every GPU; 0: no program launches anything.
  std::uint64_t kernel_objects() const {
    for (const MemoryRegion& region : regions_) {
      if (region.contents.kind == RegionContents::Kind::kernels) return region.address;
    }
    return 0;
  }

  void read_submit(const MapReader& map) {
    YAML::Node operations = map.node("submit");
    if (operations.IsMap()) scenario_.packets = read_submission(map.node("submit"), file_, operations);
    if (operations.size() == 0) map.fail("submit", "the list is empty: there is nothing to run");
    submit_.read_operations(operations);
  }

  void read_loads(const YAML::Node& list) {
    for (const auto& node : list) {
      const MapReader map(node, load_spec(), entry_name("load of", node, "kernel"), file_);
      SmLoad load = read_load(map);
      load.kernel = kernels_.find(map);
      scenario_.workloads[gpu_of(map)].loads.push_back(std::move(load));
    }
  }

  void read_tpc_switches(const YAML::Node& list) {
    for (const auto& node : list) {
      const MapReader map(node, tpc_spec(), entry_name("TPC", node, "tpc"), file_);
      const TpcSwitch change = read_tpc_switch(map);
      std::vector<TpcSwitch>& switches = scenario_.workloads[gpu_of(map)].tpc_switches;
      for (const TpcSwitch& other : switches) {
        if (other.gpc == change.gpc && other.tpc == change.tpc && other.when == change.when) {
          map.fail("tpc", "the same TPC is switched twice at the same time");
        }
      }
      switches.push_back(change);
    }
  }

  void read_shares(const YAML::Node& entries) {
    for (const auto& node : entries) {
      const MapReader map(node, share_spec(), entry_name("share of subcontext", node, "subcontext"), file_);
      scenario_.workloads[gpu_of(map)].shares.push_back(read_share(map));
    }
  }

  // `gpu: 1` of an entry.
  std::size_t gpu_of(const MapReader& map) const {
    return map.has("gpu") ? map.number<std::size_t>("gpu", {Unit::none, 0, scenario_.gpus.size() - 1}) : 0;
  }

  const std::string& file_;
  Scenario scenario_;
  std::vector<MemoryRegion> regions_;
  KernelTable kernels_;
  SubmitReader submit_;
};

}  // namespace

Scenario parse_scenario(const std::string& text, const std::string& file) {
  return Reader(file).read(load_yaml(text, file));
}

Scenario read_scenario(const std::string& path) { return parse_scenario(read_text_file(path), path); }

bool looks_like_scenario(std::string_view head) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (head.substr(0, kByteOrderMark.size()) == kByteOrderMark) head.remove_prefix(kByteOrderMark.size());
  // "heddle", in quotes or not, and a colon.
  const auto key_at = [&](std::size_t at) {
    const bool quoted = at < head.size() && (head[at] == '"' || head[at] == '\'');
    const char quote = quoted ? head[at] : '\0';
    if (quoted) ++at;
    if (head.substr(at, 6) != "heddle") return false;
    at += 6;
    if (quoted && (at >= head.size() || head[at++] != quote)) return false;
    at = std::min(head.find_first_not_of(" \t", at), head.size());
    return at < head.size() && head[at] == ':';
  };
  // JSON is YAML too. Only its first key counts: a recording may contain the word anywhere.
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && head[first] == '{') {
    return key_at(std::min(head.find_first_not_of(" \t\r\n", first + 1), head.size()));
  }
  for (std::size_t line = 0; line < head.size();) {
    if (key_at(line)) return true;
    const std::size_t end = head.find('\n', line);
    if (end == std::string_view::npos) break;
    line = end + 1;
  }
  return false;
}

}  // namespace heddle::scenario
