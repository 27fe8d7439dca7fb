// Sessions of the CWD: whose turn it is, on which shadow state, and within which limits.
#include <algorithm>

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "cwd/cwd.h"

namespace heddle::cwd {
namespace {

using arch::CgaLevel;
using arch::ClusterShape;

bool gpu_level(const ClusterShape& cluster) {
  return cluster.any() && static_cast<std::size_t>(cluster.outermost()) >= static_cast<std::size_t>(CgaLevel::ugpu);
}

}  // namespace

// Completions of one cycle are all seen before the next session starts.
void Cwd::consider_later() {
  if (table_.waiting().empty()) note_waiting(false);
  if (consider_scheduled_ || session_.kind != SessionKind::none || table_.waiting().empty()) return;
  consider_scheduled_ = true;
  domain_.schedule(now(), *this, kConsider);
}

void Cwd::consider() {
  if (session_.kind != SessionKind::none || buffers_.size() >= params_.mask_buffers) return;
  bool passed = true;
  std::uint64_t full = 0;  // subcontexts with a task that waits for room on the TPCs that they may use
  std::uint32_t chosen = TaskTable::kNone;
  pools_.begin_walk();
  for (const std::uint32_t slot : table_.waiting()) {
    const std::uint64_t subcontext = std::uint64_t{1} << table_.at(slot).task.subcontext;
    if (!passed || (full & subcontext) != 0) {
      if (waits_.reason(slot) == WaitReason::none) waits_.set(slot, WaitReason::behind);
      continue;
    }
    if (try_begin(slot)) {
      chosen = slot;
      break;
    }
    leave_pending(table_.at(slot));
    passed = may_pass(table_.at(slot)) || kept_off(slot);
    // The next task of the same subcontext would only take the room that this one waits for.
    if (waits_.reason(slot) == WaitReason::tpc_mask && !may_pass(table_.at(slot))) full |= subcontext;
  }
  note_waiting(chosen == TaskTable::kNone && !table_.waiting().empty());
}

// A task that waits for room lets others pass: a plain grid only if backfilling is on, a grid of CGAs until it has
// waited for the age limit (CWD-26).
bool Cwd::may_pass(const TaskEntry& entry) const {
  if (!entry.task.cluster.any()) return params_.backfill;
  return now() - entry.blocked_since < params_.age_limit;
}

// True if a session has begun for the task.
bool Cwd::try_begin(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  if (entry.blocked && entry.blocked_version == version_ && entry.selection == 0 && !pools_changed(entry)) return false;
  const std::uint64_t left = entry.total - entry.placed;
  session_.snapshot = live_.free_slots(slot);
  const WaitReason pooled = restrict_to_pools(entry, session_.snapshot);
  entry.pool_limited = pooled != WaitReason::none;
  entry.pool_version = pool_version_;
  WaitReason held = restrict_to_holds(entry, session_.snapshot);
  if (held == WaitReason::none) held = pooled;
  session_.held = held;
  if (!entry.task.cluster.any()) {
    const bool room = live_.total_free(slot) > 0 &&
                      (held == WaitReason::none ||
                       std::any_of(session_.snapshot.begin(), session_.snapshot.end(), [](auto n) { return n > 0; }));
    if (!room) {
      block(entry, slot, held == WaitReason::none ? WaitReason::free_slots : held, version_);
      return false;
    }
    open_session(slot, SessionKind::plain, 0);
    begin_plain(std::min(left, params_.session_limit));
    return true;
  }
  // The full size, then the fallbacks (CWD-21); within a CGA that has been split, its size.
  WaitReason reason = WaitReason::none;
  for (;;) {
    std::uint64_t units = 0;
    WaitReason why = limit_units(entry, entry.size, units);
    if (why == WaitReason::none && !finds_room(entry, slot, held)) {
      why = why_no_home(entry, entry.size);
      if (why == WaitReason::free_slots && held != WaitReason::none) why = held;
    }
    if (why == WaitReason::none) {
      const bool wide = !entry.task.cluster.has(CgaLevel::gpc);
      open_session(slot, wide ? SessionKind::wide : SessionKind::cluster, entry.size);
      if (wide) {
        begin_wide(units);
      } else {
        begin_cluster(units);
      }
      return true;
    }
    if (reason == WaitReason::none) reason = why;
    if (entry.split() || entry.size + 1 >= entry.task.cluster.sizes()) break;
    ++entry.size;
  }
  if (!entry.split()) entry.size = 0;
  block(entry, slot, reason, version_);
  if (entry.blocked_version != version_) consider_later();
  return false;
}

// Sizes fail one session after another: what became free after the first of them may be enough for it.
void Cwd::block(TaskEntry& entry, std::uint32_t slot, WaitReason reason, std::uint64_t version) {
  if (!entry.blocked) entry.blocked_since = now();
  entry.blocked = true;
  entry.blocked_version = entry.first_failure == 0 ? version : std::min(version, entry.first_failure);
  entry.first_failure = 0;
  waits_.set(slot, reason);
}

bool Cwd::may_run_on(const TaskEntry& entry, std::uint32_t gpc) const {
  return enabled_tpcs_[gpc] > 0 && mask_reaches(entry.task.subcontext, gpc);
}

// Free slots of a GPC count only for the tasks in its pools (TSK-04).
WaitReason Cwd::restrict_to_pools(const TaskEntry& entry, std::vector<std::uint16_t>& slots) const {
  if (!pools_.limited()) return WaitReason::none;
  WaitReason reason = WaitReason::none;
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    if (pools_.admits(entry.runs_as(), entry.task.priority, g)) continue;
    for (const std::uint32_t sm : topology_.gpc(g).sm_ids) {
      if (slots[sm] > 0) reason = WaitReason::pool;
      slots[sm] = 0;
    }
  }
  return reason;
}

