// One copy engine: reads pieces, writes them when they have come, and says when all have been written.
//
// Pieces are lines. Where memory moves ranges (accesses are calls), they are runs of up to kRunBytes, which take what
// their lines would: lines of the engine's bandwidth and of those that it has under way, and of all on their way. What
// memory does not move as a range goes by lines, which find out why.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/index_pool.h"
#include "common/link_network.h"
#include "common/memory_socket.h"
#include "common/range_target.h"
#include "copy/copy_job.h"
#include "protocol/memory_request.h"

namespace heddle::copy {

// What has become of a request.
struct EndedCopy {
  std::uint32_t engine = 0;
  std::uint32_t sender = 0;
  const CopyJob& job;
  Cycle start = 0;
  Cycle end = 0;
};

class CopyListener {
 public:
  // The engine is free again; it may be given another request at once.
  virtual void ended(const EndedCopy& copy) = 0;

 protected:
  ~CopyListener() = default;
};

struct CopyEngineStats : StatGroup {
  using StatGroup::StatGroup;
  Counter& bytes = counter("bytes", "bytes", "bytes moved or filled");
  Counter& requests = counter("requests", "requests", "copies and fills that have ended");
  Counter& busy = counter("busy", "cycles", "cycles with a copy or fill at work");
  Gauge& bandwidth =
      gauge("bandwidth", "GB/s", "bytes moved or filled per time at work, set-up included; after each request");
};

class CopyEngine final : public EventHandler {
 public:
  // What the engines of a device share.
  struct Shared {
    Domain& domain;
    protocol::RequestPool& pool;
    CopyListener& listener;
    std::string stats_path;  // path of all engines, with the device's prefix
    const char* name;        // name of the block, for messages
  };

  CopyEngine(const Shared& shared, std::uint32_t number, const CopyParams& params);

  MemoryOut memory_out;

  bool busy() const { return busy_; }
  // Not while it is busy. The request is one that can be done.
  void start(const protocol::CopyRequestPacket& request, std::uint32_t sender);
  void reset();
  void collect_waits(WaitGraph& graph) const;

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }

 private:
  static constexpr std::uint32_t kRunBytes = 4096;
  using Run = std::array<std::uint8_t, kRunBytes>;
  enum Event : std::uint32_t { kPump, kAnswer, kBack, kRunEnd, kEnd };  // argument of an answer, and of a run: its slot
  // A piece under way.
  struct Slot {
    Piece piece;
    protocol::MemoryRequest* payload = nullptr;
    bool writes = false;
    bool with_memory = false;
    Run* run = nullptr;  // null: a line
    RangeMove range;
    std::uint32_t lines() const { return run == nullptr ? 1 : piece.bytes / arch::kLineBytes; }
  };

  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t, Cycle arrival);
  void on_room(std::uint32_t, Cycle when) { pump_at(when); }
  // Something may be sent in that cycle.
  void pump_at(Cycle when);
  void pump();
  void read(std::uint32_t slot);
  void fill(std::uint32_t slot);
  void write(std::uint32_t slot);
  void aim(std::uint32_t slot, bool write);
  void send(std::uint32_t slot);
  void take_answer(std::uint32_t slot);
  void take_data(std::uint32_t slot, bool good);
  // Of runs.
  std::uint32_t lines_of_run() const;
  bool begin_run(std::uint32_t lines, Cycle now);
  bool move(std::uint32_t slot, bool write);
  void write_run(std::uint32_t slot);
  void split(std::uint32_t slot);
  void come_back(std::uint32_t slot);
  void end_run(std::uint32_t slot);
  void fill_run(std::uint32_t slot);
  Run* take_buffer();
  void give_up(std::uint32_t slot);
  void finish();
  void draw(TimelineSink& sink, Cycle end) const;
  std::string title() const;

  Domain& domain_;
  protocol::RequestPool& pool_;
  CopyListener& listener_;
  const char* const name_;
  const std::uint32_t number_;
  const std::uint32_t outstanding_;
  const Cycle set_up_;

  bool busy_ = false;
  CopyJob job_;
  std::uint32_t sender_ = 0;
  Cycle start_ = 0;
  Cycle armed_ = kNever;  // the next kPump
  LinkPace pace_;
  IndexPool<Slot> slots_;
  Ring<std::uint32_t> to_write_;  // slots whose data have come

  RangePort ranges_;          // of memory, if it moves any
  bool asked_ = false;        // whether it does
  const double line_cycles_;  // of the engine's bandwidth
  std::uint32_t lines_ = 0;   // under way
  Cycle held_until_ = 0;      // memory has no room before
  Cycle freed_ = 0;           // the last line of the runs that have ended
  std::vector<std::unique_ptr<Run>> buffers_;
  std::vector<Run*> free_buffers_;

  CopyEngineStats stats_;
};

}  // namespace heddle::copy
