// One slice of the L2 cache (MEM-01): the point of coherence.
//
// A request takes effect, for everybody, in the cycle in which the slice serves it: tag_latency after its arrival if it
// hits and the data port is free, else when the last sector that it needs comes from memory. Requests to one line take
// effect in the order of their arrival (MEM-06). The response leaves data_latency after that.
//
// Requests come from the crossbar and, if the slice has a second ingress port, from the memory hub of the front end.
// They meet in the order of their arrival. Each port has its own back-pressure: one that takes no responses does not
// hold back the other.
#pragma once

#include <memory>
#include <string>

#include "arch/address_map.h"
#include "common/block.h"
#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "memory/direct_memory.h"
#include "memory/l2_core.h"
#include "memory/l2_functional_path.h"
#include "memory/l2_ingress.h"
#include "memory/l2_memory_port.h"
#include "memory/l2_past_ranges.h"
#include "memory/l2_twin.h"
#include "memory/memory_params.h"
#include "memory/memory_warming.h"
#include "memory/write_watch.h"

namespace heddle::memory {

enum class L2IngressPorts : std::uint8_t { crossbar, crossbar_and_hub };

// What else of the machine concerns a slice.
struct SliceSurroundings {
  OwnerAccounts* owners = nullptr;  // null: nobody asks whose the bytes are; must outlive the slice
  SliceShares shares = {};          // how subcontexts share the slice's bandwidth (PRT-11)
  // Direct memory (HST-02), of a memory that is reset together with the slice. An access to a granted page ends the
  // grant before it takes effect, or goes to memory.
  DirectMemory* direct = nullptr;
  std::uint32_t row_lines = 1;  // lines of the slice, as its address map counts them, that share a row of memory
  TwinLink twin = {};           // of a slice whose map keeps copies
  // Of all slices, if the memory behind them moves ranges in the same time domain; must outlive the slice.
  L2Presence* presence = nullptr;
  WriteWatch* watch = nullptr;  // null: reads that watch their line are like others; must outlive the slice
};

class L2Slice : public Block, private L2MemoryPort::Listener {
 public:
  L2Slice(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const L2Params& params,
          const arch::AddressMap& map, std::uint32_t slice, L2IngressPorts ports = L2IngressPorts::crossbar,
          const SliceSurroundings& surroundings = {});
  ~L2Slice() override;

  MemoryIn request_in;
  // Of a slice with two ingress ports.
  MemoryIn& hub_in();
  // Of a slice whose map keeps copies.
  L2Twin& twin();
  // Plain reads and writes of whole sectors. Any memory that speaks the base protocol can be bound.
  MemoryOut memory_out;

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;
  void check_idle() override { HEDDLE_CHECK(idle(), "a slice of an idle machine has work"); }

  // For tests and the injection of errors: an uncorrectable error of the array in those bytes of memory, as far as they
  // are this slice's. Their sectors' data are corrupt from now on, also once they have left the cache, until a write
  // covers all of a sector. Reads, atomics and reductions of such a sector end well with `poisoned` set in their
  // extension. A reset clears all.
  void poison(std::uint64_t address, std::uint64_t bytes);
  // What the slice holds, and what of it is corrupt.
  const L2Core& core() const { return core_; }

  // No request is inside. Write-backs may be on their way to memory.
  bool idle() const;

  // A request or a transfer works on one of these bytes, or they are corrupt: nobody else can have them now.
  bool busy_with(std::uint64_t first, std::uint64_t last) const;
  // The slice forgets all its lines of the range, whose ends are those of lines; what memory does not have is written
  // there first, without time. It is not busy with them. False if memory does not take it: then nothing is forgotten.
  bool clean_invalidate(std::uint64_t first, std::uint64_t last);
  // Payloads that the memory has, those of before a reset included.
  std::size_t payloads() const { return memory_.payloads() + (twin_ == nullptr ? 0 : twin_->way.payloads()); }

 private:
  enum Event : std::uint32_t { kServe, kRespond, kDrain };

  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& requests = counter("requests", "requests", "requests that the slice has served");
    Counter& atomics = counter("atomics", "values", "values that atomics and reductions have changed");
    Counter& stalls = counter("stalls", "cycles", "cycles in which the first request could not be served");
  };
  // Why the first arrival cannot be served.
  struct Blockage {
    const char* reason = nullptr;  // null: it can
    bool on_memory = false;
    Cycle since = 0;
  };

  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival);
  void on_response_room(std::uint32_t port, Cycle when);
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay);
  unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t port);
  void on_memory_answer(const L2Command& command, int status, const std::uint8_t* data) override;
  void on_memory_room() override { drain(); }

  void expect_service();
  void schedule_service(Cycle when);
  void serve_next();
  bool put_first(std::uint32_t port);
  bool try_serve(const PendingRequest& request);
  void serve_by_share(L2Lanes& lanes);
  void block(const char* reason, bool on_memory);
  void unblock();
  void respond(const L2Served& served, const L2DataPort::Turn& turn, Cycle pipeline);
  void answer_served();
  void send_commands();
  void drain();

  const arch::AddressMap map_;
  const L2Params params_;
  Statistics stats_;
  L2Counters core_counters_;
  L2Core core_;
  L2MemoryPort memory_;
  L2FunctionalPath functional_;
  L2PastRanges past_;
  L2Ingress ingress_;
  L2DataPort data_port_;
  std::unique_ptr<L2Twin> twin_;  // null: it has none

  L2Arrivals arrivals_;
  Cycle serve_at_ = kNever;  // when the first arrival's event comes
  Blockage blocked_;
  DirectMemory* const direct_;
  L2Presence* const presence_;
  std::unique_ptr<MemoryIn> hub_in_;
  SliceWarmer<L2Arrivals> warmer_;
};

}  // namespace heddle::memory
