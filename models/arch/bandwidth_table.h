// Which part of the memory system's bandwidth each subcontext has (PRT-11). Plain data: who moves bytes reads it, and
// who is told of changes judges them by it.
//
// A share is proportional: of what contends, a subcontext gets its part as long as it asks for it, and others have what
// it leaves. A limit is a maximum, also where nobody else asks. These are the two ways in which Arm's MPAM (DDI 0598)
// divides bandwidth: proportional stride and maximum limit.
#pragma once

#include <array>
#include <cstdint>

#include "arch/task_record.h"

namespace heddle::arch {

// Shares and limits are in thousandths of all.
constexpr std::uint32_t kWholeBandwidth = 1000;

class BandwidthTable {
 public:
  enum class Refusal : std::uint8_t {
    none,
    value,  // out of range
    sum,    // the shares of all would be more than all there is
    limit,  // a limit would lie below the share of the same subcontext
  };

  // 0: no share of its own any more. Nothing changes where the answer is a refusal. Subcontexts beyond kSubcontexts - 1
  // count as kSubcontexts - 1.
  Refusal set_share(std::uint32_t subcontext, std::uint64_t thousandths);
  // kWholeBandwidth: no limit any more; 0 is out of range, as nothing would ever move.
  Refusal set_limit(std::uint32_t subcontext, std::uint64_t thousandths);
  // The subcontext moves something: those without a share divide what is left of the whole, one thousandth at least
  // each. Until now it may have been unknown.
  void use(std::uint32_t subcontext) {
    if (!entries_[place(subcontext)].used) note_use(place(subcontext));
  }

  // Somebody has been given a share or a limit since the last reset.
  bool any() const { return any_; }
  // What decides where subcontexts contend: only the ratio counts. At least 1.
  std::uint32_t weight(std::uint32_t subcontext) const { return entries_[place(subcontext)].weight; }
  std::uint32_t limit(std::uint32_t subcontext) const { return entries_[place(subcontext)].limit; }
  bool used(std::uint32_t subcontext) const { return entries_[place(subcontext)].used; }
  // Counts the changes of weights.
  std::uint64_t version() const { return version_; }
  void reset();

  static constexpr std::uint32_t place(std::uint32_t subcontext) {
    return subcontext < kSubcontexts ? subcontext : kSubcontexts - 1;
  }

 private:
  struct Entry {
    std::uint32_t share = 0;  // 0: none of its own
    std::uint32_t limit = kWholeBandwidth;
    std::uint32_t weight = kWholeBandwidth;
    bool used = false;
  };

  void note_use(std::uint32_t place);
  void weigh();

  std::array<Entry, kSubcontexts> entries_{};
  bool any_ = false;
  std::uint64_t version_ = 0;
};

}  // namespace heddle::arch
