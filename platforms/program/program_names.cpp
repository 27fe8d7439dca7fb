#include "program/program_names.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::program {

using namespace workload;
namespace {

using arch::ValueType;

constexpr std::uint32_t kMaxVariableRegisters = 255;

constexpr std::pair<const char*, SlotSource> kSlots[] = {
    {"cta", SlotSource::cta},
    {"cta.x", SlotSource::cta_x},
    {"cta.y", SlotSource::cta_y},
    {"cta.z", SlotSource::cta_z},
    {"cluster", SlotSource::cluster},
    {"cluster.size", SlotSource::cluster_size},
    {"cluster.x", SlotSource::cluster_x},
    {"cluster.y", SlotSource::cluster_y},
    {"cluster.z", SlotSource::cluster_z},
    {"rank", SlotSource::rank},
    {"warp", SlotSource::warp},
    {"lane", SlotSource::lane},
    {"thread", SlotSource::thread},
    {"thread.x", SlotSource::thread_x},
    {"thread.y", SlotSource::thread_y},
    {"thread.z", SlotSource::thread_z},
    {"item.x", SlotSource::item_x},
    {"item.y", SlotSource::item_y},
    {"item.z", SlotSource::item_z},
    {"grid", SlotSource::grid},
    {"grid.x", SlotSource::grid_x},
    {"grid.y", SlotSource::grid_y},
    {"grid.z", SlotSource::grid_z},
    {"block", SlotSource::block},
    {"block.x", SlotSource::block_x},
    {"block.y", SlotSource::block_y},
    {"block.z", SlotSource::block_z},
    {"workgroup", SlotSource::workgroup},
    {"workgroup.x", SlotSource::workgroup_x},
    {"workgroup.y", SlotSource::workgroup_y},
    {"workgroup.z", SlotSource::workgroup_z},
    {"warps", SlotSource::warps},
    {"kernarg", SlotSource::kernarg},
};

constexpr std::pair<const char*, double> kConstants[] = {
    {"lanes", arch::kWarpLanes},
    {"pi", 3.14159265358979323846},
};

}  // namespace

const std::vector<std::string>& built_in_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const auto& entry : kSlots) names.emplace_back(entry.first);
    for (const auto& entry : kConstants) names.emplace_back(entry.first);
    return names;
  }();
  return kNames;
}

std::uint16_t RegisterAllocator::take(std::uint32_t count, bool accumulators, const SourcePos& where) {
  const auto too_many = [&](std::uint32_t limit, const char* whose) {
    throw InputError(where, fmt::format("the program needs more than {} registers, {}", limit, whose),
                     "let names end earlier: those made in the list of a loop or a branch end with it");
  };
  std::uint32_t run = 0;
  for (std::uint32_t i = 0; i < used_.size(); ++i) {
    run = used_[i] ? 0 : run + 1;
    if (run < count) continue;
    const std::uint32_t first = i + 1 - count;
    std::fill_n(used_.begin() + first, count, true);
    most_ = std::max(most_, i + 1);
    if (!accumulators) variables_ += count;
    if (variables_ > kMaxVariableRegisters) too_many(kMaxVariableRegisters, "the most that variables can take");
    if (own_ != 0 && most_ > own_) too_many(own_, "the kernel's `registers`");
    return static_cast<std::uint16_t>(first);
  }
  too_many(arch::kMaxProgramRegisters, "the most that a program can have");
  return 0;
}

void RegisterAllocator::give_back(const arch::RegisterRange& range) {
  std::fill_n(used_.begin() + range.first, range.count, false);
  variables_ -= range.count;
}

ProgramNames::ProgramNames(const arch::KernelRecord& kernel, const std::vector<MemoryRegion>& regions,
                           ProgramParts& parts)
    : regions_(regions), parts_(parts), registers_(kernel.registers_per_thread) {}

const ProgramNames::Meaning* ProgramNames::meaning(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->names.find(name);
    if (found != scope->names.end()) return &found->second;
  }
  return nullptr;
}

std::uint32_t ProgramNames::slot(SlotSource source, std::uint32_t index, const ProgramVariable& variable) {
  parts_.slots.push_back({source, index, variable});
  return parts_.values.add();
}

