#include "sm/context_transfer.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::sm {
namespace {

using arch::kRecordBytes;
using arch::MemoryStep;

constexpr std::uint64_t kUnit = 16;  // bytes of a lane
constexpr std::uint64_t whole(std::uint64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

std::uint64_t number_at(const std::uint8_t* data, std::uint32_t offset) {
  std::uint64_t value = 0;
  for (std::uint32_t i = 8; i-- > 0;) value = value << 8 | data[offset + i];
  return value;
}

}  // namespace

bool ContextTransfer::fits(const arch::RecordPool& areas, std::uint64_t state_bytes) {
  return areas.count > 0 && areas.size >= kRecordBytes && state_bytes <= areas.size - kRecordBytes;
}

ContextTransfer ContextTransfer::save(const arch::RecordPool& areas, const SavedHeader& header,
                                      std::vector<std::uint8_t> state, std::uint64_t home) {
  HEDDLE_CHECK(fits(areas, state.size()) && header.bytes == state.size(), "a saved CTA does not fit into its area");
  ContextTransfer transfer(areas);
  transfer.header_ = header;
  transfer.home_ = home;
  const SavedLine line = line_of(header);
  transfer.bytes_.reserve(kRecordBytes + whole(state.size()));
  transfer.bytes_.assign(line.begin(), line.end());
  transfer.bytes_.insert(transfer.bytes_.end(), state.begin(), state.end());
  transfer.bytes_.resize(whole(transfer.bytes_.size()));
  return transfer;
}

ContextTransfer ContextTransfer::restore(const arch::RecordPool& areas, std::uint64_t area) {
  ContextTransfer transfer(areas);
  transfer.restores_ = true;
  transfer.at_ = At::header;
  transfer.area_ = area;
  transfer.give_ = arch::GiveSteps(areas, area);
  return transfer;
}

bool ContextTransfer::wants() const {
  switch (at_) {
    case At::write:
      return in_flight_ < kWindow && sent_ < bytes_.size() && outcome_ == Outcome::open;
    case At::read:
      return in_flight_ < kWindow && sent_ < whole(bytes_.size()) && outcome_ == Outcome::open;
    case At::over:
      return false;
    default:
      return in_flight_ == 0;
  }
}

bool ContextTransfer::again() const {
  if (at_ == At::take) return take_.step().again;
  return at_ == At::give && in_flight_ == 0 && give_.step().again;
}

ContextTransfer::Access ContextTransfer::next() {
  HEDDLE_CHECK(wants(), "a context transfer was asked for more than it wants");
  ++in_flight_;
  Access access;
  switch (at_) {
    case At::look:
      return {Access::Kind::read, {}, areas_.base, kRecordBytes, nullptr};
    case At::take:
      access.step = take_.step();
      return access;
    case At::claim:
      access.step = {MemoryStep::Kind::compare_exchange, header_.context + arch::context::kHome,
                     arch::saved_home(area_), home_};
      return access;
    case At::revoke:
      access.step = {MemoryStep::Kind::compare_exchange, header_.context + arch::context::kHome, arch::kHomeWoken,
                     arch::saved_home(area_)};
      return access;
    case At::header:
      return {Access::Kind::read, {}, area_, kRecordBytes, nullptr};
    case At::write:
      return chunk(Access::Kind::write);
    case At::read:
      return chunk(Access::Kind::read);
    default:
      access.step = give_.step();
      return access;
  }
}

ContextTransfer::Access ContextTransfer::chunk(Access::Kind kind) {
  const std::uint64_t end = whole(bytes_.size());
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(kChunk, end - sent_));
  Access access{kind, {}, area_ + sent_, bytes, nullptr};
  if (kind == Access::Kind::write) {
    access.data = bytes_.data() + sent_;
  } else {
    access.address += kRecordBytes;
  }
  sent_ += bytes;
  return access;
}

void ContextTransfer::answer(const Access& access, std::uint64_t old, const std::uint8_t* data) {
  --in_flight_;
  switch (at_) {
    case At::look: {
      const std::uint64_t taken = number_at(data, arch::ring::kTaken);
      const std::uint64_t given = number_at(data, arch::ring::kGiven);
      if (outcome_ == Outcome::open && taken - given >= areas_.count) outcome_ = Outcome::no_area;
      at_ = outcome_ == Outcome::open ? At::take : At::over;
      return;
    }
    case At::take:
      take_.answer(old);
      if (!take_.over()) return;  // a ticket has been drawn: whoever gives the area back gives it to this one
      area_ = take_.record();
      give_ = arch::GiveSteps(areas_, area_);
      at_ = outcome_ == Outcome::open ? At::write : At::give;
      return;
    case At::claim:
      if (old != home_) {
        decide(Outcome::woken);
        at_ = At::give;
      } else if (revokes_) {
        at_ = At::revoke;
      } else {
        outcome_ = Outcome::saved;
        at_ = At::over;
      }
      return;
    case At::revoke: {
      const bool found = old != arch::saved_home(area_);  // by a waker: the area is whose it brings back
      outcome_ = found ? Outcome::saved : Outcome::cancelled;
      at_ = found ? At::over : At::give;
      return;
    }
    case At::header: {
      SavedLine line;
      std::copy_n(data, line.size(), line.begin());
      header_ = header_of(line);
      has_header_ = true;
      const bool sound = header_.bytes > 0 && fits(areas_, header_.bytes);
      if (!sound) decide(Outcome::failed);
      at_ = outcome_ == Outcome::open ? At::read : At::give;
      if (at_ == At::read) bytes_.resize(header_.bytes);
      return;
    }
    case At::read: {
      const std::uint64_t offset = access.address - area_ - kRecordBytes;
      std::copy_n(data, std::min<std::uint64_t>(access.bytes, bytes_.size() - offset),
                  bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
      return settled();
    }
    case At::write:
      return settled();
    case At::give:
      give_.answer(old);
      if (give_.over()) at_ = At::over;
      return;
    case At::over:
      return;
  }
}

// Every byte must be there before the home moves, or before the area is somebody else's.
void ContextTransfer::settled() {
  if (in_flight_ > 0) return;
  if (outcome_ != Outcome::open) {
    at_ = At::give;
  } else if (sent_ == whole(bytes_.size())) {
    if (restores_) outcome_ = Outcome::restored;
    at_ = restores_ ? At::give : At::claim;
  }
}

void ContextTransfer::fail(const Access&) {
  --in_flight_;
  decide(Outcome::failed);
  switch (at_) {
    case At::write:
    case At::read:
      return settled();
    case At::header:
      outcome_ = Outcome::failed;  // also of one that has been cancelled: nobody knows its context
      at_ = At::give;
      return;
    case At::claim:
      at_ = At::give;
      return;
    default:
      at_ = At::over;  // the ring cannot be reached: what was taken is lost
  }
}

void ContextTransfer::decide(Outcome outcome) {
  if (outcome_ == Outcome::open) outcome_ = outcome;
}

void ContextTransfer::cancel() {
  revokes_ |= claims();
  if (outcome_ != Outcome::open || claims()) return;
  // Until the header is there, nobody knows to what context the CTA belongs.
  outcome_ = Outcome::cancelled;
  if (in_flight_ > 0) return;
  if (at_ == At::look) at_ = At::over;
  if (at_ == At::take && take_.step().kind == MemoryStep::Kind::add) at_ = At::over;
  if (at_ == At::write || at_ == At::read) at_ = At::give;
}

}  // namespace heddle::sm
