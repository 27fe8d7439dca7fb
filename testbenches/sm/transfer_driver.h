// A CTA's way to memory and back, driven access by access over a memory of words.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/saved_cta.h"
#include "support/random.h"

using heddle::arch::home_of_sm;
using heddle::arch::kHomeWoken;
using heddle::arch::MemoryStep;
using heddle::arch::RecordPool;
using heddle::arch::saved_home;
using heddle::sm::ContextTransfer;
using heddle::sm::SavedHeader;
using heddle::test::Random;

namespace heddle::test::moves {

using Access = ContextTransfer::Access;
using Outcome = ContextTransfer::Outcome;

constexpr std::uint64_t kContext = 0x80;
constexpr std::uint64_t kHome = kContext + heddle::arch::context::kHome;
constexpr std::uint64_t kPool = 0x1000;

struct Memory {
  std::uint64_t get(std::uint64_t address) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + address, 8);
    return value;
  }
  void put(std::uint64_t address, std::uint64_t value) { std::memcpy(bytes.data() + address, &value, 8); }
  std::uint64_t step(const MemoryStep& step) {
    const std::uint64_t old = get(step.address);
    switch (step.kind) {
      case MemoryStep::Kind::write:
      case MemoryStep::Kind::exchange:
        put(step.address, step.value);
        break;
      case MemoryStep::Kind::add:
        put(step.address, old + step.value);
        break;
      case MemoryStep::Kind::compare_exchange:
        if (old == step.compare) put(step.address, step.value);
        break;
      default:
        break;
    }
    return old;
  }
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(0x40'000);
};

// A move whose accesses are done one by one, in any order. An answer can come later than what it answers was done.
struct Driven {
  struct Done {
    Access access;
    std::uint64_t old = 0;
    std::vector<std::uint8_t> data;
  };
  ContextTransfer move;
  std::vector<Access> asked;                    // not done yet
  std::vector<std::vector<std::uint8_t>> sent;  // the same: data of writes
  std::vector<Done> done;                       // not answered yet

  bool can_ask() const { return move.wants(); }
  void ask() {
    asked.push_back(move.next());
    const Access& access = asked.back();
    sent.emplace_back();
    if (access.kind == Access::Kind::write) sent.back().assign(access.data, access.data + access.bytes);
  }
  void serve(Memory& memory, std::size_t which) {
    const Access access = asked[which];
    Done now{access, 0, {}};
    if (access.kind == Access::Kind::step) {
      now.old = memory.step(access.step);
    } else if (access.kind == Access::Kind::read) {
      now.data.assign(memory.bytes.begin() + static_cast<std::ptrdiff_t>(access.address),
                      memory.bytes.begin() + static_cast<std::ptrdiff_t>(access.address + access.bytes));
    } else {
      std::memcpy(memory.bytes.data() + access.address, sent[which].data(), access.bytes);
    }
    asked.erase(asked.begin() + static_cast<std::ptrdiff_t>(which));
    sent.erase(sent.begin() + static_cast<std::ptrdiff_t>(which));
    done.push_back(std::move(now));
  }
  void answer(std::size_t which, bool fails = false) {
    const Done now = std::move(done[which]);
    done.erase(done.begin() + static_cast<std::ptrdiff_t>(which));
    if (fails) {
      move.fail(now.access);
    } else {
      move.answer(now.access, now.old, now.data.data());
    }
  }
  // One thing happens; false: nothing can.
  bool advance(Memory& memory, Random& random) {
    const bool ask_first = random.chance(50);
    if (ask_first && can_ask()) {
      ask();
    } else if (!asked.empty() && (done.empty() || random.chance(50))) {
      serve(memory, random.below(asked.size()));
    } else if (!done.empty()) {
      answer(random.below(done.size()));
    } else if (can_ask()) {
      ask();
    } else {
      return false;
    }
    return true;
  }
  // In order, without company.
  void run(Memory& memory) {
    while (!move.over()) {
      if (can_ask()) ask();
      if (!asked.empty()) serve(memory, 0);
      if (!done.empty()) answer(0);
    }
  }
};

std::vector<std::uint8_t> some_bytes(Random& random, std::uint64_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  return bytes;
}

SavedHeader header_for(std::uint64_t bytes, std::uint64_t context = kContext) {
  SavedHeader header;
  header.operation = 77;
  header.record = 0x500;
  header.context = context;
  header.bytes = bytes;
  header.index = 3;
  header.cta = {3, 0, 0};
  return header;
}

RecordPool pool_of(std::uint64_t count, std::uint64_t size) { return {kPool, count, size}; }

// Areas that are free: those whose ticket nobody has drawn, and those that have been given back and not taken.
std::uint64_t free_areas(const Memory& memory, const RecordPool& pool) {
  return pool.count -
         (memory.get(pool.base + heddle::arch::ring::kTaken) - memory.get(pool.base + heddle::arch::ring::kGiven));
}

}  // namespace heddle::test::moves
