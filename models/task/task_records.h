// Tasks as records in memory (TSK-01): what task management writes of a task of the host when it takes it in, what it
// reads when it schedules it, and how far an evicted one has come (TSK-03).
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <unordered_set>

#include "arch/sm_limits.h"
#include "task/launch_scheduler.h"
#include "task/task.h"

namespace heddle::task {

// The second half of a TMD: a line that processes have on no page of theirs (PRT-08). Tasks of the host have their
// kernel object in it; how far a task has come is there once it has been evicted. Offsets:
namespace tmd_half {
constexpr std::uint32_t kObject = 0;  // 92 bytes: the first of a kernel object (arch/kernel_object.h), all but its
                                      // name
constexpr std::uint32_t kObjectBytes = 92;
constexpr std::uint32_t kBlockX = 92;     // u16: threads of a CTA
constexpr std::uint32_t kBlockY = 94;     // u16
constexpr std::uint32_t kBlockZ = 96;     // u16
constexpr std::uint32_t kLocal = 100;     // u32: bytes of local memory per thread
constexpr std::uint32_t kNextCta = 104;   // u64: CTAs before it in linear order have been launched
constexpr std::uint32_t kProgress = 112;  // u64: bits 0-2: size index of the CGA that is being split (CWD-21), 3: the
                                          // task has been evicted, 4-63: number of its arrival in the task table
}  // namespace tmd_half

class TaskRecords {
 public:
  struct Setup {
    arch::SmLimits limits;
    arch::CodeStore* codes = nullptr;  // null: no task runs a program
    arch::LaunchMemory memory;
    bool all = false;  // every task of the host has a record from the start
  };

  // `places`: tasks of a subcontext that may hold a TMD before they are sent; as many can hold one while they run.
  TaskRecords(OpenTasks& tasks, LaunchScheduler& scheduler, const Setup& setup, std::uint32_t places);

  // Such a task is given a TMD before it joins a list.
  bool wanted(const Task& task) const { return task.taken_in() && (task.launches || of_all()); }
  // Each kernel of the host has one.
  bool of_all() const { return setup_.all && setup_.memory.any(); }
  // The task is given a TMD once it may hold one; RecordPrepared follows. Few of them hold one while they wait for a
  // slot, so that those that run find some for their children (TSK-15).
  void request(const Task& task);
  // A task that has asked for one has been sent.
  void sent(const Task& task);

  // What the record says is read before the task is sent; RecordRead follows. False: nothing is to be read.
  bool read(const Task& task);
  // How far an evicted task has come is written; ProgressWritten follows, or RecordPrepared for one that had no record.
  // False: it is kept without memory.
  bool write_progress(const Task& task);
  // It is asked to leave the task table; and it has been sent again, has nothing left to be sent, or has ended.
  void leaves(const Task& task) {
    if (task.of_host()) out_.insert(task.operation());
  }
  void back(const Task& task) { out_.erase(task.operation()); }
  // The task may leave. Tasks of the host keep their records for as long as they are out: at most half of those that
  // tasks of the host that wait and run leave, so that what these launch finds some (TSK-15). All others have theirs,
  // or need none.
  bool spares_one(const Task& task) const { return !setup_.memory.any() || !task.of_host() || out_.size() < most_out_; }
  // A record that no CTA of the task launches from goes back.
  void give_back(const Task& task);

  // The task is what the record says. False: that can never run, and the task is as it was.
  bool take_over(Task& task, const RecordRead& read);

  void reset();

 private:
  void prepare_some();
  void prepare(const Task& task);
  RecordLine first_half(const Task& task) const;
  RecordLine second_half(const Task& task) const;
  bool take_shape(Task& task, const RecordRead& read);
  bool take_progress(Task& task, const RecordRead& read) const;
  bool shape_from(const RecordRead& read, std::uint32_t code, arch::KernelShape& shape) const;

  OpenTasks& tasks_;
  LaunchScheduler& scheduler_;
  const Setup setup_;
  const std::uint32_t places_;
  const std::size_t most_out_;
  std::unordered_set<std::uint32_t> out_;  // operations of tasks of the host; counted only
  PriorityLists waiting_;                  // operations of tasks without a TMD
  // By subcontext, priorities of those that have one, or are being given one, and were not sent.
  std::array<std::multiset<std::int32_t>, arch::kSubcontexts> holding_;
};

}  // namespace heddle::task
