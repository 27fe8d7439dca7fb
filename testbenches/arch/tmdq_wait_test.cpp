// Every interleaving of waits for the tasks of a context with their completions and wakes (TSK-12, TSK-14).
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "arch/tmdq_explorer.h"

namespace arch_tmdq_wait_test {

using namespace heddle::arch;
using heddle::test::explore;
using heddle::test::Explored;
using heddle::test::Key;
using heddle::test::show;
using heddle::test::Words;
using heddle::test::Wrong;

namespace {

using Kind = MemoryStep::Kind;

constexpr std::uint64_t kContext = 0x2000;
constexpr std::uint64_t kHome = home_of_sm(3);

// Warps of one CTA launch tasks and wait for them; chains of task management complete them and wake the CTA. What a
// warp's step does to memory and its answer are moves of their own: a wake may come between them.
class Waits {
 public:
  enum class Who : std::uint8_t { warp, chain, wake };
  struct Move {
    Who who = Who::warp;
    std::uint32_t which = 0;
  };
  // Mistakes that the exploration has to find.
  enum class Mistake : std::uint8_t {
    none,
    hasty,     // who is woken goes on, whatever the counter says
    trusting,  // a home that has been written stands, whether or not a wake came before the answer
  };
  // `launches`: of each warp, before each of its waits.
  Waits(const std::vector<std::vector<std::uint32_t>>& launches, std::uint32_t chains, Mistake mistake = Mistake::none)
      : mistake_(mistake), launches_(launches), warps_(launches.size()), chains_(chains) {
    words_.add(kContext + context::kWork, 1);
    words_.add(kContext + context::kHome, kHome);
  }
  std::vector<Move> moves() const {
    std::vector<Move> result;
    for (std::uint32_t i = 0; i < warps_.size(); ++i) {
      const Warp& warp = warps_[i];
      if (warp.wait < launches_[i].size() && !(warp.walk && warp.walk->waiting())) result.push_back({Who::warp, i});
    }
    for (std::uint32_t i = 0; i < chains_.size(); ++i) {
      if (chains_[i].busy || !tasks_.empty()) result.push_back({Who::chain, i});
    }
    if (wakes_ > 0) result.push_back({Who::wake, 0});
    return result;
  }
  void make(const Move& move) {
    switch (move.who) {
      case Who::warp:
        return run(move.which);
      case Who::chain:
        return complete(chains_[move.which]);
      case Who::wake:
        --wakes_;
        home_here_ = false;
        for (Warp& warp : warps_) {
          if (!warp.walk) continue;
          if (mistake_ == Mistake::hasty && warp.walk->waiting()) {
            warp.walk->give_up();
            warp.passed = true;
          }
          warp.walk->woken();
        }
        return;
    }
  }
  bool ended() const {
    for (std::uint32_t i = 0; i < warps_.size(); ++i) {
      if (warps_[i].wait < launches_[i].size()) return false;
    }
    if (wakes_ > 0 || !tasks_.empty()) return false;
    for (const Chain& chain : chains_) {
      if (chain.busy) return false;
    }
    if (words_.at(kContext + context::kWork) != 1) throw Wrong("work or waiters are left");
    return true;
  }
  void key(Key& key) const {
    key.add_all(words_.values());
    for (const Warp& warp : warps_) {
      key.add(warp.wait << 16 | warp.launched << 8 | warp.open);
      if (warp.walk) {
        const MemoryStep step = warp.walk->step();
        key.add(static_cast<std::uint64_t>(step.kind) | (warp.walk->was_woken() ? 16 : 0) | (warp.passed ? 32 : 0));
        key.add(step.value);
      }
      key.add(warp.pending ? 1 + work_of(*warp.pending) : 0);
    }
    for (const Chain& chain : chains_) key.add((chain.busy ? 1 : 0) | chain.warp << 1 | (chain.wakes ? 16 : 0));
    key.add_all(tasks_);
    key.add(wakes_ << 1 | (home_here_ ? 1 : 0));
  }

