// Asynchronous transaction barriers (mbarriers): one 64-bit object in shared memory (CGA-14).
#pragma once

#include <cstdint>

namespace heddle::arch {

constexpr std::uint32_t kMbarrierBytes = 8;  // size and alignment
constexpr std::uint32_t kMbarrierMaxCount = (std::uint32_t{1} << 20) - 1;
constexpr std::int32_t kMbarrierMaxTx = (std::int32_t{1} << 20) - 1;

// What the 64 bits mean. Bits 19:0 pending, 39:20 expected, 60:40 transaction count (two's complement), 61 parity of
// the phase, 62 zero, 63 one: an object of zeros, as shared memory begins, is no mbarrier.
struct Mbarrier {
  bool valid = false;          // it was initialised, and not invalidated
  std::uint32_t parity = 0;    // of the current phase
  std::uint32_t pending = 0;   // arrivals that the current phase still expects
  std::uint32_t expected = 0;  // arrivals of every phase
  std::int32_t tx = 0;  // bytes expected minus bytes completed; negative while data come before they are expected
};
std::uint64_t encode(const Mbarrier& barrier);
Mbarrier decode(std::uint64_t object);

enum class MbarrierResult : std::uint8_t {
  ok,
  completes,  // a phase: its waiters go on
  wrong,      // not initialised, a count out of range, an arrival too many; the object is as it was
};

// Each changes the object, or leaves it as it was and says `wrong`.
MbarrierResult mbarrier_init(std::uint64_t& object, std::uint64_t count);
MbarrierResult mbarrier_invalidate(std::uint64_t& object);
// `count` arrivals, after `bytes` more were expected. `parity`, if not null: of the phase that it arrives in.
MbarrierResult mbarrier_arrive(std::uint64_t& object, std::uint64_t count, std::uint64_t bytes,
                               std::uint32_t* parity = nullptr);
MbarrierResult mbarrier_expect(std::uint64_t& object, std::uint64_t bytes);
MbarrierResult mbarrier_complete(std::uint64_t& object, std::uint64_t bytes);

enum class MbarrierTest : std::uint8_t { waits, passed, wrong };
// Has the phase of that parity completed? It has if it is not that of the current phase: an older one cannot be told
// from it. `wrong`: not initialised, or a parity above 1.
MbarrierTest mbarrier_test(std::uint64_t object, std::uint64_t parity);

}  // namespace heddle::arch
