// What of the host's memory each subcontext may reach (HST-06). A core: no time, no sockets.
//
// As long as subcontexts are not kept apart, everybody reaches everything. From then on subcontext 0, the driver's,
// does, and every other one reaches what it has been given. The register block and the memory hub have one each, which
// see the same changes: the first to judge them, the second to judge accesses.
#pragma once

#include <cstdint>
#include <vector>

#include "common/state.h"
#include "protocol/host_window.h"

namespace heddle::host {

// An access to the host's memory that was refused.
struct WindowFault {
  std::uint64_t address = 0;  // unified: the first that is in no window
  std::uint8_t subcontext = 0;
  bool write = false;
};

class HostWindows : public Saved {
 public:
  // `most` windows of all subcontexts together.
  explicit HostWindows(std::uint32_t most) : most_(most) {}

  // False: it makes no sense, or there is no room for another window. Nothing has changed then.
  bool change(const protocol::HostWindowPacket& change);
  bool isolated() const { return isolated_; }
  std::uint32_t count() const { return static_cast<std::uint32_t>(windows_.size()); }
  // Bytes from the address on that the subcontext may read, write, or both; at most `bytes`. Unified addresses.
  std::uint64_t allowed(std::uint8_t subcontext, std::uint64_t address, std::uint64_t bytes, bool reads,
                        bool writes) const;
  void reset() {
    isolated_ = false;
    windows_.clear();
  }
  void save(StateWriter& to) const override;
  void restore(StateReader& from) override;

 private:
  struct Window {
    std::uint8_t subcontext = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    bool reads = false;
    bool writes = false;
  };

  std::uint32_t most_;
  bool isolated_ = false;
  std::vector<Window> windows_;
};

}  // namespace heddle::host
