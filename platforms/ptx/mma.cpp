#include "ptx/mma.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>

#include "common/error.h"
#include "ptx/alu_half.h"
#include "ptx/alu_real.h"
#include "ptx/alu_soft.h"

namespace heddle::ptx {

namespace {

constexpr std::uint32_t kWarp = arch::kWarpLanes;
// Of the largest shapes: 16 rows, 8 columns, and 256 bits, 64 numbers of 4 bits or 32 wider ones along k.
constexpr std::uint32_t kMostRows = 16;
constexpr std::uint32_t kMostColumns = 8;
constexpr std::uint32_t kMostDepth = 64;

enum class Numbers : std::uint8_t { single, twice, integers, bits };  // what is reckoned with

Numbers numbers_of(Type type) {
  switch (type) {
    case Type::f64:
      return Numbers::twice;
    case Type::s8:
    case Type::u8:
    case Type::s4:
    case Type::u4:
      return Numbers::integers;
    case Type::b1:
      return Numbers::bits;
    default:
      return Numbers::single;
  }
}

struct NamedMatrixType {
  const char* name;
  Type type;
  std::uint32_t bits;
};
constexpr NamedMatrixType kMatrixTypes[] = {
    {"f16", Type::f16, 16},  {"bf16", Type::bf16, 16}, {"tf32", Type::tf32, 32}, {"f64", Type::f64, 64},
    {"s8", Type::s8, 8},     {"u8", Type::u8, 8},      {"s4", Type::s4, 4},      {"u4", Type::u4, 4},
    {"e4m3", Type::e4m3, 8}, {"e5m2", Type::e5m2, 8},  {"b1", Type::b1, 1},      {"f32", Type::f32, 32},
    {"s32", Type::s32, 32},
};
const NamedMatrixType* named(const std::string& name) {
  const auto* const found = std::find_if(std::begin(kMatrixTypes), std::end(kMatrixTypes),
                                         [&](const NamedMatrixType& each) { return name == each.name; });
  return found == std::end(kMatrixTypes) ? nullptr : found;
}
const NamedMatrixType& named(Type type) {
  const auto* const found = std::find_if(std::begin(kMatrixTypes), std::end(kMatrixTypes),
                                         [&](const NamedMatrixType& each) { return type == each.type; });
  HEDDLE_CHECK(found != std::end(kMatrixTypes), "no type of matrices");
  return *found;
}

// Types that may stand together as A and B.
enum class MmaKind : std::uint8_t { f16, bf16, tf32, f64, bytes, nibbles, fp8, bits };
std::optional<MmaKind> kind_of(Type a, Type b) {
  const auto both = [&](Type one, Type other) { return (a == one || a == other) && (b == one || b == other); };
  if (both(Type::f16, Type::f16)) return MmaKind::f16;
  if (both(Type::bf16, Type::bf16)) return MmaKind::bf16;
  if (both(Type::tf32, Type::tf32)) return MmaKind::tf32;
  if (both(Type::f64, Type::f64)) return MmaKind::f64;
  if (both(Type::s8, Type::u8)) return MmaKind::bytes;
  if (both(Type::s4, Type::u4)) return MmaKind::nibbles;
  if (both(Type::e4m3, Type::e5m2)) return MmaKind::fp8;
  if (both(Type::b1, Type::b1)) return MmaKind::bits;
  return std::nullopt;
}

struct ShapeOfKind {
  MmaKind kind;
  std::uint32_t m, n, k;
};
constexpr ShapeOfKind kShapes[] = {
    {MmaKind::f16, 8, 8, 4},       {MmaKind::f16, 16, 8, 8},      {MmaKind::f16, 16, 8, 16},
    {MmaKind::bf16, 16, 8, 8},     {MmaKind::bf16, 16, 8, 16},    {MmaKind::tf32, 16, 8, 4},
    {MmaKind::tf32, 16, 8, 8},     {MmaKind::f64, 8, 8, 4},       {MmaKind::f64, 16, 8, 4},
    {MmaKind::f64, 16, 8, 8},      {MmaKind::f64, 16, 8, 16},     {MmaKind::bytes, 8, 8, 16},
    {MmaKind::bytes, 16, 8, 16},   {MmaKind::bytes, 16, 8, 32},   {MmaKind::nibbles, 8, 8, 32},
    {MmaKind::nibbles, 16, 8, 32}, {MmaKind::nibbles, 16, 8, 64}, {MmaKind::fp8, 16, 8, 16},
    {MmaKind::fp8, 16, 8, 32},     {MmaKind::bits, 8, 8, 128},    {MmaKind::bits, 16, 8, 128},
    {MmaKind::bits, 16, 8, 256},
};

bool has_halves(const MmaForm& form) { return form.m == 8 && form.k == 4 && form.a == Type::f16; }

// Whether sums may be of the type.
bool is_sum(MmaKind kind, Type type) {
  switch (kind) {
    case MmaKind::f16:
    case MmaKind::fp8:
      return type == Type::f16 || type == Type::f32;
    case MmaKind::bf16:
    case MmaKind::tf32:
      return type == Type::f32;
    case MmaKind::f64:
      return type == Type::f64;
    default:
      return type == Type::s32;
  }
}

// m16n8k16
bool parse_shape(const std::string& text, MmaForm& form) {
  unsigned m = 0, n = 0, k = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "m%un%uk%u%n", &m, &n, &k, &end) != 3 || static_cast<std::size_t>(end) != text.size()) {
    return false;
  }
  form.m = m;
  form.n = n;
  form.k = k;
  return true;
}

