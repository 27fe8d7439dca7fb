#include "cwd/cwd.h"
#include "arch/gpu_observation.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::cwd {
namespace {

std::uint32_t count_bits(std::uint64_t mask) { return static_cast<std::uint32_t>(__builtin_popcountll(mask)); }

std::uint32_t distance_of(const CwdParams& params, std::uint32_t gpc) {
  return params.gpc_distances.empty() ? params.gpc_distance : params.gpc_distances[gpc];
}

std::uint32_t nearest(const CwdParams& params) {
  if (params.gpc_distances.empty()) return params.gpc_distance;
  return *std::min_element(params.gpc_distances.begin(), params.gpc_distances.end());
}

double rate(const Domain& domain, double per_cycle) { return domain.mode() == TimingMode::at ? per_cycle : 0; }

// Cycles that a packet occupies the port until all GPCs have it, if that is more than one step (CWD-35); a central
// rasteriser tells only one GPC.
double broadcast_cycles(const Domain& domain, const CwdParams& params, const arch::Topology& topology) {
  if (domain.mode() != TimingMode::at || params.central_raster || topology.gpcs() <= params.broadcast_width) return 0;
  return (topology.gpcs() + params.broadcast_width - 1) / params.broadcast_width;
}

// Cycles that one CTA id takes where the distributor makes and sends it: 64 bits over the link (CWD-43).
double id_cycles(const Domain& domain, const CwdParams& params) {
  if (domain.mode() != TimingMode::at || !params.central_raster) return 0;
  return std::max<double>(params.raster_cycles, 64.0 / params.id_bits_per_cycle);
}

LakeOptions lake_options(const CwdParams& params) {
  LakeOptions options;
  options.one_at_a_time = params.one_at_a_time;
  return options;
}

std::vector<std::uint32_t> tpcs_of(const LiveModel& live, const arch::Topology& topology) {
  std::vector<std::uint32_t> tpcs;
  for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) tpcs.push_back(live.tpc_of(sm));
  return tpcs;
}

CwdParams without_credits(CwdParams params) {
  params.tpc_credits = 0;
  return params;
}

CgaLimits limits_of(const CwdParams& params, const GpcCgaLimits& gpc) {
  return {gpc.ids, gpc.barriers, params.gpu_cga_barriers, params.memory_slots};
}

}  // namespace

