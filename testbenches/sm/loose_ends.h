// What an SM wants to be bound to when a test is about something else.
#pragma once

#include "arch/code_store.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "protocol/abort_packet.h"
#include "sm/sm.h"

namespace heddle::test {

// No programs, and a memory that nobody uses.
struct NoPrograms {
  arch::CodeStore code;
  arch::AddressMap map{1 << 20, 4, 2};
  sm::MemoryView view() const { return {map}; }
};

// Nobody aborts, and nobody answers.
struct LooseEnds : sc_core::sc_module {
  LooseEnds(const sc_core::sc_module_name& name, Domain& domain, sm::Sm& sm)
      : sc_core::sc_module(name), abort_out("abort_out", domain, 0, kUnlimitedCredits), memory("memory", domain) {
    abort_out.bind(sm.abort_in);
    sm.memory_out.bind(memory);
  }
  PacketOut<protocol::AbortPacket> abort_out;
  MemoryIn memory;
};

}  // namespace heddle::test
