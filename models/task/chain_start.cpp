// Chains that lead up to a task: its TMD is read (TSK-06), or it is given one with its shared context (TSK-13, TSK-15);
// and those of its second half, before it is sent and after its eviction (TSK-01, TSK-03).
#include <optional>
#include <utility>
#include <variant>

#include "arch/address_map.h"
#include "arch/brought_code.h"
#include "arch/byte_codec.h"
#include "arch/kernel_object.h"
#include "task/launch_chain.h"
#include "task/task_params.h"

namespace heddle::task {

namespace tmd = arch::tmd;
namespace context = arch::context;
using arch::MemoryStep;
using StepKind = arch::MemoryStep::Kind;

namespace {

class StartChain final : public LaunchChain {
 public:
  StartChain(std::uint64_t record, ObjectSpaces spaces) : record_(record), spaces_(std::move(spaces)) {}

  ChainAccess access() const override {
    switch (at_) {
      case At::read_record:
        return ChainAccess::read_of(record_);
      case At::read_object:
        return ChainAccess::read_of(child_.kernel, space_);
      case At::read_code:
        return ChainAccess::read_of(code_.address(code_line_), space_);
      case At::fire:
        return ChainAccess::step_of(std::get<arch::FireSteps>(mark_).step());
      case At::enlist:
        return ChainAccess::step_of(std::get<arch::EnlistSteps>(mark_).step());
      case At::read_parent:
        return ChainAccess::step_of({StepKind::read, child_.context + context::kOwner});
      case At::over:
        break;
    }
    return {};
  }

  void answer_line(const RecordLine& line) override {
    if (at_ == At::read_object) {
      object_ = line;
      object_read();
      return;
    }
    if (at_ == At::read_code) {
      code_.take(code_line_, line);
      if (++code_line_ == code_.lines()) all_known();
      return;
    }
    line_ = line;
    child_ = child_record(line);
    if (child_.kind != arch::RecordKind::task) {
      begin_mark();
      return;
    }
    at_ = At::read_parent;
    if (child_.mode == arch::LaunchMode::tail) parent_known(child_.context);
  }

  void answer_word(std::uint64_t old) override {
    switch (at_) {
      case At::fire:
        fired(old);
        return;
      case At::enlist:
        enlisted(old);
        return;
      default:
        parent_known(old);
    }
  }

  // A kernel object that cannot be read is for task management to refuse; without its TMD the task is lost.
  void failed() override {
    if (at_ == At::read_object) {
      readable_ = false;
      all_known();
      return;
    }
    if (at_ == At::read_code) {
      all_known();
      return;
    }
    effect(AccessFailed{record_});
    at_ = At::over;
  }

 private:
  enum class At : std::uint8_t { read_record, fire, enlist, read_parent, read_object, read_code, over };

  void begin_mark() {
    if (child_.kind == arch::RecordKind::event_record) {
      mark_ = arch::FireSteps(record_);
      at_ = At::fire;
    } else {
      mark_ = arch::EnlistSteps(record_, arch::get_64(line_, tmd::kAwaited));
      at_ = At::enlist;
    }
  }

  // The waits that it lets go, and then the record itself.
  void fired(std::uint64_t old) {
    auto& steps = std::get<arch::FireSteps>(mark_);
    steps.answer(old);
    if (steps.released() != 0) effect(MarkOver{steps.released()});
    if (!steps.over()) return;
    effect(MarkOver{record_});
    at_ = At::over;
  }

  void enlisted(std::uint64_t old) {
    auto& steps = std::get<arch::EnlistSteps>(mark_);
    steps.answer(old);
    if (!steps.over()) return;
    if (steps.passed()) {
      effect(MarkOver{record_});
    } else {
      const std::uint64_t awaited = arch::record_of_handle(arch::get_64(line_, tmd::kAwaited));
      effect(EventAwaited{record_, awaited, arch::get_64(line_, tmd::kGrid)});
    }
    at_ = At::over;
  }

  // MEM-04: the object lies in the address space of who launches, as that of a packet does.
  void parent_known(std::uint64_t parent) {
    parent_ = parent;
    space_ = spaces_(parent);
    readable_ =
        child_.kernel != 0 && child_.kernel % arch::kKernelObjectBytes == 0 && !arch::in_host_window(child_.kernel);
    at_ = At::read_object;
    if (!readable_) all_known();
  }

