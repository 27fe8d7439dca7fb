// Stage 1 of the packet processor: packets come out of the rings in memory, ahead of their use, and their slots go back
// to the producer (PKT-01, PKT-04).
#pragma once

#include <cstdint>
#include <vector>

#include "packet/packet_reporter.h"
#include "packet/queue_table.h"

namespace heddle::packet {

// Is told when a queue may have a new head.
class RingListener {
 public:
  virtual void advance(std::uint32_t queue) = 0;

 protected:
  ~RingListener() = default;
};

class RingReader final : public Stage {
 public:
  RingReader(const StageContext& context, RingListener& listener, QueueSupervisor& supervisor);

  // `first`: index of the packet that is read first.
  void open(std::uint32_t queue, std::uint64_t first);
  // Nothing more of the queue is read, and what has been read is forgotten.
  void stop(std::uint32_t queue) { rings_[queue].core.stop(); }
  // Packets may be there; `index`: of one of them, if it is in reach.
  void doorbell(std::uint32_t queue, std::uint64_t index);

  // What is known of the ring.
  const QueueCore& ring(std::uint32_t queue) const { return rings_[queue].core; }
  // The first packet that has been read becomes the head of its queue; another is read in its place.
  QueueCore::Fetched take_head(std::uint32_t queue);
  void release_head(std::uint32_t queue) { rings_[queue].core.release_head(); }
  void drop_head(std::uint32_t queue) { rings_[queue].core.drop_head(); }
  // The packet has been launched: the producer may use its slot again.
  void clear_slot(std::uint32_t queue, std::uint64_t index);
  void complete(std::uint32_t queue, std::uint64_t index) { rings_[queue].core.complete(index); }

  // Packets of all queues that have begun and are not complete.
  std::uint64_t open_packets() const;
  // No packet is inside, and nothing is asked of memory.
  bool idle() const;
  // Why there is no head; null: there is nothing to be read, or it is being read.
  const char* wait_reason(std::uint32_t queue) const;
  // The next packet has been told of and is not published.
  bool awaits_producer(std::uint32_t queue) const;

  void on_answer(const MemoryAnswer& answer);
  void reset() { rings_.assign(rings_.size(), Ring()); }

 private:
  struct Ring {
    QueueCore core;
    bool writing_index = false;  // a read index is on its way to memory
  };

  void fetch(std::uint32_t queue);
  void fetched(const MemoryAnswer& answer);
  void slot_cleared(const MemoryAnswer& answer);
  void write_index(std::uint32_t queue);
  void index_written(const MemoryAnswer& answer);
  std::uint64_t slot_address(std::uint32_t queue, std::uint64_t index) const;
  static MemoryTag ring_tag(MemoryTag::Use use, std::uint32_t queue, std::uint64_t index) {
    return {use, queue, 0, 0, 0, index};
  }

  RingListener& listener_;
  QueueSupervisor& supervisor_;
  std::vector<Ring> rings_;  // by queue
};

}  // namespace heddle::packet
