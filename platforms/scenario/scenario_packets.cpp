#include "scenario/scenario_packets.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "common/yaml_util.h"
#include "program/expression.h"
#include "program/step_table.h"

namespace heddle::scenario {

using namespace workload;
using namespace program;
namespace {

template <class T>
T read_choice(const MapReader& map, const char* key, const Choices<T>& choices, T otherwise) {
  if (!map.has(key)) return otherwise;
  std::vector<T> values;
  for (const auto& choice : choices) values.push_back(choice.second);
  return choose(map, key, values, [&choices](T value) {
    for (const auto& [name, one] : choices) {
      if (one == value) return name;
    }
    return std::string();
  });
}

// The addresses of regions.
class ArgNames : public ExpressionNames {
 public:
  ArgNames(const std::vector<MemoryRegion>& regions, std::set<std::string>& used) : regions_(regions), used_(used) {}

  std::optional<NamedValue> find(const std::string& name) override {
    for (const MemoryRegion& region : regions_) {
      if (region.name != name) continue;
      used_.insert(name);
      return static_cast<double>(region.address);
    }
    return std::nullopt;
  }
  std::vector<std::string> known() const override {
    std::vector<std::string> names;
    for (const MemoryRegion& region : regions_) names.push_back(region.name);
    return names;
  }

 private:
  const std::vector<MemoryRegion>& regions_;
  std::set<std::string>& used_;
};

constexpr CopyDirection kDirections[] = {CopyDirection::device_to_device, CopyDirection::host_to_device,
                                         CopyDirection::device_to_host};

}  // namespace

PacketOptions read_submission(const YAML::Node& node, const std::string& file, YAML::Node& operations) {
  const MapReader map(node, submission_spec(), "submit", file);
  if (map.text("by") != "aql") map.fail("by", fmt::format("{} is not a way to submit", map.text("by")));
  const PacketOptions usual;
  PacketOptions options;
  options.format = read_choice(map, "format", packet_formats(), usual.format);
  options.queues = read_choice(map, "queues", queue_places(), usual.queues);
  options.copies = read_choice(map, "copies", copy_ways(), usual.copies);
  options.signals = read_choice(map, "signals", signal_choices(), usual.signals);
  if (map.has("batch")) options.batch = map.number<std::uint32_t>("batch", {Unit::count, 1, kMaxBatch});
  operations.reset(map.node("operations"));
  return options;
}

std::vector<std::uint64_t> read_args(const MapReader& map, const std::string& file,
                                     const std::vector<MemoryRegion>& regions, std::set<std::string>& used) {
  std::vector<std::uint64_t> args;
  ArgNames names(regions, used);
  constexpr std::size_t kMostArgs = 512;  // 4 KiB
  for (const YAML::Node& item : map.items("args")) {
    if (!item.IsScalar()) map.fail("args", item, fmt::format("an expression is expected, found {}", kind_text(item)));
    ExpressionSlots slots;
    const Expression expression(item.Scalar(), position(item, file), names, slots);
    args.push_back(whole_bits(expression.value()));
  }
  if (args.empty() || args.size() > kMostArgs) {
    map.fail("args", fmt::format("{} arguments, of 1 to {}", args.size(), kMostArgs));
  }
  return args;
}

CopyDirection read_direction(const MapReader& map) {
  if (!map.has("direction")) return CopyDirection::host_to_device;
  return choose(map, "direction", std::vector<CopyDirection>(std::begin(kDirections), std::end(kDirections)),
                direction_name);
}

const char* direction_name(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::host_to_device:
      return "host_to_device";
    case CopyDirection::device_to_host:
      return "device_to_host";
    case CopyDirection::device_to_device:
      break;
  }
  return "device_to_device";
}

}  // namespace heddle::scenario
