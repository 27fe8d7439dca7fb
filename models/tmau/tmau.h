// The tensor memory access unit (TMAU): one request of a thread moves a whole box or block (TMA-01 to TMA-43).
//
// Stages that overlap: input per SM and fair arbiter -> queue -> descriptor cache -> set-up -> generator -> network;
// responses -> shared memory; completion tracker.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/block.h"
#include "common/link_pace.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "common/ring.h"
#include "protocol/memory_request.h"
#include "protocol/sm_tmau.h"
#include "tmau/arbiter.h"
#include "tmau/bulk_work.h"
#include "tmau/completion_tracker.h"
#include "tmau/descriptor_cache.h"
#include "tmau/place_limit.h"
#include "tmau/request_queue.h"
#include "tmau/tmau_params.h"
#include "tmau/tmau_stats.h"

namespace heddle::tmau {

// Where a unit is: it serves SMs `first` to `first + ids.size() - 1` of its GPC.
struct TmauPlace {
  std::uint32_t gpc = 0;           // of the machine
  std::uint32_t number = 0;        // of the unit in its GPC
  std::uint32_t units = 1;         // of the GPC
  std::uint32_t per_unit = 1;      // SMs of each unit of the GPC: bit b belongs to unit b / per_unit
  std::uint32_t first = 0;         // bit of the GPC's masks
  std::vector<std::uint32_t> ids;  // of the SMs in the machine
  std::uint64_t memory = 0;        // bytes of device memory
};

class Tmau : public Block {
 public:
  Tmau(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const TmauParams& params,
       TmauPlace place);
  ~Tmau() override;

  // By SM of the unit. Links of the outgoing sockets as well, in the order of binding.
  sc_core::sc_vector<PacketIn<protocol::BulkRequestPacket>> request_in;
  PacketOut<protocol::BulkDonePacket> done_out;
  PacketOut<protocol::BulkDataPacket> data_out;
  PacketOut<protocol::BulkReadPacket> read_out;
  sc_core::sc_vector<PacketIn<protocol::BulkReadPacket>> read_in;
  sc_core::sc_vector<PacketIn<protocol::BulkDataPacket>> multicast_in;  // from the crossbar
  // The network interface: a port of the crossbar for each SM, which shares the SM's link.
  MemoryOut& memory_out(std::uint32_t sm) { return *memory_out_[sm]; }
  // By unit of the GPC, this one included.
  PacketOut<protocol::BulkPeerPacket> peer_out;
  sc_core::sc_vector<PacketIn<protocol::BulkPeerPacket>> peer_in;

  const TmauPlace& place() const { return place_; }
  // Nothing is queued, on its way or unacknowledged, and all payloads are home.
  bool quiescent() const;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;

 private:
  // Kinds of events; the argument is an SM of the unit, but for kChoose and kGenerate.
  static constexpr std::uint32_t kChoose = 0;    // a stage is free for the next request
  static constexpr std::uint32_t kGenerate = 1;  // the next line request can leave
  static constexpr std::uint32_t kPump = 2;      // what waits for the port can leave
  static constexpr std::uint32_t kEnter = 3;     // the request behind a drain is no longer held back
  // What a payload is for: the low bits of its entry. The others are the number of its request.
  enum class Role : std::uint8_t { line, prefetch, descriptor, copied };
  static constexpr std::uint32_t kRoleBits = 2;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // A payload that is ready for the port, perhaps only later.
  struct Ready {
    protocol::MemoryRequest* request = nullptr;
    Cycle earliest = 0;
  };
  // An SM of the unit.
  struct Lane {
    explicit Lane(QueueOrder order) : queue(order) {}
    Ring<std::uint32_t> input;   // numbers of requests; behind the first lies what a drain holds back
    RequestQueue queue;          // what waits for a stage
    Ring<std::uint32_t> chosen;  // in order: looked up, set up, and generated, which the first one is
    CompletionTracker tracker;
    std::uint32_t drain = kNone;  // under way
    Ring<Ready> ready;            // in order of time
    Cycle last = 0;               // arrival of the last request at the port
    Cycle pump_at = kNotYet;      // event
  };
  struct Turn {
    std::uint32_t sm = kNone;
    Cycle when = kNotYet;
  };

  // tmau.cpp: input, queue, completion
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void on_request(const protocol::BulkRequestPacket& packet, std::uint32_t sm);
  void enter(std::uint32_t sm);
  void enter_drain(std::uint32_t number);
  void end_drain(std::uint32_t sm);
  void tell_read(BulkWork& work);
  void complete(std::uint32_t number);
  void tell_done(const BulkWork& work, Cycle when);
  std::uint32_t take_work();
  void give_work(std::uint32_t number);

  // tmau_setup.cpp: descriptor cache, set-up
  void choose();
  bool can_choose(std::uint32_t sm);
  std::size_t next_of(const Lane& lane) const;
  void start(std::uint32_t number);
  void look_up(std::uint32_t number);
  void fetch(std::uint32_t number, Cycle when);
  void fetched(protocol::MemoryRequest& request, std::uint32_t number, Cycle arrival);
  void set_up(BulkWork& work, const CheckedDescriptor& descriptor, Cycle when);
  void drop(BulkWork& work, arch::TensorRule rule, Cycle when);
  void fill_target(BulkWork& work, std::uint32_t number);
  void stay_until(Cycle when);
  void arm_choose();

