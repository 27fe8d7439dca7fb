// What registers hold, by register, index in its array and word. Without effects.
#pragma once

#include <cstdint>
#include <vector>

#include "host/register_table.h"

namespace heddle::host {

class RegisterStore {
 public:
  RegisterStore() {
    std::uint32_t next = 0;
    for (const Register& reg : register_table()) {
      first_.push_back(next);
      next += reg.count * reg.words;
    }
    values_.resize(next);
    reset();
  }

  std::uint64_t& at(RegisterId id, std::uint32_t index = 0, std::uint32_t word = 0) {
    return values_[place(id, index, word)];
  }
  std::uint64_t at(RegisterId id, std::uint32_t index = 0, std::uint32_t word = 0) const {
    return values_[place(id, index, word)];
  }
  std::uint32_t at32(RegisterId id, std::uint32_t index = 0) const { return static_cast<std::uint32_t>(at(id, index)); }

  // The reset values of the table.
  void reset() {
    for (const Register& reg : register_table()) {
      for (std::uint32_t i = 0; i < reg.count * reg.words; ++i) values_[place(reg.id, 0, 0) + i] = reg.reset;
    }
  }

 private:
  std::uint32_t place(RegisterId id, std::uint32_t index, std::uint32_t word) const {
    return first_[static_cast<std::size_t>(id)] + index * register_of(id).words + word;
  }

  std::vector<std::uint32_t> first_;  // by register: its place in values_
  std::vector<std::uint64_t> values_;
};

}  // namespace heddle::host
