#include "common/timeline.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fnmatch.h>
#include <iterator>
#include <tuple>

#include <fmt/format.h>

#include "common/error.h"

namespace heddle {
namespace {

constexpr Picoseconds kFirstGap = 1'000'000;
constexpr Picoseconds kLastGap = Picoseconds{1} << 62U;  // longer than any run
// Beyond this gap, kernels are so many that their names are not kept apart any more.
constexpr Picoseconds kNamedGap = 64 * kFirstGap;
constexpr std::size_t kBins = 2048;

// The first texts of every timeline, by their numbers: the name of slices of several names, and what is said of merged
// ones.
constexpr const char* kSeveralText = "several";
constexpr const char* kCountText = "count";
constexpr const char* kBusyText = "busy_ns";
constexpr std::uint32_t kSeveral = 0;
constexpr std::uint32_t kCount = 1;
constexpr std::uint32_t kBusy = 2;

void put_number(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<char>(value | 0x80U));
  out.push_back(static_cast<char>(value));
}

std::uint64_t folded(std::uint64_t difference) { return difference << 1U ^ (difference >> 63U != 0 ? ~0ULL : 0); }
std::uint64_t unfolded(std::uint64_t number) { return number >> 1U ^ ((number & 1U) != 0 ? ~0ULL : 0); }

class Unpacker {
 public:
  explicit Unpacker(const std::string& packed) : at_(packed.data()), end_(at_ + packed.size()) {}
  bool done() const { return at_ == end_; }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
  }
  double real() {
    double value = 0;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

 private:
  const char* at_;
  const char* end_;
};

// One that encloses others comes before them.
bool earlier(const TimelineSlice& a, const TimelineSlice& b) {
  return std::tie(a.begin, b.end) < std::tie(b.begin, a.end);
}

std::string lane_name(const std::string& line, std::size_t lane) {
  return lane == 0 ? line : fmt::format("{} ({})", line, lane + 1);
}

// Slices in order, on as many lines as it takes. `nested`: one may enclose another.
std::vector<std::vector<TimelineSlice>> laid(std::vector<TimelineSlice> slices, bool nested) {
  std::vector<std::vector<TimelineSlice>> lanes;
  std::vector<std::vector<Picoseconds>> open;  // by lane: ends of those that enclose what comes next
  for (TimelineSlice& slice : slices) {
    std::size_t lane = 0;
    for (; lane < lanes.size(); ++lane) {
      std::vector<Picoseconds>& ends = open[lane];
      while (!ends.empty() && ends.back() <= slice.begin) ends.pop_back();
      if (ends.empty() || (nested && slice.end <= ends.back())) break;
    }
    if (lane == lanes.size()) {
      lanes.emplace_back();
      open.emplace_back();
    }
    open[lane].push_back(slice.end);
    lanes[lane].push_back(std::move(slice));
  }
  return lanes;
}

}  // namespace

bool fits(const std::vector<std::string>& patterns, const std::string& text) {
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&text](const std::string& pattern) {
           if (pattern.find_first_of("*?") == std::string::npos) return text.find(pattern) != std::string::npos;
           return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
         });
}

Timeline::Timeline(std::uint64_t most_details, TimelineFilter filter)
    : most_(most_details), filter_(std::move(filter)) {
  for (const char* text : {kSeveralText, kCountText, kBusyText}) number_of(text);
}

std::uint32_t Timeline::number_of(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(texts_.size());
  numbers_.emplace(texts_.emplace_back(text), number);
  return number;
}

TrackId Timeline::track(const std::string& group, const std::string& line) {
  const auto [its_group, new_group] =
      group_numbers_.try_emplace(group, static_cast<std::uint32_t>(group_names_.size()));
  if (new_group) {
    group_names_.push_back(group);
    line_numbers_.emplace_back();
    groups_.emplace_back();
  }
  const std::uint32_t g = its_group->second;
  const auto [its_line, new_line] = line_numbers_[g].try_emplace(line, static_cast<std::uint32_t>(groups_[g].size()));
  if (new_line) {
    Track& track = groups_[g].emplace_back();
    track.name = line;
    track.wanted = fits(filter_.lines, group + " " + line);
    track.into = its_line->second;
  }
  return {g + 1, its_line->second + 1};
}

