// Video instructions: parts of registers, then a sum or the like, then a clamp, then a second operation or a merge.
// vmad is not among them.
#include <algorithm>
#include <limits>

#include "ptx/alu_forms.h"
#include "ptx/alu_lanes.h"
#include "ptx/alu_types.h"

namespace heddle::ptx {

namespace {

enum class VideoOperation : std::uint8_t {
  add,
  subtract,
  difference,
  least,
  greatest,
  average,
  left,
  right,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
};
enum class VideoSecond : std::uint8_t { none, add, least, greatest };

// What an instruction does. width: bits of its elements: 32 of the scalar ones, 16 or 8 of the others.
struct VideoRecipe {
  VideoOperation operation;
  std::uint32_t width;
  bool d_signed;
  bool a_signed;
  bool b_signed;
  bool saturate;
  bool wraps;  // shifts: the amount is taken modulo 32, else limited to 32
  VideoSecond second;
};

// Of a part as video_part() has it.
std::uint32_t part_digits(std::uint32_t part) { return part >> 12 & 7; }
std::uint32_t part_digit(std::uint32_t part, std::uint32_t i) { return part >> (3 * i) & 7; }
bool is_of_halves(std::uint32_t part) { return (part >> 15) != 0; }

std::int64_t number_of_part(std::uint64_t bits, std::uint32_t width, bool is_signed) {
  const std::uint64_t low = bits & ((std::uint64_t{1} << width) - 1);
  const bool negative = is_signed && (low >> (width - 1) & 1) != 0;
  return static_cast<std::int64_t>(low) - (negative ? std::int64_t{1} << width : 0);
}
Int128 limited(Int128 value, std::uint32_t width, bool is_signed) {
  const Int128 least = is_signed ? -(Int128{1} << (width - 1)) : 0;
  const Int128 most = (Int128{1} << (is_signed ? width - 1 : width)) - 1;
  return std::clamp(value, least, most);
}
// A number of 32 bits shifted left has 64, and a sign.
Int128 video_result(const VideoRecipe& recipe, std::int64_t a, std::int64_t b) {
  switch (recipe.operation) {
    case VideoOperation::add:
      return a + b;
    case VideoOperation::subtract:
      return a - b;
    case VideoOperation::difference:
      return a < b ? b - a : a - b;
    case VideoOperation::least:
      return std::min(a, b);
    case VideoOperation::greatest:
      return std::max(a, b);
    case VideoOperation::average:
      return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case VideoOperation::left:
      return Int128{a} * (Int128{1} << b);
    case VideoOperation::right:
      return a >> b;
    case VideoOperation::eq:
      return a == b ? 1 : 0;
    case VideoOperation::ne:
      return a != b ? 1 : 0;
    case VideoOperation::lt:
      return a < b ? 1 : 0;
    case VideoOperation::le:
      return a <= b ? 1 : 0;
    case VideoOperation::gt:
      return a > b ? 1 : 0;
    case VideoOperation::ge:
      return a >= b ? 1 : 0;
  }
  return 0;
}

// A part of a register, or all of it.
struct RegisterPart {
  explicit RegisterPart(std::uint32_t part)
      : width(part_digits(part) == 0 ? 32
              : is_of_halves(part)   ? 16
                                     : 8),
        shift(part_digits(part) == 0 ? 0 : part_digit(part, 0) * width) {}
  std::uint32_t width;
  std::uint32_t shift;
};

[[gnu::noinline]] void run_scalar(AluOperands& operands, const VideoRecipe& recipe) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  const RegisterPart to(operands.part[0]);
  const RegisterPart of_a(operands.part[1]);
  const RegisterPart of_b(operands.part[2]);
  const bool shifts = recipe.operation == VideoOperation::left || recipe.operation == VideoOperation::right;
  each_lane(operands.lanes, [&](std::uint32_t lane) {
    const std::int64_t a = number_of_part(operands.s[0][lane] >> of_a.shift, of_a.width, recipe.a_signed);
    std::int64_t b = number_of_part(operands.s[1][lane] >> of_b.shift, of_b.width, recipe.b_signed);
    if (shifts) b = recipe.wraps ? b & 31 : std::min<std::int64_t>(b, 32);
    Int128 value = video_result(recipe, a, b);
    if (recipe.saturate) value = limited(value, to.width, recipe.d_signed);
    const std::uint32_t held = operands.s[2] == nullptr ? 0 : operands.s[2][lane];
    const std::int64_t c = number_of_part(held, 32, recipe.d_signed);
    switch (recipe.second) {
      case VideoSecond::none:
        break;
      case VideoSecond::add:
        value += c;
        break;
      case VideoSecond::least:
        value = std::min<Int128>(value, c);
        break;
      case VideoSecond::greatest:
        value = std::max<Int128>(value, c);
        break;
    }
    const auto word = static_cast<std::uint32_t>(value);
    const std::uint32_t mask = to.width == 32 ? ~0u : ((1u << to.width) - 1) << to.shift;
    d[lane] = (word << to.shift & mask) | (held & ~mask);
  });
}

// Elements of a and b together, as digits say; the last digit is that of element 0.
[[gnu::noinline]] void run_simd(AluOperands& operands, const VideoRecipe& recipe) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  const std::uint32_t count = 32 / recipe.width;
  const std::uint32_t mask_part = operands.part[0];
  each_lane(operands.lanes, [&](std::uint32_t lane) {
    const std::uint64_t both = operands.s[0][lane] | std::uint64_t{operands.s[1][lane]} << 32;
    const std::uint32_t c = operands.s[2][lane];
    std::uint32_t merged = c;
    Int128 sum = c;
    for (std::uint32_t i = 0; i < count; ++i) {
      bool taken = part_digits(mask_part) == 0;
      for (std::uint32_t j = 0; j < part_digits(mask_part); ++j) taken = taken || part_digit(mask_part, j) == i;
      if (!taken) continue;
      const std::uint32_t at_a = part_digits(operands.part[1]) == 0 ? i : part_digit(operands.part[1], i);
      const std::uint32_t at_b = part_digits(operands.part[2]) == 0 ? count + i : part_digit(operands.part[2], i);
      // Either source may give an element to either side; the side's type says how it is extended.
      const std::int64_t a = number_of_part(both >> (at_a * recipe.width), recipe.width, recipe.a_signed);
      const std::int64_t b = number_of_part(both >> (at_b * recipe.width), recipe.width, recipe.b_signed);
      Int128 value = video_result(recipe, a, b);
      if (recipe.saturate) value = limited(value, recipe.width, recipe.d_signed);
      sum += value;
      const std::uint32_t mask = ((1u << recipe.width) - 1) << (i * recipe.width);
      merged = (merged & ~mask) | (static_cast<std::uint32_t>(value) << (i * recipe.width) & mask);
    }
    d[lane] = recipe.second == VideoSecond::add ? static_cast<std::uint32_t>(sum) : merged;
  });
}

