// What an empty machine holds: how many CGAs of a kernel at once (CWD-24, what cudaOccupancyMaxActiveClusters answers),
// whether any at all (CWD-25), and which tasks the distributor admits. It asks the code that places them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/cluster.h"
#include "arch/sm_limits.h"
#include "arch/task_record.h"
#include "arch/topology.h"
#include "cwd/cluster_place.h"
#include "cwd/cost_laws.h"
#include "cwd/cwd_params.h"
#include "cwd/lake_fill.h"
#include "cwd/plain_policy.h"
#include "cwd/task_table.h"

namespace heddle::cwd {

constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();

// What of the machine a kernel may use.
struct MachineShare {
  std::vector<bool> tpcs;            // numbered GPC by GPC; empty: all
  std::uint32_t credits = kNoLimit;  // TPCs at once (PRT-02)
  std::uint32_t sms = kNoLimit;      // at once, and
  std::uint32_t warps = kNoLimit;    // of an SM (PRT-11)
};

struct Occupancy {
  std::uint64_t cgas = 0;                 // outermost CGAs at once; of a plain grid: CTAs
  SearchWork work;                        // of the search for places
  std::vector<std::uint32_t> gpc_cgas;    // GPC_CGAs, by GPC; all 0 where the grid has none
  std::vector<std::uint32_t> ctas;        // by GPC
  std::vector<std::uint32_t> unused_sms;  // by GPC: SMs without any CTA
};

class EmptyMachine {
 public:
  // The topology must outlive it. `cgas_per_gpc`: GPC_CGAs that a GPC has ids and barriers for. Throws InputError if
  // the parameters do not fit the machine.
  EmptyMachine(const arch::Topology& topology, const CwdParams& params, const arch::ResourceVector& sm_capacity,
               std::uint32_t cgas_per_gpc = kNoLimit);

  // `need`: of one CTA. `cluster`: well formed; `size`: of the outermost CGA (ClusterShape::size). `local_memory`: CTAs
  // take a local-memory block of their TPC.
  Occupancy occupancy(const arch::ResourceVector& need, const arch::ClusterShape& cluster, std::uint32_t size = 0,
                      bool local_memory = false);
  // CTAs of the largest GPC_CGA of which one has a place, in that mode; 0: a CTA is larger than an SM. Adds the work of
  // the search, which halves the sizes, to `work`.
  std::uint32_t largest_gpc_cga(const arch::ResourceVector& need, arch::CgaMode mode, bool local_memory,
                                SearchWork& work);
  // From now on kernels have that of the machine; at first, what the parameters give a subcontext.
  void set_share(MachineShare share) { share_ = std::move(share); }
  // Why the CTAs of a cooperative grid cannot all be resident at once; empty if they can.
  std::string why_not_at_once(const arch::ResourceVector& need, const arch::ClusterShape& cluster,
                              const arch::Dim3& grid, bool local_memory = false);
  // Why nothing of the grid, with none of the sizes that it accepts, can ever start, naming resource and domain; empty
  // if something can.
  std::string why_never_fits(const arch::ResourceVector& need, const arch::ClusterShape& cluster,
                             bool local_memory = false);

 private:
  // What CTAs of one kind find on the empty machine, and why no more.
  struct Room {
    std::vector<std::uint16_t> slots;  // by SM id
    std::uint32_t per_sm = 0;
    std::string why;  // "2 CTAs per SM (registers: a CTA takes 32768 of 65536)"
  };
  bool limits_tpcs(bool local_memory) const {
    return share_.credits != kNoLimit || share_.sms < topology_.sms() ||
           (local_memory && params_.local_memory_blocks > 0);
  }
  // Where a subcontext cannot have all TPCs, or all SMs: those of GPC `first` and of the GPCs after it before others.
  Room room_for(const arch::ResourceVector& need, bool local_memory, std::uint32_t first = kNoLimit) const;
  void limit_tpcs(Room& room, std::uint32_t tpcs, std::uint32_t first) const;
  void limit_sms(Room& room, std::uint32_t first) const;
  void close_tpcs(Room& room) const;
  Occupancy fill(const Room& room, const arch::ClusterShape& cluster, std::uint32_t size, std::uint64_t units,
                 std::uint32_t cgas_per_gpc);
  bool fits(const Room& room, const arch::ClusterShape& cluster, std::uint32_t size);
  std::string why_too_large(const Room& room, const arch::ClusterShape& cluster);
  std::string why_too_few_sms(const Room& room, const arch::ClusterShape& cluster, arch::CgaLevel level) const;
  std::string why_too_few_cgas(const Room& room, const arch::ClusterShape& cluster, arch::CgaLevel level,
                               arch::CgaLevel inner);
  std::uint64_t most_in_one(const Room& room, const arch::ClusterShape& cluster, arch::CgaLevel level,
                            arch::CgaLevel inner, std::uint32_t cgas_per_gpc);

  const arch::Topology& topology_;
  const CwdParams params_;
  const arch::ResourceVector capacity_;
  const std::uint32_t cgas_per_gpc_;
  MachineShare share_;
  const std::vector<std::uint32_t> sm_priority_;
  const Policies policies_;
  const std::unique_ptr<PlainPolicy> plain_;
  ClusterPlacer placer_;
  DomainWideFill domain_wide_;
};

// Whether a task can run on the empty machine (CWD-25).
class Admission {
 public:
  // The arguments are those of EmptyMachine.
  Admission(const arch::Topology& topology, const arch::ResourceVector& capacity, const CwdParams& params,
            std::uint32_t cgas_per_gpc);

  // False if no size of its CGAs could ever start.
  bool admit(const protocol::TaskPacket& task);

 private:
  EmptyMachine machine_;
  const std::uint32_t max_gpc_cga_;
};

// The occupancy of a kernel, whatever its grid.
Occupancy occupancy(const arch::Topology& topology, const CwdParams& params, const arch::SmLimits& limits,
                    const arch::KernelShape& kernel, std::uint32_t cgas_per_gpc = kNoLimit);
// Why the machine can never run the kernel: malformed CGAs, a CTA or a CGA that is larger than what could hold it.
std::string why_never_fits(const arch::Topology& topology, const CwdParams& params, const arch::SmLimits& limits,
                           const arch::KernelShape& kernel, std::uint32_t cgas_per_gpc = kNoLimit);

}  // namespace heddle::cwd
