// Every interleaving of the record of an event against streams that wait for it, and of what has the record's place
// afterwards.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tmdq_explorer.h"

namespace arch_event_exhaustive_test {

using namespace heddle::arch;
using heddle::test::explore;
using heddle::test::Explored;
using heddle::test::Key;
using heddle::test::show;
using heddle::test::walk_on;
using heddle::test::Words;
using heddle::test::Wrong;

namespace {

constexpr std::uint64_t kRecord = 0x1000;
constexpr std::uint32_t kTicket = 2;
constexpr std::uint64_t kGarbage = 0xDEAD'0000;

std::uint64_t wait_at(std::uint64_t number) { return 0x2000 + number * kRecordBytes; }
std::uint64_t open_word(std::uint32_t ticket) { return std::uint64_t{ticket} << 32; }

// What has the place of the record once that is back in its pool.
enum class Heir : std::uint8_t {
  none,
  task,    // that is open once
  record,  // of an event, which never comes to pass
};

// A wait that does not look whether the word is still the one that it has linked to.
class BlindEnlist {
 public:
  BlindEnlist(std::uint64_t wait, std::uint64_t awaited) : steps_(wait, awaited) {}
  MemoryStep step() const {
    MemoryStep step = steps_.step();
    if (step.kind == MemoryStep::Kind::compare_exchange) step.kind = MemoryStep::Kind::exchange;
    compare_ = step.compare;
    return step;
  }
  void answer(std::uint64_t old) { steps_.answer(step().kind == MemoryStep::Kind::exchange ? compare_ : old); }
  bool over() const { return steps_.over(); }
  bool passed() const { return steps_.passed(); }

 private:
  EnlistSteps steps_;
  mutable std::uint64_t compare_ = 0;
};

// A wait that takes any record in its place for the one that it waits for.
class TrustingEnlist {
 public:
  TrustingEnlist(std::uint64_t wait, std::uint64_t awaited) : wait_(wait), awaited_(awaited), steps_(wait, awaited) {}
  MemoryStep step() const { return steps_.step(); }
  void answer(std::uint64_t old) {
    const bool look = step().kind == MemoryStep::Kind::read;
    if (look && old >> 32 != 0) steps_ = EnlistSteps(wait_, launch_handle(record_of_handle(awaited_), ticket_of(old)));
    steps_.answer(old);
  }
  bool over() const { return steps_.over(); }
  bool passed() const { return steps_.passed(); }

 private:
  static std::uint32_t ticket_of(std::uint64_t word) { return static_cast<std::uint32_t>(word >> 32); }
  std::uint64_t wait_;
  std::uint64_t awaited_;
  EnlistSteps steps_;
};

template <class Enlist>
class Events {
 public:
  using Move = std::uint32_t;  // 0: the record, 1: its heir, 2 and on: the waits

  Events(std::uint32_t waits, Heir heir) : heir_(heir), waits_(waits), fire_(kRecord) {
    words_.add(kRecord + tmd::kOpen, open_word(kTicket));
    for (std::uint32_t i = 0; i < waits; ++i) {
      words_.add(wait_at(i) + tmd::kNextWait);
      waits_[i].steps.emplace(wait_at(i), launch_handle(kRecord, kTicket));
    }
  }

  std::vector<Move> moves() const {
    std::vector<Move> result;
    if (!fire_.over()) result.push_back(0);
    if (fire_.over() && heir_ != Heir::none) result.push_back(1);
    for (std::uint32_t i = 0; i < waits_.size(); ++i) {
      if (!waits_[i].steps->over()) result.push_back(2 + i);
    }
    return result;
  }

  void make(Move move) {
    if (move == 0) {
      fire();
    } else if (move == 1) {
      words_[kRecord + tmd::kOpen] = heir_ == Heir::task ? 1 : open_word(kTicket + 2);
      heir_ = Heir::none;
    } else {
      wait(move - 2);
    }
  }

  bool ended() const {
    if (!moves().empty()) return false;
    for (const Wait& wait : waits_) {
      if (!wait.gone) throw Wrong("a wait goes on for ever");
    }
    return true;
  }

  void key(Key& key) const {
    key.add_all(words_.values());
    key.add_all(fired_);
    key.add(static_cast<std::uint64_t>(heir_));
    for (const Wait& wait : waits_) {
      key.add_all(wait.answers);
      key.add(wait.gone ? 1 : 0);
    }
  }

 private:
  struct Wait {
    std::optional<Enlist> steps;
    std::vector<std::uint64_t> answers;
    bool gone = false;
  };

  void fire() {
    walk_on(fire_, words_, fired_);
    if (fire_.released() != 0) let_go(fire_.released());
    // The end of the record is that of any other.
    if (fire_.over()) words_[kRecord + tmd::kOpen] = 0;
  }

  void wait(std::uint32_t number) {
    Wait& wait = waits_[number];
    walk_on(*wait.steps, words_, wait.answers);
    if (!wait.steps->over() || !wait.steps->passed()) return;
    if (!fired()) throw Wrong("a wait passed before the event came to pass");
    let_go(wait_at(number));
  }

  bool fired() const { return !fired_.empty(); }

  // Its record is somebody else's from now on.
  void let_go(std::uint64_t wait) {
    for (std::uint32_t i = 0; i < waits_.size(); ++i) {
      if (wait_at(i) != wait) continue;
      if (waits_[i].gone) throw Wrong("a wait was let go twice");
      if (!waits_[i].steps->over()) throw Wrong("a wait was let go that had not come to wait");
      waits_[i].gone = true;
      words_[wait + tmd::kNextWait] = kGarbage;
      return;
    }
    throw Wrong("something was let go that is no wait");
  }

  Heir heir_;
  Words words_;
  std::vector<Wait> waits_;
  FireSteps fire_;
  std::vector<std::uint64_t> fired_;
};

std::string name_of(std::uint32_t waits, Heir heir) {
  return std::to_string(waits) + " waits, heir " + std::to_string(static_cast<int>(heir));
}

}  // namespace

TEST_CASE("no interleaving of an event's record and waits for it loses a wait, or lets one go too early",
          "[arch][TSK-08][TSK-13]") {
  for (const Heir heir : {Heir::none, Heir::task, Heir::record}) {
    for (const std::uint32_t waits : {0U, 1U, 2U, 3U}) {
      const Explored found = explore(Events<EnlistSteps>(waits, heir));
      show(name_of(waits, heir), found);
      CHECK(found.wrong.empty());
      CHECK(found.ends > 0);
    }
  }
}

TEST_CASE("waits that join an event's record without looking again are found out", "[arch][TSK-08][TSK-13]") {
  CHECK_FALSE(explore(Events<BlindEnlist>(2, Heir::none)).wrong.empty());
  CHECK_FALSE(explore(Events<TrustingEnlist>(1, Heir::record)).wrong.empty());
}

}  // namespace arch_event_exhaustive_test
