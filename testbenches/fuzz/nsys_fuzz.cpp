// Any bytes are either an export of Nsight Systems or an InputError (INP-07).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "common/error.h"
#include "import/recordings.h"

namespace {

void import(const std::string& bytes) {
  std::istringstream stream(bytes);
  try {
    for (const heddle::workload::Workload& workload : heddle::import::import_nsys(stream, "fuzz.sqlite")) {
      if (workload.ops.empty()) std::abort();
    }
  } catch (const heddle::InputError&) {
    // Refused, as it should be. Everything else that is thrown is a finding.
  }
}

// The same bytes with the page size of the seeds and a length that the header agrees with: SQLite reads on where it
// would otherwise have stopped at once.
std::string with_header(std::string bytes) {
  constexpr std::size_t kPage = 512;
  constexpr std::size_t kPageSizeAt = 16;
  constexpr std::size_t kPageCountAt = 28;
  bytes.resize((bytes.size() / kPage + 1) * kPage);
  bytes.replace(0, kPageSizeAt, std::string("SQLite format 3\0", kPageSizeAt));
  bytes[kPageSizeAt] = static_cast<char>(kPage >> 8U);
  bytes[kPageSizeAt + 1] = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[kPageCountAt + i] = static_cast<char>(bytes.size() / kPage >> (24U - 8U * i) & 0xFFU);
  }
  return bytes;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  import(bytes);
  import(with_header(bytes));
  return 0;
}
