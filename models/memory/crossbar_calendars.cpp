#include "memory/crossbar_calendars.h"

#include <algorithm>

namespace heddle::memory {
namespace {

std::vector<bool> built(const std::vector<std::uint32_t>& links) {
  std::vector<bool> result;
  for (const std::uint32_t link : links) result.push_back(link != LinkNetwork::kNone);
  return result;
}

}  // namespace

CrossbarCalendars::CrossbarCalendars(const CrossbarParams& params, const arch::Topology& topology,
                                     const CrossbarRoutes& routes, const CrossbarRoutes::Ports& requests,
                                     const CrossbarRoutes::Ports& responses)
    : params_(params), routes_(routes) {
  std::vector<std::uint32_t> first_tpc;
  std::vector<std::uint32_t> first_cpc;
  for (std::uint32_t gpc = 0; gpc < topology.gpcs(); ++gpc) {
    const arch::Topology::Gpc& shape = topology.gpc(gpc);
    const double share = params.gpc_share(shape.sms);
    up_.gpcs.emplace_back(params.gpc_bandwidth * share);
    down_.gpcs.emplace_back(params.gpc_read_bandwidth * share);
    down_.copiers.emplace_back(params.copies * share);
    first_tpc.push_back(static_cast<std::uint32_t>(up_.tpcs.size()));
    first_cpc.push_back(static_cast<std::uint32_t>(up_.cpcs.size()));
    std::vector<double> of_cpc(shape.cpcs, 0);
    for (const arch::Topology::Tpc& tpc : shape.tpcs) {
      up_.tpcs.emplace_back(params.tpc_bandwidth);
      down_.tpcs.emplace_back(params.tpc_read_bandwidth);
      const double rate = tpc.sms * params.sm_bandwidth;
      up_.tpc_limits.push_back(rate > params.tpc_bandwidth);
      of_cpc[tpc.cpc] += std::min(rate, params.tpc_bandwidth);
    }
    for (const double rate : of_cpc) {
      up_.cpcs.emplace_back(params.cpc_bandwidth);
      down_.cpcs.emplace_back(params.cpc_read_bandwidth);
      up_.cpc_limits.push_back(rate > params.cpc_bandwidth);
    }
  }
  for (std::uint32_t id = 0; id < topology.sms(); ++id) {
    const arch::Topology::Sm& place = topology.sm(id);
    ways_.push_back({first_tpc[place.gpc] + place.tpc, first_cpc[place.gpc] + place.cpc, place.gpc});
  }
  up_.sms.assign(topology.sms(), ReservedLink(params.sm_bandwidth));
  down_.sms.assign(topology.sms(), ReservedLink(params.sm_read_bandwidth));
  down_.l1s.assign(topology.sms(), ReservedLink(params.l1_read_bandwidth));
  up_.slices.assign(routes.slices(), ReservedLink(params.slice_bandwidth));
  down_.slices = up_.slices;
  up_.crossings.assign(requests.crossings.size(), ReservedLink(params.crossing_bandwidth));
  down_.crossings = up_.crossings;
  up_.crossing_limits = built(requests.crossings);
  down_.crossing_limits = built(responses.crossings);
}

Cycle CrossbarCalendars::cross(Links& links, const std::vector<bool>& limits, std::uint32_t from, std::uint32_t to,
                               std::uint32_t bytes, Cycle when) {
  if (from == to) return when;
  const std::size_t number = std::size_t{from} * routes_.partitions() + to;
  return (limits[number] ? links[number].take(when, bytes) : when) + params_.crossing;
}

CrossbarCalendars::Request CrossbarCalendars::request(std::uint32_t sm, std::uint32_t slice, std::uint32_t bytes,
                                                      Cycle when) {
  const Sm& way = ways_[sm];
  when = up_.sms[sm].take(when, bytes) + params_.sm_to_tpc;
  if (up_.tpc_limits[way.tpc]) when = up_.tpcs[way.tpc].take(when, bytes);
  when += params_.tpc_to_cpc;
  if (up_.cpc_limits[way.cpc]) when = up_.cpcs[way.cpc].take(when, bytes);
  Request result;
  result.at_gpc = up_.gpcs[way.gpc].take(when + params_.cpc_to_gpc, bytes);
  when = cross(up_.crossings, up_.crossing_limits, routes_.partition_of_gpc(way.gpc), routes_.partition_of_slice(slice),
               bytes, result.at_gpc + params_.gpc_to_slice);
  result.arrival = up_.slices[slice].take(when, bytes);
  return result;
}

Cycle CrossbarCalendars::to_gpc(std::uint32_t gpc, std::uint32_t slice, std::uint32_t bytes, Cycle when) {
  when = down_.slices[slice].take(when, bytes) + params_.gpc_to_slice;
  when = cross(down_.crossings, down_.crossing_limits, routes_.partition_of_slice(slice), routes_.partition_of_gpc(gpc),
               bytes, when);
  return down_.gpcs[gpc].take(when, bytes);
}

Cycle CrossbarCalendars::fan_out(std::uint32_t sm, std::uint32_t bytes, Cycle when) {
  const Sm& way = ways_[sm];
  when = down_.cpcs[way.cpc].take(when, bytes) + params_.cpc_to_gpc;
  when = down_.tpcs[way.tpc].take(when, bytes) + params_.tpc_to_cpc;
  return down_.sms[sm].take(when, bytes) + params_.sm_to_tpc;
}

Cycle CrossbarCalendars::response(std::uint32_t sm, std::uint32_t slice, std::uint32_t bytes, bool bulk, Cycle when) {
  when = fan_out(sm, bytes, to_gpc(ways_[sm].gpc, slice, bytes, when));
  return bulk ? when : down_.l1s[sm].take(when, bytes);
}

Cycle CrossbarCalendars::copy(std::uint32_t sm, std::uint32_t bytes, Cycle when) {
  return fan_out(sm, bytes, down_.copiers[ways_[sm].gpc].take(when, 1));
}

void CrossbarCalendars::reset() {
  for (Links* links :
       {&up_.sms, &up_.tpcs, &up_.cpcs, &up_.gpcs, &up_.crossings, &up_.slices, &down_.slices, &down_.crossings,
        &down_.gpcs, &down_.cpcs, &down_.tpcs, &down_.sms, &down_.l1s, &down_.copiers}) {
    for (ReservedLink& link : *links) link.reset();
  }
}

}  // namespace heddle::memory
