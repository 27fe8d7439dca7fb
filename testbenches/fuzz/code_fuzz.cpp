// Any bytes are code, or none (HST-07): a program that can begin, or a sentence about what is wrong.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "program/code_image.h"

namespace {

constexpr int kSteps = 200;

// As far as a program goes by itself: what its operations would find is not known here.
void begin(const heddle::arch::WarpProgram& program) {
  heddle::arch::WarpPlace place;
  place.block = place.workgroup = {32, 1, 1};
  heddle::arch::WarpState state;
  program.start(place, state);
  heddle::arch::Operation operation;
  for (int i = 0; i < kSteps && !state.exited; ++i) {
    (void)program.demand(state);
    program.issue(place, state, operation);
  }
}

void decode(const std::vector<std::uint8_t>& code) {
  const heddle::arch::DecodedCode decoded = heddle::program::CodeImage().decode(code);
  if ((decoded.program == nullptr) == decoded.why.empty()) std::abort();
  if (decoded.program != nullptr) begin(*decoded.program);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> code(data, data + size);
  decode(code);
  // The same with a head that is right, so that what follows is looked at.
  if (size < heddle::program::kCodeHeadBytes) return 0;
  const std::vector<std::uint8_t> magic{'H', 'D', 'L', 'C', 1, 0};
  std::copy(magic.begin(), magic.end(), code.begin());
  const std::size_t head = heddle::program::kCodeHeadBytes + heddle::program::kCodeLinkBytes * (code[6] | code[7] << 8);
  if (head > size) return 0;
  for (unsigned i = 0; i < 4; ++i) {
    code[8 + i] = static_cast<std::uint8_t>((size - head) >> 8 * i);
    code[12 + i] = 0;
  }
  decode(code);
  return 0;
}
