#include "ptx/wgmma.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>

#include "common/error.h"
#include "ptx/alu_half.h"
#include "ptx/alu_real.h"

namespace heddle::ptx {

namespace {

constexpr std::uint32_t kWarpRows = 16;  // of a warp
constexpr std::uint32_t kMostN = 256;
constexpr std::uint32_t kMostK = 32;        // elements, or bytes of bits
constexpr std::uint32_t kChunk = 16;        // bytes that every layout keeps together
constexpr std::uint32_t kPatternLines = 8;  // rows or columns of a pattern

bool is_whole(Type type) { return type == Type::s8 || type == Type::u8; }
// Bits lie in shared memory by eight.
std::uint32_t stored_bits(Type type) { return type == Type::b1 ? 8 : matrix_bits(type); }

// Of k, in elements as they are stored.
std::uint32_t depth_of(const WgmmaForm& form) { return form.a == Type::b1 ? form.k / 8 : form.k; }

// Chunks of a line of the swizzle: 1, 8, 4, 2.
std::uint32_t chunks_of_line(MatrixSwizzle swizzle) {
  switch (swizzle) {
    case MatrixSwizzle::none:
      return 1;
    case MatrixSwizzle::bytes128:
      return 8;
    case MatrixSwizzle::bytes64:
      return 4;
    case MatrixSwizzle::bytes32:
      return 2;
  }
  return 1;
}

// Types of A and B, and how many of them k is.
struct WgmmaTypes {
  const char* name;
  Type type;
  std::uint32_t k;
};
constexpr WgmmaTypes kWgmmaTypes[] = {{"f16", Type::f16, 16},   {"bf16", Type::bf16, 16}, {"tf32", Type::tf32, 8},
                                      {"e4m3", Type::e4m3, 32}, {"e5m2", Type::e5m2, 32}, {"s8", Type::s8, 32},
                                      {"u8", Type::u8, 32},     {"b1", Type::b1, 256}};
const WgmmaTypes* input_type(const std::string& name) {
  for (const WgmmaTypes& each : kWgmmaTypes) {
    if (name == each.name) return &each;
  }
  return nullptr;
}
bool go_together(Type a, Type b) {
  const auto is_fp8 = [](Type type) { return type == Type::e4m3 || type == Type::e5m2; };
  return a == b || (is_fp8(a) && is_fp8(b)) || (is_whole(a) && is_whole(b));
}

// The elements of 16 bytes as numbers.
void numbers_of_chunk(Type type, const std::uint8_t* chunk, float* numbers) {
  const std::uint32_t count = 8 * kChunk / stored_bits(type);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t element = chunk[i];
    if (count == 8) element = chunk[2 * i] | std::uint32_t{chunk[2 * i + 1]} << 8;
    if (count == 4) std::memcpy(&element, chunk + 4 * i, 4);
    numbers[i] = matrix_number(type, element);
  }
}
void numbers_of_chunk(Type type, const std::uint8_t* chunk, std::int32_t* numbers) {
  for (std::uint32_t i = 0; i < kChunk; ++i) {
    numbers[i] = type == Type::s8 ? std::int32_t{static_cast<std::int8_t>(chunk[i])} : std::int32_t{chunk[i]};
  }
}

// Both matrices of a product, k first in B, so that a row of D is a sum of rows of B.
template <class T>
struct Panels {
  T a[kWarpRows][kMostK] = {};
  T b[kMostK][kMostN];
};

// A chunk at a time: whatever the layout, its elements are neighbours. put: row, k, number.
template <class T, class Put>
void read_matrix(const MatrixDescriptor& place, bool k_major, Type type, std::uint32_t first, std::uint32_t rows,
                 std::uint32_t depth, const ReadChunk& read, const Put& put) {
  const std::uint32_t bits = stored_bits(type);
  const std::uint32_t along = 8 * kChunk / bits;
  const std::uint32_t row_step = k_major ? 1 : along;
  const std::uint32_t k_step = k_major ? along : 1;
  for (std::uint32_t row = 0; row < rows; row += row_step) {
    for (std::uint32_t k = 0; k < depth; k += k_step) {
      std::uint8_t chunk[kChunk];
      T numbers[kChunk];
      read(element_address(place, k_major, bits, first + row, k).chunk, chunk);
      numbers_of_chunk(type, chunk, numbers);
      for (std::uint32_t i = 0; i < along; ++i) put(k_major ? row : row + i, k_major ? k + i : k, numbers[i]);
    }
  }
}
template <class Put>
void read_registers(const WgmmaForm& form, const LaneWords* words, const Put& put) {
  const std::uint32_t bits = stored_bits(form.a);
  const Type type = form.a == Type::b1 ? Type::u8 : form.a;
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    for (std::uint32_t i = 0; i < form.a_words() * 32 / bits; ++i) {
      const MatrixPlace place = place_in_wgmma_a(type, 0, lane, i);
      const std::uint32_t word = words[i * bits / 32][lane] >> (i * bits % 32);
      put(place.row, place.column, bits == 32 ? word : word & ((1u << bits) - 1));
    }
  }
}

