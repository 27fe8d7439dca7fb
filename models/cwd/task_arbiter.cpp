#include "cwd/task_arbiter.h"

#include <algorithm>

#include "common/bits.h"
#include "cwd/cluster_place.h"
#include "protocol/packet_task.h"

namespace heddle::cwd {
namespace {

constexpr std::uint32_t kAllDepths = ~std::uint32_t{0};

// The task's subcontext could not take all TPCs or SMs that have room: others than those that it saw may serve.
bool short_of_tpcs(const SessionPlan& plan) {
  return plan.held == WaitReason::credits || plan.held == WaitReason::local_memory || plan.held == WaitReason::share;
}

}  // namespace

void IdleCause::tell() const {
  if (context_.idle() == nullptr) return;
  if (table_.waiting().empty()) {
    const bool full = table_.in_slots() == context_.params.table_slots;
    return context_.idle()->waits_for_nothing(table_.used().size(), full);
  }
  const std::uint32_t slot = table_.waiting().front();
  const std::uint32_t operation = table_.at(slot).runs_as();
  const bool launched = (operation & protocol::kDispatchBit) == 0 && (operation & protocol::kChildBit) != 0;
  context_.idle()->waits(of(slot), operation, launched);
}

IdleReason IdleCause::of(std::uint32_t slot) const {
  const TaskEntry& entry = table_.at(slot);
  switch (waits_.reason(slot)) {
    case WaitReason::none:
      // A session could decide, and its packets would have no buffer: those before them wait for the port.
      return session_.can_begin() && !launcher_.has_buffer() ? IdleReason::port : IdleReason::deciding;
    case WaitReason::free_slots:
      if (entry.task.cluster.any()) return IdleReason::cluster;
      // What has become free since is looked at next.
      return entry.blocked && entry.blocked->version == machine_.version() ? IdleReason::resources
                                                                           : IdleReason::deciding;
    case WaitReason::cga_ids:
    case WaitReason::cga_slots:
    case WaitReason::flush:
    case WaitReason::gpu_barrier:
    case WaitReason::memory_slot:
      return IdleReason::cluster;
    case WaitReason::credits:
    case WaitReason::local_memory:
    case WaitReason::tpc_mask:
    case WaitReason::share:
      return IdleReason::quota;
    case WaitReason::time_slice:
    case WaitReason::preempted:
      return IdleReason::time_slice;
    case WaitReason::evicted:
      return IdleReason::table;
    case WaitReason::behind:
    case WaitReason::pool:
    case WaitReason::claimed:
    case WaitReason::cooperative:
      return IdleReason::order;
  }
  return IdleReason::deciding;
}

TaskArbiter::TaskArbiter(const CwdContext& context, TaskTable& table, MachineLedger& machine,
                         SubcontextPartition& partition, WaitLog& waits, const ClusterRoom& room, GpcCapacity& capacity,
                         const PlainPolicy& plain, const arch::ResourceVector& sm_capacity, const Launcher& launcher,
                         LaunchSession& session, RoomMaker& room_maker)
    : context_(context),
      table_(table),
      machine_(machine),
      partition_(partition),
      waits_(waits),
      room_(room),
      capacity_(capacity),
      plain_(plain),
      sm_capacity_(sm_capacity),
      launcher_(launcher),
      session_(session),
      room_maker_(room_maker),
      idle_cause_(context, table, machine, waits, session, launcher),
      stats_(context.observation.stats, context.stat_prefix),
      track_(context.detail_track("waiting", false)) {}

void TaskArbiter::reset() {
  scheduled_ = false;
  waiting_since_.reset();
}

void TaskArbiter::update_counters(std::uint32_t gpc) {
  for (const std::uint32_t slot : table_.used()) {
    TaskEntry& entry = table_.at(slot);
    capacity_.update(entry.task, machine_.live(), gpc, entry.room);
  }
}

void TaskArbiter::arbitrate_later() {
  if (table_.waiting().empty()) {
    note_waiting(false);
    room_maker_.tell_wanted(waits_);
  }
  idle_cause_.tell();
  if (scheduled_ || !session_.can_begin() || table_.waiting().empty()) return;
  scheduled_ = true;
  context_.timebase.schedule(context_.now(), *this, 0);
}

void TaskArbiter::on_event(std::uint32_t, std::uint64_t) {
  scheduled_ = false;
  arbitrate();
  idle_cause_.tell();
}

void TaskArbiter::arbitrate() {
  if (!session_.can_begin() || !launcher_.has_buffer()) return;
  bool passed = true;
  bool chosen = false;
  std::uint32_t held = 0;  // who holds those behind it lets less urgent ones pass that are nested deeper than that
  std::int32_t least = 0;  // priority of who does
  std::uint64_t full = 0;  // subcontexts with a task that waits for room on the TPCs that they may use
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) machine_.pools().share(g, partition_.sharers(g));
  machine_.pools().begin_walk();
  room_maker_.claims().begin_walk();
  room_maker_.update();
  if (context_.params.ageing > 0) table_.age(context_.now(), context_.params.ageing);
  for (const std::uint32_t slot : table_.waiting()) {
    const TaskEntry& entry = table_.at(slot);
    if (entry.leaving()) continue;  // once the masks of its session are made
    if (entry.to_come > 0 && entry.returns.empty()) {
      waits_.set(slot, WaitReason::preempted);
      continue;
    }
    if (!room_maker_.has_slice(entry.task.subcontext)) {
      waits_.set(slot, WaitReason::time_slice);
      continue;
    }
    if (keeps_apart(entry)) {
      waits_.set(slot, WaitReason::cooperative);
      continue;
    }
    const bool behind = !passed || bits::contains(full, entry.task.subcontext);
    const bool awaited = entry.task.depth > held || entry.queue();  // by those who append to a queue that is full
    if (behind && !(awaited && entry.task.priority < least)) {
      if (waits_.reason(slot) == WaitReason::none) waits_.set(slot, WaitReason::behind);
      continue;
    }
    if (select(slot)) {
      chosen = true;
      waits_.set(slot, WaitReason::none);
      session_.begin(plan_);
      break;
    }
    // Who is kept off by the quota of its subcontext takes no place that another needs (PRT-02).
    const bool kept_off = limited_by_quota(slot);
    if (!kept_off) take_pending_places(entry);
    const bool claims = !kept_off && room_maker_.wants_claim(entry, waits_.reason(slot));
    if (claims && room_maker_.claim(table_.at(slot), usable(entry))) machine_.freed();  // somebody may use other SMs
    if (!lets_others_pass(entry) && !kept_off) passed = false;
    if (!lets_others_pass(entry)) {
      held = std::max(held, room_maker_.depth_in_the_way(entry).value_or(kAllDepths));
      least = entry.task.priority;
    }
    // The next task of the same subcontext would only take the room that this one waits for.
    const WaitReason reason = waits_.reason(slot);
    const bool takes = reason == WaitReason::tpc_mask || reason == WaitReason::share;
    if (takes && !lets_others_pass(entry)) {
      full |= bits::one(entry.task.subcontext);
    }
  }
  note_waiting(!chosen && !table_.waiting().empty());
  if (!chosen) room_maker_.tell_wanted(waits_);
}

