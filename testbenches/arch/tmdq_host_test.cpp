// Every interleaving of a host that pushes over a bus, of threads of the device that push, and of completions by task
// management: the race of the text's figure 9 (TSK-06, TSK-08, TSK-09).
//
// The bus carries each access of the host for as long as it likes. What the host writes is posted: its TMD, the link
// from the task ahead, the doorbell. An atomic is answered behind the posted writes that were sent before it, and may
// be carried out long before its answer arrives.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tmdq_explorer.h"

namespace arch_tmdq_host_test {

using namespace heddle::arch;
using heddle::test::explore;
using heddle::test::Explored;
using heddle::test::Key;
using heddle::test::show;
using heddle::test::walk_on;
using heddle::test::Words;
using heddle::test::Wrong;

namespace {

constexpr std::uint64_t kContext = 0x10'0000;
constexpr std::uint64_t kLast = kContext + context::last_task(0);
constexpr std::uint64_t kWork = kContext + context::kWork;
constexpr std::uint64_t kGarbage = 0xDEAD'0000;

std::uint64_t record(std::uint64_t number) { return 0x1000 + number * kRecordBytes; }

// What a host could do wrong.
struct Host {
  std::uint32_t tasks = 0;
  std::uint32_t records = 0;       // TMDs that it has; one is used again once the host has heard of the end
  bool waits_for_tmd = true;       // before the exchange
  bool waits_for_count = true;     // before the exchange
  bool hears_before_reuse = true;  // of the end of what had the TMD before
  bool rings_when_behind = false;  // the doorbell also of a task that has one ahead
};

// The host pushes its tasks one after another; each thread of the device pushes one. A task that has been started runs
// for as long as nobody looks at it.
template <class Complete>
class Race {
 public:
  enum class Kind : std::uint8_t { host, bus, doorbell, device, complete, hear };
  struct Move {
    Kind kind = Kind::host;
    std::size_t which = 0;
  };

  Race(const Host& host, std::uint32_t threads, std::uint32_t schedulers)
      : host_(host), device_(threads), schedulers_(schedulers) {
    words_.add(kWork, 1);  // the host itself
    words_.add(kLast);
    for (std::uint32_t i = 0; i < host.records; ++i) {
      words_.add(record(i) + tmd::kNext, kGarbage);
      free_.push_back(record(i));
    }
    for (std::uint32_t i = 0; i < threads; ++i) {
      device_[i].record = record(host.records + i);
      words_.add(device_[i].record + tmd::kNext, 0);
    }
  }

  std::vector<Move> moves() const {
    std::vector<Move> result;
    if (host_can_go_on()) result.push_back({Kind::host, 0});
    for (std::size_t i = 0; i < bus_.size(); ++i) result.push_back({Kind::bus, i});
    for (std::size_t i = 0; i < doorbells_.size(); ++i) result.push_back({Kind::doorbell, i});
    for (std::size_t i = 0; i < device_.size(); ++i) {
      if (device_[i].at < 3) result.push_back({Kind::device, i});
    }
    for (std::size_t i = 0; i < schedulers_.size(); ++i) {
      if (schedulers_[i].busy) {
        result.push_back({Kind::complete, i * 16});
      } else {
        for (std::size_t job = 0; job < running_.size(); ++job) result.push_back({Kind::complete, i * 16 + job});
      }
    }
    for (std::size_t i = 0; i < ended_.size(); ++i) result.push_back({Kind::hear, i});
    return result;
  }

  void make(const Move& move) {
    const auto at = static_cast<std::ptrdiff_t>(move.which);
    switch (move.kind) {
      case Kind::host:
        go_on();
        break;
      case Kind::bus: {
        const Transfer transfer = bus_[move.which];
        bus_.erase(bus_.begin() + at);
        deliver(transfer);
        break;
      }
      case Kind::doorbell: {
        const std::uint64_t rung = doorbells_[move.which];
        doorbells_.erase(doorbells_.begin() + at);
        start(rung);
        break;
      }
      case Kind::device:
        push(device_[move.which]);
        break;
      case Kind::complete:
        complete(schedulers_[move.which / 16], move.which % 16);
        break;
      case Kind::hear:
        if (host_.hears_before_reuse) free_.push_back(ended_[move.which]);
        ended_.erase(ended_.begin() + at);
        break;
    }
  }

