// The L1: replacement against a list, and what loads may see against the history of every word.
#include "sm/l1_cache.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "support/random.h"

using heddle::CheckFailed;
using heddle::sm::L1Cache;
using heddle::test::Random;

namespace {

constexpr std::uint32_t kLine = 128;
using LineBytes = std::array<std::uint8_t, kLine>;

const auto kIgnore = [](std::uint32_t, std::uint8_t) {};

LineBytes filled(std::uint8_t value) {
  LineBytes bytes;
  bytes.fill(value);
  return bytes;
}

// Loads and, if something is missing, fills at once. Returns the sectors that were hit.
std::uint8_t touch(L1Cache& cache, std::uint64_t line, std::uint8_t sectors, std::uint8_t value = 1) {
  const L1Cache::Load load = cache.load(line, sectors, 0);
  REQUIRE(load.accepted);
  if (load.missing != 0) cache.fill(load.entry, filled(value).data(), 0, kIgnore);
  return load.hit;
}

// A set as a list, most recent first.
struct ReferenceCache {
  std::uint32_t sets;
  std::uint32_t ways;
  std::map<std::uint64_t, std::list<std::pair<std::uint64_t, std::uint8_t>>> set;

  std::uint8_t touch(std::uint64_t line, std::uint8_t sectors) {
    auto& lines = set[line / kLine % sets];
    const auto known = std::find_if(lines.begin(), lines.end(), [=](const auto& each) { return each.first == line; });
    std::uint8_t hit = 0;
    std::uint8_t there = 0;
    if (known != lines.end()) {
      there = known->second;
      hit = there & sectors;
      lines.erase(known);
    }
    lines.emplace_front(line, there | sectors);
    if (lines.size() > ways) lines.pop_back();
    return hit;
  }
};

// One SM's cache before a slice that serves requests of one line in order, with other SMs writing there. Words of 4
// bytes hold the number of the write that put them there; 0 was there at first.
class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed), cache_(random_.between(1, 4), random_.between(1, 12)) {
    cache_.resize(kLine * random_.between(0, 8));
    issued_.push_back(0);
    position_.push_back(0);
    own_.push_back(false);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (!path_.empty() || !answers_.empty()) random_.chance(50) ? serve() : answer();
    judge();
    CHECK(cache_.reads() == 0);
  }

 private:
  static constexpr std::uint32_t kLines = 6;
  static constexpr std::uint32_t kWords = kLine / 4;
  enum class What { read, write, atomic };
  struct Request {
    What what;
    std::uint32_t line;
    std::uint32_t entry = 0;
    std::uint32_t write = 0;  // its number
    std::uint64_t words = 0;  // that it changes, bit = word
    std::array<std::uint32_t, kWords> data{};
  };
  struct Seen {
    std::uint32_t line;
    std::uint32_t word;
    std::uint64_t issued;
    std::uint64_t acquired;  // number of writes that memory had seen at the last acquire
    std::uint32_t value = 0;
  };
  struct Waiting {
    std::uint64_t issued;
    std::uint64_t acquired;
    std::uint32_t line;
    std::uint32_t words;   // wanted
    std::uint8_t sectors;  // not served yet
  };

  void step() {
    switch (random_.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return load();
      case 4:
        return store();
      case 5:
        return change_elsewhere();
      case 6:
        if (random_.chance(40)) return acquire();
        return atomic();
      case 7:
        if (random_.chance(5)) cache_.resize(kLine * random_.between(0, 8));
        return;
      case 8:
      case 9:
        return serve();
      default:
        return answer();
    }
  }

  std::uint32_t new_write(bool own) {
    issued_.push_back(++now_);
    position_.push_back(0);
    own_.push_back(own);
    return static_cast<std::uint32_t>(issued_.size() - 1);
  }

  void load() {
    const std::uint32_t line = random_.below(kLines);
    const auto sectors = static_cast<std::uint8_t>(random_.between(1, 15));
    const auto waiter = static_cast<std::uint32_t>(waiting_.size());
    const L1Cache::Load load = cache_.load(line * kLine, sectors, waiter);
    if (!load.accepted) {
      CHECK(cache_.free_entries() == 0);
      return;
    }
    REQUIRE((load.hit | load.merged | load.missing) == sectors);
    REQUIRE((load.hit & load.merged) + (load.hit & load.missing) + (load.merged & load.missing) == 0);
    waiting_.push_back({++now_, acquired_, line, 0, sectors});
    if (load.hit != 0) see(waiter, load.hit, load.bytes, 0);
    if (load.missing == 0) return;
    REQUIRE(cache_.sectors_of(load.entry) == load.missing);
    path_.push_back({What::read, line, load.entry, 0, 0, {}});
  }

  void see(std::uint32_t waiter, std::uint8_t sectors, const std::uint8_t* bytes, std::uint32_t offset) {
    Waiting& load = waiting_[waiter];
    REQUIRE((load.sectors & sectors) == sectors);  // each sector once
    load.sectors = static_cast<std::uint8_t>(load.sectors & ~sectors);
    for (std::uint32_t word = 0; word < kWords; ++word) {
      if ((sectors >> word / 8 & 1) == 0) continue;
      Seen seen{load.line, word, load.issued, load.acquired};
      std::memcpy(&seen.value, bytes + 4 * word - offset, 4);
      seen_.push_back(seen);
    }
  }

  Request change(What what, std::uint32_t write) {
    Request request{what, random_.below(kLines), 0, write, 0, {}};
    // One word, a few words, or a range.
    const std::uint32_t first = random_.below(kWords);
    const std::uint32_t last = random_.chance(50) ? first : random_.between(first, kWords - 1);
    for (std::uint32_t word = first; word <= last; ++word) {
      if (word == first || random_.chance(70)) request.words |= std::uint64_t{1} << word;
      request.data[word] = write;
    }
    return request;
  }

  void store() {
    const Request request = change(What::write, new_write(true));
    LineBytes bytes{};
    LineBytes enables{};
    std::memcpy(bytes.data(), request.data.data(), kLine);
    std::uint32_t first = kWords;
    std::uint32_t last = 0;
    for (std::uint32_t word = 0; word < kWords; ++word) {
      if ((request.words >> word & 1) == 0) continue;
      std::fill_n(enables.begin() + 4 * word, 4, std::uint8_t{0xFF});
      first = std::min(first, word);
      last = word;
    }
    const bool dense = request.words == (std::uint64_t{2} << last) - (std::uint64_t{1} << first);
    if (dense && random_.chance(50)) {
      cache_.store(request.line * kLine, 4 * first, bytes.data() + 4 * first, nullptr, 4 * (last - first + 1));
    } else {
      cache_.store(request.line * kLine, 0, bytes.data(), enables.data(), kLine);
    }
    path_.push_back(request);
  }

  void atomic() {
    const Request request = change(What::atomic, new_write(true));
    std::uint32_t sectors = 0;
    for (std::uint32_t word = 0; word < kWords; ++word) {
      if ((request.words >> word & 1) != 0) sectors |= 1U << word / 8;
    }
    cache_.forget(request.line * kLine, static_cast<std::uint8_t>(sectors));
    path_.push_back(request);
  }

  void change_elsewhere() { apply(change(What::write, new_write(false))); }

  void acquire() {
    cache_.invalidate_all();
    acquired_ = applied_;
  }

  void apply(const Request& request) {
    position_[request.write] = ++applied_;
    for (std::uint32_t word = 0; word < kWords; ++word) {
      if ((request.words >> word & 1) != 0) memory_[request.line][word] = request.data[word];
    }
    for (std::uint32_t word = 0; word < kWords; ++word) {
      if ((request.words >> word & 1) != 0) writes_[request.line][word].push_back(request.write);
    }
  }

  // The slice takes the oldest request of some line; a read's answer leaves with the bytes of now.
  void serve() {
    if (path_.empty()) return;
    const std::uint32_t line = path_[random_.below(path_.size())].line;
    const auto oldest = std::find_if(path_.begin(), path_.end(), [=](const Request& r) { return r.line == line; });
    Request request = *oldest;
    path_.erase(oldest);
    if (request.what != What::read) return apply(request);
    request.data = memory_[line];
    answers_.push_back(request);
  }

  void answer() {
    if (answers_.empty()) return;
    const std::size_t which = random_.below(answers_.size());
    const Request request = answers_[which];
    answers_.erase(answers_.begin() + static_cast<std::ptrdiff_t>(which));
    const std::uint8_t sectors = cache_.sectors_of(request.entry);
    std::uint32_t offset = 0;
    while ((sectors >> offset / 32 & 1) == 0) offset += 32;
    LineBytes bytes;
    std::memcpy(bytes.data(), request.data.data(), kLine);
    cache_.fill(request.entry, bytes.data() + offset, offset,
                [&](std::uint32_t waiter, std::uint8_t served) { see(waiter, served, bytes.data(), 0); });
  }

  // Every load was served whole, and saw nothing that it must not.
  void judge() {
    for (const Waiting& load : waiting_) REQUIRE(load.sectors == 0);
    std::stable_sort(seen_.begin(), seen_.end(), [](const Seen& a, const Seen& b) { return a.issued < b.issued; });
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> newest;
    for (const Seen& seen : seen_) {
      const std::uint64_t position = position_[seen.value];
      std::uint64_t least = 0;
      for (const std::uint32_t write : writes_[seen.line][seen.word]) {
        const bool before = own_[write] && issued_[write] < seen.issued;
        if (before || position_[write] <= seen.acquired) least = std::max(least, position_[write]);
      }
      CAPTURE(seen.line, seen.word, seen.issued, seen.value, position, least);
      if (position < least) FAIL("older than the SM's own store, or than the acquire");
      if (own_[seen.value] && issued_[seen.value] > seen.issued) FAIL("a store that the SM had not issued yet");
      std::uint64_t& last = newest[{seen.line, seen.word}];
      if (position < last) FAIL("older than an earlier load saw");
      last = position;
    }
  }

  Random random_;
  L1Cache cache_;
  std::array<std::array<std::uint32_t, kWords>, kLines> memory_{};
  std::array<std::array<std::vector<std::uint32_t>, kWords>, kLines> writes_;
  std::deque<Request> path_;      // to the slice, in order
  std::vector<Request> answers_;  // on their way back, in any order
  std::uint64_t now_ = 0;
  std::uint64_t applied_ = 0;
  std::uint64_t acquired_ = 0;
  std::vector<std::uint64_t> issued_;    // of each write: when
  std::vector<std::uint64_t> position_;  // of each write: its turn at the slice
  std::vector<bool> own_;
  std::vector<Waiting> waiting_;
  std::vector<Seen> seen_;
};

}  // namespace

