// What a device shows of itself while it runs. All of it is optional for the blocks' behaviour: nothing that is
// observed ever changes a result. What a GPU shows beyond this is in arch/gpu_observation.h.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/cycle.h"
#include "common/stats.h"

namespace heddle {

// The timeline: who did what when, and why it waited. One sink interface; off unless somebody asks for it.

// Where an event is drawn: a line ("tpc3.sm1 slot 4") in a group of lines ("gpu0 gpc2").
struct TrackId {
  std::uint32_t group = 0;
  std::uint32_t line = 0;
};

// A line with so many slices that a sink may merge them.
struct DetailLine {
  std::string merged;    // line of the group on which merged ones lie, of all lines that name it; empty: on the same
  bool kernels = false;  // slices have the names of kernels
};

// A slice of a line.
struct TimelineMark {
  TrackId track;
  Picoseconds begin = 0;
  Picoseconds end = 0;
};

using TimelineArgs = std::initializer_list<std::pair<std::string_view, std::int64_t>>;

class TimelineSink {
 public:
  virtual ~TimelineSink() = default;

  // Same names, same track.
  virtual TrackId track(const std::string& group, const std::string& line) = 0;
  virtual TrackId detail_track(const std::string& group, const std::string& line, const DetailLine&) {
    return track(group, line);
  }
  // Something that took from `begin` to `end`. Slices of one track must not overlap unless one encloses the other.
  virtual void slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name,
                     TimelineArgs args = {}) = 0;
  // A value that holds until the next one.
  virtual void counter(TrackId track, Picoseconds when, std::string_view name, double value) = 0;
  // An arrow between two slices of lines without details, of which the second one follows from the first one.
  virtual void flow(const TimelineMark& /*cause*/, const TimelineMark& /*effect*/) {}
};

// Tells packet types apart at run time: packet_kind() of common/packet_port.h.
using PacketKind = const void*;

struct Observation {
  // `prefix` begins the path of every statistic of the device: "gpu0".
  explicit Observation(std::string prefix_) : prefix(std::move(prefix_)) {}
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;
  virtual ~Observation() = default;

  std::string prefix;
  Stats stats;
  std::map<PacketKind, std::uint64_t> packets;  // that the device's links have carried, by type
  std::exception_ptr failure;  // what ended the domain's last event, if it threw: SystemC wraps it beyond recognition
  // Goes up whenever work is taken in, started or finished, for watchdogs; not by what a program can do while it polls:
  // accesses, their translation, barriers, queries.
  std::uint64_t progress = 0;
  TimelineSink* timeline = nullptr;  // null: off
};

}  // namespace heddle