template <class T, class Convert>
void read_matrices(const WgmmaForm& form, std::uint32_t warp, const WgmmaOperands& operands, const ReadChunk& read,
                   Panels<T>& panels, const Convert& convert) {
  const std::uint32_t depth = depth_of(form);
  if (operands.a != nullptr) {
    read_registers(form, operands.a, [&](std::uint32_t row, std::uint32_t k, std::uint32_t element) {
      panels.a[row][k] = convert(form.a, element);
    });
  } else {
    read_matrix<T>(operands.a_place, !operands.transpose_a, form.a, kWarpRows * warp, kWarpRows, depth, read,
                   [&](std::uint32_t row, std::uint32_t k, T number) { panels.a[row][k] = number; });
  }
  read_matrix<T>(operands.b_place, !operands.transpose_b, form.b, 0, form.n, depth, read,
                 [&](std::uint32_t row, std::uint32_t k, T number) { panels.b[k][row] = number; });
}

// D of a warp, out of its registers and back. `T`: what sums are, `Load` and `Store`: from bits and to them.
template <class T, class Load>
void load_sums(const WgmmaForm& form, const LaneWords* d, T (&sums)[kWarpRows][kMostN], const Load& load) {
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    for (std::uint32_t i = 0; i < form.n / 2; ++i) {
      const MatrixPlace place = place_in_wgmma_d(0, lane, i);
      const bool half = form.d == Type::f16;
      sums[place.row][place.column] = load(half ? d[i / 2][lane] >> (i % 2 * 16) & 0xffff : d[i][lane]);
    }
  }
}
template <class T, class Store>
void store_sums(const WgmmaForm& form, LaneWords* d, const T (&sums)[kWarpRows][kMostN], const Store& store) {
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    for (std::uint32_t i = 0; i < form.n / 2; ++i) {
      const MatrixPlace place = place_in_wgmma_d(0, lane, i);
      const std::uint32_t bits = store(sums[place.row][place.column]);
      if (form.d == Type::f16) {
        const std::uint32_t shift = i % 2 * 16;
        d[i / 2][lane] = (d[i / 2][lane] & ~(0xffffu << shift)) | bits << shift;
      } else {
        d[i][lane] = bits;
      }
    }
  }
}

void multiply_numbers(const WgmmaForm& form, std::uint32_t warp, const WgmmaOperands& operands, const ReadChunk& read,
                      LaneWords* d) {
  Panels<float> panels;
  float sums[kWarpRows][kMostN] = {};
  read_matrices(form, warp, operands, read, panels, matrix_number);
  if (operands.add) load_sums(form, d, sums, [&](std::uint32_t bits) { return matrix_number(form.d, bits); });
  const float sign = operands.negate_a != operands.negate_b ? -1.0f : 1.0f;
  for (std::uint32_t row = 0; row < kWarpRows; ++row) {
    for (std::uint32_t k = 0; k < form.k; ++k) {
      add_products(form.a, sign * panels.a[row][k], panels.b[k], form.n, sums[row]);
    }
  }
  store_sums(form, d, sums, [&](float sum) {
    if (form.d == Type::f16) return std::uint32_t{to_narrow<Half>(sum).bits};
    return sum != sum ? kNan32 : bits32(sum);
  });
}

