#include "host/host_interface.h"

#include "host/host_interface_engine.h"

namespace heddle::host {

HostInterface::HostInterface(const sc_core::sc_module_name& name, Domain& domain, const std::string& path,
                             const HostParams& params, const DeviceIdentity& identity, Device& device)
    : Block(name, domain, path),
      command_out("command_out", domain, params.doorbell, kUnlimitedCredits),
      event_in("event_in", domain, 0),
      copy_out("copy_out", domain, params.doorbell, kUnlimitedCredits),
      copy_done_in("copy_done_in", domain, 0),
      share_out("share_out", domain, params.doorbell, kUnlimitedCredits),
      memory_out("memory_out", domain),
      engine_(std::make_unique<Engine>(*this, params, identity, device)) {
  SC_HAS_PROCESS(HostInterface);
  SC_METHOD(drive_irq);
  sensitive << engine_->irq_event;
  SC_METHOD(watch_reset);
  sensitive << engine_->rst << engine_->reset_event;
}

HostInterface::~HostInterface() = default;

HostInterface::TargetSocket& HostInterface::bar0() { return engine_->bar0; }
HostInterface::TargetSocket& HostInterface::bar1() { return engine_->bar1; }
sc_core::sc_out<bool>& HostInterface::irq() { return engine_->irq; }
sc_core::sc_in<bool>& HostInterface::rst() { return engine_->rst; }

void HostInterface::before_end_of_elaboration() { engine_->bind_what_is_unbound(); }
void HostInterface::drive_irq() { engine_->drive_irq(); }
void HostInterface::watch_reset() { engine_->watch_reset(); }

void HostInterface::note_fault() { engine_->note_fault(); }
void HostInterface::note_copy_fault(const CopyFault& fault) { engine_->note_copy_fault(fault); }
void HostInterface::note_share_refused(protocol::ShareRefusal why) { engine_->note_share_refused(why); }
bool HostInterface::idle() const { return engine_->idle(); }
std::size_t HostInterface::payloads() const { return engine_->payloads(); }
void HostInterface::on_event(std::uint32_t kind, std::uint64_t argument) { engine_->on_event(kind, argument); }
void HostInterface::reset() { engine_->reset(); }
void HostInterface::collect_waits(WaitGraph& graph) const { engine_->collect_waits(graph); }

}  // namespace heddle::host
