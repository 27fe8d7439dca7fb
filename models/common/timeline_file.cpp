#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "common/error.h"
#include "common/protobuf.h"
#include "common/timeline.h"

namespace heddle {
namespace {

constexpr std::size_t kFlushBytes = 1 << 20;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// As JSON would have it: what is no UTF-8 is replaced.
std::string utf8_text(std::string_view text) { return nlohmann::json::parse(json_text(text)).get<std::string>(); }

// Microseconds with picosecond digits, from integers: the same text on every machine.
std::string micros(Picoseconds time) {
  static constexpr std::uint64_t kPicosPerMicro = 1'000'000;
  return fmt::format("{}.{:06}", time / kPicosPerMicro, time % kPicosPerMicro);
}

class File {
 public:
  explicit File(const std::string& path) : path_(path) {
    const bool plain = path_.size() > 5 && path_.compare(path_.size() - 5, 5, ".json") == 0;
    file_ = gzopen(path_.c_str(), plain ? "wbT" : "wb6");
    if (file_ == nullptr) throw InputError({path_, 0, 0}, "cannot be written", "choose another directory with --out");
  }
  ~File() {
    if (file_ != nullptr) gzclose(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void put(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() > kFlushBytes) flush();
  }
  void close() {
    flush();
    if (gzclose(std::exchange(file_, nullptr)) != Z_OK) throw failed();
  }

 private:
  InputError failed() const { return {{path_, 0, 0}, "could not be written completely", "is the disk full?"}; }
  void flush() {
    if (!buffer_.empty() && gzwrite(file_, buffer_.data(), static_cast<unsigned>(buffer_.size())) <= 0) throw failed();
    buffer_.clear();
  }

  const std::string path_;
  gzFile file_ = nullptr;
  std::string buffer_;
};

// Arrows by the slice at either end, numbered from 1.
class Arrows {
 public:
  struct Ends {
    std::vector<std::uint64_t> from;
    std::vector<std::uint64_t> to;
  };
  explicit Arrows(const Timeline& timeline) {
    std::uint64_t number = 0;
    for (const TimelineArrow& arrow : timeline.arrows()) {
      ++number;
      ends_[key(arrow.cause.track, arrow.cause.begin, arrow.cause.end)].from.push_back(number);
      ends_[key(arrow.effect.track, arrow.effect.begin, arrow.effect.end)].to.push_back(number);
    }
  }
  // Once for every slice: of several that are equal, the first has the arrows.
  Ends of(TrackId track, const TimelineSlice& slice) {
    const auto found = ends_.find(key(track, slice.begin, slice.end));
    return found == ends_.end() ? Ends{} : std::move(ends_.extract(found).mapped());
  }

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, Picoseconds, Picoseconds>;
  static Key key(TrackId track, Picoseconds begin, Picoseconds end) { return {track.group, track.line, begin, end}; }
  std::map<Key, Ends> ends_;
};

class JsonWriter {
 public:
  JsonWriter(const Timeline& timeline, const std::string& path) : timeline_(timeline), arrows_(timeline), file_(path) {}

  void write() {
    file_.put(R"({"displayTimeUnit":"ns","traceEvents":[)");
    for (std::size_t group = 0; group < timeline_.groups().size(); ++group) {
      const std::vector<Timeline::Line> lines = timeline_.lines(group);
      if (lines.empty()) continue;
      pid_ = group + 1;
      event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":{}}})", pid_,
                        json_text(timeline_.groups()[group])));
      event(fmt::format(R"("ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}})", pid_));
      tid_ = 0;
      for (const Timeline::Line& its : lines) line(its);
    }
    file_.put(fmt::format("],\"otherData\":{{\"generator\":\"heddle\",\"merged\":\"{}\",\"thinned\":\"{}\"}}}}\n",
                          timeline_.merged(), timeline_.thinned()));
    file_.close();
  }

