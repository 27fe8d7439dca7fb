// The protocols of device-side launches, step by step: each object below is one actor's step machine in one of them.
// step() says what to do to memory next; answer() is told what was there before, and moves the machine on. Whoever
// drives it decides what a step costs: an SM, task management, or a test that explores every interleaving (TSK-08,
// TSK-09, TSK-13). There is no lock anywhere, and every step is one access that memory does at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/task_record.h"

namespace heddle::arch {

struct MemoryStep {
  enum class Kind : std::uint8_t {
    none,              // the machine is over
    read,              // answer: the value
    write,             // `value`; the answer means nothing
    exchange,          // `value`; answer: the old one
    add,               // `value`; answer: the old one
    compare_exchange,  // `value`, if `compare` was there; answer: the old one
  };
  Kind kind = Kind::none;
  std::uint64_t address = 0;  // 8 aligned bytes lie there
  std::uint64_t value = 0;
  std::uint64_t compare = 0;
  bool again = false;  // the step was done before, and waits for another actor: it is to be done after a while
};

// A task enters a TMDQ (TSK-08). Its TMD has been written, with next = 0.
class PushSteps {
 public:
  // `last`: address of the last-task pointer. `first`: address of a pointer that the first task of the queue is to be
  // written to (the tail launches of a grid: the first of them is not started at once); 0: none.
  PushSteps(std::uint64_t last, std::uint64_t record, std::uint64_t first = 0);
  MemoryStep step() const;
  void answer(std::uint64_t old);
  bool over() const { return step().kind == MemoryStep::Kind::none; }
  // Once it is over: the queue was empty, so the task is to be started by whoever pushed it.
  bool starts() const { return exchanged_ && previous_ == 0 && first_ == 0; }
  std::uint64_t previous() const { return previous_; }

 private:
  std::uint64_t last_;
  std::uint64_t record_;
  std::uint64_t first_;
  std::uint64_t previous_ = 0;
  bool exchanged_ = false;
  bool linked_ = false;
};

// The task at the head of a TMDQ has completed (TSK-09).
class CompleteSteps {
 public:
  CompleteSteps(std::uint64_t last, std::uint64_t finished);
  MemoryStep step() const;
  void answer(std::uint64_t old);
  bool over() const { return step().kind == MemoryStep::Kind::none; }
  // Once it is over: the task to start now; 0: the queue is empty.
  std::uint64_t next() const { return next_; }
  // A task had been pushed behind it that its `next` did not name yet: it had to wait for that (figure 9).
  bool waited() const { return waited_; }

