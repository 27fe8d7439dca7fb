#include "scenario/scenario_kernels.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "arch/bandwidth_table.h"
#include "arch/kernel_object.h"
#include "arch/task_record.h"
#include "common/error.h"
#include "common/quantity.h"
#include "common/yaml_util.h"
#include "program/expression.h"
#include "program/step_table.h"
#include "scenario/scenario.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

bool has_key(const YAML::Node& node, const char* key) {
  if (node.IsSequence()) {
    return std::any_of(node.begin(), node.end(), [&](const YAML::Node& item) { return has_key(item, key); });
  }
  if (!node.IsMap()) return false;
  return std::any_of(node.begin(), node.end(), [&](const auto& entry) {
    return (entry.first.IsScalar() && entry.first.Scalar() == key) || has_key(entry.second, key);
  });
}

constexpr std::uint64_t kMostCapacity = 1U << 20;  // of a queue
constexpr std::uint32_t kMostCredits = 4096;       // gpu.cwd.tpc_credits
constexpr std::uint32_t kMostUnits = 1'000'000;    // larger than any machine; the machine itself is asked later

// The number of an entry, i.
class EntryNames : public ExpressionNames {
 public:
  explicit EntryNames(std::uint32_t slot) : slot_(slot) {}
  std::optional<NamedValue> find(const std::string& name) override {
    if (name != "i") return std::nullopt;
    return NamedValue(slot_);
  }
  std::vector<std::string> known() const override { return {"i"}; }

 private:
  std::uint32_t slot_;
};

void read_initial(const MapReader& queue, const std::string& file, RegionContents& contents) {
  const MapReader map(queue.node("initial"), queue_initial_spec(), queue.thing() + ", initial", file);
  const auto count = map.number<std::uint64_t>("count", {Unit::count, 0, kMostCapacity});
  if (count > contents.capacity) {
    map.fail("count", fmt::format("{} entries, and the queue holds {}", count, contents.capacity));
  }
  const std::vector<YAML::Node> items = map.items("value");
  if (items.empty() || items.size() > arch::kQueueEntryWords) {
    map.fail("value", fmt::format("{} values, of 1 to {}", items.size(), arch::kQueueEntryWords));
  }
  contents.entries.assign(count, {});
  for (std::size_t word = 0; word < items.size(); ++word) {
    if (!items[word].IsScalar()) {
      map.fail("value", items[word], fmt::format("an expression is expected, found {}", kind_text(items[word])));
    }
    ExpressionSlots slots;
    const std::uint32_t slot = slots.add();
    EntryNames names(slot);
    const Expression expression(items[word].Scalar(), position(items[word], file), names, slots);
    for (std::uint64_t i = 0; i < count; ++i) {
      slots.at(slot) = static_cast<double>(i);
      contents.entries[i][word] = whole_bits(expression.value());
    }
  }
}

std::uint8_t subcontext_of(const MapReader& map, const char* key) {
  return static_cast<std::uint8_t>(map.number<std::uint32_t>(key, {Unit::none, 0, arch::kSubcontexts - 1}));
}

// Shares of what there are few of.
std::uint32_t read_percent(const MapReader& map, const char* key) {
  const auto percent = map.number<double>(key, {Unit::percent, 1.0, 100.0}, BareNumber::refused);
  if (std::floor(percent) < percent) map.fail(key, "a whole percentage is expected");
  return static_cast<std::uint32_t>(percent);
}

// A percentage with one decimal.
constexpr double kLeastPercent = 0.1;
std::uint32_t read_thousandths(const MapReader& map, const char* key, double least) {
  const auto percent = map.number<double>(key, {Unit::percent, least, 100.0}, BareNumber::refused);
  const double thousandths = percent * arch::kWholeBandwidth / 100;
  if (std::fabs(thousandths - std::round(thousandths)) > 1e-6) map.fail(key, "shares are in steps of 0.1 %");
  return static_cast<std::uint32_t>(std::llround(thousandths));
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> read_tpcs(const MapReader& map) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tpcs;
  const Limits<std::uint32_t> limits{Unit::none, 0, kMostUnits};
  for (const YAML::Node& item : map.items("tpcs")) {
    if (!item.IsSequence() || item.size() != 2) map.fail("tpcs", item, "a GPC and a TPC are expected: [0, 1]");
    tpcs.emplace_back(map.number<std::uint32_t>("tpcs", item[0], limits),
                      map.number<std::uint32_t>("tpcs", item[1], limits));
    if (std::count(tpcs.begin(), tpcs.end(), tpcs.back()) > 1) map.fail("tpcs", item, "it stands twice in the list");
  }
  if (tpcs.empty()) map.fail("tpcs", "the list is empty: it could run nowhere");
  return tpcs;
}