  // What is wrong with the object, task management says.
  void object_read() {
    arch::KernelObject object;
    if (arch::decode(object_, object).ok() && object.code.any()) {
      code_ = arch::CodeReading(object.code);
      at_ = At::read_code;
    } else {
      all_known();
    }
  }

  void all_known() {
    effect(ChildRead{record_, parent_, line_, object_, readable_, std::move(code_)});
    at_ = At::over;
  }

  At at_ = At::read_record;
  const std::uint64_t record_;
  const ObjectSpaces spaces_;
  ChildRecord child_;
  std::uint64_t parent_ = 0;
  std::optional<std::uint8_t> space_;
  RecordLine line_{};
  RecordLine object_{};
  bool readable_ = true;
  arch::CodeReading code_;
  std::uint32_t code_line_ = 0;
  std::variant<std::monostate, arch::FireSteps, arch::EnlistSteps> mark_;
};

// A TMD leaves its pool and is written; where contexts are shared by a grid, the context comes before. A child has its
// TMD already, and only the context is made.
class PrepareChain final : public LaunchChain {
 public:
  PrepareChain(const arch::LaunchMemory& memory, NewRecord record, std::uint32_t task)
      : memory_(memory), task_(task), take_(memory.tasks), new_(std::move(record)), line_(new_.first) {
    arch::put_number(line_, tmd::kOpen, 8, shares() ? 2 : 1);
  }
  PrepareChain(const arch::LaunchMemory& memory, std::uint64_t record, std::uint32_t task)
      : memory_(memory), task_(task), at_(At::take_context), take_(memory.contexts), record_(record), child_(true) {}

  ChainAccess access() const override {
    switch (at_) {
      case At::take_record:
      case At::take_context:
        return ChainAccess::step_of(take_.step());
      case At::write_context:
        return ChainAccess::write_of(context_ + context_written_, context_line_);
      case At::write_record:
        return ChainAccess::write_of(record_, line_);
      case At::write_second:
        return ChainAccess::write_of(second_half_of(new_.all, record_), *new_.second);
      case At::write_shared:
        return ChainAccess::step_of({StepKind::write, record_ + tmd::kSharedContext, context_});
      case At::add_open:
        return ChainAccess::step_of({StepKind::add, record_ + tmd::kOpen, 1});
      case At::over:
        break;
    }
    return {};
  }

  void answer_word(std::uint64_t old) override {
    switch (at_) {
      case At::take_record:
      case At::take_context:
        take_.answer(old);
        if (take_.over()) taken(take_.record());
        return;
      case At::write_context:
        context_written_ += arch::kRecordBytes;
        context_line_ = {};
        if (context_written_ < context::bytes(memory_.tmdqs)) return;
        at_ = child_ ? At::write_shared : At::write_record;
        return;
      case At::write_shared:
        at_ = At::add_open;
        return;
      case At::write_record:
        if (new_.second) {
          at_ = At::write_second;
          return;
        }
        [[fallthrough]];
      default:
        effect(RecordPrepared{record_, task_});
        at_ = At::over;
        return;
    }
  }

  void failed() override {
    effect(AccessFailed{record_ != 0 ? record_ : context_});
    at_ = At::over;
  }

 private:
  enum class At : std::uint8_t {
    take_record,
    take_context,
    write_context,
    write_record,
    write_second,
    write_shared,
    add_open,
    over,
  };

  bool shares() const { return memory_.shared_contexts && new_.launches; }

  // A task of the host waits for a record. A child runs without a context: its launches find none.
  void taken(std::uint64_t what) {
    if (what == 0 && child_) {
      effect(RecordPrepared{record_, task_});
      at_ = At::over;
      return;
    }
    if (what == 0) {
      take_ = arch::TakeSteps(at_ == At::take_record ? memory_.tasks : memory_.contexts, true);
      return;
    }
    if (at_ == At::take_record) {
      record_ = what;
      if (new_.second) arch::put_number(line_, tmd::kKernel, 8, second_half_of(new_.all, record_));
      at_ = At::write_record;
      if (!shares()) return;
      take_ = arch::TakeSteps(memory_.contexts);
      at_ = At::take_context;
      return;
    }
    context_ = what;
    arch::put_number(context_line_, context::kWork, 8, 1);
    arch::put_number(context_line_, context::kOwner, 8, record_);
    if (!child_) arch::put_number(line_, tmd::kSharedContext, 8, context_);
    at_ = At::write_context;
  }

