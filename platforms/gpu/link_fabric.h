// Several GPUs, connected: by links from each to each, or by a switch (LNK-01, LNK-06).
#pragma once

#include <memory>
#include <vector>

#include "common/domain.h"
#include "gpu/gpu.h"
#include "link/link_params.h"

namespace heddle::link {
class LinkSwitch;
}

namespace heddle::gpu {

class LinkFabric {
 public:
  // Binds the ports of the GPUs, which have the numbers of the list in each other's addresses; all have
  // gpu.links.enabled and one timing. `groups`: GPUs that a switch sends to at once, each with its own; group 0 has
  // all where none is given. `own`: statistics of the switch. GPUs and `own` must outlive it. Throws InputError for
  // GPUs that the topology cannot connect.
  LinkFabric(const link::FabricParams& params, const std::vector<Gpu*>& gpus, Observation& own,
             std::vector<std::vector<std::uint32_t>> groups = {});
  ~LinkFabric();

  // The clock of the switch; null without one.
  Domain* domain() { return domain_.get(); }

 private:
  void connect(const std::vector<Gpu*>& gpus);
  void connect_switch(const link::FabricParams& params, const std::vector<Gpu*>& gpus, Observation& own,
                      std::vector<std::vector<std::uint32_t>> groups);

  std::unique_ptr<Domain> domain_;
  std::unique_ptr<link::LinkSwitch> switch_;
};

}  // namespace heddle::gpu