TrackId Timeline::detail_track(const std::string& group, const std::string& line, const DetailLine& detail) {
  const TrackId id = track(group, line);
  if (at(id).detail) return id;
  const TrackId into = detail.merged.empty() ? id : track(group, detail.merged);
  at(into).at_once = !detail.merged.empty();
  Track& its = at(id);
  its.detail = true;
  its.kernels = detail.kernels;
  its.into = into.line - 1;
  return id;
}

void Timeline::slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, TimelineArgs args) {
  HEDDLE_CHECK(begin <= end, "a slice of the timeline ends before it begins");
  Track& its = at(track);
  if (!its.wanted || !filter_.shows(begin, end)) return;
  // Details within a slice of their line go with it.
  const bool enclosed = its.detail && its.last_end > its.last_begin && its.last_begin <= begin && end <= its.last_end;
  if (!enclosed) {
    its.last_begin = begin;
    its.last_end = end;
    its.last_wanted = !its.kernels || fits(filter_.kernels, std::string(name));
  }
  if (!its.last_wanted) return;
  if (its.detail) {
    if (most_ == 0) {
      ++merged_;
      return;
    }
    if (details_ >= std::max(most_, room_) && !enclosed) coarsen();
    ++details_;
  }
  TimelineSlice slice{begin, end, number_of(name), {}};
  for (const auto& [key, value] : args) slice.args.emplace_back(number_of(key), value);
  its.packed.put(slice);
  last_ = std::max(last_, end);
}

TrackId Timeline::values_track(TrackId track, std::string_view name) {
  const std::string& line = at(track).name;
  const bool said = line.size() >= name.size() && line.compare(line.size() - name.size(), name.size(), name) == 0;
  return this->track(group_names_[track.group - 1], said ? line : fmt::format("{}: {}", line, name));
}

void Timeline::counter(TrackId track, Picoseconds when, std::string_view name, double value) {
  HEDDLE_CHECK(std::isfinite(value), "a counter of the timeline is not a number");
  if (!at(track).wanted || !filter_.shows(when, when)) return;
  if (most_ == 0) {
    ++thinned_;
    return;
  }
  if (details_ >= std::max(most_, room_)) coarsen();
  ++details_;
  Track& its = at(values_track(track, name));
  its.values = true;
  its.packed.put(when, value);
  last_ = std::max(last_, when);
}

void Timeline::flow(const TimelineMark& cause, const TimelineMark& effect) {
  for (const TimelineMark& mark : {cause, effect}) {
    const Track& its = at(mark.track);
    if (its.detail || !its.wanted || !filter_.shows(mark.begin, mark.end)) return;
  }
  arrows_.push_back({cause, effect});
}

void Timeline::Packed::put(const TimelineSlice& slice) {
  put_number(bytes_, slice.name);
  put_number(bytes_, folded(slice.begin - at_));
  put_number(bytes_, slice.end - slice.begin);
  put_number(bytes_, slice.args.size());
  for (const auto& [key, value] : slice.args) {
    put_number(bytes_, key);
    put_number(bytes_, folded(static_cast<std::uint64_t>(value)));
  }
  at_ = slice.begin;
  ++count_;
}

void Timeline::Packed::put(Picoseconds when, double value) {
  put_number(bytes_, when - at_);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  at_ = when;
  ++count_;
}

