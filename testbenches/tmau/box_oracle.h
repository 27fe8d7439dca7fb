// What a request for a box has to do, element by element, written from the requirements (TMA-07, TMA-10, TMA-11,
// TMA-13, TMA-14, TMA-20) without anything of the unit. Slow and simple. Of a descriptor that breaks no rule.
//
//   box_elements      the elements of the box in order: coordinates, address, inside the tensor or not
//   reference_load    device bytes -> a CTA's window of shared memory
//   reference_store   a CTA's window -> device bytes
//   reference_reduce  the same, by a reduction
//   count_pieces      how many line requests are enough
//
// Device memory is a vector whose first byte has address 0; a window is a vector whose first byte has offset 0. An
// access beyond either throws std::out_of_range.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "arch/memory_op.h"
#include "arch/tensor_descriptor.h"

namespace heddle::test {

using Coordinates = std::array<std::int32_t, arch::kTensorRank>;
using Bytes = std::vector<std::uint8_t>;

// Interleaved, an element is a channel slice.
struct BoxElement {
  std::array<std::int64_t, arch::kTensorRank> at{};  // coordinates
  std::uint64_t address = 0;                         // outside the tensor: by the same sum, modulo 2^64
  bool inside = false;
};

// Bytes of one value.
inline std::uint32_t value_bytes(arch::TensorType type) {
  switch (type) {
    case arch::TensorType::u8:
      return 1;
    case arch::TensorType::u16:
    case arch::TensorType::f16:
    case arch::TensorType::bf16:
      return 2;
    case arch::TensorType::u64:
    case arch::TensorType::s64:
    case arch::TensorType::f64:
      return 8;
    default:
      return 4;
  }
}

// Bytes of one element: a value, or a slice of 16 or 32 bytes (TMA-14).
inline std::uint32_t element_bytes(const arch::TensorDescriptor& d) {
  if (d.interleave == arch::Interleave::bytes16) return 16;
  if (d.interleave == arch::Interleave::bytes32) return 32;
  return value_bytes(d.type);
}

inline BoxElement box_element(const arch::TensorDescriptor& d,
                              const std::array<std::int64_t, arch::kTensorRank>& coordinates) {
  BoxElement element{coordinates, d.address, true};
  for (std::uint32_t i = 0; i < d.rank; ++i) {
    const bool side_by_side = i == 0 && d.interleave == arch::Interleave::none;
    const std::uint64_t stride = side_by_side ? element_bytes(d) : d.stride[i];
    element.address += static_cast<std::uint64_t>(coordinates[i]) * stride;
    if (coordinates[i] < 0 || coordinates[i] >= static_cast<std::int64_t>(d.size[i])) element.inside = false;
  }
  return element;
}

// TMA-10: nested loops, dimension 0 innermost, from the start coordinate by traversal stride to start + box.
inline std::vector<BoxElement> tile_elements(const arch::TensorDescriptor& d, const Coordinates& start) {
  std::array<std::int64_t, arch::kTensorRank> step{1, 1, 1, 1, 1};
  std::array<std::int64_t, arch::kTensorRank> from{};
  std::array<std::int64_t, arch::kTensorRank> to{1, 1, 1, 1, 1};
  for (std::uint32_t i = 0; i < d.rank; ++i) {
    from[i] = start[i];
    to[i] = from[i] + d.box[i];
    if (i > 0 || d.interleave != arch::Interleave::none) step[i] = d.traversal[i];
  }
  std::vector<BoxElement> result;
  for (std::int64_t c4 = from[4]; c4 < to[4]; c4 += step[4]) {
    for (std::int64_t c3 = from[3]; c3 < to[3]; c3 += step[3]) {
      for (std::int64_t c2 = from[2]; c2 < to[2]; c2 += step[2]) {
        for (std::int64_t c1 = from[1]; c1 < to[1]; c1 += step[1]) {
          for (std::int64_t c0 = from[0]; c0 < to[0]; c0 += step[0]) {
            result.push_back(box_element(d, {c0, c1, c2, c3, c4}));
          }
        }
      }
    }
  }
  return result;
}

// The offsets of one 16-bit word, of W, H and D: 16 bits, or 8 each, or 5 each (TMA-11).
inline std::array<std::int64_t, 3> im2col_offsets(std::uint32_t rank, std::uint16_t word) {
  if (rank == 3) return {word, 0, 0};
  if (rank == 4) return {word & 0xFF, word >> 8, 0};
  return {word & 0x1F, word >> 5 & 0x1F, word >> 10 & 0x1F};
}

// TMA-11, line by line. Dimensions: C, W, then H and D where there are any, then N.
inline std::vector<BoxElement> im2col_elements(const arch::TensorDescriptor& d, const Coordinates& start,
                                               std::uint16_t offsets) {
  const std::uint32_t spatial = d.rank - 2;
  const std::array<std::int64_t, 3> offset = im2col_offsets(d.rank, offsets);
  std::array<std::int64_t, 3> lb{};
  std::array<std::int64_t, 3> ub{};
  std::array<std::int64_t, 3> p{};
  for (std::uint32_t i = 0; i < spatial; ++i) {
    lb[i] = d.base_corner[i] + offset[i];
    ub[i] = static_cast<std::int64_t>(d.size[i + 1]) + d.far_corner[i] + offset[i];
    p[i] = start[i + 1] + offset[i];
  }
  std::int64_t n = start[d.rank - 1];
  std::vector<BoxElement> result;
  for (std::uint32_t pixel = 0; pixel < d.pixels; ++pixel) {
    for (std::int64_t c = start[0]; c < std::int64_t{start[0]} + d.channels; ++c) {
      std::array<std::int64_t, arch::kTensorRank> at{c, 0, 0, 0, 0};
      for (std::uint32_t i = 0; i < spatial; ++i) at[i + 1] = p[i];
      at[d.rank - 1] = n;
      result.push_back(box_element(d, at));
    }
    bool image = true;  // W, H and D have all gone back: the next image
    for (std::uint32_t i = 0; i < spatial; ++i) {
      p[i] += d.traversal[i + 1];
      if (p[i] < ub[i]) {
        image = false;
        break;
      }
      p[i] = lb[i];
    }
    if (image) ++n;
  }
  return result;
}

// In the order in which they lie in shared memory, one after the other.
inline std::vector<BoxElement> box_elements(const arch::TensorDescriptor& d, const Coordinates& start,
                                            std::uint16_t offsets) {
  return d.mode == arch::TensorMode::tile ? tile_elements(d, start) : im2col_elements(d, start, offsets);
}

struct PieceCount {
  std::uint64_t pieces = 0;
  std::uint64_t inside = 0;  // of them: with an element inside the tensor
};

// The fewest line requests (TMA-15): elements that follow each other in shared memory share one if they follow each
// other in device memory as well and lie in the same line.
inline PieceCount count_pieces(const arch::TensorDescriptor& d, const std::vector<BoxElement>& elements) {
  const std::uint64_t bytes = element_bytes(d);
  PieceCount count;
  bool counted = false;  // the piece in count.inside
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::uint64_t address = elements[i].address;
    if (address / arch::kLineBytes != (address + bytes - 1) / arch::kLineBytes) {
      throw std::logic_error("an element lies across the end of a line");
    }
    const bool goes_on = i > 0 && address == elements[i - 1].address + bytes && address % arch::kLineBytes != 0;
    if (!goes_on) {
      ++count.pieces;
      counted = false;
    }
    if (elements[i].inside && !counted) {
      ++count.inside;
      counted = true;
    }
  }
  return count;
}

