// Collectives of recordings, each GPU of a run a rank: matched across GPUs, and run over the links between them as the
// machine's own collectives (LNK-12, LNK-13). Plain C++.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arch/sm_limits.h"
#include "workload/workload.h"

namespace heddle::replay {

// One in which all GPUs of the run take part.
struct RankCollective {
  workload::Collective kind = workload::Collective::all_reduce;
  std::uint64_t bytes = 0;       // of each buffer, as recorded
  std::vector<std::size_t> ops;  // by GPU: index into Workload::ops
  bool by_number = false;        // matched by its sequence number; otherwise by its order in its group
};

struct RankCollectives {
  std::vector<RankCollective> matched;      // in the order of the first GPU
  std::map<std::string, std::size_t> kept;  // kernels of all GPUs that keep their recorded durations, by the reason
  std::uint64_t recorded_ranks = 0;         // of the groups of those that are matched, the most; 0: not recorded
  std::uint64_t cut = 0;                    // CTAs that each of them has at most, so that all fit at once; 0: no need
  std::size_t assumed = 0;                  // of those that are matched: the CTAs of the first GPU's are not recorded

  std::size_t kept_kernels() const;
  std::size_t by_number() const;  // of those that are matched
};

// Kernels of a process group belong together that have one sequence number on all GPUs, in whatever order numbers come;
// a number that one GPU has twice in the group tells nothing. Where a GPU has no numbers in the group, the k-th kernel
// of the group on one GPU belongs to the k-th of that group on every other. All must agree in kind, bytes and members
// of the group. In the second way, from the first on that do not agree nothing of the group is matched. Groups that
// some of the ranks are not in are left out: those of fewer ranks than there are workloads or, of copies of one rank,
// than its largest group has. Of those that the GPUs have in different orders, the most are matched that they have in
// one. `workloads`: one per GPU.
RankCollectives match_collectives(const std::vector<const workload::Workload*>& workloads, bool copies = false);

// Moves the times of recordings to later ones, so that all of them are on one axis: of GPUs of one file by the
// recorder's clock; of several files so that all-reduces, all-gathers and reduce-scatters that belong together end at
// one time in all of them, by the median of all. Files are not moved to one another where half of these or more would
// end further apart than they last. Returns what there is to say of it, in sentences.
std::vector<std::string> align_ranks(std::vector<workload::Workload>& workloads);

// What the SMs of a GPU hold.
struct RankRoom {
  std::uint32_t sms = 0;
  arch::SmLimits limits;
};

// Gives the matched kernels the programs of the machine's collectives, in a ring, with their recorded CTAs and threads,
// and the workloads the memory for it. Buffers are rounded up to 16 bytes for each rank. A single rank has nobody to
// wait for and nothing to send: its kernels end at once. Collectives of several streams that would not all fit at once
// could wait for each other without end, as each has places that the other needs: they have fewer CTAs.
// `workloads`: those that were matched, or copies. `rooms`: by GPU. Returns the most CTAs that are left to each; 0:
// none were cut. Throws InputError where there is no memory or no room for as many.
std::uint64_t run_over_links(const RankCollectives& collectives, const std::vector<workload::Workload*>& workloads,
                             const std::vector<RankRoom>& rooms);

// The workload of one rank `ranks` times. Their warnings are those of the first.
std::vector<workload::Workload> copies_of_rank(const workload::Workload& workload, std::size_t ranks);

}  // namespace heddle::replay
