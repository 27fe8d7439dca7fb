#include "cwd/cwd.h"

#include <fmt/format.h>

namespace heddle::cwd {

Cwd::Cwd(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const CwdParams& params,
         const arch::Topology& topology, const arch::ResourceVector& sm_capacity, const GpcCgaLimits& gpc_limits,
         SavesOfWaiting saves)
    : Block(name, domain, path),
      task_in("task_in", domain, 0, CreditReturn::by_owner),
      done_out("done_out", domain, params.done_distance, kUnlimitedCredits),
      control_in("control_in", domain, 0),
      evict_in("evict_in", domain, 0),
      evicted_out("evicted_out", domain, params.done_distance, kUnlimitedCredits),  // one for each eviction
      grow_in("grow_in", domain, 0),
      idle_out("idle_out", domain, params.done_distance, kUnlimitedCredits),  // bounded by the tasks and what grows
      share_in("share_in", domain, 0),
      launch_out("launch_out", domain, params.nearest_gpc(), params.gpc_queue),
      local_out("local_out", domain, params.nearest_gpc(), kUnlimitedCredits),  // bounded by the TPCs
      abort_out("abort_out", domain, params.nearest_gpc(), kUnlimitedCredits),  // at most one per task
      complete_in("complete_in"),
      cga_in("cga_in"),
      shared_in("shared_in"),
      host_query_in("host_query_in", domain, 0),
      host_answer_out("host_answer_out", domain, params.done_distance, kUnlimitedCredits),  // one for each query
      query_in("query_in"),
      answer_out("answer_out", domain, params.nearest_gpc(), kUnlimitedCredits),  // one for each query
      barrier_in("barrier_in"),
      barrier_out("barrier_out", domain, params.nearest_gpc(), kUnlimitedCredits),  // a release per report at most
      part_out("part_out", domain, params.nearest_gpc(), kUnlimitedCredits),        // taken in at once
      params_(params),
      context_(domain, this->name(), path, params_, topology),
      sm_priority_(params.sm_priority.resolve(topology.sms(), "cwd.sm_priority")),
      policies_(params, sm_capacity[arch::Resource::ctas]),
      plain_(make_plain_policy(params.plain, {topology, sm_capacity[arch::Resource::ctas], params.level_search,
                                              sm_priority_, params.plain_share})),
      session_out_("session_out", domain, params.session_pipeline, kUnlimitedCredits),  // one session at a time
      snapshot_out_("snapshot_out", domain, 0, kUnlimitedCredits),
      end_in_("end_in", domain, 0),
      mask_in_("mask_in"),
      gpu2gpc_("gpu2gpc", domain, path + ".gpu2gpc", params, topology, *policies_.domain),
      gpc2sm_(make_gpc2sm()),
      table_(params.table_slots, params.evicted_tasks, &gauge("table_used", "tasks", "task table slots in use"),
             params.preemption == PreemptionMode::drain),
      machine_(topology, sm_capacity, params, gpc_limits),
      partition_(context_, sm_capacity, sm_priority_, gpc_limits.cgas(), machine_.live()),
      waits_(context_, params.table_slots + params.evicted_tasks,
             [this](std::uint32_t slot, WaitReason reason) {
               const TaskEntry& entry = table_.at(slot);
               return fmt::format("{}: {}", context_.observation.labels.of(entry.runs_as()),
                                  wait_text(reason, entry.task.cluster.any()));
             }),
      barriers_(context_, barrier_out),
      launcher_(context_, table_, machine_, partition_, barriers_, {launch_out, local_out, abort_out}),
      room_(topology, machine_.cgas(), params.session_limit),
      gpc_capacity_(topology, params, sm_priority_, sm_capacity),
      session_(context_, table_, machine_, partition_, launcher_, room_, *plain_, *policies_.domain, sm_priority_,
               sm_capacity[arch::Resource::ctas], {session_out_, snapshot_out_}),
      room_maker_(context_, table_, machine_.live(), sm_capacity, sm_priority_, gpc_limits.cgas(), saves, abort_out),
      arbiter_(context_, table_, machine_, partition_, waits_, room_, gpc_capacity_, *plain_, sm_capacity, launcher_,
               session_, room_maker_),
      eviction_(context_, table_, machine_, waits_, session_, arbiter_, task_in, evicted_out),
      tasks_(context_, {table_, machine_, partition_, waits_, launcher_, session_, arbiter_, eviction_},
             {task_in, done_out, idle_out}, sm_capacity, gpc_limits.cgas()),
      parts_(context_, part_out),
      completions_(context_, table_, machine_, partition_, tasks_, arbiter_, parts_),
      occupancy_(context_, sm_capacity, gpc_limits.cgas(), machine_.live(), partition_, {host_answer_out, answer_out}) {
  make_gpc_sockets();
  connect_parts();
  connect_units();
}

Cwd::~Cwd() = default;

std::vector<std::unique_ptr<Gpc2SmUnit>> Cwd::make_gpc2sm() const {
  std::vector<std::unique_ptr<Gpc2SmUnit>> units;
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) {
    units.push_back(std::make_unique<Gpc2SmUnit>(
        fmt::format("gpc2sm{}", g).c_str(), domain_, fmt::format("{}.gpc2sm{}", path(), g), params_, context_.topology,
        g, sm_priority_, *policies_.load_balancing, *policies_.multicast, *policies_.domain));
  }
  return units;
}

