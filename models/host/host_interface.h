// Host interface: what the host sees of the device (HST-01, HST-02): registers and doorbells, the device memory
// aperture, the interrupt.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "common/block.h"
#include "common/domain.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "common/state.h"
#include "host/boundary_params.h"
#include "host/boundary_socket.h"
#include "host/register_file.h"
#include "protocol/host_packet.h"
#include "protocol/host_task.h"
#include "protocol/occupancy_query.h"
#include "protocol/packet_copy.h"

namespace heddle::host {

// The two signals of the host interface: the interrupt and the reset (HST-01).

// Drives the interrupt's level. The domain may be ahead of sc_time_stamp(): the level changes when simulated time gets
// there. drive() is to be called by a process that is sensitive to event().
class InterruptLine {
 public:
  explicit InterruptLine(Domain& domain) : domain_(domain) {}

  sc_core::sc_out<bool>& port() { return port_; }
  sc_core::sc_event& event() { return event_; }
  // Before the end of elaboration: a port that nobody has bound gets a signal of its own.
  void bind_if_unbound();

  // The level from now on. True if it rises.
  bool set(bool level);
  void drive();
  void reset();

 private:
  void plan();

  Domain& domain_;
  sc_core::sc_out<bool> port_{"irq"};
  sc_core::sc_event event_;
  std::unique_ptr<sc_core::sc_signal<bool>> own_signal_;
  bool level_ = false;  // as the registers have it
  bool driven_ = false;
  std::deque<std::pair<sc_core::sc_time, bool>> plan_;
};

// Resets the device: when the signal rises, and when an access to a register asks for it. watch() is to be called by a
// process that is sensitive to port() and event().
class ResetControl {
 public:
  explicit ResetControl(Domain& domain) : domain_(domain) {}

  sc_core::sc_in<bool>& port() { return port_; }
  sc_core::sc_event& event() { return event_; }
  void bind_if_unbound();

  // The device is held, or about to be reset: accesses are refused.
  bool refusing() const { return held_ || pending_; }
  // An access that is being carried out asks for a reset; carry_out() follows at its end, and resets the device or
  // leaves it to the process: from inside the domain's events it cannot be done.
  void request() { wanted_ = true; }
  template <class Device>
  void carry_out(Device& device) {
    if (!wanted_) return;
    wanted_ = false;
    if (inside_domain()) {
      pending_ = true;
      event_.notify(domain_.delay_until(domain_.now()));
    } else {
      device.reset_device();
    }
  }
  // The process. The signal's level at the start of simulation holds the device; its rise resets it.
  template <class Device>
  void watch(Device& device) {
    const bool high = port_.read();
    const bool rises = started_ && high && !held_;
    held_ = high;
    started_ = true;
    if (rises || pending_) device.reset_device();
  }
  void reset() {
    pending_ = false;
    event_.cancel();
  }

 private:
  bool inside_domain() const;

  Domain& domain_;
  sc_core::sc_in<bool> port_{"rst"};
  sc_core::sc_event event_;
  std::unique_ptr<sc_core::sc_signal<bool>> own_signal_;
  bool held_ = false;  // the signal is high
  bool started_ = false;
  bool wanted_ = false;   // by the access that is carried out
  bool pending_ = false;  // until our process runs
};

// Message type of the report, of severity INFO, for every packet or command that stops a queue or is refused: device,
// queue, packet, status and reason.
constexpr const char* kQueueReport = "/heddle/queue";

class HostInterface : public Block, public Saved, private BoundaryOwner, private RegisterEffects {
 public:
  HostInterface(const sc_core::sc_module_name& name, Domain& domain, const std::string& path, const HostParams& params,
                const DeviceIdentity& identity, Device& device);
  ~HostInterface() override;

  using TargetSocket = tlm::tlm_target_socket<32, tlm::tlm_base_protocol_types, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
  // Registers and doorbells (host/register_table.h). Blocking, non-blocking, debug (which has no side effects).
  TargetSocket& bar0() { return bar0_; }
  // Device memory from address 0. Blocking: at once, with the latency as delay; non-blocking: through the memory hub as
  // everybody's requests; debug; DMI.
  TargetSocket& bar1() { return bar1_; }
  sc_core::sc_out<bool>& irq() { return interrupt_.port(); }     // level; may stay unbound
  sc_core::sc_in<bool>& rst() { return reset_control_.port(); }  // active high; may stay unbound

