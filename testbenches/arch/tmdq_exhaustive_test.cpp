// Every interleaving of launches against completions: task metadata queues and their work counter (TSK-08, TSK-09).
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tmdq_explorer.h"

namespace arch_tmdq_exhaustive_test {

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
constexpr std::uint64_t kGarbage = 0xDEAD'0000;

std::uint64_t tmdq(std::uint64_t number) { return kContext + context::last_task(number); }

// TSK-09 as it was first written: who finds that a task has just been added waits for the last-task pointer. After two
// pushes that names the second of them.
class SkippingWalk {
 public:
  SkippingWalk(std::uint64_t last, std::uint64_t finished) : last_(last), finished_(finished) {}
  MemoryStep step() const {
    switch (at_) {
      case At::look:
      case At::wait:
        return {MemoryStep::Kind::read, last_, 0, 0, again_};
      case At::close:
        return {MemoryStep::Kind::compare_exchange, last_, 0, finished_};
      case At::follow:
        return {MemoryStep::Kind::read, finished_ + tmd::kNext, 0, 0, again_};
      case At::over:
        break;
    }
    return {};
  }
  void answer(std::uint64_t old) {
    switch (at_) {
      case At::look:
        at_ = old == finished_ ? At::close : At::follow;
        break;
      case At::close:
        at_ = old == finished_ ? At::over : At::wait;
        break;
      case At::wait:
      case At::follow:
        again_ = old == (at_ == At::wait ? finished_ : 0);
        if (again_) break;
        next_ = old;
        at_ = At::over;
        break;
      case At::over:
        break;
    }
  }
  bool over() const { return at_ == At::over; }
  std::uint64_t next() const { return next_; }

 private:
  enum class At : std::uint8_t { look, close, wait, follow, over };
  std::uint64_t last_;
  std::uint64_t finished_;
  std::uint64_t next_ = 0;
  At at_ = At::look;
  bool again_ = false;
};

struct Task {
  std::uint64_t record = 0;  // 0: taken from the pool
  std::uint32_t queue = 0;   // TMDQ
};

// Pushers are warps of one CTA; schedulers are chains of task management. A task that has been started runs for as long
// as nobody looks at it.
template <class Complete>
class Tmdqs {
 public:
  struct Move {
    std::uint32_t actor = 0;  // pushers, then schedulers
    std::uint32_t job = 0;    // of a scheduler that has none
  };

  Tmdqs(std::vector<std::vector<Task>> scripts, std::uint32_t schedulers, std::uint32_t queues,
        const RecordPool& pool = {})
      : scripts_(std::move(scripts)), pool_(pool), pushers_(scripts_.size()), schedulers_(schedulers), order_(queues) {
    words_.add(kContext + context::kWork, 1);
    for (std::uint32_t i = 0; i < queues; ++i) words_.add(tmdq(i));
    for (const auto& script : scripts_) {
      for (const Task& task : script) {
        if (task.record != 0) words_.add(task.record + tmd::kNext, kGarbage);
        ++tasks_;
      }
    }
    if (pool.count == 0) return;
    words_.add(pool.base + ring::kTaken);
    words_.add(pool.base + ring::kGiven);
    words_.add(pool.base + ring::kUsed);
    for (std::uint64_t i = 0; i < pool.count; ++i) {
      words_.add(pool.base + ring::kSlots + 8 * i);
      words_.add(pool.record(i) + tmd::kNext, kGarbage);
    }
  }

  std::vector<Move> moves() const {
    std::vector<Move> result;
    for (std::uint32_t i = 0; i < pushers_.size(); ++i) {
      if (pushers_[i].task < scripts_[i].size()) result.push_back({i, 0});
    }
    for (std::uint32_t i = 0; i < schedulers_.size(); ++i) {
      const auto actor = static_cast<std::uint32_t>(pushers_.size()) + i;
      if (schedulers_[i].busy) {
        result.push_back({actor, 0});
      } else {
        for (std::uint32_t job = 0; job < running_.size(); ++job) result.push_back({actor, job});
      }
    }
    return result;
  }

  void make(const Move& move) {
    if (move.actor < pushers_.size()) {
      push(pushers_[move.actor], scripts_[move.actor]);
    } else {
      schedule(schedulers_[move.actor - pushers_.size()], move.job);
    }
  }

  bool ended() const {
    if (closed_ == 0) return false;
    for (const Pusher& pusher : pushers_) {
      if (pusher.at != 0) throw Wrong("the context closed while a launch was under way");
    }
    for (const Scheduler& scheduler : schedulers_) {
      if (scheduler.busy) return false;
    }
    if (completed_ != tasks_) throw Wrong("the context closed before all tasks had completed");
    for (std::uint64_t i = 0; i < order_.size(); ++i) {
      if (words_.at(tmdq(i)) != 0) throw Wrong("a TMDQ that is empty has a last task");
    }
    if (words_.at(kContext + context::kWork) != 0) throw Wrong("work is left in a closed context");
    if (pool_.count > 0 && words_.at(pool_.base + ring::kUsed) != 0) throw Wrong("records in use are left");
    return true;
  }

