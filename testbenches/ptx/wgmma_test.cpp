// Products of warpgroups: where elements lie in shared memory is evaluated from the manual's table of canonical
// layouts.
#include "ptx/wgmma.h"

#include <map>
#include <random>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>

#include "ptx/alu_reference.h"

namespace heddle::ptx {
namespace wgmma_test {

constexpr std::uint32_t kSeed = 4711;

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, '.');) all.push_back(part);
  return {all.begin() + 1, all.end()};
}

// -- The manual's table: shapes and strides in elements; 0 in a shape: as often as the matrix needs
// ---------------------

struct Mode {
  std::vector<std::uint32_t> shape;
  std::vector<std::uint32_t> stride;

  std::uint32_t at(std::uint32_t index) const {
    std::uint32_t offset = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const std::uint32_t digit = shape[i] == 0 ? index : index % shape[i];
      offset += digit * stride[i];
      if (shape[i] != 0) index /= shape[i];
    }
    return offset;
  }
};
struct Layout {
  Mode mn, k;
  std::uint32_t swizzle_bits;  // B of Swizzle<B, 4, 3>

  // The byte, counted from an address that is a multiple of the pattern.
  std::uint32_t byte(std::uint32_t i, std::uint32_t j, std::uint32_t bytes) const {
    const std::uint32_t linear = (mn.at(i) + k.at(j)) * bytes;
    const std::uint32_t mask = (1u << swizzle_bits) - 1;
    return linear ^ (linear >> 7 & mask) << 4;
  }
};
// lbo, sbo: in elements.
Layout canonical(bool k_major, MatrixSwizzle swizzle, std::uint32_t t, std::uint32_t lbo, std::uint32_t sbo) {
  if (!k_major) {
    switch (swizzle) {
      case MatrixSwizzle::none:
        return {{{t, 1, 0}, {1, t, sbo}}, {{8, 0}, {t, lbo}}, 0};
      case MatrixSwizzle::bytes32:
        return {{{t, 2, 0}, {1, t, lbo}}, {{8, 0}, {2 * t, sbo}}, 1};
      case MatrixSwizzle::bytes64:
        return {{{t, 4, 0}, {1, t, lbo}}, {{8, 0}, {4 * t, sbo}}, 2};
      case MatrixSwizzle::bytes128:
        return {{{t, 8, 0}, {1, t, lbo}}, {{8, 0}, {8 * t, sbo}}, 3};
    }
  }
  switch (swizzle) {
    case MatrixSwizzle::none:
      return {{{8, 0}, {t, sbo}}, {{t, 0}, {1, lbo}}, 0};
    case MatrixSwizzle::bytes32:
      return {{{8, 0}, {2 * t, sbo}}, {{t, 0}, {1, t}}, 1};
    case MatrixSwizzle::bytes64:
      return {{{8, 0}, {4 * t, sbo}}, {{t, 0}, {1, t}}, 2};
    default:
      return {{{8, 0}, {8 * t, sbo}}, {{t, 0}, {1, t}}, 3};
  }
}
constexpr MatrixSwizzle kSwizzles[] = {MatrixSwizzle::none, MatrixSwizzle::bytes128, MatrixSwizzle::bytes64,
                                       MatrixSwizzle::bytes32};

std::uint64_t encode(std::uint32_t start, std::uint32_t leading, std::uint32_t stride, MatrixSwizzle swizzle) {
  const auto field = [](std::uint32_t value) { return std::uint64_t{(value & 0x3ffff) >> 4}; };
  return field(start) | field(leading) << 16 | field(stride) << 32 |
         std::uint64_t{static_cast<std::uint32_t>(swizzle)} << 62;
}

