// Where demands come from, and in which order.
#include "demand/sources.h"

#include <string>

#include <catch2/catch.hpp>

#include "demand/name_work.h"

namespace heddle::sources_test {

using namespace heddle::demand;
using arch::DemandUnit;
using workload::KernelCounters;
using workload::Op;
using workload::Operator;
using workload::OperatorArgument;
using workload::Workload;

namespace {

Op kernel(const std::string& name, std::uint32_t ctas, std::uint32_t threads = 128) {
  Op op;
  op.kernel.name = name;
  op.kernel.grid = {ctas, 1, 1};
  op.kernel.block = {threads, 1, 1};
  op.recorded = workload::Recorded{0, 1000, -1, false};
  return op;
}
KernelCounters counted(const std::string& name, std::uint64_t ctas, double dram) {
  KernelCounters its;
  its.kernel = name;
  its.ctas = ctas;
  its.threads = 128;
  its.all.of(DemandUnit::dram_read) = dram;
  its.known.set(static_cast<std::size_t>(DemandUnit::dram_read));
  return its;
}
Operator product() {
  OperatorArgument a;
  a.type = "c10::BFloat16";
  a.extents = {1024, 512};
  OperatorArgument b = a;
  b.extents = {512, 256};
  return {"aten::mm", {a, b}, {}};
}

}  // namespace

TEST_CASE("counters come first, then operators, then names", "[demand]") {
  Workload workload;
  workload.operators = {product()};
  workload.ops = {kernel("void ns::gemm_64x64_nn<int>(float*)", 16), kernel("gemm_64x64_nn", 16), kernel("other", 4),
                  Op{}};
  workload.ops[0].op_of = 0;
  workload.ops[3].kind = workload::OpKind::copy;
  const Demands plain = demands_of(workload, 1e6, {});
  REQUIRE(plain[0]);
  CHECK(plain[0]->source == Source::operators);
  CHECK(plain[0]->estimate.cta.of(DemandUnit::tensor_f16) == 2.0 * 1024 * 512 * 256 / 16);
  CHECK_FALSE(plain[0]->proportions);
  REQUIRE(plain[1]);
  CHECK(plain[1]->source == Source::names);
  CHECK(plain[1]->proportions);
  CHECK_FALSE(plain[2]);
  CHECK_FALSE(plain[3]);
  // The same counters for both launches of a name, as there is only one.
  const Demands with = demands_of(workload, 1e6, {counted("gemm_64x64_nn(float *)", 16, 1600)});
  for (const std::size_t i : {0U, 1U}) {
    REQUIRE(with[i]);
    CHECK(with[i]->source == Source::counters);
    CHECK(with[i]->estimate.cta.of(DemandUnit::dram_read) == 100);
  }
  CHECK(with[0]->estimate.kind == Kind::matmul);
  // What was not counted stays as the operator tells it; a name's proportions are no amounts.
  CHECK(with[0]->estimate.cta.of(DemandUnit::tensor_f16) == plain[0]->estimate.cta.of(DemandUnit::tensor_f16));
  CHECK(with[1]->estimate.cta.of(DemandUnit::tensor_f16) == 0);

  const Coverage coverage = coverage_of(workload, with);
  CHECK(coverage.kernels == 3);
  CHECK(coverage.covered() == 2);
  CHECK(coverage.by_unit[static_cast<std::size_t>(DemandUnit::dram_read)] == 2);
  CHECK(coverage.by_unit[static_cast<std::size_t>(DemandUnit::tensor_f16)] == 1);
  CHECK(coverage.time == 3000);
  CHECK(coverage.time_covered == 2000);
}

TEST_CASE("counters of a grid without record divide the work of its operator anew", "[demand]") {
  Workload workload;
  workload.operators = {product()};
  workload.ops = {kernel("gemm_64x64_nn", 1)};
  workload.ops[0].op_of = 0;
  workload.ops[0].grid_assumed = true;  // 16 x 4 tiles tell the CTAs
  REQUIRE(demands_of(workload, 1e6, {})[0]->estimate.ctas == 64);
  const Demands with = demands_of(workload, 1e6, {counted("gemm_64x64_nn", 1, 1600)});
  CHECK(with[0]->estimate.ctas == 1);
  CHECK(with[0]->estimate.cta.of(DemandUnit::dram_read) == 1600);
  CHECK(with[0]->estimate.cta.of(DemandUnit::tensor_f16) == 2.0 * 1024 * 512 * 256);
}

TEST_CASE("work beyond any machine is not believed", "[demand]") {
  Workload workload;
  OperatorArgument tensor;
  tensor.type = "float";
  tensor.extents = {std::int64_t{1} << 48};
  OperatorArgument wide = tensor;
  wide.extents = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  OperatorArgument a;
  a.type = "float";
  a.extents = {std::int64_t{1} << 24, std::int64_t{1} << 24};
  workload.operators = {{"aten::neg", {tensor}, {}}, {"aten::neg", {wide}, {}}, {"aten::mm", {a, a}, {}}};
  workload.ops = {kernel("neg", 1), kernel("neg", 1), kernel("mm", 1)};
  for (std::size_t i = 0; i < 3; ++i) workload.ops[i].op_of = i;
  for (const auto& demand : demands_of(workload, 1e6, {})) CHECK_FALSE(demand);
}

TEST_CASE("as many counters as launches go to one each", "[demand]") {
  Workload workload;
  workload.ops = {kernel("k", 4), kernel("k", 8), kernel("k", 4)};
  const Demands demands =
      demands_of(workload, 1e6, {counted("k", 4, 4), counted("k", 4, 8), counted("k", 8, 80), counted("k", 9, 1)});
  CHECK(demands[0]->estimate.cta.of(DemandUnit::dram_read) == 1);
  CHECK(demands[1]->estimate.cta.of(DemandUnit::dram_read) == 10);
  CHECK(demands[2]->estimate.cta.of(DemandUnit::dram_read) == 2);
}

TEST_CASE("what the L2 holds does not come from memory", "[demand]") {
  Workload workload;
  OperatorArgument tensor;
  tensor.type = "float";
  tensor.extents = {1000};
  workload.operators = {{"aten::neg", {tensor}, {}}};
  workload.ops = {kernel("neg", 1), kernel("neg", 1)};
  workload.ops[0].op_of = workload.ops[1].op_of = 0;
  const Demands large = demands_of(workload, 20'000, {});
  CHECK(large[0]->estimate.cta.of(DemandUnit::dram_read) == 4000);
  CHECK(large[1]->estimate.cta.of(DemandUnit::dram_read) == 0);
  CHECK(large[1]->estimate.cta.of(DemandUnit::l2_read) == 4000);
  const Demands small = demands_of(workload, 3000, {});
  CHECK(small[1]->estimate.cta.of(DemandUnit::dram_read) == 4000);
}

TEST_CASE("PyTorch's element-wise kernels tell tensors and types", "[demand]") {
  const auto add = work_of_name(
      "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
      "std::array<char*, 3ul> >(int)",
      100, 128);
  REQUIRE(add);
  CHECK(add->work.reads.size() == 2);
  CHECK(add->work.writes.size() == 1);
  CHECK(add->work.bytes() == 3.0 * 2 * 100 * 128 * 4);
  CHECK_FALSE(add->proportions);
  const auto fill = work_of_name(
      "void at::native::unrolled_elementwise_kernel<at::native::FillFunctor<double>, at::detail::Array<char*, 1>, X>",
      1, 128);
  REQUIRE(fill);
  CHECK(fill->work.bytes() == 8.0 * 128 * 4);
  CHECK_FALSE(work_of_name("void at::native::elementwise_kernel<128, 4, float>", 1, 128));
  CHECK_FALSE(work_of_name("k", 1, 128));
}

TEST_CASE("a product's name tells proportions", "[demand]") {
  const auto product = work_of_name("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64x64_x", 8, 128);
  REQUIRE(product);
  CHECK(product->proportions);
  CHECK(product->work.unit == DemandUnit::tensor_f16);
  CHECK(product->work.flops == Approx(2.0 * 8 * 128 * 64));
  CHECK(work_of_name("ampere_sgemm_128x64_nn", 8, 128)->work.unit == DemandUnit::fp32);
  CHECK(work_of_name("cutlass_80_tensorop_s1688gemm_256x64_16x4_tn", 8, 128)->work.unit == DemandUnit::tensor_tf32);
}

}  // namespace heddle::sources_test
