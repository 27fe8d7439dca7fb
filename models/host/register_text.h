// The registers that say how the machine is shared: a command sets a value, which its register shows from then on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "host/register_table.h"
#include "protocol/host_task.h"

namespace heddle::host {

// Credits and page tables are of a subcontext, masks and blocks of a subcontext on a TPC; the mode is the machine's.
class ShareRegisters {
 public:
  explicit ShareRegisters(const RegisterStore& values) : values_(values) {}

  // A write to SHARE_COMMAND: what is to be told to the machine, or nothing if the command makes no sense. What the
  // machine lacks, or cannot share in that way, it finds out itself.
  std::optional<protocol::SubcontextPacket> command(std::uint64_t command);
  // What a register of shares shows for the subcontext and the TPC that are selected.
  std::uint64_t shown(RegisterId id) const;
  void reset() { asked_.clear(); }

 private:
  std::uint64_t key_of(RegisterId id) const;

  const RegisterStore& values_;
  std::map<std::uint64_t, std::uint64_t> asked_;  // what was asked for, by key_of()
};

}  // namespace heddle::host
