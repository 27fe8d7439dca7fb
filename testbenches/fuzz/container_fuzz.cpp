// Any bytes are a file of kernels, or none (HST-07): what the C library takes, it loads without looking or writing
// outside, and with every address inside.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <zlib.h>

#include "driver/heddle_driver.h"

namespace {

constexpr std::uint64_t kBase = 0x10'0000;

struct Board {
  std::vector<std::uint8_t> memory;
};

bool store(void* context, std::uint64_t address, const void* from, std::size_t bytes) {
  auto* board = static_cast<Board*>(context);
  if (address < kBase || bytes > board->memory.size() || address - kBase > board->memory.size() - bytes) std::abort();
  std::memcpy(board->memory.data() + (address - kBase), from, bytes);
  return true;
}

void demand(bool good) {
  if (!good) std::abort();
}

void take(const std::vector<std::uint8_t>& file) {
  heddle_program program{};
  heddle_damage damage = HEDDLE_DAMAGE_NONE;
  const heddle_status status = heddle_program_open(&program, file.data(), file.size(), &damage);
  demand((status == HEDDLE_OK) == (damage == HEDDLE_DAMAGE_NONE));
  if (status != HEDDLE_OK) return;
  Board board;
  board.memory.resize(heddle_program_bytes(&program));
  heddle_bus bus{};
  bus.context = &board;
  bus.store = store;
  demand(heddle_program_load(&program, &bus, kBase, kBase) == HEDDLE_OK);
  for (std::uint32_t i = 0; i < program.kernels; ++i) {
    heddle_program_kernel kernel{};
    heddle_program_kernel found{};
    demand(heddle_program_kernel_at(&program, i, &kernel) == HEDDLE_OK);
    demand(std::strlen(kernel.name) < HEDDLE_KERNEL_NAME_BYTES);
    demand(kernel.object >= kBase && kernel.object + HEDDLE_KERNEL_OBJECT_BYTES <= kBase + board.memory.size());
    demand(heddle_program_find(&program, kernel.name, &found) == HEDDLE_OK && found.object == kernel.object);
    heddle_dispatch dispatch{};
    (void)heddle_program_dispatch(&kernel, 0, 0, &dispatch);
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name is the fuzzer's
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> file(data, data + size);
  take(file);
  // The same with a check sum and a length that are right, so that the rest is looked at.
  constexpr std::size_t kHead = 32;
  if (size < kHead) return 0;
  const auto put = [&](std::size_t at, std::uint64_t value) {
    for (unsigned i = 0; i < 4; ++i) file[at + i] = static_cast<std::uint8_t>(value >> 8 * i);
  };
  std::memcpy(file.data(), "HDLP", 4);
  put(8, size);
  put(24, crc32(0, file.data() + kHead, static_cast<uInt>(size - kHead)));
  take(file);
  return 0;
}
