// Files of kernels in the C library: what is taken, what is refused and why, and what lies in memory afterwards
// (HST-07). The files are made here from the format's description in docs/kernels.md, not by the compiler.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <zlib.h>

#include "driver/heddle_driver.h"

namespace driver_program_test {

namespace {

using Bytes = std::vector<std::uint8_t>;

void put(Bytes& bytes, std::size_t at, std::size_t count, std::uint64_t value) {
  for (std::size_t i = 0; i < count; ++i) bytes.at(at + i) = static_cast<std::uint8_t>(value >> 8 * i);
}
std::uint64_t get(const Bytes& bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value |= std::uint64_t{bytes.at(at + i)} << 8 * i;
  return value;
}

void seal(Bytes& file) {
  put(file, 8, 4, file.size());
  put(file, 24, 4, crc32(0, file.data() + 32, static_cast<uInt>(file.size() - 32)));
}

constexpr std::size_t kKernels = 32;
constexpr std::size_t kRelocations = kKernels + 2 * 84;
constexpr std::size_t kImage = kRelocations + 3 * 8;

// Two kernels, "one" with code that has the address of "two", and "two" without.
Bytes good_file() {
  Bytes file(kImage + 384 + 40, 0);
  std::memcpy(file.data(), "HDLP", 4);
  put(file, 4, 2, 1);
  put(file, 12, 4, 2);
  put(file, 16, 4, 3);
  put(file, 20, 4, 384 + 40);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::size_t at = kKernels + 84 * i;
    put(file, at, 4, 128 * i);
    put(file, at + 4, 4, i == 0 ? 256 : 0);
    put(file, at + 8, 4, i == 0 ? 168 : 0);
    put(file, at + 12, 4, 24);
    put(file, at + 16, 4, 40 + i);
    put(file, at + 20, 4, 1024);
    put(file, at + 24, 4, 96);
    put(file, at + 28, 2, 64);
    put(file, at + 30, 2, 2);
    put(file, at + 32, 2, 1);
    put(file, at + 36, 4, 10);
    put(file, at + 40, 4, 3);
    put(file, at + 44, 4, 1);
    std::memcpy(file.data() + at + 48, i == 0 ? "one" : "two", 3);
  }
  const std::pair<std::uint32_t, std::uint32_t> relocations[] = {{24, 256}, {272, 128}, {416, 0}};
  for (std::size_t i = 0; i < 3; ++i) {
    put(file, kRelocations + 8 * i, 4, relocations[i].first);
    put(file, kRelocations + 8 * i + 4, 4, relocations[i].second);
  }
  for (std::size_t i = 0; i < 384 + 40; ++i) file[kImage + i] = static_cast<std::uint8_t>(i * 7 + 1);
  seal(file);
  return file;
}

// Memory that takes stores.
struct Board {
  std::map<std::uint64_t, std::uint8_t> bytes;
  std::size_t largest = 0;
  std::size_t left = ~std::size_t{0};  // stores until one fails
  heddle_bus bus{};

  Board() {
    bus.context = this;
    bus.store = [](void* me, std::uint64_t address, const void* from, std::size_t count) {
      auto* board = static_cast<Board*>(me);
      if (board->left-- == 0) return false;
      board->largest = std::max(board->largest, count);
      for (std::size_t i = 0; i < count; ++i) board->bytes[address + i] = static_cast<const std::uint8_t*>(from)[i];
      return true;
    };
  }
};

struct Opened {
  heddle_status status = HEDDLE_OK;
  heddle_damage damage = HEDDLE_DAMAGE_NONE;
};
Opened open(const Bytes& file) {
  heddle_program program{};
  Opened opened;
  opened.status = heddle_program_open(&program, file.data(), file.size(), &opened.damage);
  return opened;
}

}  // namespace

