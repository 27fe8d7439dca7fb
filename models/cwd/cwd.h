// The compute work distributor: task table, sessions, launch packets, completions.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "cwd/admission.h"
#include "cwd/cga_ledger.h"
#include "cwd/credit_fill.h"
#include "cwd/cwd_params.h"
#include "cwd/gpc2sm_unit.h"
#include "cwd/gpc_pools.h"
#include "cwd/gpu2gpc_unit.h"
#include "cwd/lake_fill.h"
#include "cwd/launch_port.h"
#include "cwd/live_model.h"
#include "cwd/mask_reorder.h"
#include "cwd/subcontext_stats.h"
#include "cwd/task_table.h"
#include "cwd/tpc_holds.h"
#include "cwd/wait_log.h"
#include "cwd/wide_fill.h"
#include "protocol/cwd_gpm.h"
#include "protocol/gpm_mpc_sm.h"
#include "protocol/host_task.h"
#include "protocol/task_cwd.h"

namespace heddle::cwd {

// What every GPC has for CGAs; the GPMs keep it, the distributor counts it (CWD-19).
struct GpcCgaLimits {
  std::uint32_t ids = 256;
  std::uint32_t barriers = 256;
};

// Plain grids, and CGAs of CTAs over a whole domain, are placed by the load balancer in here, over all SMs at once.
// Grids of GPC_CGAs are placed by the GPU2GPC unit and the GPC2SM units, which are modules of their own.
class Cwd : public Block {
 public:
  Cwd(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CwdParams& params,
      const arch::Topology& topology, const arch::ResourceVector& sm_capacity, const GpcCgaLimits& gpc_limits = {});
  ~Cwd() override;

  PacketIn<protocol::TaskPacket> task_in;
  PacketOut<protocol::TaskDonePacket> done_out;
  PacketIn<protocol::TpcEnablePacket> control_in;
  // These may stay unbound: tasks are then never evicted and queues never grow, and sharing stays as it is.
  PacketIn<protocol::EvictPacket> evict_in;
  PacketOut<protocol::EvictedPacket> evicted_out;
  PacketIn<protocol::GrowPacket> grow_in;
  PacketOut<protocol::IdlePacket> idle_out;
  PacketIn<protocol::SubcontextPacket> share_in;
  PacketOut<protocol::LaunchPacket> launch_out;                           // link = GPC
  PacketOut<protocol::LocalMemoryPacket> local_out;                       // link = GPC
  PacketOut<protocol::AbortPacket> abort_out;                             // link = GPC
  sc_core::sc_vector<PacketIn<protocol::CompletePacket>> complete_in;     // one per GPC
  sc_core::sc_vector<PacketIn<protocol::CgaCompletePacket>> cga_in;       // one per GPC
  sc_core::sc_vector<PacketIn<protocol::SharedReleasePacket>> shared_in;  // one per GPC

  // Resources of an SM that something outside the model holds from the start, until a cycle (0: for ever).
  void preload(std::uint32_t sm, const arch::ResourceVector& amount, Cycle until);

  // Whether the machine has an MMU, which takes page tables; without one they are refused.
  void set_translates(bool translates) { translates_ = translates; }
  // Told of every change of sharing that was refused, and why.
  void on_share_refused(std::function<void(const protocol::SubcontextPacket&, ShareRefusal)> sink) {
    on_share_refused_ = std::move(sink);
  }
  const TpcHolds& holds() const { return holds_; }

  // No task in the table or evicted from it, nothing on any SM, every launch answered, everything that CGAs took is
  // back.
  bool quiescent() const;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  void before_end_of_elaboration() override;

  // Kinds of events.
  static constexpr std::uint32_t kConsider = 0;
  static constexpr std::uint32_t kSessionEnds = 1;
  static constexpr std::uint32_t kDepart = 2;
  static constexpr std::uint32_t kUnload = 3;

  enum class SessionKind : std::uint8_t { none, plain, wide, cluster };

  // The running session, or the last one.
  struct Session {
    SessionKind kind = SessionKind::none;
    std::uint32_t slot = 0;
    std::uint32_t size = 0;  // size index of the outermost CGA
    Cycle begin = 0;
    std::uint64_t number = 0;
    std::uint64_t sequence = 0;  // of its first outermost CGA; of a plain grid: of the session
    std::uint64_t version = 0;   // of the machine when it began
    std::vector<std::uint16_t> snapshot;
    const Placement* placement = nullptr;         // plain
    const std::vector<WideUnit>* wide = nullptr;  // wide
    arch::RasterShape shape;
    WaitReason held = WaitReason::none;  // what sharing kept from it
    bool decided = false;                // cluster: the GPU2GPC unit has ended
    std::uint64_t units = 0;             // then: what it has placed
    std::uint32_t cgas = 0;
    std::uint32_t memory_slot = protocol::kNoMemorySlot;  // of the outermost CGA that is being launched
    std::uint64_t unit_open = ~std::uint64_t{0};          // its number in the session
  };

