// Why SMs are idle: the time that SMs spend without a CTA, by what keeps them so. Every cycle of an SM without a CTA
// has one reason; the sum over all reasons is SMs x cycles less the cycles in which they have a CTA (CWD-47).
//
// SMs say when CTAs come and go, the distributor what it has placed and what the task that is next waits for, and the
// blocks before it what they have in hand. What is known of an SM itself goes first: a TPC that is off, a launch packet
// on its way to it. The others share one reason: what the next task waits for; without one, what keeps the next task
// from coming.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/bits.h"
#include "common/error.h"
#include "common/stats.h"
#include "common/timebase.h"

namespace heddle {

class Labels;

enum class IdleReason : std::uint8_t {
  // Of the SM.
  off,
  way,
  port,
  completion,
  // Of the task that is next in the distributor.
  deciding,
  cluster,
  order,
  quota,
  time_slice,
  resources,
  // No task waits in the distributor, and CTAs run or not.
  table,
  launch,
  tail,
  alone,
  // No CTA runs, and no launch is being prepared.
  copy,
  packets,
  dependency,
  host,
  over,
};
constexpr std::size_t kIdleReasons = 19;

struct IdleReasonRow {
  IdleReason reason;
  const char* key;    // of the statistic
  const char* title;  // for lines and tables
  const char* text;   // what it is
};
// In the order of IdleReason.
inline constexpr IdleReasonRow kIdleReasonRows[kIdleReasons] = {
    {IdleReason::off, "off", "TPC switched off", "the TPC is switched off and takes no launch packets"},
    {IdleReason::way, "way", "launch on its way",
     "a launch packet for the SM is on its way: link to the GPC, GPM, raster unit, start in the SM"},
    {IdleReason::port, "port", "launch port",
     "a CTA is placed on the SM, and its launch packet waits for its masks or for the launch port; or packets that "
     "wait "
     "for it fill the buffers, so that no session can decide"},
    {IdleReason::completion, "completion", "completion on its way",
     "the last CTA has ended and the distributor has not heard of it, while a task waits"},
    {IdleReason::deciding, "deciding", "distributor decides", "a session of the distributor decides, or is about to"},
    {IdleReason::cluster, "cluster", "no place for a whole cluster",
     "the next task is of clusters, and no GPC has room, ids or barriers for a whole one"},
    {IdleReason::order, "order", "kept for another task",
     "the next task waits behind another one, or what is free is kept for one"},
    {IdleReason::quota, "quota", "partition", "the subcontext of the next task may not use more of the machine"},
    {IdleReason::time_slice, "time_slice", "time slice or preemption",
     "another subcontext has its time slice, or preempted CTAs are on their way to memory"},
    {IdleReason::resources, "resources", "no room on an SM",
     "no SM has room for a CTA of the next task, although none runs there: something else holds it"},
    {IdleReason::table, "table", "no task table slot", "a task waits for a slot of the task table"},
    {IdleReason::launch, "launch", "launch overhead",
     "task management prepares a launch or notes an end: gap of the stream, records in memory, lists of tasks, the way "
     "to the distributor and back"},
    {IdleReason::tail, "tail", "tail, the next kernel waits",
     "all CTAs of the kernels that run are placed, and something else is submitted that waits: for their end, for a "
     "copy, "
     "or for its turn in a queue"},
    {IdleReason::alone, "alone", "nothing more submitted",
     "all that was submitted is placed: kernels smaller than the machine, or the tail of the last"},
    {IdleReason::copy, "copy", "copies", "no kernel runs, and copies or fills do"},
    {IdleReason::packets, "packets", "packet processor", "the packet processor reads, launches or completes packets"},
    {IdleReason::dependency, "dependency", "dependency",
     "operations wait for what does not run here: another GPU, an event, a signal, an open queue"},
    {IdleReason::host, "unsubmitted", "host has submitted nothing", "nothing is submitted, and something will be"},
    {IdleReason::over, "over", "nothing left to run", "after the last operation"},
};

// The same by kernel: what kept SMs idle in front of its CTAs, between them, and until their end.
class IdleKernels {
 public:
  struct Kernel {
    std::optional<std::uint32_t> operation;
    std::string name;  // without an operation
    std::array<std::uint64_t, kIdleReasons> cycles{};
  };

  // Of the kernel that is next, or was last.
  void book(IdleReason reason, std::uint64_t cycles) { booked_[static_cast<std::size_t>(reason)] += cycles; }
  // Of the one that comes.
  void book_ahead(IdleReason reason, std::uint64_t cycles) { pending_[static_cast<std::size_t>(reason)] += cycles; }
  // That one is next. One that a program has launched has a number that says nothing to others: it counts by its name,
  // which is given for it.
  bool is_next(std::uint32_t operation) const { return operation_ == operation; }
  void next(std::uint32_t operation, const std::string* name);
  // What was waited for is a matter of the one that is next.
  void come();
  void clear();

