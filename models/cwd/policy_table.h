// Policies by name: one line of a table each.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::cwd {

template <class Policy>
struct PolicyEntry {
  const char* name;
  const char* description;  // a line, for users
  std::unique_ptr<Policy> (*make)();
};

template <class Policy>
using PolicyTable = std::vector<PolicyEntry<Policy>>;

// A line of the table.
template <class Policy, class Made>
PolicyEntry<Policy> policy_entry(const char* name, const char* description) {
  return {name, description, []() -> std::unique_ptr<Policy> { return std::make_unique<Made>(); }};
}

// `kind`: what such a policy is called in messages.
template <class Policy>
std::unique_ptr<Policy> make_policy(const PolicyTable<Policy>& table, const std::string& name, const char* kind) {
  std::vector<std::string> names;
  for (const PolicyEntry<Policy>& entry : table) {
    if (entry.name == name) return entry.make();
    names.emplace_back(entry.name);
  }
  throw InputError(fmt::format("unknown {}: '{}'", kind, name), suggestion(name, names));
}

template <class Policy>
std::vector<std::pair<std::string, std::string>> list_policies(const PolicyTable<Policy>& table) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const PolicyEntry<Policy>& entry : table) result.emplace_back(entry.name, entry.description);
  return result;
}

}  // namespace heddle::cwd