 private:
  void event(const std::string& fields) {
    file_.put(std::exchange(first_, false) ? "\n{" : ",\n{");
    file_.put(fields);
    file_.put("}");
  }
  void line(const Timeline::Line& line) {
    ++tid_;
    if (line.values) {
      for (const auto& [when, value] : line.samples) {
        event(fmt::format(R"("ph":"C","pid":{},"tid":{},"ts":{},"name":{},"args":{{"value":{}}})", pid_, tid_,
                          micros(when), json_text(line.name), value));
      }
      return;
    }
    event(fmt::format(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}})", pid_, tid_,
                      json_text(line.name)));
    for (const TimelineSlice& its : line.slices) slice(line.track, its);
  }
  void slice(TrackId track, const TimelineSlice& slice) {
    std::string text =
        fmt::format(R"("ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{})", pid_, tid_, micros(slice.begin),
                    micros(slice.end - slice.begin), json_text(timeline_.text(slice.name)));
    for (std::size_t i = 0; i < slice.args.size(); ++i) {
      const auto& [key, value] = slice.args[i];
      text += fmt::format("{}{}:{}", i == 0 ? ",\"args\":{" : ",", json_text(timeline_.text(key)), value);
    }
    if (!slice.args.empty()) text += '}';
    event(text);
    const Arrows::Ends ends = arrows_.of(track, slice);
    for (const std::uint64_t id : ends.from) arrow("s", id, slice);
    for (const std::uint64_t id : ends.to) arrow("f", id, slice);
  }
  // Bound to the slice that it is within.
  void arrow(const char* phase, std::uint64_t id, const TimelineSlice& slice) {
    event(fmt::format(R"("ph":"{}","bp":"e","id":{},"cat":"flow","name":"follows","pid":{},"tid":{},"ts":{})", phase,
                      id, pid_, tid_, micros(slice.begin)));
  }

  const Timeline& timeline_;
  Arrows arrows_;
  File file_;
  bool first_ = true;
  std::size_t pid_ = 0;
  std::size_t tid_ = 0;
};

// Numbers of fields and values: the public definitions of perfetto.dev, protos/perfetto/trace (trace.proto,
// trace_packet.proto, interned_data.proto and those in track_event).
namespace field {
constexpr std::uint32_t kTracePacket = 1;
constexpr std::uint32_t kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInterned = 12, kSequenceFlags = 13,
                        kTrackDescriptor = 60;
constexpr std::uint32_t kUuid = 1, kTrackName = 2, kProcess = 3, kParent = 5, kCounter = 8, kChildOrdering = 11,
                        kSiblingRank = 12;
constexpr std::uint32_t kPid = 1, kProcessName = 6;
constexpr std::uint32_t kEventNames = 2, kAnnotationNames = 3, kIid = 1, kInternedName = 2;
constexpr std::uint32_t kAnnotations = 4, kType = 9, kNameIid = 10, kTrackUuid = 11, kDoubleValue = 44, kFlows = 47,
                        kTerminatingFlows = 48;
constexpr std::uint32_t kAnnotationIid = 1, kIntValue = 4;
}  // namespace field
constexpr std::uint64_t kSliceBegin = 1;
constexpr std::uint64_t kSliceEnd = 2;
constexpr std::uint64_t kCounterValue = 4;
constexpr std::uint64_t kStateCleared = 1;
constexpr std::uint64_t kNeedsState = 2;
constexpr std::uint64_t kExplicitOrder = 3;
constexpr std::uint64_t kOurSequence = 1;

class PerfettoWriter {
 public:
  PerfettoWriter(const Timeline& timeline, const std::string& path)
      : timeline_(timeline), arrows_(timeline), file_(path) {}

  void write() {
    for (std::size_t group = 0; group < timeline_.groups().size(); ++group) {
      const std::vector<Timeline::Line> lines = timeline_.lines(group);
      if (lines.empty()) continue;
      const std::uint64_t parent = ++tracks_;
      Protobuf process;
      process.number(field::kPid, group + 1);
      process.text(field::kProcessName, utf8_text(timeline_.groups()[group]));
      Protobuf track;
      track.number(field::kUuid, parent);
      track.message(field::kProcess, process);
      track.number(field::kChildOrdering, kExplicitOrder);
      describe(track);
      for (std::size_t i = 0; i < lines.size(); ++i) line(lines[i], parent, i);
    }
    file_.close();
  }

