// Copy engines: bytes move between host and device, or within one of them, beside kernels (HST-05).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/idle_account.h"
#include "arch/instances.h"
#include "common/block.h"
#include "common/index_pool.h"
#include "common/packet_socket.h"
#include "copy/copy_engine.h"
#include "protocol/host_task.h"
#include "protocol/packet_copy.h"

namespace heddle::copy {

struct CopyStats : StatGroup {
  using StatGroup::StatGroup;
  Counter& copies = counter("copies", "requests", "copies taken in hand");
  Counter& fills = counter("fills", "requests", "fills taken in hand");
  Counter& errors = counter("errors", "requests", "copies and fills that an error has ended");
  Histogram& queue_time = histogram("queue_time", "ns", "from a request's arrival until an engine takes it");

  Counter& of(protocol::CopyKind kind) { return kind == protocol::CopyKind::copy ? copies : fills; }
};

// Why a copy or fill has not ended well.
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
// free; those of an instance's subcontexts to its engines alone, and others pass those that wait for these. Every
// engine works on one request at a time, with a bandwidth of its own and many lines under way. A request of 0 bytes, or
// one that cannot be done at all, is answered at once.
class CopyEngines : public Block, private CopyListener {
 public:
  // `instances`: whose subcontexts have engines of their own (PRT-11). Others have those that no instance has.
  CopyEngines(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CopyParams& params,
              const arch::Instances& instances = {});

  // Which instance a subcontext belongs to; of other changes nothing is looked at.
  PacketIn<protocol::SubcontextPacket> share_in;
  // Called with every one that was refused, and why.
  void on_refused(std::function<void(const protocol::SubcontextPacket&, protocol::ShareRefusal)> sink) {
    on_refused_ = std::move(sink);
  }

  void on_share(const protocol::SubcontextPacket& packet, std::uint32_t);
  // The number of its instance and one; 0: it is of none.
  std::uint32_t instance_of(std::uint8_t subcontext) const { return instance_of_.at(subcontext); }

  static constexpr std::uint32_t kSenders = 3;  // 0: packet processor, 1: host interface, 2: task management
  PacketIn<protocol::CopyRequestPacket>& request_in(std::uint32_t sender);
  PacketOut<protocol::CopyDonePacket>& done_out(std::uint32_t sender);
  // To the memory hub, which a reset of the domain resets too: plain reads and writes within one line, with unified
  // addresses. In both modes they are sent as BEGIN_REQ and answered with BEGIN_RESP.
  MemoryOut& memory_out(std::uint32_t engine);

  // Called for each, before its answer leaves.
  void on_error(std::function<void(const CopyError&)> listener) { on_error_ = std::move(listener); }

  std::uint32_t engines() const { return static_cast<std::uint32_t>(engine_list_.size()); }
  bool idle() const;
  void check_idle() override;
  // Memory requests that have not come back.
  std::size_t payloads() const { return pool_.in_use(); }
  void on_event(std::uint32_t, std::uint64_t) override {}  // the engines have events, the block has none
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  struct Waiting {
    protocol::CopyRequestPacket request;
    std::uint32_t sender = 0;
    Cycle arrived = 0;
  };

  bool may_use(std::uint8_t subcontext, std::uint32_t engine) const {
    return instance_of_.at(subcontext) == engine_instance_[engine];
  }
  bool has_engine(std::uint32_t instance) const {
    return std::find(engine_instance_.begin(), engine_instance_.end(), instance) != engine_instance_.end();
  }
  void on_request(const protocol::CopyRequestPacket& request, std::uint32_t sender);
  void ended(const EndedCopy& copy) override;
  void give_out();
  void note_fault(const CopyError& error);
  void answer(std::uint32_t sender, const protocol::CopyDonePacket& done) { dones_out_[sender].send(done); }

  sc_core::sc_vector<PacketIn<protocol::CopyRequestPacket>> requests_in_;
  sc_core::sc_vector<PacketOut<protocol::CopyDonePacket>> dones_out_;
  protocol::RequestPool pool_;
  std::vector<std::unique_ptr<CopyEngine>> engine_list_;
  Ring<Waiting> waiting_;
  std::function<void(const CopyError&)> on_error_;
  std::function<void(const protocol::SubcontextPacket&, protocol::ShareRefusal)> on_refused_;
  const std::uint32_t instances_;
  std::vector<std::uint32_t> engine_instance_;                   // by engine: instance + 1; 0: of none
  std::array<std::uint32_t, arch::kSubcontexts> instance_of_{};  // by subcontext, in the same way

  IdleWork work_;
  CopyStats stats_;
};

}  // namespace heddle::copy
