// The inside of the packet processor. Only packet_processor.cpp and engine_*.cpp include it.
//
// A queue has one packet at a time in its turn: decoded, held back, launched (PKT-04). After its launch the next one
// has its turn. What runs or is cleaned up has left the turn, but for condensed packets, which keep it until their last
// kernel has been dispatched, and barrier packets, which keep it until they are complete.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "packet/memory_client.h"
#include "packet/packet_processor.h"
#include "packet/packet_stats.h"
#include "packet/queue_core.h"
#include "packet/reference_table.h"
#include "packet/turn_order.h"

namespace heddle::packet {

class PacketProcessor::Engine {
 public:
  Engine(PacketProcessor& block, const PacketParams& params, const arch::SmLimits& limits, arch::CodeStore& codes,
         const FitCheck& fit, std::uint64_t table_base);

  void listen(PacketListener& listener) { listener_ = &listener; }
  std::uint32_t queues() const { return static_cast<std::uint32_t>(queues_.size()); }
  std::uint64_t open() const;
  bool quiescent() const;
  void on_event(std::uint32_t kind, std::uint64_t argument);
  void reset();
  void collect_waits(WaitGraph& graph) const;

  void on_command(const protocol::QueueCommandPacket& packet, std::uint32_t);
  void on_dispatch_done(const protocol::DispatchDonePacket& done, std::uint32_t);
  void on_copy_done(const protocol::CopyDonePacket& done, std::uint32_t);

 private:
  enum Event : std::uint32_t {
    kAnswer,
    kSend,
    kPoll,     // a queue, and its epoch in the upper half
    kDecoded,  // these name a packet, and its generation in the upper half
    kAcquired,
    kDispatch,
    kSignals,
    kHoldEnds,
    kStep,
    kFenced,  // a clean-up
    kCleaned,
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Kernel {
    arch::DispatchFields fields;
    arch::KernelObject object;
    arch::KernelShape shape;
    arch::WorkItems items;
    bool barrier = false;  // in the overlapping mode: waits for those before it in the packet
    arch::FenceScope acquire = arch::FenceScope::none;
    arch::FenceScope release = arch::FenceScope::none;
    std::uint64_t signal = 0;
    std::uint32_t operation = 0;
    std::uint32_t lane = kNone;  // of the timeline
    arch::HsaStatus status = arch::HsaStatus::success;
    PacketTimes times;
  };

  enum class Stage : std::uint8_t {
    decoder,   // waits for it
    decoding,  // and reads what it needs
    storing,   // writes a table entry
    barrier,   // a condensed packet whose barrier bit became known late
    signals,   // a barrier packet
    agent,     // an agent packet behind another
    acquire,
    limit,  // a kernel that would be one too many in flight
    dispatch,
    running,  // launched
  };

  struct Packet {
    bool live = false;
    std::uint32_t generation = 0;
    std::uint32_t queue = 0;
    std::uint64_t index = 0;
    arch::PacketBytes bytes{};
    arch::PacketType type = arch::PacketType::invalid;
    Stage stage = Stage::decoder;
    bool in_turn = true;
    bool launched = false;
    PacketTimes times;
    // decoding
    bool in_decoder = false;
    std::uint32_t reads = 0;  // that it waits for
    arch::Verdict verdict;
    std::uint32_t bad = 0;                    // the kernel that the verdict is about
    std::uint32_t entry = 0;                  // of a reference packet
    std::unique_ptr<ReferenceTable> entries;  // read from memory
    // kernels
    std::vector<Kernel> kernels;
    std::uint32_t dispatched = 0;
    std::uint32_t ended = 0;
    std::uint32_t cleaning = 0;  // kernels but the last
    bool stop = false;           // a kernel failed: no more of them
    bool finishing = false;
    // other packets
    arch::SynchScopes scopes;
    std::uint64_t signal = 0;
    arch::BarrierPacket barrier;
    std::array<bool, arch::kBarrierSignals> zero{};
    std::array<std::int64_t, arch::kBarrierSignals> values{};
    arch::VendorPacket vendor;
    // the end
    arch::HsaStatus status = arch::HsaStatus::success;
    std::int64_t value = 0;  // that its signal gets; 0: it is decremented
    std::uint32_t lane = kNone;
  };

