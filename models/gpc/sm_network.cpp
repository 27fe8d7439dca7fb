#include "gpc/sm_network.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "arch/gpu_observation.h"

namespace heddle::gpc {
namespace {

using protocol::DsmemPacket;

constexpr double kFree = 1e9;  // bytes per cycle: more than comes

// By SM, from `near` at the first TPC to `far` at the last one.
std::vector<Cycle> distances(const Domain& domain, const SmNetworkParams& params, const arch::Topology::Gpc& gpc) {
  std::vector<Cycle> result(gpc.sms);
  const auto last = static_cast<double>(gpc.tpcs.size() - 1);
  for (std::size_t tpc = 0; tpc < gpc.tpcs.size(); ++tpc) {
    const double share = tpc == 0 ? 0 : static_cast<double>(tpc) / last;
    const double cycles = params.near + share * (static_cast<double>(params.far) - params.near);
    for (std::uint32_t i = 0; i < gpc.tpcs[tpc].sms; ++i) {
      result[gpc.tpcs[tpc].first_sm + i] = domain.cost(static_cast<Cycle>(std::llround(cycles)));
    }
  }
  return result;
}

std::vector<std::uint32_t> tpcs_of(const arch::Topology::Gpc& gpc) {
  std::vector<std::uint32_t> result(gpc.sms);
  for (std::uint32_t tpc = 0; tpc < gpc.tpcs.size(); ++tpc) {
    std::fill_n(result.begin() + gpc.tpcs[tpc].first_sm, gpc.tpcs[tpc].sms, tpc);
  }
  return result;
}

}  // namespace

SmLinks::SmLinks(LinkNetwork& network, const SmNetworkParams& params, TimingMode mode, const arch::Topology::Gpc& gpc,
                 const std::vector<Cycle>& distance)
    : sms_(gpc.sms), queue_(params.queue), bandwidth_(mode != TimingMode::lt ? params.bandwidth : kFree) {
  const std::vector<std::uint32_t> tpcs = tpcs_of(gpc);
  const double between = mode != TimingMode::lt ? params.between_tpcs(sms_) : 0;
  const std::uint32_t middle = sms_;  // its link, if there is one
  for (std::uint32_t to = 0; to < sms_; ++to) {
    const std::uint32_t link = network.add_link(fmt::format("into SM {}", gpc.sm_ids[to]), bandwidth_);
    for (std::uint32_t from = 0; from < sms_; ++from) {
      const bool meets = between > 0 && tpcs[from] != tpcs[to];
      LinkNetwork::BufferSpec spec;
      spec.link = link;
      spec.upstream = meets ? middle : LinkNetwork::kNone;
      spec.owner = from;
      spec.latency = static_cast<std::uint32_t>(distance[to] + (meets ? 0 : distance[from]));
      spec.capacity = room(spec.latency);
      const std::uint32_t place = network.add_buffer(spec);
      entries_.push_back(meets ? exit_of(sms_) + from : place);
    }
  }
  for (std::uint32_t to = 0; to < sms_; ++to) network.route_to(to, network.add_egress(to, to));
  if (between > 0) add_middle(network, between, distance);
}

// A packet's flow is its place.
void SmLinks::add_middle(LinkNetwork& network, double bandwidth, const std::vector<Cycle>& distance) const {
  const std::uint32_t link = network.add_link("between TPCs", bandwidth);
  for (std::uint32_t from = 0; from < sms_; ++from) {
    LinkNetwork::BufferSpec spec;
    spec.link = link;
    spec.owner = from;
    spec.latency = static_cast<std::uint32_t>(distance[from]);
    spec.capacity = room(spec.latency);
    const std::uint32_t buffer = network.add_buffer(spec);
    HEDDLE_CHECK(buffer == exit_of(sms_) + from, "the inputs of a GPC's limit are not where its entries say");
  }
  std::vector<std::uint32_t> places(entries_.size());
  std::iota(places.begin(), places.end(), 0);
  network.route_by_table(link, network.add_table(std::move(places)));
}

// Packets that fill a wire, and wait at its end.
std::uint32_t SmLinks::room(std::uint32_t latency) const {
  return queue_ + static_cast<std::uint32_t>(std::ceil(latency * bandwidth_ / kDsmemHeaderBytes));
}

SmNetwork::SmNetwork(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                     const SmNetworkParams& params, const arch::Topology::Gpc& gpc, std::uint32_t gpc_number,
                     std::uint32_t sms_per_unit)
    : Block(name, domain, path),
      request_in("request_in"),
      reply_in("reply_in"),
      request_out("request_out", domain, 0, params.queue),
      reply_out("reply_out", domain, 0, params.queue),
      peer_in("peer_in"),
      peer_out("peer_out", domain, 0, kUnlimitedCredits),
      sms_per_unit_(sms_per_unit),
      sm_ids_(gpc.sm_ids),
      gpc_(gpc_number),
      clusters_(gpu_observation(domain).clusters),
      distance_(distances(domain, params, gpc)),
      requests_(*this, false, params, gpc, request_in, request_out),
      replies_(*this, true, params, gpc, reply_in, reply_out) {
  const std::uint32_t units = sms_per_unit == 0 ? 0 : (gpc.sms + sms_per_unit - 1) / sms_per_unit;
  peer_in.init(units, [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::BulkPeerPacket>(socket, domain, 0);
  });
  for (std::uint32_t unit = 0; unit < units; ++unit)
    peer_in[unit].on_packet<SmNetwork, &SmNetwork::on_peer>(*this, unit);
}

SmNetwork::~SmNetwork() = default;

SmNetwork::Plane::Plane(SmNetwork& owner, bool replies, const SmNetworkParams& params, const arch::Topology::Gpc& gpc,
                        sc_core::sc_vector<PacketIn<DsmemPacket>>& in, PacketOut<DsmemPacket>& out)
    : owner_(owner),
      replies_(replies),
      in_(in),
      out_(out),
      network_(*this),
      links_(network_, params, owner.domain_.mode(), gpc, owner.distance_),
      ports_(gpc.sms, Port(links_.bandwidth())),
      count_(owner.counter(replies ? "replies" : "requests", "packets", "packets that reached their SM")),
      bytes_(owner.counter(replies ? "reply_bytes" : "request_bytes", "bytes", "the same, with headers")),
      delayed_(owner.counter(replies ? "delayed_replies" : "delayed_requests", "packets",
                             "those that had to wait for a port or for room")),
      delay_(owner.counter(replies ? "reply_delay" : "request_delay", "cycles", "what they waited, together")) {
  for (Port& port : ports_) port.acks.resize(sms());
  in_.init(sms(), [&](const char* socket, std::size_t) {
    return new PacketIn<DsmemPacket>(socket, owner.domain_, 0, CreditReturn::by_owner);
  });
  for (std::uint32_t sm = 0; sm < sms(); ++sm) in_[sm].on_packet<Plane, &Plane::on_packet>(*this, sm);
  out_.on_credit<Plane, &Plane::on_credit>(*this);
}

void SmNetwork::Plane::on_packet(const DsmemPacket& packet, std::uint32_t from) {
  HEDDLE_CHECK(packet.from_sm == from && packet.to_sm < sms(), "a DSMEM packet names SMs that it is not between");
  if (owner_.domain_.mode() == TimingMode::lt && pass_straight(packet, from)) return;
  const std::uint32_t slot = slots_.take();
  slots_[slot] = {packet, std::nullopt, owner_.now(), dsmem_bytes(packet, replies_)};
  start(slot, from, ports_[from].waiting);
}

void SmNetwork::Plane::on_peer(const protocol::BulkPeerPacket& packet) {
  HEDDLE_CHECK(packet.from_sm < sms() && packet.to_sm < sms(), "a TMAU's packet names SMs that the GPC does not have");
  if (merge(packet)) return;
  const std::uint32_t slot = slots_.take();
  DsmemPacket way;
  way.from_sm = packet.from_sm;
  way.to_sm = packet.to_sm;
  slots_[slot] = {way, packet, owner_.now(), peer_bytes(packet)};
  start(slot, packet.from_sm, ports_[packet.from_sm].of_unit);
}

// With an acknowledgement of the same request that waits for the port.
bool SmNetwork::Plane::merge(const protocol::BulkPeerPacket& packet) {
  if (packet.kind != protocol::BulkPeerPacket::Kind::acknowledge) return false;
  const std::optional<std::uint32_t> waiting = ports_[packet.from_sm].acks[packet.to_sm];
  if (!waiting) return false;
  protocol::BulkPeerPacket& ack = *slots_[*waiting].of_unit;
  if (ack.request != packet.request || ack.phase != packet.phase) return false;
  ack.count += packet.count;
  return true;
}

void SmNetwork::Plane::start(std::uint32_t slot, std::uint32_t from, Ring<std::uint32_t>& queue) {
  const bool free = ports_[from].idle() && ports_[from].pace.free_at(owner_.now());
  if (free && !network_.full(links_.entry_of(from, slots_[slot].packet.to_sm))) return inject(slot, from);
  queue.push(slot);
  const std::optional<protocol::BulkPeerPacket>& of_unit = slots_[slot].of_unit;
  if (of_unit && of_unit->kind == protocol::BulkPeerPacket::Kind::acknowledge) ports_[from].acks[of_unit->to_sm] = slot;
  send_waiting(from);
}

// In lt mode, if nothing is in front of it.
bool SmNetwork::Plane::pass_straight(const DsmemPacket& packet, std::uint32_t from) {
  const std::uint32_t to = packet.to_sm;
  if (!ports_[from].idle() || network_.packets_at(links_.place_of(from, to)) != 0 || !out_.can_send(to)) return false;
  count(packet, dsmem_bytes(packet, replies_));
  out_.send(packet, to);
  in_[from].return_credit();
  if (!out_.can_send(to)) network_.close(links_.exit_of(to));
  return true;
}

void SmNetwork::Plane::send_waiting(std::uint32_t from) {
  Port& port = ports_[from];
  const Cycle now = owner_.now();
  while (!ports_[from].idle() && !port.awaited) {
    if (!port.pace.free_at(now)) {
      port.awaited = true;
      owner_.domain_.schedule(port.pace.earliest(now), *this, kPortFree, from);
      return;
    }
    const bool unit = port.unit_first;
    if (!send_first(from, unit) && !send_first(from, !unit)) return;  // credit() follows
  }
}

// The oldest packet of the SM, or of the unit, passes the port, if its target has a place.
bool SmNetwork::Plane::send_first(std::uint32_t from, bool unit) {
  Ring<std::uint32_t>& queue = unit ? ports_[from].of_unit : ports_[from].waiting;
  if (queue.empty() || network_.full(links_.entry_of(from, slots_[queue.front()].packet.to_sm))) return false;
  ports_[from].unit_first = !unit;
  inject(queue.pop(), from);
  return true;
}

// Past the port out of the SM.
void SmNetwork::Plane::inject(std::uint32_t slot, std::uint32_t from) {
  const Cycle now = owner_.now();
  LinkPacket packet;
  packet.entered = slot;
  packet.bytes = slots_[slot].bytes;
  ports_[from].pace.take(now, packet.bytes);
  packet.flow = links_.place_of(from, slots_[slot].packet.to_sm);
  network_.enter(links_.entry_of(from, slots_[slot].packet.to_sm), packet, now);
  if (!slots_[slot].of_unit) return in_[from].return_credit();
  std::optional<std::uint32_t>& ack = ports_[from].acks[slots_[slot].packet.to_sm];
  if (ack == slot) ack.reset();
}

bool SmNetwork::Plane::eject(std::uint32_t to, const LinkPacket& packet, Cycle now) {
  const Slot slot = slots_[packet.entered];
  const Cycle delay = now - slot.arrival - owner_.latency(slot.packet.from_sm, to);
  if (delay > 0) {
    delayed_.add();
    delay_.add(delay);
  }
  slots_.give_back(packet.entered);
  deliver(slot);
  return out_.can_send(to);
}

void SmNetwork::Plane::deliver(const Slot& slot) {
  count(slot.packet, slot.bytes);
  if (slot.of_unit) {
    owner_.peer_out.send(*slot.of_unit, slot.packet.to_sm / owner_.sms_per_unit_);
  } else {
    out_.send(slot.packet, slot.packet.to_sm);
  }
}

void SmNetwork::Plane::count(const DsmemPacket& packet, std::uint32_t bytes) {
  count_.add();
  bytes_.add(bytes);
  ClusterMap& clusters = owner_.clusters_;
  if (owner_.gpc_ < clusters.gpcs()) clusters.traffic(owner_.gpc_, packet.from_sm, packet.to_sm, bytes);
}

void SmNetwork::Plane::credit(std::uint32_t owner, Cycle /*now*/) { send_waiting(owner); }

void SmNetwork::Plane::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind != kPortFree) {
    network_.on_event(kind, argument, owner_.now());
    return;
  }
  const auto from = static_cast<std::uint32_t>(argument);
  ports_[from].awaited = false;
  send_waiting(from);
}

