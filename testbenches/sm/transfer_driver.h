// A CTA's way to memory and back, driven access by access over a memory of words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sm/context_transfer.h"
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
constexpr std::uint64_t kRecord = 0x500;  // TMD of the CTAs
constexpr std::uint64_t kPool = 0x1000;
constexpr std::uint64_t kLocal = 0x40'000;   // of the SM that saves
constexpr std::uint64_t kLocal2 = 0x50'000;  // of the one that restores
constexpr std::uint64_t kMemory = 0x60'000;

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
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kMemory);
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
  header.record = kRecord;
  header.context = context;
  header.bytes = bytes;
  header.index = 3;
  header.cta = {3, 0, 0};
  return header;
}

RecordPool pool_of(std::uint64_t chunks) { return {kPool, chunks, heddle::arch::kSaveChunk}; }

using Parts = std::vector<ContextTransfer::Local>;

// The save of a CTA of SM 4, whose context is its own unless `shared`.
Driven save_of(const RecordPool& pool, const std::vector<std::uint8_t>& state, const Parts& local = {},
               bool shared = false, bool counted = false, std::uint64_t context = kContext, std::uint32_t sm = 4) {
  SavedHeader header = header_for(state.size(), context);
  for (const ContextTransfer::Local& part : local) header.local += static_cast<std::uint32_t>(part.bytes);
  using Kind = ContextTransfer::Home::Kind;
  const ContextTransfer::Home home{shared ? Kind::shared : Kind::own, home_of_sm(sm), counted};
  return {ContextTransfer::save(pool, header, state, home, local), {}, {}, {}};
}
Driven restore_of(const RecordPool& pool, std::uint64_t area, const Parts& local = {}) {
  return {ContextTransfer::restore(pool, area, local), {}, {}, {}};
}

// As many of the pool's chunks are free, each once; none is counted that is not in use.
void check_free(const Memory& memory, const RecordPool& pool, std::uint64_t count) {
  const std::uint64_t taken = memory.get(pool.base + heddle::arch::ring::kTaken);
  REQUIRE(memory.get(pool.base + heddle::arch::ring::kUsed) == pool.count - count);
  REQUIRE(taken - memory.get(pool.base + heddle::arch::ring::kGiven) == pool.count - count);
  std::set<std::uint64_t> free;
  for (std::uint64_t ticket = taken; ticket < taken + count; ++ticket) {
    const std::uint64_t chunk = ticket < pool.count ? pool.record(ticket) : memory.get(pool.slot(ticket));
    REQUIRE(pool.has(chunk));
    free.insert(chunk);
  }
  REQUIRE(free.size() == count);
}

// Chunks are taken and given back so often that their order is any.
void stir(Memory& memory, const RecordPool& pool, Random& random) {
  for (std::uint32_t round = 0; round < 4; ++round) {
    std::vector<std::uint64_t> areas;
    while (true) {
      memory.put(kHome, home_of_sm(4));
      const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(9000, 4096 * pool.count - 300));
      Driven saver = save_of(pool, std::vector<std::uint8_t>(random.between(1, most), 1));
      saver.run(memory);
      if (saver.move.outcome() != Outcome::saved) break;
      areas.push_back(saver.move.area());
    }
    while (!areas.empty()) {
      const std::size_t which = random.below(areas.size());
      Driven restorer = restore_of(pool, areas[which]);
      restorer.run(memory);
      areas.erase(areas.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
}

// Up to three places, of any sizes and apart from each other.
Parts some_parts(Random& random, std::uint64_t base, const Parts* like = nullptr) {
  Parts parts;
  const std::size_t count = like == nullptr ? random.below(4) : like->size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bytes = like == nullptr ? 16 * std::uint64_t{random.between(1, 300)} : (*like)[i].bytes;
    parts.push_back({base + 0x2000 * i + 16 * std::uint64_t{random.below(100)}, bytes});
  }
  return parts;
}
std::vector<std::uint8_t> content(const Memory& memory, const Parts& parts) {
  std::vector<std::uint8_t> bytes;
  for (const ContextTransfer::Local& part : parts) {
    const auto begin = memory.bytes.begin() + static_cast<std::ptrdiff_t>(part.address);
    bytes.insert(bytes.end(), begin, begin + static_cast<std::ptrdiff_t>(part.bytes));
  }
  return bytes;
}
void fill(Memory& memory, const Parts& parts, Random& random) {
  for (const ContextTransfer::Local& part : parts) {
    for (std::uint64_t i = 0; i < part.bytes; ++i) {
      memory.bytes[part.address + i] = static_cast<std::uint8_t>(random.next());
    }
  }
}

}  // namespace heddle::test::moves
