// Parameters of the boundary: the host interface and the memory hub.
#pragma once

#include <cstdint>

#include "common/param_fwd.h"

namespace heddle::host {

struct HostParams {
  double register_latency = 100;       // ns, of a register access as the host sees it
  double aperture_latency = 500;       // ns, of a blocking access to the aperture
  std::uint32_t doorbell = 20;         // cycles from the register to the packet processor
  std::uint32_t doorbell_page = 4096;  // bytes of a page of doorbells: what an operating system maps as one
  std::uint64_t bar0 = 0;  // address of the registers on the host's bus: addresses may be absolute or relative
  std::uint64_t bar1 = 0;  // the same of the aperture
  std::uint32_t aperture_queue = 16;  // non-blocking requests inside
  std::uint32_t event_fifo = 64;      // event ids of signals that wait in the register EVENT

  static void describe(ParamTable<HostParams>& t);
};

// How the DMA initiator calls its target.
enum class DmaTransport : std::uint8_t {
  automatic,    // `lt`: b_transport; else nb_transport, until the target has shown that it takes one request at a time
  blocking,     // b_transport
  nonblocking,  // nb_transport
};
// What a response means in which the target has left the status untouched.
enum class IncompleteMeans : std::uint8_t { ok, error };
// How it is found out whether a target carries atomics out as one.
enum class AtomicOffer : std::uint8_t {
  ask,    // a request for a direct pointer brings the question: it moves no data, whoever misunderstands it
  offer,  // a transaction of no bytes brings the atomic
  split,  // not at all: a read and a write
};

struct HubParams {
  std::uint32_t latency = 100;    // cycles, hub to slice, and the same back
  double bandwidth = 64;          // bytes per cycle between hub and slices, each direction
  double link_latency = 250;      // ns to the host's bus, and the same back
  double link_bandwidth = 55;     // GB/s, each direction
  std::uint32_t link_tags = 256;  // requests under way on the host's bus
  std::uint32_t queue = 16;       // requests of each client that wait in the hub
  DmaTransport dma_transport = DmaTransport::automatic;
  std::uint32_t dma_calls = 256;  // of b_transport that are open at a time
  bool dma_direct = true;         // direct pointers are asked for where accesses are calls
  IncompleteMeans dma_incomplete = IncompleteMeans::ok;
  AtomicOffer dma_atomics = AtomicOffer::ask;
  double dma_answer_limit = 1e7;     // ns, until an answer counts as lost; 0: never
  std::uint32_t dma_requester = 0;   // what the DMA calls itself: bus, device, function
  std::uint32_t host_windows = 256;  // that all subcontexts together can have

  static void describe(ParamTable<HubParams>& t);
};

}  // namespace heddle::host
