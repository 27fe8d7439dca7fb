// Which accesses to the host's memory may go out. A core: no time, no sockets.
//
// The host's bus promises order only to accesses that it has at the same time. An atomic may be a read and a write with
// a pause between them, and a write with holes is several. So of two accesses that have bytes in common, of which one
// changes them, the second waits until the first is over.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/memory_op.h"

namespace heddle::host {

class DmaOrder {
 public:
  // An access to bytes of one line. True: it may go now. `number`: the caller's own, of no other that is inside.
  bool enter(std::uint32_t number, std::uint64_t address, std::uint32_t bytes, bool changes) {
    std::vector<Access>& inside = of(address);
    Access access{number, address, address + bytes, changes, false};
    access.waits = has_conflict(inside, inside.size(), access);
    inside.push_back(access);
    return !access.waits;
  }
  // It is over. Those that may go now are appended to `freed`, in their order.
  void leave(std::uint32_t number, std::uint64_t address, std::vector<std::uint32_t>& freed) {
    std::vector<Access>& inside = of(address);
    std::size_t at = 0;
    while (at < inside.size() && inside[at].number != number) ++at;
    if (at == inside.size()) return;
    inside.erase(inside.begin() + static_cast<std::ptrdiff_t>(at));
    for (; at < inside.size(); ++at) {
      if (!inside[at].waits || has_conflict(inside, at, inside[at])) continue;
      inside[at].waits = false;
      freed.push_back(inside[at].number);
    }
  }
  // One of these bytes, of whole lines, is in an access that is inside.
  bool touches(std::uint64_t address, std::uint32_t bytes) const {
    for (std::uint64_t at = address; at < address + bytes; at += arch::kLineBytes) {
      for (const Access& access : lines_[at / arch::kLineBytes % lines_.size()]) {
        if (access.begin < address + bytes && address < access.end) return true;
      }
    }
    return false;
  }
  void clear() {
    for (std::vector<Access>& inside : lines_) inside.clear();
  }

 private:
  struct Access {
    std::uint32_t number;
    std::uint64_t begin;
    std::uint64_t end;
    bool changes;
    bool waits;
  };

  std::vector<Access>& of(std::uint64_t address) { return lines_[address / arch::kLineBytes % lines_.size()]; }
  // With one of the first `count`.
  static bool has_conflict(const std::vector<Access>& inside, std::size_t count, const Access& access) {
    for (std::size_t i = 0; i < count; ++i) {
      const Access& other = inside[i];
      if ((other.changes || access.changes) && other.begin < access.end && access.begin < other.end) return true;
    }
    return false;
  }

  std::array<std::vector<Access>, 256> lines_;
};

}  // namespace heddle::host
