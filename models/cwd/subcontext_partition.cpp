#include "cwd/subcontext_partition.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/task_record.h"

namespace heddle::cwd {

using protocol::PartitionMode;
using protocol::SubcontextPacket;
using protocol::TaskPacket;

namespace {

using Bar = TpcPrice::Bar;

WaitReason reason_of(Bar bar) {
  if (bar == Bar::cut) return WaitReason::credits;
  return bar == Bar::block ? WaitReason::local_memory : WaitReason::tpc_mask;
}

// Of several, the one that says most.
WaitReason stronger(WaitReason a, WaitReason b) {
  const auto rank = [](WaitReason reason) {
    return reason == WaitReason::credits        ? 4
           : reason == WaitReason::local_memory ? 3
           : reason == WaitReason::share        ? 2
           : reason == WaitReason::tpc_mask     ? 1
                                                : 0;
  };
  return rank(b) > rank(a) ? b : a;
}

std::vector<std::uint32_t> tpcs_of(const LiveModel& live, const arch::Topology& topology) {
  std::vector<std::uint32_t> tpcs;
  for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) tpcs.push_back(live.tpc_of(sm));
  return tpcs;
}

// The rest changes nothing of who has which TPC or SM.
bool shares_tpcs(SubcontextPacket::What what) {
  using What = SubcontextPacket::What;
  return what == What::credits || what == What::enable || what == What::block || what == What::sms ||
         what == What::warps;
}

bool none_left(const std::vector<std::uint16_t>& slots) {
  return std::all_of(slots.begin(), slots.end(), [](std::uint16_t n) { return n == 0; });
}

}  // namespace

SubcontextStats::SubcontextStats(const CwdContext& context, const arch::ResourceVector& sm_capacity)
    : context_(context), sm_capacity_(sm_capacity), fair_(context.topology.sms()), rows_(arch::kSubcontexts) {}

void SubcontextStats::add(std::uint32_t subcontext) {
  auto row = std::make_unique<Row>(context_.observation.stats,
                                   fmt::format("{}.subcontext{}", context_.stat_prefix, subcontext));
  row->held_since = row->since = context_.now();
  row->track = context_.track(fmt::format("subcontext {}: TPCs held", subcontext));
  row->credits_track = context_.track(fmt::format("subcontext {}: credits", subcontext));
  rows_[subcontext] = std::move(row);
  ++in_use_;
}

Counter& SubcontextStats::Row::wait(WaitReason reason) {
  Counter*& entry = waits[static_cast<std::size_t>(reason)];
  if (entry == nullptr) {
    entry = &counter(fmt::format("wait.{}", wait_key(reason)), "task cycles",
                     fmt::format("time that tasks of the subcontext with CTAs left waited: {}", wait_text(reason)));
  }
  return *entry;
}

void SubcontextStats::entitle_all(const std::function<double(std::uint32_t)>& sms_of) {
  for (std::uint32_t subcontext = 0; subcontext < rows_.size(); ++subcontext) {
    if (used(subcontext)) fair_.entitle(subcontext, sms_of(subcontext), context_.now());
  }
}

SubcontextStats::Job* SubcontextStats::job_of(const TaskPacket& task) {
  const auto found = jobs_.find(task.operation);
  return found == jobs_.end() ? nullptr : &found->second;
}

void SubcontextStats::settle(Row& row) {
  const Cycle passed = context_.now() - row.since;
  row.since = context_.now();
  if (row.share == 0 && row.unplaced == 0) return;
  row.busy.add(passed);
  row.sm_time += static_cast<double>(row.share) / static_cast<double>(kWholeSm) * static_cast<double>(passed);
}

void SubcontextStats::changed(std::uint32_t subcontext) {
  const Row& row = *rows_[subcontext];
  fair_.set(subcontext, static_cast<double>(row.share) / static_cast<double>(kWholeSm), row.unplaced > 0,
            context_.now());
}

void SubcontextStats::arrived(const TaskPacket& task) {
  if (!used(task.subcontext)) return;
  Row& row = *rows_[task.subcontext];
  settle(row);
  Job job;
  job.subcontext = task.subcontext;
  job.share = kWholeSm / std::max(1U, arch::free_slots(sm_capacity_, {}, task.need));
  if (task.kind == protocol::TaskKind::grid) job.left = task.grid.count();
  if (task.kind == protocol::TaskKind::restore) job.left = task.restored_ctas();
  row.unplaced += job.left > 0 ? 1 : 0;
  jobs_[task.operation] = job;
  row.waiting.set(row.unplaced);
  changed(task.subcontext);
}

