// Runs the warps of CTAs that have programs: the four partitions of an SM and what they share (SM-01 to SM-04).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arch/code_store.h"
#include "arch/fault.h"
#include "common/domain.h"
#include "common/packet_socket.h"
#include "protocol/gpm_mpc_sm.h"
#include "protocol/sm_task.h"
#include "protocol/sm_tmau.h"
#include "sm/cluster_tables.h"
#include "sm/cta_barriers.h"
#include "sm/cta_move.h"
#include "sm/memory_unit.h"
#include "sm/partition.h"
#include "sm/sm_params.h"
#include "sm/sm_place.h"
#include "sm/sm_stats.h"
#include "sm/warp.h"

namespace heddle::sm {

class EngineHost {
 public:
  // A CTA has ended, now: by itself, or because of a fault or an abort.
  virtual void cta_over(std::uint32_t cta_slot, bool faulted) = 0;
  // The MPC is to know that, by a notice that leaves then, now or later.
  virtual void notify(const protocol::ClusterNoticePacket& notice, Cycle when) = 0;
  // The CTA has given back shared memory, now: bytes as the resource accounting counts.
  virtual void shared_released(std::uint32_t cta_slot, std::uint32_t bytes) = 0;
  // Task management is to know, now.
  virtual void tell_tasks(const protocol::ChildPacket& packet) = 0;
  // The CTA, which has been killed, may be found in memory from now on, and end elsewhere. Whether it is known once it
  // has left: cta_saved(), or cta_over() if nobody has found it.
  virtual void cta_exposed(std::uint32_t cta_slot) = 0;
  // The CTA has been saved to memory, and its slot is free, now (TSK-12).
  virtual void cta_saved(std::uint32_t cta_slot) = 0;
  // A saved CTA has come back, now: one of that operation.
  virtual void cta_restored(std::uint32_t cta_slot, std::uint32_t operation) = 0;

 protected:
  ~EngineHost() = default;
};

// Driven by events: one for every cycle in which some partition issues, none while nobody can. A warp that waits for a
// load costs nothing until the response comes.
class WarpEngine final : public EventHandler, private MemoryClient {
 public:
  // `name` is for messages.
  WarpEngine(Domain& domain, MemoryOut& out, const ClusterLinks& links, const BulkLinks& bulk,
             PacketOut<protocol::BulkRequestPacket>& bulk_out, const SmParams& params, const arch::CodeStore& code,
             const MemoryView& view, const SmPlace& place, const char* name, const std::string& stat_prefix,
             EngineHost& host);

  // A CTA that arrives at `arrival` (now or later) and issues its first instruction at `first`.
  void start(const protocol::CtaStartPacket& start, Cycle arrival, Cycle first);
  // All CTAs of the operation end, those that come later included.
  void abort(std::uint32_t operation);
  void on_fault(std::function<void(const arch::FaultRecord&)> sink) { fault_sink_ = std::move(sink); }

  bool on_response(tlm::tlm_generic_payload& payload, Cycle arrival) { return memory_.on_response(payload, arrival); }
  void on_room(Cycle when) { memory_.on_room(when); }

  // Clusters. A CTA of a CGA starts here, with a program or without: the SM answers the flush of the CGA (CGA-12).
  void host_cga(const protocol::CtaStartPacket& start);
  // Noted when they are sent; they arrive then.
  void enter(const protocol::CtaEntryPacket& entry, Cycle arrival) { tables_.enter(entry, arrival); }
  void order(const protocol::ClusterOrderPacket& order, Cycle arrival);
  void on_cluster_request(const protocol::DsmemPacket& packet) { memory_.on_cluster_request(packet); }
  void on_cluster_reply(const protocol::DsmemPacket& packet, Cycle arrival) {
    memory_.on_cluster_reply(packet, arrival);
  }
  void on_cluster_room() { memory_.on_cluster_room(); }

  // The TMAU.
  void on_bulk_room();
  void on_bulk_done(const protocol::BulkDonePacket& done);
  void on_bulk_data(const protocol::BulkDataPacket& packet) { memory_.on_bulk_data(packet); }
  void on_bulk_read(const protocol::BulkReadPacket& packet) { memory_.on_bulk_read(packet); }
  // Requests that it has not ended.
  std::size_t bulk_open() const { return bulk_open_.in_use(); }

