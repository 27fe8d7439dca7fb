// The inside of the host interface.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <utility>

#include "host/boundary_aperture.h"
#include "host/boundary_socket.h"
#include "host/host_interface.h"

namespace heddle::host {

class HostInterface::Engine final : private BoundaryOwner, private RegisterEffects {
 public:
  Engine(HostInterface& host, const HostParams& params, const DeviceIdentity& identity, Device& device);

  void bind_what_is_unbound();
  void drive_irq();
  void watch_reset();
  void on_event(std::uint32_t kind, std::uint64_t argument);
  void reset();
  void note_fault();
  void note_copy_fault(const CopyFault& fault) { file_.take(fault); }
  void note_share_refused(protocol::ShareRefusal why) { file_.note_share_refused(why); }
  bool idle() const { return bar0.open() == 0 && bar1.open() == 0; }
  std::size_t payloads() const { return aperture_.payloads(); }
  void collect_waits(WaitGraph& graph) const;

  BoundarySocket bar0;
  BoundarySocket bar1;
  sc_core::sc_out<bool> irq{"irq"};
  sc_core::sc_in<bool> rst{"rst"};
  sc_core::sc_event irq_event;
  sc_core::sc_event reset_event;

 private:
  using Payload = tlm::tlm_generic_payload;
  enum Event : std::uint32_t { kRegister, kRefuse };
  enum Socket : std::uint32_t { kBar0, kBar1 };

  bool on_request(Payload& payload, std::uint32_t socket, Cycle arrival) override;
  void on_blocking(Payload& payload, std::uint32_t socket, sc_core::sc_time& delay) override;
  unsigned on_debug(Payload& payload, std::uint32_t socket) override;
  bool on_direct(Payload& payload, std::uint32_t socket, tlm::tlm_dmi& dmi) override;

  void queue_command(const protocol::QueueCommandPacket& packet) override;
  void start_copy(const protocol::CopyRequestPacket& packet) override;
  void share(const protocol::SubcontextPacket& packet) override;
  void soft_reset() override { reset_wanted_ = true; }
  bool settled() const override { return device_.settled(); }

  void on_queue_event(const protocol::QueueEventPacket& packet, std::uint32_t index);
  void on_copy_done(const protocol::CopyDonePacket& packet, std::uint32_t index);

  bool refusing() const { return held_ || reset_pending_; }
  tlm::tlm_response_status access(Payload& payload, Cycle end);
  tlm::tlm_response_status access_register(Payload& payload);
  tlm::tlm_response_status access_memory(Payload& payload);
  unsigned debug_registers(Payload& payload) const;
  unsigned debug_memory(Payload& payload);
  void carry_out_reset();
  bool inside_domain() const;
  void follow_level();
  void plan_irq(bool level);
  void on_invalidate(std::uint64_t first, std::uint64_t last);

  HostInterface& host_;
  Domain& domain_;
  const HostParams params_;
  const std::uint64_t memory_;  // bytes
  Device& device_;
  RegisterFile file_;
  Aperture aperture_;
  const Cycle register_cycles_;
  const sc_core::sc_time register_delay_;
  const sc_core::sc_time aperture_delay_;
  Counter& accesses_;
  Counter& refused_accesses_;
  Counter& doorbells_;
  Counter& memory_accesses_;
  Counter& memory_bytes_;
  Counter& interrupts_;

  std::deque<Payload*> register_queue_;  // non-blocking, in the order of their arrival
  Cycle last_arrival_ = 0;
  std::deque<std::pair<Socket, Payload*>> to_refuse_;
  Cycle commands_leave_ = 0;  // when the access that is carried out ends
  Cycle last_command_ = 0;

  bool level_ = false;  // of the interrupt, as the registers have it
  std::deque<std::pair<sc_core::sc_time, bool>> irq_plan_;
  bool irq_driven_ = false;

  bool held_ = false;  // rst is high
  bool started_ = false;
  bool reset_wanted_ = false;   // by the access that is carried out
  bool reset_pending_ = false;  // until our process runs

  std::set<std::uint64_t> direct_bases_;  // with which direct access was granted
  bool direct_refused_ = false;
  sc_core::sc_time refused_at_;

  std::unique_ptr<sc_core::sc_signal<bool>> own_irq_;
  std::unique_ptr<sc_core::sc_signal<bool>> own_rst_;
};

}  // namespace heddle::host
