#include "arch/tmdq.h"

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
        again_ = true;
        break;
      }
      next_ = old;
      at_ = At::over;
      break;
    case At::over:
      break;
  }
}

TakeSteps::TakeSteps(const RecordPool& pool) : pool_(pool) {}

MemoryStep TakeSteps::step() const {
  if (record_ != 0) return {};
  if (slot_ == 0) return {Kind::add, pool_.base + ring::kTaken, 1};
  return {Kind::exchange, slot_, 0, 0, again_};
}

void TakeSteps::answer(std::uint64_t old) {
  if (slot_ != 0) {
    record_ = old;
    again_ = true;
  } else if (old < pool_.count) {
    record_ = pool_.record(old);
  } else {
    slot_ = pool_.base + ring::kSlots + 8 * ((old - pool_.count) % pool_.count);
  }
}

GiveSteps::GiveSteps(const RecordPool& pool, std::uint64_t record) : pool_(pool), record_(record) {}

MemoryStep GiveSteps::step() const {
  if (done_) return {};
  if (slot_ == 0) return {Kind::add, pool_.base + ring::kGiven, 1};
  return {Kind::compare_exchange, slot_, record_, 0, again_};
}

void GiveSteps::answer(std::uint64_t old) {
  if (slot_ == 0) {
    slot_ = pool_.base + ring::kSlots + 8 * (old % pool_.count);
    return;
  }
  done_ = old == 0;
  again_ = !done_;
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

WaitSteps::WaitSteps(std::uint64_t context, std::uint64_t home, bool write)
    : context_(context), home_(home), at_(write ? At::home : At::enter), homeless_(home == 0) {}

MemoryStep WaitSteps::step() const {
  switch (at_) {
    case At::home:
      return {Kind::write, context_ + context::kHome, home_};
    case At::enter:
      return {Kind::add, context_ + context::kWork, kWorkWaiter};
    case At::leave:
      return {Kind::add, context_ + context::kWork, ~kWorkWaiter + 1};
    case At::wait:
    case At::over:
      break;
  }
  return {};
}

void WaitSteps::answer(std::uint64_t old) {
  switch (at_) {
    case At::home:
      at_ = passed_ ? At::over : At::enter;
      break;
    case At::enter:
      passed_ |= work_of(old) == 1;
      at_ = passed_ || woken_ ? At::leave : At::wait;
      break;
    case At::leave:
      passed_ |= work_of(old) == 1;
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

// Something has been launched since the wake was sent.
void WaitSteps::again() {
  at_ = homeless_ ? At::enter : At::home;
  woken_ = false;
}

void WaitSteps::woken() {
  woken_ = true;
  if (at_ == At::wait) at_ = At::leave;
}

void WaitSteps::give_up() {
  passed_ = true;
  if (at_ == At::wait) at_ = At::leave;
}

}  // namespace heddle::arch
