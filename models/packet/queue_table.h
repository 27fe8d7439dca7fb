// The user-mode queues as the host sees them: how each was opened, its state, and why it stopped. Stages ask here; only
// the queue control (packet/queue_control.h) changes it.
//
// And the stages' requests to memory: every one is asked for on behalf of a queue, which cannot close before the answer
// has come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/memory_op.h"
#include "arch/unified_address.h"
#include "common/packet_port.h"
#include "protocol/host_packet.h"

namespace heddle::packet {

class QueueTable {
 public:
  struct Error {
    std::string why;                                    // for people
    arch::HsaStatus status = arch::HsaStatus::success;  // for the host
    std::uint64_t index = 0;                            // the packet that is wrong
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
  void stop(std::uint32_t queue, Error error) {
    queues_[queue].state = protocol::QueueState::error;
    queues_[queue].error = std::move(error);
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
  virtual void fail(std::uint32_t queue, std::uint64_t index, std::uint32_t kernel, const arch::Verdict& result) = 0;
  // Something that may have kept the queue from closing has ended.
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
    table_read,     // `part`: entry, for packet `slot`, `generation`
    table_write,    // `part`: entry, for that packet
    kernel_object,  // `part`: the first kernel of that packet that needs it
    dependency,     // `part`: which signal of that packet
    fence,          // for clean-up `slot`, as all below
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
  virtual void write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, std::uint8_t subcontext,
                     const MemoryTag& tag) = 0;
  // Atomically, 64 aligned bits.
  virtual void decrement(std::uint64_t address, std::uint8_t subcontext, const MemoryTag& tag) = 0;
  // All slices write back what is dirty (MEM-06).
  virtual void write_back(const MemoryTag& tag) = 0;
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
  void write(std::uint64_t address, const std::uint8_t* data, std::uint32_t bytes, const MemoryTag& tag) {
    port_.write(address, data, bytes, ask(tag), tag);
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