// Sums of one instruction have 32 products of 16 bits at most: 64 bits are needed for what D held only.
void multiply_wholes(const WgmmaForm& form, std::uint32_t warp, const WgmmaOperands& operands, const ReadChunk& read,
                     LaneWords* d) {
  Panels<std::int32_t> panels;
  std::int32_t products[kWarpRows][kMostN] = {};
  std::int64_t sums[kWarpRows][kMostN] = {};
  const bool of_bits = form.a == Type::b1;
  read_matrices(form, warp, operands, read, panels, [](Type type, std::uint32_t element) {
    return type == Type::s8 ? std::int32_t{static_cast<std::int8_t>(element)} : static_cast<std::int32_t>(element);
  });
  if (operands.add)
    load_sums(form, d, sums, [](std::uint32_t bits) { return std::int64_t{static_cast<std::int32_t>(bits)}; });
  for (std::uint32_t row = 0; row < kWarpRows; ++row) {
    for (std::uint32_t k = 0; k < depth_of(form); ++k) {
      const std::int32_t factor = panels.a[row][k];
      for (std::uint32_t n = 0; n < form.n; ++n) {
        products[row][n] +=
            of_bits ? __builtin_popcount(static_cast<std::uint32_t>(factor & panels.b[k][n])) : factor * panels.b[k][n];
      }
    }
    for (std::uint32_t n = 0; n < form.n; ++n) sums[row][n] += products[row][n];
  }
  store_sums(form, d, sums, [&](std::int64_t sum) {
    if (form.saturate) {
      sum = std::clamp<std::int64_t>(sum, std::numeric_limits<std::int32_t>::min(),
                                     std::numeric_limits<std::int32_t>::max());
    }
    return static_cast<std::uint32_t>(sum);
  });
}

}  // namespace

MatrixDescriptor decode_descriptor(std::uint64_t bits) {
  const auto field = [bits](std::uint32_t from) { return static_cast<std::uint32_t>(bits >> from & 0x3fff) << 4; };
  MatrixDescriptor descriptor;
  descriptor.start = field(0);
  descriptor.leading = field(16);
  descriptor.stride = field(32);
  descriptor.base_offset = static_cast<std::uint32_t>(bits >> 49 & 7);
  descriptor.swizzle = static_cast<MatrixSwizzle>(bits >> 62);
  return descriptor;
}

// In chunks of 16 bytes. K-major: patterns of 8 rows, a line of the swizzle long each; within a line chunks follow each
// other along k, and without a swizzle they are `leading` apart. MN-major: lines along m or n; 8 of them, of neighbours
// along k, make a pattern. `leading` and `stride` lead from pattern to pattern.
ElementAddress element_address(const MatrixDescriptor& descriptor, bool k_major, std::uint32_t bits, std::uint32_t mn,
                               std::uint32_t k) {
  const std::uint32_t along = 8 * kChunk / bits;  // elements of a chunk
  const std::uint32_t line = chunks_of_line(descriptor.swizzle);
  const bool swizzled = descriptor.swizzle != MatrixSwizzle::none;
  std::uint32_t at = descriptor.start;
  ElementAddress address;
  if (k_major) {
    const std::uint32_t chunk = k / along;
    address.offset = k % along * (bits / 8);
    at += mn % kPatternLines * line * kChunk + mn / kPatternLines * descriptor.stride;
    at += chunk * (swizzled ? kChunk : descriptor.leading);
  } else {
    const std::uint32_t chunk = mn / along;
    address.offset = mn % along * (bits / 8);
    at += k % kPatternLines * line * kChunk;
    if (swizzled) {
      at += chunk % line * kChunk + chunk / line * descriptor.leading + k / kPatternLines * descriptor.stride;
    } else {
      at += chunk * descriptor.stride + k / kPatternLines * descriptor.leading;
    }
  }
  // The chunk of a line of 128 bytes is exchanged by the line's number within the pattern. That a pattern begins at
  // `base_offset` lines beside a multiple of its length takes those off: an assumption, as PTX has a formula for the
  // field only.
  const std::uint32_t number = (at / 128 - descriptor.base_offset) & (line - 1);
  address.chunk = at ^ (swizzled ? number * kChunk : 0);
  return address;
}

std::uint32_t WgmmaForm::d_words() const { return d == Type::f16 ? n / 4 : n / 2; }
std::uint32_t WgmmaForm::a_words() const { return 4; }
bool WgmmaForm::has_scales() const { return !is_whole(a) && a != Type::b1; }
bool WgmmaForm::has_transposes() const { return a == Type::f16 || a == Type::bf16; }

