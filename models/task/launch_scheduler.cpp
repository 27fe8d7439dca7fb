#include "task/launch_scheduler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "arch/byte_codec.h"
#include "arch/gpu_observation.h"
#include "common/error.h"

namespace heddle::task {

using AccessKind = ChainAccess::Kind;
using StepKind = arch::MemoryStep::Kind;

LaunchScheduler::LaunchScheduler(Timebase& timebase, std::string name, ChainMemory& memory, Client& client,
                                 const Costs& costs, const std::string& stat_prefix)
    : timebase_(timebase),
      name_(std::move(name)),
      memory_(memory),
      client_(client),
      costs_(costs),
      stats_(timebase.observation().stats, stat_prefix),
      work_(idle_account(timebase), IdleAccount::Work::chains) {}

void LaunchScheduler::enter(ChainPtr chain) {
  stats_.chains.add();
  const std::uint32_t slot = slots_.take();
  slots_[slot] = std::move(chain);
  waiting_.push_back({slot, true});
  begin_waiting();
}

void LaunchScheduler::begin_waiting() {
  while (active_ < costs_.in_flight && !waiting_.empty()) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    ++active_;
    timebase_.schedule_in(next.first ? costs_.cycles : 0, *this, kStep, next.slot);
  }
  note_active();
}

void LaunchScheduler::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto slot = static_cast<std::uint32_t>(argument);
  if (kind == kStep) {
    access(slot);
    return;
  }
  waiting_.push_back({slot, false});
  begin_waiting();
}

void LaunchScheduler::access(std::uint32_t slot) {
  const ChainAccess access = slots_[slot]->access();
  switch (access.kind) {
    case AccessKind::read_line:
      memory_.read_line(access.address, access.subcontext, slot);
      return;
    case AccessKind::write_line:
      memory_.write_line(access.address, *access.line, slot);
      return;
    case AccessKind::step:
      HEDDLE_CHECK(access.step.kind != StepKind::none, "a chain of the launch scheduler without a step");
      memory_.step(access.step, slot);
      return;
    case AccessKind::none:
      break;
  }
  HEDDLE_CHECK(false, "a chain of the launch scheduler without a step");
}

void LaunchScheduler::answered(const ChainAnswer& answer) {
  const std::uint32_t slot = answer.tag;
  LaunchChain& chain = *slots_[slot];
  const ChainAccess access = chain.access();
  if (!answer.ok) {
    chain.failed();
  } else if (access.kind == AccessKind::read_line) {
    chain.answer_line(answer.data);
  } else {
    const bool read = access.kind == AccessKind::step && access.step.kind == StepKind::read;
    chain.answer_word(read ? arch::get_64(answer.data, 0) : answer.old);
  }
  const std::vector<ChainEffect> effects = chain.take_effects();
  const ChainAccess next = chain.access();
  const bool again = next.kind == AccessKind::step && next.step.again;
  if (next.kind == AccessKind::none) {
    slots_[slot] = nullptr;
    slots_.give_back(slot);
    --active_;
  } else if (again) {
    --active_;
    timebase_.schedule_in(costs_.retry, *this, kRetry, slot);
  } else {
    this->access(slot);
  }
  if (!again) ++timebase_.observation().progress;  // memory has done a step that is not one of waiting
  for (const ChainEffect& effect : effects) client_.chain_effect(effect);
  begin_waiting();
}

void LaunchScheduler::reset() {
  slots_.clear();
  waiting_.clear();
  active_ = 0;
}

void PriorityLists::push(const Urgency& urgency, Source source, Item item) {
  List& list = lists_[urgency];
  std::deque<Item>& items = list.sources[source];
  if (items.empty()) list.turns.push_back(source);
  items.push_back(item);
  ++list.size;
  ++size_;
}

void PriorityLists::push_head(const Urgency& urgency, Item item) {
  List& list = lists_[urgency];
  list.head.push_front(item);
  ++list.size;
  ++size_;
}

std::int32_t PriorityLists::priority_at(std::size_t place) const {
  for (const auto& [urgency, list] : lists_) {
    if (place < list.size) return urgency.priority;
    place -= list.size;
  }
  HEDDLE_CHECK(false, "a place beyond the lists of waiting tasks");
  return 0;
}

PriorityLists::Item PriorityLists::take() {
  const std::optional<Item> item = take_if([](Item) { return true; });
  HEDDLE_CHECK(item, "a task was taken from empty lists");
  return *item;
}

PriorityLists::Item PriorityLists::take_of(Lists::iterator list, std::deque<Source>::iterator turn) {
  List& its = list->second;
  const Source source = *turn;
  its.turns.erase(turn);
  const auto found = its.sources.find(source);
  const Item item = found->second.front();
  found->second.pop_front();
  if (found->second.empty()) {
    its.sources.erase(found);
  } else {
    its.turns.push_back(source);
  }
  left(list);
  return item;
}

bool PriorityLists::remove(const Urgency& urgency, Item item) {
  const auto at = lists_.find(urgency);
  if (at == lists_.end()) return false;
  List& list = at->second;
  if (const auto head = std::find(list.head.begin(), list.head.end(), item); head != list.head.end()) {
    list.head.erase(head);
    left(at);
    return true;
  }
  for (auto turn = list.turns.begin(); turn != list.turns.end(); ++turn) {
    const auto found = list.sources.find(*turn);
    std::deque<Item>& items = found->second;
    const auto place = std::find(items.begin(), items.end(), item);
    if (place == items.end()) continue;
    items.erase(place);
    if (items.empty()) {
      list.sources.erase(found);
      list.turns.erase(turn);
    }
    left(at);
    return true;
  }
  return false;
}

void PriorityLists::left(Lists::iterator list) {
  --size_;
  if (--list->second.size == 0) lists_.erase(list);
}

void PriorityLists::clear() {
  lists_.clear();
  size_ = 0;
}

}  // namespace heddle::task
