// What a device says of an operation that it could not carry out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "arch/warp_program.h"

namespace heddle::arch {

enum class FaultKind : std::uint8_t {
  address,        // outside memory, or an error response of it (MEM-05)
  misaligned,     // an access or atomic that is not aligned to its width
  shared_bounds,  // beyond the CTA's shared memory
  unsupported,    // an operation whose block this machine does not have, or a combination that does not exist
  barrier,        // number or thread count out of range, or a warp that left while its barrier waits for it
  // Seen by the SM that issues the access (CGA-07).
  cluster_rank,    // CTA id not below the size of the CGA
  cluster_absent,  // no SM is known for the CTA: it has not been launched yet
  cluster_offset,  // above the largest shared memory
  cluster_domain,  // of a CGA whose CTAs are not held together in one GPC (CGA-15)
  // Seen by the SM of the target alone, and attributed to the CGA (CGA-08).
  cta_not_present,  // it has exited
  out_of_range,     // beyond its shared memory, or in a part that it has given back
  poison,           // corrupt data; of own shared memory: with warp and step
  mbarrier,         // not initialised, a count out of range, or an arrival too many (CGA-14)
  tensor,           // a request to the TMAU breaks a rule: FaultRecord::rule (TMA-06)
  unmapped,         // the subcontext has no page there (PRT-08)
  read_only,        // it has one, and may not write to it (PRT-08)
  nesting,          // a child would run deeper than gpu.task.nested.max_depth (TSK-06)
  child,            // a launch that cannot run: no kernel object at its address, or a grid or stream out of range
  queue_closed,     // an append to a queue that takes no more, or to memory where no queue lies (TSK-05)
  missing_fence,    // a bulk request has read shared memory that no proxy fence has published (TMA-41)
  local_bounds,     // beyond the local memory of the thread, or its subcontext has none (PRT-06)
  launch_limit,     // no record or context is free for a launch whose result nobody takes (TSK-12)
};
constexpr std::size_t kFaultKinds = 22;
// "address outside memory"
const char* fault_text(FaultKind kind);
// As scenarios and stats.json write it: "address", "shared_bounds".
const char* fault_key(FaultKind kind);

constexpr std::uint32_t kNoTask = ~std::uint32_t{0};  // in place of an operation id, in records and files

struct FaultRecord {
  FaultKind kind = FaultKind::address;
  std::uint32_t task = 0;  // operation id; kNoTask: records that no task is known for
  std::uint32_t sm = 0;    // id in the machine
  std::uint64_t cta = 0;   // linear id in the grid
  std::uint32_t cta_x = 0;
  std::uint32_t cta_y = 0;
  std::uint32_t cta_z = 0;
  std::uint32_t warp = 0;  // in the CTA
  std::uint32_t lane = 0;  // the first that was wrong
  OpCode operation = OpCode::exit;
  std::uint64_t address = 0;  // of that lane
  std::uint64_t cycle = 0;
  std::string where;  // the program's name of the operation
  TensorRule rule = TensorRule::none;
  bool fatal = true;            // it has stopped its CTA
  std::uint8_t subcontext = 0;  // whose CTA it is
  bool write = false;           // unmapped, read_only: it was a write
  bool of_tasks = false;        // found by task management: SM, CTA, warp and lane mean nothing

  // Trap record of a CGA (CGA-08).
  bool of_cga = false;  // attributed to the CGA: warp, lane and step are not known
  std::uint32_t gpc = 0;
  std::uint32_t gpc_local_cga_id = kNoLocalCgaId;  // that: the CTA belongs to no GPC_CGA
  std::uint32_t cta_id_in_cga = 0;                 // of the CTA that issued it
  std::uint64_t cga = 0;                           // linear id in the grid of CGAs
  std::uint32_t target = 0;                        // cta_id_in_cga of the CTA that was addressed
};

// False for operations that have no address, or whose address has nothing to do with it.
bool has_address(const FaultRecord& fault);
// "SM 3, CTA 17 (1, 2, 0), warp 2, lane 5: store (line 12) to 0x1000: address outside memory"; of a CGA: "SM 3, CGA 5
// (GPC 1, local id 4), CTA 1 of the CGA: an access to CTA 2 at offset 0x40: the CTA has exited"; of task management:
// "task management: there is no kernel object, at 0x80"
std::string text_of(const FaultRecord& fault);

}  // namespace heddle::arch
