// Who is told how subcontexts share the bandwidth between SMs and memory, and keeps it for those that move bytes
// (PRT-11).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "arch/bandwidth_table.h"
#include "common/block.h"
#include "common/packet_socket.h"
#include "protocol/host_task.h"

namespace heddle::memory {

class BandwidthControl : public Block {
 public:
  BandwidthControl(const sc_core::sc_module_name& name, Domain& domain, const std::string& path);
  ~BandwidthControl() override;

  // Shares and limits; of others nothing is looked at.
  PacketIn<protocol::SubcontextPacket> share_in;
  // Called with every one that was refused, and why.
  void on_refused(std::function<void(const protocol::SubcontextPacket&, protocol::ShareRefusal)> sink) {
    on_refused_ = std::move(sink);
  }

  arch::BandwidthTable& table() { return table_; }
  // In thousandths; 0: none of its own.
  std::uint32_t share(std::uint32_t subcontext) const { return shares_.at(subcontext); }

  void on_event(std::uint32_t, std::uint64_t) override {}
  void reset() override {
    table_.reset();
    shares_.fill(0);
  }
  void collect_waits(WaitGraph&) const override {}

  void on_share(const protocol::SubcontextPacket& packet, std::uint32_t);

 private:
  arch::BandwidthTable table_;
  std::array<std::uint32_t, arch::kSubcontexts> shares_{};
  std::function<void(const protocol::SubcontextPacket&, protocol::ShareRefusal)> on_refused_;
};

}  // namespace heddle::memory
