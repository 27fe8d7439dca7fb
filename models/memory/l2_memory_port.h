// The memory side of an L2 slice: commands of the core become requests of whole sectors, and their answers come back.
// Any memory that speaks the base protocol can stand behind it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "common/bits.h"
#include "common/cycle.h"
#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "memory/l2_access.h"
#include "memory/l2_array.h"
#include "memory/l2_command.h"
#include "memory/l2_write_buffer.h"
#include "memory/memory_params.h"
#include "protocol/memory_request.h"

namespace heddle::memory {

class L2MemoryPort final : private EventHandler {
 public:
  class Listener {
   public:
    // An answer to a command; `data`: the image of its line, of a read that is well.
    virtual void on_memory_answer(const L2Command& command, int status, const std::uint8_t* data) = 0;
    // A send() is possible again.
    virtual void on_memory_room() = 0;
    // An answer to what send_other() has sent.
    virtual void on_other_answer(tlm::tlm_generic_payload& /*payload*/) {}

   protected:
    ~Listener() = default;
  };

  // `name`: for messages. All references must outlive it. `reads`: what reads are.
  L2MemoryPort(const char* name, Timebase& timebase, MemoryOut& socket, const L2Params& params, Listener& listener,
               protocol::MemoryAction reads = protocol::MemoryAction::plain);

  bool can_send() const { return socket_.can_send(); }
  // `line_image`: of a write, with the bytes that are written. It does not arrive before `earliest`.
  void send(const L2Command& command, const std::uint8_t* line_image, Cycle earliest = 0);
  // A request of somebody else's, in its turn.
  void send_other(tlm::tlm_generic_payload& payload, Cycle earliest = 0);

  // Blocking calls; `delay` grows by what memory takes. The result is kL2Ok or memory's error.
  int read_blocking(std::uint64_t line, const SectorRun& run, std::uint8_t* line_image, sc_core::sc_time& delay);
  int write_blocking(std::uint64_t line, const SectorRun& run, const std::uint8_t* line_image, sc_core::sc_time& delay);
  // Who offers lines there, if anybody does.
  const LinePort& lines() {
    if (!lines_known_) lines_ = socket_.lines();
    lines_known_ = true;
    return lines_;
  }
  // Soon a line will be read of it.
  void warm(LineRead& read) const {
    if (lines_.offered()) lines_.warm(read, true);
  }
  // Without time: bytes of one line, at their place in its image. Returns the bytes done.
  std::uint32_t debug(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes, std::uint8_t* line_image);
  // Changes bytes of writes that memory has and has not answered.
  void poke(std::uint64_t line, const std::uint8_t* line_image, const LineMask& bytes);

  // Commands that have not been answered.
  std::size_t open() const { return transfers_.in_use(); }
  // Payloads that the memory has, those of before a reset included.
  std::size_t payloads() const { return pool_.in_use(); }
  // `with_memory`: the memory is reset as well, and looks at no payload any more but by references of its own.
  void reset(bool with_memory);

 private:
  enum Event : std::uint32_t { kAnswer, kRoom, kOther };

  // A payload at the memory.
  struct Transfer {
    protocol::MemoryRequest* payload = nullptr;
    L2Command command;
    bool answered = false;
  };

  protocol::MemoryRequest& request_for(bool write, std::uint64_t line, const SectorRun& run);
  bool on_answer(tlm::tlm_generic_payload& payload, std::uint32_t index, Cycle arrival);
  void on_room(std::uint32_t index, Cycle when);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }
  Cycle arrival_of(const tlm::tlm_generic_payload& payload, Cycle earliest);
  void take_answer(std::uint32_t number);
  void drop_stale(tlm::tlm_generic_payload& payload);

  const char* name_;
  Timebase& timebase_;
  MemoryOut& socket_;
  Listener& listener_;
  const std::uint32_t latency_;    // cycles
  const std::uint32_t bandwidth_;  // bytes per cycle
  const protocol::MemoryAction reads_;
  protocol::RequestPool pool_;
  LinePort lines_;
  bool lines_known_ = false;
  Cycle free_at_ = 0;
  IndexPool<Transfer> transfers_;
  std::unordered_set<const tlm::tlm_generic_payload*> others_;  // of send_other(), which are out
  std::vector<protocol::MemoryRequest*> stale_;  // still with an attached memory when the slice was reset
};

