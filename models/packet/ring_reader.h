// Stage 1 of the packet processor: packets come out of the rings in memory, ahead of their use, and their slots go back
// to the producer (PKT-01, PKT-04).
#pragma once

#include <cstdint>
#include <optional>
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

class RingReader final : public PipelineStage {
 public:
  RingReader(const StageContext& context, RingListener& listener, QueueSupervisor& supervisor);

  void open(std::uint32_t queue);
  // Nothing more of the queue is read, and what has been read is forgotten.
  void stop(std::uint32_t queue) { rings_[queue].core.stop(); }
  // Packets up to `index` are there.
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
  // Nothing is read but packets that have been looked for in vain before.
  bool only_polls() const;
  // Why there is no head; null: there is nothing to be read, or it is being read.
  const char* wait_reason(std::uint32_t queue) const;
  // The next packet has been told of and is not published.
  bool awaits_producer(std::uint32_t queue) const;

  void on_answer(const MemoryAnswer& answer);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() { rings_.assign(rings_.size(), Ring()); }

 private:
  enum Event : std::uint32_t { kPoll };  // argument: a queue, and its epoch in the upper half
  struct Ring {
    QueueCore core;
    std::uint32_t epoch = 0;                 // goes up when the queue is opened
    bool poll_armed = false;                 // an event for it has been entered
    bool writing_index = false;              // a read index is on its way to memory
    std::optional<std::uint64_t> retried{};  // packet that was not published and is read again
  };

  void fetch(std::uint32_t queue);
  void fetched(const MemoryAnswer& answer);
  void arm_poll(std::uint32_t queue);
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
