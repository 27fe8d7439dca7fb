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

}  // namespace

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

}  // namespace arch_tmdq_wait_test