Cwd::Cwd(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CwdParams& params,
         const arch::Topology& topology, const arch::ResourceVector& sm_capacity, const GpcCgaLimits& gpc_limits)
    : Block(name, domain, path),
      task_in("task_in", domain, 0, CreditReturn::by_owner),
      done_out("done_out", domain, params.done_distance, kUnlimitedCredits),
      control_in("control_in", domain, 0),
      evict_in("evict_in", domain, 0),
      evicted_out("evicted_out", domain, params.done_distance, kUnlimitedCredits),  // one for each eviction
      grow_in("grow_in", domain, 0),
      idle_out("idle_out", domain, params.done_distance, kUnlimitedCredits),  // bounded by the tasks and what grows
      share_in("share_in", domain, 0),
      launch_out("launch_out", domain, nearest(params), params.gpc_queue),
      local_out("local_out", domain, nearest(params), kUnlimitedCredits),  // bounded by the TPCs
      abort_out("abort_out", domain, nearest(params), kUnlimitedCredits),  // at most one per task
      complete_in("complete_in"),
      cga_in("cga_in"),
      shared_in("shared_in"),
      params_(params),
      topology_(topology),
      sm_priority_(params.sm_priority.resolve(topology.sms(), "cwd.sm_priority")),
      policies_(params),
      lake_(topology, sm_capacity[arch::Resource::ctas], params.level_search, sm_priority_, lake_options(params)),
      wide_(topology, sm_capacity[arch::Resource::ctas], params.level_search, sm_priority_, *policies_.domain,
            params.one_at_a_time),
      live_(sm_capacity, topology, params.table_slots + params.evicted_tasks),
      holds_(live_.tpcs(), {params.partition, params.tpc_credits, params.local_memory_blocks}),
      credit_(sm_priority_, tpcs_of(live_, topology), topology, params.one_at_a_time),
      subcontexts_(domain, path),
      ledger_(topology.gpcs(), limits_of(params, gpc_limits)),
      admission_(topology, sm_capacity, without_credits(params), std::min(gpc_limits.ids, gpc_limits.barriers)),
      table_(params.table_slots, params.evicted_tasks),
      pools_(topology.gpcs(), params.pending_pool, params.active_pool),
      port_(rate(domain, params.packets_per_cycle), rate(domain, params.ctas_per_cycle),
            broadcast_cycles(domain, params, topology), id_cycles(domain, params)),
      waits_(domain, path, params.table_slots + params.evicted_tasks,
             [this](std::uint32_t slot) { return name_of(slot); }),
      tpc_rank_(live_.tpcs(), topology.sms()),
      session_out_("session_out", domain, params.session_pipeline, kUnlimitedCredits),  // one session at a time
      snapshot_out_("snapshot_out", domain, 0, kUnlimitedCredits),
      end_in_("end_in", domain, 0),
      mask_in_("mask_in"),
      gpu2gpc_("gpu2gpc", domain, path + ".gpu2gpc", params, topology, *policies_.domain),
      ctas_launched_(counter("ctas_launched", "CTAs", "CTAs that launch packets have started")),
      launch_packets_(counter("launch_packets", "packets", "launch packets sent to GPCs")),
      sessions_(counter("sessions", "sessions", "launch sessions")),
      failed_sessions_(counter("failed_sessions", "sessions", "sessions that found no home for a CGA")),
      session_steps_(
          counter("session_steps", "steps", "steps of all sessions: of the level search, or of queries to the GPCs")),
      tasks_(counter("tasks", "tasks", "tasks that entered the task table")),
      evictions_(counter("evictions", "tasks", "times that a task gave up its slot of the task table to another")),
      resumed_(counter("resumed", "tasks", "times that an evicted task came back into the task table")),
      restored_(counter("restored", "CTAs", "saved CTAs that came to be restored")),
      entries_(counter("queue_entries", "entries", "entries of queue tasks that have arrived")),
      pool_yields_(counter("pool_yields", "places", "places of active pools that an idle or less urgent task yielded")),
      rejected_(counter("rejected", "tasks", "tasks that can never run on this machine")),
      ctas_completed_(counter("ctas_completed", "CTAs", "CTAs whose completion has arrived")),
      cgas_launched_(counter("cgas_launched", "CGAs", "outermost CGAs started")),
      cgas_completed_(counter("cgas_completed", "GPC_CGAs", "GPC_CGAs whose cga_complete has arrived")),
      shared_released_(counter("shared_released", "bytes", "shared memory that CTAs gave back before their end")),
      local_blocks_(counter("local_blocks", "packets", "local-memory block indices sent to TPCs")),
      late_joins_(counter("late_joins", "TPCs", "TPCs that were told the coordinate of a grid they had not followed")),
      no_slot_cycles_(counter("no_slot_cycles", "cycles", "time in which CTAs waited and none could start")),
      share_changes_(counter("share_changes", "changes", "changes of how the machine is shared")),
      share_refused_(counter("share_refused", "changes", "changes of how the machine is shared that were refused")),
      table_used_(gauge("table_used", "tasks", "task table slots in use")),
      session_cycles_(histogram("session_cycles", "cycles", "length of a launch session")),
      ctas_per_packet_(histogram("ctas_per_packet", "CTAs", "CTAs that one launch packet starts")) {
  task_in.on_packet<Cwd, &Cwd::on_task>(*this);
  control_in.on_packet<Cwd, &Cwd::on_control>(*this);
  evict_in.on_packet<Cwd, &Cwd::on_evict>(*this);
  grow_in.on_packet<Cwd, &Cwd::on_grow>(*this);
  share_in.on_packet<Cwd, &Cwd::on_share>(*this);
  waits_.on_end([this](std::uint32_t slot, WaitReason reason, Cycle cycles) {
    subcontexts_.waited(table_.at(slot).task.subcontext, name_of(slot), reason, cycles);
  });
  if (params.partition == protocol::PartitionMode::dynamic && params.tpc_credits > 0) {
    first_credits_ =
        std::make_unique<Admission>(topology, sm_capacity, params, std::min(gpc_limits.ids, gpc_limits.barriers));
  }
  launch_out.on_credit<Cwd, &Cwd::on_credit>(*this);
  end_in_.on_packet<Cwd, &Cwd::on_session_end>(*this);
  const auto per_gpc = [&](auto& sockets, auto make) { sockets.init(topology.gpcs(), make); };
  per_gpc(complete_in, [&](const char* socket, std::size_t g) {
    return new PacketIn<protocol::CompletePacket>(socket, domain, distance_of(params, static_cast<std::uint32_t>(g)));
  });
  per_gpc(cga_in, [&](const char* socket, std::size_t g) {
    return new PacketIn<protocol::CgaCompletePacket>(socket, domain,
                                                     distance_of(params, static_cast<std::uint32_t>(g)));
  });
  per_gpc(shared_in, [&](const char* socket, std::size_t g) {
    return new PacketIn<protocol::SharedReleasePacket>(socket, domain,
                                                       distance_of(params, static_cast<std::uint32_t>(g)));
  });
  per_gpc(mask_in_,
          [&](const char* socket, std::size_t) { return new PacketIn<protocol::MaskPacket>(socket, domain, 0); });
  std::uint32_t tpcs = 0;
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) {
    first_tpc_.push_back(tpcs);
    gpc_of_tpc_.insert(gpc_of_tpc_.end(), topology.gpc(g).tpcs.size(), g);
    tpcs += static_cast<std::uint32_t>(topology.gpc(g).tpcs.size());
    extra_distance_.push_back(domain.cost(distance_of(params, g) - nearest(params)));
    enabled_tpcs_.push_back(static_cast<std::uint32_t>(topology.gpc(g).tpcs.size()));
    complete_in[g].on_packet<Cwd, &Cwd::on_complete>(*this, g);
    cga_in[g].on_packet<Cwd, &Cwd::on_cga_complete>(*this, g);
    shared_in[g].on_packet<Cwd, &Cwd::on_shared>(*this, g);
    mask_in_[g].on_packet<Cwd, &Cwd::on_masks>(*this, g);
    gpc2sm_.push_back(std::make_unique<Gpc2SmUnit>(
        fmt::format("gpc2sm{}", g).c_str(), domain, fmt::format("{}.gpc2sm{}", path, g), params, topology, g,
        sm_priority_, *policies_.load_balancing, *policies_.multicast, *policies_.domain));
    snapshot_out_.bind(gpc2sm_.back()->snapshot_in);
    gpu2gpc_.mimic_out.bind(gpc2sm_.back()->mimic_in);
    gpu2gpc_.home_out.bind(gpc2sm_.back()->home_in);
    gpc2sm_.back()->answer_out.bind(gpu2gpc_.answer_in[g]);
    gpc2sm_.back()->mask_out.bind(mask_in_[g]);
  }
  session_out_.bind(gpu2gpc_.session_in);
  gpu2gpc_.end_out.bind(end_in_);
  for (std::uint32_t rank = 0; rank < sm_priority_.size(); ++rank) {
    std::uint32_t& best = tpc_rank_[live_.tpc_of(sm_priority_[rank])];
    best = std::min(best, rank);
  }
  if (timeline() != nullptr) {
    session_track_ = timeline()->track(domain.observation().prefix + " cwd", "sessions");
    waiting_track_ = timeline()->track(domain.observation().prefix + " cwd", "waiting");
    eviction_track_ = timeline()->track(domain.observation().prefix + " cwd", "evictions");
  }
}

