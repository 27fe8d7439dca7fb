// A scenario is read, or refused with an InputError: nothing else.
#include <cstdint>
#include <string>

#include "common/error.h"
#include "scenario/scenario.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)heddle::scenario::looks_like_scenario(text);
  try {
    (void)heddle::scenario::parse_scenario(text, "fuzz.yaml");
  } catch (const heddle::InputError&) {  // the one way to refuse it
  }
  return 0;
}