std::uint32_t words_of(Type type, std::uint32_t elements) { return elements * named(type).bits / 32; }

// Of a lane: the elements are shared out evenly; m8n8k4 of f16 is four products.
std::uint32_t elements_of(const MmaForm& form, std::uint32_t rows, std::uint32_t columns) {
  return rows * columns * (has_halves(form) ? 4 : 1) / kWarp;
}

std::uint64_t fragment_element(const LaneWords* words, std::uint32_t bits, std::uint32_t lane, std::uint32_t i) {
  if (bits == 64) return words[2 * i][lane] | std::uint64_t{words[2 * i + 1][lane]} << 32;
  const std::uint32_t at = i * bits;
  const std::uint32_t word = words[at / 32][lane] >> (at % 32);
  return bits == 32 ? word : word & ((1u << bits) - 1);
}
void set_fragment_element(LaneWords* words, std::uint32_t bits, std::uint32_t lane, std::uint32_t i,
                          std::uint64_t value) {
  if (bits == 64) {
    words[2 * i][lane] = static_cast<std::uint32_t>(value);
    words[2 * i + 1][lane] = static_cast<std::uint32_t>(value >> 32);
  } else if (bits == 32) {
    words[i][lane] = static_cast<std::uint32_t>(value);
  } else {
    std::uint32_t& word = words[i / 2][lane];
    const std::uint32_t shift = i % 2 * 16;
    word = (word & ~(0xffffu << shift)) | static_cast<std::uint32_t>(value) << shift;
  }
}

std::int32_t matrix_integer(Type type, std::uint64_t bits) {
  const auto low = static_cast<std::uint32_t>(bits);
  switch (type) {
    case Type::s8:
      return static_cast<std::int8_t>(low);
    case Type::s4:
      return static_cast<std::int32_t>(low << 28) >> 28;
    default:
      return static_cast<std::int32_t>(low);
  }
}

// The matrices of one product, spread out. T: what is reckoned with.
template <class T>
struct Spread {
  T a[kMostRows][kMostDepth] = {};
  T b[kMostDepth][kMostColumns] = {};
};

