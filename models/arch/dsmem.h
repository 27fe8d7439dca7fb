// Distributed shared memory (DSMEM): how a CTA of a CGA addresses the shared memory of the others (CGA-05).
#pragma once

#include <cstdint>

namespace heddle::arch {

// Bits 31:24: the CTA in its CGA (cta_id_in_cga); bits 23:0: the offset in its shared memory.
constexpr std::uint32_t kDsmemOffsetBits = 24;
constexpr std::uint32_t kDsmemOffsets = std::uint32_t{1} << kDsmemOffsetBits;
constexpr std::uint64_t kDsmemAddresses = std::uint64_t{1} << 32;

// CTAs of a GPC_CGA: cta_id_in_cga has 5 bits in tables and packets.
constexpr std::uint32_t kMaxCgaCtas = 32;

constexpr std::uint64_t dsmem_address(std::uint32_t rank, std::uint32_t offset) {
  return std::uint64_t{rank} << kDsmemOffsetBits | offset;
}
// Beyond 255 for what is no DSMEM address.
constexpr std::uint64_t dsmem_rank(std::uint64_t address) { return address >> kDsmemOffsetBits; }
constexpr std::uint32_t dsmem_offset(std::uint64_t address) {
  return static_cast<std::uint32_t>(address & (kDsmemOffsets - 1));
}

// What the target of a request answers (CGA-08).
enum class DsmemStatus : std::uint8_t {
  ok,
  cta_not_present,  // no match in the CAM: the CTA has exited
  out_of_range,     // OOR_ADDR: beyond the CTA's shared memory, or in a part that it has given back
  poison,           // the data are corrupt
  mbarrier,         // an operation that CGA-14 forbids
};

}  // namespace heddle::arch
