// What happens to the bytes of boxes on their way: fill, conversion, reduction (TMA-07, TMA-13).
#pragma once

#include <cstdint>

#include "arch/memory_op.h"
#include "arch/tensor_descriptor.h"
#include "arch/tensor_piece.h"

namespace heddle::arch {

// Of an element outside the tensor: zero, or the type's special NaN (f16 0x7FFF, bf16 0x7FFF, f32 and tf32 0x7FFFFFFF,
// f64 all ones but the sign); little endian in the low bytes.
std::uint64_t fill_bits(TensorType type, Fill fill);
// Writes it to the bytes of `data` whose mask bit is not set. Byte 0 begins an element (or is in phase with one).
void fill_outside(TensorType type, Fill fill, const ByteMask& inside, std::uint32_t bytes, std::uint8_t* data);
// Flush and rounding of types that have it; nothing for others. Whole elements.
bool converts(TensorType type);
void convert(TensorType type, std::uint32_t bytes, std::uint8_t* data);

// Reductions of whole blocks (TMA-07): add u32 s32 u64 f16 bf16 f32 f64; min, max u32 s32 u64 s64 f16 bf16; increment,
// decrement u32; and, or, xor 32 and 64 bits. `in_shared`: shared -> shared has fewer: add u32 s32 u64, min, max u32
// s32, increment, decrement u32, and, or, xor 32 bits.
bool reduction_exists(AtomicKind kind, ValueType type, bool in_shared);
// to[i] = kind(to[i], from[i]) for the elements of `bytes` bytes that `mask` has (an element counts if its first byte
// does). increment: d >= s ? 0 : d + 1; decrement: d == 0 or d > s ? s : d - 1.
void reduce(AtomicKind kind, ValueType type, const ByteMask& mask, std::uint32_t bytes, const std::uint8_t* from,
            std::uint8_t* to);

}  // namespace heddle::arch