void SubcontextStats::launched(const TaskPacket& task, std::uint64_t ctas) {
  if (!used(task.subcontext)) return;
  Row& row = *rows_[task.subcontext];
  row.launched.add(ctas);
  Job* job = job_of(task);
  if (job == nullptr) return;
  settle(row);
  end_wait(*job);
  const std::uint64_t placed = std::min(ctas, job->left);
  if (placed > 0 && placed == job->left) row.waiting.set(--row.unplaced);
  job->left -= placed;
  job->running += ctas;
  row.share += ctas * job->share;
  changed(task.subcontext);
}

void SubcontextStats::completed(const TaskPacket& task, std::uint64_t ctas, bool over) {
  if (!used(task.subcontext)) return;
  Row& row = *rows_[task.subcontext];
  if (over) row.completed.add(ctas);
  Job* job = job_of(task);
  if (job == nullptr) return;
  settle(row);
  const std::uint64_t gone = std::min(ctas, job->running);
  job->running -= gone;
  row.share -= gone * job->share;
  if (!over) {
    if (job->left == 0) row.waiting.set(++row.unplaced);
    job->left += ctas;
  }
  changed(task.subcontext);
  if (task.kind != protocol::TaskKind::queue && job->left == 0 && job->running == 0) forget(task.operation);
  if (row.share == 0) show();
}

void SubcontextStats::forget(std::uint32_t operation) {
  const auto found = jobs_.find(operation);
  if (found == jobs_.end()) return;
  const Job& job = found->second;
  Row& row = *rows_[job.subcontext];
  settle(row);
  row.share -= job.running * job.share;
  if (job.left > 0) row.waiting.set(--row.unplaced);
  const std::uint32_t subcontext = job.subcontext;
  jobs_.erase(found);
  changed(subcontext);
}

void SubcontextStats::ended(const TaskPacket& task) {
  forget(task.operation);
  show();
}

void SubcontextStats::holds(std::uint32_t subcontext, std::uint32_t tpcs, std::int64_t credits) {
  if (!used(subcontext)) return;
  Row& row = *rows_[subcontext];
  const Cycle now = context_.now();
  row.credits.set(static_cast<double>(credits));
  TimelineSink* timeline = context_.timeline();
  if (timeline != nullptr && row.shown_credits != static_cast<double>(credits)) {
    row.shown_credits = static_cast<double>(credits);
    timeline->counter(row.credits_track, context_.timebase.time_of(now), "credits", *row.shown_credits);
  }
  if (tpcs == row.held) return;
  row.tpc_cycles.add((now - row.held_since) * row.held);
  row.held_since = now;
  row.held = tpcs;
  row.tpcs.set(tpcs);
  if (timeline != nullptr) timeline->counter(row.track, context_.timebase.time_of(now), "TPCs", tpcs);
}

void SubcontextStats::kept_off(const TaskPacket& task, WaitReason reason) {
  Job* job = used(task.subcontext) ? job_of(task) : nullptr;
  if (job == nullptr || job->kept_off == reason) return;
  job->kept_off = reason;
  job->kept_since = context_.now();
  job->counted = 0;
}

void SubcontextStats::waited(const TaskPacket& task, const std::string& name, WaitReason reason, Cycle cycles) {
  if (!used(task.subcontext)) return;
  Row& row = *rows_[task.subcontext];
  Cycle counted = 0;
  if (Job* job = job_of(task); job != nullptr && job->kept_off == reason) {
    counted = std::min(job->counted, cycles);
    end_wait(*job);
  }
  row.wait(reason).add(cycles - counted);
  TimelineSink* timeline = context_.timeline();
  if (timeline == nullptr) return;
  if (row.waits_track.group == 0) {
    row.waits_track = timeline->track(context_.observation.prefix + " subcontexts",
                                      fmt::format("subcontext {} waits", task.subcontext));
  }
  context_.draw(row.waits_track, context_.now() - cycles, fmt::format("{}: {}", name, wait_text(reason)));
}

