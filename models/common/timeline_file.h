// Timelines as files for viewers.
#pragma once

#include <string>

#include "common/timeline.h"

namespace heddle {

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
