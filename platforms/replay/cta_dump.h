// Every CTA of a run on one GPU: where it stands in its grid, where it ran, and when; those that were saved in between,
// once for each stay on an SM. `heddle run --dump ctas`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "arch/gpu_observation.h"
#include "arch/topology.h"
#include "replay/cta_rows.h"
#include "workload/workload.h"

namespace heddle::replay {

class CtaDump : public CtaListener {
 public:
  void cta_started(const Cta& cta) override;
  void cta_ended(const Cta& cta) override;
  void cta_saved(const Cta& cta) override;
  void cta_restored(const Cta& cta) override;
  void task_launched(const Launched& task) override { launched_.emplace(task.task, task); }

  // All stays, in the order in which they are written, until `visit` returns false. Nothing more is to come.
  void for_each(const std::function<bool(const CtaRow&)>& visit);
  // Stays on an SM.
  std::size_t rows() const { return rows_.size() + running_.size(); }

  static const char* header();
  enum class Names {
    every_row,
    first_row,  // of a task; empty in its other rows
  };
  // Takes text, and says whether there may be more.
  using Take = std::function<bool(std::string_view)>;
  // One line per stay, in launch order: cycle of the launch, sequence of the launch, order in the task. One that never
  // ended (the run made no progress) has no end. Kernel names are quoted where CSV wants it. False if `take` has had
  // enough.
  bool write(const Take& take, const std::string& instance, const arch::Topology& topology,
             const workload::Workload& workload, Names naming = Names::every_row);

 private:
  static CtaRow row_of(const Cta& cta, std::uint32_t stay);
  struct Key {
    std::uint32_t task;
    std::uint64_t index;
    bool operator==(const Key& other) const { return task == other.task && index == other.index; }
  };
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return static_cast<std::size_t>((key.index + 1) * 0x9E37'79B9'7F4A'7C15U ^
                                      std::uint64_t{key.task} * 0xD1B5'4A32'D192'ED03U);
    }
  };

  CtaRows rows_;                                          // of stays that are over
  std::unordered_map<Key, CtaRow, Hash> running_;         // of a saved CTA its last one
  std::unordered_map<std::uint32_t, Launched> launched_;  // looked up only
};

}  // namespace heddle::replay