template <VideoOperation Op, std::uint32_t Width, std::uint32_t Signs, bool Sat, bool Wraps, VideoSecond Second>
void run_video(AluOperands& operands) {
  constexpr VideoRecipe kRecipe{Op, Width, (Signs & 1) != 0, (Signs & 2) != 0, (Signs & 4) != 0, Sat, Wraps, Second};
  Width == 32 ? run_scalar(operands, kRecipe) : run_simd(operands, kRecipe);
}

std::string video_types(std::uint32_t signs, bool of_d) {
  const auto one = [signs](std::uint32_t bit) {
    return (signs & bit) != 0 ? std::string(".s32") : std::string(".u32");
  };
  return (of_d ? one(1) : "") + one(2) + one(4);
}
std::string video_slots(std::uint32_t signs, const char* third) {
  const auto one = [signs](std::uint32_t bit) {
    return (signs & bit) != 0 ? std::string(" s32") : std::string(" u32");
  };
  return one(1) + " =" + one(2) + one(4) + third;
}

constexpr const char* kMaybe = " b32?";
constexpr const char* kThird = " b32";

template <VideoOperation Op, std::uint32_t Signs>
void add_scalar_video(FormList& list, const std::string& name) {
  const std::string head = name + video_types(Signs, true);
  const std::string merged = video_slots(Signs, kMaybe);
  const std::string second = video_slots(Signs, kThird);
  using S = VideoSecond;
  list.add(head, AluClass::integer, run_video<Op, 32, Signs, false, false, S::none>, merged);
  list.add(head + ".add", AluClass::integer, run_video<Op, 32, Signs, false, false, S::add>, second);
  list.add(head + ".min", AluClass::integer, run_video<Op, 32, Signs, false, false, S::least>, second);
  list.add(head + ".max", AluClass::integer, run_video<Op, 32, Signs, false, false, S::greatest>, second);
  list.add(head + ".sat", AluClass::integer, run_video<Op, 32, Signs, true, false, S::none>, merged);
  list.add(head + ".sat.add", AluClass::integer, run_video<Op, 32, Signs, true, false, S::add>, second);
  list.add(head + ".sat.min", AluClass::integer, run_video<Op, 32, Signs, true, false, S::least>, second);
  list.add(head + ".sat.max", AluClass::integer, run_video<Op, 32, Signs, true, false, S::greatest>, second);
}
template <VideoOperation Op, std::uint32_t Width, std::uint32_t Signs>
void add_simd_video(FormList& list, const std::string& name) {
  const std::string head = name + (Width == 16 ? "2" : "4") + video_types(Signs, true);
  const std::string slots = video_slots(Signs, kThird);
  list.add(head, AluClass::integer, run_video<Op, Width, Signs, false, false, VideoSecond::none>, slots);
  list.add(head + ".sat", AluClass::integer, run_video<Op, Width, Signs, true, false, VideoSecond::none>, slots);
  list.add(head + ".add", AluClass::integer, run_video<Op, Width, Signs, false, false, VideoSecond::add>, slots);
}
// vset has no type of D: its results are 0 and 1, without a sign.
template <VideoOperation Op, std::uint32_t Signs>
void add_video_sets(FormList& list, const std::string& relation) {
  const std::string types = video_types(Signs, false) + "." + relation;
  const std::string merged = video_slots(Signs, kMaybe);
  const std::string second = video_slots(Signs, kThird);
  using S = VideoSecond;
  list.add("vset" + types, AluClass::compare, run_video<Op, 32, Signs, false, false, S::none>, merged);
  list.add("vset" + types + ".add", AluClass::compare, run_video<Op, 32, Signs, false, false, S::add>, second);
  list.add("vset" + types + ".min", AluClass::compare, run_video<Op, 32, Signs, false, false, S::least>, second);
  list.add("vset" + types + ".max", AluClass::compare, run_video<Op, 32, Signs, false, false, S::greatest>, second);
  list.add("vset2" + types, AluClass::compare, run_video<Op, 16, Signs, false, false, S::none>, second);
  list.add("vset2" + types + ".add", AluClass::compare, run_video<Op, 16, Signs, false, false, S::add>, second);
  list.add("vset4" + types, AluClass::compare, run_video<Op, 8, Signs, false, false, S::none>, second);
  list.add("vset4" + types + ".add", AluClass::compare, run_video<Op, 8, Signs, false, false, S::add>, second);
}
template <VideoOperation Op, std::uint32_t Signs, bool Sat, bool Wraps>
void add_video_shift(FormList& list, const std::string& name) {
  const std::string head = name + video_types(Signs, true) + (Sat ? ".sat" : "") + (Wraps ? ".wrap" : ".clamp");
  const std::string second = video_slots(Signs, kThird);
  using S = VideoSecond;
  list.add(head, AluClass::shift, run_video<Op, 32, Signs, Sat, Wraps, S::none>, video_slots(Signs, kMaybe));
  list.add(head + ".add", AluClass::shift, run_video<Op, 32, Signs, Sat, Wraps, S::add>, second);
  list.add(head + ".min", AluClass::shift, run_video<Op, 32, Signs, Sat, Wraps, S::least>, second);
  list.add(head + ".max", AluClass::shift, run_video<Op, 32, Signs, Sat, Wraps, S::greatest>, second);
}

