#include "memory/l2_write_buffer.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::memory {

std::uint32_t L2WriteBuffer::oldest_of(std::uint64_t line) const {
  std::uint32_t oldest = kNone;
  if (empty()) return oldest;
  entries_.for_each([&](const Entry& entry) {
    if (entry.line == line && (oldest == kNone || entry.order < entries_[oldest].order)) oldest = entry.number;
  });
  return oldest;
}

bool L2WriteBuffer::holds_up_to(std::uint64_t order) const {
  bool found = false;
  if (empty()) return found;
  entries_.for_each([&](const Entry& entry) { found = found || entry.order <= order; });
  return found;
}

std::uint32_t L2WriteBuffer::take(std::uint64_t line, const LineMask& valid, std::uint32_t dirty,
                                  const SectorOwners& writers, const std::uint8_t* image) {
  const std::uint32_t number = entries_.take();
  Entry& entry = entries_[number];
  entry.number = number;
  entry.line = line;
  entry.order = ++last_order_;
  entry.valid = valid;
  entry.writers = writers;
  entry.dirty = static_cast<std::uint8_t>(dirty);
  entry.answers = 0;
  entry.started = false;
  std::copy_n(image, arch::kLineBytes, entry.data.begin());
  return number;
}

std::uint32_t L2WriteBuffer::take(L2Array& array, std::uint32_t index) {
  const L2Line& state = array.state(index);
  const std::uint32_t number = take(array.line_at(index), state.valid, state.dirty, state.writers, array.data(index));
  array.set_clean(index);
  return number;
}

void L2WriteBuffer::start(std::uint32_t number) {
  Entry& entry = entries_[number];
  if (entry.started || oldest_of(entry.line) != number) return;
  entry.started = true;
  const std::uint32_t missing = partial(entry);
  if (missing == 0) {
    write(entry);
  } else {
    entry.answers = static_cast<std::uint8_t>(
        commands_.push_runs(L2Command::Kind::complete, missing, entry.writers, {}, number, entry.line));
  }
}

void L2WriteBuffer::write(Entry& entry) {
  if (entry.dirty == 0) {
    retire(entry.number);
    return;
  }
  counters_.count_written(entry.writers, entry.dirty);
  entry.answers = static_cast<std::uint8_t>(
      commands_.push_runs(L2Command::Kind::write, entry.dirty, entry.writers, {}, entry.number, entry.line));
}

// Bytes that are valid already are newer than memory's.
void L2WriteBuffer::complete(Entry& entry, std::uint32_t sectors, const std::uint8_t* image) {
  copy_bytes(entry.data.data(), image, LineMask::sectors(sectors) & ~entry.valid);
  entry.valid = entry.valid | LineMask::sectors(sectors);
}

void L2WriteBuffer::answer(const L2Command& command, int status, const std::uint8_t* data) {
  Entry& entry = entries_[command.owner];
  HEDDLE_CHECK(entry.line == command.line && entry.answers > 0, "memory answers a write-back that is not under way");
  if (status != kL2Ok) fail(entry, status);
  if (!command.is_write()) {
    if (status == kL2Ok) {
      complete(entry, command.mask(), data);
      counters_.count_completed(entry.writers, command.mask());
    } else {
      entry.dirty = static_cast<std::uint8_t>(entry.dirty & ~command.mask());  // it cannot be written without the rest
    }
  }
  if (--entry.answers != 0) return;
  if (command.is_write()) {
    retire(command.owner);
  } else {
    write(entry);
  }
}

void L2WriteBuffer::fail(const Entry& entry, int status) {
  counters_.write_errors.add();
  listener_.write_back_failed(entry.order, status);
}

void L2WriteBuffer::retire(std::uint32_t number) {
  const std::uint64_t line = entries_[number].line;
  entries_.give_back(number);
  const std::uint32_t next = oldest_of(line);
  if (next != kNone) start(next);
  listener_.write_back_done(line, next == kNone);
}

// A call of the memory may suspend this one, and others may take entries meanwhile: references do not outlive it.
int L2WriteBuffer::write_blocking(std::uint32_t number, L2Memory& memory) {
  const std::uint64_t line = entries_[number].line;
  if (oldest_of(line) != number) return kL2Ok;
  entries_[number].started = true;
  int result = kL2Ok;
  std::uint32_t missing = partial(entries_[number]);
  std::uint32_t dirty = entries_[number].dirty;
  while (missing != 0) {
    const SectorRun run = take_run(missing);
    std::array<std::uint8_t, arch::kLineBytes> image{};
    const int status = memory.read(line, run.first, run.count, image.data());
    if (status == kL2Ok) {
      complete(entries_[number], run.mask(), image.data());
      counters_.count_read(entries_[number].writers, {}, run.mask());
    } else {
      dirty &= ~run.mask();
      result = status;
      fail(entries_[number], status);
    }
  }
  while (dirty != 0) {
    const SectorRun run = take_run(dirty);
    const std::array<std::uint8_t, arch::kLineBytes> image = entries_[number].data;
    const int status = memory.write(line, run.first, run.count, image.data());
    counters_.count_written(entries_[number].writers, run.mask());
    if (status == kL2Ok) continue;
    result = status;
    fail(entries_[number], status);
  }
  retire(number);
  return result;
}

LineMask L2WriteBuffer::overlay(std::uint64_t line, std::uint8_t* image) const {
  LineMask covered;
  if (empty()) return covered;
  std::uint64_t done = 0;
  while (true) {  // in the order of their age: the youngest counts
    const Entry* next = nullptr;
    entries_.for_each([&](const Entry& entry) {
      if (entry.line != line || entry.order <= done) return;
      if (next == nullptr || entry.order < next->order) next = &entry;
    });
    if (next == nullptr) return covered;
    copy_bytes(image, next->data.data(), next->valid);
    covered = covered | next->valid;
    done = next->order;
  }
}

void L2WriteBuffer::poke(std::uint64_t line, const std::uint8_t* image, const LineMask& bytes) {
  entries_.for_each([&](Entry& entry) {
    if (entry.line != line) return;
    copy_bytes(entry.data.data(), image, bytes);
    entry.valid = entry.valid | bytes;
  });
}

void L2WriteBuffer::reset() {
  entries_.clear();
  last_order_ = 0;
}

void L2Invalidation::begin() {
  ++number_;
  for (std::uint32_t index = 0; index < array_.lines(); ++index) {
    if (!array_.occupied(index)) continue;
    const std::uint16_t mshr = array_.state(index).mshr;
    if (mshr == 0) {
      array_.drop_clean(index);
    } else if (!mshrs_[mshr - 1U].stale) {
      mshrs_[mshr - 1U].stale = true;
      ++fetches_;
    }
  }
}

bool L2Invalidation::begin(const L2Access& access, void* request) {
  begin();
  if (fetches_ == 0) return false;
  waiting_.push_back({request, kL2Ok, access});
  return true;
}

void L2Invalidation::fetched(std::uint32_t index) {
  array_.drop_clean(index);
  if (--fetches_ > 0) return;
  served_.insert(served_.end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
}

void L2Invalidation::reset() {
  waiting_.clear();
  fetches_ = 0;
}

}  // namespace heddle::memory
