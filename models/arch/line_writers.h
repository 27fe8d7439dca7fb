// Who has written which bytes of memory: the last writer of each byte, for as many lines as it may hold. A plain core,
// for the race checker.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

namespace heddle::arch {

// Bytes of a line, a bit each.
struct LineBytes {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  static LineBytes range(std::uint32_t first, std::uint32_t count);
  bool any() const { return (low | high) != 0; }
  std::uint32_t first() const;  // of those that there are
  LineBytes operator&(const LineBytes& other) const { return {low & other.low, high & other.high}; }
  LineBytes operator|(const LineBytes& other) const { return {low | other.low, high | other.high}; }
  LineBytes without(const LineBytes& other) const { return {low & ~other.low, high & ~other.high}; }
};

class LineWriters {
 public:
  struct Write {
    std::uint32_t task = 0;
    bool strong = false;
    LineBytes bytes;
    std::uint64_t when = 0;  // the first of them
  };
  using Line = std::vector<Write>;

  // `most` lines, at least 1: for one more, the one that was entered first is forgotten. `lost` is called with each
  // write of which nothing is left.
  LineWriters(std::uint32_t most, std::function<void(const Write&)> lost);

  // Lines have keys. Null: nobody is known to have written to it.
  const Line* find(std::uint64_t key) const;
  // `write.bytes`, of which there are some, have that writer alone. They are added to an earlier write of the same kind
  // by the same task, if that is later than `since`. False: so it was. Sets `forgot` if a line had to go.
  bool enter(std::uint64_t key, const Write& write, std::uint64_t since, bool& forgot);
  // These bytes have no writer any more.
  void take_out(std::uint64_t key, const LineBytes& bytes);
  void clear();

 private:
  void take_out(Line& line, const LineBytes& bytes);
  void forget_oldest();

  const std::uint32_t most_;
  const std::function<void(const Write&)> lost_;
  std::unordered_map<std::uint64_t, Line> lines_;
  std::deque<std::uint64_t> ages_;  // the keys of the lines, the oldest first
};

}  // namespace heddle::arch
