#include "memory/crossbar_fan_out.h"

#include <algorithm>

#include "common/error.h"

namespace heddle::memory {

FanOut::FanOut(const CrossbarParams& params, const arch::Topology& topology, std::uint32_t places)
    : places_(places),
      gpc_to_cpc_(params.cpc_to_gpc),
      cpc_to_tpc_(params.tpc_to_cpc),
      tpc_to_sm_(params.sm_to_tpc),
      ring_(std::size_t{places} * topology.sms()),
      copies_(topology.sms()) {
  std::vector<std::uint32_t> first_cpc;
  std::vector<std::uint32_t> first_tpc;
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    first_cpc.push_back(static_cast<std::uint32_t>(cpcs_.size()));
    first_tpc.push_back(static_cast<std::uint32_t>(tpcs_.size()));
    cpcs_.resize(cpcs_.size() + topology.gpc(gpc).cpcs, LinkPace(params.cpc_bandwidth));
    tpcs_.resize(tpcs_.size() + topology.gpc(gpc).tpcs.size(), LinkPace(params.tpc_bandwidth));
  }
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    const arch::Topology::Sm& place = topology.sm(id);
    Sm sm{LinkPace(params.sm_bandwidth), 0, 0, 0, 0, 0};
    sm.cpc = first_cpc[place.gpc] + place.cpc;
    sm.tpc = first_tpc[place.gpc] + place.tpc;
    sms_.push_back(sm);
  }
}

FanOut::Cycle FanOut::pass(std::uint32_t sm, std::uint32_t bytes, Cycle now) {
  ++sms_[sm].waiting;
  LinkPace& cpc = cpcs_[sms_[sm].cpc];
  LinkPace& tpc = tpcs_[sms_[sm].tpc];
  const Cycle at_cpc = cpc.earliest(now);
  cpc.take(at_cpc, bytes);
  const Cycle at_tpc = tpc.earliest(at_cpc + gpc_to_cpc_);
  tpc.take(at_tpc, bytes);
  return at_tpc + cpc_to_tpc_;
}

FanOut::Cycle FanOut::arrive(std::uint32_t id, std::uint32_t bytes, Cycle ready) {
  Sm& sm = sms_[id];
  --sm.waiting;
  const Cycle begin = sm.pace.earliest(ready);
  sm.pace.take(begin, bytes);
  const Cycle arrival = begin + tpc_to_sm_;
  HEDDLE_CHECK(sm.arrivals < places_, "more responses on their way to an SM than it has places");
  std::uint32_t slot = sm.first + sm.arrivals++;
  if (slot >= places_) slot -= places_;
  ring_[std::size_t{id} * places_ + slot] = arrival;
  return arrival;
}

FanOut::Cycle FanOut::room_at(std::uint32_t id, Cycle now) {
  Sm& sm = sms_[id];
  if (sm.arrivals + sm.waiting < places_) return now;
  const Cycle* ring = &ring_[std::size_t{id} * places_];
  while (sm.arrivals > 0 && ring[sm.first] <= now) {
    if (++sm.first == places_) sm.first = 0;
    --sm.arrivals;
  }
  if (sm.arrivals + sm.waiting < places_) return now;
  return sm.arrivals > 0 ? ring[sm.first] : kUnknown;
}

FanOut::Cycle FanOut::acknowledge(const Acknowledgement& answer, std::uint32_t sm, std::uint32_t bytes, Cycle now) {
  if (answer.at_sm != kUnknown) return arrive_copy(sm, bytes, answer.at_sm);
  Cycle at_tpc = answer.at_tpc;
  if (at_tpc == kUnknown) at_tpc = cross(cpcs_[sms_[sm].cpc], bytes, now) + gpc_to_cpc_;
  return arrive_copy(sm, bytes, cross(tpcs_[sms_[sm].tpc], bytes, at_tpc) + cpc_to_tpc_);
}

FanOut::Cycle FanOut::arrive_copy(std::uint32_t id, std::uint32_t bytes, Cycle ready) {
  if (copy_ring_.empty()) copy_ring_.resize(ring_.size());
  const Cycle arrival = cross(sms_[id].pace, bytes, ready) + tpc_to_sm_;
  Copies& copies = copies_[id];
  HEDDLE_CHECK(copies.arrivals < places_, "more copies on their way to an SM than it has places");
  std::uint32_t slot = copies.first + copies.arrivals++;
  if (slot >= places_) slot -= places_;
  copy_ring_[std::size_t{id} * places_ + slot] = arrival;
  return arrival;
}

FanOut::Cycle FanOut::copy_room_at(std::uint32_t id, Cycle now) {
  Copies& copies = copies_[id];
  if (copies.arrivals < places_) return now;
  const Cycle* ring = &copy_ring_[std::size_t{id} * places_];
  while (copies.arrivals > 0 && ring[copies.first] <= now) {
    if (++copies.first == places_) copies.first = 0;
    --copies.arrivals;
  }
  return copies.arrivals < places_ ? now : ring[copies.first];
}

FanOut::Cycle FanOut::copies_room_at(const arch::Topology::Gpc& gpc, std::uint64_t sms, Cycle now) {
  Cycle when = now;
  bits::for_each(sms, [&](std::uint32_t bit) { when = std::max(when, copy_room_at(gpc.sm_ids[bit], now)); });
  return when;
}

void FanOut::reset() {
  copies_.assign(copies_.size(), Copies());
  for (LinkPace& pace : cpcs_) pace.reset();
  for (LinkPace& pace : tpcs_) pace.reset();
  for (Sm& sm : sms_) {
    sm.pace.reset();
    sm.first = sm.arrivals = 0;
    sm.waiting = 0;
  }
}

}  // namespace heddle::memory
