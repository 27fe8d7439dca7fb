#include "power/power_unit.h"

#include <algorithm>
#include <numeric>

#include "arch/gpu_observation.h"

namespace heddle::power {

PowerUnit::PowerUnit(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                     const PowerParams& params, const EnergyParams& energy, double highest, std::uint32_t tensor_flops)
    : Block(name, domain, path),
      params_(params),
      energy_(energy),
      highest_(highest),
      account_(domain.observation().stats, domain.observation().prefix, prices(energy, tensor_flops)) {
  if (params.governor == Governor::limit) governor_.emplace(params, highest);
  for (std::size_t i = 0; i < kParts; ++i) {
    const auto part = static_cast<Part>(i);
    stats_.joules[i] =
        &gauge(std::string("joules.") + part_name(part), "J", std::string("energy of ") + part_text(part));
  }
  stats_.total = &gauge("joules.total", "J", "energy of the board");
  stats_.watts = &gauge("watts", "W", "mean power of the board up to the last event");
  stats_.clock = &gauge("clock", "GHz", "mean clock up to the last event");
  stats_.least_clock = &gauge("clock_least", "GHz", "lowest clock that the governor has set");
  stats_.held = &gauge("held", "us", "time for which the governor held the clock below gpu.clock");
  stats_.held_clock = &gauge("clock_held", "GHz", "mean clock in that time; without any: that of the last event");
  if (watched()) domain.set_ticker(*this, interval());
}

Cycle PowerUnit::interval() const { return std::max<Cycle>(1, domain_.clock().cycles_for_ns(params_.interval * 1e3)); }

// What has been counted, and what time has cost, since the last call.
Watts PowerUnit::charge(Cycle until) {
  const Clock& clock = domain_.clock();
  const double seconds = (clock.time_of(until) - clock.time_of(charged_)).to_seconds();
  const double volts = params_.voltage(clock.gigahertz()) / energy_.voltage;
  Joules joules = account_.take();
  joules[static_cast<std::size_t>(Part::leakage)] = energy_.leakage * seconds;
  joules[static_cast<std::size_t>(Part::idle)] = energy_.idle * seconds;
  Joules kinds{};  // 0: of events of the chip, 1: the rest
  for (std::size_t i = 0; i < kParts; ++i) {
    if (of_chip(static_cast<Part>(i))) joules[i] *= volts * volts;
    joules_[i] += joules[i];
    kinds[of_chip(static_cast<Part>(i)) ? 0 : 1] += joules[i];
  }
  if (steps_ > 0) {
    held_seconds_ += seconds;
    held_cycles_ += static_cast<double>(until - charged_);
  }
  Watts watts;
  if (seconds <= 0) return watts;
  const double leakage = joules[static_cast<std::size_t>(Part::leakage)];
  if (watched()) {
    gpu_observation(domain_).power.add({domain_.time_of(charged_), domain_.time_of(until), kinds[0] + kinds[1],
                                        static_cast<double>(until - charged_)});
  }
  charged_ = until;
  watts.leakage = leakage / seconds;
  watts.events = (kinds[0] - leakage) / seconds;
  watts.fixed = kinds[1] / seconds;
  return watts;
}

Cycle PowerUnit::on_tick(Cycle tick, Cycle next) {
  const Watts watts = charge(tick);
  draw(watts, domain_.time_of(tick));
  if (governor_) {
    unsigned steps = governor_->next(steps_, watts);
    // Intervals without an event until the next one: the clock rises as far as it may meanwhile.
    const Watts rest{0, watts.leakage, energy_.idle};
    for (Cycle idle = (next - tick) / interval(); idle > 0; --idle) {
      const unsigned before = steps;
      steps = governor_->next(steps, rest);
      if (steps == before) break;
    }
    if (steps != steps_) domain_.change_clock(governor_->clock(steps), tick);
    steps_ = steps;
    most_steps_ = std::max(most_steps_, steps);
  }
  const Cycle step = interval();
  return tick + ((next - tick) / step + 1) * step;
}

void PowerUnit::draw(const Watts& watts, Picoseconds when) {
  TimelineSink* sink = timeline();
  if (sink == nullptr) return;
  const TrackId track = sink->track(domain_.observation().prefix, path());
  sink->counter(track, when, "watts", watts.sum());
  sink->counter(track, when, "GHz", domain_.clock().gigahertz());
}

void PowerUnit::settle() {
  const Cycle end = domain_.now();
  charge(std::max(end, charged_));
  for (std::size_t i = 0; i < kParts; ++i) stats_.joules[i]->set(joules_[i]);
  const double total = std::accumulate(joules_.begin(), joules_.end(), 0.0);
  const Clock& clock = domain_.clock();
  const double seconds = (clock.time_of(end) - clock.time_of(0)).to_seconds();
  stats_.total->set(total);
  stats_.watts->set(seconds > 0 ? total / seconds : 0);
  stats_.clock->set(seconds > 0 ? static_cast<double>(end) * 1e-9 / seconds : clock.gigahertz());
  stats_.least_clock->set(governor_ ? std::min(highest_, governor_->clock(most_steps_)) : clock.gigahertz());
  stats_.held->set(held_seconds_ * 1e6);
  stats_.held_clock->set(held_seconds_ > 0 ? held_cycles_ * 1e-9 / held_seconds_ : clock.gigahertz());
}

void PowerUnit::reset() {
  account_.reset();
  joules_ = {};
  charged_ = 0;
  steps_ = most_steps_ = 0;
  held_seconds_ = held_cycles_ = 0;
}

}  // namespace heddle::power
