// A value that is one of several words: "order: acquire".
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/suggest.h"
#include "scenario/schema.h"

namespace heddle::workload {

// The one of the options that the text names; throws InputError if it is none.
template <class T, class NameOf>
T choose(const MapReader& map, const char* key, const std::vector<T>& options, NameOf name_of) {
  const std::string text = map.text(key);
  std::vector<std::string> names;
  for (const T& option : options) {
    if (text == name_of(option)) return option;
    names.emplace_back(name_of(option));
  }
  throw InputError(map.where(key), fmt::format("{}, {}: {} is not possible here", map.thing(), key, text),
                   suggestion(text, names));
}

// The same where the name of the function alone does not say which one is meant.
template <class T>
T choose(const MapReader& map, const char* key, const std::vector<T>& options, const char* (*name_of)(T)) {
  return choose(map, key, options, [name_of](const T& option) { return name_of(option); });
}

// `insert: head`.
inline bool reads_head(const MapReader& map) {
  if (!map.has("insert")) return false;
  return choose(map, "insert", std::vector<std::string>{"tail", "head"}, [](const std::string& s) { return s; }) ==
         "head";
}

}  // namespace heddle::workload
