// How subcontexts share the machine: what a session may use of it, and changes by the host (PRT-02 to PRT-07, PRT-10).
#include <algorithm>

#include <fmt/format.h>

#include "cwd/cwd.h"

namespace heddle::cwd {
namespace {

using protocol::PartitionMode;
using protocol::SubcontextPacket;
using Bar = TpcPrice::Bar;

WaitReason reason_of(Bar bar) { return bar == Bar::block ? WaitReason::local_memory : WaitReason::tpc_mask; }

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

}  // namespace

// Changes come at any time. A session that runs keeps what it has seen: it began before.
void Cwd::on_share(const SubcontextPacket& share, std::uint32_t) {
  const ShareRefusal refusal = change_holds(share);
  progress();
  if (refusal != ShareRefusal::none) {
    share_refused_.add();
    if (timeline() != nullptr) {
      const TrackId track = timeline()->track(domain_.observation().prefix + " cwd", "refused changes of sharing");
      timeline()->slice(track, domain_.time_of(now()), domain_.time_of(now() + 1),
                        fmt::format("subcontext {}: {}", share.subcontext, refusal_text(refusal)));
    }
    if (on_share_refused_) on_share_refused_(share, refusal);
    return;
  }
  share_changes_.add();
  if (share.what != SubcontextPacket::What::mode && share.what != SubcontextPacket::What::page_table) {
    subcontexts_.use(share.subcontext);
    show_holds(share.subcontext);
  }
  ++version_;
  consider_later();
}

// Page tables are the MMU's.
ShareRefusal Cwd::change_holds(const SubcontextPacket& share) {
  using What = SubcontextPacket::What;
  if (share.what == What::mode) return holds_.set_mode(share.mode);
  if (share.subcontext >= arch::kSubcontexts) return ShareRefusal::subcontext;
  if (share.what == What::credits) return holds_.set_credits(share.subcontext, share.value);
  if (share.what == What::page_table) {
    return translates_ || share.value == 0 ? ShareRefusal::none : ShareRefusal::no_mmu;
  }
  if (share.gpc >= topology_.gpcs() || share.tpc >= topology_.gpc(share.gpc).tpcs.size()) return ShareRefusal::tpc;
  const std::uint32_t tpc = first_tpc_[share.gpc] + share.tpc;
  if (share.what == What::block) return holds_.set_block(share.subcontext, tpc, share.value);
  if (share.what == What::enable && share.value <= 1) return holds_.enable(share.subcontext, tpc, share.value == 1);
  return ShareRefusal::value;
}

// A task that sharing keeps from a part of the machine holds nobody back: the next one is considered (PRT-02).
bool Cwd::kept_off(std::uint32_t slot) const {
  if (holds_.mode() == PartitionMode::none) return false;
  const WaitReason reason = waits_.reason(slot);
  return reason == WaitReason::credits || reason == WaitReason::local_memory || reason == WaitReason::tpc_mask;
}

// The subcontext may run on a TPC of the GPC (PRT-05).
bool Cwd::mask_reaches(std::uint32_t subcontext, std::uint32_t gpc) const {
  if (holds_.mode() == PartitionMode::none) return true;
  for (std::uint32_t t = 0; t < topology_.gpc(gpc).tpcs.size(); ++t) {
    if (holds_.enabled(subcontext, first_tpc_[gpc] + t)) return true;
  }
  return false;
}

// Takes from `slots` what the subcontext cannot have. Where it cannot take all TPCs that it could use, it sees as many
// as it can afford: those of `first` and the GPCs after it before others, if that names one, then the least loaded
// ones, then by priority. What a session sees it can have, so that nothing is left to fail for (CWD-19); only a plain
// grid under dynamic partitioning sees all TPCs and spends credits as its CTAs are placed (PRT-03). Returns what was
// short, if anything.
WaitReason Cwd::restrict_to_holds(const TaskEntry& entry, std::vector<std::uint16_t>& slots, std::uint32_t first) {
  const bool local = entry.task.local_memory;
  if (!holds_.limited(local)) return WaitReason::none;
  const std::uint32_t subcontext = entry.task.subcontext;
  const bool partitioned = holds_.mode() != PartitionMode::none;
  const bool spends = holds_.mode() == PartitionMode::dynamic && !entry.task.cluster.any();
  std::int64_t credits = holds_.credits(subcontext);
  std::uint32_t blocks = holds_.blocks();

  tpc_room_.assign(live_.tpcs(), 0);
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) tpc_room_[live_.tpc_of(sm)] += slots[sm];
  prices_.resize(live_.tpcs());
  candidates_.clear();
  WaitReason reason = WaitReason::none;  // of TPCs with room
  WaitReason full = WaitReason::none;    // of others
  const auto refuse = [&](std::uint32_t tpc, WaitReason why) {
    WaitReason& which = tpc_room_[tpc] > 0 ? reason : full;
    which = stronger(which, why);
    tpc_room_[tpc] = 0;
  };
  for (std::uint32_t tpc = 0; tpc < live_.tpcs(); ++tpc) {
    const TpcPrice& price = prices_[tpc] = holds_.price(subcontext, tpc, local);
    if (tpc_room_[tpc] == 0 && (!partitioned || !live_.enabled(tpc))) continue;
    if (price.bar != Bar::none) {
      refuse(tpc, reason_of(price.bar));
    } else if (price.credit && credits <= 0) {
      refuse(tpc, WaitReason::credits);
    } else if (price.block && blocks == 0) {
      refuse(tpc, WaitReason::local_memory);
    } else if (tpc_room_[tpc] > 0 && !spends && (price.credit || price.block)) {
      candidates_.push_back(tpc);
    }
  }
  const auto place = [&](std::uint32_t tpc) {
    if (first == kAnyGpc) return std::uint32_t{0};
    const std::uint32_t gpc = gpc_of_tpc_[tpc];
    return gpc >= first ? gpc - first : gpc + topology_.gpcs() - first;
  };
  // A CGA in multicast mode has one CTA on an SM: what counts of a TPC is how many of its SMs have room.
  std::vector<std::uint32_t> wide(live_.tpcs(), 0);
  if (entry.task.cluster.any() && entry.task.cluster.mode == arch::CgaMode::multicast) {
    for (std::uint32_t sm = 0; sm < slots.size(); ++sm) wide[live_.tpc_of(sm)] += slots[sm] > 0 ? 1 : 0;
  }
  std::sort(candidates_.begin(), candidates_.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (prices_[a].credit != prices_[b].credit) return !prices_[a].credit;  // what is held already costs less
    if (place(a) != place(b)) return place(a) < place(b);
    if (wide[a] != wide[b]) return wide[a] > wide[b];
    return tpc_room_[a] != tpc_room_[b] ? tpc_room_[a] > tpc_room_[b] : tpc_rank_[a] < tpc_rank_[b];
  });
  for (const std::uint32_t tpc : candidates_) {
    const TpcPrice& price = prices_[tpc];
    if (price.credit && credits <= 0) {
      refuse(tpc, WaitReason::credits);
    } else if (price.block && blocks == 0) {
      refuse(tpc, WaitReason::local_memory);
    } else {
      credits -= price.credit ? 1 : 0;
      blocks -= price.block ? 1 : 0;
    }
  }
  if (reason != WaitReason::none) {
    for (std::uint32_t sm = 0; sm < slots.size(); ++sm) {
      if (tpc_room_[live_.tpc_of(sm)] == 0) slots[sm] = 0;
    }
  }
  return reason != WaitReason::none ? reason : full;
}

