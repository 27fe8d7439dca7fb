// One copy engine: reads pieces, writes them when they have come, and says when all have been written.
#pragma once

#include <cstdint>
#include <string>

#include "common/index_pool.h"
#include "common/link_network.h"
#include "common/memory_socket.h"
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
  enum Event : std::uint32_t { kPump, kAnswer };  // argument of an answer: its slot
  // A piece under way.
  struct Slot {
    Piece piece;
    protocol::MemoryRequest* payload = nullptr;
    bool writes = false;
    bool with_memory = false;
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

  CopyEngineStats stats_;
};

}  // namespace heddle::copy