 private:
  // Of the file, whose first packet begins a sequence.
  void packet(Protobuf& packet) {
    packet.number(field::kSequence, kOurSequence);
    packet.number(field::kSequenceFlags, std::exchange(first_, false) ? kStateCleared | kNeedsState : kNeedsState);
    Protobuf file;
    file.message(field::kTracePacket, packet);
    file_.put(file.bytes());
  }
  void describe(const Protobuf& track) {
    Protobuf its;
    its.message(field::kTrackDescriptor, track);
    packet(its);
  }
  void line(const Timeline::Line& line, std::uint64_t parent, std::size_t rank) {
    const std::uint64_t uuid = ++tracks_;
    Protobuf track;
    track.number(field::kUuid, uuid);
    track.text(field::kTrackName, utf8_text(line.name));
    track.number(field::kParent, parent);
    if (line.values) track.message(field::kCounter, Protobuf());
    track.number(field::kSiblingRank, rank);
    describe(track);
    for (const auto& [when, value] : line.samples) {
      Protobuf its;
      its.number(field::kType, kCounterValue);
      its.number(field::kTrackUuid, uuid);
      its.real(field::kDoubleValue, value);
      event(when, its, Protobuf());
    }
    slices(line, uuid);
  }
  // Ends stand before the beginnings that they make room for: events of equal times are read in the order of the file.
  void slices(const Timeline::Line& line, std::uint64_t uuid) {
    std::vector<Picoseconds> open;
    const auto close = [&](Picoseconds until) {
      for (; !open.empty() && open.back() <= until; open.pop_back()) end(open.back(), uuid);
    };
    for (const TimelineSlice& slice : line.slices) {
      close(slice.begin);
      begin(line.track, slice, uuid);
      open.push_back(slice.end);
    }
    close(~Picoseconds{0});
  }
  void begin(TrackId track, const TimelineSlice& slice, std::uint64_t uuid) {
    Protobuf interned;
    Protobuf its;
    its.number(field::kType, kSliceBegin);
    its.number(field::kTrackUuid, uuid);
    its.number(field::kNameIid, iid(names_, field::kEventNames, slice.name, interned));
    for (const auto& [key, value] : slice.args) {
      Protobuf annotation;
      annotation.number(field::kAnnotationIid, iid(keys_, field::kAnnotationNames, key, interned));
      annotation.number(field::kIntValue, static_cast<std::uint64_t>(value));
      its.message(field::kAnnotations, annotation);
    }
    const Arrows::Ends ends = arrows_.of(track, slice);
    for (const std::uint64_t id : ends.from) its.fixed(field::kFlows, id);
    for (const std::uint64_t id : ends.to) its.fixed(field::kTerminatingFlows, id);
    event(slice.begin, its, interned);
  }
  void end(Picoseconds when, std::uint64_t uuid) {
    Protobuf its;
    its.number(field::kType, kSliceEnd);
    its.number(field::kTrackUuid, uuid);
    event(when, its, Protobuf());
  }
  void event(Picoseconds when, const Protobuf& its, const Protobuf& interned) {
    static constexpr Picoseconds kPicosPerNano = 1000;
    Protobuf packet;
    packet.number(field::kTimestamp, when / kPicosPerNano);
    if (!interned.bytes().empty()) packet.message(field::kInterned, interned);
    packet.message(field::kTrackEvent, its);
    this->packet(packet);
  }
  // A text is told once, with the first packet that needs it.
  std::uint64_t iid(std::set<std::uint32_t>& told, std::uint32_t kind, std::uint32_t text, Protobuf& interned) {
    const std::uint64_t number = text + 1U;  // 0 is none
    if (told.insert(text).second) {
      Protobuf entry;
      entry.number(field::kIid, number);
      entry.text(field::kInternedName, utf8_text(timeline_.text(text)));
      interned.message(kind, entry);
    }
    return number;
  }

  const Timeline& timeline_;
  Arrows arrows_;
  File file_;
  bool first_ = true;
  std::uint64_t tracks_ = 0;
  std::set<std::uint32_t> names_;
  std::set<std::uint32_t> keys_;
};

}  // namespace

void check_writable(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) {
    throw InputError({path, 0, 0}, "cannot be written", "choose another directory with --out");
  }
}

void write_timeline(const Timeline& timeline, TimelineFormat format, const std::string& path) {
  if (format == TimelineFormat::json) {
    JsonWriter(timeline, path).write();
  } else {
    PerfettoWriter(timeline, path).write();
  }
}

}  // namespace heddle
