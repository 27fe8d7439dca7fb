// Matrix instructions of a warp beside products written out, with the maps of the manual's figures and formulas.
#include "ptx/mma.h"

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include <catch2/catch.hpp>

#include "ptx/alu_reference.h"

namespace heddle::ptx {
namespace mma_test {

constexpr std::uint32_t kSeed = 77;

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, '.');) all.push_back(part);
  return {all.begin() + 1, all.end()};
}
MmaForm form_of(const std::string& text) {
  std::string why;
  const auto form = find_mma_form(parts(text), why);
  INFO(text << ": " << why);
  REQUIRE(form);
  return *form;
}

// -- The manual's formulas: groupID = lane >> 2, threadID_in_group = lane % 4 -----------------------------------------

struct Place {
  std::uint32_t row, column;
  bool operator<(const Place& other) const { return row != other.row ? row < other.row : column < other.column; }
};
std::string shape(const MmaForm& form) {
  return "m" + std::to_string(form.m) + "n" + std::to_string(form.n) + "k" + std::to_string(form.k);
}
bool is_byte(Type type) { return type == Type::s8 || type == Type::u8 || type == Type::e4m3 || type == Type::e5m2; }

Place manual_a(const MmaForm& form, std::uint32_t lane, std::uint32_t i) {
  const std::uint32_t group = lane >> 2, thread = lane % 4;
  const std::string s = shape(form);
  const Type type = form.a;
  if (s == "m8n8k4" && type == Type::f16) {
    if (form.a_by_rows) return {lane % 4 + (lane < 16 ? 0 : 4), i};
    return {i % 4 + (lane < 16 ? 0 : 4), lane % 4};
  }
  if (s == "m8n8k4") return {lane >> 2, lane % 4};                  // f64
  if (s == "m16n8k4") return {i == 0 ? group : group + 8, thread};  // tf32, f64
  if (s == "m16n8k8" && (type == Type::f16 || type == Type::bf16))
    return {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
  if (s == "m16n8k8") return {i == 0 || i == 2 ? group : group + 8, i < 2 ? thread : thread + 4};  // tf32, f64
  if (s == "m16n8k16" && type == Type::f64) return {i % 2 == 0 ? group : group + 8, i / 2 * 4 + thread};
  if (s == "m16n8k16" && is_byte(type)) return {i < 4 ? group : group + 8, thread * 4 + (i & 3)};
  if (s == "m16n8k16") {
    return {i < 2 || (i >= 4 && i < 6) ? group : group + 8, i < 4 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8};
  }
  if (s == "m8n8k16") return {group, thread * 4 + i};
  if (s == "m16n8k32" && is_byte(type)) {
    return {i < 4 || (i >= 8 && i < 12) ? group : group + 8, i < 8 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16};
  }
  if (s == "m8n8k32") return {group, thread * 8 + i};
  if (s == "m16n8k32") return {i < 8 ? group : group + 8, thread * 8 + (i & 7)};
  if (s == "m16n8k64") {
    return {i < 8 || (i >= 16 && i < 24) ? group : group + 8,
            i < 16 ? thread * 8 + (i & 7) : thread * 8 + (i & 7) + 32};
  }
  if (s == "m8n8k128") return {group, thread * 32 + i};
  if (s == "m16n8k128") return {i < 32 ? group : group + 8, thread * 32 + (i & 31)};
  if (s == "m16n8k256") {
    return {i < 32 || (i >= 64 && i < 96) ? group : group + 8,
            i < 64 ? thread * 32 + (i & 31) : thread * 32 + (i & 31) + 128};
  }
  FAIL("no map of A for " << s);
  return {};
}
Place manual_b(const MmaForm& form, std::uint32_t lane, std::uint32_t i) {
  const std::uint32_t group = lane >> 2, thread = lane % 4;
  const std::string s = shape(form);
  const Type type = form.b;
  if (s == "m8n8k4" && type == Type::f16) {
    if (form.b_by_columns) return {i, lane % 4 + (lane < 16 ? 0 : 4)};
    return {lane % 4, i + (lane < 16 ? 0 : 4)};
  }
  if (s == "m8n8k4" || s == "m16n8k4") return {thread, group};
  if (s == "m16n8k8" && (type == Type::f16 || type == Type::bf16)) return {thread * 2 + i, group};
  if (s == "m16n8k8") return {i == 0 ? thread : thread + 4, group};
  if (s == "m16n8k16" && type == Type::f64) return {thread + i * 4, group};
  if (s == "m16n8k16" && is_byte(type)) return {thread * 4 + i, group};
  if (s == "m16n8k16") return {i < 2 ? thread * 2 + (i & 1) : thread * 2 + (i & 1) + 8, group};
  if (s == "m8n8k16") return {thread * 4 + i, group};
  if (s == "m16n8k32" && is_byte(type)) return {i < 4 ? thread * 4 + (i & 3) : thread * 4 + (i & 3) + 16, group};
  if (s == "m8n8k32" || s == "m16n8k32") return {thread * 8 + i, group};
  if (s == "m16n8k64") return {i < 8 ? thread * 8 + (i & 7) : thread * 8 + (i & 7) + 32, group};
  if (s == "m8n8k128" || s == "m16n8k128") return {thread * 32 + i, group};
  if (s == "m16n8k256") return {i < 32 ? thread * 32 + i : thread * 32 + (i & 31) + 128, group};
  FAIL("no map of B for " << s);
  return {};
}
Place manual_c(const MmaForm& form, Type type, std::uint32_t lane, std::uint32_t i) {
  const std::uint32_t group = lane >> 2, thread = lane % 4;
  if (form.m == 8 && form.k == 4 && form.a == Type::f16) {
    if (type == Type::f16) return {lane % 4 + (lane < 16 ? 0 : 4), i};
    const std::uint32_t x = (lane & 1) + (i & 2);
    return {lane < 16 ? x : x + 4, (i & 4) + (lane & 2) + (i & 1)};
  }
  if (form.m == 8) return {group, thread * 2 + (i & 1)};
  return {i < 2 ? group : group + 8, thread * 2 + (i & 1)};
}

// -- Products written out ---------------------------------------------------------------------------------------------

const char* real_name(Type type) {
  switch (type) {
    case Type::f16:
      return "f16";
    case Type::bf16:
      return "bf16";
    case Type::f32:
      return "f32";
    case Type::f64:
      return "f64";
    case Type::tf32:
      return "tf32";
    case Type::e4m3:
      return "e4m3";
    case Type::e5m2:
      return "e5m2";
    default:
      return nullptr;
  }
}
std::uint32_t bits_of_type(Type type) {
  switch (type) {
    case Type::b1:
      return 1;
    case Type::s4:
    case Type::u4:
      return 4;
    case Type::f16:
    case Type::bf16:
      return 16;
    case Type::f64:
      return 64;
    default:
      return is_byte(type) ? 8 : 32;
  }
}
std::uint64_t element(const std::vector<LaneWords>& words, std::uint32_t bits, std::uint32_t lane, std::uint32_t i) {
  std::uint64_t value = 0;
  for (std::uint32_t bit = 0; bit < bits; ++bit) {
    const std::uint32_t at = i * bits + bit;
    value |= std::uint64_t{words[at / 32][lane] >> (at % 32) & 1} << bit;
  }
  return value;
}

// Sums from C on, in the order of k, rounded to single precision each; of f64, fused.
std::uint64_t real_sum(const MmaForm& form, const std::vector<std::pair<std::uint64_t, std::uint64_t>>& products,
                       std::uint64_t c) {
  const bool twice = form.a == Type::f64;
  const std::string sums = twice ? "f64" : "f32";
  const auto exact = [](Type type, std::uint64_t code) {
    if (type == Type::tf32) return test::decode(test::kRefTf32, code >> 13);
    return test::decode(test::format_named(real_name(type)), code);
  };
  test::Exact sum = exact(form.c, c);
  for (const auto& [x, y] : products) {
    sum = test::plus(sum, test::times(exact(form.a, x), exact(form.b, y)), "rn");
    if (sum.kind == test::Exact::Kind::nan) break;
    const test::RealFormat format = test::format_named(sums);
    sum = test::decode(format, test::encode(format, sum, "rn"));
  }
  const std::string to = real_name(form.d);
  return sum.kind == test::Exact::Kind::nan ? test::canonical_nan(to) : test::encode(test::format_named(to), sum, "rn");
}
std::uint64_t whole_sum(const MmaForm& form, const std::vector<std::pair<std::uint64_t, std::uint64_t>>& products,
                        std::uint64_t c) {
  const auto value = [](Type type, std::uint64_t code) {
    const std::string name = type == Type::s8 ? "s8" : type == Type::s4 ? "s4" : "u32";
    return static_cast<std::int64_t>(test::integer(code, name));
  };
  std::int64_t sum = static_cast<std::int32_t>(c);
  for (const auto& [x, y] : products) {
    if (form.a == Type::b1)
      sum += form.bits == BitOperation::exclusive_or ? (x != y ? 1 : 0) : (x != 0 && y != 0 ? 1 : 0);
    else
      sum += value(form.a, x) * value(form.b, y);
  }
  if (form.saturate) sum = static_cast<std::int64_t>(test::clamp_to(sum, "s32"));
  return static_cast<std::uint32_t>(sum);
}

std::uint32_t random_word(std::mt19937_64& random, Type type, bool wild) {
  auto word = static_cast<std::uint32_t>(random());
  if (wild) return word;
  // Numbers of a few sizes, so that sums round but do not overflow.
  if (type == Type::f16) word = (word & 0x83ff83ff) | 0x38003800 | (word >> 3 & 0x04000400);
  if (type == Type::bf16) word = (word & 0x807f807f) | 0x3f003f00 | (word >> 3 & 0x00800080);
  if (type == Type::tf32 || type == Type::f32) word = (word & 0x807fffff) | 0x3f000000 | (word >> 3 & 0x00800000);
  return word;
}
std::vector<LaneWords> random_words(std::mt19937_64& random, Type type, std::uint32_t count, bool wild) {
  std::vector<LaneWords> words(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t& word : words[i]) {
      word = random_word(random, type, wild);
      if (type == Type::f64 && !wild && i % 2 == 1) word = (word & 0x800fffff) | 0x3ff00000;
    }
  }
  return words;
}

