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
    return reason == WaitReason::credits        ? 3
           : reason == WaitReason::local_memory ? 2
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

}  // namespace

double jain_index(const std::vector<double>& shares) {
  double sum = 0;
  double squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

SubcontextStats::SubcontextStats(const CwdContext& context) : context_(context), rows_(arch::kSubcontexts) {}

void SubcontextStats::add(std::uint32_t subcontext) {
  auto row = std::make_unique<Row>(context_.observation.stats,
                                   fmt::format("{}.subcontext{}", context_.stat_prefix, subcontext));
  row->since = context_.now();
  row->track = context_.track(fmt::format("subcontext {}: TPCs held", subcontext));
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

void SubcontextStats::launched(std::uint32_t subcontext, std::uint64_t ctas) {
  if (used(subcontext)) rows_[subcontext]->launched.add(ctas);
}

void SubcontextStats::completed(std::uint32_t subcontext, std::uint64_t ctas) {
  if (used(subcontext)) rows_[subcontext]->completed.add(ctas);
}

void SubcontextStats::holds(std::uint32_t subcontext, std::uint32_t tpcs, std::int64_t credits) {
  if (!used(subcontext)) return;
  Row& row = *rows_[subcontext];
  row.credits.set(static_cast<double>(credits));
  if (tpcs == row.held) return;
  const Cycle now = context_.now();
  row.tpc_cycles.add((now - row.since) * row.held);
  row.since = now;
  row.held = tpcs;
  row.tpcs.set(tpcs);
  if (context_.timeline() != nullptr) {
    context_.timeline()->counter(row.track, context_.timebase.time_of(now), "TPCs", tpcs);
  }
}

void SubcontextStats::waited(std::uint32_t subcontext, const std::string& task, WaitReason reason, Cycle cycles) {
  if (!used(subcontext)) return;
  Row& row = *rows_[subcontext];
  row.wait(reason).add(cycles);
  TimelineSink* timeline = context_.timeline();
  if (timeline == nullptr) return;
  if (row.waits_track.group == 0) {
    row.waits_track =
        timeline->track(context_.observation.prefix + " subcontexts", fmt::format("subcontext {} waits", subcontext));
  }
  context_.draw(row.waits_track, context_.now() - cycles, fmt::format("{}: {}", task, wait_text(reason)));
}

void SubcontextStats::show_fairness() {
  if (in_use_ < 2) return;
  if (fairness_ == nullptr) {
    fairness_ = &context_.observation.stats.gauge(
        context_.stat_prefix + ".subcontext_fairness", "1",
        "Jain's index over the TPC cycles of the subcontexts in use: 1 if all got as much");
  }
  std::vector<double> shares;
  for (const auto& row : rows_) {
    if (row == nullptr || row->launched.value() == 0) continue;
    const Cycle open = (context_.now() - row->since) * row->held;
    shares.push_back(static_cast<double>(row->tpc_cycles.value() + open));
  }
  if (shares.size() > 1) fairness_->set(jain_index(shares));
}

void SubcontextStats::reset() {
  for (const auto& row : rows_) {
    if (row == nullptr) continue;
    row->held = 0;
    row->since = 0;
  }
}

SubcontextPartition::SubcontextPartition(const CwdContext& context, const arch::ResourceVector& sm_capacity,
                                         const std::vector<std::uint32_t>& sm_priority, std::uint32_t cgas_per_gpc,
                                         const LiveModel& live)
    : context_(context),
      live_(live),
      quota_(live.tpcs(), {context.params.partition, context.params.tpc_credits, context.params.local_memory_blocks}),
      credit_(sm_priority, tpcs_of(live, context.topology), context.topology, sm_capacity,
              context.params.one_at_a_time()),
      usage_(context),
      tpc_rank_(live.tpcs(), context.topology.sms()),
      stats_(context.observation.stats, context.stat_prefix) {
  if (context.params.partition == PartitionMode::dynamic && context.params.tpc_credits > 0) {
    first_credits_ = std::make_unique<Admission>(context.topology, sm_capacity, context.params, cgas_per_gpc);
  }
  for (std::uint32_t rank = 0; rank < sm_priority.size(); ++rank) {
    std::uint32_t& best = tpc_rank_[live.tpc_of(sm_priority[rank])];
    best = std::min(best, rank);
  }
}

void SubcontextPartition::reset() {
  quota_.reset();
  usage_.reset();
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
  if (change.what != SubcontextPacket::What::mode && change.what != SubcontextPacket::What::page_table) {
    usage_.use(change.subcontext);
    show(change.subcontext);
  }
  if (on_change_) on_change_();
}

// Page tables are the MMU's.
ShareRefusal SubcontextPartition::configure(const SubcontextPacket& change) {
  using What = SubcontextPacket::What;
  if (change.what == What::mode) return quota_.set_mode(change.mode);
  if (change.subcontext >= arch::kSubcontexts) return ShareRefusal::subcontext;
  if (change.what == What::credits) return quota_.set_credits(change.subcontext, change.value);
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

// The first subcontext alone, on a machine that is not shared, is the machine itself.
void SubcontextPartition::task_arrived(const TaskPacket& task) {
  if (task.subcontext != 0 || quota_.mode() != PartitionMode::none) usage_.use(task.subcontext);
}

// That is judged by the credits of the start, as long as nobody has changed them.
bool SubcontextPartition::admits(const TaskPacket& task) {
  if (first_credits_ == nullptr || quota_.changed(task.subcontext)) return true;
  return first_credits_->admit(task);
}

bool SubcontextPartition::limits(WaitReason reason) const {
  if (reason == WaitReason::local_memory) return true;  // it is a subcontext's own in every mode
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
  return share;
}

// What a session cannot use, and what is left to pay the rest with.
struct SubcontextPartition::Shortage {
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

void SubcontextPartition::refuse(Shortage& shortage, std::uint32_t tpc, WaitReason why) {
  WaitReason& which = tpc_room_[tpc] > 0 ? shortage.with_room : shortage.full;
  which = stronger(which, why);
  tpc_room_[tpc] = 0;
}

WaitReason SubcontextPartition::restrict(const TaskPacket& task, std::vector<std::uint16_t>& slots,
                                         std::optional<std::uint32_t> first) {
  if (!quota_.limited(task.local_memory)) return WaitReason::none;
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
  if (shortage.with_room == WaitReason::none) return shortage.full;
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) {
    if (tpc_room_[live_.tpc_of(sm)] == 0) slots[sm] = 0;
  }
  return shortage.with_room;
}

// Prices all TPCs; candidates are those that the session would have to pay for.
void SubcontextPartition::find_candidates(const TaskPacket& task, Shortage& shortage) {
  const bool partitioned = quota_.mode() != PartitionMode::none;
  const bool spends = quota_.mode() == PartitionMode::dynamic && !task.cluster.any();
  prices_.resize(live_.tpcs());
  candidates_.clear();
  for (std::uint32_t tpc = 0; tpc < live_.tpcs(); ++tpc) {
    const TpcPrice& price = prices_[tpc] = quota_.price(task.subcontext, tpc, task.local_memory);
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

void SubcontextPartition::sort_candidates(const TaskPacket& task, const std::vector<std::uint16_t>& slots,
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
      if (task.local_memory) quota_.reserve_block(tpc);
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
  used_.resize(slots.size());
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) used_[sm] = live_.used(sm);
  const Placement& placement = credit_.place({slots, used_, task.need}, ctas, prices_,
                                             {quota_.credits(task.subcontext), quota_.blocks(task.subcontext)});
  quota_.reserve(credit_.new_tpcs());
  return &placement;
}

void SubcontextPartition::close_session(const TaskPacket& task) {
  quota_.close_session();
  show(task.subcontext);
}

void SubcontextPartition::count_launched(const TaskPacket& task, std::uint32_t ctas) {
  usage_.launched(task.subcontext, ctas);
  show(task.subcontext);
}

void SubcontextPartition::count_completed(const TaskPacket& task, std::uint32_t ctas) {
  usage_.completed(task.subcontext, ctas);
  show(task.subcontext);
}

void SubcontextPartition::show(std::uint32_t subcontext) {
  usage_.holds(subcontext, quota_.tpcs_held(subcontext), quota_.credits(subcontext));
}

}  // namespace heddle::cwd
