#include "gpc/cga_unit.h"

#include <fmt/format.h>

#include "arch/gpu_observation.h"
#include "common/bits.h"

namespace heddle::gpc {

using protocol::CgaId;
using protocol::ClusterNoticePacket;
using protocol::ClusterOrderPacket;

namespace {

std::vector<Cycle> barrier_ways(const Timebase& timebase, const GpcParams& params, const arch::Topology::Gpc& shape,
                                const std::vector<std::uint32_t>& mpc_tpcs) {
  std::vector<Cycle> ways;
  const auto tpcs = static_cast<std::uint32_t>(shape.tpcs.size());
  for (const std::uint32_t tpc : mpc_tpcs) ways.push_back(timebase.cost(barrier_way(params, tpc, tpcs)));
  return ways;
}

}  // namespace

CgaUnit::CgaUnit(Timebase& timebase, const GpcParams& params, protocol::GpcId gpc, const arch::Topology::Gpc& shape,
                 const std::vector<std::uint32_t>& mpc_tpcs, const Links& links, CgaIdListener& listener,
                 const std::string& path, const char* module)
    : timebase_(timebase),
      gpc_(gpc),
      barrier_ways_(barrier_ways(timebase, params, shape, mpc_tpcs)),
      flush_cycles_(timebase.cost(params.cga_flush)),
      await_flush_(params.dsmem_flush),
      orders_(links.orders),
      completions_(links.completions),
      listener_(listener),
      module_(module),
      cgas_(params.cga_ids, params.cga_barriers, shape.sms),
      saves_(
          timebase, cgas_, params,
          [this](CgaId id, const ClusterOrderPacket& order) {
            bits::for_each(residency_.places(id), [&](std::uint32_t mpc) { orders_.send(order, mpc); });
          },
          module),
      residency_(params.cga_ids),
      wide_(timebase, gpc, barrier_ways_, links.orders, links.reports),
      port_(heddle::has_costs(timebase.mode()) ? params.barrier_arrivals : 0),
      stats_(timebase.observation().stats, path) {}

// CGA-01, CGA-02. The distributor reserves both before it launches, so that no CGA stalls here unless a distributor of
// another kind sends it.
bool CgaUnit::begin(const protocol::LaunchPacket& launch) {
  HEDDLE_CHECK(!launching_ || cgas_.cga(*launching_).waiting == 0,
               "a CGA began before all CTAs of the one before it were launched");
  if (!cgas_.id_free() || !cgas_.barrier_free()) return false;
  launching_ = cgas_.open(launch.slot, launch.operation, launch.sequence, launch.cga_ctas, timebase_.now());
  saves_.begin(*launching_);
  stats_.cgas.add();
  return true;
}

CgaId CgaUnit::launching(const protocol::LaunchPacket& launch) const {
  HEDDLE_CHECK(
      launching_ && cgas_.cga(*launching_).slot == launch.slot && cgas_.cga(*launching_).sequence == launch.sequence,
      "a launch packet belongs to a CGA that has not begun");
  return *launching_;
}

void CgaUnit::launch(const protocol::CtaTag& tag, std::uint32_t mpc, std::uint64_t sms) {
  if (tag.cga_id) {
    cgas_.launch(*tag.cga_id, sms);
    residency_.add(*tag.cga_id, mpc);
  }
  wide_.launch(tag, mpc, bits::count(sms));
}

void CgaUnit::notice(const ClusterNoticePacket& notice, std::uint32_t mpc, Cycle arrival) {
  if (notice.kind == ClusterNoticePacket::Kind::arrived) {
    const std::uint32_t index = arrivals_.take();
    arrivals_[index] = {notice.tag, notice.rank, notice.level, false};
    timebase_.schedule(arrival, *this, kArrives, index);
    return;
  }
  if (CgaSaves::concerns(notice.kind)) return saves_.notice(notice, arrival);
  const CgaId id = *notice.tag.cga_id;
  switch (notice.kind) {
    case ClusterNoticePacket::Kind::entered:
      cgas_.enter(id, notice.rank, arrival);
      saves_.consider(id);
      check_barrier(id);
      wide_.enter(notice.tag, arrival);
      break;
    case ClusterNoticePacket::Kind::flushed:
      if (await_flush_ && residency_.answer(id, mpc, arrival)) {
        timebase_.schedule(residency_.answered(id) + flush_cycles_, *this, kFlushEnds, id);
      }
      break;
    default:
      HEDDLE_CHECK(false, "a GPM was told what is for an MPC alone");
  }
}

// Its way is longer than that of its CTA's end. One of a CTA that has completed no longer counts; it takes its turn at
// the port all the same.
void CgaUnit::arrive(std::uint32_t index) {
  const Arrival arrival = arrivals_[index];
  arrivals_.give_back(index);
  const Cycle taken = port_.take(timebase_.now());
  if (arrival.gone) return;
  if (arrival.level != arch::CgaLevel::gpc) return wide_.arrive(arrival.tag, arrival.rank, arrival.level, taken);
  cgas_.barrier(*arrival.tag.cga_id).arrive(arrival.rank, taken);
  check_barrier(*arrival.tag.cga_id);
}

void CgaUnit::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind == kArrives) return arrive(static_cast<std::uint32_t>(argument));
  const CgaId id(argument % kMaxCgas);
  switch (kind) {
    case kPhaseEnds:
      return end_phase(id, argument / kMaxCgas);
    case kFlushBegins:
      return begin_flush(id);
    default:
      return end_flush(id);
  }
}

