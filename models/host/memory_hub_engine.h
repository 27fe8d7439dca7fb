// The inside of the memory hub.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "common/link_pace.h"
#include "common/ring.h"
#include "host/dma_port.h"
#include "host/memory_hub.h"
#include "host/memory_hub_translation.h"

namespace heddle::host {

class MemoryHub::Engine {
 public:
  Engine(MemoryHub& hub, const HubParams& params, const arch::AddressMap& map, std::uint32_t clients,
         const HubTranslation& translation);

  MemoryIn& client_in(std::uint32_t client) { return *clients_[client].in; }
  MemoryOut& slice_out(std::uint32_t slice) { return *slices_[slice]; }
  DmaPort::Socket& dma() { return dma_.socket; }
  HubTranslator& translator();
  bool idle() const;
  bool settled() const { return dma_.settled(); }
  std::size_t payloads() const { return pool_.in_use() + dma_.payloads(); }
  void on_event(std::uint32_t kind, std::uint64_t argument);
  void reset();
  void collect_waits(WaitGraph& graph) const;

 private:
  enum Event : std::uint32_t { kPump, kAnswer, kFlushed, kRespond };
  // Where requests go. Those of one client that go different ways do not wait for each other.
  enum Way : std::uint32_t { kDevice, kHost, kWays };
  static constexpr Cycle kNever = EventQueue::kNever;

  struct Waiting {
    tlm::tlm_generic_payload* payload = nullptr;
    Cycle when = 0;  // its arrival
  };
  struct Client {
    std::unique_ptr<MemoryIn> in;
    std::array<Ring<Waiting>, kWays> waiting;
    Ring<std::uint32_t> answered;  // slots whose response it does not take yet
    std::size_t inside() const { return waiting[kDevice].size() + waiting[kHost].size(); }
  };
  // A request that has left its client's queue.
  struct Slot {
    tlm::tlm_generic_payload* payload = nullptr;  // null: free
    std::uint32_t client = 0;
    Way way = kDevice;
    bool answered = false;
    Cycle since = 0;
    bool translated = false;
    std::uint64_t asked = 0;  // translated: the client's address
  };
  // write_back of all slices. Requests that come while one is under way share the next.
  struct Flush {
    std::vector<std::uint32_t> now;  // slots
    std::vector<std::uint32_t> next;
    std::uint32_t open = 0;  // slices that have not answered
    tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE;
    std::vector<protocol::MemoryRequest*> requests;  // by slice; null: answered
    std::vector<bool> unsent;
  };
  struct Statistics {
    explicit Statistics(MemoryHub& owner);
    Counter& device;
    Counter& host;
    Counter& write_backs;
    Counter& errors;
    Histogram& device_latency;
  };

  // Clients.
  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t client, Cycle arrival);
  void on_client_room(std::uint32_t client, Cycle when);
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t client, sc_core::sc_time& delay);
  unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t client);
  unsigned debug_device(tlm::tlm_generic_payload& payload, std::uint64_t done, std::uint32_t bytes);
  void respond_in(std::uint32_t slot, tlm::tlm_response_status status, Cycle when);
  void send_responses(std::uint32_t client);

  // The pump: what waits goes on.
  void arm(Cycle when);
  void pump();
  bool pump_device(std::uint32_t client, Cycle& next);
  bool pump_host(std::uint32_t client, Cycle& next);
  std::uint32_t take(std::uint32_t client, Way way);
  tlm::tlm_response_status judge(std::uint64_t address, std::uint32_t length) const;
  void call_slice(std::uint32_t slot, std::uint32_t slice);

  // Slices.
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival);
  void on_slice_room(std::uint32_t slice, Cycle when);
  std::uint32_t slot_of(tlm::tlm_generic_payload& payload) const;
  void take_answer(std::uint32_t slot);
  void begin_flush();
  void send_flushes();
  void call_flushes();
  void take_flush(std::uint32_t slice);

  MemoryHub& hub_;
  Domain& domain_;
  const HubParams params_;
  const arch::AddressMap& map_;
  const Cycle latency_;
  const bool timed_;
  Statistics stats_;
  protocol::RequestPool pool_;
  std::vector<Client> clients_;
  std::vector<std::unique_ptr<MemoryOut>> slices_;
  DmaPort dma_;
  std::unique_ptr<HubTranslator> translator_;  // null: addresses are physical

  std::array<std::uint32_t, kWays> turn_{};  // the client that is asked first
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  Flush flush_;
  LinkPace out_;
  LinkPace back_;
  Cycle armed_ = kNever;  // the one event of the pump that counts
};

}  // namespace heddle::host
