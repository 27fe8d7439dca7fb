// Parameters that are lists of whole numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.h"
#include "common/param_table.h"

namespace heddle {

template <>
struct ParamTraits<std::vector<std::uint32_t>> {
  static constexpr const char* kType = "list";
  static constexpr const char* kRange = "a list of whole numbers, or []";
  static std::vector<std::uint32_t> parse(const YAML::Node& node, const SourcePos& where) {
    const char* remedy = "write it as [4, 4]";
    if (!node.IsSequence()) throw InputError(where, "not a list of whole numbers", remedy);
    std::vector<std::uint32_t> result;
    for (const YAML::Node& item : node) {
      try {
        result.push_back(item.as<std::uint32_t>());
      } catch (const YAML::Exception&) {
        throw InputError(position(item, where.file), "an item of the list is not a whole number from 0", remedy);
      }
    }
    return result;
  }
  static YAML::Node format(const std::vector<std::uint32_t>& value) {
    YAML::Node list(YAML::NodeType::Sequence);
    for (const std::uint32_t item : value) list.push_back(item);
    return list;
  }
};

}  // namespace heddle
