// The memory side of an SM and a TMAU: data for windows, bytes out of them, sends between CTAs.
#include <array>
#include <cstring>
#include <optional>

#include <catch2/catch.hpp>

#include "sm/bulk_bench.h"

namespace sm_memory_bulk_test {

using namespace heddle;
using namespace heddle::test;
using arch::AtomicKind;
using arch::DsmemStatus;
using arch::ValueType;
using protocol::MemoryRequest;

namespace {

constexpr Cycle kShared = 29;  // shared_latency

}  // namespace

TEST_CASE("a line of bulk data takes the port one cycle, and its mbarrier sees the bytes", "[sm][TMA-40][TMA-21]") {
  BulkBench bench;
  bench.expect(0, 2, 256);
  for (const std::uint32_t at : {256U, 384U}) {
    MemoryRequest& request = bench.piece(at, 128);
    BulkBench::target_of(request).barrier = kBulkBarrier;
    bench.deliver(request);
    CHECK(bench.holds(0, 2, at, 128));
  }
  CHECK(bench.barrier(0, 2).parity == 1);
  // The phase is over when the second line has had its turn.
  const auto& changes = bench.sms[0]->changes;
  REQUIRE(changes.size() == 1);
  CHECK(changes.back().offset == kBulkBarrier);
  CHECK(changes.back().window == 2);
  CHECK(changes.back().when == 1);
  CHECK(bench.stats().bulk_pieces.value() == 2);
  CHECK(bench.stats().bulk_bytes.value() == 256);
  CHECK(bench.stats().bulk_conflicts.value() == 0);
  CHECK(bench.pool.in_use() == 0);
  // What issues next finds the port taken.
  CHECK(bench.unit().port.take(0, 1) == 2);
}

namespace {

// Lines of one request that calls have read, for CTA 0 or others; line i arrives at 10 * (i + 1), the last first.
struct Lines {
  explicit Lines(std::uint32_t count, std::uint32_t shared = 256) {
    lines.target.cta_slot = protocol::CtaSlot(2);
    lines.target.cga_id = kThreeCtas;
    lines.target.sequence = 1;
    lines.target.barrier = kBulkBarrier;
    lines.count = count;
    for (std::uint32_t i = 0; i < count; ++i) {
      lines.pieces[i] = {0x1000, shared + 128 * i, 128, arch::ByteMask::first(128)};
      for (std::uint32_t byte = 0; byte < 128; ++byte) lines.bytes[i][byte] = static_cast<std::uint8_t>(1 + byte);
      arrivals[i] = 10 * (count - i);
    }
    lines.last = arrivals[0];
    lines.arrivals = arrivals.data();
  }
  void go_to(BulkBench& bench, std::uint32_t sm = 0) {
    protocol::BulkDataPacket packet;
    packet.sm = protocol::SmInGpc(sm);
    packet.lines = &lines;
    bench.unit(sm).bulk.on_data_ahead(packet, 0, lines.last + 100);
    lines.bytes.fill({});  // they are the sender's
  }
  protocol::BulkLines lines;
  std::array<Cycle, protocol::BulkLines::kMost> arrivals{};
};

}  // namespace

TEST_CASE("lines without payloads count at the mbarrier when the last of them arrives", "[sm][TMA-40][TMA-21]") {
  BulkBench bench;
  bench.expect(0, 2, 512);
  Lines(4).go_to(bench);
  run_until(bench.domain.clock().time_of(139));
  CHECK(bench.barrier(0, 2).parity == 0);
  // What comes at 110, 120 and 130 has taken the port.
  CHECK(bench.unit().port.take(130, 1) == 131);
  run_until_idle();
  CHECK(bench.barrier(0, 2).parity == 1);
  for (const std::uint32_t at : {256U, 384U, 512U, 640U}) CHECK(bench.holds(0, 2, at, 128));
  REQUIRE(bench.sms[0]->changes.size() == 1);
  CHECK(bench.sms[0]->changes[0].when == 140);
  CHECK(bench.stats().bulk_pieces.value() == 4);
  CHECK(bench.stats().bulk_bytes.value() == 512);
  CHECK(bench.stats().bulk_port.value() == 4);
  CHECK(bench.stats().shared_wavefronts.value() == 4);
}

TEST_CASE("a phase that a part of the lines ends does not miss it", "[sm][TMA-40][CGA-14]") {
  BulkBench bench;
  bench.expect(0, 2, 256);
  Lines(4).go_to(bench);
  run_until_idle();
  CHECK(bench.barrier(0, 2).parity == 1);
  CHECK(bench.barrier(0, 2).tx == -256);
  CHECK(bench.sms[0]->changes.size() == 1);
  CHECK(bench.stats().bulk_pieces.value() == 4);
}

TEST_CASE("lines on their way find what has become of their receiver", "[sm][TMA-40][CGA-07][CGA-09]") {
  BulkBench bench;
  SECTION("it has released what they were for") {
    bench.expect(0, 2, 512);
    Lines(4).go_to(bench);
    bench.memory(0).release(2, 512);
    run_until_idle();
    REQUIRE(bench.failures().size() == 2);
    CHECK(bench.failures()[0].status == DsmemStatus::out_of_range);
    CHECK(bench.failures()[0].offset == 512);
    CHECK(bench.barrier(0, 2).tx == 256);
    CHECK(bench.stats().bulk_pieces.value() == 2);
  }
  SECTION("it has gone") {
    Lines lines(2);
    lines.lines.target.by_rank = true;
    lines.lines.target.ctas = 0b101;
    bench.expect(0, 2, 256);
    bench.expect(0, 5, 256);
    lines.go_to(bench);
    bench.sms[0]->tables.invalidate(5);
    bench.memory(0).close(5);
    bench.memory(0).open(5, 4'096);  // by another CTA
    run_until_idle();
    CHECK(bench.barrier(0, 2).parity == 1);
    CHECK(bench.bytes(0, 5)[256] == 0);
    REQUIRE(bench.failures().size() == 2);
    CHECK(bench.failures()[0].status == DsmemStatus::cta_not_present);
    CHECK(bench.failures()[0].rank == 2);
  }
  SECTION("it had not come when they were read") {
    bench.memory(0).close(2);
    Lines(2).go_to(bench);
    bench.memory(0).open(2, 4'096);
    bench.expect(0, 2, 256);
    run_until_idle();
    CHECK(bench.failures().empty());
    CHECK(bench.barrier(0, 2).parity == 1);
    CHECK(bench.holds(0, 2, 256, 128));
    CHECK(bench.holds(0, 2, 384, 128));
    CHECK(bench.stats().bulk_pieces.value() == 2);
  }
  SECTION("they do not fit") {
    Lines(2, 4'096 - 128).go_to(bench);
    bench.expect(0, 2, 256);
    run_until_idle();
    REQUIRE(bench.failures().size() == 1);
    CHECK(bench.failures()[0].status == DsmemStatus::out_of_range);
    CHECK(bench.holds(0, 2, 4'096 - 128, 128));
    CHECK(bench.barrier(0, 2).tx == 128);
  }
}

TEST_CASE("a line that lies across two rows takes two cycles, and swizzled rows one", "[sm][TMA-21][TMA-20]") {
  BulkBench bench;
  bench.deliver(bench.piece(264, 128));
  CHECK(bench.stats().bulk_conflicts.value() == 1);
  CHECK(bench.stats().bulk_port.value() == 2);
  CHECK(bench.unit().port.take(0, 1) == 2);
  for (std::uint32_t row = 0; row < 8; ++row) {
    MemoryRequest& request = bench.piece(1'024 + 128 * row, 128);
    BulkBench::target_of(request).swizzle = arch::Swizzle::bytes128;
    bench.deliver(request);
  }
  CHECK(bench.stats().bulk_conflicts.value() == 1);
  CHECK(bench.stats().bulk_port.value() == 2 + 8);
  CHECK(bench.stats().shared_wavefronts.value() == bench.stats().bulk_port.value());
  CHECK(bench.bytes(0, 2)[1'024 + 128 * 3 + 16 * 2] == 1 + 16);  // unit 1 of row 3
}

TEST_CASE("who waits for an mbarrier looks again when bulk data cover it", "[sm][TMA-40][CGA-14]") {
  BulkBench bench;
  bench.expect(0, 2, 256, 1'024 + 64);
  bench.deliver(bench.piece(512, 128));
  CHECK(bench.sms[0]->changes.empty());
  bench.deliver(bench.piece(1'024, 128));
  REQUIRE(bench.sms[0]->changes.size() == 1);
  CHECK(bench.sms[0]->changes[0].window == 2);
  CHECK(bench.sms[0]->changes[0].when == 1);
  bench.deliver(bench.piece(1'024 - 64, 96));  // into the line, from the one before
  CHECK(bench.sms[0]->changes.size() == 2);
  // Another CTA that gets the window has none.
  bench.memory(0).close(2);
  bench.memory(0).open(2, 4'096);
  bench.deliver(bench.piece(1'024, 128));
  CHECK(bench.sms[0]->changes.size() == 2);
}

TEST_CASE("filled bytes count for the mbarrier as others do", "[sm][TMA-40][TMA-13]") {
  BulkBench bench;
  bench.expect(0, 2, 128);
  MemoryRequest& request = bench.piece(512, 128);
  protocol::BulkTarget& target = BulkBench::target_of(request);
  target.tensor = true;
  target.type = arch::TensorType::f16;
  target.fill = arch::Fill::nan;
  target.barrier = kBulkBarrier;
  target.piece.inside = arch::ByteMask::range(32, 48);
  bench.deliver(request);
  CHECK(bench.barrier(0, 2).parity == 1);
  CHECK(bench.bytes(0, 2)[512] == 0xFF);
  CHECK(bench.bytes(0, 2)[513] == 0x7F);
  CHECK(bench.holds(0, 2, 512 + 32, 16));
  CHECK(bench.bytes(0, 2)[512 + 48] == 0xFF);
}

TEST_CASE("each receiver on an SM gets the data at its own window, and its own mbarrier", "[sm][TMA-31][TMA-40]") {
  BulkBench bench;
  bench.expect(0, 2, 128);
  bench.expect(0, 5, 128);
  MemoryRequest& request = bench.piece(640, 128, 50);
  protocol::BulkTarget& target = BulkBench::target_of(request);
  target.by_rank = true;
  target.ctas = 0b111;  // CTA 1 is on the other SM
  target.barrier = kBulkBarrier;
  request.acquire();  // the crossbar duplicates references
  bench.deliver(request, 0);
  CHECK(bench.holds(0, 2, 640, 128, 50));
  CHECK(bench.holds(0, 5, 640, 128, 50));
  CHECK(bench.bytes(1, 0)[640] == 0);
  CHECK(bench.barrier(0, 2).parity == 1);
  CHECK(bench.barrier(0, 5).parity == 1);
  CHECK(bench.stats().bulk_pieces.value() == 2);
  CHECK(bench.sms[0]->changes.back().when == 1);  // one after the other
  bench.expect(1, 0, 256);
  bench.deliver(request, 1);
  CHECK(bench.holds(1, 0, 640, 128, 50));
  CHECK(bench.barrier(1, 0).parity == 0);
  CHECK(bench.barrier(1, 0).tx == 128);
  CHECK(bench.pool.in_use() == 0);
  CHECK(bench.failures().empty());
}

TEST_CASE("a receiver that cannot take the data says so, and its mbarrier does not see them", "[sm][TMA-40]") {
  BulkBench bench({}, 1'000);
  bench.expect(0, 2, 128);
  bench.expect(0, 5, 128);
  const auto piece = [&bench](std::uint32_t at, std::uint16_t ctas, std::uint32_t number) -> MemoryRequest& {
    MemoryRequest& request = bench.piece(at, 128, 9);
    protocol::BulkTarget& target = BulkBench::target_of(request);
    target.by_rank = ctas != 0;
    target.ctas = ctas;
    target.barrier = kBulkBarrier;
    target.request = number;
    return request;
  };
  // The last bytes are beyond the window: nothing is written.
  bench.deliver(piece(896, 0, 1));
  REQUIRE(bench.failures().size() == 1);
  CHECK(bench.failures()[0].status == DsmemStatus::out_of_range);
  CHECK(bench.failures()[0].offset == 1'000);
  CHECK(bench.failures()[0].request == 1);
  CHECK(bench.bytes(0, 2)[896] == 0);
  CHECK(bench.barrier(0, 2).tx == 128);
  // One of two receivers has given that part back.
  bench.memory(0).release(5, 512);
  bench.deliver(piece(512, 0b101, 2));
  REQUIRE(bench.failures().size() == 2);
  CHECK(bench.failures()[1].status == DsmemStatus::out_of_range);
  CHECK(bench.failures()[1].rank == 2);
  CHECK(bench.failures()[1].offset == 512);
  CHECK(bench.holds(0, 2, 512, 128, 9));
  CHECK(bench.barrier(0, 2).parity == 1);
  CHECK(bench.barrier(0, 5).tx == 128);
  // One has exited.
  bench.sms[0]->tables.invalidate(5);
  bench.deliver(piece(256, 0b100, 3));
  REQUIRE(bench.failures().size() == 3);
  CHECK(bench.failures()[2].status == DsmemStatus::cta_not_present);
  CHECK(bench.failures()[2].rank == 2);
  CHECK(bench.bytes(0, 5)[256] == 0);
  // No mbarrier there: the data are written all the same.
  MemoryRequest& request = piece(128, 0, 4);
  BulkBench::target_of(request).barrier = 64;
  bench.deliver(request);
  REQUIRE(bench.failures().size() == 4);
  CHECK(bench.failures()[3].status == DsmemStatus::mbarrier);
  CHECK(bench.failures()[3].offset == 64);
  CHECK(bench.holds(0, 2, 128, 128, 9));
  CHECK(bench.pool.in_use() == 0);
}

TEST_CASE("corrupt data poison what they are written to, and the mbarrier completes", "[sm][TMA-40][CGA-08]") {
  BulkBench bench;
  bench.expect(0, 2, 256);
  MemoryRequest& request = bench.piece(512, 128);
  request.extension.poisoned = true;
  BulkBench::target_of(request).barrier = kBulkBarrier;
  bench.deliver(request);
  CHECK(bench.holds(0, 2, 512, 128));
  CHECK(bench.memory(0).poisoned(2, 512, 1));
  CHECK(bench.memory(0).poisoned(2, 639, 1));
  CHECK_FALSE(bench.memory(0).poisoned(2, 511, 1));
  CHECK_FALSE(bench.memory(0).poisoned(2, 640, 1));
  MemoryRequest& sound = bench.piece(512, 128);
  BulkBench::target_of(sound).barrier = kBulkBarrier;
  bench.deliver(sound);
  CHECK_FALSE(bench.memory(0).poisoned(2, 512, 128));
  CHECK(bench.barrier(0, 2).parity == 1);
  CHECK(bench.failures().empty());
}

TEST_CASE("bytes for a store are read over the port and are there a shared latency later", "[sm][TMA-01][TMA-20]") {
  BulkBench bench;
  for (std::uint32_t i = 0; i < 128; ++i) bench.bytes(0, 2)[512 + i] = static_cast<std::uint8_t>(i + 1);
  MemoryRequest& whole = bench.piece(512, 128, 0);
  bench.read(whole);
  // The second one has a hole, and begins at byte 16.
  MemoryRequest& holes = bench.piece(512, 128, 0);
  protocol::BulkTarget& target = BulkBench::target_of(holes);
  target.swizzle = arch::Swizzle::bytes128;  // row 4: units 4 to 7 come first
  target.piece.inside = arch::ByteMask::range(16, 48);
  target.piece.inside |= arch::ByteMask::range(64, 96);
  bench.read(holes);
  run_until_idle();
  REQUIRE(bench.answers().size() == 2);
  CHECK(bench.answers()[0].packet.request == &whole);
  CHECK_FALSE(bench.answers()[0].packet.failed);
  CHECK(bench.answers()[0].when == kShared);
  CHECK(bench.answers()[1].when == 1 + kShared);
  CHECK(whole.data[0] == 1);
  CHECK(whole.data[127] == 128);
  CHECK(whole.get_byte_enable_ptr() == nullptr);
  CHECK(holes.data[0] == 16 * 5 + 1);  // unit 1 lies at 5
  CHECK(holes.data[32] == 0);          // not inside
  CHECK(holes.data[48] == 1);          // unit 4 lies at 0
  REQUIRE(holes.get_byte_enable_ptr() != nullptr);
  CHECK(holes.get_byte_enable_length() == 80);
  for (std::uint32_t i = 0; i < 80; ++i) {
    CHECK(holes.get_byte_enable_ptr()[i] == (i >= 32 && i < 48 ? 0 : 0xFF));
  }
  whole.release();
  holes.release();
}

TEST_CASE("corrupt bytes are not stored, and those beyond the window are an error", "[sm][TMA-01][CGA-08]") {
  BulkBench bench({}, 1'000);
  bench.memory(0).poison(2, 600, 1);
  MemoryRequest& corrupt = bench.piece(512, 128);
  bench.read(corrupt);
  MemoryRequest& outside = bench.piece(896, 128);
  bench.read(outside);
  run_until_idle();
  REQUIRE(bench.answers().size() == 2);
  CHECK(bench.answers()[0].packet.failed);
  CHECK(bench.answers()[1].packet.failed);
  REQUIRE(bench.failures().size() == 1);
  CHECK(bench.failures()[0].status == DsmemStatus::out_of_range);
  CHECK(bench.failures()[0].offset == 1'000);
  corrupt.release();
  outside.release();
}

TEST_CASE("a send reaches another SM, completes its mbarrier, and is answered", "[sm][TMA-01][TMA-40]") {
  for (const bool remote : {true, false}) {
    BulkBench bench;
    bench.network.delay = [](std::uint32_t, std::uint32_t) { return 82; };
    const std::uint32_t sm = remote ? 1 : 0;
    const std::uint32_t window = remote ? 0 : 5;
    bench.expect(sm, window, 128);
    for (std::uint32_t i = 0; i < 128; ++i) bench.bytes(0, 2)[256 + i] = static_cast<std::uint8_t>(i + 7);
    MemoryRequest& request = bench.send(256, 128, remote ? 1 : 2, 1'024);
    BulkBench::target_of(request).barrier = kBulkBarrier;
    bench.read(request, true);
    CHECK(bench.unit().bulk.sends() == (remote ? 1 : 0));
    CHECK(bench.unit().flights.of_cga(kThreeCtas) == (remote ? 1 : 0));
    CHECK(bench.unit().flights.of_cta(2) == 0);
    std::memset(bench.bytes(0, 2) + 256, 0, 128);  // it has been read
    run_until_idle();
    CHECK(bench.holds(sm, window, 1'024, 128, 7));
    CHECK(bench.barrier(sm, window).parity == 1);
    CHECK(bench.sms[sm]->changes.back().offset == kBulkBarrier);
    REQUIRE(bench.answers().size() == 1);
    CHECK(bench.answers()[0].packet.forward);
    CHECK_FALSE(bench.answers()[0].packet.failed);
    CHECK(bench.answers()[0].packet.request == &request);
    // Read, over there, written, back; or the port twice.
    CHECK(bench.answers()[0].when == (remote ? kShared + 82 + kShared + 82 : 1 + kShared));
    CHECK(bench.network.requests == (remote ? 1 : 0));
    CHECK(bench.stats().bulk_sends.value() == 1);
    CHECK(bench.failures().empty());
    if (remote) CHECK(bench.sms[0]->answered == std::vector<std::optional<std::uint32_t>>{std::nullopt});
    request.release();
    CHECK(bench.quiet());
  }
}

TEST_CASE("a send to the CTA itself needs no CGA", "[sm][TMA-01]") {
  BulkBench bench;
  bench.memory(0).open(7, 1'024);
  std::memset(bench.bytes(0, 7) + 128, 3, 128);
  MemoryRequest& request = bench.send(128, 64, std::nullopt, 512);
  protocol::BulkTarget& target = BulkBench::target_of(request);
  target.cta_slot = heddle::protocol::CtaSlot(7);
  target.cga_id = std::nullopt;
  bench.read(request, true);
  run_until_idle();
  CHECK(bench.bytes(0, 7)[512] == 3);
  CHECK(bench.bytes(0, 7)[575] == 3);
  CHECK(bench.bytes(0, 7)[576] == 0);
  REQUIRE(bench.answers().size() == 1);
  CHECK_FALSE(bench.answers()[0].packet.failed);
  request.release();
  CHECK(bench.quiet());
}

TEST_CASE("sends reduce at the receiver", "[sm][TMA-01][TMA-07]") {
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    BulkBench bench;
    const std::uint32_t sm = rank == 1 ? 1 : 0;
    const std::uint32_t window = rank == 0 ? 2 : (rank == 1 ? 0 : 5);
    const auto put = [](std::uint8_t* to, std::uint32_t value) { std::memcpy(to, &value, 4); };
    for (std::uint32_t i = 0; i < 32; ++i) {
      put(bench.bytes(0, 2) + 256 + 4 * i, i);
      put(bench.bytes(sm, window) + 1'024 + 4 * i, 1'000 * i);
    }
    bench.expect(sm, window, 128);
    MemoryRequest& request = bench.send(256, 128, rank, 1'024);
    BulkBench::target_of(request).barrier = kBulkBarrier;
    bench.reduces(request, AtomicKind::add, ValueType::u32);
    bench.read(request, true);
    run_until_idle();
    for (std::uint32_t i = 0; i < 32; ++i) {
      std::uint32_t value = 0;
      std::memcpy(&value, bench.bytes(sm, window) + 1'024 + 4 * i, 4);
      CHECK(value == 1'001 * i);
    }
    CHECK(bench.barrier(sm, window).parity == 1);
    request.release();
    CHECK(bench.quiet());
  }
}

TEST_CASE("a piece of a box is swizzled anew where it is sent", "[sm][TMA-44][TMA-20]") {
  // 128-byte swizzle: unit u of row r lies at u xor r. Row 2 of the sender, rows 3 and 1 of the receiver.
  BulkBench bench;
  for (std::uint32_t i = 0; i < 4'096; ++i) bench.bytes(0, 2)[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  const auto at = [](std::uint32_t offset) { return offset ^ (offset >> 7 & 7) << 4; };
  for (const bool part : {false, true}) {
    CAPTURE(part);
    const std::uint32_t bytes = part ? 48 : 128;
    const std::uint32_t from = 256 + (part ? 16 : 0);
    const std::uint32_t to = part ? 1'024 + 128 + 32 : 1'024 + 3 * 128;
    bench.expect(1, 0, bytes);
    const std::vector<std::uint8_t> before(bench.bytes(1, 0), bench.bytes(1, 0) + 4'096);
    MemoryRequest& request = bench.send(from, bytes, 1, to);
    BulkBench::target_of(request).swizzle = arch::Swizzle::bytes128;
    BulkBench::target_of(request).barrier = kBulkBarrier;
    bench.read(request, true);
    run_until_idle();
    std::vector<std::uint8_t> expected = before;
    for (std::uint32_t i = 0; i < bytes; ++i) expected[at(to + i)] = bench.bytes(0, 2)[at(from + i)];
    std::copy_n(bench.bytes(1, 0) + kBulkBarrier, 8, expected.begin() + kBulkBarrier);
    CHECK(std::vector<std::uint8_t>(bench.bytes(1, 0), bench.bytes(1, 0) + 4'096) == expected);
    CHECK(bench.barrier(1, 0).tx == 0);
    CHECK(bench.barrier(1, 0).parity == 1);
    request.release();
  }
}

TEST_CASE("a scattered piece is reduced where it lies", "[sm][TMA-44][TMA-07]") {
  BulkBench bench;
  const auto at = [](std::uint32_t offset) { return offset ^ (offset >> 7 & 7) << 4; };
  const auto word = [&](std::uint32_t sm, std::uint32_t window, std::uint32_t offset) {
    std::uint32_t value = 0;
    std::memcpy(&value, bench.bytes(sm, window) + offset, 4);
    return value;
  };
  for (std::uint32_t i = 0; i < 1'024; ++i) {
    const std::uint32_t from = 3 * i;
    const std::uint32_t to = 1'000 + i;
    std::memcpy(bench.bytes(0, 2) + 4 * i, &from, 4);
    std::memcpy(bench.bytes(1, 0) + 4 * i, &to, 4);
  }
  MemoryRequest& request = bench.send(256, 48, 1, 1'024 + 128 + 32);
  BulkBench::target_of(request).swizzle = arch::Swizzle::bytes128;
  bench.reduces(request, arch::AtomicKind::add, arch::ValueType::u32);
  bench.read(request, true);
  run_until_idle();
  std::uint32_t changed = 0;
  for (std::uint32_t i = 0; i < 1'024; ++i) changed += word(1, 0, 4 * i) != 1'000 + i ? 1 : 0;
  CHECK(changed == 12);
  for (std::uint32_t i = 0; i < 48; i += 4) {
    const std::uint32_t there = at(1'024 + 128 + 32 + i);
    CHECK(word(1, 0, there) == 1'000 + there / 4 + 3 * (at(256 + i) / 4));
  }
  request.release();
}

TEST_CASE("a send that its receiver does not take comes back failed", "[sm][TMA-01][CGA-08]") {
  struct Case {
    const char* name;
    std::uint32_t rank;
    std::uint32_t to;
    DsmemStatus status;
    std::uint32_t offset;
  };
  const Case each = GENERATE(Case{"beyond, other SM", 1, 960, DsmemStatus::out_of_range, 1'000},
                             Case{"beyond, this SM", 2, 960, DsmemStatus::out_of_range, 1'000},
                             Case{"gone, other SM", 3, 256, DsmemStatus::cta_not_present, 256},
                             Case{"no such CTA", 9, 256, DsmemStatus::cta_not_present, 256},
                             Case{"no mbarrier, other SM", 1, 256, DsmemStatus::mbarrier, kBulkBarrier},
                             Case{"no mbarrier, this SM", 2, 256, DsmemStatus::mbarrier, kBulkBarrier});
  CAPTURE(each.name);
  BulkBench bench({}, 1'000);
  MemoryRequest& request = bench.send(128, 64, each.rank, each.to);
  if (each.rank == 3) {
    // A CTA that was there.
    bench.sms[1]->tables.invalidate(0);
    BulkBench::target_of(request).data_cta = 1;
  }
  protocol::BulkTarget& target = BulkBench::target_of(request);
  target.barrier = kBulkBarrier;
  target.request = 17;
  std::memset(bench.bytes(0, 2) + 128, 5, 64);
  bench.read(request, true);
  run_until_idle();
  REQUIRE(bench.answers().size() == 1);
  CHECK(bench.answers()[0].packet.failed);
  REQUIRE(bench.failures().size() == 1);
  CHECK(bench.failures()[0].status == each.status);
  CHECK(bench.failures()[0].offset == each.offset);
  CHECK(bench.failures()[0].request == 17);
  CHECK(bench.failures()[0].rank == target.data_cta);
  CHECK(bench.failures(1).empty());
  if (each.status == DsmemStatus::mbarrier) {
    const bool other = each.rank == 1;
    CHECK(bench.bytes(other ? 1 : 0, other ? 0 : 5)[256] == 5);  // the data are there
  }
  request.release();
  CHECK(bench.quiet());
}

TEST_CASE("corrupt bytes are not sent", "[sm][TMA-01][CGA-08]") {
  BulkBench bench;
  bench.memory(0).poison(2, 300, 1);
  MemoryRequest& request = bench.send(256, 128, 1, 512);
  bench.read(request, true);
  run_until_idle();
  REQUIRE(bench.answers().size() == 1);
  CHECK(bench.answers()[0].packet.failed);
  CHECK(bench.network.requests == 0);
  CHECK(bench.bytes(1, 0)[512] == 0);
  request.release();
  CHECK(bench.quiet());
}

TEST_CASE("sends wait for room on the network, in their order", "[sm][TMA-01][TMA-40]") {
  UnitsShape shape;
  shape.credits = 2;
  BulkBench bench(shape);
  constexpr std::uint32_t kSends = 20;
  bench.expect(1, 0, kSends * 64);
  std::vector<MemoryRequest*> requests;
  for (std::uint32_t i = 0; i < kSends; ++i) {
    std::memset(bench.bytes(0, 2) + 1'024, static_cast<int>(i + 1), 64);
    MemoryRequest& request = bench.send(1'024, 64, 1, 2'048);  // all to one place
    BulkBench::target_of(request).barrier = kBulkBarrier;
    bench.read(request, true);
    requests.push_back(&request);
  }
  CHECK(bench.unit().dsmem.waiting() > 0);
  CHECK(bench.unit().flights.of_cga(kThreeCtas) == kSends);
  run_until_idle();
  CHECK(bench.bytes(1, 0)[2'048] == kSends);
  CHECK(bench.barrier(1, 0).parity == 1);
  CHECK(bench.answers().size() == kSends);
  for (MemoryRequest* request : requests) request->release();
  CHECK(bench.quiet());
}

TEST_CASE("a reset forgets sends that are under way", "[sm][TMA-01]") {
  BulkBench bench;
  MemoryRequest& request = bench.send(256, 128, 1, 512);
  bench.read(request, true);
  run_until(bench.domain.clock().time_of(60));
  REQUIRE(bench.unit().bulk.sends() == 1);
  bench.domain.reset();
  for (auto& each : bench.sms) {
    each->unit.reset();
    each->tables.reset();
  }
  request.release();
  CHECK(bench.quiet());
  run_until_idle();
  CHECK(bench.answers().empty());
  bench.setup(4'096);
  std::memset(bench.bytes(0, 2) + 256, 4, 128);
  MemoryRequest& again = bench.send(256, 128, 1, 512);
  bench.read(again, true);
  run_until_idle();
  CHECK(bench.bytes(1, 0)[512] == 4);
  CHECK(bench.answers().size() == 1);
  again.release();
  CHECK(bench.quiet());
}

}  // namespace sm_memory_bulk_test