Cwd::~Cwd() = default;

void Cwd::reset() {
  live_.reset();
  holds_.reset();
  subcontexts_.reset();
  ledger_.reset();
  table_.reset();
  pools_.reset();
  for (std::uint32_t g = 0; g < topology_.gpcs(); ++g) {
    enabled_tpcs_[g] = static_cast<std::uint32_t>(topology_.gpc(g).tpcs.size());
  }
  port_.reset();
  reorder_.reset();
  waits_.reset();
  buffers_.clear();
  session_.kind = SessionKind::none;
  sessions_begun_ = sequence_ = 0;
  version_ = pool_version_ = 1;
  consider_scheduled_ = depart_scheduled_ = waiting_ = false;
  schedule_unloads();
}

void Cwd::preload(std::uint32_t sm, const arch::ResourceVector& amount, Cycle until) {
  live_.preload(sm, amount);
  if (until == 0) return;
  unloads_.push_back({sm, amount, until});
  domain_.schedule(until, *this, kUnload, unloads_.size() - 1);
}

void Cwd::schedule_unloads() {
  for (std::size_t i = 0; i < unloads_.size(); ++i) domain_.schedule(unloads_[i].until, *this, kUnload, i);
}

void Cwd::on_event(std::uint32_t kind, std::uint64_t argument) {
  switch (kind) {
    case kConsider:
      consider_scheduled_ = false;
      consider();
      break;
    case kSessionEnds:
      end_session();
      break;
    case kUnload:
      live_.unload(unloads_[argument].sm, unloads_[argument].amount);
      ++version_;
      consider_later();
      break;
    default:
      depart_scheduled_ = false;
      depart();
      break;
  }
}

