#include "tmau/bulk_intake.h"

#include <algorithm>

#include <fmt/format.h>

namespace heddle::tmau {

using protocol::BulkDonePacket;

// Of its acknowledgements some may be known already, and these come later.
void BulkReporter::tell_read(BulkWork& work) {
  if (work.read_told) return;
  work.read_told = true;
  BulkDonePacket packet;
  packet.kind = BulkDonePacket::Kind::read;
  packet.id = work.packet.id;
  done_.send_at(std::max(work.awaited.last_read, work.generated_at), packet, work.sm);
}

void BulkReporter::tell_accepted(BulkWork& work) {
  if (work.accepted_told) return;
  work.accepted_told = true;
  BulkDonePacket packet;
  packet.kind = BulkDonePacket::Kind::accepted;
  packet.id = work.packet.id;
  done_.send_at(std::max({work.awaited.last_read, work.generated_at, work.awaited.last_accepted}), packet, work.sm);
}

void BulkReporter::tell_done(const BulkWork& work, Cycle when) {
  BulkDonePacket packet;
  packet.id = work.packet.id;
  packet.reported = work.reported;
  if (work.rule != arch::TensorRule::none) {
    packet.kind = BulkDonePacket::Kind::dropped;
    packet.rule = work.rule;
    unit_.stats.dropped.add();
  } else if (work.failure) {
    using Cause = BulkFailure::Cause;
    packet.kind = BulkDonePacket::Kind::failed;
    packet.address = work.failure->address;
    packet.poison = work.failure->cause == Cause::poison;
    packet.read_only = work.failure->cause == Cause::read_only;
    packet.unmapped = work.failure->cause == Cause::unmapped || packet.read_only;
    packet.write = work.failure->write;
    unit_.stats.failed.add();
  }
  using arch::TensorRule;
  if (packet.reported.any()) {
    const auto count = [&](TensorRule rule, Counter& counter) {
      if (packet.reported.has(rule)) counter.add();
    };
    count(TensorRule::shared_alignment, unit_.stats.reported_alignment);
    count(TensorRule::empty_box, unit_.stats.reported_empty);
    count(TensorRule::base_outside, unit_.stats.reported_base);
    count(TensorRule::inner_address, unit_.stats.reported_inner);
  }
  Observation& observation = unit_.timebase.observation();
  ++observation.progress;
  note(work, when);
  if (observation.timeline != nullptr) draw(work, when);
  done_.send_at(when, packet, work.sm);
  quiet_from_ = std::max(quiet_from_, when + unit_.timebase.cost(1));
}

// Drains, and what concerns descriptors alone, move nothing.
void BulkReporter::note(const BulkWork& work, Cycle end) {
  if (work.kind() > arch::BulkKind::send) return;
  const arch::BulkRequest& asked = work.request();
  BulkMap::Request request;
  request.subcontext = work.packet.subcontext;
  if (asked.tensor && asked.parameters != nullptr) {
    request.source = BulkMap::Source::carried;
    request.address = asked.parameters->address;
  } else if (asked.tensor) {
    request.source = BulkMap::Source::descriptor;
    request.address = asked.descriptor;
  }
  request.kind = work.kind();
  request.went_wrong = work.rule != arch::TensorRule::none || work.failure.has_value();
  request.bytes = work.traffic.bytes;
  request.fetched = work.traffic.fetched;
  request.used = work.traffic.used;
  request.lines = work.traffic.pieces;
  request.cycles = end - work.life.arrival;
  if (work.life.described) request.described_for = *work.life.described - *work.life.chosen;
  map_.add(request);
}

// Requests overlap: each is drawn on the first track that is free. Its life lies within its slice: what it was in, one
// after the other (an answer may come before the last line has left).
void BulkReporter::draw(const BulkWork& work, Cycle end) {
  const Observation& observation = unit_.timebase.observation();
  std::size_t track = 0;
  while (track < track_ends_.size() && track_ends_[track] > work.life.arrival) ++track;
  if (track == track_ends_.size()) {
    track_ends_.push_back(0);
    tracks_.push_back(observation.timeline->detail_track(observation.prefix + " " + unit_.path,
                                                         fmt::format("request {:2}", track), {"requests", false}));
  }
  track_ends_[track] = end;
  observation.timeline->slice(tracks_[track], unit_.timebase.time_of(work.life.arrival), unit_.timebase.time_of(end),
                              arch::bulk_name(work.kind()),
                              {{"sm", unit_.place.ids[work.sm]},
                               {"cta", static_cast<std::int64_t>(work.packet.cta)},
                               {"warp", work.packet.warp},
                               {"bytes", static_cast<std::int64_t>(work.traffic.bytes)},
                               {"lines", static_cast<std::int64_t>(work.traffic.pieces)},
                               {"descriptor", static_cast<std::int64_t>(work.request().descriptor)},
                               {"receivers", static_cast<std::int64_t>(work.packet.ctas)},
                               {"at0", work.request().coordinates[0]},
                               {"at1", work.request().coordinates[1]},
                               {"at2", work.request().coordinates[2]},
                               {"at3", work.request().coordinates[3]},
                               {"at4", work.request().coordinates[4]}});
  const auto part = [&](const char* name, std::optional<Cycle> from, std::optional<Cycle> to) {
    if (!from || !to || *from >= std::min(*to, end)) return;
    observation.timeline->slice(tracks_[track], unit_.timebase.time_of(*from),
                                unit_.timebase.time_of(std::min(*to, end)), name);
  };
  const BulkLife& life = work.life;
  part("queue", work.life.arrival, life.chosen);
  part("descriptor", life.chosen, life.described);
  part("set-up", life.set_up_began, life.set_up);
  const auto after = [](std::optional<Cycle> cycle) { return cycle ? std::optional(*cycle + 1) : cycle; };
  part("lines", life.first_line, after(life.last_line));
  part("last answers", after(life.last_line), end);
}

void BulkReporter::reset() {
  quiet_from_ = 0;
  std::fill(track_ends_.begin(), track_ends_.end(), 0);
}

BulkIntake::BulkIntake(const TmauContext& unit, const std::vector<CreditSink*>& input, RequestSelector& selector,
                       SetupUnit& setup, BulkReporter& reporter)
    : unit_(unit), input_(input), selector_(selector), setup_(setup), reporter_(reporter), lanes_(unit.place.sms()) {}

void BulkIntake::arrive(const protocol::BulkRequestPacket& packet, std::uint32_t sm) {
  BulkWork& work = unit_.works.take();
  work.packet = packet;
  work.sm = sm;
  work.life.arrival = work.last = unit_.now();
  unit_.stats.requests[packet.request.kind].add();
  lanes_[sm].input.push(work.number);
  enter(sm);
}

// The request behind a drain is no longer held back.
void BulkIntake::on_event(std::uint32_t /*kind*/, std::uint64_t sm) { enter(static_cast<std::uint32_t>(sm)); }

void BulkIntake::enter(std::uint32_t sm) {
  Lane& lane = lanes_[sm];
  while (!lane.input.empty()) {
    BulkWork& work = unit_.works[lane.input.front()];
    if (work.kind() == arch::BulkKind::drain) {
      if (lane.tracker.draining()) break;
      (void)lane.input.pop();
      begin_drain(work);
    } else if (work.kind() == arch::BulkKind::forget) {
      (void)lane.input.pop();
      setup_.forget(work.request().descriptor);
      input_[sm]->return_credit();
      reporter_.tell_done(work, unit_.now());
      unit_.works.give_back(work);
    } else {
      (void)lane.input.pop();
      work.phase = lane.tracker.begin();
      selector_.push(work);
    }
  }
  selector_.choose();
}

void BulkIntake::begin_drain(BulkWork& work) {
  Lane& lane = lanes_[work.sm];
  input_[work.sm]->return_credit();
  work.stage = BulkWork::Stage::completion;
  lane.drain = work.number;
  if (lane.tracker.drain(unit_.now())) end_drain(work.sm);
}

void BulkIntake::end_drain(std::uint32_t sm) {
  Lane& lane = lanes_[sm];
  const BulkWork& work = unit_.works[*lane.drain];
  reporter_.tell_done(work, lane.tracker.drained());
  unit_.works.give_back(work);
  lane.drain.reset();
  if (!lane.input.empty()) unit_.timebase.schedule(unit_.now(), *this, 0, sm);
}

void BulkIntake::ended(std::uint32_t sm, std::uint8_t phase, Cycle when) {
  if (lanes_[sm].tracker.end(phase, when)) end_drain(sm);
}

void BulkIntake::add_waits(const BulkWork& work, WaitGraph& graph) const {
  const std::string drain = unit_.drain_of(work.sm);
  if (work.stage == BulkWork::Stage::input) return graph.add(unit_.name_of(work), "for the drain before it", drain);
  unit_.works.for_each([&](const BulkWork& open) {
    if (open.number == work.number || open.sm != work.sm || open.stage == BulkWork::Stage::input ||
        open.phase == lanes_[work.sm].tracker.phase()) {
      return;
    }
    graph.add(drain, "for", unit_.name_of(open));
  });
  graph.add(unit_.name_of(work), "for all before it:", drain);
}

void BulkIntake::reset() {
  for (Lane& lane : lanes_) {
    lane.input.clear();
    lane.tracker.reset();
    lane.drain.reset();
  }
}

}  // namespace heddle::tmau
