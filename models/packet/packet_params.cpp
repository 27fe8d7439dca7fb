#include "packet/packet_params.h"

#include "common/param_table.h"
#include "common/params.h"
#include "protocol/host_packet.h"

namespace heddle::packet {
namespace {

constexpr Limits<double> kPhase{Unit::ns, 0, 1'000'000};

void describe_costs(ParamTable<PacketParams>& t) {
  const char* cost =
      "fitted, all together: with the memory path, an in-order packet of an empty kernel takes the 1.38 us of an "
      "MI300X "
      "(ROCm/rocm-systems #11282); how its phases share them is not published";
  t.add("decode_plain", &PacketParams::decode_plain, kPhase, "decoding a kernel dispatch packet", cost);
  t.add("decode_reference", &PacketParams::decode_reference, kPhase,
        "decoding a reference packet and storing its table entry", cost);
  t.add("decode_condensed", &PacketParams::decode_condensed, kPhase, "decoding a condensed packet, once", cost);
  t.add("decode_diff", &PacketParams::decode_diff, kPhase, "and for each kernel of it", cost);
  t.add("decode_other", &PacketParams::decode_other, kPhase, "decoding a barrier, agent or vendor packet", cost);
  t.add("dispatch", &PacketParams::dispatch, kPhase, "handing a kernel to task management", cost);
  t.add("clean_up", &PacketParams::clean_up, kPhase,
        "after a packet's work, before its completion signal; also of a condensed packet's kernel that asks for it",
        cost);
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
  describe_costs(t);
  t.add_choice("table", &PacketParams::table, {{"scratch", TablePlace::scratch}, {"memory", TablePlace::memory}},
               "where reference state tables lie: on the chip, or in device memory", "PKT-11");
  t.add_choice("table_owner", &PacketParams::table_owner, {{"queue", TableOwner::queue}, {"agent", TableOwner::agent}},
               "one reference state table for every queue, or one for all", "PKT-05");
  t.add_choice("condensed", &PacketParams::condensed,
               {{"in_order", CondensedOrder::in_order}, {"overlap", CondensedOrder::overlap}},
               "kernels of a condensed packet run one after another, or at once but for those with a barrier bit",
               "PKT-07");
}

}  // namespace heddle::packet
