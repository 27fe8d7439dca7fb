#include "sm/sm.h"

#include <fmt/format.h>

#include "sm/cta_duration.h"

namespace heddle::sm {

Sm::Sm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const SmParams& params,
       std::uint32_t id, std::uint32_t exit_distance, std::uint64_t seed)
    : Block(name, domain, path),
      start_in("start_in", domain, exit_distance),
      exit_out("exit_out", domain, exit_distance, kUnlimitedCredits),  // bounded by the CTA slots
      capacity_(arch::capacity_of(params.limits)),
      start_cycles_(domain.cost(params.start_cycles)),
      id_(id),
      seed_(seed),
      ctas_(params.limits.ctas),
      started_(counter("ctas", "CTAs", "CTAs started on this SM")),
      warp_cycles_(counter("warp_cycles", "warps x cycles", "resident warps, summed over time")) {
  start_in.on_packet_ahead<Sm, &Sm::on_start>(*this);
}

void Sm::reset() {
  used_ = {};
  resident_ = 0;
  for (Cta& cta : ctas_) cta.running = false;
}

// Ahead of the packet's arrival, by the cycles from the MPC: the resources were free before the distributor sent the
// CTA.
void Sm::on_start(const protocol::CtaStartPacket& start, std::uint32_t, Cycle arrival) {
  HEDDLE_CHECK(start.cta_slot < ctas_.size() && !ctas_[start.cta_slot].running, "a CTA slot was started twice");
  used_.add(start.need);
  HEDDLE_CHECK(used_.within(capacity_), "a CTA was started without the resources for it");
  ctas_[start.cta_slot] = {true, start.slot, start.operation, start.index, arrival, start.need};
  ++resident_;
  started_.add();
  if (CtaListener* listener = domain_.observation().ctas) {
    listener->cta_started({start.operation, start.index, id_, arrival});
  }
  const Cycle run = start_cycles_ + draw_cycles(start.duration, seed_, start.operation, start.index);
  domain_.schedule(arrival + run, *this, 0, start.cta_slot);
}

void Sm::on_event(std::uint32_t, std::uint64_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  cta.running = false;
  used_.subtract(cta.need);
  --resident_;
  const std::uint32_t warps = cta.need[arch::Resource::warps];
  Observation& observation = domain_.observation();
  warp_cycles_.add((now() - cta.begin) * warps);
  observation.load_map.add(id_, cta.begin, now(), warps);
  if (observation.ctas != nullptr) observation.ctas->cta_ended({cta.operation, cta.index, id_, now()});
  if (observation.timeline != nullptr) {
    if (tracks_.empty()) tracks_.resize(ctas_.size());
    TrackId& track = tracks_[cta_slot];
    if (track.group == 0) {
      track = observation.timeline->track(observation.prefix + " " + path(), fmt::format("CTA slot {:2}", cta_slot));
    }
    observation.timeline->slice(track, domain_.clock().time_of(cta.begin), domain_.clock().time_of(now()),
                                observation.labels.of(cta.operation),
                                {{"cta", static_cast<std::int64_t>(cta.index)}, {"warps", warps}});
  }
  exit_out.send({cta.slot, static_cast<std::uint32_t>(cta_slot)});
}

void Sm::collect_waits(WaitGraph&) const {}  // a CTA that runs always ends: its end is an event

}  // namespace heddle::sm
