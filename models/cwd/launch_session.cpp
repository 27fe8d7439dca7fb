#include "cwd/launch_session.h"

#include <algorithm>

#include <fmt/format.h>

#include "cwd/cluster_place.h"

namespace heddle::cwd {

LaunchSession::LaunchSession(const CwdContext& context, TaskTable& table, MachineLedger& machine,
                             SubcontextPartition& partition, Launcher& launcher, const ClusterRoom& room,
                             PlainPolicy& plain, DomainPolicy& policy, const std::vector<std::uint32_t>& sm_priority,
                             std::uint32_t max_slots, const UnitLinks& units)
    : context_(context),
      table_(table),
      machine_(machine),
      partition_(partition),
      launcher_(launcher),
      room_(room),
      units_(units),
      plain_(plain),
      domain_wide_(context.topology, max_slots, context.params.level_search, sm_priority, policy,
                   context.params.one_at_a_time()),
      stats_(context.observation.stats, context.stat_prefix) {
  for (std::uint32_t i = 0; i < context.params.sessions; ++i) {
    tracks_.push_back(context.detail_track(i == 0 ? std::string("sessions") : fmt::format("sessions {}", i + 1), true));
  }
}

void LaunchSession::reset() {
  state_ = State::idle;
  number_ = sequence_ = 0;
  ending_.clear();
  last_end_ = 0;
}

bool LaunchSession::in_flight(std::uint32_t slot) const {
  return deciding(slot) ||
         std::any_of(ending_.begin(), ending_.end(), [slot](const Ending& session) { return session.slot == slot; });
}

void LaunchSession::begin(SessionPlan& plan) {
  HEDDLE_CHECK(can_begin(), "a session began while another one decided, or too many were in flight");
  std::swap(plan_, plan);
  state_ = State::placing;
  begin_ = context_.now();
  copied_ = begin_ + copy_cycles();
  launcher_.open({plan_.slot, plan_.size, number_, sequence_});
  ++number_;
  stats_.sessions.add();
  partition_.open_session(table_.at(plan_.slot).task, plan_.slots);
  switch (plan_.kind) {
    case SessionKind::plain:
      place_plain();
      break;
    case SessionKind::domain_wide:
      place_domain_wide();
      break;
    case SessionKind::cluster:
      ask_units();
      break;
  }
}

// The updates that are on their way, then the copy.
Cycle LaunchSession::copy_cycles() {
  const Cycle in = machine_.updates().last();
  const Cycle wait = context_.timebase.cost(in > begin_ ? in - begin_ : 0);
  stats_.waiting.add(wait);
  return wait + context_.timebase.cost(snapshot_cycles(context_.topology.sms(), context_.params.snapshot_sms));
}

void LaunchSession::place_plain() {
  placement_ = partition_.place_by_credit(table_.at(plan_.slot).task, plan_.slots, plan_.units);
  if (placement_ == nullptr) placement_ = &plain_.place({plan_.slots, plan_.units, waiting_work()});
  HEDDLE_CHECK(placement_->ctas > 0 && placement_->ctas <= plan_.units,
               "the policy for plain grids placed no CTA, or more than there are");
  if (placement_->one_by_one) {
    decide_one_by_one();
  } else {
    decide_after({placement_->steps, 0, placement_->prefix_levels, 0}, 0);
  }
}

void LaunchSession::place_domain_wide() {
  const TaskEntry& entry = table_.at(plan_.slot);
  placed_cgas_ = &domain_wide_.place(plan_.slots, entry.unit_ctas(plan_.size), plan_.units,
                                     entry.task.cluster.outermost(), waiting_work(), cut_tie(entry));
  // The distributors of the uGPUs search, all at once: the question goes there, and the answers come back.
  decide_after(domain_wide_.work(), 2 * ugpu_way(entry));
}

// The most urgent tasks beside the session's own that have CTAs left to place.
protocol::WaitingWork LaunchSession::waiting_work() const {
  protocol::WaitingWork waiting;
  for (const std::uint32_t slot : table_.waiting()) {
    if (slot == plan_.slot) continue;
    if (waiting.count == waiting.tasks.size()) break;
    const TaskEntry& entry = table_.at(slot);
    const auto ctas =
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, entry.task.cluster.of(arch::CgaLevel::gpc).count()));
    waiting.tasks[waiting.count++] = {ctas, entry.left() / ctas};
  }
  return waiting;
}

