// What a GPU shows of itself beyond statistics and a timeline: the load of its SMs, its clusters, what its tensor
// memory access units move, its CTAs, and the names of its operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arch/bulk_map.h"
#include "arch/cluster.h"
#include "arch/cluster_map.h"
#include "arch/load_map.h"
#include "arch/power_series.h"
#include "common/observation.h"
#include "common/timebase.h"

namespace heddle::arch {
class RaceChecker;
}

namespace heddle {

class IdleAccount;
class KernelAccount;

// Sees every CTA that an SM starts and ends. Used by checkers and dumps; called at most once per CTA and edge.
class CtaListener {
 public:
  struct Cta {
    std::uint32_t task = 0;   // operation id
    std::uint64_t index = 0;  // linear id in the grid, x fastest
    std::uint32_t sm = 0;     // SM id of the machine
    std::uint64_t cycle = 0;  // when: arrival at the SM, or end
    // Where it stands in its grid, and when it was sent.
    std::uint32_t x = 0;
    std::uint32_t y = 0;
    std::uint32_t z = 0;
    std::uint64_t cga = 0;                // linear id of its CGA
    std::uint32_t rank = 0;               // in the CGA
    std::uint32_t cga_size = 1;           // CTAs of the CGA
    std::uint64_t sequence = 0;           // of the launch: orders the packets of one GPU
    std::uint64_t order = 0;              // CTAs of the task that started before
    std::uint64_t launch = 0;             // cycle in which its launch packet left the distributor
    std::uint64_t first_instruction = 0;  // cycle
  };
  virtual void cta_started(const Cta& cta) = 0;
  virtual void cta_ended(const Cta& cta) = 0;
  // In between, any number of times: a CTA that waits for tasks of its own leaves its SM (`sm`, `cycle`), and goes on
  // later, there or on another one.
  virtual void cta_saved(const Cta&) {}
  virtual void cta_restored(const Cta&) {}

  // A task that a program has launched, before the first of its CTAs.
  struct Launched {
    std::uint32_t task = 0;
    std::optional<std::uint32_t> parent;  // task
    std::string kernel;
    std::uint32_t depth = 0;
    std::uint8_t subcontext = 0;
  };
  virtual void task_launched(const Launched&) {}

 protected:
  ~CtaListener() = default;
};

// Is told of every write to a register or doorbell that the device has carried out. What it does in there must not
// access the device.
class RegisterListener {
 public:
  // `offset`: in bar0; `bytes`: 4 or 8; `value`: what was written, not what the register holds then.
  virtual void register_written(std::uint64_t offset, std::uint32_t bytes, std::uint64_t value) = 0;

 protected:
  ~RegisterListener() = default;
};

// Names for messages and timelines; packets carry numbers only.
class Labels {
 public:
  explicit Labels(std::string kind) : kind_(std::move(kind)) {}
  void set(std::uint32_t number, std::string label) { labels_[number] = std::move(label); }
  void forget(std::uint32_t number) { labels_.erase(number); }
  std::string of(std::uint32_t number) const {
    const auto found = labels_.find(number);
    return found == labels_.end() ? kind_ + " " + std::to_string(number) : found->second;
  }

 private:
  std::string kind_;
  std::unordered_map<std::uint32_t, std::string> labels_;
};

// Kernels that programs have launched: what became of their tasks, by name, parent and depth.
class LaunchedKernels {
 public:
  static constexpr std::size_t kMostTasks = 100'000;  // that are told one by one

  struct Key {
    std::uint32_t depth = 0;
    std::string name;
    std::string parent;                        // kernel that launched them; empty: the operation, or nobody knows
    std::optional<std::uint32_t> parent_task;  // operation of the host that launched them
    bool operator<(const Key& other) const {
      return std::tie(depth, name, parent, parent_task) <
             std::tie(other.depth, other.name, other.parent, other.parent_task);
    }
  };
  struct Sum {
    std::uint64_t tasks = 0;
    std::uint64_t started = 0;  // of these, that have ended
    std::uint64_t faulted = 0;
    std::uint64_t false_dependencies = 0;
    std::uint64_t saves = 0;      // CTAs of theirs
    std::uint64_t waited = 0;     // cycles from the launch operation to the first launch packet, of `started`
    std::uint64_t ran = 0;        // cycles from there to the end of the last CTA
    std::uint64_t parents = 0;    // of `started`, that have launched something
    std::uint64_t completed = 0;  // cycles of those from there until their descendants had completed too
  };

  // One task, when it has completed.
  struct Task {
    const Key* key = nullptr;
    std::uint32_t task = 0;
    std::optional<std::uint32_t> parent;  // task
    std::int32_t priority = 0;
    std::uint8_t subcontext = 0;
    enum class End : std::uint8_t { well, rejected, faulted, aborted };
    End how = End::well;
    arch::Dim3 grid;
    // Cycles. `start` is 0 if no CTA of it was launched; `completed`: its descendants have, too.
    std::uint64_t issued = 0;
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t completed = 0;
  };

