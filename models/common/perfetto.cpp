#include "common/perfetto.h"

#include <cmath>
#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"

namespace heddle {
namespace {

constexpr std::size_t kFlushBytes = 1 << 20;

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Microseconds with picosecond digits, from integers: the same text on every machine.
std::string micros(Picoseconds time) {
  static constexpr std::uint64_t kPicosPerMicro = 1'000'000;
  return fmt::format("{}.{:06}", time / kPicosPerMicro, time % kPicosPerMicro);
}

}  // namespace

PerfettoSink::PerfettoSink(const std::string& path, std::uint64_t max_events) : path_(path), max_events_(max_events) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) {
    throw InputError({path, 0, 0}, "cannot be written", "choose another directory with --out");
  }
  buffer_ = R"({"displayTimeUnit":"ns","traceEvents":[)";
}

PerfettoSink::~PerfettoSink() {
  try {
    close();
  } catch (const InputError&) {  // a destructor has nobody to tell; callers who care call close()
  }
}

void PerfettoSink::close() {
  if (closed_) return;
  closed_ = true;
  buffer_ += fmt::format("],\"otherData\":{{\"generator\":\"heddle\",\"events_left_out\":\"{}\"}}}}\n", left_out_);
  const bool written = write_buffer();
  const int result = gzclose(file_);
  file_ = nullptr;
  if (!written || result != Z_OK) {
    throw InputError({path_, 0, 0}, "could not be written completely", "is the disk full?");
  }
}

bool PerfettoSink::write_buffer() {
  if (file_ == nullptr) {
    const bool compress = path_.size() > 3 && path_.compare(path_.size() - 3, 3, ".gz") == 0;
    file_ = gzopen(path_.c_str(), compress ? "wb6" : "wbT");
    if (file_ == nullptr) throw InputError({path_, 0, 0}, "cannot be written", "choose another directory with --out");
  }
  const bool written = gzwrite(file_, buffer_.data(), static_cast<unsigned>(buffer_.size())) > 0;
  buffer_.clear();
  return written;
}

void PerfettoSink::put(const std::string& event) {
  buffer_ += first_ ? "\n" : ",\n";
  first_ = false;
  buffer_ += event;
  if (buffer_.size() > kFlushBytes && !write_buffer()) {
    throw InputError({path_, 0, 0}, "could not be written", "is the disk full?");
  }
}

bool PerfettoSink::admit() {
  if (events_ >= max_events_) {
    ++left_out_;
    return false;
  }
  ++events_;
  return true;
}

TrackId PerfettoSink::track(const std::string& group, const std::string& line) {
  const auto [at, new_group] = tracks_.try_emplace(group, static_cast<std::uint32_t>(tracks_.size() + 1),
                                                   std::map<std::string, std::uint32_t>{});
  const std::uint32_t pid = at->second.first;
  if (new_group) {
    put(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", pid, json_text(group)));
    put(fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})", pid));
  }
  auto& lines = at->second.second;
  const auto [entry, new_line] = lines.try_emplace(line, static_cast<std::uint32_t>(lines.size() + 1));
  if (new_line) {
    put(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", pid, entry->second,
                    json_text(line)));
  }
  return {pid, entry->second};
}

void PerfettoSink::slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, TimelineArgs args) {
  HEDDLE_CHECK(begin <= end, "a slice of the timeline ends before it begins");
  if (!admit()) return;
  std::string event = fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{})", track.group, track.line,
                                  micros(begin), micros(end - begin), json_text(name));
  if (args.size() != 0) {
    event += ",\"args\":{";
    bool first = true;
    for (const auto& [key, value] : args) {
      event += fmt::format("{}\"{}\":{}", first ? "" : ",", key, value);
      first = false;
    }
    event += '}';
  }
  put(event + '}');
}

void PerfettoSink::counter(TrackId track, Picoseconds when, std::string_view name, double value) {
  HEDDLE_CHECK(std::isfinite(value), "a counter of the timeline is not a number");  // JSON has none such
  if (!admit()) return;
  put(fmt::format(R"({{"ph":"C","pid":{},"tid":{},"ts":{},"name":{},"args":{{"value":{}}}}})", track.group, track.line,
                  micros(when), json_text(name), value));
}

}  // namespace heddle
