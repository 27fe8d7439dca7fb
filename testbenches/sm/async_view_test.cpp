// What the asynchronous proxy sees of shared memory: bytes of before until a proxy fence publishes them.
#include "sm/async_view.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include "protocol/sm_tmau.h"
#include "sm/bulk_data.h"
#include "sm/shared_memory.h"
#include "support/random.h"

namespace sm_async_view_test {

using namespace heddle;
using namespace heddle::sm;

namespace {

// A window of 64 bytes that warps write byte by byte.
struct Window {
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(64);
  AsyncView view{64};

  void write(std::uint32_t at, std::uint8_t value, std::optional<std::uint32_t> warp) {
    view.will_write(bytes.data(), at, 1, warp);
    bytes[at] = value;
  }
  void bring(std::uint32_t at, std::uint32_t count, std::uint8_t value) {
    std::fill_n(bytes.begin() + at, count, value);
    view.wrote(at, count);
  }
  // The byte that the asynchronous proxy sees; 100 more: it is told that something is old.
  std::uint32_t see(std::uint32_t at) const {
    std::uint8_t seen = 0;
    const std::optional<std::uint32_t> old = view.read(bytes.data(), at, 1, &seen);
    CHECK(old.value_or(at) == at);
    return seen + (old ? 100U : 0U);
  }
};

}  // namespace

TEST_CASE("without a proxy fence bulk requests see old bytes", "[sm][TMA-41]") {
  Window w;
  w.write(5, 7, 0);
  CHECK(w.see(5) == 100);
  CHECK(w.see(4) == 0);
  CHECK(w.see(6) == 0);
  w.write(5, 8, 0);
  CHECK(w.see(5) == 100);  // not the first write either
  w.view.fence(0);
  CHECK(w.see(5) == 8);
  w.write(5, 9, 0);
  CHECK(w.see(5) == 108);
}

TEST_CASE("a fence publishes its own warp's bytes, and those of others before the last synchronisation",
          "[sm][TMA-41]") {
  Window w;
  w.write(0, 1, 0);
  w.write(16, 2, 1);
  w.view.fence(0);
  CHECK(w.see(0) == 1);
  CHECK(w.see(16) == 100);
  w.view.synchronised();
  CHECK(w.see(16) == 100);  // a barrier alone publishes nothing
  w.view.fence(0);
  CHECK(w.see(16) == 2);
  // Two warps side by side: each publishes its own.
  w.write(32, 3, 0);
  w.write(33, 4, 1);
  w.view.fence(0);
  CHECK(w.see(32) == 3);
  CHECK(w.see(33) == 100);
  w.view.fence(1);
  CHECK(w.see(33) == 4);
  // One behind the other: it belongs to who came last.
  w.write(34, 5, 0);
  w.write(34, 6, 1);
  w.view.fence(0);
  CHECK(w.see(34) == 100);
  w.view.fence(1);
  CHECK(w.see(34) == 6);
  // Cleared by one, written by another behind a barrier: its own fence publishes both.
  w.write(35, 7, 0);
  w.write(36, 7, 0);
  w.view.synchronised();
  w.write(35, 8, 1);
  w.view.fence(1);
  CHECK(w.see(35) == 8);
  CHECK(w.see(36) == 7);
  // Another CTA's bytes belong to no warp here.
  w.write(48, 5, std::nullopt);
  w.view.fence(0);
  CHECK(w.see(48) == 100);
  w.view.synchronised();
  w.view.fence(0);
  CHECK(w.see(48) == 5);
}

TEST_CASE("random writes, fences and synchronisations, byte by byte", "[sm][TMA-41]") {
  // Each byte with what it was when it was last published, who wrote it last, and between which synchronisations.
  struct Byte {
    std::uint8_t seen = 0;
    bool stale = false;
    std::optional<std::uint32_t> warp;
    std::uint64_t epoch = 0;
  };
  for (const std::uint64_t seed : heddle::test::seeds(300)) {
    heddle::test::Random random(seed);
    const auto size = static_cast<std::uint32_t>(1 + random.below(100));
    std::vector<std::uint8_t> window(size);
    std::vector<Byte> model(size);
    AsyncView view(size);
    std::uint64_t epoch = 0;
    for (std::uint32_t step = 0; step < 400; ++step) {
      const auto at = static_cast<std::uint32_t>(random.below(size));
      const auto count = static_cast<std::uint32_t>(1 + random.below(size - at));
      const auto warp = static_cast<std::uint32_t>(random.below(4));
      const auto value = static_cast<std::uint8_t>(random.next());
      switch (random.below(8)) {
        case 0:
        case 1:
        case 2: {
          const std::optional<std::uint32_t> who = random.chance(10) ? std::nullopt : std::optional(warp);
          view.will_write(window.data(), at, count, who);
          for (std::uint32_t i = at; i < at + count; ++i) {
            window[i] = value;
            model[i] = {model[i].seen, true, who, epoch};
          }
          break;
        }
        case 3:
          for (std::uint32_t i = at; i < at + count; ++i) {
            window[i] = value;
            model[i] = {value, false, std::nullopt, 0};
          }
          view.wrote(at, count);
          break;
        case 4:
          view.synchronised();
          ++epoch;
          break;
        case 5:
          view.fence(warp);
          for (std::uint32_t i = 0; i < size; ++i) {
            if (model[i].stale && (model[i].warp == warp || model[i].epoch < epoch)) {
              model[i] = {window[i], false, std::nullopt, 0};
            }
          }
          break;
        default: {
          std::vector<std::uint8_t> seen(count);
          std::optional<std::uint32_t> first;
          for (std::uint32_t i = at + count; i-- > at;) {
            if (model[i].stale) first = i;
          }
          if (view.read(window.data(), at, count, seen.data()) != first) FAIL("seed " << seed << " step " << step);
          for (std::uint32_t i = 0; i < count; ++i) {
            if (seen[i] != model[at + i].seen) FAIL("seed " << seed << " step " << step << " byte " << at + i);
          }
        }
      }
    }
  }
}

TEST_CASE("what the asynchronous proxy writes it sees", "[sm][TMA-41]") {
  Window w;
  w.write(0, 1, 0);
  w.bring(0, 16, 9);
  CHECK(w.see(0) == 9);
  w.write(17, 2, 0);
  w.bring(24, 8, 6);
  CHECK(w.see(24) == 6);
  CHECK(w.see(17) == 100);
  w.write(25, 3, 0);
  CHECK(w.see(25) == 106);
  w.bring(25, 1, 4);
  CHECK(w.see(25) == 4);
  w.view.fence(0);
  CHECK(w.see(17) == 2);
}

TEST_CASE("a piece is read as the asynchronous proxy sees it, and says if it is old", "[sm][TMA-41]") {
  SharedMemory shared(4096, 1);
  shared.open(0, 1024);
  const bool watched = GENERATE(false, true);
  if (watched) shared.watch(0);
  arch::Operation store;
  store.code = arch::OpCode::store;
  store.space = arch::Space::shared;
  store.lanes = ~arch::LaneMask{0};
  for (std::uint32_t lane = 0; lane < arch::kWarpLanes; ++lane) {
    store.address[lane] = 4 * lane;
    store.data[lane][0] = 0x0101'0101U * (lane + 1);
  }
  shared.store(0, store, 3);
  protocol::BulkTarget target;
  target.piece.bytes = 128;
  target.piece.inside = arch::ByteMask::first(128);
  const arch::SwizzleTable swizzles;
  std::vector<std::uint8_t> data(128);
  BulkPlaced read = read_piece(shared, 0, swizzles, target, data.data());
  CHECK(read.old == watched);
  CHECK(data[127] == (watched ? 0 : 32));
  CHECK(read.offset == 0);
  shared.proxy_fence(0, 2);
  CHECK(read_piece(shared, 0, swizzles, target, data.data()).old == watched);
  shared.synchronised(0);
  shared.proxy_fence(0, 2);
  read = read_piece(shared, 0, swizzles, target, data.data());
  CHECK_FALSE(read.old);
  CHECK(data[127] == 32);
  // A box that comes is seen at once; an atomic is not.
  shared.atomic(
      0,
      [&store] {
        arch::Operation atomic = store;
        atomic.code = arch::OpCode::atomic;
        atomic.lanes = 1;
        return atomic;
      }(),
      nullptr, 3);
  CHECK(read_piece(shared, 0, swizzles, target, data.data()).old == watched);
  const std::vector<std::uint8_t> box(128, 77);
  CHECK(write_piece(shared, 0, swizzles, target, box.data(), false).status == arch::DsmemStatus::ok);
  read = read_piece(shared, 0, swizzles, target, data.data());
  CHECK_FALSE(read.old);
  CHECK(data == box);
}

}  // namespace sm_async_view_test