 private:
  struct Warp {
    std::uint64_t wait = 0;
    std::uint64_t launched = 0;  // since the last
    std::uint64_t open = 0;      // tasks of it that have not completed
    std::optional<WaitSteps> walk;
    std::optional<std::uint64_t> pending;  // an answer on its way
    bool passed = false;                   // the walk has seen that nothing is open
  };
  struct Chain {
    bool busy = false;
    std::uint64_t warp = 0;  // whose task
    bool wakes = false;
  };

  void run(std::uint32_t index) {
    Warp& warp = warps_[index];
    if (warp.launched < launches_[index][warp.wait]) {
      words_[kContext + context::kWork] += 1;
      tasks_.push_back(index);
      std::sort(tasks_.begin(), tasks_.end());
      ++warp.launched;
      ++warp.open;
      return;
    }
    if (!warp.walk) warp.walk.emplace(kContext, kHome, !home_here_);
    if (!warp.pending) {
      warp.pending = words_.carry_out(warp.walk->step());
      if (warp.walk->writes_home()) warp.pending = 0;  // the answer means nothing
      return;
    }
    const bool stands = mistake_ == Mistake::trusting || !warp.walk->was_woken();
    const bool home = warp.walk->writes_home() && stands;
    warp.passed |= !warp.walk->writes_home() && work_of(*warp.pending) == 1;
    warp.walk->answer(*warp.pending);
    warp.pending.reset();
    home_here_ |= home;
    if (!warp.walk->over()) return;
    if (warp.open > 0) throw Wrong("a warp went on before its tasks had completed");
    warp.walk.reset();
    warp.passed = false;
    warp.launched = 0;
    ++warp.wait;
  }
  void complete(Chain& chain) {
    if (!chain.busy) {
      chain = {true, tasks_.front(), false};
      tasks_.erase(tasks_.begin());
      --warps_[chain.warp].open;
      return;
    }
    if (!chain.wakes) {
      const std::uint64_t left = words_.carry_out({Kind::add, kContext + context::kWork, ~std::uint64_t{0}}) - 1;
      chain.wakes = work_of(left) == 1 && waiters_of(left) > 0;
      if (!chain.wakes) chain = {};
      return;
    }
    const std::uint64_t home = words_.carry_out({Kind::exchange, kContext + context::kHome, kHomeWoken});
    if (home == kHome) ++wakes_;
    chain = {};
  }

