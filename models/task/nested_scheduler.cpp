#include "task/nested_scheduler.h"

#include <utility>

#include "arch/little_endian.h"

namespace heddle::task {

using StepKind = arch::MemoryStep::Kind;

NestedScheduler::NestedScheduler(Domain& domain, std::string name, MemoryOut& out, NestedClient& client,
                                 std::uint32_t in_flight, Cycle cycles, Cycle retry)
    : domain_(domain),
      name_(std::move(name)),
      client_(client),
      in_flight_(in_flight),
      cycles_(cycles),
      retry_(retry),
      memory_(domain, out, *this, kAnswer, kSend, protocol::AddressSpace::physical) {}

void NestedScheduler::enter(NestedChain chain) {
  auto slot = static_cast<std::uint32_t>(slots_.size());
  if (free_.empty()) {
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  slots_[slot] = std::make_unique<NestedChain>(std::move(chain));
  waiting_.push_back({slot, true});
  pump();
}

void NestedScheduler::pump() {
  while (active_ < in_flight_ && !waiting_.empty()) {
    const Turn turn = waiting_.front();
    waiting_.pop_front();
    ++active_;
    domain_.schedule_in(turn.first ? cycles_ : 0, *this, kStep, turn.slot);
  }
}

void NestedScheduler::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kAnswer:
      answered(memory_.take(argument));
      return;
    case kSend:
      memory_.send();
      return;
    case kStep:
      step(static_cast<std::uint32_t>(argument));
      return;
    default:
      waiting_.push_back({static_cast<std::uint32_t>(argument), false});
      pump();
      return;
  }
}

void NestedScheduler::step(std::uint32_t slot) {
  const ChainAccess access = slots_[slot]->access();
  switch (access.kind) {
    case ChainAccess::Kind::read_line:
      memory_.read(access.address, arch::kRecordBytes, 0, {slot});
      return;
    case ChainAccess::Kind::write_line:
      memory_.write(access.address, access.line->data(), arch::kRecordBytes, 0, {slot});
      return;
    case ChainAccess::Kind::step:
      do_step(access.step, {slot});
      return;
    case ChainAccess::Kind::none:
      break;
  }
  HEDDLE_CHECK(false, "a chain of the nested scheduler without a step");
}

void NestedScheduler::do_step(const arch::MemoryStep& step, const Tag& tag) {
  switch (step.kind) {
    case StepKind::read:
      memory_.read(step.address, 8, 0, tag);
      return;
    case StepKind::write:
      memory_.write_value(step.address, step.value, 8, 0, tag);
      return;
    case StepKind::exchange:
      memory_.exchange(step.address, step.value, 0, tag);
      return;
    case StepKind::add:
      memory_.add(step.address, step.value, 0, tag);
      return;
    case StepKind::compare_exchange:
      memory_.compare_exchange(step.address, step.compare, step.value, 0, tag);
      return;
    case StepKind::none:
      break;
  }
  HEDDLE_CHECK(false, "a chain of the nested scheduler without a step");
}

void NestedScheduler::answered(const Client::Answer& answer) {
  const std::uint32_t slot = answer.tag.slot;
  NestedChain& chain = *slots_[slot];
  const ChainAccess access = chain.access();
  const bool read = access.kind == ChainAccess::Kind::step && access.step.kind == StepKind::read;
  if (!answer.ok) {
    chain.failed();
  } else if (access.kind == ChainAccess::Kind::read_line) {
    chain.answer(answer.data);
  } else {
    chain.answer(read ? arch::get_64(answer.data, 0) : answer.old);
  }
  const std::vector<ChainEffect> effects = chain.take_effects();
  const bool over = chain.over();
  const ChainAccess next = chain.access();
  const bool again = next.kind == ChainAccess::Kind::step && next.step.again;
  if (over) {
    slots_[slot] = nullptr;
    free_.push_back(slot);
    --active_;
  } else if (again) {
    --active_;
    domain_.schedule_in(retry_, *this, kRetry, slot);
  } else {
    step(slot);
  }
  if (!again) client_.chain_progress();
  for (const ChainEffect& effect : effects) client_.chain_effect(effect);
  pump();
}

void NestedScheduler::reset() {
  memory_.reset();
  slots_.clear();
  free_.clear();
  waiting_.clear();
  active_ = 0;
}

}  // namespace heddle::task
