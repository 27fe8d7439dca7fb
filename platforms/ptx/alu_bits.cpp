// Logic, shifts, and permutations of bytes.
#include <algorithm>

#include "ptx/alu_forms.h"
#include "ptx/alu_lanes.h"

namespace heddle::ptx {

namespace {

template <class T>
T both(T a, T b) {
  return a & b;
}
template <class T>
T either(T a, T b) {
  return a | b;
}
template <class T>
T one_of(T a, T b) {
  return a ^ b;
}
template <class T>
T complement(T a) {
  return static_cast<T>(~a);
}
template <class T>
T is_zero(T a) {
  return a == 0 ? 1 : 0;
}

template <class T>
T shift_left(T a, std::uint32_t b) {
  return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << b);
}
// Of numbers with a sign, bits that come in are the sign's.
template <class T>
T shift_right(T a, std::uint32_t b) {
  constexpr std::uint32_t kTop = 8 * sizeof(T) - 1;
  if (std::is_signed_v<T>) return static_cast<T>(a >> std::min(b, kTop));
  return b > kTop ? T{0} : static_cast<T>(a >> b);
}

// The words are b (high) and a (low).
template <bool Clamp>
std::uint32_t funnel_left(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint32_t shift = Clamp ? std::min(c, 32u) : c & 31;
  return static_cast<std::uint32_t>((std::uint64_t{b} << 32 | a) << shift >> 32);
}
template <bool Clamp>
std::uint32_t funnel_right(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint32_t shift = Clamp ? std::min(c, 32u) : c & 31;
  return static_cast<std::uint32_t>((std::uint64_t{b} << 32 | a) >> shift);
}

// Byte `selector` (0 to 7) of the two words, b's behind a's.
std::uint32_t selected(std::uint64_t bytes, std::uint32_t selector) {
  return static_cast<std::uint32_t>(bytes >> (8 * (selector & 7))) & 0xff;
}
std::uint32_t permute(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  std::uint32_t d = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t selector = c >> (4 * i) & 0xf;
    std::uint32_t byte = selected(bytes, selector);
    if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    d |= byte << (8 * i);
  }
  return d;
}
// Modes: which byte goes to byte `i`, for c modulo 4.
enum class Permutation : std::uint8_t { f4e, b4e, rc8, ecl, ecr, rc16 };
template <Permutation Mode>
std::uint32_t permute_as(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  const std::uint32_t n = c & 3;
  std::uint32_t d = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::uint32_t from = 0;
    switch (Mode) {
      case Permutation::f4e:
        from = n + i;
        break;
      case Permutation::b4e:
        from = n - i;
        break;
      case Permutation::rc8:
        from = n;
        break;
      case Permutation::ecl:
        from = std::max(n, i);
        break;
      case Permutation::ecr:
        from = std::min(n, i);
        break;
      case Permutation::rc16:
        from = (n & 1) * 2 + (i & 1);
        break;
    }
    d |= selected(bytes, from) << (8 * i);
  }
  return d;
}

// Bit 4·a + 2·b + c of the table, which is a constant and so the same in all lanes.
class LookUp {
 public:
  explicit LookUp(std::uint32_t table) {
    for (std::uint32_t i = 0; i < 8; ++i) entries_[i] = 0u - (table >> i & 1);
  }
  std::uint32_t operator()(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
    return choose(a, choose(b, choose(c, entries_[7], entries_[6]), choose(c, entries_[5], entries_[4])),
                  choose(b, choose(c, entries_[3], entries_[2]), choose(c, entries_[1], entries_[0])));
  }

 private:
  static std::uint32_t choose(std::uint32_t which, std::uint32_t one, std::uint32_t zero) {
    return zero ^ (which & (one ^ zero));
  }
  std::uint32_t entries_[8] = {};
};
arch::LaneMask look_up_words(const AluOperands& operands, std::uint32_t* d) {
  const std::uint32_t* const a = operands.s[0];
  const std::uint32_t* const b = operands.s[1];
  const std::uint32_t* const c = operands.s[2];
  const LookUp look_up(operands.s[3][0]);
  std::uint8_t flags[kLanes] = {};
  each_lane(operands.lanes, [=, &flags](std::uint32_t lane) {
    const std::uint32_t word = look_up(a[lane], b[lane], c[lane]);
    if (d != nullptr) d[lane] = word;
    flags[lane] = word != 0 ? 1 : 0;
  });
  return mask_of(flags);
}
void look_up_word(AluOperands& operands) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  const std::uint32_t* const a = operands.s[0];
  const std::uint32_t* const b = operands.s[1];
  const std::uint32_t* const c = operands.s[2];
  const LookUp look_up(operands.s[3][0]);
  each_lane(operands.lanes, [=](std::uint32_t lane) { d[lane] = look_up(a[lane], b[lane], c[lane]); });
}
// lop3.or.b32 d|p, a, b, c, table, q
template <bool And>
void look_up_and_test(AluOperands& operands) {
  const arch::LaneMask found = look_up_words(operands, operands.d[0]);
  operands.p_out[0] = (And ? found & operands.p_in[0] : found | operands.p_in[0]) & operands.lanes;
}

