#include "arch/instances.h"

#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>

#include "common/quantity.h"
#include "common/yaml_util.h"

namespace heddle::arch {
namespace {

// Each unit that an instance names is one of the machine's, and nobody's before.
void check_units(const Instance& instance, std::uint32_t number, const std::vector<std::uint32_t>& units,
                 std::uint32_t count, const char* what, std::vector<std::optional<std::uint32_t>>& owner) {
  if (units.empty()) {
    throw InputError(instance.where, fmt::format("instance {} has no {}", number, what),
                     "an instance has GPCs, L2 slices, copy engines and memory of its own");
  }
  for (const std::uint32_t unit : units) {
    if (unit >= count) {
      throw InputError(instance.where, fmt::format("instance {}: the machine has no {} {}", number, what, unit),
                       count == 0 ? "it has none" : fmt::format("they are numbered from 0 to {}", count - 1));
    }
    if (owner[unit]) {
      const bool twice = *owner[unit] == number;
      throw InputError(instance.where,
                       twice
                           ? fmt::format("instance {} names {} {} twice", number, what, unit)
                           : fmt::format("instances {} and {} would both have {} {}", *owner[unit], number, what, unit),
                       "nothing belongs to two instances");
    }
    owner[unit] = number;
  }
}

}  // namespace

std::uint64_t Instances::base(std::uint32_t number) const {
  std::uint64_t base = 0;
  for (std::uint32_t i = 0; i < number; ++i) base += list_[i].memory;
  return base;
}

std::optional<std::uint32_t> Instances::of_gpc(std::uint32_t gpc) const {
  for (std::uint32_t i = 0; i < count(); ++i) {
    if (std::find(list_[i].gpcs.begin(), list_[i].gpcs.end(), gpc) != list_[i].gpcs.end()) return i;
  }
  return std::nullopt;
}

std::vector<std::uint32_t> Instances::channels_of(std::uint32_t number, std::uint32_t slices,
                                                  std::uint32_t channels) const {
  std::set<std::uint32_t> found;
  for (const std::uint32_t slice : list_[number].slices) {
    const std::uint64_t first = std::uint64_t{slice} * channels / slices;
    const std::uint64_t last = (std::uint64_t{slice} + 1) * channels / slices;
    for (std::uint64_t channel = first; channel < std::max(last, first + 1); ++channel) {
      found.insert(static_cast<std::uint32_t>(channel));
    }
  }
  return {found.begin(), found.end()};
}

void Instances::check(const InstanceLimits& limits) const {
  if (!any()) return;
  if (limits.channels % limits.slices != 0 && limits.slices % limits.channels != 0) {
    throw InputError(list_.front().where,
                     fmt::format("the machine has {} L2 slices and {} memory channels, which cannot be dealt to each "
                                 "other",
                                 limits.slices, limits.channels),
                     "let one be a multiple of the other: gpu.l2.slices, gpu.hbm.channels");
  }
  std::vector<std::optional<std::uint32_t>> gpcs(limits.gpcs);
  std::vector<std::optional<std::uint32_t>> slices(limits.slices);
  std::vector<std::optional<std::uint32_t>> engines(limits.copy_engines);
  for (std::uint32_t i = 0; i < count(); ++i) {
    check_units(list_[i], i, list_[i].gpcs, limits.gpcs, "GPC", gpcs);
    check_units(list_[i], i, list_[i].slices, limits.slices, "L2 slice", slices);
    check_units(list_[i], i, list_[i].copy_engines, limits.copy_engines, "copy engine", engines);
  }
  const std::uint32_t per_channel = std::max(1U, limits.slices / limits.channels);
  for (std::uint32_t i = 0; i < count(); ++i) {
    const Instance& instance = list_[i];
    const std::uint64_t channels = channels_of(i, limits.slices, limits.channels).size();
    if (channels * per_channel > instance.slices.size() && per_channel > 1) {
      throw InputError(instance.where, fmt::format("instance {} has a part of the L2 slices of a memory channel", i),
                       fmt::format("{} slices share a channel, from slice 0 on: give it all of them", per_channel));
    }
    if (instance.memory == 0 || instance.memory % kUnit != 0) {
      throw InputError(instance.where, fmt::format("instance {} has {} bytes of memory", i, instance.memory),
                       "give a multiple of 2 MiB");
    }
    // Of what a channel holds, all slices alike keep the machine's own.
    const std::uint64_t most = channels * ((limits.memory - limits.own) / limits.channels) / kUnit * kUnit;
    if (instance.memory > most) {
      throw InputError(instance.where,
                       fmt::format("instance {} has {} bytes of memory, and its {} of {} channels hold {}", i,
                                   instance.memory, channels, limits.channels, most),
                       "give it less memory or more slices, or raise gpu.memory");
    }
  }
}

}  // namespace heddle::arch

namespace heddle {
namespace {

constexpr const char* kInstanceRemedy =
    "write an instance as {gpcs: [0], slices: [0, 1], copy_engines: [0], memory: 1 GiB}";

arch::Instance parse_instance(const YAML::Node& node, const SourcePos& where) {
  if (!node.IsMap()) throw InputError(where, "an instance is not a map", kInstanceRemedy);
  arch::Instance instance;
  instance.where = where;
  for (const auto& entry : node) {
    const std::string key = entry.first.as<std::string>();
    const SourcePos place = position(entry.first, where.file);
    const auto units = [&] {
      return ParamTraits<std::vector<std::uint32_t>>::parse(entry.second, position(entry.second, where.file));
    };
    if (key == "gpcs") {
      instance.gpcs = units();
    } else if (key == "slices") {
      instance.slices = units();
    } else if (key == "copy_engines") {
      instance.copy_engines = units();
    } else if (key == "memory") {
      try {
        instance.memory = parse_quantity(detail::scalar_text(entry.second, "a size"),
                                         Limits<std::uint64_t>{Unit::bytes, 1, std::uint64_t{1} << 40});
      } catch (const InputError& error) {
        throw InputError(place, fmt::format("memory of an instance: {}", error.what()), kInstanceRemedy);
      }
    } else {
      throw InputError(place, fmt::format("an instance has no key \"{}\"", key),
                       suggestion(key, {"gpcs", "slices", "copy_engines", "memory"}));
    }
  }
  return instance;
}

}  // namespace

arch::Instances ParamTraits<arch::Instances>::parse(const YAML::Node& node, const SourcePos& where) {
  if (!node.IsSequence()) throw InputError(where, "not a list of instances", kInstanceRemedy);
  std::vector<arch::Instance> list;
  for (const YAML::Node& item : node) list.push_back(parse_instance(item, position(item, where.file)));
  return arch::Instances(std::move(list));
}

YAML::Node ParamTraits<arch::Instances>::format(const arch::Instances& instances) {
  using Units = ParamTraits<std::vector<std::uint32_t>>;
  YAML::Node list(YAML::NodeType::Sequence);
  for (const arch::Instance& instance : instances.list()) {
    YAML::Node map(YAML::NodeType::Map);
    map["gpcs"] = Units::format(instance.gpcs);
    map["slices"] = Units::format(instance.slices);
    map["copy_engines"] = Units::format(instance.copy_engines);
    map["memory"] = fmt::format("{} B", instance.memory);
    list.push_back(map);
  }
  return list;
}

}  // namespace heddle
