#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "arch/kernel_record.h"
#include "common/quantity.h"
#include "common/yaml_util.h"
#include "program/expression.h"
#include "program/step_table.h"
#include "scenario/scenario_entries.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

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
                                                      std::size_t gpus) {
  std::vector<std::vector<Subcontext>> result(gpus);
  for (const auto& node : list) {
    const MapReader map(node, subcontext_spec(), entry_name("subcontext", node, "id"), file);
    Subcontext made;
    made.where = map.where();
    made.id = subcontext_of(map, "id");
    if (map.has("credits")) made.credits = map.number<std::uint32_t>("credits", {Unit::count, 0, kMostCredits});
    if (map.has("tpcs")) made.tpcs = read_tpcs(map);
    if (map.has("translated")) made.translated = map.flag("translated");
    const std::size_t gpu = map.has("gpu") ? map.number<std::size_t>("gpu", {Unit::none, 0, gpus - 1}) : 0;
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
                    (map.has("block") ? 1 : 0);
  const bool of_tpc = map.has("enabled") || map.has("block");
  if (whats != 1 || map.has("mode") == map.has("subcontext") || tpc != of_tpc || map.has("gpc") != map.has("tpc")) {
    throw InputError(
        map.where(), fmt::format("{}: it does not say clearly what changes", map.thing()),
        "give one of: mode; subcontext and credits; subcontext, gpc, tpc and enabled; subcontext, gpc, tpc "
        "and block");
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
  change.gpc = map.number<std::uint32_t>("gpc", {Unit::none, 0, kMostUnits});
  change.tpc = map.number<std::uint32_t>("tpc", {Unit::none, 0, kMostUnits});
  change.what = map.has("enabled") ? What::enable : What::block;
  change.value = change.what == What::enable ? (map.flag("enabled") ? 1 : 0)
                                             : map.number<std::uint32_t>("block", {Unit::none, 0, kMostUnits});
  return change;
}

}  // namespace heddle::scenario
