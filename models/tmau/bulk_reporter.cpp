#include "tmau/bulk_reporter.h"

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
  done_.send_at(std::max(work.last_read, work.generated_at), packet, work.sm);
}

void BulkReporter::tell_done(const BulkWork& work, Cycle when) {
  BulkDonePacket packet;
  packet.id = work.packet.id;
  packet.flagged = work.lines.outside_box();
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
  if (packet.flagged) unit_.stats.flagged.add();
  Observation& observation = unit_.timebase.observation();
  ++observation.progress;
  if (observation.timeline != nullptr) draw(work, when);
  done_.send_at(when, packet, work.sm);
  quiet_from_ = std::max(quiet_from_, when + unit_.timebase.cost(1));
}

// Requests overlap: each is drawn on the first track that is free.
void BulkReporter::draw(const BulkWork& work, Cycle end) {
  const Observation& observation = unit_.timebase.observation();
  std::size_t track = 0;
  while (track < track_ends_.size() && track_ends_[track] > work.arrival) ++track;
  if (track == track_ends_.size()) {
    track_ends_.push_back(0);
    tracks_.push_back(
        observation.timeline->track(observation.prefix + " " + unit_.path, fmt::format("request {:2}", track)));
  }
  track_ends_[track] = end;
  observation.timeline->slice(tracks_[track], unit_.timebase.time_of(work.arrival), unit_.timebase.time_of(end),
                              arch::bulk_name(work.kind()),
                              {{"sm", unit_.place.ids[work.sm]},
                               {"cta", static_cast<std::int64_t>(work.packet.cta)},
                               {"warp", work.packet.warp},
                               {"bytes", static_cast<std::int64_t>(work.bytes)},
                               {"lines", static_cast<std::int64_t>(work.pieces)}});
}

void BulkReporter::reset() {
  quiet_from_ = 0;
  std::fill(track_ends_.begin(), track_ends_.end(), 0);
}

}  // namespace heddle::tmau