  Mistake mistake_;
  std::vector<std::vector<std::uint32_t>> launches_;
  Words words_;
  std::vector<Warp> warps_;
  std::vector<Chain> chains_;
  std::vector<std::uint64_t> tasks_;  // that run: whose
  std::uint64_t wakes_ = 0;           // on their way
  bool home_here_ = true;             // as far as the SM knows
};

// Warps that wait for all tasks, for those of a TMDQ or for one launch, and chains of task management that take tasks
// out of their TMDQ, end their tickets, give their TMDs to later launches, and wake (TSK-16).
class SomeWaits {
 public:
  using Who = Waits::Who;
  using Move = Waits::Move;
  enum class For : std::uint8_t { all, tmdq, launch };
  struct Step {
    std::uint32_t launches = 0;  // one after another, into the warp's TMDQ
    For wait = For::all;
    std::uint32_t which = 0;  // launch: of those of the step; tmdq: its number
  };
  using Program = std::vector<std::vector<Step>>;  // of each warp
  // Mistakes that the exploration has to find.
  enum class Mistake : std::uint8_t {
    none,
    silent,  // the end of a task wakes those alone that wait for all
    early,   // the waiter looks before it is counted, and not again
    kept,    // a ticket stays when its launch has completed
  };
  // `shared`: the context has no home. Warp i launches into TMDQ i mod `tmdqs`, and its launches have TMDs of their
  // own, two in turn.
  SomeWaits(Program program, std::uint32_t tmdqs, std::uint32_t chains, bool shared, Mistake mistake = Mistake::none)
      : program_(std::move(program)),
        tmdqs_(tmdqs),
        shared_(shared),
        mistake_(mistake),
        warps_(program_.size()),
        chains_(chains) {
    words_.add(kContext + context::kWork, 1);
    words_.add(kContext + context::kHome, shared ? 0 : kHome);
    for (std::uint32_t i = 0; i < tmdqs; ++i) words_.add(kContext + context::last_task(i));
    for (std::uint32_t i = 0; i < 2 * program_.size(); ++i) words_.add(record(i) + tmd::kFlags, 0x77);
    for (std::uint32_t i = 0; i < 2 * program_.size(); ++i) words_.add(record(i) + tmd::kNext);
    for (std::uint32_t i = 0; i < 2 * program_.size(); ++i) words_.add(record(i) + tmd::kContext, kContext);
  }
  std::vector<Move> moves() const {
    std::vector<Move> result;
    for (std::uint32_t i = 0; i < warps_.size(); ++i) {
      const Warp& warp = warps_[i];
      if (warp.step == program_[i].size() || (warp.walk && warp.walk->waiting())) continue;
      if (warp.launched < program_[i][warp.step].launches && open_records(i) == 2) continue;  // no TMD is free
      result.push_back({Who::warp, i});
    }
    for (std::uint32_t i = 0; i < chains_.size(); ++i) {
      if (chains_[i].at != Chain::At::idle || !running_.empty()) result.push_back({Who::chain, i});
    }
    if (wakes_ > 0) result.push_back({Who::wake, 0});
    return result;
  }
  void make(const Move& move) {
    switch (move.who) {
      case Who::warp:
        return run(move.which);
      case Who::chain:
        return complete(chains_[move.which]);
      case Who::wake:
        --wakes_;
        home_here_ = false;
        for (Warp& warp : warps_) {
          if (warp.walk) warp.walk->woken();
        }
        return;
    }
  }
  bool ended() const {
    for (std::uint32_t i = 0; i < warps_.size(); ++i) {
      if (warps_[i].step < program_[i].size()) return false;
    }
    if (wakes_ > 0 || !running_.empty()) return false;
    for (const Chain& chain : chains_) {
      if (chain.at != Chain::At::idle) return false;
    }
    if (words_.at(kContext + context::kWork) != 1) throw Wrong("work or waiters are left");
    return true;
  }
  void key(Key& key) const {
    key.add_all(words_.values());
    for (const Warp& warp : warps_) {
      key.add(warp.step << 16 | warp.launched << 8 | warp.at);
      if (warp.walk) {
        const MemoryStep step = warp.walk->step();
        key.add(static_cast<std::uint64_t>(step.kind) | (warp.walk->was_woken() ? 16 : 0) |
                (warp.walk->waiting() ? 32 : 0));
        key.add(step.value);
        key.add(step.address);
        key.add(warp.walk->targets().size() << 8 | warp.seen);
      }
      key.add(warp.push ? 1 + warp.push->previous() : 0);
      key.add(warp.pending ? 1 + *warp.pending : 0);
      key.add_all(warp.handles);
      key.add_all(warp.open);
    }
    for (const Chain& chain : chains_) {
      key.add(static_cast<std::uint64_t>(chain.at) | chain.task << 8);
      key.add(chain.walk ? 1 + static_cast<std::uint64_t>(chain.walk->step().kind) : 0);
    }
    key.add_all(running_);
    key.add(wakes_ << 1 | (home_here_ ? 1 : 0));
    key.add_all(records_);
    key.add(next_);
  }

 private:
  static constexpr std::uint64_t record(std::uint64_t index) { return 0x10000 + index * kRecordBytes; }
  struct Warp {
    std::uint64_t step = 0;
    std::uint64_t launched = 0;  // of the step
    std::uint32_t at = 0;        // of a launch: count, write, push
    std::uint64_t record = 0;    // of it
    std::optional<PushSteps> push;
    std::optional<WaitSteps> walk;
    std::optional<std::uint64_t> pending;  // an answer on its way
    std::uint64_t seen = 0;  // of its steps, for the key: whether it is counted, whether it passed, and whether it has
                             // just asked whose launch it is
    std::vector<std::uint64_t> handles;  // of the launches of the step
    std::vector<std::uint64_t> open;     // tickets of its launches that have not completed
  };
  struct Chain {
    enum class At : std::uint8_t { idle, leave, ticket, uncount, wake };
    At at = At::idle;
    std::uint64_t task = 0;  // handle
    std::optional<CompleteSteps> walk;
  };