void Cwd::on_task(const protocol::TaskPacket& task, std::uint32_t) {
  if (task.resumed) {
    resume(task);
    return;
  }
  const std::uint32_t slot = table_.insert(task);
  live_.open(slot, task.need);
  use_subcontext(task.subcontext);
  tasks_.add();
  if (task.kind == protocol::TaskKind::restore) restored_.add();
  show_table();
  progress();
  const bool entries_in_cgas = task.kind == protocol::TaskKind::queue && task.cluster.any();
  if (entries_in_cgas || !admission_.admit(task, table_.at(slot).room) || lacks_credits_for_ever(task)) {  // CWD-25
    rejected_.add();
    table_.all_placed(slot);
    table_.at(slot).rejected = true;
    finish(slot);
    return;
  }
  tell_if_idle(slot);
  consider_later();
}

// A TPC that is enabled has not heard what was broadcast of the grids that are under way.
void Cwd::on_control(const protocol::TpcEnablePacket& control, std::uint32_t) {
  HEDDLE_CHECK(control.gpc < topology_.gpcs() && control.tpc < topology_.gpc(control.gpc).tpcs.size(),
               "a TPC is to be switched that the machine does not have");
  const std::uint32_t tpc = first_tpc_[control.gpc] + control.tpc;
  if (live_.enabled(tpc) == control.enabled) return;
  live_.enable(tpc, control.enabled);
  enabled_tpcs_[control.gpc] += control.enabled ? 1 : ~std::uint32_t{0};
  ++pool_version_;
  progress();
  if (!control.enabled) {
    consider_later();
    return;
  }
  for (const std::uint32_t slot : table_.used()) {
    TaskEntry& entry = table_.at(slot);
    if (entry.placed == 0) continue;
    entry.missed.resize(live_.tpcs(), false);
    entry.missed[tpc] = true;
  }
  ++version_;
  consider_later();
}

void Cwd::on_complete(const protocol::CompletePacket& complete, std::uint32_t gpc) {
  TaskEntry& entry = table_.at(complete.slot);
  const std::uint32_t count = count_bits(complete.sm_mask);
  HEDDLE_CHECK(entry.used && entry.completed + count <= entry.placed, "more CTAs completed than were launched");
  for (std::uint64_t mask = complete.sm_mask; mask != 0; mask &= mask - 1) {
    const std::uint32_t sm = topology_.gpc(gpc).sm_ids[static_cast<std::size_t>(__builtin_ctzll(mask))];
    live_.complete(complete.slot, sm, complete.released_shared_bytes);
    holds_.complete(entry.task.subcontext, live_.tpc_of(sm), entry.task.local_memory);
  }
  if (count > 0) pools_.complete(entry.runs_as(), gpc, count);
  if (complete.tracked) ledger_.complete(complete.sequence, count);
  entry.completed += count;
  ctas_completed_.add(count);
  subcontexts_.completed(entry.task.subcontext, count);
  show_holds(entry.task.subcontext);
  ++version_;
  progress();
  if (complete.faulted) abort(complete.slot);
  finish_if_done(complete.slot);
  consider_later();
}

// Shared memory that a CTA has no more use for: another may have it while the CTA runs (CGA-09).
void Cwd::on_shared(const protocol::SharedReleasePacket& release, std::uint32_t gpc) {
  HEDDLE_CHECK(table_.at(release.slot).used && release.sm < topology_.gpc(gpc).sms,
               "shared memory was given back by a task that has ended, or on an SM that does not exist");
  live_.release(release.slot, topology_.gpc(gpc).sm_ids[release.sm], release.bytes);
  shared_released_.add(release.bytes);
  ++version_;
  progress();
  consider_later();
}

// A fault ends its task: what runs of it is stopped, and the rest is not placed. A session of the task that is under
// way ends first: its CTAs are stopped when they arrive. Saved CTAs of it are restored nevertheless: an SM ends them,
// and only an SM can give back what they hold.
void Cwd::abort(std::uint32_t slot) {
  if (table_.at(slot).aborted) return;
  const std::uint32_t operation = table_.at(slot).runs_as();
  bool told = false;
  std::vector<std::uint32_t> others;
  for (const std::uint32_t other : table_.used()) {
    TaskEntry& entry = table_.at(other);
    if (entry.runs_as() != operation) continue;
    told = told || entry.aborted;
    entry.aborted = true;
    if (other != slot) others.push_back(other);
    if (!in_session(other)) drop_rest(other);
  }
  for (std::uint32_t g = 0; g < topology_.gpcs() && !told; ++g) {
    abort_out.send_at(now() + extra_distance_[g], {operation}, g);
  }
  for (const std::uint32_t other : others) finish_if_done(other);
}

