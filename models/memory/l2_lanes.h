// Requests that wait at an L2 slice while bandwidth is shared (PRT-11): a lane for each subcontext and ingress port, in
// order of arrival each. Which lane's first request is served next is decided by the shares, once its time has come.
// A plain core.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/bandwidth_table.h"
#include "common/bits.h"
#include "common/cycle.h"
#include "common/index_pool.h"
#include "memory/fair_share.h"
#include "memory/owner_accounts.h"

namespace heddle::memory {

// What a slice has to divide.
struct SliceShares {
  arch::BandwidthTable* table = nullptr;  // null: nothing is ever divided; must outlive the slice
  double memory_bytes_per_cycle = 1;      // the slice's part of what memory moves
  std::uint32_t burst = 0;                // cycles: what a limit lets pass ahead of its rate
};

class L2Lanes {
 public:
  static constexpr std::uint32_t kPorts = 3;
  static constexpr std::uint32_t kLanes = kPorts * arch::kSubcontexts;
  struct Request {
    void* handle = nullptr;
    Cycle ready = 0;  // when its tags are known
  };
  // What serving a request takes.
  struct Cost {
    std::uint32_t port_cycles = 1;  // of the data port
    std::uint32_t fetched = 0;      // sectors that memory has to supply
    std::uint32_t dirtied = 0;      // sectors that memory has, and the L2 will have to write back
    std::uint32_t of_memory() const { return fetched + dirtied; }
  };

  // `owners`: null: nobody asks whose waits these are.
  L2Lanes(const SliceShares& shares, OwnerAccounts* owners);

  // In order of `ready` within a port.
  void enter(std::uint32_t port, std::uint32_t subcontext, const Request& request);
  bool empty() const { return open_.empty(); }
  const Request& front(std::uint32_t lane) const { return lanes_[lane].requests.front(); }
  static std::uint32_t port_of(std::uint32_t lane) { return lane / arch::kSubcontexts; }

  // A round begins: which first requests could be served now. `ports`: bit = port that may be served.
  // `cost_of(handle)` says what a request costs. Those whose subcontext has used up its limit are left out.
  template <class CostOf>
  void begin_round(Cycle now, std::uint32_t ports, CostOf&& cost_of) {
    now_ = now;
    again_ = kNever;
    offers_.clear();
    for (const std::uint32_t lane : open_) {
      const Request& first = front(lane);
      if (first.ready > now) {
        again_ = std::min(again_, first.ready);
      } else if (bits::contains(ports, port_of(lane))) {
        offer(lane, cost_of(first.handle));
      }
    }
  }
  // Of these, the one to be tried: among those that need memory the one whose subcontext has had least of it for its
  // weight, and among this one and the others the one that has had least of the data port. None: nothing is left.
  std::optional<std::uint32_t> choose();
  // The chosen one is served and leaves its lane; the round is over.
  void serve();
  // It cannot be served before memory has answered something. `for_all`: memory has all that it can have, so that none
  // of the others that need it, whose turn comes later, goes before it either.
  void stall(bool for_all);
  // When to look again, unless something else happens: kNever if nothing but that can change anything.
  Cycle again() const { return again_; }

  // Sectors that memory supplies without a request: those that subcontexts wrote in parts are completed.
  void charge(const SectorOwners& whose, std::uint32_t sectors) {
    bits::for_each(sectors, [&](std::uint32_t sector) {
      memory_.charge(whose[sector], sector_parts_);
      memory_limit_.take(whose[sector], sector_parts_, now_);
    });
  }

  // Calls visit(handle) for all that wait.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const std::uint32_t lane : open_) {
      for (std::size_t i = 0; i < lanes_[lane].requests.size(); ++i) visit(lanes_[lane].requests.at(i).handle);
    }
  }
  void reset();

 private:
  struct Lane {
    Ring<Request> requests;
    Cycle held_since = kNever;  // its first request, by a limit
  };
  struct Offer {
    std::uint32_t lane = 0;
    Cost cost;
  };
  static std::uint32_t subcontext_of(std::uint32_t lane) { return lane % arch::kSubcontexts; }
  // What the machine itself asks for, on behalf of whoever: no limit of a process holds it up.
  static bool is_machines(std::uint32_t lane) { return port_of(lane) == 1 && subcontext_of(lane) == 0; }
  void offer(std::uint32_t lane, const Cost& cost);
  bool before(const Offer& a, const Offer& b, const FairClock& clock) const;
  std::uint64_t parts_of(std::uint32_t sectors) const { return sectors * sector_parts_; }

  FairClock port_;
  FairClock memory_;
  RateLimit port_limit_;
  RateLimit memory_limit_;
  const std::uint64_t sector_parts_;  // of a cycle, that a sector keeps the slice's part of memory busy
  OwnerAccounts* owners_;
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> open_;  // lanes with requests
  std::vector<Offer> offers_;
  std::uint32_t chosen_ = 0;  // of these
  Cycle now_ = 0;
  Cycle again_ = kNever;
};

}  // namespace heddle::memory
