#include "cwd/cluster_session.h"

#include <algorithm>
#include <numeric>

#include "common/error.h"
#include "cwd/cost_laws.h"

namespace heddle::cwd {

std::vector<std::uint32_t> ugpus_of(const arch::Topology& topology) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t g = 0; g < topology.gpcs(); ++g) result.push_back(topology.ugpu_of(g));
  return result;
}

void GpcOrders::start_step() {
  commands_.clear();
  for (const Gpc& gpc : gpcs_) HEDDLE_CHECK(!gpc.asked, "a session went on before all its queries were answered");
}

bool GpcOrders::ask(const std::vector<std::uint32_t>& gpcs) {
  bool asking = false;
  for (const std::uint32_t g : gpcs) {
    if (!gpcs_[g].known && !gpcs_[g].asked) {
      gpcs_[g].asked = true;
      commands_.push_back({Act::query, g});
    }
    asking = asking || gpcs_[g].asked;
  }
  return asking;
}

void GpcOrders::answer(std::uint32_t gpc, const DomainAnswer& answer) {
  HEDDLE_CHECK(gpcs_.at(gpc).asked, "a GPC answered without a query");
  gpcs_[gpc].asked = false;
  gpcs_[gpc].known = true;
  gpcs_[gpc].answer = answer;
}

void GpcOrders::reserve(std::uint32_t gpc) {
  commands_.push_back({Act::reserve, gpc});
  ++gpcs_[gpc].reserved;
  gpcs_[gpc].known = false;
}

// What is accepted here with an answer that stands is asked again, together with those whose registers have changed: it
// costs no step.
void GpcOrders::accept(std::uint32_t gpc) {
  if (gpcs_[gpc].reserved == 0) return;
  cancel(gpc);
  commands_.push_back({Act::accept, gpc});
  gpcs_[gpc].reserved = 0;
}

void GpcOrders::cancel(std::uint32_t gpc) {
  if (!gpcs_[gpc].known || !gpcs_[gpc].answer.valid) return;
  commands_.push_back({Act::cancel, gpc});
  gpcs_[gpc].known = false;
}

// There is more room afterwards: a refusal does not stand, either.
void GpcOrders::revert(std::uint32_t gpc) {
  cancel(gpc);
  commands_.push_back({Act::revert, gpc});
  gpcs_[gpc].reserved = 0;
  gpcs_[gpc].known = false;
}

ClusterSession::ClusterSession(const std::vector<std::uint32_t>& ugpu_of, std::vector<std::uint32_t> gpc_priority,
                               DomainPolicy& policy)
    : gpc_priority_(std::move(gpc_priority)), policy_(policy), orders_(ugpu_of.size()), whole_(1) {
  HEDDLE_CHECK(gpc_priority_.size() == ugpu_of.size(), "the GPC priority order does not list every GPC");
  for (std::uint32_t g = 0; g < ugpu_of.size(); ++g) {
    if (ugpus_.size() <= ugpu_of[g]) ugpus_.resize(ugpu_of[g] + 1);
    ugpus_[ugpu_of[g]].gpcs.push_back(g);
    whole_.front().gpcs.push_back(g);
  }
}

void ClusterSession::begin(const SessionRequest& request) {
  HEDDLE_CHECK(over_, "a session began while another one ran");
  HEDDLE_CHECK(request.gpc_cgas > 0, "a CGA without GPC_CGAs");
  request_ = request;
  over_ = unit_open_ = false;
  parts_done_ = 0;
  unit_homes_.clear();
  homes_.clear();
  placed_ = 0;
  effort_ = {};
  ties_.begin(request.tie);
  orders_.begin();
  arenas_ = request.ugpu_cgas > 0 ? &ugpus_ : &whole_;
  for (Arena& arena : *arenas_) {
    arena.phase = Phase::counting;
    arena.restart();
  }
  arena_priority_.resize(arenas_->size());
  std::iota(arena_priority_.begin(), arena_priority_.end(), 0U);
}

const std::vector<Command>& ClusterSession::step() {
  orders_.start_step();
  ugpu_levels_ = 0;
  if (over_) return orders_.commands();
  if (request_.single ? place_single() : place_units()) {
    ++effort_.queries;
  } else {
    over_ = true;
    give_back_all();
  }
  return orders_.commands();
}

std::uint32_t ClusterSession::gpc_levels() const {
  std::size_t gpcs = 0;  // of an arena
  for (const Arena& arena : *arenas_) gpcs = std::max(gpcs, arena.gpcs.size());
  return tree_levels(gpcs);
}

