// What the parts of the distributor have in common: their clock, the machine, the parameters, and where they show what
// they do.
#pragma once

#include <string>
#include <utility>

#include "arch/gpu_observation.h"
#include "arch/topology.h"
#include "common/timebase.h"
#include "cwd/cwd_params.h"

namespace heddle::cwd {

// The distributor owns it; everything that it names must outlive the parts.
struct CwdContext {
  CwdContext(Timebase& clock, const char* module_name, const std::string& path, const CwdParams& parameters,
             const arch::Topology& machine)
      : timebase(clock),
        name(module_name),
        params(parameters),
        topology(machine),
        observation(gpu_observation(clock)),
        stat_prefix(observation.prefix + "." + path) {}

  Cycle now() const { return timebase.now(); }
  void progress() const { ++observation.progress; }
  TimelineSink* timeline() const { return observation.timeline; }
  IdleAccount* idle() const { return observation.idle.get(); }  // null: nobody asks
  // A line of the timeline among those of the distributor; nothing where there is no timeline.
  TrackId track(const std::string& line) const {
    return timeline() == nullptr ? TrackId{} : timeline()->track(observation.prefix + " cwd", line);
  }
  // The same, of a line with many slices.
  TrackId detail_track(const std::string& line, bool kernels) const {
    return timeline() == nullptr ? TrackId{}
                                 : timeline()->detail_track(observation.prefix + " cwd", line, {"", kernels});
  }
  // A slice that ends now.
  void draw(TrackId track, Cycle begin, const std::string& text, TimelineArgs args = {}) const {
    timeline()->slice(track, timebase.time_of(begin), timebase.time_of(now()), text, args);
  }

  Timebase& timebase;
  const char* name;  // of the module, for messages
  const CwdParams& params;
  const arch::Topology& topology;
  GpuObservation& observation;
  std::string stat_prefix;  // "gpu0.cwd"
};

}  // namespace heddle::cwd
