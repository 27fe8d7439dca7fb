// The reader of what nvcc puts into programs: containers made here byte by byte, as they were seen.
#include "cuda/fat_binary.h"

#include <cstring>
#include <zstd.h>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "common/error.h"

namespace heddle::test::cuda_fat_binary_test {
namespace {

using namespace heddle::cuda;

const std::string kText = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n";

using Bytes = std::vector<std::uint8_t>;

template <class Number>
void put(Bytes& bytes, std::size_t at, Number value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// An entry as nvcc 13 writes it: a header of 0x50 bytes, then the payload, filled up to 8.
Bytes entry(std::uint16_t kind, std::uint32_t architecture, const std::string& payload, std::uint64_t unpacked,
            bool packed) {
  const std::size_t header = kind == 1 ? 0x50 : 0x40;
  Bytes bytes(header + (payload.size() + 7) / 8 * 8, 0);
  put<std::uint16_t>(bytes, 0, kind);
  put<std::uint16_t>(bytes, 2, 0x0101);
  put<std::uint32_t>(bytes, 4, static_cast<std::uint32_t>(header));
  put<std::uint64_t>(bytes, 8, bytes.size() - header);
  put<std::uint32_t>(bytes, 16, packed ? static_cast<std::uint32_t>(payload.size()) : 0);
  put<std::uint32_t>(bytes, 20, 0x40);
  put<std::uint32_t>(bytes, 28, architecture);
  put<std::uint64_t>(bytes, 56, packed ? unpacked : 0);
  std::memcpy(bytes.data() + header, payload.data(), payload.size());
  return bytes;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

Bytes plain(const std::string& text, std::uint32_t architecture = 90) {
  return entry(1, architecture, text, text.size(), false);
}
Bytes packed(const std::string& text, std::uint32_t architecture = 90) {
  return entry(1, architecture, zstd(text), text.size(), true);
}
Bytes machine() { return entry(2, 90, "\177ELF and more", 0, false); }

Bytes container(const std::vector<Bytes>& entries) {
  Bytes bytes(16, 0);
  for (const Bytes& one : entries) bytes.insert(bytes.end(), one.begin(), one.end());
  put<std::uint32_t>(bytes, 0, 0xba55ed50);
  put<std::uint16_t>(bytes, 4, 1);
  put<std::uint16_t>(bytes, 6, 16);
  put<std::uint64_t>(bytes, 8, bytes.size() - 16);
  return bytes;
}

std::vector<FatEntry> read(const Bytes& bytes) { return read_container(bytes.data(), bytes.size(), "app"); }

std::string refusal(const Bytes& bytes) {
  try {
    (void)read(bytes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "it was read";
}

}  // namespace

TEST_CASE("packed and plain PTX are read from a container") {
  const std::vector<FatEntry> entries = read(container({machine(), packed(kText), plain(kText + "//\n", 80)}));
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].kind == CodeKind::machine);
  CHECK(entries[0].text.empty());
  CHECK(entries[1].kind == CodeKind::ptx);
  CHECK(entries[1].architecture == 90);
  CHECK(entries[1].text == kText);
  CHECK(entries[2].architecture == 80);
  CHECK(entries[2].text == kText + "//\n");
  CHECK(read(container({})).empty());
  const Bytes some = container({plain(kText)});
  CHECK(container_bytes(some.data()) == some.size());
}

TEST_CASE("the newest PTX that the device runs is chosen, and what is missing is told") {
  const std::vector<FatEntry> entries =
      read(container({plain("// 80\n", 80), plain("// 90\n", 90), packed("// too\n", 90), plain("// 100\n", 100)}));
  CHECK(choose_ptx(entries, 90, "app") == std::vector<std::string>{"// 90\n", "// too\n"});
  CHECK(choose_ptx(entries, 89, "app") == std::vector<std::string>{"// 80\n"});
  CHECK_THROWS_WITH(choose_ptx(read(container({machine()})), 90, "app"),
                    Catch::Contains("only machine code for 90") && Catch::Contains("code=compute_90a"));
  CHECK_THROWS_WITH(choose_ptx(read(container({plain(kText, 100)})), 90, "app"), Catch::Contains("only PTX for 100"));
  CHECK_THROWS_WITH(choose_ptx({}, 90, "app"), Catch::Contains("empty"));
}

TEST_CASE("every field of a container is checked") {
  const Bytes good = container({packed(kText)});
  struct Change {
    std::size_t at;
    std::uint64_t value;
    std::size_t width;
    const char* message;
  };
  const Change changes[] = {
      {0, 0xba55ed51, 4, "no container"},
      {4, 2, 2, "version 2"},
      {6, 24, 2, "header has 24"},
      {8, 1 << 20, 8, "cut off"},
      {8, std::uint64_t{1} << 40, 8, "container of"},
      {8, 17, 8, "entry that is cut off"},
      {16, 3, 2, "kind 3"},
      {18, 0x0102, 2, "version 0x0102"},
      {20, 8, 4, "header has 8"},
      {20, 0x4c, 4, "header has 76"},
      {20, 0x8000, 4, "header has 32768"},
      {24, 1 << 20, 8, "longer than its container"},
      {24, ~std::uint64_t{0}, 8, "longer than its container"},
      {32, 1 << 20, 4, "longer than the entry"},
      {44, 0, 4, "architecture 0"},
      {44, 12345, 4, "architecture 12345"},
      {72, 1, 8, "size is not that"},
      {72, 0, 8, "PTX of 0 bytes"},
      {72, ~std::uint64_t{0}, 8, "PTX of"},
      {16 + 0x50, 0, 4, "packed in a way"},
  };
  for (const Change& change : changes) {
    Bytes bytes = good;
    std::memcpy(bytes.data() + change.at, &change.value, change.width);
    INFO("byte " << change.at << ": " << change.value);
    CHECK_THAT(refusal(bytes), Catch::Contains(change.message));
  }
  Bytes shorter = good;
  std::uint32_t bytes_packed = 0;
  std::memcpy(&bytes_packed, good.data() + 32, sizeof bytes_packed);
  put<std::uint32_t>(shorter, 32, bytes_packed - 4);
  CHECK_THAT(refusal(shorter), Catch::Contains("does not unpack"));
  CHECK_THAT(refusal(container({plain(std::string("a\0b", 3))})), Catch::Contains("no text"));
  CHECK_THAT(refusal(container({plain(std::string(8, '\0'))})), Catch::Contains("no text"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    CHECK_THROWS_AS(read_container(good.data(), size, "app"), InputError);
  }
}

}  // namespace heddle::test::cuda_fat_binary_test
