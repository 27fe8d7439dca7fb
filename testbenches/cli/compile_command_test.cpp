// heddle compile
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "cli/program.h"
#include "driver/heddle_driver.h"

namespace heddle::test::cli_compile_command_test {

namespace {

const char* const kKernels = R"(kernels:
  - name: fill
    grid: [4, 2]
    block: 64
    shared: 1 KiB
    program:
      - load: {to: [out, value], type: u64, at: kernarg}
      - store: {value: value, type: u32, at: out + 4 * item.x}
  - name: twice
    grid: 1
    block: 32
    program:
      - load: {to: [out, value], type: u64, at: kernarg}
      - if: {cond: thread == 0, then: [{launch: {kernel: fill, args: [out, value]}}]}
  - {name: wait, grid: 1, block: 96, cycles: 500}
)";

// The block of the page that begins with that line.
std::string block_of(const std::string& page, const std::string& begin) {
  const std::size_t at = page.find("```" + begin);
  REQUIRE(at != std::string::npos);
  const std::size_t first = page.find('\n', at) + 1;  // behind the fence
  return page.substr(first, page.find("```", first) - first);
}

std::string hex_of(const std::string& bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    text += fmt::format("{:04x} ", at);
    for (const char byte : bytes.substr(at, 16)) text += fmt::format(" {:02x}", static_cast<unsigned char>(byte));
    text += '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("docs/kernels.md shows what compile writes, byte by byte", "[cli][HST-07]") {
  const TempDir folder;
  const std::string page = read_file(std::string(HEDDLE_SOURCE_DIR) + "/docs/kernels.md");
  folder.write("kernels.yaml", block_of(page, "yaml\n"));
  REQUIRE(contains(page, "heddle compile kernels.yaml -o kernels.hdl"));
  const Finished done = heddle_in(folder, {"compile", "kernels.yaml", "-o", "kernels.hdl"});
  REQUIRE(done.status == 0);
  CHECK(done.out == block_of(page, "\nkernels.hdl: "));
  CHECK(hex_of(read_file(folder.file("kernels.hdl"))) == block_of(page, "\n0000  48 44 4c 50"));
  CHECK(contains(page, read_file(std::string(HEDDLE_SOURCE_DIR) + "/testbenches/driver/load_kernels.c")));
}

TEST_CASE("compile writes kernels that the C library takes", "[cli][HST-07]") {
  const TempDir folder;
  folder.write("k.yaml", kKernels);
  const Finished done = heddle_in(folder, {"compile", "k.yaml", "-o", "k.hdl"});
  CHECK(done.err.empty());
  REQUIRE(done.status == 0);
  CHECK(contains(done.out, "fill: "));
  CHECK(contains(done.out, "16 bytes of arguments"));
  CHECK(contains(done.out, "launches fill"));
  CHECK(contains(done.out, "wait: no code"));
  const std::string file = read_file(folder.file("k.hdl"));
  heddle_program program{};
  REQUIRE(heddle_program_open(&program, file.data(), file.size(), nullptr) == HEDDLE_OK);
  CHECK(program.kernels == 3);
  heddle_program_kernel kernel{};
  REQUIRE(heddle_program_find(&program, "fill", &kernel) == HEDDLE_OK);
  CHECK(kernel.shared == 1024);
  CHECK(kernel.grid[1] == 2);
  CHECK(kernel.argument_bytes == 16);
  CHECK(kernel.registers >= 16);
  REQUIRE(heddle_program_find(&program, "wait", &kernel) == HEDDLE_OK);
  CHECK(kernel.code_bytes == 0);
  CHECK(kernel.workgroup[0] == 96);
  // The same input, the same bytes.
  REQUIRE(heddle_in(folder, {"compile", "k.yaml", "-o", "again.hdl"}).status == 0);
  CHECK(read_file(folder.file("again.hdl")) == file);
}

TEST_CASE("compile says which name has to become an argument", "[cli][HST-07]") {
  const TempDir folder;
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    folder.write("k.yaml", text);
    const Finished done = heddle_in(folder, {"compile", "k.yaml", "-o", "k.hdl"});
    CHECK(done.status == 2);
    for (const std::string& part : parts) {
      INFO(done.err);
      CHECK(contains(done.err, part));
    }
  };
  const std::string saxpy = read_file(std::string(HEDDLE_SOURCE_DIR) + "/scenarios/saxpy.yaml");
  refused(saxpy, {"k.yaml:16:", "kernel saxpy: its program names x", "load: {to: x_at, type: u64, at: kernarg}"});
  refused("kernels: [{name: k, grid: 1, block: 32, program: [{load: {to: a, type: u32, at: far}}]}]",
          {"k.yaml:1:", "far"});
  refused("kernels: [{name: k, grid: 1, block: 32, program: [{launch: {kernel: nobody}}]}]",
          {"there is no kernel nobody"});
  refused("kernels: []", {"no kernels to compile"});
  refused("kernel: []", {"unknown key \"kernel\"", "kernels"});
  refused("kernels: [{name: " + std::string(36, 'n') + ", grid: 1, block: 32, cycles: 1}]", {"36 bytes", "hold 35"});
  refused("kernels: [{name: a, grid: 1, block: 32, cycles: 1}, {name: a, grid: 1, block: 32, cycles: 1}]",
          {"there are two kernels a"});
  CHECK(contains(heddle_in(folder, {"compile", "k.yaml"}).err, "as in: heddle compile kernels.yaml -o kernels.hdl"));
  CHECK(heddle_in(folder, {"compile", "missing.yaml", "-o", "k.hdl"}).status == 2);
  CHECK(contains(heddle_in(folder, {"compile", "--help"}).out, "docs/kernels.md"));
}

TEST_CASE("compile takes parameters of the file", "[cli][HST-07]") {
  const TempDir folder;
  folder.write("k.yaml", "parameters: {n: 2}\nkernels: [{name: k, grid: '${n}', block: 32, cycles: 1}]\n");
  const auto grid = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"compile", "k.yaml", "-o", "k.hdl"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE(heddle_in(folder, arguments).status == 0);
    const std::string file = read_file(folder.file("k.hdl"));
    heddle_program program{};
    REQUIRE(heddle_program_open(&program, file.data(), file.size(), nullptr) == HEDDLE_OK);
    heddle_program_kernel kernel{};
    REQUIRE(heddle_program_kernel_at(&program, 0, &kernel) == HEDDLE_OK);
    return kernel.grid[0];
  };
  CHECK(grid({}) == 2);
  CHECK(grid({"--let", "n=9"}) == 9);
}

}  // namespace heddle::test::cli_compile_command_test
