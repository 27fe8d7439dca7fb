// Interrupt and reset of the host interface.
#include "host/host_interface_engine.h"

namespace heddle::host {

void HostInterface::Engine::follow_level() {
  if (file_.level() == level_) return;
  level_ = !level_;
  if (level_) interrupts_.add();
  plan_irq(level_);
}

// The domain may be ahead of sc_time_stamp(): the level changes when simulated time gets there.
void HostInterface::Engine::plan_irq(bool level) {
  const sc_core::sc_time delay = domain_.delay_until(domain_.now());
  irq_plan_.emplace_back(sc_core::sc_time_stamp() + delay, level);
  if (irq_plan_.size() == 1) irq_event.notify(delay);
}

void HostInterface::Engine::drive_irq() {
  while (!irq_plan_.empty() && irq_plan_.front().first <= sc_core::sc_time_stamp()) {
    irq_driven_ = irq_plan_.front().second;
    irq_plan_.pop_front();
  }
  irq.write(irq_driven_);
  if (!irq_plan_.empty()) irq_event.notify(irq_plan_.front().first - sc_core::sc_time_stamp());
}

// `rst` at the start of simulation holds the device; its rise resets it.
void HostInterface::Engine::watch_reset() {
  const bool high = rst.read();
  const bool rises = started_ && high && !held_;
  held_ = high;
  started_ = true;
  if (rises || reset_pending_) device_.reset_device();
}

// By an access that has just been carried out. Inside the domain's events it is left to our process.
void HostInterface::Engine::carry_out_reset() {
  if (!reset_wanted_) return;
  reset_wanted_ = false;
  if (inside_domain()) {
    reset_pending_ = true;
    reset_event.notify(domain_.delay_until(domain_.now()));
  } else {
    device_.reset_device();
  }
}

bool HostInterface::Engine::inside_domain() const {
  const auto* info = sc_core::sc_get_curr_simcontext()->get_curr_proc_info();
  const sc_core::sc_object* process = info->process_handle;
  return process != nullptr && process->get_parent_object() == &domain_;
}

// The outside is not reset: whoever has a transaction here gets an error response.
void HostInterface::Engine::reset() {
  file_.reset();
  register_queue_.clear();
  to_refuse_.clear();
  aperture_.reset();
  last_arrival_ = commands_leave_ = last_command_ = 0;
  reset_pending_ = false;
  reset_event.cancel();
  level_ = false;
  irq_plan_.clear();
  irq_event.cancel();
  plan_irq(false);
  bar0.fail_open();
  bar1.fail_open();
}

}  // namespace heddle::host