// Everything up to now, open waits included.
void SubcontextStats::show() {
  const Cycle now = context_.now();
  for (auto& [operation, job] : jobs_) {
    if (job.kept_off == WaitReason::none) continue;
    const Cycle passed = now - job.kept_since;
    rows_[job.subcontext]->wait(job.kept_off).add(passed - job.counted);
    job.counted = passed;
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i] == nullptr) continue;
    Row& row = *rows_[i];
    settle(row);
    row.tpc_cycles.add((now - row.held_since) * row.held);
    row.held_since = now;
    row.sm_cycles.set(row.sm_time);
    const double us =
        static_cast<double>(context_.timebase.time_of(row.busy.value()) - context_.timebase.time_of(0)) / 1e6;
    if (us > 0) row.throughput.set(static_cast<double>(row.completed.value()) / us);
    if (in_use_ < 2) continue;
    const Cycle contested = fair_.contested(i, now);
    row.contested.add(contested - row.contested_counted);
    row.contested_counted = contested;
    row.progress.set(fair_.progress(i, now));
  }
  if (in_use_ < 2) return;
  if (fairness_ == nullptr) {
    fairness_ = &context_.observation.stats.gauge(context_.stat_prefix + ".subcontext_fairness", "1",
                                                  "Jain's index over the progress of the subcontexts with "
                                                  "contested_cycles: 1 if all got as much of what they are "
                                                  "entitled to");
  }
  fairness_->set(fair_.index(now));
}

void SubcontextStats::reset() {
  jobs_.clear();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i] == nullptr) continue;
    Row& row = *rows_[i];
    row.held = 0;
    row.share = 0;
    row.unplaced = 0;
    row.held_since = row.since = row.contested_counted = 0;
    row.shown_credits.reset();
  }
  fair_.reset();
}

TpcChoice::TpcChoice(const CwdContext& context, const LiveModel& live, const TpcQuota& quota,
                     const std::vector<std::uint32_t>& sm_priority)
    : context_(context), live_(live), quota_(quota), tpc_rank_(live.tpcs(), context.topology.sms()) {
  for (std::uint32_t rank = 0; rank < sm_priority.size(); ++rank) {
    std::uint32_t& best = tpc_rank_[live.tpc_of(sm_priority[rank])];
    best = std::min(best, rank);
  }
}

// What a session cannot use, and what is left to pay the rest with.
struct TpcChoice::Shortage {
  std::int64_t credits = 0;
  std::uint32_t blocks = 0;
  WaitReason with_room = WaitReason::none;  // why TPCs with free slots cannot be used
  WaitReason full = WaitReason::none;       // why others could not be used either

  // Why a TPC of that price cannot be paid for, if it cannot.
  WaitReason unpaid(const TpcPrice& price) const {
    if (price.credit && credits <= 0) return WaitReason::credits;
    return price.block && blocks == 0 ? WaitReason::local_memory : WaitReason::none;
  }
};

void TpcChoice::refuse(Shortage& shortage, std::uint32_t tpc, WaitReason why) {
  WaitReason& which = tpc_room_[tpc] > 0 ? shortage.with_room : shortage.full;
  which = stronger(which, why);
  tpc_room_[tpc] = 0;
}

WaitReason TpcChoice::restrict(const TaskPacket& task, std::vector<std::uint16_t>& slots,
                               std::optional<std::uint32_t> first) {
  if (!quota_.limited(task.local_memory())) return WaitReason::none;
  tpc_room_.assign(live_.tpcs(), 0);
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) tpc_room_[live_.tpc_of(sm)] += slots[sm];
  Shortage shortage;
  shortage.credits = quota_.credits(task.subcontext);
  shortage.blocks = quota_.blocks(task.subcontext);
  find_candidates(task, shortage);
  sort_candidates(task, slots, first);
  for (const std::uint32_t tpc : candidates_) {
    const TpcPrice& price = prices_[tpc];
    if (const WaitReason why = shortage.unpaid(price); why != WaitReason::none) {
      refuse(shortage, tpc, why);
    } else {
      shortage.credits -= price.credit ? 1 : 0;
      shortage.blocks -= price.block ? 1 : 0;
    }
  }
  WaitReason why = shortage.full;
  if (shortage.with_room != WaitReason::none) {
    why = shortage.with_room;
    for (std::uint32_t sm = 0; sm < slots.size(); ++sm) {
      if (tpc_room_[live_.tpc_of(sm)] == 0) slots[sm] = 0;
    }
  }
  return why;
}

