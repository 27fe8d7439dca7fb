// What task management knows of a queue, against one that keeps every ticket.
#include <cstdint>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"
#include "task/stream_table.h"

namespace heddle::test::task_queue_state_test {

using task::QueueState;

// Appenders take tickets from a counter and tell of them in any order; the distributor completes what it was told of;
// the queue is closed with a compare-exchange that takes a while. CTAs that have launched are open for longer than
// their entries: before the compare-exchange it is looked whether any is. Nothing may be lost, and nothing come after
// the end.
TEST_CASE("entries are passed on in the order of their tickets, and a queue closes only behind the last",
          "[task][TSK-05]") {
  std::uint32_t failed_closes = 0;
  std::uint32_t busy_closes = 0;
  for (const std::uint64_t seed : seeds(4000)) {
    CAPTURE(seed);
    Random random(seed);
    QueueState state;
    const std::uint64_t initial = random.below(4);
    const bool held = random.chance(50);
    std::uint64_t tickets = initial;  // the word in memory
    bool closed = false;
    std::vector<std::uint64_t> told;  // of tickets, not yet there
    std::uint64_t distributor = 0;    // entries that it knows of
    std::uint64_t completed = 0;
    bool idle_due = false;
    bool trying = false;
    std::optional<bool> busy;  // what the look before a close has found
    std::uint32_t open = 0;    // CTAs, in memory
    std::uint32_t closes = 0;  // of them, that are still to be told of
    std::uint64_t compare = 0;
    bool released = !held;
    std::uint32_t appends = random.below(25);
    std::uint32_t refused = 0;
    const auto passed_on = [&] {
      const std::uint64_t more = state.take_grown();
      REQUIRE((more == 0 || state.begun()));
      distributor += more;
      REQUIRE(distributor <= tickets);
      if (more > 0) idle_due = false;
    };
    const auto look = [&] {
      if (!state.may_close()) return;
      compare = state.start_close();
      trying = true;
      REQUIRE(compare == completed);
    };
    for (std::uint32_t step = 0; step < 5000; ++step) {
      switch (random.below(9)) {
        case 0:
          if (!state.begun()) {
            state.begin(initial, held);
            passed_on();
            look();
          }
          break;
        case 1:
          if (appends == 0) break;
          --appends;
          if (closed) {
            ++refused;
          } else {
            told.push_back(tickets++);
          }
          break;
        case 2: {
          if (told.empty()) break;
          const std::size_t which = random.below(told.size());
          state.appended(told[which]);
          told.erase(told.begin() + static_cast<std::ptrdiff_t>(which));
          passed_on();
          break;
        }
        case 3:
          if (completed < distributor) {
            const std::uint64_t before = completed;
            completed += random.between(1, distributor - completed);
            for (std::uint64_t i = before; i < completed; ++i) open += random.chance(25) ? 1 : 0;
            idle_due = completed == distributor;
          }
          break;
        case 4:
          if (idle_due) {
            idle_due = false;
            state.idle(completed);
            look();
          }
          break;
        case 5:
          if (!trying) break;
          if (!busy) {
            busy = open > 0;
            break;
          }
          trying = false;
          if (*busy) {
            busy.reset();
            ++busy_closes;
            state.tried(false, true);
            look();
            break;
          }
          busy.reset();
          closed = tickets == compare;
          if (closed) REQUIRE(open == 0);
          failed_closes += closed ? 0 : 1;
          state.tried(closed);
          if (!closed) look();
          break;
        case 6:
          if (open == 0) break;
          --open;
          ++closes;
          break;
        case 7:
          if (closes == 0) break;
          --closes;
          state.less_busy();
          look();
          break;
        default:
          if (!released && (appends == 0 || random.chance(5))) {
            released = true;
            state.release();
            look();
          }
          break;
      }
      REQUIRE_FALSE((closed && !released));
      if (closed && appends == 0) break;
    }
    // It has come to its end, with all that was appended.
    REQUIRE(closed);
    REQUIRE(told.empty());
    REQUIRE(completed == tickets);
    REQUIRE(distributor == tickets);
    REQUIRE(state.close() == QueueState::Close::closed);
  }
  CHECK(failed_closes > 100);
  CHECK(busy_closes > 100);
}

TEST_CASE("entries that come before the task are kept for it", "[task][TSK-05]") {
  QueueState state;
  state.appended(4);
  state.appended(2);
  CHECK(state.take_grown() == 0);
  state.begin(2, false);
  CHECK(state.take_grown() == 3);
  CHECK(state.early() == 1);
  state.appended(3);
  CHECK(state.take_grown() == 2);
  state.appended(3);  // known already
  CHECK(state.take_grown() == 0);
  CHECK(state.entries() == 5);
  CHECK_FALSE(state.may_close());
  state.idle(4);  // of before
  CHECK_FALSE(state.may_close());
  state.idle(5);
  CHECK(state.may_close());
  CHECK(state.start_close() == 5);
  CHECK_THROWS_AS(state.start_close(), CheckFailed);
  CHECK_THROWS_AS(state.begin(0, false), CheckFailed);
}

}  // namespace heddle::test::task_queue_state_test
