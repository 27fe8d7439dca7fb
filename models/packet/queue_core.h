// What the packet processor knows of one queue's ring: which packets can be read, which one is next, what is
// complete. Plain C++, without time and memory (PKT-01, PKT-04).
//
// A packet is read ahead, becomes the head of its queue (in order, one at a time), is cleared (its slot can be written
// again), makes room for the next head, and is complete; packets complete in any order.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "arch/aql_packet.h"

namespace heddle::packet {

class QueueCore {
 public:
  using Cycle = std::uint64_t;
  enum class Slot : std::uint8_t { unread, reading, unpublished, published, failed };
  struct Fetched {
    Slot slot = Slot::unread;
    arch::PacketBytes bytes{};
    Cycle doorbell = 0;  // when the packet was told of
    Cycle fetched = 0;
  };

  // `size`: packets, a power of two. `ahead`: packets that are read before they are the head.
  void open(std::uint64_t first, std::uint32_t size, std::uint32_t ahead);
  // Packets up to `index` are there; true if that is news. The largest index ever told counts.
  bool ring(std::uint64_t index, Cycle when);

  // The next packet to be read, if there is one; it counts as being read from now on. Never a slot whose packet before
  // has not been cleared.
  std::optional<std::uint64_t> next_read();
  // The answer for that packet. One that is unpublished is read again after retry().
  void arrived(std::uint64_t index, Slot slot, const arch::PacketBytes& bytes, Cycle when);
  // Some packet has been read and was not published: then the first of those is what retry() reads again. Those behind
  // it follow once it is there.
  bool wants_retry() const;
  std::optional<std::uint64_t> retry();  // which one

  // The packet that is the next head: null while there is a head, or no doorbell has told of another.
  const Fetched* front() const;
  std::uint64_t front_index() const { return next_; }
  // A packet behind it, or itself, that has been read or will be next: null for others.
  const Fetched* waiting_at(std::uint64_t index) const {
    return in_window(index) ? &window_[static_cast<std::size_t>(index - next_)] : nullptr;
  }
  // All packets before it are complete.
  bool front_is_oldest() const { return oldest_ == next_; }
  bool is_oldest(std::uint64_t index) const { return oldest_ == index; }
  Fetched take_head();
  void release_head();

  // Its slot can be used again. True if that moves read_index().
  bool cleared(std::uint64_t index);
  std::uint64_t read_index() const { return read_; }
  void complete(std::uint64_t index);
  std::uint64_t oldest() const { return oldest_; }  // the first that is not complete
  // Packets that have begun and are not complete.
  std::uint64_t open_packets() const { return begun_; }
  // Packets that have been read and have not begun.
  std::uint64_t waiting() const;

  // Nothing more is read; what has been read is forgotten.
  void stop();
  // The head is forgotten as well: it is not cleared, and counts as complete.
  void drop_head();

 private:
  struct Told {
    std::uint64_t index = 0;
    Cycle when = 0;
  };
  Fetched& at(std::uint64_t index) { return window_[static_cast<std::size_t>(index - next_)]; }
  bool in_window(std::uint64_t index) const { return index - next_ < window_.size(); }

  std::uint32_t size_ = 0;
  std::uint32_t ahead_ = 0;
  bool stopped_ = true;
  bool told_any_ = false;
  std::uint64_t last_ = 0;      // the largest index told
  std::deque<Told> told_;       // doorbells that packets which have not begun came with
  std::uint64_t next_ = 0;      // the next to begin
  bool head_taken_ = false;     // next_ - 1 is the head
  std::deque<Fetched> window_;  // from next_ on
  std::uint64_t read_ = 0;      // all before it are cleared
  std::deque<bool> cleared_;    // from read_ to next_
  std::uint64_t oldest_ = 0;
  std::deque<bool> complete_;  // from oldest_ to next_
  std::uint64_t begun_ = 0;
};

}  // namespace heddle::packet
