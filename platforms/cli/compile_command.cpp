#include <iostream>

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/run_outcome.h"
#include "scenario/kernel_container.h"

namespace heddle::cli {
namespace {

namespace po = boost::program_options;

constexpr const char* kCompileUsage = R"(heddle compile FILE -o OUT [--let NAME=VALUE]...

Writes the kernels of a scenario, or of a file with the list `kernels` alone, to OUT: kernel objects and code that
software on a platform loads into device memory with the host library (docs/kernels.md).

A program may name no memory, tensor or queue of its scenario: where these lie, whoever launches it says by arguments, as in
load: {to: x, type: u64, at: kernarg}. Kernels of the file that it launches are found by their names.

)";

po::options_description compile_options() {
  po::options_description options = described_options();
  options.add_options()("output,o", po::value<std::string>()->value_name("OUT"), "the file to write, x.hdl")(
      "let", po::value<std::vector<std::string>>()->value_name("NAME=VALUE"), "value of a parameter of the file");
  return options;
}

std::string row_of(const scenario::ContainedKernel& kernel) {
  std::string row =
      fmt::format("  {}: {}, {} bytes of arguments, {} registers per thread, {} bytes of shared memory", kernel.name,
                  kernel.code_bytes == 0 ? "no code" : fmt::format("{} bytes of code", kernel.code_bytes),
                  kernel.arguments, kernel.registers, kernel.shared);
  if (!kernel.launches.empty()) row += fmt::format(", launches {}", fmt::join(kernel.launches, ", "));
  return row;
}

}  // namespace

int compile_command(const std::vector<std::string>& arguments) {
  const po::options_description options = compile_options();
  const CommandLine line("heddle compile", options, arguments);
  if (line.help()) {
    std::cout << kCompileUsage << options;
    return kSuccess;
  }
  if (line.words().size() != 1)
    line.bad("heddle compile takes one FILE", "as in: heddle compile kernels.yaml -o kernels.hdl");
  const std::optional<std::string> output = line.text("output");
  if (!output) line.bad("there is no file to write to", "as in: heddle compile kernels.yaml -o kernels.hdl");
  const scenario::KernelContainer made = scenario::compile_kernels(line.words()[0], line.list("let"));
  write_text({made.bytes.begin(), made.bytes.end()}, *output);
  std::cout << fmt::format("{}: {} bytes\n", *output, made.bytes.size());
  for (const scenario::ContainedKernel& kernel : made.kernels) std::cout << row_of(kernel) << '\n';
  return kSuccess;
}

}  // namespace heddle::cli
