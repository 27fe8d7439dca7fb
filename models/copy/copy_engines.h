// Copy engines: bytes move between host and device, or within one of them, beside kernels (HST-05).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/block.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "common/ring.h"
#include "copy/copy_params.h"
#include "protocol/memory_request.h"
#include "protocol/packet_copy.h"

namespace heddle::copy {

class CopyEngine;

// Of a copy or fill that has not ended well.
struct CopyError {
  arch::HsaStatus status = arch::HsaStatus::error;
  std::uint64_t address = 0;  // unified: the first that failed
  bool write = false;
  std::uint8_t subcontext = 0;
  std::uint32_t sender = 0;
  std::uint32_t engine = 0;
  bool begun = false;  // false: it was refused before an engine took it
};

// All engines of a device: requests wait in one queue, in the order in which they came, and go to the engine that is
// free. Every engine works on one request at a time, with a bandwidth of its own and many lines under way. A request of
// 0 bytes, or one that cannot be done at all, is answered at once.
class CopyEngines : public Block {
 public:
  CopyEngines(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CopyParams& params);
  ~CopyEngines() override;

  static constexpr std::uint32_t kSenders = 2;  // 0: packet processor, 1: host interface
  PacketIn<protocol::CopyRequestPacket>& request_in(std::uint32_t sender);
  PacketOut<protocol::CopyDonePacket>& done_out(std::uint32_t sender);
  // To the memory hub, which a reset of the domain resets too: plain reads and writes within one line, with unified
  // addresses. In both modes they are sent as BEGIN_REQ and answered with BEGIN_RESP.
  MemoryOut& memory_out(std::uint32_t engine);

  // Called for each, before its answer leaves.
  void on_error(std::function<void(const CopyError&)> listener) { on_error_ = std::move(listener); }

  std::uint32_t engines() const { return static_cast<std::uint32_t>(engine_list_.size()); }
  bool idle() const;
  // Memory requests that have not come back.
  std::size_t payloads() const { return pool_.in_use(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  friend class CopyEngine;
  struct Waiting {
    protocol::CopyRequestPacket request;
    std::uint32_t sender = 0;
    Cycle arrived = 0;
  };

  void on_request(const protocol::CopyRequestPacket& request, std::uint32_t sender);
  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t engine, Cycle arrival);
  void on_room(std::uint32_t engine, Cycle when);
  void give_out();
  void note_fault(const CopyError& error);
  void answer(std::uint32_t sender, const protocol::CopyDonePacket& done);

  sc_core::sc_vector<PacketIn<protocol::CopyRequestPacket>> requests_in_;
  sc_core::sc_vector<PacketOut<protocol::CopyDonePacket>> dones_out_;
  protocol::RequestPool pool_;
  std::vector<std::unique_ptr<CopyEngine>> engine_list_;
  Ring<Waiting> waiting_;
  std::function<void(const CopyError&)> on_error_;

  Counter& copies_;
  Counter& fills_;
  Counter& errors_;
  Histogram& queue_time_;
};

}  // namespace heddle::copy
