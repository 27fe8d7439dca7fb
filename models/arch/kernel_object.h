// The record that a kernel dispatch packet's kernel_object points to (PKT-12): 128 bytes in device memory, aligned to
// 128. With a packet's sizes it makes a KernelShape: there is one definition of a kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "arch/aql_packet.h"
#include "arch/task_record.h"
#include "arch/warp_program.h"
#include "common/index_pool.h"

namespace heddle::arch {

constexpr std::uint32_t kKernelObjectBytes = 128;
constexpr std::uint32_t kKernelObjectMagic = 0x4B4C4448;  // "HDLK"
constexpr std::uint16_t kKernelObjectVersion = 1;
constexpr std::uint32_t kKernelNameBytes = 36;  // with the final 0

constexpr std::uint32_t kCodeAlignment = 128;    // of code in memory: a line
constexpr std::uint32_t kKernelObjectCode = 24;  // where its address stands in a kernel object
constexpr std::uint32_t kMostCodeBytes = 1U << 20;

constexpr std::uint16_t kObjectLoadBalancing = 1;  // flags: bit 0: CgaMode::load_balancing; else multicast
constexpr std::uint16_t kObjectLinearMemory = 2;   // bit 1: CGA linear memory
constexpr std::uint16_t kObjectClusters = 4;       // bit 2: a grid of CGAs, at least one level of which has extents
constexpr std::uint16_t kObjectCooperative = 8;    // bit 3: all CTAs of a grid are resident at once
constexpr std::uint16_t kObjectCode = 16;          // bit 4: its program is code in device memory (HST-07)

// The record, little-endian. Unsigned numbers:
//     0  magic                      4     'H', 'D', 'L', 'K'
//     4  version                    2     1
//     6  flags                      2     bits 0-4 as above, the others are 0
//     8  program                    4     0: none, or it is code in memory
//    12  threads limit              4     0: the machine's
//    16  registers per thread       4     0: not known, no limit
//    20  static shared memory       4     bytes per workgroup
//    24  shortest CTA               8     cycles, at least 1; with a program the two are not used, and may be anything
//    32  longest CTA                8     cycles, not below the shortest and not above kMaxCtaCycles
//        or, with code in memory:
//    24  address of the code        8     a multiple of kCodeAlignment, not 0, all of it below the host's window
//    32  bytes of the code          4     1 to kMostCodeBytes
//    36  0                          4
//    40  extents of CGAs            2 x 3 x 4   x, y, z of CPC_CGA, GPC_CGA, uGPU_CGA, GPU_CGA, in CTAs; 0, 0, 0: no
//                                               such level
//    64  fallbacks                  2 x 3 x 4   x, y, z of the first to the fourth smaller size of the outermost CGA;
//                                               0, 0, 0: unused
//    88  raster order               1     0: rows, 1: tiles, 2: along a Hilbert curve
//    89  extents of a tile          2 x 1 x, y, in outermost CGAs, at least 1; 0 without tiles
//    91  0                          1
//    92  name                       36    then 0 to the end, at least one
// Levels and fallbacks have to make sense for some grid (why_malformed), and linear memory needs CGAs.
struct KernelObject {
  // Code that software has brought (HST-07).
  struct CodePlace {
    std::uint64_t address = 0;  // in device memory, as the kernel's queue sees it
    std::uint32_t bytes = 0;    // 0: there is none

    bool any() const { return bytes != 0; }
  };

  // Handle: number in the machine's CodeStore; 0: CTAs run for `duration`. With code in memory: what the machine made
  // of it, which the object's bytes do not have.
  std::uint32_t program = 0;
  std::uint32_t threads_limit = 0;  // of a workgroup; 0: the machine's
  std::uint32_t registers_per_thread = 0;
  std::uint32_t static_shared = 0;  // bytes per workgroup
  CtaDuration duration;             // cycles; for program 0
  CodePlace code;
  ClusterShape cluster;  // grid kind, cluster shape, placement mode, CGA linear memory
  RasterOrder raster;
  bool cooperative = false;
  std::string name;  // below kKernelNameBytes
};

using KernelObjectBytes = std::array<std::uint8_t, kKernelObjectBytes>;
// Extents above 65,535 and names that are too long are refused: HEDDLE_CHECK.
KernelObjectBytes encode(const KernelObject& object);
// Success, or invalid_code_object with what is wrong with it whatever the packet and the machine.
HsaResult decode(const KernelObjectBytes& bytes, KernelObject& object);

// How a dispatch covers its grid: workgroups at the edges can be partial.
struct WorkItems {
  Dim3 items{0, 0, 0};  // of the whole grid; all 0: every CTA is full
  bool any() const { return items != kNoExtents; }
};
// The kernel that fields and object make: grid in CTAs (rounded up), block, shared memory = group segment, local
// memory = private segment. Fields and object have been checked (packet/packet_check.h). The duration of an object with
// a program is one cycle.
KernelShape shape_of(const DispatchFields& fields, const KernelObject& object, std::uint8_t subcontext);
WorkItems items_of(const DispatchFields& fields);

// The code that a machine can run: what lies in instruction memory. Packets carry a number.
constexpr std::uint32_t kNoCode = 0;  // a kernel without a program: its CTAs run for their duration

// Where the entries of a queue task lie (TSK-05).
struct QueueGeometry {
  std::uint64_t entries = 0;   // address
  std::uint64_t capacity = 0;  // entries at a time; 0: no queue