// The task has CTAs left and waits: it takes places of pending pools, and those behind it see what is left.
void Cwd::leave_pending(const TaskEntry& entry) {
  if (!pools_.limited()) return;
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    if (may_run_on(entry, g)) pools_.wait_at(entry.runs_as(), g);
  }
}

// The outermost CGAs that a session may place: those that remain, at most the session's limit (CWD-23), and at most
// what is left of everything that CGAs take besides free slots (CWD-19).
WaitReason Cwd::limit_units(const TaskEntry& entry, std::uint32_t size, std::uint64_t& units) const {
  const ClusterShape& cluster = entry.task.cluster;
  const std::uint64_t full = entry.unit_ctas(0);
  const std::uint64_t ctas = entry.unit_ctas(size);
  std::uint64_t left = entry.total - entry.placed;
  if (entry.split()) {
    left = full - entry.placed % full;
  } else if (size > 0) {
    left = full;  // only as much as the one CGA that is being split
  }
  units = std::min(left / ctas, std::max<std::uint64_t>(1, params_.session_limit / ctas));
  if (cluster.linear_memory) {
    units = std::min<std::uint64_t>(units, ledger_.memory_slots(entry.task.subcontext));
    if (units == 0) return WaitReason::memory_slot;
  }
  if (gpu_level(cluster)) {
    units = std::min<std::uint64_t>(units, ledger_.gpu_barriers());
    if (units == 0) return WaitReason::gpu_barrier;
  }
  return WaitReason::none;
}

std::uint32_t Cwd::gpc_room(const TaskEntry& entry, std::uint32_t size, std::uint32_t gpc) const {
  return std::min(ledger_.gpc_cgas(gpc), entry.room[admission_.room_index(entry.task, size, gpc)]);
}

// A cheap look that spares hopeless sessions: never false if a session could place a CGA.
bool Cwd::could_hold(const TaskEntry& entry, std::uint32_t size, const std::vector<std::uint16_t>& slots) const {
  const SessionRequest request = request_for(entry.task.cluster, size, 1);
  const std::uint64_t unit = entry.unit_ctas(size);
  const bool wide = !entry.task.cluster.has(CgaLevel::gpc);
  const std::uint64_t gpc_ctas = wide ? 0 : gpc_cga_shape_for(entry.task.cluster, size).ctas;
  const std::uint64_t cgas = std::max<std::uint64_t>(1, request.ugpu_cgas) * request.gpc_cgas;
  std::uint64_t free = 0;
  std::uint64_t homes = 0;
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    std::uint64_t slots_here = 0;
    std::uint64_t sms_here = 0;
    for (const std::uint32_t sm : topology_.gpc(g).sm_ids) {
      slots_here += slots[sm];
      sms_here += slots[sm] > 0 ? 1 : 0;
    }
    free += slots_here;
    if (wide) continue;
    const bool one = (entry.task.cluster.mode == arch::CgaMode::multicast ? sms_here : slots_here) >= gpc_ctas;
    if (one) homes += std::min<std::uint64_t>(gpc_room(entry, size, g), slots_here / gpc_ctas);
  }
  return wide ? free >= unit : homes >= cgas;
}