 private:
  enum class At : std::uint8_t { look, close, follow, over };
  std::uint64_t last_;
  std::uint64_t finished_;
  std::uint64_t next_ = 0;
  At at_ = At::look;
  bool again_ = false;
  bool waited_ = false;
};

// A record leaves its pool, or the larger one behind it if that has none; or there is none (TSK-12).
class TakeSteps {
 public:
  // `again`: it was tried before, and found none.
  explicit TakeSteps(const RecordSupply& supply, bool again = false);
  MemoryStep step() const;
  void answer(std::uint64_t old);
  bool over() const { return at_ == At::over; }
  // Once it is over. 0: all records are in use.
  std::uint64_t record() const { return record_; }
  bool spilled() const { return spilled_; }
  // Number of the launch, which no other of the next 2^31 has; never 0.
  std::uint32_t ticket() const { return static_cast<std::uint32_t>(ticket_ % 0x7FFF'FFFF) * 2 + (spilled_ ? 3 : 2); }

 private:
  enum class At : std::uint8_t { count, uncount, ticket, slot, over };
  const RecordPool& pool() const { return spilled_ ? supply_.spill : supply_.pool; }

  RecordSupply supply_;
  At at_ = At::count;
  bool spilled_ = false;
  bool again_ = false;
  std::uint64_t ticket_ = 0;
  std::uint64_t record_ = 0;
};

// A record goes back to where it comes from.
class GiveSteps {
 public:
  GiveSteps(const RecordSupply& supply, std::uint64_t record);
  MemoryStep step() const;
  void answer(std::uint64_t old);
  bool over() const { return at_ == At::over; }

 private:
  enum class At : std::uint8_t { ticket, slot, uncount, over };
  RecordPool pool_;
  std::uint64_t record_;
  At at_ = At::ticket;
  std::uint64_t slot_ = 0;
  bool again_ = false;
};

// An entry gets its place in a queue (TSK-05): step by step up to where its data can be written; then the driver writes
// the data, and after that the turn: turn_ready(ticket, capacity) at entry(). A queue is closed while a ticket waits
// for its place only if its task has been stopped: no CTA will take the entry then.
class AppendSteps {
 public:
  explicit AppendSteps(std::uint64_t queue);  // address
  MemoryStep step() const;
  void answer(std::uint64_t old);
  bool over() const { return step().kind == MemoryStep::Kind::none; }
  bool closed() const { return closed_; }  // once it is over: the queue takes no more
  // The appender owns an entry, and others wait for it.
  bool has_ticket() const { return at_ > At::ticket && !closed_; }
  std::uint64_t ticket() const { return ticket_; }
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t entry() const { return entry_; }

 private:
  enum class At : std::uint8_t { capacity, entries, ticket, turn, still_open, over };
  std::uint64_t queue_;
  std::uint64_t capacity_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t ticket_ = 0;
  std::uint64_t entry_ = 0;
  At at_ = At::capacity;
  bool closed_ = false;
  bool again_ = false;
};

// What a warp waits for that is not all: the tasks of a TMDQ, or one launch (TSK-16).
struct WaitTarget {
  std::uint64_t address = 0;  // of the word that tells
  std::uint32_t ticket = 0;   // of the launch: over once the upper half of the word is another; 0: a TMDQ, over once
                              // the word is 0
  bool over(std::uint64_t word) const { return ticket == 0 ? word == 0 : word >> 32 != ticket; }
  // Tail launches begin when the grid of who launched them has completed: it cannot wait for them.
  bool never(std::uint64_t word) const {
    return ticket != 0 && (word >> 8 & 3) == static_cast<std::uint64_t>(LaunchMode::tail);
  }
  std::uint64_t handle() const { return launch_handle(address - tmd::kFlags, ticket); }
  std::uint64_t launched_from() const { return address - tmd::kFlags + tmd::kContext; }
  bool operator==(const WaitTarget& other) const { return address == other.address && ticket == other.ticket; }

  static WaitTarget of_tmdq(std::uint64_t context, std::uint32_t tmdq) {
    return {context + context::last_task(tmdq), 0};
  }
  static WaitTarget of_launch(std::uint64_t handle) {
    return {record_of_handle(handle) + tmd::kFlags, ticket_of_handle(handle)};
  }
};

// The record of an event is due: what was ahead of it in its TMDQ has completed. All that wait for it go on.
class FireSteps {
 public:
  explicit FireSteps(std::uint64_t record) : record_(record) {}
  MemoryStep step() const;
  void answer(std::uint64_t old);
  bool over() const { return at_ == At::over; }
  // The wait that the last answer has let go, which nobody knows of any more; 0: none.
  std::uint64_t released() const { return released_; }

 private:
  enum class At : std::uint8_t { fire, follow, over };
  std::uint64_t record_;
  std::uint64_t next_ = 0;
  std::uint64_t released_ = 0;
  At at_ = At::fire;
};

// A wait for a record of an event is due: it joins those that the record has to let go, unless that has come to pass.
class EnlistSteps {
 public:
  // `awaited`: launch_handle of the record.
  EnlistSteps(std::uint64_t wait, std::uint64_t awaited) : wait_(wait), awaited_(awaited) {}
  MemoryStep step() const;
  void answer(std::uint64_t old);
  bool over() const { return at_ == At::over; }
  // Once it is over: it does not wait. If it does, whoever fires the record lets it go.
  bool passed() const { return passed_; }

 private:
  enum class At : std::uint8_t { look, link, claim, over };
  std::uint64_t word() const { return record_of_handle(awaited_) + tmd::kOpen; }
  void look_at(std::uint64_t word);
  std::uint64_t wait_;
  std::uint64_t awaited_;
  std::uint64_t seen_ = 0;
  At at_ = At::look;
  bool passed_ = false;
};

// A warp waits for the tasks of its context, all or some of them (TSK-12, TSK-16). A wake is a hint, and may come late
// or twice: what counts is the work counter, or the word of what it waits for. The driver tells of every wake of the
// context with woken(), whatever step it is at. Before it sleeps for a launch it looks whose launch that is: the end of
// one of another context wakes nobody here.
class WaitSteps {
 public:
  // `home`: home_of_sm of the SM. `write`: kHome does not hold that; false for a shared context, which has no home.
  // `targets`: empty: all tasks. They are waited for one after another.
  WaitSteps(std::uint64_t context, std::uint64_t home, bool write, std::vector<WaitTarget> targets = {});
  // It is counted as a waiter already, and looks again.
  static WaitSteps counted(std::uint64_t context, std::uint64_t home, std::vector<WaitTarget> targets);
  MemoryStep step() const;
  void answer(std::uint64_t old);
  void woken();
  // The warp's CTA has been stopped: the machine takes back what it has counted, and is over.
  void give_up();
  bool waiting() const { return at_ == At::wait; }  // for woken(); step() is none meanwhile
  bool over() const { return at_ == At::over; }
  // The next step, or the one that has been sent, writes kHome. After its answer the word stands only if no wake has
  // come meanwhile: whoever sent that one may have taken it away again.
  bool writes_home() const { return at_ == At::home; }
  bool was_woken() const { return woken_; }
  // Once it is over: it has ended because what it waits for is a tail launch, or one of another context.
  bool in_vain() const { return in_vain_; }
  // What it still waits for, if not for all tasks.
  const std::vector<WaitTarget>& targets() const { return targets_; }

 private:
  enum class At : std::uint8_t { home, enter, look, whose, wait, leave, over };
  std::uint64_t waiter() const { return some_ ? kWorkSomeWaiter : kWorkWaiter; }
  void again();
  void entered();
  void look_answered(std::uint64_t word);

  std::uint64_t context_;
  std::uint64_t home_;
  std::vector<WaitTarget> targets_;
  At at_;
  bool some_ = false;
  bool homeless_ = false;
  bool counted_ = false;  // as a waiter
  bool passed_ = false;   // it ends whatever the words say when it leaves
  bool woken_ = false;    // a wake has come since it began to look
  bool in_vain_ = false;
  std::optional<std::uint64_t> whose_;  // the context that the launch's TMD has named just now
};

}  // namespace heddle::arch
