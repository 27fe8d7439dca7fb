#include <catch2/catch.hpp>

#include "replay/simulation.h"

namespace replay_progress_watch_test {

using heddle::replay::ProgressWatch;

TEST_CASE("events without progress for longer than the patience are a standstill", "[replay]") {
  ProgressWatch watch(10);
  CHECK_FALSE(watch.stuck(0, 4, 0, 1, true));  // the first progress
  CHECK_FALSE(watch.stuck(4, 8, 0, 1, true));
  CHECK_FALSE(watch.stuck(8, 13, 0, 1, true));
  CHECK(watch.idle() == 9);
  CHECK(watch.stuck(13, 14, 0, 1, true));
}

TEST_CASE("progress, and work that is not open, reset the patience", "[replay]") {
  ProgressWatch watch(10);
  CHECK_FALSE(watch.stuck(0, 9, 0, 0, true));
  CHECK_FALSE(watch.stuck(9, 18, 0, 1, true));
  CHECK_FALSE(watch.stuck(18, 27, 0, 1, false));
  CHECK_FALSE(watch.stuck(27, 36, 0, 1, true));
  CHECK(watch.stuck(36, 37, 0, 1, true));
}

TEST_CASE("a jump to the next event does not count", "[replay]") {
  ProgressWatch watch(10);
  CHECK_FALSE(watch.stuck(0, 1000, 999, 0, true));
  CHECK(watch.idle() == 1);
}

TEST_CASE("without patience nothing is a standstill", "[replay]") {
  ProgressWatch watch(0);
  CHECK_FALSE(watch.stuck(0, 1e9, 0, 0, true));
}

}  // namespace replay_progress_watch_test
