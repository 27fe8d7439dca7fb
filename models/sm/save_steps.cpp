#include "sm/save_steps.h"

#include <algorithm>
#include <array>

#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::sm {

using arch::kRecordBytes;
using arch::MemoryStep;

namespace {

std::uint64_t number_at(const std::uint8_t* data, std::uint32_t offset) {
  std::uint64_t value = 0;
  for (std::uint32_t i = 8; i-- > 0;) value = value << 8 | data[offset + i];
  return value;
}

}  // namespace

SaveLayout::SaveLayout(const SavedHeader& header) : state_bytes_(header.bytes), local_bytes_(header.local) {
  chunks_ = (kRecordBytes + whole(state_bytes_) + local_bytes_ + arch::kSaveChunk - 1) / arch::kSaveChunk;
  while (end() > chunks_ * arch::kSaveChunk) ++chunks_;
}

CgaPublication::CgaPublication(std::uint64_t record, const SavedHeader& header,
                               std::vector<protocol::SavedMember> members, std::uint32_t ctas, std::uint32_t size)
    : address_(record),
      task_(header.record),
      members_(std::move(members)),
      references_(members_.size()),
      owed_(header.owed) {
  namespace cga = arch::saved_cga;
  std::array<std::uint8_t, cga::kBytes> bytes{};
  for (const protocol::SavedMember& member : members_) {
    references_ += member.context != 0 ? 1 : 0;
    arch::put_number(bytes, cga::kAreas + 8 * member.rank, 8, member.area);
  }
  arch::put_number(bytes, cga::kWord, 8, arch::kCgaWaker + references_);
  arch::put_number(bytes, cga::kRecord, 8, header.record);
  arch::put_number(bytes, cga::kOperation, 4, header.operation);
  arch::put_number(bytes, cga::kCtas, 4, ctas);
  arch::put_number(bytes, cga::kSize, 4, size);
  arch::put_number(bytes, cga::kSaved, 4, members_.size());
  arch::put_number(bytes, cga::kOwed, 4, owed_ ? 1 : 0);
  bytes_.assign(bytes.begin(), bytes.end());
}

arch::MemoryStep CgaPublication::step() const {
  using Kind = MemoryStep::Kind;
  const std::uint64_t word = address_ + arch::saved_cga::kWord;
  switch (at_) {
    case At::open:
      return {Kind::add, task_ + arch::tmd::kOpen, 1};
    case At::member:
      return {Kind::compare_exchange, members_[member_].context + arch::context::kHome, arch::saved_cga_home(address_),
              members_[member_].home};
    case At::unlock:
      return {Kind::compare_exchange, word, references_, arch::kCgaWaker + references_};
    case At::forget:
      return {Kind::add, word, std::uint64_t{0} - unmoved_};
    default:
      return {};
  }
}

void CgaPublication::answer(std::uint64_t old) {
  switch (at_) {
    case At::record:
      woken_ = owed_;
      at_ = owed_ ? At::over : At::open;
      return;
    case At::open:
      return next_member();
    case At::member:
      if (old != members_[member_].home) ++unmoved_;
      ++member_;
      return next_member();
    case At::unlock:
      woken_ = old != arch::kCgaWaker + references_;
      at_ = At::over;
      return;
    default:
      at_ = At::over;
      return;
  }
}

void CgaPublication::next_member() {
  at_ = At::member;
  while (member_ < members_.size() && members_[member_].context == 0) ++member_;
  if (member_ < members_.size()) return;
  const bool nobody = references_ == members_.size();  // has a context that waits
  woken_ = unmoved_ > 0 || nobody;
  at_ = nobody ? At::over : woken_ ? At::forget : At::unlock;
}

bool SaveLayout::fits(const arch::RecordPool& chunks, const SavedHeader& header) {
  constexpr std::uint64_t kMost = std::uint64_t{arch::kSaveChunk} * (arch::kSaveChunk / 8);  // more than what fits
  if (chunks.size != arch::kSaveChunk || header.bytes == 0 || header.bytes > kMost || header.local > kMost)
    return false;
  if (header.local % kUnit != 0) return false;
  const SaveLayout layout(header);
  return layout.chunks() <= chunks.count && layout.state_at() <= arch::kSaveChunk;
}

std::uint32_t SaveLayout::access_bytes(std::uint64_t offset, std::uint64_t end, std::uint32_t most) const {
  const std::uint64_t in_chunk = arch::kSaveChunk - offset % arch::kSaveChunk;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>({most, end - offset, in_chunk}));
}

