#include "cwd/task_eviction.h"

#include <fmt/format.h>

namespace heddle::cwd {

using Residence = TaskEntry::Residence;

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
  if (slot == TaskTable::kNone || table_.at(slot).residence != Residence::slot) {
    answers_.send({packet.operation, false, false});
  } else if (session_.running(slot)) {
    table_.at(slot).residence = Residence::leaving;
  } else {
    evict(slot);
  }
}

void TaskEviction::session_ended(std::uint32_t slot) {
  if (table_.at(slot).leaving()) evict(slot);
}

void TaskEviction::task_ends(std::uint32_t slot) {
  if (table_.at(slot).leaving()) answer(slot, false);
}

// The entry stays as it is, with the CTAs that run, and only launches nothing. So it goes on where it stopped, in the
// middle of a CGA that was split as well; any other CGA begins again with its full size.
void TaskEviction::evict(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  entry.residence = Residence::slot;
  if (!table_.can_evict()) {
    answer(slot, false);
    return;
  }
  table_.evict(slot);
  machine_.pools_freed();
  entry.forget_search();
  waits_.set(slot, entry.all_launched() ? WaitReason::none : WaitReason::evicted);
  stats_.evictions.add();
  if (context_.timeline() != nullptr) draw(slot);
  context_.progress();
  slots_.return_credit();
  answer(slot, true);
  arbiter_.arbitrate_later();  // others no longer wait behind it
}

void TaskEviction::answer(std::uint32_t slot, bool evicted) {
  const TaskEntry& entry = table_.at(slot);
  answers_.send({entry.task.operation, evicted, evicted && !entry.all_launched()});
}

// A fault can end the task, or drop what was left of it, while it was on its way back.
void TaskEviction::resume(const protocol::TaskPacket& task) {
  const std::uint32_t slot = table_.find(task.operation);
  if (slot == TaskTable::kNone || table_.at(slot).all_launched()) {
    slots_.return_credit();
    return;
  }
  table_.resume(slot);
  waits_.set(slot, WaitReason::none);
  stats_.resumed.add();
  context_.progress();
  arbiter_.arbitrate_later();
}

void TaskEviction::draw(std::uint32_t slot) const {
  const TaskEntry& entry = table_.at(slot);
  context_.draw(track_, context_.now(), fmt::format("{} is evicted", context_.observation.labels.of(entry.runs_as())),
                {{"ctas_left", static_cast<std::int64_t>(entry.left())},
                 {"ctas_running", static_cast<std::int64_t>(entry.placed - entry.completed)}});
}

}  // namespace heddle::cwd
