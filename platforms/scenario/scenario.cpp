#include "scenario/scenario.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "arch/demand.h"
#include "common/error.h"
#include "common/quantity.h"
#include "common/yaml_util.h"
#include "scenario/collectives.h"
#include "scenario/parameters.h"
#include "scenario/ptx_kernels.h"
#include "scenario/scenario_kernels.h"
#include "scenario/scenario_memory.h"
#include "scenario/scenario_schema.h"
#include "scenario/scenario_submit.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

constexpr std::size_t kMaxGpus = 64;

class Reader {
 public:
  explicit Reader(const std::string& file)
      : file_(file), submit_(file, regions_, kernels_, graphs_, scenario_.workloads) {
    scenario_.file = file;
  }

  Scenario read(const YAML::Node& given) {
    const YAML::Node root = expand_collectives(given, file_, alike_);
    if (!root.IsDefined() || root.IsNull()) {
      throw InputError(SourcePos{file_, 0, 0}, "the file is empty", "a scenario begins with \"heddle: 1\"");
    }
    check_version(root);
    const MapReader map(root, scenario_spec(), "scenario", file_);
    scenario_.name = map.has("name") ? map.name("name") : std::filesystem::path(file_).stem().string();
    if (map.has("description")) scenario_.description = map.text("description");
    if (map.has("seed")) scenario_.seed = map.number<std::uint64_t>("seed", {});
    if (map.has("config")) scenario_.config.reset(map.node("config"));
    if (map.has("links")) read_links(map);
    read_gpus(map);
    scenario_.workloads.resize(scenario_.gpus.size());
    for (workload::Workload& workload : scenario_.workloads) workload.collectives = !root.is(given);
    for (Workload& workload : scenario_.workloads) {
      workload.name = scenario_.name;
      workload.format = "scenario";
    }
    read_regions(map);
    kernels_.read(list(map, "kernels"), file_, regions_, {kernel_objects(), ptx_.get()});
    for (const auto& node : list(map, "kernels")) {
      scenario_.kernel_places.emplace(node["name"].Scalar(), position(node, file_));
    }
    graphs_.read(list(map, "graphs"), file_, kernels_);
    submit_.read_streams(list(map, "streams"));
    read_submit(map);
    read_loads(list(map, "load"));
    read_tpc_switches(list(map, "tpcs"));
    read_shares(list(map, "share"));
    for (const auto& node : list(map, "expect")) {
      scenario_.expectations.push_back(read_expectation(node, file_, regions_, kernels_.names()));
    }
    for (const auto& node : list(map, "figures")) {
      scenario_.figures.push_back(read_figure(node, file_, {regions_, kernels_.names(), scenario_.gpus.size()}));
    }
    for (Workload& workload : scenario_.workloads) {
      workload.launched = kernels_.launched_by(workload);
      kernels_.note_queue_users(workload);
    }
    check_demands();
    // A kernel that is described and never launched is most likely a misspelling or a line too few.
    std::vector<std::string>& warnings = scenario_.workloads.front().warnings;
    for (std::string& sentence : kernels_.unused(file_)) warnings.push_back(std::move(sentence));
    for (std::string& sentence : graphs_.unused(file_)) warnings.push_back(std::move(sentence));
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

  // They are parameters like those of `config`.
  void read_links(const MapReader& map) {
    if (scenario_.config.IsMap() && scenario_.config["links"].IsDefined()) {
      map.fail("links", "`config` has them as well; use one of the two");
    }
    YAML::Node config(YAML::NodeType::Map);
    if (scenario_.config.IsMap()) {
      for (const auto& entry : scenario_.config) config[entry.first] = entry.second;
    }
    const YAML::Node links = map.node("links");
    if (links.IsMap()) {
      config["links"] = links;
    } else {
      config["links"]["topology"] = links;
    }
    scenario_.config.reset(config);
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
      scenario_.gpu_places.push_back(position(item, file_));
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
    for (std::size_t gpu = 0; gpu < scenario_.gpus.size(); ++gpu) {
      lists.instances.push_back(instances_of(gpu));
      scenario_.workloads[gpu].instances = lists.instances[gpu];
    }
    lists.subcontexts = read_subcontexts(list(map, "subcontexts"), file_, lists.instances);
    ptx_ = std::make_unique<PtxKernels>(kernels, file_);
    lists.ptx = ptx_.get();
    regions_ = read_memory(lists, file_);
    ptx_->fill(regions_);
    check_alike();
    for (const MemoryRegion& region : regions_) scenario_.workloads[region.gpu].memory.push_back(region);
    for (std::size_t gpu = 0; gpu < scenario_.gpus.size(); ++gpu) {
      scenario_.workloads[gpu].subcontexts = lists.subcontexts[gpu];
    }
  }

  void check_alike() const {
    const auto find = [this](const std::string& name) {
      return std::find_if(regions_.begin(), regions_.end(),
                          [&](const MemoryRegion& region) { return region.name == name; });
    };
    for (const std::vector<std::string>& names : alike_) {
      const auto first = find(names.front());
      for (const std::string& name : names) {
        const auto region = find(name);
        if (region == regions_.end() || first == regions_.end() || region->address == first->address) continue;
        throw InputError(
            region->where,
            fmt::format("the switch sends to memory {} and {} at once, and they lie at different addresses",
                        names.front(), name),
            "give both the same `at`, or list the memory of all GPUs in one order");
      }
    }
  }

  // As `config` has them: where memory lies depends on it. What else is wrong with them, the machine finds out.
  arch::Instances instances_of(std::size_t gpu) const {
    YAML::Node found;
    for (const std::string& key : {std::string("gpu"), fmt::format("gpu{}", gpu)}) {
      const YAML::Node& config = scenario_.config;
      if (!config.IsMap() || !config[key].IsDefined() || !config[key].IsMap()) continue;
      const YAML::Node instances = config[key]["instances"];
      if (instances.IsDefined()) found.reset(instances);
    }
    if (found.IsMap() && found["value"].IsDefined()) found.reset(YAML::Node(found["value"]));
    if (!found.IsDefined() || found.IsNull()) return {};
    return ParamTraits<arch::Instances>::parse(found, position(found, file_));
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
    if (operations.IsMap()) {
      scenario_.packets = read_submission(map.node("submit"), file_, operations);
      scenario_.tmdqs = !scenario_.packets;
    }
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
      Workload& workload = scenario_.workloads[gpu_of(map)];
      const ShareChange change = read_share(map);
      const auto warn = [&](const std::string& sentence) {
        scenario_.workloads.front().warnings.push_back(fmt::format("{}: {}", map.where().text(), sentence));
      };
      const bool of_one = change.what != ShareChange::What::mode;
      const bool listed = std::any_of(workload.subcontexts.begin(), workload.subcontexts.end(),
                                      [&](const Subcontext& one) { return one.id == change.subcontext; });
      if (of_one && !listed && change.subcontext != 0) {  // which is always there
        warn(fmt::format("a share of subcontext {}, which the list `subcontexts` lacks", change.subcontext));
      }
      for (const ShareChange& other : workload.shares) {
        const bool same_place = other.gpc == change.gpc && other.tpc == change.tpc;
        if (other.what == change.what && other.when == change.when && same_place &&
            (!of_one || other.subcontext == change.subcontext)) {
          warn(fmt::format("the share of line {} changes the same at the same time; this one comes last",
                           other.where.line));
        }
      }
      workload.shares.push_back(change);
    }
  }

