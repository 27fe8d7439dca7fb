// The generator, and what leaves for memory, shared memory and other units (TMA-15, TMA-16).
#include <algorithm>

#include "tmau/tmau.h"

namespace heddle::tmau {
namespace {

using arch::BulkKind;
using protocol::MemoryRequest;

// Line requests that leave within so many cycles are made by one event. What runs ahead takes the SM's link before
// what the SM itself sends meanwhile: so it is not far.
constexpr Cycle kHorizon = 8;
// Line requests of one SM in a row while another one has some as well (TMA-43).
constexpr std::uint32_t kTurn = 16;

// Stores too, although their lines come by shared memory: none of them holds a place while the port is held (TMA-43).
bool uses_port(BulkKind kind) { return kind != BulkKind::send; }
bool goes_out(const BulkWork& work) {
  const Line& line = work.lines.line();
  return work.kind() == BulkKind::prefetch ? line.sectors != 0 : line.piece.inside.any();
}

void enable_inside(MemoryRequest& request, const arch::TensorPiece& piece, std::uint32_t first) {
  std::uint8_t* enables = request.use_enables();
  for (std::uint32_t i = 0; i < request.get_data_length(); ++i) {
    enables[i] = piece.inside.test(first + i) ? TLM_BYTE_ENABLED : TLM_BYTE_DISABLED;
  }
}

}  // namespace

void Tmau::wake(Cycle when) {
  if (when >= generate_at_) return;
  generate_at_ = when;
  domain_.schedule(when, *this, kGenerate);
}

void Tmau::generate() {
  if (generating_) return;  // from inside a call of its own: it looks again
  generating_ = true;
  starved_ = false;
  bool left = false;
  for (;;) {
    const Turn turn = next_turn();
    if (turn.when == kNotYet) break;
    if (turn.when >= now() + kHorizon) {
      wake(turn.when);
      break;
    }
    const std::size_t before = lanes_[turn.sm].chosen.size();
    step(turn);
    left = left || lanes_[turn.sm].chosen.size() < before;
  }
  generating_ = false;
  starved_ = place_free(now()) == PlaceLimit::kUnknown;
  if (left) choose();
}

// Whose line request leaves next, and when.
Tmau::Turn Tmau::next_turn() const {
  Turn best;
  (void)turns_.pick([&](std::uint32_t sm) {
    const Lane& lane = lanes_[sm];
    if (lane.chosen.empty()) return false;
    const Cycle when = possible(works_[lane.chosen.front()], now());
    if (when < best.when) best = {sm, when};
    return false;
  });
  return best;
}

// The cycle, `from` or later, in which its next line request can leave; kNotYet: not known.
Cycle Tmau::possible(const BulkWork& work, Cycle from) const {
  if (work.earliest == kNotYet) return kNotYet;
  Cycle when = std::max(work.earliest, from);
  if (work.lines.done()) return std::max(when, generated_until_);
  when = pace_.earliest(when);
  if (!goes_out(work)) return when;
  when = place_free(when);
  if (!blocking_ && uses_port(work.kind()) && !memory_out_[work.sm]->can_send()) return kNotYet;
  return when;
}

void Tmau::step(const Turn& turn) {
  Lane& lane = lanes_[turn.sm];
  const std::uint32_t number = lane.chosen.front();
  BulkWork& work = works_[number];
  if (!work.lines.done()) {
    count_wait(work, turn.when);
    pace_.take(turn.when, 1);
    take_turn(turn.sm);
    emit(work, number, turn.when);
    work.lines.advance();
  }
  if (!work.lines.done()) return;
  work.generated = true;
  work.generated_at = turn.when;
  work.stage = BulkWork::Stage::completion;
  work.note(turn.when);
  (void)lane.chosen.pop();
  if (work.over()) return complete(number);
  if (work.reads_shared() && work.reads == 0) tell_read(work);
}

// One SM goes on until another one has something and kTurn lines have been made.
void Tmau::take_turn(std::uint32_t sm) {
  if (turn_owner_ != sm || turn_left_ == 0) {
    turn_owner_ = sm;
    turn_left_ = kTurn;
  }
  if (--turn_left_ > 0) {
    turns_.keep(sm);
  } else {
    turns_.served(sm);
  }
}

void Tmau::count_wait(const BulkWork& work, Cycle when) {
  const bool first = work.pieces == 0;
  if (first) generated_until_ = std::max(generated_until_, when);
  if (when >= generated_until_) stats_.generator_busy.add(when + 1 - generated_until_);
  generated_until_ = std::max(generated_until_, when + 1);
  const Cycle wanted = std::max(pace_.earliest(0), work.earliest);
  if (when <= wanted) return;
  const Cycle place = goes_out(work) ? std::min(when, place_free(wanted)) : when;
  if (place > wanted) stats_.wait_outstanding.add(place - wanted);
  if (when > place) stats_.wait_crossbar.add(when - place);
}

void Tmau::emit(BulkWork& work, std::uint32_t number, Cycle when) {
  ++work.pieces;
  const arch::TensorPiece& piece = work.lines.line().piece;
  work.bytes += work.kind() == BulkKind::prefetch ? work.lines.line().bytes : piece.bytes;
  switch (work.kind()) {
    case BulkKind::load:
      if (!piece.inside.any()) return emit_fill(work, number, when);
      return emit_read(work, number, when);
    case BulkKind::copy:
      return emit_read(work, number, when);
    case BulkKind::prefetch:
      return emit_prefetch(work, number, when);
    default:
      return emit_source(work, number, when);
  }
}

void Tmau::emit_read(BulkWork& work, std::uint32_t number, Cycle when) {
  const arch::TensorPiece& piece = work.lines.line().piece;
  MemoryRequest& request = new_request(work, number, Role::line);
  const std::uint32_t first = piece.inside.lowest();
  const std::uint32_t length = piece.inside.highest() - first + 1;
  request.aim(tlm::TLM_READ_COMMAND, piece.address + first, length);
  if (work.target.by_rank && work.kind() == BulkKind::load) {
    request.extension.multicast = work.packet.sms;
    work.acknowledgements += static_cast<std::uint32_t>(__builtin_popcountll(work.packet.sms));
    stats_.multicast_sent.add();
    stats_.multicast_saved.add(static_cast<std::uint32_t>(__builtin_popcount(work.packet.ctas)) - 1);
  }
  ++work.answers;
  stats_.lines.add();
  stats_.bytes_in.add(length);
  take_place();
  send(work.sm, request, when);
}

// Bytes of shared memory are asked for; those outside the tensor are not stored (TMA-13).
void Tmau::emit_source(BulkWork& work, std::uint32_t number, Cycle when) {
  const arch::TensorPiece& piece = work.lines.line().piece;
  if (!piece.inside.any()) return;
  MemoryRequest& request = new_request(work, number, Role::line);
  const std::uint32_t first = piece.inside.lowest();
  request.aim(tlm::TLM_WRITE_COMMAND, piece.address + first, piece.inside.highest() - first + 1);
  const bool forward = work.kind() == BulkKind::send;
  if (forward) request.extension.bulk.get().destination = static_cast<std::uint32_t>(piece.address);
  if (!(arch::ByteMask::range(first, piece.inside.highest() + 1) == piece.inside)) enable_inside(request, piece, first);
  if (work.kind() == BulkKind::reduce) {
    request.set_command(tlm::TLM_IGNORE_COMMAND);
    request.extension.action = protocol::MemoryAction::reduce_block;
    request.extension.atomic = work.target.reduction;
    request.extension.type = work.target.value;
  }
  ++work.reads;
  take_place();
  protocol::BulkReadPacket packet;
  packet.request = &request;
  packet.sm = place_.first + work.sm;
  packet.forward = forward;
  read_out.send_at(when, packet, work.sm);
}

void Tmau::emit_prefetch(BulkWork& work, std::uint32_t number, Cycle when) {
  const Line& line = work.lines.line();
  if (line.sectors == 0) return;
  MemoryRequest& request = new_request(work, number, Role::prefetch);
  const auto first = static_cast<std::uint32_t>(__builtin_ctz(line.sectors));
  const auto last = static_cast<std::uint32_t>(31 - __builtin_clz(line.sectors));
  request.aim(tlm::TLM_IGNORE_COMMAND, arch::line_of(line.piece.address) + first * arch::kSectorBytes,
              (last - first + 1) * arch::kSectorBytes);
  request.extension.sectors = line.sectors;
  request.extension.action = protocol::MemoryAction::prefetch;
  stats_.lines.add();
  take_place();
  send(work.sm, request, when);
}

// Nothing of the piece is in the tensor: it does not go to memory, but to the same places.
void Tmau::emit_fill(BulkWork& work, std::uint32_t number, Cycle when) {
  MemoryRequest& request = new_request(work, number, Role::line);
  request.set_address(work.lines.line().piece.address);
  request.set_response_status(tlm::TLM_OK_RESPONSE);
  stats_.fills.add();
  if (!work.target.by_rank) {
    work.note(when + response_);
    return deliver(request, work.sm, when + response_);
  }
  for (std::uint64_t left = work.packet.sms; left != 0; left &= left - 1) {
    request.acquire();
    protocol::BulkPeerPacket packet;
    packet.kind = protocol::BulkPeerPacket::Kind::fill;
    packet.from = place_.number;
    packet.request = number;
    packet.count = 1;
    packet.phase = work.phase;
    packet.data.request = &request;
    packet.data.sm = static_cast<std::uint32_t>(__builtin_ctzll(left));
    ++work.acknowledgements;
    const std::uint32_t unit = packet.data.sm / place_.per_unit;
    if (unit == place_.number) {
      receive(packet.data, when);
    } else {
      peer_out.send_at(when, packet, unit);
    }
  }
  request.release();
}

MemoryRequest& Tmau::new_request(const BulkWork& work, std::uint32_t number, Role role) {
  MemoryRequest& request = pool_->acquire();
  protocol::MemoryExtension& extension = request.extension;
  extension.entry = number << kRoleBits | static_cast<std::uint32_t>(role);
  extension.sm = place_.ids[work.sm];
  extension.subcontext = work.packet.subcontext;
  if (role != Role::line) return request;
  if (!uses_table_) extension.carried = static_cast<std::uint8_t>(params_.carried_bytes);
  protocol::BulkTarget& target = extension.bulk.get();
  target = work.target;
  target.piece = work.lines.line().piece;
  return request;
}

// The first cycle in which another line request may be open.
Cycle Tmau::place_free(Cycle from) const {
  const Cycle when = outstanding_.earliest(from);
  return uses_table_ ? std::max(when, table_.earliest(from)) : when;
}

void Tmau::take_place() {
  outstanding_.take();
  if (uses_table_) table_.take();
}

void Tmau::give_place(Cycle when) {
  outstanding_.give_back(when);
  if (uses_table_) table_.give_back(when);
  if (starved_) wake(when);
}

// Always sent from an event of its own: whoever has brought about that it is ready has returned by then.
void Tmau::push_ready(std::uint32_t sm, MemoryRequest& request, Cycle earliest) {
  lanes_[sm].ready.insert({&request, earliest},
                          [](const Ready& before, const Ready& item) { return before.earliest > item.earliest; });
  arm_pump(sm);
}

void Tmau::arm_pump(std::uint32_t sm) {
  Lane& lane = lanes_[sm];
  if (lane.ready.empty() || (!blocking_ && !memory_out_[sm]->can_send())) return;
  const Cycle when = std::max({lane.ready.front().earliest, lane.last, now()});
  if (when >= lane.pump_at) return;
  lane.pump_at = when;
  domain_.schedule(when, *this, kPump, sm);
}

void Tmau::pump(std::uint32_t sm) {
  Lane& lane = lanes_[sm];
  const Cycle horizon = blocking_ ? now() : now() + kHorizon;
  while (!lane.ready.empty() && (blocking_ || memory_out_[sm]->can_send()) && lane.ready.front().earliest <= horizon) {
    const Ready next = lane.ready.pop();
    send(sm, *next.request, std::max(next.earliest, now()));
  }
  arm_pump(sm);
}

void Tmau::send(std::uint32_t sm, MemoryRequest& request, Cycle when) {
  Lane& lane = lanes_[sm];
  lane.last = std::max(lane.last, when);
  if (!blocking_) {
    memory_out_[sm]->send(request, lane.last);
    return;
  }
  sc_core::sc_time delay = domain_.delay_until(lane.last);
  memory_out_[sm]->blocking(request, delay);
  answered(request, sm, std::max(domain_.cycle_after(delay), now()));
  request.release();
}

}  // namespace heddle::tmau