bool SaveChunks::cancel() {
  if (at_ == At::reserve) at_ = At::none;
  if (at_ == At::ticket) at_ = At::unreserve;
  return at_ == At::none;
}

bool SaveChunks::wants(bool room, bool alone) const {
  const bool each = at_ == At::take || at_ == At::put;
  if (each) return room && std::find(marks_.begin(), marks_.end(), Mark::open) != marks_.end();
  return alone && at_ != At::taken && at_ != At::none;
}

TransferAccess SaveChunks::next() {
  using Kind = MemoryStep::Kind;
  const std::uint64_t count = chunk_.size();
  again_ = false;
  TransferAccess access;
  switch (at_) {
    case At::reserve:
      access.step = {Kind::add, pool_.base + arch::ring::kUsed, count};
      return access;
    case At::unreserve:
    case At::uncount:
      access.step = {Kind::add, pool_.base + arch::ring::kUsed, std::uint64_t{0} - count};
      return access;
    case At::ticket:
      access.step = {Kind::add, pool_.base + arch::ring::kTaken, count};
      return access;
    case At::give:
      access.step = {Kind::add, pool_.base + arch::ring::kGiven, count};
      return access;
    default:
      break;
  }
  const auto open = std::find(marks_.begin(), marks_.end(), Mark::open);
  *open = Mark::asked;
  access.offset = static_cast<std::uint64_t>(open - marks_.begin());
  const std::uint64_t slot = pool_.slot(ticket_ + access.offset);
  access.step = at_ == At::take ? MemoryStep{Kind::exchange, slot, 0}
                                : MemoryStep{Kind::compare_exchange, slot, chunk_[access.offset], 0};
  return access;
}

void SaveChunks::answer(const TransferAccess& access, std::uint64_t old, bool wanted) {
  again_ = false;
  switch (at_) {
    case At::reserve:
      lacking_ = old + chunk_.size() > pool_.count;
      at_ = wanted && !lacking_ ? At::ticket : At::unreserve;
      return;
    case At::ticket:
      return begin(At::take, old);
    case At::give:
      return begin(At::put, old);
    case At::take:
    case At::put: {
      const bool done = at_ == At::take ? old != 0 : old == 0;
      marks_[access.offset] = done ? Mark::done : Mark::open;
      again_ = !done;
      if (done && at_ == At::take) chunk_[access.offset] = old;
      return look_at_marks();
    }
    default:
      at_ = At::none;
      return;
  }
}

// Of a ticket that is taken for the first time the chunk is known.
void SaveChunks::begin(At at, std::uint64_t ticket) {
  at_ = at;
  ticket_ = ticket;
  marks_.assign(chunk_.size(), Mark::open);
  for (std::uint64_t i = 0; at == At::take && i < marks_.size() && ticket + i < pool_.count; ++i) {
    chunk_[i] = pool_.record(ticket + i);
    marks_[i] = Mark::done;
  }
  look_at_marks();
}

void SaveChunks::look_at_marks() {
  if (std::any_of(marks_.begin(), marks_.end(), [](Mark mark) { return mark != Mark::done; })) return;
  at_ = at_ == At::put ? At::uncount : At::taken;
}

void SaveStream::fill(const SavedHeader& header, const std::vector<std::uint8_t>& state) {
  const SavedLine line = line_of(header);
  lay_out(header);
  std::copy(line.begin(), line.end(), bytes_.begin());
  std::copy(state.begin(), state.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(layout_.state_at()));
}

void SaveStream::lay_out(const SavedHeader& header) {
  layout_ = SaveLayout(header);
  bytes_.resize(layout_.end());
}

std::uint64_t SaveStream::local_bytes() const {
  std::uint64_t bytes = 0;
  for (const LocalPart& part : local_) bytes += part.bytes;
  return bytes;
}

std::vector<std::uint8_t> SaveStream::state(const SavedHeader& header) const {
  const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(layout_.state_at());
  return {begin, begin + static_cast<std::ptrdiff_t>(header.bytes)};
}

void SaveStream::put_list(const SaveChunks& chunks) {
  for (std::uint64_t i = 1; i < layout_.chunks(); ++i) {
    for (std::uint32_t byte = 0; byte < 8; ++byte) {
      bytes_[kRecordBytes + 8 * (i - 1) + byte] = static_cast<std::uint8_t>(chunks[i] >> (8 * byte));
    }
  }
}

std::uint64_t SaveStream::listed(std::uint64_t number) const {
  return number_at(bytes_.data() + kRecordBytes, static_cast<std::uint32_t>(8 * (number - 1)));
}