// Prices all TPCs; candidates are those that the session would have to pay for.
void TpcChoice::find_candidates(const TaskPacket& task, Shortage& shortage) {
  const bool partitioned = quota_.mode() != PartitionMode::none;
  const bool spends = quota_.mode() == PartitionMode::dynamic && !task.cluster.any();
  prices_.resize(live_.tpcs());
  candidates_.clear();
  for (std::uint32_t tpc = 0; tpc < live_.tpcs(); ++tpc) {
    const TpcPrice& price = prices_[tpc] = quota_.price(task.subcontext, tpc, task.local_memory());
    if (tpc_room_[tpc] == 0 && (!partitioned || !live_.enabled(tpc))) continue;
    if (price.bar != Bar::none) {
      refuse(shortage, tpc, reason_of(price.bar));
    } else if (const WaitReason why = shortage.unpaid(price); why != WaitReason::none) {
      refuse(shortage, tpc, why);
    } else if (tpc_room_[tpc] > 0 && !spends && (price.credit || price.block)) {
      candidates_.push_back(tpc);
    }
  }
}

void TpcChoice::sort_candidates(const TaskPacket& task, const std::vector<std::uint16_t>& slots,
                                std::optional<std::uint32_t> first) {
  const auto place = [&](std::uint32_t tpc) {
    if (!first.has_value()) return std::uint32_t{0};
    const std::uint32_t gpc = live_.gpc_of(tpc);
    return gpc >= *first ? gpc - *first : gpc + context_.topology.gpcs() - *first;
  };
  // A CGA in multicast mode has one CTA on an SM: what counts of a TPC is how many of its SMs have room.
  std::vector<std::uint32_t> open_sms(live_.tpcs(), 0);
  if (task.cluster.any() && task.cluster.mode == arch::CgaMode::multicast) {
    for (std::uint32_t sm = 0; sm < slots.size(); ++sm) open_sms[live_.tpc_of(sm)] += slots[sm] > 0 ? 1 : 0;
  }
  std::sort(candidates_.begin(), candidates_.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (prices_[a].credit != prices_[b].credit) return !prices_[a].credit;  // what is held already costs less
    if (place(a) != place(b)) return place(a) < place(b);
    if (open_sms[a] != open_sms[b]) return open_sms[a] > open_sms[b];
    return tpc_room_[a] != tpc_room_[b] ? tpc_room_[a] > tpc_room_[b] : tpc_rank_[a] < tpc_rank_[b];
  });
}

SubcontextPartition::SubcontextPartition(const CwdContext& context, const arch::ResourceVector& sm_capacity,
                                         const std::vector<std::uint32_t>& sm_priority, std::uint32_t cgas_per_gpc,
                                         const LiveModel& live)
    : context_(context),
      live_(live),
      quota_(live.tpcs(), {context.params.partition, context.params.tpc_credits, context.params.local_memory_blocks}),
      shares_(context.topology, sm_capacity[arch::Resource::warps], sm_priority),
      choice_(context, live, quota_, sm_priority),
      credit_(sm_priority, tpcs_of(live, context.topology), context.topology, sm_capacity,
              context.params.one_at_a_time()),
      usage_(context, sm_capacity),
      stats_(context.observation.stats, context.stat_prefix),
      sharers_(context.topology.gpcs(), 0) {
  if (context.params.partition == PartitionMode::dynamic && context.params.tpc_credits > 0) {
    first_credits_ = std::make_unique<Admission>(context.topology, sm_capacity, context.params, cgas_per_gpc);
  }
}

void SubcontextPartition::reset() {
  quota_.reset();
  shares_.reset();
  local_.reset();
  usage_.reset();
  entitle_all();
}

void SubcontextPartition::on_configure(const SubcontextPacket& change, std::uint32_t) {
  const ShareRefusal refusal = configure(change);
  context_.progress();
  if (refusal != ShareRefusal::none) {
    stats_.refused.add();
    if (context_.timeline() != nullptr) {
      const Cycle now = context_.now();
      context_.timeline()->slice(context_.track("refused changes of sharing"), context_.timebase.time_of(now),
                                 context_.timebase.time_of(now + 1),
                                 fmt::format("subcontext {}: {}", change.subcontext, refusal_text(refusal)));
    }
    if (on_refusal_) on_refusal_(change, refusal);
    return;
  }
  stats_.changes.add();
  if (shares_tpcs(change.what)) {
    usage_.use(change.subcontext);
    show(change.subcontext);
  }
  entitle_all();
  if (on_change_) on_change_();
}