std::optional<NamedValue> ProgramNames::built_in(const std::string& name) {
  for (const auto& [known, value] : kConstants) {
    if (name == known) return value;
  }
  for (const auto& [known, source] : kSlots) {
    if (name != known) continue;
    const auto found = slots_.find(name);
    if (found != slots_.end()) return found->second;
    return slots_[name] = slot(source, 0, {});
  }
  for (const MemoryRegion& region : regions_) {
    if (name.compare(0, region.name.size(), region.name) != 0) continue;
    const std::string_view rest = std::string_view(name).substr(region.name.size());
    const bool bytes = rest == ".bytes";
    const bool group = region.shared && rest == ".group";
    if (!bytes && !group && !rest.empty()) continue;
    regions_used_.insert(region.name);
    if (group) return static_cast<double>(arch::multicast_address(0, region.address));
    return static_cast<double>(bytes ? region.bytes : region.known_as());
  }
  return std::nullopt;
}

std::optional<NamedValue> ProgramNames::find(const std::string& name) {
  const Meaning* found = meaning(name);
  if (found == nullptr) return built_in(name);
  if (const auto* value = std::get_if<NamedValue>(found)) return *value;
  if (const auto* variable = std::get_if<Register>(found)) return variable->slot;
  return std::nullopt;  // accumulators have no single value
}

std::vector<std::string> ProgramNames::known() const {
  std::vector<std::string> names;
  for (const Scope& scope : scopes_) {
    for (const auto& entry : scope.names) names.push_back(entry.first);
  }
  for (const MemoryRegion& region : regions_) names.push_back(region.name);
  const std::vector<std::string>& built_in = built_in_names();
  names.insert(names.end(), built_in.begin(), built_in.end());
  return names;
}

void ProgramNames::close() {
  for (const arch::RegisterRange& range : scopes_.back().registers) registers_.give_back(range);
  scopes_.pop_back();
}

void ProgramNames::check_new(const std::string& name, const SourcePos& where) const {
  if (!usable_name(name)) {
    throw InputError(where, fmt::format("\"{}\" cannot be a name", name),
                     "names are letters, digits and underscores, and begin with no digit");
  }
  const std::vector<std::string>& built_in = built_in_names();
  if (std::find(built_in.begin(), built_in.end(), name) != built_in.end()) {
    throw InputError(where, fmt::format("{} has a meaning of its own", name), "choose another name");
  }
  const auto region = [&](const MemoryRegion& one) { return one.name == name; };
  if (meaning(name) != nullptr || std::any_of(regions_.begin(), regions_.end(), region)) {
    throw InputError(where, fmt::format("{} has a meaning already", name), "choose another name");
  }
}

void ProgramNames::let(const std::string& name, const SourcePos& where, NamedValue value) {
  check_new(name, where);
  scopes_.back().names.emplace(name, std::move(value));
}

std::uint32_t ProgramNames::scalars(std::uint32_t count) {
  const std::uint32_t first = parts_.scalars;
  parts_.scalars += count;
  return first;
}

std::uint32_t ProgramNames::loop(const std::string& name, const SourcePos& where) {
  check_new(name, where);
  const std::uint32_t first = scalars(2);
  scopes_.back().names.emplace(name, NamedValue(slot(SlotSource::scalar, first, {})));
  return first;
}

const ProgramVariable* ProgramNames::variable(const std::string& name) const {
  const Meaning* found = meaning(name);
  const auto* variable = found == nullptr ? nullptr : std::get_if<Register>(found);
  return variable == nullptr ? nullptr : &variable->variable;
}

const MemoryRegion* ProgramNames::region(const std::string& name) const {
  const auto found =
      std::find_if(regions_.begin(), regions_.end(), [&](const MemoryRegion& one) { return one.name == name; });
  return found == regions_.end() ? nullptr : &*found;
}

const MemoryRegion* ProgramNames::queue(const std::string& name) {
  const MemoryRegion* found = region(name);
  if (found == nullptr || found->contents.kind != RegionContents::Kind::queue) return nullptr;
  regions_used_.insert(name);
  return found;
}

