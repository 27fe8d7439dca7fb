// Instances: hard slices of a machine (PRT-11). Each has GPCs, L2 slices with the memory channels behind them, a part
// of device memory that lies there alone, and copy engines; nothing belongs to two.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/param_table.h"

namespace heddle::arch {

struct Instance {
  std::vector<std::uint32_t> gpcs;
  std::vector<std::uint32_t> slices;  // of the L2
  std::vector<std::uint32_t> copy_engines;
  std::uint64_t memory = 0;  // bytes
  SourcePos where;

  bool operator==(const Instance& other) const {
    return gpcs == other.gpcs && slices == other.slices && copy_engines == other.copy_engines && memory == other.memory;
  }
};

// What a machine has of which instances get parts.
struct InstanceLimits {
  std::uint32_t gpcs = 0;
  std::uint32_t slices = 0;
  std::uint32_t channels = 0;
  std::uint32_t copy_engines = 0;
  std::uint64_t memory = 0;  // bytes
  std::uint64_t own = 0;     // of these, at the end, what the machine keeps for itself in all slices alike
};

// In the order of their numbers. Their memories follow each other from address 0 on; what is left behind them lies in
// all slices, as all memory does without instances.
class Instances {
 public:
  // Parts of memory begin at pages of 2 MiB.
  static constexpr std::uint64_t kUnit = std::uint64_t{2} << 20;

  Instances() = default;
  explicit Instances(std::vector<Instance> list) : list_(std::move(list)) {}

  bool any() const { return !list_.empty(); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(list_.size()); }
  const Instance& operator[](std::uint32_t number) const { return list_[number]; }
  const std::vector<Instance>& list() const { return list_; }
  // First byte of an instance's memory; of `count()`: the first behind all of them.
  std::uint64_t base(std::uint32_t number) const;
  std::optional<std::uint32_t> of_gpc(std::uint32_t gpc) const;
  // Memory channels of an instance: those whose slices it has. Channels are dealt to slices evenly, in order.
  std::vector<std::uint32_t> channels_of(std::uint32_t number, std::uint32_t slices, std::uint32_t channels) const;

  // Throws InputError, with the place of the instance, for what the machine does not have, what two of them would have,
  // half a channel, and more memory than the channels hold.
  void check(const InstanceLimits& limits) const;

  bool operator==(const Instances& other) const { return list_ == other.list_; }

 private:
  std::vector<Instance> list_;
};

}  // namespace heddle::arch

namespace heddle {

template <>
struct ParamTraits<arch::Instances> {
  static constexpr const char* kType = "instances";
  static constexpr const char* kRange =
      "a list of maps with gpcs, slices and copy_engines, lists of numbers, and memory, a size; or []";
  static arch::Instances parse(const YAML::Node& node, const SourcePos& where);
  static YAML::Node format(const arch::Instances& instances);
};

}  // namespace heddle
