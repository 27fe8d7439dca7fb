#include "task/tmd_supply.h"

#include "arch/little_endian.h"

namespace heddle::task {

namespace tmd = arch::tmd;

void TmdSupply::request(const Task& task) {
  if (task.head) {
    waiting_.push_head(task.packet.priority, task.operation());
  } else {
    waiting_.push(task.packet.priority, task.source, task.operation());
  }
  prepare_some();
}

// A task that is more urgent than all that hold a TMD is let through, and so is a single one for the head of its list,
// which those that hold one are behind.
void TmdSupply::prepare_some() {
  while (!waiting_.empty()) {
    const std::int32_t priority = waiting_.priority_at(0);
    const std::size_t places = places_ + (waiting_.head_first() ? 1 : 0);
    if (holding_.size() >= places && priority <= *holding_.rbegin()) return;
    prepare(tasks_.at(waiting_.take()));
  }
}

void TmdSupply::prepare(const Task& task) {
  holding_.insert(task.packet.priority);
  RecordLine line{};
  arch::put_number(line, tmd::kGridX, 4, task.packet.grid.x);
  arch::put_number(line, tmd::kGridY, 4, task.packet.grid.y);
  arch::put_number(line, tmd::kGridZ, 4, task.packet.grid.z);
  arch::put_number(line, tmd::kPriority, 4, static_cast<std::uint32_t>(task.packet.priority));
  scheduler_.enter(prepare_chain(memory_, line, task.operation()));
}

void TmdSupply::sent(const Task& task) {
  holding_.erase(holding_.find(task.packet.priority));
  prepare_some();
}

void TmdSupply::reset() {
  waiting_.clear();
  holding_.clear();
}

}  // namespace heddle::task
