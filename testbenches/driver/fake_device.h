// A device as far as the host library sees one: registers, memory, and a packet processor that takes packets when the
// test, or the library's waiting, lets it. Every access is noted.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "driver/heddle_driver.h"

namespace heddle::test {

class FakeDevice {
 public:
  static constexpr std::uint64_t kDeviceBytes = 1 << 16;
  static constexpr std::uint64_t kHostBytes = 1 << 16;

  FakeDevice() : memory_(kDeviceBytes, 0xAA), host_(kHostBytes, 0xAA) {
    registers[HEDDLE_REG_MAGIC] = HEDDLE_DEVICE_MAGIC;
    registers[HEDDLE_REG_VERSION] = HEDDLE_REGISTER_VERSION;
    registers[HEDDLE_REG_SMS] = 132;
    registers[HEDDLE_REG_GPCS] = 8;
    registers[HEDDLE_REG_QUEUES] = 32;
    registers[HEDDLE_REG_COPY_ENGINES] = 2;
    registers[HEDDLE_REG_COPY_CHANNELS] = 4;
    registers[HEDDLE_REG_MEMORY_BYTES] = 80ULL << 30;
    registers[HEDDLE_REG_CLOCK_MHZ] = 1755;
    registers[HEDDLE_REG_CLOCK_PERIOD] = 570;
    registers[HEDDLE_REG_TIMESTAMP] = 0x1'2345'6789;
    registers[HEDDLE_REG_TIMESTAMP_RATE] = 1'000'000'000;
    registers[HEDDLE_REG_DOORBELL_PAGE] = 0x2000;
    registers[HEDDLE_REG_THREADS_LIMIT] = 1024;
    registers[HEDDLE_REG_SHARED_LIMIT] = 232'448;
  }

  heddle_bus bus() {
    return {this,
            [](void* d, std::uint32_t offset, unsigned bytes, std::uint64_t* value) {
              return static_cast<FakeDevice*>(d)->read(offset, bytes, *value);
            },
            [](void* d, std::uint32_t offset, unsigned bytes, std::uint64_t value) {
              return static_cast<FakeDevice*>(d)->write(offset, bytes, value);
            },
            [](void* d, std::uint64_t address, void* to, std::size_t bytes) {
              return static_cast<FakeDevice*>(d)->load(address, to, bytes);
            },
            [](void* d, std::uint64_t address, const void* from, std::size_t bytes) {
              return static_cast<FakeDevice*>(d)->store(address, from, bytes);
            },
            [](void* d) { static_cast<FakeDevice*>(d)->relax(); },
            [](void* d) { static_cast<FakeDevice*>(d)->log.emplace_back("barrier"); },
            [](void* d, std::uint64_t address, std::uint64_t value, std::uint64_t* old) {
              return static_cast<FakeDevice*>(d)->fetch_add(address, value, *old);
            },
            [](void* d, std::uint64_t address, std::uint64_t expected, std::uint64_t value, std::uint64_t* old) {
              return static_cast<FakeDevice*>(d)->compare_exchange(address, expected, value, *old);
            }};
  }

  std::uint8_t* at(std::uint64_t address) {
    return address >= HEDDLE_HOST_WINDOW ? &host_[address - HEDDLE_HOST_WINDOW] : &memory_[address];
  }
  void put64(std::uint64_t address, std::uint64_t value) { std::memcpy(at(address), &value, 8); }
  std::uint64_t get64(std::uint64_t address) {
    std::uint64_t value = 0;
    std::memcpy(&value, at(address), 8);
    return value;
  }

  // Takes up to `most` packets of the queue: published, and within the largest doorbell.
  std::uint32_t take(std::uint32_t queue, std::uint32_t most) {
    std::uint32_t count = 0;
    const std::uint64_t base = registers[HEDDLE_REG_QUEUE_BASE(queue)];
    const std::uint64_t size = registers[HEDDLE_REG_QUEUE_SIZE(queue)];
    std::uint64_t& read_index = registers[HEDDLE_REG_QUEUE_READ_INDEX(queue)];
    for (; count < most && rung && read_index <= doorbell; ++count) {
      std::uint8_t* slot = at(base + read_index % size * 64);
      if (slot[0] == 1) break;
      taken.emplace_back(slot, slot + 64);
      slot[0] = 1;
      slot[1] = 0;
      ++read_index;
      const std::uint64_t address = registers[HEDDLE_REG_QUEUE_READ_INDEX_ADDRESS(queue)];
      if (address != 0) put64(address, read_index);
    }
    return count;
  }

  std::map<std::uint32_t, std::uint64_t> registers;
  std::vector<std::string> log;                  // "store 4160 62", "barrier", "doorbell 3"
  std::vector<std::vector<std::uint8_t>> taken;  // packets
  std::uint64_t doorbell = 0;
  bool rung = false;
  std::uint32_t opened = HEDDLE_QUEUE_STATE_ACTIVE;  // state after the command
  std::uint32_t queried = HEDDLE_QUERY_STATE_DONE;   // state after the command
  std::uint32_t relaxes_to_close = 0;
  std::uint32_t takes_per_relax = 0;  // of queue 3
  std::uint32_t looks_in_reset = 0;   // that find the reset busy
  int accesses_until_failure = -1;    // below 0: never
  std::uint32_t other_producer = 0;   // so many times, it reserves a slot between two steps of the library
  std::uint32_t relaxed = 0;
  std::uint32_t resets_looked_at = 0;  // reads of STATUS after the reset

