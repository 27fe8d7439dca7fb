// Operators of the host in Kineto traces, and which kernels they launched.
#include <filesystem>
#include <iostream>

#include <catch2/catch.hpp>

#include "import/kineto_text.h"

namespace import_kineto_operators_test {

using namespace heddle;
using namespace heddle::test;
using workload::Workload;

namespace {

// An operator on thread 4711; `arguments` are further entries of args.
std::string op(const std::string& name, const std::string& ts, const std::string& dur, int external,
               const std::string& arguments = "", int tid = 4711) {
  return fmt::format(R"({{"ph":"X","cat":"cpu_op","name":"{}","pid":4711,"tid":{},"ts":{},"dur":{},)"
                     R"("args":{{"External id":{}{}{}}}}})",
                     name, tid, ts, dur, external, arguments.empty() ? "" : ",", arguments);
}

const std::string kLinear =
    R"("Input Dims":[[4,8],[16,8],[]],"Input type":["float","float",""],"Input Strides":[[8,1],[8,1],[]],)"
    R"("Concrete Inputs":["","",""])";
const std::string kAddmm =
    R"("Input Dims":[[16],[4,8],[8,16],[],[]],"Input type":["c10::BFloat16","c10::BFloat16","c10::BFloat16",)"
    R"("Scalar","Scalar"],"Input Strides":[[1],[8,1],[1,8],[],[]],"Concrete Inputs":["","","","1","-1"])";

// By the name of the kernel: the operator that launched it; empty: none.
std::string launcher(const Workload& workload, const std::string& kernel) {
  for (const workload::Op& op : workload.ops) {
    if (op.kernel.name == kernel) return op.op_of ? workload.operators.at(*op.op_of).name : "";
  }
  FAIL("no kernel " << kernel);
  return {};
}

}  // namespace

TEST_CASE("a kernel knows the operator that launched it, and that operator its caller", "[workload][INP-12]") {
  const Workload workload =
      import_text(trace({op("aten::linear", "10", "50", 1, kLinear), op("aten::t", "11", "3", 2),
                         op("aten::addmm", "20", "30", 3, kAddmm), op("aten::add", "70", "10", 4),
                         call("cudaLaunchKernel", "30", 1, R"("External id":3)"),
                         kernel("gemm", 7, "100", "5", 1, R"("External id":3,"grid":[4,1,1],"block":[128,1,1])")}))[0];
  // The operators that launched nothing and called nobody that did are gone.
  REQUIRE(workload.operators.size() == 2);
  const workload::Operator& linear = workload.operators[0];
  CHECK(linear.name == "aten::linear");
  CHECK_FALSE(linear.caller);
  REQUIRE(linear.arguments.size() == 3);
  CHECK(linear.arguments[1].extents == std::vector<std::int64_t>{16, 8});
  const workload::Operator& addmm = workload.operators[1];
  CHECK(addmm.name == "aten::addmm");
  CHECK(addmm.caller == 0);
  REQUIRE(addmm.arguments.size() == 5);
  CHECK(addmm.arguments[0].type == "c10::BFloat16");
  CHECK(addmm.arguments[0].extents == std::vector<std::int64_t>{16});
  CHECK(addmm.arguments[2].extents == std::vector<std::int64_t>{8, 16});
  CHECK(addmm.arguments[2].strides == std::vector<std::int64_t>{1, 8});
  CHECK(addmm.arguments[2].value.empty());
  CHECK(addmm.arguments[4].type == "Scalar");
  CHECK(addmm.arguments[4].extents.empty());
  CHECK(addmm.arguments[4].value == "-1");
  CHECK(workload.ops[0].op_of == 1);
  CHECK_FALSE(workload.ops[0].op_inferred);
}

TEST_CASE("without a number the operator is the innermost on the thread of the call at its time",
          "[workload][INP-12]") {
  const Workload workload = import_text(
      trace({op("outer", "10", "50", 0), op("inner", "20", "10", 0), op("elsewhere", "0", "100", 0, "", 4712),
             call("cudaLaunchKernel", "25", 1), call("cudaLaunchKernel", "40", 2), call("cudaLaunchKernel", "61", 3),
             kernel("a", 7, "100", "5", 1), kernel("b", 7, "110", "5", 2), kernel("c", 7, "120", "5", 3)}))[0];
  CHECK(launcher(workload, "a") == "inner");
  CHECK(launcher(workload, "b") == "outer");
  CHECK(launcher(workload, "c").empty());
}

TEST_CASE("operators that begin and end together are nested as they are numbered", "[workload][INP-12]") {
  const Workload workload = import_text(trace({op("second", "10", "5", 8), op("first", "10", "5", 7),
                                               call("cudaLaunchKernel", "12", 1), kernel("k", 7, "100", "5", 1)}))[0];
  CHECK(launcher(workload, "k") == "second");
  REQUIRE(workload.operators.size() == 2);
  CHECK(workload.operators[0].name == "first");
  CHECK(workload.operators[1].caller == 0);
}

TEST_CASE("a list of tensors keeps the extents of each", "[workload][INP-12]") {
  const std::string lists = R"("Input Dims":[[[2,3],[4,3]],[]],"Input type":["TensorList","Scalar"],)"
                            R"("Input Strides":[[[3,1],[3,1]],[]],"Concrete Inputs":["","0"])";
  const Workload workload =
      import_text(trace({op("aten::cat", "10", "50", 5, lists), call("cudaLaunchKernel", "30", 1, R"("External id":5)"),
                         kernel("k", 7, "100", "5", 1)}))[0];
  REQUIRE(workload.operators.size() == 1);
  REQUIRE(workload.operators[0].arguments.size() == 2);
  const workload::OperatorArgument& list = workload.operators[0].arguments[0];
  CHECK(list.type == "TensorList");
  CHECK(list.extents.empty());
  REQUIRE(list.elements.size() == 2);
  CHECK(list.elements[0].extents == std::vector<std::int64_t>{2, 3});
  CHECK(list.elements[1].extents == std::vector<std::int64_t>{4, 3});
  CHECK(list.elements[1].strides == std::vector<std::int64_t>{3, 1});
  CHECK(workload.operators[0].arguments[1].value == "0");
}

TEST_CASE("texts of arguments come through as they are", "[workload][INP-12]") {
  const std::string text = R"("Input Dims":[[]],"Input type":["Str"],"Concrete Inputs":["a\"b\\c\nµ, [1]"])";
  const Workload workload =
      import_text(trace({op("f", "10", "50", 5, text), call("cudaLaunchKernel", "30", 1, R"("External id":5)"),
                         kernel("k", 7, "100", "5", 1)}))[0];
  REQUIRE(workload.operators.size() == 1);
  CHECK(workload.operators[0].arguments[0].value == "a\"b\\c\nµ, [1]");
}