void check_product(const MmaForm& form, std::mt19937_64& random, bool wild) {
  INFO(form.text << (wild ? ", any bits" : "") << ", seed " << kSeed);
  const auto a = random_words(random, form.a, form.a_words(), wild);
  const auto b = random_words(random, form.b, form.b_words(), wild);
  const auto c = random_words(random, form.c, form.c_words(), wild);
  std::vector<LaneWords> d(form.d_words());
  multiply_matrices(form, d.data(), a.data(), b.data(), c.data());
  const bool four = form.m == 8 && form.k == 4 && form.a == Type::f16;
  for (std::uint32_t product = 0; product < (four ? 4u : 1u); ++product) {
    std::map<Place, std::uint64_t> of_a, of_b, of_c, of_d;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      // Threads 0–3 and 16–19 have the first product, 4–7 and 20–23 the second …
      if (four && lane / 4 != product && lane / 4 != product + 4) continue;
      const auto spread = [&](std::map<Place, std::uint64_t>& matrix, const std::vector<LaneWords>& words, Type type,
                              const auto& place) {
        const std::uint32_t bits = bits_of_type(type);
        for (std::uint32_t i = 0; i < words.size() * 32 / bits; ++i) {
          REQUIRE(matrix.emplace(place(i), element(words, bits, lane, i)).second);
        }
      };
      spread(of_a, a, form.a, [&](std::uint32_t i) { return manual_a(form, lane, i); });
      spread(of_b, b, form.b, [&](std::uint32_t i) { return manual_b(form, lane, i); });
      spread(of_c, c, form.c, [&](std::uint32_t i) { return manual_c(form, form.c, lane, i); });
      spread(of_d, d, form.d, [&](std::uint32_t i) { return manual_c(form, form.d, lane, i); });
    }
    REQUIRE(of_a.size() == form.m * form.k);
    REQUIRE(of_b.size() == form.k * form.n);
    REQUIRE(of_d.size() == form.m * form.n);
    for (std::uint32_t row = 0; row < form.m; ++row) {
      for (std::uint32_t column = 0; column < form.n; ++column) {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> products;
        for (std::uint32_t k = 0; k < form.k; ++k) products.emplace_back(of_a.at({row, k}), of_b.at({k, column}));
        const std::uint64_t start = of_c.at({row, column});
        const std::uint64_t wanted =
            real_name(form.a) != nullptr ? real_sum(form, products, start) : whole_sum(form, products, start);
        if (of_d.at({row, column}) != wanted) {
          FAIL("row " << row << " column " << column << ": " << std::hex << of_d.at({row, column}) << " instead of "
                      << wanted);
        }
      }
    }
  }
}