// A matrix in shared memory, with offsets that leave room for everything.
struct Stored {
  std::uint64_t descriptor = 0;
  Layout layout;
  std::uint32_t start = 0;
  std::uint32_t bytes = 1;  // of an element
  std::uint32_t end = 0;
};
Stored place(bool k_major, MatrixSwizzle swizzle, std::uint32_t bytes, std::uint32_t mn, std::uint32_t k,
             std::uint32_t start) {
  const std::uint32_t t = 16 / bytes;
  const std::uint32_t line = swizzle == MatrixSwizzle::none       ? 1
                             : swizzle == MatrixSwizzle::bytes128 ? 8
                             : swizzle == MatrixSwizzle::bytes64  ? 4
                                                                  : 2;
  const std::uint32_t pattern = 8 * line * 16;  // bytes
  std::uint32_t leading = 16, stride = 0;
  if (k_major) {
    stride = pattern;
    if (swizzle == MatrixSwizzle::none) leading = stride * (mn / 8) + 128;  // and a gap
  } else if (swizzle == MatrixSwizzle::none) {
    stride = pattern;
    leading = stride * (mn / t) + 256;
  } else {
    leading = pattern;
    stride = leading * ((mn + t * line - 1) / (t * line));
  }
  Stored stored;
  stored.descriptor = encode(start, leading, stride, swizzle);
  stored.layout = canonical(k_major, swizzle, t, leading / bytes, stride / bytes);
  stored.start = start;
  stored.bytes = bytes;
  for (std::uint32_t i = 0; i < mn; ++i) {
    for (std::uint32_t j = 0; j < k; ++j)
      stored.end = std::max(stored.end, start + stored.layout.byte(i, j, bytes) + bytes);
  }
  return stored;
}

TEST_CASE("elements lie where the canonical layouts have them", "[ptx]") {
  for (const std::uint32_t bytes : {1u, 2u, 4u}) {
    for (const bool k_major : {true, false}) {
      for (const MatrixSwizzle swizzle : kSwizzles) {
        const Stored stored = place(k_major, swizzle, bytes, 128, 32, 0x8000);
        const MatrixDescriptor descriptor = decode_descriptor(stored.descriptor);
        std::set<std::uint32_t> taken;
        const std::uint32_t depth = k_major && swizzle != MatrixSwizzle::none
                                        ? std::min<std::uint32_t>(32, (swizzle == MatrixSwizzle::bytes128  ? 128u
                                                                       : swizzle == MatrixSwizzle::bytes64 ? 64u
                                                                                                           : 32u) /
                                                                          bytes)
                                        : 32;
        for (std::uint32_t i = 0; i < 128; ++i) {
          for (std::uint32_t k = 0; k < depth; ++k) {
            const ElementAddress address = element_address(descriptor, k_major, 8 * bytes, i, k);
            REQUIRE(address.chunk % 16 == 0);
            REQUIRE(address.chunk + address.offset == stored.start + stored.layout.byte(i, k, bytes));
            REQUIRE(taken.insert(address.chunk + address.offset).second);
          }
        }
      }
    }
  }
}

