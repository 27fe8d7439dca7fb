// What a warp keeps while it carries out an operation of device-side launches, and what can follow in it.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "arch/fault.h"
#include "arch/tmdq.h"
#include "arch/warp_program.h"
#include "common/cycle.h"
#include "common/packet_port.h"
#include "protocol/sm_task.h"
#include "sm/cta_table.h"
#include "sm/sm_context.h"

namespace heddle::sm {

constexpr std::uint16_t kLaunchRegisters = 2;  // behind those of the program: for what steps find in memory

enum class LaunchStage : std::uint8_t {
  release,     // it waits for the acknowledgement of earlier requests (TSK-14)
  depth,       // the depth of the own task is read, once per CTA
  shared,      // the context of the grid is read, once per CTA
  streams,     // which streams of a TMDQ live is read
  call,        // the device runtime runs for the launch of one lane, instruction by instruction
  begin,       // the launch of one lane begins, or its like
  look_queue,  // whether the queue of a queue task is open
  // A context for the CTA: taken, written, counted at its task.
  elsewhere,  // another warp of the CTA does that
  take_context,
  write_context,
  count_context,
  create,   // a stream
  destroy,  // one or more
  // Events.
  look_event,  // whether it lives
  latest,      // what it was recorded by last
  publish,     // that, once it is in its TMDQ: what waits for it comes behind it
  end_event,
  give_event,
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
  // A queue.
  close,
  closed,  // the packet
  wait,    // for the tasks of the context
  fault,   // the operands are wrong
};

// An event, and the stream that it is recorded into, or that waits for it.
struct EventMark {
  std::uint64_t event = 0;
  std::uint32_t stream = 0;
};

// What a warp keeps while it carries one out.
struct LaunchRun {
  arch::OpCode code = arch::OpCode::exit;
  LaunchStage stage = LaunchStage::release;
  arch::LaneMask lanes = 0;
  std::uint16_t destination = arch::kNoRegister;
  std::vector<arch::ChildLaunch> children;
  std::vector<arch::QueueAppend> entries;  // of queue_close the first one
  std::vector<EventMark> marks;
  arch::ChildWait wait = arch::ChildWait::all;
  std::vector<std::uint64_t> named;  // streams, without 0, launches or events; each once
  std::uint32_t index = 0;           // number of the launch, entry or named stream that it is at
  std::uint32_t lane = 0;            // whose launch or entry that is
  std::uint32_t instructions = 0;    // of the device runtime that are left before it begins
  Cycle issued = 0;

  std::variant<std::monostate, arch::TakeSteps, arch::PushSteps, arch::AppendSteps, arch::WaitSteps, arch::GiveSteps>
      steps;
  std::uint64_t record = 0;    // TMD of the child
  std::uint32_t ticket = 0;    // of its launch
  std::uint64_t asked = 0;     // address of the last step, for messages
  bool asking = false;         // a step is under way
  std::uint64_t looked = 0;    // TMDQs whose streams have been read
  std::uint32_t created = 0;   // the stream that it tries to create
  std::uint64_t expected = 0;  // which streams of its TMDQ live, before it changes that
  std::uint64_t awaited = 0;   // launch_handle of the record of an event
  bool was_found = false;      // that is what memory held, whatever the CTA knows
  std::uint64_t written = 0;   // bytes of the context
  bool no_context = false;     // none is free
  bool begun = false;          // others rely on what follows: it is done even if the CTA is stopped
  bool stopped = false;        // the CTA has been; counts as one of its accesses
  arch::FaultKind fault = arch::FaultKind::child;
  std::uint64_t fault_address = 0;
};

// The link to task management.
class TaskLink {
 public:
  explicit TaskLink(PacketSender<protocol::ChildPacket>& out) : out_(out) {}
  // Without it nothing can be launched.
  void connect(bool connected) { connected_ = connected; }
  void send(const protocol::ChildPacket& packet) {
    HEDDLE_CHECK(connected_, "a task launches on a machine without nested streams");
    out_.send(packet);
  }

 private:
  PacketSender<protocol::ChildPacket>& out_;
  bool connected_ = false;
};

// What follows in an operation.
struct LaunchNext {
  enum class Kind : std::uint8_t {
    stage,      // `stage` is reached, and can be done from `when` on
    again,      // the same stage goes on at `when`
    release,    // when earlier requests have been answered, LaunchSequence::released() tells
    elsewhere,  // when another warp of the CTA has made the context
    children,   // when a wake has come; the last step ended at `when`
    finish,     // the operation is over at `when`
    drop,       // nothing more comes of it
    fault,      // it cannot be carried out
  };
  Kind kind = Kind::drop;
  LaunchStage stage = LaunchStage::begin;
  Cycle when = 0;
  arch::FaultKind fault = arch::FaultKind::child;
  std::uint64_t address = 0;

  static LaunchNext of(Kind kind, Cycle when = 0) {
    return {kind, LaunchStage::begin, when, arch::FaultKind::child, 0};
  }
  static LaunchNext to(LaunchStage stage, Cycle when) { return {Kind::stage, stage, when, arch::FaultKind::child, 0}; }
  static LaunchNext wrong(arch::FaultKind kind, std::uint64_t address) {
    return {Kind::fault, LaunchStage::begin, 0, kind, address};
  }
};

// Words that lie behind each other: one access.
struct LaunchLine {
  std::uint64_t address = 0;
  std::vector<std::uint64_t> words;
};

// What all parts of these operations need.
struct LaunchTools {
  const arch::LaunchMemory& memory;
  std::uint32_t sm = 0;
  SmStats& stats;
  std::uint64_t& progress;
  TaskLink& tasks;
};

constexpr std::uint32_t kLineWords = arch::kWarpLanes;  // of one access
constexpr bool is_word_aligned(std::uint64_t address) { return address % 8 == 0; }

// A result of the operation for one lane; `registers`: null if the program does not ask for it.
void put_result(const LaunchRun& run, std::uint32_t* registers, std::uint32_t lane, std::uint64_t value);
// It has its place in a queue that is full: only others can make an entry free. Null: it is in no operation.
bool waits_for_entry(const LaunchRun* run);

}  // namespace heddle::sm