  struct Queue {
    protocol::QueueState state = protocol::QueueState::closed;
    protocol::QueueSetup setup;
    std::uint32_t epoch = 0;  // goes up when it is opened
    QueueCore core;
    std::uint32_t turn = kNone;   // the packet that has its turn
    std::uint32_t agent = kNone;  // the packet that the host holds
    std::uint32_t requests = 0;   // not answered
    bool poll_armed = false;
    bool writing_index = false;
    std::uint32_t retries = 0;  // 1: the packet `retried`, which was not published, is read again
    std::uint64_t retried = 0;
    std::string error;                                  // why it stopped, for people
    arch::HsaStatus status = arch::HsaStatus::success;  // and for the host
    std::uint64_t error_index = 0;
    // timeline
    const char* wait = nullptr;
    Cycle wait_since = 0;
    std::vector<bool> lanes;
  };

  static constexpr std::uint32_t kWhole = ~std::uint32_t{0};
  struct CleanUp {
    std::uint32_t queue = 0;
    std::uint64_t index = 0;       // of the packet, for errors
    std::uint32_t packet = kNone;  // kNone: of a bad packet, which is gone
    std::uint32_t kernel = kWhole;
    arch::FenceScope scope = arch::FenceScope::none;
    std::uint64_t signal = 0;
    std::int64_t value = 0;
    std::uint32_t event_id = 0;
  };

  struct Running {
    std::uint32_t packet = 0;
    std::uint32_t kernel = 0;
  };

  struct Fit {
    arch::KernelShape shape;
    std::string why;
  };

  // engine.cpp
  Cycle now() const { return block_.now(); }
  Cycle cost(double ns) const;
  static std::uint64_t ref(const Packet& packet, std::uint32_t slot) {
    return std::uint64_t{packet.generation} << 32 | slot;
  }
  Packet* live(std::uint64_t reference);
  void schedule(Cycle cycles, Event event, std::uint32_t slot);
  MemoryTag tag(MemoryTag::Use use, std::uint32_t slot, std::uint32_t part = 0) const;
  void run(std::uint32_t kind, std::uint32_t slot);
  void answer(const MemoryAnswer& answer);
  void answer_packet(const MemoryAnswer& answer);
  std::uint32_t new_packet();
  void free_packet(std::uint32_t slot);

  // engine_queue.cpp: commands, the ring
  void open_queue(std::uint32_t number, const protocol::QueueSetup& setup);
  void close_queue(std::uint32_t number);
  void try_close(std::uint32_t number);
  void send_state(std::uint32_t number, arch::HsaStatus status, std::uint64_t index);
  void fetch(std::uint32_t number);
  void fetched(const MemoryAnswer& answer);
  void arm_poll(std::uint32_t number);
  void poll(std::uint64_t argument);
  void clear_slot(Packet& packet);
  void slot_cleared(const MemoryAnswer& answer);
  void write_index(std::uint32_t number);
  void index_written(const MemoryAnswer& answer);

  // engine_turn.cpp: whose turn it is, the decoder
  bool barrier_bit(const Queue& queue, const arch::PacketBytes& bytes) const;
  void advance(std::uint32_t number);
  void begin(std::uint32_t number);
  void end_turn(Packet& packet);
  void drop_turn(std::uint32_t number);
  void serve_decoder();
  void decoded(std::uint64_t reference);
  void decode_on(std::uint32_t slot);

  // engine_decode.cpp
  double decode(std::uint32_t slot);
  arch::Verdict decode_plain(Packet& packet);
  arch::Verdict decode_other(Packet& packet);
  arch::Verdict decode_condensed(std::uint32_t slot);
  arch::Verdict take_entries(Packet& packet, const ReferenceTable& table);
  void entry_read(std::uint32_t slot, const MemoryAnswer& answer);
  void read_objects(std::uint32_t slot);
  void object_read(Packet& packet, const MemoryAnswer& answer);
  arch::Verdict judge(Packet& packet);
  arch::Verdict judge(const Packet& packet, Kernel& kernel);
  const std::string& why_never_fits(const arch::KernelShape& shape);
  ReferenceTable& table_of(std::uint32_t queue);
  const ReferenceTable& table_of(std::uint32_t queue) const;
  std::uint64_t table_address(std::uint32_t queue, std::uint32_t entry) const;
  void store_entry(std::uint32_t slot);
  void entry_written(std::uint32_t slot, const MemoryAnswer& answer);

