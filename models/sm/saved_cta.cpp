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
constexpr std::uint32_t kVersion = 2;

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
  out.word(warp.targets.size());
  for (const arch::WaitTarget& target : warp.targets) {
    out.put(target.address, 8);
    out.word(target.ticket);
  }
  out.put(warp.lanes, 4);
  out.put(warp.acquires ? 1 : 0, 1);
  out.put(warp.unit, 1);
  out.put(warp.compute_left, 8);
  out.word(warp.compute_latency);
  if (warp.at != SavedWarp::At::exited) out.block(arch::save(warp.state));
}

SavedWarp take_warp(Reader& in) {
  SavedWarp warp;
  const std::uint64_t at = in.take(1);
  if (at > static_cast<std::uint64_t>(SavedWarp::At::running)) not_a_state("a warp waits for nothing that is known");
  warp.at = static_cast<SavedWarp::At>(at);
  warp.cluster_arrived = in.flag();
  warp.cluster_passed = in.flag();
  warp.barrier = in.word();
  warp.issued_pc = in.word();
  warp.targets.resize(in.count(12));
  for (arch::WaitTarget& target : warp.targets) {
    target.address = in.take(8);
    target.ticket = in.word();
  }
  warp.lanes = static_cast<arch::LaneMask>(in.take(4));
  warp.acquires = in.flag();
  warp.unit = static_cast<std::uint8_t>(in.take(1));
  if (warp.unit >= arch::kUnits) not_a_state("a warp computes on a unit that is not known");
  warp.compute_left = in.take(8);
  warp.compute_latency = in.word();
  if (warp.at != SavedWarp::At::children && !warp.targets.empty()) not_a_state("a warp waits for two things");
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
  bool waits = !cta.waits;
  for (const SavedWarp& warp : cta.warps) {
    left += warp.at != SavedWarp::At::exited ? 1 : 0;
    at_barriers += warp.at == SavedWarp::At::barrier ? 1 : 0;
    waits |= warp.at == SavedWarp::At::children || !cta.waits;
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
  out.put(cta.waits ? 1 : 0, 1);
  out.put(cta.remaining, 8);
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
  out.block(std::vector<std::uint8_t>(cta.further_bytes));
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
  cta.waits = in.flag();
  cta.remaining = in.take(8);
  cta.queue = in.flag();
  cta.gives_turn = in.flag();
  cta.turn_entry = in.take(8);
  cta.turn = in.take(8);
  cta.barriers = take_barriers(in);
  cta.cluster_arrived = in.word();
  cta.cluster_phases = in.take(8);
  cta.warps.resize(in.count(33));
  for (SavedWarp& warp : cta.warps) warp = take_warp(in);
  cta.shared = in.block();
  cta.further_bytes = in.block().size();
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
  arch::put_number(line, arch::saved::kLocal, 4, header.local);
  arch::put_number(line, arch::saved::kOwed, 4, header.owed ? 1 : 0);
  arch::put_number(line, arch::saved::kCga, 8, header.cga);
  arch::put_number(line, arch::saved::kSize, 4, header.size);
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
  header.local = arch::get_32(line, arch::saved::kLocal);
  header.owed = arch::get_32(line, arch::saved::kOwed) != 0;
  header.cga = arch::get_64(line, arch::saved::kCga);
  header.size = arch::get_32(line, arch::saved::kSize);
  return header;
}

SaveLayout::SaveLayout(const SavedHeader& header) : state_bytes_(header.bytes), local_bytes_(header.local) {
  chunks_ = (kRecordBytes + whole(state_bytes_) + local_bytes_ + arch::kSaveChunk - 1) / arch::kSaveChunk;
  while (end() > chunks_ * arch::kSaveChunk) ++chunks_;
}

CgaPublication::CgaPublication(std::uint64_t record, const SavedHeader& header,
                               std::vector<protocol::SavedMember> members, std::uint32_t ctas, std::uint32_t size)
    : address_(record), task_(header.record), members_(std::move(members)), references_(members_.size()) {
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
      at_ = At::open;
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
  woken_ = unmoved_ > 0;
  at_ = woken_ ? At::forget : At::unlock;
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

ContextTransfer ContextTransfer::save(const arch::RecordPool& chunks, const SavedHeader& header,
                                      const std::vector<std::uint8_t>& state, const Home& home,
                                      std::vector<Local> local) {
  HEDDLE_CHECK(SaveLayout::fits(chunks, header) && header.bytes == state.size(), "a saved CTA does not fit");
  ContextTransfer transfer(chunks);
  transfer.header_ = header;
  transfer.home_ = home;
  transfer.local_ = std::move(local);
  transfer.begin_layout();
  if (home.kind == Home::Kind::leader) transfer.chunk_.push_back(0);  // for the CGA's record
  const SavedLine line = line_of(header);
  transfer.stream_.resize(transfer.layout_.end());
  std::copy(line.begin(), line.end(), transfer.stream_.begin());
  std::copy(state.begin(), state.end(),
            transfer.stream_.begin() + static_cast<std::ptrdiff_t>(transfer.layout_.state_at()));
  return transfer;
}

ContextTransfer ContextTransfer::restore(const arch::RecordPool& chunks, std::uint64_t area, std::vector<Local> local) {
  ContextTransfer transfer(chunks);
  transfer.local_ = std::move(local);
  transfer.restores_ = true;
  transfer.at_ = At::header;
  transfer.chunk_.assign(1, area);
  return transfer;
}

ContextTransfer ContextTransfer::restore_member(const arch::RecordPool& chunks, std::uint64_t record,
                                                std::uint32_t rank, std::uint64_t home, std::vector<Local> local) {
  ContextTransfer transfer = restore(chunks, 0, std::move(local));
  transfer.at_ = At::find;
  transfer.cga_ = record;
  transfer.rank_ = rank;
  transfer.home_.here = home;
  return transfer;
}

void ContextTransfer::publish(std::vector<protocol::SavedMember> members, std::uint32_t ctas, std::uint32_t size) {
  HEDDLE_CHECK(at_ == At::parked && home_.kind == Home::Kind::leader, "a CGA is published that has not been saved");
  at_ = At::publish;
  cga_ = chunk_.back();
  publication_.emplace(cga_, header_, std::move(members), ctas, size);
}

void ContextTransfer::keep() {
  HEDDLE_CHECK(at_ == At::parked || at_ == At::over, "a CTA stays in memory that has not come there");
  outcome_ = Outcome::saved;
  at_ = At::over;
}

void ContextTransfer::begin_layout() {
  layout_ = SaveLayout(header_);
  chunk_.resize(layout_.chunks(), 0);
}

bool ContextTransfer::has_open_chunk() const {
  return std::find(marks_.begin(), marks_.end(), Mark::open) != marks_.end();
}

bool ContextTransfer::wants() const {
  const bool room = in_flight_ < kWindow;
  switch (at_) {
    case At::take:
    case At::put:
      return room && has_open_chunk();
    case At::gather:
    case At::write:
    case At::read:
    case At::scatter:
      return room && sent_ < layout_.end() && outcome_ == Outcome::open;
    case At::list:
      return room && sent_ < layout_.state_at();  // also of one that is cancelled: they go back
    case At::parked:
    case At::over:
      return false;
    default:
      return in_flight_ == 0;
  }
}

ContextTransfer::Access ContextTransfer::next() {
  HEDDLE_CHECK(wants(), "a context transfer was asked for more than it wants");
  ++in_flight_;
  again_ = false;
  Access access;
  const std::uint64_t home = header_.context + arch::context::kHome;
  const std::uint64_t count = chunk_.size();
  switch (at_) {
    case At::reserve:
      access.step = {MemoryStep::Kind::add, pool_.base + arch::ring::kUsed, count};
      return access;
    case At::unreserve:
    case At::uncount:
      access.step = {MemoryStep::Kind::add, pool_.base + arch::ring::kUsed, std::uint64_t{0} - count};
      return access;
    case At::ticket:
      access.step = {MemoryStep::Kind::add, pool_.base + arch::ring::kTaken, count};
      return access;
    case At::give:
      access.step = {MemoryStep::Kind::add, pool_.base + arch::ring::kGiven, count};
      return access;
    case At::take:
    case At::put:
      return step_of_chunk();
    case At::gather:
      return local_access(Access::Kind::read);
    case At::scatter:
      return local_access(Access::Kind::write);
    case At::enter:
      access.step = {MemoryStep::Kind::add, header_.record + arch::tmd::kOpen, 1};
      return access;
    case At::write:
      return transfer_of(Access::Kind::write, layout_.end());
    case At::read:
      return transfer_of(Access::Kind::read, layout_.end());
    case At::list:
      return transfer_of(Access::Kind::read, layout_.state_at());
    case At::look:
      access.step = {MemoryStep::Kind::read, home};
      return access;
    case At::link:
      access.step = {MemoryStep::Kind::write, area() + arch::saved::kNext, head_};
      return access;
    case At::claim:
      access.step = {MemoryStep::Kind::compare_exchange, home, arch::saved_home(area()),
                     home_.kind == Home::Kind::shared ? head_ : home_.here};
      return access;
    case At::late:
      access.step = {MemoryStep::Kind::read, header_.context + arch::context::kWork};
      return access;
    case At::publish:
      if (publication_->writes_record()) {
        const std::vector<std::uint8_t>& record = publication_->record();
        return {Access::Kind::write, {}, cga_, static_cast<std::uint32_t>(record.size()), record.data(), false, 0};
      }
      access.step = publication_->step();
      return access;
    case At::find:
      return {Access::Kind::read, {}, cga_ + arch::saved_cga::kAreas + 8 * rank_ / 16 * 16, 16, nullptr, false, 0};
    case At::rehome:
      access.step = {MemoryStep::Kind::compare_exchange, home, home_.here, arch::saved_cga_home(cga_)};
      return access;
    case At::drop:
      access.step = {MemoryStep::Kind::add, cga_ + arch::saved_cga::kWord, std::uint64_t{0} - references_};
      return access;
    case At::revoke:
      access.step = {MemoryStep::Kind::compare_exchange, home, arch::kHomeWoken, arch::saved_home(area())};
      return access;
    case At::header:
      return {Access::Kind::read, {}, area(), kRecordBytes, nullptr, false, 0};
    case At::parked:
    case At::over:
      break;
  }
  return access;
}

// Of a ticket that is taken for the first time the chunk is known.
void ContextTransfer::begin_chunks(At at, std::uint64_t ticket) {
  at_ = at;
  ticket_ = ticket;
  marks_.assign(chunk_.size(), Mark::open);
  for (std::uint64_t i = 0; at == At::take && i < marks_.size() && ticket + i < pool_.count; ++i) {
    chunk_[i] = pool_.record(ticket + i);
    marks_[i] = Mark::done;
  }
  chunks_done();
}

ContextTransfer::Access ContextTransfer::step_of_chunk() {
  const auto open = std::find(marks_.begin(), marks_.end(), Mark::open);
  *open = Mark::asked;
  Access access;
  access.offset = static_cast<std::uint64_t>(open - marks_.begin());
  const std::uint64_t slot = pool_.slot(ticket_ + access.offset);
  access.step = at_ == At::take ? MemoryStep{MemoryStep::Kind::exchange, slot, 0}
                                : MemoryStep{MemoryStep::Kind::compare_exchange, slot, chunk_[access.offset], 0};
  return access;
}

void ContextTransfer::chunk_answered(std::uint64_t number, std::uint64_t old) {
  const bool done = at_ == At::take ? old != 0 : old == 0;
  marks_[number] = done ? Mark::done : Mark::open;
  again_ = !done;
  if (done && at_ == At::take) chunk_[number] = old;
  chunks_done();
}

void ContextTransfer::chunks_done() {
  if (std::any_of(marks_.begin(), marks_.end(), [](Mark mark) { return mark != Mark::done; })) return;
  if (at_ == At::put) {
    at_ = At::uncount;
    return;
  }
  if (outcome_ == Outcome::open) {
    begin_stream(At::gather, layout_.local_at());
  } else {
    at_ = At::give;
  }
  for (std::uint64_t i = 1; i < layout_.chunks(); ++i) {
    for (std::uint32_t byte = 0; byte < 8; ++byte) {
      stream_[kRecordBytes + 8 * (i - 1) + byte] = static_cast<std::uint8_t>(chunk_[i] >> (8 * byte));
    }
  }
}

// The part of the stream from that offset on is to be moved, if there is one.
void ContextTransfer::begin_stream(At at, std::uint64_t offset) {
  at_ = at;
  sent_ = offset;
  if (sent_ == layout_.end()) settled();
}

// Its place in local memory is that of the same byte in the stream.
ContextTransfer::Access ContextTransfer::local_access(Access::Kind kind) {
  std::uint64_t offset = sent_ - layout_.local_at();
  auto part = local_.begin();
  while (part != local_.end() && offset >= part->bytes) offset -= part++->bytes;
  HEDDLE_CHECK(part != local_.end(), "a saved CTA has more local memory than its warps");
  const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(kAccess, part->bytes - offset));
  Access access{kind, {}, part->address + offset, bytes, nullptr, true, sent_};
  if (kind == Access::Kind::write) access.data = stream_.data() + sent_;
  sent_ += bytes;
  return access;
}

ContextTransfer::Access ContextTransfer::transfer_of(Access::Kind kind, std::uint64_t end) {
  Access access{kind, {}, address_of(sent_), layout_.access_bytes(sent_, end, kAccess), nullptr, false, sent_};
  if (kind == Access::Kind::write) access.data = stream_.data() + sent_;
  sent_ += access.bytes;
  return access;
}

void ContextTransfer::answer(const Access& access, std::uint64_t old, const std::uint8_t* data) {
  --in_flight_;
  again_ = false;
  switch (at_) {
    case At::reserve:
      if (old + chunk_.size() > pool_.count) decide(Outcome::no_area);
      at_ = outcome_ == Outcome::open ? At::ticket : At::unreserve;
      return;
    case At::unreserve:
    case At::uncount:
      at_ = At::over;
      return;
    case At::ticket:
      return begin_chunks(At::take, old);
    case At::give:
      return begin_chunks(At::put, old);
    case At::take:
    case At::put:
      return chunk_answered(access.offset, old);
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
    case At::publish:
      publication_->answer(old);
      if (publication_->over()) published();
      return;
    case At::find:
      return found(data);
    case At::rehome:
      if (old == arch::saved_cga_home(cga_)) ++references_;
      at_ = At::drop;
      return;
    case At::drop:
      if (arch::cga_references(old) == references_) chunk_.push_back(cga_);  // the last
      restored();
      return;
    case At::late:
      late_ = arch::work_of(old) <= 1;
      outcome_ = Outcome::saved;
      at_ = At::over;
      return;
    case At::revoke: {
      const bool found = old != arch::saved_home(area());  // by a waker: the area is whose it brings back
      outcome_ = found ? Outcome::saved : Outcome::cancelled;
      at_ = found ? At::over : At::give;
      return;
    }
    case At::header:
      return header_read(data);
    case At::gather:
    case At::list:
    case At::read:
      std::copy_n(data, access.bytes, stream_.begin() + static_cast<std::ptrdiff_t>(access.offset));
      return settled();
    case At::write:
    case At::scatter:
      return settled();
    case At::parked:
    case At::over:
      return;
  }
}

// It does not leave its slot before it is told so.
void ContextTransfer::published() {
  late_ = publication_->woken();
  at_ = At::over;
}

void ContextTransfer::found(const std::uint8_t* data) {
  const std::uint64_t area = number_at(data, rank_ % 2 * 8);
  if (area == 0) {
    outcome_ = Outcome::gone;
    at_ = At::over;
    return;
  }
  chunk_.assign(1, area);
  at_ = At::header;
}

// The state has come, or is not wanted any more.
void ContextTransfer::end_restore() {
  if (cga_ == 0) return restored();
  references_ = 1;
  at_ = header_.context == 0 ? At::drop : At::rehome;
}

void ContextTransfer::restored() {
  at_ = At::give;
  if (outcome_ != Outcome::open) return;
  outcome_ = Outcome::restored;
  const auto begin = stream_.begin() + static_cast<std::ptrdiff_t>(layout_.state_at());
  bytes_.assign(begin, begin + static_cast<std::ptrdiff_t>(header_.bytes));
}

void ContextTransfer::claimed(std::uint64_t old) {
  if (home_.kind == Home::Kind::shared) {
    at_ = old == head_ ? At::late : At::link;
    head_ = old;
  } else if (old != home_.here) {
    decide(Outcome::woken);
    at_ = At::give;
  } else if (revokes_) {
    at_ = At::revoke;
  } else {
    outcome_ = Outcome::saved;
    at_ = At::over;
  }
}

void ContextTransfer::header_read(const std::uint8_t* data) {
  SavedLine line;
  std::copy_n(data, line.size(), line.begin());
  header_ = header_of(line);
  has_header_ = true;
  // Nobody knows where the chunks are of what is none, or how many: they are lost. What is not wanted any more is only
  // given back: its CTA has no warps that have local memory.
  std::uint64_t local = 0;
  for (const Local& part : local_) local += part.bytes;
  const bool other = outcome_ == Outcome::open && header_.local != local;
  if (!SaveLayout::fits(pool_, header_) || other) {
    decide(Outcome::failed);
    at_ = At::over;
    return;
  }
  begin_layout();
  stream_.resize(layout_.end());
  sent_ = kRecordBytes;
  at_ = At::list;
  if (sent_ == layout_.state_at()) list_read();
}

void ContextTransfer::list_read() {
  for (std::uint64_t i = 1; i < chunk_.size(); ++i) {
    chunk_[i] = number_at(stream_.data() + kRecordBytes, static_cast<std::uint32_t>(8 * (i - 1)));
    if (pool_.has(chunk_[i])) continue;
    decide(Outcome::failed);
    at_ = At::over;
    return;
  }
  if (outcome_ == Outcome::open) {
    begin_stream(At::read, layout_.state_at());
  } else {
    end_restore();
  }
}

// Every byte must be there before the home moves, or before the area is somebody else's.
void ContextTransfer::settled() {
  if (in_flight_ > 0) return;
  if (at_ == At::list) {
    if (sent_ == layout_.state_at()) list_read();
  } else if (outcome_ != Outcome::open) {
    restores_ ? end_restore() : give_back();
  } else if (sent_ == layout_.end()) {
    moved();
  }
}

void ContextTransfer::moved() {
  switch (at_) {
    case At::gather:
      return begin_stream(At::write, 0);
    case At::write:
      switch (home_.kind) {
        case Home::Kind::own:
          at_ = At::claim;
          return;
        case Home::Kind::none:
          outcome_ = Outcome::saved;
          at_ = At::over;
          return;
        case Home::Kind::shared:
          at_ = home_.counted ? At::look : At::enter;
          return;
        default:
          at_ = At::parked;
          return;
      }
    case At::read:
      return begin_stream(At::scatter, layout_.local_at());
    default:
      return end_restore();
  }
}

void ContextTransfer::fail(const Access&) {
  --in_flight_;
  again_ = false;
  decide(Outcome::failed);
  switch (at_) {
    case At::gather:
    case At::write:
    case At::read:
    case At::scatter:
      return settled();
    case At::enter:
    case At::look:
    case At::link:
    case At::claim:
      at_ = At::give;
      return;
    case At::late:  // others find it
      outcome_ = Outcome::saved;
      at_ = At::over;
      return;
    case At::publish:  // nobody will find it: it is restored at once
      late_ = true;
      at_ = At::over;
      return;
    case At::header:
      outcome_ = Outcome::failed;  // also of one that has been cancelled: nobody knows its context
      at_ = At::over;
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
  if (at_ == At::reserve) at_ = At::over;
  if (at_ == At::ticket) at_ = At::unreserve;
  if (at_ == At::gather || at_ == At::write || at_ == At::parked) at_ = At::give;
  if (at_ == At::read || at_ == At::scatter) end_restore();
}

}  // namespace heddle::sm
