// What the operations of device-side launches consist of: launches, waits for children, streams and appends, as one
// memory step after another (TSK-05 to TSK-14). Without time: a DeviceLaunchUnit makes the steps.
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
#include "sm/accesses.h"
#include "sm/cta_table.h"
#include "sm/issue_unit.h"
#include "sm/sm_context.h"

namespace heddle::sm {

class Faults;
class GlobalPath;

constexpr std::uint16_t kLaunchRegisters = 2;  // behind those of the program: for what steps find in memory

enum class LaunchStage : std::uint8_t {
  release,  // it waits for the acknowledgement of earlier requests (TSK-14)
  depth,    // the depth of the own task is read, once per CTA
  shared,   // the context of the grid is read, once per CTA
  streams,  // which streams of a TMDQ live is read
  begin,    // the launch of one lane begins, or its append
  // A context for the CTA: taken, written, counted at its task.
  elsewhere,  // another warp of the CTA does that
  take_context,
  write_context,
  count_context,
  create,   // a stream
  destroy,  // one or more
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
  wait,      // for the tasks of the context
  fault,     // the operands are wrong
};

// What a warp keeps while it carries one out.
struct LaunchRun {
  arch::OpCode code = arch::OpCode::exit;
  LaunchStage stage = LaunchStage::release;
  arch::LaneMask lanes = 0;
  std::uint16_t destination = arch::kNoRegister;
  std::vector<arch::ChildLaunch> children;
  std::vector<arch::QueueAppend> entries;
  arch::ChildWait wait = arch::ChildWait::all;
  std::vector<std::uint64_t> named;  // streams, without 0, or launches; each once
  std::uint32_t index = 0;           // number of the launch, entry or named stream that it is at
  std::uint32_t lane = 0;            // whose launch or entry that is
  Cycle issued = 0;

  std::variant<std::monostate, arch::TakeSteps, arch::PushSteps, arch::AppendSteps, arch::WaitSteps> steps;
  std::uint64_t record = 0;    // TMD of the child
  std::uint32_t ticket = 0;    // of its launch
  std::uint64_t asked = 0;     // address of the last step, for messages
  bool asking = false;         // a step is under way
  std::uint64_t looked = 0;    // TMDQs whose streams have been read
  std::uint32_t created = 0;   // the stream that it tries to create
  std::uint64_t expected = 0;  // which streams of its TMDQ live, before it changes that
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

class LaunchSequence {
 public:
  // `launch_cycles`: of the device runtime, for each launch.
  LaunchSequence(const arch::LaunchMemory& memory, std::uint32_t sm, Cycle launch_cycles, SmStats& stats,
                 std::uint64_t& progress, TaskLink& tasks)
      : memory_(memory), sm_(sm), launch_cycles_(launch_cycles), stats_(stats), progress_(progress), tasks_(tasks) {}

  // The operation has issued; `next`: the cycle behind.
  LaunchNext begin(LaunchRun& run, const Cta& cta, Cycle next);
  // What its release had to wait for has been answered.
  LaunchNext released(LaunchRun& run, const Cta& cta, Cycle when);
  // Stage `begin`: the launch or append of one lane. The device runtime has done its work. `registers`: the warp's, for
  // the result; null if it has none.
  LaunchNext begin_one(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle next);
  // Stages `start` and `appended`: task management is told.
  LaunchNext tell(LaunchRun& run, Cycle next);
  // The memory step of the stage, or the line that it writes, has been done; `old` is what was there.
  LaunchNext answer(LaunchRun& run, Cta& cta, std::uint64_t old, std::uint32_t* registers, Cycle when);

  // The memory step of a stage that has one.
  arch::MemoryStep step(LaunchRun& run, const Cta& cta) const;
  // The line that a stage writes which has none.
  LaunchLine line(const LaunchRun& run, const Cta& cta) const;
  // A ticket whose entry will never come.
  void tell_lost_entry(const LaunchRun& run);
  // It was at wait_children when it was saved, is still counted as a waiter, and has been woken.
  arch::WaitSteps woken_wait(const Cta& cta, const std::vector<arch::WaitTarget>& targets) const;
  std::uint32_t retry() const { return memory_.retry; }

 private:
  LaunchNext look_at_context(LaunchRun& run, const Cta& cta, Cycle when) const;
  LaunchNext check_operands(LaunchRun& run, const Cta& cta, Cycle when) const;
  bool check_launches(LaunchRun& run, const Cta& cta) const;
  bool check_waits(LaunchRun& run, const Cta& cta) const;
  bool is_live(std::uint32_t stream, const Cta& cta) const;
  bool streams_known(LaunchRun& run, const Cta& cta) const;
  LaunchNext take_task(LaunchRun& run, const Cta& cta, Cycle when) const;
  LaunchNext task_taken(LaunchRun& run, std::uint32_t* registers, Cycle when);
  LaunchNext begin_wait(LaunchRun& run, const Cta& cta, Cycle when) const;
  std::uint32_t choose_stream(LaunchRun& run, const Cta& cta) const;
  LaunchNext create(LaunchRun& run, const Cta& cta, std::uint32_t* registers, Cycle when);
  LaunchNext created(LaunchRun& run, Cta& cta, std::uint64_t old, std::uint32_t* registers, Cycle when);
  void found_streams(LaunchRun& run, Cta& cta, std::uint32_t tmdq, std::uint64_t old) const;
  LaunchNext destroy(LaunchRun& run, const Cta& cta, Cycle when) const;
  LaunchNext destroyed(LaunchRun& run, Cta& cta, std::uint64_t old, Cycle when);
  LaunchNext refused(LaunchRun& run, std::uint32_t* registers, Cycle when);
  LaunchNext next_one(LaunchRun& run, Cycle when);
  LaunchNext after_one(LaunchRun& run, Cycle when) const;
  LaunchNext context_made(LaunchRun& run, Cta& cta, std::uint32_t* registers, Cycle when);

  const arch::LaunchMemory& memory_;
  const std::uint32_t sm_;
  const Cycle launch_cycles_;
  SmStats& stats_;
  std::uint64_t& progress_;
  TaskLink& tasks_;
};

// The entries of queue tasks: a CTA that has worked on one gives it back at its end, to the appender of a later ticket
// (TSK-05).
class QueueTurns final : private SmUnit, public AccessClient, private EventHandler {
 public:
  struct Peers {
    CtaSupervisor& supervisor;
    Faults& faults;
    GlobalPath& global;
  };
  QueueTurns(const UnitContext& context, const Peers& peers)
      : SmUnit(context), peers_(peers), giving_(context.params.limits.ctas) {}

  // Where the CTA's entry lies, and what gives it back.
  static void find(Cta& cta);
  // All that the CTA has read of its entry has come by `when`.
  void give(Cta& cta, Cycle when);

  void access_ended(const Access& access, Cycle when) override;
  void access_lost(const Access& access, Cycle when) override;
  void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) override;

 private:
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;

  Peers peers_;
  std::vector<Cta::QueueTurn> giving_;  // by CTA slot: what its write is
};

}  // namespace heddle::sm