  // Rates of CTAs with demands know nothing of whose they are.
  void check_demands() const {
    using What = ShareChange::What;
    for (const Workload& workload : scenario_.workloads) {
      const arch::KernelRecord* demands = nullptr;
      for (const Op& op : workload.ops) {
        if (op.kernel.demand != nullptr) demands = &op.kernel;
      }
      for (const workload::LaunchedKernel& launched : workload.launched) {
        if (launched.kernel.demand != nullptr) demands = &launched.kernel;
      }
      if (demands == nullptr) continue;
      const auto refuse = [&](const SourcePos& where) {
        throw InputError(
            where,
            fmt::format("a subcontext has a share or a limit of bandwidth, and kernel {} has a demand, whose "
                        "CTAs share bandwidth without regard to subcontexts",
                        demands->name),
            "give the kernel a program, or leave `bandwidth` and `bandwidth_limit` out");
      };
      for (const Subcontext& subcontext : workload.subcontexts) {
        if (subcontext.bandwidth || subcontext.bandwidth_limit) refuse(subcontext.where);
      }
      for (const ShareChange& share : workload.shares) {
        if (share.what == What::bandwidth || share.what == What::bandwidth_limit) refuse(share.where);
      }
    }
  }

  // `gpu: 1` of an entry.
  std::size_t gpu_of(const MapReader& map) const {
    return map.has("gpu") ? map.number<std::size_t>("gpu", {Unit::none, 0, scenario_.gpus.size() - 1}) : 0;
  }