  bool ended() const {
    if (pushed_ < host_.tasks || at_ != At::idle || !bus_.empty() || !doorbells_.empty() || !running_.empty())
      return false;
    for (const Thread& thread : device_) {
      if (thread.at < 3) return false;
    }
    for (const Scheduler& scheduler : schedulers_) {
      if (scheduler.busy) return false;
    }
    if (!ended_.empty()) return false;
    if (completed_ < host_.tasks + device_.size()) return false;  // stuck
    if (words_.at(kLast) != 0) throw Wrong("a TMDQ that is empty has a last task");
    if (words_.at(kWork) != 1) throw Wrong("the work counter does not say that the host alone is left");
    return true;
  }

  void key(Key& key) const {
    key.add_all(words_.values());
    key.add(static_cast<std::uint64_t>(at_) << 32 | pushed_ << 16 | answers_);
    key.add(record_);
    key.add(walk_ ? walk_->previous() + 1 : 0);
    key.add(walk_ ? static_cast<std::uint64_t>(walk_->step().kind) : 9);
    std::vector<std::uint64_t> bus;
    for (const Transfer& transfer : bus_) bus.push_back(transfer.hash());
    std::sort(bus.begin(), bus.end());
    key.add_all(bus);
    key.add_all(doorbells_);
    key.add_all(free_);
    key.add_all(ended_);
    for (const Thread& thread : device_) {
      key.add(thread.at);
      key.add(thread.walk ? thread.walk->previous() + 1 : 0);
    }
    for (const Scheduler& scheduler : schedulers_) {
      key.add(scheduler.busy ? scheduler.job + scheduler.at + 1 : 0);
      key.add_all(scheduler.answers);
    }
    std::vector<std::uint64_t> running = running_;
    key.add_all(running);
    key.add_all(order_);
    key.add(completed_);
  }

 private:
  // Where the host is with the task that it pushes.
  enum class At : std::uint8_t { idle, count, exchange, wait, link };
  // On its way to the device, or, of an atomic that has been carried out, its answer on the way back.
  struct Transfer {
    MemoryStep step;
    bool awaited = false;
    bool answer = false;
    std::uint64_t old = 0;
    std::uint64_t hash() const {
      return step.address * 31 + step.value * 7 + static_cast<std::uint64_t>(step.kind) * 1'000'003 +
             (awaited ? 17 : 0) + (answer ? 5'000'011 : 0) + old * 13;
    }
  };
  struct Thread {
    std::uint64_t record = 0;
    std::uint32_t at = 0;  // 0: count, 1: push, 3: over
    std::optional<PushSteps> walk;
  };
  struct Scheduler {
    bool busy = false;
    std::uint32_t at = 0;  // 0: leave the queue, 1: work counter
    std::uint64_t job = 0;
    std::optional<Complete> walk;
    std::vector<std::uint64_t> answers;
  };

  bool host_can_go_on() const {
    switch (at_) {
      case At::idle:
        return pushed_ < host_.tasks && !free_.empty();
      case At::exchange:
        return answers_ == 0;
      case At::link:
        return true;
      default:
        return false;  // for an answer
    }
  }

  // The next thing that the host sends.
  void go_on() {
    switch (at_) {
      case At::idle:
        record_ = free_.front();
        free_.pop_front();
        // Whoever looks at it from now on, and is not told of the task that has it now, finds nothing of it.
        send({MemoryStep::Kind::write, record_ + tmd::kNext, 0}, host_.waits_for_tmd);
        send({MemoryStep::Kind::add, kWork, 1}, host_.waits_for_count);
        walk_.emplace(kLast, record_);
        at_ = At::exchange;
        break;
      case At::exchange:
        bus_.push_back({walk_->step(), true});
        at_ = At::wait;
        break;
      case At::link: {
        const MemoryStep step = walk_->step();
        if (step.kind != MemoryStep::Kind::none) {
          bus_.push_back({step, false});
          walk_->answer(0);
          if (host_.rings_when_behind) doorbells_.push_back(record_);
        } else {
          doorbells_.push_back(record_);
        }
        walk_.reset();
        at_ = At::idle;
        ++pushed_;
        break;
      }
      default:
        break;
    }
  }

  void send(const MemoryStep& step, bool awaited) {
    bus_.push_back({step, awaited});
    answers_ += awaited ? 1 : 0;
  }

