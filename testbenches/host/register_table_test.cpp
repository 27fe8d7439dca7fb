#include "host/register_table.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

namespace heddle::test::host_register_table_test {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream file(std::string(HEDDLE_SOURCE_DIR) + "/" + path, std::ios::binary);
  REQUIRE(file);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the checked-in header and page are what the table yields", "[host][HST-01]") {
  CHECK(host::registers_as_c() == file_text("platforms/driver/heddle_registers.h"));
  CHECK(host::registers_as_markdown() == file_text("docs/registers.md"));
}

TEST_CASE("registers are aligned, do not overlap, and are found at their offsets", "[host][HST-01]") {
  std::set<std::uint32_t> bytes;
  std::set<std::string> names;
  for (const host::Register& reg : host::register_table()) {
    CAPTURE(reg.name);
    CHECK(names.insert(reg.name).second);
    CHECK((reg.bytes == 4 || reg.bytes == 8));
    CHECK_FALSE(std::string(reg.description).empty());
    for (std::uint32_t index = 0; index < reg.count; ++index) {
      for (std::uint32_t word = 0; word < reg.words; ++word) {
        const std::uint32_t offset = host::offset_of(reg.id, index, word);
        REQUIRE(offset % reg.bytes == 0);
        REQUIRE(offset + reg.bytes <=
                (reg.id == host::RegisterId::doorbell ? host::bar0_bytes(4096) : host::kRegisterBytes));
        for (std::uint32_t byte = 0; byte < reg.bytes; ++byte) {
          REQUIRE(bytes.insert(offset + byte).second);
          const host::RegisterPlace place = host::register_at(offset + byte);
          REQUIRE(place.reg == &reg);
          REQUIRE((place.index == index && place.word == word && place.byte == byte));
        }
      }
    }
  }
  // The other pages of doorbells are like the first.
  for (std::uint32_t page = 1; page < 64; ++page) {
    for (std::uint32_t at = 0; at < 512; ++at) {
      const std::uint32_t offset = host::kDoorbellBase + page * 4096 + at;
      bytes.insert(offset);
      const host::RegisterPlace place = host::register_at(offset);
      REQUIRE(place.reg == &host::register_of(host::RegisterId::doorbell));
      REQUIRE((place.index == at / 8 && place.word == page && place.byte == at % 8));
    }
  }
  for (std::uint32_t offset = 0; offset < host::bar0_bytes(4096) + 64; ++offset) {
    if (bytes.count(offset) == 0) REQUIRE(host::register_at(offset).reg == nullptr);
  }
  CHECK(host::register_at(~std::uint64_t{0}).reg == nullptr);
}

TEST_CASE("fields of a register do not overlap, and resets lie within them", "[host][HST-01]") {
  for (const host::Register& reg : host::register_table()) {
    CAPTURE(reg.name);
    CHECK((reg.reset & ~host::bits_of(reg)) == 0);
    if (reg.fields == nullptr) continue;
    std::uint64_t seen = 0;
    for (std::uint32_t i = 0; i < reg.fields->count; ++i) {
      const host::RegisterField& field = reg.fields->fields[i];
      REQUIRE(field.first + field.bits <= reg.bytes * 8);
      const std::uint64_t mask = ((std::uint64_t{1} << field.bits) - 1) << field.first;
      CHECK((seen & mask) == 0);
      seen |= mask;
    }
  }
}

TEST_CASE("the text for people names every register", "[host][HST-01]") {
  const std::string text = host::registers_as_text();
  const std::string page = host::registers_as_markdown();
  for (const host::Register& reg : host::register_table()) {
    CAPTURE(reg.name);
    CHECK(text.find(" " + std::string(reg.name)) != std::string::npos);
    CHECK(page.find("| " + std::string(reg.name) + " |") != std::string::npos);
  }
}

}  // namespace heddle::test::host_register_table_test
