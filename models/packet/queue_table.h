// The user-mode queues as the host sees them: how each was opened, its state, and why it stopped. Stages ask here; only
// the queue control (packet/other_packets.h) changes it.
//
// And the stages' requests to memory: every one is asked for on behalf of a queue, which cannot close before the answer
// has come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "arch/address_map.h"
#include "arch/aql_packet.h"
#include "arch/memory_op.h"
#include "common/packet_port.h"
#include "protocol/host_packet.h"

namespace heddle::packet {

// What the packet processor knows of one queue's ring: which packets can be read, which one is next, what is
// complete. Plain C++, without time and memory (PKT-01, PKT-04).
//
// Doorbells make it look, and nothing else does (PKT-14): from the next packet on, until it finds one that is not
// published. Producers ring after they have published, with whatever value: so nothing is missed, and nothing has to be
// looked at again without a doorbell. A value in reach of the ring tells of a packet, and of those before it: they are
// read at once, side by side. What is behind the last such value is read one by one.
//
// A packet is read ahead, becomes the head of its queue (in order, one at a time), is cleared (its slot can be written
// again), makes room for the next head, and is complete; packets complete in any order.
class QueueCore {
 public:
  using Cycle = std::uint64_t;
  enum class Slot : std::uint8_t { unread, reading, unpublished, published, failed };
  struct Fetched {
    Slot slot = Slot::unread;
    bool again = false;  // a doorbell rang while it was being read
    arch::PacketBytes bytes{};
    Cycle doorbell = 0;  // when the packet was told of; without that, of the doorbell that made it be found
    Cycle fetched = 0;
  };

  // `size`: packets, a power of two. `ahead`: packets that are read before they are the head.
  void open(std::uint64_t first, std::uint32_t size, std::uint32_t ahead);
  // Packets may be there. False: the queue has stopped.
  bool ring(std::uint64_t index, Cycle when);
  // A doorbell has told of that packet.
  bool told(std::uint64_t index) const { return told_any_ && index <= last_; }

  // The next packet to be read, if there is one; it counts as being read from now on. Never a slot whose packet before
  // has not been cleared.
  std::optional<std::uint64_t> next_read();
  // The answer for that packet. One that is unpublished is looked at again after a doorbell.
  void arrived(std::uint64_t index, Slot slot, const arch::PacketBytes& bytes, Cycle when);

  // The packet that is the next head: null while there is a head, or nothing is known of another.
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
  void look_again(std::uint64_t from);

  std::uint32_t size_ = 0;
  std::uint32_t ahead_ = 0;
  bool stopped_ = true;
  bool told_any_ = false;
  std::uint64_t last_ = 0;      // the largest index told
  std::deque<Told> told_;       // doorbells that packets which have not begun came with
  bool looks_ = false;          // what is behind last_ has not been looked at since the last doorbell
  Cycle bell_ = 0;              // when that rang
  std::uint64_t next_ = 0;      // the next to begin
  bool head_taken_ = false;     // next_ - 1 is the head
  std::deque<Fetched> window_;  // from next_ on
  std::uint64_t read_ = 0;      // all before it are cleared
  std::deque<bool> cleared_;    // from read_ to next_
  std::uint64_t oldest_ = 0;
  std::deque<bool> complete_;  // from oldest_ to next_
  std::uint64_t begun_ = 0;
};

class QueueTable {
 public:
  struct Error {
    arch::HsaResult result;
    std::uint64_t index = 0;  // the packet that is wrong
  };

  QueueTable(std::uint32_t queues, PacketSender<protocol::QueueEventPacket>& host) : host_(host), queues_(queues) {}

  std::uint32_t count() const { return static_cast<std::uint32_t>(queues_.size()); }
  protocol::QueueState state(std::uint32_t queue) const { return queues_[queue].state; }
  bool active(std::uint32_t queue) const { return state(queue) == protocol::QueueState::active; }
  const protocol::QueueSetup& setup(std::uint32_t queue) const { return queues_[queue].setup; }
  const Error& error(std::uint32_t queue) const { return queues_[queue].error; }

  void open(std::uint32_t queue, const protocol::QueueSetup& setup) {
    queues_[queue] = {protocol::QueueState::active, setup, {}};
  }
  void set_state(std::uint32_t queue, protocol::QueueState state) { queues_[queue].state = state; }
  void stop(std::uint32_t queue, const Error& error) {
    queues_[queue].state = protocol::QueueState::error;
    queues_[queue].error = error;
  }
  void reset() { queues_.assign(queues_.size(), {}); }

  // An event about a packet of the queue, to be completed and sent to the host.
  protocol::QueueEventPacket event(protocol::QueueEvent kind, std::uint32_t queue, std::uint64_t index) const {
    protocol::QueueEventPacket event;
    event.event = kind;
    event.queue = queue;
    event.state = state(queue);
    event.index = index;
    return event;
  }
  void tell_host(const protocol::QueueEventPacket& event) { host_.send(event); }

 private:
  struct Queue {
    protocol::QueueState state = protocol::QueueState::closed;
    protocol::QueueSetup setup;
    Error error;
  };

