// A timeline in the trace event format (JSON), which ui.perfetto.dev and chrome://tracing open.
#pragma once

#include <map>
#include <string>

#include <zlib.h>

#include "common/observation.h"

namespace heddle {

// Writes while the simulation runs; a path that ends in ".gz" is compressed. The file is complete once the sink is
// gone.
class PerfettoSink final : public TimelineSink {
 public:
  // Opens the file when there is something to write into it. After `max_events` slices and counters the rest is left out and counted: a viewer that cannot open the file shows
  // nothing.
  PerfettoSink(const std::string& path, std::uint64_t max_events);
  ~PerfettoSink() override;
  PerfettoSink(const PerfettoSink&) = delete;
  PerfettoSink& operator=(const PerfettoSink&) = delete;

  TrackId track(const std::string& group, const std::string& line) override;
  void slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, TimelineArgs args) override;
  void counter(TrackId track, Picoseconds when, std::string_view name, double value) override;

  std::uint64_t left_out() const { return left_out_; }
  // Writes what is buffered and closes the file; InputError if that fails (disk full).
  void close();

 private:
  bool admit();
  void put(const std::string& event);
  bool write_buffer();

  std::string path_;
  gzFile file_ = nullptr;
  bool closed_ = false;
  std::string buffer_;
  std::uint64_t max_events_;
  std::uint64_t events_ = 0;
  std::uint64_t left_out_ = 0;
  bool first_ = true;
  std::map<std::string, std::pair<std::uint32_t, std::map<std::string, std::uint32_t>>> tracks_;
};

}  // namespace heddle
