// Every interleaving of what else device-side launches do to memory: rings of free records, and queues of queue tasks
// (TSK-05, TSK-13).
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tmdq_explorer.h"

namespace arch_tmdq_rings_test {

using namespace heddle::arch;
using heddle::test::explore;
using heddle::test::Explored;
using heddle::test::Key;
using heddle::test::show;
using heddle::test::walk_on;
using heddle::test::Words;
using heddle::test::Wrong;

namespace {

using Kind = MemoryStep::Kind;

// Takers take records one after another; each of them is given back by whoever finds it in the basket. Who finds none
// tries again, or gives up.
class Pool {
 public:
  struct Move {
    std::uint32_t actor = 0;
    std::uint32_t which = 0;  // of the basket
  };
  struct Shape {
    std::uint64_t records = 1;
    std::uint64_t spill = 0;  // records behind
    std::uint32_t takers = 1;
    std::uint32_t takes = 1;
    std::uint32_t givers = 1;
    bool patient = true;  // takers try again
    std::string text() const {
      return std::to_string(records) + "+" + std::to_string(spill) + " records, " + std::to_string(takers) +
             " takers of " + std::to_string(takes) + (patient ? "" : " who give up") + ", " + std::to_string(givers) +
             " givers";
    }
  };
  // Mistakes that the exploration has to find.
  enum class Mistake : std::uint8_t {
    none,
    forgetful,  // who is refused stays counted as a user
  };
  explicit Pool(const Shape& shape, Mistake mistake = Mistake::none)
      : supply_{{0x1000, shape.records, kRecordBytes}, {0x8000, shape.spill, kRecordBytes}},
        patient_(shape.patient),
        mistake_(mistake),
        takers_(shape.takers, Taker{shape.takes, {}, {}}),
        givers_(shape.givers) {
    for (const RecordPool& pool : pools()) {
      words_.add(pool.base + ring::kTaken);
      words_.add(pool.base + ring::kGiven);
      words_.add(pool.base + ring::kUsed);
      for (std::uint64_t i = 0; i < pool.count; ++i) words_.add(pool.base + ring::kSlots + 8 * i);
    }
  }
  std::vector<Move> moves() const {
    std::vector<Move> result;
    for (std::uint32_t i = 0; i < takers_.size(); ++i) {
      if (takers_[i].left > 0) result.push_back({i, 0});
    }
    for (std::uint32_t i = 0; i < givers_.size(); ++i) {
      const auto actor = static_cast<std::uint32_t>(takers_.size()) + i;
      if (givers_[i].walk) {
        result.push_back({actor, 0});
      } else {
        for (std::uint32_t which = 0; which < basket_.size(); ++which) result.push_back({actor, which});
      }
    }
    return result;
  }
  void make(const Move& move) {
    if (move.actor < takers_.size()) {
      take(takers_[move.actor]);
      return;
    }
    Giver& giver = givers_[move.actor - takers_.size()];
    if (!giver.walk) {
      giver.record = basket_[move.which];
      giver.walk.emplace(supply_, giver.record);
      basket_.erase(basket_.begin() + move.which);
    }
    walk_on(*giver.walk, words_, giver.answers);
    if (!giver.walk->over()) return;
    giver = {};
  }
  bool ended() const {
    if (!moves().empty()) return false;
    for (const RecordPool& pool : pools()) {
      if (words_.at(pool.base + ring::kUsed) != 0) throw Wrong("nobody uses a record, and one is counted");
      if (words_.at(pool.base + ring::kTaken) != words_.at(pool.base + ring::kGiven)) throw Wrong("a record was lost");
    }
    drain();
    return true;
  }
  void key(Key& key) const {
    key.add_all(words_.values());
    for (const Taker& taker : takers_) {
      key.add(taker.left);
      key.add_all(taker.answers);
    }
    for (const Giver& giver : givers_) {
      key.add(giver.record);
      key.add_all(giver.answers);
    }
    key.add_all(basket_);
  }

