#include "copy/copy_job.h"

#include <algorithm>

#include "arch/memory_op.h"
#include "common/error.h"
#include "common/param_table.h"
#include "common/params.h"

namespace heddle::copy {

using arch::HsaStatus;
using protocol::CopyKind;
using protocol::CopyRequestPacket;

namespace {

std::uint32_t left_in_line(std::uint64_t address) {
  return arch::kLineBytes - static_cast<std::uint32_t>(address % arch::kLineBytes);
}

}  // namespace

Refusal why_refused(const CopyRequestPacket& request) {
  if (request.bytes == 0) return {};
  const std::uint64_t last = request.bytes - 1;
  const bool copy = request.kind == CopyKind::copy;
  if (copy && request.from + last < request.from) return {HsaStatus::error, request.from};
  if (request.to + last < request.to) return {HsaStatus::error, request.to};
  if (!copy) {
    const bool words = request.to % 4 == 0 && request.bytes % 4 == 0;
    return words ? Refusal{} : Refusal{HsaStatus::invalid_argument, request.to};
  }
  const bool overlap = request.from <= request.to + last && request.to <= request.from + last;
  return overlap ? Refusal{HsaStatus::invalid_argument, request.to} : Refusal{};
}

Piece CopyJob::next() {
  HEDDLE_CHECK(more(), "a piece was asked for of a copy that has none left");
  Piece piece;
  piece.to = request_.to + asked_;
  std::uint64_t bytes = std::min<std::uint64_t>(request_.bytes - asked_, left_in_line(piece.to));
  if (!is_fill()) {
    piece.from = request_.from + asked_;
    bytes = std::min<std::uint64_t>(bytes, left_in_line(piece.from));
  }
  piece.bytes = static_cast<std::uint32_t>(bytes);
  asked_ += bytes;
  ++under_way_;
  return piece;
}

std::uint64_t CopyJob::run(std::uint64_t most) const {
  const std::uint64_t to = request_.to + asked_;
  const bool whole = to % arch::kLineBytes == 0 && (is_fill() || (request_.from + asked_) % arch::kLineBytes == 0);
  if (!more() || !whole) return 0;
  return std::min(left() / arch::kLineBytes * arch::kLineBytes, most - to % most);
}

Piece CopyJob::take(std::uint64_t bytes) {
  HEDDLE_CHECK(more() && bytes <= left(), "a run was taken of a copy that has none left");
  Piece piece;
  piece.to = request_.to + asked_;
  piece.from = is_fill() ? 0 : request_.from + asked_;
  piece.bytes = static_cast<std::uint32_t>(bytes);
  asked_ += bytes;
  ++under_way_;
  return piece;
}

void CopyJob::ended() {
  HEDDLE_CHECK(under_way_ > 0, "a piece ended that was not under way");
  --under_way_;
}

void CopyJob::failed(const Piece& piece, std::uint64_t address, bool write) {
  HEDDLE_CHECK(under_way_ > 0, "a piece failed that was not under way");
  --under_way_;
  if (failed_ && failed_offset_ < offset_of(piece)) return;
  failed_ = true;
  failed_offset_ = offset_of(piece);
  failed_address_ = address;
  failed_write_ = write;
}

void CopyParams::describe(ParamTable<CopyParams>& t) {
  t.add("engines", &CopyParams::engines, {Unit::count, 1, 64}, "copy engines: copies and fills that run side by side",
        "HST-05: two");
  t.add("bandwidth", &CopyParams::bandwidth, {Unit::bytes_per_cycle, 0.25, 10'000.0},
        "bytes per cycle that an engine moves at most; the ways to memory and to the host have limits of their own",
        "assumption: 112 GB/s at 1.755 GHz, twice the host's link");
  t.add("outstanding", &CopyParams::outstanding, {Unit::count, 1, 65'536},
        "pieces of at most a line that an engine has read or written without an answer yet",
        "assumption: 64 KiB, enough to keep a link of 55 GB/s busy over 1.1 us");
  t.add("set_up", &CopyParams::set_up, {Unit::ns, 0.0, 1e9},
        "from taking a request to its first read, or to the first write of a fill", "assumption");
}

}  // namespace heddle::copy