  const arch::LaunchMemory memory_;
  const std::uint32_t task_;
  At at_ = At::take_record;
  arch::TakeSteps take_;
  std::uint64_t record_ = 0;
  std::uint64_t context_ = 0;
  std::uint64_t context_written_ = 0;  // bytes
  const bool child_ = false;
  const NewRecord new_;
  RecordLine line_{};
  RecordLine context_line_{};  // the next of the context
};

class ReadChain final : public LaunchChain {
 public:
  ReadChain(std::uint64_t first, std::uint64_t second, std::uint32_t task)
      : at_(first != 0 ? At::first : At::second), first_(first), second_(second) {
    read_.task = task;
  }

  ChainAccess access() const override {
    if (at_ == At::over) return {};
    return ChainAccess::read_of(at_ == At::first ? first_ : second_);
  }
  // The second half is where the first one says.
  void answer_line(const RecordLine& line) override {
    if (at_ == At::first) {
      read_.first = line;
      at_ = At::second;
      if (child_record(line).kernel != second_) failed();
      return;
    }
    read_.second = line;
    effect(read_);
    at_ = At::over;
  }
  void failed() override {
    read_.ok = false;
    effect(read_);
    at_ = At::over;
  }

 private:
  enum class At : std::uint8_t { first, second, over };

  At at_;
  const std::uint64_t first_;
  const std::uint64_t second_;
  RecordRead read_;
};

class ProgressChain final : public LaunchChain {
 public:
  ProgressChain(std::uint64_t record, const std::array<ProgressWord, 2>& words, std::uint32_t task)
      : record_(record), words_(words), task_(task) {}

  ChainAccess access() const override {
    if (at_ == words_.size()) return {};
    return ChainAccess::step_of({StepKind::write, words_[at_].address, words_[at_].value});
  }
  void answer_word(std::uint64_t) override {
    if (++at_ == words_.size()) effect(ProgressWritten{task_});
  }
  void failed() override {
    effect(AccessFailed{record_});
    at_ = words_.size();
  }

 private:
  const std::uint64_t record_;
  const std::array<ProgressWord, 2> words_;
  const std::uint32_t task_;
  std::size_t at_ = 0;
};

class ReleaseChain final : public LaunchChain {
 public:
  ReleaseChain(const arch::LaunchMemory& memory, std::uint64_t record) : record_(record), give_(memory.tasks, record) {}

  ChainAccess access() const override {
    return over_ || give_.over() ? ChainAccess{} : ChainAccess::step_of(give_.step());
  }
  void answer_word(std::uint64_t old) override { give_.answer(old); }
  void failed() override {
    effect(AccessFailed{record_});
    over_ = true;
  }

 private:
  const std::uint64_t record_;
  arch::GiveSteps give_;
  bool over_ = false;
};

}  // namespace

ChainPtr start_chain(std::uint64_t record, ObjectSpaces spaces) {
  return std::make_unique<StartChain>(record, std::move(spaces));
}

ChainPtr prepare_chain(const arch::LaunchMemory& memory, NewRecord record, std::uint32_t task) {
  return std::make_unique<PrepareChain>(memory, std::move(record), task);
}

ChainPtr read_chain(std::uint64_t first, std::uint64_t second, std::uint32_t task) {
  return std::make_unique<ReadChain>(first, second, task);
}

ChainPtr progress_chain(std::uint64_t record, const std::array<ProgressWord, 2>& words, std::uint32_t task) {
  return std::make_unique<ProgressChain>(record, words, task);
}

ChainPtr release_chain(const arch::LaunchMemory& memory, std::uint64_t record) {
  return std::make_unique<ReleaseChain>(memory, record);
}

ChainPtr share_chain(const arch::LaunchMemory& memory, std::uint64_t record, std::uint32_t task) {
  return std::make_unique<PrepareChain>(memory, record, task);
}

}  // namespace heddle::task
