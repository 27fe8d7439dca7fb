#include "memory/hbm_calendar.h"

#include <algorithm>

#include "common/bits.h"

namespace heddle::memory {
namespace {

constexpr std::uint32_t kSectorBytes = 32;
constexpr std::uint32_t kSectors = HbmMap::kLineBytes / kSectorBytes;

// Of the payload's byte enables from index `from` to `to`.
std::uint64_t count_enabled(const tlm::tlm_generic_payload& payload, std::uint64_t from, std::uint64_t to) {
  const unsigned char* enables = payload.get_byte_enable_ptr();
  const std::uint64_t pattern = payload.get_byte_enable_length();
  std::uint64_t count = 0;
  if (to <= pattern) {
    for (std::uint64_t i = from; i < to; ++i) count += enables[i] == TLM_BYTE_ENABLED ? 1U : 0U;
  } else {
    for (std::uint64_t i = from; i < to; ++i) count += enables[i % pattern] == TLM_BYTE_ENABLED ? 1U : 0U;
  }
  return count;
}

}  // namespace

HbmCalendar::HbmCalendar(const HbmTiming& timing, const HbmQueues& queues, HbmCounters& counters, HbmTick first_refresh)
    : timing_(timing),
      counters_(counters),
      first_refresh_(timing.refresh == HbmRefresh::off ? kNoTick : first_refresh),
      batch_(std::max(1U, queues.write_high - queues.write_low)),
      turn_((timing.read_to_write + timing.write_to_read) / batch_),
      banks_(timing.banks),
      turns_(batch_),
      next_refresh_(first_refresh_),
      written_(queues.writes) {
  for (std::vector<HbmLink>& groups : groups_) groups.resize(timing.groups);
}

// The row behind which a read of that time opens its own, if that has not been closed: the latest but for those that
// writes alone will open. kRows: one of before these, about which nothing is known any more.
std::size_t HbmCalendar::Bank::open_at(HbmTick when) const {
  const auto counts = [&](const Row& row) { return row.activate <= when || row.last_read > 0; };
  if (counts(rows[latest])) return latest;
  std::size_t found = kRows;
  for (std::size_t i = 0; i < kRows; ++i) {
    if (!counts(rows[i])) continue;
    if (found == kRows || rows[i].activate > rows[found].activate) found = i;
  }
  return found;
}

// What is over first.
std::size_t HbmCalendar::Bank::victim() const {
  std::size_t found = kRows;
  for (std::size_t i = 0; i < kRows; ++i) {
    if (i == latest) continue;
    if (found == kRows || rows[i].last < rows[found].last) found = i;
  }
  return found;
}

void HbmCalendar::refresh(HbmTick when) {
  const auto close = [this](Bank& bank) {
    bank.closed = std::max(bank.closed, next_refresh_ + timing_.rfc);
    for (Row& row : bank.rows) {
      if (row.activate <= next_refresh_) row.row = HbmBanks::kClosed;
    }
  };
  while (next_refresh_ <= when) {
    counters_.refreshes.add();
    if (timing_.refresh == HbmRefresh::all_bank) {
      bus_.take(next_refresh_, timing_.rfc);
      for (Bank& bank : banks_) close(bank);
    } else {
      close(banks_[refresh_bank_]);
      refresh_bank_ = (refresh_bank_ + 1) % static_cast<std::uint32_t>(banks_.size());
    }
    next_refresh_ += timing_.refi;
  }
}

HbmCalendar::Row& HbmCalendar::open(Bank& bank, std::uint32_t number, HbmTick when, bool read) {
  const std::size_t at = read ? bank.open_at(when) : bank.latest;
  const Row* before = at == Bank::kRows ? nullptr : &bank.rows[at];
  const bool closed = before != nullptr && before->row == HbmBanks::kClosed;
  // The row before is closed on demand, behind its last column; for a read, behind the last read.
  HbmTick activate = std::max(when, bank.closed);
  if (before == nullptr) {  // some row is open, for long
    activate += timing_.rp;
  } else if (!closed) {
    const HbmTick last = read ? std::min(before->last, std::max(when, before->last_read)) : before->last;
    activate = std::max({activate, before->activate + timing_.ras, last + timing_.read_to_pre}) + timing_.rp;
  }
  for (std::size_t i = 0; i < Bank::kRows; ++i) {
    Row& row = bank.rows[i];
    if (row.row != number || (i != at && row.last < when)) continue;
    if (read && row.column > activate + timing_.rcd) continue;
    counters_.row_hits.add();
    return row;
  }
  (closed ? counters_.row_misses : counters_.row_conflicts).add();
  counters_.activates.add();
  const HbmTick apart = std::max(timing_.rrd_short, timing_.faw / 4);
  activate = activates_[read ? 0 : 1].take(activate, apart);
  const std::size_t place = bank.victim();
  if (activate >= bank.rows[bank.latest].activate) bank.latest = place;
  bank.rows[place] = {number, activate, activate + timing_.rcd, activate + timing_.rcd, 0};
  return bank.rows[place];
}

HbmTick HbmCalendar::read(std::uint32_t bank, std::uint32_t number, std::uint32_t accesses, HbmTick when) {
  refresh(when);
  since_read_ = 0;
  Row& row = open(banks_[bank], number, when, true);
  HbmTick column = std::max(when, row.column);
  column = groups_[0][bank % timing_.groups].take(column, accesses * timing_.access_long);
  const HbmTick ticks = accesses * timing_.access;
  const HbmTick left = bus_.take(column, ticks);
  if (left > column) {
    column = std::min(left, turns_.take(when, column, ticks, batch_ * (ticks + turn_)));
  }
  const HbmTick last = column + (accesses - 1) * timing_.access_long;
  row.last = std::max(row.last, last);
  row.last_read = std::max(row.last_read, last);
  return last + timing_.read_data;
}

HbmTick HbmCalendar::write(std::uint32_t bank, std::uint32_t number, std::uint32_t accesses, HbmTick when) {
  const HbmTick taken = std::max(when, written_[oldest_]);
  refresh(taken);
  const HbmTick turn = since_read_ < batch_ ? turn_ : 0;
  ++since_read_;
  Row& row = open(banks_[bank], number, taken, false);
  HbmTick column = std::max(taken, row.column);
  column = groups_[1][bank % timing_.groups].take(column, accesses * timing_.access_long);
  column = bus_.take(column, accesses * timing_.access + turn);
  row.last = std::max(row.last, column + (accesses - 1) * timing_.access_long);
  written_[oldest_] = column;
  oldest_ = (oldest_ + 1) % written_.size();
  return taken;
}

void HbmCalendar::reset() {
  std::fill(banks_.begin(), banks_.end(), Bank());
  for (std::vector<HbmLink>& groups : groups_) {
    for (HbmLink& group : groups) group.reset();
  }
  for (HbmLink& activates : activates_) activates.reset();
  bus_.reset();
  turns_.reset();
  next_refresh_ = first_refresh_;
  refresh_bank_ = 0;
  since_read_ = 0;
  std::fill(written_.begin(), written_.end(), 0);
  oldest_ = 0;
}

void find_sectors(const tlm::tlm_generic_payload& payload, std::uint64_t line, std::uint64_t begin, std::uint64_t end,
                  HbmAccess& access) {
  const std::uint64_t address = payload.get_address();
  const bool one_pass = payload.get_streaming_width() >= payload.get_data_length();
  const bool masked = payload.get_byte_enable_ptr() != nullptr;
  for (std::uint32_t sector = 0; sector < kSectors; ++sector) {
    const std::uint64_t low = line + sector * kSectorBytes;
    const std::uint64_t from = std::max(low, begin);
    const std::uint64_t to = std::min(low + kSectorBytes, end);
    if (from >= to) continue;
    const std::uint64_t bytes = masked && one_pass ? count_enabled(payload, from - address, to - address) : to - from;
    const auto bit = static_cast<std::uint8_t>(1U << sector);
    if (bytes > 0) access.sectors |= bit;
    if (bytes == kSectorBytes && (one_pass || !masked)) access.full |= bit;
  }
}

Cycle HbmCalls::serve(const tlm::tlm_generic_payload& payload, bool good, Cycle arrival) {
  HbmTick done = (arrival + request_) * kTicksPerCycle;
  if (good && !channels_.empty()) {
    done = serve_lines(payload, done);
  } else if (good && payload.is_read()) {
    done += timing_.unloaded();
  }
  return answered(done);
}

Cycle HbmCalls::read_line(std::uint64_t line, std::uint32_t sectors, Cycle arrival) {
  const HbmTick when = (arrival + request_) * kTicksPerCycle;
  return answered(channels_.empty() ? when + timing_.unloaded() : serve_line(line, sectors, false, when));
}

HbmTick HbmCalls::serve_line(std::uint64_t line, std::uint32_t sectors, bool write, HbmTick when) {
  const std::uint32_t together = std::max(1U, timing_.access_bytes / kSectorBytes);  // sectors
  const DecodedAddress place = map_.decode(line);
  sectors_[place.channel] += bits::count4(sectors);
  std::uint32_t accesses = 0;
  for (std::uint32_t first = 0; first < kSectors; first += together) {
    if ((sectors >> first & ((1U << together) - 1)) != 0) ++accesses;
  }
  HbmCalendar& channel = channels_[place.channel];
  return write ? channel.write(place.bank, place.row, accesses, when)
               : channel.read(place.bank, place.row, accesses, when);
}

// The end of the last. Of a streamed request, the range counts once.
HbmTick HbmCalls::serve_lines(const tlm::tlm_generic_payload& payload, HbmTick when) {
  const std::uint64_t begin = payload.get_address();
  const std::uint64_t end = begin + std::min(payload.get_data_length(), payload.get_streaming_width());
  HbmTick last = when;
  for (std::uint64_t line = begin / HbmMap::kLineBytes * HbmMap::kLineBytes; line < end; line += HbmMap::kLineBytes) {
    HbmAccess access;
    find_sectors(payload, line, begin, end, access);
    if (access.sectors == 0) continue;  // all disabled
    last = std::max(last, serve_line(line, access.sectors, !payload.is_read(), when));
  }
  return last;
}

void HbmCalls::serve(RangeMove& range) {
  const std::uint32_t parts = (range.bytes + kTogether - 1) / kTogether;
  Cycle first = kNever;
  Cycle last = 0;
  for (std::uint32_t part = 0; part < parts; ++part) {
    const HbmTick when = (range.time_of(part, parts) + request_) * kTicksPerCycle;
    HbmTick done = when + (range.write ? 0 : timing_.unloaded());
    if (!channels_.empty()) {
      const std::uint32_t bytes = std::min(range.bytes - part * kTogether, kTogether);
      const DecodedAddress place = map_.decode(range.address + std::uint64_t{part} * kTogether);
      sectors_[place.channel] += bytes / kSectorBytes;
      const std::uint32_t accesses = std::max(1U, bytes / timing_.access_bytes);
      HbmCalendar& channel = channels_[place.channel];
      if (range.write) {
        done = channel.write(place.bank, place.row, accesses, when);
      } else {  // when the first of them is there
        done = channel.read(place.bank, place.row, accesses, when) - (accesses - 1) * timing_.access_long;
      }
    }
    const Cycle answer = (done + kTicksPerCycle - 1) / kTicksPerCycle + response_;
    first = std::min(first, answer);
    last = std::max(last, answer);
  }
  range.last = std::max(last, range.last + (first - range.first));
  range.first = first;
}

void HbmCalls::reset() {
  for (HbmCalendar& channel : channels_) channel.reset();
  std::fill(sectors_.begin(), sectors_.end(), 0);
}

}  // namespace heddle::memory
