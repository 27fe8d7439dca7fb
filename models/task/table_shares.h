// How subcontexts share the slots of the task table (PRT-02). Plain C++.
#pragma once

#include <array>
#include <cstdint>

#include "arch/task_record.h"

namespace heddle::task {

// While the machine is partitioned, an equal part of the slots is kept for each subcontext that is in use: those that
// the host has named, and those that have had a task. What nobody's part needs is for whoever comes.
class TableShares {
 public:
  static constexpr std::uint32_t kSubcontexts = arch::kSubcontexts;

  // `guarantee`: which part of an equal share is kept, 0 to 1.
  TableShares(std::uint32_t slots, double guarantee, bool partitioned)
      : slots_(slots), guarantee_(guarantee), initially_(partitioned), partitioned_(partitioned) {}

  void set_partitioned(bool partitioned) { partitioned_ = partitioned; }
  bool partitioned() const { return partitioned_; }
  void use(std::uint32_t subcontext);

  // A task has been sent, or has left.
  void enter(std::uint32_t subcontext);
  void leave(std::uint32_t subcontext);

  // Slots that are kept for each of them.
  std::uint32_t share() const { return share_; }
  // The next free slot may be one of its tasks'.
  bool has_slot(std::uint32_t subcontext) const;
  // A task of it may take the slot of a less urgent one of `other`. So many slots come to it already, and so many tasks
  // of the other are about to leave.
  bool may_displace(std::uint32_t subcontext, std::uint32_t coming, std::uint32_t other, std::uint32_t going) const {
    if (!partitioned_ || subcontext == other) return true;
    return taken_[subcontext] + coming < share_ && taken_[other] > share_ + going;
  }
  void reset();

 private:
  std::uint32_t missing(std::uint32_t subcontext) const {
    return used_[subcontext] && taken_[subcontext] < share_ ? share_ - taken_[subcontext] : 0;
  }
  void count_kept();

  const std::uint32_t slots_;
  const double guarantee_;
  const bool initially_;
  bool partitioned_;
  std::array<bool, kSubcontexts> used_{};
  std::array<std::uint32_t, kSubcontexts> taken_{};  // slots
  std::uint32_t in_use_ = 0;                         // subcontexts
  std::uint32_t all_taken_ = 0;
  std::uint32_t share_ = 0;
  std::uint32_t kept_ = 0;  // slots that are missing from shares
};

}  // namespace heddle::task
