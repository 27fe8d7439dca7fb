// Links of a few GPUs, each with a memory behind them and somebody who asks, connected directly or by a switch.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/gpu_observation.h"
#include "link/link_switch.h"
#include "link/link_unit.h"
#include "memory/memory_bench.h"

namespace heddle::test {

struct LinkLab {
  static constexpr std::uint64_t kBytes = 1 << 16;

  struct Gpu {
    Gpu(const std::string& name, const link::LinkParams& params, TimingMode mode)
        : observation(name),
          domain((name + "_domain").c_str(), 1.0, mode, 0, observation),
          bytes(kBytes),
          links((name + "_links").c_str(), domain, "links", params, kBytes),
          memory((name + "_memory").c_str(), domain, bytes) {
      for (std::uint32_t i = 0; i <= params.ports; ++i) {
        askers.push_back(std::make_unique<TestInitiator>((name + "_asker" + std::to_string(i)).c_str(), domain));
        askers.back()->out.bind(i < params.ports ? links.crossbar_in(i) : links.hub_in());
      }
      links.home_out.bind(memory.in);
    }
    double stat(const std::string& name) { return observation.stats.value(observation.prefix + ".links." + name); }

    GpuObservation observation;
    Domain domain;
    std::vector<std::uint8_t> bytes;
    link::LinkUnit links;
    TestTarget memory;
    std::vector<std::unique_ptr<TestInitiator>> askers;  // the last one is the hub's
  };

  LinkLab(std::uint32_t count, const link::LinkParams& params, TimingMode mode, bool through_switch,
          const link::FabricParams& fabric = {})
      : own("links"), domain("switch_domain", fabric.clock, mode, 0, own) {
    for (std::uint32_t g = 0; g < count; ++g) {
      gpus.push_back(std::make_unique<Gpu>("gpu" + std::to_string(g), params, mode));
    }
    if (!through_switch) {  // of two
      for (std::uint32_t p = 0; p < params.ports; ++p) {
        gpus[0]->links.port(p).out.bind(gpus[1]->links.port(p).in);
        gpus[1]->links.port(p).out.bind(gpus[0]->links.port(p).in);
      }
      std::vector<std::uint32_t> all;
      for (std::uint32_t p = 0; p < params.ports; ++p) all.push_back(p);
      gpus[0]->links.routes().direct(0, {{}, all});
      gpus[1]->links.routes().direct(1, {all, {}});
      return;
    }
    std::vector<std::uint32_t> everybody;
    for (std::uint32_t g = 0; g < count; ++g) everybody.push_back(g);
    middle = std::make_unique<link::LinkSwitch>("switch", domain, "switch", fabric,
                                                std::vector<link::LinkParams>(count, params),
                                                std::vector<std::vector<std::uint32_t>>{everybody});
    for (std::uint32_t g = 0; g < count; ++g) {
      for (std::uint32_t p = 0; p < params.ports; ++p) {
        gpus[g]->links.port(p).out.bind(middle->port(g, p).in);
        middle->port(g, p).out.bind(gpus[g]->links.port(p).in);
      }
      gpus[g]->links.routes().through_switch(g, params.ports, count, 1);
    }
  }

  protocol::MemoryRequest& plain(tlm::tlm_command command, std::uint64_t address, std::uint32_t length) {
    protocol::MemoryRequest& request = pool.acquire();
    request.aim(command, address, length);
    return request;
  }
  // Sends and runs until nothing is left; or calls. The time of the answer in nanoseconds.
  double ask(std::uint32_t gpu, protocol::MemoryRequest& request) {
    start();
    Gpu& from = *gpus[gpu];
    if (has_calls(from.domain.mode())) {
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      from.askers.back()->out.blocking(request, delay);
      const double when = (sc_core::sc_time_stamp() + delay).to_seconds() * 1e9;
      run_until_idle();
      return when;
    }
    double when = -1;
    request.acquire();
    from.askers.back()->on_response = [&](protocol::MemoryRequest&, Cycle arrival) {
      when = from.domain.clock().time_of(arrival).to_seconds() * 1e9;
    };
    from.askers.back()->send(request, from.domain.now());
    run_until_idle();
    return when;
  }
  void check_idle() {
    for (const auto& gpu : gpus) gpu->domain.check_idle();
    domain.check_idle();
  }

  protocol::RequestPool pool;
  Observation own;
  Domain domain;
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::unique_ptr<link::LinkSwitch> middle;
};

}  // namespace heddle::test
