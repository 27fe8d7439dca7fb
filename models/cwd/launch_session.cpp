#include "cwd/launch_session.h"

#include <algorithm>

#include <fmt/format.h>

#include "cwd/cluster_place.h"

namespace heddle::cwd {

LaunchSession::LaunchSession(const CwdContext& context, TaskTable& table, SubcontextPartition& partition,
                             Launcher& launcher, const ClusterRoom& room, PlainPolicy& plain, DomainPolicy& policy,
                             const std::vector<std::uint32_t>& sm_priority, std::uint32_t max_slots,
                             const UnitLinks& units)
    : context_(context),
      table_(table),
      partition_(partition),
      launcher_(launcher),
      room_(room),
      units_(units),
      plain_(plain),
      domain_wide_(context.topology, max_slots, context.params.level_search, sm_priority, policy,
                   context.params.one_at_a_time()),
      stats_(context.observation.stats, context.stat_prefix),
      track_(context.track("sessions")) {}

void LaunchSession::reset() {
  state_ = State::idle;
  reorder_.reset();
  number_ = sequence_ = 0;
}

void LaunchSession::begin(SessionPlan& plan) {
  HEDDLE_CHECK(state_ == State::idle, "a session began while another one ran");
  std::swap(plan_, plan);
  state_ = State::placing;
  begin_ = context_.now();
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

void LaunchSession::place_plain() {
  placement_ = partition_.place_by_credit(table_.at(plan_.slot).task, plan_.slots, plan_.units);
  if (placement_ == nullptr) placement_ = &plain_.place({plan_.slots, plan_.units, waiting_work()});
  HEDDLE_CHECK(placement_->ctas > 0 && placement_->ctas <= plan_.units,
               "the policy for plain grids placed no CTA, or more than there are");
  end_after(placement_->steps, 0);
}

void LaunchSession::place_domain_wide() {
  const TaskEntry& entry = table_.at(plan_.slot);
  placed_cgas_ = &domain_wide_.place(plan_.slots, entry.unit_ctas(plan_.size), plan_.units,
                                     entry.task.cluster.outermost(), waiting_work());
  // The distributors of the uGPUs search, all at once: the question goes there, and the answers come back.
  end_after(domain_wide_.steps(), 2 * ugpu_way(entry));
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

std::uint32_t LaunchSession::ugpu_way(const TaskEntry& entry) const {
  return context_.params.ugpu_way(entry.task.cluster.has(arch::CgaLevel::ugpu), context_.topology.ugpus());
}

void LaunchSession::end_after(std::uint32_t steps, std::uint32_t way) {
  stats_.steps.add(steps);
  const Cycle length = context_.params.session_pipeline + Cycle{context_.params.session_step} * steps + way;
  context_.timebase.schedule(context_.now() + context_.timebase.cost(length), *this, 0);
}

void LaunchSession::on_event(std::uint32_t, std::uint64_t) {
  HEDDLE_CHECK(state_ == State::placing, "a session ended that had not begun");
  if (plan_.kind == SessionKind::plain) {
    launcher_.launch(*placement_);
    end(placement_->ctas);
  } else {
    launcher_.launch(*placed_cgas_);
    end(placed_cgas_->size());
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
  reorder_.reset();
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) {
    protocol::SnapshotPacket snapshot;
    snapshot.session = session;
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
  units_.session.send(
      {session, request.units, request.single, request.ugpu_cgas, request.gpc_cgas, way, request.ctas, waiting});
}

void LaunchSession::on_masks(const protocol::MaskPacket& masks, std::uint32_t gpc) {
  reorder_.push(masks, gpc);
  CgaMasks cga;
  while (reorder_.pop(cga)) launcher_.launch(cga);
  launcher_.pump();
  end_if_all_launched();
}

void LaunchSession::on_decided(const protocol::SessionEndPacket& end, std::uint32_t) {
  HEDDLE_CHECK(state_ == State::placing && plan_.kind == SessionKind::cluster && end.session + 1 == number_,
               "the end of another session");
  state_ = State::decided;
  decision_ = end;
  stats_.steps.add(end.queries);
  end_if_all_launched();
}

void LaunchSession::end_if_all_launched() {
  if (state_ == State::decided && reorder_.popped() == decision_.cgas) end(decision_.units);
}

void LaunchSession::end(std::uint64_t placed) {
  HEDDLE_CHECK(placed > 0 || plan_.kind != SessionKind::plain, "a session of a plain grid without a CTA");
  stats_.cycles.add(context_.now() - begin_);
  if (context_.timeline() != nullptr) draw(placed);
  if (placed == 0) stats_.failed.add();
  sequence_ += plan_.kind == SessionKind::plain ? 1 : placed;
  launcher_.close();
  state_ = State::idle;
  partition_.close_session(table_.at(plan_.slot).task);
  listener_->session_ended(plan_, placed);
}

void LaunchSession::draw(std::uint64_t placed) const {
  const TaskEntry& entry = table_.at(plan_.slot);
  const std::string name = context_.observation.labels.of(entry.runs_as());
  const char* unit = entry.task.cluster.any() ? arch::cga_name(entry.task.cluster.outermost()) : "CTA";
  context_.draw(track_, begin_,
                placed == 0 ? fmt::format("{}: no home for a {} of {} CTAs", name, unit, entry.unit_ctas(plan_.size))
                            : fmt::format("{}: {} {}s", name, placed, unit),
                {{"session", static_cast<std::int64_t>(number_ - 1)},
                 {"sequence", static_cast<std::int64_t>(sequence_)},
                 {"placed", static_cast<std::int64_t>(placed)},
                 {"size", plan_.size}});
}

}  // namespace heddle::cwd