  const std::string& file_;
  Scenario scenario_;
  std::vector<MemoryRegion> regions_;
  AlikeRegions alike_;
  std::unique_ptr<PtxKernels> ptx_;
  KernelTable kernels_;
  GraphList graphs_;
  SubmitReader submit_;
};

constexpr std::uint32_t kMaxBlock = 65'535;
// Larger than any machine; the machine itself is asked later.
constexpr std::uint32_t kMaxUnits = 1'000'000;
// Of a tile, in each direction.
constexpr std::uint32_t kMaxTile = 255;
constexpr std::uint32_t kNoMaximum = std::numeric_limits<std::uint32_t>::max();

constexpr std::pair<const char*, arch::CgaLevel> kLevels[] = {{"gpu", arch::CgaLevel::gpu},
                                                              {"ugpu", arch::CgaLevel::ugpu},
                                                              {"gpc", arch::CgaLevel::gpc},
                                                              {"cpc", arch::CgaLevel::cpc}};

arch::Dim3 read_extents(const MapReader& map, const char* key, const std::vector<YAML::Node>& items,
                        const arch::Dim3& max) {
  if (items.empty() || items.size() > 3) {
    map.fail(key, fmt::format("one to three numbers are expected, found {}", items.size()));
  }
  arch::Dim3 result;
  result.x = map.number<std::uint32_t>(key, items[0], {Unit::count, 1, max.x});
  if (items.size() > 1) result.y = map.number<std::uint32_t>(key, items[1], {Unit::count, 1, max.y});
  if (items.size() > 2) result.z = map.number<std::uint32_t>(key, items[2], {Unit::count, 1, max.z});
  return result;
}

arch::Dim3 read_grid(const MapReader& map, const char* key) {
  return read_extents(map, key, map.items(key), {arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ});
}

arch::CtaDuration read_cycles(const MapReader& map, const std::string& file) {
  const Limits<std::uint64_t> cycles{Unit::cycles, 1, kMaxScenarioCycles};
  if (!map.node("cycles").IsMap()) {
    const std::uint64_t fixed = map.number("cycles", cycles);
    return {fixed, fixed};
  }
  const MapReader range(map.node("cycles"), cycles_spec(), map.thing() + ", cycles", file);
  const arch::CtaDuration duration{range.number("min", cycles), range.number("max", cycles)};
  if (duration.min > duration.max) range.fail("min", "min is larger than max");
  return duration;
}

constexpr double kMostAmount = 1e15;  // of a CTA: minutes of the fastest SM