  void key(Key& key) const {
    key.add_all(words_.values());
    for (const Pusher& pusher : pushers_) {
      key.add(pusher.task << 8 | pusher.at);
      key.add(pusher.record);
      key.add_all(pusher.answers);
    }
    for (const Scheduler& scheduler : schedulers_) {
      key.add(scheduler.busy ? scheduler.at + 1 : 0);
      key.add(scheduler.job.record << 4 | scheduler.job.queue);
      key.add_all(scheduler.answers);
    }
    key.add(running_.size());
    for (const Task& task : running_) key.add(task.record << 4 | task.queue);
    for (const auto& order : order_) key.add_all(order);
    key.add(completed_ << 8 | closed_);
  }

 private:
  struct Pusher {
    std::size_t task = 0;
    std::uint32_t at = 0;  // 0: take or create, 1: create, 2: count, 3: push
    std::uint64_t record = 0;
    std::optional<TakeSteps> take;
    std::optional<PushSteps> walk;
    std::vector<std::uint64_t> answers;
  };
  struct Scheduler {
    bool busy = false;
    std::uint32_t at = 0;  // 0: complete, 1: give back, 2: uncount
    Task job;              // record 0: the CTA has left
    std::optional<Complete> walk;
    std::optional<GiveSteps> give;
    std::vector<std::uint64_t> answers;
  };

  void push(Pusher& pusher, const std::vector<Task>& script) {
    const Task& task = script[pusher.task];
    if (pusher.at == 0) {
      if (task.record == 0) {
        if (!pusher.take) pusher.take.emplace(RecordSupply{pool_, {}});
        walk_on(*pusher.take, words_, pusher.answers);
        if (!pusher.take->over()) return;
        pusher.record = pusher.take->record();
        pusher.take.reset();
        pusher.answers.clear();
        pusher.at = pusher.record == 0 ? 0 : 1;  // none was free: it tries again
        return;
      }
      pusher.record = task.record;
      pusher.at = 1;
    }
    if (pusher.at == 1) {
      words_.carry_out({MemoryStep::Kind::write, pusher.record + tmd::kNext, 0});
      pusher.at = 2;
      return;
    }
    if (pusher.at == 2) {
      words_.carry_out({MemoryStep::Kind::add, kContext + context::kWork, 1});
      pusher.walk.emplace(tmdq(task.queue), pusher.record);
      pusher.at = 3;
      return;
    }
    if (pusher.walk->step().kind == MemoryStep::Kind::exchange) order_[task.queue].push_back(pusher.record);
    walk_on(*pusher.walk, words_, pusher.answers);
    if (!pusher.walk->over()) return;
    if (pusher.walk->starts()) start({pusher.record, task.queue});
    pusher.walk.reset();
    pusher.answers.clear();
    pusher.record = 0;
    pusher.at = 0;
    ++pusher.task;
    for (std::size_t i = 0; i < pushers_.size(); ++i) {
      if (pushers_[i].task < scripts_[i].size()) return;
    }
    running_.push_back({0, 0});  // the CTA leaves
  }

  void start(const Task& task) {
    if (order_[task.queue].empty() || order_[task.queue].front() != task.record) {
      throw Wrong("a task was started out of the order of its TMDQ, twice, or never launched");
    }
    order_[task.queue].pop_front();
    for (const Task& other : running_) {
      if (other.record != 0 && other.queue == task.queue) throw Wrong("two tasks of one TMDQ run");
    }
    running_.push_back(task);
  }

  void schedule(Scheduler& scheduler, std::uint32_t job) {
    if (!scheduler.busy) {
      scheduler.busy = true;
      scheduler.job = running_[job];
      scheduler.at = scheduler.job.record == 0 ? 2 : 0;
      running_.erase(running_.begin() + job);
      if (scheduler.at == 0) scheduler.walk.emplace(tmdq(scheduler.job.queue), scheduler.job.record);
    }
    if (scheduler.at == 0) {
      walk_on(*scheduler.walk, words_, scheduler.answers);
      if (!scheduler.walk->over()) return;
      ++completed_;
      if (scheduler.walk->next() != 0) start({scheduler.walk->next(), scheduler.job.queue});
      scheduler.walk.reset();
      scheduler.answers.clear();
      scheduler.at = pool_.count > 0 ? 1 : 2;
      // Whoever looks at it from now on finds nothing that was there.
      if (pool_.count > 0) words_[scheduler.job.record + tmd::kNext] = kGarbage;
      return;
    }
    if (scheduler.at == 1) {
      if (!scheduler.give) scheduler.give.emplace(RecordSupply{pool_, {}}, scheduler.job.record);
      walk_on(*scheduler.give, words_, scheduler.answers);
      if (!scheduler.give->over()) return;
      scheduler.give.reset();
      scheduler.answers.clear();
      scheduler.at = 2;
      return;
    }
    const std::uint64_t old = words_.carry_out({MemoryStep::Kind::add, kContext + context::kWork, ~std::uint64_t{0}});
    if (old == 1) ++closed_;
    if (closed_ > 1) throw Wrong("a context closed twice");
    scheduler = {};
  }