template <std::uint32_t Signs>
void add_video_of_types(FormList& list) {
  using V = VideoOperation;
  add_scalar_video<V::add, Signs>(list, "vadd");
  add_scalar_video<V::subtract, Signs>(list, "vsub");
  add_scalar_video<V::difference, Signs>(list, "vabsdiff");
  add_scalar_video<V::least, Signs>(list, "vmin");
  add_scalar_video<V::greatest, Signs>(list, "vmax");
  add_simd_video<V::add, 16, Signs>(list, "vadd");
  add_simd_video<V::subtract, 16, Signs>(list, "vsub");
  add_simd_video<V::average, 16, Signs>(list, "vavrg");
  add_simd_video<V::difference, 16, Signs>(list, "vabsdiff");
  add_simd_video<V::least, 16, Signs>(list, "vmin");
  add_simd_video<V::greatest, 16, Signs>(list, "vmax");
  add_simd_video<V::add, 8, Signs>(list, "vadd");
  add_simd_video<V::subtract, 8, Signs>(list, "vsub");
  add_simd_video<V::average, 8, Signs>(list, "vavrg");
  add_simd_video<V::difference, 8, Signs>(list, "vabsdiff");
  add_simd_video<V::least, 8, Signs>(list, "vmin");
  add_simd_video<V::greatest, 8, Signs>(list, "vmax");
  if constexpr ((Signs & 1) == 0) {
    add_video_sets<V::eq, Signs>(list, "eq");
    add_video_sets<V::ne, Signs>(list, "ne");
    add_video_sets<V::lt, Signs>(list, "lt");
    add_video_sets<V::le, Signs>(list, "le");
    add_video_sets<V::gt, Signs>(list, "gt");
    add_video_sets<V::ge, Signs>(list, "ge");
  }
  if constexpr ((Signs & 4) == 0) {  // amounts have no sign
    add_video_shift<V::left, Signs, false, false>(list, "vshl");
    add_video_shift<V::left, Signs, false, true>(list, "vshl");
    add_video_shift<V::left, Signs, true, false>(list, "vshl");
    add_video_shift<V::left, Signs, true, true>(list, "vshl");
    add_video_shift<V::right, Signs, false, false>(list, "vshr");
    add_video_shift<V::right, Signs, false, true>(list, "vshr");
    add_video_shift<V::right, Signs, true, false>(list, "vshr");
    add_video_shift<V::right, Signs, true, true>(list, "vshr");
  }
}

}  // namespace

std::optional<std::uint16_t> video_part(const std::string& selector) {
  if (selector.size() < 2 || selector.size() > 5 || (selector[0] != 'b' && selector[0] != 'h')) return std::nullopt;
  const auto count = static_cast<std::uint32_t>(selector.size() - 1);
  std::uint32_t digits = 0;
  for (std::size_t i = 1; i < selector.size(); ++i) {
    if (selector[i] < '0' || selector[i] > '7') return std::nullopt;
    digits = digits << 3 | static_cast<std::uint32_t>(selector[i] - '0');
  }
  return static_cast<std::uint16_t>((selector[0] == 'h' ? 0x8000u : 0u) | count << 12 | digits);
}

void add_video_forms(FormList& list) {
  add_video_of_types<0>(list);
  add_video_of_types<1>(list);
  add_video_of_types<2>(list);
  add_video_of_types<3>(list);
  add_video_of_types<4>(list);
  add_video_of_types<5>(list);
  add_video_of_types<6>(list);
  add_video_of_types<7>(list);
}

}  // namespace heddle::ptx
