#include "cwd/room_maker.h"

#include <algorithm>

#include "arch/sm_limits.h"
#include "common/bits.h"

namespace heddle::cwd {

using protocol::Preemption;

RoomMaker::RoomMaker(const CwdContext& context, const TaskTable& table, const LiveModel& live,
                     const arch::ResourceVector& capacity, PacketSender<protocol::AbortPacket>& out)
    : context_(context),
      table_(table),
      live_(live),
      capacity_(capacity),
      out_(out),
      stats_(context.observation.stats, context.stat_prefix) {}

bool RoomMaker::less_urgent(const TaskEntry& other, const TaskEntry& entry) const {
  return other.task.priority < entry.task.priority && !other.task.cluster.any();
}

bool RoomMaker::may_ask(const TaskEntry& entry) const {
  if (context_.params.preemption != PreemptionMode::instruction || entry.task.cluster.any()) return false;
  if (entry.asked_at != 0 && context_.now() < entry.asked_at + context_.params.preempt_again) return false;
  return std::any_of(table_.used().begin(), table_.used().end(), [&](std::uint32_t slot) {
    return less_urgent(table_.at(slot), entry) && live_.running(slot) > 0;
  });
}

std::vector<std::uint16_t> RoomMaker::possible(const TaskEntry& entry) const {
  std::vector<std::uint16_t> slots(context_.topology.sms(), 0);
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) {
    arch::ResourceVector used = live_.used(sm);
    bool any = false;
    for (const std::uint32_t other : table_.used()) {
      const std::uint32_t ctas = live_.on_sm(other, sm);
      if (ctas == 0 || !less_urgent(table_.at(other), entry)) continue;
      any = true;
      for (std::uint32_t i = 0; i < ctas; ++i) used.subtract(table_.at(other).task.need);
    }
    if (any) slots[sm] = static_cast<std::uint16_t>(arch::free_slots(capacity_, used, entry.task.need));
  }
  return slots;
}

void RoomMaker::ask(TaskEntry& entry, const std::vector<std::uint16_t>& slots) {
  std::uint64_t left = entry.left();
  for (std::uint32_t gpc = 0; gpc < context_.topology.gpcs() && left > 0; ++gpc) {
    const std::vector<std::uint32_t>& sm_ids = context_.topology.gpc(gpc).sm_ids;
    for (std::uint32_t bit = 0; bit < sm_ids.size() && left > 0; ++bit) {
      if (slots[sm_ids[bit]] == 0) continue;
      Preemption preemption;
      preemption.sms = bits::one(bit);
      preemption.priority = entry.task.priority;
      preemption.ctas = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, slots[sm_ids[bit]]));
      preemption.need = entry.task.need;
      left -= preemption.ctas;
      send(gpc, preemption);
      stats_.asked.add();
      entry.asked_at = context_.now();
    }
  }
}

void RoomMaker::send(std::uint32_t gpc, const Preemption& preemption) {
  const Cycle extra = context_.params.distance_of(gpc) - context_.params.nearest_gpc();
  out_.send_at(context_.now() + extra, {0, preemption}, gpc);
}

// Subcontexts with tasks in the table, in the order of their numbers.
std::vector<std::uint32_t> RoomMaker::with_work() const {
  std::vector<std::uint32_t> result;
  for (const std::uint32_t slot : table_.used()) result.push_back(table_.at(slot).task.subcontext);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Who finds the machine without a task of whose turn it is has it at once.
void RoomMaker::update() {
  if (!slices()) return;
  const std::vector<std::uint32_t> work = with_work();
  if (work.empty()) return;
  if (!std::binary_search(work.begin(), work.end(), current_)) {
    const auto next = std::upper_bound(work.begin(), work.end(), current_);
    give_to(next == work.end() ? work.front() : *next);
  }
  if (work.size() == 1) {
    ends_ = 0;
  } else if (ends_ == 0) {
    ends_ = context_.now() + context_.params.time_slice;
    context_.timebase.schedule(ends_, *this, 0);
  }
}

void RoomMaker::on_event(std::uint32_t, std::uint64_t) {
  if (ends_ != context_.now()) return;
  ends_ = 0;
  const std::vector<std::uint32_t> work = with_work();
  if (work.size() < 2) return;
  const auto next = std::upper_bound(work.begin(), work.end(), current_);
  give_to(next == work.end() ? work.front() : *next);
  update();
  slice_sink_();
}

void RoomMaker::give_to(std::uint32_t subcontext) {
  current_ = subcontext;
  stats_.slices.add();
  for (std::uint32_t gpc = 0; gpc < context_.topology.gpcs(); ++gpc) {
    Preemption preemption;
    preemption.kind = Preemption::Kind::slice;
    preemption.sms = bits::below(static_cast<std::uint32_t>(context_.topology.gpc(gpc).sm_ids.size()));
    preemption.subcontext = subcontext;
    send(gpc, preemption);
  }
}

void RoomMaker::reset() {
  current_ = 0;
  ends_ = 0;
}

}  // namespace heddle::cwd
