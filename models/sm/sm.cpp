#include "sm/sm.h"

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "sm/cta_duration.h"

namespace heddle::sm {
namespace {

constexpr std::uint32_t kCtaEnds = 0;      // argument: CTA slot
constexpr std::uint32_t kPreloadEnds = 1;  // argument: index of the preload

}  // namespace

Sm::Sm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const SmParams& params,
       const SmPlace& place, std::uint32_t exit_distance, std::uint64_t seed, const arch::CodeStore& code,
       const MemoryView& view)
    : Block(name, domain, path),
      start_in("start_in", domain, exit_distance),
      exit_out("exit_out", domain, exit_distance, kUnlimitedCredits),  // bounded by the CTA slots
      abort_in("abort_in", domain, exit_distance),
      memory_out("memory_out", domain),
      entry_in("entry_in"),
      order_in("order_in", domain, exit_distance),
      notice_out("notice_out", domain, exit_distance, kUnlimitedCredits),  // a few for each CTA and CGA
      // What lies between SMs is the network's.
      dsmem_out("dsmem_out", domain, 0, params.memory.cluster_queue),
      reply_in("reply_in", domain, 0),
      dsmem_in("dsmem_in", domain, 0, CreditReturn::by_owner),
      reply_out("reply_out", domain, 0, params.memory.cluster_queue),
      bulk_out("bulk_out", domain, place.bulk_way, place.bulk_queue),
      bulk_done_in("bulk_done_in", domain, place.bulk_way),
      bulk_data_in("bulk_data_in", domain, place.bulk_way),
      bulk_read_in("bulk_read_in", domain, place.bulk_way),
      bulk_read_out("bulk_read_out", domain, place.bulk_way, kUnlimitedCredits),  // bounded by what the TMAU has open
      child_out("child_out", domain, params.nested.distance, kUnlimitedCredits),  // bounded by the TMDs
      wake_in("wake_in", domain, params.nested.distance),
      capacity_(arch::capacity_of(params.limits)),
      start_cycles_(domain.cost(params.start_cycles)),
      place_(place),
      seed_(seed),
      ctas_(params.limits.ctas),
      started_(counter("ctas", "CTAs", "CTAs started on this SM")),
      warp_cycles_(counter("warp_cycles", "warps x cycles", "resident warps, summed over time")),
      no_wakes_("no_wakes", domain, 0, kUnlimitedCredits),
      engine_(domain, memory_out, ClusterLinks{dsmem_out, dsmem_in, reply_out, place.in_gpc}, BulkLinks{bulk_read_out},
              bulk_out, params, code, view, place, this->name(), domain.observation().prefix + "." + path, *this) {
  entry_in.init(place.tpcs, [&domain](const char* socket, std::size_t) {
    return new PacketIn<protocol::CtaEntryPacket>(socket, domain, 0);
  });
  for (auto& socket : entry_in) socket.on_packet_ahead<Sm, &Sm::on_entry>(*this);
  order_in.on_packet_ahead<Sm, &Sm::on_order>(*this);
  dsmem_in.on_packet<Sm, &Sm::on_cluster_request>(*this);
  dsmem_out.on_credit<Sm, &Sm::on_cluster_room>(*this);
  reply_in.on_packet<Sm, &Sm::on_cluster_reply>(*this);
  reply_out.on_credit<Sm, &Sm::on_cluster_room>(*this);
  bulk_out.on_credit<Sm, &Sm::on_bulk_room>(*this);
  bulk_done_in.on_packet<Sm, &Sm::on_bulk_done>(*this);
  bulk_data_in.on_packet<Sm, &Sm::on_bulk_data>(*this);
  bulk_read_in.on_packet<Sm, &Sm::on_bulk_read>(*this);
  wake_in.on_packet<Sm, &Sm::on_wake>(*this);
  start_in.on_packet_ahead<Sm, &Sm::on_start>(*this);
  abort_in.on_packet<Sm, &Sm::on_abort>(*this);
  memory_out.connect<Sm, &Sm::on_response, &Sm::on_room>(*this);
}

