#include "task/nested_chain.h"

#include <type_traits>
#include <utility>

#include "arch/little_endian.h"
#include "common/error.h"

namespace heddle::task {

using arch::LaunchMode;
using arch::MemoryStep;
using StepKind = arch::MemoryStep::Kind;
using EffectKind = ChainEffect::Kind;
namespace tmd = arch::tmd;
namespace context = arch::context;

namespace {

constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};

}  // namespace

ChildRecord child_record(const RecordLine& line) {
  const std::uint32_t flags = arch::get_32(line, tmd::kFlags);
  ChildRecord child;
  child.context = arch::get_64(line, tmd::kContext);
  child.kernel = arch::get_64(line, tmd::kKernel);
  child.grid = {arch::get_32(line, tmd::kGridX), arch::get_32(line, tmd::kGridY), arch::get_32(line, tmd::kGridZ)};
  child.tmdq = flags & 0xFF;
  child.mode = static_cast<LaunchMode>(flags >> 8 & 3);
  child.head = (flags >> 10 & 1) != 0;
  child.stream = flags >> 16;
  child.priority = static_cast<std::int32_t>(arch::get_32(line, tmd::kPriority));
  child.depth = arch::get_32(line, tmd::kDepth);
  return child;
}

NestedChain NestedChain::start(const arch::NestedMemory& memory, std::uint64_t record, std::uint64_t owner) {
  NestedChain chain(memory, At::read_record);
  chain.record_ = record;
  chain.owner_ = owner;
  return chain;
}

NestedChain NestedChain::prepare(const arch::NestedMemory& memory, const RecordLine& line, std::uint32_t task) {
  NestedChain chain(memory, At::take_record);
  chain.task_ = task;
  chain.line_ = line;
  arch::put_number(chain.line_, tmd::kOpen, 8, memory.shared_contexts ? 2 : 1);
  chain.walk_ = arch::TakeWalk(memory.tasks);
  return chain;
}

NestedChain NestedChain::share(const arch::NestedMemory& memory, std::uint64_t record, std::uint32_t task) {
  NestedChain chain(memory, At::take_context);
  chain.task_ = task;
  chain.record_ = record;
  chain.shares_ = true;
  chain.walk_ = arch::TakeWalk(memory.contexts);
  return chain;
}

NestedChain NestedChain::ended(const arch::NestedMemory& memory, std::uint64_t record) {
  NestedChain chain(memory, memory.shared_contexts ? At::read_shared : At::drop_open);
  chain.record_ = record;
  return chain;
}

NestedChain NestedChain::leave(const arch::NestedMemory& memory, std::uint64_t context) {
  NestedChain chain(memory, At::drop_work);
  chain.context_ = context;
  return chain;
}

NestedChain NestedChain::find_queue(std::uint64_t queue) {
  NestedChain chain(At::find_queue);
  chain.record_ = queue;
  return chain;
}

NestedChain NestedChain::close_queue(std::uint64_t queue, std::uint64_t tickets) {
  NestedChain chain(At::close_queue);
  chain.record_ = queue;
  chain.tickets_ = tickets;
  return chain;
}

NestedChain NestedChain::stop_queue(std::uint64_t queue) {
  NestedChain chain(At::stop_queue);
  chain.record_ = queue;
  return chain;
}

std::uint64_t NestedChain::last_task() const {
  if (child_.mode == LaunchMode::tail) return child_.context + tmd::kTailLast;
  return child_.context + context::kTmdqs + 8 * std::uint64_t{child_.tmdq};
}

MemoryStep NestedChain::word() const {
  switch (at_) {
    case At::write_owner:
      return {StepKind::write, record_ + tmd::kContext, owner_};
    case At::read_parent:
      return {StepKind::read, child_.context + context::kOwner};
    case At::write_shared:
      return {StepKind::write, record_ + tmd::kSharedContext, context_};
    case At::add_open:
      return {StepKind::add, record_ + tmd::kOpen, 1};
    case At::read_shared:
      return {StepKind::read, record_ + tmd::kSharedContext};
    case At::drop_shared:
    case At::drop_work:
      return {StepKind::add, context_ + context::kWork, kMinusOne};
    case At::drop_open:
      return {StepKind::add, record_ + tmd::kOpen, std::uint64_t{0} - drops_};
    case At::exchange_home:
      return {StepKind::exchange, context_ + context::kHome, arch::kHomeWoken};
    case At::read_owner:
      return {StepKind::read, context_ + context::kOwner};
    case At::close_queue:
      return {StepKind::compare_exchange, record_ + arch::queue::kTickets, tickets_ | arch::kQueueClosed, tickets_};
    case At::stop_queue:
      return {StepKind::add, record_ + arch::queue::kTickets, arch::kQueueClosed};
    default:
      break;
  }
  return std::visit(
      [](const auto& walk) -> MemoryStep {
        if constexpr (std::is_same_v<std::decay_t<decltype(walk)>, std::monostate>) {
          return {};
        } else {
          return walk.step();
        }
      },
      walk_);
}

