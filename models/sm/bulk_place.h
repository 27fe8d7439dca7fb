// What a piece of a bulk request does to a window of shared memory (TMA-13, TMA-20, TMA-40). Without time.
#pragma once

#include <cstdint>

#include "arch/dsmem.h"
#include "arch/swizzle.h"
#include "protocol/bulk_target.h"
#include "sm/shared_memory.h"

namespace heddle::sm {

struct BulkPlaced {
  arch::DsmemStatus status = arch::DsmemStatus::ok;
  std::uint32_t offset = 0;  // in the window, of the first byte that was wrong, in the order of the piece
  std::uint32_t cycles = 1;  // of the port
  bool completes = false;    // complete_bulk(): a phase of the mbarrier
};

// Writes the piece: `data` are those of its inside bytes, from the lowest on; other bytes are filled. Nothing is
// written if any byte, filled ones included, would lie beyond the window. `poisoned`: the data are corrupt, and so is
// what they are written to. `window` may be kNoWindow: nobody is there.
BulkPlaced write_piece(SharedMemory& memory, std::uint32_t window, const arch::SwizzleTable& swizzles,
                       const protocol::BulkTarget& target, const std::uint8_t* data, bool poisoned);

// Reads its inside bytes: `data` gets the bytes from the lowest to the highest of them. What lies between them and is
// not inside is zero. Nothing is read if an inside byte lies beyond the window or is corrupt.
BulkPlaced read_piece(const SharedMemory& memory, std::uint32_t window, const arch::SwizzleTable& swizzles,
                      const protocol::BulkTarget& target, std::uint8_t* data);

// That many bytes have come for the mbarrier at that offset.
BulkPlaced complete_bulk(SharedMemory& memory, std::uint32_t window, std::uint32_t barrier, std::uint32_t bytes);

}  // namespace heddle::sm
