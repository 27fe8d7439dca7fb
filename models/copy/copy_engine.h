// One copy engine: reads pieces, writes them when they have come, and says when all have been written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/link_pace.h"
#include "copy/copy_engines.h"
#include "copy/copy_job.h"

namespace heddle::copy {

class CopyEngine {
 public:
  enum Event : std::uint32_t { kPump, kAnswer };

  CopyEngine(CopyEngines& owner, std::uint32_t number, const CopyParams& params);

  MemoryOut memory_out;

  bool busy() const { return busy_; }
  void take(const CopyEngines::Waiting& next);
  bool on_response(tlm::tlm_generic_payload& payload, Cycle arrival);
  // Something may be sent in that cycle.
  void pump_at(Cycle when);
  void on_event(std::uint32_t kind, std::uint32_t slot);
  void reset();
  void collect_waits(WaitGraph& graph) const;

 private:
  static constexpr Cycle kNever = ~Cycle{0};
  // A piece under way.
  struct Slot {
    Piece piece;
    protocol::MemoryRequest* payload = nullptr;  // null: none
    bool writes = false;
    bool with_memory = false;
  };

  void pump();
  std::uint32_t free_slot();
  void read(std::uint32_t slot);
  void fill(std::uint32_t slot);
  void write(std::uint32_t slot);
  void aim(std::uint32_t slot, bool write);
  void send(std::uint32_t slot);
  void take_answer(std::uint32_t slot);
  void drop(std::uint32_t slot);
  void give_up(std::uint32_t slot);
  void finish();
  void draw(Cycle end) const;
  std::string title() const;

  CopyEngines& owner_;
  Domain& domain_;
  const std::uint32_t number_;
  const std::uint32_t outstanding_;
  const Cycle set_up_;

  bool busy_ = false;
  CopyJob job_;
  std::uint32_t sender_ = 0;
  Cycle start_ = 0;
  Cycle armed_ = kNever;  // the next kPump
  LinkPace pace_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  Ring<std::uint32_t> to_write_;  // slots whose data have come

  Counter& bytes_;
  Counter& requests_;
  Counter& busy_cycles_;
  Gauge& bandwidth_;
};

}  // namespace heddle::copy
