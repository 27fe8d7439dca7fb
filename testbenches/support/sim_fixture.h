// A simulation context of one's own: SystemC keeps one per process, and a module can be elaborated in it only once.
//
// Declare it before anything of SystemC, so that it goes last. Several may follow each other in one case.
#pragma once

#include <exception>
#include <string>

#include <systemc>

namespace heddle::test {

class SimFixture {
 public:
  SimFixture() : previous_(sc_core::sc_curr_simcontext), default_(sc_core::sc_default_global_context) {
    context_ = new sc_core::sc_simcontext;
    sc_core::sc_curr_simcontext = sc_core::sc_default_global_context = context_;
  }
  SimFixture(const SimFixture&) = delete;
  SimFixture& operator=(const SimFixture&) = delete;
  ~SimFixture() {
    delete context_;
    sc_core::sc_curr_simcontext = previous_;
    sc_core::sc_default_global_context = default_;
  }

 private:
  sc_core::sc_simcontext* previous_;
  sc_core::sc_simcontext* default_;
  sc_core::sc_simcontext* context_;
};

// Elaborates and initialises. A model without a process of its own has nothing to do then, of which sc_start() warns.
inline void start() {
  if (sc_core::sc_start_of_simulation_invoked()) return;
  struct Quiet {
    sc_core::sc_actions before =
        sc_core::sc_report_handler::set_actions(sc_core::SC_ID_NO_SC_START_ACTIVITY_, sc_core::SC_DO_NOTHING);
    ~Quiet() { sc_core::sc_report_handler::set_actions(sc_core::SC_ID_NO_SC_START_ACTIVITY_, before); }
  } quiet;
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
}

// Runs until nothing is left to do, which may be at once.
inline void run_until_idle() {
  start();
  while (sc_core::sc_pending_activity()) sc_core::sc_start();
}

// Runs to an absolute time, which becomes sc_time_stamp(), also if nothing happens until then.
inline void run_until(const sc_core::sc_time& time) {
  start();
  if (time > sc_core::sc_time_stamp()) sc_core::sc_start(time - sc_core::sc_time_stamp());
}

// The message with which an action ends: empty if it ends well. SystemC turns what a process throws into a report, so
// that the type of an exception is lost on its way out of sc_start().
template <class Action>
std::string failure_of(Action&& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace heddle::test
