// What all chains have in common, the record that they read, and the chains of queues.
#include "task/launch_chain.h"

#include <utility>
#include <variant>

#include "arch/byte_codec.h"
#include "common/error.h"

namespace heddle::task {

namespace tmd = arch::tmd;
namespace context = arch::context;
using arch::LaunchMode;
using StepKind = arch::MemoryStep::Kind;

namespace {

// One access to the line of a queue (TSK-05).
class QueueChain final : public LaunchChain {
 public:
  enum class At : std::uint8_t { find, look, close, stop, over };

  QueueChain(At at, std::uint64_t queue, std::uint64_t tickets = 0, std::uint64_t record = 0, std::uint64_t idle = 0)
      : at_(at), queue_(queue), tickets_(tickets), record_(record), idle_(idle) {}

  ChainAccess access() const override {
    const std::uint64_t word = queue_ + arch::queue::kTickets;
    switch (at_) {
      case At::find:
        return ChainAccess::read_of(queue_);
      case At::look:
        return ChainAccess::step_of({StepKind::read, record_ + tmd::kOpen});
      case At::close:
        return ChainAccess::step_of({StepKind::compare_exchange, word, tickets_ | arch::kQueueClosed, tickets_});
      case At::stop:
        return ChainAccess::step_of({StepKind::add, word, arch::kQueueClosed});
      case At::over:
        break;
    }
    return {};
  }

  void answer_line(const RecordLine& line) override {
    const arch::QueueGeometry geometry{arch::get_64(line, arch::queue::kEntries),
                                       arch::get_64(line, arch::queue::kCapacity)};
    const bool open = (arch::get_64(line, arch::queue::kTickets) & arch::kQueueClosed) == 0;
    QueueFound found{queue_, arch::get_64(line, arch::queue::kEnough) != 0, std::nullopt};
    if (geometry.any() && open) found.geometry = geometry;
    effect(found);
    at_ = At::over;
  }

  void answer_word(std::uint64_t old) override {
    if (at_ == At::look && old <= idle_) {
      at_ = At::close;
      return;
    }
    if (at_ == At::look) effect(QueueClosed{queue_, false, true});
    // An appender whose ticket is above closes nothing; somebody else may have closed the queue already.
    if (at_ == At::close) effect(QueueClosed{queue_, (old & ~arch::kQueueClosed) == tickets_});
    at_ = At::over;
  }

  void failed() override {
    if (at_ == At::find) {
      effect(QueueFound{queue_, false, std::nullopt});
    } else {
      effect(AccessFailed{queue_});
    }
    at_ = At::over;
  }

 private:
  At at_;
  const std::uint64_t queue_;
  const std::uint64_t tickets_;
  const std::uint64_t record_;  // TMD of its task
  const std::uint64_t idle_;    // its kOpen if nothing of it is open but its run
};

constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};

class EndChain final : public LaunchChain {
 public:
  static ChainPtr of_task(const arch::LaunchMemory& memory, std::uint64_t record) {
    return ChainPtr(new EndChain(memory, At::drop_open, record, 0));
  }
  static ChainPtr of_saved(const arch::LaunchMemory& memory, std::uint64_t area, bool cga) {
    auto* chain = new EndChain(memory, cga ? At::read_cga : At::read_area, 0, 0);
    chain->area_ = area;
    return ChainPtr(chain);
  }
  static ChainPtr of_waiters(const arch::LaunchMemory& memory, std::uint64_t context) {
    return ChainPtr(new EndChain(memory, At::exchange_home, 0, context));
  }
  static ChainPtr of_cta(const arch::LaunchMemory& memory, std::uint64_t context) {
    return ChainPtr(new EndChain(memory, At::drop_work, 0, context));
  }

  ChainAccess access() const override;
  void answer_word(std::uint64_t old) override;
  void answer_line(const RecordLine& line) override;
  void failed() override;

