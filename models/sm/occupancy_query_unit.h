// Queries of programs how many CGAs of a shape of their own kernel the machine can hold at once (CWD-24). The
// distributor answers; the warp waits.
#pragma once

#include <cstdint>

#include "common/packet_port.h"
#include "protocol/occupancy_query.h"
#include "sm/cta_table.h"
#include "sm/issue_unit.h"

namespace heddle::sm {

class WarpScheduler;

class OccupancyQueryUnit final : private SmUnit, public IssueUnit {
 public:
  struct Peers {
    WarpScheduler& scheduler;
    CtaSupervisor& supervisor;
    PacketSender<protocol::OccupancyQueryPacket>& queries;
  };
  OccupancyQueryUnit(const UnitContext& context, const Peers& peers) : SmUnit(context), peers_(peers) {}

  // Without a distributor at the other end of the link, queries are refused.
  void connect(bool connected) { connected_ = connected; }
  IssueResult issue(std::uint32_t slot, const arch::Operation& operation) override;
  // A CTA stays until the answers to its queries are there, also one that is killed.
  void on_answer(const protocol::OccupancyAnswerPacket& answer, std::uint32_t = 0);

 private:
  Peers peers_;
  bool connected_ = false;
};

}  // namespace heddle::sm
