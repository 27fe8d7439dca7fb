// The C library's way to a device over TLM sockets; installed as <heddle/tlm_bus.h>. Header-only: SystemC, TLM-2.0 and
// <heddle/heddle_driver.h>.
#ifndef HEDDLE_TLM_BUS_H
#define HEDDLE_TLM_BUS_H

#include <cstddef>
#include <cstdint>
#include <heddle/heddle_driver.h>
#include <limits>

#include <systemc>
#include <tlm>
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/tlm_quantumkeeper.h>

namespace heddle {
inline namespace v0 {

// Three initiators by b_transport, and a `struct heddle_bus` that uses them. To be called from SC_THREADs: an access
// takes its latency. With a tlm_global_quantum a thread runs ahead of the simulation within it, but not where it looks
// for what others change: it waits there. Threads that do so need one of these each. Unified addresses below
// HEDDLE_HOST_WINDOW go to `memory`, those from there on to `host`, at the address on the host's bus.
class TlmBus : public sc_core::sc_module {
 public:
  using Socket = tlm_utils::simple_initiator_socket_optional<TlmBus>;

  Socket registers{"registers"};  // to bar0, which begins at `registers_base`
  Socket memory{"memory"};        // to bar1, which begins at `memory_base`
  Socket host{"host"};            // to the host's memory

  // `look`: what the library waits between two looks at something. Bases are for a bus in between; without one: 0.
  explicit TlmBus(const sc_core::sc_module_name& name, sc_core::sc_time look = sc_core::sc_time(1, sc_core::SC_US),
                  std::uint64_t registers_base = 0, std::uint64_t memory_base = 0)
      : sc_core::sc_module(name), look_(look), registers_base_(registers_base), memory_base_(memory_base) {}

  // The thread waits until the simulation is where it is itself. Before it waits for an event, or reads a signal.
  void synchronise() {
    if (ahead() > sc_core::SC_ZERO_TIME) wait_for(ahead());
  }
  // How far the thread is ahead of sc_time_stamp().
  sc_core::sc_time ahead() const { return keeper_.get_local_time(); }

  // For heddle_device_open(). The module must outlive whatever has it.
  heddle_bus bus() {
    heddle_bus made{};
    made.context = this;
    made.read = [](void* self, std::uint32_t offset, unsigned bytes, std::uint64_t* value) {
      TlmBus& bus = *static_cast<TlmBus*>(self);
      *value = 0;
      return bus.timed(bus.registers, tlm::TLM_READ_COMMAND, bus.registers_base_ + offset, value, bytes);
    };
    made.write = [](void* self, std::uint32_t offset, unsigned bytes, std::uint64_t value) {
      TlmBus& bus = *static_cast<TlmBus*>(self);
      return bus.timed(bus.registers, tlm::TLM_WRITE_COMMAND, bus.registers_base_ + offset, &value, bytes);
    };
    made.load = [](void* self, std::uint64_t address, void* to, std::size_t bytes) {
      return static_cast<TlmBus*>(self)->move(tlm::TLM_READ_COMMAND, address, to, bytes);
    };
    made.store = [](void* self, std::uint64_t address, const void* from, std::size_t bytes) {
      // A write does not change what it writes.
      return static_cast<TlmBus*>(self)->move(tlm::TLM_WRITE_COMMAND, address, const_cast<void*>(from), bytes);
    };
    made.relax = [](void* self) {
      TlmBus& bus = *static_cast<TlmBus*>(self);
      bus.wait_for(bus.ahead() + bus.look_);
    };
    made.fetch_add = [](void* self, std::uint64_t address, std::uint64_t value, std::uint64_t* old) {
      return static_cast<TlmBus*>(self)->change(address, old, [value](std::uint64_t& word) { word += value; });
    };
    made.compare_exchange = [](void* self, std::uint64_t address, std::uint64_t expected, std::uint64_t value,
                               std::uint64_t* old) {
      return static_cast<TlmBus*>(self)->change(address, old, [expected, value](std::uint64_t& word) {
        if (word == expected) word = value;
      });
    };
    return made;
  }

 private:
  bool at_once(Socket& socket, tlm::tlm_command command, std::uint64_t address, void* data, std::size_t bytes,
               sc_core::sc_time& delay) {
    if (bytes > std::numeric_limits<unsigned>::max()) return false;  // of a payload
    tlm::tlm_generic_payload payload;
    payload.set_command(command);
    payload.set_address(address);
    payload.set_data_ptr(static_cast<unsigned char*>(data));
    payload.set_data_length(static_cast<unsigned>(bytes));
    payload.set_streaming_width(static_cast<unsigned>(bytes));
    socket->b_transport(payload, delay);
    return payload.is_response_ok();
  }

  bool timed(Socket& socket, tlm::tlm_command command, std::uint64_t address, void* data, std::size_t bytes) {
    sc_core::sc_time delay = keeper_.get_local_time();
    const bool ok = at_once(socket, command, address, data, bytes, delay);
    reach(delay);
    return ok;
  }

  bool move(tlm::tlm_command command, std::uint64_t address, void* data, std::size_t bytes) {
    if (address >= HEDDLE_HOST_WINDOW) return timed(host, command, address - HEDDLE_HOST_WINDOW, data, bytes);
    return timed(memory, command, memory_base_ + address, data, bytes);
  }

  // Read and write in one go: nothing comes between them where targets do not wait inside b_transport.
  template <class Change>
  bool change(std::uint64_t address, std::uint64_t* old, Change&& change) {
    const bool of_host = address >= HEDDLE_HOST_WINDOW;
    Socket& socket = of_host ? host : memory;
    const std::uint64_t place = of_host ? address - HEDDLE_HOST_WINDOW : memory_base_ + address;
    synchronise();  // others change it as well
    sc_core::sc_time delay;
    bool ok = at_once(socket, tlm::TLM_READ_COMMAND, place, old, sizeof *old, delay);
    if (ok) {
      std::uint64_t word = *old;
      change(word);
      ok = at_once(socket, tlm::TLM_WRITE_COMMAND, place, &word, sizeof word, delay);
    }
    reach(delay);
    return ok;
  }

  // The thread's own time, from sc_time_stamp() on.
  void reach(const sc_core::sc_time& delay) {
    keeper_.set(delay);
    if (keeper_.need_sync()) wait_for(delay);
  }
  void wait_for(const sc_core::sc_time& time) {
    keeper_.set(sc_core::SC_ZERO_TIME);  // for other threads, while this one waits
    sc_core::wait(time);
    keeper_.reset();
  }

  tlm_utils::tlm_quantumkeeper keeper_;
  sc_core::sc_time look_;
  std::uint64_t registers_base_;
  std::uint64_t memory_base_;
};

}  // namespace v0
}  // namespace heddle

#endif
