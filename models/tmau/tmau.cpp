#include "tmau/tmau.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::tmau {

using protocol::BulkDonePacket;
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
      peer_out("peer_out", domain, params.peer, kUnlimitedCredits),
      peer_in("peer_in"),
      params_(params),
      place_(std::move(place)),
      blocking_(domain.mode() == TimingMode::lt),
      uses_table_(params.tracking == Tracking::table),
      response_(domain.cost(params.response)),
      descriptor_hit_(domain.cost(params.descriptor_hit)),
      setup_(domain.cost(params.setup)),
      generate_(domain.cost(params.generate)),
      lanes_(place_.ids.size(), Lane(params.order)),
      arbiter_(static_cast<std::uint32_t>(place_.ids.size())),
      turns_(static_cast<std::uint32_t>(place_.ids.size())),
      cache_(params.descriptors),
      pace_(params.rate),
      outstanding_(params.outstanding),
      table_(params.table),
      pool_(std::make_unique<protocol::RequestPool>()),
      stats_(domain.observation().stats, stat_path("").substr(0, stat_path("").size() - 1)) {
  HEDDLE_CHECK(!place_.ids.empty() && place_.per_unit > 0 && place_.number < place_.units,
               "a TMAU has a place that does not exist");
  request_in.init(sms(), [&](const char* socket, std::size_t) {
    return new PacketIn<BulkRequestPacket>(socket, domain, params.input, CreditReturn::by_owner);
  });
  read_in.init(sms(), [&](const char* socket, std::size_t) { return new PacketIn<BulkReadPacket>(socket, domain, 0); });
  multicast_in.init(sms(), [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::BulkDataPacket>(socket, domain, 0);
  });
  peer_in.init(place_.units, [&](const char* socket, std::size_t) {
    return new PacketIn<protocol::BulkPeerPacket>(socket, domain, 0);
  });
  for (std::uint32_t sm = 0; sm < sms(); ++sm) {
    request_in[sm].on_packet<Tmau, &Tmau::on_request>(*this, sm);
    read_in[sm].on_packet_ahead<Tmau, &Tmau::on_read>(*this, sm);
    multicast_in[sm].on_packet_ahead<Tmau, &Tmau::on_multicast>(*this, sm);
    memory_out_.push_back(std::make_unique<MemoryOut>(fmt::format("memory_out_{}", sm).c_str(), domain));
    memory_out_.back()->connect<Tmau, &Tmau::on_response, &Tmau::on_room>(*this, sm);
  }
  for (std::uint32_t unit = 0; unit < place_.units; ++unit) {
    peer_in[unit].on_packet_ahead<Tmau, &Tmau::on_peer>(*this, unit);
  }
}

Tmau::~Tmau() = default;

void Tmau::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto sm = static_cast<std::uint32_t>(argument);
  switch (kind) {
    case kChoose:
      if (choose_at_ != now()) return;  // it was entered again for an earlier cycle
      choose_at_ = kNotYet;
      return choose();
    case kGenerate:
      if (generate_at_ != now()) return;
      generate_at_ = kNotYet;
      return generate();
    case kPump:
      if (lanes_[sm].pump_at != now()) return;
      lanes_[sm].pump_at = kNotYet;
      return pump(sm);
    default:
      return enter(sm);
  }
}

// Arrival.
void Tmau::on_request(const BulkRequestPacket& packet, std::uint32_t sm) {
  const std::uint32_t number = take_work();
  BulkWork& work = works_[number];
  work.packet = packet;
  work.sm = sm;
  work.arrival = work.last = now();
  stats_.requests[static_cast<std::size_t>(packet.request.kind)]->add();
  // The first request of a kernel: what was written before it began counts, as for the L1 (TMA-04, MEM-06).
  if (packet.forgets) cache_.forget(0);
  lanes_[sm].input.push(number);
  enter(sm);
}

// Phases are given in the order of arrival: whatever the queue does, a drain knows what came before it (TMA-31).
void Tmau::enter(std::uint32_t sm) {
  Lane& lane = lanes_[sm];
  while (!lane.input.empty()) {
    const std::uint32_t number = lane.input.front();
    BulkWork& work = works_[number];
    if (work.kind() == arch::BulkKind::drain) {
      if (lane.tracker.draining()) break;
      (void)lane.input.pop();
      enter_drain(number);
    } else if (work.kind() == arch::BulkKind::forget) {
      (void)lane.input.pop();
      cache_.forget(work.request().descriptor);
      request_in[sm].return_credit();
      tell_done(work, now());
      give_work(number);
    } else {
      (void)lane.input.pop();
      work.phase = lane.tracker.begin();
      work.stage = BulkWork::Stage::queue;
      lane.queue.push(number, work.request().tensor);
      if (waiting_++ == 0) waiting_since_ = now();
    }
  }
  choose();
}

