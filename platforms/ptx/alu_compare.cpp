// Comparisons: setp, set, testp.
#include "ptx/alu_forms.h"
#include "ptx/alu_half.h"
#include "ptx/alu_lanes.h"
#include "ptx/alu_real.h"
#include "ptx/alu_types.h"

namespace heddle::ptx {

namespace {

enum class Relation : std::uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <Relation R, class T>
bool holds(T a, T b) {
  switch (R) {
    case Relation::eq:
      return a == b;
    case Relation::ne:
      return a < b || a > b;  // false with a NaN
    case Relation::lt:
      return a < b;
    case Relation::le:
      return a <= b;
    case Relation::gt:
      return a > b;
    case Relation::ge:
      return a >= b;
    case Relation::equ:
      return !(a < b || a > b);
    case Relation::neu:
      return !(a == b);
    case Relation::ltu:
      return !(a >= b);
    case Relation::leu:
      return !(a > b);
    case Relation::gtu:
      return !(a <= b);
    case Relation::geu:
      return !(a < b);
    case Relation::num:
      return a == a && b == b;
    case Relation::nan:
      return a != a || b != b;
  }
  return false;
}
template <Relation R, bool Ftz>
bool holds_single(float a, float b) {
  return holds<R>(flushed<Ftz>(a), flushed<Ftz>(b));
}
template <Relation R, class Narrow, bool Ftz>
bool holds_narrow(Narrow a, Narrow b) {
  return holds<R>(to_float(flushed<Ftz>(a)), to_float(flushed<Ftz>(b)));
}
template <Relation R, class Narrow, bool Ftz>
bool holds_low(std::uint32_t a, std::uint32_t b) {
  return holds_narrow<R, Narrow, Ftz>(low_of<Narrow>(a), low_of<Narrow>(b));
}
template <Relation R, class Narrow, bool Ftz>
bool holds_high(std::uint32_t a, std::uint32_t b) {
  return holds_narrow<R, Narrow, Ftz>(high_of<Narrow>(a), high_of<Narrow>(b));
}

// With what the outcome is combined.
enum class Combine : std::uint8_t { none, with_and, with_or, with_xor };
constexpr Combine kCombines[] = {Combine::none, Combine::with_and, Combine::with_or, Combine::with_xor};

using Compare = arch::LaneMask (*)(const AluOperands&);

template <Combine How>
arch::LaneMask combined(arch::LaneMask found, const AluOperands& operands) {
  const arch::LaneMask other = operands.p_in[0];
  const arch::LaneMask all = How == Combine::with_and   ? found & other
                             : How == Combine::with_or  ? found | other
                             : How == Combine::with_xor ? found ^ other
                                                        : found;
  return all & operands.lanes;
}
// p = (a ? b) op c; q = !(a ? b) op c
template <Compare Found, Combine How>
void set_predicates(AluOperands& operands) {
  const arch::LaneMask found = Found(operands);
  operands.p_out[0] = combined<How>(found, operands);
  operands.p_out[1] = combined<How>(~found, operands);
}
// Of packed halves: p of the low ones, q of the high ones.
template <Compare Low, Compare High, Combine How>
void set_pair(AluOperands& operands) {
  operands.p_out[0] = combined<How>(Low(operands), operands);
  operands.p_out[1] = combined<How>(High(operands), operands);
}
// True as a number: all ones, or 1.0.
template <std::uint32_t True>
[[gnu::noinline]] void fill(const AluOperands& operands, arch::LaneMask found) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  each_lane(operands.lanes, [=](std::uint32_t lane) { d[lane] = (found & kLaneBit[lane]) != 0 ? True : 0; });
}
template <std::uint32_t True>
[[gnu::noinline]] void fill_halves(const AluOperands& operands, arch::LaneMask low, arch::LaneMask high) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  each_lane(operands.lanes, [=](std::uint32_t lane) {
    d[lane] = ((low & kLaneBit[lane]) != 0 ? True : 0) | ((high & kLaneBit[lane]) != 0 ? True << 16 : 0);
  });
}
template <Compare Found, Combine How, std::uint32_t True>
void set_number(AluOperands& operands) {
  fill<True>(operands, combined<How>(Found(operands), operands));
}
template <Compare Low, Compare High, Combine How, std::uint32_t True>
void set_numbers(AluOperands& operands) {
  fill_halves<True>(operands, combined<How>(Low(operands), operands), combined<How>(High(operands), operands));
}

const char* name_of(Combine how) {
  switch (how) {
    case Combine::none:
      break;
    case Combine::with_and:
      return ".and";
    case Combine::with_or:
      return ".or";
    case Combine::with_xor:
      return ".xor";
  }
  return "";
}

