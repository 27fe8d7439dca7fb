// Which L2 slice holds an address.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "arch/instances.h"
#include "arch/memory_op.h"
#include "common/error.h"

namespace heddle::arch {

// Lines are dealt to slices: every run of `slices` consecutive lines has one in each slice, in an order that depends on
// the run, so that power-of-two strides spread as well. Slices are numbered partition by partition. The lines of an
// instance's memory are dealt to its own slices alone, in the same way (PRT-11).
//
// A slice counts its lines: the run that a line is of is its number there. What lies behind the memories of instances
// has numbers behind theirs, from a multiple of kRowLines on.
class AddressMap {
 public:
  // More than any row of memory holds of them: lines from a multiple on may share one.
  static constexpr std::uint64_t kRowLines = 64;

  // A line as its slice counts it.
  struct Place {
    std::uint32_t slice = 0;
    std::uint64_t number = 0;
  };

  // `bytes` of memory from address 0; slices a multiple of partitions.
  AddressMap(std::uint64_t bytes, std::uint32_t slices, std::uint32_t partitions) : bytes_(bytes), slices_(slices) {
    HEDDLE_CHECK(partitions > 0 && slices > 0 && slices % partitions == 0, "slices do not divide by partitions");
    per_partition_ = slices / partitions;
  }
  AddressMap(std::uint64_t bytes, std::uint32_t slices, std::uint32_t partitions, const Instances& instances)
      : AddressMap(bytes, slices, partitions) {
    for (std::uint32_t i = 0; i < instances.count(); ++i) {
      parts_.push_back({instances.base(i) / kLineBytes, instances.base(i + 1) / kLineBytes, instances[i].slices});
      const std::uint64_t rows = parts_.back().runs() / kRowLines + 1;
      behind_parts_ = std::max(behind_parts_, rows * kRowLines);
    }
  }

  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t slices() const { return slices_; }
  std::uint32_t partitions() const { return slices_ / per_partition_; }
  // Whether each of two partitions keeps copies of what the other one has.
  void keep_copies() {
    HEDDLE_CHECK(partitions() == 2 && parts_.empty(), "copies are kept between two partitions of a whole machine");
    copies_ = true;
  }
  bool copies() const { return copies_; }
  // Where a request of that partition goes: with copies, to a slice of it.
  std::uint32_t entry_of(std::uint64_t address, std::uint32_t partition) const {
    const std::uint32_t slice = slice_of(address);
    return !copies_ || partition_of(slice) == partition ? slice : twin_of(slice);
  }
  // The slice in the other of two partitions that a slice has for its twin: copies of each one's lines lie in the
  // other.
  std::uint32_t twin_of(std::uint32_t slice) const { return (slice + per_partition_) % slices_; }
  // Of an address in memory, or outside it: such a request has to be refused somewhere.
  std::uint32_t slice_of(std::uint64_t address) const {
    const std::uint64_t line = address / kLineBytes;
    for (const Part& part : parts_) {
      if (line < part.end && line >= part.begin) return part.slices[deal(line - part.begin, part.count())];
    }
    return deal(line, slices_);
  }
  // No two lines have the same.
  Place place_of(std::uint64_t address) const {
    const std::uint64_t line = address / kLineBytes;
    for (const Part& part : parts_) {
      if (line >= part.end || line < part.begin) continue;
      return {part.slices[deal(line - part.begin, part.count())], (line - part.begin) / part.count()};
    }
    return {deal(line, slices_), line / slices_ + behind_parts_};
  }
  // The line (address / kLineBytes) of a place; none if no line of memory is there.
  std::optional<std::uint64_t> line_at(const Place& place) const {
    if (place.number < behind_parts_) {
      for (const Part& part : parts_) {
        const auto found = std::find(part.slices.begin(), part.slices.end(), place.slice);
        if (found == part.slices.end()) continue;
        const auto index = static_cast<std::uint32_t>(found - part.slices.begin());
        const std::uint64_t line = part.begin + undeal(place.number, index, part.count());
        return line < part.end ? std::optional(line) : std::nullopt;
      }
      return std::nullopt;
    }
    const std::uint64_t line = undeal(place.number - behind_parts_, place.slice, slices_);
    const bool in_part = !parts_.empty() && line < parts_.back().end;
    return in_part || line >= bytes_ / kLineBytes ? std::nullopt : std::optional(line);
  }
  // One address of every slice or, with an instance, of each of its slices and in its memory.
  std::vector<std::uint64_t> addresses_of_slices(std::optional<std::uint32_t> instance) const {
    const std::uint64_t first = instance ? parts_[*instance].begin : parts_.empty() ? 0 : parts_.back().end;
    std::size_t missing = instance ? parts_[*instance].slices.size() : slices_;
    std::vector<std::optional<std::uint64_t>> found(slices_);
    for (std::uint64_t line = first; missing > 0; ++line) {
      std::optional<std::uint64_t>& of_slice = found[slice_of(line * kLineBytes)];
      missing -= of_slice ? 0 : 1;
      if (!of_slice) of_slice = line * kLineBytes;
    }
    std::vector<std::uint64_t> addresses;  // in the order of the slices
    for (const auto& of_slice : found) {
      if (of_slice) addresses.push_back(*of_slice);
    }
    return addresses;
  }
  std::uint32_t partition_of(std::uint32_t slice) const { return slice / per_partition_; }
  // Where the memory of an instance begins and ends or, without one, all of it.
  std::uint64_t begin_of(std::optional<std::uint32_t> instance) const {
    return instance ? parts_[*instance].begin * kLineBytes : 0;
  }
  std::uint64_t end_of(std::optional<std::uint32_t> instance) const {
    return instance ? parts_[*instance].end * kLineBytes : bytes_;
  }
  // True if [address, address + bytes) lies in memory.
  bool contains(std::uint64_t address, std::uint64_t bytes) const {
    return bytes <= bytes_ && address <= bytes_ - bytes;
  }