// The manual's examples, with their exact layouts.
TEST_CASE("the manual's examples of layouts", "[ptx]") {
  struct Example {
    bool k_major;
    MatrixSwizzle swizzle;
    std::uint32_t bytes, lbo, sbo;  // of the descriptor, encoded
    Layout exact;
  };
  const std::vector<Example> examples = {
      {true, MatrixSwizzle::none, 4, 16, 8, {{{8, 2}, {4, 32}}, {{4, 4}, {1, 64}}, 0}},
      {true, MatrixSwizzle::bytes32, 4, 1, 16, {{{8, 2}, {8, 64}}, {{4, 2}, {1, 4}}, 1}},
      {false, MatrixSwizzle::none, 2, 16, 8, {{{8, 1, 2}, {1, 8, 64}}, {{8, 2}, {8, 128}}, 0}},
      {false, MatrixSwizzle::bytes32, 2, 16, 32, {{{8, 2, 2}, {1, 8, 128}}, {{8, 2}, {16, 256}}, 1}},
      {false, MatrixSwizzle::bytes64, 2, 32, 64, {{{8, 4, 2}, {1, 8, 256}}, {{8, 2}, {32, 512}}, 2}},
  };
  for (const Example& example : examples) {
    const std::uint64_t bits = std::uint64_t{example.lbo} << 16 | std::uint64_t{example.sbo} << 32 |
                               std::uint64_t{static_cast<std::uint32_t>(example.swizzle)} << 62;
    const MatrixDescriptor descriptor = decode_descriptor(bits);
    CHECK(descriptor.leading == 16 * example.lbo);
    CHECK(descriptor.stride == 16 * example.sbo);
    CHECK(descriptor.swizzle == example.swizzle);
    const auto size = [](const Mode& mode) {
      std::uint32_t all = 1;
      for (const std::uint32_t one : mode.shape) all *= one;
      return all;
    };
    for (std::uint32_t i = 0; i < size(example.exact.mn); ++i) {
      for (std::uint32_t k = 0; k < size(example.exact.k); ++k) {
        const ElementAddress address = element_address(descriptor, example.k_major, 8 * example.bytes, i, k);
        REQUIRE(address.chunk + address.offset == example.exact.byte(i, k, example.bytes));
      }
    }
  }
}

// Kernels go along k within a line by adding to the start address.
TEST_CASE("a descriptor may begin within a line of the swizzle", "[ptx]") {
  const Stored stored = place(true, MatrixSwizzle::bytes128, 2, 64, 64, 0x4000);
  for (std::uint32_t step = 0; step < 4; ++step) {
    const MatrixDescriptor descriptor = decode_descriptor(stored.descriptor + 2 * step);
    for (std::uint32_t i = 0; i < 64; ++i) {
      for (std::uint32_t k = 0; k < 16; ++k) {
        const ElementAddress address = element_address(descriptor, true, 16, i, k);
        REQUIRE(address.chunk + address.offset == stored.start + stored.layout.byte(i, 16 * step + k, 2));
      }
    }
  }
}

// base_offset = (address of the pattern >> 7) & 7, where that is no multiple of the pattern's length.
TEST_CASE("a pattern may begin beside a multiple of its length", "[ptx]") {
  for (std::uint32_t lines = 1; lines < 8; ++lines) {
    Stored stored = place(true, MatrixSwizzle::bytes128, 2, 64, 64, 0x4000);
    const MatrixDescriptor there = decode_descriptor(stored.descriptor);
    MatrixDescriptor beside = decode_descriptor(stored.descriptor | std::uint64_t{lines} << 49);
    CHECK(beside.base_offset == lines);
    beside.start += 128 * lines;
    for (std::uint32_t i = 0; i < 64; ++i) {
      for (std::uint32_t k = 0; k < 64; ++k) {
        const ElementAddress one = element_address(there, true, 16, i, k);
        const ElementAddress other = element_address(beside, true, 16, i, k);
        REQUIRE(other.chunk + other.offset == one.chunk + one.offset + 128 * lines);
      }
    }
  }
}

// -- Products ---------------------------------------------------------------------------------------------------------

// Small whole numbers, of which all sums are exact, as codes of the type.
std::uint32_t code_of_number(const std::string& type, int number) {
  if (type == "s8" || type == "u8") return static_cast<std::uint32_t>(number) & 0xff;
  const test::Exact exact = test::exact_integer(number);
  if (type == "tf32")
    return static_cast<std::uint32_t>(test::encode(test::kRefTf32, exact, "rn")) << 13 |
           0x1abc;  // low bits do not count
  return static_cast<std::uint32_t>(test::encode(test::format_named(type), exact, "rn"));
}
std::uint32_t bytes_of_type(const std::string& type) {
  return type == "tf32" ? 4 : type == "f16" || type == "bf16" ? 2 : 1;
}

