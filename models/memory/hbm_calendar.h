// A pseudo-channel as calendars, for accesses that are calls (MEM-02, HST-03): banks with the rows that they have open
// or will have, and the data bus. Plain C++.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <tlm>

#include "common/range_target.h"
#include "common/reservation.h"
#include "memory/hbm_banks.h"
#include "memory/hbm_channel.h"

namespace heddle::memory {

// A link that counts in ticks.
class HbmLink {
 public:
  HbmLink() : link_(static_cast<double>(kTicksPerCycle)) {}
  // The tick at which something begins that wants to at `when`, and takes so many.
  HbmTick take(HbmTick when, HbmTick ticks) {
    const Cycle begin = link_.take(when / kTicksPerCycle, static_cast<std::uint32_t>(ticks));
    return std::max<HbmTick>(when, begin * kTicksPerCycle);
  }
  void reset() { link_.reset(); }

 private:
  ReservedLink link_;
};

// The turns of reads where writes wait for the bus as well: a read that comes while only writes are served goes first.
// One that finds it being served waits for a batch of writes, and so do those that come meanwhile: a batch of reads
// then has the bus, or as many as there are.
class ReadTurns {
 public:
  explicit ReadTurns(std::uint32_t batch) : batch_(batch) {}
  // A read that came at `asked` wants to begin at `when`, and takes so many ticks; a batch of writes takes `writes`.
  HbmTick take(HbmTick asked, HbmTick when, HbmTick ticks, HbmTick writes) {
    if (asked >= end_) {
      left_ = 0;
      end_ = when;
    } else if (left_ > 0) {
      --left_;
    } else {
      left_ = batch_ - 1;
      end_ += writes;
    }
    const HbmTick begin = std::max(when, end_);
    end_ = begin + ticks;
    return begin;
  }
  void reset() { end_ = left_ = 0; }

 private:
  const std::uint32_t batch_;
  HbmTick end_ = 0;         // of the latest turn
  std::uint32_t left_ = 0;  // reads that it still takes
};

// Accesses come in the order of calls. A controller would serve what goes to a row as long as that is open: so an
// access finds its row open if an earlier one to it is served when this one comes, or later, whatever other rows of the
// bank others have asked for in between. Writes are collected, and change the direction of the bus once for as many as
// a batch has, if there are reads between them; one is answered when the queue has room for it. A read does not wait
// for writes that are to come, but for turns: it opens its row before theirs, and they have what is left.
class HbmCalendar {
 public:
  // All references must outlive it.
  HbmCalendar(const HbmTiming& timing, const HbmQueues& queues, HbmCounters& counters, HbmTick first_refresh);

  // So many accesses to a row, which come at `when`. Returns the end of a read's data, or when a write is taken in.
  HbmTick read(std::uint32_t bank, std::uint32_t row, std::uint32_t accesses, HbmTick when);
  HbmTick write(std::uint32_t bank, std::uint32_t row, std::uint32_t accesses, HbmTick when);
  void reset();

 private:
  // A row of a bank, from its activate on.
  struct Row {
    std::uint32_t row = HbmBanks::kClosed;
    HbmTick activate = 0;
    HbmTick column = 0;     // first one that is possible
    HbmTick last = 0;       // the last column that is served
    HbmTick last_read = 0;  // the same of reads
  };
  struct Bank {
    static constexpr std::size_t kRows = 4;
    std::array<Row, kRows> rows;
    std::size_t latest = 0;  // the row with the latest activate
    HbmTick closed = 0;      // nothing is activated before

    std::size_t open_at(HbmTick when) const;
    std::size_t victim() const;
  };

  Row& open(Bank& bank, std::uint32_t row, HbmTick when, bool read);
  void refresh(HbmTick when);

  const HbmTiming& timing_;
  HbmCounters& counters_;
  const HbmTick first_refresh_;
  const std::uint32_t batch_;  // writes
  const HbmTick turn_;         // of a write's part of a change of direction and back
  std::vector<Bank> banks_;
  std::vector<HbmLink> groups_[2];  // columns of reads and of writes, which do not wait for each other
  HbmLink activates_[2];            // the same
  HbmLink bus_;
  ReadTurns turns_;
  HbmTick next_refresh_;
  std::uint32_t refresh_bank_ = 0;
  std::uint32_t since_read_ = 0;  // writes
  std::vector<HbmTick> written_;  // when those that the queue holds are written: a ring
  std::size_t oldest_ = 0;
};

// Sectors of the line at `line` that bytes [begin, end) of the payload's range touch, and those that they fill.
void find_sectors(const tlm::tlm_generic_payload& payload, std::uint64_t line, std::uint64_t begin, std::uint64_t end,
                  HbmAccess& access);

// Memory's answers to calls. Without calendars, an access takes what it takes alone.
class HbmCalls {
 public:
  // `request`, `response`: cycles of the ways. All references must outlive it.
  HbmCalls(const HbmMap& map, const HbmTiming& timing, Cycle request, Cycle response)
      : map_(map), timing_(timing), request_(request), response_(response) {}
  // One more channel has a calendar.
  void add(const HbmQueues& queues, HbmCounters& counters, HbmTick first_refresh) {
    channels_.emplace_back(timing_, queues, counters, first_refresh);
    sectors_.push_back(0);
  }

  // The cycle of the answer. `good`: the access is none that was refused.
  Cycle serve(const tlm::tlm_generic_payload& payload, bool good, Cycle arrival);
  // The same of a read of sectors of a line.
  Cycle read_line(std::uint64_t line, std::uint32_t sectors, Cycle arrival);
  // Many lines. Each kTogether bytes count as if one row had all of them: whoever moves much takes whole rows.
  void serve(RangeMove& range);
  std::uint64_t sectors_of(std::uint32_t channel) const { return sectors_.empty() ? 0 : sectors_[channel]; }
  void reset();

 private:
  static constexpr std::uint32_t kTogether = 1024;

  HbmTick serve_lines(const tlm::tlm_generic_payload& payload, HbmTick when);
  HbmTick serve_line(std::uint64_t line, std::uint32_t sectors, bool write, HbmTick when);
  Cycle answered(HbmTick done) const { return (done + kTicksPerCycle - 1) / kTicksPerCycle + response_; }

  const HbmMap& map_;
  const HbmTiming& timing_;
  const Cycle request_;
  const Cycle response_;
  std::vector<HbmCalendar> channels_;
  std::vector<std::uint64_t> sectors_;  // that each was asked for
};

}  // namespace heddle::memory