// The functions below return true if they need answers to go on.

// GPC_CGAs by themselves: whoever is chosen keeps its CGA (CWD-13), until CGAs or slots run out (CWD-14).
bool ClusterSession::place_single() {
  while (placed_ < request_.units) {
    if (orders_.ask(whole_.front().gpcs)) return true;
    choose_gpcs(whole_.front().gpcs, request_.units - placed_, Of::units);
    if (chosen_.empty()) return false;
    for (const std::uint32_t g : chosen_) {
      unit_homes_.push_back({placed_, g, orders_.next_home(g), orders_.answer_of(g).speed, false});
      orders_.reserve(g);
      orders_.accept(g);
      complete_unit();
    }
  }
  return false;
}

// Units of several GPC_CGAs. Every arena finds room for as many as one arena must hold; then arenas are compared.
bool ClusterSession::place_units() {
  const bool nested = request_.ugpu_cgas > 1;
  while (placed_ < request_.units) {
    if (nested && !unit_open_) {
      const Count counted = count(0, arenas_->size(), request_.ugpu_cgas);
      if (counted != Count::enough) return counted == Count::asking;
      unit_open_ = true;
    }
    bool asking = false;
    for (Arena& arena : *arenas_) asking |= advance(arena);
    if (asking) return true;
    if (!choose_arenas()) return false;
  }
  return false;
}

// One arena's share of a step, up to a whole set of GPC_CGAs reserved (ready) or the knowledge that there is no room
// (out).
bool ClusterSession::advance(Arena& arena) {
  if (arena.phase == Phase::counting) {
    const auto index = static_cast<std::size_t>(&arena - arenas_->data());
    const Count counted = count(index, index + 1, 1);
    if (counted != Count::enough) return counted == Count::asking;
  }
  while (arena.phase == Phase::placing) {
    if (orders_.ask(arena.gpcs)) return true;
    choose_gpcs(arena.gpcs, request_.gpc_cgas - arena.places.size(), Of::parts);
    if (chosen_.empty()) {
      // Pass I has counted uGPU_CGAs over all uGPUs; a single one may well be too small.
      HEDDLE_CHECK(unit_open_, "pass II of a session failed after its pass I had succeeded");
      arena.phase = Phase::out;  // until the unit is complete: then it gives back what it has
      return false;
    }
    for (const std::uint32_t g : chosen_) {
      arena.places.push_back({g, orders_.answer_of(g).speed});
      arena.speed = std::min(arena.speed, orders_.answer_of(g).speed);
      orders_.reserve(g);
    }
    if (arena.places.size() == request_.gpc_cgas) arena.phase = Phase::ready;
  }
  return false;
}

// Pass I (CWD-18): rounds in which every GPC answers for one more GPC_CGA, until arenas together hold `parts` sets of
// them or no GPC takes any more. Leaves no reservation behind.
ClusterSession::Count ClusterSession::count(std::size_t first, std::size_t end, std::uint64_t parts) {
  while (true) {
    bool asking = false;
    for (std::size_t i = first; i < end; ++i) asking |= orders_.ask((*arenas_)[i].gpcs);
    if (asking) return Count::asking;
    ugpu_levels_ += tree_levels(end - first);
    std::uint64_t found = 0;
    bool any = false;
    for (std::size_t i = first; i < end; ++i) {
      const Arena& arena = (*arenas_)[i];
      std::uint64_t more = 0;
      for (const std::uint32_t g : arena.gpcs) more += orders_.answer_of(g).valid ? 1 : 0;
      found += (arena.counted + more) / request_.gpc_cgas;
      any = any || more > 0;
    }
    if (found >= parts || !any) {
      for (std::size_t i = first; i < end; ++i) {
        Arena& arena = (*arenas_)[i];
        if (found >= parts) {
          start_pass_two(arena);
        } else {
          give_back(arena);
          arena.phase = Phase::out;
        }
      }
      return found >= parts ? Count::enough : Count::too_few;
    }
    for (std::size_t i = first; i < end; ++i) {
      Arena& arena = (*arenas_)[i];
      for (const std::uint32_t g : arena.gpcs) {
        if (!orders_.answer_of(g).valid) continue;
        orders_.reserve(g);
        ++arena.counted;
      }
    }
  }
}