std::optional<WgmmaForm> find_wgmma_form(const std::vector<std::string>& modifiers, std::string& why) {
  WgmmaForm form;
  form.text = "wgmma";
  std::vector<std::string> types;
  bool product = false;
  bool conjunction = false;
  unsigned m = 0, n = 0, k = 0;
  for (const std::string& modifier : modifiers) {
    form.text += "." + modifier;
    int end = 0;
    if (modifier == "mma_async") {
      product = true;
    } else if (modifier == "sp") {
      why = "sparse matrices (wgmma.mma_async.sp) are not modelled";
      return std::nullopt;
    } else if (modifier == "satfinite") {
      form.saturate = true;
    } else if (modifier == "and") {
      conjunction = true;
    } else if (std::sscanf(modifier.c_str(), "m%un%uk%u%n", &m, &n, &k, &end) == 3 &&
               static_cast<std::size_t>(end) == modifier.size()) {
      form.n = n;
      form.k = k;
    } else if (modifier != "sync" && modifier != "aligned" && modifier != "popc") {
      types.push_back(modifier);
    }
  }
  if (!product || types.size() != 3 || m == 0) {
    why = "wgmma.mma_async needs a shape and the types of D, A and B: " + form.text;
    return std::nullopt;
  }
  const WgmmaTypes* const a = input_type(types[1]);
  const WgmmaTypes* const b = input_type(types[2]);
  if (a == nullptr || b == nullptr || !go_together(a->type, b->type)) {
    why = "wgmma.mma_async has no product of " + types[1] + " and " + types[2];
    return std::nullopt;
  }
  form.a = a->type;
  form.b = b->type;
  const bool whole = is_whole(form.a) || form.a == Type::b1;
  const bool sums_of_half = form.a == Type::f16 || form.a == Type::e4m3 || form.a == Type::e5m2;
  if (whole && types[0] == "s32") {
    form.d = Type::s32;
  } else if (!whole && types[0] == "f32") {
    form.d = Type::f32;
  } else if (sums_of_half && types[0] == "f16") {
    form.d = Type::f16;
  } else {
    why = "wgmma.mma_async of " + types[1] + " has no sums of " + types[0];
    return std::nullopt;
  }
  // Of whole numbers n goes by 16 from 32 on.
  const bool known_n =
      form.n >= 8 && form.n <= kMostN && form.n % 8 == 0 && (!whole || form.n <= 32 || form.n % 16 == 0);
  if (m != 64 || form.k != a->k || !known_n) {
    why = "wgmma.mma_async of " + types[1] + " has shapes m64nNk" + std::to_string(a->k) + ", N up to 256 by " +
          (whole ? "8 up to 32 and by 16 from there" : "8") + ": " + form.text;
    return std::nullopt;
  }
  if (form.saturate && !is_whole(form.a)) {
    why = "wgmma.mma_async has .satfinite of s8 and u8 only";
    return std::nullopt;
  }
  if (conjunction != (form.a == Type::b1)) {
    why = "wgmma.mma_async of b1 has .and.popc, and no other has";
    return std::nullopt;
  }
  return form;
}

MatrixPlace place_in_wgmma_d(std::uint32_t warp, std::uint32_t lane, std::uint32_t i) {
  return {kWarpRows * warp + lane / 4 + 8 * (i / 2 % 2), i / 4 * 8 + lane % 4 * 2 + i % 2};
}
MatrixPlace place_in_wgmma_a(Type type, std::uint32_t warp, std::uint32_t lane, std::uint32_t i) {
  const std::uint32_t per_register = 32 / matrix_bits(type);
  const std::uint32_t which = i / per_register;
  return {kWarpRows * warp + lane / 4 + 8 * (which % 2),
          which / 2 * 4 * per_register + lane % 4 * per_register + i % per_register};
}

void multiply_warpgroup(const WgmmaForm& form, std::uint32_t warp, const WgmmaOperands& operands, const ReadChunk& read,
                        LaneWords* d) {
  HEDDLE_CHECK(warp < 4, "a warpgroup has four warps");
  if (form.d == Type::s32) {
    multiply_wholes(form, warp, operands, read, d);
  } else {
    multiply_numbers(form, warp, operands, read, d);
  }
}

}  // namespace heddle::ptx
