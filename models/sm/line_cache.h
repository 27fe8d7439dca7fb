// Which lines of programs and of constants an SM holds, and since when. No bytes: the model interprets operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/cycle.h"

namespace heddle::sm {

// Set associative, least recently used. A line that is entered replaces another at once; reads under way are the
// owner's, so a line never has to wait for a place.
class LineCache {
 public:
  // `lines`, rounded down to whole sets of `ways`; at least one set.
  LineCache(std::uint32_t lines, std::uint32_t ways) : ways_(ways), sets_(std::max(1U, lines / ways)) { reset(); }

  // The cycle from which the line is here; kNever if it is not. Counts as a use.
  Cycle find(std::uint64_t line) {
    for (Place& place : set_of(line)) {
      if (place.stamp == 0 || place.line != line) continue;
      place.stamp = ++stamp_;
      return place.ready;
    }
    return kNever;
  }
  // A line that is not here comes, at `ready`, in place of the one that has not been used for longest.
  void enter(std::uint64_t line, Cycle ready) {
    const Set set = set_of(line);
    Place& oldest =
        *std::min_element(set.begin(), set.end(), [](const Place& a, const Place& b) { return a.stamp < b.stamp; });
    oldest = {line, ready, ++stamp_};
  }
  void reset() {
    places_.assign(std::size_t{sets_} * ways_, {});
    stamp_ = 0;
  }

 private:
  struct Place {
    std::uint64_t line = 0;
    Cycle ready = 0;
    std::uint64_t stamp = 0;  // of the last use; 0: the place is free
  };
  struct Set {
    Place* first;
    Place* last;
    Place* begin() const { return first; }
    Place* end() const { return last; }
  };
  Set set_of(std::uint64_t line) {
    Place* first = places_.data() + line % sets_ * ways_;
    return {first, first + ways_};
  }

  std::uint32_t ways_;
  std::uint32_t sets_;
  std::uint64_t stamp_ = 0;
  std::vector<Place> places_;  // [set][way]
};

}  // namespace heddle::sm
