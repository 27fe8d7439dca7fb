// Kernels that a host brings to its device: files of `heddle compile`, made here from text, and loaded by the C
// library.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "program/code_image.h"
#include "scenario/kernel_container.h"
#include "support/packet_programs.h"

namespace heddle::test {

// y[i] += factor * x[i] for i below n; arguments: x, y, n, factor.
constexpr const char* kAddKernel = R"(
  - name: add
    grid: 4
    block: 64
    program:
      - load: {to: [x_at, y_at], type: u64, at: kernarg}
      - load: {to: [n, factor], type: u64, at: kernarg + 16}
      - let: {i: item.x}
      - if:
          cond: i < n
          then:
            - load: {to: x, type: u32, at: x_at + 4 * i}
            - load: {to: y, type: u32, at: y_at + 4 * i}
            - store: {value: factor * x + y, type: u32, at: y_at + 4 * i}
)";
// One thread launches it, with the arguments that it has itself.
constexpr const char* kParentKernel = R"(
  - name: parent
    grid: 1
    block: 32
    program:
      - load: {to: [x_at, y_at], type: u64, at: kernarg}
      - load: {to: [n, factor], type: u64, at: kernarg + 16}
      - if:
          cond: thread == 0
          then:
            - launch: {kernel: add, args: [x_at, y_at, n, factor]}
            - wait_children
)";

struct AddArguments {
  std::uint64_t x, y, n, factor;
};

// Counts what it is asked for.
class CountingDecoder : public arch::CodeDecoder {
 public:
  arch::DecodedCode decode(const std::vector<std::uint8_t>& code) const override {
    ++decoded;
    return image.decode(code);
  }
  program::CodeImage image;
  mutable unsigned decoded = 0;
};

// What a host has of a file.
class BroughtProgram {
 public:
  explicit BroughtProgram(const std::string& kernels)
      : container_(scenario::compile_kernel_text("kernels:\n" + kernels, "kernels.yaml")) {
    REQUIRE(heddle_program_open(&program, container_.bytes.data(), container_.bytes.size(), nullptr) == HEDDLE_OK);
  }
  void load(PacketLab& lab, std::size_t machine = 0) {
    at = lab.take_device(heddle_program_bytes(&program), HEDDLE_PROGRAM_ALIGNMENT);
    REQUIRE(heddle_program_load(&program, &lab[machine].bus, at, at) == HEDDLE_OK);
  }
  heddle_program_kernel kernel(const char* name) const {
    heddle_program_kernel found{};
    REQUIRE(heddle_program_find(&program, name, &found) == HEDDLE_OK);
    return found;
  }
  // Where the code of that kernel lies.
  std::uint64_t code_of(PacketLab& lab, const char* name) const {
    return lab[0].read<std::uint64_t>(kernel(name).object + arch::kKernelObjectCode);
  }

  heddle_program program{};
  std::uint64_t at = 0;

 private:
  scenario::KernelContainer container_;
};

}  // namespace heddle::test
