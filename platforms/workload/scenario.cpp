#include "workload/scenario.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/quantity.h"
#include "common/suggest.h"
#include "common/yaml_util.h"
#include "workload/scenario_entries.h"
#include "workload/scenario_expect.h"
#include "workload/scenario_memory.h"
#include "workload/scenario_packets.h"
#include "workload/schema.h"

namespace heddle::workload {
namespace {

constexpr std::size_t kMaxOps = 1'000'000;  // keeps their list within memory
constexpr std::size_t kMaxGpus = 64;

// An entry of `submit:` before the ids in `after:` are known.
struct Submission {
  struct Wait {
    std::string id;
    SourcePos where;
  };
  std::string thing;  // for messages: "operation first"
  std::size_t gpu = 0;
  std::size_t first_op = 0;  // index into the GPU's workload
  std::vector<Wait> after;
};

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) { scenario_.file = file; }

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
    if (map.has("kernels")) read_kernels(map.node("kernels"));
    if (map.has("streams")) read_streams(map.node("streams"));
    read_submit(map);
    connect();
    if (map.has("load")) read_loads(map.node("load"));
    if (map.has("tpcs")) read_tpc_switches(map.node("tpcs"));
    if (map.has("expect")) {
      std::vector<std::string> kernels;
      for (const auto& entry : kernels_) kernels.push_back(entry.first);
      for (const auto& node : map.node("expect")) {
        scenario_.expectations.push_back(read_expectation(node, file_, regions_, kernels));
      }
    }
    warn_of_unused();
    return std::move(scenario_);
  }

 private:
  struct StreamPlace {
    std::size_t gpu;
    std::size_t index;  // in the GPU's workload
    bool used = false;
  };

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

  void read_kernels(const YAML::Node& list) {
    for (const auto& node : list) {
      const MapReader map(node, kernel_spec(), entry_name("kernel", node, "name"), file_);
      std::set<std::string> regions;
      const arch::KernelRecord kernel = read_kernel(map, file_, regions_, regions);
      if (!kernels_.emplace(kernel.name, kernel).second)
        map.fail("name", fmt::format("there are two kernels {}", kernel.name));
      for (const MemoryRegion& region : regions_) {
        if (regions.count(region.name) != 0) kernel_gpus_[kernel.name].emplace(region.gpu, region.name);
      }
    }
  }

  void read_regions(const MapReader& map) {
    const auto list = [&](const char* key) { return map.has(key) ? map.node(key) : YAML::Node(); };
    regions_ = read_memory(list("memory"), list("tensors"), file_, scenario_.gpus.size());
    for (const MemoryRegion& region : regions_) scenario_.workloads[region.gpu].memory.push_back(region);
  }

  void read_submit(const MapReader& map) {
    YAML::Node operations = map.node("submit");
    if (operations.IsMap()) scenario_.packets = read_submission(map.node("submit"), file_, operations);
    if (operations.size() == 0) map.fail("submit", "the list is empty: there is nothing to run");
    for (const auto& node : operations) read_operation(node);
  }

  // An address means something else on another GPU.
  void check_regions(const MapReader& map, const std::string& kernel, std::size_t gpu) const {
    const auto found = kernel_gpus_.find(kernel);
    if (found == kernel_gpus_.end()) return;
    for (const auto& [owner, region] : found->second) {
      if (owner == gpu) continue;
      throw InputError(
          map.where("kernel"),
          fmt::format("{}: it runs on gpu{}, and its program uses memory {} of gpu{}", map.thing(), gpu, region, owner),
          "describe a kernel for each GPU, with memory of that GPU");
    }
  }

  void read_loads(const YAML::Node& list) {
    for (const auto& node : list) {
      const MapReader map(node, load_spec(), entry_name("load of", node, "kernel"), file_);
      SmLoad load = read_load(map);
      load.kernel = find_kernel(map);
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

  // `gpu: 1` of an entry.
  std::size_t gpu_of(const MapReader& map) const {
    return map.has("gpu") ? map.number<std::size_t>("gpu", {Unit::none, 0, scenario_.gpus.size() - 1}) : 0;
  }

  const arch::KernelRecord& find_kernel(const MapReader& map) {
    const std::string name = map.name("kernel");
    const auto kernel = kernels_.find(name);
    if (kernel == kernels_.end()) {
      std::vector<std::string> names;
      for (const auto& entry : kernels_) names.push_back(entry.first);
      throw InputError(map.where("kernel"), fmt::format("{}: there is no kernel {}", map.thing(), name),
                       names.empty() ? "describe it in the list `kernels`" : suggestion(name, names));
    }
    used_kernels_.insert(name);
    return kernel->second;
  }

  void read_streams(const YAML::Node& list) {
    for (const auto& node : list) {
      const MapReader map(node, stream_spec(), entry_name("stream", node, "name"), file_);
      Stream stream;
      stream.name = map.name("name");
      if (map.has("priority")) stream.priority = map.number<int>("priority", {Unit::none, -1000, 1000});
      const std::size_t gpu = gpu_of(map);
      if (streams_.count(stream.name) != 0) map.fail("name", fmt::format("there are two streams {}", stream.name));
      add_stream(gpu, stream);
    }
  }

  StreamPlace& add_stream(std::size_t gpu, const Stream& stream) {
    std::vector<Stream>& streams = scenario_.workloads[gpu].streams;
    streams.push_back(stream);
    return streams_.emplace(stream.name, StreamPlace{gpu, streams.size() - 1}).first->second;
  }

  StreamPlace& use_stream(const std::string& name) {
    const auto found = streams_.find(name);
    StreamPlace& place = found != streams_.end() ? found->second : add_stream(0, Stream{name, 0});
    place.used = true;
    return place;
  }

  // What kind of operation a map is decides which keys it may have.
  const MapSpec& kind_of(const YAML::Node& node, const std::string& thing) const {
    const MapSpec* found = nullptr;
    const std::pair<const char*, const MapSpec*> kinds[] = {{"kernel", &kernel_op_spec()},
                                                            {"copy", &copy_op_spec()},
                                                            {"fill", &fill_op_spec()},
                                                            {"group", &group_op_spec()}};
    for (const auto& [key, spec] : kinds) {
      if (!node.IsMap() || !node[key].IsDefined()) continue;
      if (found != nullptr) {
        throw InputError(position(node, file_),
                         fmt::format("{}: it is both a {} and a {}", thing,
                                     std::string(found->name, std::string(found->name).find('_')), key),
                         "write two operations, one under the other");
      }
      found = spec;
    }
    if (found == nullptr) {
      throw InputError(position(node, file_), fmt::format("{}: what to do is missing", thing),
                       "an operation has one of the keys kernel, copy, fill, group: {kernel: gemm, stream: a}");
    }
    return *found;
  }

  void read_operation(const YAML::Node& node) {
    const std::string thing = entry_name("operation", node, "id");
    const MapSpec& spec = kind_of(node, thing);
    const MapReader map(node, spec, thing, file_);
    if (&spec == &group_op_spec()) {
      read_group(map);
      return;
    }
    if (in_group_) {
      for (const char* key : {"id", "after"}) {
        if (map.has(key)) map.fail(key, "not possible within a group");
      }
    }
    Op op;
    std::set<std::string> argument_regions;
    if (&spec == &kernel_op_spec()) {
      op.kernel = find_kernel(map);
      if (map.has("args")) op.args = read_args(map, file_, regions_, argument_regions);
    } else {
      const char* key = &spec == &copy_op_spec() ? "copy" : "fill";
      op.kind = &spec == &copy_op_spec() ? OpKind::copy : OpKind::fill;
      op.bytes = map.number<std::uint64_t>(key, {Unit::bytes, 1, kMaxScenarioBytes});
      op.duration = map.number<Nanoseconds>("for", {Unit::ns, 0, kMaxScenarioTime}, BareNumber::refused);
      op.kernel.name = map.has("id") ? map.name("id") : key;
      if (op.kind == OpKind::copy) op.direction = read_direction(map);
    }
    const Limits<Nanoseconds> time{Unit::ns, 0, kMaxScenarioTime};
    op.enqueue = map.has("at") ? map.number("at", time, BareNumber::refused) : 0;
    const std::size_t repeat = map.has("repeat") ? map.number<std::size_t>("repeat", {Unit::count, 1, kMaxOps}) : 1;
    const StreamPlace& place = use_stream(map.name("stream"));
    op.stream = place.index;
    if (op.kind == OpKind::kernel) check_regions(map, op.kernel.name, place.gpu);
    for (const MemoryRegion& region : regions_) {
      if (argument_regions.count(region.name) == 0 || region.gpu == place.gpu) continue;
      map.fail("args", fmt::format("it runs on gpu{}, and memory {} is of gpu{}", place.gpu, region.name, region.gpu));
    }

    Workload& workload = scenario_.workloads[place.gpu];
    Submission submission{thing, place.gpu, workload.ops.size(), {}};
    total_ops_ += repeat;
    if (total_ops_ > kMaxOps) {
      throw InputError(map.where(), fmt::format("{}: with it there are more than {} operations", thing, kMaxOps),
                       "use fewer operations or a smaller repeat");
    }
    workload.ops.insert(workload.ops.end(), repeat, op);
    if (map.has("id")) {
      const std::string id = map.name("id");
      if (!ids_.emplace(id, std::make_pair(place.gpu, workload.ops.size() - 1)).second) {
        map.fail("id", fmt::format("there are two operations {}", id));
      }
    }
    if (map.has("after")) read_waits(map, submission);
    submissions_.push_back(std::move(submission));
  }

  // Read once, copied for every further time.
  void read_group(const MapReader& map) {
    if (in_group_) map.fail("group", "a group within a group");
    if (map.node("group").size() == 0) map.fail("group", "the list is empty");
    const std::size_t repeat = map.has("repeat") ? map.number<std::size_t>("repeat", {Unit::count, 1, kMaxOps}) : 1;
    std::vector<std::size_t> begins;
    for (const Workload& workload : scenario_.workloads) begins.push_back(workload.ops.size());
    const std::size_t before = total_ops_;
    in_group_ = true;
    for (const auto& node : map.node("group")) read_operation(node);
    in_group_ = false;
    const std::size_t count = total_ops_ - before;
    total_ops_ += (repeat - 1) * count;
    if (total_ops_ > kMaxOps) {
      map.fail("repeat", fmt::format("with it there are more than {} operations", kMaxOps));
    }
    for (std::size_t gpu = 0; gpu < begins.size(); ++gpu) {
      std::vector<Op>& ops = scenario_.workloads[gpu].ops;
      const std::vector<Op> once(ops.begin() + static_cast<std::ptrdiff_t>(begins[gpu]), ops.end());
      for (std::size_t i = 1; i < repeat; ++i) ops.insert(ops.end(), once.begin(), once.end());
    }
  }

  void read_waits(const MapReader& map, Submission& submission) const {
    for (const YAML::Node& item : map.items("after")) {
      if (!item.IsScalar() || item.Scalar().empty()) {
        map.fail("after", item, fmt::format("the id of an operation is expected, found {}", kind_text(item)));
      }
      const std::string& id = item.Scalar();
      for (const Submission::Wait& other : submission.after) {
        if (other.id == id) map.fail("after", item, fmt::format("{} stands twice in the list", id));
      }
      submission.after.push_back({id, position(item, file_)});
    }
  }

  // Now that all ids are known: they may stand behind the operation that waits.
  void connect() {
    for (const Submission& submission : submissions_) {
      Op& op = scenario_.workloads[submission.gpu].ops[submission.first_op];
      for (const Submission::Wait& wait : submission.after) {
        const auto found = ids_.find(wait.id);
        if (found == ids_.end()) {
          std::vector<std::string> names;
          for (const auto& entry : ids_) names.push_back(entry.first);
          throw InputError(wait.where, fmt::format("{}, after: there is no operation {}", submission.thing, wait.id),
                           names.empty() ? "give the operation an id: {id: …, kernel: …}" : suggestion(wait.id, names));
        }
        const auto [gpu, index] = found->second;
        if (gpu != submission.gpu) {
          throw InputError(
              wait.where,
              fmt::format("{}, after: it runs on gpu{}, {} on gpu{}", submission.thing, submission.gpu, wait.id, gpu),
              "operations can only wait for operations of the same GPU; use `at` to order them in time");
        }
        op.after.push_back({index, EdgeSource::recorded});
      }
    }
  }

  // A kernel that is described and never launched is most likely a misspelling or a line too few.
  void warn_of_unused() {
    for (const auto& entry : kernels_) {
      if (used_kernels_.count(entry.first) == 0) {
        warn(0, fmt::format("{}: kernel {} is never submitted", file_, entry.first));
      }
    }
    for (const auto& [name, place] : streams_) {
      if (!place.used) warn(place.gpu, fmt::format("{}: stream {} is never used", file_, name));
    }
  }

  void warn(std::size_t gpu, std::string sentence) { scenario_.workloads[gpu].warnings.push_back(std::move(sentence)); }

  const std::string& file_;
  Scenario scenario_;
  std::vector<MemoryRegion> regions_;
  std::map<std::string, arch::KernelRecord> kernels_;
  std::map<std::string, std::map<std::size_t, std::string>> kernel_gpus_;  // whose memory a program uses, and which
  std::set<std::string> used_kernels_;
  std::map<std::string, StreamPlace> streams_;
  std::map<std::string, std::pair<std::size_t, std::size_t>> ids_;  // GPU, and index of the last operation with that id
  std::vector<Submission> submissions_;
  std::size_t total_ops_ = 0;
  bool in_group_ = false;
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

}  // namespace heddle::workload