template <class T, class Read>
void spread(const MmaForm& form, const LaneWords* a, const LaneWords* b, std::uint32_t product, Spread<T>& into,
            const Read& read) {
  const std::uint32_t a_bits = matrix_bits(form.a);
  const std::uint32_t b_bits = matrix_bits(form.b);
  const std::uint32_t a_elements = elements_of(form, form.m, form.k);
  const std::uint32_t b_elements = elements_of(form, form.k, form.n);
  // Elements of a register are neighbours along k, but for those of m8n8k4 of f16.
  const std::uint32_t a_step = has_halves(form) || a_bits > 32 ? 1 : 32 / a_bits;
  const std::uint32_t b_step = has_halves(form) || b_bits > 32 ? 1 : 32 / b_bits;
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    if (product_of_lane(form, lane) != product) continue;
    for (std::uint32_t i = 0; i < a_elements; i += a_step) {
      const MatrixPlace place = place_in_a(form, lane, i);
      for (std::uint32_t j = 0; j < a_step; ++j) {
        into.a[place.row][place.column + j] = read(form.a, fragment_element(a, a_bits, lane, i + j));
      }
    }
    for (std::uint32_t i = 0; i < b_elements; i += b_step) {
      const MatrixPlace place = place_in_b(form, lane, i);
      for (std::uint32_t j = 0; j < b_step; ++j) {
        into.b[place.row + j][place.column] = read(form.b, fragment_element(b, b_bits, lane, i + j));
      }
    }
  }
}

// Every element of C through `step` into D.
template <class Step>
void each_sum(const MmaForm& form, LaneWords* d, const LaneWords* c, std::uint32_t product, const Step& step) {
  const std::uint32_t c_bits = matrix_bits(form.c);
  const std::uint32_t elements = elements_of(form, form.m, form.n);
  std::uint64_t sums[kMostRows][kMostColumns];
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    if (product_of_lane(form, lane) != product) continue;
    for (std::uint32_t i = 0; i < elements; ++i) {
      const MatrixPlace place = place_in_c(form, lane, i);
      sums[place.row][place.column] = fragment_element(c, c_bits, lane, i);
    }
  }
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    if (product_of_lane(form, lane) != product) continue;
    for (std::uint32_t i = 0; i < elements; ++i) {
      const MatrixPlace place = place_in_d(form, lane, i);
      set_fragment_element(d, matrix_bits(form.d), lane, i, step(place, sums[place.row][place.column]));
    }
  }
}

std::uint64_t sum_bits(Type type, float sum) {
  if (type == Type::f16) return to_narrow<Half>(sum).bits;
  return sum != sum ? kNan32 : bits32(sum);
}

void multiply_singles(const MmaForm& form, LaneWords* d, const LaneWords* a, const LaneWords* b, const LaneWords* c,
                      std::uint32_t product) {
  Spread<float> matrices;
  spread(form, a, b, product, matrices,
         [](Type type, std::uint64_t bits) { return matrix_number(type, static_cast<std::uint32_t>(bits)); });
  float sums[kMostRows][kMostColumns];
  const std::uint32_t elements = elements_of(form, form.m, form.n);
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    if (product_of_lane(form, lane) != product) continue;
    for (std::uint32_t i = 0; i < elements; ++i) {
      const MatrixPlace place = place_in_c(form, lane, i);
      const std::uint64_t bits = fragment_element(c, matrix_bits(form.c), lane, i);
      sums[place.row][place.column] = matrix_number(form.c, static_cast<std::uint32_t>(bits));
    }
  }
  for (std::uint32_t row = 0; row < form.m; ++row) {
    for (std::uint32_t k = 0; k < form.k; ++k) {
      add_products(form.a, matrices.a[row][k], matrices.b[k], kMostColumns, sums[row]);
    }
  }
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    if (product_of_lane(form, lane) != product) continue;
    for (std::uint32_t i = 0; i < elements; ++i) {
      const MatrixPlace place = place_in_d(form, lane, i);
      set_fragment_element(d, matrix_bits(form.d), lane, i, sum_bits(form.d, sums[place.row][place.column]));
    }
  }
}

