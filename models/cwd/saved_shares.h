// How software has set the machine to be shared, as the changes that lead there (HST-08).
#pragma once

#include <vector>

#include "arch/topology.h"
#include "cwd/subcontext_partition.h"

namespace heddle::cwd {

class SavedShares {
 public:
  // Of a machine on which nothing runs: one that has been reset is as this one once it has carried them out, in their
  // order. Masks come before the mode in which they are judged. Empty if software has set nothing.
  static std::vector<protocol::SubcontextPacket> changes(const SubcontextPartition& partition);

 private:
  using What = protocol::SubcontextPacket::What;

  explicit SavedShares(const SubcontextPartition& partition) : partition_(partition) {}

  void add(What what, std::uint32_t subcontext, std::uint64_t value);
  void add_tpcs(std::uint32_t subcontext);
  void add_shares(std::uint32_t subcontext);

  const SubcontextPartition& partition_;
  std::vector<protocol::SubcontextPacket> changes_;
};

}  // namespace heddle::cwd
