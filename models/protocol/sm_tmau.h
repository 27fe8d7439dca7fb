// SM <-> tensor memory access unit (TMAU), TMAU <-> TMAU, crossbar -> TMAU: bulk requests, their data and their ends.
//
// Data travel by reference: packets point to a payload of the TMAU's pool and hold a reference of it, which the
// receiver releases when it has done with it. Lines that calls have read have no payload (BulkLines).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "arch/mbarrier.h"
#include "arch/tensor_data.h"
#include "common/cycle.h"
#include "common/line_source.h"
#include "protocol/ids.h"

namespace heddle::protocol {

class MemoryRequest;
struct BulkLines;

// SM -> TMAU: a thread's request. Credits are places of the unit's input queue for that SM.
struct BulkRequestPacket {
  arch::BulkRequest request;
  std::uint32_t id = 0;         // the SM's own number; comes back in BulkDonePacket
  std::uint32_t operation = 0;  // the kernel, for messages
  CtaSlot cta_slot;
  WarpSlot warp;
  std::uint64_t cta = 0;  // linear id in the grid
  std::uint8_t subcontext = 0;
  std::uint32_t kernel = 0;  // row of the kernel (arch/kernel_account.h)
  // CGA of the CTA, and the receivers of a load by rank (data_cta or multicast): SMs as bits of the GPC's masks.
  // by_rank false: the data come to the CTA itself.
  std::optional<CgaId> cga_id;
  std::uint32_t rank = 0;
  std::uint64_t sequence = 0;
  bool by_rank = false;
  std::uint16_t ctas = 0;                        // receivers
  std::uint64_t sms = 0;                         // where they are
  std::uint32_t room = ~std::uint32_t{0};        // bytes from request.shared to the end of the CTA's shared memory
  std::uint32_t room_there = ~std::uint32_t{0};  // send: the same from request.destination in the receiver
  // The kernel began on its SM in that cycle: descriptors that were fetched before do not count for it (TMA-04).
  Cycle descriptors_from = 0;
  arch::TensorRule broken = arch::TensorRule::none;  // a rule that the SM has found broken: to be dropped in its turn
};

// TMAU -> SM: what a request has come to.
struct BulkDonePacket {
  enum class Kind : std::uint8_t {
    read,      // store, reduce, send: its source in shared memory has been read, and may be overwritten
    accepted,  // store, reduce: the L2 has taken all of it over, in the order of later requests of the GPC; not with an
               // error that is known by then
    complete,  // everything has arrived; it is over
    dropped,   // it broke `rule`: nothing was moved; it is over
    failed,    // memory answered with an error for `address`; what else there was has been moved; it is over
  };
  Kind kind = Kind::complete;
  std::uint32_t id = 0;
  arch::TensorRule rule = arch::TensorRule::none;
  std::uint64_t address = 0;
  // failed: not by memory, but by corrupt data: of the descriptor, or of the source in shared memory; then
  // the address is an offset there.
  bool poison = false;
  // failed: because the subcontext has no page there (PRT-08); read_only: it has one, and may not write to it.
  bool unmapped = false;
  bool read_only = false;
  bool write = false;      // failed: it was a write
  arch::RuleSet reported;  // rules that were broken, and are only reported
};

// TMAU -> SM, and crossbar -> TMAU for multicast: bytes for shared memory. What the receiver does is in the payload's
// bulk(): data of the piece's inside bytes (from the lowest inside byte on: the payload's address), fill for others.
struct BulkDataPacket {
  MemoryRequest* request = nullptr;
  SmInGpc sm;
  bool accepted = false;  // crossbar -> TMAU: no data; the L2 has taken that write of the SM over
  // Where reads are calls: lines that came without payloads, many at once and no `request`. The packet arrives when the
  // last of them does, and they are looked at before, inside the call that sends it.
  const BulkLines* lines = nullptr;
};

// TMAU -> SM and back: bytes of shared memory are wanted for a store or reduction, as the payload's bulk() says. The SM
// fills the payload's data, from the lowest inside byte to the highest, and sends the packet back. Of a send, the SM
// brings the bytes to the receiver itself, and the packet comes back when they are there.
struct BulkReadPacket {
  MemoryRequest* request = nullptr;
  SmInGpc sm;
  bool forward = false;  // a send
  // Answer: nothing is written. The payload is poisoned if the bytes are corrupt; other errors the SM has told by
  // itself.
  bool failed = false;
};

// TMAU -> SM-to-SM network -> TMAU of the same GPC. A unit's ports there are those of its first SM.
struct BulkPeerPacket {
  enum class Kind : std::uint8_t {
    acknowledge,  // to the unit that asked: `count` packets of request `request` have been delivered (TMA-31)
    fill,         // to a receiver: a piece without bytes from memory
  };
  Kind kind = Kind::acknowledge;
  SmInGpc from_sm;
  SmInGpc to_sm;
  std::uint32_t request = 0;
  std::uint32_t count = 0;
  std::uint8_t phase = 0;
  BulkDataPacket data;  // fill
};

// Where the bytes of a TMAU's line request go to or come from in shared memory (TMA-15): travels with the request.
struct BulkTarget {
  arch::TensorPiece piece;
  arch::Swizzle swizzle = arch::Swizzle::none;
  arch::TensorType type = arch::TensorType::u8;  // of fill and conversion
  arch::Fill fill = arch::Fill::zero;
  bool tensor = false;
  bool by_rank = false;                  // receivers by CGA and rank; otherwise the window of cta_slot in the own SM
  std::uint8_t phase = 0;                // of acknowledgement (TMA-31)
  std::uint16_t ctas = 0;                // by_rank: receivers, by cta_id_in_cga
  std::optional<std::uint32_t> barrier;  // offset in each receiver
  CtaSlot cta_slot;                      // of the request's CTA, in its SM
  std::optional<CgaId> cga_id;           // of the request's CTA
  std::uint32_t rank = 0;                // its cta_id_in_cga
  std::uint64_t sequence = 0;            // launch of the CGA
  std::uint64_t cta = 0;                 // linear id of the request's CTA in its grid
  WarpSlot warp;                         // of the request
  std::uint32_t id = 0;                  // its SM's number for the request
  std::uint32_t unit = 0;                // of the GPC: the TMAU that asks
  std::uint32_t request = 0;             // its own number for the request
  // send: to the CTA data_cta (none: the own window), at `destination`, perhaps by a reduction.
  std::optional<std::uint32_t> data_cta;
  std::uint32_t destination = 0;
  bool reduces = false;
  arch::AtomicKind reduction = arch::AtomicKind::add;
  arch::ValueType value = arch::ValueType::u32;
};

// Lines of one request that calls have read (LineSource), for one receiver. They are the sender's.
struct BulkLines final : LineParcel {
  static constexpr std::uint32_t kMost = 16;

  BulkTarget target;  // of all, but for the piece
  std::uint32_t count = 0;
  Cycle last = 0;                   // the latest of `arrivals`
  const Cycle* arrivals = nullptr;  // at the receiver's unit
  std::array<arch::TensorPiece, kMost> pieces;
  std::array<std::array<std::uint8_t, arch::kLineBytes>, kMost> bytes;  // inside ones of each piece, from the lowest on
};

}  // namespace heddle::protocol