struct Case {
  std::string d, a, b;
  std::uint32_t n, k;
  bool a_k_major = true, b_k_major = true;
  MatrixSwizzle a_swizzle = MatrixSwizzle::none, b_swizzle = MatrixSwizzle::none;
  bool a_in_registers = false, add = true, negate_a = false, negate_b = false;
};

void check_product(const Case& of, std::mt19937_64& random) {
  const std::string text = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(of.n) + "k" + std::to_string(of.k) +
                           "." + of.d + "." + of.a + "." + of.b;
  std::string why;
  const auto form = find_wgmma_form(parts(text), why);
  INFO(text << ": " << why << ", swizzles " << static_cast<int>(of.a_swizzle) << static_cast<int>(of.b_swizzle)
            << " K-major " << of.a_k_major << of.b_k_major << " registers " << of.a_in_registers);
  REQUIRE(form);
  const int least = of.a == "u8" ? 0 : -3;
  const int least_b = of.b == "u8" ? 0 : -3;
  std::vector<std::vector<int>> a(64, std::vector<int>(of.k)), b(of.k, std::vector<int>(of.n));
  for (auto& row : a)
    for (int& number : row) number = static_cast<int>(random() % 7) + least;
  for (auto& row : b)
    for (int& number : row) number = static_cast<int>(random() % 7) + least_b;
  const Stored in_a = place(of.a_k_major, of.a_swizzle, bytes_of_type(of.a), 64, of.k, 0x1000);
  const Stored in_b =
      place(of.b_k_major, of.b_swizzle, bytes_of_type(of.b), of.n, of.k, (in_a.end + 2047) / 1024 * 1024);
  std::vector<std::uint8_t> shared(in_b.end + 4096, 0x5a);
  const auto put = [&](const Stored& stored, std::uint32_t i, std::uint32_t j, std::uint32_t code) {
    for (std::uint32_t byte = 0; byte < stored.bytes; ++byte) {
      shared.at(stored.start + stored.layout.byte(i, j, stored.bytes) + byte) =
          static_cast<std::uint8_t>(code >> (8 * byte));
    }
  };
  for (std::uint32_t i = 0; i < 64; ++i) {
    for (std::uint32_t j = 0; j < of.k; ++j) put(in_a, i, j, code_of_number(of.a, a[i][j]));
  }
  for (std::uint32_t i = 0; i < of.n; ++i) {
    for (std::uint32_t j = 0; j < of.k; ++j) put(in_b, i, j, code_of_number(of.b, b[j][i]));
  }
  const ReadChunk read = [&](std::uint32_t address, std::uint8_t* bytes) {
    REQUIRE(address % 16 == 0);
    for (std::uint32_t i = 0; i < 16; ++i) bytes[i] = shared.at(address + i);
  };
  const std::uint32_t half = of.d == "f16" ? 2 : 1;
  for (std::uint32_t warp = 0; warp < 4; ++warp) {
    // The figures: warp w has rows 16w on; lane 4g + t has of them g and g + 8, of every 8 columns 2t and 2t + 1.
    const auto row_of = [&](std::uint32_t lane, std::uint32_t i) { return 16 * warp + lane / 4 + (i % 4 < 2 ? 0 : 8); };
    const auto column_of = [&](std::uint32_t lane, std::uint32_t i) { return 8 * (i / 4) + 2 * (lane % 4) + i % 2; };
    const auto held = [](std::uint32_t row, std::uint32_t column) {
      return static_cast<int>(row * 5 + column) % 64 - 20;
    };
    std::vector<LaneWords> d(form->d_words());
    REQUIRE(d.size() == of.n / 2 / half);
    for (auto& words : d) words.fill(0);
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t i = 0; i < of.n / 2; ++i) {
        const int number = held(row_of(lane, i), column_of(lane, i));
        const std::uint32_t code = of.d == "s32" ? static_cast<std::uint32_t>(number) : code_of_number(of.d, number);
        d[i / half][lane] |= code << (i % half * 16);
      }
    }
    // A in registers: lane 4g + t has rows g and g + 8 in turn, then the same 16 bytes further along k.
    std::vector<LaneWords> registers(4);
    const std::uint32_t per = 4 / bytes_of_type(of.a);
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t word = 0; word < 4; ++word) {
        registers[word][lane] = 0;
        for (std::uint32_t i = 0; i < per; ++i) {
          const std::uint32_t row = 16 * warp + lane / 4 + (word % 2 == 0 ? 0 : 8);
          const std::uint32_t k = (word < 2 ? 0 : 4 * per) + lane % 4 * per + i;
          registers[word][lane] |= code_of_number(of.a, a[row][k]) << (32 / per * i % 32);
        }
      }
    }
    WgmmaOperands operands;
    operands.add = of.add;
    operands.negate_a = of.negate_a;
    operands.negate_b = of.negate_b;
    operands.transpose_a = !of.a_k_major;
    operands.transpose_b = !of.b_k_major;
    operands.a = of.a_in_registers ? registers.data() : nullptr;
    operands.a_place = decode_descriptor(in_a.descriptor);
    operands.b_place = decode_descriptor(in_b.descriptor);
    multiply_warpgroup(*form, warp, operands, read, d.data());
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      for (std::uint32_t i = 0; i < of.n / 2; ++i) {
        const std::uint32_t row = row_of(lane, i), column = column_of(lane, i);
        int sum = 0;
        for (std::uint32_t k = 0; k < of.k; ++k) sum += a[row][k] * b[k][column];
        if (of.negate_a != of.negate_b) sum = -sum;
        if (of.add) sum += held(row, column);
        std::uint32_t code = of.d == "s32" ? static_cast<std::uint32_t>(sum) : code_of_number(of.d, sum);
        std::uint32_t got = d[i / half][lane];
        if (half == 2) got = got >> (i % 2 * 16) & 0xffff;
        // A sum that is zero may have either sign.
        if (sum == 0 && of.d != "s32") got &= half == 2 ? 0x7fffu : 0x7fffffffu;
        if (got != code)
          FAIL("row " << row << " column " << column << ": " << std::hex << got << " instead of " << code);
        const MatrixPlace place = place_in_wgmma_d(warp, lane, i);
        if (place.row != row || place.column != column) FAIL("place of element " << i << " of lane " << lane);
      }
    }
  }
}

