#include "host/host_windows.h"

#include <algorithm>

#include "arch/address_map.h"
#include "arch/task_record.h"

namespace heddle::host {

using protocol::HostWindowPacket;
using protocol::kHostWindowPage;

bool HostWindows::change(const HostWindowPacket& change) {
  switch (change.what) {
    case HostWindowPacket::What::isolate:
      isolated_ = true;
      return true;
    case HostWindowPacket::What::share:
      isolated_ = false;
      return true;
    case HostWindowPacket::What::open:
      break;
    case HostWindowPacket::What::close:
      if (change.subcontext >= arch::kSubcontexts) return false;
      windows_.erase(std::remove_if(windows_.begin(), windows_.end(),
                                    [&](const Window& window) { return window.subcontext == change.subcontext; }),
                     windows_.end());
      return true;
  }
  const bool whole = change.address % kHostWindowPage == 0 && change.bytes % kHostWindowPage == 0 && change.bytes > 0;
  const std::uint64_t last = change.address + change.bytes - 1;
  if (change.subcontext >= arch::kSubcontexts || !whole || !arch::in_host_window(change.address) ||
      last < change.address || !(change.reads || change.writes) || windows_.size() >= most_) {
    return false;
  }
  windows_.push_back({change.subcontext, change.address, last, change.reads, change.writes});
  return true;
}

std::uint64_t HostWindows::allowed(std::uint8_t subcontext, std::uint64_t address, std::uint64_t bytes, bool reads,
                                   bool writes) const {
  if (!isolated_ || subcontext == 0) return bytes;
  std::uint64_t good = 0;
  // Windows that follow each other are as good as one.
  while (good < bytes) {
    const std::uint64_t at = address + good;
    const auto found = std::find_if(windows_.begin(), windows_.end(), [&](const Window& window) {
      return window.subcontext == subcontext && at >= window.first && at <= window.last && (!reads || window.reads) &&
             (!writes || window.writes);
    });
    if (found == windows_.end()) return good;
    const std::uint64_t here = found->last - at;  // bytes less one: a window may end with the last address
    if (here >= bytes - good) return bytes;
    good += here + 1;
  }
  return good;
}

void HostWindows::save(StateWriter& to) const {
  to.flag(isolated_);
  to.number(windows_.size());
  for (const Window& window : windows_) {
    to.number(window.subcontext);
    to.number(window.first);
    to.number(window.last);
    to.flag(window.reads);
    to.flag(window.writes);
  }
}

void HostWindows::restore(StateReader& from) {
  reset();
  isolated_ = from.flag("isolation");
  for (std::uint64_t left = from.below(std::uint64_t{most_} + 1, "the number of windows"); left > 0; --left) {
    HostWindowPacket window;
    window.what = HostWindowPacket::What::open;
    window.subcontext = static_cast<std::uint8_t>(from.below(arch::kSubcontexts, "a subcontext"));
    window.address = from.number();
    window.bytes = from.number() - window.address + 1;
    window.reads = from.flag("a right");
    window.writes = from.flag("a right");
    if (!change(window)) from.bad("a window that cannot be opened");
  }
}

}  // namespace heddle::host
