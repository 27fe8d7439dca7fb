#include "memory/l2_core.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::memory {

L2Core::L2Core(const L2Config& config, const L2Counters& counters)
    : config_(config), counters_(counters), array_(config.lines, config.ways, config.slices) {
  HEDDLE_CHECK(config.mshrs > 0 && config.mshrs < 0xFFFF && config.waiters > 0 && config.write_buffer > 0,
               "an L2 slice cannot work without miss-status registers, waiters and a write buffer");
  reset();
}

void L2Core::reset() {
  array_.reset();
  mshrs_.assign(config_.mshrs, Mshr());
  free_mshrs_.clear();
  for (std::uint32_t i = config_.mshrs; i-- > 0;) free_mshrs_.push_back(i);
  waiters_.clear();
  free_waiter_ = kNone;
  waiters_in_use_ = 0;
  entries_.clear();
  entries_in_use_ = 0;
  entry_order_ = 0;
  commands_.clear();
  served_.clear();
  poisoned_.clear();
  flushing_.clear();
  flush_next_.clear();
  flush_cursor_ = kNone;
  flush_end_ = 0;
  flush_status_ = kOk;
}

L2Core::Outcome L2Core::stalls(Stall reason) {
  stall_ = reason;
  return Outcome::stalled;
}

bool L2Core::can_miss(const L2Access& access) {
  if (free_mshrs_.empty()) {
    stall_ = Stall::mshr;
  } else if (access.kind != L2Access::Kind::prefetch && waiters_in_use_ >= config_.waiters) {
    stall_ = Stall::waiter;
  } else {
    return true;
  }
  return false;
}

L2Core::Outcome L2Core::serve(const L2Access& access, void* request) {
  if (access.kind == L2Access::Kind::write_back) return flush(request);
  if (!access.bytes.any()) return Outcome::done;
  std::uint32_t index = array_.find(access.line);
  if (index != kNone && array_.state(index).mshr != 0) return join(access, index, request);
  const std::uint32_t missing = access.missing(index == kNone ? LineMask() : array_.state(index).valid);
  // Nothing is changed before everything that is needed is there.
  if (missing != 0 && !can_miss(access)) return Outcome::stalled;
  if (index == kNone) {
    index = array_.victim(access.line);
    if (index == kNone) return stalls(Stall::way);
    if (array_.occupied(index)) {
      if (array_.state(index).dirty != 0) {
        if (entries_in_use_ >= config_.write_buffer) return stalls(Stall::write_buffer);
        start_entry(entry_of(index));
      }
      array_.drop(index);
    }
    array_.place(index, access.line);
  }
  if (missing != 0) return miss(access, index, missing, request);
  counters_.hits.add();
  do_access(access, index);
  return Outcome::done;
}

void L2Core::do_access(const L2Access& access, std::uint32_t index) {
  array_.touch(index);
  if (!poisoned_.empty()) note_poison(access);
  if (!perform(access, array_.data(index))) return;
  L2Line& state = array_.state(index);
  state.valid = state.valid | access.bytes;
  array_.set_dirty(index, access.bytes.touched());
}

void L2Core::poison(std::uint64_t line, std::uint32_t sectors) {
  for (; sectors != 0; sectors &= sectors - 1) {
    const std::uint64_t sector = line * arch::kSectorsPerLine + static_cast<std::uint32_t>(__builtin_ctz(sectors));
    if (std::find(poisoned_.begin(), poisoned_.end(), sector) == poisoned_.end()) poisoned_.push_back(sector);
  }
}

bool L2Core::poisoned(std::uint64_t line, std::uint32_t sectors) const {
  return std::any_of(poisoned_.begin(), poisoned_.end(), [&](std::uint64_t sector) {
    return sector / arch::kSectorsPerLine == line && (sectors >> sector % arch::kSectorsPerLine & 1) != 0;
  });
}

void L2Core::note_poison(const L2Access& access) {
  if (access.kind == L2Access::Kind::prefetch) return;
  if (access.kind == L2Access::Kind::write) return cure(access.line, access.bytes);
  const std::uint32_t touched = access.bytes.touched();
  for (const std::uint64_t sector : poisoned_) {
    const bool wanted =
        sector / arch::kSectorsPerLine == access.line && (touched >> sector % arch::kSectorsPerLine & 1) != 0;
    if (wanted && access.extension != nullptr) access.extension->poisoned = true;
  }
}

void L2Core::cure(std::uint64_t line, const LineMask& written) {
  const auto is_new = [&](std::uint64_t sector) {
    const LineMask whole = LineMask::sectors(1U << sector % arch::kSectorsPerLine);
    return sector / arch::kSectorsPerLine == line && (written & whole) == whole;
  };
  poisoned_.erase(std::remove_if(poisoned_.begin(), poisoned_.end(), is_new), poisoned_.end());
}

L2Core::Outcome L2Core::miss(const L2Access& access, std::uint32_t index, std::uint32_t missing, void* request) {
  const std::uint32_t number = free_mshrs_.back();
  free_mshrs_.pop_back();
  Mshr& mshr = mshrs_[number];
  mshr = Mshr();
  mshr.index = index;
  array_.state(index).mshr = static_cast<std::uint16_t>(number + 1);
  array_.touch(index);
  fetch(number, missing);
  if (access.kind == L2Access::Kind::prefetch) return Outcome::done;
  append(mshr, access, request);
  return Outcome::waits;
}

