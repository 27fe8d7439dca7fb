// Sums of several words: with the carry of the word before. CC.CF is a mask of lanes; of
// subtractions it is the complement of the borrow, which is the carry of a + ~b + 1: code that nvcc makes reads it by
// addc.
#include "ptx/alu_forms.h"
#include "ptx/alu_lanes.h"
#include "ptx/alu_types.h"

namespace heddle::ptx {

namespace {

// Op: (carry in, sources …) to the sum and the carry out.
template <class T>
struct Carried {
  T value = 0;
  bool carry = false;
};
template <class T>
Carried<T> sum(T a, T b, bool carry) {
  const T partial = static_cast<T>(a + b);
  const T total = static_cast<T>(partial + (carry ? 1 : 0));
  return {total, partial < a || total < partial};
}

enum class Operation : std::uint8_t { add, subtract, multiply_low, multiply_high };

// T: as the type has it, for the high half of products.
template <class T, Operation What, bool Reads, bool Writes>
void carried(AluOperands& operands) {
  using U = std::make_unsigned_t<T>;
  std::uint32_t* const d = operands.d[0];
  const std::uint32_t* const s[] = {operands.s[0], operands.s[1], operands.s[2]};
  arch::LaneMask out = operands.carry;
  each_lane(operands.lanes, [=, &out, &operands](std::uint32_t lane) {
    const bool in = Reads && (operands.carry >> lane & 1) != 0;
    const auto a = read_lane<U>(s[0], lane);
    const auto b = read_lane<U>(s[1], lane);
    Carried<U> result;
    switch (What) {
      case Operation::add:
        result = sum<U>(a, b, in);
        break;
      case Operation::subtract:
        result = sum<U>(a, static_cast<U>(~b), !Reads || in);
        break;
      case Operation::multiply_low:
        result = sum<U>(low_product(a, b), read_lane<U>(s[2], lane), in);
        break;
      case Operation::multiply_high:
        result =
            sum<U>(static_cast<U>(high_product(static_cast<T>(a), static_cast<T>(b))), read_lane<U>(s[2], lane), in);
        break;
    }
    if (d != nullptr) write_lane(d, lane, result.value);
    out = (out & ~kLaneBit[lane]) | (result.carry ? kLaneBit[lane] : 0);
  });
  if (Writes) operands.carry = out;
}

template <class T, Operation What>
void add_carried(FormList& list, const std::string& first, const std::string& next, const std::string& part) {
  const std::string type = kTypeName<T>;
  const bool product = What == Operation::multiply_low || What == Operation::multiply_high;
  const std::string slots = type + " = " + type + " " + type + (product ? " " + type : "");
  const AluClass group = product ? AluClass::multiply : AluClass::integer;
  list.add(first + part + ".cc." + type, group, carried<T, What, false, true>, slots).writes_carry = true;
  AluForm& both = list.add(next + part + ".cc." + type, group, carried<T, What, true, true>, slots);
  both.reads_carry = true;
  both.writes_carry = true;
  list.add(next + part + "." + type, group, carried<T, What, true, false>, slots).reads_carry = true;
}
template <class T>
void add_carries(FormList& list) {
  add_carried<T, Operation::add>(list, "add", "addc", "");
  add_carried<T, Operation::subtract>(list, "sub", "subc", "");
  add_carried<T, Operation::multiply_low>(list, "mad", "madc", ".lo");
  add_carried<T, Operation::multiply_high>(list, "mad", "madc", ".hi");
}

}  // namespace

void add_carry_forms(FormList& list) {
  add_carries<std::uint32_t>(list);
  add_carries<std::int32_t>(list);
  add_carries<std::uint64_t>(list);
  add_carries<std::int64_t>(list);
}

}  // namespace heddle::ptx