 private:
  bool failing() { return accesses_until_failure >= 0 && accesses_until_failure-- == 0; }

  bool read(std::uint32_t offset, unsigned bytes, std::uint64_t& value) {
    if (failing()) return false;
    value = registers[offset];
    if (offset == HEDDLE_REG_EVENT) registers[offset] = 0;
    if (offset == HEDDLE_REG_STATUS && registers[HEDDLE_REG_CONTROL] == HEDDLE_CONTROL_SOFT_RESET_MASK) {
      if (++resets_looked_at <= looks_in_reset) value |= HEDDLE_STATUS_RESET_BUSY_MASK;
    }
    return bytes == 4 || bytes == 8;
  }

  bool write(std::uint32_t offset, unsigned bytes, std::uint64_t value) {
    if (failing()) return false;
    for (std::uint32_t queue = 0; queue < 32; ++queue) {
      std::uint64_t& state = registers[HEDDLE_REG_QUEUE_STATE(queue)];
      if (offset == HEDDLE_REG_QUEUE_COMMAND(queue)) {
        if (value == HEDDLE_QUEUE_COMMAND_OPEN) {
          state = opened;
          registers[HEDDLE_REG_QUEUE_READ_INDEX(queue)] = registers[HEDDLE_REG_QUEUE_FIRST(queue)];
        } else if (value == HEDDLE_QUEUE_COMMAND_INACTIVATE) {
          state = relaxes_to_close == 0 ? HEDDLE_QUEUE_STATE_INACTIVE : HEDDLE_QUEUE_STATE_ABORTING;
          closing_ = queue;
          closed_ = HEDDLE_QUEUE_STATE_INACTIVE;
        } else {
          closed_ = HEDDLE_QUEUE_STATE_CLOSED;
          closing_ = queue;
          state = relaxes_to_close == 0 ? HEDDLE_QUEUE_STATE_CLOSED : HEDDLE_QUEUE_STATE_DRAINING;
        }
      }
      const std::uint64_t page = registers[HEDDLE_REG_QUEUE_SUBCONTEXT(queue)];
      if (offset == HEDDLE_REG_DOORBELL(queue) + page * registers[HEDDLE_REG_DOORBELL_PAGE]) {
        log.push_back("doorbell " + std::to_string(value));
        doorbell = rung && doorbell > value ? doorbell : value;
        rung = true;
      }
    }
    if (offset == HEDDLE_REG_QUERY_COMMAND) registers[HEDDLE_REG_QUERY_STATE] = queried;
    registers[offset] = value;
    return bytes == 4 || bytes == 8;
  }

  bool reaches(std::uint64_t address, std::size_t bytes) {
    if (failing()) return false;
    const std::uint64_t limit = address >= HEDDLE_HOST_WINDOW ? kHostBytes : kDeviceBytes;
    const std::uint64_t offset = address >= HEDDLE_HOST_WINDOW ? address - HEDDLE_HOST_WINDOW : address;
    return offset <= limit && bytes <= limit - offset;
  }
  bool load(std::uint64_t address, void* to, std::size_t bytes) {
    if (!reaches(address, bytes)) return false;
    std::memcpy(to, at(address), bytes);
    return true;
  }
  bool store(std::uint64_t address, const void* from, std::size_t bytes) {
    if (!reaches(address, bytes)) return false;
    std::memcpy(at(address), from, bytes);
    log.push_back("store " + std::to_string(address) + " " + std::to_string(bytes));
    return true;
  }

  bool fetch_add(std::uint64_t address, std::uint64_t value, std::uint64_t& old) {
    if (!reaches(address, 8)) return false;
    old = heddle_word_fetch_add(at(address), value);
    return true;
  }
  bool compare_exchange(std::uint64_t address, std::uint64_t expected, std::uint64_t value, std::uint64_t& old) {
    if (!reaches(address, 8)) return false;
    if (other_producer != 0) {
      (void)heddle_word_fetch_add(at(address), 1);
      --other_producer;
    }
    old = heddle_word_compare_exchange(at(address), expected, value);
    return true;
  }

  void relax() {
    ++relaxed;
    if (takes_per_relax != 0) take(3, takes_per_relax);
    if (relaxes_to_close != 0 && --relaxes_to_close == 0) {
      registers[HEDDLE_REG_QUEUE_STATE(closing_)] = closed_;
    }
  }

  std::vector<std::uint8_t> memory_;
  std::vector<std::uint8_t> host_;
  std::uint32_t closing_ = 0;
  std::uint64_t closed_ = HEDDLE_QUEUE_STATE_CLOSED;
};

}  // namespace heddle::test
