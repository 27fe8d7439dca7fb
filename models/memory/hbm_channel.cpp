#include "memory/hbm_channel.h"

#include <algorithm>

#include "common/bits.h"

namespace heddle::memory {

HbmChannel::HbmChannel(const HbmTiming& timing, const HbmQueues& queues, HbmCounters& counters, HbmTick first_refresh,
                       HbmTrace* trace)
    : limits_(queues),
      counters_(&counters),
      // A precharge makes its activate come in tRP: little is decided further ahead.
      lead_(timing.rp + 2 * timing.access),
      slack_(2 * timing.access),
      banks_(timing, counters, first_refresh, trace),
      reads_(queues.reads, timing.banks, timing.access_bytes),
      writes_(queues.writes, timing.banks, timing.access_bytes) {}

HbmChannel::Entered HbmChannel::enter(bool write, const HbmAccess& access) {
  const HbmQueue::Index same = writes_.find(access.bank, access.line);
  if (same != HbmQueue::kNone && write) {
    writes_.merge(same, access);
    counters_->merged.add();
    return Entered::merged;
  }
  if (same != HbmQueue::kNone && (access.sectors & ~writes_.at(same).full) == 0) {
    counters_->forwarded.add();
    return Entered::forwarded;
  }
  HbmQueue& target = queue(write);
  shared_ = shared_ || access.turn != 0;
  const std::uint64_t age = access.turn != 0 ? access.turn : age_;
  age_ = std::max(age_, age + 1);
  const bool last = target.push(access, age);
  if (!last || !bits::contains(target.hits(), access.bank)) update_hits(write, access.bank);
  return Entered::queued;
}

HbmTick HbmChannel::advance(HbmTick now, HbmTick until, std::vector<HbmDone>& done) {
  while (!reads_.empty() || !writes_.empty()) {
    if (banks_.next_refresh() < until) after_close(banks_.refresh(until));
    choose_direction();
    if (open_at_ < until) open_rows(now);
    const HbmTick column = queue(writing_).hits() == 0 ? kNoTick : issue_column(now, until, done);
    if (column < until) continue;
    // Rows are opened with some lead: if a column comes soon, they need no call of their own.
    const bool soon = open_at_ != kNoTick && column <= open_at_ + slack_;
    const HbmTick open = soon ? kNoTick : open_at_;
    return std::max(until, std::min({column, open, banks_.next_refresh()}));
  }
  return kNoTick;
}

void HbmChannel::choose_direction() {
  const std::uint32_t turn = limits_.write_high - limits_.write_low;
  if (writing_) {
    if (reads_.empty()) return;
    if (batch_ && turn_left_ > 0 && writes_.size() > limits_.write_low) return;
    turn_to(false);
    turn_left_ = batch_ ? turn : 0;
    return;
  }
  if (writes_.empty()) return;
  if (reads_.empty()) {
    turn_to(true);
    batch_ = false;
  } else if (writes_.size() >= limits_.write_high && writes_come_next()) {
    turn_to(true);
    batch_ = true;
    turn_left_ = turn;
  }
}

// By their turns or, without, once a batch of reads has been served.
bool HbmChannel::writes_come_next() const {
  return shared_ ? writes_.oldest_age() <= reads_.oldest_age() : turn_left_ == 0;
}

void HbmChannel::open_rows(HbmTick now) {
  HbmQueue& waiting = queue(writing_);
  std::uint64_t wanted = waiting.pending() & ~waiting.hits();
  const HbmTick limit = now + lead_;
  open_at_ = kNoTick;
  while (wanted != 0) {
    const HbmTick shared = banks_.shared_activate_time();
    if (shared > limit) {
      open_at_ = shared - lead_;
      return;
    }
    std::uint32_t oldest = HbmBanks::kNoBank;
    HbmTick later = kNoTick;
    bits::for_each(wanted, [&](std::uint32_t bank) {
      const HbmTick when = banks_.activate_time(bank, now);
      if (when > limit) {
        later = std::min(later, when - lead_);
      } else if (when < banks_.refresh_stall() &&
                 (oldest == HbmBanks::kNoBank || waiting.oldest_age(bank) < waiting.oldest_age(oldest))) {
        oldest = bank;
      }
    });
    open_at_ = later;
    if (oldest == HbmBanks::kNoBank) return;
    banks_.activate(oldest, waiting.oldest_row(oldest), now);
    update_hits(false, oldest);
    update_hits(true, oldest);
    wanted &= ~bits::one(oldest);
  }
  open_at_ = kNoTick;
}

// Returns when to look for the next column: before `until` if one was issued and another may follow.
HbmTick HbmChannel::issue_column(HbmTick now, HbmTick until, std::vector<HbmDone>& done) {
  HbmQueue& waiting = queue(writing_);
  const HbmTick bus_free = std::max(now, banks_.bus_free(writing_));
  if (bus_free >= until) return bus_free;
  std::uint32_t best = 0;
  HbmTick best_time = kNoTick;
  std::uint64_t best_age = 0;
  bits::for_each(waiting.hits(), [&](std::uint32_t bank) {
    const HbmTick when = banks_.column_time(bank, writing_, bus_free);
    if (when > best_time) return;
    const std::uint64_t age = waiting.hit_age(bank);
    if (when == best_time && age > best_age) return;
    best = bank;
    best_time = when;
    best_age = age;
  });
  if (best_time >= banks_.refresh_stall()) return kNoTick;  // the refresh comes first
  if (best_time >= until) return best_time;
  const HbmTick end = banks_.column(best, writing_, best_time);
  HbmAccess access;
  if (waiting.take_column(best, access)) {
    if (!writing_) done.push_back({end, access.tag});
    if (turn_left_ > 0) --turn_left_;
    update_hits(writing_, best);
  }
  if (banks_.row_hits_of(best) >= streak()) {
    update_hits(false, best);
    update_hits(true, best);
  }
  return now;
}

// Which access of the bank, if any, may use the row that is open.
void HbmChannel::update_hits(bool write, std::uint32_t bank) {
  HbmQueue& waiting = queue(write);
  if (!bits::contains(waiting.pending(), bank)) return waiting.find_hit(bank, false, 0);
  open_at_ = 0;  // it may want another row
  const std::uint32_t row = banks_.row_of(bank);
  const bool enough = banks_.row_hits_of(bank) >= streak() && waiting.oldest_row(bank) != row;
  waiting.find_hit(bank, row != HbmBanks::kClosed && !enough, row);
}

void HbmChannel::after_close(std::uint64_t banks) {
  bits::for_each(banks, [this](std::uint32_t bank) {
    update_hits(false, bank);
    update_hits(true, bank);
  });
}

void HbmChannel::reset() {
  banks_.reset();
  reads_.clear();
  writes_.clear();
  writing_ = batch_ = false;
  turn_left_ = 0;
  age_ = 0;
  shared_ = false;
  open_at_ = 0;
}

}  // namespace heddle::memory
