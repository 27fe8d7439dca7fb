// A timeline as it is recorded: packed in memory while the simulation runs, whole or at a level of detail that a viewer
// opens, until it is written to a file.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/observation.h"

namespace heddle {

// What of a timeline is wanted.
struct TimelineFilter {
  // Slices that lie at least partly between these, and values from there.
  Picoseconds from = 0;
  Picoseconds to = ~Picoseconds{0};
  // Lines of which "GROUP LINE" fits one of these; empty: all. A pattern with * or ? must fit the whole of it, another
  // one a part.
  std::vector<std::string> lines;
  // The same of kernels' names, on lines where DetailLine::kernels is set.
  std::vector<std::string> kernels;
  bool shows(Picoseconds begin, Picoseconds end) const { return end >= from && begin <= to; }
};

// True if `text` fits one of the patterns, or there are none.
bool fits(const std::vector<std::string>& patterns, const std::string& text);

// Numbers stand for texts: Timeline::text().
struct TimelineSlice {
  Picoseconds begin = 0;
  Picoseconds end = 0;
  std::uint32_t name = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> args;
};

struct TimelineArrow {
  TimelineMark cause;
  TimelineMark effect;
};

class Timeline final : public TimelineSink {
 public:
  // Of lines of details and of values no more than about `most_details` events are kept: beyond, slices of a line and
  // name that follow each other are merged, and values are thinned out. 0: none are kept. All other lines are whole.
  explicit Timeline(std::uint64_t most_details, TimelineFilter filter = {});

  TrackId track(const std::string& group, const std::string& line) override;
  TrackId detail_track(const std::string& group, const std::string& line, const DetailLine& detail) override;
  void slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, TimelineArgs args) override;
  void counter(TrackId track, Picoseconds when, std::string_view name, double value) override;
  void flow(const TimelineMark& cause, const TimelineMark& effect) override;

  // Slices of details that lie in a merged one, or have been left out because no details are wanted; values that were
  // thinned out.
  std::uint64_t merged() const { return merged_; }
  std::uint64_t thinned() const { return thinned_; }
  // A sentence about that; empty: all is there.
  std::string lost() const;

  // To be called once nothing more comes: the timeline as it is to be written.
  void finish();
  struct Line {
    std::string name;
    TrackId track;  // that it shows, alone or among others
    bool values = false;
    std::vector<std::pair<Picoseconds, double>> samples;  // of values, in order of time
    // Else: in order of time, one that encloses others before them. None overlaps another in part.
    std::vector<TimelineSlice> slices;
  };
  const std::vector<std::string>& groups() const { return group_names_; }
  // Lines of a group in order. Reads what is packed: one group after the other. A line whose slices overlap in part
  // comes in several.
  std::vector<Line> lines(std::size_t group) const;
  const std::string& text(std::uint32_t number) const { return texts_[number]; }
  // All of them between slices that are there.
  const std::vector<TimelineArrow>& arrows() const { return arrows_; }

 private:
  // Slices or values of a line, in any order.
  class Packed {
   public:
    void put(const TimelineSlice& slice);
    void put(Picoseconds when, double value);
    std::uint64_t size() const { return count_; }
    // In order of time.
    std::vector<TimelineSlice> slices() const;
    std::vector<std::pair<Picoseconds, double>> values() const;

   private:
    std::string bytes_;
    std::uint64_t count_ = 0;
    Picoseconds at_ = 0;  // begin of the last one
  };
  // How many slices there were at the same time, as a mean over intervals that grow with the run.
  class AtOnce {
   public:
    void add(Picoseconds begin, Picoseconds end);
    bool empty() const { return bins_.empty(); }
    std::vector<std::pair<Picoseconds, double>> values() const;

   private:
    Picoseconds width_ = 1U << 16U;
    std::vector<Picoseconds> bins_;  // sum of what slices took of each
  };
  struct Run {  // of merged slices
    Picoseconds begin = 0;
    Picoseconds end = 0;
    std::uint32_t name = 0;
    std::uint64_t count = 0;
    Picoseconds busy = 0;  // sum of what they took
  };
  struct Track {
    std::string name;
    bool wanted = true;
    bool detail = false;
    bool kernels = false;
    bool values = false;
    bool at_once = false;        // what it has merged is also shown as a number over time
    std::uint32_t into = 0;      // line of the group where merged slices lie
    Packed packed;               // slices, or values
    Picoseconds last_begin = 0;  // of the last slice that nothing encloses, and whether it is wanted
    Picoseconds last_end = 0;
    bool last_wanted = false;
    std::vector<Run> runs;  // merged, in order of their begin
    AtOnce merged;          // if at_once
  };

  Track& at(TrackId track) { return groups_[track.group - 1][track.line - 1]; }
  const Track& at(TrackId track) const { return groups_[track.group - 1][track.line - 1]; }
  std::uint32_t number_of(std::string_view text);
  // Lines of values beside a line's slices.
  TrackId values_track(TrackId track, std::string_view name);
  void coarsen();
  void fold_all();
  void fold(Track& from, Track& into);
  void merge(std::vector<Run>& runs) const;
  void thin(Track& track);
  void add_slices(std::vector<Line>& lines, TrackId track) const;
  void add_runs(std::vector<Line>& lines, TrackId track) const;

  const std::uint64_t most_;
  const TimelineFilter filter_;
  std::map<std::string, std::uint32_t> group_numbers_;
  std::vector<std::string> group_names_;
  std::vector<std::map<std::string, std::uint32_t>> line_numbers_;  // by group
  std::vector<std::vector<Track>> groups_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;  // looked up only
  std::deque<std::string> texts_;
  std::vector<TimelineArrow> arrows_;
  std::uint64_t details_ = 0;  // slices, runs and values that count against most_
  bool folded_ = false;
  bool mixed_ = false;      // slices of several names are merged
  Picoseconds gap_ = 0;     // up to which slices are merged; between values that are kept
  std::uint64_t room_ = 0;  // of details, before they are made coarser
  std::uint64_t merged_ = 0;
  std::uint64_t thinned_ = 0;
  Picoseconds last_ = 0;
};

enum class TimelineFormat {
  perfetto,  // protocol buffers of perfetto.dev (docs/timeline.md#file): times in nanoseconds
  json,  // the trace event format, which many viewers open: times in microseconds, with picoseconds behind the point
};

// Throws InputError if no file can be made there: before a simulation that would be in vain.
void check_writable(const std::string& path);

// `timeline`: finished. A path that ends in ".json" is not compressed, any other is (gzip). Throws InputError if the
// file cannot be written whole.
void write_timeline(const Timeline& timeline, TimelineFormat format, const std::string& path);

}  // namespace heddle
