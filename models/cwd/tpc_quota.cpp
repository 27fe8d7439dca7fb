#include "cwd/tpc_quota.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace heddle::cwd {
namespace {

constexpr std::uint64_t kNobody = ~std::uint64_t{0};

}  // namespace

const char* refusal_text(ShareRefusal refusal) {
  static constexpr const char* kTexts[protocol::kShareRefusals] = {
      "nothing is wrong",
      "there is no such subcontext",
      "the machine has no such TPC",
      "the value is out of range",
      "a TPC would belong to two subcontexts",
      "the local-memory block is another TPC's",
      "the machine does not translate addresses",
      "CTAs use the local memory",
      "the shares of bandwidth would be more than 100 %, or a limit below a share",
  };
  return kTexts[static_cast<std::size_t>(refusal)];
}

void LocalBlocks::reset() {
  free_.clear();
  place_.assign(count_, kNone);
  owners_.assign(count_, kNobody);
  for (std::uint32_t block = count_; block-- > 0;) {
    place_[block] = static_cast<std::uint32_t>(free_.size());
    free_.push_back(block);
  }
}

std::uint32_t LocalBlocks::take() {
  HEDDLE_CHECK(!free_.empty(), "a CTA was launched on a TPC without a local-memory block");
  const std::uint32_t block = free_.back();
  take(block);
  return block;
}

void LocalBlocks::take(std::uint32_t block) {
  HEDDLE_CHECK(block < count_ && is_free(block), "a local-memory block is taken that is in use");
  const std::uint32_t place = place_[block];
  const std::uint32_t moved = free_.back();
  free_[place] = moved;
  place_[moved] = place;
  free_.pop_back();
  place_[block] = kNone;
}

void LocalBlocks::give(std::uint32_t block) {
  HEDDLE_CHECK(block < count_ && place_[block] == kNone, "a local-memory block comes back that was not in use");
  place_[block] = static_cast<std::uint32_t>(free_.size());
  free_.push_back(block);
}

bool LocalBlocks::set_owner(std::uint64_t owner, std::uint32_t old, std::uint32_t block) {
  if (block != kNone && owners_[block] != kNobody && owners_[block] != owner) return false;
  if (old != kNone) owners_[old] = kNobody;
  if (block != kNone) owners_[block] = owner;
  return true;
}

ShareRefusal LocalMemories::set_address(std::uint32_t subcontext, std::uint64_t address, bool in_use) {
  if (subcontext >= all_.size()) return ShareRefusal::subcontext;
  if (address % arch::kLineBytes != 0) return ShareRefusal::value;
  if (in_use) return ShareRefusal::in_use;
  all_[subcontext].address = address;
  return ShareRefusal::none;
}

ShareRefusal LocalMemories::set_bytes(std::uint32_t subcontext, std::uint64_t bytes, bool in_use) {
  if (subcontext >= all_.size()) return ShareRefusal::subcontext;
  if (bytes % arch::kLocalWord != 0 || bytes > kMostBytes) return ShareRefusal::value;
  if (in_use) return ShareRefusal::in_use;
  all_[subcontext].bytes = static_cast<std::uint32_t>(bytes);
  return ShareRefusal::none;
}

TpcQuota::TpcQuota(std::uint32_t tpcs, const QuotaOptions& options) : tpcs_(tpcs), options_(options) { reset(); }

void TpcQuota::reset() {
  mode_ = options_.mode;
  Row row(options_.blocks == 0 ? tpcs_ : options_.blocks);
  row.ctas.assign(tpcs_, 0);
  row.local.assign(tpcs_, 0);
  row.block.assign(tpcs_, kNone);
  row.own.assign(tpcs_, kNone);
  row.mask.assign(tpcs_, true);
  row.given_up.assign(tpcs_, false);
  row.credits = row.maximum = options_.credits == 0 ? tpcs_ : options_.credits;
  rows_.assign(arch::kSubcontexts, row);
  holders_.assign(tpcs_, 0);
  session_ = {};
}

// PRT-07, PRT-10: at every change.
void TpcQuota::check(const Row& row) const {
  HEDDLE_CHECK(std::int64_t{row.held} + row.credits + std::int64_t{row.reserved} == row.maximum,
               "TPCs held, credits and reserved credits of a subcontext do not add up to its maximum");
}

