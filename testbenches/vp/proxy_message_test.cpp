// Messages of QEMU's proxy device, from bytes that are written out by hand.
#include "vp/proxy_message.h"

#include <string>

#include <catch2/catch.hpp>

#include "support/random.h"
#include "vp/proxy_channel.h"

namespace heddle::test::proxy_message_test {
namespace {

using namespace heddle::vp;

using Bytes = std::vector<std::uint8_t>;

void put(Bytes& bytes, std::uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> 8 * i));
}

std::array<std::uint8_t, kProxyHeaderBytes> header(std::uint32_t command, std::uint64_t size) {
  Bytes bytes;
  put(bytes, command, 4);
  put(bytes, 0xDEADBEEF, 4);  // padding, of any value
  put(bytes, size, 8);
  std::array<std::uint8_t, kProxyHeaderBytes> all{};
  std::copy(bytes.begin(), bytes.end(), all.begin());
  return all;
}

Bytes bar_access(std::uint64_t address, std::uint64_t value, std::uint32_t bytes, std::uint8_t memory = 1) {
  Bytes payload;
  put(payload, address, 8);
  put(payload, value, 8);
  put(payload, bytes, 4);
  put(payload, memory, 1);
  put(payload, 0x777777, 3);
  return payload;
}

Bytes memory_map(const std::vector<GuestRange>& ranges) {
  Bytes payload;
  const auto column = [&](std::uint64_t GuestRange::*field) {
    for (std::size_t i = 0; i < 8; ++i) put(payload, i < ranges.size() ? ranges[i].*field : 0, 8);
  };
  column(&GuestRange::address);
  column(&GuestRange::bytes);
  column(&GuestRange::offset);
  return payload;
}

TEST_CASE("commands have the sizes that QEMU gives them", "[vp][HST-01]") {
  const std::vector<std::pair<std::uint32_t, std::uint64_t>> sizes = {{0, 192}, {2, 12}, {3, 12}, {4, 24},
                                                                      {5, 24},  {6, 0},  {7, 0}};
  for (const auto& [command, size] : sizes) {
    CAPTURE(command);
    const ProxyHeader read = decode_header(header(command, size));
    CHECK(static_cast<std::uint32_t>(read.command) == command);
    CHECK(read.bytes == size);
    CHECK_THROWS_AS(decode_header(header(command, size + 1)), ProxyError);
    CHECK_THROWS_AS(decode_header(header(command, size + (std::uint64_t{1} << 32))), ProxyError);
    CHECK(is_answered(read.command) == (command != 0 && command != 6));
  }
  for (const std::uint32_t command : {1U, 8U, 0x80000000U, 0xFFFFFFFFU}) {
    CHECK_THROWS_AS(decode_header(header(command, 8)), ProxyError);
  }
}

