// The numbers that packets carry, each a type of its own: an SM of the GPU is not an SM of its GPC, and neither is a
// slot of a table.
#pragma once

#include <cstdint>
#include <type_traits>

namespace heddle::protocol {

// A number of the kind `Tag`. A bare number becomes one only where the code says so, and no kind becomes another; it
// reads as a number wherever an index or a bit is wanted. To compare numbers of two kinds does not compile.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  template <class Number, std::enable_if_t<std::is_integral_v<Number>, int> = 0>
  constexpr explicit Id(Number number) : number_(static_cast<std::uint32_t>(number)) {}
  template <class Other>
  Id(Id<Other>) = delete;

  constexpr std::uint32_t value() const { return number_; }
  constexpr operator std::uint32_t() const { return number_; }  // NOLINT(google-explicit-constructor): an index

  friend constexpr bool operator==(Id a, Id b) { return a.number_ == b.number_; }
  friend constexpr bool operator!=(Id a, Id b) { return a.number_ != b.number_; }
  friend constexpr bool operator<(Id a, Id b) { return a.number_ < b.number_; }

 private:
  std::uint32_t number_ = 0;
};

template <class A, class B, std::enable_if_t<!std::is_same_v<A, B>, int> = 0>
bool operator==(Id<A>, Id<B>) = delete;
template <class A, class B, std::enable_if_t<!std::is_same_v<A, B>, int> = 0>
bool operator!=(Id<A>, Id<B>) = delete;

// Places of the GPU.
using GpcId = Id<struct GpcIdTag>;              // GPC of the GPU
using VirtualGpcId = Id<struct VirtualGpcTag>;  // GPC, numbered by usable TPCs
using SmId = Id<struct SmIdTag>;                // SM of the GPU
using TpcInGpc = Id<struct TpcInGpcTag>;        // TPC of its GPC
using SmInGpc = Id<struct SmInGpcTag>;          // SM of its GPC: its bit in the masks of the GPC
using SmInTpc = Id<struct SmInTpcTag>;          // SM of its TPC

// Slots of tables.
using TaskSlot = Id<struct TaskSlotTag>;             // of the CWD's task table: the task id of the texts
using CgaMemorySlot = Id<struct CgaMemorySlotTag>;   // of the CGA linear memory of a subcontext (CWD-22)
using LocalMemoryBlock = Id<struct LocalMemoryTag>;  // local-memory block of a subcontext (CWD-32)
using CgaId = Id<struct CgaIdTag>;                   // gpc_local_cga_id (CGA-01)
using BarrierSlot = Id<struct BarrierSlotTag>;       // of the GPU: barriers of GPU_CGAs and uGPU_CGAs (CWD-09)
using CtaSlot = Id<struct CtaSlotTag>;               // of an SM
using WarpSlot = Id<struct WarpSlotTag>;             // of an SM

}  // namespace heddle::protocol
