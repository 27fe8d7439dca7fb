#include "arch/fault.h"

#include <array>
#include <cstddef>

#include <fmt/format.h>

namespace heddle::arch {
namespace {

const char* preposition(OpCode operation) {
  if (operation == OpCode::store) return "to";
  return operation == OpCode::load ? "from" : "at";
}

}  // namespace

const char* fault_text(FaultKind kind) {
  constexpr std::array<const char*, kFaultKinds> kTexts{
      "address outside memory",
      "address not aligned to the width of the access",
      "beyond the CTA's shared memory",
      "not supported by this machine",
      "no such barrier, or one that can never complete",
      "the CGA has no such CTA",
      "no SM is known for the CTA: it has not been launched yet",
      "offset above the largest shared memory",
      "the CTAs of this cluster are not held together in one GPC (CGA-15)",
      "the CTA has exited",
      "beyond the shared memory that the CTA has, or has kept",
      "the data are corrupt (poison)",
      "not an initialised mbarrier, a count out of range, or an arrival too many",
      "the request breaks a rule of the tensor memory access unit",
      "the subcontext has no page there",
      "the subcontext may not write there",
      "nested deeper than gpu.task.nested.max_depth allows",
      "no such kernel, a grid out of range, or a stream or a launch that the CTA cannot use",
      "the queue takes no more entries, or none lies there",
      "old bytes of shared memory were read: a proxy fence is missing",
      "beyond the thread's local memory",
      "no record or context is free for the launch, and nobody asks whether it failed"};
  return kTexts[static_cast<std::size_t>(kind)];
}

const char* fault_key(FaultKind kind) {
  constexpr std::array<const char*, kFaultKinds> kKeys{
      "address",        "misaligned",     "shared_bounds",  "unsupported",     "barrier",      "cluster_rank",
      "cluster_absent", "cluster_offset", "cluster_domain", "cta_not_present", "out_of_range", "poison",
      "mbarrier",       "tensor",         "unmapped",       "read_only",       "nesting",      "child",
      "queue_closed",   "missing_fence",  "local_bounds",   "launch_limit"};
  return kKeys[static_cast<std::size_t>(kind)];
}

bool has_address(const FaultRecord& fault) {
  if (fault.operation == OpCode::cluster_arrive) return false;
  return fault.kind != FaultKind::unsupported && fault.kind != FaultKind::barrier;
}

std::string text_of(const FaultRecord& fault) {
  if (fault.of_cga) {
    return fmt::format(
        "SM {}, CGA {} (GPC {}, local id {}), CTA {} of the CGA: an access to CTA {} at offset 0x{:x}: {}", fault.sm,
        fault.cga, fault.gpc, fault.gpc_local_cga_id, fault.cta_id_in_cga, fault.target, fault.address,
        fault_text(fault.kind));
  }
  if (fault.of_tasks) return fmt::format("task management: {}, at 0x{:x}", fault.where, fault.address);
  std::string text = fmt::format("SM {}, CTA {} ({}, {}, {}), warp {}, lane {}: {}", fault.sm, fault.cta, fault.cta_x,
                                 fault.cta_y, fault.cta_z, fault.warp, fault.lane,
                                 fault.where.empty() ? op_name(fault.operation) : fault.where.c_str());
  if (has_address(fault)) text += fmt::format(" {} 0x{:x}", preposition(fault.operation), fault.address);
  text += fmt::format(": {}", fault_text(fault.kind));
  if (fault.kind == FaultKind::tensor) text += fmt::format(" ({}: {})", rule_key(fault.rule), rule_text(fault.rule));
  if (fault.kind == FaultKind::unmapped || fault.kind == FaultKind::read_only) {
    text += fmt::format(" (subcontext {}, {})", fault.subcontext, fault.write ? "write" : "read");
  }
  return text;
}

}  // namespace heddle::arch
