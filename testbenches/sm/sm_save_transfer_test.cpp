// How a CTA goes to memory and comes back (TSK-12), access by access, against a memory of words.
#include <algorithm>

#include "sm/transfer_driver.h"

namespace sm_save_transfer_test {

using namespace heddle::test::moves;
using heddle::sm::SaveLayout;
namespace context = heddle::arch::context;
namespace ring = heddle::arch::ring;
namespace tmd = heddle::arch::tmd;

TEST_CASE("what is saved is restored, whatever its size, and wherever its local memory lies", "[sm][TSK-12]") {
  for (const std::uint64_t seed : heddle::test::seeds(8)) {
    CAPTURE(seed);
    Random random(seed);
    const RecordPool pool = pool_of(random.between(6, 12));
    Memory memory;
    stir(memory, pool, random);
    for (std::uint64_t size = 1; size <= 18'000; size += 1 + random.below(700)) {
      CAPTURE(size);
      const std::vector<std::uint8_t> state = some_bytes(random, size);
      const Parts local = some_parts(random, kLocal);
      const SavedHeader header = [&] {
        SavedHeader its = header_for(size);
        for (const auto& part : local) its.local += static_cast<std::uint32_t>(part.bytes);
        return its;
      }();
      if (!SaveLayout::fits(pool, header)) continue;
      memory.put(kHome, home_of_sm(4));
      fill(memory, local, random);
      const std::vector<std::uint8_t> kept = content(memory, local);
      Driven saver = save_of(pool, state, local);
      while (!saver.move.over()) REQUIRE(saver.advance(memory, random));
      REQUIRE(saver.move.outcome() == Outcome::saved);
      REQUIRE(memory.get(kHome) == saved_home(saver.move.area()));
      // As many chunks as it needs.
      const std::uint64_t chunks = (128 + size + header.local + 4095) / 4096;
      REQUIRE(SaveLayout(header).chunks() >= chunks);
      REQUIRE(SaveLayout(header).chunks() <= chunks + 1);
      check_free(memory, pool, pool.count - SaveLayout(header).chunks());
      // Somebody else's by now.
      fill(memory, local, random);
      const Parts there = some_parts(random, kLocal2, &local);
      Driven restorer = restore_of(pool, heddle::arch::save_area_of(memory.get(kHome)), there);
      while (!restorer.move.over()) REQUIRE(restorer.advance(memory, random));
      REQUIRE(restorer.move.outcome() == Outcome::restored);
      REQUIRE(restorer.move.bytes() == state);
      REQUIRE(content(memory, there) == kept);
      REQUIRE(restorer.move.header()->context == kContext);
      REQUIRE(restorer.move.header()->index == 3);
      check_free(memory, pool, pool.count);
    }
  }
}

TEST_CASE("accesses of a saved CTA end where its chunks do, and are all that it has", "[sm][TSK-12]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    SavedHeader header = header_for(random.chance(20) ? random.between(1, 1'500'000) : random.between(1, 20'000));
    header.local = 16 * random.below(2000);
    const SaveLayout layout(header);
    CAPTURE(header.bytes, header.local);
    REQUIRE(layout.state_at() >= 128 + 8 * (layout.chunks() - 1));
    REQUIRE(layout.state_at() % 16 == 0);
    REQUIRE(layout.local_at() >= layout.state_at() + header.bytes);
    REQUIRE(layout.end() == layout.local_at() + header.local);
    REQUIRE(layout.end() <= 4096 * layout.chunks());
    REQUIRE(layout.end() + 16 > 4096 * (layout.chunks() - 1));  // the list of one chunk less is shorter
    std::uint64_t offset = 0;
    while (offset < layout.end()) {
      const std::uint32_t bytes = layout.access_bytes(offset, layout.end(), ContextTransfer::kAccess);
      REQUIRE(bytes > 0);
      REQUIRE(bytes <= ContextTransfer::kAccess);
      REQUIRE(bytes % 16 == 0);
      REQUIRE(offset / 4096 == (offset + bytes - 1) / 4096);
      offset += bytes;
    }
    REQUIRE(offset == layout.end());
  }
}

