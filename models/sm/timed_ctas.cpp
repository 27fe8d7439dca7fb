#include "sm/timed_ctas.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/error.h"
#include "sm/cta_control.h"

namespace heddle::sm {

using protocol::WorkDonePacket;
using protocol::WorkPacket;

namespace {

constexpr double kWholeWork = 4294967296.0;  // the work of a CTA, in what is kept of it

}  // namespace

TimedCtas::TimedCtas(const UnitContext& context, std::uint64_t seed, CtaControl& control,
                     PacketSender<WorkPacket>& work)
    : SmUnit(context),
      seed_(seed),
      start_cycles_(context.time.cost(context.params.start_cycles)),
      control_(control),
      work_(work) {}

void TimedCtas::begin(Cta& cta, Cycle arrival) {
  const protocol::CtaStartPacket& start = cta.start;
  Work& work = of(cta);
  work = {start.code != arch::kNoCode, false, 0, work.turn + 1};
  if (cta.was_saved()) return;  // it goes on when it is back
  if (work.demand) {
    HEDDLE_CHECK(connected_, "a CTA with a demand has come to an SM without a fluid unit");
    cta.ends = arrival + start_cycles_;  // here: when its work begins
    return at(cta.ends, kWorkStarts, cta);
  }
  cta.ends = arrival + start_cycles_ + draw_cycles(start.duration, seed_, start.tag.operation, start.id.index);
  at(cta.ends, kDurationEnds, cta);
}

std::uint64_t TimedCtas::left(const Cta& cta) {
  Work& work = of(cta);
  if (work.held > 0) return work.held;
  if (!work.demand) return cta.ends - std::min(cta.ends, now());
  if (!work.runs) return static_cast<std::uint64_t>(kWholeWork);
  const std::uint64_t left = take_back(cta);
  start(cta, left);
  return left;
}

void TimedCtas::pause(Cta& cta) {
  const std::uint64_t has = left(cta);
  stop(cta);
  of(cta).held = std::max<std::uint64_t>(1, has);
}

void TimedCtas::resume(Cta& cta, std::uint64_t left) {
  Work& work = of(cta);
  work.held = 0;
  if (work.demand) return start(cta, left);
  cta.ends = now() + left;
  at(cta.ends, kDurationEnds, cta);
}

void TimedCtas::go_on(Cta& cta) {
  const std::uint64_t held = of(cta).held;
  if (held > 0) resume(cta, held);
}

void TimedCtas::stop(Cta& cta) {
  Work& work = of(cta);
  if (work.runs) take_back(cta);
  work.held = 0;
  ++work.turn;
  cta.ends = 0;
}

void TimedCtas::on_done(const WorkDonePacket& packet, std::uint32_t, Cycle) {
  if (packet.kind == WorkDonePacket::Kind::stopped) {
    answer_ = packet.left;
    return;
  }
  Cta& cta = ctas_[packet.cta_slot];
  works_[packet.cta_slot].runs = false;
  HEDDLE_CHECK(cta.here() && cta.stage == CtaStage::running && !cta.saved, "work is done of a CTA that is not there");
  control_.run_out(cta);
}

void TimedCtas::reset() {
  for (Work& work : works_) work = {false, false, 0, work.turn + 1};
}

void TimedCtas::at(Cycle when, Event event, const Cta& cta) {
  time_.schedule(when, *this, event, std::uint64_t{of(cta).turn} << 32 | cta.start.cta_slot);
}

void TimedCtas::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto slot = static_cast<std::uint32_t>(argument);
  if (argument >> 32 != works_[slot].turn) return;  // of a CTA that was stopped
  Cta& cta = ctas_[slot];
  HEDDLE_CHECK(cta.here() && cta.stage == CtaStage::running && !cta.saved, "a CTA ends that is not there");
  if (kind == kWorkStarts) return start(cta, static_cast<std::uint64_t>(kWholeWork));
  control_.run_out(cta);
}

TimedCtas::Work& TimedCtas::of(const Cta& cta) {
  if (works_.empty()) works_.resize(ctas_.size());
  return works_[cta.start.cta_slot];
}

void TimedCtas::start(const Cta& cta, std::uint64_t left) {
  of(cta).runs = true;
  work_.send({WorkPacket::Kind::start, place_.id, cta.start.cta_slot, cta.start.code,
              std::min(1.0, static_cast<double>(left) / kWholeWork)});
}

std::uint64_t TimedCtas::take_back(const Cta& cta) {
  of(cta).runs = false;
  work_.send({WorkPacket::Kind::stop, place_.id, cta.start.cta_slot, 0, 0});
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(answer_ * kWholeWork)));
}

}  // namespace heddle::sm