// Free slots would do, but something else is short where they are; or they would not.
WaitReason Cwd::why_no_home(const TaskEntry& entry, std::uint32_t size) const {
  if (!entry.task.cluster.has(CgaLevel::gpc)) return WaitReason::free_slots;
  const std::uint64_t gpc_ctas = gpc_cga_shape_for(entry.task.cluster, size).ctas;
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    if (gpc_room(entry, size, g) > 0) continue;
    std::uint64_t slots_here = 0;
    std::uint64_t sms_here = 0;
    for (const std::uint32_t sm : topology_.gpc(g).sm_ids) {
      slots_here += session_.snapshot[sm];
      sms_here += session_.snapshot[sm] > 0 ? 1 : 0;
    }
    if ((entry.task.cluster.mode == arch::CgaMode::multicast ? sms_here : slots_here) < gpc_ctas) continue;
    return ledger_.gpc_cgas(g) == 0 ? WaitReason::cga_ids : WaitReason::flush;
  }
  return WaitReason::free_slots;
}

// The session works on a snapshot of the live model (CWD-02): what completes meanwhile is for the next one.
void Cwd::open_session(std::uint32_t slot, SessionKind kind, std::uint32_t size) {
  waits_.set(slot, WaitReason::none);
  session_.kind = kind;
  session_.slot = slot;
  session_.size = size;
  session_.begin = now();
  session_.number = sessions_begun_++;
  session_.sequence = sequence_;
  session_.version = version_;
  session_.decided = false;
  session_.units = 0;
  session_.cgas = 0;
  session_.unit_open = ~std::uint64_t{0};
  session_.shape = arch::raster_shape(table_.at(slot).task.grid, table_.at(slot).task.cluster, size);
  buffers_.push_back({session_.number, 0, false});
  sessions_.add();
  reserve_holds(table_.at(slot));
}

void Cwd::begin_plain(std::uint64_t ctas) {
  session_.placement = &place_plain(ctas);
  session_steps_.add(session_.placement->steps);
  const Cycle length = domain_.cost(params_.session_pipeline + Cycle{params_.session_step} * session_.placement->steps);
  domain_.schedule(now() + length, *this, kSessionEnds);
}

void Cwd::begin_wide(std::uint64_t units) {
  const TaskEntry& entry = table_.at(session_.slot);
  session_.wide =
      &wide_.place(session_.snapshot, entry.unit_ctas(session_.size), units, entry.task.cluster.outermost());
  session_.units = session_.wide->size();
  session_steps_.add(wide_.steps());
  const Cycle length = domain_.cost(params_.session_pipeline + Cycle{params_.session_step} * wide_.steps());
  domain_.schedule(now() + length, *this, kSessionEnds);
}

// The shadow state goes to the GPC2SM units, the question to the GPU2GPC unit; masks and end come back as packets.
void Cwd::begin_cluster(std::uint64_t units) {
  const TaskEntry& entry = table_.at(session_.slot);
  const GpcCgaShape shape = gpc_cga_shape_for(entry.task.cluster, session_.size);
  reorder_.reset();
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    protocol::SnapshotPacket snapshot;
    snapshot.session = session_.number;
    const std::vector<std::uint32_t>& ids = topology_.gpc(g).sm_ids;
    for (std::size_t bit = 0; bit < ids.size(); ++bit) snapshot.free[bit] = session_.snapshot[ids[bit]];
    snapshot.ctas = shape.ctas;
    snapshot.cpc_ctas = shape.cpc_ctas;
    snapshot.multicast = entry.task.cluster.mode == arch::CgaMode::multicast;
    snapshot.cgas = gpc_room(entry, session_.size, g);
    snapshot_out_.send(snapshot, g);
  }
  const SessionRequest request = request_for(entry.task.cluster, session_.size, units);
  session_out_.send({session_.number, request.units, request.single, request.ugpu_cgas, request.gpc_cgas});
}

void Cwd::on_masks(const protocol::MaskPacket& masks, std::uint32_t gpc) {
  reorder_.push(masks, gpc);
  commit_masks();
  if (session_.decided && reorder_.popped() == session_.cgas) end_session();
}

