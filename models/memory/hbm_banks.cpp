#include "memory/hbm_banks.h"

#include <algorithm>
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

HbmBanks::HbmBanks(const HbmTiming& timing, HbmCounters& counters, HbmTick first_refresh, HbmTrace* trace)
    : timing_(&timing),
      counters_(&counters),
      trace_(trace),
      group_mask_(timing.groups - 1),
      first_refresh_(timing.refresh == HbmRefresh::off ? kNoTick : first_refresh),
      banks_(timing.banks),
      groups_(timing.groups),
      next_refresh_(first_refresh_) {
  HEDDLE_CHECK(timing.banks <= 64, "a channel has more banks than its masks have bits");
}

void HbmBanks::activate(std::uint32_t bank, std::uint32_t row, HbmTick now) {
  const HbmTick when = activate_time(bank, now);
  Bank& state = banks_[bank];
  state.conflict = state.row != kClosed;
  if (state.conflict) note(HbmCommand::precharge, bank, state.row, std::max(now, state.precharge));
  note(HbmCommand::activate, bank, row, when);
  state.row = row;
  state.row_hits = 0;
  state.precharge = when + timing_->ras;
  state.column = when + timing_->rcd;
  groups_[bank & group_mask_].activate = when + timing_->rrd_long;
  next_activate_ = when + timing_->rrd_short;
  window_[oldest_] = when + timing_->faw;
  oldest_ = (oldest_ + 1) % kWindow;
  counters_->activates.add();
}

HbmTick HbmBanks::column(std::uint32_t bank, bool write, HbmTick when) {
  const HbmTiming& t = *timing_;
  Bank& state = banks_[bank];
  Group& group = groups_[bank & group_mask_];
  note(write ? HbmCommand::write : HbmCommand::read, bank, state.row, when);
  bus_free_[write] = when + t.access;
  group.column[write] = when + t.access_long;
  if (write) {
    bus_free_[0] = std::max(bus_free_[0], when + t.write_to_read);
    group.column[0] = std::max(group.column[0], when + t.write_to_read_long);
    state.precharge = std::max(state.precharge, when + t.write_to_pre);
  } else {
    bus_free_[1] = std::max(bus_free_[1], when + t.read_to_write);
    state.precharge = std::max(state.precharge, when + t.read_to_pre);
  }
  if (write != last_write_) counters_->bus_turnarounds.add();
  last_write_ = write;
  (state.row_hits != 0 ? counters_->row_hits : state.conflict ? counters_->row_conflicts : counters_->row_misses).add();
  ++state.row_hits;
  return when + t.read_data;
}

std::uint64_t HbmBanks::refresh(HbmTick until) {
  std::uint64_t closed = 0;
  const bool all = timing_->refresh == HbmRefresh::all_bank;
  // Every bank once; what is due after that was issued on time, to banks that had nothing else to do.
  for (std::uint32_t commands = all ? 1 : timing_->banks; next_refresh_ < until && commands > 0; --commands)
    closed |= all ? refresh_all() : refresh_one();
  if (next_refresh_ >= until) return closed;
  const std::uint64_t missed = (until - 1 - next_refresh_) / timing_->refi + 1;
  next_refresh_ += missed * timing_->refi;
  refresh_bank_ = static_cast<std::uint32_t>((refresh_bank_ + missed) % timing_->banks);
  counters_->refreshes.add(missed);
  if (trace_ != nullptr) trace_->refreshed_idle(missed);
  // The latest of them may still be at work.
  for (std::uint32_t back = 1; back <= (all ? 1 : timing_->banks) && back <= missed; ++back) {
    const HbmTick free = next_refresh_ - back * timing_->refi + timing_->rfc;
    if (!all) {
      Bank& bank = banks_[(refresh_bank_ + timing_->banks - back) % timing_->banks];
      bank.activate = std::max(bank.activate, free);
      continue;
    }
    for (Bank& bank : banks_) bank.activate = std::max(bank.activate, free);
  }
  return closed;
}

std::uint64_t HbmBanks::refresh_all() {
  std::uint64_t closed = 0;
  HbmTick precharge = next_refresh_;
  HbmTick begin = next_refresh_;
  for (std::uint32_t bank = 0; bank < banks_.size(); ++bank) {
    if (banks_[bank].row == kClosed) {
      begin = std::max(begin, banks_[bank].activate);
    } else {
      closed |= std::uint64_t{1} << bank;
      precharge = std::max(precharge, banks_[bank].precharge);
    }
  }
  if (closed != 0) {
    note(HbmCommand::precharge, HbmTrace::kAllBanks, 0, precharge);
    begin = std::max(begin, precharge + timing_->rp);
  }
  note(HbmCommand::refresh, HbmTrace::kAllBanks, 0, begin);
  for (Bank& bank : banks_) {
    bank.row = kClosed;
    bank.activate = begin + timing_->rfc;
  }
  counters_->refreshes.add();
  next_refresh_ += timing_->refi;
  return closed;
}

std::uint64_t HbmBanks::refresh_one() {
  const std::uint32_t index = refresh_bank_;
  Bank& bank = banks_[index];
  const std::uint64_t closed = bank.row == kClosed ? 0 : std::uint64_t{1} << index;
  HbmTick begin = std::max(next_refresh_, bank.activate);
  if (closed != 0) {
    const HbmTick precharge = std::max(next_refresh_, bank.precharge);
    note(HbmCommand::precharge, index, bank.row, precharge);
    begin = precharge + timing_->rp;
  }
  note(HbmCommand::refresh, index, 0, begin);
  bank.row = kClosed;
  bank.activate = begin + timing_->rfc;
  counters_->refreshes.add();
  next_refresh_ += timing_->refi;
  refresh_bank_ = (index + 1) % timing_->banks;
  return closed;
}

void HbmBanks::reset() {
  std::fill(banks_.begin(), banks_.end(), Bank{});
  std::fill(groups_.begin(), groups_.end(), Group{});
  next_activate_ = 0;
  window_.fill(0);
  oldest_ = 0;
  bus_free_[0] = bus_free_[1] = 0;
  last_write_ = false;
  next_refresh_ = first_refresh_;
  refresh_bank_ = 0;
}

}  // namespace heddle::memory
