// What loads may see of memory through the L1, against the history of every word.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/l1_cache.h"
#include "support/random.h"

namespace sm_l1_history_test {

using heddle::sm::L1Cache;
using heddle::test::Random;

namespace {

constexpr std::uint32_t kLine = 128;
using LineBytes = std::array<std::uint8_t, kLine>;

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

TEST_CASE("no load sees what is older than the SM's own stores, or than its last acquire", "[sm][MEM-06]") {
  for (const std::uint64_t seed : heddle::test::seeds(1'000)) {
    CAPTURE(seed);
    History(seed).run(300);
  }
}

}  // namespace sm_l1_history_test
