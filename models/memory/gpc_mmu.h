// Address translation of one GPC (MEM-04, PRT-08): between the memory sockets of its SMs and tensor memory access units
// and the crossbar, a port for each.
//
// A request whose page the TLB has goes on at once, `gpc_tlb.latency` later, with its physical address; its response
// carries the address that was asked for again. A port's requests stay in order: those behind a miss wait, and the
// pages of all that wait are asked for. Addresses of a subcontext without page tables, physical ones, and write_back,
// which only names a slice, are not changed. An access without a mapping is answered with TLM_ADDRESS_ERROR_RESPONSE,
// one that may not write with TLM_COMMAND_ERROR_RESPONSE, both with MemoryExtension::unmapped.
#pragma once

#include <array>
#include <bitset>
#include <memory>
#include <string>
#include <vector>

#include "arch/task_record.h"
#include "common/block.h"
#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "memory/memory_params.h"
#include "memory/mmu.h"
#include "memory/tlb.h"
#include "protocol/memory_request.h"
#include "protocol/tlb_mmu.h"

namespace heddle::memory {

class GpcMmu : public Block, private LineSource {
 public:
  // `ports`: sockets of SMs and tensor memory access units. `translator`: for blocking and debug accesses; must outlive
  // it.
  GpcMmu(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const MmuParams& params,
         std::uint32_t ports, FunctionalTranslator& translator);
  ~GpcMmu() override;

  MemoryIn& port_in(std::uint32_t port) { return *ports_[port].in; }
  MemoryOut& port_out(std::uint32_t port) { return *ports_[port].out; }
  PacketOut<protocol::TranslatePacket> translate_out;
  PacketIn<protocol::TranslatedPacket> translated_in;
  PacketIn<protocol::InvalidateTlbPacket> invalidate_in;

  // Nothing waits for a translation or for its response to be taken.
  bool idle() const;
  void reset() override;
  void check_idle() override { HEDDLE_CHECK(idle(), "an idle machine translates addresses"); }
  void collect_waits(WaitGraph& graph) const override;

 private:
  // Kinds of events.
  static constexpr std::uint32_t kDeny = 0;  // argument: a port with requests to be refused

  struct Waiting {
    tlm::tlm_generic_payload* payload = nullptr;
    Cycle arrival = 0;
  };
  struct Denied {
    tlm::tlm_generic_payload* payload = nullptr;
    Cycle when = 0;
  };
  struct Port {
    std::unique_ptr<MemoryIn> in;
    std::unique_ptr<MemoryOut> out;
    LinePort lines;  // behind it
    Ring<Waiting> queue;
    Ring<Denied> denied;
    tlm::tlm_generic_payload* held = nullptr;      // a response that the initiator does not take yet
    tlm::tlm_generic_payload* answered = nullptr;  // one that it has, without having ended it
    Cycle last_request = 0;
    Cycle last_response = 0;
    bool pumping = false;
  };
  struct Miss {
    std::uint8_t subcontext = 0;
    std::uint64_t page = 0;
    Cycle since = 0;
  };
  enum class Lookup : std::uint8_t { bypass, hit, denied, miss };
  struct Found {
    Lookup lookup = Lookup::miss;
    std::uint64_t physical = 0;
    bool there = false;  // denied: there is a page
  };

  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& hits = counter("hits", "requests", "requests whose page was in the TLB when they came");
    Counter& misses = counter("misses", "requests", "requests whose page was not in the TLB when they came");
    Counter& untranslated = counter("untranslated", "requests", "requests with physical addresses");
    Counter& withheld = counter("withheld", "requests", "requests that filled a port's queue");
    Counter& faults = counter("faults", "requests", "requests that were refused");
    Histogram& miss_cycles = histogram("miss_cycles", "cycles", "from asking for a page to its answer");
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  // Sockets.
  bool request(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival);
  bool response(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival);
  void request_room(std::uint32_t port, Cycle when);
  void response_room(std::uint32_t port, Cycle when);
  void blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay);
  unsigned debug(tlm::tlm_generic_payload& payload, std::uint32_t port);
  // Lines.
  bool find(LineRead& read, std::uint32_t port) override;
  void take(LineRead& read, std::uint32_t port) override;
  void warm(LineRead& read, std::uint32_t port, bool line) const override;
  void pass_on(LineParcel& parcel, std::uint32_t receiver, std::uint32_t port) override {
    ports_[port].lines.pass_on(parcel, receiver);
  }
  void end_of_elaboration() override;
  void on_translated(const protocol::TranslatedPacket& packet, std::uint32_t index);
  void on_invalidate(const protocol::InvalidateTlbPacket& packet, std::uint32_t index);
  // Requests.
  Found find(const tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension);
  static Found check(const tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension,
                     const arch::Translation& page);
  void request_page(std::uint8_t subcontext, std::uint64_t address);
  void forward(Port& port, tlm::tlm_generic_payload& payload, protocol::MemoryExtension& extension, const Found& found,
               Cycle when);
  void pump(std::uint32_t port, Cycle when);
  void deny(std::uint32_t port, tlm::tlm_generic_payload& payload, protocol::MemoryExtension& extension, bool there,
            Cycle when);
  void refuse(tlm::tlm_generic_payload& payload, protocol::MemoryExtension& extension, bool there);
  void send_denied(std::uint32_t port);
  bool respond(Port& port, tlm::tlm_generic_payload& payload, Cycle when);

  const MmuParams params_;
  const Cycle latency_;
  FunctionalTranslator& translator_;
  Tlb tlb_;
  std::bitset<arch::kSubcontexts> bypass_;  // known to have no page tables
  std::vector<Port> ports_;
  IndexPool<Miss> open_misses_;               // pages that are asked for
  std::uint32_t turn_ = 0;                    // the port that an answer serves first
  const arch::Translation* fresh_ = nullptr;  // an answer that has come just now, of:
  std::uint8_t fresh_of_ = 0;

  Statistics stats_;
  std::array<Counter*, arch::kSubcontexts> faults_of_{};  // made when there is something to count
};

}  // namespace heddle::memory