void predicate_and(AluOperands& o) { o.p_out[0] = o.p_in[0] & o.p_in[1] & o.lanes; }
void predicate_or(AluOperands& o) { o.p_out[0] = (o.p_in[0] | o.p_in[1]) & o.lanes; }
void predicate_xor(AluOperands& o) { o.p_out[0] = (o.p_in[0] ^ o.p_in[1]) & o.lanes; }
void predicate_not(AluOperands& o) { o.p_out[0] = ~o.p_in[0] & o.lanes; }

template <class T>
void add_logic(FormList& list) {
  const std::string width = std::to_string(8 * sizeof(T));
  const std::string type = "b" + width;
  const std::string one = type + " = " + type;
  const std::string two = one + " " + type;
  list.add("and." + type, AluClass::logic, kLanesOf<both<T>>, two);
  list.add("or." + type, AluClass::logic, kLanesOf<either<T>>, two);
  list.add("xor." + type, AluClass::logic, kLanesOf<one_of<T>>, two);
  list.add("not." + type, AluClass::logic, kLanesOf<complement<T>>, one);
  list.add("cnot." + type, AluClass::logic, kLanesOf<is_zero<T>>, one);
  list.add("shl." + type, AluClass::shift, kLanesOf<shift_left<T>>, one + " u32");
  list.add("shr." + type, AluClass::shift, kLanesOf<shift_right<T>>, one + " u32");
  list.add("shr.u" + width, AluClass::shift, kLanesOf<shift_right<T>>, "u" + width + " = u" + width + " u32");
  list.add("shr.s" + width, AluClass::shift, kLanesOf<shift_right<std::make_signed_t<T>>>,
           "s" + width + " = s" + width + " u32");
}

}  // namespace

void add_bit_forms(FormList& list) {
  add_logic<std::uint16_t>(list);
  add_logic<std::uint32_t>(list);
  add_logic<std::uint64_t>(list);
  list.add("and.pred", AluClass::logic, predicate_and, "pred = pred pred");
  list.add("or.pred", AluClass::logic, predicate_or, "pred = pred pred");
  list.add("xor.pred", AluClass::logic, predicate_xor, "pred = pred pred");
  list.add("not.pred", AluClass::logic, predicate_not, "pred = pred");
  list.add("shf.l.clamp.b32", AluClass::shift, kLanesOf<funnel_left<true>>, "b32 = b32 b32 u32");
  list.add("shf.l.wrap.b32", AluClass::shift, kLanesOf<funnel_left<false>>, "b32 = b32 b32 u32");
  list.add("shf.r.clamp.b32", AluClass::shift, kLanesOf<funnel_right<true>>, "b32 = b32 b32 u32");
  list.add("shf.r.wrap.b32", AluClass::shift, kLanesOf<funnel_right<false>>, "b32 = b32 b32 u32");
  list.add("prmt.b32", AluClass::permute, kLanesOf<permute>, "b32 = b32 b32 b32");
  list.add("prmt.b32.f4e", AluClass::permute, kLanesOf<permute_as<Permutation::f4e>>, "b32 = b32 b32 b32");
  list.add("prmt.b32.b4e", AluClass::permute, kLanesOf<permute_as<Permutation::b4e>>, "b32 = b32 b32 b32");
  list.add("prmt.b32.rc8", AluClass::permute, kLanesOf<permute_as<Permutation::rc8>>, "b32 = b32 b32 b32");
  list.add("prmt.b32.ecl", AluClass::permute, kLanesOf<permute_as<Permutation::ecl>>, "b32 = b32 b32 b32");
  list.add("prmt.b32.ecr", AluClass::permute, kLanesOf<permute_as<Permutation::ecr>>, "b32 = b32 b32 b32");
  list.add("prmt.b32.rc16", AluClass::permute, kLanesOf<permute_as<Permutation::rc16>>, "b32 = b32 b32 b32");
  list.add("lop3.b32", AluClass::logic, look_up_word, "b32 = b32 b32 b32 u32");
  list.add("lop3.or.b32", AluClass::logic, look_up_and_test<false>, "b32 pred = b32 b32 b32 u32 pred");
  list.add("lop3.and.b32", AluClass::logic, look_up_and_test<true>, "b32 pred = b32 b32 b32 u32 pred");
}

}  // namespace heddle::ptx
