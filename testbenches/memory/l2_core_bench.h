// An L2 core on a memory that answers when and in what order it likes, and what must come out.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "memory/l2_core.h"
#include "support/random.h"

namespace heddle::test {

using memory::L2Access;
using memory::L2Config;
using memory::L2Core;
using memory::LineMask;

// Counters and the registry that they live in.
struct L2Counts : private Stats, public memory::L2Counters {
  L2Counts() : memory::L2Counters(static_cast<Stats&>(*this), "l2") {}
};

// Memory and the transfers under way. A transfer is done some time between its start and its answer.
class LooseMemory final : public memory::L2Memory {
 public:
  static constexpr int kRefused = -2;

  explicit LooseMemory(std::uint32_t lines) : bytes(lines * arch::kLineBytes), bad(lines, 0) {}

  int read(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, std::uint8_t* data) override {
    if (is_bad(line, first, sectors)) return kRefused;
    std::copy_n(&bytes[line * 128 + first * 32], sectors * 32, data + first * 32);
    return L2Core::kOk;
  }
  int write(std::uint64_t line, std::uint32_t first, std::uint32_t sectors, const std::uint8_t* data) override {
    if (is_bad(line, first, sectors)) return kRefused;
    std::copy_n(data + first * 32, sectors * 32, &bytes[line * 128 + first * 32]);
    return L2Core::kOk;
  }

  void start(L2Core& core) {
    while (core.commands() > 0) {
      Transfer transfer;
      transfer.command = core.take_command();
      if (transfer.command.is_write()) {
        std::copy_n(core.write_data(transfer.command), 128, transfer.data.begin());
      }
      under_way.push_back(transfer);
    }
  }
  void perform(std::size_t i) {
    Transfer& t = under_way[i];
    if (t.done) return;
    t.done = true;
    const auto& c = t.command;
    t.status = c.is_write() ? write(c.line, c.first, c.sectors, t.data.data())
                            : read(c.line, c.first, c.sectors, t.data.data());
  }
  void answer(std::size_t i, L2Core& core) {
    perform(i);
    const Transfer t = under_way[i];
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(i));
    core.answer(t.command, t.status, t.data.data());
  }

  struct Transfer {
    L2Core::Command command;
    std::array<std::uint8_t, 128> data{};
    bool done = false;
    int status = 1;
  };
  std::vector<Transfer> under_way;
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> bad;  // sectors of a line that are refused

 private:
  bool is_bad(std::uint64_t line, std::uint32_t first, std::uint32_t sectors) const {
    return (bad[line] & (((1U << sectors) - 1) << first)) != 0;
  }
};

// A request with all that it points to, and the answer that it must get.
struct L2Op {
  L2Access access;
  std::array<std::uint8_t, 128> data{};
  protocol::MemoryExtension atomic;
  std::array<std::uint8_t, 128> expected{};  // of reads: bytes of `data`
  std::vector<std::uint64_t> old;            // of atomics
  bool done = false;
  int status = 0;

  void aim(L2Access::Kind kind, std::uint64_t line, std::uint32_t offset, std::uint32_t length) {
    access.kind = kind;
    access.line = line;
    access.offset = static_cast<std::uint8_t>(offset);
    access.length = static_cast<std::uint8_t>(length);
    access.bytes = LineMask::range(offset, length);
    access.dense = true;
    access.data = data.data();
  }
  void aim_atomic(std::uint64_t line, std::initializer_list<std::uint32_t> offsets, std::uint64_t operand) {
    access.kind = L2Access::Kind::atomic;
    access.line = line;
    access.extension = &atomic;
    atomic.action = protocol::MemoryAction::atomic;
    atomic.type = arch::ValueType::u32;
    for (const std::uint32_t offset : offsets) {
      access.bytes = access.bytes | LineMask::range(offset, 4);
      atomic.lane[atomic.lanes++] = {operand, 0, 0, static_cast<std::uint8_t>(offset), 0};
    }
  }

  // Does it on flat memory, byte by byte, and notes what it must answer.
  void apply(std::vector<std::uint8_t>& flat) {
    std::uint8_t* line = &flat[access.line * 128];
    switch (access.kind) {
      case L2Access::Kind::read:
        expected = data;
        for (std::uint32_t i = 0; i < access.length; ++i) {
          if (access.bytes.test(access.offset + i)) expected[i] = line[access.offset + i];
        }
        break;
      case L2Access::Kind::write:
        for (std::uint32_t i = 0; i < access.length; ++i) {
          if (access.bytes.test(access.offset + i)) line[access.offset + i] = data[i];
        }
        break;
      case L2Access::Kind::atomic:
        for (std::uint32_t i = 0; i < atomic.lanes; ++i) {
          std::uint32_t value = 0;
          std::memcpy(&value, line + atomic.lane[i].offset, 4);
          old.push_back(value);
          value += static_cast<std::uint32_t>(atomic.lane[i].operand);
          std::memcpy(line + atomic.lane[i].offset, &value, 4);
        }
        break;
      default:
        break;
    }
  }
  void check() const {
    REQUIRE(status == L2Core::kOk);
    if (access.kind == L2Access::Kind::read) REQUIRE(data == expected);
    if (access.kind == L2Access::Kind::atomic && atomic.action == protocol::MemoryAction::atomic) {
      for (std::uint32_t i = 0; i < atomic.lanes; ++i) REQUIRE(atomic.lane[i].old == old[i]);
    }
  }
};

constexpr std::uint32_t kCoreLines = 40;  // of memory

// 4 sets of 2 lines, everything scarce.
inline L2Config tiny_core() {
  L2Config config;
  config.lines = 8;
  config.ways = 2;
  config.mshrs = 3;
  config.mshr_targets = 6;
  config.write_buffer = 2;
  return config;
}

}  // namespace heddle::test
