// Places of subcontexts at L2 slices, while bandwidth is shared (PRT-11): how many requests of each may be on their way
// through the crossbar to a slice, or be served there. What has no place waits where it would enter the crossbar, so
// that the queues behind, which all share, do not fill with one subcontext's requests. A plain core.
//
// A slice has as many places as its queue has entries. Half of them are kept for the subcontexts that move something,
// by their weights, one at least for each. Who needs more has more of the others; when they are scarce, the one that
// has least for its weight comes first.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "arch/bandwidth_table.h"

namespace heddle::memory {

struct PlaceRules {
  arch::BandwidthTable* table = nullptr;  // null: bandwidth is never shared
  std::uint32_t queue = 1;                // entries of a slice's queue
};

class CrossbarPlaces {
 public:
  // The table must outlive it.
  CrossbarPlaces(std::uint32_t slices, const PlaceRules& rules)
      : queue_(rules.queue), table_(*rules.table), slices_(slices) {}

  // A request of the subcontext takes a place at the slice. False: there is none for it.
  bool take(std::uint32_t slice, std::uint32_t subcontext);
  void give_back(std::uint32_t slice, std::uint32_t subcontext);
  // Somebody waits for a place for the subcontext at the slice; whoever it is has a number.
  void wait(std::uint32_t slice, std::uint32_t subcontext, std::uint32_t who);
  // The next one of those for whom there is a place, which it has now; none: there is none for any of them.
  std::optional<std::uint32_t> next(std::uint32_t slice);
  // Calls visit(who) for each that waits.
  template <class Visit>
  void for_each_waiting(std::uint32_t slice, Visit&& visit) const {
    for (const Queue& queue : slices_[slice].waiting) {
      for (const std::uint32_t who : queue.who) visit(who);
    }
  }

  std::uint32_t taken(std::uint32_t slice, std::uint32_t subcontext) const {
    return slices_[slice].taken[arch::BandwidthTable::place(subcontext)];
  }
  // That are kept for it at every slice.
  std::uint32_t kept(std::uint32_t subcontext) {
    refresh();
    return kept_[arch::BandwidthTable::place(subcontext)];
  }
  void reset();

 private:
  // In the order of their coming.
  struct Queue {
    std::uint32_t subcontext = 0;
    std::deque<std::uint32_t> who;
  };
  struct Slice {
    std::vector<Queue> waiting;  // none of them is empty
    std::array<std::uint16_t, arch::kSubcontexts> taken{};
    std::uint32_t all = 0;     // that are taken
    std::uint32_t unused = 0;  // that are kept and not taken
  };

  // After a change of weights.
  void refresh() {
    if (version_ != table_.version()) divide();
  }
  void divide();

  const std::uint32_t queue_;
  const arch::BandwidthTable& table_;
  std::uint64_t version_ = ~std::uint64_t{0};
  std::array<std::uint16_t, arch::kSubcontexts> kept_{};
  std::vector<Slice> slices_;
};

}  // namespace heddle::memory