const char* mode_name(ShareChange::Mode mode) {
  constexpr const char* kNames[] = {"none", "static", "dynamic"};
  return kNames[static_cast<std::size_t>(mode)];
}

}  // namespace

bool programs_launch(const YAML::Node& kernels) {
  if (!kernels.IsSequence()) return false;
  return std::any_of(kernels.begin(), kernels.end(), [](const YAML::Node& kernel) {
    return kernel.IsMap() && kernel["program"].IsDefined() && has_key(kernel["program"], "launch");
  });
}

void KernelTable::read(const YAML::Node& list, const std::string& file, const std::vector<MemoryRegion>& regions,
                       const Sources& sources) {
  // A program may launch a kernel that stands behind it.
  for (const auto& node : list) {
    const MapReader map(node, kernel_spec(), entry_name("kernel", node, "name"), file);
    const std::string name = map.name("name");
    const std::uint64_t address = sources.objects + targets_.size() * arch::kKernelObjectBytes;
    if (!targets_
             .emplace(name,
                      LaunchTarget{address, read_grid(map), map.has("program") || map.has("ptx"), map.has("cluster")})
             .second) {
      map.fail("name", fmt::format("there are two kernels {}", name));
    }
  }
  for (const auto& node : list) {
    const MapReader map(node, kernel_spec(), entry_name("kernel", node, "name"), file);
    ProgramScope scope{regions, targets_, {}, {}, sources.ptx};
    Entry entry;
    entry.record = read_kernel(map, file, scope);
    entry.launches = std::move(scope.launched);
    for (const MemoryRegion& region : regions) {
      // Those that are shared are the same to all GPUs, and lie in no address space.
      if (scope.used.count(region.name) != 0 && !region.shared) entry.regions.emplace(region.gpu, region.name);
    }
    const std::string name = entry.record.name;
    kernels_.emplace(name, std::move(entry));
  }
}

const arch::KernelRecord& KernelTable::find(const MapReader& map) {
  const std::string name = map.name("kernel");
  const auto kernel = kernels_.find(name);
  if (kernel == kernels_.end()) {
    const std::vector<std::string> known = names();
    throw InputError(map.where("kernel"), fmt::format("{}: there is no kernel {}", map.thing(), name),
                     known.empty() ? "describe it in the list `kernels`" : suggestion(name, known));
  }
  kernel->second.used = true;
  return kernel->second.record;
}

std::set<std::string> KernelTable::closure(const std::set<std::string>& names) const {
  std::set<std::string> all = names;
  std::vector<std::string> open(names.begin(), names.end());
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    for (const std::string& child : kernels_.at(name).launches) {
      if (all.insert(child).second) open.push_back(child);
    }
  }
  return all;
}

void KernelTable::check_regions(const MapReader& map, const std::string& kernel, std::size_t gpu) const {
  for (const std::string& name : closure({kernel})) {
    for (const auto& [owner, region] : kernels_.at(name).regions) {
      if (owner == gpu) continue;
      const std::string whose =
          name == kernel ? std::string("its program") : fmt::format("the program of {}, which it launches,", name);
      throw InputError(
          map.where("kernel"),
          fmt::format("{}: it runs on gpu{}, and {} uses memory {} of gpu{}", map.thing(), gpu, whose, region, owner),
          "describe a kernel for each GPU, with memory of that GPU");
    }
  }
}

