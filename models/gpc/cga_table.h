// The GPC_CGAs of one GPC: their ids, live CTAs and barrier slots (CGA-01, CGA-02).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "arch/address_map.h"
#include "arch/topology.h"
#include "common/bits.h"
#include "common/cycle.h"
#include "common/error.h"
#include "protocol/ids.h"

namespace heddle::gpc {

// The hardware barrier of one GPC_CGA, as its GPM sees it: who has been entered everywhere, who has arrived, who has
// gone (CGA-04, CGA-13). Notices may be heard ahead: each comes with the cycle in which it counts. CTAs are named by
// their ranks in the CGA.
class CgaBarrier {
 public:
  using Mask = std::uint32_t;  // bit = rank
  static constexpr std::uint32_t kMaxCtas = arch::kMaxCgaCtas;

  void open(std::uint32_t ctas) {
    HEDDLE_CHECK(ctas >= 1 && ctas <= kMaxCtas, "a GPC_CGA of that many CTAs does not exist");
    *this = {};
    all_ = ctas == kMaxCtas ? ~Mask{0} : (Mask{1} << ctas) - 1;
  }

  // The CTA has been launched, and all SMs know it from that cycle on.
  void enter(std::uint32_t rank, Cycle when) {
    const Mask bit = bit_of(rank);
    HEDDLE_CHECK((entered_ & bit) == 0, "a CTA of a CGA was entered twice");
    entered_ |= bit;
    entered_from_ = std::max(entered_from_, when);
    latest_ = std::max(latest_, when);
  }
  // All of its warps that run have arrived.
  void arrive(std::uint32_t rank, Cycle when) {
    const Mask bit = bit_of(rank);
    HEDDLE_CHECK((gone_ & bit) == 0, "a CTA has arrived at a cluster barrier after its completion");
    HEDDLE_CHECK((arrived_ & bit) == 0 && !due_, "a CTA has arrived twice at one phase of a cluster barrier");
    arrived_ |= bit;
    latest_ = std::max(latest_, when);
  }
  // It has completed, and no longer counts.
  void leave(std::uint32_t rank, Cycle when) {
    const Mask bit = bit_of(rank);
    HEDDLE_CHECK((gone_ & bit) == 0, "a CTA of a CGA has completed twice");
    gone_ |= bit;
    arrived_ &= ~bit;
    latest_ = std::max(latest_, when);
  }

  // True if what was noted last has completed a phase: all CTAs are launched and entered, one at least is there, and
  // all that are have arrived. It is asked after every note; the phase ends with release().
  bool completes() {
    if (due_ || entered_ != all_ || arrived_ == 0 || (arrived_ | gone_) != all_) return false;
    due_ = true;
    return true;
  }
  // When the last thing happened that completes() depends on.
  Cycle latest() const { return latest_; }
  // Warps go on: the next phase begins.
  void release() {
    HEDDLE_CHECK(due_, "a phase of a cluster barrier ended that was not complete");
    due_ = false;
    arrived_ = 0;
    ++phases_;
  }

  bool all_entered() const { return entered_ == all_; }
  Cycle entered_from() const { return entered_from_; }
  // A phase is complete, and its end has not been told yet.
  bool due() const { return due_; }
  bool waited_for() const { return arrived_ != 0 && !due_; }
  Mask arrived() const { return arrived_; }
  Mask live() const { return entered_ & ~gone_; }
  Mask gone() const { return gone_; }
  Mask missing() const { return all_ & ~(arrived_ | gone_); }
  std::uint32_t phases() const { return phases_; }

 private:
  Mask bit_of(std::uint32_t rank) const {
    HEDDLE_CHECK(rank < kMaxCtas && (all_ >> rank & 1) != 0, "a CTA has a rank that its CGA does not have");
    return Mask{1} << rank;
  }

  Mask all_ = 0;
  Mask entered_ = 0;
  Mask arrived_ = 0;  // in this phase, and not gone
  Mask gone_ = 0;
  bool due_ = false;  // the phase is complete, and its end has not been told yet
  std::uint32_t phases_ = 0;
  Cycle entered_from_ = 0;
  Cycle latest_ = 0;
};

// Numbers that are given out and come back: ids and barrier slots of CGAs, CTA slots of SMs.
constexpr std::uint32_t kMaxCgas = 256;

// Which of up to kMaxCgas numbers are free. The lowest goes first.
class FreeVector {
 public:
  explicit FreeVector(std::uint32_t size) : size_(size) {
    HEDDLE_CHECK(size >= 1 && size <= kMaxCgas, "a free vector of that size does not exist");
    reset();
  }

  bool any() const { return used_ < size_; }
  std::uint32_t used() const { return used_; }
  bool taken(std::uint32_t number) const { return number < size_ && (free_[number / 64] >> number % 64 & 1) == 0; }
  std::uint32_t take() {
    for (std::uint32_t word = 0; word < free_.size(); ++word) {
      if (free_[word] == 0) continue;
      const std::uint32_t bit = bits::lowest(free_[word]);
      free_[word] = bits::without_lowest(free_[word]);
      ++used_;
      return word * 64 + bit;
    }
    HEDDLE_CHECK(false, "a number was taken from a free vector that has none");
    return 0;
  }
  void give(std::uint32_t number) {
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    HEDDLE_CHECK(number < size_ && (free_[number / 64] & bit) == 0, "a number was freed that is not in use");
    free_[number / 64] |= bit;
    --used_;
  }
  void reset() {
    used_ = 0;
    free_.fill(0);
    for (std::uint32_t number = 0; number < size_; ++number) free_[number / 64] |= std::uint64_t{1} << number % 64;
  }

