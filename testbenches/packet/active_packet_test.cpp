// The table of packets inside the processor, and what packets are called.
#include "packet/active_packet.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

namespace packet_active_packet_test {

using namespace heddle::arch;
using namespace heddle::packet;

namespace {

Packet& packet_of(PacketTable& table, std::uint32_t queue, std::uint64_t index) {
  Packet& packet = table.take();
  packet.queue = queue;
  packet.index = index;
  packet.type = PacketType::vendor;
  return packet;
}

std::vector<std::uint64_t> indices(const PacketTable& table) {
  std::vector<std::uint64_t> all;
  table.for_each([&](const Packet& packet) { all.push_back(packet.index); });
  return all;
}

}  // namespace

TEST_CASE("a reference finds its packet until that goes, and never another one", "[packet][PKT-04]") {
  PacketTable table;
  CHECK(table.find(0) == nullptr);
  CHECK(table.find(~std::uint64_t{0}) == nullptr);
  Packet& a = packet_of(table, 0, 10);
  Packet& b = packet_of(table, 0, 11);
  const std::uint64_t first = a.reference();
  const std::uint64_t second = b.reference();
  CHECK(first != second);
  CHECK(table.find(first) == &a);
  CHECK(table.find(second) == &b);
  CHECK(table.find(2) == nullptr);
  CHECK(table.find(first + (std::uint64_t{1} << 32)) == nullptr);
  std::vector<std::uint64_t> old{first};
  table.free(a);
  for (std::uint64_t index = 12; index < 20; ++index) {
    CHECK(indices(table) == std::vector<std::uint64_t>{11});
    Packet& next = packet_of(table, 3, index);
    CHECK(next.slot == 0);  // the place is taken again
    CHECK(next.kernels.empty());
    CHECK(next.phase == Phase::decoder);
    for (const std::uint64_t reference : old) CHECK(table.find(reference) == nullptr);
    CHECK(table.find(next.reference()) == &next);
    CHECK(table.find(second) == &b);
    CHECK(indices(table) == std::vector<std::uint64_t>{index, 11});
    next.kernels.resize(2);
    next.phase = Phase::running;
    old.push_back(next.reference());
    table.free(next);
  }
  table.clear();
  CHECK(table.find(second) == nullptr);
  CHECK(indices(table).empty());
}

TEST_CASE("packets are called by queue, index and kernel", "[packet][PKT-04]") {
  PacketTable table;
  Packet& a = packet_of(table, 1, 7);
  Packet& b = packet_of(table, 2, 7);
  Packet& c = packet_of(table, 1, 8);
  CHECK(name_of(a) == "packet 7 of queue 1 (vendor)");
  b.type = PacketType::condensed_dispatch;
  b.kernels.resize(1);
  CHECK(name_of(b) == "packet 7 of queue 2 (condensed dispatch)");  // the object has not been read
  b.kernels[0].object.name = "gemm";
  CHECK(name_of(b) == "packet 7 of queue 2 (gemm)");
  b.kernels.resize(4);
  CHECK(name_of(b) == "packet 7 of queue 2 (gemm and 3 more)");
  c.type = PacketType::barrier_or;
  CHECK(table.name_of(1, 7) == name_of(a));
  CHECK(table.name_of(2, 7) == name_of(b));
  CHECK(table.name_of(1, 8) == "packet 8 of queue 1 (barrier-OR)");
  CHECK(table.name_of(2, 8) == "packet 8 of queue 2");  // it has not begun
  table.free(a);
  CHECK(table.name_of(1, 7) == "packet 7 of queue 1");
}

TEST_CASE("the completion signal of bytes is told by their type", "[packet][PKT-02][PKT-09]") {
  PacketBytes bytes{};
  bytes[56] = 0x40;
  bytes[63] = 0x80;
  for (unsigned type = 0; type < 256; ++type) {
    CAPTURE(type);
    bytes[0] = static_cast<std::uint8_t>(type);
    CHECK(signal_in(bytes) == (type < 7 ? 0x8000'0000'0000'0040 : 0));
  }
  Packet packet;
  packet.bytes = bytes;
  packet.bytes[0] = 2;
  CHECK(signal_of(packet) == 0x8000'0000'0000'0040);
  packet.kernels.resize(2);  // decoded: that of the last kernel
  packet.kernels[0].signal = 0x20;
  packet.kernels[1].signal = 0x60;
  CHECK(signal_of(packet) == 0x60);
}

}  // namespace packet_active_packet_test
