// A whole GPU on which programs run, and whose memory can be looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/gpu_observation.h"
#include "common/params.h"
#include "gpu/gpu.h"
#include "support/list_program.h"
#include "support/scripted_host.h"
#include "support/sim_fixture.h"

namespace heddle::test {

inline gpu::GpuParams preset_params(const std::string& name, const std::vector<std::string>& sets = {}) {
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset(name), {Origin::Kind::preset, "preset " + name});
  layers.resolve(binder, 0);
  for (const std::string& set : sets) binder.set(set);
  return params;
}

// GPC_CGAs of that many CTAs, in a row.
inline arch::ClusterShape clusters_of(std::uint32_t ctas, arch::CgaMode mode = arch::CgaMode::multicast) {
  arch::ClusterShape cluster;
  cluster.of(arch::CgaLevel::gpc) = {ctas, 1, 1};
  cluster.mode = mode;
  return cluster;
}

// The user owns the SimFixture.
class GpuLab {
 public:
  explicit GpuLab(const gpu::GpuParams& params, gpu::DeviceMemory memory = gpu::DeviceMemory::own,
                  const std::string& name = "gpu0")
      : observation(name), gpu(name.c_str(), params, 1, observation, memory), host((name + "_host").c_str()) {
    host.submit_out.bind(gpu.submit_in());
    gpu.done_out().bind(host.done_in);
  }

  protocol::SubmitPacket packet(std::shared_ptr<const arch::WarpProgram> program, arch::Dim3 grid, arch::Dim3 block,
                                std::uint32_t shared = 0, std::uint32_t stream = 0,
                                const arch::ClusterShape& cluster = {}) {
    protocol::SubmitPacket packet = kernel_packet(operations_++, stream, grid, block);
    packet.kernel.shared_bytes = shared;
    packet.kernel.cluster = cluster;
    packet.kernel.code = gpu.add_code(std::move(program), packet.kernel);
    return packet;
  }
  // Submits the kernel now; returns its operation.
  std::uint32_t submit(const protocol::SubmitPacket& packet) {
    host.submit(host.now() + 1, packet);
    return packet.operation;
  }
  std::uint32_t submit(std::shared_ptr<const arch::WarpProgram> program, arch::Dim3 grid, arch::Dim3 block,
                       std::uint32_t shared = 0, std::uint32_t stream = 0) {
    return submit(packet(std::move(program), grid, block, shared, stream));
  }
  // Submits it and simulates until nothing is left to do.
  std::uint32_t run(std::shared_ptr<const arch::WarpProgram> program, arch::Dim3 grid, arch::Dim3 block,
                    std::uint32_t shared = 0) {
    const std::uint32_t operation = submit(std::move(program), grid, block, shared);
    run_until_idle();
    return operation;
  }
  std::uint32_t run(std::shared_ptr<const arch::WarpProgram> program, arch::Dim3 grid, arch::Dim3 block,
                    std::uint32_t shared, const arch::ClusterShape& cluster) {
    const std::uint32_t operation = submit(packet(std::move(program), grid, block, shared, 0, cluster));
    run_until_idle();
    return operation;
  }
  // Cycles from its first launch packet to its last completion.
  double cycles(std::uint32_t operation) const {
    const protocol::DonePacket& done = host.results.at(operation);
    return static_cast<double>(done.end - done.start) / static_cast<double>(picoseconds(gpu.domain().clock().period()));
  }
  template <class T>
  T read(std::uint64_t address) {
    T value{};
    HEDDLE_CHECK(gpu.memory().read(address, &value, sizeof value), "a read outside memory");
    return value;
  }
  template <class T>
  void write(std::uint64_t address, T value) {
    HEDDLE_CHECK(gpu.memory().write(address, &value, sizeof value), "a write outside memory");
  }
  double stat(const std::string& path) const { return observation.stats.value(observation.prefix + "." + path); }

  GpuObservation observation;
  gpu::Gpu gpu;
  ScriptedHost host;

 private:
  std::uint32_t operations_ = 0;
};

}  // namespace heddle::test
