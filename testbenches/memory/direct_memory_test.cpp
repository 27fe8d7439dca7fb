// Pointers of others into device memory, while the device works on it (HST-02).
#include "memory/direct_memory.h"

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "arch/gpu_observation.h"
#include "memory/hbm.h"
#include "memory/l2_slice.h"
#include "memory/memory_bench.h"

namespace heddle::test::memory_direct_memory_test {
namespace {

using memory::DirectMemory;
using memory::Hbm;
using memory::HbmParams;
using memory::L2Params;
using memory::L2Slice;

constexpr std::uint64_t kPage = DirectMemory::kLeastBytes;
constexpr std::uint64_t kPages = 3;
constexpr std::uint32_t kSlices = 4;

// Slices and HBM as in a machine, and somebody outside who asks for pointers.
struct DirectBench {
  explicit DirectBench(TimingMode mode)
      : domain("domain", 1.0, mode, 0, observation),
        map(kPages * kPage, kSlices, 1),
        hbm("hbm", domain, "hbm", HbmParams(), map.bytes(), kSlices) {
    L2Params params;
    params.bytes = std::uint64_t{kSlices} * 64 * 128;
    params.ways = 4;
    params.slices = kSlices;
    params.partitions = 1;
    for (std::uint32_t i = 0; i < kSlices; ++i) {
      slices.push_back(std::make_unique<L2Slice>(
          ("slice" + std::to_string(i)).c_str(), domain, "l2.slice" + std::to_string(i), params, map, i,
          memory::L2IngressPorts::crossbar, memory::SliceSurroundings{nullptr, {}, &hbm.direct()}));
      initiators.push_back(std::make_unique<TestInitiator>(("initiator" + std::to_string(i)).c_str(), domain));
      initiators.back()->out.bind(slices.back()->request_in);
      slices.back()->memory_out.bind(hbm.in(i));
    }
    hbm.direct().on_end([this](std::uint64_t first, std::uint64_t last) {
      const auto found = pieces.find(first);
      REQUIRE(found != pieces.end());
      REQUIRE(found->second.last == last);
      pieces.erase(found);
      ++ended;
    });
    start();
  }

  // As the top level does it.
  bool ask(std::uint64_t address, std::uint64_t bytes = kPage) {
    DirectMemory::Range range = hbm.direct().piece_of(address, bytes);
    if (const auto granted = hbm.direct().granted(address)) range = *granted;
    for (const auto& slice : slices) {
      if (slice->busy_with(range.first, range.last)) return false;
    }
    for (const auto& slice : slices) {
      if (!slice->clean_invalidate(range.first, range.last)) return false;
    }
    pieces.erase(pieces.lower_bound(range.first), pieces.upper_bound(range.last));
    pieces[range.first] = {range.last, hbm.direct().grant(range)};
    return true;
  }
  // Through the pointer that has the address; null: there is none.
  std::uint8_t* at(std::uint64_t address) {
    auto found = pieces.upper_bound(address);
    if (found == pieces.begin() || (--found)->second.last < address) return nullptr;
    return found->second.bytes + (address - found->first);
  }
  protocol::MemoryRequest& plain(tlm::tlm_command command, std::uint64_t address, std::uint32_t bytes) {
    protocol::MemoryRequest& request = pool.acquire();
    request.aim(command, address, bytes);
    return request;
  }
  TestInitiator& initiator_of(std::uint64_t address) { return *initiators[map.slice_of(address)]; }

