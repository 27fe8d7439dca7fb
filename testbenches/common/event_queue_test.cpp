// The event queue against a list that is searched for its first element every time.
#include "common/event_queue.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "support/random.h"

namespace common_event_queue_test {

using namespace heddle;
using test::Random;
using test::scramble;

namespace {

constexpr std::uint64_t kBuckets = 16'384;  // of the wheel

using heddle::Cycle;

struct Ran {
  Cycle cycle;
  std::uint64_t id;
  bool operator==(const Ran& other) const { return cycle == other.cycle && id == other.id; }
};

std::ostream& operator<<(std::ostream& os, const Ran& ran) { return os << ran.id << "@" << ran.cycle; }

// What the real queue and the list have in common.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual void push(Cycle when, std::uint64_t id, bool foreign) = 0;
  virtual bool cancel(Cycle when, std::uint64_t id) = 0;
  virtual std::uint64_t run_cycle() = 0;
  virtual Cycle next() const = 0;
  virtual Cycle now() const = 0;
  virtual std::size_t size() const = 0;
  virtual std::uint64_t executed() const = 0;
  virtual void clear() = 0;

  std::function<void(std::uint64_t)> on_run;
};

class Real final : public Subject, private EventHandler {
 public:
  void push(Cycle when, std::uint64_t id, bool foreign) override {
    queue_.push(when, *this, static_cast<std::uint32_t>(id * 7), id, foreign);
  }
  bool cancel(Cycle when, std::uint64_t id) override {
    return queue_.cancel(when, *this, static_cast<std::uint32_t>(id * 7), id);
  }
  std::uint64_t run_cycle() override { return queue_.run_cycle(); }
  Cycle next() const override { return queue_.next(); }
  Cycle now() const override { return queue_.now(); }
  std::size_t size() const override { return queue_.size(); }
  std::uint64_t executed() const override { return queue_.executed(); }
  void clear() override { queue_.clear(); }

 private:
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    if (kind != static_cast<std::uint32_t>(argument * 7))
      throw std::logic_error("kind and argument do not belong together");
    on_run(argument);
  }

  EventQueue queue_;
};

class Oracle final : public Subject {
 public:
  void push(Cycle when, std::uint64_t id, bool foreign) override { events_.push_back({when, !foreign, order_++, id}); }
  bool cancel(Cycle when, std::uint64_t id) override {
    const auto at = std::find_if(events_.begin(), events_.end(),
                                 [&](const Event& event) { return event.when == when && event.id == id; });
    if (at == events_.end()) return false;
    events_.erase(at);
    return true;
  }
  std::uint64_t run_cycle() override {
    now_ = first()->when;
    std::uint64_t count = 0;
    for (auto at = first(); at != events_.end() && at->when == now_; at = first()) {
      const std::uint64_t id = at->id;
      events_.erase(at);
      ++count;
      on_run(id);
    }
    executed_ += count;
    return count;
  }
  Cycle next() const override {
    const auto at = const_cast<Oracle*>(this)->first();
    return at == events_.end() ? kNever : at->when;
  }
  Cycle now() const override { return now_; }
  std::size_t size() const override { return events_.size(); }
  std::uint64_t executed() const override { return executed_; }
  void clear() override {
    events_.clear();
    now_ = 0;
  }

 private:
  struct Event {
    Cycle when;
    bool own;
    std::uint64_t order;
    std::uint64_t id;
  };
  std::vector<Event>::iterator first() {
    return std::min_element(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tie(a.when, a.own, a.order) < std::tie(b.when, b.own, b.order);
    });
  }

  std::vector<Event> events_;
  Cycle now_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t executed_ = 0;
};

// Now, soon, around the edges of the wheel, or far away.
Cycle distance(std::uint64_t hash) {
  const std::uint64_t value = hash >> 8;
  switch (hash % 8) {
    case 0:
      return 0;
    case 1:
      return value % 8;
    case 2:
      return value % 300;
    case 3:
      return kBuckets - 2 + value % 5;
    case 4:
      return value % (2 * kBuckets);
    case 5:
      return kBuckets * (1 + value % 4) - value % 2;
    case 6:
      return 64 * (value % 300);
    default:
      return value % 1'000'001;
  }
}