  bool any() const { return capacity != 0; }
  // Of the entry of a ticket: its turn, and its data, which are the arguments of its CTA.
  std::uint64_t turn(std::uint64_t ticket) const { return entries + ticket % capacity * kQueueEntryBytes; }
  std::uint64_t data(std::uint64_t ticket) const { return turn(ticket) + kQueueEntryData; }
};

// A program as one launch runs it; or, in its place, what CTAs demand of the machine.
struct Code {
  std::shared_ptr<const WarpProgram> program;  // null: there is a demand
  std::shared_ptr<const Demand> demand;        // null: there is a program
  std::uint32_t text =
      0;  // number of its machine code in memory: launches of the program, or with the demand, have the same
  Dim3 grid;
  Dim3 block;
  std::uint32_t shared_bytes = 0;  // per CTA, as the kernel asked
  std::uint32_t local_bytes = 0;   // local memory of a thread, as the kernel asked
  ClusterShape cluster;            // how CTAs are grouped
  WorkItems items;                 // CTAs at the edges of the grid can be partial: smaller blocks
  std::uint64_t kernarg = 0;       // address of the launch's arguments; 0: none
  QueueGeometry queue;             // of a queue task: every CTA has an entry; `kernarg` is not used

  // The arguments of the CTA with that linear id.
  std::uint64_t kernarg_of(std::uint64_t cta) const { return queue.any() ? queue.data(cta) : kernarg; }
  // Its warps launch tasks.
  bool launches() const { return program != nullptr && program->launches(); }
  // The threads of one CTA: `block`, but for what hangs over the edges of the grid (PKT-03).
  Dim3 block_of(const Dim3& cta) const;
};

// What at() gives stays where it is, whatever comes and goes beside it: SMs keep it while CTAs run.
class CodeStore {
 public:
  // The number for KernelShape::code; never kNoCode, and given to nothing else before remove().
  std::uint32_t add(std::shared_ptr<const WarpProgram> program, const KernelShape& kernel);
  std::uint32_t add(std::shared_ptr<const Demand> demand, const KernelShape& kernel);
  // The same with a number that nothing has: of a device that was saved.
  void add_at(std::uint32_t code, std::shared_ptr<const WarpProgram> program, const KernelShape& kernel);
  // What add() has given is gone, and its number may be given again. No launch has it.
  void remove(std::uint32_t code);
  // Launches that it is lent to. `code`: of add().
  std::uint32_t launches(std::uint32_t code) const;
  // True for the numbers that add() has given, and nothing else.
  bool has(std::uint32_t code) const;
  // Of add(), or lent and not given back.
  const Code& at(std::uint32_t code) const;

  // The same program for a launch of its own: a number of its own until give_back(), then of another launch. `program`:
  // of add(). `items`: none, or what the kernel's grid covers, rounded up to whole workgroups.
  std::uint32_t lend(std::uint32_t program, const KernelShape& kernel, const WorkItems& items, std::uint64_t kernarg);
  // The same for a queue task: its CTAs stand in a row, without an end.
  std::uint32_t lend(std::uint32_t program, const KernelShape& kernel, const QueueGeometry& queue);
  void give_back(std::uint32_t code);
  std::size_t lent() const { return lent_; }
  // A reset takes back all that is lent; programs stay.
  void reset();

 private:
  struct Entry {
    Code code;
    bool lent = false;           // for a launch
    std::uint32_t launches = 0;  // that it is lent to
  };

  bool is_lent(std::uint32_t code) const;
  static Code plain(std::shared_ptr<const WarpProgram> program, const KernelShape& kernel);
  std::uint32_t enter(Code code, bool lent);

  IndexPool<Entry, std::deque<Entry>> entries_;  // by code - 1
  std::size_t lent_ = 0;
};

}  // namespace heddle::arch