 private:
  std::uint32_t size_;
  std::uint32_t used_ = 0;
  std::array<std::uint64_t, kMaxCgas / 64> free_{};
};

// CTA slots of one SM: which are in use (CGA-03).
class CtaSlots {
 public:
  // 1 … 64 slots.
  explicit CtaSlots(std::uint32_t slots) : all_(bits::below(slots)), free_(all_) {}

  // The lowest slot that is free by then; there must be one.
  std::uint32_t take(Cycle when) {
    std::uint64_t left = free_;
    while (left != 0 && from_[bits::lowest(left)] > when) left = bits::without_lowest(left);
    HEDDLE_CHECK(left != 0, "a CTA was launched on an SM whose CTA slots are all in use");
    const std::uint32_t slot = bits::lowest(left);
    free_ &= ~bits::one(slot);
    return slot;
  }
  // It is free from that cycle on, now or later.
  void give(std::uint32_t slot, Cycle from) {
    const std::uint64_t bit = bits::one(slot);
    HEDDLE_CHECK((all_ & bit) != 0 && (free_ & bit) == 0, "a CTA slot was freed that is not in use");
    free_ |= bit;
    from_[slot] = from;
  }
  std::uint32_t used() const { return bits::count(all_ & ~free_); }
  void reset() {
    free_ = all_;
    from_.fill(0);
  }

 private:
  std::uint64_t all_;
  std::uint64_t free_;
  std::array<Cycle, 64> from_{};  // by slot
};

// A CGA is open from its first launch packet until its flush has ended.
class CgaTable {
 public:
  struct Cga {
    protocol::TaskSlot slot;
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
    std::uint64_t slots = 0;                               // SMs of the GPC that hold an sm_cga_slot for it (CGA-11)
    std::array<std::uint8_t, arch::kMaxSmsPerGpc> here{};  // CTAs of it that run, by SM of the GPC
  };

  // `sms`: of the GPC.
  CgaTable(std::uint32_t ids, std::uint32_t barriers, std::uint32_t sms)
      : ids_(ids), barriers_(barriers), all_sms_(bits::below(sms)), cgas_(ids) {}

  bool id_free() const { return ids_.any(); }
  bool barrier_free() const { return barriers_.any(); }
  // Takes an id and a barrier slot, both of which must be free, for a CGA of that many CTAs.
  protocol::CgaId open(protocol::TaskSlot slot, std::uint32_t operation, std::uint64_t sequence, std::uint32_t ctas,
                       Cycle when) {
    const protocol::CgaId id(ids_.take());
    Cga& cga = cgas_[id];
    cga = {slot, operation, sequence, opened_++, barriers_.take(), ctas, ctas, 0, when, 0, {}, all_sms_, {}};
    cga.barrier.open(ctas);
    return id;
  }
  // One CTA on each SM of the mask.
  void launch(std::uint32_t id, std::uint64_t sms) {
    Cga& cga = cgas_[id];
    const std::uint32_t ctas = bits::count(sms);
    HEDDLE_CHECK(ctas <= cga.waiting, "more CTAs were launched than a CGA has");
    bits::for_each(sms, [&cga](std::uint32_t sm) { ++cga.here[sm]; });
    cga.waiting -= ctas;
    cga.live += ctas;
  }
  // All SMs know the CTA from that cycle on.
  void enter(std::uint32_t id, std::uint32_t rank, Cycle when) {
    HEDDLE_CHECK(id < cgas_.size() && cgas_[id].live > 0, "a CTA was entered of a CGA that has none running");
    cgas_[id].barrier.enter(rank, when);
  }
  // What the completion of a CTA frees.
  struct Completed {
    bool last = false;        // of all: nothing of the CGA runs or will
    std::uint64_t slots = 0;  // SMs whose sm_cga_slot is free
  };
  // A CTA of it on that SM of the GPC has completed. Its slot there is free if it was the last one there and all are
  // known everywhere, so that none of the CGA comes there any more; all are free with the CGA's last CTA (CGA-11).
  Completed complete(std::uint32_t id, std::uint32_t rank, std::uint32_t sm, Cycle when) {
    HEDDLE_CHECK(id < cgas_.size() && cgas_[id].live > 0 && cgas_[id].here[sm] > 0,
                 "a CTA completed of a CGA that has none running");
    Cga& cga = cgas_[id];
    cga.barrier.leave(rank, when);
    cga.ended = when;
    --cga.here[sm];
    Completed done{--cga.live == 0 && cga.waiting == 0, 0};
    const bool known = cga.barrier.all_entered() && cga.barrier.entered_from() <= when;
    if (done.last) {
      done.slots = cga.slots;
    } else if (known && cga.here[sm] == 0) {
      done.slots = cga.slots & bits::one(sm);
    }
    cga.slots &= ~done.slots;
    return done;
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
  std::uint64_t all_sms_;
  std::vector<Cga> cgas_;  // by id
  std::uint64_t opened_ = 0;
};

// Where the CTAs of the GPC_CGAs of a GPC have run, and who of those has not answered a flush (CGA-12). A GPM counts
// TPCs, an MPC the SMs of its TPC.
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
