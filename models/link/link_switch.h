// What connects the links of several GPUs: planes of crossbars, one for each port of a GPU (LNK-06 to LNK-08).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/address_map.h"
#include "common/block.h"
#include "common/range_target.h"
#include "link/late_writes.h"
#include "link/link_params.h"
#include "link/link_port.h"

namespace heddle::link {

// Requests of one initiator that become several, one for each GPU of a group, and their answers. Plain C++.
class Fan {
 public:
  // The request and how many answers it waits for.
  void begin(tlm::tlm_generic_payload& asked, std::uint32_t port, std::uint32_t members);
  // An answer: a multimem's data are combined, in the order of members, once all are there.
  void answered(std::uint32_t member, protocol::MemoryRequest& part);
  bool complete() const { return open_ == 0; }
  // Sets the status and, of a multimem, the data of the request.
  void finish();
  tlm::tlm_generic_payload& asked() const { return *asked_; }
  std::uint32_t port() const { return port_; }

 private:
  tlm::tlm_generic_payload* asked_ = nullptr;
  std::uint32_t port_ = 0;
  std::uint32_t open_ = 0;
  bool poisoned_ = false;
  tlm::tlm_response_status status_ = tlm::TLM_OK_RESPONSE;
  std::vector<std::array<std::uint8_t, arch::kLineBytes>> data_;  // by member
};

// Port p of every GPU leads to plane p, which connects them: what comes by a port leaves by that port of the GPU that
// its address names. A request of an address of a group leaves by the ports of all its members, and is answered when
// all have been.
class LinkSwitch : public Block, private PortOwner, private RangeTarget {
 public:
  // `gpus`: parameters of each GPU's links; as many ports for all. `groups`: the GPUs of each.
  LinkSwitch(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const FabricParams& params,
             const std::vector<LinkParams>& gpus, std::vector<std::vector<std::uint32_t>> groups);

  // To be bound to the GPU's own.
  LinkPort& port(std::uint32_t gpu, std::uint32_t number) { return *ports_[gpu * planes_ + number]; }

  std::size_t payloads() const { return pool_.in_use(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;
  void check_idle() override;

 private:
  static constexpr std::uint16_t kFanned = 0xFFFF;
  static constexpr std::uint32_t kMembers = arch::kPeers;
  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& requests = counter("requests", "requests", "requests that came to the switch");
    Counter& multicasts = counter("multicasts", "requests", "writes to groups");
    Counter& reductions = counter("reductions", "requests", "reads of groups, whose answers were combined");
    Gauge& bytes = gauge("bytes", "bytes", "bytes that left towards GPUs, headers included");
  };

  bool request_came(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) override;
  void response_came(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival) override;
  void request_left(std::uint32_t port, std::uint32_t source) override;
  void call_came(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay) override;
  unsigned debug_came(tlm::tlm_generic_payload& payload, std::uint32_t port) override;
  bool move(RangeMove& range, std::uint32_t port) override;

  std::uint32_t gpu_of(std::uint32_t port) const { return port / planes_; }
  std::uint32_t plane_of(std::uint32_t port) const { return port % planes_; }
  // The members of the address's group; null: it is of none.
  const std::vector<std::uint32_t>* group_of(std::uint64_t address) const;
  static bool may_fan(tlm::tlm_generic_payload& payload);
  const MessageSizes& sizes(std::uint32_t port) const { return sizes_[gpu_of(port)]; }
  void fan_out(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle when);
  void call_group(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival, sc_core::sc_time& delay);
  void respond(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle when);
  void note_bytes();

  const FabricParams params_;
  const std::vector<LinkParams> gpus_;
  const std::vector<std::vector<std::uint32_t>> groups_;
  const std::uint32_t planes_;
  const Cycle through_;
  const Cycle combine_;
  std::vector<MessageSizes> sizes_;  // by GPU
  Statistics stats_;
  protocol::RequestPool pool_;
  Children<LinkPort> ports_;         // by GPU, and plane
  std::vector<std::uint32_t> held_;  // by port: requests that came by it and have not left
  IndexPool<Fan> fans_;
};

}  // namespace heddle::link