TEST_CASE("products of a warpgroup in every layout", "[ptx]") {
  std::mt19937_64 random(kSeed);
  for (const MatrixSwizzle a : kSwizzles) {
    for (const MatrixSwizzle b : kSwizzles) {
      for (const char* const type : {"f16", "bf16"}) {
        for (int majors = 0; majors < 4; ++majors) {
          check_product({"f32", type, type, 64, 16, (majors & 1) == 0, (majors & 2) == 0, a, b}, random);
        }
      }
      check_product({"f32", "tf32", "tf32", 40, 8, true, true, a, b}, random);
      check_product({"f32", "e4m3", "e5m2", 24, 32, true, true, a, b}, random);
      check_product({"s32", "s8", "u8", 48, 32, true, true, a, b}, random);
    }
  }
}
TEST_CASE("products of a warpgroup of every width and type", "[ptx]") {
  std::mt19937_64 random(kSeed + 1);
  for (std::uint32_t n = 8; n <= 256; n += 8) {
    check_product({n % 16 == 0 ? "f32" : "f16", "f16", "f16", n, 16, true, n % 24 != 0, MatrixSwizzle::bytes128,
                   MatrixSwizzle::bytes128},
                  random);
    if (n <= 32 || n % 16 == 0)
      check_product({"s32", "u8", "s8", n, 32, true, true, MatrixSwizzle::bytes64, MatrixSwizzle::bytes64}, random);
  }
  for (const bool add : {false, true}) {
    for (int negated = 0; negated < 4; ++negated) {
      Case of{"f32", "bf16", "bf16", 32, 16};
      of.add = add;
      of.negate_a = (negated & 1) != 0;
      of.negate_b = (negated & 2) != 0;
      of.a_in_registers = negated % 2 == 1;
      check_product(of, random);
    }
  }
  for (const char* const type : {"f16", "tf32", "e4m3", "e5m2", "s8", "u8"}) {
    const std::string name = type;
    Case of{name[0] == 's' || name[0] == 'u' ? "s32" : "f32", name, name, 16, 32 / bytes_of_type(name)};
    of.a_in_registers = true;
    of.b_swizzle = MatrixSwizzle::bytes32;
    check_product(of, random);
  }
  check_product({"f16", "e5m2", "e4m3", 16, 32}, random);
}

