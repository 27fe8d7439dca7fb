#include "sm/sm_occupancy.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/idle_account.h"
#include "arch/kernel_account.h"
#include "common/error.h"

namespace heddle::sm {

void BusyTime::begins(Cycle begin, Cycle now) {
  since_ = here_++ == 0 ? begin : std::min(since_, begin);
  if (begin > now) coming_.push_back(begin);
}

// Of the CTAs that are left none may have arrived: then the SM is empty in between.
void BusyTime::ends(Cycle end, Cycle now) {
  last_end_ = std::max(last_end_, end);
  if (--here_ == 0) {
    coming_.clear();
    return count(last_end_);
  }
  const auto arrived = [now](Cycle begin) { return begin <= now; };
  coming_.erase(std::remove_if(coming_.begin(), coming_.end(), arrived), coming_.end());
  if (coming_.size() < here_) return;
  const Cycle next = *std::min_element(coming_.begin(), coming_.end());
  if (next <= last_end_) return;
  count(last_end_);
  since_ = next;
}

void BusyTime::count(Cycle until) {
  const Cycle from = std::max(since_, counted_);
  if (until <= from) return;
  sum_ += until - from;
  counted_from_ = from;
  counted_ = until;
}

void BusyTime::settle(Cycle now) {
  if (here_ > 0) count(now);
  const Cycle later = counted_ > now ? counted_ - std::max(now, counted_from_) : 0;
  cycles_.add(sum_ - later - told_);
  told_ = sum_ - later;
}

void BusyTime::reset(Cycle now) {
  here_ = 0;
  since_ = counted_ = counted_from_ = last_end_ = now;
  sum_ = told_ = 0;
  coming_.clear();
}

SmOccupancy::SmOccupancy(Timebase& time, const arch::SmLimits& limits, Cycle start_cycles, const SmContext& place,
                         std::string path, const char* name)
    : time_(time),
      observation_(gpu_observation(time)),
      capacity_(arch::capacity_of(limits)),
      start_cycles_(start_cycles),
      place_(place),
      path_(std::move(path)),
      name_(name),
      idle_(observation_.idle.get()),
      kernels_(observation_.kernels.get()),
      tracks_(limits.ctas),
      started_(
          observation_.stats.counter(observation_.prefix + "." + path_ + ".ctas", "CTAs", "CTAs started on this SM")),
      warp_cycles_(observation_.stats.counter(observation_.prefix + "." + path_ + ".warp_cycles", "warps x cycles",
                                              "resident warps, summed over time")),
      busy_(observation_.stats.counter(observation_.prefix + "." + path_ + ".busy_cycles", "cycles",
                                       "time with a CTA on this SM")) {}

void SmOccupancy::reset() {
  used_ = {};
  base_ = {};
  resident_ = 0;
  busy_.reset(time_.now());
  for (std::size_t i = 0; i < preloads_.size(); ++i) hold(i);
}

void SmOccupancy::preload(const arch::ResourceVector& amount, Cycle until) {
  preloads_.push_back({amount, until});
  hold(preloads_.size() - 1);
}

void SmOccupancy::hold(std::size_t preload) {
  const Preload& load = preloads_[preload];
  base_.add(load.amount);
  used_.add(load.amount);
  HEDDLE_CHECK(used_.within(capacity_), "an SM was preloaded with more than it has");
  if (load.until > 0) time_.schedule(load.until, *this, 0, preload);
}

// A preload ends.
void SmOccupancy::on_event(std::uint32_t, std::uint64_t argument) {
  base_.subtract(preloads_[argument].amount);
  used_.subtract(preloads_[argument].amount);
}

void SmOccupancy::enter(const Cta& cta) {
  used_.add(cta.need);
  HEDDLE_CHECK(used_.within(capacity_), "a CTA was started without the resources for it");
  ++resident_;
  busy_.begins(cta.begin, time_.now());
  if (idle_ != nullptr) idle_->begins(place_.id, cta.begin);
  if (!cta.was_saved()) {
    started_.add();
    if (observation_.ctas != nullptr) observation_.ctas->cta_started(shown(cta, cta.begin));
  }
  ClusterMap& clusters = observation_.clusters;
  if (!cta.in_cga() || place_.gpc >= clusters.gpcs()) return;
  ClusterMap::Cluster cluster;
  cluster.task = cta.operation;
  cluster.cga = cta.start.id.cga;
  cluster.gpc = place_.gpc;
  cluster.local_id = *cta.start.tag.cga_id;
  cluster.size = cta.start.id.cga_size;
  clusters.begin(cluster, cta.start.id.rank, place_.id, cta.begin);
}

void SmOccupancy::release_shared(Cta& cta, std::uint32_t bytes) {
  cta.released += bytes;
  cta.need[arch::Resource::shared_bytes] -= bytes;
  used_[arch::Resource::shared_bytes] -= bytes;
}

void SmOccupancy::expose(Cta& cta) {
  cta.exposed = true;
  if (observation_.ctas != nullptr) observation_.ctas->cta_saved(shown(cta, time_.now()));
}

void SmOccupancy::restored(const Cta& cta) {
  if (observation_.ctas != nullptr) observation_.ctas->cta_restored(shown(cta, time_.now()));
  const std::optional<Absences::Away> away = observation_.absences.back(cta.operation, cta.start.id.index);
  if (!away || observation_.timeline == nullptr) return;
  TimelineSink& timeline = *observation_.timeline;
  const TrackId track = timeline.track(observation_.prefix + " nested", fmt::format("saved CTAs {}", away->line));
  timeline.slice(track, time_.time_of(away->since), time_.time_of(time_.now()), observation_.labels.of(cta.operation),
                 {{"cta", static_cast<std::int64_t>(cta.start.id.index)}, {"from", away->sm}, {"to", place_.id}});
}

void SmOccupancy::leave(const Cta& cta, Cycle when) {
  CtaListener* listener = observation_.ctas;
  if (cta.saved && !cta.exposed && listener != nullptr) listener->cta_saved(shown(cta, when));
  if (cta.saved) observation_.launched.saved(cta.operation);
  if (cta.saved && observation_.timeline != nullptr) {
    observation_.absences.left(cta.operation, cta.start.id.index, when, place_.id);
  }
  used_.subtract(cta.need);
  --resident_;
  busy_.ends(when, time_.now());
  if (idle_ != nullptr) idle_->ends(place_.id, when);
  const std::uint32_t warps = cta.need[arch::Resource::warps];
  warp_cycles_.add((when - cta.begin) * warps);
  if (kernels_ != nullptr) {
    kernels_->add(kernels_->row_of(cta.operation), KernelCount::warp_cycles, (when - cta.begin) * warps);
  }
  observation_.load_map.add(place_.id, cta.begin, when, warps);
  if (listener != nullptr && !cta.saved) {
    if (cta.exposed) listener->cta_restored(shown(cta, when));
    listener->cta_ended(shown(cta, when));
  }
  if (observation_.timeline != nullptr) draw(cta, when);
  if (cta.in_cga() && place_.gpc < observation_.clusters.gpcs()) {
    observation_.clusters.end(place_.gpc, *cta.start.tag.cga_id, cta.start.id.rank, when);
  }
}

void SmOccupancy::settle() { busy_.settle(time_.now()); }

CtaListener::Cta SmOccupancy::shown(const Cta& cta, Cycle cycle) const {
  const arch::CtaId& id = cta.start.id;
  CtaListener::Cta shown;
  shown.task = cta.operation;
  shown.index = id.index;
  shown.sm = place_.id;
  shown.cycle = cycle;
  shown.x = id.cta.x;
  shown.y = id.cta.y;
  shown.z = id.cta.z;
  shown.cga = id.cga;
  shown.rank = id.rank;
  shown.cga_size = id.cga_size;
  shown.sequence = cta.start.tag.sequence;
  shown.order = cta.start.order;
  shown.launch = cta.start.departure;
  shown.first_instruction = cta.begin + start_cycles_;
  return shown;
}

void SmOccupancy::draw(const Cta& cta, Cycle when) {
  TimelineSink& timeline = *observation_.timeline;
  TrackId& track = tracks_[cta.start.cta_slot];
  if (track.group == 0) {
    track = timeline.detail_track(observation_.prefix + " " + path_, fmt::format("CTA slot {:2}", cta.start.cta_slot),
                                  {"CTAs", true});
  }
  const Picoseconds begin = time_.time_of(cta.begin);
  const Picoseconds end = time_.time_of(when);
  const std::string name = observation_.labels.of(cta.operation);
  const auto index = static_cast<std::int64_t>(cta.start.id.index);
  const std::int64_t warps = cta.need[arch::Resource::warps];
  if (cta.saved || cta.was_saved()) {
    timeline.slice(
        track, begin, end, name,
        {{"cta", index}, {"warps", warps}, {"restored", cta.was_saved() ? 1 : 0}, {"saved", cta.saved ? 1 : 0}});
    return;
  }
  if (cta.start.id.cga_size == 1) {
    timeline.slice(track, begin, end, name, {{"cta", index}, {"warps", warps}});
    return;
  }
  timeline.slice(track, begin, end, name,
                 {{"cta", index},
                  {"warps", warps},
                  {"cga", static_cast<std::int64_t>(cta.start.id.cga)},
                  {"rank", cta.start.id.rank}});
}

}  // namespace heddle::sm