// PRT-07: after every change of what a subcontext holds or may hold. It keeps what it has most CTAs on, so that what it
// gives up is empty soon.
void TpcQuota::settle(Row& row) {
  check(row);
  const auto wanted =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(std::int64_t{row.held} - row.maximum, 0, row.held));
  // Larger: kept before others.
  const auto worth = [&row](std::uint32_t tpc) { return std::pair(!row.masked || row.mask[tpc], row.ctas[tpc]); };
  while (row.giving_up != wanted) {
    const bool more = row.giving_up < wanted;
    std::uint32_t best = kNone;
    for (std::uint32_t tpc = 0; tpc < tpcs_; ++tpc) {
      if (row.ctas[tpc] == 0 || row.given_up[tpc] == more) continue;
      const bool better = best == kNone || (more ? worth(tpc) <= worth(best) : worth(tpc) > worth(best));
      if (better) best = tpc;
    }
    HEDDLE_CHECK(best != kNone, "a subcontext gives up more TPCs than it holds");
    row.given_up[best] = more;
    row.giving_up += more ? 1 : -1;
  }
}

ShareRefusal TpcQuota::set_mode(Mode mode) {
  if (mode > Mode::dynamic) return ShareRefusal::value;
  if (mode == Mode::static_) {
    for (std::uint32_t tpc = 0; tpc < tpcs_; ++tpc) {
      const auto owners =
          std::count_if(rows_.begin(), rows_.end(), [tpc](const Row& r) { return r.masked && r.mask[tpc]; });
      if (owners > 1) return ShareRefusal::overlap;
    }
  }
  mode_ = mode;
  return ShareRefusal::none;
}

ShareRefusal TpcQuota::set_credits(std::uint32_t subcontext, std::uint64_t maximum) {
  if (subcontext >= rows_.size()) return ShareRefusal::subcontext;
  if (maximum > kMostCredits) return ShareRefusal::value;
  Row& row = rows_[subcontext];
  row.changed = row.changed || static_cast<std::int64_t>(maximum) != row.maximum;
  row.credits += static_cast<std::int64_t>(maximum) - row.maximum;
  row.maximum = static_cast<std::int64_t>(maximum);
  settle(row);
  return ShareRefusal::none;
}

ShareRefusal TpcQuota::enable(std::uint32_t subcontext, std::uint32_t tpc, bool enabled) {
  if (subcontext >= rows_.size()) return ShareRefusal::subcontext;
  if (tpc >= tpcs_) return ShareRefusal::tpc;
  Row& row = rows_[subcontext];
  if (mode_ == Mode::static_ && enabled) {
    for (const Row& other : rows_) {
      if (&other != &row && other.masked && other.mask[tpc]) return ShareRefusal::overlap;
    }
  }
  if (!row.masked) row.mask.assign(tpcs_, mode_ != Mode::static_);
  row.masked = true;
  row.mask[tpc] = enabled;
  row.given_up.assign(tpcs_, false);  // it chooses anew
  row.giving_up = 0;
  settle(row);
  return ShareRefusal::none;
}

ShareRefusal TpcQuota::set_block(std::uint32_t subcontext, std::uint32_t tpc, std::uint64_t block) {
  if (subcontext >= rows_.size()) return ShareRefusal::subcontext;
  if (tpc >= tpcs_) return ShareRefusal::tpc;
  LocalBlocks& blocks = rows_[subcontext].blocks;
  if (block >= blocks.count() && block != kNone) return ShareRefusal::value;
  std::uint32_t& own = rows_[subcontext].own[tpc];
  const auto wanted = static_cast<std::uint32_t>(block);
  if (!blocks.set_owner(tpc, own, wanted)) return ShareRefusal::block;
  own = wanted;
  return ShareRefusal::none;
}

void TpcQuota::open_session(std::uint32_t subcontext) {
  HEDDLE_CHECK(!session_.open, "a session reserves credits before the one before it has given back its own");
  session_.open = true;
  session_.subcontext = subcontext;
  session_.mode = mode_;
}

void TpcQuota::reserve(std::uint32_t credits) {
  HEDDLE_CHECK(session_.open && session_.mode == Mode::dynamic, "credits are reserved without a session");
  Row& row = rows_[session_.subcontext];
  HEDDLE_CHECK(credits == 0 || row.credits >= std::int64_t{credits}, "more credits are reserved than there are");
  row.credits -= credits;
  row.reserved += credits;
  check(row);
}

