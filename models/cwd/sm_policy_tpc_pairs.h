// Multicast (CWD-16): at most one CTA of a CGA on an SM; whole TPCs first.
#pragma once

#include <array>

#include "cwd/sm_bits.h"
#include "cwd/sm_policy.h"

namespace heddle::cwd {

// First the TPCs all of whose SMs can take a CTA (one SM may be all), then those of which some can. Within a class in
// the order of a TPC's most preferred SM, whether or not that one can take a CTA; within a TPC in SM priority order, so
// that an odd last CTA takes the first SM of the next TPC.
class TpcPairsPolicy final : public SmPolicy {
 public:
  bool one_per_sm() const override { return true; }

  bool choose(const SmView& view, std::uint32_t ctas, SmChoice& choice) const override {
    ++choice.steps;  // classes and prefix counts are found in parallel
    const std::uint64_t able = with_free(view, 1);
    if (bits::count(able) < ctas) return false;

    std::array<std::uint64_t, arch::kMaxSmsPerGpc> tpc_of{};  // by SM: the SMs of its TPC
    std::uint64_t whole = 0;                                  // SMs of TPCs of the first class
    for (const arch::Topology::Tpc& tpc : view.gpc.tpcs) {
      std::uint64_t sms = 0;
      for (std::uint32_t i = 0; i < tpc.sms; ++i) sms |= bits::one(tpc.first_sm + i);
      for (std::uint32_t i = 0; i < tpc.sms; ++i) tpc_of[tpc.first_sm + i] = sms;
      sms &= view.members;
      if ((sms & able) == sms) whole |= sms;
    }

    std::uint64_t mask = 0;
    for (const std::uint64_t of_class : {whole, able & ~whole}) {
      std::uint64_t served = 0;  // SMs of TPCs that have had their turn
      for (const std::uint32_t sm : view.priority) {
        if (ctas == 0) break;
        if ((served & bits::one(sm)) != 0) continue;
        served |= tpc_of[sm];
        const std::uint64_t candidates = tpc_of[sm] & of_class;
        if (candidates == 0) continue;
        const bool all = bits::count(candidates) <= ctas;
        const std::uint64_t chosen = all ? candidates : first_by_priority(candidates, ctas, view.priority);
        mask |= chosen;
        ctas -= bits::count(chosen);
      }
    }
    choice.masks.push_back(mask);
    return true;
  }
};

}  // namespace heddle::cwd