  // tmau_generate.cpp: generator, network
  void wake(Cycle when);
  void generate();
  Turn next_turn() const;
  Cycle possible(const BulkWork& work, Cycle from) const;
  void step(const Turn& turn);
  void take_turn(std::uint32_t sm);
  void count_wait(const BulkWork& work, Cycle when);
  void emit(BulkWork& work, std::uint32_t number, Cycle when);
  void emit_read(BulkWork& work, std::uint32_t number, Cycle when);
  void emit_source(BulkWork& work, std::uint32_t number, Cycle when);
  void emit_prefetch(BulkWork& work, std::uint32_t number, Cycle when);
  void emit_fill(BulkWork& work, std::uint32_t number, Cycle when);
  protocol::MemoryRequest& new_request(const BulkWork& work, std::uint32_t number, Role role);
  Cycle place_free(Cycle from) const;
  void take_place();
  void give_place(Cycle when);
  void push_ready(std::uint32_t sm, protocol::MemoryRequest& request, Cycle earliest);
  void arm_pump(std::uint32_t sm);
  void pump(std::uint32_t sm);
  void send(std::uint32_t sm, protocol::MemoryRequest& request, Cycle when);

  // tmau_answers.cpp: responses, data from shared memory, other units
  bool on_response(tlm::tlm_generic_payload& payload, std::uint32_t sm, Cycle arrival);
  void on_room(std::uint32_t sm, Cycle when);
  void answered(protocol::MemoryRequest& request, std::uint32_t sm, Cycle arrival);
  void line_answered(protocol::MemoryRequest& request, BulkWork& work, bool ok, Cycle arrival);
  void copy_on(const protocol::MemoryRequest& request, BulkWork& work, std::uint32_t number, Cycle arrival);
  void on_read(const protocol::BulkReadPacket& packet, std::uint32_t sm, Cycle arrival);
  void on_multicast(const protocol::BulkDataPacket& packet, std::uint32_t sm, Cycle arrival);
  void on_peer(const protocol::BulkPeerPacket& packet, std::uint32_t unit, Cycle arrival);
  void receive(const protocol::BulkDataPacket& packet, Cycle arrival);
  void acknowledged(std::uint32_t number, std::uint32_t count, std::uint8_t phase, Cycle when);
  void deliver(protocol::MemoryRequest& request, std::uint32_t sm, Cycle when);

  void draw(const BulkWork& work, Cycle end);
  void add_waits(std::uint32_t number, WaitGraph& graph) const;
  std::string name_of(const BulkWork& work) const;
  std::uint32_t sms() const { return static_cast<std::uint32_t>(lanes_.size()); }

  const TmauParams params_;
  const TmauPlace place_;
  const bool blocking_;
  const bool uses_table_;
  const Cycle response_;  // what the stages cost in this mode
  const Cycle descriptor_hit_;
  const Cycle setup_;
  const Cycle generate_;

  std::vector<std::unique_ptr<MemoryOut>> memory_out_;
  std::vector<Lane> lanes_;
  Arbiter arbiter_;  // of set-up
  Arbiter turns_;    // of the generator
  std::uint32_t turn_owner_ = kNone;
  std::uint32_t turn_left_ = 0;
  DescriptorCache cache_;
  std::uint32_t fetching_ = kNone;  // whose descriptor is under way
  std::uint32_t fetch_open_ = 0;    // requests for it
  bool fetch_failed_ = false;
  Cycle fetch_begin_ = 0;
  std::array<std::uint8_t, arch::kDescriptorBytes> fetch_bytes_{};
  Cycle lookup_free_ = 0;  // kNotYet: when a descriptor has come
  Cycle setup_free_ = 0;
  Cycle choose_at_ = kNotYet;    // event
  Cycle generate_at_ = kNotYet;  // event
  bool generating_ = false;
  bool starved_ = false;  // no place for line requests, and nobody has said when
  LinkPace pace_;
  PlaceLimit outstanding_;
  PlaceLimit table_;
  Cycle generated_until_ = 0;  // after the last line
  std::uint32_t waiting_ = 0;  // requests in all queues
  Cycle waiting_since_ = 0;    // statistics: one of them at least
  Cycle quiet_from_ = 0;       // the SM has been told of everything that is over

  std::deque<BulkWork> works_;  // a deque: they stay where they are
  std::vector<std::uint32_t> free_works_;
  std::vector<char> work_used_;
  // A pool whose payloads were elsewhere at a reset is kept: others may give them back to it. If they never do, as
  // packets that the reset dropped, it stays until the unit ends.
  std::unique_ptr<protocol::RequestPool> pool_;
  std::vector<std::unique_ptr<protocol::RequestPool>> old_pools_;
  std::vector<protocol::MemoryRequest*> retired_;  // answered, and perhaps still looked at by who answers
  std::uint32_t depth_ = 0;                        // of calls of on_response
  TmauStats stats_;
  std::vector<TrackId> tracks_;
  std::vector<Cycle> track_ends_;
};

}  // namespace heddle::tmau
