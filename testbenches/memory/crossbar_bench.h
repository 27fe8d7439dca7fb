// A crossbar between test initiators and test targets that share one memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/gpu_observation.h"
#include "arch/topology.h"
#include "common/packet_socket.h"
#include "memory/crossbar.h"
#include "memory/memory_bench.h"

namespace heddle::test {

// A link's bandwidth for requests and for responses, whoever they are for.
// Of a link, both ways.
inline void set_bandwidth(memory::CrossbarParams& params, double memory::CrossbarParams::*link, double value) {
  using memory::CrossbarParams;
  params.*link = value;
  if (link == &CrossbarParams::sm_bandwidth) params.sm_read_bandwidth = params.l1_read_bandwidth = value;
  if (link == &CrossbarParams::tpc_bandwidth) params.tpc_read_bandwidth = value;
  if (link == &CrossbarParams::cpc_bandwidth) params.cpc_read_bandwidth = value;
  if (link == &CrossbarParams::gpc_bandwidth) params.gpc_read_bandwidth = value;
}
// So that every link inside a GPC is built, and the crossing.
inline void narrow_links(memory::CrossbarParams& params, double value) {
  using memory::CrossbarParams;
  for (const auto link :
       {&CrossbarParams::tpc_bandwidth, &CrossbarParams::cpc_bandwidth, &CrossbarParams::crossing_bandwidth}) {
    set_bandwidth(params, link, value);
  }
}
// Copies cost nothing.
inline memory::CrossbarParams free_copies(memory::CrossbarParams params = {}) {
  params.copies = 64;
  return params;
}

// Takes the packets that multicasts bring to an SM, and gives their references back.
class TestReceiver : public sc_core::sc_module {
 public:
  TestReceiver(const sc_core::sc_module_name& name, Domain& domain) : sc_core::sc_module(name), in("in", domain, 0) {
    in.on_packet_ahead<TestReceiver, &TestReceiver::take>(*this);
  }

  PacketIn<protocol::BulkDataPacket> in;
  std::function<void(protocol::MemoryRequest&, std::uint32_t bit, Cycle arrival)> on_data;
  std::vector<Cycle> accepted;  // posted writes

 private:
  void take(const protocol::BulkDataPacket& packet, std::uint32_t, Cycle arrival) {
    if (packet.accepted) {
      accepted.push_back(arrival);
    } else if (on_data) {
      on_data(*packet.request, packet.sm, arrival);
    }
    packet.request->release();
  }
};

// The test owns the SimFixture.
class CrossbarBench {
 public:
  CrossbarBench(const memory::CrossbarParams& params, const arch::Shape& shape, std::uint32_t slices,
                std::uint32_t partitions, TimingMode mode = TimingMode::at)
      : observation("gpu0"),
        domain("domain", 1.0, mode, 1000, observation),
        topology(shape),
        map(1 << 20, slices, partitions),
        memory(1 << 20),
        crossbar("crossbar", domain, "xbar", params, topology, map) {
    for (std::uint32_t sm = 0; sm < topology.sms(); ++sm) {
      sms.push_back(std::make_unique<TestInitiator>(fmt::format("sm{}", sm).c_str(), domain));
      sms.back()->out.bind(crossbar.sm_in(sm));
      units.push_back(std::make_unique<TestInitiator>(fmt::format("unit{}", sm).c_str(), domain));
      units.back()->out.bind(crossbar.bulk_in(sm));
      receivers.push_back(std::make_unique<TestReceiver>(fmt::format("receiver{}", sm).c_str(), domain));
      crossbar.multicast_out(sm).bind(receivers.back()->in);
    }
    for (std::uint32_t slice = 0; slice < slices; ++slice) {
      targets.push_back(std::make_unique<TestTarget>(fmt::format("slice{}", slice).c_str(), domain, memory));
      crossbar.slice_out(slice).bind(targets.back()->in);
    }
  }

  // A line of that slice; `number` tells several apart.
  std::uint64_t line_in(std::uint32_t slice, std::uint64_t number = 0) const {
    for (std::uint64_t i = 0; i < map.slices(); ++i) {
      const std::uint64_t address = (number * map.slices() + i) * arch::kLineBytes;
      if (map.slice_of(address) == slice) return address;
    }
    return 0;
  }
  protocol::MemoryRequest& read(std::uint64_t address, std::uint32_t bytes = arch::kLineBytes) {
    protocol::MemoryRequest& request = pool.acquire();
    request.aim(tlm::TLM_READ_COMMAND, address, bytes);
    return request;
  }
  protocol::MemoryRequest& write(std::uint64_t address, std::uint32_t bytes = arch::kLineBytes) {
    protocol::MemoryRequest& request = read(address, bytes);
    request.set_command(tlm::TLM_WRITE_COMMAND);
    return request;
  }
  // For SMs of one GPC, by their ids.
  protocol::MemoryRequest& multicast(std::uint64_t address, const std::vector<std::uint32_t>& to,
                                     std::uint32_t bytes = arch::kLineBytes) {
    protocol::MemoryRequest& request = read(address, bytes);
    for (const std::uint32_t sm : to) request.extension.multicast |= 1U << topology.sm(sm).in_gpc;
    return request;
  }
  double stat(const std::string& name) const { return observation.stats.value("gpu0.xbar." + name); }

  GpuObservation observation;
  Domain domain;
  arch::Topology topology;
  arch::AddressMap map;
  std::vector<std::uint8_t> memory;
  protocol::RequestPool pool;
  memory::Crossbar crossbar;
  std::vector<std::unique_ptr<TestInitiator>> sms;
  std::vector<std::unique_ptr<TestInitiator>> units;  // their TMAUs, by SM
  std::vector<std::unique_ptr<TestReceiver>> receivers;
  std::vector<std::unique_ptr<TestTarget>> targets;
};

}  // namespace heddle::test
