// A session in zero time: where the CGAs of a grid would go, given the free slots of every SM. Answers questions about
// the machine (occupancy, what can never fit); the shells run the same session over links.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arch/cluster.h"
#include "cwd/cluster_session.h"
#include "cwd/cwd_params.h"

namespace heddle::cwd {

// CGAs of CTAs over a whole GPU or uGPU, placed as a plain grid is (CWD-09, domain_wide_fill.h);
// all other CGAs are placed by a ClusterSession.
inline bool is_domain_wide(const arch::ClusterShape& shape) { return shape.any() && !shape.has(arch::CgaLevel::gpc); }

// What a session is asked for by a grid of such CGAs, well formed (arch::why_malformed) and with the outermost CGA of
// that size (ClusterShape::size). Of domain-wide CGAs, the request says nothing but `units`, and there is no GPC_CGA.
SessionRequest request_for(const arch::ClusterShape& shape, std::uint32_t size_index, std::uint64_t units);
GpcCgaShape gpc_cga_shape_for(const arch::ClusterShape& shape, std::uint32_t size_index);

// The policies that a configuration names.
struct Policies {
  std::unique_ptr<SmPolicy> load_balancing;
  std::unique_ptr<SmPolicy> multicast;
  std::unique_ptr<DomainPolicy> domain;

  explicit Policies(const CwdParams& params)
      : load_balancing(make_sm_policy(params.one_at_a_time ? "one_at_a_time" : params.load_balancing)),
        multicast(make_sm_policy(params.multicast)),
        domain(make_domain_policy(params.domain_policy)) {}
};

class ClusterPlacer {
 public:
  // Topology and policies must outlive it. Priorities: SM ids and GPCs of the machine, most preferred first.
  ClusterPlacer(const arch::Topology& topology, const Policies& policies, const std::vector<std::uint32_t>& sm_priority,
                const std::vector<std::uint32_t>& gpc_priority);

  struct Placed {
    Home home;
    std::vector<std::uint64_t> masks;  // of its GPC, in launch order
  };

  // `slots`: free slots by SM id. `cgas_per_gpc`: most GPC_CGAs that the session may place on each GPC, whatever its
  // slots. The GPC_CGAs that have a place, in launch order.
  const std::vector<Placed>& place(const std::vector<std::uint16_t>& slots, const GpcCgaShape& shape,
                                   arch::CgaMode mode, const std::vector<std::uint32_t>& cgas_per_gpc,
                                   const SessionRequest& request);
  // Of the last session.
  const ClusterSession& session() const { return session_; }
  std::vector<std::uint16_t> left() const;  // free slots by SM id, without what was placed

 private:
  void carry_out(const Command& command);

  const arch::Topology& topology_;
  ClusterSession session_;
  std::vector<GpcModel> models_;
  struct Reserved {
    std::vector<std::vector<std::uint64_t>> masks;  // by reservation, in order
    std::size_t accepted = 0;
  };
  std::vector<Reserved> reserved_;  // by GPC
  std::vector<Placed> placed_;
};

}  // namespace heddle::cwd
