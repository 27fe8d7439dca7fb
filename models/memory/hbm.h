// High-bandwidth memory: pseudo-channels with banks, rows and refresh behind base-protocol sockets (MEM-02).
//
// A target for any initiator: reads and writes of any length, byte enables, streaming width, errors as responses
// (MEM-05). Of extensions it needs none; the one of ours says whose a request is. Data move when a request is taken;
// the channels only decide when it is answered. A write is answered once the controller has it; a read that finds its
// line among the writes that wait is answered from there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/instances.h"
#include "common/block.h"
#include "common/index_pool.h"
#include "common/memory_socket.h"
#include "common/range_target.h"
#include "common/storage.h"
#include "memory/direct_memory.h"
#include "memory/fair_share.h"
#include "memory/hbm_banks.h"
#include "memory/hbm_calendar.h"
#include "memory/hbm_channel.h"
#include "memory/memory_params.h"

namespace heddle::memory {

class Hbm : public Block, private LineSource, private RangeTarget {
 public:
  // `bytes` of memory from address 0; `ports` sockets, each of which reaches all of it.
  // `shares`: how subcontexts share a channel, where requests say whose they are (PRT-11); must outlive it; null: they
  // are all alike. `instances`: whose memory lies in channels of their own; each socket is that of a slice then, as it
  // is where channels belong to slices.
  Hbm(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HbmParams& params,
      std::uint64_t bytes, std::uint32_t ports, const arch::BandwidthTable* shares = nullptr,
      const arch::Instances& instances = {});
  ~Hbm() override;

  MemoryIn& in(std::uint32_t port) { return *ports_[port].in; }
  // The bytes, for loading and dumping without time. A reset leaves them as they are.
  Storage& storage() { return storage_; }
  // Pages to which others have a pointer. An access through a port ends the grant of its pages; debug ones see the same
  // bytes. A reset leaves them as they are.
  DirectMemory& direct() { return direct_; }

  const HbmMap& map() const { return map_; }
  const HbmTiming& timing() const { return timing_; }
  // Bytes per second that the pins carry.
  double peak() const;
  // Reads and writes of 32-byte sectors that one channel was asked for since the start: shows an uneven load.
  std::uint64_t sectors_of(std::uint32_t channel) const {
    return channels_[channel].sectors + calls_.sectors_of(channel);
  }

  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  enum Kind : std::uint32_t { kChannel, kAnswer };

  // Lines. Of pages that others have pointers to, none.
  bool find(LineRead& read, std::uint32_t port) override;
  void take(LineRead& read, std::uint32_t port) override;
  void warm(LineRead& read, std::uint32_t port, bool line) const override;

  // A request between BEGIN_REQ and BEGIN_RESP.
  struct Flight {
    tlm::tlm_generic_payload* payload = nullptr;
    Cycle arrival = 0;
    std::uint32_t port = 0;
    std::uint32_t parts = 0;  // of a line at most each, that are not done
  };
  struct Port {
    std::unique_ptr<MemoryIn> in;
    std::uint32_t flights = 0;
    Ring<std::uint32_t> ready;  // answers that the initiator has no room for
  };
  struct Arrival {
    Cycle when;
    HbmAccess access;
  };
  struct Answer {
    Cycle when;
    std::uint32_t flight;
  };
  struct Channel {
    Channel(HbmChannel core_, const arch::BandwidthTable* shares_) : core(std::move(core_)), shares(shares_) {}
    bool shared() const { return shares != nullptr && shares->any(); }
    // Its subcontext's next turn. Who comes after a pause begins with what is served now.
    void give_turn(HbmAccess& access, tlm::tlm_generic_payload& payload);
    // Takes the first that has come, or the one whose turn comes first. There is one.
    HbmAccess take_arrival(bool write, Cycle now);

    HbmChannel core;
    Cycle armed = kNever;          // the one event that counts
    Ring<Arrival> arrivals[2];     // reads, writes: on their way, or without room in the queue
    Ring<Answer> from_banks;       // reads
    Ring<Answer> from_controller;  // writes, and reads that found their line among them
    std::uint64_t sectors = 0;
    const arch::BandwidthTable* shares;  // null: nobody ever shares
    std::unique_ptr<FairClock> clock;    // gives out turns, while bandwidth is shared
  };
  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& reads = counter("reads", "requests", "reads that were taken in");
    Counter& writes = counter("writes", "requests", "writes that were taken in");
    Counter& read_bytes = counter("read_bytes", "bytes", "bytes that reads asked for");
    Counter& written_bytes = counter("written_bytes", "bytes", "bytes that writes asked for, disabled ones included");
    Counter& errors = counter("errors", "requests", "requests that were answered with an error");
    Histogram& read_latency = histogram("read_latency", "cycles", "from a read's arrival to its response");
    Histogram& read_queue = histogram("read_queue", "lines", "reads in a channel's queue when another one joins");
    Histogram& write_queue = histogram("write_queue", "lines", "writes in a channel's queue when another one joins");
  };

  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival);
  void on_room(std::uint32_t port, Cycle when);
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t port, sc_core::sc_time& delay);
  unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t port);
  bool move(RangeMove& range, std::uint32_t port) override;

  std::uint32_t new_flight(tlm::tlm_generic_payload& payload, std::uint32_t port, Cycle arrival);
  void count(const tlm::tlm_generic_payload& payload, bool good);
  void split(std::uint32_t flight, Cycle when);
  void run_channel(std::uint32_t index);
  bool admit(Channel& channel);
  void answer(Channel& channel);
  Cycle next_of(const Channel& channel, HbmTick next_command) const;
  void arm(std::uint32_t index, Cycle when);
  void respond(std::uint32_t flight);
  void send(std::uint32_t flight, Cycle when);

  Storage storage_;
  DirectMemory direct_;
  HbmMap map_;
  HbmTiming timing_;
  HbmCounters counters_;
  Statistics stats_;
  Cycle request_cycles_;
  Cycle response_cycles_;
  Cycle access_cycles_;
  HbmCalls calls_;
  std::uint32_t port_requests_;
  std::vector<Port> ports_;
  std::vector<Channel> channels_;
  IndexPool<Flight> flights_;
  std::vector<HbmDone> done_;  // of one call of HbmChannel::advance
};

}  // namespace heddle::memory