  // Device-side launches: the tasks of a context have completed.
  void on_wake(const protocol::WakePacket& wake);

  // What clusters hold here: all of it is zero when none is under way.
  struct ClusterState {
    std::uint32_t cgas = 0;         // directory entries
    std::uint32_t windows = 0;      // CAM entries
    std::uint32_t hosted = 0;       // CGAs that had a CTA here and have not been flushed
    std::uint64_t in_flight = 0;    // requests that other SMs have not answered
    std::size_t served = 0;         // requests of other SMs that have not been answered for want of room
    std::size_t open = 0;           // requests of any kind
    std::size_t payloads = 0;       // of requests
    std::uint32_t shared_used = 0;  // bytes
    bool quiescent() const {
      return cgas == 0 && windows == 0 && hosted == 0 && in_flight == 0 && served == 0 && open == 0 && payloads == 0 &&
             shared_used == 0;
    }
  };
  ClusterState clusters() const;
  void poison_shared(std::uint32_t cta_slot, std::uint32_t offset, std::uint32_t bytes) {
    memory_.shared_memory().poison(cta_slot, offset, bytes);
  }

  // True if the warp waits for nothing but a barrier, and no bulk request of its CTA is open, so that its state is all
  // there is of it.
  bool at_rest(std::uint32_t cta_slot, std::uint32_t warp) const;
  // The state of a warp at rest, and back.
  std::vector<std::uint8_t> save(std::uint32_t cta_slot, std::uint32_t warp) const;
  void restore(std::uint32_t cta_slot, std::uint32_t warp, const std::vector<std::uint8_t>& bytes);
  // Shared memory of a CTA; for tests and dumps.
  const std::uint8_t* shared_bytes(std::uint32_t cta_slot) { return memory_.shared_memory().data(cta_slot); }
  std::uint32_t l1_bytes() { return memory_.l1().capacity(); }

  void reset();
  void collect_waits(WaitGraph& graph) const;

 private:
  static constexpr std::uint32_t kNoMove = ~std::uint32_t{0};
  // A CTA whose warps have exited, and whose accesses have not all been answered, leaves in steps (CGA-11).
  enum class Exit : std::uint8_t {
    no,
    asked,      // the MPC for permission
    permitted,  // it leaves as soon as nothing of it has to be reported any more
  };
  struct Cta {
    bool running = false;
    bool ending = false;  // its end is an event that has been entered
    bool killed = false;  // its warps have stopped, and its accesses come to nothing
    bool faulted = false;
    bool has_warps = false;  // one that was aborted before it came has none
    protocol::CtaStartPacket start;
    Cycle begin = 0;
    Cycle last = 0;    // the end of what has ended so far
    Cycle landed = 0;  // the same for accesses alone
    const arch::Code* code = nullptr;
    arch::Dim3 block;                  // its threads: at the edge of a grid it can be partial (PKT-03)
    std::vector<std::uint32_t> warps;  // slots, by warp
    std::uint32_t live = 0;            // warps that have not exited
    std::uint32_t open = 0;            // accesses and bulk requests, and failures on their way
    std::uint32_t bulk = 0;            // of these, bulk requests
    CtaBarriers barriers;

    // Its CGA (CGA-11, CGA-13).
    Exit exit = Exit::no;
    std::uint32_t arrived = 0;                    // warps, at the barrier of the CGA in its current phase
    bool reported = false;                        // all of them have, and the MPC knows
    std::uint64_t phases = 0;                     // that have completed
    std::uint32_t released = 0;                   // bytes of shared memory, as the resource accounting counts
    std::vector<std::uint32_t> mbarrier_waiters;  // slots

