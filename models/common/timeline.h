// The timeline: who did what when, and why it waited. One sink interface; off unless somebody asks for it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "common/cycle.h"

namespace heddle {

// Where an event is drawn: a line ("tpc3.sm1 slot 4") in a group of lines ("gpu0 gpc2").
struct TrackId {
  std::uint32_t group = 0;
  std::uint32_t line = 0;
};

using TimelineArgs = std::initializer_list<std::pair<std::string_view, std::int64_t>>;

class TimelineSink {
 public:
  virtual ~TimelineSink() = default;

  // Same names, same track.
  virtual TrackId track(const std::string& group, const std::string& line) = 0;
  // Something that took from `begin` to `end`. Slices of one track must not overlap unless one encloses the other.
  virtual void slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name,
                     TimelineArgs args = {}) = 0;
  // A value that holds until the next one.
  virtual void counter(TrackId track, Picoseconds when, std::string_view name, double value) = 0;
};

}  // namespace heddle