  // In the order of operations; behind them those with names.
  std::vector<Kernel> all() const;

 private:
  void file();

  std::optional<std::uint32_t> operation_;
  std::uint64_t current_ = 0;  // its number in `cycles_`
  std::array<std::uint64_t, kIdleReasons> booked_{};
  std::array<std::uint64_t, kIdleReasons> pending_{};
  // By kernel and reason: most reasons are none of a kernel's.
  std::unordered_map<std::uint64_t, std::uint64_t> cycles_;
  std::unordered_map<std::string, std::uint64_t> numbers_;  // of names; looked up only
  std::vector<std::string> names_;
};

// What is known of SMs themselves: where each of them belongs.
class IdleSms {
 public:
  enum class Place : std::uint8_t { busy, way, port, off, completion, rest };

  explicit IdleSms(std::uint32_t sms) : sms_(sms) { reset(); }

  // A CTA is on the SM, or no longer.
  void begins(std::uint32_t sm);
  void ends(std::uint32_t sm);
  // The distributor has placed a CTA there; its launch packet has left; it has heard of its end.
  void placed(std::uint32_t sm);
  void departed(std::uint32_t sm);
  void heard(std::uint32_t sm);
  void switched(std::uint32_t sm, bool on);
  void reset();

  std::uint64_t in(Place place) const { return in_place_[static_cast<std::size_t>(place)]; }
  std::size_t count() const { return sms_.size(); }
  // CTAs that the distributor counts on all SMs.
  std::uint64_t held() const { return held_; }
  // None of them is counted, and none is on its way.
  bool none_open() const;

 private:
  static constexpr std::size_t kPlaces = 6;
  struct Sm {
    std::int32_t here = 0;    // CTAs
    std::int32_t held = 0;    // CTAs that the distributor counts there
    std::int32_t queued = 0;  // of these, whose packet has not left
    std::int32_t way = 0;     // and that are on their way
    bool off = false;
    Place place = Place::rest;
  };
  void move(Sm& sm);

  std::vector<Sm> sms_;
  std::array<std::uint32_t, kPlaces> in_place_{};
  std::uint64_t held_ = 0;
};

// Begins and ends of CTAs that are known ahead, in the order of time. Most are a few hundred cycles away: those lie in
// a ring of cycles, and the others in a heap.
class IdleAhead {
 public:
  IdleAhead() { heads_.fill(kNone); }

  // When the first of them comes; kNever: there is none.
  Cycle first() const { return first_; }
  // `now`: all that comes up to then has been taken; `when` is later.
  void add(Cycle now, Cycle when, std::uint32_t sm, bool begins);
  // visit(sm, begins) for each of those that come at first().
  template <class Visit>
  void take(Visit&& visit) {
    const Cycle when = first_;
    const auto slot = static_cast<std::size_t>(when % kReach);
    if (near_ > 0 && bits::contains(some_[slot / 64], static_cast<std::uint32_t>(slot % 64))) {
      some_[slot / 64] &= ~(std::uint64_t{1} << slot % 64);
      --near_;
      for (std::uint32_t index = std::exchange(heads_[slot], kNone); index != kNone;) {
        const Near change = changes_[index];
        changes_[index].next = std::exchange(free_, index);
        index = change.next;
        visit(change.sm, change.begins);
      }
    }
    while (!far_.empty() && far_.front().when == when) {
      const Far change = far_.front();
      std::pop_heap(far_.begin(), far_.end());
      far_.pop_back();
      visit(change.sm, change.begins);
    }
    find_first(when + 1);
  }
  void clear() { *this = IdleAhead(); }

 private:
  static constexpr Cycle kReach = 1024;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Near {
    std::uint32_t next = kNone;  // of the same cycle, or of the free ones
    std::uint32_t sm = 0;
    bool begins = false;
  };
  struct Far {
    Cycle when = 0;
    std::uint32_t sm = 0;
    bool begins = false;
    bool operator<(const Far& other) const { return when > other.when; }  // the first on top
  };
  void find_first(Cycle from);

