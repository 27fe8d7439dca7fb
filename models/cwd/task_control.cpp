#include "cwd/task_control.h"

#include <fmt/format.h>

namespace heddle::cwd {

using Residence = TaskEntry::Residence;

namespace {

CwdParams without_credits(CwdParams params) {
  params.tpc_credits = 0;
  return params;
}

}  // namespace

TaskEviction::TaskEviction(const CwdContext& context, TaskTable& table, MachineLedger& machine, WaitLog& waits,
                           const LaunchSession& session, TaskArbiter& arbiter, CreditSink& slots,
                           PacketSender<protocol::EvictedPacket>& answers)
    : context_(context),
      table_(table),
      machine_(machine),
      waits_(waits),
      session_(session),
      arbiter_(arbiter),
      slots_(slots),
      answers_(answers),
      stats_(context.observation.stats, context.stat_prefix),
      track_(context.track("evictions")) {}

void TaskEviction::on_evict(const protocol::EvictPacket& packet, std::uint32_t) {
  const std::uint32_t slot = table_.find(packet.operation);
  const bool stays = slot == TaskTable::kNone || table_.at(slot).residence != Residence::slot ||
                     table_.at(slot).aborted();  // it is about to end, and nothing of it waits for a slot
  if (stays) {
    answers_.send({packet.operation, false, false});
  } else if (session_.in_flight(slot)) {
    table_.at(slot).residence = Residence::leaving;
  } else {
    evict(slot);
  }
}

void TaskEviction::session_ended(std::uint32_t slot) {
  if (session_.in_flight(slot)) return;
  if (table_.at(slot).leaving()) {
    evict(slot);
  } else {
    forget_if_gone(slot);
  }
}

void TaskEviction::task_ends(std::uint32_t slot) {
  if (table_.at(slot).leaving()) answer(slot, false);
}

// While CTAs of it run, the entry stays as it is, and only launches nothing. Task management keeps how far the task has
// come, and so it goes on where it stopped, in the middle of a CGA that was split as well; any other CGA begins again
// with its full size.
void TaskEviction::evict(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  entry.residence = Residence::slot;
  if (!table_.can_evict()) {
    answer(slot, false);
    return;
  }
  table_.evict(slot);
  machine_.pools_freed();
  if (!entry.claim.ctas.empty()) machine_.freed();
  entry.claim = {};
  entry.forget_search();
  const bool launches = entry.left() > 0 || !entry.returns.empty();
  waits_.set(slot, entry.comes_back() && launches ? WaitReason::evicted : WaitReason::none);
  stats_.evictions.add();
  if (context_.timeline() != nullptr) draw(slot);
  context_.progress();
  slots_.return_credit();
  const bool gone = entry.only_in_memory();
  answer(slot, true, gone);
  if (gone) forget(slot);
  stats_.evicted.set(table_.evicted());
  arbiter_.arbitrate_later();  // others no longer wait behind it
}

void TaskEviction::forget_if_gone(std::uint32_t slot) {
  const TaskEntry& entry = table_.at(slot);
  if (!entry.only_in_memory() || session_.in_flight(slot)) return;
  protocol::EvictedPacket notice{entry.task.operation, false, false, entry.progress()};
  notice.gone = true;
  answers_.send(notice);
  forget(slot);
  stats_.evicted.set(table_.evicted());
}

// What is known of it here is from when it waits, for statistics.
void TaskEviction::forget(std::uint32_t slot) {
  gone_[table_.at(slot).task.operation] = waits_.since(slot);
  waits_.leave(slot);
  machine_.live().close(slot);
  table_.forget(slot);
}

void TaskEviction::answer(std::uint32_t slot, bool evicted, bool gone) {
  const TaskEntry& entry = table_.at(slot);
  protocol::EvictedPacket packet{entry.task.operation, evicted, evicted && entry.comes_back(), {}};
  if (packet.remainder) packet.progress = entry.progress();
  packet.gone = gone;
  answers_.send(packet);
}

// A fault can have ended the task, or dropped what was left of it, while it was on its way back; or it is gone, and
// task management has yet to hear so. One that was gone has another number now, under which no SM has heard of it.
void TaskEviction::resume(const protocol::TaskPacket& task) {
  std::uint32_t slot = table_.find(task.operation);
  if (task.anew) {
    HEDDLE_CHECK(slot == TaskTable::kNone, "a task came back as one that is gone, and was not");
    slot = table_.insert(task);
    TaskEntry& entry = table_.at(slot);
    if (entry.placed > 0) entry.missed.assign(machine_.live().tpcs(), true);
    entry.waits_since = context_.now();
    machine_.live().open(slot, task.need);
    arbiter_.init_counters(entry);
    waits_.go_on(slot, WaitReason::evicted, gone_.at(task.operation));
    gone_.erase(task.operation);
  } else if (slot == TaskTable::kNone || table_.at(slot).all_launched()) {
    slots_.return_credit();
    return;
  } else {
    table_.at(slot).go_on(task.progress, machine_.live().tpcs());
    table_.resume(slot);
  }
  waits_.set(slot, WaitReason::none);
  stats_.resumed.add();
  stats_.evicted.set(table_.evicted());
  context_.progress();
  arbiter_.arbitrate_later();
}

void TaskEviction::draw(std::uint32_t slot) const {
  const TaskEntry& entry = table_.at(slot);
  context_.draw(track_, context_.now(), fmt::format("{} is evicted", context_.observation.labels.of(entry.runs_as())),
                {{"ctas_left", static_cast<std::int64_t>(entry.left())},
                 {"ctas_running", static_cast<std::int64_t>(entry.placed - entry.completed)}});
}

TaskControl::TaskControl(const CwdContext& context, const TaskParts& parts, const TaskLinks& links,
                         const arch::ResourceVector& sm_capacity, std::uint32_t cgas_per_gpc)
    : context_(context),
      table_(parts.table),
      machine_(parts.machine),
      partition_(parts.partition),
      waits_(parts.waits),
      launcher_(parts.launcher),
      session_(parts.session),
      arbiter_(parts.arbiter),
      eviction_(parts.eviction),
      links_(links),
      admission_(context.topology, sm_capacity, without_credits(context.params), cgas_per_gpc),
      stats_(context.observation.stats, context.stat_prefix) {}

void TaskControl::on_task(const protocol::TaskPacket& task, std::uint32_t) {
  if (task.resumed) {
    eviction_.resume(task);
    return;
  }
  const std::uint32_t slot = table_.insert(task);
  table_.at(slot).waits_since = context_.now();
  machine_.live().open(slot, task.need);
  partition_.task_arrived(task);
  stats_.tasks.add();
  if (task.kind == protocol::TaskKind::restore) {
    stats_.restored.add(task.restored_ctas());
    const std::uint32_t owner = table_.find(task.runs_as);
    if (owner != TaskTable::kNone && table_.at(owner).aborted()) raise(slot);
  }
  context_.progress();
  if (!admits(slot)) {
    stats_.rejected.add();
    table_.all_placed(slot);
    table_.at(slot).outcome = TaskEntry::Outcome::rejected;
    finish(slot);
    return;
  }
  tell_if_idle(slot);
  arbiter_.arbitrate_later();
}

// CWD-25. The entries of a queue are no CGAs.
bool TaskControl::admits(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  if (entry.queue() && entry.task.cluster.any()) return false;
  if (!admission_.admit(entry.task) || !partition_.admits(entry.task)) return false;
  arbiter_.init_counters(entry);
  return true;
}

// Entries of a task that a fault has ended in the meantime go nowhere.
void TaskControl::on_grow(const protocol::GrowPacket& grow, std::uint32_t) {
  const std::uint32_t slot = table_.find(grow.operation);
  if (slot == TaskTable::kNone) {
    if (grow.broken) eviction_.drop_gone(grow.operation);
    return;
  }
  if (grow.returned) return take_back(slot, *grow.returned);
  if (table_.at(slot).aborted()) return;
  if (grow.broken) {
    abort(slot);
    context_.progress();
    finish_if_done(slot);
    arbiter_.arbitrate_later();
    return;
  }
  TaskEntry& entry = table_.at(slot);
  HEDDLE_CHECK(entry.queue() && !entry.last && grow.entries <= kMaxEntries - entry.total,
               "a task grew that cannot, or beyond what a queue task can launch");
  entry.total += grow.entries;
  entry.last = grow.last;
  stats_.entries.add(grow.entries);
  context_.progress();
  if (entry.left() > 0) table_.more(slot);
  if (entry.left() > 0 && entry.comes_back()) waits_.set(slot, WaitReason::evicted);
  if (entry.last) finish_if_done(slot);
  arbiter_.arbitrate_later();
}

// Also of a task that a fault has ended: only an SM can give back what the CTA holds.
void TaskControl::take_back(std::uint32_t slot, const protocol::RestoredCta& cta) {
  TaskEntry& entry = table_.at(slot);
  HEDDLE_CHECK(entry.to_come > 0 || entry.task.cluster.any(), "a CTA comes back that was not preempted");
  entry.to_come -= cta.ctas;
  entry.returns.push_back(cta);
  stats_.returned.add(cta.ctas);
  entry.forget_search();
  table_.more(slot);
  context_.progress();
  arbiter_.arbitrate_later();
}

// All entries so far have completed: task management looks whether it can end the task.
void TaskControl::tell_if_idle(std::uint32_t slot) {
  const TaskEntry& entry = table_.at(slot);
  if (entry.all_launched() || entry.completed != entry.total) return;
  links_.idle.send({entry.task.operation, entry.completed});
}

// A session that finds no home is no progress: whoever waits for ever must be found out.
void TaskControl::session_decided(const SessionPlan& plan, std::uint64_t placed) {
  arbiter_.conclude(plan, placed);
  if (table_.at(plan.slot).aborted()) drop_rest(plan.slot);
  finish_if_done(plan.slot);
  eviction_.session_ended(plan.slot);
  if (placed > 0) context_.progress();
  launcher_.pump();
  arbiter_.arbitrate_later();
}

void TaskControl::session_ended(std::uint32_t slot) {
  eviction_.session_ended(slot);
  arbiter_.arbitrate_later();
}

// A session of the task that is under way ends first: its CTAs are stopped when they arrive. Saved CTAs of it are
// restored nevertheless: an SM ends them, and only an SM can give back what they hold. They go before all others, so
// that a task that never ends cannot keep them from it as long as its own CTAs can be saved.
void TaskControl::abort(std::uint32_t slot) {
  if (table_.at(slot).aborted()) return;
  const std::uint32_t operation = table_.at(slot).runs_as();
  bool told = false;
  std::vector<std::uint32_t> others;
  for (const std::uint32_t other : table_.used()) {
    TaskEntry& entry = table_.at(other);
    if (entry.runs_as() != operation) continue;
    told = told || entry.aborted();
    entry.outcome = TaskEntry::Outcome::aborted;
    raise(other);
    if (other != slot) others.push_back(other);
    if (!session_.deciding(other)) drop_rest(other);
  }
  if (!told) launcher_.abort(operation);
  for (const std::uint32_t other : others) finish_if_done(other);
}

// What it found out while it was less urgent says nothing any more.
void TaskControl::raise(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  entry.forget_search();
  if (!entry.claim.ctas.empty()) machine_.freed();
  entry.claim = {};
  table_.make_most_urgent(slot);
  if (!entry.returns.empty()) table_.more(slot);  // also of one that was evicted
}

void TaskControl::drop_rest(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  if (entry.restored() || entry.left() == 0) return;
  entry.total = entry.placed;
  if (entry.returns.empty()) table_.all_placed(slot);
  machine_.pools_freed();
  if (!entry.claim.ctas.empty()) machine_.freed();
  entry.claim = {};
  waits_.set(slot, WaitReason::none);
}

void TaskControl::finish_if_done(std::uint32_t slot) {
  const TaskEntry& entry = table_.at(slot);
  if (session_.deciding(slot)) return;
  if (entry.only_in_memory()) return eviction_.forget_if_gone(slot);
  if (entry.completed != entry.total || entry.open_cgas > 0) return;
  if (entry.all_launched()) {
    finish(slot);
  } else {
    tell_if_idle(slot);
  }
}

// The slot of an evicted task went back when it was evicted.
void TaskControl::finish(std::uint32_t slot) {
  const TaskEntry& entry = table_.at(slot);
  const bool in_slot = !entry.evicted();
  const Cycle now = context_.now();
  links_.done.send({entry.task.operation, entry.start.value_or(now), now, entry.rejected(), entry.aborted()});
  eviction_.task_ends(slot);
  waits_.set(slot, WaitReason::none);
  machine_.live().close(slot);
  partition_.task_ended(entry.task);
  table_.remove(slot);
  if (in_slot) links_.slots.return_credit();
}

std::string TaskControl::name_of(std::uint32_t slot) const {
  return context_.observation.labels.of(table_.at(slot).runs_as());
}

void TaskControl::collect_waits(WaitGraph& graph) const {
  for (const std::uint32_t slot : table_.used()) {
    const TaskEntry& entry = table_.at(slot);
    const std::string name = name_of(slot);
    const std::uint64_t running = entry.placed - entry.completed;
    if (running > 0) {
      graph.add(name, "for the end of", fmt::format("{} of its CTAs that run or are on their way", running));
    } else if (entry.open_cgas > 0) {
      graph.add(name, "for the flush of", fmt::format("{} of its CGAs", entry.open_cgas));
    }
    const bool empty = !entry.all_launched() && entry.left() == 0 && running == 0;
    if (empty && (entry.queue() || !entry.evicted())) {
      graph.add(name, "for more entries, or to be closed, by those who append to", "its queue");
    } else if (entry.evicted()) {
      collect_evicted_waits(graph, slot);
    } else if (entry.left() > 0) {
      collect_slot_waits(graph, slot);
    }
  }
}

void TaskControl::collect_slot_waits(WaitGraph& graph, std::uint32_t slot) const {
  const TaskEntry& entry = table_.at(slot);
  const WaitReason reason = waits_.reason(slot);
  std::string holder = "the SMs: none has room for one of its CTAs";
  if ((entry.task.cluster.any() || reason == WaitReason::pool) && reason != WaitReason::none) {
    holder = fmt::format("the machine: {}", wait_text(reason));
  }
  for (const std::uint32_t other : table_.used()) {
    if (other != slot && machine_.live().running(other) > 0) holder = name_of(other);
  }
  if (arbiter_.limited_by_quota(slot)) {
    holder = fmt::format("subcontext {}: {}", entry.task.subcontext, wait_text(reason));
  }
  std::string what = reason == WaitReason::pool ? "places in the pools of the GPCs are with" : "the slots are with";
  if (const std::optional<std::uint32_t> other = claims_from(slot)) {
    what = "those that there are belong to the claim of";
    holder = name_of(*other);
  }
  graph.add(name_of(slot), fmt::format("for free slots for {} more CTAs; {}", entry.left(), what), holder,
            WaitGraph::For::room);
}

// The most urgent task whose claim keeps it off.
std::optional<std::uint32_t> TaskControl::claims_from(std::uint32_t slot) const {
  std::optional<std::uint32_t> result;
  if (waits_.reason(slot) != WaitReason::claimed) return result;
  std::int32_t most = table_.at(slot).task.priority;
  for (const std::uint32_t other : table_.used()) {
    const TaskEntry& entry = table_.at(other);
    if (entry.claim.ctas.empty() || entry.task.priority <= most) continue;
    most = entry.task.priority;
    result = other;
  }
  return result;
}

void TaskControl::collect_evicted_waits(WaitGraph& graph, std::uint32_t slot) const {
  if (!table_.at(slot).comes_back()) return;
  std::string holder = "task management";
  for (const std::uint32_t other : table_.used()) {
    if (!table_.at(other).evicted()) holder = name_of(other);
  }
  graph.add(name_of(slot), "for a slot of the task table, from which it was evicted; the slots are with", holder,
            WaitGraph::For::room);
}

}  // namespace heddle::cwd
