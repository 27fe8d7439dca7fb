#include "memory/hbm_timing.h"

#include <cmath>

namespace heddle::memory {

namespace {

constexpr HbmTable kTables[] = {
    {"hbm2e", 64, 4, 4, 1024, 32, 2, 14, 14, 34, 14, 4, 6, 16, 4, 6, 16, 6, 8, 2, 350, 160, 3900},
    {"hbm3", 32, 8, 4, 1024, 32, 2, 14, 14, 34, 14, 4, 6, 16, 4, 6, 16, 6, 8, 2, 350, 160, 3900},
    {"hbm3e", 32, 8, 4, 1024, 32, 2, 14, 14, 34, 14, 4, 6, 16, 4, 6, 16, 6, 8, 2, 350, 160, 3900},
};

}  // namespace

const HbmTable& table_of(HbmStandard standard) { return kTables[static_cast<std::size_t>(standard)]; }

HbmTiming::HbmTiming(const HbmParams& params, double cycle_ns) {
  const HbmTable& t = table_of(params.standard);
  // Least times are rounded up; the bandwidth must not be.
  const auto least = [cycle_ns](double ns) {
    return static_cast<HbmTick>(std::ceil(ns / cycle_ns * static_cast<double>(kTicksPerCycle)));
  };
  const double burst = t.burst_bytes * 8.0 / (t.pins * params.pin_rate);
  const double bursts = params.access_bytes / static_cast<double>(t.burst_bytes);
  const double data = bursts * burst;

  groups = t.groups;
  banks = t.groups * t.banks_per_group;
  row_bytes = t.row_bytes;
  access_bytes = params.access_bytes;
  access = static_cast<HbmTick>(std::llround(data / cycle_ns * static_cast<double>(kTicksPerCycle)));
  access_long = access * t.ccd_long;
  rcd = least(t.rcd);
  rp = least(t.rp);
  ras = least(t.ras);
  rrd_short = least(t.rrd_short);
  rrd_long = least(t.rrd_long);
  faw = least(t.faw);
  read_data = least(t.cl + data);
  read_to_pre = least(t.rtp + data - burst);
  write_to_pre = least(t.cwl + data + t.wr);
  read_to_write = least(t.cl + data + t.turn - t.cwl);
  write_to_read = least(t.cwl + data + t.wtr_short);
  write_to_read_long = least(t.cwl + data + t.wtr_long);
  refresh = params.refresh;
  rfc = least(params.refresh == HbmRefresh::per_bank ? t.rfc_bank : t.rfc);
  const double interval = t.refi / params.refresh_rate / (params.refresh == HbmRefresh::per_bank ? banks : 1.0);
  refi = static_cast<HbmTick>(interval / cycle_ns * static_cast<double>(kTicksPerCycle));  // never later
}

}  // namespace heddle::memory