std::shared_ptr<const arch::Demand> read_demand(const MapReader& kernel, const std::string& file) {
  const MapReader map(kernel.node("demand"), demand_spec(), kernel.thing() + ", demand", file);
  arch::Demand demand;
  const auto read = [&map](const char* key, bool bytes) {
    if (!map.has(key)) return 0.0;
    return map.number<double>(key, {bytes ? Unit::bytes : Unit::count, 0, kMostAmount});
  };
  for (std::size_t i = 0; i < arch::kDemandUnits; ++i) {
    const auto unit = static_cast<arch::DemandUnit>(i);
    demand.of(unit) = read(arch::demand_name(unit), arch::counts_bytes(unit));
  }
  demand.bulk_read = read("bulk_read", true);
  demand.in_flight = read("in_flight", true);
  if (map.has("stages")) {
    demand.stages = map.number<double>("stages", {Unit::count, 1, 1024});
    if (!map.has("in_flight")) map.fail("stages", "they are parts of in_flight, which is not given");
  }
  demand.accesses = read("accesses", false);
  if (map.has("floor")) {
    demand.floor_ns =
        map.number<double>("floor", {Unit::ns, 0, static_cast<double>(kMaxScenarioTime)}, BareNumber::refused);
  }
  const auto part = [&map](const char* key, double its, const char* whole, double of) {
    if (its > of) map.fail(key, fmt::format("it is a part of {}, which is {:g} bytes", whole, of));
  };
  const double reads = demand.of(arch::DemandUnit::l2_read);
  part("dram_read", demand.of(arch::DemandUnit::dram_read), "l2_read", reads);
  part("bulk_read", demand.bulk_read, "l2_read", reads);
  part("in_flight", demand.in_flight, "l2_read", reads);
  part("dram_write", demand.of(arch::DemandUnit::dram_write), "l2_write", demand.of(arch::DemandUnit::l2_write));
  return std::make_shared<arch::Demand>(demand);
}

void read_cluster_map(const MapReader& map, arch::ClusterShape& cluster) {
  for (const auto& [key, level] : kLevels) {
    if (map.has(key)) cluster.of(level) = read_grid(map, key);
  }
  if (!cluster.any()) {
    throw InputError(map.where(), fmt::format("{}: none of the levels gpu, ugpu, gpc, cpc is given", map.thing()),
                     "as in: cluster: {gpu: [16, 1, 1], gpc: [4, 1, 1]}");
  }
  if (map.has("mode")) {
    const std::string mode = map.text("mode");
    if (mode == "multicast") {
      cluster.mode = arch::CgaMode::multicast;
    } else if (mode != "load_balancing") {
      throw InputError(map.where("mode"), fmt::format("{}, mode: there is no mode {}", map.thing(), mode),
                       suggestion(mode, {"multicast", "load_balancing"}));
    }
  }
  if (map.has("fallback")) {
    const std::vector<YAML::Node> sizes = map.items("fallback");
    if (sizes.size() > arch::kMaxFallbacks) {
      map.fail("fallback", fmt::format("{} sizes, of at most {}", sizes.size(), arch::kMaxFallbacks));
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<YAML::Node> extents =
          sizes[i].IsSequence() ? std::vector<YAML::Node>(sizes[i].begin(), sizes[i].end()) : std::vector{sizes[i]};
      cluster.fallback[i] = read_extents(map, "fallback", extents, {arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ});
    }
  }
  if (map.has("linear_memory")) cluster.linear_memory = map.flag("linear_memory");
}

arch::ClusterShape read_cluster(const MapReader& map, const arch::Dim3& grid, const std::string& file) {
  arch::ClusterShape cluster;
  if (map.node("cluster").IsMap()) {
    read_cluster_map(MapReader(map.node("cluster"), cluster_spec(), map.thing() + ", cluster", file), cluster);
  } else {
    cluster.of(arch::CgaLevel::gpc) = read_grid(map, "cluster");
  }
  const std::string wrong = arch::why_malformed(grid, cluster, kNoMaximum);
  if (!wrong.empty()) map.fail("cluster", wrong);
  return cluster;
}

