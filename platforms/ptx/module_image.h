// The variables of a module in device memory, and the parameters of its entries.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ptx/module.h"

namespace heddle::ptx {

constexpr std::uint64_t aligned_up(std::uint64_t offset, std::uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

struct EntryParameter {
  std::string name;
  Type type = Type::b32;
  std::uint64_t offset = 0;  // in the arguments
  std::uint64_t bytes = 0;
  std::uint32_t align = 1;
};
// In their order, each at its natural place behind the one before.
std::vector<EntryParameter> parameters_of(const Function& entry);
// Of all of them.
std::uint64_t argument_bytes(const std::vector<EntryParameter>& parameters);

// Where the .global and .const variables of a module lie: behind each other, first those of .global.
class ModuleImage {
 public:
  // Throws InputError for a variable without a size.
  explicit ModuleImage(const Module& module);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t constants_at() const { return constants_at_; }  // bytes from the beginning on
  // By name: bytes from the beginning on.
  const std::map<std::string, std::uint64_t>& offsets() const { return offsets_; }
  // What lies there if the image begins at that address. Throws InputError for an initializer that names what has no
  // address in device memory.
  std::vector<std::uint8_t> contents(std::uint64_t address) const;

 private:
  const Module& module_;
  std::map<std::string, std::uint64_t> offsets_;
  std::uint64_t bytes_ = 0;
  std::uint64_t constants_at_ = 0;
};

// What stands for the address of a function in registers and memory; 0: there is no such function.
std::uint64_t function_address(const Module& module, const std::string& name);

}  // namespace heddle::ptx