// A task that waits for room lets others pass: a plain grid only if backfilling is on, a grid of CGAs until it has
// waited for the age limit (CWD-26).
bool TaskArbiter::lets_others_pass(const TaskEntry& entry) const {
  if (!entry.task.cluster.any()) return context_.params.backfill;
  return context_.now() - entry.blocked->since < context_.params.age_limit;
}

// Two cooperative grids of which each has a part of the machine would wait for each other for ever: one begins once all
// others that have begun are placed as a whole. Those end by themselves, as all that is not cooperative does.
bool TaskArbiter::keeps_apart(const TaskEntry& entry) const {
  if (!entry.task.cooperative || entry.placed > 0) return false;
  return std::any_of(table_.used().begin(), table_.used().end(), [&](std::uint32_t slot) {
    const TaskEntry& other = table_.at(slot);
    return other.task.cooperative && other.placed > 0 && other.left() > 0 && !other.aborted();
  });
}

bool TaskArbiter::unchanged_since_blocked(const TaskEntry& entry) const {
  return entry.blocked.has_value() && entry.blocked->version == machine_.version() && entry.selection == 0 &&
         (!entry.pool_limit.has_value() || *entry.pool_limit == machine_.pool_version());
}

// True if a session can begin for the task; the plan is made.
bool TaskArbiter::select(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  if (unchanged_since_blocked(entry)) return false;
  plan_.slot = slot;
  plan_.version = machine_.version();
  restrict_slots(entry, slot);
  return entry.task.cluster.any() ? select_cluster(slot) : select_plain(slot);
}

