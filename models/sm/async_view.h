// What the asynchronous proxy sees of a CTA's shared memory (TMA-41): bulk requests that read shared memory see what
// the SM's own accesses, those of the generic proxy, have written only once a proxy fence has published it. Plain C++.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace heddle::sm {

// A fence of a warp publishes what the warp itself has written, and what others had written before the CTA's last
// synchronisation (a barrier, a phase of an mbarrier): more than that nobody can rely on. Bytes are looked at by
// granules: what is in one becomes visible together.
class AsyncView {
 public:
  static constexpr std::uint32_t kGranule = 16;  // bytes

  // `bytes` of the window, all of which it sees.
  explicit AsyncView(std::uint32_t bytes) : old_(bytes), marks_((bytes + kGranule - 1) / kGranule) {}

  // A warp of the CTA (none: another CTA's) is about to write there. `window`: as it is before.
  void will_write(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes,
                  std::optional<std::uint32_t> warp);
  // The asynchronous proxy has written there: it sees what it wrote.
  void wrote(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes);
  void synchronised() { ++epoch_; }
  void fence(std::uint32_t warp);

  // `bytes` of the window from `offset` on, as the asynchronous proxy sees them. True: some of them are old.
  bool read(const std::uint8_t* window, std::uint32_t offset, std::uint32_t bytes, std::uint8_t* to) const;

 private:
  // Of a granule with bytes that have not been published.
  struct Mark {
    bool stale = false;
    bool one_warp = false;  // `warp` has written all of them
    std::uint32_t warp = 0;
    std::uint64_t epoch = 0;  // of the last of them
  };

  std::vector<std::uint8_t> old_;     // where the mark is stale
  std::vector<Mark> marks_;           // by granule
  std::vector<std::uint32_t> stale_;  // granules
  std::uint64_t epoch_ = 0;           // synchronisations
};

}  // namespace heddle::sm