// Runs one random sequence on a subject. What an event does depends on its number and the seed only, so that two
// subjects that run the same events in the same order do the same.
std::vector<Ran> play(Subject& subject, std::uint64_t seed) {
  Random dice(seed);
  std::vector<Ran> ran;
  std::uint64_t next_id = 0;
  std::uint64_t budget = 0;
  std::vector<Cycle> entered_for;  // by id
  const auto push = [&](Cycle when, bool foreign) {
    entered_for.push_back(when);
    subject.push(when, next_id++, foreign);
  };
  // Of any event so far, which may have run, or been taken back.
  const auto cancel = [&](std::uint64_t hash) {
    if (next_id == 0) return;
    const std::uint64_t id =
        hash % 3 == 0 ? hash / 3 % next_id : next_id - 1 - hash / 3 % std::min<std::uint64_t>(next_id, 6);
    const bool elsewhere = hash >> 61 == 0;
    const bool taken = subject.cancel(entered_for[id] + (elsewhere ? 1 : 0), id);
    ran.push_back({subject.next(), 2 * id + (taken ? 1 : 0)});
  };
  subject.on_run = [&](std::uint64_t id) {
    ran.push_back({subject.now(), id});
    const std::uint64_t hash = scramble(seed ^ scramble(id));
    for (std::uint64_t child = 0; child < hash % 4 && budget > 0; ++child, --budget) {
      const std::uint64_t detail = scramble(hash + child);
      push(subject.now() + distance(detail), detail >> 60 == 0);
    }
    if (hash >> 60 < 4) cancel(scramble(hash));
  };
  const std::uint64_t steps = dice.between64(1, 12);
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::uint64_t pushes = dice.between64(0, 20);
    for (std::uint64_t i = 0; i < pushes; ++i) {
      const Cycle when = subject.now() + distance(dice.next());
      push(when, dice.one_in(3));
      if (dice.one_in(5)) cancel(dice.next());
    }
    budget = 40;
    const std::uint64_t runs = step + 1 == steps ? ~std::uint64_t{0} : dice.between64(0, 30);
    for (std::uint64_t i = 0; i < runs && subject.next() != kNever; ++i) {
      const Cycle next = subject.next();
      const std::uint64_t count = subject.run_cycle();
      ran.push_back({next, count});  // the count is compared too
    }
    ran.push_back({subject.now(), subject.size()});
    if (dice.one_in(8)) subject.clear();
    ran.push_back({subject.now(), subject.executed()});
  }
  return ran;
}

// Collects the order of events; each may do something of its own.
struct Log final : EventHandler {
  void on_event(std::uint32_t kind, std::uint64_t argument) override {
    seen.push_back(argument);
    if (then) then(kind, argument);
  }
  std::vector<std::uint64_t> seen;
  std::function<void(std::uint32_t, std::uint64_t)> then;
};

}  // namespace

TEST_CASE("random sequences of events run as a sorted list would run them", "[event_queue]") {
  HEDDLE_RANDOM(dice);
  auto real = std::make_unique<Real>();
  Oracle oracle;
  std::set<std::size_t> lengths;
  for (int round = 0; round < 4000; ++round) {
    const std::uint64_t seed = dice.next();
    CAPTURE(round, seed);
    // The same queue goes on for a while, so that rounds begin with used nodes and a late cycle or after clear().
    if (round % 16 == 0) {
      real = std::make_unique<Real>();
      oracle = Oracle();
    } else if (round % 2 == 0) {
      real->clear();
      oracle.clear();
    }
    const std::vector<Ran> expected = play(oracle, seed);
    const std::vector<Ran> actual = play(*real, seed);
    if (expected != actual) REQUIRE(actual == expected);
    lengths.insert(expected.size());
  }
  CHECK(lengths.size() > 50);  // the sequences do differ
}

TEST_CASE("events at the edges of the wheel come in order from every position of the wheel", "[event_queue]") {
  for (const Cycle start : {Cycle{0}, Cycle{1}, Cycle{63}, Cycle{64}, Cycle{4095}, Cycle{4096}, kBuckets - 1, kBuckets,
                            kBuckets + 1, 5 * kBuckets + 77, Cycle{1'000'000}}) {
    CAPTURE(start);
    EventQueue queue;
    Log log;
    queue.push(start, log, 0, 0);
    REQUIRE(queue.run_cycle() == 1);
    REQUIRE(queue.now() == start);
    std::vector<Cycle> order;
    const std::vector<Cycle> distances = {2 * kBuckets, kBuckets + 1, kBuckets, kBuckets - 1, 1, 0, 63,
                                          64,           65,           4096,     kBuckets - 64};
    for (const Cycle distance : distances) queue.push(start + distance, log, 0, distance);
    log.seen.clear();
    while (!queue.empty()) {
      const Cycle next = queue.next();
      REQUIRE(queue.run_cycle() == 1);
      CHECK(queue.now() == next);
      CHECK(queue.now() == start + log.seen.back());
    }
    order = distances;
    std::sort(order.begin(), order.end());
    CHECK(log.seen == order);
  }
}

