#include "packet/packet_params.h"

#include "common/param_table.h"
#include "common/params.h"
#include "protocol/host_packet.h"

namespace heddle::packet {
namespace {

constexpr Limits<double> kPhase{Unit::ns, 0, 1'000'000};

void describe_rates(ParamTable<PacketParams>& t) {
  constexpr Limits<std::uint32_t> kRate{Unit::count, 1, 1024};
  constexpr Limits<std::uint32_t> kCycles{Unit::cycles, 0, 1'000'000};
  t.add("step", &PacketParams::step, kPhase, "a step of the packet processor's work",
        "fitted: with the memory path, an in-order packet of an empty kernel takes the 1.38 us of an MI300X "
        "(ROCm/rocm-systems #11282)");
  t.add("step_bytes", &PacketParams::step_bytes, {Unit::bytes, 1, 1024},
        "of packets, kernel objects, dispatches and signals that move in or out of the packet processor in a step",
        "assumption: a 64-bit port");
  t.add("step_half_words", &PacketParams::step_half_words, kRate,
        "half-words of a condensed packet that are taken apart in a step", "assumption");
  t.add("step_checks", &PacketParams::step_checks, kRate,
        "rules for fields and kernel objects that are checked in a step", "assumption");
  t.add_choice("circuit", &PacketParams::circuit, {{"packet", Circuit::packet}, {"general", Circuit::general}},
               "who processes packets: a packet processor, or a program of one warp of an SM, whose instructions take "
               "the place of steps",
               "PKT-13");
  t.add("program_instructions", &PacketParams::program_instructions, kRate,
        "instructions of the program of a general circuit that do the work of a step",
        "assumption: address, load, use, compare, branch, count");
  t.add("program_issue", &PacketParams::program_issue, {Unit::cycles, 1, 1'000'000},
        "from one of these instructions to the next, which depends on it", "assumption: one warp, without any others");
  t.add("table_bits", &PacketParams::table_bits, {Unit::count, 8, 4096},
        "bits that move in a cycle through the port of the on-chip memory of reference state tables, which all queues "
        "share",
        "assumption");
  t.add("table_latency", &PacketParams::table_latency, kCycles, "from there to the processor", "assumption");
}

// PKT-13.
void describe_alternatives(ParamTable<PacketParams>& t) {
  t.add("entries", &PacketParams::entries, {Unit::count, 1, arch::kMostEntries},
        "entries of a reference state table; a diff names one of the first 2^reference_bits", "PKT-05");
  t.add("reference_bits", &PacketParams::reference_bits, {Unit::count, 1, arch::kMostReferenceBits},
        "bits of a diff's header that name an entry; headers of more than 16 bits take two half-words", "PKT-06");
  t.add("vector_bits", &PacketParams::vector_bits, {Unit::count, 1, arch::kMostVectorBits},
        "bits of a diff's header that say which fields differ; fields beyond them cannot differ", "PKT-06");
  t.add_choice("diff", &PacketParams::diff, {{"packet", arch::DiffOf::packet}, {"stored", arch::DiffOf::stored}},
               "what condensed packets are differences of: the fields of reference packets, or the information that "
               "the table stores of them",
               "PKT-13");
}

}  // namespace

void PacketParams::describe(ParamTable<PacketParams>& t) {
  t.add("queues", &PacketParams::queues, {Unit::count, 1, protocol::kMaxQueues}, "user-mode queues", "assumption");
  t.add_choice(
      "order", &PacketParams::order, {{"round_robin", QueueOrder::round_robin}, {"priority", QueueOrder::priority}},
      "which queue's packet is decoded next, of those that can be (equal priorities take turns), and which kernel "
      "goes next when no more could be in flight (in the order in which they came, or by priority)",
      "PKT-10");
  t.add("fetch_ahead", &PacketParams::fetch_ahead, {Unit::count, 1, 1024},
        "packets of a queue that are read before their turn", "assumption");
  t.add("in_flight", &PacketParams::in_flight, {Unit::count, 1, 65'536},
        "kernels of all queues that are dispatched and not complete", "assumption: as many grids as run at once");
  t.add("agents", &PacketParams::agents, {Unit::count, 1, protocol::kMaxHeldAgents},
        "agent packets of a queue that the host has at a time, and has not said to be done", "assumption");
  t.add("poll", &PacketParams::poll, {Unit::ns, 1, 1'000'000'000},
        "between looks at signals in the host's memory that a barrier packet waits for: what others than this device "
        "write there, nobody tells it",
        "assumption");
  describe_rates(t);
  t.add_choice("table", &PacketParams::table, {{"scratch", TablePlace::scratch}, {"memory", TablePlace::memory}},
               "where reference state tables lie: on the chip, or in device memory", "PKT-11");
  t.add_choice("table_owner", &PacketParams::table_owner, {{"queue", TableOwner::queue}, {"agent", TableOwner::agent}},
               "one reference state table for every queue, or one for all", "PKT-05");
  t.add_choice("condensed", &PacketParams::condensed,
               {{"in_order", CondensedOrder::in_order}, {"overlap", CondensedOrder::overlap}},
               "kernels of a condensed packet run one after another, or at once but for those with a barrier bit",
               "PKT-07");
  describe_alternatives(t);
}

}  // namespace heddle::packet
