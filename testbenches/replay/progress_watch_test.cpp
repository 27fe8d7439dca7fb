// When a simulation that still has events counts as one without progress.
#include <catch2/catch.hpp>

#include "replay/simulation.h"

namespace replay_progress_watch_test {

using namespace heddle;
using replay::ProgressWatch;

namespace {

// A machine by script.
struct Scripted : replay::WatchSubject {
  void look(bool closely) override { looks += closely ? 1 : 0; }
  Course course() const override { return does; }
  void note_expected() override { ++notes; }
  bool expects() const override { return comes; }
  bool settled() const override { return calm; }
  Course does = Course::round;
  bool comes = false;
  bool calm = true;
  int looks = 0;
  int notes = 0;
};

}  // namespace

TEST_CASE("a machine that goes round is found out after the patience, half of it at a close look", "[replay][TSK-12]") {
  using Verdict = replay::ProgressWatch::Verdict;
  Scripted machine;
  replay::ProgressWatch watch({1000, 0}, machine);
  std::uint64_t events = 0;
  const auto until = [&](std::uint64_t end, std::uint64_t progress) {
    Verdict verdict = Verdict::goes_on;
    while (verdict == Verdict::goes_on && events < end) verdict = watch.look({events += 10, progress});
    return verdict;
  };
  SECTION("from the last progress on") {
    for (std::uint64_t progress = 1; progress < 20; ++progress)
      CHECK(until(events + 900, progress) == Verdict::goes_on);
    const std::uint64_t last = events - 890;  // the first look that saw the last progress
    CHECK(until(events + 200, 19) == Verdict::circles);
    CHECK(events == last + 1000);
    CHECK(machine.notes == 19);
  }
  SECTION("not while something is to come that was known before") {
    machine.comes = true;
    CHECK(until(50'000, 1) == Verdict::goes_on);
    CHECK(machine.notes == 1);  // what was entered later does not count
    machine.comes = false;
    CHECK(until(60'000, 1) == Verdict::circles);
  }
  SECTION("not while what is near has not come") {
    machine.calm = false;
    CHECK(until(50'000, 1) == Verdict::goes_on);
    machine.calm = true;
    CHECK(until(50'020, 1) == Verdict::circles);
  }
  SECTION("not while something computes, at which it looks now and then") {
    machine.does = Course::runs;
    CHECK(until(100'000, 1) == Verdict::goes_on);
    CHECK(machine.looks > 100'000 / 3000);
    CHECK(machine.looks < 100'000 / 2000);
    machine.does = Course::round;
    CHECK(until(104'000, 1) == Verdict::circles);
  }
  SECTION("never without patience") {
    replay::ProgressWatch patient({0, 100}, machine);
    for (std::uint64_t i = 0; i < 10'000; ++i) REQUIRE(patient.look({i * 10, 1}) == Verdict::goes_on);
    CHECK(machine.looks == 0);
  }
}

TEST_CASE("a machine of which nothing but instructions is seen is given up after the second limit",
          "[replay][TSK-12]") {
  using Verdict = replay::ProgressWatch::Verdict;
  Scripted machine;
  machine.does = Course::runs;
  replay::ProgressWatch watch({1000, 50'000}, machine);
  std::uint64_t events = 0;
  const auto until = [&](std::uint64_t end) {
    Verdict verdict = Verdict::goes_on;
    while (verdict == Verdict::goes_on && events < end) verdict = watch.look({events += 10, 1});
    return verdict;
  };
  CHECK(until(49'000) == Verdict::goes_on);
  machine.does = Course::acts;  // it writes
  CHECK(until(90'000) == Verdict::goes_on);
  machine.does = Course::runs;
  CHECK(until(130'000) == Verdict::goes_on);
  CHECK(until(145'000) == Verdict::only_instructions);
}

}  // namespace replay_progress_watch_test
