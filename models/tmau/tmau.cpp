#include "tmau/tmau.h"

#include <utility>

#include <fmt/format.h>

namespace heddle::tmau {

using protocol::BulkDataPacket;
using protocol::BulkPeerPacket;
using protocol::BulkReadPacket;
using protocol::BulkRequestPacket;

Tmau::Tmau(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const TmauParams& params,
           TmauPlace place)
    : Block(name, domain, path),
      request_in("request_in"),
      done_out("done_out", domain, 1, kUnlimitedCredits),
      data_out("data_out", domain, 0, kUnlimitedCredits),
      read_out("read_out", domain, 1, kUnlimitedCredits),
      read_in("read_in"),
      multicast_in("multicast_in"),
      peer_out("peer_out", domain, 0, kUnlimitedCredits),
      peer_in("peer_in", domain, 0),
      params_(params),
      place_(std::move(place)),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path),
      unit_{domain, params_, place_, works_, stats_, *this, handler_name(), path},
      reporter_(unit_, done_out),
      ports_(unit_, domain, store_),
      delivery_(unit_, data_out, peer_out),
      sender_(unit_, store_, ports_, delivery_, read_out),
      generator_(unit_, ports_, sender_),
      setup_(unit_, generator_, sender_, ports_),
      selector_(unit_, input_, setup_, generator_),
      intake_(unit_, input_, selector_, setup_, reporter_),
      completion_(unit_, sender_, ports_, delivery_, generator_, reporter_, intake_) {
  HEDDLE_CHECK(place_.sms() > 0 && place_.per_unit > 0 && place_.number < place_.units,
               "a TMAU has a place that does not exist");
  const std::uint32_t sms = place_.sms();
  request_in.init(sms, [&](const char* socket, std::size_t) {
    return new PacketIn<BulkRequestPacket>(socket, domain, params.input, CreditReturn::by_owner);
  });
  read_in.init(sms, [&](const char* socket, std::size_t) { return new PacketIn<BulkReadPacket>(socket, domain, 0); });
  multicast_in.init(sms,
                    [&](const char* socket, std::size_t) { return new PacketIn<BulkDataPacket>(socket, domain, 0); });
  for (std::uint32_t sm = 0; sm < sms; ++sm) {
    input_.push_back(&request_in[sm]);
    request_in[sm].on_packet<Tmau, &Tmau::on_request>(*this, sm);
    read_in[sm].on_packet_ahead<Tmau, &Tmau::on_read>(*this, sm);
    multicast_in[sm].on_packet_ahead<Tmau, &Tmau::on_multicast>(*this, sm);
  }
  peer_in.on_packet_ahead<Tmau, &Tmau::on_peer>(*this);
}

Tmau::~Tmau() = default;

void Tmau::on_request(const BulkRequestPacket& packet, std::uint32_t sm) { intake_.arrive(packet, sm); }

void Tmau::on_read(const BulkReadPacket& packet, std::uint32_t sm, Cycle arrival) {
  completion_.source_read(packet, sm, arrival);
}

void Tmau::on_multicast(const BulkDataPacket& packet, std::uint32_t sm, Cycle arrival) {
  HEDDLE_CHECK(packet.sm == place_.first + sm, "multicast data came to the wrong SM");
  if (packet.accepted) return completion_.accepted(*packet.request, sm, arrival);
  stats_.multicast_received.add(packet.lines == nullptr ? 1 : packet.lines->count);
  delivery_.receive(packet, arrival);
}

void Tmau::on_peer(const BulkPeerPacket& packet, std::uint32_t /*link*/, Cycle arrival) {
  if (packet.kind == BulkPeerPacket::Kind::fill) return delivery_.receive(packet.data, arrival);
  stats_.acknowledgements.add(packet.count);
  completion_.acknowledged(packet.request, packet.count, packet.phase, arrival);
}

void Tmau::answered(protocol::MemoryRequest& request, std::uint32_t sm, Cycle arrival) {
  if (LineSender::role_of(request) == LineSender::Role::descriptor) {
    setup_.fetched(request, works_[LineSender::number_of(request)], arrival);
  } else {
    completion_.answered(request, sm, arrival);
  }
}

bool Tmau::quiescent() const { return works_.empty() && setup_.idle() && reporter_.quiet() && store_.all_home(); }

void Tmau::check_idle() { HEDDLE_CHECK(quiescent(), "a tensor memory access unit of an idle machine has work"); }

void Tmau::reset() {
  reporter_.reset();
  ports_.reset();
  sender_.reset();
  generator_.reset();
  setup_.reset();
  selector_.reset();
  intake_.reset();
  works_.reset();
  store_.reset();
}

void Tmau::collect_waits(WaitGraph& graph) const {
  works_.for_each([&](const BulkWork& work) { add_waits(work, graph); });
}

void Tmau::add_waits(const BulkWork& work, WaitGraph& graph) const {
  const std::string name = unit_.name_of(work);
  // The first name is that by which the SM speaks of its requests.
  graph.add(fmt::format("bulk requests of SM {}, CTA {}", place_.ids[work.sm], work.packet.cta), "one of which is",
            name);
  switch (work.stage) {
    case BulkWork::Stage::input:
      return intake_.add_waits(work, graph);
    case BulkWork::Stage::queue:
      return selector_.add_waits(work, graph);
    case BulkWork::Stage::descriptor:
      return graph.add(name, fmt::format("for the descriptor at {:#x} from", work.request().descriptor), "memory");
    default:
      break;
  }
  if (work.kind() == arch::BulkKind::drain) return intake_.add_waits(work, graph);
  if (!work.generated() && generator_.first(unit_.lane_of(work)).number != work.number) {
    return graph.add(name, "for its turn behind", unit_.name_of(generator_.first(unit_.lane_of(work))));
  }
  completion_.add_waits(work, graph);
  generator_.add_waits(work, graph);
}

}  // namespace heddle::tmau