void Cwd::make_gpc_sockets() {
  const auto per_gpc = [this](auto& sockets, auto distance) {
    using Socket = std::decay_t<decltype(sockets[0])>;
    sockets.init(context_.topology.gpcs(), [&](const char* socket, std::size_t gpc) {
      return new Socket(socket, domain_, distance(static_cast<std::uint32_t>(gpc)));
    });
  };
  const auto from_gpc = [this](std::uint32_t gpc) { return Cycle{params_.distance_of(gpc)}; };
  per_gpc(complete_in, from_gpc);
  per_gpc(cga_in, from_gpc);
  per_gpc(shared_in, from_gpc);
  per_gpc(barrier_in, from_gpc);
  per_gpc(mask_in_, [](std::uint32_t) { return Cycle{0}; });
  query_in.init(context_.topology.sms(), [this](const char* socket, std::size_t) {
    return new PacketIn<protocol::OccupancyQueryPacket>(socket, domain_, 0);
  });
}

void Cwd::connect_parts() {
  room_maker_.on_slice([this] { arbiter_.arbitrate_later(); });
  task_in.on_packet<TaskControl, &TaskControl::on_task>(tasks_);
  grow_in.on_packet<TaskControl, &TaskControl::on_grow>(tasks_);
  evict_in.on_packet<TaskEviction, &TaskEviction::on_evict>(eviction_);
  share_in.on_packet<SubcontextPartition, &SubcontextPartition::on_configure>(partition_);
  control_in.on_packet<CompletionUnit, &CompletionUnit::on_tpc_enable>(completions_);
  launch_out.on_credit<Launcher, &Launcher::on_credit>(launcher_);
  for (std::uint32_t g = 0; g < context_.topology.gpcs(); ++g) {
    complete_in[g].on_packet<CompletionUnit, &CompletionUnit::on_complete>(completions_, g);
    cga_in[g].on_packet<CompletionUnit, &CompletionUnit::on_cga_complete>(completions_, g);
    shared_in[g].on_packet<CompletionUnit, &CompletionUnit::on_shared_release>(completions_, g);
    barrier_in[g].on_packet<BarrierRoot, &BarrierRoot::on_report>(barriers_, g);
    mask_in_[g].on_packet_ahead<LaunchSession, &LaunchSession::on_masks>(session_, g);
  }
  host_query_in.on_packet<OccupancyUnit, &OccupancyUnit::on_host_query>(occupancy_);
  for (std::uint32_t sm = 0; sm < context_.topology.sms(); ++sm) {
    query_in[sm].on_packet<OccupancyUnit, &OccupancyUnit::on_query>(occupancy_, sm);
  }
  end_in_.on_packet<LaunchSession, &LaunchSession::on_decided>(session_);
  session_.set_listener(tasks_);
  launcher_.on_buffer_free([this] { arbiter_.arbitrate_later(); });
  partition_.on_change([this] {
    machine_.freed();
    arbiter_.arbitrate_later();
  });
  waits_.on_end([this](std::uint32_t slot, WaitReason reason, Cycle cycles) {
    const TaskEntry& entry = table_.at(slot);
    partition_.count_wait(entry.task, context_.observation.labels.of(entry.runs_as()), reason, cycles);
    context_.observation.waits.add(entry.runs_as(), static_cast<std::size_t>(reason), cycles);
    if (context_.timeline() != nullptr && !entry.start) {
      const Cycle now = context_.now();
      context_.observation.absences.waited(entry.task.operation,
                                           {now - cycles, now, wait_text(reason, entry.task.cluster.any())});
    }
  });
}

void Cwd::connect_units() {
  for (std::uint32_t g = 0; g < gpc2sm_.size(); ++g) {
    snapshot_out_.bind(gpc2sm_[g]->snapshot_in);
    gpu2gpc_.mimic_out.bind(gpc2sm_[g]->mimic_in);
    gpu2gpc_.home_out.bind(gpc2sm_[g]->home_in);
    gpc2sm_[g]->answer_out.bind(gpu2gpc_.answer_in[g]);
    gpc2sm_[g]->mask_out.bind(mask_in_[g]);
  }
  session_out_.bind(gpu2gpc_.session_in);
  gpu2gpc_.end_out.bind(end_in_);
}

void Cwd::reset() {
  policies_.reset();
  plain_->reset();
  table_.reset();
  machine_.reset();
  partition_.reset();
  waits_.reset();
  barriers_.reset();
  launcher_.reset();
  session_.reset();
  room_maker_.reset();
  arbiter_.reset();
  eviction_.reset();
  parts_.reset();
  completions_.reset();
  occupancy_.reset();
}

bool Cwd::quiescent() const {
  return table_.used().empty() && eviction_.gone() == 0 && machine_.empty() && partition_.empty() &&
         launcher_.empty() && completions_.empty() && session_.in_flight() == 0;
}

void Cwd::check_idle() { HEDDLE_CHECK(quiescent(), "the distributor of an idle machine still accounts for work"); }

}  // namespace heddle::cwd
