#include "cwd/room_maker.h"

#include <algorithm>

#include "arch/sm_limits.h"
#include "common/bits.h"

namespace heddle::cwd {

using protocol::Preemption;

RoomMaker::RoomMaker(const CwdContext& context, const TaskTable& table, const LiveModel& live,
                     const arch::ResourceVector& capacity, const std::vector<std::uint32_t>& sm_priority,
                     std::uint32_t cgas_per_gpc, SavesOfWaiting saves, PacketSender<protocol::AbortPacket>& out)
    : context_(context),
      table_(table),
      live_(live),
      capacity_(capacity),
      out_(out),
      planner_(context, sm_priority, capacity, cgas_per_gpc),
      claims_(context.topology.sms()),
      saves_(saves),
      stats_(context.observation.stats, context.stat_prefix) {}

namespace {

// CGAs beyond a GPC, and those with linear memory, are not saved; nor are CTAs that others of their grid wait for.
bool can_be_stopped(const protocol::TaskPacket& task) {
  if (task.cooperative) return false;
  return !task.cluster.any() || (task.cluster.outermost() == arch::CgaLevel::gpc && !task.cluster.linear_memory);
}

bool less_urgent(const TaskEntry& other, const TaskEntry& entry) {
  return other.task.priority < entry.task.priority && can_be_stopped(other.task);
}

// The least nesting depth of tasks whose CTAs are on those SMs.
std::optional<std::uint32_t> least_depth(const TaskTable& table, const LiveModel& live,
                                         const std::vector<std::uint16_t>& claim) {
  std::optional<std::uint32_t> least;
  for (const std::uint32_t slot : table.used()) {
    const std::uint32_t depth = table.at(slot).task.depth;
    if (live.running(slot) == 0 || (least && depth >= *least)) continue;
    for (std::uint32_t sm = 0; sm < claim.size(); ++sm) {
      if (claim[sm] == 0 || live.on_sm(slot, sm) == 0) continue;
      least = depth;
      break;
    }
  }
  return least;
}

}  // namespace

bool RoomMaker::may_ask(const TaskEntry& entry) const {
  if (context_.params.preemption != PreemptionMode::instruction) return false;
  const Cycle asked = entry.claim.asked_at;
  if (asked != 0 && context_.now() < asked + context_.params.preempt_again) return false;
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
  std::uint64_t left = entry.returns.empty() ? entry.left() : entry.returns.size();  // those go on first
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
      entry.claim.asked_at = context_.now();
    }
  }
}

bool RoomMaker::wants_claim(const TaskEntry& entry, WaitReason reason) const {
  if (!entry.task.cluster.any() || (reason != WaitReason::free_slots && reason != WaitReason::tpc_mask)) return false;
  const auto less_urgent = [&](std::uint32_t other) { return table_.at(other).task.priority < entry.task.priority; };
  return may_ask(entry) || std::any_of(table_.waiting().begin(), table_.waiting().end(), less_urgent);
}

bool RoomMaker::claim(TaskEntry& entry, const std::vector<bool>& usable) {
  bool other = false;
  if (may_ask(entry)) {
    other |= look_for_claim(entry, usable, true);
    entry.claim.asked_at = context_.now();
    if (!entry.claim.ctas.empty()) ask_claimed(entry);
    entry.claim.none = false;
  }
  if (entry.claim.ctas.empty() && !entry.claim.none) other |= look_for_claim(entry, usable, false);
  if (!entry.claim.ctas.empty())
    claims_.add(entry.claim.ctas, entry.task.priority, least_depth(table_, live_, entry.claim.ctas));
  return other;
}

bool RoomMaker::look_for_claim(TaskEntry& entry, const std::vector<bool>& usable, bool stopped) {
  const RoomLadder ladder(capacity_, entry.task.need, live_, in_the_way(entry, stopped), usable);
  const bool returns = !entry.returns.empty();
  const std::uint32_t size = returns ? entry.returns.front().id.size : entry.split() ? entry.size : 0;
  const std::uint64_t left = returns ? 1 : std::max<std::uint64_t>(1, entry.left() / entry.unit_ctas(size));
  const std::uint64_t units = std::min<std::uint64_t>(left, machine_size(entry));
  std::vector<std::uint16_t> ctas =
      planner_.plan(entry.task, size, units, ladder).value_or(std::vector<std::uint16_t>{});
  const bool other = !entry.claim.ctas.empty() && entry.claim.ctas != ctas;
  entry.claim.ctas = std::move(ctas);
  entry.claim.none = entry.claim.ctas.empty();
  return other;
}

// CTAs in the way of a plain grid are saved while they wait, where they can be. A CGA needs its SMs all at once.
std::optional<std::uint32_t> RoomMaker::depth_in_the_way(const TaskEntry& entry) const {
  std::optional<std::uint32_t> least;
  for (const std::uint32_t slot : table_.used()) {
    const TaskEntry& other = table_.at(slot);
    const bool stays = entry.task.cluster.any() || !saves_.any || !can_be_stopped(other.task);
    if (live_.running(slot) > 0 && stays) least = std::min(least.value_or(other.task.depth), other.task.depth);
  }
  return least;
}

// CGAs of the task that an empty machine can hold at most.
std::uint64_t RoomMaker::machine_size(const TaskEntry& entry) const {
  const std::uint64_t ctas = std::uint64_t{context_.topology.sms()} * arch::free_slots(capacity_, {}, entry.task.need);
  return std::max<std::uint64_t>(1, ctas / entry.unit_ctas(0));
}