  Cycle first_ = kNever;
  std::uint32_t near_ = 0;                         // cycles in the ring in which something comes
  std::array<std::uint64_t, kReach / 64> some_{};  // bit = such a cycle
  std::array<std::uint32_t, kReach> heads_{};      // of its changes
  std::vector<Near> changes_;
  std::uint32_t free_ = kNone;
  std::vector<Far> far_;  // a heap
};

class IdleAccount {
 public:
  // What the blocks before the distributor have in hand.
  enum class Work : std::uint8_t {
    operations,  // of the host and the packet processor: taken in and not ended
    fronts,      // operations whose turn has come, until they are due
    prepared,    // tasks that task management has and has not sent
    tasks,       // tasks of operations, until they have ended
    open_tasks,  // all tasks, until they have ended
    chains,      // chains of memory steps that task management works on
    holds,       // operations that only take time
    copies,      // copies and fills that engines have or that wait for one
    packets,     // packets begun and not complete
    ring,        // packets read and not begun
    signals,     // packets that wait for signals, or that the host has in hand
  };
  static constexpr std::size_t kWorks = 11;

  // Statistics below `prefix` ("gpu0"). `labels` must outlive it.
  IdleAccount(Timebase& timebase, Stats& stats, const std::string& prefix, std::uint32_t sms, const Labels& labels);

  void set(Work work, std::uint64_t number) {
    if (works_[static_cast<std::size_t>(work)] != number) change(work, number);
  }

  std::uint64_t work(Work work) const { return works_[static_cast<std::size_t>(work)]; }

  // A CTA is on the SM from a cycle on, or no longer: in this cycle, or known ahead.
  void begins(std::uint32_t sm, Cycle when) { note(when, sm, true); }
  void ends(std::uint32_t sm, Cycle when) { note(when, sm, false); }

  // What the distributor knows of an SM is told to what this returns, now.
  IdleSms& sms() {
    advance();
    return sms_;
  }
  // The task that is next, by the operation that its CTAs run as, has CTAs left, and waits for that. `launched`: a
  // program has launched it, so that its number says nothing to others: it counts by its name.
  void waits(IdleReason why, std::uint32_t operation, bool launched);
  // No task has CTAs left. `tasks`: that the distributor has; `full`: they are all that the task table can take.
  void waits_for_nothing(std::uint64_t tasks, bool full);

  // The statistics are what has been up to now. What comes later adds to them. `more`: something is still to be
  // submitted, and the time since the last of what was is a wait for it.
  void settle(bool more = false);
  void clear();
  // Throws CheckFailed if CTAs are still accounted for.
  void check_idle() const;

  // SMs x cycles by reason, as far as settled.
  std::uint64_t cycles(IdleReason reason) const { return counters_[static_cast<std::size_t>(reason)]->value(); }
  const IdleKernels& kernels() const { return kernels_; }

 private:
  void change(Work work, std::uint64_t number);
  void note(Cycle when, std::uint32_t sm, bool begins);
  void apply(std::uint32_t sm, bool begins) {
    if (begins) return sms_.begins(sm);
    sms_.ends(sm);
  }
  void advance() {
    const Cycle now = timebase_.now();
    if (now > at_) advance_to(now);
  }
  void advance_to(Cycle now);
  void spend(Cycle until);
  std::optional<IdleReason> spend_idle(Cycle cycles);
  void book(IdleReason reason, std::uint64_t cycles);
  IdleReason cause() const;
  bool anything_behind() const;
  void draw(std::optional<IdleReason> reason, Cycle from);

  Timebase& timebase_;
  const Labels& labels_;
  const std::string prefix_;
  IdleSms sms_;
  IdleAhead ahead_;
  std::array<std::uint64_t, kWorks> works_{};
  std::optional<IdleReason> waits_;
  std::uint64_t table_tasks_ = 0;
  bool full_ = false;
  Cycle at_ = 0;       // all cycles before it are booked
  Cycle counted_ = 0;  // and those before it are in the statistic of all

  std::array<Counter*, kIdleReasons> counters_{};
  Counter& all_;
  std::uint64_t gap_ = 0;  // of `host`, or of `over` if nothing comes
  IdleKernels kernels_;
  std::optional<IdleReason> drawn_;
  Cycle drawn_from_ = 0;
};

// Work of one kind, for the block that has it; of a block that nobody observes it goes nowhere.
class IdleWork {
 public:
  // `account`: null: nobody asks.
  IdleWork(IdleAccount* account, IdleAccount::Work work) : account_(account), work_(work) {}

  void set(std::uint64_t number) {
    if (account_ != nullptr) account_->set(work_, number);
  }
  void add() {
    if (account_ != nullptr) account_->set(work_, account_->work(work_) + 1);
  }
  void remove() {
    if (account_ == nullptr) return;
    HEDDLE_CHECK(account_->work(work_) > 0, "more work was done than there was");
    account_->set(work_, account_->work(work_) - 1);
  }

 private:
  IdleAccount* account_;
  IdleAccount::Work work_;
};

}  // namespace heddle
