// Answers the occupancy queries of the host and of kernels (CWD-24): how many CGAs of a kernel can be resident at once
// on what its subcontext may use of the machine, if nothing else runs there.
#pragma once

#include <cstdint>
#include <memory>

#include "common/packet_port.h"
#include "cwd/cwd_context.h"
#include "cwd/machine_ledger.h"
#include "cwd/occupancy.h"
#include "cwd/subcontext_partition.h"
#include "protocol/occupancy_query.h"

namespace heddle::cwd {

// Where answers go.
struct AnswerLinks {
  PacketSender<protocol::OccupancyAnswerPacket>& host;
  PacketSender<protocol::OccupancyAnswerPacket>& sms;  // link = SM id
};

class OccupancyUnit {
 public:
  // `capacity`: of an SM. `cgas_per_gpc`: GPC_CGAs that a GPC can hold.
  OccupancyUnit(const CwdContext& context, const arch::ResourceVector& capacity, std::uint32_t cgas_per_gpc,
                const LiveModel& live, const SubcontextPartition& partition, const AnswerLinks& answers)
      : context_(context),
        capacity_(capacity),
        cgas_per_gpc_(cgas_per_gpc),
        live_(live),
        partition_(partition),
        answers_(answers),
        stats_(context.observation.stats, context.stat_prefix) {}

  // Queries are answered one after another, each for the machine as it is shared when it arrives.
  void on_host_query(const protocol::OccupancyQueryPacket& query, std::uint32_t);
  void on_query(const protocol::OccupancyQueryPacket& query, std::uint32_t sm);
  void reset() { free_ = 0; }

 private:
  struct QueryStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& queries =
        counter("occupancy_queries", "queries", "queries of the host and of kernels how many CGAs can be resident");
    Counter& steps =
        counter("occupancy_steps", "steps", "decisions of the searches for such queries, one after another");
    Histogram& cycles = histogram("occupancy_cycles", "cycles", "from the arrival of an occupancy query to its answer");
  };

  // Made for the first query.
  EmptyMachine& machine();
  // Sets free_ to when the answer leaves.
  protocol::OccupancyAnswerPacket answer(const protocol::OccupancyQueryPacket& query);

  const CwdContext& context_;
  const arch::ResourceVector capacity_;
  const std::uint32_t cgas_per_gpc_;
  const LiveModel& live_;
  const SubcontextPartition& partition_;
  const AnswerLinks answers_;
  std::unique_ptr<EmptyMachine> machine_;
  Cycle free_ = 0;  // when the last query that has arrived is answered
  QueryStats stats_;
};

}  // namespace heddle::cwd
