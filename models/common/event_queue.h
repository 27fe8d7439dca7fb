// Events of one clock domain, in order of time. A plain data structure: SystemC enters with Domain.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "common/cycle.h"
#include "common/error.h"
#include "common/storage.h"

namespace heddle {

// Something that events are addressed to: a socket, a block.
class EventHandler {
 public:
  virtual void on_event(std::uint32_t kind, std::uint64_t argument) = 0;
  // For messages: the module or socket.
  virtual const char* handler_name() const { return "an event"; }

  // Null for almost all: who fetches what the handler's next events touch (common/storage.h).
  const CacheWarmer* warmer() const { return warmer_; }

 protected:
  ~EventHandler() = default;
  void warm_by(const CacheWarmer& warmer) { warmer_ = &warmer; }

 private:
  const CacheWarmer* warmer_ = nullptr;
};

// A timing wheel of one-cycle buckets for the near future and a heap for the rest: constant cost for almost every
// event. Events of one cycle run in the order in which they were entered, except that those from outside the domain
// (`foreign`) run first. So, as long as foreign events lie at least a cycle ahead, the outcome does not depend on the
// order in which SystemC runs processes of equal time.
class EventQueue {
 public:
  static constexpr std::uint32_t kBuckets = 16384;

  EventQueue();

  // `when` must not lie before now().
  void push(Cycle when, EventHandler& handler, std::uint32_t kind, std::uint64_t argument, bool foreign = false);
  // Takes back an event that was entered like that, if there is one; of several equal ones, any. False: there is none.
  // Costs a walk through the events of that cycle or, for a far one, through all that are far.
  bool cancel(Cycle when, const EventHandler& handler, std::uint32_t kind, std::uint64_t argument);
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Cycle of the earliest event; kNever without one.
  Cycle next() const;
  // The cycle that was run last.
  Cycle now() const { return now_; }
  // Runs all events of cycle next(), also those that its events add to the same cycle. Returns their number.
  std::uint64_t run_cycle();
  std::uint64_t executed() const { return executed_; }
  // Of events that were entered for a far time, kBuckets cycles ahead or more: how many there have been, and whether
  // one of the first `count` of them is still as far away.
  std::uint64_t far_entered() const { return order_; }
  bool far_open(std::uint64_t count) const;
  // Whose event runs, or ran last; null before the first.
  const EventHandler* running() const { return running_; }
  // Drops all events and starts again at cycle 0.
  void clear();

 private:
  static constexpr std::uint32_t kWords = kBuckets / 64;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Event {
    EventHandler* handler;
    std::uint64_t argument;
    std::uint32_t kind;
    std::uint32_t next;
  };
  struct Bucket {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t foreign_tail = kNone;  // the last of the foreign events, which are in front
  };
  struct FarEvent {
    Cycle when;
    std::uint64_t order;
    EventHandler* handler;
    std::uint64_t argument;
    std::uint32_t kind;
    bool foreign;
  };
  struct Later {
    bool operator()(const FarEvent& a, const FarEvent& b) const {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };

  void insert_near(Cycle when, EventHandler& handler, std::uint32_t kind, std::uint64_t argument, bool foreign);
  bool cancel_near(Cycle when, const EventHandler& handler, std::uint32_t kind, std::uint64_t argument);
  void take_far(std::size_t place);
  void clear_bit(std::uint32_t bucket);
  void advance_to(Cycle when);
  void look_ahead(std::uint32_t node) const;
  Cycle next_near() const;

  BigVector<Event> nodes_;
  std::uint32_t free_ = kNone;
  BigVector<Bucket> wheel_;
  std::array<std::uint64_t, kWords> occupied_{};             // one bit per bucket
  std::array<std::uint64_t, kWords / 64> occupied_words_{};  // one bit per word of occupied_
  std::vector<FarEvent> far_;
  Cycle now_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t executed_ = 0;
  std::size_t size_ = 0;
  std::size_t near_size_ = 0;
  const EventHandler* running_ = nullptr;
};

inline void EventQueue::push(Cycle when, EventHandler& handler, std::uint32_t kind, std::uint64_t argument,
                             bool foreign) {
  HEDDLE_CHECK(when >= now_, "an event was entered in the past");
  ++size_;
  if (when - now_ < kBuckets) {
    insert_near(when, handler, kind, argument, foreign);
    return;
  }
  far_.push_back({when, order_++, &handler, argument, kind, foreign});
  std::push_heap(far_.begin(), far_.end(), Later{});
}

inline void EventQueue::insert_near(Cycle when, EventHandler& handler, std::uint32_t kind, std::uint64_t argument,
                                    bool foreign) {
  std::uint32_t node = free_;
  if (node == kNone) {
    node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    free_ = nodes_[node].next;
  }
  nodes_[node] = {&handler, argument, kind, kNone};

  const auto index = static_cast<std::uint32_t>(when % kBuckets);
  Bucket& bucket = wheel_[index];
  if (bucket.head == kNone) {
    occupied_[index / 64] |= std::uint64_t{1} << (index % 64);
    occupied_words_[index / 4096] |= std::uint64_t{1} << (index / 64 % 64);
  }
  const std::uint32_t before = foreign ? bucket.foreign_tail : bucket.tail;
  std::uint32_t& link = before == kNone ? bucket.head : nodes_[before].next;
  nodes_[node].next = link;
  link = node;
  if (foreign) bucket.foreign_tail = node;
  if (nodes_[node].next == kNone) bucket.tail = node;
  ++near_size_;
}

}  // namespace heddle
