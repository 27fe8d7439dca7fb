// The memory hub's share of the host's windows (HST-06): it judges what goes to the host's memory, by the windows that
// the host interface has sent.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "common/packet_socket.h"
#include "common/stats.h"
#include "host/host_windows.h"
#include "protocol/memory_request.h"

namespace heddle::host {

class WindowGuard final : public Saved {
 public:
  // `most` windows of all subcontexts together; `refused` counts. All references must outlive it.
  WindowGuard(Domain& domain, std::uint32_t most, Counter& refused)
      : window_in("window_in", domain, 0), windows_(most), refused_(refused) {
    window_in.on_packet<WindowGuard, &WindowGuard::on_window>(*this);
  }

  PacketIn<protocol::HostWindowPacket> window_in;
  // Called with each request that is refused.
  void on_refused(std::function<void(const WindowFault& fault)> refused) { on_refused_ = std::move(refused); }

  // Bytes from a unified address on. An atomic reads and writes.
  bool lets_pass(const protocol::MemoryExtension* extension, std::uint64_t address, std::uint32_t bytes, bool reads,
                 bool writes) {
    const std::uint8_t subcontext = extension == nullptr ? 0 : extension->subcontext;
    const std::uint64_t good = windows_.allowed(subcontext, address, bytes, reads, writes);
    if (good == bytes) return true;
    refused_.add();
    if (on_refused_) on_refused_({address + good, subcontext, writes});
    return false;
  }
  const HostWindows& windows() const { return windows_; }
  void reset() { windows_.reset(); }
  void save(StateWriter& to) const override { windows_.save(to); }
  void restore(StateReader& from) override { windows_.restore(from); }

 private:
  void on_window(const protocol::HostWindowPacket& packet, std::uint32_t) { (void)windows_.change(packet); }

  HostWindows windows_;
  Counter& refused_;
  std::function<void(const WindowFault&)> on_refused_;
};

}  // namespace heddle::host
