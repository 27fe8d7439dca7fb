#include "ptx/name_table.h"

#include <algorithm>
#include <charconv>

#include "common/error.h"

namespace heddle::ptx {

namespace {

// PTX ISA, "Special Registers". Those with numbers at their ends are listed by what stands before.
const std::vector<std::string>& special_registers() {
  static const std::vector<std::string> kNames = {
      "%tid",
      "%ntid",
      "%laneid",
      "%warpid",
      "%nwarpid",
      "%ctaid",
      "%nctaid",
      "%smid",
      "%nsmid",
      "%gridid",
      "%is_explicit_cluster",
      "%clusterid",
      "%nclusterid",
      "%cluster_ctaid",
      "%cluster_nctaid",
      "%cluster_ctarank",
      "%cluster_nctarank",
      "%lanemask_eq",
      "%lanemask_le",
      "%lanemask_lt",
      "%lanemask_ge",
      "%lanemask_gt",
      "%clock",
      "%clock_hi",
      "%clock64",
      "%globaltimer",
      "%globaltimer_lo",
      "%globaltimer_hi",
      "%reserved_smem_offset_begin",
      "%reserved_smem_offset_end",
      "%reserved_smem_offset_cap",
      "%reserved_smem_offset_0",
      "%reserved_smem_offset_1",
      "%total_smem_size",
      "%aggr_smem_size",
      "%dynamic_smem_size",
      "%current_graph_exec",
  };
  return kNames;
}

// The number at the end of a name from `from` on, as a register's: without leading zeros.
std::optional<std::uint32_t> number_behind(std::string_view name, std::size_t from) {
  const std::string_view digits = name.substr(from);
  if (digits.empty() || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Where the digits at the end of a name begin.
std::size_t digits_of(std::string_view name) {
  std::size_t at = name.size();
  while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') --at;
  return at;
}

bool is_numbered(std::string_view name, std::string_view prefix, std::string_view suffix, std::uint32_t count) {
  if (name.size() <= prefix.size() + suffix.size() || name.substr(0, prefix.size()) != prefix ||
      name.substr(name.size() - suffix.size()) != suffix) {
    return false;
  }
  const auto number = number_behind(name.substr(0, name.size() - suffix.size()), prefix.size());
  return number.has_value() && *number < count;
}

}  // namespace

bool is_special_register(std::string_view name) {
  if (name.empty() || name[0] != '%') return false;
  const auto& names = special_registers();
  return std::find(names.begin(), names.end(), name) != names.end() || is_numbered(name, "%pm", "", 8) ||
         is_numbered(name, "%pm", "_64", 8) || is_numbered(name, "%envreg", "", 32);
}

void NameTable::open() { scopes_.emplace_back(); }

void NameTable::close() { scopes_.pop_back(); }

const NameEntry* NameTable::find_in(const Scope& scope, std::string_view name) {
  const auto plain = scope.plain.find(name);
  if (plain != scope.plain.end()) return &plain->second;
  if (scope.numbered.empty()) return nullptr;
  for (std::size_t at = std::max<std::size_t>(digits_of(name), 1); at < name.size(); ++at) {
    const auto number = number_behind(name, at);
    if (!number.has_value()) continue;
    const auto numbered = scope.numbered.find(name.substr(0, at));
    if (numbered != scope.numbered.end() && *number < numbered->second.count) return &numbered->second;
  }
  return nullptr;
}

// A plain name that %r<7> would give a second meaning.
const NameEntry* NameTable::find_overlap(const Scope& scope, const std::string& prefix, std::uint32_t count) {
  for (auto at = scope.plain.lower_bound(prefix); at != scope.plain.end(); ++at) {
    if (at->first.compare(0, prefix.size(), prefix) != 0) return nullptr;
    const auto number = number_behind(at->first, prefix.size());
    if (number.has_value() && *number < count) return &at->second;
  }
  return nullptr;
}

const NameEntry* NameTable::declare(const std::string& name, const NameEntry& entry) {
  return add(scopes_.back(), name, entry);
}

const NameEntry* NameTable::declare_in_module(const std::string& name, const NameEntry& entry) {
  return add(scopes_.front(), name, entry);
}

const NameEntry* NameTable::add(Scope& scope, const std::string& name, const NameEntry& entry) {
  if (entry.count == 0) {
    if (const NameEntry* there = find_in(scope, name)) return there;
    scope.plain.emplace(name, entry);
    return nullptr;
  }
  if (const NameEntry* there = find_overlap(scope, name, entry.count)) return there;
  const auto [at, added] = scope.numbered.emplace(name, entry);
  return added ? nullptr : &at->second;
}

const NameEntry* NameTable::find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const NameEntry* entry = find_in(*scope, name)) return entry;
  }
  return nullptr;
}

const NameEntry* NameTable::find_here(std::string_view name) const { return find_in(scopes_.back(), name); }

std::string NameTable::suggest(std::string_view name) const {
  const std::string_view prefix = name.substr(0, digits_of(name));
  std::vector<std::string> candidates;
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto numbered = scope->numbered.find(prefix);
    if (numbered != scope->numbered.end() && prefix.size() < name.size()) {
      return "the last one is " + std::string(prefix) + std::to_string(numbered->second.count - 1) +
             ", declared in line " + std::to_string(numbered->second.place.line);
    }
    for (const auto& [other, entry] : scope->plain) candidates.push_back(other);
    for (const auto& [other, entry] : scope->numbered) {
      const std::uint32_t last = entry.count - 1;
      const auto number = number_behind(name, digits_of(name));
      candidates.push_back(other + std::to_string(std::min(number.value_or(last), last)));
    }
  }
  if (!name.empty() && name[0] == '%') {
    candidates.insert(candidates.end(), special_registers().begin(), special_registers().end());
  }
  const std::vector<std::string> near = nearest_names(name, candidates);
  if (near.empty()) return "declare it before it is used";
  return suggestion(name, candidates);
}

}  // namespace heddle::ptx