TEST_CASE("a state that is too large is known before", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(2);
  CHECK(SaveLayout::fits(pool, header_for(4096 - 128)));
  CHECK(SaveLayout::fits(pool, header_for(2 * 4096 - 128 - 16)));
  CHECK_FALSE(SaveLayout::fits(pool, header_for(2 * 4096 - 128 - 15)));
  SavedHeader header = header_for(4096);
  header.local = 4096 - 128 - 16;
  CHECK(SaveLayout::fits(pool, header));
  header.local += 16;
  CHECK_FALSE(SaveLayout::fits(pool, header));
  header.local = 8;  // no whole unit
  CHECK_FALSE(SaveLayout::fits(pool, header));
  CHECK_FALSE(SaveLayout::fits(pool_of(0), header_for(1)));
  // The largest: the list of its chunks fills the first of them. The registers, shared and some local memory of any CTA
  // are smaller.
  CHECK(SaveLayout::fits(pool_of(100'000), header_for((256 + 228 + 512) * 1024)));
  CHECK_FALSE(SaveLayout::fits(pool_of(100'000), header_for(4 << 20)));
}

// The waker's exchange falls between any two accesses of the save. Either the CTA is in memory and the waker has found
// it there, or it is where it was and the waker has found it there.
TEST_CASE("a wake at any moment of a save is not lost", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(5);
  Random random(1);
  const std::vector<std::uint8_t> state = some_bytes(random, 9000);
  const Parts local{{kLocal, 160}};
  std::uint64_t saved = 0;
  std::uint64_t woken = 0;
  for (std::uint64_t moment = 0;; ++moment) {
    CAPTURE(moment);
    Memory memory;
    memory.put(kHome, home_of_sm(4));
    Driven saver = save_of(pool, state, local);
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
      check_free(memory, pool, 2);
    } else {
      ++woken;
      REQUIRE(saver.move.outcome() == Outcome::woken);
      REQUIRE(seen == home_of_sm(4));
      check_free(memory, pool, 5);
    }
    REQUIRE(memory.get(kHome) == kHomeWoken);
    if (over_before) break;
  }
  CHECK(saved >= 1);
  CHECK(woken > 20);
}

TEST_CASE("a save that is cancelled at any moment leaves no memory behind", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(3);
  Random bytes(2);
  const std::vector<std::uint8_t> state = some_bytes(bytes, 9000);
  const Parts local{{kLocal, 320}, {kLocal + 0x1000, 16}};
  for (const std::uint64_t seed : heddle::test::seeds(20)) {
    Random random(seed);
    Memory stirred;
    if (random.chance(50)) stir(stirred, pool, random);
    for (std::uint64_t moment = 0; moment < 220; ++moment) {
      CAPTURE(seed, moment);
      Memory memory = stirred;
      memory.put(kHome, home_of_sm(4));
      Driven saver = save_of(pool, state, local);
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
        check_free(memory, pool, 0);
      } else {
        REQUIRE(saver.move.outcome() == Outcome::cancelled);
        const std::uint64_t home = memory.get(kHome);
        REQUIRE((home == home_of_sm(4) || (claimed && home == kHomeWoken)));
        check_free(memory, pool, 3);
        // The memory is as good as before.
        memory.put(kHome, home_of_sm(4));
        Driven next = save_of(pool, state, local);
        next.run(memory);
        REQUIRE(next.move.outcome() == Outcome::saved);
      }
    }
  }
}

// The CTA is killed while its home moves, and its context is woken, both at any moment.
TEST_CASE("a home that is taken away again is not taken from a waker", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(1);
  std::uint32_t found = 0;
  std::uint32_t revoked = 0;
  for (std::uint64_t wake = 0; wake < 20; ++wake) {
    for (std::uint64_t kill = 0; kill < 20; ++kill) {
      CAPTURE(wake, kill);
      Memory memory;
      memory.put(kHome, home_of_sm(4));
      Driven saver = save_of(pool, std::vector<std::uint8_t>(16, 9));
      std::uint64_t seen = 0;
      for (std::uint64_t step = 0; step < 50; ++step) {
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
      check_free(memory, pool, saved ? 0 : 1);
      found += saved ? 1 : 0;
      revoked += !saved && seen == kHomeWoken ? 1 : 0;
    }
  }
  CHECK(found > 0);
  CHECK(revoked > 0);
}

TEST_CASE("a restore that is cancelled has read its header and gives its memory back", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(3);
  Random bytes(3);
  const std::vector<std::uint8_t> state = some_bytes(bytes, 9000);
  const Parts local{{kLocal, 320}};
  const Parts there{{kLocal2, 320}};
  for (const std::uint64_t seed : heddle::test::seeds(20)) {
    Random random(seed);
    for (std::uint64_t moment = 0; moment < 150; ++moment) {
      CAPTURE(seed, moment);
      Memory memory;
      memory.put(kHome, home_of_sm(4));
      Driven saver = save_of(pool, state, local);
      saver.run(memory);
      Driven restorer = restore_of(pool, saver.move.area(), there);
      for (std::uint64_t step = 0; !restorer.move.over(); ++step) {
        if (step == moment) restorer.move.cancel();
        REQUIRE(restorer.advance(memory, random));
      }
      REQUIRE(restorer.move.header().has_value());
      REQUIRE(restorer.move.header()->context == kContext);
      check_free(memory, pool, 3);
      const Outcome outcome = restorer.move.outcome();
      REQUIRE((outcome == Outcome::cancelled || outcome == Outcome::restored));
      if (moment == 0) REQUIRE(outcome == Outcome::cancelled);
    }
  }
}

// In any of its accesses. What it has of memory that is known, and that can be given back, is given back.
TEST_CASE("an access that fails ends a move, and gives back what it can", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(3);
  Random bytes(4);
  const std::vector<std::uint8_t> state = some_bytes(bytes, 9000);
  const Parts local{{kLocal, 320}};
  for (const bool shared : {false, true}) {
    for (const bool restores : {false, true}) {
      for (std::uint64_t bad = 0; bad < 60; ++bad) {
        CAPTURE(shared, restores, bad);
        Memory memory;
        memory.put(kHome, shared ? 0 : home_of_sm(4));
        memory.put(kContext + context::kWork, 9);
        Driven driven = save_of(pool, state, local, shared);
        if (restores) {
          driven.run(memory);
          driven = restore_of(pool, driven.move.area(), local);
        }
        const std::uint64_t before = memory.get(kHome);
        bool of_ring = false;
        bool of_list = false;  // or of the header
        bool failed = false;
        for (std::uint64_t number = 0; !driven.move.over();) {
          while (driven.can_ask()) driven.ask();
          const Access& access = driven.asked[0];
          if (number == bad) {
            failed = true;
            const std::uint64_t at = access.step.address;
            of_ring = access.kind == Access::Kind::step && at >= pool.base && at < pool.record(0);
            of_list = restores && access.kind == Access::Kind::read && access.address < driven.move.area() + 144 &&
                      !access.translated;
            // What failed was not done.
            driven.done.push_back({access, 0, {}});
            driven.asked.erase(driven.asked.begin());
            driven.sent.erase(driven.sent.begin());
          } else {
            driven.serve(memory, 0);
          }
          driven.answer(0, number++ == bad);
        }
        if (!failed) continue;
        const Outcome outcome = driven.move.outcome();
        // What comes after the CTA has moved does not count for it.
        const bool late = outcome == Outcome::restored || outcome == Outcome::saved;
        REQUIRE((outcome == Outcome::failed || (late && (shared || of_ring))));
        if (!of_ring && !of_list && outcome != Outcome::saved) check_free(memory, pool, 3);
        if (!restores && outcome == Outcome::failed) REQUIRE(memory.get(kHome) == before);
        if (outcome == Outcome::saved) REQUIRE(memory.get(kHome) == saved_home(driven.move.area()));
        if (outcome == Outcome::restored) REQUIRE(driven.move.bytes() == state);
      }
    }
  }
}

TEST_CASE("a header that nobody wrote is refused", "[sm][TSK-12]") {
  const RecordPool pool = pool_of(2);
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{0x3000}, ~std::uint64_t{0}, ~std::uint64_t{0} - 7}) {
    CAPTURE(bytes);
    Memory memory;
    memory.put(pool.base + ring::kTaken, 1);
    memory.put(pool.base + ring::kUsed, 1);
    memory.put(pool.record(0) + heddle::arch::saved::kBytes, bytes);
    Driven driven = restore_of(pool, pool.record(0));
    driven.run(memory);
    CHECK(driven.move.outcome() == Outcome::failed);
    check_free(memory, pool, 1);  // nobody knows what it was
  }
  // A chunk that is none, and local memory of another size.
  for (const bool list : {true, false}) {
    Random random(7);
    Memory memory;
    memory.put(kHome, home_of_sm(4));
    Driven saver = save_of(pool, some_bytes(random, 5000));
    saver.run(memory);
    REQUIRE(saver.move.outcome() == Outcome::saved);
    const std::uint64_t at = saver.move.area() + 128;
    if (list) memory.put(at, memory.get(at) + 16);
    Driven restorer = restore_of(pool, saver.move.area(), list ? Parts{} : Parts{{kLocal2, 16}});
    restorer.run(memory);
    CHECK(restorer.move.outcome() == Outcome::failed);
  }
}

namespace {

// CTAs with contexts of their own, or with one that all share, on SMs that save them, and a waker.
class Crowd {
 public:
  struct Cta {
    std::uint64_t context = kContext;
    std::vector<std::uint8_t> state;
    Parts local;
    std::vector<std::uint8_t> kept;  // in its local memory
    std::unique_ptr<Driven> move;
    bool here = true;  // on its SM
    bool restores = false;
    bool waits = true;     // nobody has woken it
    bool counted = false;  // shared: it was saved before
    bool found = false;    // shared: by a waker, and its area is known
    std::uint64_t area = 0;
    std::uint32_t rounds = 0;
  };
  Crowd(Random& random, bool shared) : random_(random), shared_(shared), pool_(pool_of(random.between(2, 9))) {
    all_.resize(random.between(2, 6));
    if (random.chance(50)) stir(memory_, pool_, random);
    for (std::uint32_t i = 0; i < all_.size(); ++i) {
      Cta& cta = all_[i];
      if (!shared) cta.context = 0x80 + 0x60 * std::uint64_t{i};
      cta.state = some_bytes(random, random.between(1, 7500));
      if (random.chance(40)) cta.local = {{kLocal + 0x1000 * i, 16 * std::uint64_t{random.between(1, 12)}}};
      fill(memory_, cta.local, random);
      cta.kept = content(memory_, cta.local);
      memory_.put(home_of(cta), shared ? 0 : home_of_sm(i));
    }
    memory_.put(kContext + context::kWork, shared ? 2 : memory_.get(kContext + context::kWork));
  }

  void event() {
    const std::uint32_t which = random_.below(all_.size());
    Cta& cta = all_[which];
    if (cta.move != nullptr) {
      if (!cta.restores && random_.chance(1) && !cta.move->move.claims()) {
        cta.move->move.cancel();
        loose_.push_back(std::move(cta.move));
      } else {
        cta.move->advance(memory_, random_);
      }
      if (cta.move != nullptr && cta.move->move.over()) moved(which);
    } else if (cta.here && !cta.waits) {
      if (!shared_) memory_.put(home_of(cta), home_of_sm(which));  // it has gone on, and waits again
      cta.waits = true;
    } else if (cta.here) {
      cta.move =
          std::make_unique<Driven>(save_of(pool_, cta.state, cta.local, shared_, cta.counted, cta.context, which));
      cta.restores = false;
    } else if (shared_ ? cta.found : !cta.waits) {
      restore(cta);
    }
    if (random_.chance(3)) wake(all_[random_.below(all_.size())]);
    for (auto& one : loose_) {
      if (!one->move.over()) one->advance(memory_, random_);
    }
  }

  // All come to their end, with the restores that are due; then everything is there again.
  void end() {
    for (int event = 0; event < 200'000; ++event) {
      bool anything = false;
      for (auto& one : loose_) anything |= !one->move.over() && one->advance(memory_, random_);
      for (std::uint32_t i = 0; i < all_.size(); ++i) {
        Cta& cta = all_[i];
        if (cta.move != nullptr) {
          if (cta.move->move.over()) {
            moved(i);
          } else {
            cta.move->advance(memory_, random_);
          }
          anything = true;
        } else if (!cta.here) {
          if (shared_ ? !cta.found : cta.waits) wake(cta);
          restore(cta);
          anything = true;
        }
      }
      if (!anything) break;
    }
    for (const Cta& cta : all_) REQUIRE(cta.here);
    if (shared_) REQUIRE(memory_.get(kHome) == 0);
    std::uint64_t counted = 0;
    for (const Cta& cta : all_) counted += cta.counted ? 1 : 0;
    if (shared_) REQUIRE(memory_.get(kRecord + tmd::kOpen) == counted);
    check_free(memory_, pool_, pool_.count);
  }

  std::uint32_t rounds() const {
    std::uint32_t sum = 0;
    for (const Cta& cta : all_) sum += cta.rounds;
    return sum;
  }
  std::uint32_t refused = 0;
  std::uint32_t late = 0;
  std::uint32_t most_listed = 0;

 private:
  std::uint64_t home_of(const Cta& cta) const { return cta.context + context::kHome; }

  void moved(std::uint32_t which) {
    Cta& cta = all_[which];
    const Outcome outcome = cta.move->move.outcome();
    if (cta.restores) {
      REQUIRE(outcome == Outcome::restored);
      REQUIRE(cta.move->move.bytes() == cta.state);
      REQUIRE(content(memory_, cta.local) == cta.kept);
      cta.here = cta.waits = true;
      cta.found = false;
      ++cta.rounds;
      if (!shared_) {
        REQUIRE(memory_.get(home_of(cta)) == kHomeWoken);
        memory_.put(home_of(cta), home_of_sm(which));
      }
    } else {
      cta.here = outcome != Outcome::saved;
      refused += outcome == Outcome::no_area ? 1 : 0;
      if (outcome == Outcome::woken) REQUIRE((!shared_ && !cta.waits));
      if (outcome == Outcome::saved && shared_) {
        cta.counted = true;
        cta.area = cta.move->move.area();
        late += cta.move->move.came_late() ? 1 : 0;
        memory_.put(kContext + context::kWork, 2);  // something has been launched again
      }
      if (!cta.here) fill(memory_, cta.local, random_);  // somebody else's
    }
    cta.move = nullptr;
  }
  void restore(Cta& cta) {
    std::uint64_t area = cta.area;
    if (!shared_) {
      area = heddle::arch::save_area_of(memory_.get(home_of(cta)));
      memory_.put(home_of(cta), kHomeWoken);
    }
    cta.move = std::make_unique<Driven>(restore_of(pool_, area, cta.local));
    cta.restores = true;
  }
  void wake(Cta& cta) {
    if (shared_) return wake_all();
    if (!cta.waits) return;
    cta.waits = false;
    const std::uint64_t seen = memory_.get(home_of(cta));
    REQUIRE(seen != kHomeWoken);
    if (!heddle::arch::is_saved_home(seen)) memory_.put(home_of(cta), kHomeWoken);
  }
  // All that are in the list; each of them is there once, and none that is here.
  void wake_all() {
    if (random_.chance(50)) memory_.put(kContext + context::kWork, 1);  // all is over: whoever comes now comes late
    std::uint64_t at = memory_.step({MemoryStep::Kind::exchange, kHome, 0});
    std::uint32_t listed = 0;
    for (; at != 0; at = memory_.get(heddle::arch::save_area_of(at) + heddle::arch::saved::kNext)) {
      REQUIRE(++listed <= all_.size());
      const std::uint64_t area = heddle::arch::save_area_of(at);
      const auto owner = std::find_if(all_.begin(), all_.end(), [&](const Cta& cta) {
        return (!cta.here && !cta.found && cta.area == area) ||
               (cta.move != nullptr && !cta.restores && cta.move->move.area() == area);
      });
      REQUIRE(owner != all_.end());
      owner->area = area;
      owner->found = true;
    }
    most_listed = std::max(most_listed, listed);
  }

  Random& random_;
  const bool shared_;
  const RecordPool pool_;
  Memory memory_;
  std::vector<Cta> all_;
  std::vector<std::unique_ptr<Driven>> loose_;  // cancelled, and still at work
};

void check_crowds(bool shared) {
  std::uint32_t refused = 0;
  std::uint32_t rounds = 0;
  std::uint32_t late = 0;
  std::uint32_t listed = 0;
  for (const std::uint64_t seed : heddle::test::seeds(80)) {
    CAPTURE(seed);
    Random random(seed);
    Crowd crowd(random, shared);
    for (int event = 0; event < 8000; ++event) crowd.event();
    crowd.end();
    refused += crowd.refused;
    rounds += crowd.rounds();
    late += crowd.late;
    listed = std::max(listed, crowd.most_listed);
  }
  CHECK(rounds > 500);
  CHECK(refused > 100);
  if (!shared) return;
  CHECK(late > 10);
  CHECK(listed > 2);
}

}  // namespace

// Many CTAs, few chunks, and a waker: no chunk is lost or given to two, and every CTA is found where its home says.
TEST_CASE("CTAs that compete for memory come back as they were", "[sm][TSK-12]") { check_crowds(false); }

// Those that are saved are in a list. A waker takes all of it.
TEST_CASE("CTAs that share a context are all found when it is woken, each once", "[sm][TSK-12]") { check_crowds(true); }

TEST_CASE("a CTA that is saved in a shared context when all is over says so", "[sm][TSK-12]") {
  for (const std::uint64_t work : {1, 2}) {
    const RecordPool pool = pool_of(2);
    Memory memory;
    memory.put(kContext + context::kWork, work + heddle::arch::kWorkWaiter);
    memory.put(kRecord + tmd::kOpen, 2);
    Driven saver = save_of(pool, {1, 2, 3}, {}, true);
    saver.run(memory);
    CHECK(saver.move.outcome() == Outcome::saved);
    CHECK(saver.move.came_late() == (work == 1));
    CHECK(memory.get(kHome) == saved_home(saver.move.area()));
    CHECK(memory.get(saver.move.area() + heddle::arch::saved::kNext) == 0);
    CHECK(memory.get(kRecord + tmd::kOpen) == 3);
    Driven again = save_of(pool, {4, 5}, {}, true, true);
    again.run(memory);
    CHECK(again.move.outcome() == Outcome::saved);
    CHECK(memory.get(kRecord + tmd::kOpen) == 3);  // it was counted before
    CHECK(memory.get(again.move.area() + heddle::arch::saved::kNext) == saved_home(saver.move.area()));
  }
}

}  // namespace sm_save_transfer_test
