// Inside a GPC: GPM <-> MPC <-> SM.
#pragma once

#include <cstdint>

#include "arch/kernel_record.h"
#include "arch/raster.h"
#include "arch/sm_limits.h"
#include "common/packet_socket.h"

namespace heddle::protocol {

constexpr std::uint32_t kNoCgaId = ~std::uint32_t{0};
constexpr std::uint64_t kNoCgaMemory = ~std::uint64_t{0};

// What a CTA carries from its launch to its completion.
struct CtaTag {
  std::uint32_t slot = 0;  // task id
  std::uint32_t operation = 0;
  std::uint64_t sequence = 0;       // of the launch
  std::uint32_t cga_id = kNoCgaId;  // gpc_local_cga_id (CGA-01)
  bool tracked = false;             // its completion must name the sequence
};

// GPM -> MPC: the part of one mask of a launch packet that concerns one TPC.
struct TpcLaunchPacket {
  CtaTag tag;
  std::uint64_t sm_mask = 0;  // bit = SM of the TPC
  std::uint64_t raster = 0;   // CTAs of the task that start before the one of the lowest bit
  arch::RasterShape shape;
  arch::ResourceVector need;
  arch::CtaDuration duration;
  std::uint32_t code = 0;  // of its program; 0: CTAs run for `duration`
  bool late = false;       // the MPC has not followed the grid: it starts from late_coord (CWD-42)
  arch::Coord late_coord;  // of the outermost CGA (or CTA) at `raster`
  bool has_id = false;     // central rasterisation: the id of the one CTA (CWD-43)
  arch::CtaId id;
  std::uint64_t departure = 0;              // cycle at which the launch packet left the distributor
  std::uint64_t cga_memory = kNoCgaMemory;  // address of the CGA's linear memory
  std::uint8_t subcontext = 0;
  std::uint64_t record = 0;  // as in LaunchPacket, here and below
  std::uint64_t area = 0;
  bool queue = false;
};

// MPC -> SM: a CTA starts.
struct CtaStartPacket {
  CtaTag tag;
  std::uint32_t cta_slot = 0;  // of the SM
  std::uint64_t order = 0;     // CTAs of the task that started before
  arch::CtaId id;
  arch::ResourceVector need;
  arch::CtaDuration duration;
  std::uint32_t code = 0;                   // of its program; 0: CTAs run for `duration`
  std::uint64_t departure = 0;              // as in TpcLaunchPacket
  std::uint64_t cga_memory = kNoCgaMemory;  // as in TpcLaunchPacket
  std::uint8_t subcontext = 0;
  std::uint64_t record = 0;  // as in LaunchPacket, here and below
  std::uint64_t area = 0;
  bool queue = false;
};

// SM -> MPC: its last warp has exited, and the MPC has permitted the rest, where it is asked (CGA-11).
struct CtaExitPacket {
  CtaTag tag;
  std::uint32_t cta_slot = 0;
  bool faulted = false;                     // it did not end by itself
  std::uint32_t rank = 0;                   // in its CGA
  std::uint32_t released_shared_bytes = 0;  // that it gave back before, as the resource accounting counts (CGA-09)
};

// MPC -> GPM: cta_complete.
struct CtaCompletePacket {
  CtaTag tag;
  std::uint32_t sm_in_tpc = 0;
  bool faulted = false;
  std::uint32_t rank = 0;                   // as in CtaExitPacket
  std::uint32_t released_shared_bytes = 0;  // as in CtaExitPacket
};

}  // namespace heddle::protocol

HEDDLE_PACKET_LINK(heddle::protocol::TpcLaunchPacket);
HEDDLE_PACKET_LINK(heddle::protocol::CtaStartPacket);
HEDDLE_PACKET_LINK(heddle::protocol::CtaExitPacket);
HEDDLE_PACKET_LINK(heddle::protocol::CtaCompletePacket);