void Cwd::on_session_end(const protocol::SessionEndPacket& end, std::uint32_t) {
  HEDDLE_CHECK(session_.kind == SessionKind::cluster && end.session == session_.number, "the end of another session");
  session_.decided = true;
  session_.units = end.units;
  session_.cgas = end.cgas;
  session_steps_.add(end.queries);
  if (reorder_.popped() == session_.cgas) end_session();
}

void Cwd::end_session() {
  switch (session_.kind) {
    case SessionKind::plain:
      commit_plain();
      close_session(session_.placement->ctas);
      break;
    case SessionKind::wide:
      commit_wide();
      close_session(session_.units);
      break;
    case SessionKind::cluster:
      close_session(session_.units);
      break;
    case SessionKind::none:
      HEDDLE_CHECK(false, "a session ended that had not begun");
  }
}

// `placed`: outermost CGAs, or CTAs of a plain grid.
void Cwd::close_session(std::uint64_t placed) {
  TaskEntry& entry = table_.at(session_.slot);
  session_cycles_.add(now() - session_.begin);
  if (timeline() != nullptr) draw_session(placed);
  sequence_ += session_.kind == SessionKind::plain ? 1 : session_.units;
  Buffer& buffer = buffers_.back();
  buffer.closed = true;
  if (buffer.packets == 0) buffers_.pop_back();
  const SessionKind kind = session_.kind;
  session_.kind = SessionKind::none;
  holds_.close_session();
  show_holds(entry.task.subcontext);
  if (placed == 0) {
    HEDDLE_CHECK(kind != SessionKind::plain, "a session of a plain grid without a CTA");
    failed_sessions_.add();
    if (tries_others(entry)) {
      if (entry.first_failure == 0) entry.first_failure = session_.version;
    } else if (!entry.split() && entry.size + 1 < entry.task.cluster.sizes()) {
      ++entry.size;  // a smaller one, in the next session (CWD-21)
      if (entry.first_failure == 0) entry.first_failure = session_.version;
    } else {
      WaitReason reason = why_no_home(entry, session_.size);
      if (reason == WaitReason::free_slots && session_.held != WaitReason::none) reason = session_.held;
      if (!entry.split()) entry.size = 0;
      block(entry, session_.slot, reason, session_.version);
    }
  } else {
    entry.blocked = false;
    entry.selection = 0;
    entry.first_failure = 0;
    ++pool_version_;
    if (!entry.split()) entry.size = 0;
    if (entry.placed == entry.total) table_.all_placed(session_.slot);
  }
  if (entry.aborted) drop_rest(session_.slot);
  finish_if_done(session_.slot);
  if (entry.used && entry.evict_asked) evict(session_.slot);
  progress();
  pump_port();
  consider_later();
}

void Cwd::draw_session(std::uint64_t placed) {
  const TaskEntry& entry = table_.at(session_.slot);
  const char* unit = entry.task.cluster.any() ? arch::cga_name(entry.task.cluster.outermost()) : "CTA";
  timeline()->slice(
      session_track_, domain_.time_of(session_.begin), domain_.time_of(now()),
      placed == 0 ? fmt::format("{}: no home for a {} of {} CTAs", gpu_observation(domain_).labels.of(entry.runs_as()),
                                unit, entry.unit_ctas(session_.size))
                  : fmt::format("{}: {} {}s", gpu_observation(domain_).labels.of(entry.runs_as()), placed, unit),
      {{"session", static_cast<std::int64_t>(session_.number)},
       {"sequence", static_cast<std::int64_t>(session_.sequence)},
       {"placed", static_cast<std::int64_t>(placed)},
       {"size", session_.size}});
}

void Cwd::note_waiting(bool waiting) {
  if (waiting == waiting_) return;
  waiting_ = waiting;
  if (waiting) {
    waiting_since_ = now();
    return;
  }
  no_slot_cycles_.add(now() - waiting_since_);
  if (timeline() != nullptr && now() > waiting_since_) {
    timeline()->slice(waiting_track_, domain_.time_of(waiting_since_), domain_.time_of(now()),
                      "nothing can start",
                      {{"tasks_with_ctas_left", static_cast<std::int64_t>(table_.waiting().size())}});
  }
}

}  // namespace heddle::cwd