// A tie of before is over as soon as something that was freed has made a domain faster.
std::optional<protocol::CutTie> LaunchSession::cut_tie(const TaskEntry& entry) const {
  std::optional<protocol::CutTie> tie = entry.tie;
  if (tie) tie->stands = entry.tie_version == plan_.version;
  return tie;
}

void LaunchSession::keep_tie(const std::optional<protocol::CutTie>& tie) {
  TaskEntry& entry = table_.at(plan_.slot);
  entry.tie = tie;
  entry.tie_version = plan_.version;
}

std::uint32_t LaunchSession::ugpu_way(const TaskEntry& entry) const {
  return context_.params.ugpu_way(entry.task.cluster.has(arch::CgaLevel::ugpu), context_.topology.ugpus());
}

void LaunchSession::decide_after(const SearchWork& work, std::uint32_t way) {
  stats_.steps.add(work.steps);
  const CwdParams& params = context_.params;
  const Cycle length = params.session_pipeline + params.search_cycles(work) + way;
  context_.timebase.schedule(copied_ + context_.timebase.cost(length), *this, kDecided);
}

// The prior art sends each CTA as soon as it is decided, and goes on to the next (CWD-08).
void LaunchSession::decide_one_by_one() {
  stats_.steps.add(placement_->steps);
  const CwdParams& params = context_.params;
  const Cycle first = Cycle{params.session_pipeline} + params.session_step;
  context_.timebase.schedule(copied_ + context_.timebase.cost(first), *this, kDecided);
}

void LaunchSession::launch_first() {
  const Cycle step = context_.timebase.cost(context_.params.session_step);
  launcher_.launch(*placement_, context_.now(), step);
  launcher_.pump();
  const Cycle rest = step * (placement_->steps - 1);
  if (rest == 0) {
    decided(placement_->ctas);
    return;
  }
  state_ = State::placed_first;
  context_.timebase.schedule(context_.now() + rest, *this, kDecided);
}

void LaunchSession::on_event(std::uint32_t kind, std::uint64_t) {
  if (kind == kEnded) {
    const Ending session = std::move(ending_.front());
    ending_.pop_front();
    end(session);
    listener_->session_ended(session.slot);
    return;
  }
  HEDDLE_CHECK(deciding(), "a session has decided that had not begun");
  if (plan_.kind == SessionKind::domain_wide) {
    keep_tie(domain_wide_.cut_tie());
    launcher_.launch(*placed_cgas_, context_.now());
    decided(placed_cgas_->size());
  } else if (state_ == State::placed_first) {
    decided(placement_->ctas);
  } else if (placement_->one_by_one) {
    launch_first();
  } else {
    launcher_.launch(*placement_, context_.now(), 0);
    decided(placement_->ctas);
  }
}

// The shadow state goes to the GPC2SM units, the question to the GPU2GPC unit; masks and end come back as packets.
void LaunchSession::ask_units() {
  const TaskEntry& entry = table_.at(plan_.slot);
  const std::uint64_t session = number_ - 1;
  const GpcCgaShape shape = gpc_cga_shape_for(entry.task.cluster, plan_.size);
  const SessionRequest request = request_for(entry.task.cluster, plan_.size, plan_.units);
  const std::uint32_t way = ugpu_way(entry);
  const protocol::WaitingWork waiting = waiting_work();
  cgas_ = 0;
  masks_.masks.clear();
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) {
    protocol::SnapshotPacket snapshot;
    const std::vector<std::uint32_t>& ids = context_.topology.gpc(g).sm_ids;
    for (std::size_t bit = 0; bit < ids.size(); ++bit) snapshot.free[bit] = plan_.slots[ids[bit]];
    snapshot.ctas = shape.ctas;
    snapshot.cpc_ctas = shape.cpc_ctas;
    snapshot.multicast = entry.task.cluster.mode == arch::CgaMode::multicast;
    snapshot.way = way;
    snapshot.cgas = room_.on_gpc(entry, plan_.size, g);
    snapshot.waiting = waiting;
    units_.snapshot.send(snapshot, g);
  }
  units_.session.send_at(copied_, {session, request.units, request.single, request.ugpu_cgas, request.gpc_cgas, way,
                                   request.ctas, waiting, cut_tie(entry)});
}

