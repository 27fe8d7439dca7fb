// Numbers of expressions to and from the bits of registers and memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/memory_op.h"

namespace heddle::program {

// The types that a value of a program can have: all but the pairs f16x2 and bf16x2, which only atomics have.
const std::vector<arch::ValueType>& scalar_types();
// The type of that name, of scalar_types().
std::optional<arch::ValueType> scalar_type(const std::string& name);

bool is_float(arch::ValueType type);

// Exact but for u64 and s64 beyond 2^53, which round to nearest even. Bits beyond the type's are ignored.
double number_of(arch::ValueType type, std::uint64_t bits);

// Floats round to nearest even; too large ones become infinities. Integers lose their fraction, then all bits that do
// not fit, as integer arithmetic does; what is not finite becomes 0. Zero-extended.
std::uint64_t bits_of(arch::ValueType type, double value);

}  // namespace heddle::program
