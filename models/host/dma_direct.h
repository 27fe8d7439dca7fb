// What the host's bus has shown of itself: where it lets the device reach its memory by pointers (DMI), and where
// atomics are carried out as one. A core: no time, no sockets.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <tlm>

#include "common/cycle.h"

namespace heddle::host {

// Direct pointers, each granted to a subcontext: the platform may judge them one by one. A refusal counts for its range
// until the target takes something back.
class DirectGrants {
 public:
  struct Grant {
    std::uint8_t subcontext = 0;
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    unsigned char* pointer = nullptr;  // null: refused
    bool asked[2] = {false, false};    // for reads, for writes
    bool allowed[2] = {false, false};
    Cycle latency[2] = {0, 0};

    bool covers(std::uint8_t whose, std::uint64_t address, std::uint64_t bytes) const {
      return subcontext == whose && address >= first && address <= last && bytes - 1 <= last - address;
    }
    unsigned char* at(std::uint64_t address) const { return pointer + (address - first); }
  };

  // Null: it has to go to the target.
  const Grant* find(std::uint8_t subcontext, std::uint64_t address, std::uint64_t bytes, bool write) const {
    for (const Grant& grant : grants_) {
      if (grant.pointer != nullptr && grant.allowed[write] && grant.covers(subcontext, address, bytes)) return &grant;
    }
    return nullptr;
  }
  // An answer for such an access is known, whatever it was.
  bool knows(std::uint8_t subcontext, std::uint64_t address, bool write) const {
    return std::any_of(grants_.begin(), grants_.end(), [&](const Grant& grant) {
      return grant.covers(subcontext, address, 1) && (grant.asked[write] || grant.allowed[write]);
    });
  }
  void add(const Grant& grant) {
    if (grants_.size() == kKept) grants_.erase(grants_.begin());
    grants_.push_back(grant);
  }
  void invalidate(std::uint64_t first, std::uint64_t last) {
    const auto touched = [&](const Grant& grant) {
      return grant.pointer == nullptr || (grant.first <= last && first <= grant.last);
    };
    grants_.erase(std::remove_if(grants_.begin(), grants_.end(), touched), grants_.end());
  }
  void clear() { grants_.clear(); }

 private:
  static constexpr std::size_t kKept = 16;  // of one target, few; of a bus, one for each memory behind it

  std::vector<Grant> grants_;
};

// Who carries atomics out. One bus can lead to targets that do and to others. It may forget: then the target is asked
// again.
class AtomicRegions {
 public:
  static constexpr std::uint64_t kBytes = 4096;
  enum class Verdict : std::uint8_t { unknown, knows, ignores };

  Verdict at(std::uint64_t address) const {
    const Region& region = regions_[address / kBytes % regions_.size()];
    return region.number == address / kBytes ? region.verdict : Verdict::unknown;
  }
  void note(std::uint64_t address, bool knows) {
    regions_[address / kBytes % regions_.size()] = {address / kBytes, knows ? Verdict::knows : Verdict::ignores};
  }
  void clear() { regions_ = {}; }

 private:
  struct Region {
    std::uint64_t number = 0;
    Verdict verdict = Verdict::unknown;
  };

  std::array<Region, 256> regions_{};
};

}  // namespace heddle::host