void Tmau::enter_drain(std::uint32_t number) {
  BulkWork& work = works_[number];
  Lane& lane = lanes_[work.sm];
  request_in[work.sm].return_credit();
  work.stage = BulkWork::Stage::completion;
  lane.drain = number;
  if (lane.tracker.drain(now())) end_drain(work.sm);
}

void Tmau::end_drain(std::uint32_t sm) {
  Lane& lane = lanes_[sm];
  tell_done(works_[lane.drain], lane.tracker.drained());
  give_work(lane.drain);
  lane.drain = kNone;
  if (!lane.input.empty()) domain_.schedule(now(), *this, kEnter, sm);
}

// Of its acknowledgements some may be known already, and these come later.
void Tmau::tell_read(BulkWork& work) {
  if (work.read_told) return;
  work.read_told = true;
  BulkDonePacket packet;
  packet.kind = BulkDonePacket::Kind::read;
  packet.id = work.packet.id;
  done_out.send_at(std::max(work.last_read, work.generated_at), packet, work.sm);
}

// Nothing of it is open. All of this may be known before it happens.
void Tmau::complete(std::uint32_t number) {
  BulkWork& work = works_[number];
  Lane& lane = lanes_[work.sm];
  const Cycle when = work.last;
  if (work.reads_shared() && work.rule == arch::TensorRule::none) tell_read(work);
  stats_.cycles.add(when - work.arrival);
  tell_done(work, when);
  const bool drained = lane.tracker.end(work.phase, when);
  const std::uint32_t sm = work.sm;
  give_work(number);
  if (drained) end_drain(sm);
}

void Tmau::tell_done(const BulkWork& work, Cycle when) {
  BulkDonePacket packet;
  packet.id = work.packet.id;
  packet.flagged = work.flagged;
  if (work.rule != arch::TensorRule::none) {
    packet.kind = BulkDonePacket::Kind::dropped;
    packet.rule = work.rule;
    stats_.dropped.add();
  } else if (work.failed) {
    packet.kind = BulkDonePacket::Kind::failed;
    packet.address = work.failed_address;
    packet.poison = work.poisoned;
    packet.unmapped = work.unmapped;
    packet.read_only = work.read_only;
    packet.write = work.failed_write;
    stats_.failed.add();
  }
  if (work.flagged) stats_.flagged.add();
  progress();
  if (timeline() != nullptr) draw(work, when);
  done_out.send_at(when, packet, work.sm);
  quiet_from_ = std::max(quiet_from_, when + domain_.cost(1));
}

std::uint32_t Tmau::take_work() {
  if (free_works_.empty()) {
    works_.emplace_back();
    work_used_.push_back(1);
    return static_cast<std::uint32_t>(works_.size() - 1);
  }
  const std::uint32_t number = free_works_.back();
  free_works_.pop_back();
  work_used_[number] = 1;
  return number;
}

void Tmau::give_work(std::uint32_t number) {
  works_[number] = BulkWork();
  work_used_[number] = 0;
  free_works_.push_back(number);
}

bool Tmau::quiescent() const {
  if (works_.size() != free_works_.size() || fetching_ != kNone || now() < quiet_from_) return false;
  std::size_t home = 0;  // but for the reference that is kept a little longer
  for (protocol::MemoryRequest* request : retired_) home += request->get_ref_count() == 1 ? 1 : 0;
  return pool_->in_use() == home;
}

void Tmau::reset() {
  for (Lane& lane : lanes_) {
    lane.input.clear();
    lane.queue.clear();
    lane.chosen.clear();
    lane.tracker.reset();
    lane.drain = kNone;
    lane.ready.clear();
    lane.last = 0;
    lane.pump_at = kNotYet;
  }
  arbiter_.reset();
  turns_.reset();
  turn_owner_ = kNone;
  turn_left_ = 0;
  cache_.reset();
  fetching_ = kNone;
  fetch_open_ = 0;
  fetch_failed_ = false;
  fetch_begin_ = lookup_free_ = setup_free_ = generated_until_ = 0;
  waiting_ = 0;
  waiting_since_ = quiet_from_ = 0;
  choose_at_ = generate_at_ = kNotYet;
  generating_ = starved_ = false;
  pace_.reset();
  outstanding_.reset();
  table_.reset();
  works_.clear();
  free_works_.clear();
  work_used_.clear();
  for (protocol::MemoryRequest* request : retired_) request->release();
  retired_.clear();
  depth_ = 0;
  std::fill(track_ends_.begin(), track_ends_.end(), 0);
  const auto is_home = [](const std::unique_ptr<protocol::RequestPool>& pool) { return pool->in_use() == 0; };
  old_pools_.erase(std::remove_if(old_pools_.begin(), old_pools_.end(), is_home), old_pools_.end());
  if (pool_->in_use() == 0) return;
  old_pools_.push_back(std::move(pool_));
  pool_ = std::make_unique<protocol::RequestPool>();
}

}  // namespace heddle::tmau
