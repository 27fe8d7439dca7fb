// What the asynchronous proxy sees of a CTA's shared memory (TMA-41): bulk requests that read shared memory see what
// the SM's own accesses, those of the generic proxy, have written only once a proxy fence has published it. Plain C++.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/index_pool.h"

namespace heddle::sm {

// A fence of a warp publishes what the warp itself has written, and what others had written before the CTA's last
// synchronisation (a barrier, a phase of an mbarrier): more than that nobody can rely on. A byte belongs to who wrote
// it last.
class AsyncView {
 public:
  // `bytes` of the window, all of which it sees.
  explicit AsyncView(std::uint32_t bytes);

  // A warp of the CTA (none: another CTA's) is about to write there. `window`: as it is before.
  void will_write(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes,
                  std::optional<std::uint32_t> warp);
  // The asynchronous proxy has written there: it sees what it wrote.
  void wrote(std::uint32_t offset, std::uint32_t bytes);
  void synchronised() { ++epoch_; }
  void fence(std::uint32_t warp);

  // `bytes` of the window from `offset` on, as the asynchronous proxy sees them. The first of them that is old.
  std::optional<std::uint32_t> read(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes,
                                    std::uint8_t* to) const;

 private:
  static constexpr std::uint32_t kGranule = 16;  // bytes that are kept together
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  using Mask = std::uint16_t;  // bytes of a granule

  // What one warp has written of a granule between two synchronisations, and has not been published.
  struct Part {
    Mask bytes = 0;
    std::uint32_t warp = kNone;  // kNone: another CTA's
    std::uint64_t epoch = 0;
    std::uint32_t next = kNone;
  };
  struct Granule {
    Mask old = 0;                 // bytes of all its parts
    std::uint32_t parts = kNone;  // the first
  };

  // Calls visit(granule, bytes of it) for those that the range touches.
  template <class Visit>
  static void each_granule(std::uint32_t offset, std::uint32_t bytes, Visit&& visit);
  // Those bytes no longer belong to whom they did.
  void take_away(Granule& granule, Mask bytes);
  // Takes out the parts for which `ends` says so.
  template <class Ends>
  void drop_parts(Granule& granule, Ends&& ends);
  void forget_fresh();

  std::vector<std::uint8_t> old_;  // where a granule's bytes are
  std::vector<Granule> granules_;
  std::vector<std::uint32_t> stale_;  // granules with old bytes
  IndexPool<Part> parts_;
  std::uint64_t epoch_ = 0;  // synchronisations
};

}  // namespace heddle::sm
