// Ends: from the run of a task, or the exit of a CTA, up through everything that is complete with it (TSK-09, TSK-10).
#include "arch/little_endian.h"
#include "common/error.h"
#include "task/nested_chain.h"

namespace heddle::task {

using arch::LaunchMode;
using EffectKind = ChainEffect::Kind;
namespace tmd = arch::tmd;

void NestedChain::answer_end(std::uint64_t old) {
  switch (at_) {
    case At::read_shared:
      context_ = old;
      at_ = context_ != 0 ? At::drop_shared : At::drop_open;
      return;
    case At::drop_shared:
      // With the last of the context's work its share of the task's open contexts goes as well.
      if (arch::work_of(old) == 1) {
        drops_ = 2;
        walk_ = arch::GiveWalk(memory_.contexts, context_);
        at_ = At::give_context;
      } else {
        at_ = At::drop_open;
      }
      return;
    case At::drop_open:
      at_ = old == drops_ ? At::read_ended : At::over;
      drops_ = 1;
      return;
    case At::drop_work:
      dropped_work(old);
      return;
    case At::exchange_home:
      woken(old);
      return;
    case At::read_owner:
      record_ = old;
      tails_over_ = false;
      walk_ = arch::GiveWalk(memory_.contexts, context_);
      at_ = At::give_context;
      return;
    default:
      HEDDLE_CHECK(false, "a value for a chain that did not ask for one");
  }
}

// Nothing of it is open. Its tail launches come before its end.
void NestedChain::read_ended(const RecordLine& line) {
  child_ = child_record(line);
  const std::uint64_t tail = arch::get_64(line, tmd::kTailFirst);
  if (tail != 0 && !tails_over_) {
    ChainEffect& start = effect(EffectKind::start, tail);
    start.owner = record_;
    at_ = At::over;
    return;
  }
  complete();
}

// A task of the host has no context, and no queue.
void NestedChain::complete() {
  if (child_.context == 0 || child_.mode == LaunchMode::fire_and_forget) {
    left_queue(0);
    return;
  }
  walk_ = arch::CompleteWalk(last_task(), record_);
  at_ = At::leave_queue;
}

void NestedChain::left_queue(std::uint64_t next) {
  const bool tail = child_.context != 0 && child_.mode == LaunchMode::tail;
  next_tail_ = tail && next != 0;
  if (next != 0) {
    ChainEffect& start = effect(EffectKind::start, next);
    start.behind = record_;
    if (tail) start.owner = child_.context;
  }
  effect(EffectKind::completed, record_);
  walk_ = arch::GiveWalk(memory_.tasks, record_);
  at_ = At::give_record;
}

void NestedChain::gave_record() {
  if (child_.context == 0 || next_tail_) {
    at_ = At::over;
  } else if (child_.mode == LaunchMode::tail) {
    record_ = child_.context;  // the last of the tail launches of its owner, which is complete with it
    tails_over_ = true;
    at_ = At::read_ended;
  } else {
    context_ = child_.context;
    at_ = At::drop_work;
  }
}

void NestedChain::dropped_work(std::uint64_t old) {
  const std::uint64_t work = arch::work_of(old) - 1;
  if (work == 0) {
    at_ = At::read_owner;
  } else if (work == 1 && arch::waiters_of(old) > 0) {
    wake();
  } else {
    at_ = At::over;
  }
}

// A shared context is nowhere: all SMs are told.
void NestedChain::wake() {
  at_ = At::exchange_home;
  if (!memory_.shared_contexts) return;
  effect(EffectKind::wake, context_).sm = kAllSms;
  at_ = At::over;
}

void NestedChain::woken(std::uint64_t home) {
  at_ = At::over;
  if (home == arch::kHomeWoken) return;  // somebody has woken it already
  if (arch::is_saved_home(home)) {
    owner_ = arch::save_area_of(home);
    at_ = At::read_area;
    return;
  }
  effect(EffectKind::wake, context_).sm = arch::sm_of_home(home);
}

}  // namespace heddle::task