// A kernel whose loads are for several CTAs of a cluster needs an SM for each of them (CWD-16): that is its default,
// and what says otherwise is refused.
void settle_mode(const MapReader& map, const std::string& file, arch::ClusterShape& cluster) {
  if (map.node("cluster").IsMap() && map.node("cluster")["mode"].IsDefined()) {
    if (cluster.mode == arch::CgaMode::multicast) return;
    const MapReader own(map.node("cluster"), cluster_spec(), map.thing() + ", cluster", file);
    throw InputError(
        own.where("mode"),
        fmt::format("{}: its program has multicast loads, and mode load_balancing may put several CTAs of a "
                    "cluster on one SM",
                    map.thing()),
        "leave `mode` out, or say mode: multicast");
  }
  cluster.mode = arch::CgaMode::multicast;
}

// raster: rows, raster: hilbert, or raster: {tiles: [4, 4]}.
arch::RasterOrder read_raster(const MapReader& map, const std::string& file) {
  using Kind = arch::RasterOrder::Kind;
  if (map.node("raster").IsMap()) {
    const MapReader tiles(map.node("raster"), raster_spec(), map.thing() + ", raster", file);
    const std::vector<YAML::Node> items = tiles.items("tiles");
    if (items.size() > 2) tiles.fail("tiles", fmt::format("one or two numbers are expected, found {}", items.size()));
    const arch::Dim3 extents = read_extents(tiles, "tiles", items, {kMaxTile, kMaxTile, 1});
    return {Kind::tiles, static_cast<std::uint8_t>(extents.x), static_cast<std::uint8_t>(extents.y)};
  }
  const std::string word = map.text("raster");
  if (word == "hilbert") return {Kind::hilbert};
  if (word == "rows") return {};
  throw InputError(map.where("raster"), fmt::format("{}, raster: there is no order {}", map.thing(), word),
                   suggestion(word, {"rows", "hilbert"}) + "; or as in: raster: {tiles: [4, 4]}");
}

// Numbers of units of the machine, each once.
std::vector<std::uint32_t> read_units(const MapReader& map, const char* key) {
  std::vector<std::uint32_t> units;
  for (const YAML::Node& item : map.items(key)) {
    const auto unit = map.number<std::uint32_t>(key, item, {Unit::none, 0, kMaxUnits});
    if (std::find(units.begin(), units.end(), unit) != units.end()) {
      map.fail(key, item, fmt::format("{} stands twice in the list", unit));
    }
    units.push_back(unit);
  }
  if (units.empty()) map.fail(key, "the list is empty");
  return units;
}

}  // namespace

Scenario parse_scenario(const std::string& text, const std::string& file, const std::vector<std::string>& settings) {
  YAML::Node root = load_yaml(text, file);
  apply_parameters(root, settings, file);
  Scenario scenario = Reader(file).read(root);
  scenario.document.reset(root);
  return scenario;
}

Scenario read_scenario(const std::string& path, const std::vector<std::string>& settings) {
  return parse_scenario(read_text_file(path), path, settings);
}

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

using namespace workload;
using namespace program;

std::string entry_name(const char* what, const YAML::Node& node, const char* key) {
  if (!node.IsMap()) return what;
  const YAML::Node name = node[key];
  if (!name.IsDefined() || !name.IsScalar() || name.Scalar().empty() || name.Scalar().size() > 80) return what;
  return fmt::format("{} {}", what, name.Scalar());
}

arch::Dim3 read_grid(const MapReader& map) { return read_grid(map, "grid"); }

