#include "sm/saved_cta.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::sm {

using arch::kRecordBytes;

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

}  // namespace heddle::sm
