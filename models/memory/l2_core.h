// The core of an L2 slice (MEM-01): which requests hit, which wait for memory and behind whom, what goes back to
// memory.
//
// Writes do not fetch what they leave out of a sector: each line knows its valid bytes. This is what GPUs do, since
// most sectors that are written in parts are complete before they are read or leave. One that is not is completed from
// memory when it leaves, because memory is given whole sectors only.
//
// Order. Requests to one line are served in the order in which they came. For each line, a fetch and the write-backs
// never overtake each other on their way to memory: a fetch waits for the acknowledgement of every write-back of its
// line, and a write-back for the one before it.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/l2_access.h"
#include "memory/l2_array.h"
#include "memory/l2_command.h"
#include "memory/l2_ingress.h"
#include "memory/l2_lanes.h"
#include "memory/l2_memory_port.h"
#include "memory/l2_row_writer.h"
#include "memory/l2_write_buffer.h"

namespace heddle::memory {

class L2Core : private L2WriteBuffer::Listener {
 public:
  static constexpr int kOk = kL2Ok;

  enum class Outcome : std::uint8_t { done, waits, stalled };
  enum class Stall : std::uint8_t { mshr, mshr_target, way, write_buffer };
  using Command = L2Command;
  using Served = L2Served;

  // `counters` must outlive it.
  L2Core(const L2Config& config, L2Counters& counters);
  L2Core(const L2Core&) = delete;  // its parts know each other
  L2Core& operator=(const L2Core&) = delete;

  // `done`: the access has taken effect. `waits`: it will be in served() after some answer of memory. `stalled`:
  // nothing has happened, for the reason stall(); to be tried again after the next answer.
  Outcome serve(const L2Access& access, void* request);
  Stall stall() const { return stall_; }
  // The answer to a command; `data`: the image of a line, of a read that is well.
  void answer(const Command& command, int status, const std::uint8_t* data);
  std::vector<Served>& served() { return served_; }

  std::size_t commands() const { return commands_.size(); }  // that have not been taken
  Command take_command() { return commands_.pop(); }
  // The bytes of a write, as an image of its line.
  const std::uint8_t* write_data(const Command& command) const { return write_buffer_.data_of(command); }

  // For accesses that must not wait: memory is called from inside. Returns kOk or memory's error.
  int serve_blocking(const L2Access& access, L2Memory& memory) { return blocking_.serve(access, memory); }

  const L2Array& array() const { return array_; }
  // A read of a line whose sectors are all here takes effect: its bytes.
  const std::uint8_t* read_line(std::uint32_t index, std::uint8_t owner, std::uint32_t kernel,
                                arch::EvictionPriority priority) {
    counters_.count_hit(owner, kernel);
    array_.touch(index, priority);
    return array_.data(index);
  }

  // Puts newer bytes than memory's over the image of a line; the result says which.
  LineMask overlay(std::uint64_t line, std::uint8_t* image) const;
  // Changes bytes that are here, or awaited. `in_memory`: the caller has changed them there too; if not, they are kept
  // as dirty. False if the line is not here and its bytes are not kept.
  bool poke(std::uint64_t line, const std::uint8_t* image, const LineMask& bytes, bool in_memory);

  // The data of these sectors are corrupt, here and in memory. Requests that need them are told so, until somebody
  // writes all of a sector.
  void poison(std::uint64_t line, std::uint32_t sectors) { poison_.add(line, sectors); }
  bool poisoned(std::uint64_t line, std::uint32_t sectors) const {
    return poison_.touches(line, sectors);
  }  // one of them

  bool has_poison() const { return poison_.any(); }

  // Something of the line is on its way from or to memory, or is corrupt: others cannot have its bytes.
  bool busy_with(std::uint64_t line) const;
  // Bytes of the line that memory does not have; null without any.
  const std::uint8_t* newer(std::uint64_t line, LineMask& bytes) const;
  // The line is not here any more, whatever it held. It must not be busy.
  void forget(std::uint64_t line);

  bool idle() const { return mshrs_.in_use() == 0 && write_buffer_.empty() && flush_.idle() && invalidation_.idle(); }
  const L2Mshrs& mshrs() const { return mshrs_; }
  const L2WriteBuffer& write_buffer() const { return write_buffer_; }
  void reset();

 private:
  static constexpr std::uint32_t kNone = L2Array::kNone;

  Outcome stalls(Stall reason);
  bool can_miss(const L2Access& access);
  Outcome primary_miss(const L2Access& access, std::uint32_t index, std::uint32_t missing, void* request);
  Outcome secondary_miss(const L2Access& access, std::uint32_t index, void* request);
  void fetch(std::uint32_t number, std::uint32_t sectors, const L2Access& access);
  void fill(const Command& command, int status, const std::uint8_t* data);
  void replay(std::uint32_t number);
  void take_effect(const L2Access& access, std::uint32_t index) {
    if (poison_.any()) poison_.apply(access);
    array_.apply(access, index);
  }

  void write_back_failed(std::uint64_t order, int status) override { flush_.note_failure(order, status); }
  void write_back_done(std::uint64_t line, bool last) override;

  L2Counters& counters_;
  const arch::AddressMap* const copies_of_;  // null: there are no copies of lines of others
  const std::uint32_t slice_;
  L2Array array_;
  L2Poison poison_;  // sectors of memory
  L2Mshrs mshrs_;
  L2CommandQueue commands_;
  L2WriteBuffer write_buffer_;
  L2RowWriter row_writer_;
  std::vector<Served> served_;
  L2Flush flush_;
  L2Invalidation invalidation_;
  L2BlockingPath blocking_;
  Stall stall_ = Stall::mshr;
};

// What the access would cost memory if it were served now.
L2Lanes::Cost cost_of(const L2Core& core, const L2Access& access);

}  // namespace heddle::memory
