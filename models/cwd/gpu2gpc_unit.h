// The GPU2GPC distributor: runs the session of a grid of CGAs by asking the GPC2SM units.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/block.h"
#include "common/packet_socket.h"
#include "cwd/cluster_session.h"
#include "cwd/cwd_params.h"
#include "protocol/cwd_units.h"

namespace heddle::cwd {

class Gpu2GpcUnit : public Block {
 public:
  Gpu2GpcUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CwdParams& params,
              const arch::Topology& topology, const DomainPolicy& policy);
  ~Gpu2GpcUnit() override;

  PacketIn<protocol::SessionPacket> session_in;
  PacketOut<protocol::SessionEndPacket> end_out;
  PacketOut<protocol::MimicPacket> mimic_out;                      // link = GPC
  PacketOut<protocol::HomePacket> home_out;                        // link = GPC
  sc_core::sc_vector<PacketIn<protocol::AnswerPacket>> answer_in;  // one per GPC

  void reset() override;
  void collect_waits(WaitGraph&) const override {}  // a session always ends

 private:
  struct UnitStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& sessions = counter("sessions", "sessions", "sessions of grids of CGAs");
    Counter& query_steps = counter("query_steps", "steps", "steps in which GPCs were asked, all in parallel");
    Counter& cancelled = counter("cancelled", "queries", "valid answers whose reservation was given back");
    Histogram& session_cycles = histogram("session_cycles", "cycles", "from a session's begin to its last decision");
  };

  void on_event(std::uint32_t, std::uint64_t) override {}
  void on_session(const protocol::SessionPacket& session, std::uint32_t);
  void on_answer(const protocol::AnswerPacket& answer, std::uint32_t gpc);
  void step();
  bool carry_out(const std::vector<Command>& commands);
  void draw_step();

  ClusterSession core_;
  std::vector<protocol::MimicPacket> packets_;  // of the step, by GPC
  std::vector<DomainAnswer> answers_;           // of the step, by GPC
  std::vector<std::uint32_t> asked_;
  std::optional<std::uint64_t> session_;  // the one that runs
  std::size_t homes_sent_ = 0;
  std::uint32_t expected_ = 0;  // answers of the step that are still on their way
  Cycle step_begin_ = 0;

  UnitStats stats_;
  Cycle begin_ = 0;
  TrackId track_;
};

}  // namespace heddle::cwd