  void deliver(const Transfer& transfer) {
    if (transfer.answer) {
      if (at_ == At::wait) {
        walk_->answer(transfer.old);
        at_ = At::link;
      } else {
        --answers_;
      }
      return;
    }
    const std::uint64_t old = words_.carry_out(transfer.step);
    if (transfer.step.kind == MemoryStep::Kind::exchange) order_.push_back(transfer.step.value);
    if (!transfer.awaited) return;
    Transfer answer = transfer;
    answer.answer = true;
    answer.old = old;
    bus_.push_back(answer);
  }

  void push(Thread& thread) {
    if (thread.at == 0) {
      words_.carry_out({MemoryStep::Kind::add, kWork, 1});
      thread.walk.emplace(kLast, thread.record);
      thread.at = 1;
      return;
    }
    const MemoryStep step = thread.walk->step();
    const std::uint64_t old = words_.carry_out(step);
    if (step.kind == MemoryStep::Kind::exchange) order_.push_back(thread.record);
    thread.walk->answer(old);
    if (!thread.walk->over()) return;
    if (thread.walk->starts()) doorbells_.push_back(thread.record);
    thread.at = 3;
  }

  void start(std::uint64_t started) {
    if (order_.empty() || order_.front() != started) {
      throw Wrong("a task was started out of the order of the exchanges, twice, or never pushed");
    }
    order_.pop_front();
    if (!running_.empty()) throw Wrong("two tasks of one TMDQ run");
    running_.push_back(started);
  }

  void complete(Scheduler& scheduler, std::size_t job) {
    if (!scheduler.busy) {
      scheduler.busy = true;
      scheduler.job = running_[job];
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(job));
      scheduler.walk.emplace(kLast, scheduler.job);
      if (!host_.hears_before_reuse && scheduler.job < record(host_.records)) free_.push_back(scheduler.job);
    }
    if (scheduler.at == 0) {
      walk_on(*scheduler.walk, words_, scheduler.answers);
      if (!scheduler.walk->over()) return;
      if (scheduler.walk->next() != 0) start(scheduler.walk->next());
      ++completed_;
      if (scheduler.job < record(host_.records)) ended_.push_back(scheduler.job);
      scheduler.walk.reset();
      scheduler.answers.clear();
      scheduler.at = 1;
      return;
    }
    const std::uint64_t old = words_.carry_out({MemoryStep::Kind::add, kWork, ~std::uint64_t{0}});
    if (old <= 1) throw Wrong("the context closed while the host was there");
    scheduler = {};
  }

  Host host_;
  Words words_;
  At at_ = At::idle;
  std::uint64_t record_ = 0;  // that the host pushes
  std::uint32_t pushed_ = 0;
  std::uint32_t answers_ = 0;  // awaited before the exchange
  std::optional<PushSteps> walk_;
  std::vector<Transfer> bus_;
  std::vector<std::uint64_t> doorbells_;  // on their way to task management
  std::deque<std::uint64_t> free_;
  std::vector<std::uint64_t> ended_;  // of the host's, on the way to it
  std::vector<Thread> device_;
  std::vector<Scheduler> schedulers_;
  std::vector<std::uint64_t> running_;
  std::deque<std::uint64_t> order_;  // of the exchanges, not started
  std::size_t completed_ = 0;
};

// Task management that starts what the last-task pointer names, as TSK-09 had it once: after two pushes that is the
// second of them.
class SkippingWalk {
 public:
  SkippingWalk(std::uint64_t last, std::uint64_t finished)
      : complete_(last, finished), last_(last), finished_(finished) {}
  MemoryStep step() const {
    const MemoryStep step = complete_.step();
    if (!skips_ || step.kind != MemoryStep::Kind::read) return step;
    return {MemoryStep::Kind::read, last_, 0, 0, step.again};
  }
  void answer(std::uint64_t old) {
    const bool closes = complete_.step().kind == MemoryStep::Kind::compare_exchange;
    skips_ = skips_ || (closes && old != finished_);
    complete_.answer(old);
  }
  bool over() const { return complete_.over(); }
  std::uint64_t next() const { return complete_.next(); }

 private:
  CompleteSteps complete_;
  std::uint64_t last_;
  std::uint64_t finished_;
  bool skips_ = false;
};

Host good(std::uint32_t tasks, std::uint32_t records) {
  Host host;
  host.tasks = tasks;
  host.records = records;
  return host;
}

}  // namespace