  // Packets of a session that have not left.
  struct Buffer {
    std::uint64_t session = 0;
    std::uint64_t packets = 0;
    bool closed = false;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_task(const protocol::TaskPacket& task, std::uint32_t);
  void on_control(const protocol::TpcEnablePacket& control, std::uint32_t);
  void on_share(const protocol::SubcontextPacket& share, std::uint32_t);  // cwd_partition.cpp
  void on_complete(const protocol::CompletePacket& complete, std::uint32_t gpc);
  void on_cga_complete(const protocol::CgaCompletePacket& complete, std::uint32_t gpc);
  void on_shared(const protocol::SharedReleasePacket& release, std::uint32_t gpc);
  void on_credit(std::uint32_t);
  void on_masks(const protocol::MaskPacket& masks, std::uint32_t gpc);
  void on_session_end(const protocol::SessionEndPacket& end, std::uint32_t);
  void schedule_unloads();
  void abort(std::uint32_t slot);
  void drop_rest(std::uint32_t slot);
  void finish_if_done(std::uint32_t slot);
  void finish(std::uint32_t slot);
  bool in_session(std::uint32_t slot) const { return session_.kind != SessionKind::none && session_.slot == slot; }
  std::string name_of(std::uint32_t slot) const;
  void show_table();

  // cwd_evict.cpp: eviction and return (TSK-03), growth of queue tasks (TSK-05).
  void on_evict(const protocol::EvictPacket& evict, std::uint32_t);
  void on_grow(const protocol::GrowPacket& grow, std::uint32_t);
  void resume(const protocol::TaskPacket& task);
  void evict(std::uint32_t slot);
  void answer_evict(std::uint32_t slot, bool evicted);
  void tell_if_idle(std::uint32_t slot);
  void collect_evicted_waits(WaitGraph& graph, std::uint32_t slot) const;
  void collect_slot_waits(WaitGraph& graph, std::uint32_t slot) const;

  // cwd_session.cpp: whose turn it is, and what a session may use.
  void consider_later();
  void consider();
  bool try_begin(std::uint32_t slot);
  WaitReason limit_units(const TaskEntry& entry, std::uint32_t size, std::uint64_t& units) const;
  void block(TaskEntry& entry, std::uint32_t slot, WaitReason reason, std::uint64_t version);
  bool may_pass(const TaskEntry& entry) const;
  bool may_run_on(const TaskEntry& entry, std::uint32_t gpc) const;
  WaitReason restrict_to_pools(const TaskEntry& entry, std::vector<std::uint16_t>& slots) const;
  void leave_pending(const TaskEntry& entry);
  bool pools_changed(const TaskEntry& entry) const { return entry.pool_limited && entry.pool_version != pool_version_; }
  void open_session(std::uint32_t slot, SessionKind kind, std::uint32_t size);
  void begin_plain(std::uint64_t ctas);
  void begin_wide(std::uint64_t units);
  void begin_cluster(std::uint64_t units);
  bool could_hold(const TaskEntry& entry, std::uint32_t size, const std::vector<std::uint16_t>& slots) const;
  std::uint32_t gpc_room(const TaskEntry& entry, std::uint32_t size, std::uint32_t gpc) const;
  WaitReason why_no_home(const TaskEntry& entry, std::uint32_t size) const;
  void end_session();
  void close_session(std::uint64_t placed);
  void draw_session(std::uint64_t placed);
  void note_waiting(bool waiting);

  // cwd_partition.cpp: how subcontexts share the machine (PRT-02 to PRT-07, PRT-10).
  static constexpr std::uint32_t kAnyGpc = ~std::uint32_t{0};
  ShareRefusal change_holds(const protocol::SubcontextPacket& share);
  bool kept_off(std::uint32_t slot) const;
  bool mask_reaches(std::uint32_t subcontext, std::uint32_t gpc) const;
  WaitReason restrict_to_holds(const TaskEntry& entry, std::vector<std::uint16_t>& slots,
                               std::uint32_t first = kAnyGpc);
  bool finds_room(TaskEntry& entry, std::uint32_t slot, WaitReason held);
  bool tries_others(TaskEntry& entry) const;
  void reserve_holds(const TaskEntry& entry);
  const Placement& place_plain(std::uint64_t ctas);
  void show_holds(std::uint32_t subcontext);
  void use_subcontext(std::uint32_t subcontext);
  bool lacks_credits_for_ever(const protocol::TaskPacket& task);