 private:
  enum class At : std::uint8_t {
    drop_open,  // of a task
    read_shared,
    drop_shared,
    read_ended,
    leave_queue,
    end_ticket,
    give_record,
    drop_work,  // of a context
    exchange_home,
    read_area,
    wake_cga,
    read_cga,
    give_cga,
    read_owner,
    give_context,
    over,
  };

  EndChain(const arch::LaunchMemory& memory, At at, std::uint64_t record, std::uint64_t context)
      : memory_(memory), at_(at), record_(record), context_(context) {}

  void opened(std::uint64_t left);
  void answer_pool(std::uint64_t old);
  void read_ended(const RecordLine& line);
  void complete();
  void left_queue(std::uint64_t next, bool waited);
  void give_record();
  void gave_record();
  void dropped_work(std::uint64_t old);
  void wake();
  void woken(std::uint64_t home);
  std::uint64_t last_task() const;

  const arch::LaunchMemory memory_;
  At at_;
  std::variant<std::monostate, arch::CompleteSteps, arch::GiveSteps> steps_;  // of the protocol that it is in
  std::uint64_t record_;
  std::uint64_t context_;
  std::uint64_t area_ = 0;
  bool tails_over_ = false;  // the tail launches of `record_` have completed
  bool next_tail_ = false;   // another tail launch of the same grid follows
  ChildRecord child_;        // of `record_`
};

std::uint64_t EndChain::last_task() const {
  if (child_.mode == LaunchMode::tail) return child_.context + tmd::kTailLast;
  return child_.context + context::last_task(child_.tmdq);
}

ChainAccess EndChain::access() const {
  switch (at_) {
    case At::read_shared:
      return ChainAccess::step_of({StepKind::read, record_ + tmd::kSharedContext});
    case At::drop_shared:
    case At::drop_work:
      return ChainAccess::step_of({StepKind::add, context_ + context::kWork, kMinusOne});
    case At::drop_open:
      return ChainAccess::step_of({StepKind::add, record_ + tmd::kOpen, kMinusOne});
    case At::read_ended:
      return ChainAccess::read_of(record_);
    case At::leave_queue:
      return ChainAccess::step_of(std::get<arch::CompleteSteps>(steps_).step());
    case At::end_ticket:
      return ChainAccess::step_of({StepKind::write, record_ + tmd::kFlags, 0});
    case At::give_record:
    case At::give_context:
      return ChainAccess::step_of(std::get<arch::GiveSteps>(steps_).step());
    case At::exchange_home:
      return ChainAccess::step_of(
          {StepKind::exchange, context_ + context::kHome, memory_.shared_contexts ? 0 : arch::kHomeWoken});
    case At::read_area:
    case At::read_cga:
      return ChainAccess::read_of(area_);
    case At::wake_cga:
      return ChainAccess::step_of({StepKind::add, area_ + arch::saved_cga::kWord, arch::kCgaWaker - 1});
    case At::give_cga:
      return ChainAccess::step_of(std::get<arch::GiveSteps>(steps_).step());
    case At::read_owner:
      return ChainAccess::step_of({StepKind::read, context_ + context::kOwner});
    case At::over:
      break;
  }
  return {};
}

void EndChain::answer_line(const RecordLine& line) {
  if (at_ == At::read_ended) {
    read_ended(line);
    return;
  }
  if (at_ == At::read_cga) {
    effect(RestoreCga{area_, line});
    at_ = At::over;
    return;
  }
  effect(RestoreCta{area_, line});
  const std::uint64_t next = memory_.shared_contexts ? arch::get_64(line, arch::saved::kNext) : 0;
  area_ = arch::save_area_of(next);
  if (next == 0) at_ = At::over;
}

void EndChain::failed() {
  effect(AccessFailed{record_ != 0 ? record_ : context_});
  at_ = At::over;
}

void EndChain::answer_word(std::uint64_t old) {
  switch (at_) {
    case At::read_shared:
      context_ = old;
      at_ = context_ != 0 ? At::drop_shared : At::over;
      return;
    case At::drop_shared:
      at_ = At::over;
      if (arch::work_of(old) > 1) return;
      steps_ = arch::GiveSteps(memory_.contexts, context_);
      at_ = At::give_context;
      return;
    case At::drop_open:
      opened(old - 1);
      return;
    case At::end_ticket:
      give_record();
      return;
    case At::drop_work:
      dropped_work(old);
      return;
    case At::exchange_home:
      woken(old);
      return;
    case At::wake_cga:
      // The first of those that wake it brings it back; the last that knows of it gives its record back.
      at_ = arch::cga_wakers(old) == 0 ? At::read_cga : At::over;
      if (arch::cga_references(old) > 1) return;
      steps_ = arch::GiveSteps({memory_.chunks, {}}, area_);
      at_ = At::give_cga;
      return;
    case At::read_owner:
      record_ = old;
      tails_over_ = false;
      steps_ = arch::GiveSteps(memory_.contexts, context_);
      at_ = At::give_context;
      return;
    default:
      answer_pool(old);
      return;
  }
}

// So much of the task is open. If that is its shared context alone, no CTA of it will launch any more: the task leaves
// the context, which closes with the last of its work.
void EndChain::opened(std::uint64_t left) {
  if (left == 0) {
    at_ = At::read_ended;
    return;
  }
  effect(ContextClosed{record_});
  at_ = memory_.shared_contexts && left == 1 ? At::read_shared : At::over;
}

void EndChain::answer_pool(std::uint64_t old) {
  if (auto* complete = std::get_if<arch::CompleteSteps>(&steps_)) {
    complete->answer(old);
    if (!complete->over()) return;
    left_queue(complete->next(), complete->waited());
    return;
  }
  auto& give = std::get<arch::GiveSteps>(steps_);
  give.answer(old);
  if (!give.over()) return;
  if (at_ == At::give_record) {
    gave_record();
  } else if (at_ == At::give_cga) {
    at_ = At::over;
  } else {
    at_ = At::drop_open;  // of the closed context's owner
  }
}

// Nothing of the task is open. Its tail launches come before its end.
void EndChain::read_ended(const RecordLine& line) {
  child_ = child_record(line);
  const std::uint64_t tail = arch::get_64(line, tmd::kTailFirst);
  if (tail != 0 && !tails_over_) {
    effect(ChildReady{tail, 0, record_});
    at_ = At::over;
    return;
  }
  complete();
}

// A task of the host that it has not pushed has no context, and no queue.
void EndChain::complete() {
  if (child_.context == 0 || child_.mode == LaunchMode::fire_and_forget) {
    left_queue(0, false);
    return;
  }
  steps_ = arch::CompleteSteps(last_task(), record_);
  at_ = At::leave_queue;
}

void EndChain::left_queue(std::uint64_t next, bool waited) {
  const bool tail = child_.context != 0 && child_.mode == LaunchMode::tail;
  next_tail_ = tail && next != 0;
  if (next != 0) effect(ChildReady{next, record_, tail ? child_.context : 0, waited});
  effect(TaskCompleted{record_});
  if (child_.waited) {
    at_ = At::end_ticket;
  } else {
    give_record();
  }
}

// The TMD of a task that the host has pushed is the host's own: it uses it again once it knows of the end.
void EndChain::give_record() {
  if (!memory_.tasks.has(record_)) {
    gave_record();
    return;
  }
  steps_ = arch::GiveSteps(memory_.tasks, record_);
  at_ = At::give_record;
}

void EndChain::gave_record() {
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

void EndChain::dropped_work(std::uint64_t old) {
  const std::uint64_t work = arch::work_of(old) - 1;
  if (work == 0) {
    at_ = At::read_owner;
  } else if ((work == 1 && arch::waiters_of(old) > 0) || arch::some_waiters_of(old) > 0) {
    wake();
  } else {
    at_ = At::over;
  }
}

// A shared context has no home: all SMs are told, and all CTAs of it that have been saved come back.
void EndChain::wake() {
  at_ = At::exchange_home;
  if (memory_.shared_contexts) effect(WakeContext{context_, std::nullopt});
}

void EndChain::woken(std::uint64_t home) {
  at_ = At::over;
  if (home == arch::kHomeWoken || (memory_.shared_contexts && home == 0)) return;  // somebody has woken it already
  if (arch::is_saved_home(home)) {
    area_ = arch::save_area_of(home);
    at_ = arch::is_saved_cga(home) ? At::wake_cga : At::read_area;
    return;
  }
  effect(WakeContext{context_, arch::sm_of_home(home)});
}

}  // namespace

ChildRecord child_record(const RecordLine& line) {
  const std::uint32_t flags = arch::get_32(line, tmd::kFlags);
  ChildRecord child;
  child.context = arch::get_64(line, tmd::kContext);
  child.kernel = arch::get_64(line, tmd::kKernel);
  child.grid = {arch::get_32(line, tmd::kGridX), arch::get_16(line, tmd::kGridY), arch::get_16(line, tmd::kGridZ)};
  child.tmdq = flags & 0xFF;
  child.mode = static_cast<arch::LaunchMode>(flags >> 8 & 3);
  child.head = (flags >> 10 & 1) != 0;
  child.waited = (flags >> 11 & 1) != 0;
  child.ticket = arch::get_32(line, tmd::kTicket);
  child.stream = flags >> 16;
  child.priority = static_cast<std::int32_t>(arch::get_32(line, tmd::kPriority));
  child.depth = arch::get_32(line, tmd::kDepth);
  child.kind = static_cast<arch::RecordKind>(flags >> arch::kRecordKindShift & 3);
  child.held_open = (flags >> 13 & 1) != 0;
  if ((flags >> 12 & 1) != 0) {
    child.queue = arch::get_64(line, tmd::kQueue);
    child.entries = arch::get_64(line, tmd::kEntries);
  }
  return child;
}

void LaunchChain::answer_word(std::uint64_t /*old*/) {
  HEDDLE_CHECK(false, "a value for a chain that did not ask for one");
}

void LaunchChain::answer_line(const RecordLine& /*line*/) {
  HEDDLE_CHECK(false, "a line for a chain that did not ask for one");
}

void LaunchChain::effect(ChainEffect effect) { effects_.push_back(std::move(effect)); }

std::vector<ChainEffect> LaunchChain::take_effects() { return std::exchange(effects_, {}); }

ChainPtr find_queue_chain(std::uint64_t queue) { return std::make_unique<QueueChain>(QueueChain::At::find, queue); }
ChainPtr close_queue_chain(const arch::LaunchMemory& memory, std::uint64_t queue, std::uint64_t tickets,
                           std::uint64_t record) {
  using At = QueueChain::At;
  return std::make_unique<QueueChain>(record == 0 ? At::close : At::look, queue, tickets, record,
                                      memory.shared_contexts ? 2 : 1);
}
ChainPtr stop_queue_chain(std::uint64_t queue) { return std::make_unique<QueueChain>(QueueChain::At::stop, queue); }

// Chains of ends: from the run of a task, or the exit of a CTA, up through everything that is complete with it (TSK-09,
// TSK-10).

ChainPtr ended_chain(const arch::LaunchMemory& memory, std::uint64_t record) {
  return EndChain::of_task(memory, record);
}

ChainPtr wake_cga_chain(const arch::LaunchMemory& memory, std::uint64_t record) {
  return EndChain::of_saved(memory, record, true);
}

ChainPtr preempted_chain(const arch::LaunchMemory& memory, std::uint64_t area) {
  return EndChain::of_saved(memory, arch::save_area_of(area), arch::is_saved_cga(area));
}

ChainPtr wake_chain(const arch::LaunchMemory& memory, std::uint64_t context) {
  return EndChain::of_waiters(memory, context);
}

ChainPtr leave_chain(const arch::LaunchMemory& memory, std::uint64_t context) {
  return EndChain::of_cta(memory, context);
}

}  // namespace heddle::task
