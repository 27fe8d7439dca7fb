// The work of operators, counted by hand from what they are documented to compute.
#include "demand/operator_work.h"

#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace heddle::operator_work_test {

using namespace heddle::demand;
using arch::DemandUnit;
using workload::Operator;
using workload::OperatorArgument;

namespace {

using Extents = std::vector<std::int64_t>;

OperatorArgument tensor(const Extents& extents, const std::string& type = "c10::BFloat16") {
  OperatorArgument argument;
  argument.type = type;
  argument.extents = extents;
  argument.strides.assign(extents.size(), 1);
  for (std::size_t i = extents.size(); i-- > 1;) argument.strides[i - 1] = argument.strides[i] * extents[i];
  return argument;
}
OperatorArgument value(const std::string& text, const std::string& type = "Scalar") {
  OperatorArgument argument;
  argument.type = type;
  argument.value = text;
  return argument;
}
double read(const Work& work) {
  return std::accumulate(work.reads.begin(), work.reads.end(), 0.0,
                         [](double sum, const Operand& operand) { return sum + operand.bytes; });
}
double fetched(const Work& work) {
  return std::accumulate(work.reads.begin(), work.reads.end(), 0.0,
                         [](double sum, const Operand& operand) { return sum + operand.fetched; });
}
double written(const Work& work) {
  return std::accumulate(work.writes.begin(), work.writes.end(), 0.0,
                         [](double sum, const Operand& operand) { return sum + operand.bytes; });
}
Work made(const std::string& name, const std::vector<OperatorArgument>& arguments, const std::string& kernel = "k") {
  const Operator op{name, arguments, {}};
  const std::optional<Work> work = work_of(op, kernel);
  REQUIRE(work);
  return *work;
}

}  // namespace

TEST_CASE("a product of matrices", "[demand]") {
  const Work work = made("aten::mm", {tensor({100, 30}), tensor({30, 7})});
  CHECK(work.kind == Kind::matmul);
  CHECK(work.unit == DemandUnit::tensor_f16);
  CHECK(work.flops == 2.0 * 100 * 30 * 7);
  CHECK(read(work) == 2 * (100 * 30 + 30 * 7));
  CHECK(written(work) == 2 * 100 * 7);
  CHECK(work.reads[1].weight);
  CHECK(work.bytes() == read(work) + written(work));

  const Work added = made("aten::addmm", {tensor({7}), tensor({100, 30}), tensor({30, 7}), value("1"), value("1")});
  CHECK(added.flops == work.flops);
  CHECK(read(added) == read(work) + 2 * 7);

  const Work batch = made("aten::bmm", {tensor({5, 100, 30}, "float"), tensor({5, 30, 7}, "float")});
  CHECK(batch.flops == 5 * work.flops);
  CHECK(batch.unit == DemandUnit::fp32);
  CHECK_FALSE(batch.reads[1].weight);
  CHECK(made("aten::bmm", {tensor({5, 9, 3}, "float"), tensor({5, 3, 7}, "float")}, "x_tf32f32_y").unit ==
        DemandUnit::tensor_tf32);

  const Work linear = made("aten::linear", {tensor({4, 25, 30}), tensor({7, 30}), value("")});
  CHECK(linear.flops == work.flops);
  CHECK(written(linear) == written(work));
}

TEST_CASE("shapes that do not fit are no product", "[demand]") {
  CHECK_FALSE(work_of({"aten::mm", {tensor({100, 30}), tensor({31, 7})}, {}}, "k"));
  CHECK_FALSE(work_of({"aten::mm", {tensor({100, 30})}, {}}, "k"));
  CHECK_FALSE(work_of({"aten::mm", {tensor({30}), tensor({30, 7})}, {}}, "k"));
  CHECK_FALSE(work_of({"aten::mm", {value("3"), tensor({30, 7})}, {}}, "k"));
  CHECK_FALSE(work_of({"aten::unheard_of", {tensor({30, 7})}, {}}, "k"));
  CHECK_FALSE(work_of({"c10::mm", {tensor({100, 30}), tensor({30, 7})}, {}}, "k"));
}

