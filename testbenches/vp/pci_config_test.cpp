// Configuration space as PCI Local Bus 3.0 has it: what software reads, and what it can change.
#include "vp/pci_config.h"

#include <catch2/catch.hpp>

#include "support/random.h"

namespace heddle::test::pci_config_test {
namespace {

using namespace heddle::vp;

constexpr std::uint32_t kBar0 = 1U << 19;
constexpr std::uint32_t kBar1 = 1U << 26;

PciConfig placed() {
  PciConfig config(kBar0, kBar1, 2);
  config.write(0x10, 0xFEB0'0000, 4);
  config.write(0x14, 0xE000'0000, 4);
  config.write(0x04, 0x0006, 2);  // memory space, bus master
  return config;
}

TEST_CASE("the function is identified, and has a list of capabilities", "[vp][HST-01]") {
  const PciConfig config(kBar0, kBar1, 2);
  CHECK(config.read(0x00, 4) == 0x4845F1F1);
  CHECK(config.read(0x02, 2) == 0x4845);
  CHECK(config.read(0x08, 4) == 0x12000002);  // processing accelerator, revision 2
  CHECK(config.read(0x0A, 2) == 0x1200);
  CHECK(config.read(0x0E, 1) == 0);  // one function, type 0
  CHECK(config.read(0x2C, 4) == 0x4845F1F1);
  CHECK(config.read(0x30, 4) == 0);           // no expansion ROM
  CHECK(config.read(0x3D, 1) == 0);           // no interrupt pin
  CHECK((config.read(0x06, 2) & 0x10) != 0);  // capabilities list
  const std::uint32_t first = config.read(0x34, 1);
  CHECK(config.read(first, 1) == 0x05);      // MSI
  CHECK(config.read(first + 1, 1) == 0x00);  // the last
  // 64-bit addresses, one message, off, no mask bits.
  CHECK(config.read(first + 2, 2) == 0x0080);
}

TEST_CASE("BARs tell their size, and keep an aligned address", "[vp][HST-01]") {
  PciConfig config(kBar0, kBar1, 2);
  // Also the dwords behind the BARs, which QEMU asks for as if they were BARs.
  const std::uint32_t sizes[] = {~(kBar0 - 1), ~(kBar1 - 1) | 8, 0, 0, 0, 0};
  for (std::uint32_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    config.write(0x10 + 4 * i, 0xFFFF'FFFF, 4);
    CHECK(config.read(0x10 + 4 * i, 4) == sizes[i]);
  }
  config.write(0x28, 0xFFFF'FFFF, 4);
  CHECK(config.read(0x28, 4) == 0);
  config.write(0x10, 0xFEB1'2345, 4);
  CHECK(config.read(0x10, 4) == 0xFEB0'0000);
}

TEST_CASE("accesses of one and two bytes change those alone", "[vp][HST-01]") {
  PciConfig config(kBar0, kBar1, 2);
  config.write(0x3C, 0x1105, 2);  // the interrupt pin stays 0
  CHECK(config.read(0x3C, 2) == 0x0005);
  config.write(0x13, 0xAB, 1);
  CHECK(config.read(0x10, 4) == 0xAB00'0000);
  config.write(0x4C, 0x1234'5678, 4);  // the data of MSI has 16 bits
  CHECK(config.read(0x4C, 4) == 0x5678);
  CHECK(config.read(0xFE, 4) == 0xFFFF'0000);
  CHECK(config.read(0x100, 2) == 0xFFFF);
  CHECK(config.read(0xFFFF'FFFF, 4) == 0xFFFF'FFFF);
  config.write(0xFFFF'FFFE, 0, 4);
  CHECK(config.read(0x00, 4) == 0x4845F1F1);
}

TEST_CASE("an address lies in a BAR only while memory space is on", "[vp][HST-01]") {
  PciConfig config = placed();
  const auto first = config.find(0xFEB0'0000, 4);
  REQUIRE(first);
  CHECK((first->bar == 0 && first->offset == 0));
  const auto last = config.find(0xFEB0'0000 + kBar0 - 8, 8);
  REQUIRE(last);
  CHECK(last->offset == kBar0 - 8);
  CHECK_FALSE(config.find(0xFEB0'0000 + kBar0 - 4, 8));
  CHECK_FALSE(config.find(0xFEB0'0000 + kBar0, 1));
  CHECK_FALSE(config.find(0xFEAF'FFFF, 1));
  const auto memory = config.find(0xE000'1000, 8);
  REQUIRE(memory);
  CHECK((memory->bar == 1 && memory->offset == 0x1000));
  config.write(0x04, 0x0004, 2);
  CHECK_FALSE(config.find(0xFEB0'0000, 4));
}

TEST_CASE("a message needs MSI and bus mastering", "[vp][HST-01]") {
  PciConfig config = placed();
  CHECK_FALSE(config.message());
  config.write(0x44, 0xFEE0'1003, 4);  // the two lowest bits do not exist
  config.write(0x48, 0x1, 4);
  config.write(0x4C, 0x4021, 2);
  CHECK_FALSE(config.message());
  config.write(0x42, 0x0001, 2);
  REQUIRE(config.message());
  CHECK(config.message()->address == 0x1'FEE0'1000);
  CHECK(config.message()->data == 0x4021);
  config.write(0x04, 0x0002, 2);
  CHECK_FALSE(config.message());
  config.write(0x04, 0x0006, 2);
  CHECK(config.message());
  config.write(0x42, 0x0070, 2);  // more messages cannot be had
  CHECK(config.read(0x42, 2) == 0x0080);
  CHECK_FALSE(config.message());
}

TEST_CASE("a reset returns all that software can change", "[vp][HST-01]") {
  HEDDLE_RANDOM(random);
  const PciConfig fresh(kBar0, kBar1, 2);
  PciConfig config(kBar0, kBar1, 2);
  for (int i = 0; i < 5000; ++i) {
    const unsigned bytes = 1U << random.below(3);
    config.write(random.below(256), static_cast<std::uint32_t>(random.next()), bytes);
  }
  CHECK(config.read(0x04, 2) != fresh.read(0x04, 2));
  config.reset();
  for (std::uint32_t offset = 0; offset < 256; ++offset) CHECK(config.read(offset, 1) == fresh.read(offset, 1));
  CHECK_FALSE(config.bus_master());
}

}  // namespace
}  // namespace heddle::test::pci_config_test
