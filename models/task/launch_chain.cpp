// What all chains have in common, the record that they read, and the chains of queues.
#include "task/launch_chain.h"

#include <utility>

#include "arch/little_endian.h"
#include "common/error.h"

namespace heddle::task {

using StepKind = arch::MemoryStep::Kind;
namespace tmd = arch::tmd;

ChildRecord child_record(const RecordLine& line) {
  const std::uint32_t flags = arch::get_32(line, tmd::kFlags);
  ChildRecord child;
  child.context = arch::get_64(line, tmd::kContext);
  child.kernel = arch::get_64(line, tmd::kKernel);
  child.grid = {arch::get_32(line, tmd::kGridX), arch::get_32(line, tmd::kGridY), arch::get_32(line, tmd::kGridZ)};
  child.tmdq = flags & 0xFF;
  child.mode = static_cast<arch::LaunchMode>(flags >> 8 & 3);
  child.head = (flags >> 10 & 1) != 0;
  child.stream = flags >> 16;
  child.priority = static_cast<std::int32_t>(arch::get_32(line, tmd::kPriority));
  child.depth = arch::get_32(line, tmd::kDepth);
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

namespace {

// One access to the line of a queue (TSK-05).
class QueueChain final : public LaunchChain {
 public:
  enum class At : std::uint8_t { find, close, stop, over };

  QueueChain(At at, std::uint64_t queue, std::uint64_t tickets) : at_(at), queue_(queue), tickets_(tickets) {}

  ChainAccess access() const override {
    const std::uint64_t word = queue_ + arch::queue::kTickets;
    switch (at_) {
      case At::find:
        return ChainAccess::read_of(queue_);
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
    QueueFound found{queue_, std::nullopt};
    if (geometry.any() && open) found.geometry = geometry;
    effect(found);
    at_ = At::over;
  }

  void answer_word(std::uint64_t old) override {
    // An appender whose ticket is above closes nothing; somebody else may have closed the queue already.
    if (at_ == At::close) effect(QueueClosed{queue_, (old & ~arch::kQueueClosed) == tickets_});
    at_ = At::over;
  }

  void failed() override {
    if (at_ == At::find) {
      effect(QueueFound{queue_, std::nullopt});
    } else {
      effect(AccessFailed{queue_});
    }
    at_ = At::over;
  }

 private:
  At at_;
  const std::uint64_t queue_;
  const std::uint64_t tickets_;
};

}  // namespace

ChainPtr find_queue_chain(std::uint64_t queue) { return std::make_unique<QueueChain>(QueueChain::At::find, queue, 0); }
ChainPtr close_queue_chain(std::uint64_t queue, std::uint64_t tickets) {
  return std::make_unique<QueueChain>(QueueChain::At::close, queue, tickets);
}
ChainPtr stop_queue_chain(std::uint64_t queue) { return std::make_unique<QueueChain>(QueueChain::At::stop, queue, 0); }

}  // namespace heddle::task
