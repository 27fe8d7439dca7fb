// The GPC2SM distributor of one GPC: answers the GPU2GPC unit's queries from a model of its GPC, and turns what is
// accepted into SM masks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/block.h"
#include "common/packet_socket.h"
#include "cwd/cluster_session.h"
#include "cwd/cost_laws.h"
#include "cwd/cwd_params.h"
#include "cwd/gpc_model.h"
#include "protocol/cwd_units.h"

namespace heddle::cwd {

class Gpc2SmUnit : public Block {
 public:
  Gpc2SmUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CwdParams& params,
             const arch::Topology& topology, std::uint32_t gpc, const std::vector<std::uint32_t>& sm_priority,
             SmPolicy& load_balancing, SmPolicy& multicast, DomainPolicy& cpc_policy);
  ~Gpc2SmUnit() override;

  PacketIn<protocol::SnapshotPacket> snapshot_in;
  PacketIn<protocol::MimicPacket> mimic_in;
  PacketIn<protocol::HomePacket> home_in;
  PacketOut<protocol::AnswerPacket> answer_out;
  PacketOut<protocol::MaskPacket> mask_out;

  void reset() override;
  void collect_waits(WaitGraph&) const override {}  // it answers whatever it is asked

 private:
  struct QueryStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& queries = counter("queries", "queries", "queries for a CGA");
    Counter& steps = counter("steps", "steps", "decisions made for answers, one after another");
    Counter& valid = counter("valid", "queries", "queries answered with a home for the CGA");
    Counter& masks = counter("masks", "masks", "SM masks of accepted CGAs");
  };

  void on_event(std::uint32_t, std::uint64_t) override {}
  // All links are heard ahead: the unit's registers change by nothing else, and in the order in which it is told.
  void on_snapshot(const protocol::SnapshotPacket& snapshot, std::uint32_t, Cycle arrival);
  void on_mimic(const protocol::MimicPacket& mimic, std::uint32_t, Cycle arrival);
  void on_home(const protocol::HomePacket& home, std::uint32_t, Cycle arrival);
  void ask(Cycle begin, bool after_reset);

  const Cycle step_;
  const double prefix_step_;
  GpcModel model_;
  // Masks of what is reserved, in the order of reservation; the first accepted_ of them are permanent.
  std::vector<std::vector<std::uint64_t>> reserved_;
  std::size_t count_ = 0;
  std::size_t accepted_ = 0;
  Cycle way_ = 0;  // of answers, beyond the link

  QueryStats stats_;
  TrackId track_;
};

// The GPU2GPC distributor: runs the session of a grid of CGAs by asking the GPC2SM units. Every query costs the
// comparison of its answers, and every choice among uGPUs theirs (CWD-13); the GPC_CGAs of a GPU_CGA are started one by
// one, a step each (CWD-19), those of a grid of GPC_CGAs that tie at the same time.

class Gpu2GpcUnit : public Block {
 public:
  Gpu2GpcUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CwdParams& params,
              const arch::Topology& topology, DomainPolicy& policy);
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
    Counter& slower_choices = counter("slower_choices", "choices",
                                      "choices of a domain while another one that had room had more speed: where the "
                                      "policy fastest chooses otherwise");
    Histogram& session_cycles = histogram("session_cycles", "cycles", "from a session's begin to its last decision");
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_session(const protocol::SessionPacket& session, std::uint32_t);
  void on_answer(const protocol::AnswerPacket& answer, std::uint32_t gpc, Cycle arrival);
  void step();
  // Packets leave in cycle `decided`.
  bool carry_out(const std::vector<Command>& commands, Cycle decided);
  void start_homes(Cycle decided);
  Cycle compare_cycles(std::uint32_t levels) const { return domain_.cost(tree_cycles(levels, compare_step_)); }
  void draw_step();

  const Cycle step_;
  const double compare_step_;
  ClusterSession core_;
  std::vector<protocol::MimicPacket> packets_;  // of the step, by GPC
  std::vector<DomainAnswer> answers_;           // of the step, by GPC
  std::vector<std::uint32_t> asked_;
  std::optional<std::uint64_t> session_;  // the one that runs
  Cycle way_ = 0;                         // of its queries and orders, beyond the link
  bool single_ = true;                    // of a grid of GPC_CGAs
  std::size_t homes_sent_ = 0;
  std::uint32_t expected_ = 0;  // answers of the step that have not been heard
  Cycle answered_ = 0;          // when the last of them that have been arrives
  Cycle step_begin_ = 0;
  Cycle start_free_ = 0;  // when the next GPC_CGA of a GPU_CGA can be started

  UnitStats stats_;
  Cycle begin_ = 0;
  TrackId track_;
};

}  // namespace heddle::cwd