    // Device-side launches (TSK-07).
    enum class Context : std::uint8_t { none, being_made, here };
    Context context_state = Context::none;
    std::uint64_t context = 0;  // its own, or the one that its grid shares
    bool home_here = false;     // kHome names this SM: nobody has woken it since
    bool knows_depth = false;
    std::uint32_t depth = 0;       // of its task
    std::uint64_t streams = 0;     // of the context, as far as is known
    bool gives_turn = false;       // of a queue task: the entry is to be given back (TSK-05)
    std::uint64_t turn_entry = 0;  // where, and
    std::uint64_t turn = 0;        // what to write
    bool has_context() const { return context_state == Context::here; }

    // Saving (TSK-12).
    std::uint32_t move = kNoMove;  // of its state to memory, or from there
    Cycle save_due = 0;            // when it has waited long enough
    bool saved = false;            // it leaves the slot, and is not over
    bool woken = false;            // while its home moved

    bool in_cga() const { return start.tag.cga_id != protocol::kNoCgaId; }
  };
  // A request that the TMAU has and has not ended. Its CTA stays until then.
  struct BulkOpen {
    std::uint32_t cta = 0;   // slot
    std::uint32_t warp = 0;  // slot
    std::uint32_t lane = 0;
    std::uint32_t pc = 0;
    arch::OpCode code = arch::OpCode::exit;
    arch::BulkKind kind = arch::BulkKind::load;
    bool grouped = false;
    bool read = false;          // its source has been read
    std::uint32_t barrier = 0;  // load
    std::uint64_t group = 0;    // of the warp
    std::uint64_t address = 0;  // for messages
    std::uint64_t serial = 0;   // its age
  };
  // A CGA that had a CTA here and has not been flushed.
  struct Hosted {
    bool here = false;
    bool flushing = false;  // the MPC waits for the answer
    bool trapped = false;   // an error of a CTA that has gone was reported
    Cycle quiet = 0;        // when all answers so far will have come
    std::uint64_t cga = 0;  // linear id
    protocol::CtaTag tag;
  };
  enum Event : std::uint32_t {
    kIssue,
    kCtaEnds,       // argument: CTA slot
    kFails,         // argument: index into failures_
    kAcknowledged,  // argument: warp slot
    kPermitted,     // argument: CTA slot
    kSaves,         // argument: CTA slot
    kMoves,         // argument: index into moves_
    kMoved,         // argument: the same, and above it the number of the access
    kGivesTurn,     // argument: CTA slot
  };
  // A CTA on its way to memory, or from there. It goes on without the CTA if that cannot wait for it.
  struct Move {
    struct Flight {
      bool busy = false;
      bool failed = false;
      CtaMove::Access access;
    };
    std::optional<CtaMove> walk;  // none: the place is free
    bool restores = false;
    std::uint32_t cta = 0;  // slot; kNoCta
    bool holds = false;     // the CTA cannot end before it goes on: it counts as an access of it
    bool judged = false;    // restore: what the header says has been looked at
    bool exposed = false;   // save: cta_exposed() has been called
    bool stopped = false;   // it waits for the memory unit
    Cycle begin = 0;
    Cycle not_before = 0;  // of the next access
    std::array<Flight, CtaMove::kWindow> flights;
  };
  struct Failure {
    std::uint32_t cta = 0;     // kNoCta: it has gone
    std::uint32_t cga_id = 0;  // then
    std::uint64_t sequence = 0;
    arch::FaultRecord record;
  };

  // engine_ctas.cpp: CTAs
  std::uint32_t take_slot(std::uint32_t warp);
  void enter_warp(Cta& cta, std::uint32_t cta_slot, std::uint32_t warp, Cycle first);
  void size_l1(std::uint32_t shared_bytes);
  void check_end(Cta& cta, Cycle when);
  void end_at(Cta& cta, Cycle when);
  void end(std::uint32_t cta_slot);
  void leave(std::uint32_t cta_slot);
  void kill(std::uint32_t cta_slot);
  bool aborted(std::uint32_t operation) const;
  void fault(std::uint32_t slot, arch::FaultKind kind, std::uint32_t lane, std::uint64_t address);
  arch::FaultRecord record_of(const Warp& warp, arch::FaultKind kind, std::uint32_t pc) const;
  void report(const arch::FaultRecord& record, std::uint32_t cta_slot);
  void add_failure(Failure failure);
  void failed(std::uint32_t failure);