  PacketOut<protocol::QueueCommandPacket> command_out;  // to the packet processor
  PacketIn<protocol::QueueEventPacket> event_in;
  PacketOut<protocol::CopyRequestPacket> copy_out;  // to the copy engines
  PacketIn<protocol::CopyDonePacket> copy_done_in;
  PacketOut<protocol::SubcontextPacket> share_out;      // to task management; may stay unbound: changes are lost then
  PacketOut<protocol::OccupancyQueryPacket> query_out;  // to task management; unbound: no answers
  PacketIn<protocol::OccupancyAnswerPacket> answer_in;
  PacketOut<protocol::HostWindowPacket> window_out;  // to the memory hub; may stay unbound
  MemoryOut memory_out;                              // to the memory hub

  // A kernel has faulted, whoever brought it: the interrupt `fault`, and FAULT_COUNT. (QueueEvent::fault counts in
  // QUEUE_FAULTS and raises the same interrupt.)
  void note_fault();
  // What registers show and no interrupt tells: a CopyFault, whoever sent the copy, whose own error raises the
  // interrupt; a WindowFault, of which whoever asked hears by an error; a protocol::ShareRefusal.
  template <class Fault>
  void note(const Fault& fault) {
    file_.take(fault);
  }

  // No request of the CPU is inside.
  bool idle() const { return bar0_.open() == 0 && bar1_.open() == 0; }
  // Of its own that the memory hub has.
  std::size_t payloads() const { return aperture_.payloads(); }
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  void reset() override;
  void collect_waits(WaitGraph& graph) const override;
  // Registers, doorbells, windows, interrupts (host/saved_registers.h).
  void save(StateWriter& to) const override;
  void restore(StateReader& from) override;
  void check_idle() override { HEDDLE_CHECK(idle(), "an idle machine owes the host an answer"); }

 private:
  enum Event : std::uint32_t { kRegister, kRefuse };
  enum Socket : std::uint32_t { kBar0, kBar1 };

  struct Statistics : StatGroup {
    using StatGroup::StatGroup;
    Counter& register_accesses = counter("register_accesses", "accesses", "reads and writes of registers by the host");
    Counter& refused_accesses = counter("refused_accesses", "accesses", "accesses of the host with an error response");
    Counter& doorbells = counter("doorbells", "doorbells", "doorbells that rang");
    Counter& aperture_accesses =
        counter("aperture_accesses", "accesses", "reads and writes of the aperture by the host");
    Counter& aperture_bytes = counter("aperture_bytes", "bytes", "bytes that they asked for");
    Counter& interrupts = counter("interrupts", "interrupts", "rises of the interrupt");
  };

  void before_end_of_elaboration() override;
  void drive_irq() { interrupt_.drive(); }
  void watch_reset() { reset_control_.watch(device_); }

  // BoundaryOwner.
  bool on_request(tlm::tlm_generic_payload& payload, std::uint32_t socket, Cycle arrival) override;
  void on_blocking(tlm::tlm_generic_payload& payload, std::uint32_t socket, sc_core::sc_time& delay) override;
  unsigned on_debug(tlm::tlm_generic_payload& payload, std::uint32_t socket) override;
  bool on_direct(tlm::tlm_generic_payload& payload, std::uint32_t socket, tlm::tlm_dmi& dmi) override;

  // RegisterEffects.
  void queue_command(const protocol::QueueCommandPacket& packet) override;
  void start_copy(const protocol::CopyRequestPacket& packet) override;
  void share(const protocol::SubcontextPacket& packet) override;
  void ask(const protocol::OccupancyQueryPacket& query) override;
  void change_windows(const protocol::HostWindowPacket& packet) override;
  void soft_reset() override { reset_control_.request(); }
  std::uint64_t live(RegisterId id) const override;

  // What registers show has changed.
  template <class Packet>
  void on_news(const Packet& packet, std::uint32_t index);

  tlm::tlm_response_status access(tlm::tlm_generic_payload& payload, Cycle end);
  void follow_level();

  const HostParams params_;
  Device& device_;
  const Cycle register_cycles_;
  const sc_core::sc_time aperture_delay_;
  Statistics stats_;
  BoundarySocket bar0_;
  BoundarySocket bar1_;
  InterruptLine interrupt_;
  ResetControl reset_control_;
  RegisterFile file_;
  Aperture aperture_;
  MemoryWindow memory_;

  std::deque<tlm::tlm_generic_payload*> register_queue_;  // non-blocking, in the order of their arrival
  Cycle last_arrival_ = 0;
  std::deque<std::pair<Socket, tlm::tlm_generic_payload*>> to_refuse_;
  Cycle commands_leave_ = 0;  // when the access that is carried out ends
  Cycle last_command_ = 0;
};

}  // namespace heddle::host
