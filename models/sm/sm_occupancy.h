// What of an SM's resources is in use, and what is shown of its CTAs: statistics, the timeline, and whoever listens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/gpu_observation.h"
#include "arch/sm_limits.h"
#include "common/timebase.h"
#include "sm/cta_table.h"
#include "sm/sm_context.h"

namespace heddle::sm {

// The cycles in which an SM has CTAs. Their begins and ends are known ahead, and not in their order. The statistic is
// what settle() has made it.
class BusyTime {
 public:
  explicit BusyTime(Counter& cycles) : cycles_(cycles) {}

  void begins(Cycle begin, Cycle now);
  void ends(Cycle end, Cycle now);
  // The statistic is what has been up to now, without what is known of later.
  void settle(Cycle now);
  void reset(Cycle now);

 private:
  void count(Cycle until);

  Counter& cycles_;
  std::uint64_t sum_ = 0;   // up to `counted_`
  std::uint64_t told_ = 0;  // of it, in the statistic
  std::uint32_t here_ = 0;
  Cycle since_ = 0;  // the begin that is not counted
  Cycle counted_ = 0;
  Cycle counted_from_ = 0;  // the last that were counted begin there
  Cycle last_end_ = 0;
  std::vector<Cycle> coming_;  // begins of CTAs that have not arrived
};

class SmOccupancy final : private EventHandler {
 public:
  // `path`: of the SM, for statistics and the timeline.
  SmOccupancy(Timebase& time, const arch::SmLimits& limits, Cycle start_cycles, const SmContext& place,
              std::string path, const char* name);

  // Resources that something outside the model holds from the start, and after every reset, until that cycle; 0: for
  // ever. Several add up; together they must fit.
  void preload(const arch::ResourceVector& amount, Cycle until);
  // What CTAs and preloads hold, and the part that preloads hold.
  const arch::ResourceVector& used() const { return used_; }
  const arch::ResourceVector& base() const { return base_; }
  std::uint32_t resident() const { return resident_; }

  void enter(const Cta& cta);
  // The CTA has given back shared memory, now: bytes as the resource accounting counts.
  void release_shared(Cta& cta, std::uint32_t bytes);
  // The CTA, which has been killed, may be found in memory from now on, and end elsewhere. Whether it has is known once
  // it has left.
  void expose(Cta& cta);
  const arch::ResourceVector& capacity() const { return capacity_; }
  // A saved CTA has come back, now.
  void restored(const Cta& cta);
  // The CTA leaves its slot at `when`, now or later: it has ended or been saved.
  void leave(const Cta& cta, Cycle when);
  void reset();
  // The statistics are what has been up to now.
  void settle();

 private:
  struct Preload {
    arch::ResourceVector amount;
    Cycle until = 0;
  };

  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void hold(std::size_t preload);
  CtaListener::Cta shown(const Cta& cta, Cycle cycle) const;
  void draw(const Cta& cta, Cycle when);

  Timebase& time_;
  GpuObservation& observation_;
  const arch::ResourceVector capacity_;
  const Cycle start_cycles_;
  const SmContext& place_;
  const std::string path_;
  const char* name_;
  arch::ResourceVector used_;
  arch::ResourceVector base_;  // part of used_
  std::vector<Preload> preloads_;
  std::uint32_t resident_ = 0;
  IdleAccount* const idle_;       // null: nobody asks
  KernelAccount* const kernels_;  // null: nobody asks
  std::vector<TrackId> tracks_;   // by CTA slot
  Counter& started_;
  Counter& warp_cycles_;
  BusyTime busy_;
};

}  // namespace heddle::sm