  // cwd_launch.cpp: from masks to launch packets.
  void commit_plain();
  void commit_wide();
  void commit_masks();
  void commit_cga(const CgaMasks& cga);
  protocol::LaunchPacket packet_for(const TaskEntry& entry, std::uint32_t gpc) const;
  void hand_over(protocol::LaunchPacket& packet, std::uint32_t gpc);
  void announce_late(protocol::LaunchPacket& packet, std::uint32_t gpc, TaskEntry& entry) const;
  void account(std::uint32_t slot, std::uint32_t gpc, std::uint64_t mask,
               std::vector<protocol::LocalMemoryPacket>& blocks);
  void pump_port();
  void depart();

  const CwdParams params_;
  const arch::Topology& topology_;
  const std::vector<std::uint32_t> sm_priority_;
  const Policies policies_;
  LakeFill lake_;
  WideFill wide_;
  LiveModel live_;
  TpcHolds holds_;
  CreditFill credit_;
  SubcontextStats subcontexts_;
  CgaLedger ledger_;
  Admission admission_;                       // without the credits of a subcontext: they can change
  std::unique_ptr<Admission> first_credits_;  // with those of the start, in dynamic mode
  TaskTable table_;
  GpcPools pools_;
  std::vector<std::uint32_t> enabled_tpcs_;  // by GPC
  LaunchPort port_;
  MaskReorder reorder_;
  WaitLog waits_;
  std::vector<std::uint32_t> tpc_rank_;   // by TPC: place of its most preferred SM in the priority order
  std::vector<std::uint32_t> first_tpc_;  // by GPC: number of its first TPC in the machine
  std::vector<std::uint32_t> gpc_of_tpc_;
  std::vector<Cycle> extra_distance_;  // by GPC: beyond the nearest one's

  Session session_;
  std::uint64_t sessions_begun_ = 0;
  std::uint64_t sequence_ = 0;      // the next CGA sequence number
  std::uint64_t version_ = 1;       // goes up when something becomes free
  std::uint64_t pool_version_ = 1;  // goes up when places of pending pools may have become free
  std::deque<Buffer> buffers_;
  bool consider_scheduled_ = false;
  bool depart_scheduled_ = false;
  bool waiting_ = false;  // CTAs are left and no SM has room
  Cycle waiting_since_ = 0;

  // Of the last look at what a subcontext may use, by TPC.
  std::vector<std::uint32_t> tpc_room_;
  std::vector<TpcPrice> prices_;
  std::vector<std::uint32_t> candidates_;
  std::function<void(const protocol::SubcontextPacket&, ShareRefusal)> on_share_refused_;
  bool translates_ = false;

  struct Unload {
    std::uint32_t sm = 0;
    arch::ResourceVector amount;
    Cycle until = 0;
  };
  std::vector<Unload> unloads_;

  // Towards the units of a session.
  PacketOut<protocol::SessionPacket> session_out_;
  PacketOut<protocol::SnapshotPacket> snapshot_out_;  // link = GPC
  PacketIn<protocol::SessionEndPacket> end_in_;
  sc_core::sc_vector<PacketIn<protocol::MaskPacket>> mask_in_;  // one per GPC
  Gpu2GpcUnit gpu2gpc_;
  std::vector<std::unique_ptr<Gpc2SmUnit>> gpc2sm_;

  Counter& ctas_launched_;
  Counter& launch_packets_;
  Counter& sessions_;
  Counter& failed_sessions_;
  Counter& session_steps_;
  Counter& tasks_;
  Counter& evictions_;
  Counter& resumed_;
  Counter& restored_;
  Counter& entries_;
  Counter& pool_yields_;
  Counter& rejected_;
  Counter& ctas_completed_;
  Counter& cgas_launched_;
  Counter& cgas_completed_;
  Counter& shared_released_;
  Counter& local_blocks_;
  Counter& late_joins_;
  Counter& no_slot_cycles_;
  Counter& share_changes_;
  Counter& share_refused_;
  Gauge& table_used_;
  Histogram& session_cycles_;
  Histogram& ctas_per_packet_;
  TrackId session_track_;
  TrackId waiting_track_;
  TrackId eviction_track_;

  // Other ends of what nobody has bound.
  std::vector<std::shared_ptr<void>> loose_ends_;
};

}  // namespace heddle::cwd