// The free slots that the task may use. Too few credits for all TPCs with room: where CGAs have found no home on those
// that a session sees first, the sessions after it see those of one GPC after another.
void TaskArbiter::restrict_slots(TaskEntry& entry, std::uint32_t slot) {
  plan_.slots = machine_.live().free_slots(slot);
  WaitReason pooled = restrict_to_pools(entry, plan_.slots);
  entry.pool_limit.reset();
  if (pooled != WaitReason::none) entry.pool_limit = machine_.pool_version();
  if (room_maker_.claims().restrict(entry, plan_.slots)) pooled = WaitReason::claimed;
  std::optional<std::uint32_t> first;
  if (entry.selection > 0) first = entry.selection - 1;
  const WaitReason held = partition_.restrict(entry.task, plan_.slots, first);
  // TPCs on which a pool leaves it nothing look full.
  const bool by_pool = pooled != WaitReason::none && held == WaitReason::tpc_mask;
  plan_.held = held == WaitReason::none || by_pool ? pooled : held;
  if (!short_of_tpcs(plan_)) entry.selection = 0;
}

bool TaskArbiter::select_plain(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  if (plain_.withholds()) plain_.withhold(plan_.slots, arch::free_slots(sm_capacity_, {}, entry.task.need));
  const bool room = machine_.live().total_free(slot) > 0 &&
                    ((plan_.held == WaitReason::none && !plain_.withholds()) ||
                     std::any_of(plan_.slots.begin(), plan_.slots.end(), [](std::uint16_t n) { return n > 0; }));
  if (!room) {
    block(entry, slot, plan_.held == WaitReason::none ? WaitReason::free_slots : plan_.held, machine_.version());
    return false;
  }
  plan_.kind = SessionKind::plain;
  plan_.size = 0;
  entry.returning = !entry.returns.empty();
  plan_.units =
      std::min<std::uint64_t>(entry.returning ? entry.returns.size() : entry.left(), context_.params.session_limit);
  return true;
}

// The full size, then the fallbacks, a session for each (CWD-21); within a CGA that has been split, its size. Only what
// a counter rules out is passed over without one (CWD-18).
bool TaskArbiter::select_cluster(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  entry.returning = !entry.returns.empty();
  if (entry.returning) return select_returned(slot);
  WaitReason reason = WaitReason::none;
  for (;;) {
    plan_.size = entry.size;
    WaitReason why = room_.limit(entry, plan_.size, plan_.units);
    if (why == WaitReason::none && !room_.counters_allow(entry, plan_.size)) why = why_no_home(entry, plan_);
    if (why == WaitReason::none) {
      plan_.kind = is_domain_wide(entry.task.cluster) ? SessionKind::domain_wide : SessionKind::cluster;
      return true;
    }
    if (reason == WaitReason::none) reason = why;
    if (entry.split() || entry.size + 1 >= entry.task.cluster.sizes()) break;
    entry.try_smaller();
  }
  // What became free since must be looked for everywhere: also where the sessions before had been already.
  entry.selection = 0;
  entry.restart_sizes();
  block(entry, slot, reason, machine_.version());
  if (entry.blocked->version != machine_.version()) arbitrate_later();
  return false;
}

// CGAs that were preempted have the size that they had; those of one size go on together.
bool TaskArbiter::select_returned(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  plan_.size = entry.returns.front().id.size;
  const std::uint64_t most = std::max<std::uint64_t>(1, context_.params.session_limit / entry.unit_ctas(plan_.size));
  plan_.units = 0;
  while (plan_.units < std::min<std::uint64_t>(most, entry.returns.size()) &&
         entry.returns[plan_.units].id.size == plan_.size) {
    ++plan_.units;
  }
  plan_.kind = SessionKind::cluster;
  entry.tie.reset();  // of CGAs that have not begun
  if (room_.counters_allow(entry, plan_.size)) return true;
  entry.selection = 0;
  block(entry, slot, why_no_home(entry, plan_), machine_.version());
  return false;
}

// Where free slots are short, what was kept from the session says more.
WaitReason TaskArbiter::why_no_home(const TaskEntry& entry, const SessionPlan& plan) const {
  const WaitReason reason = room_.why_no_home(entry, plan.size, plan.slots);
  return reason == WaitReason::free_slots && plan.held != WaitReason::none ? plan.held : reason;
}