void CgaUnit::check_barrier(CgaId id) {
  CgaBarrier& barrier = cgas_.barrier(id);
  if (!barrier.completes()) return;
  const Cycle when = std::max(barrier.latest(), timebase_.now());
  timebase_.schedule(when, *this, kPhaseEnds, cgas_.cga(id).number * kMaxCgas + id);
}

// By then all of its CTAs may have exited without waiting, and even its id may be another's.
void CgaUnit::end_phase(CgaId id, std::uint64_t number) {
  const CgaTable::Cga& cga = cgas_.cga(id);
  if (!cgas_.is_open(id) || cga.number != number || cga.live == 0) return;
  cgas_.barrier(id).release();
  saves_.phase_ends(id);
  stats_.phases.add();
  ClusterOrderPacket order;
  order.kind = ClusterOrderPacket::Kind::barrier;
  order.cga_id = id;
  order.sequence = cga.sequence;
  bits::for_each(residency_.places(id),
                 [&](std::uint32_t mpc) { orders_.send_at(timebase_.now() + barrier_ways_[mpc], order, mpc); });
}

std::uint64_t CgaUnit::cta_done(const protocol::CtaCompletePacket& complete, std::uint32_t sm) {
  arrivals_.for_each([&complete](Arrival& arrival) {
    if (arrival.tag.sequence == complete.tag.sequence && arrival.tag.cga_id == complete.tag.cga_id &&
        arrival.rank == complete.rank) {
      arrival.gone = true;
    }
  });
  wide_.leave(complete.tag, complete.rank);
  if (!complete.tag.in_cga()) return 0;
  const CgaId id = *complete.tag.cga_id;
  const CgaTable::Completed done = cgas_.complete(id, complete.rank, sm, timebase_.now());
  if (!done.last) {
    saves_.left(id, complete.rank);
    check_barrier(id);
    return done.slots;
  }
  // A CTA can be shorter than the broadcast of its start: the SMs must not hear of it after they were told to forget
  // its CGA.
  const Cycle entered = cgas_.barrier(id).entered_from();
  if (entered > timebase_.now()) {
    timebase_.schedule(entered, *this, kFlushBegins, id);
  } else {
    begin_flush(id);
  }
  return done.slots;
}

// CGA-12. Without waiting for the answers, all else stays as it is: it shows what they are good for.
void CgaUnit::begin_flush(CgaId id) {
  HEDDLE_CHECK(cgas_.barrier(id).all_entered(), "a CGA is to be forgotten before it is known");
  if (await_flush_) {
    residency_.begin_flush(id);
  } else {
    residency_.forget(id);
    timebase_.schedule(timebase_.now() + flush_cycles_, *this, kFlushEnds, id);
  }
  ClusterOrderPacket order;
  order.kind = ClusterOrderPacket::Kind::flush;
  order.cga_id = id;
  order.sequence = cgas_.cga(id).sequence;
  for (std::uint32_t mpc = 0; mpc < barrier_ways_.size(); ++mpc) orders_.send(order, mpc);
}

