// The banks of one pseudo-channel and the data bus that they share: which command may begin when.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "common/error.h"
#include "common/stats.h"
#include "memory/hbm_timing.h"

namespace heddle::memory {

enum class HbmCommand { activate, precharge, read, write, refresh };

// Sees every command of a channel, in the order in which they were decided: not always that of their times.
class HbmTrace {
 public:
  // refresh: `bank` is kAllBanks or the bank. row: of an activate, a read or a write.
  virtual void command(HbmCommand command, std::uint32_t bank, std::uint32_t row, HbmTick when) = 0;
  // Refresh commands that were issued on time while nothing else happened.
  virtual void refreshed_idle(std::uint64_t commands) = 0;
  static constexpr std::uint32_t kAllBanks = ~std::uint32_t{0};

 protected:
  ~HbmTrace() = default;
};

// Summed over channels.
struct HbmCounters : StatGroup {
  using StatGroup::StatGroup;
  Counter& row_hits = counter("row_hits", "accesses", "accesses to a row that was open");
  Counter& row_misses = counter("row_misses", "accesses", "accesses that opened a row of a closed bank");
  Counter& row_conflicts = counter("row_conflicts", "accesses", "accesses that closed another row first");
  Counter& activates = counter("activates", "commands", "rows that were opened");
  Counter& refreshes = counter("refreshes", "commands", "refresh commands, up to the last work of each channel");
  Counter& bus_turnarounds = counter("turn_rounds", "changes", "changes between reading and writing on a data bus");
  Counter& merged = counter("merged_writes", "lines", "writes that joined a waiting write to the same line");
  Counter& forwarded = counter("forwarded_reads", "lines", "reads that were answered from waiting writes");
};

class HbmBanks {
 public:
  static constexpr std::uint32_t kClosed = ~std::uint32_t{0};
  static constexpr std::uint32_t kNoBank = ~std::uint32_t{0};

  HbmBanks(const HbmTiming& timing, HbmCounters& counters, HbmTick first_refresh, HbmTrace* trace);

  std::uint32_t row_of(std::uint32_t bank) const { return banks_[bank].row; }
  // Accesses that were served since the row was opened.
  std::uint32_t row_hits_of(std::uint32_t bank) const { return banks_[bank].row_hits; }

  // When a row of the bank could be opened by commands that begin at `now` or later; without what all banks share.
  HbmTick bank_activate_time(std::uint32_t bank, HbmTick now) const {
    const Bank& state = banks_[bank];
    return state.row == kClosed ? std::max(now, state.activate) : std::max(now, state.precharge) + timing_->rp;
  }
  // The share of all banks: the bank group comes on top.
  HbmTick shared_activate_time() const { return std::max(next_activate_, window_[oldest_]); }
  HbmTick activate_time(std::uint32_t bank, HbmTick now) const {
    return std::max({bank_activate_time(bank, now), shared_activate_time(), groups_[bank & group_mask_].activate});
  }
  // Closes the open row, if there is one, and opens another at activate_time().
  void activate(std::uint32_t bank, std::uint32_t row, HbmTick now);

  // When the data bus is free for a column of that direction, and when an open bank can use it.
  HbmTick bus_free(bool write) const { return bus_free_[write]; }
  HbmTick column_time(std::uint32_t bank, bool write, HbmTick bus_free) const {
    return std::max({bus_free, banks_[bank].column, groups_[bank & group_mask_].column[write]});
  }
  // Issues a column command at a time from column_time(); returns the end of its data.
  HbmTick column(std::uint32_t bank, bool write, HbmTick when);

  HbmTick next_refresh() const { return next_refresh_; }
  // All commands from then on have to wait for the refresh; kNoTick if banks are refreshed one by one.
  HbmTick refresh_stall() const { return timing_->refresh == HbmRefresh::all_bank ? next_refresh_ : kNoTick; }
  // Issues the refreshes that are due before `until`; returns a mask of the banks whose rows they closed.
  std::uint64_t refresh(HbmTick until);

  void reset();

 private:
  struct Bank {
    std::uint32_t row = kClosed;
    std::uint32_t row_hits = 0;
    bool conflict = false;  // its row took the place of another
    HbmTick activate = 0;   // earliest, while closed
    HbmTick precharge = 0;  // earliest, while open
    HbmTick column = 0;     // earliest, while open
  };
  struct Group {
    HbmTick activate = 0;
    HbmTick column[2] = {0, 0};  // read, write
  };

  std::uint64_t refresh_all();
  std::uint64_t refresh_one();
  void note(HbmCommand command, std::uint32_t bank, std::uint32_t row, HbmTick when) {
    if (trace_ != nullptr) trace_->command(command, bank, row, when);
  }

  const HbmTiming* timing_;
  HbmCounters* counters_;
  HbmTrace* trace_;
  std::uint32_t group_mask_;
  HbmTick first_refresh_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  HbmTick next_activate_ = 0;
  static constexpr std::uint32_t kWindow = 4;
  std::array<HbmTick, kWindow> window_{};  // tFAW: until when each of the last four activates keeps another one off
  std::uint32_t oldest_ = 0;
  HbmTick bus_free_[2] = {0, 0};
  bool last_write_ = false;
  HbmTick next_refresh_;
  std::uint32_t refresh_bank_ = 0;
};

}  // namespace heddle::memory
