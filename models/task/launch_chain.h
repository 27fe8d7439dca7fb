// What device-side launches do to the records in memory, chain by chain (TSK-09, TSK-10, TSK-13): each chain is a state
// machine that says what to do next, is told what was there, and leaves behind what follows from it. Whoever drives it
// decides what a step costs: the launch scheduler, or a test with a map for a memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "arch/brought_code.h"
#include "arch/kernel_object.h"
#include "arch/task_record.h"
#include "arch/tmdq.h"

namespace heddle::task {

using RecordLine = std::array<std::uint8_t, arch::kRecordBytes>;

// The fields of a TMD that do not change.
struct ChildRecord {
  std::uint64_t context = 0;  // of a tail launch: TMD of the grid that it follows
  std::uint64_t kernel = 0;
  arch::Dim3 grid;
  std::uint32_t tmdq = 0;
  arch::LaunchMode mode = arch::LaunchMode::stream;
  bool head = false;
  bool waited = false;  // its end is waited for by its ticket
  std::uint32_t ticket = 0;
  std::uint32_t stream = 0;
  std::int32_t priority = 0;
  std::uint32_t depth = 0;
  arch::RecordKind kind = arch::RecordKind::task;
  std::uint64_t queue = 0;  // of a queue task: address
  std::uint64_t entries = 0;
  bool held_open = false;

  // Of a task that the host has pushed.
  std::uint32_t operation() const { return ticket - 1; }
};
ChildRecord child_record(const RecordLine& line);

struct ChainAccess {
  enum class Kind : std::uint8_t {
    none,        // the chain is over
    step,        // 8 bytes; step.again: it is to be done after a while
    read_line,   // the whole line at `address`
    write_line,  // `line`
  };
  Kind kind = Kind::none;
  arch::MemoryStep step;
  std::uint64_t address = 0;
  const RecordLine* line = nullptr;
  // read_line: `address` is one of its address space; none: a physical one, as all others are.
  std::optional<std::uint8_t> subcontext;

  static ChainAccess read_of(std::uint64_t address, std::optional<std::uint8_t> subcontext = std::nullopt) {
    return {Kind::read_line, {}, address, nullptr, subcontext};
  }
  static ChainAccess write_of(std::uint64_t address, const RecordLine& line) {
    return {Kind::write_line, {}, address, &line, std::nullopt};
  }
  static ChainAccess step_of(const arch::MemoryStep& step) { return {Kind::step, step, 0, nullptr, std::nullopt}; }
};

// In whose address space the kernel objects lie that a grid launches, with their code; none: addresses are physical. Of
// the grid with that TMD, or of what the host pushes (arch::host_owner()).
using ObjectSpaces = std::function<std::optional<std::uint8_t>(std::uint64_t parent)>;

// A TMD and its kernel object have been read, with code that software has brought.
struct ChildRead {
  std::uint64_t record = 0;
  std::uint64_t parent = 0;  // TMD of its parent grid; of a task that the host has pushed: arch::host_owner()
  RecordLine line{};
  RecordLine object{};
  bool readable = true;    // the kernel object
  arch::CodeReading code;  // of a kernel object with code in memory; incomplete: it cannot be read
};
// A TMD is in memory, with its shared context if contexts are shared.
struct RecordPrepared {
  std::uint64_t record = 0;
  std::uint32_t task = 0;
};
// What was read of a task before it is sent.
struct RecordRead {
  std::uint32_t task = 0;
  bool ok = true;
  std::optional<RecordLine> first;  // halves of its TMD, the first one of tasks of the host
  RecordLine second{};
};
// How far an evicted task has come is in memory.
struct ProgressWritten {
  std::uint32_t task = 0;
};
// A TMD is to be started.
struct ChildReady {
  std::uint64_t record = 0;
  std::uint64_t behind = 0;  // TMD of what was ahead of it in its queue, and has completed
  std::uint64_t owner = 0;   // it is a tail launch of that grid
  bool waited = false;       // the one ahead had to wait until it was known which task had been pushed behind it
};
// A task has completed, with all its descendants.
struct TaskCompleted {
  std::uint64_t record = 0;
};
// The warps that wait for the tasks of a context are to look again.
struct WakeContext {
  std::uint64_t context = 0;
  std::optional<std::uint32_t> sm;  // absent: they can be on any
};
// A saved CTA is to be restored.
struct RestoreCta {
  std::uint64_t area = 0;
  RecordLine line{};  // the first of its area
};
// A saved CGA is to be restored.
struct RestoreCga {
  std::uint64_t record = 0;  // of the CGA
  RecordLine line{};         // its first
};
// The record of an event, or a stream's wait for one, is over: it has no run that could end.
struct MarkOver {
  std::uint64_t record = 0;
};
// A stream waits for an event; MarkOver follows once that has come to pass.
struct EventAwaited {
  std::uint64_t record = 0;
  std::uint64_t awaited = 0;  // the record of the event
  std::uint64_t grid = 0;     // TMD of the grid that has asked for it
};
struct QueueFound {
  std::uint64_t queue = 0;
  bool enough = false;                          // its task is not held open
  std::optional<arch::QueueGeometry> geometry;  // absent: no queue lies there, or it is closed
};
struct QueueClosed {
  std::uint64_t queue = 0;
  bool closed = true;  // false: somebody has a further ticket
  bool busy = false;   // a CTA of its task is open: ContextClosed follows
};
// A CTA of the task, or a grid, has ended with all that it launched; others of the task are open.
struct ContextClosed {
  std::uint64_t record = 0;
};
// Memory did not carry out an access to a record; the chain has ended.
struct AccessFailed {
  std::uint64_t record = 0;
};
// What is read of an operation of a stream, or of a kernel of a graph, before it starts has been.
struct DescriptorRead {
  std::uint32_t operation = 0;
};
// The end of a kernel is in memory.
struct EndReported {
  std::uint32_t operation = 0;
};
using ChainEffect = std::variant<ChildRead, RecordPrepared, RecordRead, ProgressWritten, ChildReady, TaskCompleted,
                                 WakeContext, RestoreCta, RestoreCga, MarkOver, EventAwaited, QueueFound, QueueClosed,
                                 ContextClosed, AccessFailed, DescriptorRead, EndReported>;

class LaunchChain {
 public:
  LaunchChain() = default;
  LaunchChain(const LaunchChain&) = delete;
  LaunchChain& operator=(const LaunchChain&) = delete;
  virtual ~LaunchChain() = default;

