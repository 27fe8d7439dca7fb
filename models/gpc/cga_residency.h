// Where the CTAs of the GPC_CGAs of a GPC have run, and who of those has not answered a flush (CGA-12). A GPM counts
// TPCs, an MPC the SMs of its TPC.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/bits.h"
#include "common/cycle.h"
#include "common/error.h"

namespace heddle::gpc {

class CgaResidency {
 public:
  explicit CgaResidency(std::uint32_t ids) : cgas_(ids) {}

  // A CTA of the CGA is started there. `place`: 0 … 63.
  void add(std::uint32_t id, std::uint32_t place) { cgas_[id].places |= bits::one(place); }
  std::uint64_t places(std::uint32_t id) const { return cgas_[id].places; }

  // The flush begins: its places are to answer. The next CGA of that id has none yet.
  void begin_flush(std::uint32_t id) {
    Cga& cga = cgas_[id];
    HEDDLE_CHECK(cga.silent == 0, "a flush began before the one before it had ended");
    cga = {0, cga.places, 0};
  }
  // Nobody is to answer.
  void forget(std::uint32_t id) { cgas_[id].places = 0; }
  // True for the last of the answers. They may be heard ahead, in any order.
  bool answer(std::uint32_t id, std::uint32_t place, Cycle when) {
    Cga& cga = cgas_[id];
    HEDDLE_CHECK(bits::contains(cga.silent, place), "a flush was answered by somebody who was not asked");
    cga.silent &= ~bits::one(place);
    cga.latest = std::max(cga.latest, when);
    return cga.silent == 0;
  }
  // Cycle of the latest answer.
  Cycle answered(std::uint32_t id) const { return cgas_[id].latest; }
  // Who has been asked and has not answered.
  std::uint64_t silent(std::uint32_t id) const { return cgas_[id].silent; }
  void reset() { std::fill(cgas_.begin(), cgas_.end(), Cga{}); }

 private:
  struct Cga {
    std::uint64_t places = 0;
    std::uint64_t silent = 0;
    Cycle latest = 0;
  };
  std::vector<Cga> cgas_;  // by id
};

}  // namespace heddle::gpc
