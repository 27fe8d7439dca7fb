// Contention without events: a resource that is reserved for times ahead, by calls that come in the order in which
// things are asked for, not in that in which they reach the resource.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/cycle.h"

namespace heddle {

// A link, or anything else that serves so much per cycle, one after the other.
//
// What comes in the order of its times is served as by LinkPace, to the cycle. What comes for an earlier time than
// something before it gets what was left free there: the calendar knows how much of each window of kWindow cycles is
// taken, for the last kWindows of them. What was left before is not known, and given, unless all was taken for long.
// Nothing is served twice as fast because it was asked for late.
class ReservedLink {
 public:
  static constexpr Cycle kWindow = 16;
  static constexpr std::size_t kWindows = 128;

  // per_cycle >= 0.01: bytes, or whatever take() counts.
  explicit ReservedLink(double per_cycle)
      : per_cycle_(static_cast<std::uint64_t>(std::llround(per_cycle * kScale))),
        window_(static_cast<std::uint32_t>(std::llround(per_cycle * kWindow * kParts))) {}

  // So much begins at `when` or later: returns the cycle.
  Cycle take(Cycle when, std::uint32_t amount) {
    if (when < latest_) return take_behind(when, amount);
    const Cycle begin = std::max(when, free_);
    std::uint32_t& taken = used(begin / kWindow);
    // Nearly always it fits into a window that the calendar has got to.
    if (begin / kWindow >= first_ + kWindows || taken + amount * kParts > window_) return append(when, amount);
    taken += amount * kParts;
    follow(when, begin, amount);
    return begin;
  }
  void reset() {
    used_.fill(0);
    latest_ = busy_since_ = first_ = full_until_ = free_ = rest_ = 0;
  }

 private:
  static constexpr std::uint32_t kParts = 16;   // of what is counted
  static constexpr std::uint32_t kScale = 256;  // the same, where fractions of a cycle must not be lost

  std::uint32_t& used(Cycle window) { return used_[window % kWindows]; }
  bool any_full() const {
    bool full = false;
    for (const std::uint32_t taken : used_) full |= taken >= window_;
    return full;
  }
  // The calendar goes up to that window.
  void extend(Cycle window) {
    if (window < first_ + kWindows) return;
    const Cycle first = window + 1 - kWindows;
    if (first >= first_ + kWindows && !any_full()) {  // after a pause: nothing is left
      used_.fill(0);
      first_ = first;
      return;
    }
    for (Cycle gone = first_; gone < std::min(first, first_ + kWindows); ++gone) {
      if (used(gone) >= window_) full_until_ = (gone + 1) * kWindow;
      used(gone) = 0;
    }
    first_ = first;
  }
  // The cycle of a window in which it has served what is taken of it.
  Cycle free_in(Cycle window) { return window * kWindow + std::uint64_t{used(window)} * kWindow / window_; }
  // It is the last that has come in order.
  void follow(Cycle when, Cycle begin, std::uint32_t amount) {
    if (begin > free_) {
      free_ = begin;
      rest_ = 0;
    }
    if (begin == when && begin == free_ && rest_ == 0) busy_since_ = begin;
    latest_ = begin;
    if (amount != amount_) {  // nearly always it is the same as before
      amount_ = amount;
      amount_cycles_ = std::uint64_t{amount} * kScale / per_cycle_;
      amount_rest_ = std::uint64_t{amount} * kScale % per_cycle_;
    }
    free_ += amount_cycles_;
    rest_ += amount_rest_;
    if (rest_ < per_cycle_) return;
    rest_ -= per_cycle_;
    ++free_;
  }
  // Behind all that has come in order, and where others have left something.
  Cycle append(Cycle when, std::uint32_t amount) {
    Cycle begin = std::max(when, free_);
    Cycle window = begin / kWindow;
    extend(window);
    if (used(window) >= window_) {
      while (window < first_ + kWindows && used(window) >= window_) ++window;
      begin = std::max(window * kWindow, free_);
    }
    follow(when, begin, amount);
    fill(begin, amount);
    return begin;
  }
  void fill(Cycle begin, std::uint32_t amount) {
    Cycle window = begin / kWindow;
    extend(window);
    std::uint32_t left = amount * kParts;
    while (true) {
      std::uint32_t& taken = used(window);
      const std::uint32_t part = std::min(left, taken < window_ ? window_ - taken : 0);
      taken += part;
      left -= part;
      if (left == 0) return;
      extend(++window);
    }
  }
  Cycle take_behind(Cycle when, std::uint32_t amount) {
    if (when >= busy_since_) return append(latest_, amount);  // from there on it is never idle
    Cycle window = when / kWindow;
    if (window < first_) {
      if (when >= full_until_) return when;
      window = first_;
    }
    while (window * kWindow < busy_since_ && used(window) >= window_) ++window;
    const Cycle begin = std::max(when, free_in(window));
    if (begin >= busy_since_) return append(latest_, amount);
    fill(begin, amount);
    return begin;
  }

  // What has come in order takes all up to cycle free_, and rest_ of that.
  Cycle free_ = 0;
  std::uint64_t rest_ = 0;
  std::uint64_t per_cycle_;
  std::uint64_t amount_cycles_ = 0;  // that the last amount took
  std::uint64_t amount_rest_ = 0;
  std::uint32_t amount_ = 0;
  std::uint32_t window_;  // what a window serves, in parts
  Cycle latest_ = 0;      // the last begin that came in order
  Cycle busy_since_ = 0;  // from then on up to the end of what is taken
  Cycle first_ = 0;       // window of the calendar
  Cycle full_until_ = 0;  // the end of the last full window before it
  std::array<std::uint32_t, kWindows> used_{};
};

// Lines that a cache has been given by a call before their time: whoever finds them there waits until they come.
//
// Remembers the last fill of each of kPlaces groups of keys. One that has been pushed out of its place counts as come.
class PendingFills {
 public:
  void note(std::uint64_t key, Cycle when) {
    if (places_.empty()) places_.resize(kPlaces);
    places_[place_of(key)] = {key, when};
    last_ = std::max(last_, when);
  }
  // When the line is there for an access at `when`.
  Cycle ready(std::uint64_t key, Cycle when) const {
    if (when >= last_) return when;  // always, before the first one
    const Fill& fill = places_[place_of(key)];
    return fill.key == key ? std::max(when, fill.when) : when;
  }
  void reset() {
    places_.clear();
    last_ = 0;
  }

 private:
  static constexpr std::size_t kPlaces = 512;
  struct Fill {
    std::uint64_t key = 0;
    Cycle when = 0;
  };
  static std::size_t place_of(std::uint64_t key) { return key * 0x9E37'79B9'7F4A'7C15U >> 55; }

  std::vector<Fill> places_;  // none before the first note: an SM may never need it
  Cycle last_ = 0;
};

}  // namespace heddle
