// How one resource is divided among subcontexts: fairly by weight, and with limits (PRT-11). Plain cores.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "arch/bandwidth_table.h"
#include "common/cycle.h"

namespace heddle::memory {

// Start-time fair queueing (Goyal, Vin, Cheng 1996): each subcontext has a tag, which what it has been served moves on
// by its cost over its weight; the least tag goes first. The clock is the tag that was served last. Who has asked for
// nothing, or could not be served, begins at the clock again: nothing is saved up.
//
// Over any time in which two subcontexts can always be served, what they are served is in proportion to their weights,
// but for one service of each.
class FairClock {
 public:
  using Tag = std::uint64_t;

  // `table` must outlive it.
  explicit FairClock(const arch::BandwidthTable& table) : table_(table) {}

  Tag tag(std::uint32_t subcontext) const { return std::max(clock_, tags_[arch::BandwidthTable::place(subcontext)]); }
  // The subcontext is served at its tag.
  void serve(std::uint32_t subcontext, std::uint64_t cost) {
    clock_ = tag(subcontext);
    charge(subcontext, cost);
  }
  // It has had that much, without having been chosen for it.
  void charge(std::uint32_t subcontext, std::uint64_t cost) {
    const Tag begin = tag(subcontext);
    tags_[arch::BandwidthTable::place(subcontext)] = begin + cost * kScale / table_.weight(subcontext);
  }
  // For tags that are given out when something comes, and served later: the clock goes on to that one.
  void advance(Tag served) { clock_ = std::max(clock_, served); }
  void reset(Tag begin = 0) {
    clock_ = begin;
    tags_.fill(0);
  }

 private:
  static constexpr std::uint64_t kScale = 1U << 20;  // so that what division leaves counts for nothing

  const arch::BandwidthTable& table_;
  Tag clock_ = 0;
  std::array<Tag, arch::kSubcontexts> tags_{};
};

// A token bucket (as virtual scheduling, ITU-T I.371): over any time T a subcontext takes at most its limit of T plus
// `burst` and one request, and, where it always wants more, its limit of T. Times are in parts of a cycle.
class RateLimit {
 public:
  static constexpr std::uint64_t kParts = 256;  // of a cycle

  // `burst`: cycles of the whole resource's work. `table` must outlive it.
  RateLimit(const arch::BandwidthTable& table, std::uint32_t burst) : table_(table), burst_(burst * kParts) {}

  // When the subcontext may take more: `now`, or a later cycle.
  Cycle free_at(std::uint32_t subcontext, Cycle now) const {
    const std::uint64_t paid = paid_until(subcontext, now);
    // A burst of the whole resource is paid for at the subcontext's rate.
    const std::uint64_t ahead = burst_ * arch::kWholeBandwidth / table_.limit(subcontext);
    if (paid <= now * kParts + ahead) return now;
    return (paid - ahead + kParts - 1) / kParts;
  }
  // It takes what keeps the resource busy for that many parts of a cycle.
  void take(std::uint32_t subcontext, std::uint64_t parts, Cycle now) {
    const std::uint32_t limit = table_.limit(subcontext);
    Account& account = accounts_[arch::BandwidthTable::place(subcontext)];
    account.paid =
        limit == arch::kWholeBandwidth ? 0 : paid_until(subcontext, now) + parts * arch::kWholeBandwidth / limit;
    account.limit = limit;
  }
  void reset() { accounts_.fill({}); }

 private:
  struct Account {
    std::uint64_t paid = 0;                       // until when its rate has been used up: parts of a cycle
    std::uint32_t limit = arch::kWholeBandwidth;  // that rate
  };
  // What has been taken ahead at another rate is paid for at the one that holds now.
  std::uint64_t paid_until(std::uint32_t subcontext, Cycle now) const {
    const Account& account = accounts_[arch::BandwidthTable::place(subcontext)];
    const std::uint64_t begin = now * kParts;
    if (account.paid <= begin) return begin;
    return begin + (account.paid - begin) * account.limit / table_.limit(subcontext);
  }

  const arch::BandwidthTable& table_;
  const std::uint64_t burst_;  // parts of a cycle
  std::array<Account, arch::kSubcontexts> accounts_{};
};

}  // namespace heddle::memory