// Page tables are the MMU's, bandwidth is the memory system's, and instances are the copy engines'.
ShareRefusal SubcontextPartition::configure(const SubcontextPacket& change) {
  using What = SubcontextPacket::What;
  if (change.what == What::mode) return quota_.set_mode(change.mode);
  if (change.subcontext >= arch::kSubcontexts) return ShareRefusal::subcontext;
  if (change.what == What::bandwidth || change.what == What::bandwidth_limit || change.what == What::instance) {
    return ShareRefusal::none;
  }
  if (change.what == What::credits) return quota_.set_credits(change.subcontext, change.value);
  if (change.what == What::sms) return shares_.set_sms(change.subcontext, change.value);
  if (change.what == What::warps) return shares_.set_warps(change.subcontext, change.value);
  if (change.what == What::local_address || change.what == What::local_bytes) {
    const std::uint32_t blocks = context_.params.local_memory_blocks;
    const bool in_use = quota_.blocks(change.subcontext) < (blocks == 0 ? live_.tpcs() : blocks);
    return change.what == What::local_address ? local_.set_address(change.subcontext, change.value, in_use)
                                              : local_.set_bytes(change.subcontext, change.value, in_use);
  }
  if (change.what == What::page_table) {
    return translates_ || change.value == 0 ? ShareRefusal::none : ShareRefusal::no_mmu;
  }
  const arch::Topology& topology = context_.topology;
  if (change.gpc >= topology.gpcs() || change.tpc >= topology.gpc(change.gpc).tpcs.size()) return ShareRefusal::tpc;
  const std::uint32_t tpc = live_.first_tpc(change.gpc) + change.tpc;
  if (change.what == What::block) return quota_.set_block(change.subcontext, tpc, change.value);
  if (change.what == What::enable && change.value <= 1) {
    return quota_.enable(change.subcontext, tpc, change.value == 1);
  }
  return ShareRefusal::value;
}

void SubcontextPartition::entitle_all() {
  for (std::uint32_t gpc = 0; gpc < sharers_.size(); ++gpc) {
    sharers_[gpc] = 0;
    for (std::uint32_t subcontext = 0; subcontext < arch::kSubcontexts; ++subcontext) {
      const bool counts = (quota_.mode() != PartitionMode::none || shares_.any_limited()) && usage_.used(subcontext);
      sharers_[gpc] += counts && reaches(subcontext, gpc) ? 1 : 0;
    }
  }
  const double sms_per_tpc = static_cast<double>(context_.topology.sms()) / live_.tpcs();
  usage_.entitle_all([this, sms_per_tpc](std::uint32_t subcontext) {
    const MachineShare share = share_of(subcontext, false);
    const auto open = static_cast<std::uint32_t>(std::count(share.tpcs.begin(), share.tpcs.end(), true));
    const double sms = std::min(open, share.credits) * sms_per_tpc;
    return std::min<double>(sms, share.sms) * shares_.part_of_sm(subcontext);
  });
}

// The first subcontext alone, on a machine that is not shared, is the machine itself.
void SubcontextPartition::task_arrived(const TaskPacket& task) {
  if (!usage_.used(task.subcontext) && (task.subcontext != 0 || quota_.mode() != PartitionMode::none)) {
    usage_.use(task.subcontext);
    entitle_all();
  }
  usage_.arrived(task);
}

// That is judged by the credits of the start, as long as nobody has changed them.
bool SubcontextPartition::admits(const TaskPacket& task) {
  if (!local_.holds(task.subcontext, task.local_bytes)) return false;
  if (first_credits_ == nullptr || quota_.changed(task.subcontext)) return true;
  return first_credits_->admit(task);
}

bool SubcontextPartition::limits(WaitReason reason) const {
  // These are a subcontext's own in every mode.
  if (reason == WaitReason::local_memory || reason == WaitReason::share) return true;
  // Whoever finds no place in the pools has its part of them.
  if (reason == WaitReason::pool) {
    return std::any_of(sharers_.begin(), sharers_.end(), [](std::uint32_t sharers) { return sharers > 1; });
  }
  if (quota_.mode() == PartitionMode::none) return false;
  return reason == WaitReason::credits || reason == WaitReason::tpc_mask;
}