  // warp_engine.cpp: who issues when
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void issue_all();
  void wake(std::uint32_t slot);
  void arm();
  void prepare(std::uint32_t slot, Cycle from) { prepare(slot, from, stats_.stall_scoreboard); }
  void prepare(std::uint32_t slot, Cycle from, Counter& stall);
  void resume(std::uint32_t slot, Cycle ready) { resume(slot, ready, stats_.stall_memory); }
  void resume(std::uint32_t slot, Cycle ready, Counter& stall);
  void issue(std::uint32_t slot);
  Partition& partition_of(std::uint32_t slot) { return partitions_[slot % kPartitions]; }
  void finish(std::uint32_t slot, Cycle ready, Cycle next);

  // engine_operations.cpp: what operations do
  void run(std::uint32_t slot, const arch::Operation& operation);
  void run_compute(std::uint32_t slot);
  std::uint64_t special(std::uint32_t slot, arch::SpecialRegister which) const;
  void run_special(std::uint32_t slot, const arch::Operation& operation);
  void run_matmul(std::uint32_t slot, const arch::Operation& operation);
  void run_barrier(std::uint32_t slot, const arch::Operation& operation);
  void run_exit(std::uint32_t slot);
  void open_barriers(Cta& cta);
  void run_copies_wait(std::uint32_t slot, std::uint32_t groups);

  // engine_memory.cpp: accesses, and what they order (MEM-06)
  bool check_access(std::uint32_t slot, const arch::Operation& operation);
  void run_memory(std::uint32_t slot, const arch::Operation& operation);
  bool check_shared(std::uint32_t slot, const arch::Operation& operation);
  void hold(std::uint32_t slot, const arch::Operation& operation);
  void run_held(std::uint32_t slot);
  void run_access(std::uint32_t slot, const arch::Operation& operation);
  void run_fence(std::uint32_t slot, const arch::Operation& operation);
  void begin_release(std::uint32_t slot, bool system);
  void acknowledge(std::uint32_t slot);
  void release_acknowledged(std::uint32_t slot);
  void released(std::uint32_t slot, Cycle when);
  void access_ended(const Access& access, Cycle when) override;
  void access_lost(const Access& access, Cycle when) override;
  void access_failed(const Access& access, std::uint32_t lane, std::uint64_t address, Cycle when) override;
  void request_ended(RequestLedger::Mark group, Cycle when) override;
  void memory_goes_on(Cycle when) override;

  // engine_bulk.cpp: requests to the TMAU, their groups and their ends (TMA-01, TMA-41)
  void run_bulk(std::uint32_t slot, const arch::Operation& operation);
  bool send_bulk(std::uint32_t slot, const arch::Operation& operation);
  void send_request(std::uint32_t slot, const arch::BulkRequest& request, arch::OpCode code, std::uint32_t lane);
  void bulk_issued(std::uint32_t slot, arch::OpCode code);
  arch::TensorRule find_receivers(std::uint32_t slot, protocol::BulkRequestPacket& packet);
  arch::TensorRule check_bulk(std::uint32_t slot, const protocol::BulkRequestPacket& packet) const;
  void run_bulk_wait(std::uint32_t slot, const arch::Operation& operation);
  void bulk_goes_on(std::uint32_t slot);
  void bulk_wrong(const BulkOpen& ended, const protocol::BulkDonePacket& done);
  Cta* asked_for(const protocol::BulkTarget& target);
  void bulk_failed(const BulkError& error, Cycle when) override;
  void bulk_trapped(const BulkError& error, Cycle when);

  // engine_cluster.cpp: the barrier of the CGA, and what is wrong with accesses to its shared memory
  bool enter_table(std::uint32_t slot);
  bool check_cluster(std::uint32_t slot, const arch::Operation& operation, std::uint32_t width);
  MemoryUnit::Result run_cluster(std::uint32_t slot, const arch::Operation& operation);
  void run_cluster_arrive(std::uint32_t slot, const arch::Operation& operation);
  void arrive(std::uint32_t slot);
  void run_cluster_wait(std::uint32_t slot, const arch::Operation& operation);
  void warp_left(std::uint32_t slot);
  void check_arrived(Cta& cta);
  void pass(Cta& cta, Cycle when);
  void run_release_shared(std::uint32_t slot, const arch::Operation& operation);
  void cluster_failed(const Access& access, const ClusterError& error, Cycle when) override;
  void orphan_failed(const ClusterError& error, Cycle when) override;
  void trap(const Failure& failure);