void TpcQuota::reserve_block(std::uint32_t tpc) {
  HEDDLE_CHECK(session_.open && session_.mode == Mode::static_, "a block is reserved without a session");
  Row& row = rows_[session_.subcontext];
  if (row.block[tpc] != kNone) return;
  HEDDLE_CHECK(row.own[tpc] != kNone && row.blocks.is_free(row.own[tpc]), "a block is reserved that is not there");
  row.blocks.take(row.own[tpc]);
  row.block[tpc] = row.own[tpc];
  session_.blocks.push_back(tpc);
  check(row);
}

void TpcQuota::close_session() {
  if (!session_.open) return;
  Row& row = rows_[session_.subcontext];
  row.credits += row.reserved;
  row.reserved = 0;
  settle(row);
  for (const std::uint32_t tpc : session_.blocks) {
    if (row.local[tpc] == 0 && row.block[tpc] != kNone) give_block(row, tpc);
  }
  session_.blocks.clear();
  session_.open = false;
  check(row);
}

TpcPrice TpcQuota::price(std::uint32_t subcontext, std::uint32_t tpc, bool local) const {
  TpcPrice price;
  const Row& of = rows_[subcontext];
  if (mode_ != Mode::none && !enabled(subcontext, tpc)) {
    price.bar = TpcPrice::Bar::mask;
    return price;
  }
  const bool lacks_block = local && of.block[tpc] == kNone;
  if (mode_ == Mode::static_) {
    if (holders_[tpc] > (of.ctas[tpc] > 0 ? 1U : 0U)) {
      price.bar = TpcPrice::Bar::drains;
    } else if (lacks_block && (of.own[tpc] == kNone || !of.blocks.is_free(of.own[tpc]))) {
      price.bar = TpcPrice::Bar::block;
    }
    return price;
  }
  if (mode_ == Mode::dynamic && of.given_up[tpc]) {
    price.bar = TpcPrice::Bar::cut;
    return price;
  }
  price.credit = mode_ == Mode::dynamic && of.ctas[tpc] == 0;
  price.block = lacks_block;
  return price;
}

std::uint32_t TpcQuota::launch(std::uint32_t subcontext, std::uint32_t tpc, bool local) {
  Row& row = rows_[subcontext];
  if (row.ctas[tpc]++ == 0) {
    ++row.held;
    ++holders_[tpc];
    if (session_of(subcontext, Mode::dynamic)) {
      HEDDLE_CHECK(row.reserved > 0, "a CTA was launched on a TPC without a credit for it");
      --row.reserved;
    } else {
      HEDDLE_CHECK(mode_ != Mode::dynamic || session_.open, "a CTA was launched outside a session");
      --row.credits;
    }
    settle(row);
  }
  if (!local || row.local[tpc]++ > 0) return kNone;
  if (row.block[tpc] == kNone) row.block[tpc] = row.blocks.take();
  check(row);
  return row.block[tpc];
}

void TpcQuota::complete(std::uint32_t subcontext, std::uint32_t tpc, bool local) {
  Row& row = rows_[subcontext];
  HEDDLE_CHECK(row.ctas[tpc] > 0 && (!local || row.local[tpc] > 0),
               "a CTA left a TPC that its subcontext does not hold");
  if (--row.ctas[tpc] == 0) {
    --row.held;
    --holders_[tpc];
    if (row.given_up[tpc]) {
      row.given_up[tpc] = false;
      --row.giving_up;
    }
    if (session_of(subcontext, Mode::dynamic)) {
      ++row.reserved;  // the session may count on the TPC
    } else {
      ++row.credits;
    }
    settle(row);
  }
  if (!local || --row.local[tpc] > 0) return;
  if (session_of(subcontext, Mode::static_)) {
    session_.blocks.push_back(tpc);
    return;
  }
  give_block(row, tpc);
  check(row);
}

void TpcQuota::give_block(Row& row, std::uint32_t tpc) {
  row.blocks.give(row.block[tpc]);
  row.block[tpc] = kNone;
}

bool TpcQuota::empty() const {
  return !session_.open && std::all_of(rows_.begin(), rows_.end(), [](const Row& row) {
    return row.credits == row.maximum && row.held == 0 && row.blocks.free() == row.blocks.count() &&
           std::all_of(row.ctas.begin(), row.ctas.end(), [](std::uint32_t n) { return n == 0; });
  });
}

