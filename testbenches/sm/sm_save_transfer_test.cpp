// How a CTA goes to memory and comes back (TSK-12), access by access, against a memory of words.
#include "sm/transfer_driver.h"

namespace sm_save_transfer_test {

using namespace heddle::test::moves;

TEST_CASE("what is saved is restored, whatever its size", "[sm][TSK-12]") {
  const std::uint64_t seed = heddle::test::seed();
  CAPTURE(seed);
  Random random(seed);
  const RecordPool pool = pool_of(3, 0x4000);
  Memory memory;
  for (std::uint64_t size = 1; size <= pool.size - 128; size += 1 + random.below(300)) {
    CAPTURE(size);
    memory.put(kHome, home_of_sm(9));
    const std::vector<std::uint8_t> state = some_bytes(random, size);
    Driven saver{ContextTransfer::save(pool, header_for(size), state, home_of_sm(9)), {}, {}, {}};
    while (!saver.move.over()) REQUIRE(saver.advance(memory, random));
    REQUIRE(saver.move.outcome() == Outcome::saved);
    REQUIRE(memory.get(kHome) == saved_home(saver.move.area()));
    REQUIRE(free_areas(memory, pool) == 2);
    Driven restorer{ContextTransfer::restore(pool, heddle::arch::save_area_of(memory.get(kHome))), {}, {}, {}};
    while (!restorer.move.over()) REQUIRE(restorer.advance(memory, random));
    REQUIRE(restorer.move.outcome() == Outcome::restored);
    REQUIRE(restorer.move.bytes() == state);
    REQUIRE(restorer.move.header().context == kContext);
    REQUIRE(restorer.move.header().index == 3);
    REQUIRE(free_areas(memory, pool) == 3);
  }
}

TEST_CASE("a state that is too large for its area is known before", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(2, 1024);
  CHECK(ContextTransfer::fits(pool, 1024 - 128));
  CHECK_FALSE(ContextTransfer::fits(pool, 1024 - 128 + 1));
  CHECK_FALSE(ContextTransfer::fits(pool_of(0, 1024), 1));
  CHECK_FALSE(ContextTransfer::fits(pool_of(2, 0), 1));
}

// The waker's exchange falls between any two accesses of the save. Either the CTA is in memory and the waker has found
// it there, or it is where it was and the waker has found it there.
TEST_CASE("a wake at any moment of a save is not lost", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(2, 0x4000);
  Random random(1);
  const std::vector<std::uint8_t> state = some_bytes(random, 9000);
  std::uint64_t saved = 0;
  std::uint64_t woken = 0;
  for (std::uint64_t moment = 0;; ++moment) {
    CAPTURE(moment);
    Memory memory;
    memory.put(kHome, home_of_sm(4));
    Driven saver{ContextTransfer::save(pool, header_for(state.size()), state, home_of_sm(4)), {}, {}, {}};
    std::uint64_t seen = 0;
    bool over_before = false;
    for (std::uint64_t served = 0; !saver.move.over() || seen == 0;) {
      if (served == moment && seen == 0) {
        over_before = saver.move.over();
        seen = memory.step({MemoryStep::Kind::exchange, kHome, kHomeWoken});
      }
      if (saver.move.over()) {
        if (seen != 0) break;
        served = moment;
        continue;
      }
      if (saver.can_ask()) saver.ask();
      if (!saver.asked.empty()) {
        saver.serve(memory, 0);
        ++served;
      }
      if (!saver.done.empty()) saver.answer(0);
    }
    if (saver.move.outcome() == Outcome::saved) {
      ++saved;
      REQUIRE(seen == saved_home(saver.move.area()));
      REQUIRE(free_areas(memory, pool) == 1);
    } else {
      ++woken;
      REQUIRE(saver.move.outcome() == Outcome::woken);
      REQUIRE(seen == home_of_sm(4));
      REQUIRE(free_areas(memory, pool) == 2);
    }
    REQUIRE(memory.get(kHome) == kHomeWoken);
    if (over_before) break;
  }
  CHECK(saved >= 1);
  CHECK(woken > 20);
}

TEST_CASE("a save that is cancelled at any moment leaves no area behind", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(1, 0x4000);
  Random bytes(2);
  const std::vector<std::uint8_t> state = some_bytes(bytes, 5000);
  for (const std::uint64_t seed : heddle::test::seeds(20)) {
    Random random(seed);
    for (std::uint64_t moment = 0; moment < 150; ++moment) {
      CAPTURE(seed, moment);
      Memory memory;
      memory.put(kHome, home_of_sm(4));
      Driven saver{ContextTransfer::save(pool, header_for(state.size()), state, home_of_sm(4)), {}, {}, {}};
      bool claimed = false;
      for (std::uint64_t step = 0; !saver.move.over(); ++step) {
        if (step == moment) {
          claimed = saver.move.claims();
          saver.move.cancel();
        }
        REQUIRE((saver.move.over() || saver.advance(memory, random)));
      }
      if (saver.move.outcome() == Outcome::saved) {
        REQUIRE_FALSE(claimed);  // it was over before
        REQUIRE(memory.get(kHome) == saved_home(saver.move.area()));
        REQUIRE(free_areas(memory, pool) == 0);
      } else {
        REQUIRE(saver.move.outcome() == Outcome::cancelled);
        const std::uint64_t home = memory.get(kHome);
        REQUIRE((home == home_of_sm(4) || (claimed && home == kHomeWoken)));
        REQUIRE(free_areas(memory, pool) == 1);
        // The area is as good as before.
        memory.put(kHome, home_of_sm(4));
        Driven next{ContextTransfer::save(pool, header_for(state.size()), state, home_of_sm(4)), {}, {}, {}};
        next.run(memory);
        REQUIRE(next.move.outcome() == Outcome::saved);
      }
    }
  }
}

// The CTA is killed while its home moves, and its context is woken, both at any moment.
TEST_CASE("a home that is taken away again is not taken from a waker", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(1, 0x4000);
  std::uint32_t found = 0;
  std::uint32_t revoked = 0;
  for (std::uint64_t wake = 0; wake < 16; ++wake) {
    for (std::uint64_t kill = 0; kill < 16; ++kill) {
      CAPTURE(wake, kill);
      Memory memory;
      memory.put(kHome, home_of_sm(4));
      Driven saver{
          ContextTransfer::save(pool, header_for(16), std::vector<std::uint8_t>(16, 9), home_of_sm(4)), {}, {}, {}};
      std::uint64_t seen = 0;
      for (std::uint64_t step = 0; step < 40; ++step) {
        if (step == wake) seen = memory.step({MemoryStep::Kind::exchange, kHome, kHomeWoken});
        if (step == kill) saver.move.cancel();
        if (!saver.asked.empty()) {
          saver.serve(memory, 0);
        } else if (!saver.done.empty()) {
          saver.answer(0);
        } else if (saver.can_ask()) {
          saver.ask();
        }
      }
      REQUIRE(saver.move.over());
      // Somebody will bring it back if, and only if, it is there.
      const bool saved = saver.move.outcome() == Outcome::saved;
      REQUIRE(saved == heddle::arch::is_saved_home(seen));
      REQUIRE(free_areas(memory, pool) == (saved ? 0 : 1));
      found += saved ? 1 : 0;
      revoked += !saved && seen == kHomeWoken ? 1 : 0;
    }
  }
  CHECK(found > 0);
  CHECK(revoked > 0);
}

TEST_CASE("a restore that is cancelled has read its header and gives its area back", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(1, 0x4000);
  Random bytes(3);
  const std::vector<std::uint8_t> state = some_bytes(bytes, 5000);
  for (const std::uint64_t seed : heddle::test::seeds(20)) {
    Random random(seed);
    for (std::uint64_t moment = 0; moment < 100; ++moment) {
      CAPTURE(seed, moment);
      Memory memory;
      memory.put(kHome, home_of_sm(4));
      Driven saver{ContextTransfer::save(pool, header_for(state.size()), state, home_of_sm(4)), {}, {}, {}};
      saver.run(memory);
      Driven restorer{ContextTransfer::restore(pool, saver.move.area()), {}, {}, {}};
      for (std::uint64_t step = 0; !restorer.move.over(); ++step) {
        if (step == moment) restorer.move.cancel();
        REQUIRE(restorer.advance(memory, random));
      }
      REQUIRE(restorer.move.has_header());
      REQUIRE(restorer.move.header().context == kContext);
      REQUIRE(free_areas(memory, pool) == 1);
      const Outcome outcome = restorer.move.outcome();
      REQUIRE((outcome == Outcome::cancelled || outcome == Outcome::restored));
      if (moment == 0) REQUIRE(outcome == Outcome::cancelled);
    }
  }
}

TEST_CASE("an access that fails ends a move, and gives back what it can", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(1, 0x4000);
  Random bytes(4);
  const std::vector<std::uint8_t> state = some_bytes(bytes, 5000);
  for (const bool restores : {false, true}) {
    for (std::uint64_t bad = 0; bad < 16; ++bad) {
      CAPTURE(restores, bad);
      Memory memory;
      memory.put(kHome, home_of_sm(4));
      Driven driven{ContextTransfer::save(pool, header_for(state.size()), state, home_of_sm(4)), {}, {}, {}};
      if (restores) {
        driven.run(memory);
        driven = {ContextTransfer::restore(pool, driven.move.area()), {}, {}, {}};
      }
      bool gives = false;
      bool failed = false;
      for (std::uint64_t number = 0; !driven.move.over();) {
        while (driven.can_ask()) driven.ask();
        const bool step = driven.asked[0].kind == Access::Kind::step;
        gives |= number == bad && step && driven.asked[0].step.address != kHome;
        // What failed was not done.
        if (number == bad && step) {
          driven.done.push_back({driven.asked[0], 0, {}});
          driven.asked.erase(driven.asked.begin());
          driven.sent.erase(driven.sent.begin());
        } else {
          driven.serve(memory, 0);
        }
        failed |= number == bad;
        driven.answer(0, number++ == bad);
      }
      if (!failed) continue;
      const Outcome outcome = driven.move.outcome();
      REQUIRE((outcome == Outcome::failed || (restores && gives && outcome == Outcome::restored)));
      if (!gives) REQUIRE(free_areas(memory, pool) == 1);
      if (!restores) REQUIRE(memory.get(kHome) == home_of_sm(4));
    }
  }
}

TEST_CASE("a header that nobody wrote is refused", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(1, 0x1000);
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{0x1000}, ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    CAPTURE(bytes);
    Memory memory;
    memory.put(pool.base + heddle::arch::ring::kTaken, 1);
    memory.put(pool.record(0) + heddle::arch::saved::kBytes, bytes);
    Driven driven{ContextTransfer::restore(pool, pool.record(0)), {}, {}, {}};
    driven.run(memory);
    CHECK(driven.move.outcome() == Outcome::failed);
    CHECK(free_areas(memory, pool) == 1);
  }
}