// Sizes fail one session after another: what became free after the first of them may be enough for it.
void TaskArbiter::block(TaskEntry& entry, std::uint32_t slot, WaitReason reason, std::uint64_t version) {
  const Cycle since = entry.blocked.has_value() ? entry.blocked->since : context_.now();
  entry.blocked = TaskEntry::Blocked{since, std::min(version, entry.first_failure.value_or(version))};
  entry.first_failure.reset();
  waits_.set(slot, reason);
  const bool short_of_room = reason == WaitReason::free_slots || reason == WaitReason::tpc_mask;
  if (short_of_room && !entry.task.cluster.any() && room_maker_.may_ask(entry)) make_room(entry);
}

// Where it may run, and less urgent CTAs do.
void TaskArbiter::make_room(TaskEntry& entry) {
  std::vector<std::uint16_t> slots = room_maker_.possible(entry);
  restrict_to_pools(entry, slots);
  partition_.restrict(entry.task, slots, std::nullopt);
  room_maker_.ask(entry, slots);
}

// SMs that the task may use, whatever runs there.
std::vector<bool> TaskArbiter::usable(const TaskEntry& entry) {
  std::vector<std::uint16_t> slots(context_.topology.sms(), 1);
  restrict_to_pools(entry, slots);
  partition_.restrict(entry.task, slots, std::nullopt);
  room_maker_.claims().restrict(entry, slots);
  std::vector<bool> result;
  for (const std::uint16_t its : slots) result.push_back(its > 0);
  return result;
}

// Free slots of a GPC count only for the tasks in its pools (TSK-04).
WaitReason TaskArbiter::restrict_to_pools(const TaskEntry& entry, std::vector<std::uint16_t>& slots) const {
  const GpcPools& pools = machine_.pools();
  if (!pools.limited()) return WaitReason::none;
  WaitReason reason = WaitReason::none;
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) {
    if (pools.admits(entry.runs_as(), entry.task.priority, g, entry.task.subcontext)) continue;
    for (const std::uint32_t sm : context_.topology.gpc(g).sm_ids) {
      if (slots[sm] > 0) reason = WaitReason::pool;
      slots[sm] = 0;
    }
  }
  return reason;
}

// The task has CTAs left and waits: it takes places of pending pools, and those behind it see what is left.
void TaskArbiter::take_pending_places(const TaskEntry& entry) {
  GpcPools& pools = machine_.pools();
  if (!pools.limited()) return;
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) {
    if (machine_.live().enabled_tpcs(g) == 0 || !partition_.reaches(entry.task.subcontext, g)) continue;
    pools.wait_at(entry.runs_as(), g);
  }
}

void TaskArbiter::conclude(const SessionPlan& plan, std::uint64_t placed) {
  TaskEntry& entry = table_.at(plan.slot);
  if (placed > 0) {
    entry.waits_since = context_.now();
    // Others may have what it has claimed.
    if (!entry.claim.ctas.empty()) machine_.freed();
    entry.claim = {};
    entry.forget_search();
    machine_.pools_freed();
    if (entry.returns.empty() && (entry.left() == 0 || entry.evicted())) table_.all_placed(plan.slot);
    return;
  }
  const bool other_tpcs = short_of_tpcs(plan) && entry.selection < context_.topology.gpcs();
  entry.selection = other_tpcs ? entry.selection + 1 : 0;
  const bool smaller = !other_tpcs && !entry.returning && !entry.split() && entry.size + 1 < entry.task.cluster.sizes();
  if (smaller) entry.try_smaller();  // in the next session (CWD-21)
  if (other_tpcs || smaller) {
    if (!entry.first_failure.has_value()) entry.first_failure = plan.version;
    return;
  }
  const WaitReason reason = why_no_home(entry, plan);
  entry.restart_sizes();
  block(entry, plan.slot, reason, plan.version);
}

void TaskArbiter::note_waiting(bool waiting) {
  if (waiting == waiting_since_.has_value()) return;
  if (waiting) {
    waiting_since_ = context_.now();
    return;
  }
  const Cycle since = *waiting_since_;
  waiting_since_.reset();
  stats_.no_slot_cycles.add(context_.now() - since);
  if (context_.timeline() != nullptr && context_.now() > since) {
    context_.draw(track_, since, "nothing can start",
                  {{"tasks_with_ctas_left", static_cast<std::int64_t>(table_.waiting().size())}});
  }
}

}  // namespace heddle::cwd
