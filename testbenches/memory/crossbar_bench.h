// A crossbar between test initiators and test targets that share one memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "arch/address_map.h"
#include "arch/topology.h"
#include "common/observation.h"
#include "memory/crossbar.h"
#include "memory/memory_bench.h"

namespace heddle::test {

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
  double stat(const std::string& name) const {
    return observation.stats.to_json().at("gpu0.xbar." + name).at("value").get<double>();
  }

  Observation observation;
  Domain domain;
  arch::Topology topology;
  arch::AddressMap map;
  std::vector<std::uint8_t> memory;
  protocol::RequestPool pool;
  memory::Crossbar crossbar;
  std::vector<std::unique_ptr<TestInitiator>> sms;
  std::vector<std::unique_ptr<TestTarget>> targets;
};

}  // namespace heddle::test
