// The lists of waiting tasks, and who is asked for a slot, against references that look at everything every time.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"
#include "task/launch_scheduler.h"
#include "task/reference_lists.h"
#include "task/task_dispatcher.h"

namespace heddle::test::task_priority_lists_test {
namespace {

using task::PriorityLists;
using task::TableView;
using task::Urgency;

}  // namespace

TEST_CASE("lists give the most urgent first, the deepest of them, heads before all, and sources their turns",
          "[task][TSK-01][TSK-02]") {
  for (const std::uint64_t seed : seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    PriorityLists lists;
    ReferenceLists reference;
    const std::uint32_t priorities = random.between(1, 4);
    const std::uint32_t depths = random.between(1, 3);
    const std::uint32_t sources = random.between(1, 6);
    const std::uint32_t heads = random.below(40);
    std::uint32_t next = 0;
    for (std::uint32_t step = 0; step < 80; ++step) {
      const std::uint32_t what = random.below(100);
      if (what < 55 || lists.empty()) {
        const Urgency urgency{static_cast<std::int32_t>(random.below(priorities)) - 1, random.below(depths)};
        const std::uint64_t source = random.below(sources);
        const bool head = random.chance(heads);
        reference.push(urgency, head, source, next);
        if (head) {
          lists.push_head(urgency, next);
        } else {
          lists.push(urgency, source, next);
        }
        ++next;
      } else if (what < 92) {
        REQUIRE(lists.take() == reference.take());
      } else {
        const Waiting& gone = reference.items()[random.below(reference.items().size())];
        REQUIRE(lists.remove(gone.urgency, gone.item));
        REQUIRE_FALSE(lists.remove(gone.urgency, gone.item));
        reference.remove(gone.item);
      }
      REQUIRE(lists.size() == reference.items().size());
      const std::vector<std::int32_t> order = reference.priorities();
      for (std::size_t place = 0; place < order.size(); ++place) REQUIRE(lists.priority_at(place) == order[place]);
      std::size_t seen = 0;
      lists.each([&](std::int32_t, std::uint32_t) { ++seen; });
      REQUIRE(seen == order.size());
    }
    while (!lists.empty()) REQUIRE(lists.take() == reference.take());
    CHECK_THROWS_AS(lists.take(), CheckFailed);
  }
}

TEST_CASE("equal sources alternate, however much one of them has", "[task][TSK-03]") {
  PriorityLists lists;
  for (std::uint32_t i = 0; i < 6; ++i) lists.push({}, 1, i);
  for (std::uint32_t i = 10; i < 12; ++i) lists.push({}, 2, i);
  std::vector<std::uint32_t> order;
  while (!lists.empty()) order.push_back(lists.take());
  CHECK(order == std::vector<std::uint32_t>{0, 10, 1, 11, 2, 3, 4, 5});
}

TEST_CASE("the least urgent and youngest is asked for its slot, once, by a more urgent one, or by anyone if it rests",
          "[task][TSK-03][TSK-05]") {
  for (const std::uint64_t seed : seeds(3000)) {
    CAPTURE(seed);
    Random random(seed);
    TableView table;
    struct Entry {
      std::uint32_t operation;
      std::int32_t priority;
      bool asked;
      bool rests;
    };
    std::vector<Entry> entries;  // the oldest first
    bool stuck = false;
    std::uint32_t next = 0;
    for (std::uint32_t step = 0; step < 60; ++step) {
      const std::uint32_t what = random.below(100);
      if (what < 35) {
        entries.push_back({next, static_cast<std::int32_t>(random.below(4)), false, false});
        table.enter(next, entries.back().priority, 0);
        ++next;
      } else if (what < 55 && !entries.empty()) {
        const std::size_t which = random.below(entries.size());
        REQUIRE(table.leave(entries[which].operation));
        entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(which));
        stuck = false;
      } else if (what < 58 && !entries.empty()) {
        Entry& entry = entries[random.below(entries.size())];
        entry.rests = !entry.rests;
        table.rests(entry.operation, entry.rests);
      } else if (what < 65) {
        const std::uint32_t operation = random.below(next + 1);
        const auto found = std::find_if(entries.begin(), entries.end(),
                                        [=](const Entry& e) { return e.operation == operation && e.asked; });
        if (found == entries.end()) continue;
        table.refused(operation);
        found->asked = false;
        stuck = true;
      } else {
        const auto priority = static_cast<std::int32_t>(random.below(5));
        std::optional<std::uint32_t> wanted;
        for (const bool rests : {true, false}) {
          std::optional<std::int32_t> least;
          for (const Entry& entry : entries) {
            if (stuck || entry.asked || entry.rests != rests || (!rests && entry.priority >= priority)) continue;
            if (least && entry.priority > *least) continue;
            least = entry.priority;
            wanted = entry.operation;
          }
          if (wanted) break;
        }
        REQUIRE(table.evict_for(priority, 0, [](std::uint32_t, std::uint32_t) { return true; }) == wanted);
        for (Entry& entry : entries) entry.asked = entry.asked || (wanted && entry.operation == *wanted);
      }
      REQUIRE(table.size() == entries.size());
      REQUIRE(table.leaving() == static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(),
                                                                        [](const Entry& e) { return e.asked; })));
    }
    CHECK_FALSE(table.leave(next));
  }
}

}  // namespace heddle::test::task_priority_lists_test