std::vector<ProgramVariable> ProgramNames::make(const std::vector<std::string>& names, ValueType type,
                                                const SourcePos& where) {
  const std::uint32_t size = arch::bytes_of(type);
  const std::uint32_t registers = std::max<std::uint32_t>(1, size * static_cast<std::uint32_t>(names.size()) / 4);
  for (const std::string& name : names) check_new(name, where);
  const std::uint16_t first = registers_.take(registers, false, where);
  scopes_.back().registers.push_back({first, static_cast<std::uint16_t>(registers)});
  std::vector<ProgramVariable> result;
  std::uint32_t offset = 0;  // in bytes
  for (const std::string& name : names) {
    const ProgramVariable variable{static_cast<std::uint16_t>(first + offset / 4),
                                   static_cast<std::uint8_t>(8 * (offset % 4)),
                                   static_cast<std::uint8_t>(std::min<std::size_t>(4, size * names.size())), type};
    const Register entry{variable, slot(SlotSource::variable, 0, variable)};
    if (!scopes_.back().names.emplace(name, entry).second) {
      throw InputError(where, fmt::format("{} stands twice in the list", name), "each value needs a name of its own");
    }
    result.push_back(variable);
    offset += size;
  }
  return result;
}

const ProgramVariable* ProgramNames::typed(const std::string& name, ValueType type, const SourcePos& where) const {
  const ProgramVariable* known = variable(name);
  if (known != nullptr && known->type != type) {
    throw InputError(
        where, fmt::format("{} has the type {}, not {}", name, arch::type_name(known->type), arch::type_name(type)),
        "a name keeps its type; choose another name");
  }
  return known;
}

ProgramVariable ProgramNames::one(const std::string& name, ValueType type, const SourcePos& where) {
  const ProgramVariable* known = typed(name, type, where);
  return known != nullptr ? *known : make({name}, type, where).front();
}

std::vector<ProgramVariable> ProgramNames::together(const std::vector<std::string>& names, ValueType type,
                                                    const SourcePos& where) {
  std::vector<ProgramVariable> result;
  for (const std::string& name : names) {
    if (const ProgramVariable* known = typed(name, type, where)) result.push_back(*known);
  }
  if (result.empty()) return make(names, type, where);
  const std::size_t size = arch::bytes_of(type);
  const ProgramVariable& first = result.front();
  // A part of a register would clear the rest of it.
  bool whole = result.size() == names.size() && first.shift == 0 && size * names.size() >= first.together;
  for (std::size_t i = 1; whole && i < result.size(); ++i) {
    const auto bits = [](const ProgramVariable& v) { return 32U * v.first + v.shift; };
    whole = bits(result[i]) == bits(result[i - 1]) + 8 * size;
  }
  if (!whole) {
    throw InputError(where, fmt::format("{}: not the whole of some registers, in order", fmt::join(names, ", ")),
                     "values that one access writes get their names together, in this order, by such an access");
  }
  return result;
}

Accumulators ProgramNames::accumulators(const std::string& name, std::uint32_t n, const SourcePos& where) {
  const Meaning* found = meaning(name);
  if (found != nullptr) {
    const auto* known = std::get_if<Accumulators>(found);
    if (known == nullptr) throw InputError(where, fmt::format("{} are no accumulators", name), "choose another name");
    if (n != 0 && n != known->n) {
      throw InputError(where, fmt::format("{} has {} columns, not {}", name, known->n, n), "choose another name");
    }
    return *known;
  }
  if (n == 0) {
    std::vector<std::string> names;
    for (const auto& [other, value] : scopes_.front().names) {
      if (std::holds_alternative<Accumulators>(value)) names.push_back(other);
    }
    throw InputError(where, fmt::format("there are no accumulators {}", name),
                     names.empty() ? fmt::format("declare them before: accumulators: {{{}: {{n: 128}}}}", name)
                                   : suggestion(name, names));
  }
  check_new(name, where);
  const Accumulators made{registers_.take(n / 2, true, where), n};
  scopes_.front().names.emplace(name, made);
  return made;
}

}  // namespace heddle::program