// The units send them in launch order, as they decide. A GPC_CGA is accounted for when it is accepted; its masks are
// made from their arrival on.
void LaunchSession::on_masks(const protocol::MaskPacket& masks, std::uint32_t gpc, Cycle arrival) {
  HEDDLE_CHECK(state_ == State::placing && plan_.kind == SessionKind::cluster && masks.order == cgas_ &&
                   (masks_.masks.empty() || masks_.gpc == gpc),
               "masks of another session, or of CGAs out of order");
  masks_.gpc = gpc;
  masks_.unit = masks.unit;
  masks_.last = masks.last;
  masks_.masks.insert(masks_.masks.end(), masks.masks.begin(), masks.masks.begin() + masks.count);
  if (!masks.final) return;
  launcher_.launch(masks_, arrival);
  launcher_.pump();
  masks_.masks.clear();
  ++cgas_;
}

void LaunchSession::on_decided(const protocol::SessionEndPacket& end, std::uint32_t) {
  HEDDLE_CHECK(state_ == State::placing && plan_.kind == SessionKind::cluster && end.session + 1 == number_,
               "the end of another session");
  HEDDLE_CHECK(end.cgas == cgas_, "a session has ended before all its masks were heard of");
  stats_.steps.add(end.queries);
  keep_tie(end.tie);
  decided(end.units);
}

// All is decided and accounted for. Without a place there is no mask to wait for.
void LaunchSession::decided(std::uint64_t placed) {
  HEDDLE_CHECK(placed > 0 || plan_.kind != SessionKind::plain, "a session of a plain grid without a CTA");
  const Cycle now = context_.now();
  stats_.deciding.add(now - begin_);
  if (placed == 0) stats_.failed.add();
  Ending session{plan_.slot, number_ - 1, sequence_, placed, plan_.size, begin_, {}};
  if (context_.timeline() != nullptr) session.text = text_of(placed);
  sequence_ += plan_.kind == SessionKind::plain ? 1 : placed;
  const Cycle made = launcher_.close();
  state_ = State::idle;
  partition_.close_session(table_.at(plan_.slot).task);
  if (placed == 0) {
    end(session);
  } else {
    last_end_ = std::max(last_end_, made);
    ending_.push_back(std::move(session));
    context_.timebase.schedule(last_end_, *this, kEnded);
  }
  listener_->session_decided(plan_, placed);
}

void LaunchSession::end(const Ending& session) const {
  stats_.cycles.add(context_.now() - session.begin);
  if (context_.timeline() == nullptr) return;
  context_.draw(tracks_[session.number % tracks_.size()], session.begin, session.text,
                {{"session", static_cast<std::int64_t>(session.number)},
                 {"sequence", static_cast<std::int64_t>(session.sequence)},
                 {"placed", static_cast<std::int64_t>(session.placed)},
                 {"size", session.size}});
}

std::string LaunchSession::text_of(std::uint64_t placed) const {
  const TaskEntry& entry = table_.at(plan_.slot);
  const std::string name = context_.observation.labels.of(entry.runs_as());
  const char* unit = entry.task.cluster.any() ? arch::cga_name(entry.task.cluster.outermost()) : "CTA";
  if (placed == 0) return fmt::format("{}: no home for a {} of {} CTAs", name, unit, entry.unit_ctas(plan_.size));
  return fmt::format("{}: {} {}s", name, placed, unit);
}

}  // namespace heddle::cwd
