// The ways to the host's memory beside transactions: direct pointers (DMI), debug accesses, and the question whether
// atomics are carried out as one. DirectGrants and AtomicRegions, what the host's bus has shown of itself, are cores.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <tlm>

#include "common/cycle.h"
#include "common/domain.h"
#include "common/stats.h"
#include "host/boundary_params.h"
#include "protocol/memory_request.h"

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

class DirectAccess {
 public:
  using Socket = tlm::tlm_initiator_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;

  // `used` counts lines and accesses through pointers. All references must outlive it.
  DirectAccess(Domain& domain, Socket& socket, const HubParams& params, Counter& used)
      : domain_(domain), socket_(socket), params_(params), used_(used) {}

  // Through a pointer that has been granted: the cycles that it takes for a line. None: there is no such pointer.
  std::optional<Cycle> copy(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address,
                            std::uint8_t* data, std::uint32_t bytes);
  // A response has hinted at a pointer for such accesses.
  void ask(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address, std::uint32_t bytes);
  // The target says that it carries such an atomic out as one. Moves no data.
  bool carries_out(const protocol::MemoryExtension& atomic, std::uint64_t address);
  // Without time: the bytes done.
  unsigned debug(tlm::tlm_command command, std::uint8_t subcontext, std::uint64_t address, std::uint8_t* data,
                 std::uint32_t bytes);
  // The target takes pointers back.
  void invalidate(std::uint64_t first, std::uint64_t last) { grants_.invalidate(first, last); }
  void reset() { grants_.clear(); }

 private:
  bool uses_pointers() const { return params_.dma_direct && heddle::has_calls(domain_.mode()); }
  void ask(tlm::tlm_generic_payload& query, std::uint8_t subcontext);

  Domain& domain_;
  Socket& socket_;
  const HubParams& params_;
  Counter& used_;
  DirectGrants grants_;
};

}  // namespace heddle::host