// Many CTAs, few areas, and a waker: no area is lost or given to two, and every CTA is found where its home says.
TEST_CASE("CTAs that compete for areas", "[sm][TSK-12]") {
  for (const std::uint64_t seed : heddle::test::seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    const RecordPool pool = pool_of(random.between(1, 3), 2048);
    const std::uint32_t ctas = random.between(2, 6);
    Memory memory;
    struct Cta {
      std::uint64_t context;
      std::vector<std::uint8_t> state;
      std::unique_ptr<Driven> move;
      bool here = true;  // on its SM
      bool restores = false;
      bool waits = true;  // nobody has woken it
      std::uint32_t rounds = 0;
    };
    std::vector<Cta> all(ctas);
    for (std::uint32_t i = 0; i < ctas; ++i) {
      all[i].context = 0x80 + 0x80 * std::uint64_t{i};
      all[i].state = some_bytes(random, random.between(1, 1900));
      memory.put(all[i].context + heddle::arch::context::kHome, home_of_sm(i));
    }
    std::vector<std::unique_ptr<Driven>> loose;  // cancelled, and still at work
    for (int event = 0; event < 6000; ++event) {
      const std::uint32_t which = random.below(ctas);
      Cta& cta = all[which];
      const std::uint64_t home = cta.context + heddle::arch::context::kHome;
      if (cta.move != nullptr) {
        if (!cta.restores && random.chance(1) && !cta.move->move.claims()) {
          cta.move->move.cancel();
          loose.push_back(std::move(cta.move));
        } else {
          cta.move->advance(memory, random);
        }
        if (cta.move == nullptr || !cta.move->move.over()) continue;
        const Outcome outcome = cta.move->move.outcome();
        if (cta.restores) {
          REQUIRE(outcome == Outcome::restored);
          REQUIRE(cta.move->move.bytes() == cta.state);
          cta.here = true;
          ++cta.rounds;
          REQUIRE(memory.get(home) == kHomeWoken);
          memory.put(home, home_of_sm(which));
          cta.waits = true;
        } else {
          cta.here = outcome != Outcome::saved;
          if (outcome == Outcome::woken) REQUIRE_FALSE(cta.waits);
        }
        cta.move = nullptr;
      } else if (cta.here && !cta.waits) {
        memory.put(home, home_of_sm(which));  // it has gone on, and waits again
        cta.waits = true;
      } else if (cta.here) {
        SavedHeader header = header_for(cta.state.size(), cta.context);
        auto move = ContextTransfer::save(pool, header, cta.state, home_of_sm(which));
        cta.move = std::make_unique<Driven>(Driven{std::move(move), {}, {}, {}});
        cta.restores = false;
      } else if (!cta.waits) {
        const std::uint64_t area = heddle::arch::save_area_of(memory.get(home));
        memory.put(home, kHomeWoken);
        cta.move = std::make_unique<Driven>(Driven{ContextTransfer::restore(pool, area), {}, {}, {}});
        cta.restores = true;
      }
      // The waker: of a CTA that is being saved too.
      Cta& other = all[random.below(ctas)];
      if (random.chance(3) && other.waits) {
        const std::uint64_t its = other.context + heddle::arch::context::kHome;
        other.waits = false;
        const std::uint64_t seen = memory.get(its);
        REQUIRE(seen != kHomeWoken);
        if (!heddle::arch::is_saved_home(seen)) memory.put(its, kHomeWoken);
      }
      for (auto& one : loose) {
        if (!one->move.over()) one->advance(memory, random);
      }
    }
    std::uint32_t rounds = 0;
    for (const Cta& cta : all) rounds += cta.rounds;
    CHECK(rounds > 0);
    // All come to their end, with the restores that are due; then everything is there again.
    for (int event = 0; event < 100'000; ++event) {
      bool anything = false;
      for (auto& one : loose) anything |= !one->move.over() && one->advance(memory, random);
      for (Cta& cta : all) {
        const std::uint64_t home = cta.context + heddle::arch::context::kHome;
        if (cta.move != nullptr && !cta.move->move.over()) {
          anything |= cta.move->advance(memory, random);
          continue;
        }
        if (cta.move != nullptr && !cta.restores) cta.here = cta.move->move.outcome() != Outcome::saved;
        if (cta.move != nullptr && cta.restores) cta.here = true;
        cta.move = nullptr;
        if (cta.here) continue;
        anything = true;
        const std::uint64_t area = heddle::arch::save_area_of(memory.get(home));
        cta.move = std::make_unique<Driven>(Driven{ContextTransfer::restore(pool, area), {}, {}, {}});
        cta.restores = true;
      }
      if (!anything) break;
    }
    REQUIRE(free_areas(memory, pool) == pool.count);
    std::vector<std::uint64_t> areas;
    for (std::uint64_t i = 0; i < pool.count; ++i) {
      memory.put(kHome, home_of_sm(0));
      Driven taker{ContextTransfer::save(pool, header_for(1), {1}, home_of_sm(0)), {}, {}, {}};
      taker.run(memory);
      REQUIRE(taker.move.outcome() == Outcome::saved);
      for (const std::uint64_t area : areas) REQUIRE(area != taker.move.area());
      areas.push_back(taker.move.area());
    }
    Driven late{ContextTransfer::save(pool, header_for(1), {1}, home_of_sm(0)), {}, {}, {}};
    late.run(memory);
    CHECK(late.move.outcome() == Outcome::no_area);
  }
}

}  // namespace sm_save_transfer_test