TEST_CASE("accesses to BARs and to configuration space are read", "[vp][HST-01]") {
  const ProxyHeader write{ProxyCommand::bar_write, 24};
  const ProxyMessage message = decode_message(write, bar_access(0xFEB0'0004, 0x1122'3344'5566'7788, 8), 0);
  CHECK(message.access.address == 0xFEB0'0004);
  CHECK(message.access.value == 0x1122'3344'5566'7788);
  CHECK(message.access.bytes == 8);
  for (const std::uint32_t bytes : {0U, 3U, 16U, 0x1'0001U}) {
    CHECK_THROWS_AS(decode_message(write, bar_access(0, 0, bytes), 0), ProxyError);
  }
  CHECK_THROWS_AS(decode_message(write, bar_access(0, 0, 4, 0), 0), ProxyError);  // a port
  CHECK_THROWS_AS(decode_message(write, bar_access(0, 0, 4), 1), ProxyError);     // with a file

  Bytes config;
  put(config, 0x44, 4);
  put(config, 0xCAFE, 4);
  put(config, 2, 4);
  const ProxyMessage set = decode_message({ProxyCommand::config_write, 12}, config, 0);
  CHECK((set.access.address == 0x44 && set.access.value == 0xCAFE && set.access.bytes == 2));
  config[8] = 8;
  CHECK_THROWS_AS(decode_message({ProxyCommand::config_write, 12}, config, 0), ProxyError);
  config.pop_back();
  CHECK_THROWS_AS(decode_message({ProxyCommand::config_write, 12}, config, 0), ProxyError);
}

TEST_CASE("a memory map has as many ranges as files", "[vp][HST-01]") {
  const ProxyHeader map{ProxyCommand::memory_map, 192};
  const std::vector<GuestRange> ranges = {{0, 0x8000'0000, 0}, {0x1'0000'0000, 0xC000'0000, 0x8000'0000}};
  const ProxyMessage message = decode_message(map, memory_map(ranges), 2);
  REQUIRE(message.ranges.size() == 2);
  CHECK(message.ranges[1].address == 0x1'0000'0000);
  CHECK(message.ranges[1].bytes == 0xC000'0000);
  CHECK(message.ranges[1].offset == 0x8000'0000);
  CHECK(decode_message(map, memory_map(ranges), 0).ranges.empty());
  CHECK_THROWS_AS(decode_message(map, memory_map(ranges), 3), ProxyError);  // one is empty
  CHECK_THROWS_AS(decode_message(map, memory_map(ranges), 9), ProxyError);
  constexpr std::uint64_t kTop = ~std::uint64_t{0};
  CHECK(decode_message(map, memory_map({{kTop - 0xFFF, 0x1000, 0}}), 1).ranges.size() == 1);
  CHECK_THROWS_AS(decode_message(map, memory_map({{kTop - 0xFFF, 0x1001, 0}}), 1), ProxyError);
  CHECK_THROWS_AS(decode_message(map, memory_map({{0, 0x1000, kTop}}), 1), ProxyError);
}

TEST_CASE("an answer is a header and a word", "[vp][HST-01]") {
  Bytes wanted;
  put(wanted, 1, 4);
  put(wanted, 0, 4);
  put(wanted, 8, 8);
  put(wanted, 0x8877'6655'4433'2211, 8);
  const auto bytes = encode_answer(0x8877'6655'4433'2211);
  CHECK(Bytes(bytes.begin(), bytes.end()) == wanted);
}

TEST_CASE("any bytes are a message or an error", "[vp][HST-01]") {
  HEDDLE_RANDOM(random);
  std::size_t read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::array<std::uint8_t, kProxyHeaderBytes> bytes{};
    const auto command = random.below(9);
    const std::uint64_t sizes[] = {192, 8, 12, 12, 24, 24, 0, 0, 7};
    bytes = header(command, random.chance(90) ? sizes[command] : random.below(300));
    try {
      const ProxyHeader decoded = decode_header(bytes);
      Bytes payload(decoded.bytes);
      for (std::uint8_t& byte : payload) {
        byte = static_cast<std::uint8_t>(random.chance(60) ? random.below(9) : random.below(256));
      }
      const ProxyMessage message = decode_message(decoded, payload, random.below(10));
      CHECK(message.command == decoded.command);
      ++read;
    } catch (const ProxyError&) {
    }
  }
  CHECK(read > 1000);
}

TEST_CASE("interrupts go out as writes of words, and anything but OK is refused", "[vp][HST-01]") {
  CHECK(QtestChannel::command(0xFEE0'0000, 0x4021) == "writel 0xfee00000 0x4021\n");
  CHECK(QtestChannel::is_done("OK"));
  CHECK_FALSE(QtestChannel::is_done("IRQ raise 3"));
  CHECK_THROWS_AS(QtestChannel::is_done("FAIL Unknown command 'writel'"), ProxyError);
  CHECK_THROWS_AS(QtestChannel::is_done(""), ProxyError);
}

}  // namespace
}  // namespace heddle::test::proxy_message_test