  std::vector<std::vector<Task>> scripts_;
  RecordPool pool_;
  Words words_;
  std::vector<Pusher> pushers_;
  std::vector<Scheduler> schedulers_;
  std::vector<Task> running_;                     // started, and not completed
  std::vector<std::deque<std::uint64_t>> order_;  // by TMDQ: of the exchanges, not started
  std::size_t tasks_ = 0;
  std::size_t completed_ = 0;
  std::uint32_t closed_ = 0;
};

std::uint64_t record(std::uint64_t number) { return 0x1000 + number * kRecordBytes; }

// That many tasks of each pusher, all into one TMDQ or into two in turn.
std::vector<std::vector<Task>> scripts(const std::vector<std::uint32_t>& tasks, std::uint32_t queues) {
  std::vector<std::vector<Task>> result(tasks.size());
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (std::uint32_t task = 0; task < tasks[i]; ++task) {
      result[i].push_back({record(number++), static_cast<std::uint32_t>((i + task) % queues)});
    }
  }
  return result;
}

template <class Complete>
Explored explore_tmdqs(const std::vector<std::uint32_t>& tasks, std::uint32_t schedulers, std::uint32_t queues) {
  return explore(Tmdqs<Complete>(scripts(tasks, queues), schedulers, queues));
}

}  // namespace

TEST_CASE("no interleaving of launches into one stream and completions loses a task", "[arch][TSK-08][TSK-09]") {
  const std::vector<std::vector<std::uint32_t>> sizes{{1},    {2},    {3},    {1, 1},    {1, 2},   {2, 2},
                                                      {1, 3}, {2, 3}, {3, 3}, {1, 1, 1}, {2, 1, 1}};
  for (const auto& tasks : sizes) {
    std::string what;
    for (const std::uint32_t count : tasks) what += std::to_string(count) + " ";
    const Explored found = explore_tmdqs<CompleteSteps>(tasks, 1, 1);
    show("tasks of the pushers " + what, found);
    CHECK(found.wrong.empty());
    CHECK(found.ends > 0);
  }
}

TEST_CASE("with two streams and two chains of task management a context closes once, when all is done",
          "[arch][TSK-07][TSK-09]") {
  for (const auto& tasks : std::vector<std::vector<std::uint32_t>>{{2}, {3}, {1, 1}, {2, 1}, {2, 2}}) {
    const Explored found = explore_tmdqs<CompleteSteps>(tasks, 2, 2);
    show("two TMDQs, two schedulers, " + std::to_string(tasks.size()) + " pushers of " + std::to_string(tasks[0]),
         found);
    CHECK(found.wrong.empty());
    CHECK(found.ends > 0);
  }
}

TEST_CASE("records of tasks that have completed are used again without harm", "[arch][TSK-08][TSK-09][TSK-13]") {
  const Task any;
  for (const std::uint64_t records : {1, 2}) {
    const RecordPool pool{0x8000, records, kRecordBytes};
    for (const std::size_t pushers : {1, 2}) {
      const std::vector<std::vector<Task>> all(pushers, std::vector<Task>(pushers == 1 ? 3 : 2, any));
      const Explored found = explore(Tmdqs<CompleteSteps>(all, 1, 1, pool));
      show(std::to_string(records) + " records, " + std::to_string(pushers) + " pushers", found);
      CHECK(found.wrong.empty());
      CHECK(found.ends > 0);
    }
  }
}

// The test of the test.
TEST_CASE("waiting for the last-task pointer instead of the next task loses one", "[arch][TSK-09]") {
  CHECK(explore_tmdqs<SkippingWalk>({1}, 1, 1).wrong.empty());  // one task at a time does not show it
  CHECK(explore_tmdqs<SkippingWalk>({3}, 1, 1).wrong ==
        "a task was started out of the order of its TMDQ, twice, or never launched");
  CHECK_FALSE(explore_tmdqs<SkippingWalk>({2, 1}, 1, 1).wrong.empty());
}

}  // namespace arch_tmdq_exhaustive_test
