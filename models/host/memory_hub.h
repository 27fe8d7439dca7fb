// Memory hub: the way of the front end (packet processor, copy engines, device memory aperture) to device memory and to
// the host's memory (HST-01).
//
// Device memory is reached at the L2 slices, the point of coherence; the host's memory through the DMA initiator, a
// boundary of the device that speaks the base protocol and nothing else. Requests carry unified addresses
// (arch/address_map.h) and stay within 128 aligned bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "common/block.h"
#include "common/index_pool.h"
#include "common/link_network.h"
#include "common/memory_socket.h"
#include "common/range_target.h"
#include "common/reservation.h"
#include "host/boundary_params.h"
#include "host/dma_port.h"
#include "host/memory_hub_parts.h"
#include "protocol/memory_request.h"

namespace heddle::host {

// How the links to other GPUs are connected to the hub (LNK-01, LNK-04).
struct HubLinks {
  bool enabled = false;
  std::uint32_t client = 0;  // by which requests of other GPUs come; they have a way of their own to the slices
};

// Whether addresses of subcontexts are translated (MEM-04), and cycles to the memory management unit.
struct HubTranslation {
  bool enabled = false;
  std::uint32_t distance = 0;
};

// Who writes the memory behind the L2.
enum class DeviceMemoryUse : std::uint8_t {
  own,     // the GPU alone
  shared,  // others as well: what slices have of it may be old
};

class MemoryHub : public Block, private HubFlush::Listener, private RangeTarget {
 public:
  // `clients`: sockets that blocks of the front end are bound to. `map` must outlive it.
  MemoryHub(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HubParams& params,
            const arch::AddressMap& map, std::uint32_t clients, const HubTranslation& translation = {},
            DeviceMemoryUse use = DeviceMemoryUse::own, const HubLinks& links = {});
  ~MemoryHub() override;

  // Both modes: requests are sent with BEGIN_REQ and answered with BEGIN_RESP, never as blocking calls. Plain reads and
  // writes, byte enables, atomics (device: at the slice; host: see below), reductions, and write_back and invalidate,
  // which the hub sends to all slices and answers when all have answered; invalidate only where others write device
  // memory, elsewhere it is answered at once. Errors of memory and addresses that are neither come back
  // as error responses (MEM-05). Where slices are called, the hub offers ranges (RangeTarget): what has its page, lies
  // in one memory, and meets no error there.
  MemoryIn& client_in(std::uint32_t client) { return *clients_[client].in; }
  MemoryOut& slice_out(std::uint32_t slice) { return *slices_[slice]; }
  // With links only: the way of requests to the memory of other GPUs, whose addresses are not translated.
  MemoryOut peer_out;

  // With translation only: the memory management unit, of which the hub is a client. Requests to device memory that
  // name a subcontext with page tables are sent with the physical address, and answered with their own. A client's
  // requests to device memory wait behind one that waits for its page. Without a mapping, or if it may not be written,
  // the response is an error with MemoryExtension::unmapped. Addresses of the host's window, blocking calls and debug
  // accesses are not translated.
  HubTranslator& translator();

  // The boundary: plain reads and writes on the host's bus, complete and correct in every field (host/dma_bus.h says
  // how they are called). An atomic is carried out by the target as one if that says that it can (HostMemory does),
  // else as a read and a write: others can then come between the two. Accesses of this device to the same bytes never
  // pass an atomic of it.
  DmaPort::Socket& dma() { return dma_.socket; }
  // Who reaches what there (HST-06): its window_in, and whom it tells of what it has refused.
  DmaPort& dma_port() { return dma_; }

  // Nothing is inside or on its way.
  bool idle() const;
  // The host's bus has nothing any more of before the last reset. Until then, writes of that time may still take
  // effect; requests of the clients to the same bytes wait for them.
  bool settled() const { return dma_.settled(); }
  // Payloads of the hub's own that somebody has.
  std::size_t payloads() const { return pool_.in_use() + flush_.payloads() + dma_.payloads(); }

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;
  void check_idle() override { HEDDLE_CHECK(idle(), "requests of an idle machine are in its memory hub"); }