 private:
  struct Taker {
    std::uint32_t left = 0;
    std::optional<TakeSteps> walk;
    std::vector<std::uint64_t> answers;
  };
  struct Giver {
    std::uint64_t record = 0;
    std::optional<GiveSteps> walk;
    std::vector<std::uint64_t> answers;
  };
  std::vector<RecordPool> pools() const {
    if (supply_.spill.count == 0) return {supply_.pool};
    return {supply_.pool, supply_.spill};
  }
  void take(Taker& taker) {
    if (!taker.walk) taker.walk.emplace(supply_);
    const MemoryStep step = taker.walk->step();
    const bool uncounts = step.kind == Kind::add && step.value == ~std::uint64_t{0};
    if (mistake_ == Mistake::forgetful && uncounts) ++words_[step.address];
    walk_on(*taker.walk, words_, taker.answers);
    // Each other actor stands for one record at most.
    const MemoryStep next = taker.walk->step();
    const bool refused = next.kind == Kind::add && next.value == ~std::uint64_t{0};
    const std::uint64_t count =
        next.address == supply_.spill.base + ring::kUsed ? supply_.spill.count : supply_.pool.count;
    if (refused && takers_.size() - 1 + givers_.size() + basket_.size() < count) {
      throw Wrong("refused, and others cannot have all records");
    }
    if (!taker.walk->over()) return;
    const std::uint64_t record = taker.walk->record();
    if (record != 0) {
      if (taker.walk->ticket() == 0) throw Wrong("a launch without a number");
      if (!supply_.has(record)) throw Wrong("no record");
      if (taker.walk->spilled() != supply_.spill.has(record)) throw Wrong("a record of the other pool");
      basket_.push_back(record);
      std::sort(basket_.begin(), basket_.end());
      if (std::adjacent_find(basket_.begin(), basket_.end()) != basket_.end()) {
        throw Wrong("a record was handed out twice");
      }
    }
    taker.walk.reset();
    taker.answers.clear();
    if (record != 0 || !patient_) --taker.left;
  }
  // All records can be had, each once, and then no more.
  void drain() const {
    Words words = words_;
    std::vector<std::uint64_t> records;
    for (std::uint64_t i = 0; i <= supply_.pool.count + supply_.spill.count; ++i) {
      TakeSteps take(supply_);
      for (std::uint32_t step = 0; step < 6 && !take.over(); ++step) take.answer(words.carry_out(take.step()));
      if (!take.over()) throw Wrong("a record is waited for that nobody has");
      if (take.record() != 0) records.push_back(take.record());
    }
    std::sort(records.begin(), records.end());
    std::vector<std::uint64_t> all;
    for (const RecordPool& pool : pools()) {
      for (std::uint64_t i = 0; i < pool.count; ++i) all.push_back(pool.record(i));
    }
    if (records != all) throw Wrong("a record was lost, or is there twice");
  }