// Too few credits for all TPCs with room: where CGAs have no home on those that a session would see first, it looks at
// those of one GPC after another. `held`: what was short.
bool Cwd::finds_room(TaskEntry& entry, std::uint32_t slot, WaitReason held) {
  const bool short_of_tpcs = held == WaitReason::credits || held == WaitReason::local_memory;
  if (!short_of_tpcs) entry.selection = 0;
  if (entry.selection == 0 && could_hold(entry, entry.size, session_.snapshot)) return true;
  if (!short_of_tpcs) return false;
  const std::vector<std::uint16_t> before = session_.snapshot;
  for (entry.selection = std::max(1U, entry.selection); entry.selection <= topology_.gpcs(); ++entry.selection) {
    session_.snapshot = live_.free_slots(slot);
    restrict_to_pools(entry, session_.snapshot);
    restrict_to_holds(entry, session_.snapshot, entry.selection - 1);
    if (could_hold(entry, entry.size, session_.snapshot)) return true;
  }
  session_.snapshot = before;
  entry.selection = 0;
  return false;
}

// After a session that found no home: true if it did not see all TPCs, and the next one is to see others.
bool Cwd::tries_others(TaskEntry& entry) const {
  const bool short_of_tpcs = session_.held == WaitReason::credits || session_.held == WaitReason::local_memory;
  entry.selection = short_of_tpcs && entry.selection < topology_.gpcs() ? entry.selection + 1 : 0;
  return entry.selection != 0;
}

// What the session that begins may newly take is its own until it ends (PRT-10).
void Cwd::reserve_holds(const TaskEntry& entry) {
  const std::uint32_t subcontext = entry.task.subcontext;
  holds_.open_session(subcontext);
  if (holds_.mode() == PartitionMode::none) return;
  if (holds_.mode() == PartitionMode::dynamic && session_.kind == SessionKind::plain) return;  // begin_plain() does
  std::vector<bool> seen(live_.tpcs(), false);
  std::uint32_t credits = 0;
  for (std::uint32_t sm = 0; sm < session_.snapshot.size(); ++sm) {
    const std::uint32_t tpc = live_.tpc_of(sm);
    if (session_.snapshot[sm] == 0 || seen[tpc]) continue;
    seen[tpc] = true;
    if (holds_.mode() == PartitionMode::static_) {
      if (entry.task.local_memory) holds_.reserve_block(tpc);
    } else if (!holds_.held(subcontext, tpc)) {
      ++credits;
    }
  }
  if (holds_.mode() == PartitionMode::dynamic) holds_.reserve(credits);
  show_holds(subcontext);
}

const Placement& Cwd::place_plain(std::uint64_t ctas) {
  if (holds_.mode() != PartitionMode::dynamic) return lake_.place(session_.snapshot, ctas);
  const std::uint32_t subcontext = table_.at(session_.slot).task.subcontext;
  const Placement& placement =
      credit_.place(session_.snapshot, ctas, prices_, {holds_.credits(subcontext), holds_.blocks()});
  holds_.reserve(credit_.new_tpcs());
  return placement;
}

void Cwd::show_holds(std::uint32_t subcontext) {
  subcontexts_.holds(subcontext, holds_.tpcs_held(subcontext), holds_.credits(subcontext));
}

// A subcontext is in use once a task of it arrives; the first one alone, on a machine that is not shared, is the
// machine itself.
void Cwd::use_subcontext(std::uint32_t subcontext) {
  if (subcontext != 0 || holds_.mode() != PartitionMode::none) subcontexts_.use(subcontext);
}

// Never is judged by the credits of the start, as long as nobody has changed them (CWD-25).
bool Cwd::lacks_credits_for_ever(const protocol::TaskPacket& task) {
  if (first_credits_ == nullptr || holds_.changed(task.subcontext)) return false;
  std::vector<std::uint32_t> room;
  return !first_credits_->admit(task, room);
}

}  // namespace heddle::cwd