  std::uint64_t warp_of(std::uint64_t handle) const {
    return (record_of_handle(handle) - record(0)) / kRecordBytes / 2;
  }
  std::uint64_t tmdq_of_warp(std::uint64_t warp) const { return kContext + context::last_task(warp % tmdqs_); }
  std::size_t open_records(std::uint32_t warp) const {
    return static_cast<std::size_t>(
        std::count_if(records_.begin(), records_.end(), [&](std::uint64_t one) { return one / 2 == warp; }));
  }

  void run(std::uint32_t index) {
    Warp& warp = warps_[index];
    const Step& step = program_[index][warp.step];
    if (warp.launched < step.launches) return launch(index, warp);
    if (!warp.walk) {
      std::vector<WaitTarget> targets;
      if (step.wait == For::tmdq) targets.push_back(WaitTarget::of_tmdq(kContext, step.which));
      if (step.wait == For::launch) targets.push_back(WaitTarget::of_launch(warp.handles[step.which]));
      warp.walk.emplace(kContext, shared_ ? 0 : kHome, !shared_ && !home_here_, targets);
      warp.seen = 0;
      if (mistake_ == Mistake::early && step.wait != For::all) {
        if (targets.front().over(words_[targets.front().address])) return go_on(index, warp);
      }
    }
    if (!warp.pending) {
      warp.pending = words_.carry_out(warp.walk->step());
      if (warp.walk->writes_home()) warp.pending = 0;  // the answer means nothing
      return;
    }
    const MemoryStep now = warp.walk->step();
    const bool home = warp.walk->writes_home() && !warp.walk->was_woken();
    if (now.kind == Kind::add) warp.seen = now.value == kWorkWaiter || now.value == kWorkSomeWaiter ? 1 : 0;
    if (now.kind == Kind::add && work_of(*warp.pending) == 1 && step.wait == For::all) warp.seen |= 2;
    warp.seen &= ~std::uint64_t{4};
    if (now.kind == Kind::read && now.address % kRecordBytes == tmd::kContext) warp.seen |= 4;
    warp.walk->answer(*warp.pending);
    warp.pending.reset();
    home_here_ |= home;
    if (mistake_ == Mistake::early && step.wait != For::all && now.kind == Kind::add && !warp.walk->over()) {
      // It has looked before.
      while (!warp.walk->waiting() && warp.walk->step().kind == Kind::read) warp.walk->answer(1);
    }
    if (warp.walk->over()) go_on(index, warp);
  }

  void go_on(std::uint32_t index, Warp& warp) {
    const Step& step = program_[index][warp.step];
    for (const Warp& other : warps_) {
      for (const std::uint64_t handle : other.open) {
        const bool own = &other == &warp;
        const bool counts = step.wait == For::all      ? own
                            : step.wait == For::launch ? handle == warp.handles[step.which]
                                                       : own && warp_of(handle) % tmdqs_ == step.which;
        if (counts) throw Wrong("a warp went on before what it waited for had completed");
      }
    }
    warp.walk.reset();
    warp.handles.clear();
    warp.launched = 0;
    warp.seen = 0;
    ++warp.step;
  }

