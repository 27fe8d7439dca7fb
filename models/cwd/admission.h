// Whether a task can run on the empty machine (CWD-25), and how many GPC_CGAs of it each GPC can hold (CWD-20).
#pragma once

#include <cstdint>
#include <vector>

#include "cwd/occupancy.h"
#include "protocol/task_cwd.h"

namespace heddle::cwd {

class Admission {
 public:
  // The topology must outlive it. `cgas_per_gpc`: GPC_CGAs that a GPC has ids and barriers for.
  Admission(const arch::Topology& topology, const arch::ResourceVector& capacity, const CwdParams& params,
            std::uint32_t cgas_per_gpc);

  // False if no size of its CGAs could ever start. `room` becomes the GPC_CGAs that each GPC holds when it is empty, by
  // room_index().
  bool admit(const protocol::TaskPacket& task, std::vector<std::uint32_t>& room);
  // GPC_CGAs differ by size only where they are the outermost CGAs.
  std::size_t room_index(const protocol::TaskPacket& task, std::uint32_t size, std::uint32_t gpc) const {
    const bool sized = task.cluster.outermost() == arch::CgaLevel::gpc;
    return (sized ? size : 0) * std::size_t{gpcs_} + gpc;
  }

 private:
  EmptyMachine machine_;
  const std::uint32_t gpcs_;
  const std::uint32_t max_gpc_cga_;
};

}  // namespace heddle::cwd