  RecordSupply supply_;
  bool patient_;
  Mistake mistake_;
  Words words_;
  std::vector<Taker> takers_;
  std::vector<Giver> givers_;
  std::vector<std::uint64_t> basket_;
};

constexpr std::uint64_t kQueue = 0x100;
constexpr std::uint64_t kEntries = 0x1000;

// Appenders, CTAs that use entries in any order, and task management, which passes on what is contiguous and closes the
// queue: when it is empty, or (`stop`) at any time, and then nothing is used any more.
class Queue {
 public:
  enum class Who : std::uint8_t { appender, packet, consumer, closer, stopper };
  struct Move {
    Who who = Who::appender;
    std::uint32_t which = 0;
  };
  Queue(std::uint64_t capacity, std::uint32_t appenders, std::uint32_t appends, bool stop)
      : capacity_(capacity), stop_(stop), appenders_(appenders, Appender{appends}) {
    words_.add(kQueue + queue::kTickets);
    words_.add(kQueue + queue::kCapacity, capacity);
    words_.add(kQueue + queue::kEntries, kEntries);
    for (std::uint64_t i = 0; i < capacity; ++i) {
      words_.add(kEntries + i * kQueueEntryBytes);
      words_.add(kEntries + i * kQueueEntryBytes + kQueueEntryData);
    }
  }
  std::vector<Move> moves() const {
    std::vector<Move> result;
    for (std::uint32_t i = 0; i < appenders_.size(); ++i) {
      if (appenders_[i].left > 0) result.push_back({Who::appender, i});
    }
    for (std::uint32_t i = 0; i < packets_.size(); ++i) result.push_back({Who::packet, i});
    for (std::uint32_t i = 0; i < ctas_.size() && !stopped_; ++i) result.push_back({Who::consumer, i});
    if (!closed_ && !failed_ && ctas_.empty()) result.push_back({Who::closer, 0});
    if (!closed_ && stop_ && !stopped_) result.push_back({Who::stopper, 0});
    return result;
  }
  void make(const Move& move) {
    switch (move.who) {
      case Who::appender:
        return append(appenders_[move.which]);
      case Who::packet: {
        const std::uint64_t ticket = packets_[move.which];
        packets_.erase(packets_.begin() + move.which);
        ready_.push_back(ticket);
        std::sort(ready_.begin(), ready_.end());
        while (!ready_.empty() && ready_.front() == passed_) {
          ready_.erase(ready_.begin());
          ctas_.push_back({passed_++, false});
          failed_ = false;
        }
        return;
      }
      case Who::consumer: {
        Cta& cta = ctas_[move.which];
        const std::uint64_t entry = kEntries + cta.ticket % capacity_ * kQueueEntryBytes;
        if (!cta.read) {
          if (words_[entry + kQueueEntryData] != data_of(cta.ticket)) throw Wrong("an entry has another's data");
          if (words_[entry] != turn_ready(cta.ticket, capacity_)) throw Wrong("an entry is used that is not ready");
          cta.read = true;
          return;
        }
        words_[entry] = turn_done(cta.ticket, capacity_);
        ++used_;
        ctas_.erase(ctas_.begin() + move.which);
        return;
      }
      case Who::closer: {
        const std::uint64_t old =
            words_.carry_out({Kind::compare_exchange, kQueue + queue::kTickets, passed_ | kQueueClosed, passed_});
        closed_ = old == passed_;
        failed_ = !closed_;  // entries are on their way
        return;
      }
      case Who::stopper:
        words_[kQueue + queue::kTickets] |= kQueueClosed;
        stopped_ = closed_ = true;
        return;
    }
  }
  bool ended() const {
    if (!closed_) return false;
    for (const Appender& appender : appenders_) {
      if (appender.left > 0) return false;
    }
    if (stopped_) return packets_.empty();
    if (!packets_.empty() || !ctas_.empty()) return false;
    if (used_ != appended_ || !ready_.empty()) throw Wrong("an entry was lost");
    return true;
  }
  void key(Key& key) const {
    key.add_all(words_.values());
    for (const Appender& appender : appenders_) {
      key.add(appender.left << 4 | appender.at);
      key.add_all(appender.answers);
    }
    key.add_all(packets_);
    key.add_all(ready_);
    key.add(ctas_.size());
    for (const Cta& cta : ctas_) key.add(cta.ticket << 1 | (cta.read ? 1 : 0));
    key.add(passed_ << 32 | used_ << 8 | (closed_ ? 1 : 0) | (stopped_ ? 2 : 0) | (failed_ ? 4 : 0));
  }

 private:
  struct Appender {
    std::uint32_t left = 0;
    std::uint32_t at = 0;  // 0: walk, 1: data, 2: turn
    std::optional<AppendSteps> walk = {};
    std::vector<std::uint64_t> answers = {};
  };
  struct Cta {
    std::uint64_t ticket = 0;
    bool read = false;
  };
  static std::uint64_t data_of(std::uint64_t ticket) { return 0xA000 + ticket; }

  void append(Appender& appender) {
    if (appender.at == 0) {
      if (!appender.walk) appender.walk.emplace(kQueue);
      walk_on(*appender.walk, words_, appender.answers);
      if (!appender.walk->over()) return;
      if (appender.walk->closed()) {
        if (!closed_) throw Wrong("an open queue refused an entry");
        appender = {};
        return;
      }
      appender.at = 1;
    } else if (appender.at == 1) {
      words_[appender.walk->entry() + kQueueEntryData] = data_of(appender.walk->ticket());
      appender.at = 2;
    } else {
      const std::uint64_t ticket = appender.walk->ticket();
      words_[appender.walk->entry()] = turn_ready(ticket, capacity_);
      packets_.push_back(ticket);
      std::sort(packets_.begin(), packets_.end());
      ++appended_;
      appender.walk.reset();
      appender.answers.clear();
      appender.at = 0;
      --appender.left;
    }
  }