void Cwd::drop_rest(std::uint32_t slot) {
  TaskEntry& entry = table_.at(slot);
  if (entry.restored() || entry.placed == entry.total) return;
  entry.total = entry.placed;
  table_.all_placed(slot);
  ++pool_version_;
  waits_.set(slot, WaitReason::none);
}

// The GPC has flushed the CGA: its id and barrier slot are free, and it can hold one more (CWD-20).
void Cwd::on_cga_complete(const protocol::CgaCompletePacket& complete, std::uint32_t gpc) {
  TaskEntry& entry = table_.at(complete.slot);
  HEDDLE_CHECK(entry.used && entry.open_cgas > 0, "more CGAs completed than were launched");
  std::uint32_t size = 0;
  if (const auto found = entry.size_of.find(complete.sequence); found != entry.size_of.end()) {
    size = found->second;
    entry.size_of.erase(found);
  }
  --entry.open_cgas;
  ++entry.room[admission_.room_index(entry.task, size, gpc)];
  ledger_.give_gpc_cga(gpc);
  ledger_.complete(complete.sequence, 1);
  cgas_completed_.add();
  ++version_;
  progress();
  finish_if_done(complete.slot);
  consider_later();
}

void Cwd::finish_if_done(std::uint32_t slot) {
  const TaskEntry& entry = table_.at(slot);
  if (in_session(slot) || entry.completed != entry.total || entry.open_cgas > 0) return;
  if (entry.all_launched()) {
    finish(slot);
  } else {
    tell_if_idle(slot);
  }
}

// The slot of an evicted task went back when it was evicted.
void Cwd::finish(std::uint32_t slot) {
  const TaskEntry& entry = table_.at(slot);
  const bool held = !entry.evicted;
  done_out.send({entry.task.operation, entry.started ? entry.start : now(), now(), entry.rejected, entry.aborted});
  if (entry.evict_asked) answer_evict(slot, false);
  waits_.set(slot, WaitReason::none);
  live_.close(slot);
  subcontexts_.show_fairness();
  table_.remove(slot);
  show_table();
  if (held) task_in.return_credit();
}

void Cwd::show_table() { table_used_.set(static_cast<double>(table_.in_slots())); }

std::string Cwd::name_of(std::uint32_t slot) const {
  return gpu_observation(domain_).labels.of(table_.at(slot).runs_as());
}

bool Cwd::quiescent() const {
  return table_.used().empty() && live_.empty() && holds_.empty() && ledger_.empty() && port_.empty() &&
         pools_.empty() && session_.kind == SessionKind::none && buffers_.empty();
}

void Cwd::collect_waits(WaitGraph& graph) const {
  for (const std::uint32_t slot : table_.used()) {
    const TaskEntry& entry = table_.at(slot);
    const std::string name = name_of(slot);
    const std::uint64_t running = entry.placed - entry.completed;
    if (running > 0) {
      graph.add(name, "for the end of", fmt::format("{} of its CTAs that run or are on their way", running));
    } else if (entry.open_cgas > 0) {
      graph.add(name, "for the flush of", fmt::format("{} of its CGAs", entry.open_cgas));
    }
    if (entry.evicted) {
      collect_evicted_waits(graph, slot);
    } else if (entry.placed < entry.total) {
      collect_slot_waits(graph, slot);
    } else if (!entry.all_launched() && running == 0) {
      graph.add(name, "for more entries, or to be closed, by those who append to", "its queue");
    }
  }
}

void Cwd::collect_slot_waits(WaitGraph& graph, std::uint32_t slot) const {
  const TaskEntry& entry = table_.at(slot);
  std::string holder = "the SMs: none has room for one of its CTAs";
  if ((entry.task.cluster.any() || waits_.reason(slot) == WaitReason::pool) &&
      waits_.reason(slot) != WaitReason::none) {
    holder = fmt::format("the machine: {}", wait_text(waits_.reason(slot)));
  }
  for (const std::uint32_t other : table_.used()) {
    if (other != slot && live_.running(other) > 0) holder = name_of(other);
  }
  if (kept_off(slot)) {
    holder = fmt::format("subcontext {}: {}", entry.task.subcontext, wait_text(waits_.reason(slot)));
  }
  const char* what = waits_.reason(slot) == WaitReason::pool ? "places in the pools of the GPCs" : "the slots";
  graph.add(name_of(slot),
            fmt::format("for free slots for {} more CTAs; {} are with", entry.total - entry.placed, what), holder);
}

}  // namespace heddle::cwd
