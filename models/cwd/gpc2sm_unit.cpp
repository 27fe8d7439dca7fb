#include "cwd/gpc2sm_unit.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::cwd {

Gpc2SmUnit::Gpc2SmUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                       const CwdParams& params, const arch::Topology& topology, std::uint32_t gpc,
                       const std::vector<std::uint32_t>& sm_priority, const SmPolicy& load_balancing,
                       const SmPolicy& multicast, const DomainPolicy& cpc_policy)
    : Block(name, domain, path),
      snapshot_in("snapshot_in", domain, 0),
      mimic_in("mimic_in", domain, 0),
      home_in("home_in", domain, 0),
      answer_out("answer_out", domain, params.query_distance, kUnlimitedCredits),  // one answer per query
      mask_out("mask_out", domain, 0, kUnlimitedCredits),                          // bounded by the free slots
      step_(domain.cost(params.session_step)),
      mask_cycles_(domain.cost(params.mask_cycles)),
      model_(topology, gpc, sm_priority, load_balancing, multicast, cpc_policy),
      stats_(domain.observation().stats, domain.observation().prefix + "." + path) {
  snapshot_in.on_packet<Gpc2SmUnit, &Gpc2SmUnit::on_snapshot>(*this);
  mimic_in.on_packet<Gpc2SmUnit, &Gpc2SmUnit::on_mimic>(*this);
  home_in.on_packet<Gpc2SmUnit, &Gpc2SmUnit::on_home>(*this);
  if (timeline() != nullptr) {
    track_ = timeline()->track(domain.observation().prefix + " cwd", fmt::format("gpc2sm {}", gpc));
    mask_track_ = timeline()->track(domain.observation().prefix + " cwd", fmt::format("gpc2sm {} masks", gpc));
  }
}

Gpc2SmUnit::~Gpc2SmUnit() = default;

void Gpc2SmUnit::reset() {
  count_ = accepted_ = 0;
  masks_ready_ = 0;
}

void Gpc2SmUnit::on_snapshot(const protocol::SnapshotPacket& snapshot, std::uint32_t) {
  model_.begin(snapshot.free, {snapshot.ctas, snapshot.cpc_ctas}, snapshot.multicast, snapshot.cgas);
  count_ = accepted_ = 0;
}

void Gpc2SmUnit::on_mimic(const protocol::MimicPacket& mimic, std::uint32_t) {
  if (mimic.reserve) {
    if (reserved_.size() == count_) reserved_.emplace_back();
    reserved_[count_++] = model_.masks();
    model_.reserve();
  }
  if (mimic.cancel) model_.cancel();
  if (mimic.revert) {
    model_.revert();
    count_ = accepted_;
  }
  if (mimic.accept) {
    model_.accept();
    accepted_ = count_;
  }
  if (mimic.query) ask();
}

// The registers change when a command arrives; the answer leaves when its decisions have been made.
void Gpc2SmUnit::ask() {
  const GpcReply reply = model_.query();
  stats_.queries.add();
  stats_.steps.add(reply.steps);
  stats_.valid.add(reply.answer.valid ? 1 : 0);
  const Cycle ready = now() + std::max<Cycle>(1, reply.steps) * step_;
  answer_out.send_at(ready, {reply.answer.valid, reply.answer.speed});
  if (timeline() != nullptr) {
    timeline()->slice(track_, domain_.time_of(now()), domain_.time_of(ready),
                      reply.answer.valid ? fmt::format("fits, speed {}", reply.answer.speed) : std::string("no room"),
                      {{"speed", reply.answer.valid ? static_cast<std::int64_t>(reply.answer.speed) : -1},
                       {"steps", reply.steps},
                       {"reserved", model_.reserved()}});
  }
}

void Gpc2SmUnit::on_home(const protocol::HomePacket& home, std::uint32_t) {
  HEDDLE_CHECK(home.nth < accepted_, "a CGA is to be started that was not accepted");
  const std::vector<std::uint64_t>& masks = reserved_[home.nth];
  protocol::MaskPacket packet;
  packet.order = home.order;
  packet.unit = home.unit;
  packet.last = home.last;
  masks_ready_ = std::max(masks_ready_, now());
  const Cycle begin = masks_ready_;
  for (std::size_t i = 0; i < masks.size(); ++i) {
    packet.masks[packet.count++] = masks[i];
    masks_ready_ += mask_cycles_;
    packet.final = i + 1 == masks.size();
    if (!packet.final && packet.count < protocol::kMasksPerMaskPacket) continue;
    stats_.masks.add(packet.count);
    mask_out.send_at(masks_ready_, packet);
    packet.count = 0;
  }
  if (timeline() == nullptr || masks_ready_ == begin) return;
  timeline()->slice(mask_track_, domain_.time_of(begin), domain_.time_of(masks_ready_),
                    masks.size() == 1 ? fmt::format("mask {:#x}", masks[0]) : fmt::format("{} masks", masks.size()),
                    {{"first_mask", static_cast<std::int64_t>(masks[0])},
                     {"order", home.order},
                     {"unit", static_cast<std::int64_t>(home.unit)}});
}

}  // namespace heddle::cwd
