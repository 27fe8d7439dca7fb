// What nvcc makes of kernels: the PTX that is shipped beside their sources, and, where there is an nvcc, what it makes
// of them in other ways.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ptx/module.h"
#include "ptx_text.h"
#include "support/temp_dir.h"

namespace ptx_parser_cuda_test {

using namespace heddle;
using namespace heddle::test;

namespace {

const std::string kFolder = std::string(HEDDLE_SOURCE_DIR) + "/scenarios/cuda/";

ptx::Module module_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return ptx::parse_module({std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}, path);
}

// Bytes of the kernel's parameters, in order.
std::vector<std::uint64_t> parameters_of(const ptx::Module& module, const std::string& kernel) {
  const ptx::Function* function = module.find_function(kernel);
  REQUIRE(function != nullptr);
  CHECK(function->entry);
  CHECK(function->is_visible);
  REQUIRE(function->body.has_value());
  std::vector<std::uint64_t> bytes;
  for (const ptx::Variable& parameter : function->parameters) bytes.push_back(parameter.bytes());
  return bytes;
}

// Instructions of a block and those inside, by their opcodes.
std::size_t count(const ptx::Block& block, const std::string& opcode) {
  std::size_t found = 0;
  for (const ptx::Instruction& instruction : instructions_of(block)) found += instruction.opcode == opcode ? 1 : 0;
  for (const ptx::Block& inner : statements_of<ptx::Block>(block)) found += count(inner, opcode);
  return found;
}

std::size_t with_source(const ptx::Block& block) {
  std::size_t found = 0;
  for (const ptx::Instruction& instruction : instructions_of(block)) found += instruction.source.file != 0 ? 1 : 0;
  for (const ptx::Block& inner : statements_of<ptx::Block>(block)) found += with_source(inner);
  return found;
}

// A program of CUDA; "": there is none.
std::string tool(const std::string& name) {
  for (const char* folder : {"/usr/local/cuda/bin/", "/usr/bin/"}) {
    if (std::filesystem::exists(folder + name)) return folder + name;
  }
  return "";
}

bool runs_well(const std::string& command) {
  return std::system(command.c_str()) == 0;  // NOLINT(cert-env33-c): a test's own command
}

// Who takes a module, and its text behind the head.
struct Case {
  std::string takers;
  std::string text;
};
std::vector<Case> assembler_cases() {
  std::ifstream in(std::string(HEDDLE_SOURCE_DIR) + "/testbenches/ptx/assembler_cases.txt");
  std::vector<Case> cases;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t blank = line.find(' ');
    cases.push_back({line.substr(0, blank), line.substr(line.find_first_not_of(' ', blank))});
  }
  return cases;
}

}  // namespace

TEST_CASE("shipped kernels have the parameters and directives of their sources", "[ptx]") {
  using Bytes = std::vector<std::uint64_t>;
  const std::pair<const char*, Bytes> kKernels[] = {
      {"vector_add", {8, 8, 8, 4}},
      {"tiled_matmul", {8, 8, 8, 4, 4, 4}},
      {"shuffle_reduce", {8, 8, 4}},
      {"scan", {8, 8, 8, 4}},
      {"cluster_histogram", {8, 8, 4, 4}},
      {"grid_barrier", {8, 8, 4, 4}},
      {"quicksort", {8, 4, 4}},
      {"stream_k_gemm", {128, 128, 8, 4, 4, 4}},
      {"im2col_conv", {128, 8, 8, 4, 4, 4, 4, 4, 4}},
      {"flash_attention", {8, 8, 8, 8, 4, 4}},
  };
  for (const auto& [name, bytes] : kKernels) {
    INFO(name);
    const ptx::Module module = module_in(kFolder + name + ".ptx");
    CHECK(module.target == "sm_90a");
    const std::string kernel = std::string(name) == "scan"           ? "inclusive_scan"
                               : std::string(name) == "grid_barrier" ? "smooth"
                                                                     : name;
    CHECK(parameters_of(module, kernel) == bytes);
  }
  // Nothing is shipped that is not here.
  const auto shipped =
      std::count_if(std::filesystem::directory_iterator(kFolder), std::filesystem::directory_iterator(),
                    [](const auto& entry) { return entry.path().extension() == ".ptx"; });
  CHECK(static_cast<std::size_t>(shipped) == std::size(kKernels));

  const ptx::Module gemm = module_in(kFolder + "stream_k_gemm.ptx");
  const ptx::Function& kernel = *gemm.find_function("stream_k_gemm");
  CHECK(kernel.directives.at("maxntid") == Bytes{160, 1, 1});
  CHECK(kernel.directives.at("reqnctapercluster") == Bytes{2, 1, 1});
  CHECK(kernel.parameters[0].alignment() == 128);
  CHECK(count(*kernel.body, "wgmma") >= 4);
  CHECK(count(*kernel.body, "cp") >= 2);
  CHECK(count(*module_in(kFolder + "quicksort.ptx").find_function("quicksort")->body, "call") >= 4);
}

