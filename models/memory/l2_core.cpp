#include "memory/l2_core.h"

#include "common/bits.h"
#include "common/error.h"

namespace heddle::memory {

L2Core::L2Core(const L2Config& config, L2Counters& counters)
    : counters_(counters),
      copies_of_(config.copies ? config.map : nullptr),
      slice_(config.slice),
      array_(config.lines, config.ways, config.slices, config.fetch_sectors),
      mshrs_(config.mshrs, config.mshr_targets),
      write_buffer_(config.write_buffer, counters, commands_, *this),
      row_writer_(array_, write_buffer_, config, counters.written_along),
      flush_(array_, write_buffer_, served_),
      invalidation_(array_, mshrs_, served_),
      blocking_(array_, poison_, write_buffer_, invalidation_, counters) {
  HEDDLE_CHECK(config.mshrs > 0 && config.mshrs < 0xFFFF && config.mshr_targets > 0 && config.write_buffer > 0,
               "an L2 slice cannot work without miss-status registers, waiters and a write buffer");
  if (config.presence != nullptr) array_.count_in(*config.presence);
}

void L2Core::reset() {
  array_.reset();
  poison_.reset();
  mshrs_.reset();
  commands_.clear();
  write_buffer_.reset();
  served_.clear();
  flush_.reset();
  invalidation_.reset();
}

L2Lanes::Cost cost_of(const L2Core& core, const L2Access& access) {
  L2Lanes::Cost cost;
  if (access.walks() || !access.bytes.any()) return cost;
  const bool changes = access.kind == L2Access::Kind::write || changes_values(access.kind);
  const std::uint32_t dirty = changes ? access.bytes.touched() : 0;
  const std::uint32_t index = core.array().find(access.line);
  if (index == L2Array::kNone) {
    cost.fetched = bits::count(core.array().fetched(access, LineMask()));
    cost.dirtied = bits::count(dirty);
    return cost;
  }
  const L2Line& line = core.array().state(index);
  const std::uint32_t asked = line.mshr == 0 ? 0U : core.mshrs()[line.mshr - 1U].pending;
  cost.fetched = bits::count(core.array().fetched(access, line.valid) & ~asked);
  cost.dirtied = bits::count(dirty & ~std::uint32_t{line.dirty});
  return cost;
}

L2Core::Outcome L2Core::stalls(Stall reason) {
  stall_ = reason;
  return Outcome::stalled;
}

bool L2Core::can_miss(const L2Access& access) {
  if (mshrs_.full()) {
    stall_ = Stall::mshr;
  } else if (access.kind != L2Access::Kind::prefetch && mshrs_.targets_full()) {
    stall_ = Stall::mshr_target;
  } else {
    return true;
  }
  return false;
}

L2Core::Outcome L2Core::serve(const L2Access& access, void* request) {
  if (access.kind == L2Access::Kind::write_back) return flush_.begin(request) ? Outcome::waits : Outcome::done;
  if (access.kind == L2Access::Kind::invalidate) {
    return invalidation_.begin(access, request) ? Outcome::waits : Outcome::done;
  }
  if (!access.bytes.any()) return Outcome::done;
  std::uint32_t index = array_.find(access.line);
  if (index != kNone && array_.state(index).mshr != 0) return secondary_miss(access, index, request);
  const std::uint32_t missing = access.missing(index == kNone ? LineMask() : array_.state(index).valid);
  // Nothing is changed before everything that is needed is there.
  if (missing != 0 && !can_miss(access)) return Outcome::stalled;
  if (index == kNone) {
    index = array_.victim(access.line);
    if (index == kNone) return stalls(Stall::way);
    if (array_.occupied(index)) {
      if (array_.state(index).dirty != 0) {
        if (write_buffer_.full()) return stalls(Stall::write_buffer);
        write_buffer_.start(write_buffer_.take(array_, index));
        row_writer_.write_along(array_.line_at(index));
      }
      array_.drop(index);
    }
    array_.place(index, access.line);
  }
  if (missing != 0) return primary_miss(access, index, array_.fetched(access, array_.state(index).valid), request);
  counters_.count_hit(access);
  take_effect(access, index);
  return Outcome::done;
}

L2Core::Outcome L2Core::primary_miss(const L2Access& access, std::uint32_t index, std::uint32_t missing,
                                     void* request) {
  const std::uint32_t number = mshrs_.take(index);
  array_.state(index).mshr = static_cast<std::uint16_t>(number + 1);
  array_.touch(index, access);
  fetch(number, missing, access);
  if (access.kind == L2Access::Kind::prefetch) return Outcome::done;
  mshrs_.append(number, access, request);
  return Outcome::waits;
}

// A line that is being fetched: the request waits behind those that do already. What they have not asked for is fetched
// as well.
L2Core::Outcome L2Core::secondary_miss(const L2Access& access, std::uint32_t index, void* request) {
  const std::uint32_t number = array_.state(index).mshr - 1U;
  const std::uint32_t missing = access.missing(array_.state(index).valid);
  const std::uint32_t more = array_.fetched(access, array_.state(index).valid) & ~std::uint32_t{mshrs_[number].pending};
  if (access.kind == L2Access::Kind::prefetch) {
    if (more != 0) fetch(number, more, access);
    return Outcome::done;
  }
  if (missing == 0 && !mshrs_.has_target(number)) {
    counters_.count_hit(access);
    take_effect(access, index);
    return Outcome::done;
  }
  if (mshrs_.targets_full()) return stalls(Stall::mshr_target);
  if (more != 0) fetch(number, more, access);
  mshrs_.append(number, access, request);
  counters_.merges.add();
  return Outcome::waits;
}

// A fetch must not overtake bytes that are on their way back to memory.
void L2Core::fetch(std::uint32_t number, std::uint32_t sectors, const L2Access& access) {
  L2Mshrs::Mshr& mshr = mshrs_[number];
  mshr.owners.set(sectors, access.owner());
  mshr.kernels.set(sectors, access.kernel());
  const std::uint64_t line = array_.line_at(mshr.index);
  mshr.pending = static_cast<std::uint8_t>(mshr.pending | sectors);
  if (write_buffer_.holds(line)) {
    mshr.deferred = static_cast<std::uint8_t>(mshr.deferred | sectors);
  } else {
    commands_.push_runs(Command::Kind::fetch, sectors, mshr.owners, mshr.kernels, number, line);
  }
}

void L2Core::answer(const Command& command, int status, const std::uint8_t* data) {
  if (command.kind == Command::Kind::fetch) {
    fill(command, status, data);
  } else {
    write_buffer_.answer(command, status, data);
  }
}

void L2Core::fill(const Command& command, int status, const std::uint8_t* data) {
  L2Mshrs::Mshr& mshr = mshrs_[command.owner];
  const std::uint32_t sectors = command.mask();
  HEDDLE_CHECK((mshr.pending & sectors) == sectors && array_.line_at(mshr.index) == command.line,
               "memory answers a fetch that nobody waits for");
  mshr.pending = static_cast<std::uint8_t>(mshr.pending & ~sectors);
  if (status == kOk) {
    array_.fill(mshr.index, sectors, data);
    // The home counts what it takes of memory.
    if (copies_of_ != nullptr && copies_of_->slice_of(command.line * arch::kLineBytes) != slice_) {
      counters_.copied.add(command.sectors);
    } else {
      counters_.fills.add(command.sectors);
      counters_.count_read(mshr.owners, mshr.kernels, sectors);
    }
  } else {
    mshr.status = status;
  }
  replay(command.owner);
}

// Serves the targets of an MSHR in their order, as far as the line's sectors are there. A target that needs a sector
// which is neither there nor on its way needs one that memory has refused.
void L2Core::replay(std::uint32_t number) {
  const L2Mshrs::Mshr& mshr = mshrs_[number];
  L2Line& state = array_.state(mshr.index);
  while (mshrs_.has_target(number)) {
    const L2Mshrs::Target& target = mshrs_.first_target(number);
    const std::uint32_t missing = target.access.missing(state.valid);
    const bool refused = (missing & ~std::uint32_t{mshr.pending}) != 0;
    if (missing != 0 && !refused) return;
    HEDDLE_CHECK(!refused || mshr.status != kOk, "a request waits for sectors that nobody fetches");
    if (!refused) take_effect(target.access, mshr.index);
    served_.push_back({target.request, refused ? mshr.status : kOk, target.access});
    mshrs_.pop_target(number);
  }
  if (mshr.pending != 0) return;
  state.mshr = 0;
  const std::uint32_t index = mshr.index;
  const bool stale = mshr.stale;
  mshrs_.give_back(number);
  if (stale) return invalidation_.fetched(index);
  if (!state.valid.any() && state.pinned == 0) array_.drop(index);  // memory has refused it
}

// What has waited for a write-back: a fetch of the line, and write_back of the slice.
void L2Core::write_back_done(std::uint64_t line, bool last) {
  const std::uint32_t index = last ? array_.find(line) : kNone;
  if (index != kNone && array_.state(index).mshr != 0) {
    const std::uint32_t number = array_.state(index).mshr - 1U;
    const std::uint32_t deferred = mshrs_[number].deferred;
    mshrs_[number].deferred = 0;
    commands_.push_runs(Command::Kind::fetch, deferred, mshrs_[number].owners, mshrs_[number].kernels, number, line);
  }
  flush_.advance();
}

LineMask L2Core::overlay(std::uint64_t line, std::uint8_t* image) const {
  const LineMask covered = write_buffer_.overlay(line, image);
  const std::uint32_t index = array_.find(line);
  if (index == kNone) return covered;
  const LineMask& valid = array_.state(index).valid;
  copy_bytes(image, array_.data(index), valid);
  return covered | valid;
}

bool L2Core::poke(std::uint64_t line, const std::uint8_t* image, const LineMask& bytes, bool in_memory) {
  const std::uint32_t index = array_.find(line);
  if (index == kNone && !in_memory) return false;
  if (poison_.any()) poison_.clear(line, bytes);
  write_buffer_.poke(line, image, bytes);
  if (index == kNone) return true;
  copy_bytes(array_.data(index), image, bytes);
  array_.state(index).valid = array_.state(index).valid | bytes;
  if (!in_memory) array_.set_dirty(index, bytes.touched());
  return true;
}

bool L2Core::busy_with(std::uint64_t line) const {
  const std::uint32_t index = array_.find(line);
  if (index != kNone && (array_.state(index).mshr != 0 || array_.state(index).pinned != 0)) return true;
  return write_buffer_.holds(line) || poison_.touches(line, kAllSectors);
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
