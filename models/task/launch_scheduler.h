// The launch scheduler: works on several chains of memory steps at a time, in the order of their arrival (TSK-13). One
// that waits for another writer gives up its place meanwhile, so that it never holds up the one that it waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "arch/idle_account.h"
#include "common/index_pool.h"
#include "common/timebase.h"
#include "task/launch_chain.h"
#include "task/task_params.h"

namespace heddle::task {

// Device memory as chains see it: any number of accesses at a time, each answered once, in any order, by a call of
// LaunchScheduler::answered() with its tag.
class ChainMemory {
 public:
  // `subcontext`: whose address space the address is one of; none: it is physical, as those of the others are.
  virtual void read_line(std::uint64_t address, std::optional<std::uint8_t> subcontext, std::uint32_t tag) = 0;
  virtual void write_line(std::uint64_t address, const RecordLine& line, std::uint32_t tag) = 0;
  virtual void step(const arch::MemoryStep& step, std::uint32_t tag) = 0;

 protected:
  ~ChainMemory() = default;
};

struct ChainAnswer {
  std::uint32_t tag = 0;
  bool ok = false;
  std::uint64_t old = 0;  // of an atomic: the value before
  RecordLine data{};      // of a read, from its first byte on
};

class LaunchScheduler final : private EventHandler {
 public:
  class Client {
   public:
    virtual void chain_effect(const ChainEffect& effect) = 0;

   protected:
    ~Client() = default;
  };
  struct Costs {
    std::uint32_t in_flight = 1;  // chains at a time
    Cycle cycles = 0;             // of the scheduler's own before the first access of a chain
    Cycle retry = 1;              // between two looks at what another writer is to write
  };

  LaunchScheduler(Timebase& timebase, std::string name, ChainMemory& memory, Client& client, const Costs& costs,
                  const std::string& stat_prefix);

  void enter(ChainPtr chain);
  void answered(const ChainAnswer& answer);
  // Chains that are not over.
  std::size_t open() const { return slots_.in_use(); }
  void reset();

 private:
  static constexpr std::uint32_t kStep = 0;
  static constexpr std::uint32_t kRetry = 1;
  struct Waiting {
    std::uint32_t slot = 0;
    bool first = true;  // its first access is ahead of it
  };

  const char* handler_name() const override { return name_.c_str(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void begin_waiting();
  void access(std::uint32_t slot);
  // One that waits for another writer is none that keeps anybody waiting.
  void note_active() { work_.set(active_ + waiting_.size()); }

  Timebase& timebase_;
  const std::string name_;
  ChainMemory& memory_;
  Client& client_;
  const Costs costs_;
  ChainStats stats_;
  IndexPool<ChainPtr> slots_;
  std::deque<Waiting> waiting_;
  std::uint32_t active_ = 0;
  IdleWork work_;
};

// By what tasks go before others: by priority, and among equals by nesting depth. What a task waits for is deeper than
// it, and so comes first: with that, no more parents wait at a time than fit on the machine, for each depth (TSK-12).
struct Urgency {
  std::int32_t priority = 0;  // larger is more urgent
  std::uint32_t depth = 0;

  bool operator>(const Urgency& other) const {
    return priority != other.priority ? priority > other.priority : depth > other.depth;
  }
};

// What waits for a slot of the task table: a list per priority and depth (TSK-02). Each begins with what was put at its
// head, the last first; behind that, the sources of the list take turns (TSK-03), and each is served in the order of
// arrival.
class PriorityLists {
 public:
  using Item = std::uint32_t;
  using Source = std::uint64_t;  // a stream, a queue of packets, a TMDQ

  void push(const Urgency& urgency, Source source, Item item);
  void push_head(const Urgency& urgency, Item item);

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  // Priority of the item at that place of all of them, the most urgent first. The place exists.
  std::int32_t priority_at(std::size_t place) const;
  // The next in turn of the most urgent list was put at its head. There is one.
  bool head_first() const { return !lists_.begin()->second.head.empty(); }
  // The next in turn of the most urgent list. There is one.
  Item take();
  // The same of those for which may(item) says so: who may not keeps its turn. None may: nothing.
  template <class May>
  std::optional<Item> take_if(const May& may);
  // False: it does not wait.
  bool remove(const Urgency& urgency, Item item);
  // All items with their priorities, the most urgent first; within a list heads, then sources in their turn.
  template <class Visit>
  void each(const Visit& visit) const;
  void clear();

 private:
  struct List {
    std::deque<Item> head;
    std::deque<Source> turns;  // sources with items, the next in turn first
    std::unordered_map<Source, std::deque<Item>> sources;
    std::size_t size = 0;
  };
  using Lists = std::map<Urgency, List, std::greater<>>;

  void left(Lists::iterator list);
  Item take_of(Lists::iterator list, std::deque<Source>::iterator turn);

  Lists lists_;
  std::size_t size_ = 0;
};

template <class May>
std::optional<PriorityLists::Item> PriorityLists::take_if(const May& may) {
  for (auto at = lists_.begin(); at != lists_.end(); ++at) {
    List& list = at->second;
    for (auto head = list.head.begin(); head != list.head.end(); ++head) {
      if (!may(*head)) continue;
      const Item item = *head;
      list.head.erase(head);
      left(at);
      return item;
    }
    for (auto turn = list.turns.begin(); turn != list.turns.end(); ++turn) {
      if (may(list.sources.at(*turn).front())) return take_of(at, turn);
    }
  }
  return std::nullopt;
}

template <class Visit>
void PriorityLists::each(const Visit& visit) const {
  for (const auto& [urgency, list] : lists_) {
    for (const Item item : list.head) visit(urgency.priority, item);
    for (const Source source : list.turns) {
      for (const Item item : list.sources.at(source)) visit(urgency.priority, item);
    }
  }
}

}  // namespace heddle::task
