#include "cwd/live_model.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::cwd {
namespace {

arch::ResourceVector shared_of(std::uint32_t bytes) {
  arch::ResourceVector amount;
  amount[arch::Resource::shared_bytes] = bytes;
  return amount;
}

}  // namespace

LiveModel::LiveModel(const arch::ResourceVector& capacity, const arch::Topology& topology, std::uint32_t slots)
    : place_(topology.sms()), expected_(topology.sms()), tasks_(slots), preloaded_(topology.sms()) {
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    const arch::Topology::Gpc& gpc = topology.gpc(g);
    first_tpc_.push_back(tpcs());
    enabled_tpcs_.push_back(static_cast<std::uint32_t>(gpc.tpcs.size()));
    for (const arch::Topology::Tpc& tpc : gpc.tpcs) {
      for (std::uint32_t i = 0; i < tpc.sms; ++i) place_[gpc.sm_ids[tpc.first_sm + i]] = {tpcs(), i};
      trackers_.emplace_back(capacity, tpc.sms);
      gpc_of_.push_back(g);
    }
  }
}

void LiveModel::open(std::uint32_t slot, const arch::ResourceVector& need) {
  Task& task = tasks_[slot];
  HEDDLE_CHECK(!task.open, "a task table slot was taken twice");
  task.open = true;
  task.need = need;
  task.running = 0;
  const auto sms = static_cast<std::uint32_t>(place_.size());
  task.on_sm.assign(sms, 0);
  task.released.assign(sms, 0);
  task.slots.assign(sms, 0);
  task.stale.assign(sms, 1);
  task.total = 0;
  task.stale_list.resize(sms);
  for (std::uint32_t sm = 0; sm < sms; ++sm) task.stale_list[sm] = sm;
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
  const Place place = place_[sm];
  trackers_[place.tpc].launch(place.sm, task.need);
  ++task.running;
  ++task.on_sm[sm];
  if (task.stale[sm] == 0) {
    --task.slots[sm];
    --task.total;
  }
  touch_others(slot, sm);
}

// It changes the task's own free slots by any number.
void LiveModel::release(std::uint32_t slot, std::uint32_t sm, std::uint32_t shared_bytes) {
  Task& task = tasks_[slot];
  HEDDLE_CHECK(task.open && shared_bytes <= std::uint64_t{task.on_sm[sm]} * task.need[arch::Resource::shared_bytes] -
                                                task.released[sm],
               "more shared memory was given back than the CTAs of a task have");
  task.released[sm] += shared_bytes;
  const Place place = place_[sm];
  trackers_[place.tpc].complete(place.sm, shared_of(shared_bytes));
  touch(task, sm);
  touch_others(slot, sm);
}

void LiveModel::complete(std::uint32_t slot, std::uint32_t sm, std::uint32_t released) {
  Task& task = tasks_[slot];
  HEDDLE_CHECK(task.open && task.on_sm[sm] > 0, "a completion without a launch");
  HEDDLE_CHECK(released <= task.released[sm] && released <= task.need[arch::Resource::shared_bytes],
               "a CTA has completed that gave back more shared memory than was heard of");
  const Place place = place_[sm];
  ResourceTracker& tracker = trackers_[place.tpc];
  arch::ResourceVector rest = task.need;
  rest[arch::Resource::shared_bytes] -= released;
  tracker.complete(place.sm, rest);
  --task.running;
  --task.on_sm[sm];
  task.released[sm] -= released;
  if (released > 0) {
    touch(task, sm);
  } else if (task.stale[sm] == 0 && tracker.enabled()) {
    ++task.slots[sm];
    ++task.total;
  }
  touch_others(slot, sm);
}

void LiveModel::touch(Task& task, std::uint32_t sm) {
  if (task.stale[sm] != 0) return;
  task.stale[sm] = 1;
  task.stale_list.push_back(sm);
}

void LiveModel::touch_others(std::uint32_t slot, std::uint32_t sm) {
  if (slot != kNobody && open_.size() == 1) return;
  for (const std::uint32_t other : open_) {
    if (other != slot) touch(tasks_[other], sm);
  }
}

void LiveModel::refresh(Task& task) {
  for (const std::uint32_t sm : task.stale_list) {
    const std::uint32_t slots = trackers_[place_[sm].tpc].free_slots(place_[sm].sm, task.need);
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

std::uint64_t LiveModel::total_free(std::uint32_t slot) {
  refresh(tasks_[slot]);
  return tasks_[slot].total;
}

void LiveModel::enable(std::uint32_t tpc, bool enabled) {
  if (trackers_[tpc].enabled() == enabled) return;
  enabled_tpcs_[gpc_of_[tpc]] += enabled ? 1 : ~std::uint32_t{0};
  trackers_[tpc].enable(enabled);
  for (std::uint32_t sm = 0; sm < place_.size(); ++sm) {
    if (place_[sm].tpc == tpc) touch_others(kNobody, sm);
  }
}

void LiveModel::preload(std::uint32_t sm, const arch::ResourceVector& amount) {
  trackers_[place_[sm].tpc].preload(place_[sm].sm, amount);
  preloaded_[sm].add(amount);
  expected_[sm].add(amount);
  touch_others(kNobody, sm);
}

void LiveModel::unload(std::uint32_t sm, const arch::ResourceVector& amount) {
  trackers_[place_[sm].tpc].unload(place_[sm].sm, amount);
  expected_[sm].subtract(amount);
  touch_others(kNobody, sm);
}

bool LiveModel::empty() const {
  for (std::uint32_t sm = 0; sm < place_.size(); ++sm) {
    if (!(used(sm) == expected_[sm])) return false;
  }
  return open_.empty();
}

void LiveModel::reset() {
  for (ResourceTracker& tracker : trackers_) tracker.reset();
  std::fill(enabled_tpcs_.begin(), enabled_tpcs_.end(), 0);
  for (const std::uint32_t gpc : gpc_of_) ++enabled_tpcs_[gpc];
  expected_ = preloaded_;
  for (Task& task : tasks_) task.open = false;
  open_.clear();
}

}  // namespace heddle::cwd
