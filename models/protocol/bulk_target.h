// Where the bytes of a TMAU's line request go to or come from in shared memory (TMA-15): travels with the request.
#pragma once

#include <cstdint>

#include "arch/bulk.h"
#include "arch/tensor_piece.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::protocol {

struct BulkTarget {
  arch::TensorPiece piece;
  arch::Swizzle swizzle = arch::Swizzle::none;
  arch::TensorType type = arch::TensorType::u8;  // of fill and conversion
  arch::Fill fill = arch::Fill::zero;
  bool tensor = false;
  bool by_rank = false;    // receivers by CGA and rank; otherwise the window of cta_slot in the own SM
  std::uint8_t phase = 0;  // of acknowledgement (TMA-31)
  std::uint16_t ctas = 0;  // by_rank: receivers, by cta_id_in_cga
  std::uint32_t barrier = arch::kNoBarrier;  // offset in each receiver
  std::uint32_t cta_slot = 0;                // of the request's CTA, in its SM
  std::uint32_t cga_id = kNoCgaId;           // gpc_local_cga_id of the request's CTA
  std::uint32_t rank = 0;                    // its cta_id_in_cga
  std::uint64_t sequence = 0;                // launch of the CGA
  std::uint64_t cta = 0;                     // linear id of the request's CTA in its grid
  std::uint32_t warp = 0;                    // warp slot of the request
  std::uint32_t unit = 0;                    // of the GPC: the TMAU that asks
  std::uint32_t request = 0;                 // its own number for the request
  // send: to the CTA data_cta (kOwnCta: the own window), at `destination`, perhaps by a reduction.
  std::uint32_t data_cta = arch::kOwnCta;
  std::uint32_t destination = 0;
  bool reduces = false;
  arch::AtomicKind reduction = arch::AtomicKind::add;
  arch::ValueType value = arch::ValueType::u32;
};

}  // namespace heddle::protocol
