#include "common/storage.h"

#include <vector>

#include <catch2/catch.hpp>

#include "common/storage_access.h"
#include "support/random.h"

namespace common_storage_test {

namespace {

using heddle::Storage;
using heddle::test::Random;

}  // namespace

TEST_CASE("memory that was never written reads as zeros and takes no room", "[memory][SM-04]") {
  Storage storage(std::uint64_t{4} << 40);
  std::vector<std::uint8_t> bytes(100'000, 0xAA);
  storage.read((std::uint64_t{3} << 40) - 17, bytes.data(), bytes.size());
  CHECK(bytes == std::vector<std::uint8_t>(100'000, 0));
  storage.fill(12'345, 0, 1 << 20);
  CHECK(storage.resident() == 0);
}

TEST_CASE("a write takes the pages that it touches, up to the last byte of memory", "[memory][SM-04]") {
  const std::uint64_t size = (std::uint64_t{4} << 40) + 3;
  Storage storage(size);
  const std::uint8_t value = 0x5A;
  storage.write(size - 1, &value, 1);
  CHECK(storage.resident() == Storage::kPageBytes);
  storage.write(Storage::kPageBytes - 1, "ab", 2);
  CHECK(storage.resident() == 3 * Storage::kPageBytes);
  std::uint8_t back[4] = {};
  storage.read(size - 4, back, 4);
  CHECK(back[3] == value);
  CHECK(back[2] == 0);
  storage.read(Storage::kPageBytes - 2, back, 4);
  CHECK(back[1] == 'a');
  CHECK(back[2] == 'b');
  storage.clear();
  storage.read(size - 4, back, 4);
  CHECK(back[3] == 0);
  CHECK(storage.resident() == 0);
}

TEST_CASE("the storage refuses bytes outside it", "[memory][MEM-05]") {
  Storage storage(1000);
  std::uint8_t byte = 0;
  CHECK_NOTHROW(storage.read(999, &byte, 1));
  CHECK_NOTHROW(storage.write(1000, &byte, 0));
  CHECK_THROWS(storage.read(1000, &byte, 1));
  CHECK_THROWS(storage.write(1000, &byte, 1));
  CHECK_THROWS(storage.fill(~std::uint64_t{0}, 1, 2));
  CHECK_THROWS(storage.read(~std::uint64_t{0} - 10, &byte, 20));
  CHECK_THROWS(Storage(0));
}

TEST_CASE("random reads, writes and fills equal a flat memory", "[memory][SM-04]") {
  HEDDLE_RANDOM(dice);
  constexpr std::uint64_t kBytes = 10 * Storage::kPageBytes + 77;
  Storage storage(kBytes);
  std::vector<std::uint8_t> flat(kBytes);
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t length = dice.one_in(20) ? dice.between64(0, 40'000) : dice.between64(0, 200);
    const std::uint64_t address = dice.between64(0, kBytes - length);
    std::vector<std::uint8_t> bytes(length, 0xEE);
    const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(address);
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    switch (dice.between(0, 3)) {
      case 0:
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(dice.next());
        storage.write(address, bytes.data(), length);
        std::copy(bytes.begin(), bytes.end(), begin);
        break;
      case 1: {
        const auto value = static_cast<std::uint8_t>(dice.between(0, 2));
        storage.fill(address, value, length);
        std::fill(begin, end, value);
        break;
      }
      default:
        storage.read(address, bytes.data(), length);
        REQUIRE(std::equal(begin, end, bytes.begin()));
    }
  }
}

namespace {

// The definition, byte by byte.
bool slow_access(std::vector<std::uint8_t>& memory, tlm::tlm_generic_payload& payload) {
  for (unsigned i = 0; i < payload.get_data_length(); ++i) {
    const std::uint64_t address = payload.get_address() + i % payload.get_streaming_width();
    if (address >= memory.size()) return false;
  }
  const unsigned char* enables = payload.get_byte_enable_ptr();
  for (unsigned i = 0; i < payload.get_data_length(); ++i) {
    const std::uint64_t address = payload.get_address() + i % payload.get_streaming_width();
    if (enables != nullptr && enables[i % payload.get_byte_enable_length()] != TLM_BYTE_ENABLED) continue;
    if (payload.is_read()) payload.get_data_ptr()[i] = memory[address];
    if (payload.is_write()) memory[address] = payload.get_data_ptr()[i];
  }
  return true;
}

}  // namespace

TEST_CASE("payloads with byte enables and streaming widths do what the standard says", "[memory][MEM-05]") {
  HEDDLE_RANDOM(dice);
  constexpr std::uint64_t kBytes = 5000;
  Storage storage(kBytes);
  std::vector<std::uint8_t> flat(kBytes);
  std::uint32_t refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::uint32_t length = dice.between(1, 300);
    std::vector<std::uint8_t> data(length);
    for (auto& byte : data) byte = static_cast<std::uint8_t>(dice.next());
    std::vector<std::uint8_t> other = data;
    std::vector<std::uint8_t> enables(dice.between(1, 140));
    for (auto& enable : enables) enable = dice.one_in(3) ? 0 : 0xFF;
    tlm::tlm_generic_payload payload;
    payload.set_command(dice.one_in(2) ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND);
    payload.set_address(dice.between64(0, kBytes - 1));
    payload.set_data_length(length);
    payload.set_streaming_width(dice.one_in(3) ? dice.between(1, 400) : length);
    if (dice.one_in(2)) {
      payload.set_byte_enable_ptr(enables.data());
      payload.set_byte_enable_length(static_cast<unsigned>(enables.size()));
    }
    payload.set_data_ptr(other.data());
    const bool good = slow_access(flat, payload);
    payload.set_data_ptr(data.data());
    REQUIRE(heddle::access(storage, payload) == good);
    REQUIRE(payload.get_response_status() == (good ? tlm::TLM_OK_RESPONSE : tlm::TLM_ADDRESS_ERROR_RESPONSE));
    REQUIRE(data == other);
    refused += good ? 0 : 1;
  }
  CHECK(refused > 100);
  std::vector<std::uint8_t> all(kBytes);
  storage.read(0, all.data(), kBytes);
  CHECK(all == flat);
}

TEST_CASE("payloads that cannot be carried out get the standard's error, and move nothing", "[memory][MEM-05]") {
  Storage storage(1000);
  std::vector<std::uint8_t> data(64, 7);
  std::uint8_t enable = 0xFF;
  tlm::tlm_generic_payload payload;
  const auto status = [&](tlm::tlm_command command, std::uint64_t address, unsigned length, unsigned width,
                          unsigned enables) {
    payload.set_command(command);
    payload.set_address(address);
    payload.set_data_ptr(data.data());
    payload.set_data_length(length);
    payload.set_streaming_width(width);
    payload.set_byte_enable_ptr(enables == ~0U ? nullptr : &enable);
    payload.set_byte_enable_length(enables == ~0U ? 0 : enables);
    CHECK_FALSE(heddle::access(storage, payload));
    return payload.get_response_status();
  };
  CHECK(status(tlm::TLM_IGNORE_COMMAND, 0, 64, 64, ~0U) == tlm::TLM_COMMAND_ERROR_RESPONSE);
  CHECK(status(tlm::TLM_WRITE_COMMAND, 0, 0, 64, ~0U) == tlm::TLM_BURST_ERROR_RESPONSE);
  CHECK(status(tlm::TLM_WRITE_COMMAND, 0, 64, 0, ~0U) == tlm::TLM_BURST_ERROR_RESPONSE);
  CHECK(status(tlm::TLM_WRITE_COMMAND, 0, 64, 64, 0) == tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
  CHECK(status(tlm::TLM_WRITE_COMMAND, 937, 64, 64, ~0U) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(status(tlm::TLM_WRITE_COMMAND, ~std::uint64_t{0} - 5, 64, 64, ~0U) == tlm::TLM_ADDRESS_ERROR_RESPONSE);
  CHECK(storage.resident() == 0);
}

}  // namespace common_storage_test
