// The two signals of the host interface: the interrupt and the reset (HST-01).
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "common/domain.h"

namespace heddle::host {

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

}  // namespace heddle::host
