#include "cwd/cwd.h"

#include <fmt/format.h>

namespace heddle::cwd {
namespace {

std::uint32_t count_bits(std::uint64_t mask) { return static_cast<std::uint32_t>(__builtin_popcountll(mask)); }

}  // namespace

Cwd::Cwd(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CwdParams& params,
         const arch::Topology& topology, const arch::ResourceVector& sm_capacity)
    : Block(name, domain, path),
      task_in("task_in", domain, 0, CreditReturn::by_owner),
      done_out("done_out", domain, params.done_distance, kUnlimitedCredits),
      launch_out("launch_out", domain, params.gpc_distance, params.gpc_queue),
      complete_in("complete_in"),
      params_(params),
      topology_(topology),
      lake_(topology, sm_capacity[arch::Resource::ctas], params.level_search,
            params.sm_priority.resolve(topology.sms())),
      live_(sm_capacity, topology.sms(), params.table_slots),
      table_(params.table_slots),
      port_(domain.mode() == TimingMode::at ? params.packets_per_cycle : 0,
            domain.mode() == TimingMode::at ? params.ctas_per_cycle : 0),
      ctas_launched_(counter("ctas_launched", "CTAs", "CTAs that launch packets have started")),
      launch_packets_(counter("launch_packets", "packets", "launch packets sent to GPCs")),
      sessions_(counter("sessions", "sessions", "launch sessions")),
      session_steps_(counter("session_steps", "steps", "steps of the level searches of all sessions")),
      tasks_(counter("tasks", "tasks", "tasks that entered the task table")),
      ctas_completed_(counter("ctas_completed", "CTAs", "CTAs whose completion has arrived")),
      no_slot_cycles_(counter("no_slot_cycles", "cycles", "time in which CTAs waited and no SM had room for one")),
      table_used_(gauge("table_used", "tasks", "task table slots in use")),
      session_cycles_(histogram("session_cycles", "cycles", "length of a launch session")),
      ctas_per_packet_(histogram("ctas_per_packet", "CTAs", "CTAs that one launch packet starts")) {
  task_in.on_packet<Cwd, &Cwd::on_task>(*this);
  launch_out.on_credit<Cwd, &Cwd::on_credit>(*this);
  complete_in.init(topology.gpcs(), [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::CompletePacket>(socket, domain, params.gpc_distance);
  });
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    complete_in[g].on_packet<Cwd, &Cwd::on_complete>(*this, g);
  }
  if (timeline() != nullptr) {
    session_track_ = timeline()->track(domain.observation().prefix + " cwd", "sessions");
    waiting_track_ = timeline()->track(domain.observation().prefix + " cwd", "waiting");
  }
}

void Cwd::reset() {
  live_.reset();
  table_.reset();
  port_.reset();
  session_.active = false;
  sessions_begun_ = 0;
  buffers_used_ = 0;
  consider_scheduled_ = depart_scheduled_ = waiting_ = false;
}

void Cwd::on_event(std::uint32_t kind, std::uint64_t /*argument*/) {
  switch (kind) {
    case kConsider:
      consider_scheduled_ = false;
      consider();
      break;
    case kSessionEnds:
      end_session();
      break;
    default:
      depart_scheduled_ = false;
      depart();
      break;
  }
}

void Cwd::on_task(const protocol::TaskPacket& task, std::uint32_t) {
  const std::uint32_t slot = table_.insert(task);
  live_.open(slot, task.need);
  tasks_.add();
  table_used_.set(static_cast<double>(table_.used().size()));
  progress();
  consider_later();
}

void Cwd::on_complete(const protocol::CompletePacket& complete, std::uint32_t gpc) {
  TaskEntry& entry = table_.at(complete.slot);
  const std::uint32_t count = count_bits(complete.sm_mask);
  HEDDLE_CHECK(entry.used && entry.completed + count <= entry.placed, "more CTAs completed than were launched");
  for (std::uint64_t mask = complete.sm_mask; mask != 0; mask &= mask - 1) {
    live_.complete(complete.slot, topology_.gpc(gpc).sm_ids[static_cast<std::size_t>(__builtin_ctzll(mask))]);
  }
  entry.completed += count;
  ctas_completed_.add(count);
  progress();
  if (entry.completed == entry.total) finish(complete.slot);
  consider_later();
}

void Cwd::finish(std::uint32_t slot) {
  const TaskEntry& entry = table_.at(slot);
  done_out.send({entry.task.operation, entry.start, now()});
  live_.close(slot);
  table_.remove(slot);
  table_used_.set(static_cast<double>(table_.used().size()));
  task_in.return_credit();
}

// Completions of one cycle are all seen before the next session starts.
void Cwd::consider_later() {
  if (consider_scheduled_ || session_.active || table_.waiting().empty()) return;
  consider_scheduled_ = true;
  domain_.schedule(now(), *this, kConsider);
}

