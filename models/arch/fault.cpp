#include "arch/fault.h"

#include <array>
#include <cstddef>

#include <fmt/format.h>

namespace heddle::arch {
namespace {

bool has_address(FaultKind kind) {
  return kind == FaultKind::address || kind == FaultKind::misaligned || kind == FaultKind::shared_bounds;
}

const char* preposition(OpCode operation) {
  if (operation == OpCode::store) return "to";
  return operation == OpCode::load ? "from" : "at";
}

}  // namespace

const char* fault_text(FaultKind kind) {
  constexpr std::array<const char*, 5> kTexts{
      "address outside memory", "address not aligned to the width of the access", "beyond the CTA's shared memory",
      "not supported by this machine", "no such barrier, or one that can never complete"};
  return kTexts[static_cast<std::size_t>(kind)];
}

const char* fault_key(FaultKind kind) {
  constexpr std::array<const char*, 5> kKeys{"address", "misaligned", "shared_bounds", "unsupported", "barrier"};
  return kKeys[static_cast<std::size_t>(kind)];
}

std::string text_of(const FaultRecord& fault) {
  std::string text = fmt::format("SM {}, CTA {} ({}, {}, {}), warp {}, lane {}: {}", fault.sm, fault.cta, fault.cta_x,
                                 fault.cta_y, fault.cta_z, fault.warp, fault.lane,
                                 fault.where.empty() ? op_name(fault.operation) : fault.where.c_str());
  if (has_address(fault.kind)) text += fmt::format(" {} 0x{:x}", preposition(fault.operation), fault.address);
  return text + ": " + fault_text(fault.kind);
}

}  // namespace heddle::arch