std::uint32_t load_of(const arch::ResourceVector& used, const arch::ResourceVector& capacity) {
  std::uint64_t load = 0;
  for (std::size_t i = 0; i < arch::kResources; ++i) {
    const std::uint64_t all = std::max(1U, capacity.amount[i]);
    load = std::max(load, (std::uint64_t{used.amount[i]} * kLoadSteps + all - 1) / all);
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(load, kLoadSteps));
}

CreditFill::CreditFill(std::vector<std::uint32_t> priority, std::vector<std::uint32_t> tpc_of,
                       const arch::Topology& topology, const arch::ResourceVector& capacity, bool one_at_a_time)
    : topology_(topology),
      priority_(std::move(priority)),
      tpc_of_(std::move(tpc_of)),
      capacity_(capacity),
      one_at_a_time_(one_at_a_time) {
  HEDDLE_CHECK(priority_.size() == topology.sms() && tpc_of_.size() == topology.sms(),
               "an order of SMs that is not the machine's");
  for (const std::uint32_t sm : priority_) {
    if (tpc_of_[sm] >= members_.size()) members_.resize(tpc_of_[sm] + 1);
    members_[tpc_of_[sm]].push_back(sm);
  }
}

// The least loaded SM, again and again: level by level, and a CTA on an SM takes it out of its level.
const Placement& CreditFill::place(const CreditView& view, std::uint64_t ctas, const std::vector<TpcPrice>& prices,
                                   const CreditPurse& purse) {
  HEDDLE_CHECK(
      view.slots.size() == priority_.size() && view.used.size() == priority_.size() && prices.size() == members_.size(),
      "slots of another machine");
  slots_ = view.slots;
  used_ = view.used;
  need_ = view.need;
  prices_ = prices;
  purse_ = purse;
  left_ = ctas;
  new_tpcs_ = 0;
  last_ = 0;
  result_.ctas = 0;
  result_.steps = 0;
  result_.one_by_one = one_at_a_time_;
  result_.levels.clear();
  while (left_ > 0) {
    Level highest = 0;
    for (const std::uint32_t sm : priority_) highest = std::max(highest, level_of(sm));
    if (highest == 0) break;
    fill_level(highest);
  }
  return result_;
}

CreditFill::Level CreditFill::level_of(std::uint32_t sm) const {
  if (slots_[sm] == 0) return 0;
  return (kLoadSteps - load_of(used_[sm], capacity_)) << 16 | slots_[sm];
}

// Held TPCs, then new ones: one of them makes the rest of its SMs those of a held one.
void CreditFill::fill_level(Level level) {
  for (const std::uint32_t sm : priority_) {
    if (left_ == 0) return;
    if (level_of(sm) == level && !prices_[tpc_of_[sm]].credit && pay(tpc_of_[sm])) put(sm, level);
  }
  for (const std::uint32_t first : priority_) {
    if (left_ == 0) return;
    if (level_of(first) != level) continue;
    const std::uint32_t tpc = tpc_of_[first];
    if (!prices_[tpc].credit || !pay(tpc)) continue;
    for (const std::uint32_t sm : members_[tpc]) {
      if (left_ > 0 && level_of(sm) == level) put(sm, level);
    }
  }
}

// Takes what the TPC costs. What cannot be paid now cannot be paid later in the session.
bool CreditFill::pay(std::uint32_t tpc) {
  TpcPrice& price = prices_[tpc];
  if ((price.credit && purse_.credits <= 0) || (price.block && purse_.blocks == 0)) {
    for (const std::uint32_t sm : members_[tpc]) slots_[sm] = 0;
    return false;
  }
  if (price.credit) {
    --purse_.credits;
    ++new_tpcs_;
  }
  if (price.block) --purse_.blocks;
  price.credit = price.block = false;
  return true;
}

void CreditFill::put(std::uint32_t sm, Level level) {
  const arch::Topology::Sm& place = topology_.sm(sm);
  if (one_at_a_time_ || last_ != level) {
    result_.levels.push_back({slots_[sm], 0, SmMask(topology_.gpcs(), 0)});
    ++result_.steps;
  }
  last_ = level;
  LevelMask& mask = result_.levels.back();
  mask.mask[place.gpc] |= std::uint64_t{1} << place.in_gpc;
  ++mask.ctas;
  ++result_.ctas;
  --slots_[sm];
  used_[sm].add(need_);
  --left_;
}

}  // namespace heddle::cwd
