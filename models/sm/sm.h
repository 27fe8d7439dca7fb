// A streaming multiprocessor: keeps its resources exactly, and runs CTAs: the warps of their programs or, without one,
// for a number of cycles.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "arch/code_store.h"
#include "arch/fault.h"
#include "arch/gpu_observation.h"
#include "common/block.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "protocol/gpm_mpc_sm.h"
#include "protocol/sm_network.h"
#include "protocol/sm_task.h"
#include "protocol/sm_tmau.h"
#include "sm/sm_params.h"
#include "sm/sm_place.h"
#include "sm/warp_engine.h"

namespace heddle::sm {

class Sm : public Block, private EngineHost {
 public:
  // `exit_distance`: cycles to the MPC. `seed`: of CTA durations. `code` and what `view` refers to must outlive the SM.
  Sm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const SmParams& params,
     const SmPlace& place, std::uint32_t exit_distance, std::uint64_t seed, const arch::CodeStore& code,
     const MemoryView& view);
  ~Sm() override;

  PacketIn<protocol::CtaStartPacket> start_in;
  PacketOut<protocol::CtaExitPacket> exit_out;
  PacketIn<protocol::AbortPacket> abort_in;
  MemoryOut memory_out;

  // Clusters. Entries and orders are noted ahead of their arrival: their senders use no credits.
  sc_core::sc_vector<PacketIn<protocol::CtaEntryPacket>> entry_in;  // by TPC of the GPC
  PacketIn<protocol::ClusterOrderPacket> order_in;
  PacketOut<protocol::ClusterNoticePacket> notice_out;
  // Distributed shared memory: requests to others and their replies, requests of others and the replies to them.
  PacketOut<protocol::DsmemPacket> dsmem_out;
  PacketIn<protocol::DsmemPacket> reply_in;
  PacketIn<protocol::DsmemPacket> dsmem_in;
  PacketOut<protocol::DsmemPacket> reply_out;
  // The tensor memory access unit (TMAU): requests and their ends, data for shared memory, and what it wants of that.
  PacketOut<protocol::BulkRequestPacket> bulk_out;
  PacketIn<protocol::BulkDonePacket> bulk_done_in;
  PacketIn<protocol::BulkDataPacket> bulk_data_in;
  PacketIn<protocol::BulkReadPacket> bulk_read_in;
  PacketOut<protocol::BulkReadPacket> bulk_read_out;
  // Device-side launches: to task management, and its wakes. Both may stay unbound while nobody launches.
  PacketOut<protocol::ChildPacket> child_out;
  PacketIn<protocol::WakePacket> wake_in;

  // Resources that something outside the model holds from the start, and after every reset, until that cycle; 0: for
  // ever. Several add up; together they must fit.
  void preload(const arch::ResourceVector& amount, Cycle until);

  // What CTAs and preloads hold.
  const arch::ResourceVector& used() const { return used_; }
  // What preloads hold now: an SM without CTAs has used() == base().
  const arch::ResourceVector& base() const { return base_; }
  std::uint32_t resident() const { return resident_; }
  // Called with every fault, in the cycle in which it stops its CTA.
  void on_fault(std::function<void(const arch::FaultRecord&)> sink) { engine_.on_fault(std::move(sink)); }
  WarpEngine& engine() { return engine_; }
  // What clusters hold here: all of it is zero when none is under way.
  using ClusterState = WarpEngine::ClusterState;
  ClusterState clusters() const { return engine_.clusters(); }
  bool quiescent() const { return resident_ == 0 && clusters().quiescent(); }
  // Corrupts shared memory of a resident CTA: reads of it are errors (CGA-08). For tests.
  void poison_shared(std::uint32_t cta_slot, std::uint32_t offset, std::uint32_t bytes) {
    engine_.poison_shared(cta_slot, offset, bytes);
  }
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  struct Cta {
    bool running = false;
    Cycle begin = 0;
    protocol::CtaTag tag;
    arch::CtaId id;
    std::uint64_t order = 0;
    std::uint64_t departure = 0;
    arch::ResourceVector need;          // less what it has given back
    std::uint32_t released_shared = 0;  // bytes
    std::uint32_t operation = 0;        // whose CTA it is; `tag` tells what sent it here
    bool restored = false;              // it was saved before (TSK-12)
    bool saved = false;                 // it leaves, and is not over
    bool exposed = false;               // it is shown as saved, and may be over all the same
  };
  struct Preload {
    arch::ResourceVector amount;
    Cycle until = 0;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_start(const protocol::CtaStartPacket& start, std::uint32_t, Cycle arrival);
  void enter_cga(const protocol::CtaStartPacket& start, Cycle arrival);
  void on_abort(const protocol::AbortPacket& abort, std::uint32_t);
  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival);
  void on_room(std::uint32_t, Cycle when);
  void on_entry(const protocol::CtaEntryPacket& entry, std::uint32_t, Cycle arrival) { engine_.enter(entry, arrival); }
  void on_order(const protocol::ClusterOrderPacket& order, std::uint32_t, Cycle arrival) {
    engine_.order(order, arrival);
  }
  void on_cluster_request(const protocol::DsmemPacket& packet, std::uint32_t) { engine_.on_cluster_request(packet); }
  void on_cluster_reply(const protocol::DsmemPacket& packet, std::uint32_t) { engine_.on_cluster_reply(packet, now()); }
  void on_cluster_room(std::uint32_t) { engine_.on_cluster_room(); }
  void on_bulk_room(std::uint32_t) { engine_.on_bulk_room(); }
  void on_bulk_done(const protocol::BulkDonePacket& done, std::uint32_t) { engine_.on_bulk_done(done); }
  void on_bulk_data(const protocol::BulkDataPacket& packet, std::uint32_t) { engine_.on_bulk_data(packet); }
  void on_bulk_read(const protocol::BulkReadPacket& packet, std::uint32_t) { engine_.on_bulk_read(packet); }
  void on_wake(const protocol::WakePacket& wake, std::uint32_t) { engine_.on_wake(wake); }
  void before_end_of_elaboration() override;
  void cta_over(std::uint32_t cta_slot, bool faulted) override { end(cta_slot, faulted); }
  void notify(const protocol::ClusterNoticePacket& notice, Cycle when) override { notice_out.send_at(when, notice); }
  void shared_released(std::uint32_t cta_slot, std::uint32_t bytes) override;
  void tell_tasks(const protocol::ChildPacket& packet) override;
  void cta_exposed(std::uint32_t cta_slot) override;
  void cta_saved(std::uint32_t cta_slot) override;
  void cta_restored(std::uint32_t cta_slot, std::uint32_t operation) override;
  void end(std::uint32_t cta_slot, bool faulted);
  void draw(const Cta& cta, std::uint32_t cta_slot);
  void hold(std::size_t preload);
  CtaListener::Cta shown(const Cta& cta, Cycle cycle) const;

  const arch::ResourceVector capacity_;
  const Cycle start_cycles_;
  const SmPlace place_;
  const std::uint64_t seed_;
  arch::ResourceVector used_;
  arch::ResourceVector base_;  // part of used_
  std::vector<Preload> preloads_;
  std::uint32_t resident_ = 0;
  std::vector<Cta> ctas_;  // by CTA slot
  std::vector<TrackId> tracks_;
  Counter& started_;
  Counter& warp_cycles_;
  PacketOut<protocol::WakePacket> no_wakes_;
  WarpEngine engine_;
};

}  // namespace heddle::sm