  void launch(std::uint32_t index, Warp& warp) {
    if (warp.at == 0) {
      const std::uint64_t first = std::uint64_t{2} * index;
      const bool used = std::find(records_.begin(), records_.end(), first) != records_.end();
      const std::uint64_t number = first + (used ? 1 : 0);
      records_.push_back(number);
      std::sort(records_.begin(), records_.end());
      warp.record = record(number);
      words_[kContext + context::kWork] += 1;
      warp.at = 1;
      return;
    }
    if (warp.at == 1) {
      const std::uint64_t handle = launch_handle(warp.record, ++next_);
      words_[warp.record + tmd::kFlags] = std::uint64_t{ticket_of_handle(handle)} << 32 | 1U << 11;
      words_[warp.record + tmd::kNext] = 0;
      warp.handles.push_back(handle);
      warp.open.push_back(handle);
      warp.push.emplace(tmdq_of_warp(index), warp.record);
      warp.at = 2;
      return;
    }
    warp.push->answer(words_.carry_out(warp.push->step()));
    if (!warp.push->over()) return;
    if (warp.push->starts()) start(warp.handles.back());
    warp.push.reset();
    warp.at = 0;
    ++warp.launched;
  }

  void start(std::uint64_t handle) {
    running_.push_back(handle);
    std::sort(running_.begin(), running_.end());
  }

  void complete(Chain& chain) {
    using At = Chain::At;
    switch (chain.at) {
      case At::idle: {
        chain.at = At::leave;
        chain.task = running_.front();
        running_.erase(running_.begin());
        std::vector<std::uint64_t>& open = warps_[warp_of(chain.task)].open;
        open.erase(std::find(open.begin(), open.end(), chain.task));
        chain.walk.emplace(tmdq_of_warp(warp_of(chain.task)), record_of_handle(chain.task));
        return;
      }
      case At::leave:
        chain.walk->answer(words_.carry_out(chain.walk->step()));
        if (!chain.walk->over()) return;
        if (const std::uint64_t next = chain.walk->next(); next != 0) {
          start(next / kRecordBytes << 32 | words_[next + tmd::kFlags] >> 32);
        }
        chain.walk.reset();
        chain.at = At::ticket;
        return;
      case At::ticket:
        if (mistake_ != Mistake::kept) words_[record_of_handle(chain.task) + tmd::kFlags] = 0;
        records_.erase(
            std::find(records_.begin(), records_.end(), (record_of_handle(chain.task) - record(0)) / kRecordBytes));
        chain.at = At::uncount;
        return;
      case At::uncount: {
        const std::uint64_t left = words_.carry_out({Kind::add, kContext + context::kWork, ~std::uint64_t{0}}) - 1;
        const bool wakes =
            (work_of(left) == 1 && waiters_of(left) > 0) || (some_waiters_of(left) > 0 && mistake_ != Mistake::silent);
        chain.at = wakes ? At::wake : At::idle;
        if (!wakes) chain.task = 0;
        if (wakes && shared_) {
          ++wakes_;
          chain = {};
        }
        return;
      }
      case At::wake: {
        const std::uint64_t home = words_.carry_out({Kind::exchange, kContext + context::kHome, kHomeWoken});
        if (home == kHome) ++wakes_;
        chain = {};
      }
    }
  }