arch::KernelRecord read_kernel(const MapReader& map, const std::string& file, ProgramScope& scope) {
  arch::KernelRecord kernel;
  kernel.name = map.name("name");
  kernel.grid = read_grid(map);
  kernel.block = read_extents(map, "block", map.items("block"), {kMaxBlock, kMaxBlock, kMaxBlock});
  std::vector<std::string> given;
  for (const char* key : {"cycles", "program", "demand", "ptx"}) {
    if (map.has(key)) given.push_back(fmt::format("`{}`", key));
  }
  if (given.size() != 1) {
    const std::string wrong = given.empty() ? "the key \"cycles\" is missing"
                                            : fmt::format("{} stand side by side", fmt::join(given, " and "));
    throw InputError(
        map.where(), fmt::format("{}: {}", map.thing(), wrong),
        "give one of: cycles, how long a CTA runs; program, what its warps do; demand, what a CTA takes of "
        "the machine; ptx, a file with a compiled kernel");
  }
  if (map.has("demand")) kernel.demand = read_demand(map, file);
  if (map.has("cycles")) kernel.duration = read_cycles(map, file);
  if (map.has("registers")) {
    kernel.registers_per_thread = map.number<std::uint32_t>("registers", {Unit::count, 0, 65'535});
  }
  if (map.has("shared")) kernel.shared_bytes = map.number<std::uint32_t>("shared", {Unit::bytes});
  if (map.has("local")) kernel.local_bytes = map.number<std::uint32_t>("local", {Unit::bytes});
  if (map.has("subcontext")) {
    kernel.subcontext =
        static_cast<std::uint8_t>(map.number<std::uint32_t>("subcontext", {Unit::none, 0, arch::kSubcontexts - 1}));
  }
  if (map.has("cooperative")) kernel.cooperative = map.flag("cooperative");
  if (map.has("cluster")) kernel.cluster = read_cluster(map, kernel.grid, file);
  if (map.has("raster")) kernel.raster = read_raster(map, file);
  if (map.has("program")) {
    CompiledProgram compiled = compile_program(map.node("program"), file, kernel, scope.regions, scope.targets);
    scope.used = std::move(compiled.regions);
    scope.launched = std::move(compiled.launched);
    if (map.has("cluster") && compiled.program->multicasts()) settle_mode(map, file, kernel.cluster);
    if (kernel.registers_per_thread == 0) {
      kernel.registers_per_thread = std::max(kLeastRegisters, compiled.program->registers());
    }
    kernel.program = std::move(compiled.program);
  }
  for (const char* key : {"entry", "args"}) {
    if (map.has(key) && !map.has("ptx")) map.fail(key, "only a kernel of a PTX module has it");
  }
  if (map.has("ptx")) {
    if (scope.ptx == nullptr) {
      throw InputError(map.where("ptx"),
                       fmt::format("{}: a file of kernels has no place for its arguments", map.thing()),
                       "run it as a scenario");
    }
    scope.ptx->compile(map, kernel, scope.used);
  }
  return kernel;
}

SmLoad read_load(const MapReader& map) {
  SmLoad load;
  load.where = map.where();
  if (map.has("sms") && map.has("gpcs")) map.fail("gpcs", "`sms` stands in the entry too; use one of the two");
  if (map.has("sms")) load.sms = read_units(map, "sms");
  if (map.has("gpcs")) load.gpcs = read_units(map, "gpcs");
  load.all = load.sms.empty() && load.gpcs.empty();
  load.ctas = map.number<std::uint32_t>("ctas", {Unit::count, 1, kMaxUnits});
  if (map.has("until")) {
    load.until = map.number<Nanoseconds>("until", {Unit::ns, 1, kMaxScenarioTime}, BareNumber::refused);
  }
  return load;
}

TpcSwitch read_tpc_switch(const MapReader& map) {
  TpcSwitch change;
  change.where = map.where();
  change.gpc = map.number<std::uint32_t>("gpc", {Unit::none, 0, kMaxUnits});
  change.tpc = map.number<std::uint32_t>("tpc", {Unit::none, 0, kMaxUnits});
  change.enabled = map.flag("enabled");
  if (map.has("at")) {
    change.when = map.number<Nanoseconds>("at", {Unit::ns, 0, kMaxScenarioTime}, BareNumber::refused);
  }
  return change;
}

}  // namespace heddle::scenario
