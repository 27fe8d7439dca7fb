// Inside a GPC: what GPM, MPCs and SMs tell each other about CGAs beside launches and completions (CGA-03 to CGA-13).
#pragma once

#include <cstdint>
#include <string>

#include "common/packet_socket.h"
#include "protocol/cta_packet.h"

namespace heddle::protocol {

// MPC -> all SMs of the GPC: a CTA of a CGA has been started. They enter it in their mapping tables (CGA-03).
struct CtaEntryPacket {
  std::uint32_t cga_id = 0;
  std::uint64_t sequence = 0;  // launch of the CGA
  std::uint32_t rank = 0;      // cta_id_in_cga
  std::uint32_t ctas = 0;      // of the CGA
  std::uint32_t tpc = 0;       // where it runs: TPC of the GPC
  std::uint32_t sm_in_tpc = 0;
  std::uint32_t sm = 0;  // the same SM as a bit of the GPC's masks
};

// SM -> MPC, and on to the GPM where it says so.
struct ClusterNoticePacket {
  enum class Kind : std::uint8_t {
    arrived,          // all running warps of the CTA have arrived at the barrier of the CGA; to the GPM
    exit_wanted,      // all warps of the CTA have exited, and accesses of it are in flight (CGA-11)
    drained,          // the accesses of such a CTA have been answered
    flushed,          // nothing of the CGA is in flight at this SM; the MPC's answer goes to the GPM (CGA-12)
    shared_released,  // the CTA has given back `bytes` of shared memory; to the GPM and the distributor (CGA-09)
    trap,             // an error of the CGA whose CTA here has gone; to the GPM and the distributor (CGA-08)
    entered,          // MPC -> GPM only: all SMs have entered the CTA (CGA-04)
  };
  Kind kind = Kind::arrived;
  CtaTag tag;  // flushed: cga_id alone
  std::uint32_t rank = 0;
  std::uint32_t cta_slot = 0;
  std::uint32_t sm_in_tpc = 0;  // filled in by the MPC
  std::uint32_t bytes = 0;
};

// GPM -> MPC -> SM.
struct ClusterOrderPacket {
  enum class Kind : std::uint8_t {
    barrier,  // the barrier of the CGA has completed a phase: warps go on (CGA-13)
    permit,   // MPC -> SM only: the CTA may leave; its entry of the CAM becomes invalid (CGA-11)
    flush,    // all CTAs of the CGA have completed: forget it, and answer if one was here (CGA-12)
  };
  Kind kind = Kind::barrier;
  std::uint32_t cga_id = 0;
  std::uint32_t cta_slot = 0;  // permit
  std::uint64_t sequence = 0;  // launch of the CGA
};

// Names of what waits, for messages: SMs and GPM speak of the same thing.
inline std::string barrier_name(const std::string& kernel, std::uint32_t gpc, std::uint32_t cga_id) {
  return "the cluster barrier of " + kernel + ", CGA " + std::to_string(cga_id) + " of GPC " + std::to_string(gpc);
}
inline std::string cta_name(std::uint32_t gpc, std::uint32_t cga_id, std::uint32_t rank) {
  return "CTA " + std::to_string(rank) + " of CGA " + std::to_string(cga_id) + " of GPC " + std::to_string(gpc);
}

}  // namespace heddle::protocol

HEDDLE_PACKET_LINK(heddle::protocol::CtaEntryPacket);
HEDDLE_PACKET_LINK(heddle::protocol::ClusterNoticePacket);
HEDDLE_PACKET_LINK(heddle::protocol::ClusterOrderPacket);
