// The code that a machine can run: what lies in instruction memory. Packets carry a number.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "arch/kernel_record.h"
#include "arch/warp_program.h"
#include "common/error.h"

namespace heddle::arch {

constexpr std::uint32_t kNoCode = 0;  // a kernel without a program: its CTAs run for their duration

struct Code {
  std::shared_ptr<const WarpProgram> program;
  Dim3 grid;
  Dim3 block;
  std::uint32_t shared_bytes = 0;  // per CTA, as the kernel asked
  ClusterShape cluster;            // how CTAs are grouped
};

class CodeStore {
 public:
  // The number for KernelShape::code; never kNoCode.
  std::uint32_t add(std::shared_ptr<const WarpProgram> program, const KernelShape& kernel) {
    HEDDLE_CHECK(program != nullptr, "a code without a program");
    codes_.push_back({std::move(program), kernel.grid, kernel.block, kernel.shared_bytes, kernel.cluster});
    return static_cast<std::uint32_t>(codes_.size());
  }
  const Code& at(std::uint32_t code) const {
    HEDDLE_CHECK(code >= 1 && code <= codes_.size(), "there is no such code");
    return codes_[code - 1];
  }

 private:
  std::vector<Code> codes_;
};

}  // namespace heddle::arch
