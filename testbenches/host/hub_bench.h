// A memory hub between clients that send what they are told, real slices, and a host.
#pragma once

#include <memory>
#include <vector>

#include "arch/address_map.h"
#include "arch/gpu_observation.h"
#include "host/host_bench.h"
#include "host/memory_hub.h"
#include "memory/l2_slice.h"
#include "memory/memory_bench.h"

namespace heddle::test {

inline memory::L2Params small_slices(std::uint32_t slices) {
  memory::L2Params params;
  params.bytes = std::uint64_t{slices} * 8 * 128;
  params.ways = 2;
  params.slices = slices;
  params.partitions = 1;
  params.queue = 4;
  params.responses = 2;
  params.mshrs = 3;
  params.waiters = 6;
  params.write_buffer = 2;
  return params;
}

struct HubBench {
  static constexpr std::uint32_t kSlices = 4;
  static constexpr std::uint64_t kBytes = 64 * 1024;

  HubBench(const host::HubParams& params, TimingMode mode, std::uint32_t count, const std::string& prefix = "gpu0")
      : observation(prefix),
        domain((prefix + "_domain").c_str(), 1.0, mode, 1000, observation),
        map(kBytes, kSlices, 1),
        bytes(kBytes),
        hub((prefix + "_hub").c_str(), domain, "hub", params, map, count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<TestInitiator>((prefix + "_client" + std::to_string(i)).c_str(), domain));
      clients.back()->out.bind(hub.client_in(i));
    }
    const memory::L2Params l2 = small_slices(kSlices);
    for (std::uint32_t i = 0; i < kSlices; ++i) {
      const std::string number = std::to_string(i);
      slices.push_back(std::make_unique<memory::L2Slice>((prefix + "_slice" + number).c_str(), domain,
                                                         "l2.slice" + number, l2, map, i,
                                                         memory::L2IngressPorts::crossbar_and_hub));
      sms.push_back(std::make_unique<TestInitiator>((prefix + "_sm" + number).c_str(), domain));
      memories.push_back(std::make_unique<TestTarget>((prefix + "_memory" + number).c_str(), domain, bytes));
      sms.back()->out.bind(slices.back()->request_in);
      hub.slice_out(i).bind(slices.back()->hub_in());
      slices.back()->memory_out.bind(memories.back()->in);
    }
  }

  protocol::MemoryRequest& plain(tlm::tlm_command command, std::uint64_t address, std::uint32_t length) {
    protocol::MemoryRequest& request = pool.acquire();
    request.aim(command, address, length);
    return request;
  }
  protocol::MemoryRequest& add(std::uint64_t address, std::uint64_t operand) {
    protocol::MemoryRequest& request = plain(tlm::TLM_IGNORE_COMMAND, address, 8);
    request.extension.action = protocol::MemoryAction::atomic;
    request.extension.type = arch::ValueType::u64;
    request.extension.atomic = arch::AtomicKind::add;
    request.extension.lanes = 1;
    request.extension.lane[0] = {operand, 0, 0, static_cast<std::uint8_t>(address % 128), 0};
    return request;
  }
  // Sends one and runs until nothing is left.
  tlm::tlm_response_status status_of(protocol::MemoryRequest& request, std::uint32_t client = 0) {
    tlm::tlm_response_status status = tlm::TLM_INCOMPLETE_RESPONSE;
    clients[client]->on_response = [&](protocol::MemoryRequest& answer, Cycle) {
      status = answer.get_response_status();
    };
    clients[client]->send(request, domain.now());
    run_until_idle();
    return status;
  }
  std::uint64_t stat(const std::string& name) {
    return static_cast<std::uint64_t>(observation.stats.value(observation.prefix + ".hub." + name));
  }

  GpuObservation observation;
  Domain domain;
  protocol::RequestPool pool;
  arch::AddressMap map;
  std::vector<std::uint8_t> bytes;
  host::MemoryHub hub;
  std::vector<std::unique_ptr<TestInitiator>> clients;
  std::vector<std::unique_ptr<TestInitiator>> sms;
  std::vector<std::unique_ptr<memory::L2Slice>> slices;
  std::vector<std::unique_ptr<TestTarget>> memories;
};

}  // namespace heddle::test
