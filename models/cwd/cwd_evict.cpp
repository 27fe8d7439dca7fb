// Tasks that give up their slot of the task table and come back (TSK-03), and queue tasks, which grow (TSK-05).
#include <fmt/format.h>

#include "common/packet_socket.h"
#include "cwd/cwd.h"

namespace heddle::cwd {
namespace {

// The other end of a socket that nobody has bound.
template <class Packet>
std::shared_ptr<void> loose_end(PacketIn<Packet>& socket, Domain& domain) {
  if (socket.get_base_port().size() > 0) return nullptr;
  auto end = std::make_shared<PacketOut<Packet>>((std::string("unbound_") + socket.basename()).c_str(), domain, 0,
                                                 kUnlimitedCredits);
  end->bind(socket);
  return end;
}

}  // namespace

void Cwd::before_end_of_elaboration() {
  loose_ends_.push_back(loose_end(evict_in, domain_));
  loose_ends_.push_back(loose_end(grow_in, domain_));
  loose_ends_.push_back(loose_end(share_in, domain_));
}

// A session that is under way ends first: what it places is launched.
void Cwd::on_evict(const protocol::EvictPacket& packet, std::uint32_t) {
  const std::uint32_t slot = table_.find(packet.operation);
  if (slot == TaskTable::kNone || table_.at(slot).evicted || table_.at(slot).evict_asked) {
    evicted_out.send({packet.operation, false, false});
  } else if (in_session(slot)) {
    table_.at(slot).evict_asked = true;
  } else {
    evict(slot);
  }
}

// The entry stays as it is, with the CTAs that run, and only launches nothing. So it goes on where it stopped, in the
// middle of a CGA that was split as well; any other CGA begins again with its full size.
void Cwd::evict(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  entry.evict_asked = false;
  if (!table_.can_evict()) {
    answer_evict(slot, false);
    return;
  }
  table_.evict(slot);
  ++pool_version_;
  if (!entry.split()) entry.size = 0;
  entry.blocked = entry.pool_limited = false;
  entry.first_failure = 0;
  entry.selection = 0;
  waits_.set(slot, entry.all_launched() ? WaitReason::none : WaitReason::evicted);
  evictions_.add();
  show_table();
  if (timeline() != nullptr) {
    const Picoseconds when = domain_.time_of(now());
    timeline()->slice(eviction_track_, when, when, fmt::format("{} is evicted", name_of(slot)),
                      {{"ctas_left", static_cast<std::int64_t>(entry.total - entry.placed)},
                       {"ctas_running", static_cast<std::int64_t>(entry.placed - entry.completed)}});
  }
  progress();
  task_in.return_credit();
  answer_evict(slot, true);
  consider_later();  // others no longer wait behind it
}

void Cwd::answer_evict(std::uint32_t slot, bool evicted) {
  const TaskEntry& entry = table_.at(slot);
  evicted_out.send({entry.task.operation, evicted, evicted && !entry.all_launched()});
}

// A fault can end the task, or drop what was left of it, while it was on its way back.
void Cwd::resume(const protocol::TaskPacket& task) {
  const std::uint32_t slot = table_.find(task.operation);
  if (slot == TaskTable::kNone || table_.at(slot).all_launched()) {
    task_in.return_credit();
    return;
  }
  table_.resume(slot);
  waits_.set(slot, WaitReason::none);
  resumed_.add();
  show_table();
  progress();
  consider_later();
}

// Entries of a task that a fault has ended in the meantime go nowhere.
void Cwd::on_grow(const protocol::GrowPacket& grow, std::uint32_t) {
  const std::uint32_t slot = table_.find(grow.operation);
  if (slot == TaskTable::kNone || table_.at(slot).aborted) return;
  if (grow.broken) {
    abort(slot);
    progress();
    finish_if_done(slot);
    consider_later();
    return;
  }
  TaskEntry& entry = table_.at(slot);
  HEDDLE_CHECK(entry.queue() && !entry.last && grow.entries <= kMaxEntries - entry.total,
               "a task grew that cannot, or beyond what a queue task can launch");
  entry.total += grow.entries;
  entry.last = grow.last;
  entries_.add(grow.entries);
  progress();
  if (entry.placed < entry.total) table_.more(slot);
  if (entry.last) finish_if_done(slot);
  consider_later();
}

// All entries so far have completed: task management looks whether it can end the task.
void Cwd::tell_if_idle(std::uint32_t slot) {
  const TaskEntry& entry = table_.at(slot);
  if (entry.all_launched() || entry.completed != entry.total) return;
  idle_out.send({entry.task.operation, entry.completed});
}

void Cwd::collect_evicted_waits(WaitGraph& graph, std::uint32_t slot) const {
  if (table_.at(slot).all_launched()) return;
  std::string holder = "task management";
  for (const std::uint32_t other : table_.used()) {
    if (!table_.at(other).evicted) holder = name_of(other);
  }
  graph.add(name_of(slot), "for a slot of the task table, from which it was evicted; the slots are with", holder);
}

}  // namespace heddle::cwd
