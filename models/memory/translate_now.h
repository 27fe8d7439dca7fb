// Translation inside a call: for blocking transport and debug accesses, which cannot wait for an answer.
#pragma once

#include <cstdint>

#include <systemc>

#include "arch/page_table.h"

namespace heddle::memory {

class TranslateNow {
 public:
  // Adds what the walk takes to `delay`. Not present: a fault.
  virtual arch::Translation translate_now(std::uint8_t subcontext, std::uint64_t address, sc_core::sc_time& delay) = 0;
  // Without time or side effects.
  virtual arch::Translation translate_debug(std::uint8_t subcontext, std::uint64_t address) = 0;

 protected:
  ~TranslateNow() = default;
};

}  // namespace heddle::memory
