// Parameters of the copy engines, and one copy or fill, cut into requests that memory takes: what is still to be asked
// for, what is under way, and how it ends (HST-05).
#pragma once

#include <cstdint>

#include "common/param_fwd.h"
#include "protocol/packet_copy.h"

namespace heddle::copy {

struct CopyParams {
  std::uint32_t engines = 2;
  double bandwidth = 64;            // bytes per cycle of an engine
  std::uint32_t outstanding = 512;  // lines under way of an engine
  double set_up = 200;              // ns, from taking a request to its first read

  static void describe(ParamTable<CopyParams>& t);
};

// Bytes that lie in one line at the source, and in one line at the destination; or a run of whole lines at both.
struct Piece {
  std::uint64_t from = 0;  // without meaning for a fill
  std::uint64_t to = 0;
  std::uint32_t bytes = 0;
};

// Why a request cannot be done at all, and the address that it is about.
struct Refusal {
  arch::HsaStatus status = arch::HsaStatus::success;
  std::uint64_t address = 0;
};
// A range that runs past the end of the address space: error. Ranges of a copy that overlap, and a fill of anything
// but whole words: invalid_argument. Nothing is wrong with 0 bytes.
Refusal why_refused(const protocol::CopyRequestPacket& request);

class CopyJob {
 public:
  CopyJob() = default;
  // One that is not refused.
  explicit CopyJob(const protocol::CopyRequestPacket& request) : request_(request) {}

  const protocol::CopyRequestPacket& request() const { return request_; }
  bool is_fill() const { return request_.kind == protocol::CopyKind::fill; }

  // Pieces are left that may be asked for; none after an error.
  bool more() const { return !failed_ && asked_ < request_.bytes; }
  // The next one, in order of addresses; it counts as under way until ended() is called for it.
  Piece next();
  // The bytes of the run that begins here, up to the next multiple of `most` at the destination, a power of two; 0: the
  // next piece is no whole line. And this run as a piece.
  std::uint64_t run(std::uint64_t most) const;
  Piece take(std::uint64_t bytes);
  // It becomes so many, each of which ends.
  void split(std::uint32_t pieces) { under_way_ += pieces - 1; }
  void ended();
  std::uint64_t left() const { return request_.bytes - asked_; }
  // An access of a piece was refused, at `address`. The first of the copy's pieces that fails gives its address.
  void failed(const Piece& piece, std::uint64_t address, bool write);
  bool stopped() const { return failed_; }

  // Nothing is under way, and nothing more will be asked for.
  bool over() const { return under_way_ == 0 && !more(); }
  std::uint32_t under_way() const { return under_way_; }
  arch::HsaStatus status() const { return failed_ ? arch::HsaStatus::error : arch::HsaStatus::success; }
  std::uint64_t failed_address() const { return failed_address_; }
  bool failed_write() const { return failed_write_; }

 private:
  std::uint64_t offset_of(const Piece& piece) const { return piece.to - request_.to; }

  protocol::CopyRequestPacket request_;
  std::uint64_t asked_ = 0;  // bytes
  std::uint32_t under_way_ = 0;
  bool failed_ = false;
  std::uint64_t failed_offset_ = 0;
  std::uint64_t failed_address_ = 0;
  bool failed_write_ = false;
};

}  // namespace heddle::copy
