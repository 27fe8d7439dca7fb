// What makes parts of the machine free, or takes them away: completions of CTAs and CGAs, shared memory that is given
// back, TPCs that are switched on and off, and loads from outside the model that end.
#pragma once

#include <cstdint>
#include <deque>
#include <variant>
#include <vector>

#include "cwd/cost_laws.h"
#include "cwd/cwd_context.h"
#include "cwd/machine_ledger.h"
#include "cwd/part_map.h"
#include "cwd/subcontext_partition.h"
#include "cwd/task_arbiter.h"
#include "cwd/task_control.h"
#include "cwd/task_table.h"
#include "protocol/cwd_gpm.h"
#include "protocol/host_task.h"

namespace heddle::cwd {

class CompletionUnit final : private EventHandler {
 public:
  CompletionUnit(const CwdContext& context, TaskTable& table, MachineLedger& machine, SubcontextPartition& partition,
                 TaskControl& tasks, TaskArbiter& arbiter, PartMap& parts);

  // Reports of ends are taken in so many per cycle, from all GPCs, in the order of their arrival (CWD-28).
  void on_complete(const protocol::CompletePacket& complete, std::uint32_t gpc);
  void on_cga_complete(const protocol::CgaCompletePacket& complete, std::uint32_t gpc);
  void on_shared_release(const protocol::SharedReleasePacket& release, std::uint32_t gpc);
  void on_tpc_enable(const protocol::TpcEnablePacket& control, std::uint32_t);

  // Resources of an SM that something outside the model holds from the start, until a cycle (0: for ever).
  void preload(std::uint32_t sm, const arch::ResourceVector& amount, Cycle until);
  // After the ledger's: what is preloaded will end again.
  void reset();
  bool empty() const { return reports_.empty(); }

 private:
  struct CompletionStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& ctas = counter("ctas_completed", "CTAs", "CTAs whose completion has arrived");
    Counter& preempted = counter("ctas_preempted", "CTAs", "times that a CTA was saved to make room (TSK-16)");
    Counter& cgas = counter("cgas_completed", "GPC_CGAs", "GPC_CGAs whose cga_complete has arrived");
    Counter& memory_slots = counter("memory_slots_freed", "slots", "CGA memory slots that have come back");
    Counter& waited = counter("report_wait_cycles", "cycles", "time that reports of ends waited to be taken in");
    Counter& shared_released =
        counter("shared_released", "bytes", "shared memory that CTAs gave back before their end");
  };
  struct Preload {
    std::uint32_t sm = 0;
    arch::ResourceVector amount;
    Cycle until = 0;
  };

  // A report that waits to be taken in.
  struct Report {
    std::variant<protocol::CompletePacket, protocol::CgaCompletePacket> packet;
    std::uint32_t gpc = 0;
  };
  enum Kind : std::uint32_t { kPreloadEnds, kTakeIn };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  template <class Packet>
  bool waits(const Packet& packet, std::uint32_t gpc);
  void take_in(const protocol::CompletePacket& complete, std::uint32_t gpc);
  void take_in(const protocol::CgaCompletePacket& complete, std::uint32_t gpc);
  void complete_cga(const TaskEntry& entry, std::uint64_t sequence, std::uint64_t parts);
  const char* handler_name() const override { return context_.name; }

  const CwdContext& context_;
  TaskTable& table_;
  MachineLedger& machine_;
  SubcontextPartition& partition_;
  TaskControl& tasks_;
  TaskArbiter& arbiter_;
  PartMap& parts_;
  std::vector<Preload> preloads_;  // that end
  RateQueue intake_;
  std::deque<Report> reports_;
  CompletionStats stats_;
};

}  // namespace heddle::cwd