// Zero, or the special NaN of the type (TMA-13).
inline std::uint64_t outside_value(arch::TensorType type, arch::Fill fill) {
  if (fill == arch::Fill::zero) return 0;
  switch (type) {
    case arch::TensorType::f16:
    case arch::TensorType::bf16:
      return 0x7FFF;
    case arch::TensorType::f64:
      return 0x7FFF'FFFF'FFFF'FFFF;
    default:
      return 0x7FFF'FFFF;
  }
}

// What a load makes of a value (TMA-07): `_flush` turns subnormal numbers into zeros of their sign, tf32 keeps 10 bits
// of fraction. Rounded by distance: the lower neighbour, or the upper one if it is nearer, or as near and even; a NaN
// stays as it is.
inline std::uint64_t loaded_value(arch::TensorType type, std::uint64_t value) {
  const bool flush = type == arch::TensorType::f32_flush || type == arch::TensorType::tf32_flush;
  const bool round = type == arch::TensorType::tf32 || type == arch::TensorType::tf32_flush;
  if (!flush && !round) return value;
  const std::uint64_t sign = value & 0x8000'0000U;
  const std::uint64_t exponent = value & 0x7F80'0000U;
  const std::uint64_t fraction = value & 0x007F'FFFFU;
  if (flush && exponent == 0) return sign;
  if (!round) return value;
  if (exponent == 0x7F80'0000U) return value;
  const std::uint64_t below = fraction >> 13;
  const std::uint64_t rest = fraction & 0x1FFFU;
  const bool up = rest > 0x1000U || (rest == 0x1000U && below % 2 == 1);
  return sign | (exponent + ((below + (up ? 1 : 0)) << 13));
}

inline std::uint64_t get_value(const std::uint8_t* bytes, std::uint32_t count) {
  std::uint64_t value = 0;
  for (std::uint32_t i = 0; i < count; ++i) value |= std::uint64_t{bytes[i]} << 8 * i;
  return value;
}

inline void put_value(std::uint8_t* bytes, std::uint32_t count, std::uint64_t value) {
  for (std::uint32_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(value >> 8 * i);
}

// TMA-20, as it is written there: bits of the offset, exchanged by those above.
inline std::uint64_t swizzled_offset(arch::Swizzle swizzle, std::uint64_t a) {
  const auto bit = [a](std::uint32_t number) { return a >> number & 1; };
  switch (swizzle) {
    case arch::Swizzle::none:
      return a;
    case arch::Swizzle::bytes32:
    case arch::Swizzle::bytes96:
      return a ^ bit(7) << 4;
    case arch::Swizzle::bytes64:
      return a ^ bit(7) << 4 ^ bit(8) << 5;
    case arch::Swizzle::bytes128:
      return a ^ bit(7) << 4 ^ bit(8) << 5 ^ bit(9) << 6;
    case arch::Swizzle::bytes128_atom32:
      return a ^ bit(7) << 5 ^ bit(8) << 6;
    case arch::Swizzle::bytes128_atom32_flip8:
      return a ^ bit(7) << 5 ^ bit(8) << 6 ^ bit(7) << 3;
    case arch::Swizzle::bytes128_atom64:
      return a ^ bit(7) << 6;
  }
  throw std::logic_error("no such swizzle");
}

// The box lies from offset `shared` on; every byte lies where the swizzle puts its offset.
inline std::uint8_t& window_byte(Bytes& window, const arch::TensorDescriptor& d, std::uint64_t offset) {
  return window.at(swizzled_offset(d.swizzle, offset));
}

// Bytes of the window that the box does not have remain as they are.
inline void reference_load(const arch::TensorDescriptor& d, const Coordinates& start, std::uint16_t offsets,
                           std::uint32_t shared, const Bytes& device, Bytes& window) {
  const std::uint32_t bytes = element_bytes(d);
  const std::uint32_t each = value_bytes(d.type);
  std::uint64_t offset = shared;
  for (const BoxElement& element : box_elements(d, start, offsets)) {
    std::array<std::uint8_t, 32> data{};
    for (std::uint32_t i = 0; i < bytes; ++i) {
      if (element.inside) data[i] = device.at(element.address + i);
    }
    for (std::uint32_t i = 0; i < bytes; i += each) {
      const std::uint64_t value = get_value(&data[i], each);
      put_value(&data[i], each, element.inside ? loaded_value(d.type, value) : outside_value(d.type, d.fill));
    }
    for (std::uint32_t i = 0; i < bytes; ++i) window_byte(window, d, offset++) = data[i];
  }
}

// Elements outside the tensor are not written (TMA-13).
inline void reference_store(const arch::TensorDescriptor& d, const Coordinates& start, std::uint16_t offsets,
                            std::uint32_t shared, Bytes window, Bytes& device) {
  const std::uint32_t bytes = element_bytes(d);
  std::uint64_t offset = shared;
  for (const BoxElement& element : box_elements(d, start, offsets)) {
    for (std::uint32_t i = 0; i < bytes; ++i, ++offset) {
      if (element.inside) device.at(element.address + i) = window_byte(window, d, offset);
    }
  }
}

// Floating-point formats of 2 bytes, by their definition: sign, exponent, fraction.
struct SmallFloat {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  bool is_nan(std::uint64_t bits) const {
    const std::uint64_t top = (std::uint64_t{1} << exponent_bits) - 1;
    return (bits >> fraction_bits & top) == top && (bits & ((std::uint64_t{1} << fraction_bits) - 1)) != 0;
  }
  double value(std::uint64_t bits) const {
    const auto exponent = static_cast<int>(bits >> fraction_bits & ((1U << exponent_bits) - 1));
    const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
    const bool negative = (bits >> (exponent_bits + fraction_bits) & 1) != 0;
    double result = 0;
    if (exponent == (1 << exponent_bits) - 1) {
      result = std::numeric_limits<double>::infinity();
    } else if (exponent == 0) {
      result = std::ldexp(fraction, 1 - bias() - fraction_bits);
    } else {
      result = std::ldexp(fraction + std::ldexp(1.0, fraction_bits), exponent - bias() - fraction_bits);
    }
    return negative ? -result : result;
  }
  // Of the two neighbours the nearer one, of two equally near the even one.
  std::uint64_t bits(double value) const {
    const std::uint64_t sign = std::signbit(value) ? std::uint64_t{1} << (exponent_bits + fraction_bits) : 0;
    const double size = std::abs(value);
    const std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << fraction_bits;
    std::uint64_t below = 0;  // the greatest that is not above it
    for (int bit = exponent_bits + fraction_bits - 1; bit >= 0; --bit) {
      const std::uint64_t more = below | std::uint64_t{1} << bit;
      if (more <= infinity && this->value(more) <= size) below = more;
    }
    if (below == infinity) return sign | infinity;
    const double low = this->value(below);
    const bool last = below + 1 == infinity;  // where the number above infinity would be
    const double high = last ? low + (low - this->value(below - 1)) : this->value(below + 1);
    const bool up = size - low > high - size || (size - low == high - size && below % 2 == 1);
    return sign | (below + (up ? 1 : 0));
  }
};

inline std::uint64_t small_float_result(const SmallFloat& format, arch::AtomicKind kind, std::uint64_t held,
                                        std::uint64_t value) {
  constexpr std::uint64_t kNan = 0x7FFF;
  const bool held_nan = format.is_nan(held);
  const bool value_nan = format.is_nan(value);
  if (kind == arch::AtomicKind::add) {
    const double sum = format.value(held) + format.value(value);  // exact, or far from a tie
    return held_nan || value_nan || std::isnan(sum) ? kNan : format.bits(sum);
  }
  if (held_nan || value_nan) return held_nan && value_nan ? kNan : held_nan ? value : held;
  const double a = format.value(held);
  const double b = format.value(value);
  const bool held_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return (kind == arch::AtomicKind::min) == held_less ? held : value;
}

// With flush: subnormal operands and sums become zeros of their sign (PTX, cp.reduce.async.bulk).
inline std::uint64_t f32_sum(std::uint64_t held, std::uint64_t value) {
  const auto flushed = [](float number) {
    return std::fpclassify(number) == FP_SUBNORMAL ? std::copysign(0.0F, number) : number;
  };
  const auto number = [&](std::uint64_t bits) {
    const auto word = static_cast<std::uint32_t>(bits);
    float result = 0;
    std::memcpy(&result, &word, sizeof result);
    return flushed(result);
  };
  const float sum = flushed(number(held) + number(value));
  if (std::isnan(sum)) return 0x7FFF'FFFF;
  std::uint32_t word = 0;
  std::memcpy(&word, &sum, sizeof word);
  return word;
}

inline std::uint64_t f64_sum(std::uint64_t held, std::uint64_t value) {
  double a = 0;
  double b = 0;
  std::memcpy(&a, &held, sizeof a);
  std::memcpy(&b, &value, sizeof b);
  a += b;
  if (std::isnan(a)) return 0x7FFF'FFFF'FFFF'FFFF;
  std::memcpy(&held, &a, sizeof held);
  return held;
}

template <class Signed, class Unsigned>
std::uint64_t integer_result(arch::AtomicKind kind, std::uint64_t held, std::uint64_t value, bool is_signed) {
  const auto d = static_cast<Unsigned>(held);
  const auto s = static_cast<Unsigned>(value);
  const bool less = is_signed ? static_cast<Signed>(d) < static_cast<Signed>(s) : d < s;
  switch (kind) {
    case arch::AtomicKind::add:
      return static_cast<Unsigned>(d + s);
    case arch::AtomicKind::min:
      return less ? d : s;
    case arch::AtomicKind::max:
      return less ? s : d;
    case arch::AtomicKind::increment:
      return d >= s ? 0 : d + 1;
    case arch::AtomicKind::decrement:
      return d == 0 || d > s ? s : d - 1;
    case arch::AtomicKind::bit_and:
      return d & s;
    case arch::AtomicKind::bit_or:
      return d | s;
    case arch::AtomicKind::bit_xor:
      return d ^ s;
    default:
      throw std::logic_error("no such reduction");
  }
}

// d op s of one value: `held` is the one in device memory (TMA-07), by nothing of the model's.
inline std::uint64_t reduced_value(arch::AtomicKind kind, arch::TensorType type, std::uint64_t held,
                                   std::uint64_t value) {
  switch (type) {
    case arch::TensorType::u32:
      return integer_result<std::int32_t, std::uint32_t>(kind, held, value, false);
    case arch::TensorType::s32:
      return integer_result<std::int32_t, std::uint32_t>(kind, held, value, true);
    case arch::TensorType::u64:
      return integer_result<std::int64_t, std::uint64_t>(kind, held, value, false);
    case arch::TensorType::s64:
      return integer_result<std::int64_t, std::uint64_t>(kind, held, value, true);
    case arch::TensorType::f16:
      return small_float_result({5, 10}, kind, held, value);
    case arch::TensorType::bf16:
      return small_float_result({8, 7}, kind, held, value);
    case arch::TensorType::f64:
      return f64_sum(held, value);
    case arch::TensorType::f32:
    case arch::TensorType::f32_flush:
    case arch::TensorType::tf32:
    case arch::TensorType::tf32_flush:
      return f32_sum(held, value);
    default:
      throw std::logic_error("no reduction has this type");
  }
}

inline void reference_reduce(arch::AtomicKind kind, const arch::TensorDescriptor& d, const Coordinates& start,
                             std::uint16_t offsets, std::uint32_t shared, Bytes window, Bytes& device) {
  const std::uint32_t bytes = element_bytes(d);
  const std::uint32_t each = value_bytes(d.type);
  std::uint64_t offset = shared;
  for (const BoxElement& element : box_elements(d, start, offsets)) {
    for (std::uint32_t i = 0; i < bytes; i += each, offset += each) {
      if (!element.inside) continue;
      std::array<std::uint8_t, 8> from{};
      for (std::uint32_t b = 0; b < each; ++b) from[b] = window_byte(window, d, offset + b);
      std::uint8_t* to = &device.at(element.address + i);
      put_value(to, each, reduced_value(kind, d.type, get_value(to, each), get_value(from.data(), each)));
    }
  }
}

}  // namespace heddle::test
