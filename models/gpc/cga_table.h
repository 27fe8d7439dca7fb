// The GPC_CGAs of one GPC: their ids, live CTAs and barrier slots (CGA-01, CGA-02).
#pragma once

#include <cstdint>
#include <vector>

#include "common/cycle.h"
#include "common/error.h"
#include "gpc/cga_barrier.h"
#include "gpc/free_slots.h"

namespace heddle::gpc {

// A CGA is open from its first launch packet until its flush has ended.
class CgaTable {
 public:
  struct Cga {
    std::uint32_t slot = 0;  // task
    std::uint32_t operation = 0;
    std::uint64_t sequence = 0;      // of the launch
    std::uint64_t number = 0;        // CGAs of the GPC before it: tells those of one id apart
    std::uint32_t barrier_slot = 0;  // of the GPC's
    std::uint32_t ctas = 0;
    std::uint32_t waiting = 0;  // CTAs that have not been launched yet
    std::uint32_t live = 0;     // CTAs launched and not completed
    Cycle opened = 0;
    Cycle ended = 0;  // its last CTA has completed
    CgaBarrier barrier;
  };

  CgaTable(std::uint32_t ids, std::uint32_t barriers) : ids_(ids), barriers_(barriers), cgas_(ids) {}

  bool id_free() const { return ids_.any(); }
  bool barrier_free() const { return barriers_.any(); }
  // Takes an id and a barrier slot, both of which must be free, for a CGA of that many CTAs.
  std::uint32_t open(std::uint32_t slot, std::uint32_t operation, std::uint64_t sequence, std::uint32_t ctas,
                     Cycle when) {
    const std::uint32_t id = ids_.take();
    Cga& cga = cgas_[id];
    cga = {slot, operation, sequence, opened_++, barriers_.take(), ctas, ctas, 0, when, 0, {}};
    cga.barrier.open(ctas);
    return id;
  }
  void launch(std::uint32_t id, std::uint32_t ctas) {
    Cga& cga = cgas_[id];
    HEDDLE_CHECK(ctas <= cga.waiting, "more CTAs were launched than a CGA has");
    cga.waiting -= ctas;
    cga.live += ctas;
  }
  // All SMs know the CTA from that cycle on.
  void enter(std::uint32_t id, std::uint32_t rank, Cycle when) {
    HEDDLE_CHECK(id < cgas_.size() && cgas_[id].live > 0, "a CTA was entered of a CGA that has none running");
    cgas_[id].barrier.enter(rank, when);
  }
  // True if that was the last CTA of all: nothing of the CGA runs or will.
  bool complete(std::uint32_t id, std::uint32_t rank, Cycle when) {
    HEDDLE_CHECK(id < cgas_.size() && cgas_[id].live > 0, "a CTA completed of a CGA that has none running");
    Cga& cga = cgas_[id];
    cga.barrier.leave(rank, when);
    cga.ended = when;
    return --cga.live == 0 && cga.waiting == 0;
  }
  // The flush has ended: the id and the barrier slot are free again.
  const Cga& close(std::uint32_t id) {
    HEDDLE_CHECK(cgas_[id].live == 0 && cgas_[id].waiting == 0, "a CGA was closed that has CTAs");
    ids_.give(id);
    barriers_.give(cgas_[id].barrier_slot);
    return cgas_[id];
  }
  bool is_open(std::uint32_t id) const { return ids_.taken(id); }
  CgaBarrier& barrier(std::uint32_t id) {
    HEDDLE_CHECK(is_open(id), "the barrier of a CGA that does not exist");
    return cgas_[id].barrier;
  }
  const Cga& cga(std::uint32_t id) const { return cgas_[id]; }
  std::uint32_t open() const { return ids_.used(); }
  std::uint32_t ids() const { return static_cast<std::uint32_t>(cgas_.size()); }
  void reset() {
    ids_.reset();
    barriers_.reset();
    opened_ = 0;
  }

 private:
  FreeVector ids_;
  FreeVector barriers_;
  std::vector<Cga> cgas_;  // by id
  std::uint64_t opened_ = 0;
};

}  // namespace heddle::gpc
