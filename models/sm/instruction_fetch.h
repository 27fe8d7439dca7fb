// How warps come by their instructions and by the parameters of their kernel: out of an instruction cache and a
// constant cache of the SM, or of the L2 by the SM's path to memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/index_pool.h"
#include "common/stats.h"
#include "sm/accesses.h"
#include "sm/issue_unit.h"
#include "sm/line_cache.h"

namespace heddle::sm {

class GlobalPath;
class WarpScheduler;

// Statistics of a front end with caches.
struct FetchStats : StatGroup {
  using StatGroup::StatGroup;

  Counter& hits = counter("fetch.hits", "lines", "lines of programs that warps went on to and that were in the SM");
  Counter& misses = counter("fetch.misses", "lines", "lines of programs that warps had to wait for, under way or not");
  StallCounter stall{counter("stall.fetch", "warps x cycles", "warps that waited for instructions"), WarpStall::fetch};
  Counter& constant_hits =
      counter("constants.hits", "lines", "warps that began and found the parameters of their kernel in the SM");
  Counter& constant_misses =
      counter("constants.misses", "lines", "warps that began and had to wait for the parameters of their kernel");
  StallCounter constant_stall{
      counter("stall.constants", "warps x cycles", "warps that waited for the parameters of their kernel"),
      WarpStall::constants};
};

// Programs lie at the end of memory, kTextBytes for each, and the parameters of a kernel's launch behind its program.
// The device runtime is the program of number kRuntimeText.
class InstructionFetch final : private SmUnit, public AccessClient, private EventHandler {
 public:
  static constexpr std::uint64_t kTextBytes = 1U << 20;
  static constexpr std::uint32_t kRuntimeText = 1023;
  struct Peers {
    WarpScheduler& scheduler;
    GlobalPath& global;
  };
  // `begin`, `end`: of the memory that is the SM's.
  InstructionFetch(const UnitContext& context, const std::string& path, std::uint64_t begin, std::uint64_t end,
                   const Peers& peers);

  // Either of the caches is there.
  bool any() const { return instructions_ || constants_; }
  // True: the warp's next operation is here, from `from` or, if that is later, from what is put there on. False: the
  // scheduler hears of it, and the warp waits.
  bool supplies(std::uint32_t slot, Cycle& from);
  // The same for an instruction of the device runtime, counted from 0, which a warp in the middle of a launch comes to.
  bool supplies_runtime(std::uint32_t slot, std::uint32_t instruction, Cycle& from);
  void reset();

  void access_ended(const Access& access, Cycle when) override { arrived(access.pc, when); }
  // What is wrong in memory there is nobody's data: the operation itself is known all the same.
  void access_lost(const Access& access, Cycle when) override { arrived(access.pc, when); }
  void access_failed(const Access&, std::uint32_t, std::uint64_t, Cycle) override {}

 private:
  enum Event : std::uint32_t { kInstructions, kConstants };  // argument: warp slot, and above it its fetch
  // What the warp needs: a line of that cache, under that key, at that address.
  struct Want {
    Event cache = kInstructions;
    std::uint64_t key = 0;
    std::uint64_t address = 0;
  };
  struct Waiter {
    std::uint32_t slot = 0;
    std::uint32_t fetch = 0;  // of the warp: another one means that it has gone
  };
  struct Read {
    Want want;
    std::vector<Waiter> waiters;
  };

  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  Want want(Event cache, const Warp& warp) const;
  LineCache& cache_of(Event cache) { return cache == kInstructions ? *instructions_ : *constants_; }
  bool finds(std::uint32_t slot, Event cache, Cycle& from);
  Read* under_way(const Want& its);
  void read(std::uint32_t slot, const Want& its, std::vector<Waiter> waiters);
  void arrived(std::uint32_t read, Cycle when);
  void serve(std::uint32_t slot, const Want& its, Cycle when);
  std::uint64_t address_of(std::uint32_t text, std::uint64_t offset) const;

  const std::uint64_t begin_;
  const std::uint64_t end_;
  Peers peers_;
  std::optional<LineCache> instructions_;
  std::optional<LineCache> constants_;
  std::optional<FetchStats> counts_;  // none without caches
  IndexPool<Read> reads_;             // under way
};

}  // namespace heddle::sm