void Cwd::consider() {
  if (session_.active || buffers_used_ >= params_.mask_buffers) return;
  for (const std::uint32_t slot : table_.waiting()) {
    if (live_.any_free(slot)) {
      note_waiting(false);
      begin_session(slot);
      return;
    }
    if (!params_.backfill) break;
  }
  note_waiting(!table_.waiting().empty());
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
    timeline()->slice(waiting_track_, domain_.clock().time_of(waiting_since_), domain_.clock().time_of(now()),
                      "no free slot", {{"tasks_with_ctas_left", static_cast<std::int64_t>(table_.waiting().size())}});
  }
}

// The session works on a snapshot of the live model (CWD-02): what completes meanwhile is for the next one.
void Cwd::begin_session(std::uint32_t slot) {
  const TaskEntry& entry = table_.at(slot);
  session_.active = true;
  session_.slot = slot;
  session_.begin = now();
  session_.sequence = sessions_begun_++;
  session_.snapshot = live_.free_slots(slot);
  session_.placement = &lake_.place(session_.snapshot, std::min(entry.total - entry.placed, params_.session_limit));
  sessions_.add();
  session_steps_.add(session_.placement->steps);
  const Cycle length = domain_.cost(params_.session_pipeline + Cycle{params_.session_step} * session_.placement->steps);
  session_cycles_.add(length);
  domain_.schedule(now() + length, *this, kSessionEnds);
}

void Cwd::end_session() {
  TaskEntry& entry = table_.at(session_.slot);
  if (timeline() != nullptr) {
    const Placement& placement = *session_.placement;
    timeline()->slice(session_track_, domain_.clock().time_of(session_.begin), domain_.clock().time_of(now()),
                      domain_.observation().labels.of(entry.task.operation),
                      {{"session", static_cast<std::int64_t>(session_.sequence)},
                       {"ctas", static_cast<std::int64_t>(placement.ctas)},
                       {"levels", static_cast<std::int64_t>(placement.levels.size())},
                       {"steps", placement.steps}});
  }
  session_.active = false;
  commit(entry);
  if (entry.placed == entry.total) table_.all_placed(session_.slot);
  progress();
  pump_port();
  consider_later();
}

void Cwd::commit(TaskEntry& entry) {
  const Placement& placement = *session_.placement;
  HEDDLE_CHECK(placement.ctas > 0, "a session without a CTA");
  ++buffers_used_;
  std::uint64_t left = placement.ctas;
  for (const LevelMask& level : placement.levels) {
    for (std::uint32_t g = 0; g < level.mask.size(); ++g) {
      const std::uint64_t mask = level.mask[g];
      if (mask == 0) continue;
      for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) {
        live_.launch(session_.slot, topology_.gpc(g).sm_ids[static_cast<std::size_t>(__builtin_ctzll(rest))]);
      }
      protocol::LaunchPacket packet;
      packet.slot = session_.slot;
      packet.operation = entry.task.operation;
      packet.virtual_gpc = topology_.virtual_gpc(g);
      packet.sm_mask = mask;
      packet.num_ctas = count_bits(mask);
      packet.sequence = session_.sequence;
      packet.raster = entry.placed;
      packet.grid = entry.task.grid;
      packet.need = entry.task.need;
      packet.duration = entry.task.duration;
      entry.placed += packet.num_ctas;
      left -= packet.num_ctas;
      packet.last = left == 0;
      port_.push({packet, g});
    }
  }
  HEDDLE_CHECK(left == 0, "the masks of a session do not add up to its CTAs");
}

void Cwd::pump_port() {
  if (port_.empty() || depart_scheduled_) return;
  depart_scheduled_ = true;
  domain_.schedule(port_.ready(now()), *this, kDepart);
}

void Cwd::on_credit(std::uint32_t) { pump_port(); }

void Cwd::depart() {
  if (port_.empty() || !launch_out.can_send(port_.front().gpc)) return;  // on_credit() comes back
  const LaunchPort::Item item = port_.pop(now());
  TaskEntry& entry = table_.at(item.packet.slot);
  if (!entry.started) {
    entry.started = true;
    entry.start = now();
  }
  launch_out.send(item.packet, item.gpc);
  launch_packets_.add();
  ctas_launched_.add(item.packet.num_ctas);
  ctas_per_packet_.add(item.packet.num_ctas);
  if (item.packet.last) {
    --buffers_used_;
    consider_later();
  }
  pump_port();
}

bool Cwd::quiescent() const {
  return table_.used().empty() && live_.empty() && port_.empty() && !session_.active && buffers_used_ == 0;
}

void Cwd::collect_waits(WaitGraph& graph) const {
  const Labels& labels = domain_.observation().labels;
  for (const std::uint32_t slot : table_.used()) {
    const TaskEntry& entry = table_.at(slot);
    const std::string name = labels.of(entry.task.operation);
    const std::uint64_t running = entry.placed - entry.completed;
    if (running > 0)
      graph.add(name, "for the end of", fmt::format("{} of its CTAs that run or are on their way", running));
    if (entry.placed == entry.total) continue;
    std::string holder = "the SMs: none has room for one of its CTAs";
    for (const std::uint32_t other : table_.used()) {
      if (other != slot && live_.running(other) > 0) holder = labels.of(table_.at(other).task.operation);
    }
    graph.add(name, fmt::format("for free slots for {} more CTAs; the slots are with", entry.total - entry.placed),
              holder);
  }
}

}  // namespace heddle::cwd
