// Whose bytes move between SMs and memory (PRT-09). Every request has one owner, the subcontext that it carries, and so
// has every byte that moves for it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "arch/kernel_account.h"
#include "common/bits.h"
#include "common/observation.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

// Whose each sector of a line is.
class SectorOwners {
 public:
  std::uint8_t operator[](std::uint32_t sector) const { return static_cast<std::uint8_t>(all_ >> sector * 8); }
  void set(std::uint32_t sectors, std::uint8_t owner) {
    const std::uint32_t mask = spread(sectors) * 0xFF;
    all_ = (all_ & ~mask) | (spread(sectors) * owner & mask);
  }
  // All of these sectors, of which there is one at least, are of one owner.
  bool alike(std::uint32_t sectors) const {
    const std::uint32_t spread_out = spread(sectors);
    return ((all_ ^ spread_out * (*this)[bits::lowest(sectors)]) & spread_out * 0xFF) == 0;
  }

 private:
  // Bit i becomes bit 8 * i.
  static std::uint32_t spread(std::uint32_t sectors) { return (sectors & 0xF) * 0x0020'4081 & 0x0101'0101; }

  std::uint32_t all_ = 0;
};

// For which kernel each sector of a line is fetched, by its row (arch/kernel_account.h).
class SectorKernels {
 public:
  std::uint32_t operator[](std::uint32_t sector) const { return rows_[sector]; }
  void set(std::uint32_t sectors, std::uint32_t row) {
    bits::for_each(sectors, [&](std::uint32_t sector) { rows_[sector] = row; });
  }

 private:
  std::array<std::uint32_t, arch::kSectorsPerLine> rows_{};
};

// What a payload's bytes are counted for. What says nothing of a subcontext, as what the machine or a host does by
// itself, is subcontext 0's.
inline std::uint8_t owner_of(const protocol::MemoryExtension* extension) {
  return extension == nullptr ? std::uint8_t{0} : extension->subcontext;
}

// The sums of a machine: one row for each subcontext that has moved something, shared by all blocks between SMs and
// memory. The sums over the rows are the blocks' own: requests and hits of the L2, bytes that pass the GPCs' links of
// the crossbar, sectors that L2 slices read and write.
class OwnerAccounts {
 public:
  struct Row : StatGroup {
    using StatGroup::StatGroup;
    Counter& l2_requests = counter("l2_requests", "requests", "requests of the subcontext that the L2 has served");
    Counter& l2_hits = counter("l2_hits", "requests", "of these, served without waiting for memory");
    Counter& l2_bytes =
        counter("l2_bytes", "bytes", "sectors that the subcontext's reads, writes and atomics touched in the L2");
    Counter& request_bytes =
        counter("xbar_request_bytes", "bytes", "requests of the subcontext that entered the crossbar");
    Counter& response_bytes =
        counter("xbar_response_bytes", "bytes", "responses to the subcontext that entered the crossbar");
    Counter& read_bytes = counter("hbm_read_bytes", "bytes",
                                  "sectors read from memory because the subcontext asked first, or to complete sectors "
                                  "that it wrote in parts");
    Counter& written_bytes =
        counter("hbm_written_bytes", "bytes", "sectors written to memory that the subcontext wrote last");
    Counter& limited = counter("limited", "requests",
                               "requests that waited first of their subcontext at an L2 slice, because it had used up "
                               "its limit of bandwidth");
    Counter& limited_cycles =
        counter("limited_cycles", "request cycles", "how long they did, from then until they were served");
    Counter& places = counter("place_waits", "requests",
                              "requests that waited in front of the crossbar for one of the subcontext's places "
                              "at an L2 slice, while bandwidth is shared");
  };

  // The observation must outlive it.
  explicit OwnerAccounts(Observation& observation) : observation_(observation) {}

  Row& of(std::uint8_t owner) {
    if (rows_[owner] == nullptr) add(owner);
    return *rows_[owner];
  }
  // Sectors of a line that move between an L2 slice and memory.
  void count(const SectorOwners& owners, std::uint32_t sectors, Counter& (*which)(Row& row)) {
    if (sectors == 0) return;
    if (owners.alike(sectors)) {
      return which(of(owners[bits::lowest(sectors)])).add(std::uint64_t{bits::count(sectors)} * arch::kSectorBytes);
    }
    bits::for_each(sectors, [&](std::uint32_t sector) { which(of(owners[sector])).add(arch::kSectorBytes); });
  }
  static Counter& requested(Row& row) { return row.request_bytes; }
  static Counter& answered(Row& row) { return row.response_bytes; }
  static Counter& read(Row& row) { return row.read_bytes; }
  static Counter& written(Row& row) { return row.written_bytes; }

 private:
  void add(std::uint8_t owner) {
    rows_[owner] =
        std::make_unique<Row>(observation_.stats, fmt::format("{}.memory.subcontext{}", observation_.prefix, owner));
  }

  Observation& observation_;
  std::array<std::unique_ptr<Row>, 256> rows_;  // any number that a request can carry
};

}  // namespace heddle::memory
