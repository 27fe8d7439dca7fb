// A container of device code is read, or refused with an InputError: nothing else, and nothing behind its end is read.
#include <cstdint>
#include <memory>
#include <vector>

#include "common/error.h"
#include "cuda/fat_binary.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy that ends where the input does, so that a sanitizer sees what lies behind.
  const std::vector<std::uint8_t> bytes(data, data + size);
  try {
    const std::vector<heddle::cuda::FatEntry> entries =
        heddle::cuda::read_container(bytes.data(), bytes.size(), "fuzz");
    (void)heddle::cuda::choose_ptx(entries, 90, "fuzz");
  } catch (const heddle::InputError&) {  // the one way to refuse it
  }
  return 0;
}
