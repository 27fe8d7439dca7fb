// What is done to memory beyond plain reads and writes: read-modify-write operations, and how accesses are ordered.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::arch {

constexpr std::uint32_t kLineBytes = 128;
constexpr std::uint32_t kSectorBytes = 32;
constexpr std::uint32_t kSectorsPerLine = kLineBytes / kSectorBytes;

constexpr std::uint64_t line_of(std::uint64_t address) { return address & ~std::uint64_t{kLineBytes - 1}; }
constexpr std::uint32_t sector_of(std::uint64_t address) {
  return static_cast<std::uint32_t>(address / kSectorBytes % kSectorsPerLine);
}

enum class ValueType : std::uint8_t { u8, s8, u16, s16, f16, bf16, u32, s32, f32, f16x2, bf16x2, u64, s64, f64 };

// Bytes of a value: 1, 2, 4 or 8.
std::uint32_t bytes_of(ValueType type);
// "u32", "f16x2"
const char* type_name(ValueType type);

enum class AtomicKind : std::uint8_t {
  add,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  exchange,
  compare_exchange,
  increment,  // old >= operand ? 0 : old + 1
  decrement,  // old == 0 || old > operand ? operand : old - 1
};
const char* atomic_name(AtomicKind kind);

// Which kinds exist for which types: integers of 32 and 64 bits take all (increment and decrement: u32 alone); f32 and
// f64 take add, exchange and compare_exchange; f16x2 and bf16x2 take add, min and max, each half by itself.
bool atomic_exists(AtomicKind kind, ValueType type);

// The new value. Values are bit patterns, zero-extended. compare_exchange: `compare` is what the old value must be.
// Float additions round to nearest even, in the type's own width.
std::uint64_t atomic_result(AtomicKind kind, ValueType type, std::uint64_t old, std::uint64_t operand,
                            std::uint64_t compare);

// How far an ordering reaches (MEM-06).
enum class Scope : std::uint8_t { cta, cluster, gpu, system };
const char* scope_name(Scope scope);

// How an access or a fence orders others (MEM-06). `relaxed` and stronger accesses of scope gpu or wider are served by
// the L2, the point of coherence; weak ones may be served by the L1.
enum class Order : std::uint8_t { weak, relaxed, acquire, release, acquire_release };
const char* order_name(Order order);
constexpr bool acquires(Order order) { return order == Order::acquire || order == Order::acquire_release; }
constexpr bool releases(Order order) { return order == Order::release || order == Order::acquire_release; }

}  // namespace heddle::arch