TEST_CASE("no interleaving of a host's pushes, the device's and completions loses a task", "[arch][TSK-06][TSK-09]") {
  struct Size {
    std::uint32_t tasks;
    std::uint32_t records;
    std::uint32_t threads;
    std::uint32_t schedulers;
  };
  // With fewer records than tasks the host uses them again. With two chains of task management one task can be leaving
  // its context while another ends.
  for (const Size& size : std::vector<Size>{{1, 1, 0, 1},
                                            {2, 2, 0, 1},
                                            {3, 3, 0, 1},
                                            {2, 1, 0, 1},
                                            {3, 2, 0, 1},
                                            {1, 1, 1, 1},
                                            {2, 2, 1, 1},
                                            {2, 1, 1, 1},
                                            {1, 1, 2, 1},
                                            {3, 2, 1, 1},
                                            {2, 2, 0, 2},
                                            {3, 2, 0, 2},
                                            {2, 2, 1, 2},
                                            {1, 1, 2, 2},
                                            {2, 1, 1, 2},
                                            {3, 3, 2, 1},
                                            {5, 2, 0, 2}}) {
    const Explored found = explore(Race<CompleteSteps>(good(size.tasks, size.records), size.threads, size.schedulers));
    show(std::to_string(size.tasks) + " tasks of the host in " + std::to_string(size.records) + " TMDs, " +
             std::to_string(size.threads) + " of the device, " + std::to_string(size.schedulers) + " chains",
         found);
    CHECK(found.wrong.empty());
    CHECK(found.ends > 0);
  }
}

TEST_CASE("a host that does not keep to the protocol loses tasks in some interleaving", "[arch][TSK-06]") {
  const auto wrong = [](const Host& host, std::uint32_t threads) {
    const Explored found = explore(Race<CompleteSteps>(host, threads, 1));
    show("a wrong host", found);
    return found.wrong;
  };
  SECTION("its TMD is not there before the exchange: the late write takes the link of the next task away") {
    Host host = good(2, 2);
    host.waits_for_tmd = false;
    CHECK_FALSE(wrong(host, 0).empty());
  }
  SECTION("it is not counted before the exchange: the counter closes a context that it is still in") {
    Host host = good(1, 1);
    host.waits_for_count = false;
    CHECK_FALSE(wrong(host, 0).empty());
  }
  SECTION("it uses a TMD again before its end is known: the completion of the old task reads the new one's") {
    Host host = good(2, 1);
    host.hears_before_reuse = false;
    CHECK_FALSE(wrong(host, 0).empty());
  }
  SECTION("it rings for a task that has another one ahead: the task starts twice") {
    Host host = good(2, 2);
    host.rings_when_behind = true;
    CHECK_FALSE(wrong(host, 0).empty());
  }
}

TEST_CASE("who waits for the last-task pointer instead of the next one skips a task of the host", "[arch][TSK-09]") {
  CHECK(explore(Race<SkippingWalk>(good(2, 2), 0, 1)).wrong.empty());  // one push at a time: nothing to skip
  const Explored found = explore(Race<SkippingWalk>(good(3, 3), 0, 1));
  show("a scheduler that skips", found);
  CHECK_FALSE(found.wrong.empty());
}

// The work counter of a completion that has found nothing yet says nothing to anybody; what it waits for is the link,
// and the machine says that it did.
TEST_CASE("a completion that finds a task pushed and not linked waits for the link, and says so", "[arch][TSK-09]") {
  Words words;
  words.add(kLast, record(0));
  words.add(record(0) + tmd::kNext, 0);
  words.add(record(1) + tmd::kNext, 0);
  CompleteSteps complete(kLast, record(0));
  complete.answer(words.carry_out(complete.step()));  // the last is the finished one
  PushSteps push(kLast, record(1));
  push.answer(words.carry_out(push.step()));          // the host exchanges
  complete.answer(words.carry_out(complete.step()));  // the compare-and-swap fails
  REQUIRE_FALSE(complete.over());
  CHECK_FALSE(complete.waited());
  complete.answer(words.carry_out(complete.step()));
  CHECK(complete.step().again);
  CHECK(complete.waited());
  push.answer(words.carry_out(push.step()));  // it links
  complete.answer(words.carry_out(complete.step()));
  REQUIRE(complete.over());
  CHECK(complete.next() == record(1));

  CompleteSteps last(kLast, record(1));
  last.answer(words.carry_out(last.step()));
  last.answer(words.carry_out(last.step()));
  CHECK(last.over());
  CHECK(last.next() == 0);
  CHECK_FALSE(last.waited());
}

}  // namespace arch_tmdq_host_test
