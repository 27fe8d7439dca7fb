// The text of a PTX module is read, or refused with an InputError: nothing else. What is read can be linked to another
// module, or is refused in the same way.
#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"
#include "ptx/module.h"

namespace {

constexpr const char* kOther = R"(.version 9.0
.target sm_90a
.address_size 64
.extern .global .b32 counter;
.visible .func (.param .b32 r) helper(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; st.param.b32 [r], %r1; ret; }
.global .b32 table[2] = {1, 2};
.weak .func spare() { ret; }
)";

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    std::vector<heddle::ptx::Module> modules(2, heddle::ptx::parse_module(text, "fuzz.ptx"));
    modules.push_back(heddle::ptx::parse_module(kOther, "other.ptx"));
    (void)heddle::ptx::link(std::move(modules));
  } catch (const heddle::InputError&) {  // the one way to refuse it
  }
  return 0;
}
