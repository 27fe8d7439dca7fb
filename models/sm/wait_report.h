// Who waits for what on an SM, when nothing goes on any more.
#pragma once

#include <cstdint>
#include <string>

#include "arch/gpu_observation.h"
#include "common/waits.h"
#include "sm/cta_table.h"
#include "sm/issue_unit.h"

namespace heddle::sm {

class BulkUnit;
class ClusterTables;
class CtaSwap;
class DeviceLaunchUnit;
class DsmemFlights;
class L2Port;
class MbarrierUnit;
class RequestGate;
class ResidentCgas;
class SharedMemory;
class TensorUnit;

// Whether anything comes of what the warps of an SM do.
class WarpWatch final : private SmUnit, public RunSource {
 public:
  explicit WarpWatch(const UnitContext& context) : SmUnit(context) { context.time.add_run_source(*this); }

  void look(bool closely) override;
  Course course() const override;
};

class WaitReport final : private SmUnit {
 public:
  struct Subjects {
    const DsmemFlights& flights;
    const ResidentCgas& cgas;
    const BulkUnit& bulk;
    const MbarrierUnit& mbarriers;
    const DeviceLaunchUnit& launches;
    const SharedMemory& shared;
    const ClusterTables& tables;
    const RequestGate& gate;
    const L2Port& l2;
    const CtaSwap& swap;
    const TensorUnit& tensor;
  };
  WaitReport(const UnitContext& context, const Subjects& subjects)
      : SmUnit(context), subjects_(subjects), labels_(gpu_observation(context.time).labels) {}

  void collect(WaitGraph& graph) const;

 private:
  void show_cta(WaitGraph& graph, const Cta& cta) const;
  void show_warp(WaitGraph& graph, const Cta& cta, std::uint32_t number) const;
  void show_barrier(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_round(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_launch(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_context(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_cluster(WaitGraph& graph, const Cta& cta) const;
  void show_cluster_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_mbarrier_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_exit(WaitGraph& graph, const Cta& cta) const;
  void show_bulk_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_multiplies(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  std::string bulk_of(const Cta& cta) const;
  std::string memory() const;
  std::string name_of(const Cta& cta, std::uint32_t warp) const;
  std::uint32_t slot_of(const Cta& cta, const Warp& warp) const { return cta.warps[warp.place.warp]; }

  Subjects subjects_;
  const Labels& labels_;
};

}  // namespace heddle::sm