  // engine_launch.cpp: kernels
  void proceed(std::uint32_t slot);
  void acquire(std::uint32_t slot);
  void acquired(std::uint32_t slot);
  void launch_next(std::uint32_t slot);
  void start_dispatch(std::uint32_t slot);
  void dispatch(std::uint32_t slot);
  void hand_over(std::uint32_t slot, Kernel& kernel, std::uint32_t number);
  void launched(Packet& packet);
  void leave_flight();
  void stop_waiting(std::uint32_t slot);
  bool is_cut(const Packet& packet) const;
  void step(std::uint32_t slot);
  void kernel_ended(std::uint32_t slot, std::uint32_t number, const protocol::DispatchDonePacket& done);

  // engine_other.cpp: barrier, agent and vendor packets
  void look_at_signals(std::uint32_t slot);
  void dependency_read(std::uint32_t slot, const MemoryAnswer& answer);
  void judge_signals(std::uint32_t slot);
  void satisfied(std::uint32_t slot);
  void launch_other(std::uint32_t slot);
  void launch_agent(std::uint32_t slot);
  void agent_done(std::uint32_t number, std::uint32_t status);
  void launch_vendor(std::uint32_t slot);
  void other_ended(std::uint32_t slot);

  // engine_clean_up.cpp: fences, signals, errors
  void clean_up(std::uint32_t slot, std::uint32_t kernel);
  void fenced(std::uint32_t number);
  void signal(std::uint32_t number);
  void clean_up_answer(const MemoryAnswer& answer);
  void signalled(std::uint32_t number, bool ok);
  void mailbox_known(std::uint32_t number, const MemoryAnswer& answer);
  void raise(const CleanUp& work);
  void clean_up_done(std::uint32_t number);
  void complete(std::uint32_t slot);
  void fail(std::uint32_t number, std::uint64_t index, std::uint32_t kernel, const arch::Verdict& verdict);
  void fail_turn(std::uint32_t slot);
  static bool is_barrier_packet(const Packet& packet) {
    return packet.type == arch::PacketType::barrier_and || packet.type == arch::PacketType::barrier_or;
  }
  static std::uint64_t signal_in(const arch::PacketBytes& bytes);
  static std::uint64_t signal_of(const Packet& packet);
  std::uint32_t new_clean_up(std::uint32_t queue, std::uint64_t index);

  // engine_observe.cpp
  PacketRecord record_of(const Packet& packet, std::uint32_t kernel) const;
  void report(Packet& packet, std::uint32_t kernel);
  void draw(Queue& queue, const PacketRecord& record, std::uint32_t lane);
  void take_lane(Queue& queue, std::uint32_t& lane);
  void give_lane(Queue& queue, std::uint32_t& lane);
  const char* wait_of(const Queue& queue) const;
  void note_wait(std::uint32_t number);
  void note_open();
  std::string who(std::uint32_t queue, std::uint64_t index) const;
  std::string who(const Packet& packet) const;
  void collect_packet(WaitGraph& graph, const Packet& packet) const;
  void collect_signals(WaitGraph& graph, const Packet& packet) const;
  void collect_signal(WaitGraph& graph, const std::string& text, std::uint64_t handle) const;
  void collect_queue(WaitGraph& graph, std::uint32_t number) const;

  PacketProcessor& block_;
  Domain& domain_;
  const PacketParams params_;
  const arch::SmLimits limits_;
  arch::CodeStore& codes_;
  const FitCheck& fit_;
  const std::uint64_t table_base_;
  const Cycle poll_cycles_;
  PacketListener* listener_ = nullptr;
  MemoryClient memory_;
  PacketStats stats_;

  std::vector<Queue> queues_;
  std::deque<Packet> packets_;  // a deque: they stay where they are
  std::vector<std::uint32_t> free_packets_;
  std::vector<CleanUp> clean_ups_;
  std::vector<std::uint32_t> free_clean_ups_;
  std::vector<ReferenceTable> tables_;
  TurnOrder decoder_;
  bool decoder_busy_ = false;
  std::uint32_t in_flight_ = 0;
  std::deque<std::uint32_t> limited_;  // packets that wait for in_flight_ to sink, as they came
  std::uint32_t operations_ = 0;
  std::unordered_map<std::uint32_t, Running> running_;  // by operation; looked up only
  std::uint32_t copies_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> copying_;  // tag -> packet
  std::deque<Fit> fits_;                                      // the last answers
};

}  // namespace heddle::packet
