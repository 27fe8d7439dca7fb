// What a warp keeps while it carries out an operation of device-side launches (TSK-06 to TSK-14): one memory step after
// another.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "arch/fault.h"
#include "arch/tmdq.h"
#include "arch/warp_program.h"
#include "common/clock.h"

namespace heddle::sm {

constexpr std::uint16_t kNestedRegisters = 2;  // behind those of the program: for what steps find in memory

enum class NestedStage : std::uint8_t {
  release,  // for the acknowledgement of earlier requests (TSK-14)
  depth,    // of the own task: read once per CTA
  shared,   // context of the grid: the same
  streams,  // how many the context has
  begin,    // of the launch of one lane, or of its append
  // A context for the CTA: taken, written, counted at its task.
  elsewhere,  // another warp of the CTA does that
  take_context,
  write_context,
  count_context,
  create,  // a stream
  // A task.
  take_task,
  count_task,
  write_task,
  push,
  start,  // the packet
  // An entry of a queue.
  place,
  write_entry,
  turn,
  appended,  // the packet
  // For the tasks of the context.
  wait,
  fault,  // the operands are wrong
};

struct NestedRun {
  arch::OpCode code = arch::OpCode::exit;
  NestedStage stage = NestedStage::release;
  arch::LaneMask lanes = 0;
  std::uint16_t destination = arch::kNoRegister;
  std::vector<arch::ChildLaunch> children;
  std::vector<arch::QueueAppend> entries;
  std::uint64_t stream = 0;  // the highest that it names
  std::uint32_t index = 0;   // of the launch or entry that it is at
  std::uint32_t lane = 0;    // whose that is
  Cycle issued = 0;

  std::variant<std::monostate, arch::TakeSteps, arch::PushSteps, arch::AppendSteps, arch::WaitSteps> walk;
  std::uint64_t record = 0;  // TMD of the child
  std::uint64_t asked = 0;   // address of the last step, for messages
  bool asking = false;       // a step is under way
  bool looked = false;       // at how many streams there are
  bool begun = false;        // others rely on what follows: it is done even if the CTA is stopped
  bool stopped = false;      // the CTA has been; counts as one of its accesses
  arch::FaultKind fault = arch::FaultKind::child;
  std::uint64_t fault_address = 0;
};

}  // namespace heddle::sm
