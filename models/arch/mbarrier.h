// Asynchronous transaction barriers (mbarriers): one 64-bit object in shared memory (CGA-14).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "arch/memory_op.h"
#include "arch/tensor_descriptor.h"

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
// Whether a part of these bytes could end the phase: then they count one part after the other.
bool mbarrier_ends_within(std::uint64_t object, std::uint64_t bytes);

enum class MbarrierTest : std::uint8_t { waits, passed, wrong };
// Has the phase of that parity completed? It has if it is not that of the current phase: an older one cannot be told
// from it. `wrong`: not initialised, or a parity above 1.
MbarrierTest mbarrier_test(std::uint64_t object, std::uint64_t parity);

// Requests to the tensor memory access unit (TMAU): what one thread asks for with one instruction (TMA-01, TMA-05).
enum class BulkKind : std::uint8_t {
  load,      // device -> shared memory of the CTA, or of CTAs of its CGA
  store,     // shared memory of the CTA -> device
  reduce,    // the same, by a reduction
  prefetch,  // device -> L2
  copy,      // device -> device: a block, or a box of a tensor, which becomes a block (TMA-44)
  send,      // shared memory of the CTA -> that of a CTA of its CGA, or its own: a block, or a tensor's box as it lies
             // there; perhaps by a reduction (TMA-44)
  drain,     // nothing moves: it completes when all requests of the SM before it have
  forget,    // nothing moves: the descriptor (0: all) is no longer cached (TMA-04)
  fetch,     // nothing moves: the descriptor comes into the unit's cache
};
constexpr std::size_t kBulkKinds = 9;
constexpr bool moves(BulkKind kind) { return kind < BulkKind::drain; }
// The L2 keeps what was brought or written with `last` longest, and gives up what came with `first` before all else
// (TMA-05).
enum class EvictionPriority : std::uint8_t { normal, first, last };
const char* bulk_name(BulkKind kind);

constexpr std::uint32_t kBulkBlock = 16;      // bytes
constexpr std::uint32_t kMulticastCtas = 16;  // receivers are CTAs 0 to 15 of the CGA (TMA-30)

struct BulkRequest {
  BulkKind kind = BulkKind::load;
  bool tensor = false;   // of a tensor (descriptor, coordinates), or of a block (address, number of 16-byte blocks)
  bool reduces = false;  // send: by a reduction
  AtomicKind reduction = AtomicKind::add;
  ValueType type = ValueType::u32;  // of reductions of blocks; those of tensors have the tensor's
  std::uint64_t descriptor = 0;     // its address in device memory
  // The descriptor's parameters, carried by the instruction: there is none in memory, and nothing is fetched (TMA-44).
  std::shared_ptr<const TensorDescriptor> parameters;
  // load, store, prefetch of a tensor: one row each from four rows, whose numbers are coordinates 1 to 4 (TMA-44).
  bool four_rows = false;
  EvictionPriority priority = EvictionPriority::normal;
  std::uint16_t byte_mask = 0xFFFF;  // store of a block: bytes of each 16 that are written
  std::array<std::int32_t, kTensorRank> coordinates{};
  std::uint16_t offsets = 0;      // im2col, packed; wide: pack_wide()
  bool offsets_cut = false;       // their word has not the bits for what they should be
  std::uint64_t global = 0;       // block: source of load, prefetch and copy, destination of store and reduce
  std::uint64_t to = 0;           // copy: destination, also of a box
  std::uint64_t blocks = 0;       // block: 0 moves nothing, and completes
  std::uint32_t shared = 0;       // offset: destination of a load in each receiver, source of store, reduce and send
  std::uint32_t destination = 0;  // send: offset in the receiver
  std::optional<std::uint32_t> barrier;  // load, send: offset of the mbarrier in each receiver
  // load, send: the receiver, as cta_id_in_cga, and the CTA of the mbarrier, which must be the receiver. None: the CTA
  // itself, whether it belongs to a CGA or not.
  std::optional<std::uint32_t> data_cta;
  std::optional<std::uint32_t> barrier_cta;
  std::uint32_t multicast = 0;  // load: receivers by cta_id_in_cga; 0: data_cta alone
};

// The operand words of what touches shared memory (TMA-30): {barrier CTA [63:56], barrier address [55:32], data CTA
// [31:24], data address [23:0]} and {CTA mask [31:16], im2col offsets [15:0]}. CTA 255: the CTA itself; an mbarrier at
// 0xFFFFFF: none.
std::uint64_t address_word(const BulkRequest& request);
std::uint32_t mask_word(const BulkRequest& request);
// Data: of a send those at its receiver.
void set_words(BulkRequest& request, std::uint64_t addresses, std::uint32_t mask);
// What the words have no bits for: TensorRule::address_word or mask_word; none: they hold all of it. Addresses of
// requests that do not touch shared memory stand in no word.
TensorRule check_words(const BulkRequest& request);

}  // namespace heddle::arch
