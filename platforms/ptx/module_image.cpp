#include "ptx/module_image.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle::ptx {
namespace {

constexpr std::uint64_t kFunctionStep = 16;

}  // namespace

std::vector<EntryParameter> parameters_of(const Function& entry) {
  std::vector<EntryParameter> result;
  std::uint64_t at = 0;
  for (const Variable& variable : entry.parameters) {
    EntryParameter parameter;
    parameter.name = variable.name;
    parameter.type = variable.type;
    parameter.bytes = variable.bytes();
    parameter.align = std::max(1U, variable.alignment());
    at = aligned_up(at, parameter.align);
    parameter.offset = at;
    at += parameter.bytes;
    result.push_back(std::move(parameter));
  }
  return result;
}

std::uint64_t argument_bytes(const std::vector<EntryParameter>& parameters) {
  return parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes;
}

ModuleImage::ModuleImage(const Module& module) : module_(module) {
  for (const StateSpace space : {StateSpace::global, StateSpace::constant}) {
    if (space == StateSpace::constant) constants_at_ = bytes_ = aligned_up(bytes_, 256);
    for (const Variable& variable : module.variables) {
      if (variable.space != space || offsets_.count(variable.name) != 0) continue;
      if (variable.bytes() == 0) {
        throw InputError(SourcePos{module.name, static_cast<int>(variable.place.line), 0},
                         fmt::format("the variable {} has no size in this module", variable.name),
                         "link the module that defines it into this one");
      }
      bytes_ = aligned_up(bytes_, std::max(1U, variable.alignment()));
      offsets_[variable.name] = bytes_;
      bytes_ += variable.bytes();
    }
  }
}

std::vector<std::uint8_t> ModuleImage::contents(std::uint64_t address) const {
  std::vector<std::uint8_t> result(bytes_, 0);
  for (const Variable& variable : module_.variables) {
    const auto found = offsets_.find(variable.name);
    if (found == offsets_.end() || !variable.initial) continue;
    const Initializer& initial = *variable.initial;
    std::copy_n(initial.bytes.begin(), std::min<std::size_t>(initial.bytes.size(), variable.bytes()),
                result.begin() + static_cast<std::ptrdiff_t>(found->second));
    for (const Initializer::Address& part : initial.addresses) {
      const auto target = offsets_.find(part.name);
      std::uint64_t value = function_address(module_, part.name);
      if (target != offsets_.end()) value = address + target->second;
      if (value == 0) {
        throw InputError(
            SourcePos{module_.name, static_cast<int>(variable.place.line), 0},
            fmt::format("{} begins with the address of {}, which has none in device memory", variable.name, part.name),
            "name a .global or .const variable");
      }
      value = (value + static_cast<std::uint64_t>(part.offset)) >> (8 * part.shift);
      for (std::uint32_t i = 0; i < part.bytes; ++i) {
        result[found->second + part.at + i] = static_cast<std::uint8_t>(value >> (8 * i));
      }
    }
  }
  return result;
}

std::uint64_t function_address(const Module& module, const std::string& name) {
  for (std::size_t i = 0; i < module.functions.size(); ++i) {
    if (module.functions[i].name == name) return (i + 1) * kFunctionStep;
  }
  return 0;
}

}  // namespace heddle::ptx
