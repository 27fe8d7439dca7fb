// CGAs that had a CTA on this SM and have not been flushed: the SM answers the flush when nothing of them is in flight
// any more (CGA-11, CGA-12).
#pragma once

#include <cstdint>
#include <vector>

#include "common/packet_port.h"
#include "protocol/gpm_mpc_sm.h"

namespace heddle::sm {

class ClusterTables;
class DsmemFlights;

struct ResidentCga {
  enum class State : std::uint8_t {
    absent,
    here,
    flushing,  // the MPC waits for the answer
  };
  State state = State::absent;
  bool trapped = false;   // an error of a CTA that has gone was reported
  Cycle quiet = 0;        // when all answers so far will have come
  std::uint64_t cga = 0;  // linear id
  protocol::CtaTag tag;
};

class ResidentCgas {
 public:
  ResidentCgas(Timebase& time, ClusterTables& tables, const DsmemFlights& flights,
               PacketSender<protocol::ClusterNoticePacket>& notices)
      : time_(time), tables_(tables), flights_(flights), notices_(notices) {}

  // A CTA of a CGA starts here, with a program or without.
  void enter(const protocol::CtaStartPacket& start);
  // All CTAs of the CGA have completed: whatever is answered from now on concerns nobody.
  void flush(const protocol::ClusterOrderPacket& order, Cycle arrival);
  // A request of the CGA has been answered, which arrives at `when`.
  void answered(std::uint32_t cga_id, Cycle when);
  // The CGA with that id, if it is still the one of that launch; null if it is not, or is being flushed.
  const ResidentCga* find(std::uint32_t cga_id, std::uint64_t sequence) const;
  // An error of the CTA of that rank, which has gone, goes to the distributor.
  void trap(std::uint32_t cga_id, std::uint32_t rank);

  // By gpc_local_cga_id; empty before the first CGA.
  const std::vector<ResidentCga>& all() const { return cgas_; }
  std::uint32_t count() const { return count_; }
  void reset();

 private:
  void flushed(std::uint32_t cga_id);

  Timebase& time_;
  ClusterTables& tables_;
  const DsmemFlights& flights_;
  PacketSender<protocol::ClusterNoticePacket>& notices_;
  std::vector<ResidentCga> cgas_;
  std::uint32_t count_ = 0;
};

}  // namespace heddle::sm
