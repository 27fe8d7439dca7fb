// A CTA that waits for tasks that it has launched, as bytes: what its SM writes to memory when it gives the CTA's slot
// up, and what the SM reads to which the CTA comes back (TSK-12).
//
// Only what cannot be had otherwise: the program, the shape of the grid and the resources come with the CTA's start.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arch/task_record.h"
#include "arch/tmdq.h"
#include "arch/warp_program.h"
#include "sm/cta_table.h"

namespace heddle::sm {

struct SavedWarp {
  enum class At : std::uint8_t {
    exited,    // `state` is empty
    barrier,   // of the CTA
    children,  // it waits for the tasks of its context
    cluster,   // at the barrier of its GPC_CGA
    mbarrier,  // for the phases of mbarriers of those of its lanes
    running,   // it goes on with its next instruction
  };
  At at = At::exited;
  std::uint32_t barrier = 0;
  std::vector<arch::WaitTarget> targets;  // children: some of them, those; empty: all
  arch::LaneMask lanes = 0;               // mbarrier
  bool acquires = false;                  // cluster, mbarrier
  // running: a compute operation that has not issued all its instructions.
  std::uint8_t unit = 0;
  std::uint64_t compute_left = 0;
  std::uint32_t compute_latency = 0;
  std::uint32_t issued_pc = 0;  // of the operation in which it waits, for messages
  // Barrier of the cluster of one CTA: it has arrived and not waited since; and the phase has completed.
  bool cluster_arrived = false;
  bool cluster_passed = false;
  arch::WarpState state;
};

struct SavedCta {
  // Whose state it is: what is read back must be of the same CTA.
  std::uint32_t operation = 0;
  std::uint64_t index = 0;    // linear id in the grid
  std::uint64_t record = 0;   // TMD of its task
  std::uint64_t context = 0;  // its own
  std::uint64_t kernarg = 0;  // address of its arguments

  bool waits = true;            // one of its warps does, for tasks; else it was saved with its CGA, or to make room
  std::uint64_t remaining = 0;  // what a CTA without a program has left: see TimedCtas::left()

  // Of a queue task (TSK-05): its index is its ticket, and at its end the entry is given back, by that value there.
  bool queue = false;
  bool gives_turn = false;
  std::uint64_t turn_entry = 0;
  std::uint64_t turn = 0;

  CtaBarriers::State barriers;
  std::uint32_t cluster_arrived = 0;  // warps at the barrier of the cluster of one CTA, in its current phase
  std::uint64_t cluster_phases = 0;   // that have completed
  std::vector<SavedWarp> warps;
  std::vector<std::uint8_t> shared;  // what of its shared memory it has not given back (CGA-09)
  // Registers that the kernel has been allocated and its program does not name: they are state like others.
  std::uint64_t further_bytes = 0;
};

// To and from bytes (little endian, with a version and a check sum); restore throws InputError for bytes that save did
// not write.
std::vector<std::uint8_t> save(const SavedCta& cta);
SavedCta restore_cta(const std::vector<std::uint8_t>& bytes);
// Throws InputError for a warp that cannot go on in the program whose fresh state that is. `number`: of the warp, for
// the message.
void check_fits(const SavedWarp& saved, const arch::WarpState& fresh, std::uint32_t number);
[[noreturn]] void does_not_fit(const std::string& why);

// First line of the area: what task management reads of a saved CTA (arch/task_record.h).
struct SavedHeader {
  std::uint32_t operation = 0;
  std::uint64_t record = 0;
  std::uint64_t context = 0;
  std::uint64_t bytes = 0;  // of the state, which follows
  std::uint32_t local = 0;  // bytes of local memory, behind the state
  std::uint64_t index = 0;
  std::array<std::uint32_t, 3> cta{};
  bool owed = false;       // its task counts it as one that runs
  std::uint64_t cga = 0;   // linear id of its CGA
  std::uint32_t size = 0;  // size index of that
};
using SavedLine = std::array<std::uint8_t, arch::kRecordBytes>;
SavedLine line_of(const SavedHeader& header);
SavedHeader header_of(const SavedLine& line);

}  // namespace heddle::sm
