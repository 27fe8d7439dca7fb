// Host -> device, at any time, outside all streams.
//
// Host -> CWD: which TPCs may receive work from now on (TPC enable table). A cleared TPC finishes what runs on it.
#pragma once

#include <cstdint>

#include "common/packet_socket.h"

namespace heddle::protocol {

struct TpcEnablePacket {
  std::uint32_t gpc = 0;
  std::uint32_t tpc = 0;  // of the GPC
  bool enabled = true;
};

// Host -> CWD and MMU: how the machine is shared (PRT-05, PRT-06, PRT-07).
enum class PartitionMode : std::uint8_t {
  none,     // subcontexts share all TPCs without limits
  static_,  // fixed masks; no TPC belongs to two subcontexts; software sets local-memory blocks
  dynamic,  // credits, and masks that bound where a subcontext may run
};

// Why a change of how the machine is shared was not carried out. Nothing has changed then.
enum class ShareRefusal : std::uint8_t {
  none,
  subcontext,  // there is no such subcontext
  tpc,         // the machine has no such TPC
  value,       // out of range
  overlap,     // static mode: a TPC would belong to two subcontexts
  block,       // the local-memory block is another's
  no_mmu,      // a page table, and the machine does not translate
};
constexpr std::uint32_t kShareRefusals = 7;

struct SubcontextPacket {
  enum class What : std::uint8_t {
    mode,        // `mode`; of the whole machine
    credits,     // TPCs that it may hold: `value`
    enable,      // TPC `tpc` of GPC `gpc`: `value` is 1 or 0
    block,       // static mode: local-memory block `value` for TPC `tpc` of GPC `gpc`
    page_table,  // root of its page tables: physical address `value`; 0: its addresses are not translated
  };
  What what = What::credits;
  PartitionMode mode = PartitionMode::none;
  std::uint8_t subcontext = 0;
  std::uint32_t gpc = 0;
  std::uint32_t tpc = 0;
  std::uint64_t value = 0;
};

}  // namespace heddle::protocol

HEDDLE_PACKET_LINK(heddle::protocol::TpcEnablePacket);
HEDDLE_PACKET_LINK(heddle::protocol::SubcontextPacket);