  // `parent`: task that launched it.
  void launched(std::uint32_t task, const std::string& name, std::optional<std::uint32_t> parent, std::uint32_t depth) {
    Key key{depth, name, {}, {}};
    if (const auto found = parent ? open_.find(*parent) : open_.end(); found != open_.end()) {
      key.parent = found->second->first.name;
    } else {
      key.parent_task = parent;
    }
    const auto row = sums_.try_emplace(std::move(key)).first;
    ++row->second.tasks;
    open_[task] = &*row;
  }
  // Null for a task that no program has launched.
  Sum* of(std::uint32_t task) {
    const auto found = open_.find(task);
    return found == open_.end() ? nullptr : &found->second->second;
  }
  void ended(Task task) {
    const auto found = open_.find(task.task);
    HEDDLE_CHECK(found != open_.end(), "a task has completed that was not launched");
    task.key = &found->second->first;
    open_.erase(found);
    if (tasks_.size() < kMostTasks) tasks_.push_back(task);
  }
  // A CTA of the task, whoever has launched it, has been saved.
  void saved(std::uint32_t task) {
    if (Sum* sum = of(task); sum != nullptr) {
      ++sum->saves;
    } else {
      ++host_saves_[task];
    }
  }
  void reset() {
    tasks_.clear();
    sums_.clear();
    open_.clear();
    host_saves_.clear();
  }

  const std::map<Key, Sum>& sums() const { return sums_; }
  // In the order of their ends, the first of them; sums() have all.
  const std::vector<Task>& tasks() const { return tasks_; }
  // By operation of the host.
  const std::map<std::uint32_t, std::uint64_t>& host_saves() const { return host_saves_; }

 private:
  std::map<Key, Sum> sums_;
  std::vector<Task> tasks_;
  std::unordered_map<std::uint32_t, std::pair<const Key, Sum>*> open_;  // looked up only
  std::map<std::uint32_t, std::uint64_t> host_saves_;
};

// What tasks with CTAs left have waited for in the distributor. The reasons are cwd/task_table.h's.
class TaskWaits {
 public:
  static constexpr std::size_t kMost = 32;  // reasons

  // `operation`: that its CTAs run as.
  void add(std::uint32_t operation, std::size_t reason, std::uint64_t cycles) {
    cycles_[std::uint64_t{operation} * kMost + reason] += cycles;
  }
  std::uint64_t cycles(std::uint32_t operation, std::size_t reason) const {
    const auto found = cycles_.find(std::uint64_t{operation} * kMost + reason);
    return found == cycles_.end() ? 0 : found->second;
  }
  void reset() { cycles_.clear(); }

 private:
  std::unordered_map<std::uint64_t, std::uint64_t> cycles_;  // looked up only
};

// What only a timeline wants to know: what the distributor says of tasks whose first launch packet has not left, and
// where CTAs are that have been saved.
class Absences {
 public:
  struct Wait {
    Cycle begin = 0;
    Cycle end = 0;
    const char* why = "";
  };
  void waited(std::uint32_t task, const Wait& wait) { waits_[task].push_back(wait); }
  // In their order; they are forgotten.
  std::vector<Wait> take_waits(std::uint32_t task) {
    const auto found = waits_.find(task);
    if (found == waits_.end()) return {};
    std::vector<Wait> waits = std::move(found->second);
    waits_.erase(found);
    return waits;
  }

  struct Away {
    Cycle since = 0;
    std::uint32_t sm = 0;    // that it has left
    std::uint32_t line = 0;  // of the timeline, free when it is back
  };
  void left(std::uint32_t task, std::uint64_t cta, Cycle when, std::uint32_t sm) {
    const auto free = std::find(lines_.begin(), lines_.end(), false);
    const auto line = static_cast<std::uint32_t>(free - lines_.begin());
    if (free == lines_.end()) lines_.push_back(false);
    lines_[line] = true;
    away_[{task, cta}] = {when, sm, line};
  }
  std::optional<Away> back(std::uint32_t task, std::uint64_t cta) {
    const auto found = away_.find({task, cta});
    if (found == away_.end()) return std::nullopt;
    const Away away = found->second;
    away_.erase(found);
    lines_[away.line] = false;
    return away;
  }
  void reset() {
    waits_.clear();
    away_.clear();
    lines_.clear();
  }

 private:
  std::unordered_map<std::uint32_t, std::vector<Wait>> waits_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Away> away_;
  std::vector<bool> lines_;  // in use
};

struct GpuObservation : Observation {
  using Observation::Observation;

  Labels labels{"operation"};  // by operation id
  Labels streams{"stream"};    // by stream number
  LoadMap load_map;
  ClusterMap clusters;
  BulkMap bulk{stats, prefix};
  PowerSeries power;  // while somebody looks: a governor or a timeline
  LaunchedKernels launched;
  TaskWaits waits;
  Absences absences;
  std::shared_ptr<IdleAccount> idle;       // null: off; set before the blocks of the GPU are built
  std::shared_ptr<KernelAccount> kernels;  // null: off; set before the blocks of the GPU are built
  CtaListener* ctas = nullptr;             // null: off
  RegisterListener* registers = nullptr;   // null: off
  arch::RaceChecker* races = nullptr;      // null: off; set before the blocks of the GPU are built
};

// That of a time base whose owner gave it one: every time base of a GPU.
inline GpuObservation& gpu_observation(Timebase& timebase) {
  auto* observation = dynamic_cast<GpuObservation*>(&timebase.observation());
  HEDDLE_CHECK(observation != nullptr, "a block of a GPU in a domain that observes none");
  return *observation;
}

// The account of idle SMs of such a time base; null: there is none.
inline IdleAccount* idle_account(Timebase& timebase) {
  auto* observation = dynamic_cast<GpuObservation*>(&timebase.observation());
  return observation == nullptr ? nullptr : observation->idle.get();
}

// The account of kernels of such a time base; null: there is none.
inline KernelAccount* kernel_account(Timebase& timebase) {
  auto* observation = dynamic_cast<GpuObservation*>(&timebase.observation());
  return observation == nullptr ? nullptr : observation->kernels.get();
}

}  // namespace heddle
