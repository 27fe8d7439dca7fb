// The ends of a packet link as a core sees them: it sends, and gives credits back. The sockets (common/packet_socket.h)
// are one kind of these; a test of a core brings its own.
#pragma once

#include <cstdint>

#include "common/timebase.h"

namespace heddle {

template <class Packet>
PacketKind packet_kind() {
  static constexpr char kTag = 0;
  return &kTag;
}

// Something that takes packets, over one link or several.
template <class Packet>
class PacketSender {
 public:
  // True if a packet can go out on `link` now. After a refusal the owner of the link is told once one can.
  bool can_send(std::uint32_t link = 0) { return do_can_send(link); }
  // Sends now; the packet arrives after the link's latency. Needs a credit.
  void send(const Packet& packet, std::uint32_t link = 0) { do_send(packet, link); }
  // The same for a packet that leaves in a later cycle, by a sender that knows already.
  void send_at(Cycle departure, const Packet& packet, std::uint32_t link = 0) { do_send_at(departure, packet, link); }

 protected:
  ~PacketSender() = default;

 private:
  virtual bool do_can_send(std::uint32_t link) = 0;
  virtual void do_send(const Packet& packet, std::uint32_t link) = 0;
  virtual void do_send_at(Cycle departure, const Packet& packet, std::uint32_t link) = 0;
};

// What a receiver gives credits back to, one for each packet that it has taken out of its queue.
class CreditSink {
 public:
  virtual void return_credit() = 0;
  // The same by an owner that knows in which later cycle the place will be free. Such cycles never go back.
  virtual void return_credit_at(Cycle when) = 0;

 protected:
  ~CreditSink() = default;
};

}  // namespace heddle
