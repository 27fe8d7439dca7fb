#include "cwd/gpc_model.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/error.h"
#include "cwd/cost_laws.h"
#include "cwd/sm_policies.h"

namespace heddle::cwd {

namespace {

arch::ResourceVector shared_of(std::uint32_t bytes) {
  arch::ResourceVector amount;
  amount[arch::Resource::shared_bytes] = bytes;
  return amount;
}

}  // namespace

void GpcRegisters::reserve(const GpcSlots& taken) {
  for (std::size_t sm = 0; sm < taken.size(); ++sm) {
    launched_[sm] = static_cast<std::uint16_t>(launched_[sm] + taken[sm]);
    tentative_[sm] = static_cast<std::uint16_t>(tentative_[sm] + taken[sm]);
  }
  ++reserved_;
  ++tentative_cgas_;
}

void GpcRegisters::revert() {
  for (std::size_t sm = 0; sm < launched_.size(); ++sm) {
    launched_[sm] = static_cast<std::uint16_t>(launched_[sm] - tentative_[sm]);
  }
  tentative_.fill(0);
  reserved_ -= tentative_cgas_;
  tentative_cgas_ = 0;
}

GpcSlots GpcRegisters::left() const {
  GpcSlots left{};
  for (std::size_t sm = 0; sm < left.size(); ++sm) left[sm] = static_cast<std::uint16_t>(free_[sm] - launched_[sm]);
  return left;
}

GpcModel::GpcModel(const arch::Topology& topology, std::uint32_t gpc, const std::vector<std::uint32_t>& sm_priority,
                   SmPolicy& load_balancing, SmPolicy& multicast, DomainPolicy& cpc_policy)
    : gpc_(topology.gpc(gpc)),
      gpc_id_(gpc),
      load_balancing_(load_balancing),
      multicast_policy_(multicast),
      cpc_policy_(cpc_policy),
      cpcs_(gpc_.cpcs),
      cpc_order_(gpc_.cpcs),
      answers_(gpc_.cpcs) {
  if (!multicast.one_per_sm()) {
    throw InputError("gpu.cwd.multicast names a policy that can put several CTAs of a CGA on one SM",
                     "multicast mode needs one that never does, such as tpc_pairs");
  }
  std::iota(cpc_order_.begin(), cpc_order_.end(), 0U);
  for (const std::uint32_t id : sm_priority) {
    HEDDLE_CHECK(id < topology.sms(), "the SM priority order names an SM that the machine does not have");
    const arch::Topology::Sm& sm = topology.sm(id);
    if (sm.gpc != gpc) continue;
    priority_.push_back(sm.in_gpc);
    whole_.members |= bits::one(sm.in_gpc);
    cpcs_[sm.cpc].members |= bits::one(sm.in_gpc);
  }
  HEDDLE_CHECK(priority_.size() == gpc_.sms && bits::count(whole_.members) == gpc_.sms,
               "the SM priority order does not name every SM of the GPC once");
}

void GpcModel::begin(const GpcSlots& free, const GpcCgaShape& shape, bool multicast, std::uint32_t cgas,
                     const protocol::WaitingWork& waiting) {
  HEDDLE_CHECK(shape.ctas > 0, "a GPC_CGA without CTAs");
  HEDDLE_CHECK(shape.cpc_ctas == 0 || shape.ctas % shape.cpc_ctas == 0,
               "a GPC_CGA that does not consist of whole CPC_CGAs");
  GpcSlots own{};  // nothing beyond the SMs of the GPC is free
  std::copy_n(free.begin(), gpc_.sms, own.begin());
  registers_.begin(own);
  shape_ = shape;
  multicast_ = multicast;
  limit_ = cgas;
  waiting_ = waiting;
  open_ = false;
}

GpcReply GpcModel::query() {
  HEDDLE_CHECK(!open_, "a query while the last answer is neither reserved nor cancelled");
  masks_.clear();
  if (registers_.reserved() >= limit_) return {};
  offered_ = registers_.left();
  taken_.fill(0);
  const GpcReply reply = shape_.cpc_ctas == 0 ? query_gpc() : query_cpcs();
  open_ = reply.answer.valid;
  return reply;
}

GpcReply GpcModel::query_gpc() {
  GpcReply reply;
  reply.answer = ask(whole_, shape_.ctas);
  reply.steps = whole_.choice.steps;
  reply.prefix_levels = whole_.prefix_levels;
  if (reply.answer.valid) take(whole_);
  return reply;
}

// CPC_CGAs one after another, each where it is fastest (CWD-17). CPCs answer in parallel, so that the slowest counts.
GpcReply GpcModel::query_cpcs() {
  GpcReply reply;
  reply.answer.speed = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t c = 0; c < cpcs_.size(); ++c) answers_[c] = ask(cpcs_[c], shape_.cpc_ctas);
  for (std::uint32_t placed = 0; placed < shape_.ctas; placed += shape_.cpc_ctas) {
    std::uint32_t slowest = 0;
    std::uint32_t levels = 0;
    for (const Part& cpc : cpcs_) {
      slowest = std::max(slowest, cpc.choice.steps);
      levels = std::max(levels, cpc.prefix_levels);
    }
    reply.steps += slowest;
    reply.prefix_levels += levels;
    chosen_.clear();
    cpc_policy_.choose({answers_, cpc_order_, 1, shape_.cpc_ctas, arch::CgaLevel::cpc, gpc_id_, waiting_}, chosen_);
    if (chosen_.empty()) {
      reply.answer = {false, 0, total_free({gpc_, whole_.members, registers_.left(), priority_})};
      return reply;
    }
    const std::uint32_t home = chosen_.front();
    HEDDLE_CHECK(chosen_.size() == 1 && home < cpcs_.size() && answers_[home].valid,
                 "the domain policy did not choose one valid CPC");
    // The smallest of all is the last one with the policies of the specification in load-balancing mode. With others,
    // and where multicast takes whole TPCs that are loaded before emptier broken ones, an earlier one can be smaller,
    // and CWD-12 asks for the smallest.
    reply.answer.speed = std::min(reply.answer.speed, answers_[home].speed);
    take(cpcs_[home]);
    // The others would answer as before.
    if (placed + shape_.cpc_ctas < shape_.ctas) answers_[home] = ask(cpcs_[home], shape_.cpc_ctas);
  }
  reply.answer.valid = true;
  reply.answer.free = total_free({gpc_, whole_.members, registers_.left(), priority_});
  return reply;
}

