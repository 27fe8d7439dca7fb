// The links of one plane of a GPC's SM-to-SM network, where a packet passes it in one call (TimingMode fast and lt):
// when does it arrive? A plain core.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "common/cycle.h"
#include "common/reservation.h"
#include "gpc/gpc_params.h"

namespace heddle::gpc {

// The same links as in SmLinks: a port out of each SM, one into each, and what the GPC passes between its TPCs, if that
// has a limit. Each has a calendar instead of queues, so that nothing ever stands in front of one.
class SmCalendars {
 public:
  // `tpcs`, `distance`: by SM. Without `contended` nothing waits for a link.
  SmCalendars(const SmNetworkParams& params, const std::vector<std::uint32_t>& tpcs, const std::vector<Cycle>& distance,
              bool contended)
      : tpcs_(tpcs), distance_(distance), last_(tpcs.size() * tpcs.size()) {
    if (!contended) return;
    const auto sms = static_cast<std::uint32_t>(tpcs.size());
    out_.assign(sms, ReservedLink(params.bandwidth));
    in_.assign(sms, ReservedLink(params.bandwidth));
    const double between = params.between_tpcs(sms);
    if (between > 0) middle_.assign(1, ReservedLink(between));
  }

  // The packet passes the port out of its SM at `when` or later: returns the cycle.
  Cycle leave(std::uint32_t from, std::uint32_t bytes, Cycle when) {
    return out_.empty() ? when : out_[from].take(when, bytes);
  }
  // The rest of its way. Packets of a pair arrive in the order of these calls.
  Cycle arrive(std::uint32_t from, std::uint32_t to, std::uint32_t bytes, Cycle left) {
    Cycle at = left + distance_[from];
    if (!middle_.empty() && tpcs_[from] != tpcs_[to]) at = middle_.front().take(at, bytes);
    at += distance_[to];
    if (!in_.empty()) at = in_[to].take(at, bytes);
    Cycle& last = last_[from * tpcs_.size() + to];
    last = std::max(last, at);
    return last;
  }
  void reset() {
    for (ReservedLink& link : out_) link.reset();
    for (ReservedLink& link : in_) link.reset();
    for (ReservedLink& link : middle_) link.reset();
    std::fill(last_.begin(), last_.end(), 0);
  }

 private:
  const std::vector<std::uint32_t> tpcs_;
  const std::vector<Cycle> distance_;
  std::vector<ReservedLink> out_;  // by SM; none: free
  std::vector<ReservedLink> in_;
  std::vector<ReservedLink> middle_;  // one, or none
  std::vector<Cycle> last_;           // by pair: the latest arrival
};

}  // namespace heddle::gpc