// All arenas are ready or out. False if none has room.
bool ClusterSession::choose_arenas() {
  const bool nested = request_.ugpu_cgas > 1;
  ugpu_levels_ += tree_levels(arenas_->size());
  answers_.clear();
  for (const Arena& arena : *arenas_) {
    std::uint32_t free = 0;
    for (const std::uint32_t g : arena.gpcs) free += orders_.answer_of(g).free;
    answers_.push_back({arena.phase == Phase::ready, arena.speed, free});
  }
  const bool ugpus = request_.ugpu_cgas > 0;
  choose(arena_priority_, nested ? request_.ugpu_cgas - parts_done_ : request_.units - placed_,
         ugpus ? arch::CgaLevel::ugpu : arch::CgaLevel::gpu, nested ? Of::parts : Of::units);
  HEDDLE_CHECK(!nested || !chosen_.empty(), "pass II of a session failed after its pass I had succeeded");
  for (const std::uint32_t index : chosen_) {
    keep((*arenas_)[index]);
    if (++parts_done_ < std::max(request_.ugpu_cgas, 1U)) continue;
    complete_unit();
    parts_done_ = 0;
  }
  if (nested && parts_done_ == 0) {
    // The next GPU_CGA is counted anew, without what uGPUs have reserved to be compared for this one.
    unit_open_ = false;
    for (Arena& arena : *arenas_) {
      give_back(arena);
      arena.phase = Phase::counting;
    }
  }
  return !chosen_.empty();
}

void ClusterSession::complete_unit() {
  unit_homes_.back().last = true;
  homes_.insert(homes_.end(), unit_homes_.begin(), unit_homes_.end());
  unit_homes_.clear();
  ++placed_;
}

void ClusterSession::keep(Arena& arena) {
  for (const Place& place : arena.places) {
    unit_homes_.push_back({placed_, place.gpc, orders_.next_home(place.gpc), place.speed, false});
  }
  for (const std::uint32_t g : arena.gpcs) orders_.accept(g);
  arena.restart();
  arena.phase = unit_open_ ? Phase::placing : Phase::counting;
}

void ClusterSession::give_back(Arena& arena) {
  for (const std::uint32_t g : arena.gpcs) {
    if (orders_.reserves(g)) orders_.revert(g);
  }
  arena.restart();
}

// CWD-19: the launch-slot registers of all its GPCs are reset to what has been accepted, answers of pass I are void.
void ClusterSession::start_pass_two(Arena& arena) {
  for (const std::uint32_t g : arena.gpcs) orders_.revert(g);
  arena.restart();
  arena.phase = Phase::placing;
}

// The end of the session: the models keep what was accepted, and nothing else.
void ClusterSession::give_back_all() {
  for (Arena& arena : *arenas_) give_back(arena);
  for (const std::uint32_t g : whole_.front().gpcs) orders_.cancel(g);
}

void ClusterSession::choose_gpcs(const std::vector<std::uint32_t>& gpcs, std::uint64_t cgas, Of of) {
  answers_.assign(gpc_priority_.size(), DomainAnswer{});
  for (const std::uint32_t g : gpcs) answers_[g] = orders_.answer_of(g);
  choose(gpc_priority_, cgas, arch::CgaLevel::gpc, of);
}

// Among answers_, by the policy: to chosen_.
void ClusterSession::choose(const std::vector<std::uint32_t>& priority, std::uint64_t cgas, arch::CgaLevel level,
                            Of of) {
  std::uint32_t valid = 0;
  for (const DomainAnswer& answer : answers_) valid += answer.valid ? 1 : 0;
  const bool ties = of == Of::units && policy_.serves_ties();
  if (ties) ties_.narrow(answers_, priority);
  chosen_.clear();
  policy_.choose({answers_, priority, cgas, request_.ctas, level, 0, request_.waiting}, chosen_);
  HEDDLE_CHECK(chosen_.size() <= cgas, "a domain policy has chosen more domains than there are CGAs");
  HEDDLE_CHECK(valid == 0 || !chosen_.empty(), "a domain policy has chosen none of the domains that have room");
  if (ties && chosen_.size() == cgas) ties_.note(answers_, chosen_);
  std::uint32_t fastest = 0;
  for (const DomainAnswer& answer : answers_) fastest = std::max(fastest, answer.valid ? answer.speed : 0);
  for (const std::uint32_t domain : chosen_) {
    HEDDLE_CHECK(domain < answers_.size() && answers_[domain].valid,
                 "a domain policy has chosen a domain without room, or one twice");
    effort_.slower += answers_[domain].speed < fastest ? 1 : 0;
    answers_[domain].valid = false;
  }
  effort_.cancelled += valid - static_cast<std::uint32_t>(chosen_.size());
}

}  // namespace heddle::cwd
