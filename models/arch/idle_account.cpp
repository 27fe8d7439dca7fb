#include "arch/idle_account.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "common/error.h"

namespace heddle {
namespace {

constexpr std::uint64_t kNamed = std::uint64_t{1} << 32;  // kernels with a name for a number

// What is waited for before a kernel's first CTA is placed, rather than by a kernel that has begun.
bool comes_before(IdleReason reason) {
  return reason >= IdleReason::copy || reason == IdleReason::launch || reason == IdleReason::table;
}

}  // namespace

void IdleSms::begins(std::uint32_t sm) {
  ++sms_[sm].here;
  --sms_[sm].way;
  move(sms_[sm]);
}

void IdleSms::ends(std::uint32_t sm) {
  --sms_[sm].here;
  move(sms_[sm]);
}

void IdleSms::placed(std::uint32_t sm) {
  ++held_;
  ++sms_[sm].held;
  ++sms_[sm].queued;
  move(sms_[sm]);
}

void IdleSms::departed(std::uint32_t sm) {
  --sms_[sm].queued;
  ++sms_[sm].way;
  move(sms_[sm]);
}

void IdleSms::heard(std::uint32_t sm) {
  --held_;
  --sms_[sm].held;
  move(sms_[sm]);
}

void IdleSms::switched(std::uint32_t sm, bool on) {
  sms_[sm].off = !on;
  move(sms_[sm]);
}

void IdleSms::move(Sm& sm) {
  Place place = Place::rest;
  if (sm.here > 0) {
    place = Place::busy;
  } else if (sm.way > 0) {
    place = Place::way;
  } else if (sm.queued > 0) {
    place = Place::port;
  } else if (sm.off) {
    place = Place::off;
  } else if (sm.held > 0) {
    place = Place::completion;
  }
  if (place == sm.place) return;
  --in_place_[static_cast<std::size_t>(sm.place)];
  ++in_place_[static_cast<std::size_t>(place)];
  sm.place = place;
}

void IdleSms::reset() {
  for (Sm& sm : sms_) sm = {};
  in_place_ = {};
  in_place_[static_cast<std::size_t>(Place::rest)] = static_cast<std::uint32_t>(sms_.size());
  held_ = 0;
}

bool IdleSms::none_open() const {
  const auto open = [](const Sm& sm) { return sm.held != 0 || sm.queued != 0 || sm.way != 0; };
  return std::none_of(sms_.begin(), sms_.end(), open);
}

void IdleKernels::next(std::uint32_t operation, const std::string* name) {
  file();
  operation_ = operation;
  current_ = operation;
  if (name == nullptr) return;
  const auto [found, fresh] = numbers_.emplace(*name, names_.size());
  if (fresh) names_.push_back(*name);
  current_ = kNamed + found->second;
}

void IdleKernels::come() {
  for (std::size_t i = 0; i < kIdleReasons; ++i) booked_[i] += pending_[i];
  pending_ = {};
}

void IdleKernels::file() {
  for (std::size_t i = 0; operation_ && i < kIdleReasons; ++i) {
    if (booked_[i] > 0) cycles_[current_ * kIdleReasons + i] += booked_[i];
  }
  booked_ = {};
}

void IdleKernels::clear() { *this = IdleKernels(); }

std::vector<IdleKernels::Kernel> IdleKernels::all() const {
  std::map<std::uint64_t, Kernel> sorted;
  const auto add = [&](std::uint64_t number, std::size_t reason, std::uint64_t cycles) {
    if (cycles > 0) sorted[number].cycles[reason] += cycles;
  };
  for (const auto& [key, cycles] : cycles_) add(key / kIdleReasons, key % kIdleReasons, cycles);
  for (std::size_t i = 0; operation_ && i < kIdleReasons; ++i) add(current_, i, booked_[i]);
  std::vector<Kernel> kernels;
  for (auto& [number, kernel] : sorted) {
    if (number < kNamed) kernel.operation = static_cast<std::uint32_t>(number);
    if (number >= kNamed) kernel.name = names_[number - kNamed];
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

void IdleAhead::add(Cycle now, Cycle when, std::uint32_t sm, bool begins) {
  first_ = std::min(first_, when);
  if (when >= now + kReach) {
    far_.push_back({when, sm, begins});
    std::push_heap(far_.begin(), far_.end());
    return;
  }
  std::uint32_t index = free_;
  if (index == kNone) {
    index = static_cast<std::uint32_t>(changes_.size());
    changes_.emplace_back();
  } else {
    free_ = changes_[index].next;
  }
  const auto slot = static_cast<std::size_t>(when % kReach);
  std::uint64_t& word = some_[slot / 64];
  const std::uint64_t bit = std::uint64_t{1} << slot % 64;
  if ((word & bit) == 0) ++near_;
  word |= bit;
  changes_[index] = {heads_[slot], sm, begins};
  heads_[slot] = index;
}

void IdleAhead::find_first(Cycle from) {
  first_ = far_.empty() ? kNever : far_.front().when;
  if (near_ == 0) return;
  for (Cycle at = from;; at = (at / 64 + 1) * 64) {
    const std::uint64_t left = some_[at % kReach / 64] >> at % 64;
    if (left == 0) continue;
    first_ = std::min(first_, at + bits::lowest(left));
    return;
  }
}

IdleAccount::IdleAccount(Timebase& timebase, Stats& stats, const std::string& prefix, std::uint32_t sms,
                         const Labels& labels)
    : timebase_(timebase),
      labels_(labels),
      prefix_(prefix),
      sms_(sms),
      all_(stats.counter(prefix + ".sm_cycles", "SMs x cycles", "all SMs over the time of the run")) {
  for (const IdleReasonRow& row : kIdleReasonRows) {
    counters_[static_cast<std::size_t>(row.reason)] = &stats.counter(
        fmt::format("{}.idle.{}", prefix, row.key), "SMs x cycles", fmt::format("SMs without a CTA: {}", row.text));
  }
}

// Whatever comes ends the time in which nothing was submitted.
void IdleAccount::change(Work work, std::uint64_t number) {
  advance();
  const bool comes = number > this->work(work) && (work == Work::operations || work == Work::packets);
  works_[static_cast<std::size_t>(work)] = number;
  if (!comes) return;
  counters_[static_cast<std::size_t>(IdleReason::host)]->add(gap_);
  gap_ = 0;
}

// Calls come in the order of time, and what they say is of now or later.
void IdleAccount::note(Cycle when, std::uint32_t sm, bool begins) {
  advance();
  if (when <= at_) return apply(sm, begins);
  ahead_.add(at_, when, sm, begins);
}

// The label of a task that a program launched is a name and a number.
void IdleAccount::waits(IdleReason why, std::uint32_t operation, bool launched) {
  const bool same = kernels_.is_next(operation);
  if (waits_ == why && same) return;
  advance();
  if (!same) {
    std::string name;
    if (launched) name = labels_.of(operation);
    name.resize(std::min(name.size(), name.rfind(" #")));
    kernels_.next(operation, launched ? &name : nullptr);
  }
  kernels_.come();
  waits_ = why;
}

void IdleAccount::waits_for_nothing(std::uint64_t tasks, bool full) {
  if (!waits_ && full_ == full && table_tasks_ == tasks) return;
  advance();
  waits_.reset();
  table_tasks_ = tasks;
  full_ = full;
}

void IdleAccount::advance_to(Cycle now) {
  while (ahead_.first() <= now) {
    spend(ahead_.first());
    ahead_.take([this](std::uint32_t sm, bool begins) { apply(sm, begins); });
  }
  spend(now);
}

void IdleAccount::spend(Cycle until) {
  if (until <= at_) return;
  const Cycle from = at_;
  const Cycle cycles = until - at_;
  at_ = until;
  std::optional<IdleReason> reason;
  if (sms_.in(IdleSms::Place::busy) < sms_.count()) reason = spend_idle(cycles);
  if (timebase_.observation().timeline != nullptr && reason != drawn_) draw(reason, from);
}

// Cycles in which some SMs have no CTA. Gives the reason of those of which nothing is known.
std::optional<IdleReason> IdleAccount::spend_idle(Cycle cycles) {
  using Place = IdleSms::Place;
  const auto in = [this](Place place) { return sms_.in(place); };
  if (in(Place::way) > 0) book(IdleReason::way, cycles * in(Place::way));
  if (in(Place::port) > 0) book(IdleReason::port, cycles * in(Place::port));
  if (in(Place::off) > 0) book(IdleReason::off, cycles * in(Place::off));
  // What has not been heard of keeps nobody waiting where nobody waits.
  std::uint64_t rest = in(Place::rest);
  if (waits_ && in(Place::completion) > 0) {
    book(IdleReason::completion, cycles * in(Place::completion));
  } else {
    rest += in(Place::completion);
  }
  std::optional<IdleReason> reason;
  if (rest > 0) {
    reason = cause();
    book(*reason, cycles * rest);
  }
  return reason;
}

void IdleAccount::book(IdleReason reason, std::uint64_t cycles) {
  const auto number = static_cast<std::size_t>(reason);
  if (comes_before(reason)) {
    kernels_.book_ahead(reason, cycles);
    if (reason == IdleReason::host) {
      gap_ += cycles;  // until it is known whether anything comes
      return;
    }
  } else if (reason != IdleReason::off) {
    kernels_.book(reason, cycles);
  }
  counters_[number]->add(cycles);
}

// Something is submitted and has not begun. Copies that run wait for nothing, whoever has asked for them.
bool IdleAccount::anything_behind() const {
  if (work(Work::ring) > 0) return true;
  const std::uint64_t begun = work(Work::tasks) + work(Work::fronts) + work(Work::holds) + work(Work::copies);
  return work(Work::operations) > begun;
}

IdleReason IdleAccount::cause() const {
  if (waits_) return *waits_;
  if (work(Work::prepared) > 0 && full_) return IdleReason::table;
  if (work(Work::fronts) + work(Work::prepared) + work(Work::chains) > 0) return IdleReason::launch;
  if (sms_.held() > 0) return anything_behind() ? IdleReason::tail : IdleReason::alone;
  // A task on its way to the distributor, or one whose end is on its way back or is being noted.
  if (work(Work::open_tasks) > work(Work::prepared) + table_tasks_) return IdleReason::launch;
  if (work(Work::copies) + work(Work::holds) > 0) return IdleReason::copy;
  if (work(Work::packets) > work(Work::signals)) return IdleReason::packets;
  if (work(Work::operations) + work(Work::packets) > 0) return IdleReason::dependency;
  return IdleReason::host;
}

// A slice ends when the reason changes.
void IdleAccount::draw(std::optional<IdleReason> reason, Cycle from) {
  TimelineSink& sink = *timebase_.observation().timeline;
  if (drawn_ && from > drawn_from_) {
    sink.slice(sink.track(prefix_ + " idle SMs", "why"), timebase_.time_of(drawn_from_), timebase_.time_of(from),
               kIdleReasonRows[static_cast<std::size_t>(*drawn_)].title);
  }
  drawn_ = reason;
  drawn_from_ = from;
}

void IdleAccount::settle(bool more) {
  advance();
  all_.add((at_ - counted_) * sms_.count());
  counted_ = at_;
  if (timebase_.observation().timeline != nullptr && drawn_) draw(std::nullopt, at_);
  counters_[static_cast<std::size_t>(more ? IdleReason::host : IdleReason::over)]->add(gap_);
  gap_ = 0;
}

// Statistics are cleared by who owns them.
void IdleAccount::clear() {
  sms_.reset();
  ahead_.clear();
  works_ = {};
  waits_.reset();
  table_tasks_ = 0;
  full_ = false;
  at_ = counted_ = timebase_.now();
  gap_ = 0;
  kernels_.clear();
  drawn_.reset();
}

void IdleAccount::check_idle() const {
  HEDDLE_CHECK(sms_.none_open(), "CTAs of an idle machine are on their way, or have not been heard of");
}

}  // namespace heddle