DomainAnswer GpcModel::ask(Part& part, std::uint32_t ctas) {
  part.choice.masks.clear();
  part.choice.steps = 0;
  part.choice.counts_prefix = false;
  part.used = 0;
  part.prefix_levels = 0;
  const SmView view{gpc_, part.members, offered_, priority_, gpc_id_, waiting_};
  SmPolicy& policy = multicast_ ? multicast_policy_ : load_balancing_;
  const std::uint32_t free = total_free(view);
  if (!policy.choose(view, ctas, part.choice)) return {false, 0, free};

  GpcSlots given{};
  std::uint32_t placed = 0;
  for (const std::uint64_t mask : part.choice.masks) {
    HEDDLE_CHECK(mask != 0 && (mask & ~part.members) == 0, "the SM policy left its domain");
    HEDDLE_CHECK(!multicast_ || (mask & part.used) == 0, "the SM policy put two CTAs of a multicast CGA on an SM");
    bits::for_each(mask, [&given](std::uint32_t sm) { ++given[sm]; });
    part.used |= mask;
    placed += bits::count(mask);
  }
  HEDDLE_CHECK(placed == ctas, "the SM policy placed more or fewer CTAs than asked for");
  std::uint32_t speed = std::numeric_limits<std::uint32_t>::max();
  bool fits = true;
  bits::for_each(part.used, [&](std::uint32_t sm) {
    fits = fits && given[sm] <= offered_[sm];
    speed = std::min<std::uint32_t>(speed, static_cast<std::uint32_t>(offered_[sm]) - given[sm]);
  });
  HEDDLE_CHECK(fits, "the SM policy placed more CTAs on an SM than it has free slots");
  if (part.choice.counts_prefix) part.prefix_levels = 2 * tree_levels(bits::count(part.members));
  return {true, speed, free};
}

void GpcModel::take(const Part& part) {
  for (const std::uint64_t mask : part.choice.masks) {
    masks_.push_back(mask);
    bits::for_each(mask, [this](std::uint32_t sm) {
      ++taken_[sm];
      --offered_[sm];
    });
  }
  // One CTA of the whole GPC_CGA per SM, not one of each CPC_CGA (CWD-16).
  if (multicast_) bits::for_each(part.used, [this](std::uint32_t sm) { offered_[sm] = 0; });
}

void GpcModel::reserve() {
  HEDDLE_CHECK(open_, "a reservation without a valid answer");
  registers_.reserve(taken_);
  open_ = false;
}

void GpcModel::cancel() {
  HEDDLE_CHECK(open_, "a cancellation without a valid answer");
  open_ = false;
}

void GpcModel::accept() {
  HEDDLE_CHECK(!open_, "accepted while the last answer is neither reserved nor cancelled");
  registers_.accept();
}

void GpcModel::revert() {
  HEDDLE_CHECK(!open_, "reverted while the last answer is neither reserved nor cancelled");
  registers_.revert();
}

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
  disabled_tpcs_ += enabled ? ~std::uint32_t{0} : 1;
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
  disabled_tpcs_ = 0;
  expected_ = preloaded_;
  for (Task& task : tasks_) task.open = false;
  open_.clear();
}

}  // namespace heddle::cwd