void SmNetwork::Plane::reset() {
  network_.reset();
  for (Port& port : ports_) {
    port.pace.reset();
    port.waiting.clear();
    port.of_unit.clear();
    port.unit_first = false;
    std::fill(port.acks.begin(), port.acks.end(), std::nullopt);
    port.awaited = false;
  }
  slots_.clear();
}

void SmNetwork::Plane::add_waits(WaitGraph& graph) const {
  const auto sm = [&](std::uint32_t bit) { return fmt::format("SM {}", owner_.sm_ids_[bit]); };
  const auto port = [&](std::uint32_t link) {
    return fmt::format("the port for {} {} of {}.{}", replies_ ? "replies" : "requests", network_.name_of(link),
                       owner_.domain_.observation().prefix, owner_.path());
  };
  network_.for_each_wait([&](std::uint32_t place) {
    const std::uint32_t upstream = network_.upstream_of(place);
    const std::uint32_t link = network_.link_of(place);
    const std::string owner = sm(network_.owner_of(place));
    graph.add(upstream == LinkNetwork::kNone ? owner : port(upstream), "for room at",
              link == LinkNetwork::kNone ? owner : port(link));
  });
}

void SmNetwork::check_idle() { HEDDLE_CHECK(packets() == 0, "packets of an idle machine are between its SMs"); }

void SmNetwork::reset() {
  requests_.reset();
  replies_.reset();
}

void SmNetwork::collect_waits(WaitGraph& graph) const {
  requests_.add_waits(graph);
  replies_.add_waits(graph);
}

}  // namespace heddle::gpc
