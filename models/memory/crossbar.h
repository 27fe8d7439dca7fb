// The crossbar between SMs and L2 slices: two networks, one for requests and one for responses (MEM-03).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "arch/topology.h"
#include "common/block.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "memory/crossbar_calendars.h"
#include "memory/crossbar_paths.h"
#include "memory/crossbar_routes.h"
#include "memory/memory_params.h"
#include "protocol/sm_tmau.h"

namespace heddle::memory {

// Requests: SM -> TPC -> CPC -> GPC -> (crossing between partitions) -> slice. Responses come back the same way. GPC g
// belongs to partition g * partitions / gpcs. Within a GPC every SM gets the same share of a full link; at a crossing
// and at a slice every GPC does, and where responses meet every slice. Requests of one SM to one slice stay in order,
// and so do the responses of one slice to one SM.
class Crossbar : public Block, private CrossbarRequests::Poster, private LineSource {
 public:
  // `topology`, `map` and `owners` must outlive the crossbar; `owners`: null: nobody asks whose the bytes are.
  // `places`: of subcontexts at slices, while bandwidth is shared (PRT-11). `link_ports`: ways to the memory of other
  // GPUs (LNK-01).
  Crossbar(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CrossbarParams& params,
           const arch::Topology& topology, const arch::AddressMap& map, OwnerAccounts* owners = nullptr,
           const PlaceRules& places = {}, std::uint32_t link_ports = 0);
  ~Crossbar() override;

  MemoryIn& sm_in(std::uint32_t sm_id) { return *ports_[2 * sm_id]; }
  // The port of the SM's tensor memory access unit (TMA-03).
  MemoryIn& bulk_in(std::uint32_t sm_id) { return *ports_[2 * sm_id + 1]; }
  // Data of multicast reads for that SM, to its TMAU: noted when they are sent, they arrive then. A reference goes
  // along with each. The asking port's response is an acknowledgement: it arrives with the copy for its own SM or, if
  // that is no receiver, by itself over its SM's link. Memory's error is answered to the asking port alone.
  // Of a posted write it hears there that the L2 has taken it over (TMA-45).
  PacketOut<protocol::BulkDataPacket>& multicast_out(std::uint32_t sm_id) { return *multicast_out_[sm_id]; }
  MemoryOut& slice_out(std::uint32_t slice) { return *slice_out_[slice]; }
  MemoryOut& link_out(std::uint32_t port) { return *slice_out_[map_.slices() + port]; }

  // Cycles that a request, and also its response, takes through an empty crossbar.
  Cycle latency(std::uint32_t sm_id, std::uint32_t slice) const { return routes_.latency(sm_id, slice); }
  // Requests that have come in and whose responses have not been handed over.
  std::uint64_t in_flight() const { return entered_ - responses_.delivered(); }

  void reset() override;
  void collect_waits(WaitGraph& graph) const override;
  void check_idle() override {
    HEDDLE_CHECK(in_flight() == 0, "requests of an idle machine are on their way to memory");
  }

 private:
  // Sockets.
  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival);
  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t slice, Cycle arrival);
  void on_request_room(std::uint32_t slice, Cycle when) { requests_.on_slice_room(slice, when); }
  void on_response_room(std::uint32_t port, Cycle when) { responses_.on_port_room(port, when); }
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay);
  unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t port);
  void on_event(std::uint32_t, std::uint64_t) override {}
  void accepted(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle when) override;
  void call(tlm::tlm_generic_payload& payload, protocol::MemoryExtension& extension, std::uint32_t port,
            std::uint32_t slice, sc_core::sc_time& delay);
  // Lines.
  bool find(LineRead& read, std::uint32_t port) override;
  void take(LineRead& read, std::uint32_t port) override;
  void warm(LineRead& read, std::uint32_t port, bool line) const override;
  void pass_on(LineParcel& parcel, std::uint32_t receiver, std::uint32_t port) override;
  void end_of_elaboration() override;
  // Where the line lies, if that is not known.
  void place(LineRead& read, std::uint32_t port) const {
    if (read.at.address == read.physical_address) return;
    read.at = {read.physical_address, routes_.slice_for(port / 2, read.physical_address), LinePlace::kNone};
  }
  void count_request(std::uint32_t gpc, std::uint32_t slice, std::uint8_t owner, bool bulk, std::uint32_t bytes);
  void count_response(std::uint32_t gpc, std::uint32_t slice, std::uint8_t owner, bool bulk, std::uint32_t bytes);

  // Of one direction.
  struct LinkBytes {
    std::vector<Counter*> gpcs;
    std::vector<Counter*> crossings;  // by source partition * partitions + target; null within a partition
  };
  void add_waits(const LinkNetwork& network, bool requests, WaitGraph& graph) const;
  void count_bytes(LinkNetwork& network, const CrossbarRoutes::Ports& ports, const char* what, LinkBytes& bytes);

  const arch::AddressMap& map_;
  OwnerAccounts* const owners_;
  KernelAccount* const kernels_;  // null: nobody asks
  const std::uint32_t header_bytes_;
  const CrossbarRoutes routes_;
  const CrossbarRequests::Counters request_counters_;
  const CrossbarResponses::Counters response_counters_;
  CrossbarRequests requests_;
  CrossbarResponses responses_;
  std::unique_ptr<CrossbarCalendars> calendars_;  // null: requests are no calls, or take no time
  LinkBytes request_bytes_;
  LinkBytes response_bytes_;
  Children<MemoryIn> ports_;  // two for each SM
  Children<PacketOut<protocol::BulkDataPacket>> multicast_out_;
  Children<MemoryOut> slice_out_;
  std::vector<LinePort> slice_lines_;
  std::uint64_t entered_ = 0;  // requests
};

}  // namespace heddle::memory