TEST_CASE("a kernel from before the window takes the operator of launches like it, if they agree",
          "[workload][INP-03][INP-12]") {
  const std::string other = R"("grid":[8,1,1],"block":[128,1,1])";
  const Workload workload = import_text(
      trace({kernel("gemm", 7, "1", "5", 0), kernel("add", 7, "10", "5", 0), kernel("gemm", 7, "20", "5", 0, other),
             op("aten::mm", "30", "5", 1, kLinear), call("cudaLaunchKernel", "31", 11, R"("External id":1)"),
             op("aten::mm", "40", "5", 2, kLinear), call("cudaLaunchKernel", "41", 12, R"("External id":2)"),
             op("aten::add", "50", "5", 3, kLinear), call("cudaLaunchKernel", "51", 13, R"("External id":3)"),
             op("aten::add_", "60", "5", 4, kLinear), call("cudaLaunchKernel", "61", 14, R"("External id":4)"),
             kernel("gemm", 7, "100", "5", 11), kernel("gemm", 7, "110", "5", 12), kernel("add", 7, "120", "5", 13),
             kernel("add", 7, "130", "5", 14)}))[0];
  REQUIRE(workload.ops.size() == 7);
  REQUIRE(workload.ops[0].op_of);
  CHECK(workload.operators[*workload.ops[0].op_of].name == "aten::mm");
  CHECK(workload.ops[0].op_inferred);
  CHECK_FALSE(workload.ops[1].op_of);  // its launches are of two operators
  CHECK_FALSE(workload.ops[2].op_of);  // none has its grid
  CHECK(workload.ops[3].op_of);
  CHECK_FALSE(workload.ops[3].op_inferred);
}

TEST_CASE("what a graph launches is not the work of the operator around its launch", "[workload][INP-12]") {
  const Workload workload =
      import_text(trace({op("replay", "10", "50", 5), call("cudaGraphLaunch", "30", 1, R"("External id":5)"),
                         kernel("k", 7, "100", "5", 1)}))[0];
  CHECK_FALSE(workload.ops[0].op_of);
  CHECK(workload.operators.empty());
}

TEST_CASE("arguments that are none are refused, with their event", "[workload][INP-07][INP-12]") {
  const std::string wrong = R"("Input Dims":[[1,"x"]],"Input type":["float"])";
  const std::string message =
      error_of(trace({op("aten::mm", "10", "50", 5, wrong), call("cudaLaunchKernel", "30", 1, R"("External id":5)"),
                      kernel("k", 7, "100", "5", 1)}));
  CAPTURE(message);
  CHECK(message.find("event 0 (\"aten::mm\")") != std::string::npos);
  CHECK(message.find("Input Dims") != std::string::npos);
  // Those of an operator that launches nothing are not looked at.
  CHECK(error_of(trace({op("aten::mm", "10", "50", 5, wrong), kernel("k", 7, "100", "5", 1)})).empty());
}

TEST_CASE("recordings: how many kernels know their operator", "[workload][INP-12]") {
  struct Recording {
    const char* name;
    std::size_t kernels;
    std::size_t joined;    // through their call
    std::size_t inferred;  // from launches like them
  };
  for (const Recording& recording : {Recording{"h100_qwen1.5_0.5b_inference_ops.json.gz", 1'465, 1'029, 283},
                                     Recording{"mi300x_qwen1.5_0.5b_inference_ops.json.gz", 1'516, 1'053, 260},
                                     Recording{"h100_nsfw_vit_inference_ops.json.gz", 154, 154, 0},
                                     Recording{"mi300x_nsfw_vit_inference_ops.json.gz", 155, 155, 0}}) {
    const std::filesystem::path path = std::filesystem::path(HEDDLE_TRACES_DIR) / recording.name;
    if (!std::filesystem::exists(path)) {
      std::cout << "SKIPPED: no recording " << recording.name << "\n";
      continue;
    }
    CAPTURE(recording.name);
    const Workload workload = std::move(import::import_kineto(path.string()).at(0));
    std::size_t joined = 0;
    std::size_t inferred = 0;
    for (const workload::Op& op : workload.ops) {
      if (op.kind != workload::OpKind::kernel || !op.op_of) continue;
      ++(op.op_inferred ? inferred : joined);
      REQUIRE(*op.op_of < workload.operators.size());
    }
    for (std::size_t i = 0; i < workload.operators.size(); ++i) {
      REQUIRE(workload.operators[i].caller.value_or(0) <= i);
    }
    CHECK(workload.kernels() == recording.kernels);
    CHECK(joined == recording.joined);
    CHECK(inferred == recording.inferred);
  }
}

}  // namespace import_kineto_operators_test
