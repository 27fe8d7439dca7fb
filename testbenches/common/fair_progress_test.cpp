// Schedules made by hand, and the progress that follows from the definition (PRT-09).
#include "common/fair_progress.h"

#include <catch2/catch.hpp>

namespace heddle::test::common_fair_progress_test {

TEST_CASE("Jain's index is 1 for equals, and 1/n for one of n that has everything", "[common][PRT-09]") {
  CHECK(jain_index({}) == 1);
  CHECK(jain_index({3}) == 1);
  CHECK(jain_index({2, 2, 2, 2}) == 1);
  CHECK(jain_index({5, 0, 0, 0}) == Approx(0.25));
  CHECK(jain_index({1, 3}) == Approx(0.8));  // 16 / (2 * 10)
}

TEST_CASE("who gets nothing counts, and who wants nothing does not count as treated badly", "[common][PRT-09]") {
  FairProgress fair(10);
  for (const std::size_t owner : {0, 1, 2}) fair.entitle(owner, 10, 0);
  // For 100 cycles one has all of it, another one waits with nothing, and the third is idle.
  fair.set(0, 10, true, 0);
  fair.set(1, 0, true, 0);
  CHECK(fair.progress(0, 100) == 1);
  CHECK(fair.progress(1, 100) == 0);
  CHECK(fair.contested(2, 100) == 0);
  CHECK(fair.index(100) == Approx(0.5));
  // A small one has all that it wants.
  FairProgress small(10);
  small.entitle(0, 10, 0);
  small.entitle(1, 10, 0);
  small.set(0, 9, true, 0);
  small.set(1, 1, false, 0);
  CHECK(small.index(1000) == 1);
}

TEST_CASE("progress is what an owner has of what it is entitled to, over the time in which another has work",
          "[common][PRT-09]") {
  FairProgress fair(12);
  fair.entitle(0, 12, 0);
  fair.entitle(1, 12, 0);
  fair.set(0, 12, true, 0);    // alone: no contest
  fair.set(1, 0, true, 100);   // each is entitled to 6
  fair.set(0, 9, true, 150);   // beyond its entitlement: 1 and no more
  fair.set(1, 3, true, 150);   // half
  fair.set(1, 3, false, 250);  // no more is wanted
  fair.set(0, 0, false, 300);  // it is through
  CHECK(fair.contested(0, 500) == 200);
  CHECK(fair.contested(1, 500) == 200);
  CHECK(fair.progress(0, 500) == 1);
  // 50 cycles of nothing, 100 of a half, 50 of all: 100 of 200.
  CHECK(fair.progress(1, 500) == Approx(0.5));
  CHECK(fair.index(500) == Approx(0.9));  // 1.5 * 1.5 / (2 * 1.25)
}

TEST_CASE("weights are shares of the machine where they come to more than that, and promises where not",
          "[common][PRT-09]") {
  // 60 and 6 of 66: each has what it was promised, however different.
  FairProgress promised(66);
  promised.entitle(0, 60, 0);
  promised.entitle(1, 6, 0);
  promised.set(0, 60, true, 0);
  promised.set(1, 6, true, 0);
  CHECK(promised.index(10) == 1);
  // 66 and 22 of 66: 49.5 and 16.5. One has the other's share in part.
  FairProgress scaled(66);
  scaled.entitle(0, 66, 0);
  scaled.entitle(1, 22, 0);
  scaled.set(0, 57, true, 0);
  scaled.set(1, 9, true, 0);
  CHECK(scaled.progress(0, 40) == 1);
  CHECK(scaled.progress(1, 40) == Approx(9 / 16.5));
  // A promise that changes counts from then on: 20 cycles at 3 of 6, 20 at 3 of 3.
  FairProgress changed(66);
  changed.entitle(0, 60, 0);
  changed.entitle(1, 6, 0);
  changed.set(0, 60, true, 0);
  changed.set(1, 3, true, 0);
  changed.entitle(1, 3, 20);
  CHECK(changed.progress(1, 40) == Approx(0.75));
}

TEST_CASE("an owner without any entitlement that wants something makes no progress", "[common][PRT-09]") {
  FairProgress fair(8);
  fair.entitle(0, 4, 0);
  fair.entitle(1, 4, 0);
  fair.entitle(2, 0, 0);
  fair.set(0, 4, true, 0);
  fair.set(1, 4, true, 0);
  fair.set(2, 0, true, 0);
  CHECK(fair.progress(2, 10) == 0);
  CHECK(fair.index(10) == Approx(2.0 / 3));
  fair.reset();
  CHECK(fair.index(20) == 1);
}

}  // namespace heddle::test::common_fair_progress_test
