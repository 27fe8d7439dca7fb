// What the CWD knows of the SMs: resources in use and free slots per task, updated by launches and completions
// (CWD-02).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/sm_limits.h"

namespace heddle::cwd {

class LiveModel {
 public:
  // `slots`: size of the task table. `sms`: SM ids count from 0.
  LiveModel(const arch::ResourceVector& capacity, std::uint32_t sms, std::uint32_t slots);

  void open(std::uint32_t slot, const arch::ResourceVector& need);
  // All CTAs of the task must have completed.
  void close(std::uint32_t slot);
  void launch(std::uint32_t slot, std::uint32_t sm);
  void complete(std::uint32_t slot, std::uint32_t sm);

  // Free slots of every SM for the task, brought up to date. A session copies them: the snapshot (CWD-02).
  const std::vector<std::uint16_t>& free_slots(std::uint32_t slot);
  // False only if no SM has a free slot for the task; cheap.
  bool any_free(std::uint32_t slot);

  std::uint32_t running(std::uint32_t slot) const { return tasks_[slot].running; }
  const arch::ResourceVector& used(std::uint32_t sm) const { return used_[sm]; }
  // No CTA anywhere and nothing in use.
  bool empty() const;
  void reset();

 private:
  struct Task {
    bool open = false;
    arch::ResourceVector need;
    std::uint32_t running = 0;         // CTAs on all SMs
    std::vector<std::uint16_t> on_sm;  // CTAs of the task by SM
    std::vector<std::uint16_t> slots;  // free slots by SM, except where stale
    std::uint64_t total = 0;           // sum of slots
    std::vector<std::uint8_t> stale;   // by SM: another task changed the SM
    std::vector<std::uint32_t> stale_list;
  };
  void touch_others(std::uint32_t slot, std::uint32_t sm);
  void refresh(Task& task);

  arch::ResourceVector capacity_;
  std::uint32_t sms_;
  std::vector<arch::ResourceVector> used_;
  std::vector<Task> tasks_;
  std::vector<std::uint32_t> open_;  // slots in use
};

}  // namespace heddle::cwd
