// Multicast reads (TMA-30): from the GPC's link on, one response becomes a packet for each receiver.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/topology.h"
#include "common/index_pool.h"
#include "common/line_source.h"
#include "common/link_network.h"
#include "common/packet_port.h"
#include "common/timebase.h"
#include "memory/crossbar_calendars.h"
#include "memory/crossbar_routes.h"
#include "protocol/memory_request.h"
#include "protocol/sm_tmau.h"

namespace heddle::memory {

// Bytes that the links of SMs have brought.
struct LinkCounters {
  Counter& all;
  Counter& bulk;  // of these, for tensor memory access units
};

struct MulticastCounters {
  Counter& reads;   // whose data went to SMs by multicast
  Counter& copies;  // packets
  LinkCounters links;
};

// The SM that has asked for a multicast, as far as the crossbar has it.
class MulticastRequester {
 public:
  // The response itself, an acknowledgement.
  virtual void acknowledge(std::uint32_t sm, const LinkPacket& packet, Cycle arrival) = 0;
  // The SM's next multicast may come to the GPC's link.
  virtual void open_multicasts(std::uint32_t sm) = 0;

 protected:
  ~MulticastRequester() = default;
};

// A multicast leaves the GPC's link when every receiver, and the SM that has asked, has room for a copy. Until then it
// waits there, one for each asking SM; that SM's next one stays where it is, and so do the packets behind that in its
// slice's buffer. Those that wait go in the order of their age, except that one passes others with which it has no SM
// in common.
//
// Behind the link is what copies them, in their order: one copy for each receiver, and so many of them per cycle and
// GPC. It does so once the receivers have kept places: the question and the answers take the way to the SMs and back.
class CrossbarMulticast final : private EventHandler {
 public:
  // `name`: for messages. All references must outlive it.
  CrossbarMulticast(const char* name, Timebase& timebase, const arch::Topology& topology, FanOut& fan_out,
                    const CrossbarParams& params, const MulticastCounters& counters, MulticastRequester& requester);

  // In order of SMs.
  void add_receiver(PacketSender<protocol::BulkDataPacket>& sender) { receivers_.push_back(&sender); }

  // Whether the response is a multicast: of a read that is well. Receivers that the GPC does not have are the
  // initiator's mistake, and become the status of the response.
  bool accepts(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t sm) const;
  // One that `sm` has asked for is at the GPC's link. Says whether its next one may follow.
  bool eject(std::uint32_t sm, const LinkPacket& packet, Cycle now);
  // All copies of what is at the GPC's link at `when`, for a read that is a call. Returns when the asking SM has its
  // own, or hears of them.
  Cycle deliver(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t sm,
                Cycle when, std::uint32_t bytes, CrossbarCalendars& calendars);
  // The same without a payload, whose copies arrive at `arrivals`, in the order of the receivers.
  bool knows(std::uint64_t receivers, std::uint32_t sm) const {
    const std::uint32_t sms = topology_.gpc(topology_.sm(sm).gpc).sms;
    return sms >= 64 || receivers >> sms == 0;
  }
  Cycle deliver(const LineRead& read, std::uint32_t sm, Cycle when, std::uint32_t bytes, CrossbarCalendars& calendars);
  void deliver(const LineRead& read);
  // What such reads have brought to a receiver.
  void pass_on(const protocol::BulkLines& lines, std::uint32_t sm, std::uint32_t receiver);
  // All copies at once, for a blocking read.
  void deliver(tlm::tlm_generic_payload& payload, const protocol::MemoryExtension& extension, std::uint32_t sm,
               Cycle arrival);

  void reset() {
    for (Gpc& gpc : gpcs_) gpc = Gpc(gpc.copies);
  }

 private:
  // A multicast that waits at the GPC's link.
  struct Staged {
    LinkPacket packet;
    std::uint32_t sm = 0;    // that has asked
    std::uint64_t ends = 0;  // bits of the SMs that need room
  };
  // One that is copied.
  struct Copying {
    LinkPacket packet;
    std::uint32_t sm = 0;    // that has asked
    std::uint64_t left = 0;  // bits of receivers without a copy
    Cycle ready = 0;
    Cycle own = kNever;  // when the SM that has asked gets a copy
  };
  struct Gpc {
    explicit Gpc(double copies_per_cycle) : copies(copies_per_cycle), copier(copies_per_cycle) {}
    double copies;    // per cycle
    LinkPace copier;  // of copies
    Ring<Copying> copying;
    Cycle copies_at = kNever;    // when an event makes the next ones
    std::vector<Staged> staged;  // by age
    std::uint64_t wanted = 0;    // their ends
    Cycle awaited = kNever;      // when an event looks again
  };

  static constexpr std::uint32_t kLook = 0;  // kinds of events; argument: a GPC
  static constexpr std::uint32_t kCopy = 1;

  void start(std::uint32_t gpc, const Staged& multicast, Cycle now);
  void make_copies(std::uint32_t gpc, Cycle now);
  void look(std::uint32_t gpc, Cycle now);
  void copy_from(std::uint32_t gpc, Cycle when);
  void send_copy(tlm::tlm_generic_payload& payload, std::uint32_t sm, std::uint32_t bit, Cycle arrival);
  Cycle copy(std::uint32_t sm, std::uint32_t bytes, Cycle now);
  template <class Arrives>
  Cycle copy_all(std::uint64_t receivers, std::uint32_t sm, Cycle when, std::uint32_t bytes, std::uint32_t carried,
                 CrossbarCalendars& calendars, Arrives&& arrives);
  void expect(std::uint32_t gpc, Cycle when);
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  const char* handler_name() const override { return name_; }

  const char* name_;
  Timebase& timebase_;
  const arch::Topology& topology_;
  FanOut& fan_out_;
  const std::uint32_t header_bytes_;
  MulticastCounters counters_;
  MulticastRequester& requester_;
  std::vector<Gpc> gpcs_;
  std::vector<PacketSender<protocol::BulkDataPacket>*> receivers_;  // by SM
};

}  // namespace heddle::memory
