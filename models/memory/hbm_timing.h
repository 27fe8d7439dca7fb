// Timings of the memory part: a table per standard in nanoseconds, and the same in fractions of a cycle.
#pragma once

#include <cstdint>

#include "memory/hbm_params.h"

namespace heddle::memory {

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

}  // namespace heddle::memory
