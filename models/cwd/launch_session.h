// A launch session (CWD-02): finds places for CTAs of one task, on a snapshot of the free slots, and hands their masks
// to the launcher. What completes meanwhile is for the next session. One session runs at a time.
//
// The CTAs of plain grids, and CGAs of CTAs over a whole domain, are placed here, over all SMs at once; grids of
// GPC_CGAs are placed by the GPU2GPC unit and the GPC2SM units, which answer with packets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/packet_port.h"
#include "cwd/cluster_place.h"
#include "cwd/cluster_session.h"
#include "cwd/cwd_context.h"
#include "cwd/lake_fill.h"
#include "cwd/launcher.h"
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
  // The session of the plan has ended. `placed`: outermost CGAs, or CTAs of a plain grid.
  virtual void session_ended(const SessionPlan& plan, std::uint64_t placed) = 0;

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
  LaunchSession(const CwdContext& context, TaskTable& table, SubcontextPartition& partition, Launcher& launcher,
                const ClusterRoom& room, PlainPolicy& plain, DomainPolicy& policy,
                const std::vector<std::uint32_t>& sm_priority, std::uint32_t max_slots, const UnitLinks& units);
  void set_listener(SessionListener& listener) { listener_ = &listener; }

  // Takes the plan, and leaves another one whose memory can be used again. No session must be running.
  void begin(SessionPlan& plan);
  bool running() const { return state_ != State::idle; }
  bool running(std::uint32_t slot) const { return running() && plan_.slot == slot; }

  // From the units of a cluster session: the masks of accepted GPC_CGAs, and that all is decided.
  void on_masks(const protocol::MaskPacket& masks, std::uint32_t gpc);
  void on_decided(const protocol::SessionEndPacket& end, std::uint32_t);

  void reset();

 private:
  struct SessionStats : StatGroup {
    using StatGroup::StatGroup;
    Counter& sessions = counter("sessions", "sessions", "launch sessions");
    Counter& failed = counter("failed_sessions", "sessions", "sessions that found no home for a CGA");
    Counter& steps =
        counter("session_steps", "steps", "steps of all sessions: of the level search, or of queries to the GPCs");
    Histogram& cycles = histogram("session_cycles", "cycles", "length of a launch session");
  };
  enum class State : std::uint8_t {
    idle,
    placing,
    decided,  // a cluster session whose masks have not all arrived
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return context_.name; }
  void place_plain();
  void place_domain_wide();
  void ask_units();
  protocol::WaitingWork waiting_work() const;
  // `way`: cycles besides the session's own.
  void end_after(std::uint32_t steps, std::uint32_t way);
  std::uint32_t ugpu_way(const TaskEntry& entry) const;
  void end_if_all_launched();
  void end(std::uint64_t placed);
  void draw(std::uint64_t placed) const;

  const CwdContext& context_;
  TaskTable& table_;
  SubcontextPartition& partition_;
  Launcher& launcher_;
  const ClusterRoom& room_;
  const UnitLinks units_;
  SessionListener* listener_ = nullptr;
  PlainPolicy& plain_;
  DomainWideFill domain_wide_;
  MaskReorder reorder_;

  State state_ = State::idle;
  SessionPlan plan_;
  Cycle begin_ = 0;
  std::uint64_t number_ = 0;                                 // of the next session; while one runs, the one after it
  std::uint64_t sequence_ = 0;                               // of the next outermost CGA or plain session
  const Placement* placement_ = nullptr;                     // plain
  const std::vector<DomainWideCga>* placed_cgas_ = nullptr;  // domain-wide
  protocol::SessionEndPacket decision_;                      // cluster, once it is decided
  SessionStats stats_;
  TrackId track_;
};

}  // namespace heddle::cwd