// The id is free, and a launch that waits for one goes on.
void CgaUnit::end_flush(CgaId id) {
  const CgaTable::Cga cga = cgas_.close(id);
  stats_.flush_times.add(timebase_.now() - cga.ended);
  if (timebase_.observation().timeline != nullptr) draw(cga, id);
  ++timebase_.observation().progress;
  completions_.send({cga.slot, cga.sequence});
  listener_.cga_id_freed();
}

void CgaUnit::draw(const CgaTable::Cga& cga, CgaId id) {
  const GpuObservation& observation = gpu_observation(timebase_);
  if (tracks_.empty()) tracks_.resize(cgas_.ids());
  TrackId& track = tracks_[id];
  if (track.group == 0) {
    track = observation.timeline->detail_track(fmt::format("{} gpc{} CGAs", observation.prefix, gpc_),
                                               fmt::format("local id {:3}", id), {"CGAs", true});
  }
  const Cycle now = timebase_.now();
  observation.timeline->slice(track, timebase_.time_of(cga.opened), timebase_.time_of(now),
                              observation.labels.of(cga.operation),
                              {{"ctas", cga.ctas},
                               {"sequence", static_cast<std::int64_t>(cga.sequence)},
                               {"barriers", cga.barrier.phases()},
                               {"flush_cycles", static_cast<std::int64_t>(now - cga.ended)}});
}

template <class Visit>
void CgaUnit::for_each_open(Visit&& visit) const {
  for (std::uint32_t id = 0; id < cgas_.ids() && cgas_.open() > 0; ++id) {
    if (cgas_.is_open(id)) visit(CgaId(id));
  }
}

void CgaUnit::collect_waits(WaitGraph& graph) const {
  for_each_open([&](CgaId id) {
    collect_barrier_waits(graph, id);
    collect_flush_waits(graph, id);
  });
  wide_.collect_waits(graph);
}

void CgaUnit::collect_barrier_waits(WaitGraph& graph, CgaId id) const {
  const CgaTable::Cga& cga = cgas_.cga(id);
  if (!cga.barrier.waited_for()) return;
  const std::string name = protocol::barrier_name(gpu_observation(timebase_).labels.of(cga.operation), gpc_, id);
  if (cga.waiting > 0) {
    graph.add(name, fmt::format("for the launch of {} more CTAs by", cga.waiting), "the distributor");
  }
  const std::uint32_t arrived = bits::count(cga.barrier.arrived());
  const std::uint32_t gone = bits::count(cga.barrier.gone());
  const std::string of =
      gone == 0 ? fmt::format("{} CTAs", cga.ctas) : fmt::format("the {} CTAs that are left", cga.ctas - gone);
  bits::for_each(cga.barrier.live() & ~cga.barrier.arrived(), [&](std::uint32_t rank) {
    graph.add(name, fmt::format("where {} of {} have arrived, for", arrived, of), protocol::cta_name(gpc_, id, rank));
  });
}

void CgaUnit::collect_flush_waits(WaitGraph& graph, CgaId id) const {
  bits::for_each(residency_.silent(id), [&](std::uint32_t tpc) {
    graph.add(gpu_observation(timebase_).labels.of(cgas_.cga(id).operation),
              fmt::format("for the flush of CGA {} of GPC {}, and that for", id, gpc_),
              fmt::format("the accesses in flight of TPC {}", tpc));
  });
}

// Somebody at an mbarrier may wait for a CTA that has gone: no SM but its own knows that it has.
void CgaUnit::show_exited(WaitGraph& graph) const {
  for_each_open([&](CgaId id) {
    const CgaTable::Cga& cga = cgas_.cga(id);
    if (cga.live == 0) return;
    bits::for_each(cga.barrier.gone(),
                   [&](std::uint32_t rank) { graph.add(protocol::cta_name(gpc_, id, rank), "which has", "exited"); });
  });
}

void CgaUnit::reset() {
  cgas_.reset();
  residency_.reset();
  saves_.reset();
  wide_.reset();
  port_.reset();
  arrivals_.clear();
  launching_.reset();
}

}  // namespace heddle::gpc
