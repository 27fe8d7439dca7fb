#include "tmau/bulk_completion.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/bits.h"

namespace heddle::tmau {

using arch::BulkKind;
using protocol::MemoryRequest;

void BulkCompletion::answered(MemoryRequest& request, std::uint32_t sm, Cycle arrival) {
  const LineSender::Role role = LineSender::role_of(request);
  if (role == LineSender::Role::prefetch) return;  // nobody waits for it (TMA-42)
  BulkWork* found = unit_.works.find(LineSender::number_of(request), sm);
  HEDDLE_CHECK(found != nullptr && found->awaited.answers > 0, "an answer that nobody waits for");
  BulkWork& work = *found;
  --work.awaited.answers;
  const bool ok = request.get_response_status() == tlm::TLM_OK_RESPONSE;
  if (role == LineSender::Role::line && work.kind() == BulkKind::copy && ok && !request.extension.poisoned) {
    sender_.send_copied(work, request.extension.bulk.get().piece, request.get_data_ptr(), arrival);
    return;
  }
  generator_.give_place(arrival);
  if (role == LineSender::Role::line) {
    line_answered(request, work, arrival);
  } else if (!ok) {
    work.fail(BulkFailure::of(request, arrival));
  }
  work.note(arrival);
  // Memory that takes nothing over has answered, or the way to it has.
  if (request.extension.posted) take_over(work, arrival);
  consider(work);
}

void BulkCompletion::accepted(MemoryRequest& request, std::uint32_t sm, Cycle arrival) {
  BulkWork* found = unit_.works.find(LineSender::number_of(request), sm);
  HEDDLE_CHECK(found != nullptr && found->awaited.posts > 0, "a write was taken over that nobody waits for");
  request.release();
  take_over(*found, arrival);
  consider(*found);
}

void BulkCompletion::take_over(BulkWork& work, Cycle when) {
  --work.awaited.posts;
  work.awaited.last_accepted = std::max(work.awaited.last_accepted, when);
}

// What the SM is to hear, if anything.
void BulkCompletion::consider(BulkWork& work) {
  if (work.over()) return complete(work);
  if (!work.reads_shared() || !work.generated() || work.awaited.reads > 0) return;
  reporter_.tell_read(work);
  if (work.kind() != BulkKind::send && work.accepted()) reporter_.tell_accepted(work);
}

void BulkCompletion::line_answered(MemoryRequest& request, BulkWork& work, Cycle arrival) {
  const bool load = work.kind() == BulkKind::load;
  const bool ok = request.get_response_status() == tlm::TLM_OK_RESPONSE;
  // Poisoned: a copy is not written, and what a reduction has made of corrupt data is corrupt.
  const bool lost = request.extension.poisoned && !load;
  if (!ok || lost) {
    work.fail(ok ? BulkFailure::poison(request.get_address(), arrival) : BulkFailure::of(request, arrival));
    if (load && work.target.by_rank) work.awaited.acknowledgements -= bits::count(work.packet.sms);
    return;
  }
  if (!load || work.target.by_rank) return;
  const Cycle when = arrival + delivery_.look_up() + delivery_.response();
  work.note(when);
  request.acquire();
  delivery_.deliver(request, work.sm, when);
}

void BulkCompletion::source_read(const protocol::BulkReadPacket& packet, std::uint32_t sm, Cycle arrival) {
  MemoryRequest& request = *packet.request;
  BulkWork* found = unit_.works.find(LineSender::number_of(request), sm);
  HEDDLE_CHECK(found != nullptr && found->awaited.reads > 0, "data for a store that nobody waits for");
  BulkWork& work = *found;
  --work.awaited.reads;
  work.awaited.last_read = std::max(work.awaited.last_read, arrival);
  // The SM has told of other errors by itself: it knows the CTA that is concerned.
  if (packet.failed && request.extension.poisoned) {
    const arch::TensorPiece& piece = request.extension.bulk.get().piece;
    work.fail(BulkFailure::poison(piece.shared + piece.inside.lowest(), arrival));
  }
  if (packet.failed || packet.forward) {
    work.note(arrival);
    generator_.give_place(arrival);
    request.release();
  } else {
    ++work.awaited.answers;
    ++work.awaited.posts;
    request.extension.posted = true;
    unit_.stats.lines.add();
    unit_.stats.bytes_out.add(request.get_data_length());
    ports_.push_ready(sm, request, arrival);
  }
  consider(work);
}

void BulkCompletion::acknowledged(std::uint32_t number, std::uint32_t count, std::uint8_t phase, Cycle when) {
  HEDDLE_CHECK(unit_.works.has(number) && unit_.works[number].awaited.acknowledgements >= count &&
                   unit_.works[number].phase == phase,
               "an acknowledgement that nobody waits for");
  BulkWork& work = unit_.works[number];
  work.awaited.acknowledgements -= count;
  work.note(when);
  if (work.over()) complete(work);
}

void BulkCompletion::all_generated(BulkWork& work) { consider(work); }

// Nothing of it is open. All of this may be known before it happens.
void BulkCompletion::complete(BulkWork& work) {
  const Cycle when = work.last;
  if (work.reads_shared() && work.rule == arch::TensorRule::none) reporter_.tell_read(work);
  unit_.stats.cycles.add(when - work.life.arrival);
  reporter_.tell_done(work, when);
  const std::uint32_t sm = work.sm;
  const std::uint8_t phase = work.phase;
  unit_.works.give_back(work);
  intake_.ended(sm, phase, when);
}

void BulkCompletion::add_waits(const BulkWork& work, WaitGraph& graph) const {
  const std::string name = unit_.name_of(work);
  if (work.awaited.answers > 0) graph.add(name, fmt::format("for {} answers of", work.awaited.answers), "memory");
  if (work.awaited.reads > 0) {
    graph.add(name, fmt::format("for {} lines from shared memory of", work.awaited.reads),
              fmt::format("SM {}", unit_.place.ids[work.sm]));
  }
  if (work.awaited.acknowledgements > 0) {
    graph.add(name, fmt::format("for {} acknowledgements from", work.awaited.acknowledgements),
              fmt::format("other units of GPC {}", unit_.place.gpc));
  }
}

}  // namespace heddle::tmau
