#include "sm/saved_cta.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::sm {

using arch::kRecordBytes;
using arch::MemoryStep;

namespace {

// A saved CTA: "HCTA", version, whose it is, barriers, warps, shared memory, and a check sum of all that (64 bits).
// Little endian; counts in front of what they count.
constexpr std::uint32_t kMagic = 0x4154'4348;
constexpr std::uint32_t kVersion = 1;

[[noreturn]] void not_a_state(const std::string& why) {
  throw InputError(fmt::format("the saved state of a CTA is damaged: {}", why), "restore what was saved, whole");
}

using Writer = arch::ByteWriter;
void fail(const char* why) { not_a_state(why); }
using Reader = arch::ByteReader<fail>;

void put(Writer& out, const CtaBarriers::State& barriers) {
  out.word(barriers.warps);
  out.word(barriers.left);
  out.word(barriers.waiting.size());
  for (const CtaBarriers::Waiting& waiting : barriers.waiting) {
    out.word(waiting.barrier);
    out.word(waiting.threads);
    out.word(waiting.warps.size());
    for (const std::uint32_t warp : waiting.warps) out.word(warp);
  }
}

CtaBarriers::State take_barriers(Reader& in) {
  CtaBarriers::State barriers;
  barriers.warps = in.word();
  barriers.left = in.word();
  barriers.waiting.resize(in.count(12));
  for (CtaBarriers::Waiting& waiting : barriers.waiting) {
    waiting.barrier = in.word();
    waiting.threads = in.word();
    waiting.warps.resize(in.count(4));
    for (std::uint32_t& warp : waiting.warps) warp = in.word();
  }
  return barriers;
}

void put(Writer& out, const SavedWarp& warp) {
  out.put(static_cast<std::uint8_t>(warp.at), 1);
  out.put(warp.cluster_arrived ? 1 : 0, 1);
  out.put(warp.cluster_passed ? 1 : 0, 1);
  out.word(warp.barrier);
  out.word(warp.issued_pc);
  if (warp.at != SavedWarp::At::exited) out.block(arch::save(warp.state));
}

SavedWarp take_warp(Reader& in) {
  SavedWarp warp;
  const std::uint64_t at = in.take(1);
  if (at > static_cast<std::uint64_t>(SavedWarp::At::children)) not_a_state("a warp waits for nothing that is known");
  warp.at = static_cast<SavedWarp::At>(at);
  warp.cluster_arrived = in.flag();
  warp.cluster_passed = in.flag();
  warp.barrier = in.word();
  warp.issued_pc = in.word();
  if (warp.at == SavedWarp::At::exited) {
    warp.state.exited = true;
  } else {
    warp.state = arch::restore(in.block());
    if (warp.state.exited) not_a_state("a warp waits that has exited");
  }
  return warp;
}

// What barriers and warps say of each other.
void check(const SavedCta& cta) {
  if (cta.warps.size() != cta.barriers.warps) not_a_state("it has warps too many or too few");
  std::uint32_t left = 0;
  std::uint32_t at_barriers = 0;
  bool waits = false;
  for (const SavedWarp& warp : cta.warps) {
    left += warp.at != SavedWarp::At::exited ? 1 : 0;
    at_barriers += warp.at == SavedWarp::At::barrier ? 1 : 0;
    waits |= warp.at == SavedWarp::At::children;
  }
  if (!waits) not_a_state("no warp waits for the tasks of the CTA");
  if (left != cta.barriers.left) not_a_state("its barriers and its warps disagree about who has exited");
  for (const CtaBarriers::Waiting& waiting : cta.barriers.waiting) {
    for (const std::uint32_t number : waiting.warps) {
      const bool fits = number < cta.warps.size() && cta.warps[number].at == SavedWarp::At::barrier &&
                        cta.warps[number].barrier == waiting.barrier;
      if (!fits) not_a_state("its barriers and its warps disagree about who waits");
      --at_barriers;
    }
  }
  if (at_barriers != 0) not_a_state("a warp waits at a barrier that does not know of it");
  CtaBarriers{}.restore(cta.barriers);
}

constexpr std::uint64_t kUnit = 16;  // bytes of a lane
constexpr std::uint64_t whole(std::uint64_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

std::uint64_t number_at(const std::uint8_t* data, std::uint32_t offset) {
  std::uint64_t value = 0;
  for (std::uint32_t i = 8; i-- > 0;) value = value << 8 | data[offset + i];
  return value;
}

}  // namespace

std::vector<std::uint8_t> save(const SavedCta& cta) {
  Writer out;
  out.word(kMagic);
  out.word(kVersion);
  out.word(cta.operation);
  out.put(cta.index, 8);
  out.put(cta.record, 8);
  out.put(cta.context, 8);
  out.put(cta.kernarg, 8);
  out.put(cta.queue ? 1 : 0, 1);
  out.put(cta.gives_turn ? 1 : 0, 1);
  out.put(cta.turn_entry, 8);
  out.put(cta.turn, 8);
  put(out, cta.barriers);
  out.word(cta.cluster_arrived);
  out.put(cta.cluster_phases, 8);
  out.word(cta.warps.size());
  for (const SavedWarp& warp : cta.warps) put(out, warp);
  out.block(cta.shared);
  return out.summed();
}

SavedCta restore_cta(const std::vector<std::uint8_t>& bytes) {
  if (bytes.size() < arch::kCheckSumBytes) not_a_state("it is too short");
  const std::size_t end = bytes.size() - arch::kCheckSumBytes;
  Reader in(bytes, end);
  if (in.word() != kMagic) not_a_state("it does not begin like one");
  if (const std::uint32_t version = in.word(); version != kVersion) {
    throw InputError(fmt::format("the saved state of a CTA has version {}, this is version {}", version, kVersion),
                     "restore it with the version that saved it");
  }
  if (!arch::has_check_sum(bytes)) not_a_state("its check sum is wrong");
  SavedCta cta;
  cta.operation = in.word();
  cta.index = in.take(8);
  cta.record = in.take(8);
  cta.context = in.take(8);
  cta.kernarg = in.take(8);
  cta.queue = in.flag();
  cta.gives_turn = in.flag();
  cta.turn_entry = in.take(8);
  cta.turn = in.take(8);
  cta.barriers = take_barriers(in);
  cta.cluster_arrived = in.word();
  cta.cluster_phases = in.take(8);
  cta.warps.resize(in.count(11));
  for (SavedWarp& warp : cta.warps) warp = take_warp(in);
  cta.shared = in.block();
  if (!in.over()) not_a_state("it ends too late");
  check(cta);
  return cta;
}

void does_not_fit(const std::string& why) {
  throw InputError(fmt::format("the state of another CTA: {}", why), "restore it where it was saved from");
}

void check_fits(const SavedWarp& saved, const arch::WarpState& fresh, std::uint32_t number) {
  if (saved.at == SavedWarp::At::exited) return;
  if (saved.state.registers.size() != fresh.registers.size() || saved.state.scalars.size() != fresh.scalars.size()) {
    does_not_fit(fmt::format("warp {} has other registers than its program", number));
  }
}

SavedLine line_of(const SavedHeader& header) {
  SavedLine line{};
  arch::put_number(line, arch::saved::kOperation, 4, header.operation);
  arch::put_number(line, arch::saved::kRecord, 8, header.record);
  arch::put_number(line, arch::saved::kContext, 8, header.context);
  arch::put_number(line, arch::saved::kBytes, 8, header.bytes);
  arch::put_number(line, arch::saved::kIndex, 8, header.index);
  arch::put_number(line, arch::saved::kCtaX, 4, header.cta[0]);
  arch::put_number(line, arch::saved::kCtaY, 4, header.cta[1]);
  arch::put_number(line, arch::saved::kCtaZ, 4, header.cta[2]);
  return line;
}

SavedHeader header_of(const SavedLine& line) {
  SavedHeader header;
  header.operation = arch::get_32(line, arch::saved::kOperation);
  header.record = arch::get_64(line, arch::saved::kRecord);
  header.context = arch::get_64(line, arch::saved::kContext);
  header.bytes = arch::get_64(line, arch::saved::kBytes);
  header.index = arch::get_64(line, arch::saved::kIndex);
  header.cta = {arch::get_32(line, arch::saved::kCtaX), arch::get_32(line, arch::saved::kCtaY),
                arch::get_32(line, arch::saved::kCtaZ)};
  return header;
}

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