// A line that is being fetched: behind those who wait for it already. What they have not asked for is fetched as well.
L2Core::Outcome L2Core::join(const L2Access& access, std::uint32_t index, void* request) {
  const std::uint32_t number = array_.state(index).mshr - 1U;
  Mshr& mshr = mshrs_[number];
  const std::uint32_t missing = access.missing(array_.state(index).valid);
  const std::uint32_t more = missing & ~std::uint32_t{mshr.pending};
  if (access.kind == L2Access::Kind::prefetch) {
    if (more != 0) fetch(number, more);
    return Outcome::done;
  }
  if (missing == 0 && mshr.first == kNone) {
    counters_.hits.add();
    do_access(access, index);
    return Outcome::done;
  }
  if (waiters_in_use_ >= config_.waiters) return stalls(Stall::waiter);
  if (more != 0) fetch(number, more);
  append(mshr, access, request);
  counters_.merges.add();
  return Outcome::waits;
}

void L2Core::append(Mshr& mshr, const L2Access& access, void* request) {
  std::uint32_t number = free_waiter_;
  if (number == kNone) {
    number = static_cast<std::uint32_t>(waiters_.size());
    waiters_.emplace_back();
  } else {
    free_waiter_ = waiters_[number].next;
  }
  waiters_[number] = {access, request, kNone};
  if (mshr.first == kNone) {
    mshr.first = number;
  } else {
    waiters_[mshr.last].next = number;
  }
  mshr.last = number;
  ++waiters_in_use_;
}

// A fetch must not overtake bytes that are on their way back to memory.
void L2Core::fetch(std::uint32_t number, std::uint32_t sectors) {
  Mshr& mshr = mshrs_[number];
  const std::uint64_t line = array_.line_at(mshr.index);
  mshr.pending = static_cast<std::uint8_t>(mshr.pending | sectors);
  if (oldest_of(line) != kNone) {
    mshr.deferred = static_cast<std::uint8_t>(mshr.deferred | sectors);
  } else {
    command_runs(Command::Kind::fetch, sectors, number, line);
  }
}

std::uint32_t L2Core::command_runs(Command::Kind kind, std::uint32_t sectors, std::uint32_t owner, std::uint64_t line) {
  std::uint32_t runs = 0;
  while (sectors != 0) {
    const auto first = static_cast<std::uint32_t>(__builtin_ctz(sectors));
    const auto count = static_cast<std::uint32_t>(__builtin_ctz(~(sectors >> first)));
    commands_.push({kind, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(count), owner, line});
    sectors &= ~(((1U << count) - 1) << first);
    ++runs;
  }
  return runs;
}

void L2Core::answer(const Command& command, int status, const std::uint8_t* data) {
  if (command.kind == Command::Kind::fetch) {
    fill(command, status, data);
  } else {
    answer_entry(command, status, data);
  }
}

// Bytes that are valid already are newer than memory's.
void L2Core::merge(std::uint32_t index, std::uint32_t sectors, const std::uint8_t* image) {
  L2Line& state = array_.state(index);
  const LineMask arrived = LineMask::sectors(sectors);
  copy_bytes(array_.data(index), image, arrived & ~state.valid);
  state.valid = state.valid | arrived;
}

void L2Core::fill(const Command& command, int status, const std::uint8_t* data) {
  Mshr& mshr = mshrs_[command.owner];
  const std::uint32_t sectors = command.mask();
  HEDDLE_CHECK((mshr.pending & sectors) == sectors && array_.line_at(mshr.index) == command.line,
               "memory answers a fetch that nobody waits for");
  mshr.pending = static_cast<std::uint8_t>(mshr.pending & ~sectors);
  if (status == kOk) {
    merge(mshr.index, sectors, data);
    counters_.fills.add(command.sectors);
  } else {
    mshr.status = status;
  }
  replay(command.owner);
}

// Serves the waiters of a line in their order, as far as its sectors are there. A waiter that needs a sector which is
// neither there nor on its way needs one that memory has refused.
void L2Core::replay(std::uint32_t number) {
  Mshr& mshr = mshrs_[number];
  L2Line& state = array_.state(mshr.index);
  while (mshr.first != kNone) {
    const std::uint32_t first = mshr.first;
    Waiter& waiter = waiters_[first];
    const std::uint32_t missing = waiter.access.missing(state.valid);
    const bool refused = (missing & ~std::uint32_t{mshr.pending}) != 0;
    if (missing != 0 && !refused) return;
    HEDDLE_CHECK(!refused || mshr.status != kOk, "a request waits for sectors that nobody fetches");
    if (!refused) do_access(waiter.access, mshr.index);
    served_.push_back({waiter.request, refused ? mshr.status : kOk, waiter.access});
    mshr.first = waiter.next;
    waiter.next = free_waiter_;
    free_waiter_ = first;
    --waiters_in_use_;
  }
  if (mshr.pending != 0) return;
  state.mshr = 0;
  free_mshrs_.push_back(number);
  if (!state.valid.any() && state.pinned == 0) array_.drop(mshr.index);  // memory has refused it
}

}  // namespace heddle::memory