// What a comparison of two numbers is, in words: "lt", types "u32", ".ftz" or nothing.
struct Comparison {
  std::string relation;
  std::string type;
  std::string ftz;
  std::string head(const char* opcode, Combine how) const {
    return std::string(opcode) + "." + relation + name_of(how) + ftz;
  }
  std::string slots(const std::string& destinations, Combine how) const {
    return destinations + " = " + type + " " + type + (how == Combine::none ? "" : " pred");
  }
};

// What a comparison gives: predicates, or true as a number.
struct Outcomes {
  AluFunction predicates;
  AluFunction ones32;
  AluFunction ones16;
  AluFunction f32;
  AluFunction f16;
  AluFunction bf16;

  AluFunction of(const std::string& number) const {
    if (number == "f32") return f32;
    if (number == "f16") return f16;
    if (number == "bf16") return bf16;
    return number == "u16" || number == "s16" ? ones16 : ones32;
  }
};
template <Compare Found, Combine How>
constexpr Outcomes kOutcomes = {set_predicates<Found, How>,     set_number<Found, How, 0xffffffff>,
                                set_number<Found, How, 0xffff>, set_number<Found, How, 0x3f800000>,
                                set_number<Found, How, 0x3c00>, set_number<Found, How, 0x3f80>};
template <Compare Found>
constexpr Outcomes kAllOutcomes[] = {kOutcomes<Found, Combine::none>, kOutcomes<Found, Combine::with_and>,
                                     kOutcomes<Found, Combine::with_or>, kOutcomes<Found, Combine::with_xor>};

// outcomes: in the order of kCombines.
void add_comparison(FormList& list, const Outcomes* outcomes, const Comparison& of,
                    const std::vector<const char*>& numbers) {
  for (const Combine how : kCombines) {
    list.add(of.head("setp", how) + "." + of.type, AluClass::compare, outcomes->predicates,
             of.slots("pred pred?", how));
    for (const std::string number : numbers) {
      list.add(of.head("set", how) + "." + number + "." + of.type, AluClass::compare, outcomes->of(number),
               of.slots(number, how));
    }
    ++outcomes;
  }
}

struct PairOutcomes {
  AluFunction predicates;
  AluFunction halves;
};
template <Compare Low, Compare High, std::uint32_t True, Combine How>
constexpr PairOutcomes kPairOutcomes = {set_pair<Low, High, How>, set_numbers<Low, High, How, True>};
template <Compare Low, Compare High, std::uint32_t True>
constexpr PairOutcomes kAllPairOutcomes[] = {
    kPairOutcomes<Low, High, True, Combine::none>, kPairOutcomes<Low, High, True, Combine::with_and>,
    kPairOutcomes<Low, High, True, Combine::with_or>, kPairOutcomes<Low, High, True, Combine::with_xor>};
void add_pairs(FormList& list, const PairOutcomes* outcomes, const Comparison& of) {
  for (const Combine how : kCombines) {
    list.add(of.head("setp", how) + "." + of.type, AluClass::compare, outcomes->predicates, of.slots("pred pred", how));
    list.add(of.head("set", how) + "." + of.type + "." + of.type, AluClass::compare, outcomes->halves,
             of.slots(of.type, how));
    ++outcomes;
  }
}

const std::vector<const char*> kNumbers32 = {"u32", "s32", "f32"};
const std::vector<const char*> kNumbers16 = {"f16", "u16", "s16", "u32", "s32"};
const std::vector<const char*> kNumbersBrain = {"bf16", "u16", "s16", "u32", "s32"};

template <Relation R, class T>
void add_integers(FormList& list, const char* relation) {
  add_comparison(list, kAllOutcomes<&Tested<holds<R, T>>::run>, {relation, kTypeName<T>, ""}, kNumbers32);
}
template <Relation R, class T>
void add_bits(FormList& list, const char* relation) {
  add_comparison(list, kAllOutcomes<&Tested<holds<R, T>>::run>, {relation, "b" + std::to_string(8 * sizeof(T)), ""},
                 kNumbers32);
}
template <Relation R>
void add_unsigned(FormList& list, const char* relation) {
  add_integers<R, std::uint16_t>(list, relation);
  add_integers<R, std::uint32_t>(list, relation);
  add_integers<R, std::uint64_t>(list, relation);
}
template <Relation R>
void add_order(FormList& list, const char* relation) {
  add_unsigned<R>(list, relation);
  add_integers<R, std::int16_t>(list, relation);
  add_integers<R, std::int32_t>(list, relation);
  add_integers<R, std::int64_t>(list, relation);
}
template <Relation R>
void add_equality(FormList& list, const char* relation) {
  add_order<R>(list, relation);
  add_bits<R, std::uint16_t>(list, relation);
  add_bits<R, std::uint32_t>(list, relation);
  add_bits<R, std::uint64_t>(list, relation);
}