 private:
  enum Event : std::uint32_t { kPump, kAnswer, kRespond };
  // Where requests go. Those of one client that go different ways do not wait for each other.
  enum Way : std::uint32_t { kDevice, kHost, kPeer, kWays };

  struct Waiting {
    tlm::tlm_generic_payload* payload = nullptr;
    Cycle when = 0;  // its arrival
  };
  struct Client {
    std::unique_ptr<MemoryIn> in;
    std::array<Ring<Waiting>, kWays> waiting;
    Ring<std::uint32_t> answered;  // slots whose response it does not take yet
    std::size_t inside() const { return waiting[kDevice].size() + waiting[kHost].size() + waiting[kPeer].size(); }
  };
  // A request that has left its client's queue.
  struct Slot {
    tlm::tlm_generic_payload* payload = nullptr;
    std::uint32_t client = 0;
    Way way = kDevice;
    bool answered = false;
    Cycle since = 0;
    bool translated = false;
    std::uint64_t asked = 0;  // translated: the client's address
  };
  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& device = counter("device_requests", "requests", "requests to device memory");
    Counter& host = counter("host_requests", "requests", "requests to the host's memory");
    Counter& peer = counter("peer_requests", "requests", "requests to the memory of other GPUs");
    Counter& write_backs = counter("write_backs", "requests", "requests to write back all slices");
    Counter& invalidates = counter("invalidates", "requests", "requests to forget in all slices what others may write");
    Counter& errors = counter("errors", "requests", "requests that were answered with an error");
    Histogram& device_latency =
        histogram("device_latency", "cycles", "from the start of a request to device memory to its response");
  };

  // Clients.
  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t client, Cycle arrival);
  void on_client_room(std::uint32_t client, Cycle) { send_responses(client); }
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
  bool pump_peer(std::uint32_t client, Cycle& next);
  std::uint32_t take(std::uint32_t client, Way way);
  tlm::tlm_response_status validate(std::uint64_t address, std::uint32_t length) const;
  void walk(std::uint32_t slot);
  void call_slice(std::uint32_t slot, std::uint32_t slice, Cycle begin);

  // Ranges.
  bool move(RangeMove& range, std::uint32_t client) override;
  void come_back(RangeMove& range, std::uint32_t client) override;
  void pass(ReservedLink& link, RangeMove& range, std::uint32_t bytes_each) const;
  bool move_device(RangeMove& range, std::uint32_t client);
  bool is_peer(std::uint64_t address) const { return links_.enabled && arch::in_peer_window(address); }
  // Its requests take nothing of the front end's way to the slices.
  bool own_way(std::uint32_t client) const { return links_.enabled && client == links_.client; }
  bool call_lines(RangeMove& range);

  // Slices.
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival);
  bool on_peer_answer(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival);
  void on_slice_room(std::uint32_t, Cycle when) { arm(std::max(when, now())); }
  std::uint32_t slot_of(tlm::tlm_generic_payload& payload) const;
  void take_answer(std::uint32_t slot);
  void on_flushed(std::uint32_t slot, tlm::tlm_response_status status, Cycle when) override {
    respond_in(slot, status, when);
  }

  const HubParams params_;
  const DeviceMemoryUse use_;
  const HubLinks links_;
  const arch::AddressMap& map_;
  const Cycle latency_;
  const bool has_costs_;
  const bool calls_;  // slices are called
  Statistics stats_;
  protocol::RequestPool pool_;
  std::vector<Client> clients_;
  Children<MemoryOut> slices_;
  DmaPort dma_;
  std::unique_ptr<HubTranslator> translator_;  // null: addresses are physical

  std::array<std::uint32_t, kWays> turn_{};  // the client that is asked first
  IndexPool<Slot> slots_;
  HubFlush flush_;
  LinkPace out_;
  LinkPace back_;
  // The same two where slices are called: ranges take them ahead.
  ReservedLink out_ahead_;
  ReservedLink back_ahead_;
  std::vector<RangePort> past_caches_;  // by slice, from the first range on
  Cycle armed_ = kNever;                // the one event of the pump that counts
};

}  // namespace heddle::host