  // engine_exit.cpp: exit and flush (CGA-11, CGA-12)
  protocol::ClusterNoticePacket notice_of(const Cta& cta, protocol::ClusterNoticePacket::Kind kind) const;
  bool in_flight(const Cta& cta) const;
  void ask_to_leave(Cta& cta);
  void permitted(std::uint32_t cta_slot);
  void flush(const protocol::ClusterOrderPacket& order, Cycle arrival);
  void flushed(std::uint32_t cga_id);
  void cluster_answered(std::uint32_t cga_id, std::uint32_t cta, Cycle when) override;

  // engine_mbarrier.cpp (CGA-14)
  bool check_mbarrier(std::uint32_t slot, const arch::Operation& operation);
  void run_mbarrier(std::uint32_t slot, const arch::Operation& operation);
  void change_mbarrier(std::uint32_t slot, const arch::Operation& operation);
  void run_mbarrier_wait(std::uint32_t slot, const arch::Operation& operation);
  arch::LaneMask waiting_lanes(std::uint32_t slot, const arch::Operation& operation);
  void look_at_waiters(Cta& cta, Cycle when);
  void mbarrier_passed(std::uint32_t slot, Cycle when);
  void mbarrier_changed(std::uint32_t window, std::uint32_t offset, Cycle when) override;

  // engine_nested.cpp: device-side launches, one memory step after another (TSK-06 to TSK-14)
  void run_nested(std::uint32_t slot, const arch::Operation& operation);
  void begin_wait_children(std::uint32_t slot);
  void nested_ready(std::uint32_t slot, Cycle when);
  void nested_step(std::uint32_t slot);
  void nested_goes_on(std::uint32_t slot, NestedStage stage, Cycle when);
  void nested_ask(std::uint32_t slot, const arch::MemoryStep& step);
  void nested_access(std::uint32_t slot, const arch::Operation& operation);
  void nested_line(std::uint32_t slot, std::uint64_t address, const std::vector<std::uint64_t>& words);
  void nested_ended(const Access& access, Cycle when);
  void nested_lost(const Access& access);
  void nested_answer(std::uint32_t slot, Cycle when);
  void nested_finish(std::uint32_t slot, Cycle when);
  void nested_drop(std::uint32_t slot);
  void tell_lost_entry(const NestedRun& run);
  void nested_wrong(std::uint32_t slot, arch::FaultKind kind, std::uint64_t address);
  void nested_released(std::uint32_t slot, Cycle when);
  void stop_nested(std::uint32_t slot);
  std::uint64_t nested_word(std::uint32_t slot, std::uint32_t lane) const;

  // engine_launch.cpp: what they consist of
  void begin_nested(std::uint32_t slot);
  void look_at_context(std::uint32_t slot, Cycle when);
  void check_operands(std::uint32_t slot, Cycle when);
  bool check_launches(NestedRun& run, const Cta& cta) const;
  void begin_launch(std::uint32_t slot);
  void next_launch(std::uint32_t slot, Cycle when);
  void context_made(std::uint32_t slot, Cycle when);
  void write_context(std::uint32_t slot);
  void write_task(std::uint32_t slot);
  void write_entry(std::uint32_t slot);
  static void find_entry(Cta& cta);
  void give_turn(Cta& cta, Cycle when);
  void write_turn(Cta& cta);

