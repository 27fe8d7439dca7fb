#include "cwd/completion_unit.h"

#include "arch/idle_account.h"
#include "common/bits.h"

namespace heddle::cwd {

CompletionUnit::CompletionUnit(const CwdContext& context, TaskTable& table, MachineLedger& machine,
                               SubcontextPartition& partition, TaskControl& tasks, TaskArbiter& arbiter, PartMap& parts)
    : context_(context),
      table_(table),
      machine_(machine),
      partition_(partition),
      tasks_(tasks),
      arbiter_(arbiter),
      parts_(parts),
      intake_(context.params.end_reports),
      stats_(context.observation.stats, context.stat_prefix) {}

// True if the report has to wait for those before it: then an event takes it in.
template <class Packet>
bool CompletionUnit::waits(const Packet& packet, std::uint32_t gpc) {
  const Cycle now = context_.now();
  const Cycle delay = context_.timebase.cost(intake_.add(now) - now);
  if (delay == 0 && reports_.empty()) return false;
  stats_.waited.add(delay);
  reports_.push_back({packet, gpc});
  context_.timebase.schedule(now + delay, *this, kTakeIn);
  return true;
}

void CompletionUnit::on_complete(const protocol::CompletePacket& complete, std::uint32_t gpc) {
  if (!waits(complete, gpc)) take_in(complete, gpc);
}

void CompletionUnit::on_cga_complete(const protocol::CgaCompletePacket& complete, std::uint32_t gpc) {
  if (!waits(complete, gpc)) take_in(complete, gpc);
}

void CompletionUnit::take_in(const protocol::CompletePacket& complete, std::uint32_t gpc) {
  TaskEntry& entry = table_.at(complete.slot);
  const std::uint32_t count = bits::count(complete.sm_mask);
  // Of a CGA that was preempted those CTAs end once more that had exited before.
  HEDDLE_CHECK(entry.used() && (complete.preempted || entry.completed + count <= entry.placed),
               "more CTAs completed than were launched");
  LiveModel& live = machine_.live();
  const std::vector<std::uint32_t>& sm_ids = context_.topology.gpc(gpc).sm_ids;
  IdleSms* idle = context_.idle() == nullptr ? nullptr : &context_.idle()->sms();
  bits::for_each(complete.sm_mask, [&](std::uint32_t bit) {
    live.complete(complete.slot, sm_ids[bit], complete.released_shared_bytes);
    partition_.complete(entry.task, sm_ids[bit]);
    if (idle != nullptr) idle->heard(sm_ids[bit]);
  });
  machine_.updates().add(context_.now(), count);
  if (count > 0) machine_.pools().complete(entry.runs_as(), gpc, count);
  if (complete.cga_slots != 0) machine_.cgas().give_sm_slots(gpc, complete.cga_slots);
  if (complete.tracked) complete_cga(entry, complete.sequence, count);
  // A CTA that has been preempted is not over, and comes back. One that had waited for tasks before does so as a task
  // of its own.
  const bool over = !complete.preempted || entry.restored();
  if (over) {
    entry.completed += count;
  } else {
    entry.to_come += count;
  }
  if (complete.preempted) stats_.preempted.add(count);
  stats_.ctas.add(complete.preempted ? 0 : count);
  partition_.count_completed(entry.task, count, over);
  machine_.freed();
  context_.progress();
  if (complete.faulted) tasks_.abort(complete.slot);
  tasks_.finish_if_done(complete.slot);
  arbiter_.arbitrate_later();
}

// The GPC has flushed the CGA: its id and barrier slot are free, and it can hold one more (CWD-20).
void CompletionUnit::take_in(const protocol::CgaCompletePacket& complete, std::uint32_t gpc) {
  TaskEntry& entry = table_.at(complete.slot);
  HEDDLE_CHECK(entry.used() && entry.open_cgas > 0, "more CGAs completed than were launched");
  std::uint32_t size = 0;
  if (const auto found = entry.size_of.find(complete.sequence); found != entry.size_of.end()) {
    size = found->second;
    entry.size_of.erase(found);
  }
  --entry.open_cgas;
  entry.room.complete(size, gpc);
  machine_.cgas().give_gpc_cga(gpc);
  complete_cga(entry, complete.sequence, 1);
  stats_.cgas.add();
  machine_.freed();
  context_.progress();
  tasks_.finish_if_done(complete.slot);
  arbiter_.arbitrate_later();
}

// Parts of an outermost CGA have completed: with the last one, what it took besides free slots comes back.
void CompletionUnit::complete_cga(const TaskEntry& entry, std::uint64_t sequence, std::uint64_t parts) {
  CgaLedger& cgas = machine_.cgas();
  const std::uint32_t before = cgas.memory_slots(entry.task.subcontext);
  cgas.complete(sequence, parts);
  stats_.memory_slots.add(cgas.memory_slots(entry.task.subcontext) - before);
}

// Shared memory that a CTA has no more use for: another may have it while the CTA runs (CGA-09).
void CompletionUnit::on_shared_release(const protocol::SharedReleasePacket& release, std::uint32_t gpc) {
  HEDDLE_CHECK(table_.at(release.slot).used() && release.sm < context_.topology.gpc(gpc).sms,
               "shared memory was given back by a task that has ended, or on an SM that does not exist");
  machine_.live().release(release.slot, context_.topology.gpc(gpc).sm_ids[release.sm], release.bytes);
  stats_.shared_released.add(release.bytes);
  machine_.freed();
  context_.progress();
  arbiter_.arbitrate_later();
}

// From now on launch packets come to the TPC, or no longer do (CWD-35).
void CompletionUnit::on_tpc_enable(const protocol::TpcEnablePacket& control, std::uint32_t) {
  HEDDLE_CHECK(control.gpc < context_.topology.gpcs() && control.tpc < context_.topology.gpc(control.gpc).tpcs.size(),
               "a TPC is to be switched that the machine does not have");
  LiveModel& live = machine_.live();
  const std::uint32_t tpc = live.first_tpc(control.gpc) + control.tpc;
  if (live.enabled(tpc) == control.enabled) return;
  live.enable(tpc, control.enabled);
  if (context_.idle() != nullptr) {
    for (std::uint32_t sm = 0; sm < context_.topology.sms(); ++sm) {
      if (live.tpc_of(sm) == tpc) context_.idle()->sms().switched(sm, control.enabled);
    }
  }
  parts_.announce(live);
  arbiter_.update_counters(control.gpc);
  machine_.pools_freed();
  context_.progress();
  if (control.enabled) machine_.freed();
  arbiter_.arbitrate_later();
}

void CompletionUnit::preload(std::uint32_t sm, const arch::ResourceVector& amount, Cycle until) {
  machine_.live().preload(sm, amount);
  if (until == 0) return;
  preloads_.push_back({sm, amount, until});
  context_.timebase.schedule(until, *this, kPreloadEnds, preloads_.size() - 1);
}

void CompletionUnit::reset() {
  intake_.reset();
  reports_.clear();
  for (std::size_t i = 0; i < preloads_.size(); ++i)
    context_.timebase.schedule(preloads_[i].until, *this, kPreloadEnds, i);
}

void CompletionUnit::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind == kTakeIn) {
    const Report report = reports_.front();
    reports_.pop_front();
    std::visit([&](const auto& packet) { take_in(packet, report.gpc); }, report.packet);
    return;
  }
  machine_.live().unload(preloads_[argument].sm, preloads_[argument].amount);
  machine_.freed();
  arbiter_.arbitrate_later();
}

}  // namespace heddle::cwd
