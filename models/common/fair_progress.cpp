#include "common/fair_progress.h"

#include <algorithm>

namespace heddle {

double jain_index(const std::vector<double>& shares) {
  double sum = 0;
  double squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

FairProgress::Owner& FairProgress::at(std::size_t owner) {
  if (owner >= owners_.size()) owners_.resize(owner + 1);
  return owners_[owner];
}

void FairProgress::settle(Cycle now) {
  std::size_t working = 0;
  double weights = 0;
  for (const Owner& owner : owners_) {
    if (!owner.works()) continue;
    ++working;
    weights += owner.weight;
  }
  const double scale = weights > machine_ ? machine_ / weights : 1;
  for (Owner& owner : owners_) {
    const Cycle passed = now - owner.since;
    owner.since = now;
    if (working < 2 || !owner.works() || passed == 0) continue;
    owner.contested += passed;
    const double entitlement = owner.weight * scale;
    const double pace = !owner.wants ? 1 : entitlement > 0 ? std::min(1.0, owner.has / entitlement) : 0;
    owner.made += pace * static_cast<double>(passed);
  }
}

void FairProgress::entitle(std::size_t owner, double weight, Cycle now) {
  settle(now);
  at(owner).weight = weight;
  at(owner).since = now;
}

void FairProgress::set(std::size_t owner, double has, bool wants, Cycle now) {
  Owner& changed = at(owner);
  if (changed.has == has && changed.wants == wants) return;
  settle(now);
  changed.has = has;
  changed.wants = wants;
  changed.since = now;
}

Cycle FairProgress::contested(std::size_t owner, Cycle now) {
  settle(now);
  return at(owner).contested;
}

double FairProgress::progress(std::size_t owner, Cycle now) {
  settle(now);
  const Owner& asked = at(owner);
  return asked.contested == 0 ? 1 : asked.made / static_cast<double>(asked.contested);
}

double FairProgress::index(Cycle now) {
  settle(now);
  std::vector<double> shares;
  for (const Owner& owner : owners_) {
    if (owner.contested > 0) shares.push_back(owner.made / static_cast<double>(owner.contested));
  }
  return jain_index(shares);
}

}  // namespace heddle