  SimFixture fixture;
  GpuObservation observation{"gpu0"};
  Domain domain;
  protocol::RequestPool pool;
  arch::AddressMap map;
  Hbm hbm;
  std::vector<std::unique_ptr<L2Slice>> slices;
  std::vector<std::unique_ptr<TestInitiator>> initiators;
  struct Piece {
    std::uint64_t last = 0;
    std::uint8_t* bytes = nullptr;
  };
  std::map<std::uint64_t, Piece> pieces;  // by first byte
  std::uint64_t ended = 0;
};

}  // namespace

TEST_CASE("a pointer shows what the device has written, and the device what was written there", "[memory][HST-02]") {
  DirectBench bench(TimingMode::at);
  auto& write = bench.plain(tlm::TLM_WRITE_COMMAND, 300, 3);  // parts of a sector: dirty in the cache only
  write.data.fill(0x42);
  bench.initiator_of(300).send(write, 0);
  run_until_idle();
  REQUIRE(bench.ask(300));
  std::uint8_t* page = bench.at(0);
  CHECK(page[299] == 0);
  CHECK(page[300] == 0x42);
  CHECK(page[302] == 0x42);
  CHECK(page[303] == 0);
  page[301] = 0x99;
  CHECK(bench.hbm.direct().any());
  std::uint8_t seen = 0;
  bench.initiator_of(300).on_response = [&](protocol::MemoryRequest& request, Cycle) { seen = request.data[1]; };
  bench.initiator_of(300).send(bench.plain(tlm::TLM_READ_COMMAND, 300, 3), bench.domain.now());
  run_until_idle();
  CHECK(seen == 0x99);
  CHECK(bench.pieces.empty());
  CHECK_FALSE(bench.hbm.direct().any());
}

TEST_CASE("a write that would stay in the cache ends a grant as well", "[memory][HST-02]") {
  DirectBench bench(TimingMode::lt);
  REQUIRE(bench.ask(kPage + 5));
  auto& whole = bench.plain(tlm::TLM_WRITE_COMMAND, 2 * kPage - 128, 128);
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  bench.initiator_of(whole.get_address()).out.blocking(whole, delay);
  CHECK(bench.pieces.empty());
  // Other pages stay; debug accesses end nothing.
  REQUIRE(bench.ask(0));
  bench.initiator_of(kPage).out.blocking(bench.plain(tlm::TLM_WRITE_COMMAND, kPage, 128), delay);
  auto& debug = bench.plain(tlm::TLM_WRITE_COMMAND, 64, 4);
  debug.data.fill(0x21);
  REQUIRE(bench.initiator_of(64).out.debug(debug) == 4);
  REQUIRE(bench.pieces.size() == 1);
  CHECK(*bench.at(67) == 0x21);
  // Past the caches.
  std::vector<std::uint64_t> ends;
  bench.hbm.direct().on_end([&](std::uint64_t first, std::uint64_t) { ends.push_back(first); });
  REQUIRE(bench.ask(2 * kPage));
  bench.hbm.direct().end_all();
  CHECK(ends == std::vector<std::uint64_t>{0, 2 * kPage});
}

TEST_CASE("no pointer while the caches work on the page", "[memory][HST-02]") {
  DirectBench bench(TimingMode::at);
  bench.initiator_of(640).send(bench.plain(tlm::TLM_READ_COMMAND, 640, 32), 0);
  std::uint32_t refused = 0;
  bool done = false;
  bench.initiator_of(640).on_response = [&](protocol::MemoryRequest&, Cycle) { done = true; };
  for (std::uint32_t ns = 1; !done; ++ns) {
    run_until(sc_core::sc_time(ns, sc_core::SC_NS));
    const memory::L2Slice& slice = *bench.slices[bench.map.slice_of(640)];
    if (slice.busy_with(0, kPage - 1)) ++refused;
    REQUIRE(ns < 10'000);
  }
  CHECK(refused > 100);  // the time that memory takes
  CHECK_FALSE(bench.slices[bench.map.slice_of(640)]->busy_with(kPage, 2 * kPage - 1));
  run_until_idle();
  CHECK(bench.ask(640));
  // Corrupt bytes stay with the slice that knows of them.
  bench.slices[bench.map.slice_of(kPage + 128)]->poison(kPage + 128, 32);
  CHECK_FALSE(bench.ask(kPage));
}

TEST_CASE("random traffic of the device and through pointers: nothing is lost", "[memory][HST-02]") {
  std::uint64_t ended = 0;
  std::uint64_t granted = 0;
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    for (const std::uint64_t seed : seeds(4)) {
      CAPTURE(seed, mode == TimingMode::at);
      Random dice(seed);
      DirectBench bench(mode);
      std::vector<std::uint8_t> flat(kPages * kPage, 0);
      std::uint32_t open = 0;
      std::vector<std::vector<std::uint8_t>> expected;
      std::uint64_t time = 0;
      for (auto& initiator : bench.initiators) {
        initiator->on_response = [&](protocol::MemoryRequest& request, Cycle) {
          --open;
          REQUIRE(request.is_response_ok());
          if (!request.is_read()) return;
          const auto& bytes = expected[request.extension.entry];
          REQUIRE(std::equal(bytes.begin(), bytes.end(), request.data.begin()));
        };
      }
      for (std::uint32_t round = 0; round < 1500; ++round) {
        // Few lines of each page, so that both sides meet.
        const std::uint64_t line = dice.below(kPages) * kPage + dice.below(24) * 640;
        const std::uint32_t offset = dice.below(128);
        const std::uint32_t bytes = dice.chance(40) ? 128 - offset : dice.between(1, 128 - offset);
        const std::uint64_t address = line + offset;
        if (dice.chance(50)) {
          const bool write = dice.chance(60);
          auto& request = bench.plain(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, address, bytes);
          if (write) {
            for (auto& byte : request.data) byte = static_cast<std::uint8_t>(dice.next());
            std::copy_n(request.data.begin(), bytes, flat.begin() + static_cast<std::ptrdiff_t>(address));
          }
          request.extension.entry = static_cast<std::uint32_t>(expected.size());
          expected.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(address),
                                flat.begin() + static_cast<std::ptrdiff_t>(address + bytes));
          if (mode == TimingMode::at) {
            ++open;
            bench.initiator_of(address).send(request, bench.domain.now());
          } else {
            sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
            bench.initiator_of(address).out.blocking(request, delay);
            if (!write) REQUIRE(std::equal(expected.back().begin(), expected.back().end(), request.data.begin()));
          }
          if (dice.chance(80)) continue;
        }
        if (mode == TimingMode::at && open > 0) {
          // Requests that have not arrived yet end a grant when they do: the pointer is only asked for, and used, when
          // the device has come to rest, or not at all.
          time += dice.below(2000);
          run_until(sc_core::sc_time(static_cast<double>(time), sc_core::SC_NS));
          if (bench.pieces.empty() && bench.ask(address, kPage << dice.below(3))) ++granted;
          run_until_idle();
          time = static_cast<std::uint64_t>(sc_core::sc_time_stamp().to_seconds() * 1e9) + 1;
          REQUIRE(open == 0);
        }
        if (bench.at(address) == nullptr) {
          REQUIRE(bench.ask(address, kPage << dice.below(3)));
          ++granted;
        }
        std::uint8_t* here = bench.at(address);
        for (std::uint32_t i = 0; i < bytes; ++i) {
          REQUIRE(here[i] == flat[address + i]);
          if (dice.chance(50)) here[i] = flat[address + i] = static_cast<std::uint8_t>(dice.next());
        }
      }
      run_until_idle();
      ended += bench.ended;
      for (std::uint64_t page = 0; page < kPages; ++page) {
        if (bench.at(page * kPage) == nullptr) REQUIRE(bench.ask(page * kPage));
        REQUIRE(std::equal(bench.at(page * kPage), bench.at(page * kPage) + kPage,
                           flat.begin() + static_cast<std::ptrdiff_t>(page * kPage)));
      }
    }
  }
  CHECK(ended > 1000);
  CHECK(granted > 1000);
}

