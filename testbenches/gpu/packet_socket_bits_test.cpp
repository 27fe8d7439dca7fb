// What has a packet socket in a machine has an entry in the list of bits, with as many links (CWD-44).
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "common/packet_socket.h"
#include "cwd/cwd.h"
#include "cwd/two_level.h"
#include "gpc/gpm.h"
#include "gpc/mpc.h"
#include "gpu/launch_packets.h"
#include "gpu/structure_bits.h"
#include "support/gpu_bench.h"

namespace gpu_packet_socket_bits_test {

using namespace heddle;
using namespace heddle::test;

namespace {

// Distributor and its units, GPMs, MPCs.
bool of_launch_hardware(const sc_core::sc_object& socket) {
  for (const sc_core::sc_object* at = socket.get_parent_object(); at != nullptr; at = at->get_parent_object()) {
    if (dynamic_cast<const cwd::Cwd*>(at) != nullptr || dynamic_cast<const cwd::Gpc2SmUnit*>(at) != nullptr ||
        dynamic_cast<const cwd::Gpu2GpcUnit*>(at) != nullptr || dynamic_cast<const gpc::Gpm*>(at) != nullptr ||
        dynamic_cast<const gpc::Mpc*>(at) != nullptr) {
      return true;
    }
  }
  return false;
}

template <class... Packets>
PacketKind kind_of(sc_core::sc_object& socket, std::tuple<Packets...>*) {
  PacketKind kind = nullptr;
  const auto try_one = [&](auto* in, auto* out, PacketKind its) {
    if (in != nullptr || out != nullptr) kind = its;
  };
  (try_one(dynamic_cast<PacketIn<Packets>*>(&socket), dynamic_cast<PacketOut<Packets>*>(&socket),
           packet_kind<Packets>()),
   ...);
  return kind;
}

struct Found {
  std::uint32_t sockets = 0;                  // of the launch hardware
  std::map<PacketKind, std::uint64_t> links;  // of the machine
};

void walk(const std::vector<sc_core::sc_object*>& objects, Found& found) {
  LaunchHardwarePackets* const packets = nullptr;
  for (sc_core::sc_object* object : objects) {
    walk(object->get_child_objects(), found);
    auto* const out = dynamic_cast<PacketOutSocket*>(object);
    if (out == nullptr && dynamic_cast<PacketInSocket*>(object) == nullptr) continue;
    const PacketKind kind = kind_of(*object, packets);
    if (out != nullptr && kind != nullptr) found.links[kind] += out->links();
    if (!of_launch_hardware(*object)) continue;
    ++found.sockets;
    INFO(object->name() << " carries packets that testbenches/gpu/launch_packets.h does not have");
    CHECK(kind != nullptr);
  }
}

}  // namespace

TEST_CASE("every packet socket of the launch hardware carries what the list of bits has", "[gpu][CWD-44]") {
  const gpc::MpcPer per = GENERATE(gpc::MpcPer::sm, gpc::MpcPer::tpc);
  gpu::GpuParams params;
  params.machine.shape = arch::Shape::from_sms_per_gpc({6, 4});
  params.gpc.mpc = per;
  SimFixture sim;
  GpuBench bench(params);
  run_until_idle();
  Found found;
  walk(sc_core::sc_get_top_level_objects(), found);
  CHECK(found.sockets > 100);
  for (const gpu::Structure& structure : gpu::structures_of(params)) {
    if (structure.kind != gpu::StructureKind::packet) continue;
    const PacketKind kind = structure.writes.front().packet;
    // A broadcast on to all MPCs, which the model does not send; entries of CTAs, on a medium of the GPC.
    if (kind == nullptr || kind == packet_kind<protocol::CtaEntryPacket>()) continue;
    CAPTURE(structure.block, structure.name);
    CHECK(structure.instances == found.links[kind]);
  }
}

}  // namespace gpu_packet_socket_bits_test
