// The user-mode queues as the host sees them: how each was opened, its state, and why it stopped. Stages ask here; only
// the queue control (packet/queue_control.h) changes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace heddle::packet
