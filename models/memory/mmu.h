// The memory management unit at the L2's side: roots of page tables, a large TLB, and walkers that read the tables from
// memory (MEM-04).
//
// Clients are the TLBs of the GPCs and the memory hub. Each page that one asks for is answered once. Requests for one
// page that come while it is walked for share the walk. A walk that a change of the root has overtaken begins anew.
#pragma once

#include <array>
#include <deque>
#include <unordered_map>
#include <vector>

#include "arch/task_record.h"
#include "common/block.h"
#include "common/index_pool.h"
#include "common/packet_socket.h"
#include "memory/memory_params.h"
#include "memory/tlb.h"
#include "protocol/host_task.h"
#include "protocol/memory_client.h"
#include "protocol/tlb_mmu.h"

namespace heddle::memory {

// Translation inside a call: for blocking transport and debug accesses, which cannot wait for an answer.
class FunctionalTranslator {
 public:
  // Adds what the walk takes to `delay`. Not present: a fault.
  virtual arch::Translation translate_blocking(std::uint8_t subcontext, std::uint64_t address,
                                               sc_core::sc_time& delay) = 0;
  // Without time or side effects.
  virtual arch::Translation translate_debug(std::uint8_t subcontext, std::uint64_t address) = 0;

 protected:
  ~FunctionalTranslator() = default;
};

class Mmu : public Block, public FunctionalTranslator {
 public:
  Mmu(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const MmuParams& params,
      std::uint32_t clients);
  ~Mmu() override;

  // By client; links of the outgoing sockets as well, in the order of binding.
  sc_core::sc_vector<PacketIn<protocol::TranslatePacket>> translate_in;
  PacketOut<protocol::TranslatedPacket> translated_out;
  PacketOut<protocol::InvalidateTlbPacket> invalidate_out;
  // Roots (SubcontextPacket::page_table); of the others nothing is looked at. A root that comes again: its tables have
  // changed.
  PacketIn<protocol::SubcontextPacket> share_in;
  // To the memory hub. Both modes: requests that are answered; besides, blocking calls from translate_blocking().
  MemoryOut memory_out;

  arch::Translation translate_blocking(std::uint8_t subcontext, std::uint64_t address,
                                       sc_core::sc_time& delay) override;
  arch::Translation translate_debug(std::uint8_t subcontext, std::uint64_t address) override;

  std::uint64_t root(std::uint8_t subcontext) const { return roots_[subcontext]; }
  // While nobody holds translations of the subcontext's.
  void set_root(std::uint8_t subcontext, std::uint64_t root) { roots_[subcontext] = root; }
  // Nothing is asked for, or under way.
  bool idle() const { return walks_.empty() && requests_.empty() && memory_.open() == 0; }
  void reset() override;
  void check_idle() override { HEDDLE_CHECK(idle(), "an idle machine translates addresses"); }
  void collect_waits(WaitGraph& graph) const override;

 private:
  // Kinds of events.
  static constexpr std::uint32_t kLookUp = 0;
  static constexpr std::uint32_t kAnswer = 1;  // of memory
  static constexpr std::uint32_t kSend = 2;

  struct Request {
    protocol::TranslatePacket packet;
    std::uint32_t client = 0;
  };
  struct Walk {
    std::uint8_t subcontext = 0;
    bool running = false;
    std::uint32_t change = 0;  // of the root, that it has begun with
    Cycle since = 0;
    arch::PageWalk steps;
    std::vector<Request> requests;
  };

  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& hits = counter("hits", "requests", "asks for pages that were in the TLB");
    Counter& misses = counter("misses", "requests", "asks for pages that were not in the TLB");
    Counter& merged = counter("merged", "requests", "asks for pages that were being walked for");
    Counter& walks = counter("walks", "walks", "page table walks");
    Counter& restarts = counter("restarts", "walks", "walks that a change of the root has overtaken");
    Counter& faults = counter("faults", "walks", "walks that found no page");
    Counter& invalidations = counter("invalidations", "changes", "roots that were set");
    Histogram& walk_cycles = histogram("walk_cycles", "cycles", "from a walk's first read to its result");
    Histogram& wait_cycles = histogram("wait_cycles", "cycles", "that walks have waited for a walker");
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_request(const protocol::TranslatePacket& packet, std::uint32_t client);
  void on_share(const protocol::SubcontextPacket& packet, std::uint32_t index);
  void look_up(const Request& request);
  void start_walks();
  void begin(std::uint64_t key, Walk& walk);
  void step(std::uint64_t key, Walk& walk);
  void take_entry(std::uint64_t argument);
  void finish(std::uint64_t key);
  void answer(const Request& request, const arch::Translation& found);
  void note_walk(std::uint8_t subcontext, const arch::Translation& found, Cycle cycles);
  static std::uint64_t key_of(std::uint8_t subcontext, std::uint64_t page) { return page | subcontext; }

  const MmuParams params_;
  const Cycle latency_;
  Tlb tlb_;
  std::array<std::uint64_t, arch::kSubcontexts> roots_{};
  std::array<std::uint32_t, arch::kSubcontexts> changes_{};
  std::uint32_t clients_;
  Ring<Request> requests_;  // on their way through the TLB
  std::unordered_map<std::uint64_t, Walk> walks_;
  std::deque<std::uint64_t> queue_;  // walks that wait for a walker
  std::uint32_t running_ = 0;
  protocol::MemoryClient<std::uint64_t> memory_;
  protocol::RequestPool pool_;  // of calls

  Statistics stats_;
};

}  // namespace heddle::memory
