// The tensor memory access unit (TMAU): one request of a thread moves a whole box or block (TMA-01 to TMA-43).
//
// Stages that overlap: input per SM and fair arbiter -> queue -> descriptor cache -> set-up -> generator -> network;
// responses -> shared memory; completion tracker. Each is a class; this one has the sockets and passes on what a stage
// tells the others.
#pragma once

#include <string>
#include <vector>

#include "common/block.h"
#include "common/packet_socket.h"
#include "tmau/bulk_completion.h"

namespace heddle::tmau {

class Tmau : public Block, private StageEvents {
 public:
  Tmau(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const TmauParams& params,
       TmauPlace place);
  ~Tmau() override;

  // By SM of the unit. Links of the outgoing sockets as well, in the order of binding.
  sc_core::sc_vector<PacketIn<protocol::BulkRequestPacket>> request_in;
  PacketOut<protocol::BulkDonePacket> done_out;
  PacketOut<protocol::BulkDataPacket> data_out;
  PacketOut<protocol::BulkReadPacket> read_out;
  sc_core::sc_vector<PacketIn<protocol::BulkReadPacket>> read_in;
  sc_core::sc_vector<PacketIn<protocol::BulkDataPacket>> multicast_in;  // from the crossbar
  // The network interface: a port of the crossbar for each SM, which shares the SM's link.
  MemoryOut& memory_out(std::uint32_t sm) { return ports_.socket(sm); }
  // To and from other units of the GPC, over the SM-to-SM network.
  PacketOut<protocol::BulkPeerPacket> peer_out;
  PacketIn<protocol::BulkPeerPacket> peer_in;

  const TmauPlace& place() const { return place_; }
  // Nothing is queued, on its way or unacknowledged, and all payloads are home.
  bool quiescent() const;
  void check_idle() override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  void on_event(std::uint32_t, std::uint64_t) override {}
  void on_request(const protocol::BulkRequestPacket& packet, std::uint32_t sm);
  void on_read(const protocol::BulkReadPacket& packet, std::uint32_t sm, Cycle arrival);
  void on_multicast(const protocol::BulkDataPacket& packet, std::uint32_t sm, Cycle arrival);
  void on_peer(const protocol::BulkPeerPacket& packet, std::uint32_t link, Cycle arrival);
  void add_waits(const BulkWork& work, WaitGraph& graph) const;

  // StageEvents.
  void answered(protocol::MemoryRequest& request, std::uint32_t sm, Cycle arrival) override;
  void port_free(Cycle when) override { generator_.port_free(when); }
  void look_up_free() override { selector_.arm(); }
  void all_generated(BulkWork& work) override { completion_.all_generated(work); }
  void place_behind_queue() override { selector_.choose(); }
  void acknowledged(std::uint32_t number, std::uint32_t count, std::uint8_t phase, Cycle when) override {
    completion_.acknowledged(number, count, phase, when);
  }

  const TmauParams params_;
  const TmauPlace place_;
  TmauStats stats_;
  WorkTable works_;
  RequestStore store_;
  const TmauContext unit_;
  std::vector<CreditSink*> input_;  // by SM of the unit
  BulkReporter reporter_;
  SmPorts ports_;
  SharedDelivery delivery_;
  LineSender sender_;
  BulkGenerator generator_;
  SetupUnit setup_;
  RequestSelector selector_;
  BulkIntake intake_;
  BulkCompletion completion_;
};

}  // namespace heddle::tmau