TEST_CASE("the least recently used line of a set goes, sector by sector", "[sm]") {
  for (const std::uint64_t seed : heddle::test::seeds(200)) {
    CAPTURE(seed);
    Random random(seed);
    const std::uint32_t ways = random.between(1, 5);
    const std::uint32_t sets = random.between(1, 5);
    L1Cache cache(ways, 4);
    cache.resize(sets * ways * kLine + random.below(ways * kLine));  // rounded down
    REQUIRE(cache.capacity() == sets * ways * kLine);
    ReferenceCache reference{sets, ways, {}};
    bool right = true;
    for (int step = 0; step < 500; ++step) {
      const std::uint64_t line = std::uint64_t{random.below(40)} * kLine + (random.chance(10) ? 1ULL << 45 : 0);
      const auto sectors = static_cast<std::uint8_t>(random.between(1, 15));
      right = right && touch(cache, line, sectors) == reference.touch(line, sectors);
    }
    CHECK(right);
  }
}

TEST_CASE("no load sees what is older than the SM's own stores, or than its last acquire", "[sm][MEM-06]") {
  for (const std::uint64_t seed : heddle::test::seeds(1'500)) {
    CAPTURE(seed);
    History(seed).run(300);
  }
}

TEST_CASE("a load behind a store does not share the read before it", "[sm][MEM-06]") {
  L1Cache cache(2, 4);
  cache.resize(4 * kLine);
  const L1Cache::Load before = cache.load(0, 3, 10);
  CHECK(before.missing == 3);
  CHECK(cache.load(0, 1, 11).merged == 1);
  const std::array<std::uint8_t, 4> value{9, 9, 9, 9};
  CHECK(cache.store(0, 4, value.data(), nullptr, 4) == 0);
  const L1Cache::Load behind = cache.load(0, 3, 12);
  CHECK(behind.merged == 2);
  CHECK(behind.missing == 1);
  std::vector<std::pair<std::uint32_t, int>> served;
  const auto note = [&served](std::uint32_t waiter, std::uint8_t sectors) { served.emplace_back(waiter, sectors); };
  cache.fill(before.entry, filled(1).data(), 0, note);
  CHECK(served == std::vector<std::pair<std::uint32_t, int>>{{10, 3}, {11, 1}, {12, 2}});
  CHECK(cache.present(0) == 2);
  served.clear();
  cache.fill(behind.entry, filled(2).data(), 0, note);
  CHECK(served == std::vector<std::pair<std::uint32_t, int>>{{12, 1}});
  CHECK(cache.present(0) == 3);
  CHECK(cache.reads() == 0);
}

TEST_CASE("an invalidation keeps reads under way from being kept or shared", "[sm][MEM-06]") {
  L1Cache cache(2, 4);
  cache.resize(4 * kLine);
  touch(cache, 0, 15);
  const L1Cache::Load pending = cache.load(kLine, 1, 1);
  cache.invalidate_all();
  CHECK(cache.present(0) == 0);
  const L1Cache::Load anew = cache.load(kLine, 1, 2);
  CHECK(anew.missing == 1);
  std::vector<std::uint32_t> served;
  const auto note = [&served](std::uint32_t waiter, std::uint8_t) { served.push_back(waiter); };
  cache.fill(anew.entry, filled(2).data(), 0, note);  // answers may overtake each other
  cache.fill(pending.entry, filled(1).data(), 0, note);
  CHECK(served == std::vector<std::uint32_t>{2, 1});
  const L1Cache::Load load = cache.load(kLine, 1, 3);
  REQUIRE(load.hit == 1);
  CHECK(load.bytes[0] == 2);
}

TEST_CASE("a store updates the sectors that are here and brings none in", "[sm][MEM-06]") {
  L1Cache cache(2, 4);
  cache.resize(4 * kLine);
  touch(cache, 0, 0b0110, 5);
  LineBytes enables{};
  enables[40] = 0xFF;   // sector 1
  enables[127] = 0xFF;  // sector 3
  CHECK(cache.store(0, 0, filled(7).data(), enables.data(), kLine) == 0b0010);
  CHECK(cache.present(0) == 0b0110);
  const L1Cache::Load load = cache.load(0, 0b0110, 0);
  REQUIRE(load.hit == 0b0110);
  CHECK(int{load.bytes[39]} == 5);
  CHECK(int{load.bytes[40]} == 7);
  CHECK(int{load.bytes[41]} == 5);
  CHECK(cache.store(kLine, 0, filled(7).data(), nullptr, kLine) == 0);
  CHECK(cache.present(kLine) == 0);
  cache.forget(0, 0b0010);
  CHECK(cache.present(0) == 0b0100);
  CHECK_THROWS_AS(cache.store(0, 100, filled(1).data(), nullptr, 29), CheckFailed);
}

TEST_CASE("without a free entry a load is turned away, and leaves no trace", "[sm]") {
  L1Cache cache(2, 2);
  cache.resize(4 * kLine);
  const L1Cache::Load first = cache.load(0, 1, 1);
  cache.load(kLine, 1, 2);
  CHECK(cache.free_entries() == 0);
  CHECK_FALSE(cache.load(2 * kLine, 1, 3).accepted);
  CHECK_FALSE(cache.load(0, 3, 3).accepted);  // one sector could merge, the other has no entry
  CHECK(cache.load(0, 1, 4).merged == 1);     // a merge takes none
  std::vector<std::uint32_t> served;
  cache.fill(first.entry, filled(1).data(), 0, [&](std::uint32_t waiter, std::uint8_t) {
    served.push_back(waiter);
    // The owner may ask again at once.
    if (waiter == 1) CHECK(cache.load(2 * kLine, 1, 5).missing == 1);
  });
  CHECK(served == std::vector<std::uint32_t>{1, 4});
  CHECK(cache.free_entries() == 0);
}

TEST_CASE("a read that failed leaves nothing, and its entry cannot be answered twice", "[sm][MEM-05]") {
  L1Cache cache(2, 2);
  cache.resize(4 * kLine);
  const L1Cache::Load load = cache.load(0, 1, 1);
  CHECK(cache.line_of(load.entry) == 0);
  std::uint32_t served = 0;
  cache.fail(load.entry, [&](std::uint32_t, std::uint8_t) { ++served; });
  CHECK(served == 1);
  CHECK(cache.present(0) == 0);
  CHECK_THROWS_AS(cache.fail(load.entry, kIgnore), CheckFailed);
  CHECK_THROWS_AS(cache.fill(7, nullptr, 0, kIgnore), CheckFailed);
}

TEST_CASE("a resize drops the lines and lets reads under way arrive; a reset drops both", "[sm]") {
  L1Cache cache(2, 2);
  touch(cache, 0, 1);
  CHECK(cache.present(0) == 0);  // no bytes yet
  cache.resize(8 * kLine);
  touch(cache, 0, 1);
  const L1Cache::Load load = cache.load(kLine, 1, 1);
  cache.resize(4 * kLine);
  CHECK(cache.present(0) == 0);
  cache.fill(load.entry, filled(3).data(), 0, kIgnore);
  CHECK(cache.present(kLine) == 1);
  cache.resize(4 * kLine);  // no change
  CHECK(cache.present(kLine) == 1);
  cache.load(0, 1, 1);
  cache.reset();
  CHECK(cache.reads() == 0);
  CHECK(cache.present(kLine) == 0);
  CHECK(cache.load(0, 1, 1).missing == 1);
}
