// Moves, vectors into registers and back, and choices between two registers.
#include "ptx/alu_forms.h"
#include "ptx/alu_lanes.h"
#include "ptx/alu_real.h"

namespace heddle::ptx {

namespace {

template <class T>
T same(T a) {
  return a;
}
void move_predicate(AluOperands& o) { o.p_out[0] = o.p_in[0] & o.lanes; }

// Elements of `Bits` bits, the first one lowest, each in planes of its own.
template <std::uint32_t Elements, std::uint32_t Bits>
void pack(AluOperands& operands) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  const std::uint32_t* const s = operands.s[0];
  each_lane(operands.lanes, [d, s](std::uint32_t lane) {
    constexpr std::uint32_t kWords = (Elements * Bits + 31) / 32;
    std::uint32_t words[kWords] = {};
    if constexpr (Bits >= 32) {
      for (std::uint32_t i = 0; i < kWords; ++i) words[i] = s[i * kLanes + lane];
    } else {
      for (std::uint32_t i = 0; i < Elements; ++i) {
        words[i * Bits / 32] |= (s[i * kLanes + lane] & ((1u << (Bits & 31)) - 1)) << (i * Bits % 32);
      }
    }
    for (std::uint32_t i = 0; i < kWords; ++i) d[i * kLanes + lane] = words[i];
  });
}
template <std::uint32_t Elements, std::uint32_t Bits>
void unpack(AluOperands& operands) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  const std::uint32_t* const s = operands.s[0];
  each_lane(operands.lanes, [d, s](std::uint32_t lane) {
    constexpr std::uint32_t kWords = (Elements * Bits + 31) / 32;
    std::uint32_t words[kWords];
    for (std::uint32_t i = 0; i < kWords; ++i) words[i] = s[i * kLanes + lane];
    if constexpr (Bits >= 32) {
      for (std::uint32_t i = 0; i < kWords; ++i) d[i * kLanes + lane] = words[i];
    } else {
      for (std::uint32_t i = 0; i < Elements; ++i) {
        d[i * kLanes + lane] = words[i * Bits / 32] >> (i * Bits % 32) & ((1u << (Bits & 31)) - 1);
      }
    }
  });
}
template <std::uint32_t Elements, std::uint32_t Bits>
void add_vector_moves(FormList& list) {
  const std::string whole = "b" + std::to_string(Elements * Bits);
  const std::string vector = "b" + std::to_string(Bits) + "*" + std::to_string(Elements);
  const std::string count = std::to_string(Elements);
  list.add("mov." + whole + ".pack" + count, AluClass::move, pack<Elements, Bits>, whole + " = " + vector);
  list.add("mov." + whole + ".unpack" + count, AluClass::move, unpack<Elements, Bits>, vector + " = " + whole);
}

template <class T>
void select_by_predicate(AluOperands& operands) {
  std::uint32_t* const d = operands.d[0];
  if (d == nullptr) return;
  const std::uint32_t* const a = operands.s[0];
  const std::uint32_t* const b = operands.s[1];
  const arch::LaneMask chosen = operands.p_in[0];
  each_lane(operands.lanes, [=](std::uint32_t lane) {
    const std::uint32_t all = (chosen & kLaneBit[lane]) != 0 ? ~0u : 0;
    for (std::uint32_t word = 0; word < (sizeof(T) + 3) / 4; ++word) {
      const std::uint32_t at = word * kLanes + lane;
      const std::uint32_t value = (a[at] & all) | (b[at] & ~all);
      d[at] = sizeof(T) == 2 ? value & 0xffff : value;
    }
  });
}
template <class T>
T select_by_sign(T a, T b, std::int32_t c) {
  return c >= 0 ? a : b;
}
template <class T, bool Ftz>
T select_by_float(T a, T b, float c) {
  return flushed<Ftz>(c) >= 0 ? a : b;
}

template <class T>
void add_moves(FormList& list, const std::string& kinds) {
  for (const char kind : kinds) {
    const std::string type = std::string(1, kind) + std::to_string(8 * sizeof(T));
    const std::string one = type + " = " + type;
    list.add("mov." + type, AluClass::move, kLanesOf<same<T>>, one);
    list.add("selp." + type, AluClass::logic, select_by_predicate<T>, one + " " + type + " pred");
    list.add("slct." + type + ".s32", AluClass::compare, kLanesOf<select_by_sign<T>>, one + " " + type + " s32");
    list.add("slct." + type + ".f32", AluClass::compare, kLanesOf<select_by_float<T, false>>,
             one + " " + type + " f32");
    list.add("slct.ftz." + type + ".f32", AluClass::compare, kLanesOf<select_by_float<T, true>>,
             one + " " + type + " f32");
  }
}

}  // namespace

void add_move_forms(FormList& list) {
  list.add("mov.pred", AluClass::move, move_predicate, "pred = pred");
  add_moves<std::uint16_t>(list, "bus");
  add_moves<std::uint32_t>(list, "busf");
  add_moves<std::uint64_t>(list, "busf");
  list.add("mov.b128", AluClass::move, kLanesOf<same<Wide>>, "b128 = b128");
  add_vector_moves<2, 8>(list);
  add_vector_moves<4, 8>(list);
  add_vector_moves<2, 16>(list);
  add_vector_moves<4, 16>(list);
  add_vector_moves<2, 32>(list);
  add_vector_moves<2, 64>(list);
}

}  // namespace heddle::ptx