TEST_CASE("the reader takes what the assembler takes, apart from what the page says", "[ptx]") {
  const auto cases = assembler_cases();
  CHECK(cases.size() > 200);
  for (const Case& each : cases) {
    INFO(each.text);
    CHECK(refusal(each.text).empty() == (each.takers == "both" || each.takers == "reader"));
  }
}

TEST_CASE("what the list says of the assembler is so", "[ptx]") {
  const std::string assembler = tool("ptxas");
  const TempDir folder;
  const bool same_version = !assembler.empty() && runs_well(assembler + " --version | grep -q 'release 13.0'");
  if (!same_version) {
    std::cout << "SKIPPED: there is no ptxas of CUDA 13.0\n";
    return;
  }
  for (const Case& each : assembler_cases()) {
    INFO(each.text);
    const std::string path = folder.write("case.ptx", with_head(each.text));
    const bool taken =
        runs_well(assembler + " -c -arch=sm_90a " + path + " -o " + folder.file("case.cubin") + " >/dev/null 2>&1");
    CHECK(taken == (each.takers == "both" || each.takers == "assembler"));
  }
}

TEST_CASE("what nvcc makes for debuggers, with places in sources, and to be linked is read", "[ptx]") {
  const std::string compiler = tool("nvcc");
  if (compiler.empty()) {
    std::cout << "SKIPPED: there is no nvcc\n";
    return;
  }
  const TempDir folder;
  const auto compile = [&](const std::string& source, const std::string& options) {
    const std::string to = folder.file("out.ptx");
    const std::string command = compiler + " -std=c++17 -arch=sm_90a -ptx " + options + " " + source + " -o " + to;
    INFO(command);
    REQUIRE(runs_well(command));
    return module_in(to);
  };
  const ptx::Module lines = compile(kFolder + "cluster_histogram.cu", "-lineinfo");
  CHECK(std::any_of(lines.files.begin(), lines.files.end(), [](const ptx::SourceFile& file) {
    return file.name.find("cluster_histogram.cu") != std::string::npos;
  }));
  CHECK(with_source(*lines.find_function("cluster_histogram")->body) > 20);
  const ptx::Module debug = compile(kFolder + "tiled_matmul.cu", "-G");
  CHECK(debug.target_options == std::vector<std::string>{"debug"});
  CHECK(debug.find_function("tiled_matmul")->body.has_value());

  // Two sources that know each other, and have names that only they know.
  const std::string user = folder.write("user.cu", R"(
#include <cstdio>
extern __device__ int factor;
__device__ int scaled(int value);
static __device__ __noinline__ int own(int value) { return value + 1; }
extern "C" __global__ void k(int* to) { printf("one %d", *to); *to = scaled(own(*to)) * factor; })");
  const std::string definer = folder.write("definer.cu", R"(
#include <cstdio>
__device__ int factor = 3;
static __device__ __noinline__ int own(int value) { return value - 1; }
__device__ __noinline__ int scaled(int value) { printf("two"); return own(value) * factor; })");
  const ptx::Module whole = ptx::link({compile(user, "-rdc=true"), compile(definer, "-rdc=true")});
  CHECK(!whole.find_variable("factor")->is_extern);
  CHECK(whole.find_function("_Z6scaledi")->body.has_value());
  CHECK(whole.find_function("k")->body.has_value());
  // The two texts of printf are called $str in both.
  CHECK(whole.find_variable("$str@1") != nullptr);
  CHECK(whole.find_variable("$str@2") != nullptr);
  CHECK(whole.find_function("vprintf")->is_extern);
}

}  // namespace ptx_parser_cuda_test