void KernelTable::check_spaces(const MapReader& map, const std::string& kernel, const Workload& workload) const {
  const std::uint8_t own = kernels_.at(kernel).record.subcontext;
  const auto& listed = workload.subcontexts;
  const auto same = [own](const Subcontext& subcontext) { return subcontext.id == own; };
  const auto found = std::find_if(listed.begin(), listed.end(), same);
  if (!listed.empty() && own != 0 && found == listed.end()) {
    throw InputError(
        map.where("kernel"),
        fmt::format("{}: kernel {} is of subcontext {}, which `subcontexts` does not list", map.thing(), kernel, own),
        fmt::format("subcontexts: [{{id: {}}}]", own));
  }
  const bool translated = found != listed.end() && found->translated;
  std::optional<std::uint8_t> space;
  if (translated) space = own;
  for (const std::string& name : closure({kernel})) {
    for (const auto& [gpu, used] : kernels_.at(name).regions) {
      const auto is = [&, &used_name = used](const MemoryRegion& region) { return region.name == used_name; };
      const auto region = std::find_if(workload.memory.begin(), workload.memory.end(), is);
      // Queues are mapped where they are used.
      if (region == workload.memory.end() || region->contents.kind == RegionContents::Kind::queue) continue;
      const std::string whose =
          name == kernel ? std::string("its program") : fmt::format("the program of {}, which it launches,", name);
      const std::optional<std::uint32_t> instance = found == listed.end() ? std::nullopt : found->instance;
      if (region->instance && region->instance != instance) {
        throw InputError(map.where("kernel"),
                         fmt::format("{}: it runs in subcontext {}, which is not of instance {}, and {} uses memory {} "
                                     "of that instance",
                                     map.thing(), own, *region->instance, whose, used),
                         "give the memory the subcontext's instance");
      }
      if (region->subcontext == space) continue;
      const std::string where = region->subcontext
                                    ? fmt::format("in the address space of subcontext {}", *region->subcontext)
                                    : std::string("in no address space but that of the machine");
      throw InputError(map.where("kernel"),
                       fmt::format("{}: it runs in subcontext {}{}, and {} uses memory {}, which is {}", map.thing(),
                                   own, translated ? "" : ", which is not translated", whose, used, where),
                       translated ? fmt::format("give the memory `subcontext: {}`", own)
                                  : std::string("give the kernel the memory's subcontext, or the memory none"));
    }
  }
}

std::vector<LaunchedKernel> KernelTable::launched_by(const Workload& workload) const {
  std::set<std::string> first;
  std::set<std::string> seen;
  for (const Op& op : workload.ops) {
    if (op.kind != OpKind::kernel || !seen.insert(op.kernel.name).second) continue;
    const std::set<std::string>& launches = kernels_.at(op.kernel.name).launches;
    first.insert(launches.begin(), launches.end());
  }
  std::vector<LaunchedKernel> result;
  for (const std::string& name : closure(first)) {
    result.push_back({kernels_.at(name).record, targets_.at(name).address});
  }
  return result;
}

void KernelTable::note_queue_users(Workload& workload) const {
  std::set<std::pair<std::string, std::uint8_t>> seen;
  for (const Op& op : workload.ops) {
    if (op.kind != OpKind::kernel) continue;
    const std::uint8_t subcontext = op.kernel.subcontext;
    for (MemoryRegion& region : workload.memory) {
      if (op.queue && region.address == op.queue->address) region.users.insert(subcontext);
    }
    if (!seen.emplace(op.kernel.name, subcontext).second) continue;
    for (const std::string& name : closure({op.kernel.name})) {
      const auto& used = kernels_.at(name).regions;
      for (MemoryRegion& region : workload.memory) {
        const bool queue = region.contents.kind == RegionContents::Kind::queue;
        if (queue && used.count({region.gpu, region.name}) != 0) region.users.insert(subcontext);
      }
    }
  }
}

std::vector<std::string> KernelTable::names() const {
  std::vector<std::string> names;
  for (const auto& entry : kernels_) names.push_back(entry.first);
  return names;
}

std::vector<std::string> KernelTable::unused(const std::string& file) const {
  std::set<std::string> used;
  for (const auto& [name, entry] : kernels_) {
    if (entry.used) used.insert(name);
  }
  used = closure(used);
  std::vector<std::string> sentences;
  for (const auto& entry : kernels_) {
    if (used.count(entry.first) == 0) {
      sentences.push_back(fmt::format("{}: kernel {} is never submitted", file, entry.first));
    }
  }
  return sentences;
}

using namespace workload;
using namespace program;

MemoryRegion read_queue(const MapReader& map, const std::string& file, std::size_t gpus) {
  MemoryRegion region;
  region.name = map.name("name");
  region.where = map.where();
  if (map.has("gpu")) region.gpu = map.number<std::size_t>("gpu", {Unit::none, 0, gpus - 1});
  region.contents.kind = RegionContents::Kind::queue;
  region.contents.capacity = map.number<std::uint64_t>("capacity", {Unit::count, 1, kMostCapacity});
  region.bytes = arch::kRecordBytes + region.contents.capacity * arch::kQueueEntryBytes;
  if (map.has("initial")) read_initial(map, file, region.contents);
  return region;
}