Sm::~Sm() = default;

void Sm::reset() {
  engine_.reset();
  used_ = {};
  base_ = {};
  resident_ = 0;
  for (Cta& cta : ctas_) cta.running = false;
  for (std::size_t i = 0; i < preloads_.size(); ++i) hold(i);
}

void Sm::preload(const arch::ResourceVector& amount, Cycle until) {
  preloads_.push_back({amount, until});
  hold(preloads_.size() - 1);
}

void Sm::hold(std::size_t preload) {
  const Preload& load = preloads_[preload];
  base_.add(load.amount);
  used_.add(load.amount);
  HEDDLE_CHECK(used_.within(capacity_), "an SM was preloaded with more than it has");
  if (load.until > 0) domain_.schedule(load.until, *this, kPreloadEnds, preload);
}

// Ahead of the packet's arrival, by the cycles from the MPC: the resources were free before the distributor sent the
// CTA.
void Sm::on_start(const protocol::CtaStartPacket& start, std::uint32_t, Cycle arrival) {
  HEDDLE_CHECK(start.cta_slot < ctas_.size() && !ctas_[start.cta_slot].running, "a CTA slot was started twice");
  used_.add(start.need);
  HEDDLE_CHECK(used_.within(capacity_), "a CTA was started without the resources for it");
  Cta& cta = ctas_[start.cta_slot];
  cta = {true,       arrival, start.tag,           start.id,        start.order, start.departure,
         start.need, 0,       start.tag.operation, start.area != 0, false};
  ++resident_;
  if (!cta.restored) {
    started_.add();
    if (CtaListener* listener = gpu_observation(domain_).ctas) listener->cta_started(shown(cta, arrival));
  }
  if (start.tag.cga_id != protocol::kNoCgaId) enter_cga(start, arrival);
  if (start.code != arch::kNoCode) {
    engine_.start(start, arrival, arrival + start_cycles_);
    return;
  }
  const Cycle run = start_cycles_ + draw_cycles(start.duration, seed_, start.tag.operation, start.id.index);
  domain_.schedule(arrival + run, *this, kCtaEnds, start.cta_slot);
}

void Sm::enter_cga(const protocol::CtaStartPacket& start, Cycle arrival) {
  engine_.host_cga(start);
  ClusterMap& clusters = gpu_observation(domain_).clusters;
  if (place_.gpc >= clusters.gpcs()) return;
  ClusterMap::Cluster cluster;
  cluster.task = start.tag.operation;
  cluster.cga = start.id.cga;
  cluster.gpc = place_.gpc;
  cluster.local_id = start.tag.cga_id;
  cluster.size = start.id.cga_size;
  clusters.begin(cluster, start.id.rank, place_.id, arrival);
}

void Sm::shared_released(std::uint32_t cta_slot, std::uint32_t bytes) {
  Cta& cta = ctas_[cta_slot];
  cta.released_shared += bytes;
  cta.need[arch::Resource::shared_bytes] -= bytes;
  used_[arch::Resource::shared_bytes] -= bytes;
}

void Sm::before_end_of_elaboration() {
  if (wake_in.size() == 0) no_wakes_.bind(wake_in);
}

void Sm::tell_tasks(const protocol::ChildPacket& packet) {
  HEDDLE_CHECK(child_out.links() > 0, "a task launches on a machine without nested streams");
  child_out.send(packet);
}

void Sm::on_abort(const protocol::AbortPacket& abort, std::uint32_t) { engine_.abort(abort.operation); }

bool Sm::on_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival) {
  return engine_.on_response(payload, arrival);
}

void Sm::on_room(std::uint32_t, Cycle when) { engine_.on_room(when); }

void Sm::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind == kCtaEnds) {
    end(static_cast<std::uint32_t>(argument), false);
    return;
  }
  base_.subtract(preloads_[argument].amount);
  used_.subtract(preloads_[argument].amount);
}