  Program program_;
  std::uint32_t tmdqs_;
  bool shared_;
  Mistake mistake_;
  Words words_;
  std::vector<Warp> warps_;
  std::vector<Chain> chains_;
  std::vector<std::uint64_t> running_;  // handles
  std::vector<std::uint64_t> records_;  // numbers of TMDs in use
  std::uint32_t next_ = 0;              // ticket
  std::uint64_t wakes_ = 0;             // on their way
  bool home_here_ = true;               // as far as the SM knows
};

// A warp waits for one launch, of its own context or of another one, while the launch completes and its TMD gets a
// later launch of some context. Only its own context wakes it.
class OneWait {
 public:
  enum class Who : std::uint8_t { warp, chain, wake };
  struct Move {
    Who who = Who::warp;
  };
  static constexpr std::uint64_t kOther = 0x3000;  // context
  static constexpr std::uint64_t kRecord = 0x10000;
  static constexpr std::uint64_t flags(std::uint64_t ticket, LaunchMode mode) {
    return ticket << 32 | std::uint64_t{1} << 11 | static_cast<std::uint64_t>(mode) << 8;
  }
  OneWait(bool own, LaunchMode mode, std::uint64_t later)
      : own_(own), later_(later), walk_(kContext, kHome, false, {WaitTarget::of_launch(launch_handle(kRecord, 5))}) {
    words_.add(kContext + context::kWork, own ? 2 : 1);
    words_.add(kContext + context::kHome, kHome);
    words_.add(kRecord + tmd::kFlags, flags(5, mode));
    words_.add(kRecord + tmd::kContext, own ? kContext : kOther);
  }
  std::vector<Move> moves() const {
    std::vector<Move> result;
    if (!walk_.waiting() && !walk_.over()) result.push_back({Who::warp});
    if (chain_ < (own_ ? 4 : 2)) result.push_back({Who::chain});
    if (wakes_ > 0) result.push_back({Who::wake});
    return result;
  }
  void make(const Move& move) {
    switch (move.who) {
      case Who::warp:
        walk_.answer(words_.carry_out(walk_.step()));
        ++steps_;
        if (!walk_.over()) return;
        if (walk_.in_vain() && own_) throw Wrong("a launch of its own was taken for another one's");
        if (!walk_.in_vain() && chain_ == 0) throw Wrong("it went on before the launch had completed");
        return;
      case Who::chain:
        return complete();
      case Who::wake:
        --wakes_;
        walk_.woken();
        return;
    }
  }
  bool ended() const {
    if (!walk_.over() || wakes_ > 0 || chain_ < (own_ ? 4 : 2)) return false;
    if (some_waiters_of(words_.at(kContext + context::kWork)) != 0) throw Wrong("it is still counted as a waiter");
    return true;
  }
  void key(Key& key) const {
    key.add_all(words_.values());
    key.add(chain_ << 8 | wakes_);
    key.add(steps_);
    key.add(walk_.was_woken() ? 1 : 0);
    key.add(walk_.step().address);
  }

 private:
  void complete() {
    switch (chain_++) {
      case 0:
        words_[kRecord + tmd::kFlags] = 0;
        return;
      case 1:
        words_[kRecord + tmd::kFlags] = flags(7, LaunchMode::stream);
        words_[kRecord + tmd::kContext] = later_;
        return;
      case 2: {
        const std::uint64_t left = words_.carry_out({Kind::add, kContext + context::kWork, ~std::uint64_t{0}}) - 1;
        if (some_waiters_of(left) == 0) chain_ = 4;
        return;
      }
      default:
        if (words_.carry_out({Kind::exchange, kContext + context::kHome, kHomeWoken}) == kHome) ++wakes_;
        return;
    }
  }

