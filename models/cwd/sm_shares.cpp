#include "cwd/sm_shares.h"

#include <algorithm>
#include <utility>

#include "arch/task_record.h"
#include "common/error.h"

namespace heddle::cwd {
namespace {

constexpr std::uint64_t kWhole = 100;

std::uint32_t part_of(std::uint32_t all, std::uint64_t percent) {
  return static_cast<std::uint32_t>((all * percent + kWhole - 1) / kWhole);
}

}  // namespace

SmShares::SmShares(const arch::Topology& topology, std::uint32_t warps, std::vector<std::uint32_t> priority)
    : topology_(topology), warps_(warps), rank_(topology.sms()), open_(topology.gpcs()) {
  for (std::uint32_t i = 0; i < priority.size(); ++i) rank_[priority[i]] = i;
  reset();
}

void SmShares::reset() {
  Row row;
  row.ctas.assign(topology_.sms(), 0);
  row.warps.assign(topology_.sms(), 0);
  row.most_sms = topology_.sms();
  row.most_warps = warps_;
  rows_.assign(arch::kSubcontexts, row);
}

ShareRefusal SmShares::set_sms(std::uint32_t subcontext, std::uint64_t percent) {
  if (subcontext >= rows_.size()) return ShareRefusal::subcontext;
  if (percent == 0 || percent > kWhole) return ShareRefusal::value;
  rows_[subcontext].most_sms = part_of(topology_.sms(), percent);
  return ShareRefusal::none;
}

ShareRefusal SmShares::set_warps(std::uint32_t subcontext, std::uint64_t percent) {
  if (subcontext >= rows_.size()) return ShareRefusal::subcontext;
  if (percent == 0 || percent > kWhole) return ShareRefusal::value;
  rows_[subcontext].most_warps = part_of(warps_, percent);
  return ShareRefusal::none;
}

void SmShares::launch(std::uint32_t subcontext, std::uint32_t sm, std::uint32_t warps) {
  Row& row = rows_[subcontext];
  if (row.ctas[sm]++ == 0) ++row.held;
  row.warps[sm] += warps;
}

void SmShares::complete(std::uint32_t subcontext, std::uint32_t sm, std::uint32_t warps) {
  Row& row = rows_[subcontext];
  HEDDLE_CHECK(row.ctas[sm] > 0 && row.warps[sm] >= warps, "a CTA left an SM where its subcontext has no such");
  row.warps[sm] -= warps;
  if (--row.ctas[sm] == 0) --row.held;
}

bool SmShares::restrict(std::uint32_t subcontext, const Need& need, std::vector<std::uint16_t>& slots) {
  const Row& row = rows_[subcontext];
  const bool by_warps = row.most_warps < warps_ && need.warps > 0 && limit_warps(row, need.warps, slots);
  const bool by_sms = row.most_sms < topology_.sms() && limit_sms(row, need, slots);
  return by_warps || by_sms;
}

bool SmShares::limit_warps(const Row& row, std::uint32_t warps, std::vector<std::uint16_t>& slots) const {
  bool taken = false;
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) {
    const std::uint32_t left = row.most_warps - std::min(row.most_warps, row.warps[sm]);
    if (slots[sm] <= left / warps) continue;
    slots[sm] = static_cast<std::uint16_t>(left / warps);
    taken = true;
  }
  return taken;
}

bool SmShares::limit_sms(const Row& row, const Need& need, std::vector<std::uint16_t>& slots) {
  // The SMs that it holds, those with most of its CTAs first, and then the ones that it could take, best first.
  std::fill(open_.begin(), open_.end(), 0U);
  order_.clear();
  for (std::uint32_t sm = 0; sm < slots.size(); ++sm) {
    if (slots[sm] > 0) ++open_[topology_.sm(sm).gpc];
    if (slots[sm] > 0 || row.ctas[sm] > 0) order_.push_back(sm);
  }
  const auto place = [&](std::uint32_t sm) {
    const std::uint32_t gpc = topology_.sm(sm).gpc;
    if (!need.clustered) return std::pair(0U, 0U);
    if (need.first) return std::pair(gpc >= *need.first ? gpc - *need.first : gpc + topology_.gpcs() - *need.first, 0U);
    return std::pair(~open_[gpc], gpc);
  };
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (row.ctas[a] != row.ctas[b]) return row.ctas[a] > row.ctas[b];
    if (place(a) != place(b)) return place(a) < place(b);
    return slots[a] != slots[b] ? slots[a] > slots[b] : rank_[a] < rank_[b];
  });
  bool taken = false;
  for (std::size_t i = row.most_sms; i < order_.size(); ++i) {
    taken |= slots[order_[i]] > 0;
    slots[order_[i]] = 0;
  }
  return taken;
}

bool SmShares::any_limited() const {
  for (std::uint32_t subcontext = 0; subcontext < rows_.size(); ++subcontext) {
    if (limited(subcontext)) return true;
  }
  return false;
}

bool SmShares::empty() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) {
    const auto none = [](std::uint32_t n) { return n == 0; };
    return row.held == 0 && std::all_of(row.warps.begin(), row.warps.end(), none);
  });
}

}  // namespace heddle::cwd
