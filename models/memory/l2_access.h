// What a slice does to one line, as its core sees it: no sockets, no time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "arch/address_map.h"
#include "arch/memory_op.h"
#include "common/bits.h"
#include "memory/owner_accounts.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

// One bit per byte of a line.
struct LineMask {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  static LineMask range(std::uint32_t first, std::uint32_t count) {
    using bits::below;
    const std::uint32_t end = first + count;
    return {below(end) & ~below(first), below(end < 64 ? 0 : end - 64) & ~below(first < 64 ? 0 : first - 64)};
  }
  static LineMask sectors(std::uint32_t mask) {
    const auto half = [](std::uint32_t two) {
      return ((two & 1U) != 0 ? 0xFFFF'FFFFULL : 0) | ((two & 2U) != 0 ? 0xFFFF'FFFF'0000'0000ULL : 0);
    };
    return {half(mask), half(mask >> 2)};
  }
  // The sectors that have at least one byte here.
  std::uint32_t touched() const {
    return ((low & 0xFFFF'FFFF) != 0 ? 1U : 0U) | (low >> 32 != 0 ? 2U : 0U) | ((high & 0xFFFF'FFFF) != 0 ? 4U : 0U) |
           (high >> 32 != 0 ? 8U : 0U);
  }
  bool test(std::uint32_t byte) const { return ((byte < 64 ? low : high) >> (byte % 64) & 1U) != 0; }
  bool any() const { return (low | high) != 0; }
  LineMask operator|(const LineMask& other) const { return {low | other.low, high | other.high}; }
  LineMask operator&(const LineMask& other) const { return {low & other.low, high & other.high}; }
  LineMask operator~() const { return {~low, ~high}; }
  bool operator==(const LineMask& other) const { return low == other.low && high == other.high; }
};

// Neighbouring sectors of a line.
struct SectorRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t mask() const { return ((1U << count) - 1) << first; }  // bit = sector
};

// Takes the lowest run out of a set of sectors that is not empty.
inline SectorRun take_run(std::uint32_t& sectors) {
  const std::uint32_t first = bits::lowest(sectors);
  const SectorRun run{first, bits::lowest(~std::uint64_t{sectors >> first})};
  sectors &= ~run.mask();
  return run;
}

constexpr std::uint32_t kAllSectors = (1U << arch::kSectorsPerLine) - 1;

// The bytes of `mask`, from one image of a line to another.
void copy_bytes(std::uint8_t* to, const std::uint8_t* from, const LineMask& mask);

struct L2Access {
  // atomic: with values of its own, by lane; reduce: of the data with the line, element by element.
  enum class Kind : std::uint8_t { read, write, atomic, reduce, prefetch, write_back, invalidate, drop_copy };

  Kind kind = Kind::read;
  std::uint8_t offset = 0;                         // in the line, of data[0]
  std::uint8_t length = 0;                         // of data: 1 … 128
  bool dense = false;                              // `bytes` is the whole range
  std::uint64_t line = 0;                          // address / 128
  LineMask bytes;                                  // that are read, written, changed or wanted
  std::uint8_t* data = nullptr;                    // read, write and reduce
  protocol::MemoryExtension* extension = nullptr;  // the request's; a stranger has none

  // It is a twin's that keeps a copy.
  bool copies() const { return extension != nullptr && extension->action == protocol::MemoryAction::copy; }
  // It leaves memory as it is: a copy can serve it.
  bool looks() const { return kind == Kind::read || kind == Kind::prefetch; }
  // It changes bytes of its line.
  bool changes() const { return kind == Kind::write || kind == Kind::atomic || kind == Kind::reduce; }
  // It goes through all lines of the slice: its own line only selects the slice.
  bool walks() const { return kind == Kind::write_back || kind == Kind::invalidate; }
  // Its bytes pass the slice's data port.
  bool moves() const { return kind != Kind::prefetch && !walks() && kind != Kind::drop_copy; }
  // Whose bytes they are (PRT-09).
  std::uint8_t owner() const { return owner_of(extension); }
  // The row of the kernel that asks (arch/kernel_account.h).
  std::uint32_t kernel() const { return extension == nullptr ? 0 : extension->kernel; }

  // Sectors that memory has to supply first. A write needs none: what it leaves out of a sector stays marked as absent.
  std::uint32_t missing(const LineMask& valid) const { return kind == Kind::write ? 0 : (bytes & ~valid).touched(); }
  // Sectors that are fetched if some are missing: a read may be promoted to more of the line (TMA-05).
  std::uint32_t fetched(const LineMask& valid) const {
    const std::uint32_t needed = missing(valid);
    if (needed == 0 || extension == nullptr || extension->promoted == 0) return needed;
    return needed | (LineMask::sectors(extension->promoted) & ~valid).touched();
  }
};

// From a payload to what a slice does (l2_command.cpp). Anything but TLM_OK_RESPONSE says why the request is refused
// (MEM-05). A payload without our extension is a plain access. Judged liberally: the status that it comes with does not
// matter, nor a streaming width of 0.
tlm::tlm_response_status decode(tlm::tlm_generic_payload& payload, const arch::AddressMap& map, L2Access& access);

// Does it: all bytes that are read are in `line`. True if bytes of the line have changed.
bool perform(const L2Access& access, std::uint8_t* line);

inline bool changes_values(L2Access::Kind kind) {
  return kind == L2Access::Kind::atomic || kind == L2Access::Kind::reduce;
}
// Values that an atomic or a reduction changes. Two halves of a reduction, one word, are one value, as in f16x2.
std::uint32_t values_of(const L2Access& access);
// Cycles that they take at `rate` per cycle; those of one address follow each other.
std::uint32_t atomic_cycles(const L2Access& access, std::uint32_t rate);

// Sectors of memory whose data are corrupt (an uncorrectable error), in the cache or out of it.

// A sector stays corrupt until a write covers all of it.
class L2Poison {
 public:
  bool any() const { return !sectors_.empty(); }

  void add(std::uint64_t line, std::uint32_t sectors) {
    bits::for_each(sectors, [&](std::uint32_t sector) {
      const std::uint64_t number = line * arch::kSectorsPerLine + sector;
      if (std::find(sectors_.begin(), sectors_.end(), number) == sectors_.end()) sectors_.push_back(number);
    });
  }
  // One of these sectors is corrupt.
  bool touches(std::uint64_t line, std::uint32_t sectors) const {
    return std::any_of(sectors_.begin(), sectors_.end(), [&](std::uint64_t number) {
      return number / arch::kSectorsPerLine == line &&
             bits::contains(sectors, static_cast<std::uint32_t>(number % arch::kSectorsPerLine));
    });
  }
  // An access takes effect: a write clears what it covers; a reader of corrupt data is told so.
  void apply(const L2Access& access) {
    if (access.kind == L2Access::Kind::prefetch) return;
    if (access.kind == L2Access::Kind::write) return clear(access.line, access.bytes);
    if (access.extension != nullptr && touches(access.line, access.bytes.touched())) access.extension->poisoned = true;
  }
  // These bytes are new.
  void clear(std::uint64_t line, const LineMask& written) {
    const auto is_new = [&](std::uint64_t number) {
      const LineMask whole = LineMask::sectors(1U << number % arch::kSectorsPerLine);
      return number / arch::kSectorsPerLine == line && (written & whole) == whole;
    };
    sectors_.erase(std::remove_if(sectors_.begin(), sectors_.end(), is_new), sectors_.end());
  }
  void reset() { sectors_.clear(); }

 private:
  std::vector<std::uint64_t> sectors_;  // by number in memory: few, if any
};

}  // namespace heddle::memory
