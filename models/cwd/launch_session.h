// A launch session (CWD-02): finds places for CTAs of one task, on a snapshot of the free slots, and hands them to the
// launcher. What completes meanwhile is for the next session.
//
// A session decides, and then its masks are made. One session decides at a time; while the masks of others are made it
// may (CWD-27): what has been decided is accounted for by then, so that nothing is placed twice. Before it decides, it
// waits until all updates of the live model are in, and copies it (CWD-28).
//
// The CTAs of plain grids, and CGAs of CTAs over a whole domain, are placed here, over all SMs at once; grids of
// GPC_CGAs are placed by the GPU2GPC unit and the GPC2SM units, which answer with packets.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "common/packet_port.h"
#include "cwd/cluster_place.h"
#include "cwd/cluster_session.h"
#include "cwd/cwd_context.h"
#include "cwd/lake_fill.h"
#include "cwd/launcher.h"
#include "cwd/machine_ledger.h"
#include "cwd/plain_policy.h"
#include "cwd/subcontext_partition.h"
#include "protocol/cwd_units.h"

namespace heddle::cwd {

enum class SessionKind : std::uint8_t {
  plain,        // CTAs of a plain grid
  domain_wide,  // CGAs of CTAs over a whole GPU or uGPU
  cluster,      // CGAs that consist of GPC_CGAs
};

// What a session is to do, and on what. The arbiter makes it.
struct SessionPlan {
  SessionKind kind = SessionKind::plain;
  std::uint32_t slot = 0;              // of the task
  std::uint32_t size = 0;              // size index of the outermost CGA
  std::uint64_t units = 0;             // most outermost CGAs, or CTAs of a plain grid
  std::uint64_t version = 0;           // state of the machine
  std::vector<std::uint16_t> slots;    // free slots by SM id, as far as the task may use them
  WaitReason held = WaitReason::none;  // what its subcontext or the pools kept from it
};

class SessionListener {
 public:
  // The session of the plan has decided, and all of it is accounted for. `placed`: outermost CGAs, or CTAs of a plain
  // grid.
  virtual void session_decided(const SessionPlan& plan, std::uint64_t placed) = 0;
  // The masks of a session of that task are made: another one may begin. Of a session without a place, nobody is told.
  virtual void session_ended(std::uint32_t slot) = 0;

 protected:
  ~SessionListener() = default;
};

// Links to the units that place GPC_CGAs; the second by number of the GPC.
struct UnitLinks {
  PacketSender<protocol::SessionPacket>& session;
  PacketSender<protocol::SnapshotPacket>& snapshot;
};

class LaunchSession final : private EventHandler {
 public:
  LaunchSession(const CwdContext& context, TaskTable& table, MachineLedger& machine, SubcontextPartition& partition,
                Launcher& launcher, const ClusterRoom& room, PlainPolicy& plain, DomainPolicy& policy,
                const std::vector<std::uint32_t>& sm_priority, std::uint32_t max_slots, const UnitLinks& units);
  void set_listener(SessionListener& listener) { listener_ = &listener; }

  // Takes the plan, and leaves another one whose memory can be used again. can_begin() must hold.
  void begin(SessionPlan& plan);
  bool can_begin() const { return !deciding() && ending_.size() < context_.params.sessions; }
  // A session has not decided yet, one of that task.
  bool deciding() const { return state_ != State::idle; }
  bool deciding(std::uint32_t slot) const { return deciding() && plan_.slot == slot; }
  // Sessions that have begun, and whose masks are not all made; one of that task.
  std::size_t in_flight() const { return ending_.size() + (deciding() ? 1 : 0); }
  bool in_flight(std::uint32_t slot) const;

  // From the units of a cluster session: the masks of accepted GPC_CGAs, ahead of their arrival in the mask generators,
  // and that all is decided.
  void on_masks(const protocol::MaskPacket& masks, std::uint32_t gpc, Cycle arrival);
  void on_decided(const protocol::SessionEndPacket& end, std::uint32_t);

  void reset();

 private:
  struct SessionStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& sessions = counter("sessions", "sessions", "launch sessions");
    Counter& failed = counter("failed_sessions", "sessions", "sessions that found no home for a CGA");
    Counter& steps =
        counter("session_steps", "steps", "steps of all sessions: of the level search, or of queries to the GPCs");
    Counter& deciding = counter("decision_cycles", "cycles", "time in which a session waited for updates or decided");
    Counter& waiting = counter("update_wait_cycles", "cycles",
                               "time that sessions waited for updates of the live model before their copy");
    Histogram& cycles = histogram("session_cycles", "cycles", "from the begin of a launch session to its last mask");
  };
  enum class State : std::uint8_t {
    idle,
    placing,
    placed_first,  // of the prior art, which launches as it decides: the first CTA is (CWD-08)
  };
  // A session whose masks are being made.
  struct Ending {
    std::uint32_t slot = 0;
    std::uint64_t number = 0;
    std::uint64_t sequence = 0;
    std::uint64_t placed = 0;
    std::uint32_t size = 0;
    Cycle begin = 0;
    std::string text;  // where there is a timeline: the task can have gone by then
  };
  enum Kind : std::uint32_t { kDecided, kEnded };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return context_.name; }
  void place_plain();
  void place_domain_wide();
  void ask_units();
  protocol::WaitingWork waiting_work() const;
  // `way`: cycles besides the session's own.
  void decide_after(const SearchWork& work, std::uint32_t way);
  std::optional<protocol::CutTie> cut_tie(const TaskEntry& entry) const;
  void keep_tie(const std::optional<protocol::CutTie>& tie);
  std::uint32_t ugpu_way(const TaskEntry& entry) const;
  void decide_one_by_one();
  void launch_first();
  void decided(std::uint64_t placed);
  void end(const Ending& session) const;
  Cycle copy_cycles();
  std::string text_of(std::uint64_t placed) const;

  const CwdContext& context_;
  TaskTable& table_;
  MachineLedger& machine_;
  SubcontextPartition& partition_;
  Launcher& launcher_;
  const ClusterRoom& room_;
  const UnitLinks units_;
  SessionListener* listener_ = nullptr;
  PlainPolicy& plain_;
  DomainWideFill domain_wide_;

  State state_ = State::idle;
  SessionPlan plan_;
  Cycle begin_ = 0;
  Cycle copied_ = 0;                                         // when the copy of the session that decides is there
  CgaMasks masks_;                                           // of the GPC_CGA whose masks arrive
  std::uint32_t cgas_ = 0;                                   // GPC_CGAs of the session so far
  std::uint64_t number_ = 0;                                 // of the next session; while one runs, the one after it
  std::uint64_t sequence_ = 0;                               // of the next outermost CGA or plain session
  const Placement* placement_ = nullptr;                     // plain
  const std::vector<DomainWideCga>* placed_cgas_ = nullptr;  // domain-wide
  std::deque<Ending> ending_;
  Cycle last_end_ = 0;
  SessionStats stats_;
  std::vector<TrackId> tracks_;  // sessions in flight lie beside each other
};

}  // namespace heddle::cwd
