// Every CTA of a run on one GPU: where it stands in its grid, where it ran, and when; those that were saved in between,
// once for each stay on an SM. `heddle run --dump ctas`.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/gpu_observation.h"
#include "arch/topology.h"
#include "workload/workload.h"

namespace heddle::replay {

class CtaDump : public CtaListener {
 public:
  void cta_started(const Cta& cta) override;
  void cta_ended(const Cta& cta) override;
  void cta_saved(const Cta& cta) override;
  void cta_restored(const Cta& cta) override;
  void task_launched(const Launched& task) override { launched_.emplace(task.task, task); }

  // Stays on an SM.
  std::size_t rows() const { return rows_.size(); }

  static const char* header();
  // One line per stay, in launch order: cycle of the launch, sequence of the launch, order in the task. One that never
  // ended (the run made no progress) has no end. Kernel names are quoted where CSV wants it.
  void write(std::ostream& out, const std::string& instance, const arch::Topology& topology,
             const workload::Workload& workload);

 private:
  // 72 bytes: a million CTAs are nothing to worry about.
  struct Row {
    std::uint64_t launch;
    std::uint64_t sequence;
    std::uint64_t order;
    std::uint64_t first_instruction;
    std::uint64_t end;
    std::uint64_t cga;
    std::uint32_t task;
    std::uint32_t x;
    std::uint32_t rank;
    std::uint32_t cga_size;
    std::uint16_t y;  // 16 bits, as z: CWD-40
    std::uint16_t z;
    std::uint16_t sm;
    std::uint16_t stay : 15;  // of the CTA, counted from 0; the last number stands for all further ones
    std::uint16_t saved : 1;  // it did not end then
  };
  static constexpr std::uint16_t kMostStays = (1U << 15U) - 1;
  static Row row_of(const Cta& cta, std::uint16_t stay);
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

  std::vector<Row> rows_;
  std::unordered_map<Key, std::size_t, Hash> running_;    // -> row; of a saved CTA its last one
  std::unordered_map<std::uint32_t, Launched> launched_;  // looked up only
};

}  // namespace heddle::replay