bool SubcontextPartition::reaches(std::uint32_t subcontext, std::uint32_t gpc) const {
  if (quota_.mode() == PartitionMode::none) return true;
  for (std::uint32_t t = 0; t < context_.topology.gpc(gpc).tpcs.size(); ++t) {
    if (quota_.enabled(subcontext, live_.first_tpc(gpc) + t)) return true;
  }
  return false;
}

MachineShare SubcontextPartition::share_of(std::uint32_t subcontext, bool local_memory) const {
  MachineShare share;
  const bool partitioned = quota_.mode() != PartitionMode::none;
  for (std::uint32_t tpc = 0; tpc < live_.tpcs(); ++tpc) {
    bool open = live_.enabled(tpc);
    if (partitioned) open = open && quota_.enabled(subcontext, tpc);
    if (quota_.mode() == PartitionMode::static_ && local_memory) {
      open = open && quota_.price(subcontext, tpc, true).bar != Bar::block;
    }
    share.tpcs.push_back(open);
  }
  if (quota_.mode() == PartitionMode::dynamic) {
    const std::int64_t most = std::max<std::int64_t>(0, quota_.maximum(subcontext));
    share.credits = static_cast<std::uint32_t>(std::min<std::int64_t>(most, live_.tpcs()));
  }
  share.sms = shares_.most_sms(subcontext);
  share.warps = shares_.most_warps(subcontext);
  return share;
}

WaitReason SubcontextPartition::restrict(const TaskPacket& task, std::vector<std::uint16_t>& slots,
                                         std::optional<std::uint32_t> first) {
  WaitReason why = choice_.restrict(task, slots, first);
  if (shares_.limited(task.subcontext)) {
    const SmShares::Need need{task.need[arch::Resource::warps], task.cluster.any(), first};
    if (shares_.restrict(task.subcontext, need, slots)) why = stronger(why, WaitReason::share);
  }
  if (limits(why) && none_left(slots)) usage_.kept_off(task, why);
  return why;
}

void SubcontextPartition::open_session(const TaskPacket& task, const std::vector<std::uint16_t>& slots) {
  const PartitionMode mode = quota_.mode();
  quota_.open_session(task.subcontext);
  if (mode == PartitionMode::none) return;
  if (mode == PartitionMode::dynamic && !task.cluster.any()) return;  // place_by_credit() reserves what it needs
  std::vector<bool> seen(live_.tpcs(), false);
  std::uint32_t credits = 0;
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) {
    const std::uint32_t tpc = live_.tpc_of(sm);
    if (slots[sm] == 0 || seen[tpc]) continue;
    seen[tpc] = true;
    if (mode == PartitionMode::static_) {
      if (task.local_memory()) quota_.reserve_block(tpc);
    } else if (!quota_.held(task.subcontext, tpc)) {
      ++credits;
    }
  }
  if (mode == PartitionMode::dynamic) quota_.reserve(credits);
  show(task.subcontext);
}

const Placement* SubcontextPartition::place_by_credit(const TaskPacket& task, const std::vector<std::uint16_t>& slots,
                                                      std::uint64_t ctas) {
  if (quota_.mode() != PartitionMode::dynamic) return nullptr;
  std::vector<arch::ResourceVector> used;  // by SM
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) used.push_back(live_.used(sm));
  const Placement& placement = credit_.place({slots, used, task.need}, ctas, choice_.prices(),
                                             {quota_.credits(task.subcontext), quota_.blocks(task.subcontext)});
  quota_.reserve(credit_.new_tpcs());
  return &placement;
}

void SubcontextPartition::close_session(const TaskPacket& task) {
  quota_.close_session();
  show(task.subcontext);
}

void SubcontextPartition::count_launched(const TaskPacket& task, std::uint32_t ctas) {
  usage_.launched(task, ctas);
  show(task.subcontext);
}

void SubcontextPartition::count_completed(const TaskPacket& task, std::uint32_t ctas, bool over) {
  usage_.completed(task, ctas, over);
  show(task.subcontext);
}

void SubcontextPartition::show(std::uint32_t subcontext) {
  usage_.holds(subcontext, quota_.tpcs_held(subcontext), quota_.credits(subcontext));
}

}  // namespace heddle::cwd
