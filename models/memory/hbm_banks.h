// The banks of one pseudo-channel and the data bus that they share: which command may begin when.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "arch/address_map.h"
#include "common/bits.h"
#include "common/error.h"
#include "common/stats.h"
#include "memory/memory_params.h"

namespace heddle::memory {

// Timings of the memory part: a table per standard in nanoseconds, and the same in fractions of a cycle.

// Times of a channel are in 1/1024 of a cycle, so that bandwidths are exact though bursts do not take whole cycles.
using HbmTick = std::uint64_t;
constexpr HbmTick kTicksPerCycle = 1024;
constexpr HbmTick kNoTick = ~HbmTick{0};

// Of a pseudo-channel, in nanoseconds unless said otherwise. docs/memory.md says where the numbers come from.
struct HbmTable {
  const char* name;
  std::uint32_t pins;
  std::uint32_t groups;           // bank groups; those of several stack levels count separately
  std::uint32_t banks_per_group;  // groups and banks are powers of two, 64 banks at most
  std::uint32_t row_bytes;
  std::uint32_t burst_bytes;  // of one column command
  std::uint32_t ccd_long;     // column to column inside a bank group, in bursts; 1 between bank groups
  double rcd;                 // activate to column
  double rp;                  // precharge to activate
  double ras;                 // activate to precharge
  double cl;                  // read to its data
  double cwl;                 // write to its data
  double rtp;                 // read to precharge
  double wr;                  // end of written data to precharge
  double rrd_short;           // activate to activate
  double rrd_long;            // the same inside a bank group
  double faw;                 // window of four activates
  double wtr_short;           // end of written data to read
  double wtr_long;            // the same inside a bank group
  double turn;                // the bus stays free between read and written data
  double rfc;                 // refresh of all banks
  double rfc_bank;            // refresh of one bank
  double refi;                // average interval in which every bank is refreshed, at a refresh_rate of 1
};
const HbmTable& table_of(HbmStandard standard);

// The same for accesses of params.access_bytes, which are one or more bursts from one row, in ticks.
struct HbmTiming {
  HbmTiming(const HbmParams& params, double cycle_ns);

  std::uint32_t groups;
  std::uint32_t banks;
  std::uint32_t row_bytes;
  std::uint32_t access_bytes;
  HbmTick access;       // data of one access on the bus
  HbmTick access_long;  // column to column inside a bank group
  HbmTick rcd;
  HbmTick rp;
  HbmTick ras;
  HbmTick rrd_short;
  HbmTick rrd_long;
  HbmTick faw;
  HbmTick read_data;  // column command to the end of its data
  HbmTick read_to_pre;
  HbmTick write_to_pre;
  HbmTick read_to_write;
  HbmTick write_to_read;
  HbmTick write_to_read_long;
  HbmRefresh refresh;
  HbmTick rfc;   // of what one refresh command covers
  HbmTick refi;  // between refresh commands of the channel

  // A read of one access that meets a closed row and an idle channel.
  HbmTick unloaded() const { return rcd + read_data; }
};

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

// Which channel, bank and row hold an address.
struct DecodedAddress {
  std::uint32_t channel = 0;
  std::uint32_t bank = 0;  // its group: bank % groups
  std::uint32_t row = 0;
  std::uint64_t line = 0;  // number in the channel
};

// Chunks of `interleave` bytes are dealt to channels: every run of as many consecutive chunks as there are channels has
// one in each, and a hash turns the order from row to row. Inside a channel, rows are dealt to banks, bank groups
// first, and the bank is XORed with a hash of the row. So streams and strides of powers of two spread over both, and
// the lines of a chunk share a row. Memory of an instance is dealt to its own channels alone, in the same way (PRT-11);
// what lies behind the memories of instances has rows behind theirs.
//
// Or channels belong to slices of the L2 (belong_to()): the lines of a slice, in the order in which it counts them,
// fill rows of its own, and these are dealt in the same way to the channels that are its own. Where one number is no
// multiple of the other, as many slices as it takes share as many channels: 80 slices and 192 channels are 16 groups of
// 5 and 12. Their rows take turns, so that every row has lines of one slice only, if `interleave` is a row.
class HbmMap {
 public:
  static constexpr std::uint32_t kLineBytes = 128;

  // interleave and row_bytes: powers of two, interleave from a line to a row; banks: a power of two
  HbmMap(std::uint32_t channels, std::uint32_t banks, std::uint32_t row_bytes, std::uint64_t interleave)
      : channels_(channels),
        bank_bits_(log2_of(banks)),
        chunk_bits_(log2_of(interleave)),
        row_bits_(log2_of(row_bytes)) {
    HEDDLE_CHECK(channels > 0 && interleave >= kLineBytes && interleave <= row_bytes,
                 "an interleave that no row holds");
  }

