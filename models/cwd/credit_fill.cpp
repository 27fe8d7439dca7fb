#include "cwd/credit_fill.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::cwd {

CreditFill::CreditFill(std::vector<std::uint32_t> priority, std::vector<std::uint32_t> tpc_of,
                       const arch::Topology& topology, bool one_at_a_time)
    : topology_(topology), priority_(std::move(priority)), tpc_of_(std::move(tpc_of)), one_at_a_time_(one_at_a_time) {
  HEDDLE_CHECK(priority_.size() == topology.sms() && tpc_of_.size() == topology.sms(),
               "an order of SMs that is not the machine's");
  for (const std::uint32_t sm : priority_) {
    if (tpc_of_[sm] >= members_.size()) members_.resize(tpc_of_[sm] + 1);
    members_[tpc_of_[sm]].push_back(sm);
  }
}

// The SM with most free slots, again and again: level by level, and a CTA on an SM takes it out of its level.
const Placement& CreditFill::place(const std::vector<std::uint16_t>& slots, std::uint64_t ctas,
                                   const std::vector<TpcPrice>& prices, const CreditPurse& purse) {
  HEDDLE_CHECK(slots.size() == priority_.size() && prices.size() == members_.size(), "slots of another machine");
  slots_ = slots;
  prices_ = prices;
  purse_ = purse;
  left_ = ctas;
  new_tpcs_ = 0;
  result_.ctas = 0;
  result_.steps = 0;
  result_.levels.clear();
  std::uint32_t highest = 0;
  for (const std::uint16_t count : slots) highest = std::max<std::uint32_t>(highest, count);
  for (std::uint32_t level = highest; level > 0 && left_ > 0; --level) fill_level(level);
  return result_;
}

bool CreditFill::open(std::uint32_t sm, std::uint32_t level) const { return slots_[sm] == level; }

// Held TPCs, then new ones: one of them makes the rest of its SMs those of a held one.
void CreditFill::fill_level(std::uint32_t level) {
  for (const std::uint32_t sm : priority_) {
    if (left_ == 0) return;
    if (open(sm, level) && !prices_[tpc_of_[sm]].credit && pay(tpc_of_[sm])) put(sm, level);
  }
  for (const std::uint32_t first : priority_) {
    if (left_ == 0) return;
    if (!open(first, level)) continue;
    const std::uint32_t tpc = tpc_of_[first];
    if (!prices_[tpc].credit || !pay(tpc)) continue;
    for (const std::uint32_t sm : members_[tpc]) {
      if (left_ > 0 && open(sm, level)) put(sm, level);
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

void CreditFill::put(std::uint32_t sm, std::uint32_t level) {
  const arch::Topology::Sm& place = topology_.sm(sm);
  if (one_at_a_time_ || result_.levels.empty() || result_.levels.back().level != level) {
    result_.levels.push_back({level, 0, SmMask(topology_.gpcs(), 0)});
    ++result_.steps;
  }
  LevelMask& mask = result_.levels.back();
  mask.mask[place.gpc] |= std::uint64_t{1} << place.in_gpc;
  ++mask.ctas;
  ++result_.ctas;
  --slots_[sm];
  --left_;
}

}  // namespace heddle::cwd
