#include "arch/tmdq.h"

#include <utility>

namespace heddle::arch {

using Kind = MemoryStep::Kind;

PushSteps::PushSteps(std::uint64_t last, std::uint64_t record, std::uint64_t first)
    : last_(last), record_(record), first_(first) {}

MemoryStep PushSteps::step() const {
  if (!exchanged_) return {Kind::exchange, last_, record_};
  if (linked_) return {};
  if (previous_ != 0) return {Kind::write, previous_ + tmd::kNext, record_};
  if (first_ != 0) return {Kind::write, first_, record_};
  return {};
}

void PushSteps::answer(std::uint64_t old) {
  if (exchanged_) {
    linked_ = true;
    return;
  }
  exchanged_ = true;
  previous_ = old;
}

CompleteSteps::CompleteSteps(std::uint64_t last, std::uint64_t finished) : last_(last), finished_(finished) {}

MemoryStep CompleteSteps::step() const {
  switch (at_) {
    case At::look:
      return {Kind::read, last_};
    case At::close:
      return {Kind::compare_exchange, last_, 0, finished_};
    case At::follow:
      return {Kind::read, finished_ + tmd::kNext, 0, 0, again_};
    case At::over:
      break;
  }
  return {};
}

void CompleteSteps::answer(std::uint64_t old) {
  switch (at_) {
    case At::look:
      at_ = old == finished_ ? At::close : At::follow;
      break;
    case At::close:
      at_ = old == finished_ ? At::over : At::follow;  // else a task has just been added
      break;
    case At::follow:
      if (old == 0) {
        again_ = waited_ = true;
        break;
      }
      next_ = old;
      at_ = At::over;
      break;
    case At::over:
      break;
  }
}

TakeSteps::TakeSteps(const RecordSupply& supply, bool again) : supply_(supply), again_(again) {}

MemoryStep TakeSteps::step() const {
  switch (at_) {
    case At::count:
      return {Kind::add, pool().base + ring::kUsed, 1, 0, again_};
    case At::uncount:
      return {Kind::add, pool().base + ring::kUsed, ~std::uint64_t{0}};
    case At::ticket:
      return {Kind::add, pool().base + ring::kTaken, 1};
    case At::slot:
      return {Kind::exchange, pool().slot(ticket_), 0, 0, again_};
    case At::over:
      break;
  }
  return {};
}

void TakeSteps::answer(std::uint64_t old) {
  switch (at_) {
    case At::count:
      at_ = old < pool().count ? At::ticket : At::uncount;
      again_ = false;
      break;
    case At::uncount:
      at_ = spilled_ || supply_.spill.count == 0 ? At::over : At::count;
      spilled_ = at_ == At::count;
      break;
    case At::ticket:
      ticket_ = old;
      at_ = old < pool().count ? At::over : At::slot;
      if (at_ == At::over) record_ = pool().record(old);
      break;
    case At::slot:  // whoever gives it back has drawn its number, and writes it soon
      record_ = old;
      again_ = old == 0;
      if (!again_) at_ = At::over;
      break;
    case At::over:
      break;
  }
}

GiveSteps::GiveSteps(const RecordSupply& supply, std::uint64_t record) : pool_(supply.of(record)), record_(record) {}

MemoryStep GiveSteps::step() const {
  switch (at_) {
    case At::ticket:
      return {Kind::add, pool_.base + ring::kGiven, 1};
    case At::slot:
      return {Kind::compare_exchange, slot_, record_, 0, again_};
    case At::uncount:
      return {Kind::add, pool_.base + ring::kUsed, ~std::uint64_t{0}};
    case At::over:
      break;
  }
  return {};
}

void GiveSteps::answer(std::uint64_t old) {
  switch (at_) {
    case At::ticket:
      slot_ = pool_.slot(old);
      at_ = At::slot;
      break;
    case At::slot:
      again_ = old != 0;
      if (!again_) at_ = At::uncount;
      break;
    case At::uncount:
      at_ = At::over;
      break;
    case At::over:
      break;
  }
}

AppendSteps::AppendSteps(std::uint64_t queue) : queue_(queue) {}

MemoryStep AppendSteps::step() const {
  switch (at_) {
    case At::capacity:
      return {Kind::read, queue_ + queue::kCapacity};
    case At::entries:
      return {Kind::read, queue_ + queue::kEntries};
    case At::ticket:
      return {Kind::add, queue_ + queue::kTickets, 1};
    case At::turn:
      return {Kind::read, entry_, 0, 0, again_};
    case At::still_open:
      return {Kind::read, queue_ + queue::kTickets};
    case At::over:
      break;
  }
  return {};
}

void AppendSteps::answer(std::uint64_t old) {
  switch (at_) {
    case At::capacity:
      capacity_ = old == 0 ? 1 : old;
      closed_ = old == 0;  // no queue lies there
      at_ = closed_ ? At::over : At::entries;
      break;
    case At::entries:
      entries_ = old;
      if (old % 8 != 0) {  // no queue lies there: not even a ticket is to be drawn
        closed_ = true;
        at_ = At::over;
        break;
      }
      at_ = At::ticket;
      break;
    case At::ticket:
      closed_ = (old & kQueueClosed) != 0;
      ticket_ = old & ~kQueueClosed;
      entry_ = entries_ + ticket_ % capacity_ * kQueueEntryBytes;
      at_ = closed_ ? At::over : At::turn;
      break;
    case At::turn:
      if (old == turn_free(ticket_, capacity_)) {
        at_ = At::over;
      } else {
        again_ = true;
        at_ = At::still_open;
      }
      break;
    case At::still_open:
      closed_ = (old & kQueueClosed) != 0;
      at_ = closed_ ? At::over : At::turn;
      break;
    case At::over:
      break;
  }
}

MemoryStep FireSteps::step() const {
  switch (at_) {
    case At::fire:
      return {Kind::exchange, record_ + tmd::kOpen, 1};
    case At::follow:
      return {Kind::read, next_ + tmd::kNextWait};
    case At::over:
      break;
  }
  return {};
}

void FireSteps::answer(std::uint64_t old) {
  released_ = next_;
  next_ = at_ == At::fire ? (old & 0xFFFF'FFFF) * kRecordBytes : old;
  at_ = next_ == 0 ? At::over : At::follow;
}

MemoryStep EnlistSteps::step() const {
  switch (at_) {
    case At::look:
      return {Kind::read, word()};
    case At::link:
      return {Kind::write, wait_ + tmd::kNextWait, (seen_ & 0xFFFF'FFFF) * kRecordBytes};
    case At::claim:
      return {Kind::compare_exchange, word(), (seen_ >> 32) << 32 | wait_ / kRecordBytes, seen_};
    case At::over:
      break;
  }
  return {};
}

void EnlistSteps::answer(std::uint64_t old) {
  switch (at_) {
    case At::look:
      look_at(old);
      break;
    case At::link:
      at_ = At::claim;
      break;
    case At::claim:
      if (old == seen_) {
        at_ = At::over;
      } else {
        look_at(old);
      }
      break;
    case At::over:
      break;
  }
}

// The record has another ticket, or none, once it has fired.
void EnlistSteps::look_at(std::uint64_t word) {
  passed_ = word >> 32 != ticket_of_handle(awaited_);
  seen_ = word;
  at_ = passed_ ? At::over : At::link;
}

WaitSteps::WaitSteps(std::uint64_t context, std::uint64_t home, bool write, std::vector<WaitTarget> targets)
    : context_(context),
      home_(home),
      targets_(std::move(targets)),
      at_(write ? At::home : At::enter),
      some_(!targets_.empty()),
      homeless_(home == 0) {}

WaitSteps WaitSteps::counted(std::uint64_t context, std::uint64_t home, std::vector<WaitTarget> targets) {
  WaitSteps steps(context, home, home != 0, std::move(targets));
  steps.counted_ = true;
  if (!steps.some_ || home == 0) steps.entered();
  return steps;
}

MemoryStep WaitSteps::step() const {
  switch (at_) {
    case At::home:
      return {Kind::write, context_ + context::kHome, home_};
    case At::enter:
      return {Kind::add, context_ + context::kWork, waiter()};
    case At::look:
      return {Kind::read, targets_.front().address};
    case At::whose:
      return {Kind::read, targets_.front().launched_from()};
    case At::leave:
      return {Kind::add, context_ + context::kWork, ~waiter() + 1};
    case At::wait:
    case At::over:
      break;
  }
  return {};
}

// Who waits for all tasks is counted and looks in one step, and leaves to look again.
void WaitSteps::entered() { at_ = some_ ? At::look : At::leave; }

void WaitSteps::answer(std::uint64_t old) {
  switch (at_) {
    case At::home:
      at_ = At::enter;
      if (counted_) {
        entered();
        if (passed_) at_ = At::leave;
      } else if (passed_) {
        at_ = At::over;
      }
      break;
    case At::enter:
      counted_ = true;
      if (some_) {
        at_ = passed_ ? At::leave : At::look;
        break;
      }
      passed_ |= work_of(old) == 1;
      at_ = passed_ || woken_ ? At::leave : At::wait;
      break;
    case At::look:
      look_answered(old);
      break;
    case At::whose:
      whose_ = old;
      at_ = passed_ ? At::leave : At::look;
      break;
    case At::leave:
      counted_ = false;
      if (!some_) passed_ |= work_of(old) == 1;
      if (passed_) {
        at_ = At::over;
      } else {
        again();
      }
      break;
    case At::wait:
    case At::over:
      break;
  }
}

void WaitSteps::look_answered(std::uint64_t word) {
  const WaitTarget& target = targets_.front();
  const std::optional<std::uint64_t> whose = std::exchange(whose_, std::nullopt);
  if (passed_) {
    at_ = At::leave;
  } else if (target.over(word)) {
    targets_.erase(targets_.begin());
    passed_ = targets_.empty();
    if (passed_) at_ = At::leave;
  } else if (target.never(word) || whose.value_or(context_) != context_) {
    in_vain_ = passed_ = true;
    at_ = At::leave;
  } else if (woken_) {
    again();
  } else {
    // What it was told counts if the launch is there before and after: a later one may have its TMD.
    at_ = target.ticket == 0 || whose ? At::wait : At::whose;
  }
}

// Something has been launched, or something else has completed, since the wake was sent.
void WaitSteps::again() {
  at_ = homeless_ ? At::enter : At::home;
  if (homeless_ && counted_) entered();
  woken_ = false;
}

void WaitSteps::woken() {
  woken_ = true;
  if (at_ != At::wait) return;
  if (some_) {
    again();
  } else {
    at_ = At::leave;
  }
}

void WaitSteps::give_up() {
  passed_ = true;
  if (at_ == At::wait) at_ = At::leave;
}

}  // namespace heddle::arch
