// How condensed packets write differences (PKT-06), with what the text leaves open (PKT-13): how many bits name an
// entry and how many say what differs, and whether the fields are those of a reference packet or those of the
// information that was stored of it. Plain C++.
//
// A diff is a header {entry, vector}, lowest bits first, in one half-word or, of more than 16 bits, two, low half-word
// first; bits of it that neither takes are 0. For every bit of the vector, in ascending order, the new value of that
// field follows, low half-word first.
#pragma once

#include <array>
#include <cstdint>

#include "arch/aql_packet.h"

namespace heddle::arch {

// What the fields of a vector are. Both have kDispatchFields, in the order of their bits.
enum class DiffOf : std::uint8_t {
  packet,  // DispatchFields
  stored,  // StoredField
};
// Fields of the stored information, in bits 8, 3 x 16, 32, 16, 16, 16, 32, 32, 32, 64, 64. A diff that changes block or
// grid makes a grid of whole workgroups; what it does not name, and what of the kernel object is not among them, stays.
enum class StoredField : std::uint8_t {
  scopes,     // as SynchScopes
  block_x,    // work-items of a workgroup
  block_y,    //
  block_z,    //
  grid_x,     // workgroups
  grid_y,     //
  grid_z,     //
  registers,  // per thread
  shared,     // bytes of a workgroup, static and dynamic
  local,      // bytes of a work-item
  program,    // handle: the kernel object is not read for it
  kernarg,    //
  signal,     //
};

constexpr std::uint32_t kMostEntries = 32;  // of a table
constexpr std::uint32_t kMostReferenceBits = 8;
constexpr std::uint32_t kMostVectorBits = 24;

struct DiffFormat {
  DiffOf of = DiffOf::packet;
  std::uint32_t reference_bits = 3;             // 1 to kMostReferenceBits
  std::uint32_t vector_bits = kDispatchFields;  // 1 to kMostVectorBits

  std::uint32_t header_half_words() const { return (reference_bits + vector_bits + 15) / 16; }
};

// Bits of a field, and half-words that it takes in a diff: 1, 2 or 4.
std::uint32_t bits_of_field(DiffOf of, std::uint32_t field);
std::uint32_t half_words_of(DiffOf of, std::uint32_t field);

// One kernel of a condensed packet.
struct WrittenDiff {
  std::uint32_t reference = 0;
  std::uint32_t vector = 0;      // bit = field that has a new value
  std::uint32_t half_words = 0;  // of all of it
  std::array<std::uint64_t, kDispatchFields> values{};

  bool has(std::uint32_t field) const { return (vector >> field & 1U) != 0; }
};
using WrittenDiffs = std::array<WrittenDiff, kDiffValues>;

// All diffs of a packet, `kernels` of them. Half-words behind the last one, bits of a value above its field's, bits of
// a header beyond its vector, and bits of a vector beyond the fields must be 0. If it is not ok, `kernels` is the diff
// that is wrong, or where the packet ends too late or early.
HsaResult decode(const PacketBytes& bytes, const DiffFormat& format, WrittenDiffs& diffs, std::uint32_t& kernels);
// The first one alone, whatever follows it.
HsaResult decode_first(const PacketBytes& bytes, const DiffFormat& format, WrittenDiff& diff);
// Appends a kernel to a packet, `used` half-words of which are taken; false if it does not fit, or there are 255
// kernels. What the format cannot say is refused: HEDDLE_CHECK.
bool append(CondensedPacket& packet, std::uint32_t& used, const DiffFormat& format, const WrittenDiff& diff);

}  // namespace heddle::arch