TEST_CASE("products of matrices of every shape and type", "[ptx]") {
  std::vector<std::string> texts;
  for (const MmaForm& form : all_mma_forms()) texts.push_back(form.text);
  for (const char* const more :
       {"mma.sync.aligned.m8n8k4.row.row.f16.f16.f16.f16", "mma.sync.aligned.m8n8k4.col.col.f32.f16.f16.f32",
        "mma.sync.aligned.m8n8k4.col.row.f32.f16.f16.f16", "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
        "mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e4m3.f16", "mma.sync.aligned.m16n8k16.row.col.f32.e5m2.e5m2.f32",
        "mma.sync.aligned.m16n8k16.row.col.satfinite.s32.u8.s8.s32", "mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32",
        "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.u8.u8.s32", "mma.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc"}) {
    texts.push_back(more);
  }
  std::mt19937_64 random(kSeed);
  for (const std::string& text : texts) {
    const MmaForm form = form_of(text);
    for (int turn = 0; turn < 4; ++turn) {
      check_product(form, random, false);
      check_product(form, random, true);
    }
  }
}

// Whether or not the host has fused multiply-add.
TEST_CASE("sums of products are rounded once on every host", "[ptx]") {
  std::mt19937_64 random(kSeed);
  for (const Type type : {Type::bf16, Type::tf32, Type::f16, Type::e5m2}) {
    for (int turn = 0; turn < 3000; ++turn) {
      const bool wild = turn % 2 == 0;
      const std::uint32_t x = random_word(random, type, wild), y = random_word(random, type, wild);
      const std::uint32_t c = random_word(random, Type::f32, wild);
      const auto code = [&](std::uint32_t word) {
        return type == Type::tf32 ? word & 0xffffe000 : word & ((1u << bits_of_type(type)) - 1);
      };
      MmaForm form;
      form.a = form.b = type;
      form.c = form.d = Type::f32;
      const std::uint64_t wanted = real_sum(form, {{code(x), code(y)}}, c);
      const float number = matrix_number(type, y);
      float one = matrix_number(Type::f32, c), other = one;
      add_products(type, matrix_number(type, x), &number, 1, &one);
      add_products_portably(type, matrix_number(type, x), &number, 1, &other);
      for (const float sum : {one, other}) {
        std::uint32_t got = 0;
        std::memcpy(&got, &sum, sizeof got);
        if (sum != sum) got = 0x7fffffff;
        if (got != wanted) FAIL(std::hex << x << " · " << y << " + " << c << ": " << got << " instead of " << wanted);
      }
    }
  }
}

