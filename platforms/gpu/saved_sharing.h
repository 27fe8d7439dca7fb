// Parts of a saved device that lie in several blocks: how the machine is shared, and programs that a loader has
// brought.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "arch/kernel_object.h"
#include "common/state.h"
#include "copy/copy_engines.h"
#include "cwd/cwd.h"
#include "gpu/gpc_tree.h"
#include "protocol/host_task.h"
#include "task/task_unit.h"

namespace heddle::gpu {

// As the changes that lead there, which every block that has its part of them judges again when it is restored.
class SavedSharing final : public Saved {
 public:
  struct Sharers {
    task::TaskUnit& task;
    cwd::Cwd& cwd;
    memory::BandwidthControl& bandwidth;
    copy::CopyEngines& copies;
    memory::Mmu* mmu;  // null: there is none
  };

  // `refused`: changes that were refused since the last reset.
  SavedSharing(const Sharers& sharers, std::function<std::size_t()> refused)
      : sharers_(sharers), refused_(std::move(refused)) {}

  void save(StateWriter& to) const override;
  void restore(StateReader& from) override;

 private:
  std::vector<protocol::SubcontextPacket> changes() const;
  void carry_out(const protocol::SubcontextPacket& change);

  const Sharers sharers_;
  const std::function<std::size_t()> refused_;
};

// What Gpu::add_code() has been given: the loader brings it again, and it is only compared, as far as the machine knows
// it: numbers, registers, and the sizes of kernels.
class SavedPrograms final : public Saved {
 public:
  void note(std::uint32_t number, std::uint32_t registers, const arch::KernelShape& kernel);
  // In the order in which they came.
  std::vector<std::uint32_t> numbers() const;
  void clear() { programs_.clear(); }

  void save(StateWriter& to) const override;
  void restore(StateReader& from) override;

 private:
  using Program = std::vector<std::uint32_t>;  // its number, and what it takes
  std::vector<Program> programs_;
};

}  // namespace heddle::gpu