TEST_CASE("products of bits of a warpgroup", "[ptx]") {
  std::mt19937_64 random(kSeed + 2);
  std::string why;
  const auto form = find_wgmma_form(parts("wgmma.mma_async.sync.aligned.m64n16k256.s32.b1.b1.and.popc"), why);
  INFO(why);
  REQUIRE(form);
  const Stored in_a = place(true, MatrixSwizzle::bytes32, 1, 64, 32, 0x1000);
  const Stored in_b = place(true, MatrixSwizzle::none, 1, 16, 32, 0x4000);
  std::vector<std::uint8_t> shared(0x8000);
  for (std::uint8_t& byte : shared) byte = static_cast<std::uint8_t>(random());
  WgmmaOperands operands;
  operands.add = false;
  operands.a_place = decode_descriptor(in_a.descriptor);
  operands.b_place = decode_descriptor(in_b.descriptor);
  std::vector<LaneWords> d(form->d_words());
  multiply_warpgroup(
      *form, 2, operands,
      [&](std::uint32_t address, std::uint8_t* bytes) {
        for (std::uint32_t i = 0; i < 16; ++i) bytes[i] = shared.at(address + i);
      },
      d.data());
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint32_t i = 0; i < 8; ++i) {
      const std::uint32_t row = 32 + lane / 4 + (i % 4 < 2 ? 0 : 8), column = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
      std::uint32_t sum = 0;
      for (std::uint32_t bit = 0; bit < 256; ++bit) {
        const std::uint32_t x = shared[in_a.start + in_a.layout.byte(row, bit / 8, 1)] >> (bit % 8) & 1;
        const std::uint32_t y = shared[in_b.start + in_b.layout.byte(column, bit / 8, 1)] >> (bit % 8) & 1;
        sum += x & y;
      }
      CHECK(d[i][lane] == sum);
    }
  }
}

TEST_CASE("what wgmma does not have is named", "[ptx]") {
  std::string why;
  CHECK_FALSE(find_wgmma_form(parts("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"), why));
  CHECK(why.find("sparse") != std::string::npos);
  CHECK_FALSE(find_wgmma_form(parts("wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16"), why));
  CHECK(why.find("m64nNk16") != std::string::npos);
  CHECK_FALSE(find_wgmma_form(parts("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8"), why));
  CHECK_FALSE(find_wgmma_form(parts("wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16"), why));
  CHECK_FALSE(find_wgmma_form(parts("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16"), why));
  CHECK_FALSE(find_wgmma_form(parts("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1"), why));
  CHECK_FALSE(find_wgmma_form(parts("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16.satfinite"), why));
  const auto form = find_wgmma_form(parts("wgmma.mma_async.sync.aligned.m64n96k32.s32.satfinite.u8.s8"), why);
  REQUIRE(form);
  CHECK(form->saturate);
  CHECK_FALSE(form->has_scales());
  CHECK_FALSE(form->has_transposes());
}

}  // namespace wgmma_test
}  // namespace heddle::ptx
