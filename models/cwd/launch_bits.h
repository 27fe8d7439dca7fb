// How many bits the packets have that the distributor sends to the GPCs (CWD-31, CWD-35, CWD-44): one place for the
// cost of the launch port, for the statistics, and for whoever shows them.
//
// What is in a packet only sometimes has a bit that says whether it is there, unless the grid says so: barriers and
// size index are in all of its packets or in none. The attributes of a kernel are not sent with its launches: a GPC
// gets them by the task id, as it gets the instructions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/topology.h"
#include "cwd/cwd_params.h"
#include "protocol/cwd_gpm.h"

namespace heddle::cwd {

class LaunchBits {
 public:
  LaunchBits(const CwdParams& params, const arch::Topology& topology);

  std::uint32_t of(const protocol::LaunchPacket& packet) const;
  std::uint32_t of(const protocol::LocalMemoryPacket&) const { return local_; }

  // A part of a packet, and when it is there.
  struct Field {
    std::string name;
    std::uint32_t bits = 0;
    std::string when = {};    // empty: always
    std::uint32_t times = 1;  // at most
  };
  std::vector<Field> launch_fields() const;
  std::vector<Field> local_fields() const;

  // x of 32, y and z of 16 bits: a CTA id, a coordinate, extents (CWD-40).
  static constexpr std::uint32_t kCoord = 64;
  // More CGAs than this many bits can tell apart are never on their way at once.
  static constexpr std::uint32_t kSequence = 16;
  // Tells the sizes of the outermost CGA apart: the full one and the fallbacks (CWD-21).
  static constexpr std::uint32_t kSize = 3;

 private:
  std::uint32_t task_;
  std::uint32_t virtual_gpc_;
  std::uint32_t mask_;
  std::uint32_t masks_;
  std::uint32_t further_masks_;
  std::uint32_t ctas_;
  std::uint32_t memory_slot_;
  std::uint32_t barrier_;
  std::uint32_t tpcs_;
  std::uint32_t within_;
  std::uint32_t tpc_;
  std::uint32_t subcontext_;
  std::uint32_t block_;
  std::uint32_t header_ = 0;
  std::uint32_t local_ = 0;
};

}  // namespace heddle::cwd
