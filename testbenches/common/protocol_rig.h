// An initiator and a target that do what a test says, and the checker of the base protocol between them.
#pragma once

#include <array>
#include <functional>
#include <utility>

#include "support/protocol_checker.h"
#include "support/sim_fixture.h"

namespace heddle::test::protocol_rig {

using sc_core::sc_time;
using tlm::tlm_sync_enum;
using Payload = tlm::tlm_generic_payload;

inline sc_time ns(double count) { return sc_time(count, sc_core::SC_NS); }

// A read or write of 8 bytes, with a reference and a memory manager.
struct Transaction : Payload, tlm::tlm_mm_interface {
  explicit Transaction(tlm::tlm_command command = tlm::TLM_READ_COMMAND, bool managed = true) {
    if (managed) {
      set_mm(this);
      acquire();
    }
    set_command(command);
    set_address(64);
    set_data_ptr(bytes.data());
    set_data_length(8);
    set_streaming_width(8);
  }
  void free(Payload*) override {}
  void use_enables() {
    set_byte_enable_ptr(enables.data());
    set_byte_enable_length(8);
  }
  std::array<unsigned char, 16> bytes{};
  std::array<unsigned char, 8> enables{0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0};
};

using NonBlocking = std::function<tlm_sync_enum(Payload&, tlm::tlm_phase&, sc_time&)>;

struct Target : sc_core::sc_module, tlm::tlm_fw_transport_if<> {
  explicit Target(const sc_core::sc_module_name& name) : sc_core::sc_module(name), in("in") { in.bind(*this); }
  tlm_sync_enum nb_transport_fw(Payload& payload, tlm::tlm_phase& phase, sc_time& delay) override {
    return on_forward(payload, phase, delay);
  }
  void b_transport(Payload& payload, sc_time& delay) override { on_blocking(payload, delay); }
  bool get_direct_mem_ptr(Payload&, tlm::tlm_dmi& dmi) override { return on_direct(dmi); }
  unsigned transport_dbg(Payload&) override { return debug; }

  tlm::tlm_target_socket<> in;
  NonBlocking on_forward = [](auto&, auto&, auto&) { return tlm::TLM_ACCEPTED; };
  std::function<void(Payload&, sc_time&)> on_blocking = [](Payload& p, sc_time&) {
    p.set_response_status(tlm::TLM_OK_RESPONSE);
  };
  std::function<bool(tlm::tlm_dmi&)> on_direct = [](tlm::tlm_dmi&) { return false; };
  unsigned debug = 8;
};

struct Initiator : sc_core::sc_module, tlm::tlm_bw_transport_if<> {
  explicit Initiator(const sc_core::sc_module_name& name) : sc_core::sc_module(name), out("out") { out.bind(*this); }
  tlm_sync_enum nb_transport_bw(Payload& payload, tlm::tlm_phase& phase, sc_time& delay) override {
    return on_backward(payload, phase, delay);
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) override { invalid = {first, last}; }

  tlm::tlm_initiator_socket<> out;
  NonBlocking on_backward = [](auto&, auto&, auto&) { return tlm::TLM_ACCEPTED; };
  std::pair<sc_dt::uint64, sc_dt::uint64> invalid{};
};

struct Rig {
  Rig() {
    initiator.out.bind(checker.in);
    checker.out.bind(target.in);
    start();
  }
  tlm_sync_enum forward(Payload& payload, tlm::tlm_phase phase, double delay = 0) {
    sc_time time = ns(delay);
    const tlm_sync_enum status = initiator.out->nb_transport_fw(payload, phase, time);
    left = phase;
    left_delay = time;
    return status;
  }
  tlm_sync_enum back(Payload& payload, tlm::tlm_phase phase, double delay = 0) {
    if (phase == tlm::BEGIN_RESP && payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE && answers) {
      payload.set_response_status(tlm::TLM_OK_RESPONSE);
    }
    sc_time time = ns(delay);
    return target.in->nb_transport_bw(payload, phase, time);
  }
  void blocking(Payload& payload) {
    sc_time time = ns(5);
    initiator.out->b_transport(payload, time);
  }

  SimFixture sim;
  Initiator initiator{"initiator"};
  Target target{"target"};
  ProtocolChecker checker{"checker"};
  Transaction a, b;
  Transaction w{tlm::TLM_WRITE_COMMAND};
  tlm::tlm_phase left;
  sc_time left_delay;
  bool answers = true;
};

inline tlm_sync_enum updated(tlm::tlm_phase& phase, const tlm::tlm_phase& to) {
  phase = to;
  return tlm::TLM_UPDATED;
}

}  // namespace heddle::test::protocol_rig
