// How good plans are: against the best plan, and on task graphs.
#include <array>
#include <map>

#include <catch2/catch.hpp>

#include "driver/plan_lists.h"

namespace heddle::test::driver_plan_cost_test {
namespace {

// The best plan, by trying all: lists whose kernels all have the barrier bit and the same scopes, so that the
// half-words of a diff have a simple rule.
class BestPlan {
 public:
  BestPlan(const Kernels& kernels, const heddle_plan_options& options, std::uint32_t slots)
      : kernels_(kernels), costs_(options.costs), slots_(slots) {}

  std::uint64_t cost() { return from(0, {-1, -1, -1}); }

 private:
  using Slots = std::array<int, 3>;

  std::uint64_t from(std::size_t first, const Slots& slots) {
    if (first == kernels_.size()) return 0;
    std::uint64_t key = first;  // kernels are few
    for (const int slot : slots) key = key * 100 + static_cast<std::uint64_t>(slot + 1);
    const auto known = costs_known_.find(key);
    if (known != costs_known_.end()) return known->second;
    std::uint64_t best = costs_.plain + from(first + 1, slots);
    for (std::size_t slot = 0; slot < slots_; ++slot) {
      Slots stored = slots;
      stored[slot] = static_cast<int>(first);
      best = std::min(best, costs_.reference + from(first + 1, stored));
    }
    unsigned lead = 0;
    std::uint64_t cost = costs_.condensed;
    for (std::size_t last = first; last < kernels_.size() && lead <= 30; ++last) {
      cost += costs_.diff;
      if (lead + half_words(last, slots, true) <= 31) best = std::min(best, cost + from(last + 1, slots));
      lead += half_words(last, slots, false);
      if (kernels_[last].dispatch.completion_signal != 0) cost += costs_.own_clean_up;
    }
    costs_known_[key] = best;
    return best;
  }

  unsigned half_words(std::size_t kernel, const Slots& slots, bool last) const {
    unsigned best = 1000;
    for (const int slot : slots) {
      if (slot >= 0) best = std::min(best, half_words(kernel, static_cast<std::size_t>(slot), last));
    }
    return best;
  }
  unsigned half_words(std::size_t kernel, std::size_t entry, bool last) const {
    const heddle_dispatch& a = kernels_[kernel].dispatch;
    const heddle_dispatch& b = kernels_[entry].dispatch;
    unsigned sum = 1 + (a.setup != b.setup ? 1U : 0U);
    for (std::size_t i = 0; i < 3; ++i) {
      sum += (a.workgroup[i] != b.workgroup[i] ? 1U : 0U) + (a.grid[i] != b.grid[i] ? 2U : 0U);
    }
    sum += (a.private_segment != b.private_segment ? 2U : 0U) + (a.group_segment != b.group_segment ? 2U : 0U);
    sum += (a.kernel_object != b.kernel_object ? 4U : 0U) + (a.kernarg != b.kernarg ? 4U : 0U);
    if (last) return sum + (a.completion_signal != b.completion_signal ? 4U : 0U);
    return sum + (a.completion_signal != 0 ? 5U : 0U);  // with its own release
  }

