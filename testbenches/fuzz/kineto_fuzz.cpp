// Any bytes are either a trace or an InputError (INP-07). Build with -fsanitize=fuzzer (libFuzzer) or link an AFL
// driver.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "import/recordings.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
  try {
    heddle::import::import_kineto(stream, "fuzz.json");
  } catch (const heddle::InputError&) {
    // Refused, as it should be. Everything else that is thrown is a finding.
  }
  return 0;
}
