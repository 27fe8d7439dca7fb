// Policies by name: one line of a table each.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::cwd {

// `Setup`: what a machine tells its policies once.
template <class Policy, class Setup>
struct PolicyEntry {
  const char* name;
  const char* description;  // a line, for users
  std::unique_ptr<Policy> (*make)(const Setup& setup);
};

template <class Policy, class Setup>
using PolicyTable = std::vector<PolicyEntry<Policy, Setup>>;

// A line of the table. The policy's constructor takes the setup, or nothing.
template <class Policy, class Setup, class Made>
PolicyEntry<Policy, Setup> policy_entry(const char* name, const char* description) {
  return {name, description, []([[maybe_unused]] const Setup& setup) -> std::unique_ptr<Policy> {
            if constexpr (std::is_constructible_v<Made, const Setup&>) {
              return std::make_unique<Made>(setup);
            } else {
              return std::make_unique<Made>();
            }
          }};
}

// `kind`: what such a policy is called in messages.
template <class Policy, class Setup>
std::unique_ptr<Policy> make_policy(const PolicyTable<Policy, Setup>& table, const std::string& name,
                                    const Setup& setup, const char* kind) {
  std::vector<std::string> names;
  for (const PolicyEntry<Policy, Setup>& entry : table) {
    if (entry.name == name) return entry.make(setup);
    names.emplace_back(entry.name);
  }
  throw InputError(fmt::format("unknown {}: '{}'", kind, name), suggestion(name, names));
}

template <class Policy, class Setup>
std::vector<std::pair<std::string, std::string>> list_policies(const PolicyTable<Policy, Setup>& table) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const PolicyEntry<Policy, Setup>& entry : table) result.emplace_back(entry.name, entry.description);
  return result;
}

}  // namespace heddle::cwd