  std::uint64_t capacity_;
  bool stop_;
  Words words_;
  std::vector<Appender> appenders_;
  std::vector<std::uint64_t> packets_;  // on their way, in any order
  std::vector<std::uint64_t> ready_;    // arrived, and others before them have not
  std::vector<Cta> ctas_;
  std::uint64_t passed_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t appended_ = 0;  // = tickets whose packets have left
  bool closed_ = false;
  bool stopped_ = false;
  bool failed_ = false;  // it found entries on their way, and looks again when one has come
};

}  // namespace

TEST_CASE("no interleaving hands a record out twice, loses one or refuses one for ever", "[arch][TSK-12][TSK-13]") {
  for (const bool patient : {true, false}) {
    for (const std::uint64_t records : {1, 2, 3}) {
      for (const std::uint32_t takers : {1, 2, 3}) {
        for (const std::uint32_t takes : {1, 2, 3}) {
          if (takers * takes > 6) continue;
          for (const std::uint32_t givers : {1, 2}) {
            const Pool::Shape shape{records, 0, takers, takes, givers, patient};
            const Explored found = explore(Pool(shape));
            show(shape.text(), found);
            CHECK(found.wrong.empty());
            CHECK(found.ends > 0);
          }
        }
      }
    }
  }
}

TEST_CASE("who finds no record in a pool takes one from the memory behind it, whatever the interleaving",
          "[arch][TSK-12][TSK-13]") {
  for (const bool patient : {true, false}) {
    for (const std::uint64_t spill : {1, 2}) {
      for (const std::uint32_t takers : {2, 3}) {
        for (const std::uint32_t takes : {1, 2}) {
          if (takers * takes > 4) continue;
          const Pool::Shape shape{1, spill, takers, takes, 1, patient};
          const Explored found = explore(Pool(shape));
          show(shape.text(), found);
          CHECK(found.wrong.empty());
          CHECK(found.ends > 0);
        }
      }
    }
  }
}

// The test of the test.
TEST_CASE("rings whose users are counted wrongly are found out", "[arch][TSK-12]") {
  CHECK_FALSE(explore(Pool({1, 0, 2, 1, 1, true}, Pool::Mistake::forgetful), 10'000).wrong.empty());
  CHECK_FALSE(explore(Pool({1, 0, 2, 2, 1, false}, Pool::Mistake::forgetful)).wrong.empty());
}

// Of all launches that a program can know at a time, no two have the same number.
TEST_CASE("what a launch is known by does not come back before two thousand million others", "[arch][TSK-16]") {
  constexpr std::uint64_t kTurns = 0x7FFF'FFFF;  // of the tickets
  const RecordSupply supply{{0x1000, 4, kRecordBytes}, {0x8000, 4, kRecordBytes}};
  const auto ticket_of = [&supply](bool spilled, std::uint64_t drawn) {
    TakeSteps take(supply);
    if (spilled) {
      take.answer(supply.pool.count);  // all are in use
      take.answer(supply.pool.count + 1);
    }
    take.answer(0);
    take.answer(drawn);
    if (!take.over()) take.answer(supply.pool.record(0));
    REQUIRE(take.over());
    REQUIRE(take.spilled() == spilled);
    return take.ticket();
  };
  for (const bool spilled : {false, true}) {
    CHECK(ticket_of(spilled, kTurns) == ticket_of(spilled, 0));
    for (const std::uint64_t drawn : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{77}, kTurns - 2, kTurns - 1}) {
      CHECK(ticket_of(spilled, drawn) != 0);
      CHECK(ticket_of(spilled, drawn) % 2 == (spilled ? 1 : 0));
      for (const std::uint64_t later : {std::uint64_t{1}, std::uint64_t{4}, kTurns / 2, kTurns - 1}) {
        CHECK(ticket_of(spilled, drawn + later) != ticket_of(spilled, drawn));
      }
    }
  }
  const std::uint64_t handle = launch_handle(0x8000 + 5 * kRecordBytes, 0xFFFF'FFFE);
  CHECK(record_of_handle(handle) == 0x8000 + 5 * kRecordBytes);
  CHECK(ticket_of_handle(handle) == 0xFFFF'FFFE);
}

TEST_CASE("no interleaving of appends, uses and the closing of a queue loses an entry or mixes two up",
          "[arch][TSK-05]") {
  for (const std::uint64_t capacity : {1, 2}) {
    for (const std::uint32_t appenders : {1, 2, 3}) {
      for (const std::uint32_t appends : {1, 2, 3}) {
        if (appenders * appends > 4) continue;
        const Explored found = explore(Queue(capacity, appenders, appends, false));
        show("capacity " + std::to_string(capacity) + ", " + std::to_string(appenders) + " appenders of " +
                 std::to_string(appends),
             found);
        CHECK(found.wrong.empty());
        CHECK(found.ends > 0);
      }
    }
  }
}

TEST_CASE("appenders to a queue whose task has been stopped do not wait for ever", "[arch][TSK-05]") {
  for (const std::uint32_t appenders : {1, 2, 3}) {
    const Explored found = explore(Queue(1, appenders, 4 - appenders, true));
    show(std::to_string(appenders) + " appenders", found);
    CHECK(found.wrong.empty());
    CHECK(found.ends > 0);
  }
}

}  // namespace arch_tmdq_rings_test