void multiply_doubles(const MmaForm& form, LaneWords* d, const LaneWords* a, const LaneWords* b, const LaneWords* c) {
  Spread<double> matrices;
  spread(form, a, b, 0, matrices, [](Type, std::uint64_t bits) { return double_of(bits); });
  each_sum(form, d, c, 0, [&](MatrixPlace place, std::uint64_t bits) {
    double sum = double_of(bits);
    for (std::uint32_t k = 0; k < form.k; ++k)
      sum = std::fma(matrices.a[place.row][k], matrices.b[k][place.column], sum);
    return sum != sum ? kNan64 : bits64(sum);
  });
}

std::uint64_t whole_sum(std::int64_t sum, bool saturate) {
  if (saturate) {
    sum = std::clamp<std::int64_t>(sum, std::numeric_limits<std::int32_t>::min(),
                                   std::numeric_limits<std::int32_t>::max());
  }
  return static_cast<std::uint32_t>(sum);
}
void multiply_integers(const MmaForm& form, LaneWords* d, const LaneWords* a, const LaneWords* b, const LaneWords* c) {
  Spread<std::int32_t> matrices;
  std::int32_t products[kMostRows][kMostColumns] = {};  // 64 of 16 bits at most
  spread(form, a, b, 0, matrices, matrix_integer);
  for (std::uint32_t row = 0; row < form.m; ++row) {
    for (std::uint32_t k = 0; k < form.k; ++k) {
      for (std::uint32_t n = 0; n < kMostColumns; ++n) products[row][n] += matrices.a[row][k] * matrices.b[k][n];
    }
  }
  each_sum(form, d, c, 0, [&](MatrixPlace place, std::uint64_t bits) {
    return whole_sum(std::int64_t{static_cast<std::int32_t>(bits)} + products[place.row][place.column], form.saturate);
  });
}

// Bits, as words of 32: their elements lie in the order of the fragments' registers.
void multiply_bits(const MmaForm& form, LaneWords* d, const LaneWords* a, const LaneWords* b, const LaneWords* c) {
  std::uint32_t rows[kMostRows][8] = {};
  std::uint32_t columns[8][kMostColumns] = {};
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    for (std::uint32_t word = 0; word < form.a_words(); ++word) {
      const MatrixPlace place = place_in_a(form, lane, word * 32);
      rows[place.row][place.column / 32] = a[word][lane];
    }
    for (std::uint32_t word = 0; word < form.b_words(); ++word) {
      const MatrixPlace place = place_in_b(form, lane, word * 32);
      columns[place.row / 32][place.column] = b[word][lane];
    }
  }
  each_sum(form, d, c, 0, [&](MatrixPlace place, std::uint64_t bits) {
    auto sum = static_cast<std::uint32_t>(bits);
    for (std::uint32_t word = 0; word < form.k / 32; ++word) {
      const std::uint32_t x = rows[place.row][word];
      const std::uint32_t y = columns[word][place.column];
      sum += static_cast<std::uint32_t>(__builtin_popcount(form.bits == BitOperation::exclusive_or ? x ^ y : x & y));
    }
    return std::uint64_t{sum};
  });
}

std::array<float, 256> numbers_of_bytes(const FloatFormat& format) {
  std::array<float, 256> numbers{};
  for (std::uint32_t code = 0; code < 256; ++code) {
    const Real real = real_of(format, code);
    numbers[code] = real.kind == Real::Kind::nan
                        ? float_of(kNan32)
                        : float_of(static_cast<std::uint32_t>(code_of(kFormatF32, real, Rounding::rn)));
  }
  return numbers;
}

std::string shapes_of(MmaKind kind) {
  std::string text;
  for (const ShapeOfKind& shape : kShapes) {
    if (shape.kind != kind) continue;
    text += (text.empty() ? "m" : ", m") + std::to_string(shape.m) + "n" + std::to_string(shape.n) + "k" +
            std::to_string(shape.k);
  }
  return text;
}

}  // namespace

