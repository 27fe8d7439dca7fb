// Memory hub: the way of the front end (packet processor, copy engines, device memory aperture) to device memory and to
// the host's memory (HST-01).
//
// Device memory is reached at the L2 slices, the point of coherence; the host's memory through the DMA initiator, a
// boundary of the device that speaks the base protocol and nothing else. Requests carry unified addresses
// (arch/unified_address.h) and stay within 128 aligned bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "common/block.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "host/hub_params.h"
#include "protocol/memory_request.h"
#include "protocol/tlb_mmu.h"

namespace heddle::host {

class DmaPort;

// Whether addresses of subcontexts are translated (MEM-04), and cycles to the memory management unit.
struct HubTranslation {
  bool enabled = false;
  std::uint32_t distance = 0;
};

class MemoryHub : public Block {
 public:
  // `clients`: sockets that blocks of the front end are bound to. `map` must outlive it.
  MemoryHub(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HubParams& params,
            const arch::AddressMap& map, std::uint32_t clients, const HubTranslation& translation = {});
  ~MemoryHub() override;

  // Both modes: requests are sent with BEGIN_REQ and answered with BEGIN_RESP, never as blocking calls. Plain reads and
  // writes, byte enables, atomics (device: at the slice; host: see below), reductions, and write_back, which the hub
  // sends to all slices and answers when all have answered. Errors of memory and addresses that are neither come back
  // as error responses (MEM-05).
  MemoryIn& client_in(std::uint32_t client);
  MemoryOut& slice_out(std::uint32_t slice);

  // With translation only: the memory management unit, of which the hub is a client. Requests to device memory that
  // name a subcontext with page tables are sent with the physical address, and answered with their own. A client's
  // requests to device memory wait behind one that waits for its page. Without a mapping, or if it may not be written,
  // the response is an error with MemoryExtension::unmapped. Addresses of the host's window, blocking calls and debug
  // accesses are not translated.
  PacketOut<protocol::TranslatePacket>& translate_out();
  PacketIn<protocol::TranslatedPacket>& translated_in();
  PacketIn<protocol::InvalidateTlbPacket>& invalidate_in();

  // The boundary: plain reads and writes on the host's bus, complete and correct in every field. In `at` it speaks
  // nb_transport, in `lt` a thread of its own calls b_transport (which may wait). An atomic goes out first as
  // TLM_IGNORE_COMMAND with the protocol's extension; if the target knows it (HostMemory does), it is done there, else
  // as a read and a write: others can then come between the two. The hub remembers, by regions of 4 KiB and until a
  // reset, where it was ignored; after an error it asks again. Accesses of this device to the same bytes never pass an
  // atomic of it.
  tlm::tlm_initiator_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>& dma();

  // Nothing is inside or on its way.
  bool idle() const;
  // The host's bus has nothing any more of before the last reset. Until then, writes of that time may still take
  // effect; requests of the clients to the same bytes wait for them.
  bool settled() const;
  // Payloads of the hub's own that somebody has.
  std::size_t payloads() const;

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace heddle::host