  virtual ChainAccess access() const = 0;
  bool over() const { return access().kind == ChainAccess::Kind::none; }
  // The answer to the access: what was there before a step (a written line: any value), or the line that was read.
  virtual void answer_word(std::uint64_t old);
  virtual void answer_line(const RecordLine& line);
  virtual void failed() = 0;  // instead of an answer
  // What follows, in the order in which it does.
  std::vector<ChainEffect> take_effects();

 protected:
  void effect(ChainEffect effect);

 private:
  std::vector<ChainEffect> effects_;
};
using ChainPtr = std::unique_ptr<LaunchChain>;

// Reads a TMD and its kernel object; or carries out what the record of an event, or a wait for one, stands for.
ChainPtr start_chain(std::uint64_t record, ObjectSpaces spaces);
// A record to be.
struct NewRecord {
  RecordLine first{};                // the half that a launch writes
  std::optional<RecordLine> second;  // the other half, if it is written
  arch::LaunchMemory all;            // where the second halves lie: all of the memory
  bool launches = true;              // its CTAs launch: they have contexts
};
// Takes a TMD for a task of the host and writes it. `task` comes back with the effect.
ChainPtr prepare_chain(const arch::LaunchMemory& memory, NewRecord record, std::uint32_t task);
// Reads the halves of a TMD, the first one if it is not 0.
ChainPtr read_chain(std::uint64_t first, std::uint64_t second, std::uint32_t task);
// Writes two words.
struct ProgressWord {
  std::uint64_t address = 0;
  std::uint64_t value = 0;
};
ChainPtr progress_chain(std::uint64_t record, const std::array<ProgressWord, 2>& words, std::uint32_t task);
// A TMD of which nothing is open goes back to its pool.
ChainPtr release_chain(const arch::LaunchMemory& memory, std::uint64_t record);
// Gives the task of `record` the context that its CTAs share. `task` comes back with the effect.
ChainPtr share_chain(const arch::LaunchMemory& memory, std::uint64_t record, std::uint32_t task);
// The run of the task of `record` has ended: completes everything that is complete with it.
ChainPtr ended_chain(const arch::LaunchMemory& memory, std::uint64_t record);
// The tasks of a shared context may have completed before a CTA that waits for them could be found: it is looked for.
ChainPtr wake_chain(const arch::LaunchMemory& memory, std::uint64_t context);
// A CTA has been preempted, and lies there; or a CGA has, whose record does, and then it is named as a home names it.
ChainPtr preempted_chain(const arch::LaunchMemory& memory, std::uint64_t area);
// A saved CGA was woken before it could be found.
ChainPtr wake_cga_chain(const arch::LaunchMemory& memory, std::uint64_t record);
// The CTA of a context has exited: completes everything that is complete with it.
ChainPtr leave_chain(const arch::LaunchMemory& memory, std::uint64_t context);
ChainPtr find_queue_chain(std::uint64_t queue);
// Closes a queue if it has given out so many tickets, and no CTA of its task is open. `record`: TMD of its task; 0: its
// CTAs launch nothing.
ChainPtr close_queue_chain(const arch::LaunchMemory& memory, std::uint64_t queue, std::uint64_t tickets,
                           std::uint64_t record);
// Closes a queue whose task has been stopped, however many tickets it has given out.
ChainPtr stop_queue_chain(std::uint64_t queue);

}  // namespace heddle::task
