// Replays the commands of a pseudo-channel against the standard's table, in nanoseconds: knows nothing of the
// scheduler.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "memory/hbm_banks.h"

namespace heddle::test {

class HbmChecker : public memory::HbmTrace {
 public:
  using Command = memory::HbmCommand;

  HbmChecker(const memory::HbmParams& params, double cycle_ns)
      : table_(memory::table_of(params.standard)),
        params_(params),
        tick_ns_(cycle_ns / 1024),
        burst_(table_.burst_bytes * 8.0 / table_.pins / params.pin_rate),
        data_(params.access_bytes * 8.0 / table_.pins / params.pin_rate) {}

  void command(Command command, std::uint32_t bank, std::uint32_t row, memory::HbmTick when) override {
    commands.push_back({command, bank, row, static_cast<double>(when) * tick_ns_});
  }
  void refreshed_idle(std::uint64_t count) override { idle_refreshes += count; }

  struct Entry {
    Command command;
    std::uint32_t bank;
    std::uint32_t row;
    double when;  // ns
  };

  // What is wrong with the commands so far.
  std::vector<std::string> verdict() {
    std::vector<Entry> sorted = commands;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) { return a.when < b.when; });
    banks_.assign(table_.groups * table_.banks_per_group, {});
    for (const Entry& entry : sorted) check(entry);
    return problems_;
  }
  std::uint64_t count(Command command) const {
    return static_cast<std::uint64_t>(std::count_if(
        commands.begin(), commands.end(), [command](const Entry& entry) { return entry.command == command; }));
  }

  std::vector<Entry> commands;
  std::uint64_t idle_refreshes = 0;

 private:
  static constexpr double kLongAgo = -1e9;
  struct Bank {
    bool open = false;
    std::uint32_t row = 0;
    double activate = kLongAgo;
    double precharge = kLongAgo;
    double read = kLongAgo;
    double write = kLongAgo;
    double refresh = kLongAgo;
  };

  void check(const Entry& e) {
    if (e.bank == kAllBanks) {
      for (std::uint32_t bank = 0; bank < banks_.size(); ++bank) {
        if (e.command == Command::precharge && !banks_[bank].open) continue;
        check_bank({e.command, bank, banks_[bank].row, e.when}, e.command == Command::refresh ? table_.rfc : 0);
      }
      return;
    }
    check_bank(e, table_.rfc_bank);
  }
  void check_bank(const Entry& e, double refresh_time) {
    Bank& bank = banks_[e.bank];
    switch (e.command) {
      case Command::activate:
        need(!bank.open, e, "the bank is open");
        least(e, bank.precharge, table_.rp, "tRP");
        least(e, bank.refresh, refresh_of(), "tRFC");
        least(e, last(activates_, 1), table_.rrd_short, "tRRD_S");
        least(e, last(activates_, 4), table_.faw, "tFAW");
        least(e, group_of(e, &Bank::activate), table_.rrd_long, "tRRD_L");
        activates_.push_back(e.when);
        bank.open = true;
        bank.row = e.row;
        bank.activate = e.when;
        break;
      case Command::precharge:
        need(bank.open, e, "the bank is closed");
        least(e, bank.activate, table_.ras, "tRAS");
        least(e, bank.read, table_.rtp + data_ - burst_, "tRTP");
        least(e, bank.write, table_.cwl + data_ + table_.wr, "tWR");
        bank.open = false;
        bank.precharge = e.when;
        break;
      case Command::refresh:
        need(!bank.open, e, "the bank is open");
        least(e, bank.precharge, table_.rp, "tRP");
        least(e, bank.refresh, refresh_time, "tRFC");
        bank.refresh = e.when;
        break;
      case Command::read:
      case Command::write:
        check_column(e, bank);
        break;
    }
  }
  void check_column(const Entry& e, Bank& bank) {
    const bool write = e.command == Command::write;
    need(bank.open && bank.row == e.row, e, "another row is open");
    least(e, bank.activate, table_.rcd, "tRCD");
    const double same = group_of(e, write ? &Bank::write : &Bank::read);
    least(e, same, table_.ccd_long * data_, "tCCD_L");
    if (!write) {
      least(e, last_write_, table_.cwl + data_ + table_.wtr_short, "tWTR_S");
      least(e, group_of(e, &Bank::write), table_.cwl + data_ + table_.wtr_long, "tWTR_L");
    }
    // The data bus.
    const double begin = e.when + (write ? table_.cwl : table_.cl);
    const double gap = write == bus_write_ ? 0 : table_.turn;
    need(begin >= bus_free_ + gap - slack_, e, "the data bus is not free");
    bus_free_ = begin + data_;
    bus_write_ = write;
    busy += data_;
    (write ? bank.write : bank.read) = e.when;
    if (write) last_write_ = e.when;
  }

  double refresh_of() const { return params_.refresh == memory::HbmRefresh::all_bank ? table_.rfc : table_.rfc_bank; }
  double group_of(const Entry& e, double Bank::*member) const {
    double latest = kLongAgo;
    for (std::uint32_t bank = e.bank % table_.groups; bank < banks_.size(); bank += table_.groups)
      latest = std::max(latest, banks_[bank].*member);
    return latest;
  }
  static double last(const std::vector<double>& times, std::size_t back) {
    return times.size() < back ? kLongAgo : times[times.size() - back];
  }
  void least(const Entry& e, double before, double ns, const char* what) {
    need(e.when - before >= ns - slack_, e, what);
  }
  void need(bool good, const Entry& e, const char* what) {
    if (good || problems_.size() > 20) return;
    static constexpr const char* kNames[] = {"activate", "precharge", "read", "write", "refresh"};
    problems_.push_back(fmt::format("{} of bank {} row {} at {:.3f} ns: {}", kNames[static_cast<int>(e.command)],
                                    e.bank, e.row, e.when, what));
  }

  const memory::HbmTable& table_;
  memory::HbmParams params_;
  double tick_ns_;
  double slack_ = 1.1 * tick_ns_;  // a burst is rounded to the nearest tick
  double burst_;
  double data_;
  std::vector<Bank> banks_;
  std::vector<double> activates_;
  double last_write_ = kLongAgo;
  double bus_free_ = kLongAgo;
  bool bus_write_ = false;
  std::vector<std::string> problems_;

 public:
  double busy = 0;  // ns of data on the bus, after verdict()
};

}  // namespace heddle::test
