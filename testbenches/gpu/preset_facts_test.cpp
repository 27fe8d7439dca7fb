// Presets against what is published of their machines.
#include <algorithm>

#include <catch2/catch.hpp>

#include "arch/sm_limits.h"
#include "common/params.h"
#include "cwd/occupancy.h"
#include "gpu/gpu_params.h"

namespace gpu_preset_facts_test {

using namespace heddle;
using heddle::gpu::GpuParams;

namespace {

GpuParams preset(const std::string& name) {
  GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset(name), {Origin::Kind::preset, "preset " + name});
  layers.resolve(binder, 0);
  return params;
}

// GB/s of the data pins: 32 of each channel.
double bandwidth(const GpuParams& params) { return params.hbm.channels * 32 * params.hbm.pin_rate / 8; }

std::uint32_t resident(const GpuParams& params, std::uint32_t threads, std::uint32_t registers, std::uint32_t shared) {
  arch::KernelShape kernel;
  kernel.block = {threads, 1, 1};
  kernel.registers_per_thread = registers;
  kernel.shared_bytes = shared;
  const arch::SmLimits& limits = params.sm.limits;
  return arch::free_slots(arch::capacity_of(limits), {}, arch::need_of(limits, kernel));
}

}  // namespace

TEST_CASE("the preset of an MI350X has AMD's figures", "[gpu][INP-04][INP-10]") {
  CHECK(gpu::preset_for_device("AMD Instinct MI350X") == "mi350x");
  const GpuParams params = preset("mi350x");
  CHECK(params.machine.shape.sms() == 256);
  CHECK(params.machine.shape.gpcs.size() == 8);
  CHECK(bandwidth(params) == 8'000);
  // Wavefronts of a SIMD by vector registers, as LLVM computes them: 512 in eights, at most 8 wavefronts; four SIMDs
  // that the model takes as one, which may fit up to three more.
  for (std::uint32_t registers = 1; registers <= 512; ++registers) {
    CAPTURE(registers);
    const std::uint32_t simd = std::min(8U, 512 / ((registers + 7) / 8 * 8));
    const std::uint32_t ctas = resident(params, 64, registers, 0);
    REQUIRE(ctas >= 4 * simd);
    REQUIRE(ctas < 4 * simd + 4);
  }
  CHECK(resident(params, 1024, 0, 0) == 2);
  CHECK(resident(params, 128, 0, 0) == 16);        // as the 16 barriers of a compute unit say as well
  CHECK(resident(params, 256, 128, 52'224) == 3);  // LDS: 41 x 1,280 bytes each
  CHECK(resident(params, 256, 136, 124'928) == 1);
  CHECK(resident(params, 64, 8, 163'840) == 1);
}

TEST_CASE("the preset of an RTX 5090 has NVIDIA's figures", "[gpu][INP-10]") {
  CHECK(gpu::preset_for_device("NVIDIA GeForce RTX 5090") == "rtx5090");
  const GpuParams params = preset("rtx5090");
  CHECK(params.machine.shape.sms() == 170);
  CHECK(params.machine.shape.gpcs.size() == 11);
  CHECK(bandwidth(params) == 1'792);
  CHECK(params.l2.bytes == std::uint64_t{96} << 20);
  CHECK(resident(params, 1024, 0, 0) == 1);  // 1,536 threads
  CHECK(resident(params, 512, 0, 0) == 3);
  CHECK(resident(params, 32, 0, 0) == 24);
  CHECK(resident(params, 256, 64, 0) == 4);        // 65,536 registers
  CHECK(resident(params, 32, 0, 99 * 1024) == 1);  // with its reserve, all of the 100 KiB
  CHECK(resident(params, 32, 0, 49 * 1024) == 2);
  // A cluster of the portable size, one CTA on an SM: two in a GPC of 16 SMs, one in a GPC of 14.
  CHECK(params.cwd.max_gpc_cga == 8);
  arch::KernelShape kernel;
  kernel.block = {1024, 1, 1};
  kernel.grid = {16, 1, 1};
  kernel.cluster.of(arch::CgaLevel::gpc) = {8, 1, 1};
  const arch::Topology topology(params.machine.shape, params.machine.ugpus);
  CHECK(cwd::occupancy(topology, params.cwd, params.sm.limits, kernel, 256).cgas == 8 * 2 + 3);
}

}  // namespace gpu_preset_facts_test
