#include "task/task_records.h"

#include <algorithm>
#include <utility>

#include "arch/byte_codec.h"
#include "arch/kernel_object.h"

namespace heddle::task {

namespace tmd = arch::tmd;

namespace {

constexpr std::uint64_t kEvicted = 8;
constexpr std::uint32_t kOrderShift = 4;

std::uint64_t progress_word(const protocol::TaskProgress& progress) {
  return progress.size | kEvicted | progress.order << kOrderShift;
}

}  // namespace

TaskRecords::TaskRecords(OpenTasks& tasks, LaunchScheduler& scheduler, const Setup& setup, std::uint32_t places)
    : tasks_(tasks), scheduler_(scheduler), setup_(setup), places_(places), most_out_([&setup, places] {
        const std::uint64_t records = setup.memory.tasks.pool.count;
        const std::uint64_t held = 2 * std::uint64_t{places} + 1;
        return std::max<std::uint64_t>(1, records > held ? (records - held) / 2 : 0);
      }()) {}

void TaskRecords::request(const Task& task) {
  if (task.head) {
    waiting_.push_head(task.urgency(), task.operation());
  } else {
    waiting_.push(task.urgency(), task.source, task.operation());
  }
  prepare_some();
}

// A task that is more urgent than all of its subcontext that hold a TMD is let through, and so is a single one for the
// head of its list, which those that hold one are behind. One that is not keeps those of its subcontext behind it.
void TaskRecords::prepare_some() {
  std::array<bool, arch::kSubcontexts> full{};
  const auto may = [&](std::uint32_t operation) {
    const Task& task = tasks_.at(operation);
    const std::uint32_t subcontext = task.packet.subcontext;
    const std::multiset<std::int32_t>& holding = holding_[subcontext];
    const std::size_t places = places_ + (task.head ? 1 : 0);
    full[subcontext] = full[subcontext] || (holding.size() >= places && task.packet.priority <= *holding.rbegin());
    return !full[subcontext];
  };
  while (const auto next = waiting_.take_if(may)) {
    Task& task = tasks_.at(*next);
    task.tmd.held_priority = task.packet.priority;
    holding_[task.packet.subcontext].insert(task.tmd.held_priority);
    prepare(task);
  }
}

void TaskRecords::sent(const Task& task) {
  std::multiset<std::int32_t>& holding = holding_[task.packet.subcontext];
  holding.erase(holding.find(task.tmd.held_priority));
  prepare_some();
}

void TaskRecords::prepare(const Task& task) {
  NewRecord record;
  record.first = first_half(task);
  if (of_all() || task.packet.resumed) record.second = second_half(task);
  record.all = setup_.memory;
  record.launches = task.launches && !task.brought();
  scheduler_.enter(prepare_chain(setup_.memory.of(task.packet.subcontext), std::move(record), task.operation()));
}

RecordLine TaskRecords::first_half(const Task& task) const {
  RecordLine line{};
  arch::put_number(line, tmd::kGridX, 4, task.packet.grid.x);
  arch::put_number(line, tmd::kGridY, 2, task.packet.grid.y);
  arch::put_number(line, tmd::kGridZ, 2, task.packet.grid.z);
  arch::put_number(line, tmd::kFlags, 4, task.head ? std::uint32_t{1} << 10 : 0);
  arch::put_number(line, tmd::kPriority, 4, static_cast<std::uint32_t>(task.packet.priority));
  return line;
}

RecordLine TaskRecords::second_half(const Task& task) const {
  const arch::KernelShape& shape = task.tmd.kernel;
  arch::KernelObject object;
  object.program = shape.code;
  object.threads_limit = static_cast<std::uint32_t>(shape.block.count());
  object.registers_per_thread = shape.registers_per_thread;
  object.static_shared = shape.shared_bytes;
  object.duration = shape.duration;
  object.cluster = shape.cluster;
  object.raster = shape.raster;
  object.cooperative = shape.cooperative;
  const arch::KernelObjectBytes bytes = arch::encode(object);
  RecordLine line{};
  std::copy_n(bytes.begin(), tmd_half::kObjectBytes, line.begin() + tmd_half::kObject);
  arch::put_number(line, tmd_half::kBlockX, 2, shape.block.x);
  arch::put_number(line, tmd_half::kBlockY, 2, shape.block.y);
  arch::put_number(line, tmd_half::kBlockZ, 2, shape.block.z);
  arch::put_number(line, tmd_half::kLocal, 4, shape.local_bytes);
  if (task.packet.resumed) {
    arch::put_number(line, tmd_half::kNextCta, 8, task.packet.progress.next_cta);
    arch::put_number(line, tmd_half::kProgress, 8, progress_word(task.packet.progress));
  }
  return line;
}

bool TaskRecords::read(const Task& task) {
  const bool host = of_all() && task.taken_in();
  if (task.tmd.address == 0 || (!host && !task.packet.resumed)) return false;
  scheduler_.enter(
      read_chain(host ? task.tmd.address : 0, second_half_of(setup_.memory, task.tmd.address), task.operation()));
  return true;
}

// A saved CTA that was to be restored, or a CGA, lies in memory as it is.
bool TaskRecords::write_progress(const Task& task) {
  if (!setup_.memory.any() || task.origin == Task::Origin::restored) return false;
  if (task.tmd.address == 0) {
    prepare(task);
    return true;
  }
  const std::uint64_t half = second_half_of(setup_.memory, task.tmd.address);
  const protocol::TaskProgress& progress = task.packet.progress;
  scheduler_.enter(progress_chain(
      task.tmd.address,
      {{{half + tmd_half::kNextCta, progress.next_cta}, {half + tmd_half::kProgress, progress_word(progress)}}},
      task.operation()));
  return true;
}

void TaskRecords::give_back(const Task& task) {
  back(task);
  if (task.tmd.address == 0 || task.tmd.address == task.record()) return;
  scheduler_.enter(release_chain(setup_.memory.part_at(task.tmd.address), task.tmd.address));
}

bool TaskRecords::take_over(Task& task, const RecordRead& read) {
  if (!read.ok) return false;
  if (read.first && !take_shape(task, read)) return false;
  return !task.packet.resumed || take_progress(task, read);
}

// False: no machine can run that. Its program can be another one of those that the machine has, or its own.
bool TaskRecords::shape_from(const RecordRead& read, std::uint32_t code, arch::KernelShape& shape) const {
  arch::KernelObjectBytes bytes{};
  std::copy_n(read.second.begin() + tmd_half::kObject, tmd_half::kObjectBytes, bytes.begin());
  arch::KernelObject object;
  if (!arch::decode(bytes, object).ok()) return false;
  shape.grid = child_record(*read.first).grid;
  shape.block = {arch::get_16(read.second, tmd_half::kBlockX), arch::get_16(read.second, tmd_half::kBlockY),
                 arch::get_16(read.second, tmd_half::kBlockZ)};
  shape.registers_per_thread = object.registers_per_thread;
  shape.shared_bytes = object.static_shared;
  shape.duration = object.duration;
  shape.cluster = object.cluster;
  shape.raster = object.raster;
  shape.cooperative = object.cooperative;
  shape.local_bytes = arch::get_32(read.second, tmd_half::kLocal);
  shape.code = object.program;
  if (shape.code != code && !(setup_.codes != nullptr && setup_.codes->has(shape.code))) return false;
  return arch::why_impossible(setup_.limits, shape).empty();
}

// A program that runs another grid than it was made for is lent for this launch. What was lent for one already is of
// that launch.
bool TaskRecords::take_shape(Task& task, const RecordRead& read) {
  arch::KernelShape shape = task.tmd.kernel;
  if (!shape_from(read, task.tmd.kernel.code, shape)) return false;
  const bool same =
      shape.code == task.tmd.kernel.code && shape.grid == task.tmd.kernel.grid && shape.block == task.tmd.kernel.block;
  if (shape.code == arch::kNoCode) {
    task.packet.code = arch::kNoCode;
  } else if (!same && !task.queue && setup_.codes != nullptr) {
    if (!setup_.codes->has(shape.code)) return false;
    const std::uint64_t arguments =
        task.tmd.kernel.code == arch::kNoCode ? 0 : setup_.codes->at(task.tmd.kernel.code).kernarg;
    task.lent = setup_.codes->lend(shape.code, shape, {}, arguments);
    task.packet.code = task.lent;
    task.launches = task.launches || setup_.codes->at(task.lent).launches();
    if (task.launches && task.record() == 0) tasks_.set_record(task, task.tmd.address);
  }
  task.take_shape(setup_.limits, shape);
  task.packet.priority = child_record(*read.first).priority;
  return true;
}

bool TaskRecords::take_progress(Task& task, const RecordRead& read) const {
  const std::uint64_t word = arch::get_64(read.second, tmd_half::kProgress);
  const std::uint64_t next = arch::get_64(read.second, tmd_half::kNextCta);
  const auto size = static_cast<std::uint32_t>(word & 7);
  const bool grid = task.packet.kind == protocol::TaskKind::grid;
  if ((word & kEvicted) == 0 || (grid && next > task.packet.grid.count()) ||
      size >= std::max(1U, task.packet.cluster.sizes())) {
    return false;
  }
  task.packet.progress.next_cta = next;
  task.packet.progress.size = size;
  task.packet.progress.order = word >> kOrderShift;
  return true;
}

void TaskRecords::reset() {
  waiting_.clear();
  out_.clear();
  holding_ = {};
}

}  // namespace heddle::task
