// The compute work distributor: sessions, launch packets, completions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "cwd/cwd_params.h"
#include "cwd/lake_fill.h"
#include "cwd/launch_port.h"
#include "cwd/live_model.h"
#include "cwd/task_table.h"
#include "protocol/launch_packet.h"
#include "protocol/task_packet.h"

namespace heddle::cwd {

class Cwd : public Block {
 public:
  Cwd(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CwdParams& params,
      const arch::Topology& topology, const arch::ResourceVector& sm_capacity);

  PacketIn<protocol::TaskPacket> task_in;
  PacketOut<protocol::TaskDonePacket> done_out;
  PacketOut<protocol::LaunchPacket> launch_out;                        // link = GPC
  sc_core::sc_vector<PacketIn<protocol::CompletePacket>> complete_in;  // one per GPC

  // Nothing in the table, nothing on any SM, every launch answered.
  bool quiescent() const;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  // Kinds of events.
  static constexpr std::uint32_t kConsider = 0;
  static constexpr std::uint32_t kSessionEnds = 1;
  static constexpr std::uint32_t kDepart = 2;

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_task(const protocol::TaskPacket& task, std::uint32_t);
  void on_complete(const protocol::CompletePacket& complete, std::uint32_t gpc);
  void on_credit(std::uint32_t);
  void consider_later();
  void consider();
  void begin_session(std::uint32_t slot);
  void end_session();
  void commit(TaskEntry& entry);
  void pump_port();
  void depart();
  void finish(std::uint32_t slot);
  void note_waiting(bool waiting);

  const CwdParams params_;
  const arch::Topology& topology_;
  LakeFill lake_;
  LiveModel live_;
  TaskTable table_;
  LaunchPort port_;

  struct Session {
    bool active = false;
    std::uint32_t slot = 0;
    Cycle begin = 0;
    std::uint64_t sequence = 0;
    const Placement* placement = nullptr;
    std::vector<std::uint16_t> snapshot;
  } session_;
  std::uint64_t sessions_begun_ = 0;
  std::uint32_t buffers_used_ = 0;  // sessions whose masks have not all left
  bool consider_scheduled_ = false;
  bool depart_scheduled_ = false;
  bool waiting_ = false;  // CTAs are left and no SM has room
  Cycle waiting_since_ = 0;

  Counter& ctas_launched_;
  Counter& launch_packets_;
  Counter& sessions_;
  Counter& session_steps_;
  Counter& tasks_;
  Counter& ctas_completed_;
  Counter& no_slot_cycles_;
  Gauge& table_used_;
  Histogram& session_cycles_;
  Histogram& ctas_per_packet_;
  TrackId session_track_;
  TrackId waiting_track_;
};

}  // namespace heddle::cwd