std::vector<std::vector<Subcontext>> read_subcontexts(const YAML::Node& list, const std::string& file,
                                                      const std::vector<arch::Instances>& instances) {
  const std::size_t gpus = instances.size();
  std::vector<std::vector<Subcontext>> result(gpus);
  for (const auto& node : list) {
    const MapReader map(node, subcontext_spec(), entry_name("subcontext", node, "id"), file);
    Subcontext made;
    made.where = map.where();
    made.id = subcontext_of(map, "id");
    if (map.has("credits")) made.credits = map.number<std::uint32_t>("credits", {Unit::count, 0, kMostCredits});
    if (map.has("tpcs")) made.tpcs = read_tpcs(map);
    if (map.has("sms")) made.sms = read_percent(map, "sms");
    if (map.has("warps")) made.warps = read_percent(map, "warps");
    if (map.has("local")) made.local_bytes = map.number<std::uint32_t>("local", {Unit::bytes});
    if (map.has("bandwidth")) made.bandwidth = read_thousandths(map, "bandwidth", kLeastPercent);
    if (map.has("bandwidth_limit")) made.bandwidth_limit = read_thousandths(map, "bandwidth_limit", kLeastPercent);
    if (map.has("translated")) made.translated = map.flag("translated");
    const std::size_t gpu = map.has("gpu") ? map.number<std::size_t>("gpu", {Unit::none, 0, gpus - 1}) : 0;
    if (map.has("instance")) {
      if (!instances[gpu].any()) map.fail("instance", fmt::format("gpu{} has no instances", gpu));
      made.instance = map.number<std::uint32_t>("instance", {Unit::none, 0, instances[gpu].count() - 1});
    }
    for (const Subcontext& other : result[gpu]) {
      if (other.id == made.id) map.fail("id", fmt::format("there are two entries for subcontext {}", made.id));
    }
    result[gpu].push_back(std::move(made));
  }
  return result;
}

ShareChange read_share(const MapReader& map) {
  using What = ShareChange::What;
  using Mode = ShareChange::Mode;
  ShareChange change;
  change.where = map.where();
  if (map.has("at")) {
    change.when = map.number<Nanoseconds>("at", {Unit::ns, 0, kMaxScenarioTime}, BareNumber::refused);
  }
  const bool tpc = map.has("gpc") || map.has("tpc");
  const int whats = (map.has("mode") ? 1 : 0) + (map.has("credits") ? 1 : 0) + (map.has("enabled") ? 1 : 0) +
                    (map.has("block") ? 1 : 0) + (map.has("sms") ? 1 : 0) + (map.has("warps") ? 1 : 0) +
                    (map.has("bandwidth") ? 1 : 0) + (map.has("bandwidth_limit") ? 1 : 0);
  const bool of_tpc = map.has("enabled") || map.has("block");
  if (whats != 1 || map.has("mode") == map.has("subcontext") || tpc != of_tpc || map.has("gpc") != map.has("tpc")) {
    throw InputError(
        map.where(), fmt::format("{}: it does not say clearly what changes", map.thing()),
        "give one of: mode; subcontext and credits; subcontext and sms; subcontext and warps; subcontext and "
        "bandwidth; "
        "subcontext and bandwidth_limit; subcontext, gpc, tpc and enabled; subcontext, gpc, tpc and block");
  }
  if (map.has("mode")) {
    change.mode = choose(map, "mode", std::vector<Mode>{Mode::none, Mode::static_, Mode::dynamic}, mode_name);
    return change;
  }
  change.subcontext = subcontext_of(map, "subcontext");
  if (map.has("credits")) {
    change.what = What::credits;
    change.value = map.number<std::uint32_t>("credits", {Unit::count, 0, kMostCredits});
    return change;
  }
  if (map.has("sms") || map.has("warps")) {
    change.what = map.has("sms") ? What::sms : What::warps;
    change.value = read_percent(map, map.has("sms") ? "sms" : "warps");
    return change;
  }
  if (map.has("bandwidth")) {
    change.what = What::bandwidth;
    change.value = read_thousandths(map, "bandwidth", 0);
    return change;
  }
  if (map.has("bandwidth_limit")) {
    change.what = What::bandwidth_limit;
    change.value = read_thousandths(map, "bandwidth_limit", kLeastPercent);
    return change;
  }
  change.gpc = map.number<std::uint32_t>("gpc", {Unit::none, 0, kMostUnits});
  change.tpc = map.number<std::uint32_t>("tpc", {Unit::none, 0, kMostUnits});
  change.what = map.has("enabled") ? What::enable : What::block;
  change.value = change.what == What::enable ? (map.flag("enabled") ? 1 : 0)
                                             : map.number<std::uint32_t>("block", {Unit::none, 0, kMostUnits});
  return change;
}

}  // namespace heddle::scenario