namespace {

void add_in_one_rounding(float factor, const float* numbers, std::uint32_t count, float* sums) {
  for (std::uint32_t i = 0; i < count; ++i) sums[i] = fused32<Rounding::rn>(factor, numbers[i], sums[i]);
}
void add_exact_products(float factor, const float* numbers, std::uint32_t count, float* sums) {
  for (std::uint32_t i = 0; i < count; ++i) sums[i] += factor * numbers[i];
}
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma"))) void add_on_host(float factor, const float* numbers, std::uint32_t count,
                                                     float* sums) {
  for (std::uint32_t i = 0; i < count; ++i) sums[i] = __builtin_fmaf(factor, numbers[i], sums[i]);
}
bool host_adds_products() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
#else
void add_on_host(float factor, const float* numbers, std::uint32_t count, float* sums) {
  add_in_one_rounding(factor, numbers, count, sums);
}
bool host_adds_products() { return false; }
#endif

}  // namespace

// Products of f16 and of 8 bits have a place in single precision; those of bf16 and tf32 may be beyond it, and the sum
// not.
void add_products_portably(Type type, float factor, const float* numbers, std::uint32_t count, float* sums) {
  if (type == Type::bf16 || type == Type::tf32) {
    add_in_one_rounding(factor, numbers, count, sums);
  } else {
    add_exact_products(factor, numbers, count, sums);
  }
}
void add_products(Type type, float factor, const float* numbers, std::uint32_t count, float* sums) {
  if (host_adds_products()) {
    add_on_host(factor, numbers, count, sums);
  } else {
    add_products_portably(type, factor, numbers, count, sums);
  }
}

std::uint32_t matrix_bits(Type type) { return named(type).bits; }

float matrix_number(Type type, std::uint32_t bits) {
  static const std::array<float, 256> e4m3 = numbers_of_bytes(kFormatE4m3);
  static const std::array<float, 256> e5m2 = numbers_of_bytes(kFormatE5m2);
  switch (type) {
    case Type::f16:
      return to_float(Half{static_cast<std::uint16_t>(bits)});
    case Type::bf16:
      return to_float(Brain{static_cast<std::uint16_t>(bits)});
    case Type::tf32:
      return float_of(bits & 0xffffe000);
    case Type::e4m3:
      return e4m3[bits & 0xff];
    case Type::e5m2:
      return e5m2[bits & 0xff];
    default:
      return float_of(bits);
  }
}

std::uint32_t MmaForm::a_words() const { return words_of(a, elements_of(*this, m, k)); }
std::uint32_t MmaForm::b_words() const { return words_of(b, elements_of(*this, k, n)); }
std::uint32_t MmaForm::c_words() const { return words_of(c, elements_of(*this, m, n)); }
std::uint32_t MmaForm::d_words() const { return words_of(d, elements_of(*this, m, n)); }