bool SaveStream::begin(std::uint64_t offset) {
  sent_ = offset;
  return sent_ == layout_.end();
}

// Its place in local memory is that of the same byte in the stream.
TransferAccess SaveStream::local_access(TransferAccess::Kind kind) {
  std::uint64_t offset = sent_ - layout_.local_at();
  auto part = local_.begin();
  while (part != local_.end() && offset >= part->bytes) offset -= part++->bytes;
  HEDDLE_CHECK(part != local_.end(), "a saved CTA has more local memory than its warps");
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(kAccess, part->bytes - offset));
  TransferAccess access{kind, {}, part->address + offset, bytes, nullptr, true, sent_};
  if (kind == TransferAccess::Kind::write) access.data = bytes_.data() + sent_;
  sent_ += bytes;
  return access;
}

TransferAccess SaveStream::access(TransferAccess::Kind kind, std::uint64_t end, const SaveChunks& chunks) {
  const std::uint64_t address = chunks[sent_ / arch::kSaveChunk] + sent_ % arch::kSaveChunk;
  TransferAccess access{kind, {}, address, layout_.access_bytes(sent_, end, kAccess), nullptr, false, sent_};
  if (kind == TransferAccess::Kind::write) access.data = bytes_.data() + sent_;
  sent_ += access.bytes;
  return access;
}

void SaveStream::take(const TransferAccess& access, const std::uint8_t* data) {
  std::copy_n(data, access.bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(access.offset));
}

void HomeMove::begin(const SavedHeader& header, const SaveHome& home, std::uint64_t area) {
  home_ = home;
  record_ = header.record;
  context_ = header.context;
  area_ = area;
  if (home.kind == SaveHome::Kind::shared) at_ = home.counted ? At::look : At::enter;
}

MemoryStep HomeMove::step() const {
  using Kind = MemoryStep::Kind;
  const std::uint64_t home = context_ + arch::context::kHome;
  switch (at_) {
    case At::enter:
      return {Kind::add, record_ + arch::tmd::kOpen, 1};
    case At::look:
      return {Kind::read, home};
    case At::link:
      return {Kind::write, area_ + arch::saved::kNext, head_};
    case At::claim:
      return {Kind::compare_exchange, home, arch::saved_home(area_),
              home_.kind == SaveHome::Kind::shared ? head_ : home_.here};
    case At::late:
      return {Kind::read, context_ + arch::context::kWork};
    case At::revoke:
      break;
  }
  return {Kind::compare_exchange, home, arch::kHomeWoken, arch::saved_home(area_)};
}

void HomeMove::answer(std::uint64_t old) {
  switch (at_) {
    case At::enter:
      at_ = At::look;
      return;
    case At::look:
      head_ = old;
      at_ = At::link;
      return;
    case At::link:
      at_ = At::claim;
      return;
    case At::claim:
      return claimed(old);
    case At::late:
      late_ = arch::work_of(old) <= 1;
      result_ = Result::moved;
      return;
    case At::revoke:  // found by a waker: the area is whose it brings back
      result_ = old != arch::saved_home(area_) ? Result::moved : Result::revoked;
      return;
  }
}

void HomeMove::claimed(std::uint64_t old) {
  if (home_.kind == SaveHome::Kind::shared) {
    at_ = old == head_ ? At::late : At::link;
    head_ = old;
  } else if (old != home_.here) {
    result_ = Result::woken;
  } else if (revokes_) {
    at_ = At::revoke;
  } else {
    result_ = Result::moved;
  }
}

TransferAccess MemberReturn::find() const {
  return {
      TransferAccess::Kind::read, {}, record_ + arch::saved_cga::kAreas + 8 * rank_ / 16 * 16, 16, nullptr, false, 0};
}

std::uint64_t MemberReturn::found(const std::uint8_t* data) const { return number_at(data, rank_ % 2 * 8); }

void MemberReturn::begin_drop(std::uint64_t context) {
  context_ = context;
  rehomes_ = context != 0;
}

MemoryStep MemberReturn::step() const {
  using Kind = MemoryStep::Kind;
  if (rehomes_) {
    return {Kind::compare_exchange, context_ + arch::context::kHome, home_, arch::saved_cga_home(record_)};
  }
  return {Kind::add, record_ + arch::saved_cga::kWord, std::uint64_t{0} - references_};
}

bool MemberReturn::answer(std::uint64_t old) {
  if (rehomes_) {
    if (old == arch::saved_cga_home(record_)) ++references_;
    rehomes_ = false;
    return false;
  }
  last_ = arch::cga_references(old) == references_;
  return true;
}

}  // namespace heddle::sm