  // engine_save.cpp: CTAs that go to memory while they wait, and come back (TSK-12)
  bool all_wait(const Cta& cta) const;
  bool is_settled(const Cta& cta) const;
  void consider_save(Cta& cta);
  void save_due(std::uint32_t cta_slot);
  SavedCta state_of(const Cta& cta) const;
  void save_changed(std::uint32_t index);
  void saved(Cta& cta);
  bool woken_in_save(Cta& cta);
  void begin_restore(Cta& cta, Cycle arrival);
  void restore_changed(std::uint32_t index);
  void header_known(std::uint32_t index);
  void put_back(Cta& cta, const std::vector<std::uint8_t>& bytes);
  void put_back_warp(Cta& cta, std::uint32_t number, const SavedWarp& saved);
  void move_failed(Cta& cta, arch::FaultKind kind, const std::string& where);
  void stop_move(Cta& cta);
  std::uint32_t give_back_shared(Cta& cta, std::uint64_t from);

  // engine_move.cpp: the accesses that this takes, made by warps of no CTA
  std::uint32_t begin_move(Cta& cta, CtaMove walk, Cycle when);
  void pump(std::uint32_t index);
  void issue_move(std::uint32_t index);
  void move_answered(std::uint32_t index, std::uint32_t flight);
  void move_goes_on(std::uint32_t index);
  void detach(std::uint32_t index);
  bool of_move(const Access& access) const { return access.warp >= first_mover_; }
  void move_access_ended(const Access& access, Cycle when);
  void move_access_failed(const Access& access);
  void moves_go_on(Cycle when);

  // engine_waits.cpp: who waits for what
  void show_nested(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_warp(WaitGraph& graph, const Cta& cta, std::uint32_t warp) const;
  void show_cluster(WaitGraph& graph, const Cta& cta) const;
  void show_cluster_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_mbarrier_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  void show_exit(WaitGraph& graph, const Cta& cta) const;
  void show_bulk_wait(WaitGraph& graph, const Cta& cta, const Warp& warp) const;
  std::string bulk_of(const Cta& cta) const;
  std::string name_of(const Cta& cta, std::uint32_t warp) const;

  Domain& domain_;
  const SmParams params_;
  const arch::CodeStore& code_;
  const SmPlace place_;
  const arch::LaunchMemory& nested_;
  PacketOut<protocol::BulkRequestPacket>& bulk_out_;
  const char* name_;
  EngineHost& host_;
  std::function<void(const arch::FaultRecord&)> fault_sink_;
  SmStats stats_;

  std::vector<Warp> warps_;  // by slot; none before the first CTA
  ClusterTables tables_;
  MemoryUnit memory_;
  std::vector<Partition> partitions_;
  std::array<Cycle, kPartitions> due_{};  // when a partition may issue next
  Cycle armed_ = kNeverReady;             // of the one event that counts
  bool issuing_ = false;
  std::array<std::uint32_t, arch::kUnits> interval_{};  // cycles of a warp instruction in its unit
  std::array<std::uint32_t, arch::kUnits> latency_{};
  Cycle barrier_free_ = 0;

  std::vector<Cta> ctas_;       // by CTA slot
  std::vector<Hosted> hosted_;  // by gpc_local_cga_id; none before the first CGA
  std::uint32_t hosted_cgas_ = 0;
  std::uint32_t resident_ = 0;
  std::uint32_t shared_held_ = 0;                   // bytes, with reserves
  std::uint64_t serial_ = 0;                        // of CTAs and warps: their age
  std::vector<std::uint32_t> order_waiters_;        // slots that wait for acknowledgements
  IndexPool<Failure> failures_;                     // error responses that have not arrived yet
  IndexPool<BulkOpen> bulk_open_;                   // by the id that the TMAU knows
  std::uint64_t bulk_serial_ = 0;                   // of bulk requests: their age
  std::vector<std::uint32_t> bulk_waiters_;         // slots of warps without a place at the TMAU, oldest first
  std::vector<std::uint32_t> aborted_;              // operations
  bool descriptors_old_ = false;                    // a kernel has begun: the TMAU is to fetch descriptors anew
  arch::OpCode issuing_code_ = arch::OpCode::exit;  // of the operation that is being carried out
  const std::uint32_t first_mover_;                 // slot behind those of warps: those that move CTAs
  IndexPool<Move> moves_;
  std::optional<SaveStats> save_stats_;  // none: there are no areas
};

}  // namespace heddle::sm
