// The machines that come with the program: what they say of themselves, and what they refuse.
#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/params.h"
#include "gpu/gpu_params.h"

namespace gpu = heddle::gpu;

namespace {

gpu::GpuParams machine_of(const std::string& preset) {
  gpu::GpuParams params;
  heddle::ParamBinder binder;
  params.bind(binder);
  heddle::ParamLayers layers(1);
  layers.add_preset(0, gpu::preset(preset), {heddle::Origin::Kind::preset, "preset " + preset});
  layers.resolve(binder, 0);
  return params;
}

// Every value of the map has a source beside it.
void check_sources(const YAML::Node& node, const std::string& path) {
  for (const auto& item : node) {
    const std::string here = path + "." + item.first.as<std::string>();
    CAPTURE(here);
    const YAML::Node& value = item.second;
    REQUIRE(value.IsMap());
    if (value["value"]) {
      CHECK_FALSE(value["source"].as<std::string>().empty());
    } else {
      check_sources(value, here);
    }
  }
}

std::vector<std::string> parameter_paths() {
  gpu::GpuParams params;
  heddle::ParamBinder binder;
  params.bind(binder);
  std::vector<std::string> paths;
  for (const heddle::ParamEntry& entry : binder.entries()) paths.push_back(entry.path);
  return paths;
}

}  // namespace

TEST_CASE("a preset says where each value comes from, what it was checked against, and what is unknown", "[gpu]") {
  const std::vector<std::string> paths = parameter_paths();
  for (const std::string& name : gpu::preset_names()) {
    CAPTURE(name);
    CHECK_FALSE(gpu::preset_description(name).empty());
    CHECK_FALSE(gpu::preset_checked(name).empty());
    check_sources(gpu::preset(name), "gpu");
    for (const std::string& unknown : gpu::preset_unknown(name)) {
      CAPTURE(unknown);
      CHECK(std::any_of(paths.begin(), paths.end(),
                        [&](const std::string& path) { return path.compare(0, unknown.size(), unknown) == 0; }));
    }
    machine_of(name).check();
  }
}

TEST_CASE("recorded devices find their presets", "[gpu][INP-10]") {
  const auto preset = [](const char* device) { return gpu::preset_for_device(device); };
  CHECK(preset("NVIDIA H100 80GB HBM3") == "h100-sxm");
  CHECK(preset("NVIDIA H100 PCIe") == "h100-pcie");
  CHECK(preset("NVIDIA H800 PCIe") == "h800");
  CHECK(preset("NVIDIA H200") == "h200");
  CHECK(preset("NVIDIA GH200 480GB") == "gh200");
  CHECK(preset("NVIDIA H20") == "h20");
  CHECK(preset("NVIDIA A100-SXM4-40GB") == "a100");
  CHECK(preset("NVIDIA B200") == "b200");
  CHECK(preset("NVIDIA L40S") == "l40s");
  CHECK(preset("NVIDIA GeForce RTX 5090") == "rtx5090");
  CHECK(preset("AMD Instinct MI300X").empty());  // recordings of it say what its resources are
  CHECK(preset("AMD Instinct MI350X") == "mi350x");
  CHECK(preset("NVIDIA GB200").empty());  // another product: two B200 and a Grace
}

TEST_CASE("the presets have the peaks of their data sheets", "[gpu]") {
  struct Peak {
    const char* preset;
    double memory;  // TB/s
    double matrix;  // TFLOP/s of f16
    std::uint32_t sms;
  };
  // Data sheets; clocks under which matrix rates are stated differ from boost clocks by up to 10 %.
  for (const Peak& peak :
       {Peak{"h100-sxm", 3.35, 989, 132}, Peak{"h100-pcie", 2.04, 756, 114}, Peak{"h800", 2.04, 756, 114},
        Peak{"h200", 4.8, 989, 132}, Peak{"gh200", 4.0, 989, 132}, Peak{"h20", 4.0, 148, 78},
        Peak{"a100", 1.555, 312, 108}, Peak{"b200", 8.0, 2250, 148}, Peak{"l40s", 0.864, 362, 142},
        Peak{"rtx5090", 1.792, 209.5, 170}, Peak{"mi300x", 5.3, 1307, 304}, Peak{"mi350x", 8.0, 2300, 256}}) {
    CAPTURE(peak.preset);
    const gpu::GpuParams params = machine_of(peak.preset);
    const std::uint32_t pins = params.hbm.standard == heddle::memory::HbmStandard::hbm2e ? 64 : 32;
    CHECK(params.hbm.channels * pins * params.hbm.pin_rate / 8000 == Approx(peak.memory).epsilon(0.005));
    CHECK(params.machine.shape.sms() == peak.sms);
    const double flops = peak.sms * 4.0 * params.sm.issue.tensor_flops * params.machine.clock / 1000;
    CHECK(flops == Approx(peak.matrix).epsilon(0.11));
  }
}

TEST_CASE("what a device lacks is refused by its name", "[gpu][TMA-46]") {
  heddle::arch::KernelShape kernel;
  kernel.grid = {4, 1, 1};
  kernel.block = {32, 1, 1};
  kernel.cluster.of(heddle::arch::CgaLevel::gpc) = {2, 1, 1};
  for (const char* name : {"a100", "l40s", "mi300x", "mi350x"}) {
    const gpu::GpuParams params = machine_of(name);
    CHECK(gpu::why_never_fits(params, kernel) ==
          fmt::format("its CTAs come in clusters, and {} has none (gpu.cwd.max_gpc_cga is 1)", params.machine.device));
  }
  for (const char* name : {"h100-sxm", "h100-pcie", "h800", "h200", "gh200", "h20", "b200", "rtx5090"}) {
    CAPTURE(name);
    CHECK(gpu::why_never_fits(machine_of(name), kernel).empty());
  }
}