// write_back of a whole slice: writes that have been acknowledged before it came are in memory when it is answered
// (MEM-06).
//
// A walk over the array sends every dirty line into the write buffer, as far as that has room, and ends when all
// entries up to the walk's last one have left. Requests that come during a walk share the next one, since lines may
// have become dirty behind it.
class L2Flush {
 public:
  // Requests that are done are appended to `served`.
  L2Flush(L2Array& array, L2WriteBuffer& buffer, std::vector<L2Served>& served)
      : array_(array), buffer_(buffer), served_(served) {}

  // False: memory has everything already. Otherwise the request will be among those served.
  bool begin(void* request);
  // The write buffer has room again, or an entry less.
  void advance();
  // Memory has refused bytes of an entry of the write buffer.
  void note_failure(std::uint64_t order, int status);

  bool idle() const { return current_.empty() && next_.empty(); }
  void reset();

 private:
  static constexpr std::uint32_t kNone = L2Array::kNone;

  L2Array& array_;
  L2WriteBuffer& buffer_;
  std::vector<L2Served>& served_;
  std::vector<void*> current_;    // requests that wait for the walk and what it has found
  std::vector<void*> next_;       // requests that came after it had begun
  std::uint32_t cursor_ = kNone;  // the line at which the walk goes on; kNone: it is through
  std::uint64_t last_order_ = 0;  // then: the entries up to this one count
  int status_ = kL2Ok;
};

// The data port of an L2 slice: one access at a time, for as many cycles as its bytes take.
class L2DataPort {
 public:
  // What a request takes of it.
  struct Turn {
    Cycle port = 1;
    double writing = 0;  // of the array's way in, from the same cycle on
    Cycle walk = 0;      // of these cycles, those that its answer waits for
  };

  explicit L2DataPort(const L2Params& params)
      : atomic_rate_(params.atomic_rate),
        walk_cycles_((params.lines_per_slice() / params.ways + params.walk_sets - 1) / params.walk_sets) {
    for (std::uint32_t i = 0; i <= arch::kSectorsPerLine; ++i) {
      const std::uint32_t bytes = i * arch::kSectorBytes;
      sector_cycles_[i] = std::max<Cycle>(1, (bytes + params.bandwidth - 1) / params.bandwidth);
      write_cycles_[i] = std::max(1.0, static_cast<double>(bytes) / params.write_bandwidth);
    }
  }

  Turn turn_of(const L2Access& access) const {
    const std::uint32_t sectors = bits::count(access.bytes.touched());
    switch (access.kind) {
      case L2Access::Kind::read:
        return {sector_cycles_[sectors], 0};
      case L2Access::Kind::write:
        return {sector_cycles_[sectors], write_cycles_[sectors]};
      case L2Access::Kind::atomic:
      case L2Access::Kind::reduce:
        return {atomic_cycles(access, atomic_rate_), 0};
      case L2Access::Kind::invalidate:
        return {walk_cycles_, 0, walk_cycles_};
      case L2Access::Kind::prefetch:
      case L2Access::Kind::write_back:
      case L2Access::Kind::drop_copy:
        break;
    }
    return {};
  }
  Turn turn_of_read(std::uint32_t sectors) const { return {sector_cycles_[sectors], 0}; }
  std::uint32_t atomic_rate() const { return atomic_rate_; }
  Cycle free_at() const { return free_at_; }
  // Takes the port as soon as it is free, and the way in if it writes. Returns when that is: `now` or later.
  Cycle take(Cycle now, const Turn& turn) {
    Cycle start = std::max(now, free_at_);
    if (turn.writing > 0) {
      start = std::max(start, static_cast<Cycle>(std::ceil(written_at_)));
      // What is left of a cycle is for the next write, if that comes at once.
      const auto begin = static_cast<double>(start);
      written_at_ = (written_at_ > begin - 1 ? written_at_ : begin) + turn.writing;
    }
    free_at_ = start + turn.port;
    return start;
  }
  void reset() {
    free_at_ = 0;
    written_at_ = 0;
  }

 private:
  std::array<Cycle, arch::kSectorsPerLine + 1> sector_cycles_{};  // by number of sectors
  std::array<double, arch::kSectorsPerLine + 1> write_cycles_{};
  std::uint32_t atomic_rate_;
  Cycle walk_cycles_;  // in which it looks at all sets
  Cycle free_at_ = 0;
  double written_at_ = 0;  // the way in is free
};

}  // namespace heddle::memory
