// The record that a kernel dispatch packet's kernel_object points to (PKT-12): 128 bytes in device memory, aligned to
// 128. With a packet's sizes it makes a KernelShape: there is one definition of a kernel.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "arch/aql_packet.h"
#include "arch/kernel_record.h"

namespace heddle::arch {

constexpr std::uint32_t kKernelObjectBytes = 128;
constexpr std::uint32_t kKernelObjectMagic = 0x4B4C4448;  // "HDLK"
constexpr std::uint16_t kKernelObjectVersion = 1;
constexpr std::uint32_t kKernelNameBytes = 36;  // with the final 0

constexpr std::uint16_t kObjectLoadBalancing = 1;  // flags: bit 0: CgaMode::load_balancing; else multicast
constexpr std::uint16_t kObjectLinearMemory = 2;   // bit 1: CGA linear memory
constexpr std::uint16_t kObjectClusters = 4;       // bit 2: a grid of CGAs, at least one level of which has extents

// The record, little-endian. Unsigned numbers:
//     0  magic                      4     'H', 'D', 'L', 'K'
//     4  version                    2     1
//     6  flags                      2     bits 0-2 as above, the others are 0
//     8  program                    4     0: none
//    12  threads limit              4     0: the machine's
//    16  registers per thread       4     0: not known, no limit
//    20  static shared memory       4     bytes per workgroup
//    24  shortest CTA               8     cycles, at least 1; with a program the two are not used, and may be anything
//    32  longest CTA                8     cycles, not below the shortest and not above kMaxCtaCycles
//    40  extents of CGAs            2 x 3 x 4   x, y, z of CPC_CGA, GPC_CGA, uGPU_CGA, GPU_CGA, in CTAs; 0, 0, 0: no
//                                               such level
//    64  fallbacks                  2 x 3 x 4   x, y, z of the first to the fourth smaller size of the outermost CGA;
//                                               0, 0, 0: unused
//    88  0                          4
//    92  name                       36    then 0 to the end, at least one
// Levels and fallbacks have to make sense for some grid (why_malformed), and linear memory needs CGAs.
struct KernelObject {
  std::uint32_t program = 0;        // handle: number in the machine's CodeStore; 0: CTAs run for `duration`
  std::uint32_t threads_limit = 0;  // of a workgroup; 0: the machine's
  std::uint32_t registers_per_thread = 0;
  std::uint32_t static_shared = 0;  // bytes per workgroup
  CtaDuration duration;             // cycles; for program 0
  ClusterShape cluster;             // grid kind, cluster shape, placement mode, CGA linear memory
  std::string name;                 // below kKernelNameBytes
};

using KernelObjectBytes = std::array<std::uint8_t, kKernelObjectBytes>;
// Extents above 65,535 and names that are too long are refused: HEDDLE_CHECK.
KernelObjectBytes encode(const KernelObject& object);
// Success, or invalid_code_object with what is wrong with it whatever the packet and the machine.
Verdict decode(const KernelObjectBytes& bytes, KernelObject& object);

// How a dispatch covers its grid: workgroups at the edges can be partial.
struct WorkItems {
  Dim3 items{0, 0, 0};  // of the whole grid; all 0: every CTA is full
  bool any() const { return items != kNoExtents; }
};
// The kernel that fields and object make: grid in CTAs (rounded up), block, shared memory = static + dynamic, local
// memory = private segment. Fields and object have been checked (packet/packet_check.h). The duration of an object with
// a program is one cycle.
KernelShape shape_of(const DispatchFields& fields, const KernelObject& object, std::uint8_t subcontext);
WorkItems items_of(const DispatchFields& fields);

}  // namespace heddle::arch