  PacketSender<protocol::QueueEventPacket>& host_;
  std::vector<Queue> queues_;
};

// What stages tell of their queues: the queue control.
class QueueSupervisor {
 public:
  // The queue stops (PKT-09): nothing more of it is fetched or launched; kernels that have been launched end as usual.
  virtual void fail(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel, const arch::HsaResult& result) = 0;
  // Something that may have kept the queue from closing, or from being inactive, has ended.
  virtual void try_close(std::uint32_t queue) = 0;

 protected:
  ~QueueSupervisor() = default;
};

// What an answer is for.
struct MemoryTag {
  enum class Use : std::uint8_t {
    ring,           // the packet at `index`
    slot_cleared,   // the packet's at `index`
    read_index,     // `index`: the new value
    kernel_object,  // `part`: the first kernel that needs it, of packet `slot`, `generation`
    code,           // the same; `index`: line of the code of its object
    dependency,     // `part`: which signal of that packet
    acquire,        // of that packet, or of its next kernel
    table_read,     // for access `slot` to a table; `part`: which line
    table_write,    //
    table_clear,    // `part`: which table
    fence,          // for clean-up `slot`, as all below
    stamps,
    signal,
    mailbox_read,
    mailbox_write,
  };
  Use use = Use::ring;
  std::uint32_t queue = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  std::uint32_t part = 0;
  std::uint64_t index = 0;
};

struct MemoryAnswer {
  MemoryTag tag;
  bool ok = false;                                    // no error, and the data are not corrupt
  std::array<std::uint8_t, arch::kLineBytes> data{};  // what a read found
};

// The way to memory. Answers come later, in any order, to the router. Ranges lie within a line.
class MemoryPort {
 public:
  virtual void read(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, const MemoryTag& tag) = 0;
  // The same, of device memory; and `watch` comes to OtherPackets::on_written() when the line may have changed since.
  virtual void watch(std::uint64_t address, std::uint32_t bytes, std::uint8_t subcontext, std::uint64_t watch,
                     const MemoryTag& tag) = 0;
  virtual void write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, std::uint8_t subcontext,
                     const MemoryTag& tag) = 0;
  // The machine's own structures, which lie in no process's pages: physical addresses, whatever is translated.
  virtual void read_own(std::uint64_t address, std::uint32_t bytes, const MemoryTag& tag) = 0;
  virtual void write_own(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes,
                         const MemoryTag& tag) = 0;
  // Atomically, 64 aligned bits.
  virtual void decrement(std::uint64_t address, std::uint8_t subcontext, const MemoryTag& tag) = 0;
  // All slices write back what is dirty (MEM-06).
  virtual void write_back(const MemoryTag& tag) = 0;
  // All slices forget what others may have changed in memory (MEM-06). There is no error in it.
  virtual void invalidate(const MemoryTag& tag) = 0;
  // Requests that have not been answered.
  virtual std::size_t open() const = 0;

 protected:
  ~MemoryPort() = default;
};

// Adds to a request what follows from its queue: the subcontext, and that an answer is outstanding.
class QueueMemory {
 public:
  QueueMemory(MemoryPort& port, const QueueTable& queues)
      : port_(port), queues_(queues), outstanding_(queues.count(), 0) {}

  void read(std::uint64_t address, std::uint32_t bytes, const MemoryTag& tag) {
    port_.read(address, bytes, ask(tag), tag);
  }
  void watch(std::uint64_t address, std::uint32_t bytes, std::uint64_t watch, const MemoryTag& tag) {
    port_.watch(address, bytes, ask(tag), watch, tag);
  }
  void write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, const MemoryTag& tag) {
    port_.write(address, data, bytes, ask(tag), tag);
  }
  void read_own(std::uint64_t address, std::uint32_t bytes, const MemoryTag& tag) {
    (void)ask(tag);
    port_.read_own(address, bytes, tag);
  }
  void write_own(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, const MemoryTag& tag) {
    (void)ask(tag);
    port_.write_own(address, data, bytes, tag);
  }
  void write_value(std::uint64_t address, std::uint64_t value, std::uint32_t bytes, const MemoryTag& tag) {
    std::array<std::uint8_t, 8> data{};
    for (std::uint32_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(value >> 8 * i);
    write(address, data.data(), bytes, tag);
  }
  void decrement(std::uint64_t address, const MemoryTag& tag) { port_.decrement(address, ask(tag), tag); }
  void write_back(const MemoryTag& tag) {
    (void)ask(tag);
    port_.write_back(tag);
  }
  void invalidate(const MemoryTag& tag) {
    (void)ask(tag);
    port_.invalidate(tag);
  }

  void answered(std::uint32_t queue) { --outstanding_[queue]; }
  std::uint32_t outstanding(std::uint32_t queue) const { return outstanding_[queue]; }
  std::size_t open() const { return port_.open(); }
  void reset() { outstanding_.assign(outstanding_.size(), 0); }

 private:
  std::uint8_t ask(const MemoryTag& tag) {
    ++outstanding_[tag.queue];
    return queues_.setup(tag.queue).subcontext;
  }

  MemoryPort& port_;
  const QueueTable& queues_;
  std::vector<std::uint32_t> outstanding_;  // by queue
};

}  // namespace heddle::packet