std::vector<TimelineSlice> Timeline::Packed::slices() const {
  std::vector<TimelineSlice> slices;
  slices.reserve(count_);
  Picoseconds at = 0;
  for (Unpacker from(bytes_); !from.done();) {
    TimelineSlice& slice = slices.emplace_back();
    slice.name = static_cast<std::uint32_t>(from.number());
    at += unfolded(from.number());
    slice.begin = at;
    slice.end = at + from.number();
    slice.args.resize(from.number());
    for (auto& [key, value] : slice.args) {
      key = static_cast<std::uint32_t>(from.number());
      value = static_cast<std::int64_t>(unfolded(from.number()));
    }
  }
  std::stable_sort(slices.begin(), slices.end(), earlier);
  return slices;
}

std::vector<std::pair<Picoseconds, double>> Timeline::Packed::values() const {
  std::vector<std::pair<Picoseconds, double>> values;
  Picoseconds at = 0;
  for (Unpacker from(bytes_); !from.done();) {
    at += from.number();
    const double value = from.real();
    values.emplace_back(at, value);
  }
  std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return values;
}

void Timeline::AtOnce::add(Picoseconds begin, Picoseconds end) {
  for (; end / width_ >= kBins; width_ *= 2) {
    for (std::size_t i = 0; i < bins_.size(); ++i) bins_[i / 2] = i % 2 == 0 ? bins_[i] : bins_[i / 2] + bins_[i];
    bins_.resize((bins_.size() + 1) / 2);
  }
  if (end > begin && bins_.size() <= (end - 1) / width_) bins_.resize((end - 1) / width_ + 1);
  for (Picoseconds at = begin; at < end;) {
    const Picoseconds until = std::min(end, (at / width_ + 1) * width_);
    bins_[at / width_] += until - at;
    at = until;
  }
}

std::vector<std::pair<Picoseconds, double>> Timeline::AtOnce::values() const {
  std::vector<std::pair<Picoseconds, double>> values;
  double before = 0;
  for (std::size_t i = 0; i <= bins_.size(); ++i) {
    const double value = i < bins_.size() ? static_cast<double>(bins_[i]) / static_cast<double>(width_) : 0;
    if (value != before) values.emplace_back(i * width_, value);
    before = value;
  }
  return values;
}

// Makes room for as many details again.
void Timeline::coarsen() {
  if (!folded_) {
    folded_ = true;
    gap_ = kFirstGap;
  }
  for (fold_all(); details_ > most_ / 2 && gap_ < kLastGap; fold_all()) {
    if (gap_ >= kNamedGap && !mixed_) {
      mixed_ = true;
      gap_ = kFirstGap;
    } else {
      gap_ *= 2;
    }
  }
  room_ = 2 * details_;  // where lines are more than may be: not at every slice again
}

void Timeline::fold_all() {
  details_ = 0;
  for (std::vector<Track>& group : groups_) {
    for (Track& track : group) {
      if (track.values) thin(track);
      if (track.detail) fold(track, group[track.into]);
    }
    for (Track& track : group) {
      merge(track.runs);
      details_ += track.runs.size() + (track.values ? track.packed.size() : 0);
    }
  }
  merged_ = 0;
  for (const std::vector<Track>& group : groups_) {
    for (const Track& track : group) {
      for (const Run& run : track.runs) merged_ += run.count > 1 ? run.count : 0;
    }
  }
}

void Timeline::fold(Track& from, Track& into) {
  Picoseconds covered = 0;
  bool first = true;
  for (const TimelineSlice& slice : from.packed.slices()) {
    if (!first && slice.end <= covered && slice.begin < covered) continue;  // within one before it
    first = false;
    covered = std::max(covered, slice.end);
    into.runs.push_back({slice.begin, slice.end, slice.name, 1, slice.end - slice.begin});
    if (into.at_once) into.merged.add(slice.begin, slice.end);
  }
  from.packed = {};
}

