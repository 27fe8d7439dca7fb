// The generator of a tensor memory access unit: whose line request leaves next, and when (TMA-15, TMA-16, TMA-43).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/domain.h"
#include "common/error.h"
#include "common/index_pool.h"
#include "common/link_network.h"
#include "tmau/line_sender.h"
#include "tmau/request_queue.h"

namespace heddle::tmau {

// A limited number of places, each free again from a cycle that is known beforehand (TMA-16). Plain C++.
class PlaceLimit {
 public:
  explicit PlaceLimit(std::uint32_t places) : places_(places), unused_(places) {}

  // The first cycle, `from` or later, in which a place is free; kNever: nobody has said when.
  Cycle earliest(Cycle from) const {
    if (unused_ > 0) return from;
    return back_.empty() ? kNever : std::max(from, back_.front());
  }
  // In a cycle that earliest() allows.
  void take() {
    if (unused_ > 0) {
      --unused_;
    } else {
      HEDDLE_CHECK(!back_.empty(), "a place was taken that nobody has given back");
      (void)back_.pop();
    }
  }
  void give_back(Cycle when) {
    HEDDLE_CHECK(unused_ + back_.size() < places_, "a place was given back that nobody had");
    back_.insert(when, [](Cycle before, Cycle item) { return before > item; });
  }
  // Places that nobody has given back yet.
  std::uint32_t taken() const { return places_ - unused_ - static_cast<std::uint32_t>(back_.size()); }
  void reset() {
    unused_ = places_;
    back_.clear();
  }

 private:
  std::uint32_t places_;
  std::uint32_t unused_;  // never taken
  Ring<Cycle> back_;      // in order of time
};

// The places of line requests that memory has not answered, in the unit and in its table of them.
class LinePlaces {
 public:
  explicit LinePlaces(const TmauParams& params)
      : uses_table_(params.tracking == Tracking::table), outstanding_(params.outstanding), table_(params.table) {}

  // The first cycle, `from` or later, in which another line request may be open; kNever: nobody has said.
  Cycle earliest(Cycle from) const {
    const Cycle when = outstanding_.earliest(from);
    return uses_table_ ? std::max(when, table_.earliest(from)) : when;
  }
  void take() {
    outstanding_.take();
    if (uses_table_) table_.take();
  }
  void give_back(Cycle when) {
    outstanding_.give_back(when);
    if (uses_table_) table_.give_back(when);
  }
  void reset() {
    outstanding_.reset();
    table_.reset();
  }

 private:
  const bool uses_table_;
  PlaceLimit outstanding_;
  PlaceLimit table_;
};

// Requests of a lane, an SM's line, are lined up in the order in which they have left its queue; the first of them is
// generated. Lanes take turns.
class BulkGenerator final : private EventHandler {
 public:
  BulkGenerator(const TmauContext& unit, SmPorts& ports, LineSender& sender);

  // The request is behind those of its lane that have come before. Its generation begins at work.earliest, once that is
  // known: then wake() is called.
  void line_up(const BulkWork& work) { lanes_[unit_.lane_of(work)].push(work.number); }
  void wake(Cycle when);
  // Requests of a lane that are lined up, the one that is generated included, and the first of them.
  std::size_t lined_up(std::uint32_t lane) const { return lanes_[lane].size(); }
  const BulkWork& first(std::uint32_t lane) const { return unit_.works[lanes_[lane].front()]; }
  // A lane has another request than this one in the stages.
  bool works_beside(const BulkWork& work) const;
  // The port takes line requests again.
  void port_free(Cycle when);
  // Memory has answered a line request, or will have at `when`: its place is free.
  void give_place(Cycle when);
  void add_waits(const BulkWork& work, WaitGraph& graph) const;
  void reset();

 private:
  struct Turn {
    std::uint32_t lane = 0;  // if `when` comes
    Cycle when = kNever;
  };

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return unit_.module; }
  void generate();
  Turn next_turn() const;
  Cycle possible(const BulkWork& work, Cycle from) const;
  void step(const Turn& turn);
  void take_turn(std::uint32_t lane);
  void count_wait(const BulkWork& work, Cycle when);

  const TmauContext& unit_;
  SmPorts& ports_;
  LineSender& sender_;
  std::vector<Ring<std::uint32_t>> lanes_;  // by lane of the unit: requests that are lined up
  Arbiter turns_;
  std::optional<std::uint32_t> turn_owner_;  // lane
  std::uint32_t turn_left_ = 0;
  std::uint32_t cost_of(const BulkWork& work) const {
    return costs_[work.reads_shared() ? 1 : 0][work.request().tensor ? 1 : 0];
  }

  const std::array<std::array<std::uint32_t, 2>, 2> costs_;  // of a line request: by stores, tensor
  LinkPace pace_;                                            // of the generator's time
  LinePlaces places_;
  Cycle generate_at_ = kNever;  // event
  bool generating_ = false;
  bool starved_ = false;       // no place for line requests, and nobody has said when
  Cycle generated_until_ = 0;  // after the last line
};

}  // namespace heddle::tmau