  const Kernels& kernels_;
  heddle_plan_costs costs_;
  std::size_t slots_;
  std::map<std::uint64_t, std::uint64_t> costs_known_;
};

TEST_CASE("plans cost little more than the best one", "[driver][PKT-06]") {
  HEDDLE_RANDOM(dice);
  double sum = 0, worst = 1;
  int best = 0;
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t seed = dice.next();
    CAPTURE(round, seed);
    Random random(seed);
    Wildness wild;
    wild.kinds = random.between(1, 5);
    wild.changes = random.below(50);
    wild.signals = random.below(40);
    wild.scopes = wild.keeps = 0;
    wild.periodic = random.chance(50);
    const Kernels kernels = random_list(random, random.between(1, 14), wild);
    heddle_plan_options options = usual_options();
    if (random.chance(50)) {
      options.costs = {random.between(200, 1000), random.between(200, 1000), random.between(200, 1000),
                       random.below(200), random.below(200)};
    }
    const std::uint32_t slots = random.between(1, 3);
    options.entries = static_cast<std::uint8_t>((1U << slots) - 1);
    heddle_table table;
    heddle_table_clear(&table);
    const std::uint64_t ours = plan(kernels, options, table).result.cost;
    const std::uint64_t least = BestPlan(kernels, options, slots).cost();
    REQUIRE(ours >= least);
    const double factor = static_cast<double>(ours) / static_cast<double>(least);
    sum += factor;
    worst = std::max(worst, factor);
    best += ours == least ? 1 : 0;
    CHECK(factor <= 1.15);
  }
  CAPTURE(sum / kRounds, worst, best);
  CHECK(sum / kRounds <= 1.002);
  CHECK(best >= kRounds * 95 / 100);
}

TEST_CASE("a task graph of six kernels, a hundred times, becomes few packets", "[driver][PKT-06][PKT-08]") {
  heddle_plan_options options = usual_options();
  heddle_table table;
  heddle_table_clear(&table);
  const Plan shared = plan(task_graph(100, false), options, table);
  CHECK(shared.result.references == 6);
  CHECK(shared.result.plain == 0);
  // 11 half-words per iteration: five kernels of one, and one with its release and signal.
  CHECK(shared.result.packets <= 6 + 594 * 11 / 6 / 31 + 2);
  CHECK(shared.result.cost * 4 < shared.result.plain_cost);

  // The next hundred find the table filled.
  const Plan again = plan(task_graph(100, false), options, table);
  CHECK(again.result.references == 0);
  CHECK(again.result.packets <= 600 * 11 / 6 / 31 + 2);

  // One iteration per packet, as a host that waits for each has it.
  options.max_kernels = 6;
  const Plan one_each = plan(task_graph(100, true), options, table);
  CHECK(one_each.result.packets == 100);
  CHECK(one_each.result.condensed == 100);
}

TEST_CASE("a task graph of more kernels than entries keeps eight of them", "[driver][PKT-05]") {
  Kernels kernels;
  for (std::uint32_t i = 0; i < 12 * 50; ++i) kernels.push_back({kernel_number(i % 12), HEDDLE_KEEP_NOTHING, nullptr});
  heddle_plan_options options = usual_options();
  heddle_table table;
  heddle_table_clear(&table);
  const Plan made = plan(kernels, options, table);
  CHECK(table.valid == 0xFF);
  CHECK(made.result.references <= 20);
  CHECK(made.result.cost * 2 < made.result.plain_cost);
}

TEST_CASE("entries follow the list when it goes on to other kernels", "[driver][PKT-05]") {
  Kernels kernels;
  for (std::uint32_t part = 0; part < 5; ++part) {
    for (std::uint32_t i = 0; i < 6 * 20; ++i) {
      kernels.push_back({kernel_number(6 * part + i % 6), HEDDLE_KEEP_NOTHING, nullptr});
    }
  }
  heddle_plan_options options = usual_options();
  heddle_table table;
  heddle_table_clear(&table);
  const Plan made = plan(kernels, options, table);
  CHECK(made.result.references == 30);
  CHECK(made.result.packets <= 30 + 600 / 31 + 10);
}

TEST_CASE("kernels that differ in their arguments only share an entry", "[driver][PKT-06]") {
  Kernels kernels;
  for (std::uint32_t i = 0; i < 300; ++i) {
    kernels.push_back({kernel_number(i % 3), HEDDLE_KEEP_NOTHING, nullptr});
    kernels.back().dispatch.kernarg = 0x40'0000 + 64 * i;
  }
  heddle_plan_options options = usual_options();
  heddle_table table;
  heddle_table_clear(&table);
  const Plan made = plan(kernels, options, table);
  CHECK(made.result.references == 3);
  CHECK(made.result.packets <= 3 + 50);  // six of five half-words in each
}

TEST_CASE("without a gain all packets are plain", "[driver]") {
  heddle_plan_options options = usual_options();
  options.costs = {100, 101, 100, 100, 0};
  heddle_table table;
  heddle_table_clear(&table);
  const Plan made = plan(task_graph(10, false), options, table);
  CHECK(made.result.plain == 60);
  CHECK(table.valid == 0);
}

}  // namespace
}  // namespace heddle::test::driver_plan_cost_test
