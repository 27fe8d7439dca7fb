#include "host/host_signals.h"

namespace heddle::host {

void InterruptLine::bind_if_unbound() {
  if (port_.bind_count() != 0) return;
  own_signal_ = std::make_unique<sc_core::sc_signal<bool>>("unbound_irq");
  port_.bind(*own_signal_);
}

bool InterruptLine::set(bool level) {
  if (level == level_) return false;
  level_ = level;
  plan();
  return level;
}

void InterruptLine::plan() {
  const sc_core::sc_time delay = domain_.delay_until(domain_.now());
  plan_.emplace_back(sc_core::sc_time_stamp() + delay, level_);
  if (plan_.size() == 1) event_.notify(delay);
}

void InterruptLine::drive() {
  while (!plan_.empty() && plan_.front().first <= sc_core::sc_time_stamp()) {
    driven_ = plan_.front().second;
    plan_.pop_front();
  }
  port_.write(driven_);
  if (!plan_.empty()) event_.notify(plan_.front().first - sc_core::sc_time_stamp());
}

void InterruptLine::reset() {
  level_ = false;
  plan_.clear();
  event_.cancel();
  plan();
}

void ResetControl::bind_if_unbound() {
  if (port_.bind_count() != 0) return;
  own_signal_ = std::make_unique<sc_core::sc_signal<bool>>("unbound_rst");
  port_.bind(*own_signal_);
}

bool ResetControl::inside_domain() const {
  const auto* info = sc_core::sc_get_curr_simcontext()->get_curr_proc_info();
  const sc_core::sc_object* process = info->process_handle;
  return process != nullptr && process->get_parent_object() == &domain_;
}

}  // namespace heddle::host