 private:
  // Of an instance.
  struct Part {
    std::uint64_t begin = 0;  // lines
    std::uint64_t end = 0;
    std::vector<std::uint32_t> slices;

    std::uint32_t count() const { return static_cast<std::uint32_t>(slices.size()); }
    std::uint64_t runs() const { return (end - begin + slices.size() - 1) / slices.size(); }
  };

  // By how much the order of a run is turned.
  static std::uint64_t turn(std::uint64_t run) {
    std::uint64_t mix = run * 0x9E37'79B9'7F4A'7C15U;
    mix ^= mix >> 32;
    return mix & 0xFFFF'FFFF;
  }
  static std::uint32_t deal(std::uint64_t line, std::uint32_t slices) {
    const std::uint64_t run = line / slices;
    return static_cast<std::uint32_t>((line - run * slices + turn(run)) % slices);
  }
  // The line of a run that deal() gives to a slice.
  static std::uint64_t undeal(std::uint64_t run, std::uint32_t slice, std::uint32_t slices) {
    return run * slices + (slice + slices - turn(run) % slices) % slices;
  }

  std::uint64_t bytes_;
  std::uint32_t slices_;
  std::uint32_t per_partition_ = 1;
  bool copies_ = false;
  std::vector<Part> parts_;  // none without instances
  std::uint64_t behind_parts_ = 0;
};

// Distributed shared memory (DSMEM): how a CTA of a CGA addresses the shared memory of the others (CGA-05).

// Bits 31:24: the CTA in its CGA (cta_id_in_cga); bits 23:0: the offset in its shared memory.
constexpr std::uint32_t kDsmemOffsetBits = 24;
constexpr std::uint32_t kDsmemOffsets = std::uint32_t{1} << kDsmemOffsetBits;

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

// The addresses that front-end blocks use: device memory from 0 on, and the host's memory in a window above it.

// Address a of the host's bus (of the DMA initiator) is kHostWindow + a. SMs do not reach the window: an access of
// theirs is outside memory.
constexpr std::uint64_t kHostWindow = std::uint64_t{1} << 63;
constexpr bool in_host_window(std::uint64_t address) { return address >= kHostWindow; }
constexpr std::uint64_t host_address(std::uint64_t address) { return address - kHostWindow; }

// The memory of other GPUs, which links lead to (LNK-01): byte a of GPU g is kPeerWindow | g << kPeerBit | a. All
// requesters of a GPU reach it, and none of its addresses is translated.
constexpr std::uint32_t kPeerWindowBit = 52;  // expressions of programs, which are doubles, have all of them
constexpr std::uint64_t kPeerWindow = std::uint64_t{1} << kPeerWindowBit;
constexpr std::uint32_t kPeerBit = 45;
constexpr std::uint32_t kPeers = 64;  // GPUs at most, and as many groups behind them
constexpr bool in_peer_window(std::uint64_t address) { return address >> kPeerWindowBit == 1; }
constexpr std::uint64_t peer_address(std::uint32_t gpu, std::uint64_t address) {
  return kPeerWindow | std::uint64_t{gpu} << kPeerBit | address;
}
constexpr std::uint32_t peer_of(std::uint64_t address) {
  return static_cast<std::uint32_t>(address >> kPeerBit & (2 * kPeers - 1));
}
constexpr std::uint64_t peer_offset(std::uint64_t address) { return address & ((std::uint64_t{1} << kPeerBit) - 1); }
// A group of GPUs that a switch sends to at once: byte a of each (LNK-07).
constexpr std::uint64_t multicast_address(std::uint32_t group, std::uint64_t address) {
  return peer_address(kPeers + group, address);
}

// A signal (PKT-14): a record of 32 bytes, 64 with time stamps, at its handle without bits 0 and 1. Offsets:
//     0  value           8  signed
//     8  mailbox         8  address; 0: none
//    16  event id        4
//    20  0              12
//    32  start           8  ns since the reset: the packet's work has begun
//    40  end             8  and ended
//    48  0              16
// With bit 0 of the handle the signal asks for an interrupt: when the value has changed, the event id is written to the
// mailbox (32 bits) and the interrupt is raised. With bit 1 it asks for time stamps, which are there before the value
// changes; the record is aligned to 64 bytes then, and to 32 without.
constexpr std::uint64_t kSignalInterrupt = 1;
constexpr std::uint64_t kSignalTimestamps = 2;
constexpr std::uint32_t kSignalStampsOffset = 32;
constexpr std::uint64_t signal_address(std::uint64_t handle) {
  return handle & ~(kSignalInterrupt | kSignalTimestamps);
}
constexpr std::uint64_t kSignalAlignment = 32;
constexpr std::uint64_t signal_alignment(std::uint64_t handle) {
  return (handle & kSignalTimestamps) != 0 ? 2 * kSignalAlignment : kSignalAlignment;
}

}  // namespace heddle::arch