TEST_CASE("a convolution is a product with patches", "[demand]") {
  // 224 x 224 in patches of 16 x 16: 14 x 14 places of 768 filters over 3 x 16 x 16.
  const Work patches = made("aten::cudnn_convolution",
                            {tensor({4, 3, 224, 224}), tensor({768, 3, 16, 16}), value("[0, 0]", "ScalarList"),
                             value("[16, 16]", "ScalarList"), value("[1, 1]", "ScalarList"), value("1")});
  CHECK(patches.kind == Kind::convolution);
  CHECK(patches.flops == 2.0 * 4 * 14 * 14 * 768 * 3 * 16 * 16);
  CHECK(written(patches) == 2.0 * 4 * 14 * 14 * 768);
  // 3 x 3 with a border of one keeps the extents; a stride of two halves them.
  const auto three = [](const char* stride) {
    return made("aten::miopen_convolution",
                {tensor({8, 64, 56, 56}), tensor({128, 64, 3, 3}), value(""), value("[1, 1]", "ScalarList"),
                 value(stride, "ScalarList"), value("[1, 1]", "ScalarList"), value("1")});
  };
  CHECK(three("[1, 1]").flops == 2.0 * 8 * 56 * 56 * 128 * 64 * 9);
  CHECK(three("[2, 2]").flops == 2.0 * 8 * 28 * 28 * 128 * 64 * 9);
  // Its helpers only move the input.
  const Work layout = made("aten::cudnn_convolution",
                           {tensor({4, 3, 224, 224}), tensor({768, 3, 16, 16}), value("[0, 0]"), value("[16, 16]"),
                            value("[1, 1]"), value("1")},
                           "void cudnn::ops::nchwToNhwcKernel<float>()");
  CHECK(layout.kind == Kind::copy);
  CHECK(layout.flops == 0);
  CHECK(read(layout) == 2.0 * 4 * 3 * 224 * 224);
}

TEST_CASE("attention multiplies twice", "[demand]") {
  const auto attention = [](const char* causal) {
    std::vector<OperatorArgument> arguments(3, tensor({16, 559, 12, 64}));
    for (int i = 0; i < 5; ++i) arguments.push_back(value(""));
    arguments.push_back(value(causal));
    return made("aten::_flash_attention_forward", arguments);
  };
  const Work whole = attention("False");
  CHECK(whole.kind == Kind::attention);
  CHECK(whole.flops == 2.0 * 2 * 16 * 12 * 559 * 559 * 64);
  CHECK(whole.sfu == 16.0 * 12 * 559 * 559);
  CHECK(read(whole) == 3.0 * 2 * 16 * 559 * 12 * 64);
  CHECK(attention("True").flops == whole.flops / 2);
}

TEST_CASE("elements are read and written once, broadcast ones fetched again", "[demand]") {
  const Work sum = made("aten::add", {tensor({16, 559, 64}), tensor({16, 559, 64}), value("1")});
  CHECK(sum.kind == Kind::elementwise);
  CHECK(read(sum) == 2 * 2 * 16 * 559 * 64);
  CHECK(written(sum) == 2 * 16 * 559 * 64);
  // A row for each of 16: each result fetches its own.
  const Work rows = made("aten::mul", {tensor({16, 559, 64}), tensor({1, 559, 64})});
  CHECK(read(rows) == 2 * (16 * 559 * 64 + 559 * 64));
  CHECK(fetched(rows) == 2 * 2 * 16 * 559 * 64);
  // A number for each row stays where it was read.
  const Work scaled = made("aten::mul", {tensor({16, 559, 64}), tensor({16, 559, 1})});
  CHECK(fetched(scaled) == 2 * (16 * 559 * 64 + 16 * 559));
  // The wider type is the result's; a number of its own does not widen it.
  CHECK(written(made("aten::mul", {tensor({8, 8}), tensor({8, 8}, "float")})) == 4 * 64);
  CHECK(written(made("aten::mul", {tensor({8, 8}), tensor({}, "double")})) == 2 * 64);
  CHECK(written(made("aten::add_", {tensor({8, 8}), tensor({8, 8}, "float")})) == 2 * 64);
  CHECK(written(made("aten::eq", {tensor({8, 8}, "long int"), value("1")})) == 64);
  CHECK(made("aten::silu", {tensor({8, 8})}).sfu == 64);
  CHECK(read(made("aten::fill_", {tensor({8, 8}), value("0")})) == 0);
}

