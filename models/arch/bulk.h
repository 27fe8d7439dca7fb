// Requests to the tensor memory access unit (TMAU): what one thread asks for with one instruction (TMA-01, TMA-05).
#pragma once

#include <array>
#include <cstdint>

#include "arch/memory_op.h"
#include "arch/tensor_descriptor.h"

namespace heddle::arch {

enum class BulkKind : std::uint8_t {
  load,      // device -> shared memory of the CTA, or of CTAs of its CGA
  store,     // shared memory of the CTA -> device
  reduce,    // the same, by a reduction
  prefetch,  // device -> L2
  copy,      // device -> device; a block
  send,      // shared memory of the CTA -> that of a CTA of its CGA, or its own; a block; perhaps by a reduction
  drain,     // nothing moves: it completes when all requests of the SM before it have
  forget,    // nothing moves: the descriptor (0: all) is no longer cached (TMA-04)
};
const char* bulk_name(BulkKind kind);

constexpr std::uint32_t kNoBarrier = ~std::uint32_t{0};
constexpr std::uint32_t kBulkBlock = 16;              // bytes
constexpr std::uint32_t kMulticastCtas = 16;          // receivers are CTAs 0 to 15 of the CGA (TMA-30)
constexpr std::uint32_t kOwnCta = ~std::uint32_t{0};  // the CTA itself, whether it belongs to a CGA or not

struct BulkRequest {
  BulkKind kind = BulkKind::load;
  bool tensor = false;   // of a tensor (descriptor, coordinates), or of a block (address, number of 16-byte blocks)
  bool reduces = false;  // send: by a reduction
  AtomicKind reduction = AtomicKind::add;
  ValueType type = ValueType::u32;  // of reductions of blocks; those of tensors have the tensor's
  std::uint64_t descriptor = 0;     // its address in device memory
  std::array<std::int32_t, kTensorRank> coordinates{};
  std::uint16_t offsets = 0;      // im2col, packed
  std::uint64_t global = 0;       // block: source of load, prefetch and copy, destination of store and reduce
  std::uint64_t to = 0;           // copy: destination
  std::uint64_t blocks = 0;       // block: 0 moves nothing, and completes
  std::uint32_t shared = 0;       // offset: destination of a load in each receiver, source of store, reduce and send
  std::uint32_t destination = 0;  // send: offset in the receiver
  std::uint32_t barrier = kNoBarrier;   // load, send: offset of the mbarrier in each receiver
  std::uint32_t data_cta = kOwnCta;     // load, send: the receiver, as cta_id_in_cga
  std::uint32_t barrier_cta = kOwnCta;  // the CTA of the mbarrier: must be the receiver
  std::uint16_t multicast = 0;          // load: receivers by cta_id_in_cga; 0: data_cta alone
};

// The operand words of a load (TMA-30): {barrier CTA [63:56], barrier address [55:32], data CTA [31:24], data address
// [23:0]} and {CTA mask [31:16], im2col offsets [15:0]}. CTA 255: kOwnCta.
std::uint64_t address_word(const BulkRequest& request);
std::uint32_t mask_word(const BulkRequest& request);
void set_words(BulkRequest& request, std::uint64_t addresses, std::uint32_t mask);

}  // namespace heddle::arch
