// What the nested scheduler does to memory, chain by chain (TSK-09, TSK-10, TSK-13): each chain is a state machine that
// says what to do next, is told what was there, and leaves behind what follows from it. Whoever drives it decides what
// a step costs: the scheduler, or a test with a map for a memory.
#pragma once

#include <array>
#include <cstdint>
#include <variant>
#include <vector>

#include "arch/code_store.h"
#include "arch/kernel_object.h"
#include "arch/task_record.h"
#include "arch/tmdq.h"

namespace heddle::task {

using RecordLine = std::array<std::uint8_t, arch::kRecordBytes>;

// The fields of a TMD that do not change.
struct ChildRecord {
  std::uint64_t context = 0;  // of a tail launch that has been started: TMD of the grid that it follows
  std::uint64_t kernel = 0;
  arch::Dim3 grid;
  std::uint32_t tmdq = 0;
  arch::LaunchMode mode = arch::LaunchMode::stream;
  bool head = false;
  std::uint32_t stream = 0;
  std::int32_t priority = 0;
  std::uint32_t depth = 0;
};
ChildRecord child_record(const RecordLine& line);

struct ChainAccess {
  enum class Kind : std::uint8_t {
    none,        // the chain is over
    step,        // of 8 bytes; step.again: to be done after a while
    read_line,   // the whole line at `address`
    write_line,  // `line`
  };
  Kind kind = Kind::none;
  arch::MemoryStep step;
  std::uint64_t address = 0;
  const RecordLine* line = nullptr;
};

// What follows from a chain, in the order in which it does.
struct ChainEffect {
  enum class Kind : std::uint8_t {
    child_read,   // `record` has been read: `line`, its kernel object `other`, `owner`: TMD of its parent grid; `ok`
    prepared,     // `record` is in memory, with its shared context if contexts are shared
    start,        // `record` is to be started: `behind`, ahead of it in its queue, has completed. `owner`: it is a tail
                  // launch of that grid
    completed,    // `record`, with all its descendants
    wake,         // the warps of `record`, a context, that wait on SM `sm`
    restore,      // the CTA saved at `record`: `line` is the first of its area
    queue_found,  // `record`: a queue; `geometry`, which is empty if there is none
    queue_closed,  // `record`: a queue; `ok`: it is closed, else somebody has a further ticket
    failed,        // memory did not carry out an access to `record`; the chain has ended
  };
  Kind kind = Kind::failed;
  std::uint64_t record = 0;
  std::uint64_t behind = 0;
  std::uint64_t owner = 0;
  std::uint32_t sm = 0;
  std::uint32_t task = 0;  // prepared
  bool ok = true;
  arch::QueueGeometry geometry;
  RecordLine line{};
  RecordLine other{};
};
constexpr std::uint32_t kAllSms = ~std::uint32_t{0};

class NestedChain {
 public:
  // Reads a TMD and its kernel object. `owner`: the grid that it is a tail launch of, which its TMD names from now on;
  // 0: it has a context.
  static NestedChain start(const arch::NestedMemory& memory, std::uint64_t record, std::uint64_t owner);
  // A TMD for a task of the host, with the fields of `line`. `task`: comes back with the effect, here and below.
  static NestedChain prepare(const arch::NestedMemory& memory, const RecordLine& line, std::uint32_t task);
  // The context that the CTAs of `record` share.
  static NestedChain share(const arch::NestedMemory& memory, std::uint64_t record, std::uint32_t task);
  // The run of a task has ended.
  static NestedChain ended(const arch::NestedMemory& memory, std::uint64_t record);
  // The CTA of a context has exited.
  static NestedChain leave(const arch::NestedMemory& memory, std::uint64_t context);
  static NestedChain find_queue(std::uint64_t queue);
  // If it has given out so many tickets.
  static NestedChain close_queue(std::uint64_t queue, std::uint64_t tickets);
  // However many: its task has been stopped.
  static NestedChain stop_queue(std::uint64_t queue);

  ChainAccess access() const;
  bool over() const { return at_ == At::over; }
  void answer(std::uint64_t old);       // of a step; a written line: any value
  void answer(const RecordLine& line);  // of a line that was read
  void failed();                        // instead of an answer
  std::vector<ChainEffect> take_effects();

 private:
  enum class At : std::uint8_t {
    read_record,  // start
    write_owner,
    read_object,
    read_parent,
    take_record,  // prepare, share
    take_context,
    write_context,
    write_record,
    write_shared,
    add_open,
    read_shared,  // ended
    drop_shared,
    drop_open,
    read_ended,
    leave_queue,
    give_record,
    drop_work,  // of a context
    exchange_home,
    read_area,
    read_owner,
    give_context,
    find_queue,
    close_queue,
    stop_queue,
    over,
  };
  using Walk = std::variant<std::monostate, arch::CompleteWalk, arch::TakeWalk, arch::GiveWalk>;

  explicit NestedChain(At at) : at_(at) {}
  NestedChain(const arch::NestedMemory& memory, At at) : memory_(memory), at_(at) {}
  void owner_known();
  void object_known();
  void parent_known(std::uint64_t parent);
  void answer_walk(std::uint64_t old);
  void answer_end(std::uint64_t old);
  void read_ended(const RecordLine& line);
  void complete();
  void left_queue(std::uint64_t next);
  void gave_record();
  void dropped_work(std::uint64_t old);
  void wake();
  void woken(std::uint64_t home);
  ChainEffect& effect(ChainEffect::Kind kind, std::uint64_t record);
  arch::MemoryStep word() const;
  std::uint64_t last_task() const;

  arch::NestedMemory memory_;
  At at_;
  Walk walk_;
  std::uint64_t record_ = 0;
  std::uint64_t context_ = 0;
  std::uint64_t owner_ = 0;
  std::uint64_t tickets_ = 0;
  std::uint32_t task_ = 0;
  std::uint64_t drops_ = 1;  // of kOpen
  bool tails_over_ = false;  // the tail launches of `record_` have completed
  bool next_tail_ = false;   // another tail launch of the same grid follows
  bool shares_ = false;      // a context for a record that is there already
  bool readable_ = true;     // the kernel object
  ChildRecord child_;        // of `record_`
  RecordLine line_{};        // to be written, or has been read
  RecordLine other_{};
  std::vector<ChainEffect> effects_;
};

}  // namespace heddle::task