void Sm::cta_restored(std::uint32_t cta_slot, std::uint32_t operation) {
  Cta& cta = ctas_[cta_slot];
  cta.operation = operation;
  if (CtaListener* listener = gpu_observation(domain_).ctas) listener->cta_restored(shown(cta, now()));
}

void Sm::cta_exposed(std::uint32_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  cta.exposed = true;
  if (CtaListener* listener = gpu_observation(domain_).ctas) listener->cta_saved(shown(cta, now()));
}

void Sm::cta_saved(std::uint32_t cta_slot) {
  Cta& cta = ctas_[cta_slot];
  cta.saved = true;
  CtaListener* listener = gpu_observation(domain_).ctas;
  if (listener != nullptr && !cta.exposed) listener->cta_saved(shown(cta, now()));
  end(cta_slot, false);
}

void Sm::end(std::uint32_t cta_slot, bool faulted) {
  Cta& cta = ctas_[cta_slot];
  cta.running = false;
  used_.subtract(cta.need);
  --resident_;
  const std::uint32_t warps = cta.need[arch::Resource::warps];
  GpuObservation& observation = gpu_observation(domain_);
  warp_cycles_.add((now() - cta.begin) * warps);
  observation.load_map.add(place_.id, cta.begin, now(), warps);
  if (observation.ctas != nullptr && !cta.saved) {
    if (cta.exposed) observation.ctas->cta_restored(shown(cta, now()));
    observation.ctas->cta_ended(shown(cta, now()));
  }
  if (observation.timeline != nullptr) draw(cta, cta_slot);
  if (cta.tag.cga_id != protocol::kNoCgaId && place_.gpc < observation.clusters.gpcs()) {
    observation.clusters.end(place_.gpc, cta.tag.cga_id, cta.id.rank, now());
  }
  exit_out.send({cta.tag, cta_slot, faulted, cta.id.rank, cta.released_shared});
}

CtaListener::Cta Sm::shown(const Cta& cta, Cycle cycle) const {
  CtaListener::Cta shown;
  shown.task = cta.operation;
  shown.index = cta.id.index;
  shown.sm = place_.id;
  shown.cycle = cycle;
  shown.x = cta.id.cta.x;
  shown.y = cta.id.cta.y;
  shown.z = cta.id.cta.z;
  shown.cga = cta.id.cga;
  shown.rank = cta.id.rank;
  shown.cga_size = cta.id.cga_size;
  shown.sequence = cta.tag.sequence;
  shown.order = cta.order;
  shown.launch = cta.departure;
  shown.first_instruction = cta.begin + start_cycles_;
  return shown;
}

void Sm::draw(const Cta& cta, std::uint32_t cta_slot) {
  const GpuObservation& observation = gpu_observation(domain_);
  if (tracks_.empty()) tracks_.resize(ctas_.size());
  TrackId& track = tracks_[cta_slot];
  if (track.group == 0) {
    track = observation.timeline->track(observation.prefix + " " + path(), fmt::format("CTA slot {:2}", cta_slot));
  }
  const Picoseconds begin = domain_.time_of(cta.begin);
  const Picoseconds end = domain_.time_of(now());
  const std::string name = observation.labels.of(cta.operation);
  const auto index = static_cast<std::int64_t>(cta.id.index);
  const std::int64_t warps = cta.need[arch::Resource::warps];
  if (cta.saved || cta.restored) {
    observation.timeline->slice(
        track, begin, end, name,
        {{"cta", index}, {"warps", warps}, {"restored", cta.restored ? 1 : 0}, {"saved", cta.saved ? 1 : 0}});
    return;
  }
  if (cta.id.cga_size == 1) {
    observation.timeline->slice(track, begin, end, name, {{"cta", index}, {"warps", warps}});
    return;
  }
  observation.timeline->slice(
      track, begin, end, name,
      {{"cta", index}, {"warps", warps}, {"cga", static_cast<std::int64_t>(cta.id.cga)}, {"rank", cta.id.rank}});
}

// A CTA without a program always ends: its end is an event.
void Sm::collect_waits(WaitGraph& graph) const { engine_.collect_waits(graph); }

}  // namespace heddle::sm
