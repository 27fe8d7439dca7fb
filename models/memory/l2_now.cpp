// Accesses that are done at once: blocking ones, and those of a debugger.
//
// A memory may suspend the caller inside L2Memory, and another access may come in the meantime. So lines under way are
// pinned, and bytes under way to memory are entries of the write buffer, as everywhere.
#include <algorithm>

#include "common/error.h"
#include "memory/l2_core.h"

namespace heddle::memory {
namespace {

struct Run {
  std::uint32_t first;
  std::uint32_t count;
};

// Takes the lowest run of bits out of a mask.
Run take_run(std::uint32_t& sectors) {
  const auto first = static_cast<std::uint32_t>(__builtin_ctz(sectors));
  const auto count = static_cast<std::uint32_t>(__builtin_ctz(~(sectors >> first)));
  sectors &= ~(((1U << count) - 1) << first);
  return {first, count};
}

}  // namespace

int L2Core::serve_now(const L2Access& access, L2Memory& memory) {
  if (access.kind == L2Access::Kind::write_back) return flush_now(memory);
  if (!access.bytes.any()) return kOk;
  std::uint32_t index = array_.find(access.line);
  if (index == kNone) index = place_now(access.line, memory);
  if (index == kNone) return uncached_now(access, memory);
  const std::uint32_t missing = access.missing(array_.state(index).valid);
  if (missing != 0) {
    const int status = fetch_now(index, missing, memory);
    if (access.kind == L2Access::Kind::prefetch) return kOk;  // a hint: nobody waits
    if (status != kOk) return status;
  } else {
    counters_.hits.add();
  }
  do_access(access, index);
  return kOk;
}

std::uint32_t L2Core::place_now(std::uint64_t line, L2Memory& memory) {
  const std::uint32_t index = array_.victim(line);
  if (index == kNone) return kNone;
  const bool dirty = array_.state(index).dirty != 0;
  const std::uint32_t entry = dirty ? entry_of(index) : kNone;
  if (array_.occupied(index)) array_.drop(index);
  array_.place(index, line);
  if (!dirty) return index;
  ++array_.state(index).pinned;
  write_entry_now(entry, memory);
  --array_.state(index).pinned;
  return index;
}

// Sectors as they are in memory or on their way there.
int L2Core::read_now(std::uint64_t line, std::uint32_t sectors, std::uint8_t* image, L2Memory& memory) {
  while (sectors != 0) {
    const Run run = take_run(sectors);
    const int status = memory.read(line, run.first, run.count, image);
    if (status != kOk) return status;
    counters_.fills.add(run.count);
  }
  overlay_entries(line, image);
  return kOk;
}

int L2Core::fetch_now(std::uint32_t index, std::uint32_t sectors, L2Memory& memory) {
  std::array<std::uint8_t, arch::kLineBytes> image{};
  ++array_.state(index).pinned;
  const int status = read_now(array_.line_at(index), sectors, image.data(), memory);
  L2Line& state = array_.state(index);
  --state.pinned;
  if (status == kOk) {
    merge(index, sectors, image.data());
  } else if (!state.valid.any() && state.mshr == 0 && state.pinned == 0) {
    array_.drop(index);
  }
  return status;
}

// Every place of the set waits for memory: past the cache.
int L2Core::uncached_now(const L2Access& access, L2Memory& memory) {
  if (access.kind == L2Access::Kind::prefetch) return kOk;
  std::array<std::uint8_t, arch::kLineBytes> image{};
  const std::uint32_t touched = access.bytes.touched();
  const bool writes = access.kind == L2Access::Kind::write;
  const std::uint32_t wanted = writes ? (LineMask::sectors(touched) & ~access.bytes).touched() : touched;
  int status = read_now(access.line, wanted, image.data(), memory);
  if (status != kOk) return status;
  if (!poisoned_.empty()) note_poison(access);
  if (!perform(access, image.data())) return status;
  const std::uint32_t number = new_entry(access.line);
  Entry& entry = entries_[number];
  entry.valid = LineMask::sectors(touched);
  entry.dirty = static_cast<std::uint8_t>(touched);
  entry.data = image;
  status = write_entry_now(number, memory);
  return status;
}

// Behind an older write-back of the line it takes that one's way.
int L2Core::write_entry_now(std::uint32_t number, L2Memory& memory) {
  const std::uint64_t line = entries_[number].line;
  if (oldest_of(line) != number) return kOk;
  entries_[number].started = true;
  int result = kOk;
  std::uint32_t partial = (LineMask::sectors(entries_[number].dirty) & ~entries_[number].valid).touched();
  std::uint32_t dirty = entries_[number].dirty;
  while (partial != 0) {
    const Run run = take_run(partial);
    const std::uint32_t sectors = ((1U << run.count) - 1) << run.first;
    std::array<std::uint8_t, arch::kLineBytes> image{};
    const int status = memory.read(line, run.first, run.count, image.data());
    Entry& entry = entries_[number];  // the vector may have grown
    if (status == kOk) {
      copy_bytes(entry.data.data(), image.data(), LineMask::sectors(sectors) & ~entry.valid);
      entry.valid = entry.valid | LineMask::sectors(sectors);
    } else {
      dirty &= ~sectors;
      result = status;
      write_failed(entry, status);
    }
  }
  while (dirty != 0) {
    const Run run = take_run(dirty);
    const std::array<std::uint8_t, arch::kLineBytes> image = entries_[number].data;
    const int status = memory.write(line, run.first, run.count, image.data());
    counters_.write_backs.add(run.count);
    if (status == kOk) continue;
    result = status;
    write_failed(entries_[number], status);
  }
  retire_entry(number);
  return result;
}

int L2Core::flush_now(L2Memory& memory) {
  int result = kOk;
  for (std::uint32_t index = array_.next_dirty(0); index != kNone; index = array_.next_dirty(index + 1)) {
    const int status = write_entry_now(entry_of(index), memory);
    if (status != kOk) result = status;
  }
  return result;
}

LineMask L2Core::overlay_entries(std::uint64_t line, std::uint8_t* image) const {
  LineMask covered;
  if (entries_in_use_ == 0) return covered;
  std::uint64_t done = 0;
  while (true) {  // in their order: the last one counts
    const Entry* next = nullptr;
    for (const Entry& entry : entries_) {
      if (!entry.used || entry.line != line || entry.order <= done) continue;
      if (next == nullptr || entry.order < next->order) next = &entry;
    }
    if (next == nullptr) return covered;
    copy_bytes(image, next->data.data(), next->valid);
    covered = covered | next->valid;
    done = next->order;
  }
}

LineMask L2Core::overlay(std::uint64_t line, std::uint8_t* image) const {
  LineMask covered = overlay_entries(line, image);
  const std::uint32_t index = array_.find(line);
  if (index == kNone) return covered;
  const LineMask& valid = array_.state(index).valid;
  copy_bytes(image, array_.data(index), valid);
  return covered | valid;
}

bool L2Core::poke(std::uint64_t line, const std::uint8_t* image, const LineMask& bytes, bool in_memory) {
  const std::uint32_t index = array_.find(line);
  if (index == kNone && !in_memory) return false;
  if (!poisoned_.empty()) cure(line, bytes);
  for (Entry& entry : entries_) {
    if (!entry.used || entry.line != line) continue;
    copy_bytes(entry.data.data(), image, bytes);
    entry.valid = entry.valid | bytes;
  }
  if (index == kNone) return true;
  copy_bytes(array_.data(index), image, bytes);
  array_.state(index).valid = array_.state(index).valid | bytes;
  if (!in_memory) array_.set_dirty(index, bytes.touched());
  return true;
}

bool L2Core::busy_with(std::uint64_t line) const {
  const std::uint32_t index = array_.find(line);
  if (index != kNone && (array_.state(index).mshr != 0 || array_.state(index).pinned != 0)) return true;
  const auto of_line = [line](std::uint64_t sector) { return sector / arch::kSectorsPerLine == line; };
  return oldest_of(line) != kNone || std::any_of(poisoned_.begin(), poisoned_.end(), of_line);
}

const std::uint8_t* L2Core::newer(std::uint64_t line, LineMask& bytes) const {
  const std::uint32_t index = array_.find(line);
  if (index == kNone || array_.state(index).dirty == 0) return nullptr;
  bytes = array_.state(index).valid & LineMask::sectors(array_.state(index).dirty);
  return array_.data(index);
}

void L2Core::forget(std::uint64_t line) {
  HEDDLE_CHECK(!busy_with(line), "a line that memory works on cannot be forgotten");
  const std::uint32_t index = array_.find(line);
  if (index != kNone) array_.drop(index);
}

}  // namespace heddle::memory