TEST_CASE("a file of kernels is loaded with its addresses filled in", "[driver][HST-07]") {
  const Bytes file = good_file();
  heddle_program program{};
  heddle_damage damage = HEDDLE_DAMAGE_SHORT;
  REQUIRE(heddle_program_open(&program, file.data(), file.size(), &damage) == HEDDLE_OK);
  CHECK(damage == HEDDLE_DAMAGE_NONE);
  CHECK(program.kernels == 2);
  CHECK(heddle_program_bytes(&program) == 424);
  heddle_program_kernel kernel{};
  REQUIRE(heddle_program_find(&program, "one", &kernel) == HEDDLE_OK);
  CHECK(kernel.object == 0);
  heddle_dispatch dispatch{};
  CHECK(heddle_program_dispatch(&kernel, 0, 0, &dispatch) == HEDDLE_INVALID);

  Board board;
  for (const std::uint64_t address : {std::uint64_t{0}, std::uint64_t{64}, HEDDLE_HOST_WINDOW - 384}) {
    CHECK(heddle_program_load(&program, &board.bus, address, 1024) == HEDDLE_INVALID);
    CHECK(heddle_program_load(&program, &board.bus, 1024, address) == HEDDLE_INVALID);
  }
  CHECK(board.bytes.empty());
  REQUIRE(heddle_program_load(&program, &board.bus, 0x1'0000, 0x2'0000'0000) == HEDDLE_OK);
  CHECK(board.largest <= HEDDLE_PROGRAM_ALIGNMENT);
  Bytes expected(file.begin() + kImage, file.end());
  put(expected, 24, 8, 0x2'0000'0000 + 256);
  put(expected, 272, 8, 0x2'0000'0000 + 128);
  put(expected, 416, 8, 0x2'0000'0000);
  REQUIRE(board.bytes.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (board.bytes.at(0x1'0000 + i) != expected[i]) FAIL("byte " << i);
  }

  REQUIRE(heddle_program_find(&program, "two", &kernel) == HEDDLE_OK);
  CHECK(std::string(kernel.name) == "two");
  CHECK(kernel.object == 0x2'0000'0000 + 128);
  CHECK(kernel.code_bytes == 0);
  CHECK(kernel.argument_bytes == 24);
  CHECK(kernel.registers == 41);
  CHECK(kernel.shared == 1024);
  CHECK(kernel.local == 96);
  CHECK(kernel.workgroup[1] == 2);
  CHECK(kernel.grid[1] == 3);
  REQUIRE(heddle_program_dispatch(&kernel, 0x500, 0x600, &dispatch) == HEDDLE_OK);
  CHECK(dispatch.setup == 3);
  CHECK(dispatch.grid[0] == 640);
  CHECK(dispatch.grid[1] == 6);
  CHECK(dispatch.workgroup[0] == 64);
  CHECK(dispatch.group_segment == 1024);
  CHECK(dispatch.private_segment == 96);
  CHECK(dispatch.kernel_object == kernel.object);
  CHECK(dispatch.kernarg == 0x500);
  CHECK(dispatch.completion_signal == 0x600);
  kernel.grid[0] = 0xFFFF'FFFF;
  CHECK(heddle_program_dispatch(&kernel, 0, 0, &dispatch) == HEDDLE_INVALID);

  CHECK(heddle_program_find(&program, "on", &kernel) == HEDDLE_EMPTY);
  CHECK(heddle_program_find(&program, "ones", &kernel) == HEDDLE_EMPTY);
  CHECK(heddle_program_find(&program, "", &kernel) == HEDDLE_EMPTY);
  CHECK(heddle_program_kernel_at(&program, 1, &kernel) == HEDDLE_OK);
  CHECK(heddle_program_kernel_at(&program, 2, &kernel) == HEDDLE_EMPTY);

  // A load that fails in the middle leaves nothing that could be launched.
  board.left = 2;
  CHECK(heddle_program_load(&program, &board.bus, 0x1'0000, 0x1'0000) == HEDDLE_BUS);
  REQUIRE(heddle_program_find(&program, "one", &kernel) == HEDDLE_OK);
  CHECK(kernel.object == 0);
}

TEST_CASE("a damaged file of kernels is refused with what is wrong", "[driver][HST-07]") {
  const Bytes good = good_file();
  REQUIRE(open(good).status == HEDDLE_OK);
  for (std::size_t size = 0; size < good.size(); ++size) {
    const Opened opened = open(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)));
    if (opened.status != HEDDLE_INVALID) FAIL("a file of " << size << " bytes");
    if (opened.damage != (size < 32 ? HEDDLE_DAMAGE_SHORT : HEDDLE_DAMAGE_SIZE)) FAIL("damage of " << size << " bytes");
  }
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes file = good;
    file[bit / 8] = static_cast<std::uint8_t>(file[bit / 8] ^ 1U << bit % 8);
    if (open(file).status == HEDDLE_OK) FAIL("bit " << bit);
  }
  struct Case {
    std::size_t at;
    std::size_t count;
    std::uint64_t value;
    heddle_damage damage;
  };
  const std::size_t two = kKernels + 84;
  const std::vector<Case> cases{
      {0, 1, 'h', HEDDLE_DAMAGE_MAGIC},
      {4, 2, 2, HEDDLE_DAMAGE_VERSION},
      {6, 2, 1, HEDDLE_DAMAGE_RESERVED},
      {28, 4, 1, HEDDLE_DAMAGE_RESERVED},
      {12, 4, 3, HEDDLE_DAMAGE_SIZE},
      {16, 4, 0xFFFF'FFFF, HEDDLE_DAMAGE_SIZE},
      {20, 4, 0xFFFF'FFFF, HEDDLE_DAMAGE_SIZE},
      {two, 4, 64, HEDDLE_DAMAGE_KERNEL},
      {two, 4, 384, HEDDLE_DAMAGE_KERNEL},
      {two, 4, 0xFFFF'FF80, HEDDLE_DAMAGE_KERNEL},
      {two + 4, 4, 512, HEDDLE_DAMAGE_KERNEL},
      {two + 4, 4, 8, HEDDLE_DAMAGE_KERNEL},
      {two + 8, 4, 425, HEDDLE_DAMAGE_KERNEL},
      {two + 8, 4, 0xFFFF'FFFF, HEDDLE_DAMAGE_KERNEL},
      {two + 28, 2, 0, HEDDLE_DAMAGE_KERNEL},
      {two + 44, 4, 0, HEDDLE_DAMAGE_KERNEL},
      {two + 34, 2, 1, HEDDLE_DAMAGE_RESERVED},
      {two + 48, 4, 'o' + ('n' << 8) + ('e' << 16), HEDDLE_DAMAGE_NAME},
      {two + 48, 1, 0, HEDDLE_DAMAGE_NAME},
      {two + 60, 1, 'x', HEDDLE_DAMAGE_NAME},
      {kRelocations, 4, 20, HEDDLE_DAMAGE_RELOCATION},
      {kRelocations + 8, 4, 24, HEDDLE_DAMAGE_RELOCATION},
      {kRelocations + 8, 4, 16, HEDDLE_DAMAGE_RELOCATION},
      {kRelocations + 16, 4, 424, HEDDLE_DAMAGE_RELOCATION},
      {kRelocations + 16, 4, 0xFFFF'FFF8, HEDDLE_DAMAGE_RELOCATION},
      {kRelocations + 20, 4, 424, HEDDLE_DAMAGE_RELOCATION},
  };
  for (const Case& one : cases) {
    INFO("bytes at " << one.at << " = " << one.value);
    Bytes file = good;
    put(file, one.at, one.count, one.value);
    const std::uint64_t size = get(file, 8, 4);
    seal(file);
    CHECK(size == file.size());
    const Opened opened = open(file);
    CHECK(opened.damage == one.damage);
    CHECK(opened.status == (one.damage == HEDDLE_DAMAGE_VERSION ? HEDDLE_VERSION : HEDDLE_INVALID));
  }
  Bytes endless = good;
  for (std::size_t i = 0; i < 36; ++i) endless[two + 48 + i] = 'x';
  seal(endless);
  CHECK(open(endless).damage == HEDDLE_DAMAGE_NAME);
  Bytes unsealed = good;
  unsealed[kImage] ^= 1;
  CHECK(open(unsealed).damage == HEDDLE_DAMAGE_SUM);
  Bytes crowd(32 + std::size_t{84} * 4097, 0);
  std::copy_n(good.begin(), 32, crowd.begin());
  put(crowd, 12, 4, 4097);
  put(crowd, 16, 4, 0);
  put(crowd, 20, 4, 0);
  seal(crowd);
  CHECK(open(crowd).damage == HEDDLE_DAMAGE_KERNEL);
  for (int damage = HEDDLE_DAMAGE_NONE; damage <= HEDDLE_DAMAGE_RESERVED; ++damage) {
    CHECK(std::string(heddle_damage_text(static_cast<heddle_damage>(damage))) != "unknown damage");
  }
}

TEST_CASE("the C library writes kernel objects with code in memory", "[driver][HST-07][PKT-12]") {
  heddle_kernel_object object{};
  object.program = 9;
  object.shortest = object.longest = 5;
  object.code = 0x1'0000'0080;
  object.code_bytes = 300;
  std::array<std::uint8_t, HEDDLE_KERNEL_OBJECT_BYTES> bytes{};
  REQUIRE(heddle_kernel_object_encode(bytes.data(), &object) == HEDDLE_OK);
  const Bytes written(bytes.begin(), bytes.end());
  CHECK(get(written, 6, 2) == 16);
  CHECK(get(written, 8, 4) == 0);
  CHECK(get(written, 24, 8) == 0x1'0000'0080);
  CHECK(get(written, 32, 8) == 300);
  // Objects with different code are different kernels for the planner's stored diffs.
  heddle_kernel_object other = object;
  other.code += 128;
  heddle_dispatch dispatch{};
  dispatch.workgroup[0] = dispatch.workgroup[1] = dispatch.workgroup[2] = 1;
  heddle_stored a{};
  heddle_stored b{};
  heddle_stored_of(&a, &dispatch, &object);
  heddle_stored_of(&b, &dispatch, &other);
  std::uint16_t vector = 0;
  CHECK(heddle_stored_different(&a, &object, &b, &object, &vector));
  CHECK_FALSE(heddle_stored_different(&a, &object, &b, &other, &vector));
}

}  // namespace driver_program_test