void Timeline::merge(std::vector<Run>& runs) const {
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
  std::map<std::uint32_t, std::size_t> last;  // of a name
  std::size_t kept = 0;
  for (const Run& run : runs) {
    const auto [at, fresh] = last.try_emplace(mixed_ ? kSeveral : run.name, kept);
    Run& before = runs[at->second];
    // Kernels follow each other without end: those of several are merged where they begin in the same interval.
    const bool joins = mixed_ ? run.begin / gap_ == before.begin / gap_ : run.begin <= before.end + gap_;
    if (fresh || !joins) {
      at->second = kept;
      runs[kept++] = run;
      continue;
    }
    if (before.name != run.name) before.name = kSeveral;
    before.end = std::max(before.end, run.end);
    before.count += run.count;
    before.busy += run.busy;
  }
  runs.resize(kept);
  runs.shrink_to_fit();
}

// The last value of an interval stays.
void Timeline::thin(Track& track) {
  const std::vector<std::pair<Picoseconds, double>> values = track.packed.values();
  track.packed = {};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i + 1 < values.size() && values[i].first / gap_ == values[i + 1].first / gap_) {
      ++thinned_;
      continue;
    }
    track.packed.put(values[i].first, values[i].second);
  }
}

std::string Timeline::lost() const {
  std::vector<std::string> parts;
  if (most_ == 0 && merged_ + thinned_ > 0) {
    return fmt::format("the timeline has no details: {} slices and values are left out", merged_ + thinned_);
  }
  if (merged_ > 0) {
    parts.push_back(fmt::format(
        "{} slices of CTAs and other details are merged, {} {} us", merged_,
        mixed_ ? "whatever their names, in intervals of" : "by line and name where they follow each other within",
        gap_ / kFirstGap));
  }
  if (thinned_ > 0) parts.push_back(fmt::format("{} values are thinned out", thinned_));
  if (parts.empty()) return {};
  return fmt::format("in the timeline {}", fmt::join(parts, ", and "));
}

void Timeline::finish() {
  if (folded_) fold_all();
  const std::string lost = this->lost();
  if (lost.empty()) return;
  const TrackId id = track("timeline", "notes");
  at(id).packed.put(TimelineSlice{0, last_, number_of(lost), {}});
}

void Timeline::add_slices(std::vector<Line>& lines, TrackId track) const {
  const Track& its = at(track);
  std::vector<std::vector<TimelineSlice>> lanes = laid(its.packed.slices(), true);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    lines.push_back({lane_name(its.name, lane), track, false, {}, std::move(lanes[lane])});
  }
}

void Timeline::add_runs(std::vector<Line>& lines, TrackId track) const {
  const Track& its = at(track);
  std::vector<TimelineSlice> slices;
  for (const Run& run : its.runs) {
    TimelineSlice& slice = slices.emplace_back();
    slice.begin = run.begin;
    slice.end = run.end;
    slice.name = run.name;
    slice.args = {{kCount, static_cast<std::int64_t>(run.count)}, {kBusy, static_cast<std::int64_t>(run.busy / 1000)}};
  }
  std::vector<std::vector<TimelineSlice>> lanes = laid(std::move(slices), false);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    lines.push_back({lane_name(its.name, lane), track, false, {}, std::move(lanes[lane])});
  }
  if (its.merged.empty()) return;
  lines.push_back({its.name + " at once", track, true, its.merged.values(), {}});
}

std::vector<Timeline::Line> Timeline::lines(std::size_t group) const {
  std::vector<Line> lines;
  for (std::size_t i = 0; i < groups_[group].size(); ++i) {
    const Track& track = groups_[group][i];
    const TrackId id{static_cast<std::uint32_t>(group + 1), static_cast<std::uint32_t>(i + 1)};
    if (track.values && track.packed.size() > 0) lines.push_back({track.name, id, true, track.packed.values(), {}});
    if (!track.values && track.packed.size() > 0) add_slices(lines, id);
    if (!track.runs.empty()) add_runs(lines, id);
  }
  return lines;
}

}  // namespace heddle
