#include "program/program_values.h"

#include <cmath>
#include <cstring>

#include "arch/half.h"
#include "program/expression.h"

namespace heddle::program {
namespace {

using arch::ValueType;

std::int64_t sign_extended(std::uint64_t bits, unsigned width) {
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  return static_cast<std::int64_t>((bits ^ sign) - sign);
}

std::uint64_t low_bits(std::uint64_t bits, unsigned width) {
  return width == 64 ? bits : bits & ((std::uint64_t{1} << width) - 1);
}

// Rounded to odd, so that a second rounding, to 16 bits, gives what one rounding of the double would.
float odd_float(double value) {
  const auto nearest = static_cast<float>(value);
  if (!std::isfinite(nearest) || static_cast<double>(nearest) == value) return nearest;
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  const float cut = away ? std::nextafter(nearest, 0.0F) : nearest;
  return arch::float_of(arch::bits_of(cut) | 1U);
}

std::uint64_t bits_of_double(double value) {
  if (std::isnan(value)) return arch::kNanF64;
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

const std::vector<ValueType>& scalar_types() {
  static const std::vector<ValueType> kTypes{ValueType::u8,  ValueType::s8,   ValueType::u16, ValueType::s16,
                                             ValueType::f16, ValueType::bf16, ValueType::u32, ValueType::s32,
                                             ValueType::f32, ValueType::u64,  ValueType::s64, ValueType::f64};
  return kTypes;
}

std::optional<ValueType> scalar_type(const std::string& name) {
  for (const ValueType type : scalar_types()) {
    if (name == arch::type_name(type)) return type;
  }
  return std::nullopt;
}

bool is_float(ValueType type) {
  switch (type) {
    case ValueType::f16:
    case ValueType::bf16:
    case ValueType::f32:
    case ValueType::f64:
    case ValueType::f16x2:
    case ValueType::bf16x2:
      return true;
    default:
      return false;
  }
}

double number_of(ValueType type, std::uint64_t bits) {
  const unsigned width = 8 * arch::bytes_of(type);
  switch (type) {
    case ValueType::s8:
    case ValueType::s16:
    case ValueType::s32:
    case ValueType::s64:
      return static_cast<double>(sign_extended(low_bits(bits, width), width));
    case ValueType::f16:
      return static_cast<double>(arch::float_of_f16(static_cast<std::uint16_t>(bits)));
    case ValueType::bf16:
      return static_cast<double>(arch::float_of_bf16(static_cast<std::uint16_t>(bits)));
    case ValueType::f32:
      return static_cast<double>(arch::float_of(static_cast<std::uint32_t>(bits)));
    case ValueType::f64: {
      double value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    default:
      return static_cast<double>(low_bits(bits, width));
  }
}

std::uint64_t bits_of(ValueType type, double value) {
  switch (type) {
    case ValueType::f16:
      return arch::f16_of(odd_float(value));
    case ValueType::bf16:
      return arch::bf16_of(odd_float(value));
    case ValueType::f32:
      return std::isnan(value) ? arch::kNanF32 : arch::bits_of(static_cast<float>(value));
    case ValueType::f64:
      return bits_of_double(value);
    default:
      return low_bits(whole_bits(value), 8 * arch::bytes_of(type));
  }
}

}  // namespace heddle::program