  std::uint32_t channels() const { return channels_; }
  // From now on a channel has lines of its slices alone.
  void belong_to(const arch::AddressMap& slices) {
    slices_ = slices;
    const std::uint32_t groups = std::gcd(slices.slices(), channels_);
    group_slices_ = slices.slices() / groups;
    group_channels_ = channels_ / groups;
  }
  // Consecutive lines of a slice that share a row; 1 if rows have lines of all slices.
  std::uint32_t row_lines() const { return slices_ ? (1U << row_bits_) / kLineBytes : 1; }
  // Memory [begin, end), multiples of a row, lies in those channels alone. Parts follow each other from address 0 on.
  void add_part(std::uint64_t begin, std::uint64_t end, std::vector<std::uint32_t> channels) {
    const std::uint64_t held = (end - begin + channels.size() - 1) / channels.size();  // by each of them
    parts_.push_back({begin, end, std::move(channels)});
    most_held_ = std::max(most_held_, held);
    // The rest begins where no channel has anything of a part.
    const std::uint64_t rows = (most_held_ >> row_bits_) + 1;
    shift_ = std::max(end, (rows << row_bits_) * channels_) - end;
  }

  DecodedAddress decode(std::uint64_t address) const {
    if (slices_) return decode_of_slice(address);
    for (const Part& part : parts_) {
      if (address >= part.end || address < part.begin) continue;
      DecodedAddress decoded = deal(address - part.begin, static_cast<std::uint32_t>(part.channels.size()));
      decoded.channel = part.channels[decoded.channel];
      return decoded;
    }
    return deal(address + shift_, channels_);
  }

 private:
  // Of an instance.
  struct Part {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::vector<std::uint32_t> channels;
  };

  DecodedAddress decode_of_slice(std::uint64_t address) const {
    const arch::AddressMap::Place place = slices_->place_of(address);
    const std::uint64_t in_slice = place.number * kLineBytes + address % kLineBytes;
    const std::uint64_t row = (in_slice >> row_bits_) * group_slices_ + place.slice % group_slices_;
    const std::uint64_t in_row = in_slice & ((std::uint64_t{1} << row_bits_) - 1);
    DecodedAddress decoded = deal(row << row_bits_ | in_row, group_channels_);
    decoded.channel += place.slice / group_slices_ * group_channels_;
    return decoded;
  }

  DecodedAddress deal(std::uint64_t address, std::uint32_t channels) const {
    const std::uint64_t chunk = address >> chunk_bits_;
    const std::uint64_t run = chunk / channels;
    // Chunks that share a row stay in the same channel.
    const std::uint64_t turn = hash(run >> (row_bits_ - chunk_bits_)) >> 32;
    DecodedAddress decoded;
    decoded.channel = static_cast<std::uint32_t>((chunk - run * channels + turn) % channels);
    const std::uint64_t local = run << chunk_bits_ | (address & ((std::uint64_t{1} << chunk_bits_) - 1));
    decoded.line = local / kLineBytes;
    const std::uint64_t row = local >> row_bits_;
    const std::uint64_t high = row >> bank_bits_;
    const std::uint64_t banks = std::uint64_t{1} << bank_bits_;
    decoded.bank = static_cast<std::uint32_t>((row ^ hash(high) >> 32) & (banks - 1));
    decoded.row = static_cast<std::uint32_t>(high);
    return decoded;
  }

  static std::uint64_t hash(std::uint64_t value) {
    value *= 0x9E37'79B9'7F4A'7C15U;
    return value ^ value >> 29;
  }
  static std::uint32_t log2_of(std::uint64_t value) {
    HEDDLE_CHECK(value != 0 && (value & (value - 1)) == 0, "not a power of two");
    return bits::highest(value);
  }

  std::uint32_t channels_;
  std::uint32_t bank_bits_;
  std::uint32_t chunk_bits_;
  std::uint32_t row_bits_;
  std::vector<Part> parts_;  // none without instances
  std::uint64_t most_held_ = 0;
  std::uint64_t shift_ = 0;
  std::optional<arch::AddressMap> slices_;  // none: channels belong to all of them
  std::uint32_t group_slices_ = 1;          // that share channels
  std::uint32_t group_channels_ = 1;        // of these
};

}  // namespace heddle::memory
