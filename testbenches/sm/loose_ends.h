// What an SM wants to be bound to when a test is about something else.
#pragma once

#include "arch/kernel_object.h"
#include "common/memory_socket.h"
#include "common/packet_socket.h"
#include "protocol/gpm_mpc_sm.h"
#include "sm/sm.h"

namespace heddle::test {

// No programs, and a memory that nobody uses.
struct NoPrograms {
  arch::CodeStore code;
  arch::AddressMap map{1 << 20, 4, 2};
  sm::MemoryView view() const { return {map}; }
};

// What an MPC answers to a CTA that asks whether it may leave (CGA-11).
inline protocol::ClusterOrderPacket permit_for(const protocol::CtaExitPacket& exit) {
  protocol::ClusterOrderPacket order;
  order.kind = protocol::ClusterOrderPacket::Kind::permit;
  order.cta_slot = exit.cta_slot;
  order.sequence = exit.tag.sequence;
  return order;
}

// No clusters: nobody enters CTAs or asks, and the SM has nobody to notify.
struct NoClusters : sc_core::sc_module {
  NoClusters(const sc_core::sc_module_name& name, Domain& domain, sm::Sm& sm)
      : sc_core::sc_module(name),
        entry_out("entry_out", domain, 0, kUnlimitedCredits),
        request_out("request_out", domain, 0, kUnlimitedCredits),
        reply_out("reply_out", domain, 0, kUnlimitedCredits) {
    entry_out.bind(sm.entry_in);
    request_out.bind(sm.dsmem_in);
    reply_out.bind(sm.reply_in);
  }
  PacketOut<protocol::CtaEntryPacket> entry_out;
  PacketOut<protocol::DsmemPacket> request_out;
  PacketOut<protocol::DsmemPacket> reply_out;
};

// No TMAU: requests to it are refused.
struct NoTmau : sc_core::sc_module {
  NoTmau(const sc_core::sc_module_name& name, Domain& domain, sm::Sm& sm)
      : sc_core::sc_module(name),
        done_out("done_out", domain, 0, kUnlimitedCredits),
        data_out("data_out", domain, 0, kUnlimitedCredits),
        read_out("read_out", domain, 0, kUnlimitedCredits) {
    done_out.bind(sm.bulk_done_in);
    data_out.bind(sm.bulk_data_in);
    read_out.bind(sm.bulk_read_in);
  }
  PacketOut<protocol::BulkDonePacket> done_out;
  PacketOut<protocol::BulkDataPacket> data_out;
  PacketOut<protocol::BulkReadPacket> read_out;
};

// Nobody aborts, and nobody answers.
struct LooseEnds : sc_core::sc_module {
  LooseEnds(const sc_core::sc_module_name& name, Domain& domain, sm::Sm& sm)
      : sc_core::sc_module(name),
        abort_out("abort_out", domain, 0, kUnlimitedCredits),
        memory("memory", domain),
        clusters("clusters", domain, sm),
        tmau("tmau", domain, sm) {
    abort_out.bind(sm.abort_in);
    sm.memory_out.bind(memory);
  }
  PacketOut<protocol::AbortPacket> abort_out;
  MemoryIn memory;
  NoClusters clusters;
  NoTmau tmau;
};

}  // namespace heddle::test