TEST_CASE("a single event is found at every distance", "[event_queue]") {
  EventQueue queue;
  Log log;
  Cycle at = 0;
  for (Cycle distance = 0; distance < 2 * kBuckets + 3; distance += distance % 61 == 60 ? 7 : 1) {
    at += distance;
    queue.push(at, log, 0, 0);
    if (queue.next() != at) REQUIRE(queue.next() == at);
    queue.run_cycle();
  }
  CHECK(queue.empty());
  CHECK(queue.next() == kNever);
}

TEST_CASE("it is known whether far events that were entered by then are still far", "[event_queue]") {
  EventQueue queue;
  Log log;
  CHECK_FALSE(queue.far_open(queue.far_entered()));
  queue.push(EventQueue::kBuckets - 1, log, 0, 1);  // near
  CHECK(queue.far_entered() == 0);
  queue.push(3 * EventQueue::kBuckets - 2, log, 0, 2);
  const std::uint64_t entered = queue.far_entered();
  CHECK(entered == 1);
  queue.push(9 * EventQueue::kBuckets, log, 0, 3);
  CHECK(queue.far_open(entered));
  queue.run_cycle();
  CHECK(queue.far_open(entered));
  queue.push(queue.now() + EventQueue::kBuckets, log, 0, 4);
  queue.run_cycle();  // from there on what was entered first is near
  CHECK_FALSE(queue.far_open(entered));
  CHECK(queue.far_open(queue.far_entered()));
  CHECK_FALSE(queue.far_open(0));
}

TEST_CASE("an event that was far away goes before one entered later for the same cycle", "[event_queue]") {
  EventQueue queue;
  Log log;
  const Cycle target = kBuckets + 10;
  queue.push(target, log, 0, 1);        // far
  queue.push(target, log, 0, 2, true);  // far and foreign
  queue.push(50, log, 0, 0);
  queue.run_cycle();
  queue.push(target, log, 0, 3);  // near by now
  queue.push(target, log, 0, 4, true);
  queue.run_cycle();
  CHECK(log.seen == std::vector<std::uint64_t>{0, 2, 4, 1, 3});
}

TEST_CASE("events of the running cycle: foreign ones before those that wait, own ones behind", "[event_queue]") {
  EventQueue queue;
  Log log;
  log.then = [&](std::uint32_t, std::uint64_t argument) {
    if (argument != 1) return;
    queue.push(queue.now(), log, 0, 10);
    queue.push(queue.now(), log, 0, 11, true);
    queue.push(queue.now(), log, 0, 12, true);
  };
  queue.push(5, log, 0, 1);
  queue.push(5, log, 0, 2);
  CHECK(queue.run_cycle() == 5);
  CHECK(log.seen == std::vector<std::uint64_t>{1, 11, 12, 2, 10});
  CHECK(queue.executed() == 5);
}

TEST_CASE("very many foreign events of one cycle cost no more than others", "[event_queue]") {
  EventQueue queue;
  Log log;
  constexpr std::uint64_t kMany = 300'000;  // with a search per event this would take minutes
  for (std::uint64_t i = 0; i < kMany; ++i) queue.push(3, log, 0, 2 * i + 1, true);
  for (std::uint64_t i = 0; i < 10; ++i) queue.push(3, log, 0, 2 * i);
  CHECK(queue.run_cycle() == kMany + 10);
  CHECK(log.seen.front() == 1);
  CHECK(log.seen[kMany - 1] == 2 * kMany - 1);
  CHECK(log.seen.back() == 18);
}

TEST_CASE("an event in the past is refused", "[event_queue]") {
  EventQueue queue;
  Log log;
  queue.push(100, log, 0, 0);
  queue.run_cycle();
  CHECK_THROWS_AS(queue.push(99, log, 0, 0), CheckFailed);
  CHECK(queue.empty());
  CHECK_NOTHROW(queue.push(100, log, 0, 0));
  queue.clear();
  CHECK_NOTHROW(queue.push(0, log, 0, 0));
}

TEST_CASE("an event that throws is gone, and the queue goes on with the next", "[event_queue]") {
  EventQueue queue;
  Log log;
  log.then = [](std::uint32_t, std::uint64_t argument) {
    if (argument == 2) throw std::runtime_error("two");
  };
  for (std::uint64_t i = 1; i <= 3; ++i) queue.push(7, log, 0, i);
  CHECK_THROWS_AS(queue.run_cycle(), std::runtime_error);
  CHECK(queue.size() == 1);
  CHECK(queue.next() == 7);
  CHECK(queue.run_cycle() == 1);
  CHECK(log.seen == std::vector<std::uint64_t>{1, 2, 3});
}

}  // namespace common_event_queue_test
