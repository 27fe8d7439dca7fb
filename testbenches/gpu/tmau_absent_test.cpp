// Machines without tensor memory access units.
#include <memory>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "common/params.h"
#include "support/gpu_bench.h"
#include "support/list_program.h"

namespace gpu_tmau_absent_test {

using namespace heddle;
using namespace heddle::test;

namespace {

// A program that says whether it needs the unit.
class Needy final : public ListProgram {
 public:
  explicit Needy(bool needs) : ListProgram(1), needs_(needs) { exit(); }
  bool needs_tmau() const override { return needs_; }

 private:
  bool needs_;
};

gpu::GpuParams params_of(const std::string& preset) {
  gpu::GpuParams params;
  ParamBinder binder;
  params.bind(binder);
  ParamLayers layers(1);
  layers.add_preset(0, gpu::preset(preset), {Origin::Kind::preset, "preset " + preset});
  layers.resolve(binder, 0);
  return params;
}

}  // namespace

TEST_CASE("machines without the unit have no clusters either", "[gpu][TMA-46]") {
  for (const char* preset : {"a100", "mi300x", "mi350x"}) {
    CAPTURE(preset);
    const gpu::GpuParams params = params_of(preset);
    CHECK_FALSE(params.tmau.enabled);
    CHECK(params.cwd.max_gpc_cga == 1);
  }
  CHECK(params_of("h100-sxm").tmau.enabled);
  CHECK(params_of("rtx5090").tmau.enabled);
}

TEST_CASE("a machine without the unit refuses programs that need it", "[gpu][TMA-46]") {
  const bool enabled = GENERATE(false, true);
  const bool needs = GENERATE(false, true);
  SimFixture fixture;
  gpu::GpuParams params = params_of("small");
  params.tmau.enabled = enabled;
  GpuBench bench(params);
  arch::KernelShape kernel;
  kernel.grid = kernel.block = {1, 1, 1};
  const auto add = [&] { return bench.gpu.add_code(std::make_shared<Needy>(needs), kernel); };
  if (enabled || !needs) {
    CHECK_NOTHROW(add());
  } else {
    CHECK_THROWS_WITH(add(), Catch::Contains("tensor memory access unit"));
  }
}

}  // namespace gpu_tmau_absent_test