TEST_CASE("pieces are large until the device works in them, and grow again", "[memory][HST-02]") {
  constexpr std::uint64_t kBlock = DirectMemory::kMostBytes;
  Storage storage(3 * kBlock + 100);
  DirectMemory direct(storage);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ends;
  direct.on_end([&](std::uint64_t first, std::uint64_t last) { ends.emplace_back(first, last); });
  const auto ask = [&](std::uint64_t address) {
    const DirectMemory::Range piece =
        direct.granted(address).value_or(direct.piece_of(address, direct.piece_bytes(address)));
    REQUIRE(direct.grant(piece) == storage.range_of(piece.first, 1));
    return piece;
  };
  DirectMemory::Range piece = ask(kBlock + 5);
  CHECK(piece.first == kBlock);
  CHECK(piece.last == 2 * kBlock - 1);
  piece = ask(kBlock + kPage);  // the same again
  CHECK(piece.last == 2 * kBlock - 1);
  piece = ask(3 * kBlock + 7);
  CHECK(piece.last == 3 * kBlock + 99);
  // Every byte of a piece is reached by its pointer.
  std::uint8_t* bytes = direct.grant({kBlock, 2 * kBlock - 1});
  for (std::uint64_t i = 0; i < kBlock; i += 1021) bytes[i] = static_cast<std::uint8_t>(i);
  for (std::uint64_t i = 0; i < kBlock; i += 1021) {
    std::uint8_t seen = 0;
    storage.read(kBlock + i, &seen, 1);
    if (seen != static_cast<std::uint8_t>(i)) FAIL("byte " << i);
  }
  direct.end(kBlock - 1, 1);  // beside it
  CHECK(ends.empty());
  direct.end(kBlock - 1, 2);
  REQUIRE(ends.size() == 1);
  CHECK(ends[0] == std::make_pair(kBlock, 2 * kBlock - 1));
  CHECK(direct.any());
  CHECK_FALSE(direct.granted(kBlock));
  // Twice as much each time, until something ends again.
  std::uint64_t at = kBlock;
  for (std::uint64_t expected = kPage; expected <= kBlock; expected *= 2) {
    piece = ask(at);
    CHECK(piece.first == kBlock);  // those before are a part of it
    CHECK(piece.last - piece.first + 1 == expected);
    at = piece.last + 1;
  }
  direct.end(kBlock + kPage, 1);
  ends.clear();
  CHECK(direct.piece_bytes(kBlock) == kPage);
  CHECK(direct.piece_bytes(0) == kBlock);
  direct.end_all();
  CHECK_FALSE(direct.any());
  CHECK(direct.piece_bytes(kBlock) == kBlock);
}

