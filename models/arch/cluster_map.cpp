#include "arch/cluster_map.h"

#include <algorithm>
#include <utility>

#include "common/bits.h"
#include "common/error.h"

namespace heddle {

void ClusterMap::configure(std::vector<std::vector<std::uint32_t>> gpcs) {
  gpcs_.clear();
  bit_of_.clear();
  for (std::vector<std::uint32_t>& sms : gpcs) {
    HEDDLE_CHECK(sms.size() <= 64, "a GPC has more SMs than a mask has bits");
    for (std::uint32_t bit = 0; bit < sms.size(); ++bit) {
      if (sms[bit] >= bit_of_.size()) bit_of_.resize(std::size_t{sms[bit]} + 1, kNone);
      bit_of_[sms[bit]] = bit;
    }
    Gpc gpc;
    gpc.bytes.assign(sms.size() * sms.size(), 0);
    gpc.open.resize(kIds);
    gpc.sms = std::move(sms);
    gpcs_.push_back(std::move(gpc));
  }
  clear();
}

void ClusterMap::clear() {
  for (Gpc& gpc : gpcs_) {
    std::fill(gpc.bytes.begin(), gpc.bytes.end(), 0);
    std::fill(gpc.open.begin(), gpc.open.end(), Open{});
  }
  kept_.clear();
  totals_.clear();
  total_index_.clear();
  last_total_ = 0;
}

void ClusterMap::begin(const Cluster& cluster, std::uint32_t rank, std::uint32_t sm, std::uint64_t cycle) {
  HEDDLE_CHECK(cluster.gpc < gpcs_.size() && cluster.local_id < kIds && cluster.size > 0, "no such CGA");
  HEDDLE_CHECK(sm < bit_of_.size() && bit_of_[sm] != kNone, "a CTA began on an SM that the machine does not have");
  Open& open = gpcs_[cluster.gpc].open[cluster.local_id];
  // A CGA whose kernel was killed may never start all its CTAs: the next one with its id takes its place.
  if (open.size == 0 || open.task != cluster.task || open.cga != cluster.cga) take_in(open, cluster, cycle);
  HEDDLE_CHECK(open.started < open.size, "a CGA has started more CTAs than it has");
  ++open.started;
  open.sms |= std::uint64_t{1} << bit_of_[sm];
  open.first = std::min(open.first, cycle);
  open.last = std::max(open.last, cycle);
  if (open.kept != kNone) kept_[open.kept].ctas.push_back({rank, sm, cycle, 0});
}

void ClusterMap::take_in(Open& open, const Cluster& cluster, std::uint64_t cycle) {
  open = Open{};
  open.task = cluster.task;
  open.cga = cluster.cga;
  open.size = cluster.size;
  open.first = open.last = cycle;
  open.total = total_of(cluster.task, cluster.size);
  ++totals_[open.total].begun;
  if (kept_.size() >= kKept) return;
  open.kept = static_cast<std::uint32_t>(kept_.size());
  kept_.push_back({cluster.task, cluster.cga, cluster.gpc, cluster.local_id, cluster.size, {}, 0, 0});
  kept_.back().ctas.reserve(cluster.size);
}

void ClusterMap::end(std::uint32_t gpc, std::uint32_t local_id, std::uint32_t rank, std::uint64_t cycle) {
  Open& open = open_at(gpc, local_id);
  HEDDLE_CHECK(open.ended < open.started, "a CTA of a CGA ended that had not begun");
  ++open.ended;
  open.end = std::max(open.end, cycle);
  if (open.kept != kNone) {
    std::vector<Cta>& ctas = kept_[open.kept].ctas;
    const auto cta = std::find_if(ctas.begin(), ctas.end(), [rank](const Cta& c) { return c.rank == rank; });
    HEDDLE_CHECK(cta != ctas.end() && cta->end == 0, "a CTA of a CGA ended that does not run");
    cta->end = cycle;
  }
  if (open.ended == open.size) close(open);
}

void ClusterMap::close(Open& open) {
  Total& total = totals_[open.total];
  ++total.count;
  total.sms += bits::count(open.sms);
  const std::uint64_t skew = open.last - open.first;
  total.skew += skew;
  total.max_skew = std::max(total.max_skew, skew);
  total.lived += open.end - open.first;
  total.barriers += open.barriers;
  total.waited += open.waited;
  open = Open{};
}

void ClusterMap::barrier(std::uint32_t gpc, std::uint32_t local_id, bool first, std::uint64_t waited) {
  Open& open = open_at(gpc, local_id);
  open.barriers += first ? 1U : 0U;
  open.waited += waited;
  if (open.kept == kNone) return;
  kept_[open.kept].barriers = open.barriers;
  kept_[open.kept].waited = open.waited;
}

ClusterMap::Open& ClusterMap::open_at(std::uint32_t gpc, std::uint32_t local_id) {
  HEDDLE_CHECK(gpc < gpcs_.size() && local_id < kIds && gpcs_[gpc].open[local_id].size != 0, "no CGA has that id");
  return gpcs_[gpc].open[local_id];
}

std::uint32_t ClusterMap::total_of(std::uint32_t task, std::uint32_t size) {
  const auto is_it = [&](std::uint32_t at) {
    return at < totals_.size() && totals_[at].task == task && totals_[at].size == size;
  };
  if (is_it(last_total_)) return last_total_;
  const auto [entry, added] =
      total_index_.emplace(std::uint64_t{task} << 32 | size, static_cast<std::uint32_t>(totals_.size()));
  if (added) {
    Total total;
    total.task = task;
    total.size = size;
    totals_.push_back(total);
  }
  last_total_ = entry->second;
  return last_total_;
}

}  // namespace heddle