std::optional<MmaForm> find_mma_form(const std::vector<std::string>& modifiers, std::string& why) {
  MmaForm form;
  form.text = "mma";
  std::vector<std::string> layouts;
  std::vector<Type> types;
  for (const std::string& modifier : modifiers) {
    form.text += "." + modifier;
    if (modifier == "sync" || modifier == "aligned" || modifier == "popc") continue;
    if (modifier == "row" || modifier == "col") {
      layouts.push_back(modifier);
    } else if (modifier == "satfinite") {
      form.saturate = true;
    } else if (modifier == "xor" || modifier == "and") {
      form.bits = modifier == "xor" ? BitOperation::exclusive_or : BitOperation::conjunction;
    } else if (modifier == "sp" || modifier.rfind("sp::", 0) == 0) {
      why = "sparse matrices (mma." + modifier + ") are not modelled";
      return std::nullopt;
    } else if (modifier.rfind("kind::", 0) == 0 || modifier == "block_scale" || modifier.rfind("scale_vec::", 0) == 0) {
      why = "mma with ." + modifier + " is not modelled";
      return std::nullopt;
    } else if (const NamedMatrixType* const type = named(modifier)) {
      types.push_back(type->type);
    } else if (!parse_shape(modifier, form)) {
      why = "mma has no modifier ." + modifier;
      return std::nullopt;
    }
  }
  if (layouts.size() != 2 || types.size() != 4) {
    why = "mma needs a shape, .row or .col of A and of B, and the types of D, A, B and C: " + form.text;
    return std::nullopt;
  }
  form.a_by_rows = layouts[0] == "row";
  form.b_by_columns = layouts[1] == "col";
  form.d = types[0];
  form.a = types[1];
  form.b = types[2];
  form.c = types[3];
  const std::optional<MmaKind> kind = kind_of(form.a, form.b);
  if (!kind) {
    why = std::string("mma has no product of ") + named(form.a).name + " and " + named(form.b).name;
    return std::nullopt;
  }
  const bool known = std::any_of(std::begin(kShapes), std::end(kShapes), [&](const ShapeOfKind& shape) {
    return shape.kind == *kind && shape.m == form.m && shape.n == form.n && shape.k == form.k;
  });
  if (!known) {
    why = std::string("mma of ") + named(form.a).name + " has the shapes " + shapes_of(*kind) + ": " + form.text;
    return std::nullopt;
  }
  const bool of_halves = has_halves(form);
  if (!is_sum(*kind, form.c) || !is_sum(*kind, form.d) || (form.c != form.d && !of_halves)) {
    why = std::string("mma of ") + named(form.a).name + " has no sums of " + named(form.c).name + " and " +
          named(form.d).name;
    return std::nullopt;
  }
  if (!of_halves && (!form.a_by_rows || !form.b_by_columns)) {
    why = "only mma.m8n8k4 of f16 has a choice of layouts; the others are .row.col";
    return std::nullopt;
  }
  const bool of_integers = *kind == MmaKind::bytes || *kind == MmaKind::nibbles;
  if (form.saturate && !of_integers) {
    why = "mma has .satfinite of integers only";
    return std::nullopt;
  }
  if ((form.bits != BitOperation::none) != (*kind == MmaKind::bits)) {
    why = "mma of b1 has .xor.popc or .and.popc, and no other has";
    return std::nullopt;
  }
  return form;
}

std::vector<MmaForm> all_mma_forms() {
  constexpr Type kOf[] = {Type::f16, Type::bf16, Type::tf32, Type::f64, Type::s8, Type::s4, Type::e4m3, Type::b1};
  std::vector<MmaForm> forms;
  for (const ShapeOfKind& shape : kShapes) {
    MmaForm form;
    form.m = shape.m;
    form.n = shape.n;
    form.k = shape.k;
    form.a = form.b = kOf[static_cast<std::size_t>(shape.kind)];
    const Numbers numbers = numbers_of(form.a);
    form.c = form.d = numbers == Numbers::twice ? Type::f64 : numbers == Numbers::single ? Type::f32 : Type::s32;
    form.bits = shape.kind == MmaKind::bits ? BitOperation::exclusive_or : BitOperation::none;
    form.text = "mma.sync.aligned.m" + std::to_string(shape.m) + "n" + std::to_string(shape.n) + "k" +
                std::to_string(shape.k) + ".row.col." + named(form.d).name + "." + named(form.a).name + "." +
                named(form.b).name + "." + named(form.c).name;
    if (shape.kind == MmaKind::bits) form.text += ".xor.popc";
    forms.push_back(form);
  }
  return forms;
}

std::uint32_t product_of_lane(const MmaForm& form, std::uint32_t lane) { return has_halves(form) ? lane % 16 / 4 : 0; }