TEST_CASE("pieces that cannot be granted become smaller, and only those that were asked for grow", "[memory][HST-02]") {
  constexpr std::uint64_t kBlock = DirectMemory::kMostBytes;
  Storage storage(2 * kBlock);
  DirectMemory direct(storage);
  for (std::uint64_t expected = kBlock / 2; expected >= kPage; expected /= 2) {
    direct.refuse(kBlock + 5);
    CHECK(direct.piece_bytes(kBlock) == expected);
    CHECK(direct.piece_bytes(0) == kBlock);
  }
  direct.refuse(kBlock);
  CHECK(direct.piece_bytes(kBlock) == kPage);
  (void)direct.grant(direct.piece_of(kBlock, kPage));
  CHECK(direct.piece_bytes(kBlock) == 2 * kPage);
  (void)direct.grant(direct.piece_of(kBlock + 4 * kPage, kPage));  // smaller than what was to be asked for
  CHECK(direct.piece_bytes(kBlock) == 2 * kPage);
  (void)direct.grant(direct.piece_of(kBlock + 6 * kPage, 2 * kPage));
  CHECK(direct.piece_bytes(kBlock) == 4 * kPage);
}

TEST_CASE("whoever is told of an end may end other grants", "[memory][HST-02]") {
  Storage storage(8 * kPage);
  DirectMemory direct(storage);
  std::map<std::uint64_t, int> ends;
  direct.on_end([&](std::uint64_t first, std::uint64_t) {
    ++ends[first];
    direct.end_all();
  });
  for (std::uint64_t page = 0; page < 4; ++page) (void)direct.grant(direct.piece_of(page * kPage, kPage));
  direct.end(kPage, 2 * kPage);
  CHECK(ends == std::map<std::uint64_t, int>{{0, 1}, {kPage, 1}, {2 * kPage, 1}, {3 * kPage, 1}});
  CHECK_FALSE(direct.any());
}

TEST_CASE("bytes that become corrupt end their grant, and are granted to nobody", "[memory][HST-02][MEM-04]") {
  DirectBench bench(TimingMode::at);
  REQUIRE(bench.ask(300));
  REQUIRE(bench.ask(kPage + 300));
  bench.slices[bench.map.slice_of(300)]->poison(300, 1);
  CHECK(bench.at(300) == nullptr);
  CHECK_FALSE(bench.hbm.direct().granted(300));
  CHECK_FALSE(bench.ask(300));
  CHECK(bench.at(kPage + 300) != nullptr);
}

TEST_CASE("a reserved piece of storage takes no memory before it is touched", "[memory][SM-04]") {
  Storage storage(std::uint64_t{1} << 40);
  std::uint8_t* bytes = storage.range_of(std::uint64_t{1} << 39, DirectMemory::kMostBytes);
  CHECK(storage.resident() == DirectMemory::kMostBytes);
  CHECK(std::all_of(bytes, bytes + DirectMemory::kMostBytes, [](std::uint8_t byte) { return byte == 0; }));
  bytes[77] = 5;
  storage.fill(std::uint64_t{1} << 39, 0, DirectMemory::kMostBytes);
  CHECK(bytes[77] == 0);  // where it was, and zero
  bytes[78] = 6;
  storage.fill(0, 0, storage.bytes());
  CHECK(bytes[78] == 0);
  bytes[79] = 7;
  std::uint8_t seen = 0;
  storage.read((std::uint64_t{1} << 39) + 79, &seen, 1);
  CHECK(seen == 7);
  CHECK_THROWS_AS(storage.range_of(Storage::kLeafBytes - 1, 2), CheckFailed);
  CHECK_THROWS_AS(storage.range_of((std::uint64_t{1} << 40) - 1, 2), CheckFailed);
}

}  // namespace heddle::test::memory_direct_memory_test