  bool own_;
  std::uint64_t later_;
  Words words_;
  WaitSteps walk_;
  std::uint64_t chain_ = 0;
  std::uint64_t wakes_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace

TEST_CASE("a wait for a launch that will never wake the warp ends, and no other is taken for one",
          "[arch][TSK-12][TSK-16]") {
  for (const std::uint64_t later : {kContext, OneWait::kOther}) {
    for (const bool own : {false, true}) {
      const Explored found = explore(OneWait(own, LaunchMode::stream, later));
      show(own ? "its own launch" : "a launch of another context", found);
      CHECK(found.wrong.empty());
      CHECK(found.ends > 0);
    }
    const Explored tail = explore(OneWait(false, LaunchMode::tail, later));
    CHECK(tail.wrong.empty());
    CHECK(tail.ends > 0);
  }
  // A tail launch that has not begun: nothing else happens.
  WaitSteps wait(kContext, kHome, false, {WaitTarget::of_launch(launch_handle(OneWait::kRecord, 5))});
  std::vector<Kind> kinds;
  while (!wait.over()) {
    kinds.push_back(wait.step().kind);
    wait.answer(wait.step().kind == Kind::read ? OneWait::flags(5, LaunchMode::tail) : 1);
  }
  CHECK(kinds == std::vector<Kind>{Kind::add, Kind::read, Kind::add});
  CHECK(wait.in_vain());
  CHECK(wait.targets().front().handle() == launch_handle(OneWait::kRecord, 5));
}

TEST_CASE("no interleaving of waits, completions and wakes lets a warp go on too early, or never",
          "[arch][TSK-12][TSK-14]") {
  const std::vector<std::vector<std::vector<std::uint32_t>>> programs{
      {{1}},      {{2}},         {{1, 1}},         {{2, 1}},      {{1}, {1}},     {{2}, {1}},
      {{2}, {2}}, {{1, 1}, {1}}, {{1, 1}, {1, 1}}, {{1, 2}, {2}}, {{1}, {1}, {1}}};
  for (std::size_t i = 0; i < programs.size(); ++i) {
    for (const std::uint32_t chains : {1, 2, 3}) {
      if (chains == 3 && i > 6) continue;
      const Explored found = explore(Waits(programs[i], chains));
      show("program " + std::to_string(i) + ", " + std::to_string(chains) + " chains", found);
      CHECK(found.wrong.empty());
      CHECK(found.ends > 0);
    }
  }
  // The test of the test: a wake may be for a completion before the last launch, and one that comes between a write and
  // its answer may have taken the home away again.
  CHECK_FALSE(explore(Waits({{1, 1}, {1}}, 2, Waits::Mistake::hasty)).wrong.empty());
  CHECK(explore(Waits({{1}, {1, 1, 1}}, 1, Waits::Mistake::trusting)).wrong == "stuck");
}

TEST_CASE("no interleaving lets a warp that waits for some tasks go on too early, or never", "[arch][TSK-12][TSK-16]") {
  using For = SomeWaits::For;
  struct Case {
    const char* name;
    SomeWaits::Program program;
    std::uint32_t tmdqs;
  };
  const std::vector<Case> cases{
      {"a launch", {{{1, For::launch, 0}}}, 1},
      {"the first of two in a stream", {{{2, For::launch, 0}}}, 1},
      {"the second of two in a stream", {{{2, For::launch, 1}}}, 1},
      {"a stream of two", {{{2, For::tmdq, 0}}}, 1},
      {"an empty stream", {{{1, For::tmdq, 1}, {0, For::all, 0}}, {{0, For::all, 0}}}, 2},
      {"a launch, and again with its TMD", {{{1, For::launch, 0}, {1, For::launch, 0}}}, 1},
      {"a launch, then a stream, then all", {{{2, For::launch, 0}, {1, For::tmdq, 0}, {0, For::all, 0}}}, 1},
      {"two warps, each its launch", {{{1, For::launch, 0}}, {{1, For::launch, 0}}}, 1},
      {"two warps, a launch and all", {{{1, For::launch, 0}}, {{1, For::all, 0}}}, 2},
      {"two warps, a stream and all", {{{1, For::tmdq, 0}}, {{1, For::all, 0}}}, 2},
      {"two warps, a stream of both", {{{1, For::tmdq, 0}}, {{1, For::tmdq, 0}}}, 1},
      {"two warps, twice", {{{1, For::launch, 0}, {1, For::all, 0}}, {{1, For::tmdq, 1}}}, 2},
  };
  for (const Case& one : cases) {
    for (const bool shared : {false, true}) {
      for (const std::uint32_t chains : {1, 2}) {
        const Explored found = explore(SomeWaits(one.program, one.tmdqs, chains, shared));
        show(std::string(one.name) + (shared ? ", shared, " : ", ") + std::to_string(chains) + " chains", found);
        CHECK(found.wrong.empty());
        CHECK(found.ends > 0);
      }
    }
  }
  // The test of the test.
  const auto finds = [](const SomeWaits::Program& program, SomeWaits::Mistake mistake) {
    return !explore(SomeWaits(program, 1, 1, false, mistake)).wrong.empty();
  };
  CHECK(finds({{{1, For::launch, 0}}}, SomeWaits::Mistake::silent));
  CHECK(finds({{{1, For::launch, 0}}}, SomeWaits::Mistake::early));
  CHECK(finds({{{1, For::launch, 0}}}, SomeWaits::Mistake::kept));
}

}  // namespace arch_tmdq_wait_test
