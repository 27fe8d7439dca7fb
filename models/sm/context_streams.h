// The streams of a context (TSK-11): which live, and what creates and destroys them, one memory step after another.
#pragma once

#include <cstdint>

#include "sm/launch_run.h"

namespace heddle::sm {

class ContextStreams {
 public:
  explicit ContextStreams(const LaunchTools& tools) : memory_(tools.memory), stats_(tools.stats) {}

  bool is_live(std::uint32_t stream, const Cta& cta) const;
  // Whether the CTA knows of all streams that are named which of their TMDQ live; if not, `run.created` is one that is
  // to be looked at.
  bool known(LaunchRun& run, const Cta& cta) const;
  LaunchNext create(LaunchRun& run, const Cta& cta, std::uint32_t* registers, Cycle when);
  // None could be created (TSK-12).
  LaunchNext refused(LaunchRun& run, std::uint32_t* registers, Cycle when);
  LaunchNext destroy(LaunchRun& run, const Cta& cta, Cycle when) const;

  // Of the stages `streams`, `create` and `destroy`; the answer of the first is looked_at().
  arch::MemoryStep step(LaunchRun& run, const Cta& cta) const;
  void looked_at(LaunchRun& run, Cta& cta, std::uint64_t old) const;
  LaunchNext created(LaunchRun& run, Cta& cta, std::uint64_t old, std::uint32_t* registers, Cycle when);
  LaunchNext destroyed(LaunchRun& run, Cta& cta, std::uint64_t old, Cycle when);

 private:
  std::uint32_t choose(LaunchRun& run, const Cta& cta) const;
  void found(LaunchRun& run, Cta& cta, std::uint32_t tmdq, std::uint64_t old) const;

  const arch::LaunchMemory& memory_;
  SmStats& stats_;
};

}  // namespace heddle::sm