// Registers hold neighbours along k: lane 4g + t has, in row g, those from t on, and so in every 8th row and in every
// further part of k of four registers' length. m8n8k4 of f16 is different.
MatrixPlace place_in_a(const MmaForm& form, std::uint32_t lane, std::uint32_t i) {
  const std::uint32_t group = lane / 4;
  const std::uint32_t thread = lane % 4;
  if (has_halves(form)) {
    const std::uint32_t four = lane < 16 ? 0 : 4;
    return form.a_by_rows ? MatrixPlace{thread + four, i} : MatrixPlace{i + four, thread};
  }
  const std::uint32_t bits = matrix_bits(form.a);
  const std::uint32_t per_register = bits > 32 ? 1 : 32 / bits;
  const std::uint32_t which = i / per_register;
  const std::uint32_t rows = form.m / 8;
  return {group + 8 * (which % rows), which / rows * 4 * per_register + thread * per_register + i % per_register};
}
MatrixPlace place_in_b(const MmaForm& form, std::uint32_t lane, std::uint32_t i) {
  const std::uint32_t thread = lane % 4;
  if (has_halves(form)) {
    const std::uint32_t four = lane < 16 ? 0 : 4;
    return form.b_by_columns ? MatrixPlace{i, thread + four} : MatrixPlace{thread, i + four};
  }
  const std::uint32_t bits = matrix_bits(form.b);
  const std::uint32_t per_register = bits > 32 ? 1 : 32 / bits;
  return {i / per_register * 4 * per_register + thread * per_register + i % per_register, lane / 4};
}
namespace {
MatrixPlace place_of_sum(const MmaForm& form, Type type, std::uint32_t lane, std::uint32_t i) {
  if (has_halves(form)) {
    const std::uint32_t four = lane < 16 ? 0 : 4;
    if (type == Type::f16) return {lane % 4 + four, i};
    return {(lane & 1) + (i & 2) + four, (i & 4) + (lane & 2) + (i & 1)};
  }
  return {lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2};
}
}  // namespace
MatrixPlace place_in_c(const MmaForm& form, std::uint32_t lane, std::uint32_t i) {
  return place_of_sum(form, form.c, lane, i);
}
MatrixPlace place_in_d(const MmaForm& form, std::uint32_t lane, std::uint32_t i) {
  return place_of_sum(form, form.d, lane, i);
}

void multiply_matrices(const MmaForm& form, LaneWords* d, const LaneWords* a, const LaneWords* b, const LaneWords* c) {
  switch (numbers_of(form.a)) {
    case Numbers::single:
      // Products of m8n8k4 share no lane.
      for (std::uint32_t product = 0; product < (has_halves(form) ? 4u : 1u); ++product) {
        multiply_singles(form, d, a, b, c, product);
      }
      break;
    case Numbers::twice:
      multiply_doubles(form, d, a, b, c);
      break;
    case Numbers::integers:
      multiply_integers(form, d, a, b, c);
      break;
    case Numbers::bits:
      multiply_bits(form, d, a, b, c);
      break;
  }
}

LaneWords load_matrix(const MatrixRows& rows, bool transposed) {
  LaneWords words{};
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t along = lane % 4 * 2 + i;
      const std::uint32_t row = transposed ? along : lane / 4;
      const std::uint32_t column = transposed ? lane / 4 : along;
      const std::uint8_t* const bytes = rows.bytes[row] + 2 * column;
      words[lane] |= (bytes[0] | std::uint32_t{bytes[1]} << 8) << (16 * i);
    }
  }
  return words;
}
MatrixRows store_matrix(const LaneWords& words, bool transposed) {
  MatrixRows rows;
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const std::uint32_t along = lane % 4 * 2 + i;
      std::uint8_t* const bytes = rows.bytes[transposed ? along : lane / 4] + 2 * (transposed ? lane / 4 : along);
      bytes[0] = static_cast<std::uint8_t>(words[lane] >> (16 * i));
      bytes[1] = static_cast<std::uint8_t>(words[lane] >> (16 * i + 8));
    }
  }
  return rows;
}
LaneWords transpose_matrix(const LaneWords& words) { return load_matrix(store_matrix(words, false), true); }

}  // namespace heddle::ptx