TEST_CASE("an unknown operator whose kernel works element by element", "[demand]") {
  CHECK(read(made("aten::gelu_backward", {tensor({8, 8}), tensor({8, 8})},
                  "void at::native::vectorized_elementwise_kernel<4>")) == 2 * 2 * 64);
}

TEST_CASE("expanded and strided tensors", "[demand]") {
  OperatorArgument expanded = tensor({64, 128});
  expanded.strides = {0, 1};
  const Work work = made("aten::copy_", {tensor({64, 128}), expanded});
  CHECK(read(work) == 2 * 128);
  CHECK(fetched(work) == 2 * 64 * 128);
  // A transposed one is whole as well.
  OperatorArgument transposed = tensor({64, 8});
  transposed.strides = {1, 64};
  CHECK(read(made("aten::copy_", {tensor({64, 8}), transposed})) == 2 * 64 * 8);
  // Four of eight columns: 8 bytes of each row, which bring a sector of 32.
  OperatorArgument columns = tensor({64, 4});
  columns.strides = {8, 1};
  CHECK(read(made("aten::copy_", {tensor({64, 4}), columns})) == 64 * 32);
  // 64 bytes of each row: whole sectors.
  OperatorArgument wide = tensor({64, 32});
  wide.strides = {100, 1};
  CHECK(read(made("aten::copy_", {tensor({64, 32}), wide})) == 64 * 64);
}

TEST_CASE("reductions leave extents out", "[demand]") {
  const Work rows = made("aten::mean", {tensor({16, 559, 1024}, "float"), value("[-1]", "ScalarList"), value("True")});
  CHECK(rows.kind == Kind::reduction);
  CHECK(read(rows) == 4.0 * 16 * 559 * 1024);
  CHECK(written(rows) == 4 * 16 * 559);
  CHECK(written(made("aten::sum", {tensor({16, 559}, "float")})) == 4);
  CHECK(written(made("aten::sum", {tensor({16, 5, 7}, "float"), value("[0, 2]")})) == 4 * 5);
}

TEST_CASE("normalisations, embeddings, copies", "[demand]") {
  const Work norm = made("aten::native_layer_norm",
                         {tensor({4, 197, 768}), value("[768]"), tensor({768}), tensor({768}), value("1e-6")});
  CHECK(norm.kind == Kind::normalisation);
  CHECK(read(norm) == 2 * (4 * 197 * 768 + 2 * 768));
  CHECK(written(norm) == 2 * 4 * 197 * 768);
  const Work rows = made("aten::index_select", {tensor({151936, 1024}), value("0"), tensor({8944}, "long int")});
  CHECK(rows.kind == Kind::embedding);
  CHECK(read(rows) == 2.0 * 8944 * 1024 + 8 * 8944);
  CHECK(written(rows) == 2.0 * 8944 * 1024);
  OperatorArgument list = value("", "TensorList");
  list.elements = {tensor({4, 1, 768}), tensor({4, 196, 768})};
  const Work joined = made("aten::cat", {list, value("1")});
  CHECK(read(joined) == written(joined));
  CHECK(written(joined) == 2 * 4 * 197 * 768);
}

TEST_CASE("types of elements", "[demand]") {
  CHECK(element_bytes("c10::BFloat16") == 2);
  CHECK(element_bytes("double") == 8);
  CHECK(element_bytes("Scalar") == 0);
}

}  // namespace heddle::operator_work_test