// Which CTAs of others are in the way of the task's CGAs on each SM, those that go first at the front. `stopped`: those
// that can be made to go; if not, all.
std::vector<InTheWay> RoomMaker::in_the_way(const TaskEntry& entry, bool stopped) const {
  std::vector<std::uint32_t> others;
  for (const std::uint32_t other : table_.used()) {
    if (live_.running(other) > 0 && (!stopped || less_urgent(table_.at(other), entry))) others.push_back(other);
  }
  std::stable_sort(others.begin(), others.end(), [this](std::uint32_t a, std::uint32_t b) {
    return table_.at(a).task.priority < table_.at(b).task.priority;
  });
  std::vector<InTheWay> result(context_.topology.sms());
  for (std::uint32_t sm = 0; sm < result.size(); ++sm) {
    for (const std::uint32_t other : others) {
      result[sm].insert(result[sm].end(), live_.on_sm(other, sm), table_.at(other).task.need);
    }
  }
  return result;
}

// Has CTAs go from the SMs of the task's claim.
void RoomMaker::ask_claimed(const TaskEntry& entry) {
  for (std::uint32_t gpc = 0; gpc < context_.topology.gpcs(); ++gpc) {
    const std::vector<std::uint32_t>& sm_ids = context_.topology.gpc(gpc).sm_ids;
    for (std::uint32_t bit = 0; bit < sm_ids.size(); ++bit) {
      const std::uint32_t sm = sm_ids[bit];
      const std::uint32_t ctas = entry.claim.ctas[sm];
      if (ctas <= arch::free_slots(capacity_, live_.used(sm), entry.task.need)) continue;
      Preemption preemption;
      preemption.sms = bits::one(bit);
      preemption.priority = entry.task.priority;
      preemption.ctas = ctas;
      preemption.need = entry.task.need;
      send(gpc, preemption);
      stats_.asked.add();
    }
  }
}

// Nobody has come or gone for a while: others may wait to come in, for tasks whose CTAs wait for them.
bool RoomMaker::table_stands_full() {
  if (table_.in_slots() < context_.params.table_slots) {
    full_since_ = 0;
    return false;
  }
  std::uint64_t newest = 0;
  for (const std::uint32_t slot : table_.used()) newest = std::max(newest, table_.at(slot).order);
  const Cycle again = context_.params.preempt_again;
  if (full_since_ == 0 || newest != newest_) {
    full_since_ = std::max<Cycle>(1, context_.now());
    newest_ = newest;
    context_.timebase.schedule(full_since_ + again, *this, kStandsFull);
  }
  return context_.now() >= full_since_ + again;
}

// The most urgent task that waits for something that CTAs hold wants slots; whoever finds no slot of the task table
// wants as many as there are.
void RoomMaker::tell_wanted(const WaitLog& waits) {
  if (!saves_.wanted) return;
  const std::uint32_t all = capacity_[arch::Resource::ctas];
  if (table_stands_full()) return want(all, capacity_, TaskTable::kNone);
  for (const std::uint32_t slot : table_.waiting()) {
    const TaskEntry& entry = table_.at(slot);
    switch (waits.reason(slot)) {
      case WaitReason::none:
      case WaitReason::behind:
      case WaitReason::evicted:
      case WaitReason::time_slice:
      case WaitReason::preempted:
      case WaitReason::cooperative:
        continue;
      case WaitReason::free_slots:
      case WaitReason::tpc_mask: {
        if (entry.task.cluster.any()) return want(all, entry.task.need, slot);
        const std::uint64_t each =
            (entry.left() + entry.returns.size() + context_.topology.sms() - 1) / context_.topology.sms();
        return want(static_cast<std::uint32_t>(std::min<std::uint64_t>(each, all)), entry.task.need, slot);
      }
      default:
        return want(all, capacity_, slot);
    }
  }
  want(0, {}, TaskTable::kNone);
}

// An SM that has room enough when it is told can have none when the next task wants the same.
void RoomMaker::want(std::uint32_t ctas, const arch::ResourceVector& need, std::uint32_t slot) {
  const std::uint32_t by = slot == TaskTable::kNone ? slot : table_.at(slot).task.operation;
  if (ctas == wanted_ && (ctas == 0 || (need == wanted_need_ && by == wanted_by_))) return;
  if (wanted_ == 0) stats_.wanted.add();
  wanted_ = ctas;
  wanted_need_ = need;
  wanted_by_ = by;
  for (std::uint32_t gpc = 0; gpc < context_.topology.gpcs(); ++gpc) {
    Preemption preemption;
    preemption.kind = Preemption::Kind::waiting;
    preemption.sms = bits::below(static_cast<std::uint32_t>(context_.topology.gpc(gpc).sm_ids.size()));
    preemption.ctas = ctas;
    preemption.need = need;
    send(gpc, preemption);
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
    context_.timebase.schedule(ends_, *this, kSliceEnds);
  }
}

void RoomMaker::on_event(std::uint32_t kind, std::uint64_t) {
  if (kind == kStandsFull && full_since_ != 0) slice_sink_();
  if (kind == kStandsFull || ends_ != context_.now()) return;
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
  wanted_ = 0;
  full_since_ = 0;
}

}  // namespace heddle::cwd
