// The way of dirty sectors back to memory: the write buffer, and write_back of the whole slice.
#include <algorithm>

#include "common/error.h"
#include "memory/l2_core.h"

namespace heddle::memory {

std::uint32_t L2Core::oldest_of(std::uint64_t line) const {
  std::uint32_t oldest = kNone;
  if (entries_in_use_ == 0) return oldest;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (!entry.used || entry.line != line) continue;
    if (oldest == kNone || entry.order < entries_[oldest].order) oldest = i;
  }
  return oldest;
}

// Blocking accesses may need more entries than the write buffer has.
std::uint32_t L2Core::new_entry(std::uint64_t line) {
  std::uint32_t number = 0;
  while (number < entries_.size() && entries_[number].used) ++number;
  if (number == entries_.size()) entries_.emplace_back();
  Entry& entry = entries_[number];
  entry.line = line;
  entry.order = ++entry_order_;
  entry.used = true;
  entry.started = false;
  entry.answers = 0;
  ++entries_in_use_;
  return number;
}

// A copy of a dirty line, which is clean from now on.
std::uint32_t L2Core::entry_of(std::uint32_t index) {
  const std::uint32_t number = new_entry(array_.line_at(index));
  Entry& entry = entries_[number];
  entry.valid = array_.state(index).valid;
  entry.dirty = array_.state(index).dirty;
  std::copy_n(array_.data(index), arch::kLineBytes, entry.data.begin());
  array_.set_clean(index);
  return number;
}

void L2Core::start_entry(std::uint32_t number) {
  Entry& entry = entries_[number];
  if (entry.started || oldest_of(entry.line) != number) return;
  entry.started = true;
  const std::uint32_t partial = (LineMask::sectors(entry.dirty) & ~entry.valid).touched();
  if (partial == 0) {
    write_entry(number);
  } else {
    entry.answers = static_cast<std::uint8_t>(command_runs(Command::Kind::complete, partial, number, entry.line));
  }
}

void L2Core::write_entry(std::uint32_t number) {
  Entry& entry = entries_[number];
  if (entry.dirty == 0) {
    retire_entry(number);
    return;
  }
  counters_.write_backs.add(static_cast<std::uint64_t>(__builtin_popcount(entry.dirty)));
  entry.answers = static_cast<std::uint8_t>(command_runs(Command::Kind::write, entry.dirty, number, entry.line));
}

void L2Core::answer_entry(const Command& command, int status, const std::uint8_t* data) {
  Entry& entry = entries_[command.owner];
  HEDDLE_CHECK(entry.used && entry.line == command.line && entry.answers > 0,
               "memory answers a write-back that is not under way");
  const std::uint32_t sectors = command.mask();
  if (status != kOk) write_failed(entry, status);
  if (!command.is_write()) {
    if (status == kOk) {
      copy_bytes(entry.data.data(), data, LineMask::sectors(sectors) & ~entry.valid);
      entry.valid = entry.valid | LineMask::sectors(sectors);
    } else {
      entry.dirty = static_cast<std::uint8_t>(entry.dirty & ~sectors);  // without the rest it cannot be written
    }
  }
  if (--entry.answers != 0) return;
  if (command.is_write()) {
    retire_entry(command.owner);
  } else {
    write_entry(command.owner);
  }
}

// What waited for it: the next write-back of the line, or else a fetch; and write_back requests.
void L2Core::retire_entry(std::uint32_t number) {
  const std::uint64_t line = entries_[number].line;
  entries_[number].used = false;
  --entries_in_use_;
  const std::uint32_t next = oldest_of(line);
  if (next != kNone) {
    start_entry(next);
  } else {
    const std::uint32_t index = array_.find(line);
    if (index != kNone && array_.state(index).mshr != 0) {
      const std::uint32_t owner = array_.state(index).mshr - 1U;
      const std::uint32_t deferred = mshrs_[owner].deferred;
      mshrs_[owner].deferred = 0;
      command_runs(Command::Kind::fetch, deferred, owner, line);
    }
  }
  go_on_flushing();
}

// The bytes are lost: nobody else waits for them.
void L2Core::write_failed(const Entry& entry, int status) {
  counters_.write_errors.add();
  if (!flushing_.empty() && (flush_cursor_ != kNone || entry.order <= flush_end_)) flush_status_ = status;
}

// write_back: writes that have been acknowledged before it came are in memory when it is answered (MEM-06).
L2Core::Outcome L2Core::flush(void* request) {
  if (flushing_.empty() && entries_in_use_ == 0 && array_.next_dirty(0) == kNone) return Outcome::done;
  if (!flushing_.empty()) {
    flush_next_.push_back(request);  // lines may have become dirty behind the cursor
    return Outcome::waits;
  }
  flushing_.push_back(request);
  flush_cursor_ = 0;
  flush_status_ = kOk;
  go_on_flushing();
  return Outcome::waits;
}

bool L2Core::writing_up_to(std::uint64_t order) const {
  if (entries_in_use_ == 0) return false;
  for (const Entry& entry : entries_) {
    if (entry.used && entry.order <= order) return true;
  }
  return false;
}

void L2Core::go_on_flushing() {
  while (!flushing_.empty()) {
    while (flush_cursor_ != kNone) {
      const std::uint32_t index = array_.next_dirty(flush_cursor_);
      if (index == kNone) {
        flush_cursor_ = kNone;
        flush_end_ = entry_order_;
        break;
      }
      if (entries_in_use_ >= config_.write_buffer) return;
      start_entry(entry_of(index));
      flush_cursor_ = index + 1;
    }
    if (writing_up_to(flush_end_)) return;
    L2Access access;
    access.kind = L2Access::Kind::write_back;
    for (void* request : flushing_) served_.push_back({request, flush_status_, access});
    flushing_.clear();
    flushing_.swap(flush_next_);
    flush_cursor_ = 0;
    flush_status_ = kOk;
  }
  flush_cursor_ = kNone;
}

}  // namespace heddle::memory
