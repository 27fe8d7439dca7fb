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

// A program that says what it needs of the unit.
class Needy final : public ListProgram {
 public:
  explicit Needy(const arch::TmauNeeds& needs) : ListProgram(1), needs_(needs) { exit(); }
  arch::TmauNeeds tmau_needs() const override { return needs_; }

 private:
  arch::TmauNeeds needs_;
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
  for (const char* preset : {"a100", "l40s", "mi300x", "mi350x"}) {
    CAPTURE(preset);
    const gpu::GpuParams params = params_of(preset);
    CHECK_FALSE(params.tmau.enabled);
    CHECK(params.cwd.max_gpc_cga == 1);
  }
  CHECK(params_of("h100-sxm").tmau.enabled);
  CHECK(params_of("rtx5090").tmau.enabled);
}

TEST_CASE("a machine refuses programs that need a unit which it has not", "[gpu][TMA-46]") {
  struct Case {
    bool enabled;
    tmau::Requests requests;
    arch::TmauNeeds needs;
    const char* missing;
  };
  using tmau::Requests;
  const char* any = "to a tensor memory access unit, and the machine has none";
  const char* of_tensors = "to a tensor memory access unit for tensors, and the machine has none";
  const char* of_blocks = "to a tensor memory access unit for blocks, and the machine has none";
  const Case its = GENERATE_COPY(values<Case>({
      {false, Requests::all, {}, nullptr},
      {false, Requests::all, {true, false, false}, any},
      {false, Requests::tensors, {true, true, false}, any},
      {true, Requests::all, {true, true, true}, nullptr},
      {true, Requests::tensors, {true, true, false}, nullptr},
      {true, Requests::tensors, {true, false, false}, nullptr},
      {true, Requests::tensors, {true, true, true}, of_blocks},
      {true, Requests::blocks, {true, false, true}, nullptr},
      {true, Requests::blocks, {true, true, true}, of_tensors},
      {true, Requests::blocks, {true, true, false}, of_tensors},
  }));
  SimFixture fixture;
  gpu::GpuParams params = params_of("small");
  params.tmau.enabled = its.enabled;
  params.tmau.requests = its.requests;
  GpuBench bench(params);
  arch::KernelShape kernel;
  kernel.grid = kernel.block = {1, 1, 1};
  const auto add = [&] { return bench.gpu.add_code(std::make_shared<Needy>(its.needs), kernel); };
  if (its.missing == nullptr) {
    CHECK_NOTHROW(add());
  } else {
    CHECK_THROWS_WITH(add(), Catch::Contains(its.missing));
  }
}

}  // namespace gpu_tmau_absent_test
