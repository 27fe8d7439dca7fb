// Requests to the tensor memory access unit that have not been carried out: who waits for which of them (TMA-41).
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "arch/mbarrier.h"

namespace heddle::test {

// One warp's groups.
struct BulkGroups {
  std::uint64_t current = 1;    // that is not committed
  std::uint64_t committed = 0;  // the last one that is

  void commit() { committed = current++; }
};

struct OpenRequest {
  std::uint64_t serial = 0;
  const BulkGroups* warp = nullptr;
  std::uint64_t group = 0;  // 0: of none
  std::uint32_t rank = 0;   // of the CTA
  bool read = false;        // the source is in `source`
  std::vector<std::uint8_t> source;
  arch::BulkRequest request;
};

class OpenRequests {
 public:
  bool empty() const { return open_.empty(); }
  std::uint64_t serial() const { return serial_; }

  void add(const BulkGroups& warp, std::uint32_t rank, const arch::BulkRequest& request) {
    using arch::BulkKind;
    const bool grouped = request.kind != BulkKind::load && request.kind != BulkKind::prefetch;
    open_.push_back({++serial_, &warp, grouped ? warp.current : 0, rank, false, {}, request});
  }

  // Each request in its two steps: it reads its source, and then does all. `skip()`: not now.
  template <class Skip, class Read, class Apply>
  void serve(Skip skip, Read read, Apply apply) {
    for (std::size_t i = 0; i < open_.size();) {
      OpenRequest& open = open_[i];
      if (skip()) {
        ++i;
      } else if (!open.read) {
        read(open);
        open.read = true;
        ++i;
      } else {
        apply(open);
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  // Committed groups that are open; `read`: whose sources have not all been read.
  std::size_t groups(const BulkGroups& warp, bool read) const {
    std::set<std::uint64_t> groups;
    for (const OpenRequest& open : open_) {
      const bool counts = open.warp == &warp && open.group != 0 && open.group <= warp.committed;
      if (counts && !(read && open.read)) groups.insert(open.group);
    }
    return groups.size();
  }

  // All of the CTA up to that one are complete.
  bool drained(std::uint32_t rank, std::uint64_t serial) const {
    return std::none_of(open_.begin(), open_.end(),
                        [&](const OpenRequest& open) { return open.rank == rank && open.serial <= serial; });
  }

 private:
  std::vector<OpenRequest> open_;
  std::uint64_t serial_ = 0;
};

}  // namespace heddle::test