TEST_CASE("clamped sums of integers, and sums that wrap", "[ptx]") {
  for (const bool clamp : {false, true}) {
    const MmaForm form =
        form_of(std::string("mma.sync.aligned.m16n8k32.row.col.") + (clamp ? "satfinite." : "") + "s32.s8.s8.s32");
    std::vector<LaneWords> a(4), b(2), c(4), d(4);
    for (auto& words : a) words.fill(0x7f7f7f7f);
    for (auto& words : b) words.fill(0x7f7f7f7f);
    for (auto& words : c) words.fill(0x7ffffff0);
    multiply_matrices(form, d.data(), a.data(), b.data(), c.data());
    const std::uint32_t wraps = 0x7ffffff0u + 32 * 127 * 127;
    for (const auto& words : d) CHECK(words[5] == (clamp ? 0x7fffffffu : wraps));
  }
}

TEST_CASE("what mma does not have is named", "[ptx]") {
  std::string why;
  CHECK_FALSE(find_mma_form(parts("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), why));
  CHECK(why.find("sparse") != std::string::npos);
  CHECK_FALSE(find_mma_form(parts("mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"), why));
  CHECK(why.find("m16n8k16") != std::string::npos);
  CHECK_FALSE(find_mma_form(parts("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16"), why));
  CHECK(why.find("f16") != std::string::npos);
  CHECK_FALSE(find_mma_form(parts("mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32"), why));
  CHECK(why.find(".row.col") != std::string::npos);
  CHECK_FALSE(find_mma_form(parts("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32"), why));
  CHECK_FALSE(find_mma_form(parts("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32"), why));
  CHECK_FALSE(find_mma_form(parts("mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32"), why));
  CHECK_FALSE(find_mma_form(parts("mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.f32.e4m3.e4m3.f32"), why));
  CHECK(why.find("kind::f8f6f4") != std::string::npos);
}

// The manual: row i of a matrix of 8×8 numbers of 16 bits goes to lanes 4i to 4i + 3, two neighbours each.
TEST_CASE("matrices between shared memory and lanes", "[ptx]") {
  MatrixRows rows;
  for (std::uint32_t row = 0; row < 8; ++row) {
    for (std::uint32_t column = 0; column < 8; ++column) {
      rows.bytes[row][2 * column] = static_cast<std::uint8_t>(column);
      rows.bytes[row][2 * column + 1] = static_cast<std::uint8_t>(row);
    }
  }
  const LaneWords plain = load_matrix(rows, false);
  const LaneWords transposed = load_matrix(rows, true);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t one = lane / 4, two = lane % 4 * 2;
    CHECK(plain[lane] == ((one << 8 | two) | (one << 8 | (two + 1)) << 16));
    CHECK(transposed[lane] == ((two << 8 | one) | ((two + 1) << 8 | one) << 16));
  }
  CHECK(transpose_matrix(plain) == transposed);
  CHECK(transpose_matrix(transposed) == plain);
  for (const bool way : {false, true}) {
    const MatrixRows back = store_matrix(way ? transposed : plain, way);
    CHECK(std::equal(&back.bytes[0][0], &back.bytes[0][0] + sizeof back.bytes, &rows.bytes[0][0]));
  }
}

}  // namespace mma_test
}  // namespace heddle::ptx
