#include "ptx/timing.h"

#include <algorithm>

namespace heddle::ptx {
namespace {

bool has(const AluForm& form, const char* part) { return form.text.find(part) != std::string::npos; }

std::uint32_t widest(const AluForm& form) {
  std::uint32_t bytes = 4;
  for (const OperandSlot& slot : form.destinations) {
    if (slot.kind == OperandKind::value) bytes = std::max(bytes, bytes_of(slot.type));
  }
  for (const OperandSlot& slot : form.sources) {
    if (slot.kind == OperandKind::value) bytes = std::max(bytes, bytes_of(slot.type));
  }
  return bytes;
}

// Products of 32 x 32 bits that the result is made of.
std::uint16_t products(const AluForm& form, std::uint32_t bytes) {
  if (bytes < 8 || has(form, ".wide")) return 1;
  return has(form, ".hi") ? 4 : 3;
}

bool divides(const AluForm& form) {
  const std::string opcode = form.text.substr(0, form.text.find('.'));
  const bool exact = has(form, ".rn") || has(form, ".rz") || has(form, ".rm") || has(form, ".rp");
  return opcode == "div" || opcode == "rem" || ((opcode == "sqrt" || opcode == "rcp") && exact);
}

}  // namespace

AluCost cost_of(const AluForm& form) {
  using arch::Unit;
  const std::uint32_t bytes = widest(form);
  const auto words = static_cast<std::uint16_t>(bytes / 4);
  if (divides(form) && !has(form, ".approx") && !has(form, ".full")) {
    if (has(form, ".f64")) return {Unit::fp64, kDivideF64, false};
    if (has(form, ".f32")) return {Unit::fp32, kDivideF32, false};
    return {Unit::int32, bytes >= 8 ? kDivide64 : kDivide32, false};
  }
  switch (form.group) {
    case AluClass::move:
      return {Unit::none, 1, true};
    case AluClass::integer:
    case AluClass::logic:
    case AluClass::shift:
    case AluClass::compare:
    case AluClass::permute:
      return {Unit::int32, words, false};
    case AluClass::multiply:
      return {Unit::int32, products(form, bytes), false};
    case AluClass::dot:
      return {Unit::int32, 1, false};
    case AluClass::fp32:
      return {Unit::fp32, words, false};
    case AluClass::half:
      return {Unit::fp32, 1, false};
    case AluClass::fp64:
      return {Unit::fp64, 1, false};
    case AluClass::special:
      return {Unit::sfu, 1, false};
    case AluClass::convert:
      return {Unit::int32, 1, false};
    case AluClass::convert_wide:
      return {Unit::sfu, 1, false};
  }
  return {};
}

// Elements of 16 bits at 1024 flops per cycle and partition, the default of gpu.sm.issue.tensor_flops; narrower ones
// faster and wider ones slower by their width, but numbers of 64 bits by 16, as H100's peaks have it.
std::uint16_t matrix_cost(const MmaForm& form) {
  constexpr std::uint64_t kFlops = 1024;
  const std::uint64_t flops = std::uint64_t{2} * form.m * form.n * form.k;
  const std::uint32_t bits = matrix_bits(form.a);
  const std::uint64_t scaled = bits == 64 ? flops * 16 : flops * bits / 16;
  return static_cast<std::uint16_t>(std::max<std::uint64_t>(1, (scaled + kFlops - 1) / kFlops));
}

std::uint32_t expected_latency(const ResolvedInstruction& instruction, const std::vector<AccessForm>& accesses) {
  if (instruction.free) return 0;
  switch (instruction.action) {
    case Action::access:
      return accesses[instruction.target].code == arch::OpCode::store ? 1 : kExpectedAccess;
    case Action::special:
    case Action::machine:
      return kExpectedSpecial;
    default:
      break;
  }
  switch (instruction.unit) {
    case arch::Unit::fp64:
      return 8U + instruction.count;
    case arch::Unit::sfu:
      return 12U + instruction.count;
    default:
      return 3U + instruction.count;
  }
}

}  // namespace heddle::ptx
