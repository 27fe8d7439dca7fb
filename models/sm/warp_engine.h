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
#include "protocol/cta_packet.h"
#include "sm/cta_barriers.h"
#include "sm/memory_unit.h"
#include "sm/partition.h"
#include "sm/sm_params.h"
#include "sm/sm_stats.h"
#include "sm/warp.h"

namespace heddle::sm {

class EngineHost {
 public:
  // A CTA has ended, now: by itself, or because of a fault or an abort.
  virtual void cta_over(std::uint32_t cta_slot, bool faulted) = 0;

 protected:
  ~EngineHost() = default;
};

// Driven by events: one for every cycle in which some partition issues, none while nobody can. A warp that waits for a
// load costs nothing until the response comes.
class WarpEngine final : public EventHandler, private MemoryClient {
 public:
  // `sm`: number of the SM in a machine of `sms`. `name` is for messages.
  WarpEngine(Domain& domain, MemoryOut& out, const SmParams& params, const arch::CodeStore& code,
             const MemoryView& view, std::uint32_t sm, std::uint32_t sms, const char* name,
             const std::string& stat_prefix, EngineHost& host);

  // A CTA that arrives at `arrival` (now or later) and issues its first instruction at `first`.
  void start(const protocol::CtaStartPacket& start, Cycle arrival, Cycle first);
  // All CTAs of the operation end, those that come later included.
  void abort(std::uint32_t operation);
  void on_fault(std::function<void(const arch::FaultRecord&)> sink) { fault_sink_ = std::move(sink); }

  bool on_response(tlm::tlm_generic_payload& payload, Cycle arrival) { return memory_.on_response(payload, arrival); }
  void on_room(Cycle when) { memory_.on_room(when); }

  // True if the warp waits for nothing but a barrier, so that its state is all there is of it.
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
    std::vector<std::uint32_t> warps;  // slots, by warp
    std::uint32_t live = 0;            // warps that have not exited
    std::uint32_t open = 0;            // accesses, and failures on their way
    CtaBarriers barriers;
  };
  enum Event : std::uint32_t {
    kIssue,
    kCtaEnds,       // argument: CTA slot
    kFails,         // argument: index into failures_
    kAcknowledged,  // argument: warp slot
  };
  struct Failure {
    std::uint32_t cta = 0;
    arch::FaultRecord record;
  };

  // engine_ctas.cpp: CTAs
  std::uint32_t take_slot(std::uint32_t warp);
  void enter_warp(Cta& cta, std::uint32_t cta_slot, std::uint32_t warp, Cycle first);
  void size_l1(std::uint32_t shared_bytes);
  void check_end(Cta& cta, Cycle when);
  void end_at(Cta& cta, Cycle when);
  void end(std::uint32_t cta_slot);
  void kill(std::uint32_t cta_slot);
  bool aborted(std::uint32_t operation) const;
  void fault(std::uint32_t slot, arch::FaultKind kind, std::uint32_t lane, std::uint64_t address);
  arch::FaultRecord record_of(const Warp& warp, arch::FaultKind kind, std::uint32_t pc) const;
  void report(const arch::FaultRecord& record, std::uint32_t cta_slot);

  // warp_engine.cpp: who issues when
  const char* handler_name() const override { return name_; }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void issue_all();
  void wake(std::uint32_t slot);
  void arm();
  void prepare(std::uint32_t slot, Cycle from) { prepare(slot, from, stats_.stall_scoreboard); }
  void prepare(std::uint32_t slot, Cycle from, Counter& stall);
  void resume(std::uint32_t slot, Cycle ready);
  void issue(std::uint32_t slot);
  Partition& partition_of(std::uint32_t slot) { return partitions_[slot % kPartitions]; }
  void finish(std::uint32_t slot, Cycle ready, Cycle next);

  // engine_operations.cpp: what operations do
  void run(std::uint32_t slot, const arch::Operation& operation);
  void run_compute(std::uint32_t slot);
  void run_special(std::uint32_t slot, const arch::Operation& operation);
  void run_matmul(std::uint32_t slot, const arch::Operation& operation);
  void run_barrier(std::uint32_t slot, const arch::Operation& operation);
  void run_exit(std::uint32_t slot);
  void open_barriers(Cta& cta);
  void run_copies_wait(std::uint32_t slot, std::uint32_t groups);

  // engine_memory.cpp: accesses, and what they order (MEM-06)
  bool check_access(std::uint32_t slot, const arch::Operation& operation);
  void run_memory(std::uint32_t slot, const arch::Operation& operation);
  void run_global(std::uint32_t slot, const arch::Operation& operation);
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

  void show_warp(WaitGraph& graph, const Cta& cta, std::uint32_t warp) const;
  std::string name_of(const Cta& cta, std::uint32_t warp) const;

  Domain& domain_;
  const SmParams params_;
  const arch::CodeStore& code_;
  const std::uint32_t sm_;
  const std::uint32_t sms_;
  const char* name_;
  EngineHost& host_;
  std::function<void(const arch::FaultRecord&)> fault_sink_;
  SmStats stats_;

  std::vector<Warp> warps_;  // by slot; none before the first CTA
  MemoryUnit memory_;
  std::vector<Partition> partitions_;
  std::array<Cycle, kPartitions> due_{};  // when a partition may issue next
  Cycle armed_ = kNeverReady;             // of the one event that counts
  bool issuing_ = false;
  std::array<std::uint32_t, arch::kUnits> interval_{};  // cycles of a warp instruction in its unit
  std::array<std::uint32_t, arch::kUnits> latency_{};
  Cycle barrier_free_ = 0;

  std::vector<Cta> ctas_;  // by CTA slot
  std::uint32_t resident_ = 0;
  std::uint32_t shared_held_ = 0;                   // bytes, with reserves
  std::uint64_t serial_ = 0;                        // of CTAs and warps: their age
  std::vector<std::uint32_t> order_waiters_;        // slots that wait for acknowledgements
  IndexPool<Failure> failures_;                     // error responses that have not arrived yet
  std::vector<std::uint32_t> aborted_;              // operations
  arch::OpCode issuing_code_ = arch::OpCode::exit;  // of the operation that is being carried out
};

}  // namespace heddle::sm
