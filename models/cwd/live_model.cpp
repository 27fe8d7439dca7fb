#include "cwd/live_model.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::cwd {

LiveModel::LiveModel(const arch::ResourceVector& capacity, std::uint32_t sms, std::uint32_t slots)
    : capacity_(capacity), sms_(sms), used_(sms), tasks_(slots) {}

void LiveModel::open(std::uint32_t slot, const arch::ResourceVector& need) {
  Task& task = tasks_[slot];
  HEDDLE_CHECK(!task.open, "a task table slot was taken twice");
  task.open = true;
  task.need = need;
  task.running = 0;
  task.on_sm.assign(sms_, 0);
  task.slots.assign(sms_, 0);
  task.stale.assign(sms_, 1);
  task.total = 0;
  task.stale_list.resize(sms_);
  for (std::uint32_t sm = 0; sm < sms_; ++sm) task.stale_list[sm] = sm;
  open_.push_back(slot);
}

void LiveModel::close(std::uint32_t slot) {
  Task& task = tasks_[slot];
  HEDDLE_CHECK(task.open && task.running == 0, "a task was closed while its CTAs run");
  task.open = false;
  open_.erase(std::find(open_.begin(), open_.end(), slot));
}

// A CTA of one's own changes one's free slots by exactly one; those of other tasks have to be counted anew.
void LiveModel::launch(std::uint32_t slot, std::uint32_t sm) {
  Task& task = tasks_[slot];
  used_[sm].add(task.need);
  HEDDLE_CHECK(used_[sm].within(capacity_), "a CTA was launched on an SM without room for it");
  ++task.running;
  ++task.on_sm[sm];
  if (task.stale[sm] == 0) {
    --task.slots[sm];
    --task.total;
  }
  touch_others(slot, sm);
}

void LiveModel::complete(std::uint32_t slot, std::uint32_t sm) {
  Task& task = tasks_[slot];
  HEDDLE_CHECK(task.open && task.on_sm[sm] > 0, "a completion without a launch");
  used_[sm].subtract(task.need);
  --task.running;
  --task.on_sm[sm];
  if (task.stale[sm] == 0) {
    ++task.slots[sm];
    ++task.total;
  }
  touch_others(slot, sm);
}

void LiveModel::touch_others(std::uint32_t slot, std::uint32_t sm) {
  if (open_.size() == 1) return;
  for (const std::uint32_t other : open_) {
    Task& task = tasks_[other];
    if (other == slot || task.stale[sm] != 0) continue;
    task.stale[sm] = 1;
    task.stale_list.push_back(sm);
  }
}

void LiveModel::refresh(Task& task) {
  for (const std::uint32_t sm : task.stale_list) {
    const std::uint32_t slots = arch::free_slots(capacity_, used_[sm], task.need);
    task.total += slots;
    task.total -= task.slots[sm];
    task.slots[sm] = static_cast<std::uint16_t>(slots);
    task.stale[sm] = 0;
  }
  task.stale_list.clear();
}

const std::vector<std::uint16_t>& LiveModel::free_slots(std::uint32_t slot) {
  refresh(tasks_[slot]);
  return tasks_[slot].slots;
}

bool LiveModel::any_free(std::uint32_t slot) {
  refresh(tasks_[slot]);
  return tasks_[slot].total > 0;
}

bool LiveModel::empty() const {
  return open_.empty() && std::all_of(used_.begin(), used_.end(),
                                      [](const arch::ResourceVector& used) { return used == arch::ResourceVector{}; });
}

void LiveModel::reset() {
  std::fill(used_.begin(), used_.end(), arch::ResourceVector{});
  for (Task& task : tasks_) task.open = false;
  open_.clear();
}

}  // namespace heddle::cwd