ChainAccess NestedChain::access() const {
  switch (at_) {
    case At::over:
      return {};
    case At::read_record:
    case At::read_ended:
    case At::find_queue:
      return {ChainAccess::Kind::read_line, {}, record_, nullptr};
    case At::read_object:
      return {ChainAccess::Kind::read_line, {}, child_.kernel, nullptr};
    case At::read_area:
      return {ChainAccess::Kind::read_line, {}, owner_, nullptr};
    case At::write_context:
      return {ChainAccess::Kind::write_line, {}, context_, &other_};
    case At::write_record:
      return {ChainAccess::Kind::write_line, {}, record_, &line_};
    default:
      return {ChainAccess::Kind::step, word(), 0, nullptr};
  }
}

ChainEffect& NestedChain::effect(EffectKind kind, std::uint64_t record) {
  effects_.emplace_back();
  effects_.back().kind = kind;
  effects_.back().record = record;
  return effects_.back();
}

std::vector<ChainEffect> NestedChain::take_effects() { return std::exchange(effects_, {}); }

void NestedChain::answer(const RecordLine& line) {
  switch (at_) {
    case At::read_record:
      line_ = line;
      child_ = child_record(line);
      at_ = At::write_owner;
      if (owner_ == 0) owner_known();
      return;
    case At::read_object:
      other_ = line;
      object_known();
      return;
    case At::read_ended:
      read_ended(line);
      return;
    case At::read_area:
      effect(EffectKind::restore, owner_).line = line;
      at_ = At::over;
      return;
    case At::find_queue: {
      ChainEffect& found = effect(EffectKind::queue_found, record_);
      found.geometry = {arch::get_64(line, arch::queue::kEntries), arch::get_64(line, arch::queue::kCapacity)};
      found.ok = found.geometry.any() && (arch::get_64(line, arch::queue::kTickets) & arch::kQueueClosed) == 0;
      at_ = At::over;
      return;
    }
    default:
      HEDDLE_CHECK(false, "a line for a chain that did not ask for one");
  }
}

// What cannot be read is for the scheduler to judge, unless the task is lost with it.
void NestedChain::failed() {
  switch (at_) {
    case At::read_object:
      readable_ = false;
      object_known();
      return;
    case At::find_queue:
      effect(EffectKind::queue_found, record_).ok = false;
      break;
    default:
      effect(EffectKind::failed, record_ != 0 ? record_ : context_);
      break;
  }
  at_ = At::over;
}

void NestedChain::owner_known() {
  readable_ = child_.kernel != 0 && child_.kernel % arch::kKernelObjectBytes == 0;
  at_ = At::read_object;
  if (!readable_) object_known();
}

void NestedChain::object_known() {
  at_ = At::read_parent;
  if (owner_ != 0) parent_known(owner_);
}

void NestedChain::parent_known(std::uint64_t parent) {
  ChainEffect& read = effect(EffectKind::child_read, record_);
  read.owner = parent;
  read.ok = readable_;
  read.line = line_;
  read.other = other_;
  at_ = At::over;
}

void NestedChain::answer(std::uint64_t old) {
  switch (at_) {
    case At::write_owner:
      owner_known();
      return;
    case At::read_parent:
      parent_known(old);
      return;
    case At::take_record:
    case At::take_context:
    case At::leave_queue:
    case At::give_record:
    case At::give_context:
      answer_walk(old);
      return;
    case At::write_context:
      at_ = shares_ ? At::write_shared : At::write_record;
      return;
    case At::write_shared:
      at_ = At::add_open;
      return;
    case At::write_record:
    case At::add_open:
      effect(EffectKind::prepared, record_).task = task_;
      at_ = At::over;
      return;
    case At::close_queue:
      // Somebody else may have closed it.
      effect(EffectKind::queue_closed, record_).ok = (old & ~arch::kQueueClosed) == tickets_;
      at_ = At::over;
      return;
    case At::stop_queue:
      at_ = At::over;
      return;
    default:
      answer_end(old);
      return;
  }
}

// Once the walk is over it says what it has found.
void NestedChain::answer_walk(std::uint64_t old) {
  bool over = false;
  std::uint64_t result = 0;
  std::visit(
      [&](auto& walk) {
        using Type = std::decay_t<decltype(walk)>;
        if constexpr (!std::is_same_v<Type, std::monostate>) {
          walk.answer(old);
          over = walk.over();
          if constexpr (std::is_same_v<Type, arch::TakeWalk>) result = walk.record();
          if constexpr (std::is_same_v<Type, arch::CompleteWalk>) result = walk.next();
        }
      },
      walk_);
  if (!over) return;
  switch (at_) {
    case At::take_record:
      record_ = result;
      at_ = At::write_record;
      if (memory_.shared_contexts) {
        walk_ = arch::TakeWalk(memory_.contexts);
        at_ = At::take_context;
      }
      return;
    case At::take_context:
      context_ = result;
      other_ = {};
      arch::put_number(other_, context::kWork, 8, 1);
      arch::put_number(other_, context::kOwner, 8, record_);
      if (!shares_) arch::put_number(line_, tmd::kSharedContext, 8, context_);
      at_ = At::write_context;
      return;
    case At::leave_queue:
      left_queue(result);
      return;
    case At::give_record:
      gave_record();
      return;
    default:
      at_ = At::drop_open;  // of the closed context's owner
      return;
  }
}

}  // namespace heddle::task
