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
  work = {start.code != arch::kNoCode, false, 0};
  if (cta.was_saved()) return;  // it goes on when it is back
  if (work.demand) {
    HEDDLE_CHECK(connected_, "a CTA with a demand has come to an SM without a fluid unit");
    cta.ends = arrival + start_cycles_;  // here: when its work begins
    return schedule(kWorkStarts, cta);
  }
  cta.ends = arrival + start_cycles_ + draw_cycles(start.duration, seed_, start.tag.operation, start.id.index);
  schedule(kDurationEnds, cta);
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
  schedule(kDurationEnds, cta);
}

void TimedCtas::go_on(Cta& cta) {
  const std::uint64_t held = of(cta).held;
  if (held > 0) resume(cta, held);
}

void TimedCtas::stop(Cta& cta) {
  Work& work = of(cta);
  if (work.runs) take_back(cta);
  if (cta.ends > 0) {
    const bool was_there = time_.cancel(cta.ends, *this, work.demand ? kWorkStarts : kDurationEnds, cta.start.cta_slot);
    HEDDLE_CHECK(was_there, "a CTA is stopped whose end has not been entered");
  }
  work.held = 0;
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
  for (Work& work : works_) work = {};
}

void TimedCtas::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto slot = static_cast<std::uint32_t>(argument);
  Cta& cta = ctas_[slot];
  cta.ends = 0;
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
              std::min(1.0, static_cast<double>(left) / kWholeWork), stats_.row_of(cta.operation)});
}

std::uint64_t TimedCtas::take_back(const Cta& cta) {
  of(cta).runs = false;
  work_.send({WorkPacket::Kind::stop, place_.id, cta.start.cta_slot, 0, 0, 0});
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(answer_ * kWholeWork)));
}

}  // namespace heddle::sm