template <Relation R, class Narrow, bool Ftz>
void add_narrow(FormList& list, const char* relation, const std::string& type) {
  const bool brain = std::is_same_v<Narrow, Brain>;
  const std::string ftz = Ftz ? ".ftz" : "";
  add_comparison(list, kAllOutcomes<&Tested<holds_narrow<R, Narrow, Ftz>>::run>, {relation, type, ftz},
                 brain ? kNumbersBrain : kNumbers16);
  constexpr Compare kLow = &Tested<holds_low<R, Narrow, Ftz>>::run;
  constexpr Compare kHigh = &Tested<holds_high<R, Narrow, Ftz>>::run;
  constexpr std::uint32_t kTrue = std::is_same_v<Narrow, Brain> ? 0x3f80 : 0x3c00;
  add_pairs(list, kAllPairOutcomes<kLow, kHigh, kTrue>, {relation, type + "x2", ftz});
}
template <Relation R>
void add_reals(FormList& list, const char* relation) {
  add_comparison(list, kAllOutcomes<&Tested<holds_single<R, false>>::run>, {relation, "f32", ""}, kNumbers32);
  add_comparison(list, kAllOutcomes<&Tested<holds_single<R, true>>::run>, {relation, "f32", ".ftz"}, kNumbers32);
  add_comparison(list, kAllOutcomes<&Tested<holds<R, double>>::run>, {relation, "f64", ""}, kNumbers32);
  add_narrow<R, Half, false>(list, relation, "f16");
  add_narrow<R, Half, true>(list, relation, "f16");
  add_narrow<R, Brain, false>(list, relation, "bf16");
}

// -- testp ------------------------------------------------------------------------------------------------------------

enum class RealKind : std::uint8_t { finite, infinite, number, not_a_number, normal, subnormal };
template <RealKind What, class T>
bool is(T value) {
  constexpr int kFraction = sizeof(T) == 4 ? 23 : 52;
  using U = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  constexpr U kInfinity = sizeof(T) == 4 ? U{0xff} << kFraction : static_cast<U>(U{0x7ff} << kFraction);
  const U magnitude = bit_cast<U>(value) & static_cast<U>(~U{0} >> 1);
  switch (What) {
    case RealKind::finite:
      return magnitude < kInfinity;
    case RealKind::infinite:
      return magnitude == kInfinity;
    case RealKind::number:
      return magnitude <= kInfinity;
    case RealKind::not_a_number:
      return magnitude > kInfinity;
    case RealKind::normal:
      return magnitude < kInfinity && magnitude >> kFraction != 0;
    case RealKind::subnormal:
      return magnitude != 0 && magnitude >> kFraction == 0;
  }
  return false;
}
template <auto Test>
void test(AluOperands& operands) {
  operands.p_out[0] = Tested<Test>::run(operands);
}
template <RealKind What>
void add_test(FormList& list, const std::string& name) {
  list.add("testp." + name + ".f32", AluClass::compare, test<is<What, float>>, "pred = f32");
  list.add("testp." + name + ".f64", AluClass::compare, test<is<What, double>>, "pred = f64");
}

}  // namespace

void add_compare_forms(FormList& list) {
  add_equality<Relation::eq>(list, "eq");
  add_equality<Relation::ne>(list, "ne");
  add_order<Relation::lt>(list, "lt");
  add_order<Relation::le>(list, "le");
  add_order<Relation::gt>(list, "gt");
  add_order<Relation::ge>(list, "ge");
  add_unsigned<Relation::lt>(list, "lo");
  add_unsigned<Relation::le>(list, "ls");
  add_unsigned<Relation::gt>(list, "hi");
  add_unsigned<Relation::ge>(list, "hs");
  add_reals<Relation::eq>(list, "eq");
  add_reals<Relation::ne>(list, "ne");
  add_reals<Relation::lt>(list, "lt");
  add_reals<Relation::le>(list, "le");
  add_reals<Relation::gt>(list, "gt");
  add_reals<Relation::ge>(list, "ge");
  add_reals<Relation::equ>(list, "equ");
  add_reals<Relation::neu>(list, "neu");
  add_reals<Relation::ltu>(list, "ltu");
  add_reals<Relation::leu>(list, "leu");
  add_reals<Relation::gtu>(list, "gtu");
  add_reals<Relation::geu>(list, "geu");
  add_reals<Relation::num>(list, "num");
  add_reals<Relation::nan>(list, "nan");
  add_test<RealKind::finite>(list, "finite");
  add_test<RealKind::infinite>(list, "infinite");
  add_test<RealKind::number>(list, "number");
  add_test<RealKind::not_a_number>(list, "notanumber");
  add_test<RealKind::normal>(list, "normal");
  add_test<RealKind::subnormal>(list, "subnormal");
}

}  // namespace heddle::ptx
