#include "tmau/bulk_generator.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace heddle::tmau {
namespace {

// Parts of a cycle in which the generator's time is counted.
constexpr std::uint32_t kParts = 1U << 20;

// What a line request takes of it.
std::array<std::array<std::uint32_t, 2>, 2> costs_of(const TmauParams& params) {
  const auto cost = [&](arch::BulkKind kind, bool tensor) {
    return static_cast<std::uint32_t>(std::ceil(kParts / params.rate_of(kind, tensor)));
  };
  using arch::BulkKind;
  return {{{cost(BulkKind::load, false), cost(BulkKind::load, true)},
           {cost(BulkKind::store, false), cost(BulkKind::store, true)}}};
}

// Stores too, although their lines come by shared memory: none of them holds a place while the port is held (TMA-43).
bool uses_port(const BulkWork& work) { return work.kind() != arch::BulkKind::send; }

// Nobody waits for a prefetch, so it holds no place until its answer (TMA-42, TMA-44).
bool holds_place(const BulkWork& work) { return work.kind() != arch::BulkKind::prefetch; }

}  // namespace

BulkGenerator::BulkGenerator(const TmauContext& unit, SmPorts& ports, LineSender& sender)
    : unit_(unit),
      ports_(ports),
      sender_(sender),
      lanes_(unit.lanes()),
      turns_(unit.lanes()),
      costs_(costs_of(unit.params)),
      pace_(kParts),
      places_(unit.params) {}

bool BulkGenerator::works_beside(const BulkWork& work) const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&work](const Ring<std::uint32_t>& lane) { return !lane.empty() && lane.front() != work.number; });
}

void BulkGenerator::wake(Cycle when) {
  if (when >= generate_at_) return;
  generate_at_ = when;
  unit_.timebase.schedule(when, *this, 0);
}

void BulkGenerator::on_event(std::uint32_t /*kind*/, std::uint64_t /*argument*/) {
  if (generate_at_ != unit_.now()) return;  // it was entered again for an earlier cycle
  generate_at_ = kNever;
  generate();
}

void BulkGenerator::port_free(Cycle when) {
  if (when > unit_.now()) {
    wake(when);
  } else {
    generate();
  }
}

void BulkGenerator::give_place(Cycle when) {
  places_.give_back(when);
  if (starved_) wake(when);
}

void BulkGenerator::generate() {
  if (generating_) return;  // from inside a call of its own: it looks again
  generating_ = true;
  starved_ = false;
  bool left = false;
  Turn turn;
  for (;;) {
    turn = next_turn();
    if (turn.when == kNever) break;
    if (turn.when >= unit_.now() + unit_.params.ahead) {
      wake(turn.when);
      break;
    }
    const std::size_t before = lanes_[turn.lane].size();
    step(turn);
    left = left || lanes_[turn.lane].size() < before;
  }
  sender_.pause(turn.when);
  generating_ = false;
  starved_ = places_.earliest(unit_.now()) == kNever;
  if (left) unit_.events.place_behind_queue();
}

// Whose line request leaves next, and when.
BulkGenerator::Turn BulkGenerator::next_turn() const {
  Turn best;
  (void)turns_.pick([&](std::uint32_t lane) {
    if (lanes_[lane].empty()) return false;
    const Cycle when = possible(first(lane), unit_.now());
    if (when < best.when) best = {lane, when};
    return false;
  });
  return best;
}

// The cycle, `from` or later, in which its next line request can leave; kNever: not known.
Cycle BulkGenerator::possible(const BulkWork& work, Cycle from) const {
  if (work.earliest == kNever) return kNever;
  Cycle when = std::max(work.earliest, from);
  if (work.lines.done()) return std::max(when, generated_until_);
  when = pace_.earliest(when);
  if (!LineSender::goes_out(work)) return when;
  if (holds_place(work)) when = places_.earliest(when);
  if (uses_port(work) && !ports_.can_send(work.sm)) return kNever;
  return when;
}

void BulkGenerator::step(const Turn& turn) {
  BulkWork& work = unit_.works[lanes_[turn.lane].front()];
  if (!work.lines.done()) {
    count_wait(work, turn.when);
    pace_.take(turn.when, cost_of(work));
    take_turn(turn.lane);
    if (!work.life.first_line) work.life.first_line = turn.when;
    work.life.last_line = turn.when;
    if (LineSender::goes_out(work) && holds_place(work)) places_.take();
    const Cycle answered = sender_.send(work, turn.when);
    if (answered != kNever) give_place(answered);
    work.lines.advance();
  }
  if (!work.lines.done()) return;
  sender_.pause(kNever);
  work.generated_at = turn.when;
  work.stage = BulkWork::Stage::completion;
  work.note(turn.when);
  (void)lanes_[turn.lane].pop();
  unit_.events.all_generated(work);
}

// One lane goes on until another one has something and `turn` lines have been made.
void BulkGenerator::take_turn(std::uint32_t lane) {
  if (turn_owner_ != lane || turn_left_ == 0) {
    turn_owner_ = lane;
    turn_left_ = unit_.params.turn;
  }
  if (--turn_left_ > 0) {
    turns_.keep(lane);
  } else {
    turns_.served(lane);
  }
}

void BulkGenerator::count_wait(const BulkWork& work, Cycle when) {
  const bool is_first = work.traffic.pieces == 0;
  if (is_first) generated_until_ = std::max(generated_until_, when);
  if (when >= generated_until_) unit_.stats.generator_busy.add(when + 1 - generated_until_);
  generated_until_ = std::max(generated_until_, when + 1);
  const Cycle wanted = std::max(pace_.earliest(0), work.earliest);
  if (when <= wanted) return;
  const Cycle room = holds_place(work) ? places_.earliest(wanted) : wanted;
  const Cycle place = LineSender::goes_out(work) ? std::min(when, room) : when;
  if (place > wanted) unit_.stats.wait_outstanding.add(place - wanted);
  if (when > place) unit_.stats.wait_crossbar.add(when - place);
}

void BulkGenerator::add_waits(const BulkWork& work, WaitGraph& graph) const {
  if (work.generated() || work.earliest == kNever) return;
  if (holds_place(work) && places_.earliest(0) == kNever) {
    graph.add(unit_.name_of(work), "for an answer to an earlier line request, which waits for", "memory");
  } else if (!ports_.can_send(work.sm)) {
    graph.add(unit_.name_of(work), "for room at",
              fmt::format("the crossbar's port of SM {}", unit_.place.ids[work.sm]));
  }
}

void BulkGenerator::reset() {
  for (Ring<std::uint32_t>& lane : lanes_) lane.clear();
  turns_.reset();
  turn_owner_.reset();
  turn_left_ = 0;
  pace_.reset();
  places_.reset();
  generate_at_ = kNever;
  generating_ = starved_ = false;
  generated_until_ = 0;
}

}  // namespace heddle::tmau
