// Packets there and back, byte by byte, and every reserved bit of them.
#include "arch/aql_packet.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "packet/packet_oracle.h"
#include "packet/random_packet.h"
#include "support/random.h"

namespace arch_aql_packet_test {

using namespace heddle::arch;
namespace oracle = heddle::oracle;
using heddle::CheckFailed;

namespace {

using Range = std::pair<std::size_t, std::size_t>;  // first and last byte

PacketBytes counting() {
  PacketBytes bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i + 1);
  return bytes;
}

void zero(PacketBytes& bytes, Range range) {
  for (std::size_t i = range.first; i <= range.second; ++i) bytes[i] = 0;
}

template <class Packet>
HsaStatus status_of(const PacketBytes& bytes) {
  Packet packet;
  const HsaResult verdict = decode(bytes, packet);
  CHECK(verdict.ok() == (verdict.reason == heddle::arch::Reason::none));
  return verdict.status;
}

// Each bit of the ranges alone makes the packet one of a bad format.
template <class Packet>
void check_reserved(const PacketBytes& good, const std::vector<Range>& ranges) {
  REQUIRE(status_of<Packet>(good) == HsaStatus::success);
  for (const Range& range : ranges) {
    for (std::size_t bit = 8 * range.first; bit < 8 * (range.second + 1); ++bit) {
      PacketBytes bytes = good;
      bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] | 1U << bit % 8);
      INFO("byte " << bit / 8 << " bit " << bit % 8);
      CHECK(status_of<Packet>(bytes) == HsaStatus::invalid_packet_format);
    }
  }
  // Of the header: bits 13 to 15, and scope 3.
  for (const unsigned scopes : {0x20U, 0x40U, 0x80U, 0x06U, 0x18U}) {
    PacketBytes bytes = good;
    bytes[1] = static_cast<std::uint8_t>(scopes);
    CHECK(status_of<Packet>(bytes) == HsaStatus::invalid_packet_format);
  }
}

// Decoders take their own types and no others.
template <class Packet>
void check_types(const PacketBytes& good, const std::vector<unsigned>& types) {
  for (unsigned type = 0; type < 256; ++type) {
    PacketBytes bytes = good;
    bytes[0] = static_cast<std::uint8_t>(type);
    const bool own = std::find(types.begin(), types.end(), type) != types.end();
    if ((status_of<Packet>(bytes) == HsaStatus::success) != own) FAIL("type " << type);
    if (!own) CHECK(status_of<Packet>(bytes) == HsaStatus::invalid_packet_format);
  }
}

PacketBytes good_dispatch(PacketType type) {
  KernelDispatch packet;
  packet.fields = {0x0A, 1, {64, 1, 1}, {128, 1, 1}, 0, 0, 0x1000, 0x2000, 0x40};
  return encode(packet, type);
}

// Of both types: an OR needs a signal that can satisfy it.
BarrierPacket good_barrier() {
  BarrierPacket packet;
  packet.signals = {64, 0, 0, 0, 128};
  return packet;
}

VendorPacket good_copy() {
  VendorPacket packet;
  packet.from = 0x1001;
  packet.to = 0x9003;
  packet.bytes = 77;
  return packet;
}

}  // namespace

TEST_CASE("the header is the type, the barrier bit and two scopes", "[packet][PKT-01]") {
  PacketBytes bytes{};
  bytes[0] = 0x02;
  bytes[1] = 0x15;
  CHECK(header_of(bytes) == 0x1502);
  CHECK(type_of(bytes) == PacketType::kernel_dispatch);
  SynchScopes scopes;
  REQUIRE(decode(scopes, 0x15).ok());
  CHECK(scopes == SynchScopes{true, FenceScope::system, FenceScope::system});
  REQUIRE(decode(scopes, 0x0A).ok());
  CHECK(scopes == SynchScopes{false, FenceScope::agent, FenceScope::agent});
  REQUIRE(decode(scopes, 0x02).ok());
  CHECK(scopes == SynchScopes{false, FenceScope::agent, FenceScope::none});
  int good = 0;
  for (unsigned raw = 0; raw < 256; ++raw) {
    const bool exists = raw < 0x20 && (raw >> 1) % 4 < 3 && raw >> 3 < 3;
    const HsaResult verdict = decode(scopes, static_cast<std::uint8_t>(raw));
    CHECK(verdict.status == (exists ? HsaStatus::success : HsaStatus::invalid_packet_format));
    if (!exists) continue;
    ++good;
    CHECK(encode(scopes) == raw);
  }
  CHECK(good == 18);
}

TEST_CASE("packet types have the numbers of the HSA specification, and two of ours", "[packet][PKT-02]") {
  const auto number = [](PacketType type) { return static_cast<int>(type); };
  CHECK(number(PacketType::vendor) == 0);
  CHECK(number(PacketType::invalid) == 1);
  CHECK(number(PacketType::kernel_dispatch) == 2);
  CHECK(number(PacketType::barrier_and) == 3);
  CHECK(number(PacketType::agent_dispatch) == 4);
  CHECK(number(PacketType::barrier_or) == 5);
  CHECK(number(PacketType::reference_dispatch) == 6);
  CHECK(number(PacketType::condensed_dispatch) == 7);
  check_types<KernelDispatch>(good_dispatch(PacketType::kernel_dispatch), {2, 6});
  check_types<BarrierPacket>(encode(good_barrier(), PacketType::barrier_and), {3, 5});
  check_types<AgentDispatch>(encode(AgentDispatch{}), {4});
  check_types<VendorPacket>(encode(good_copy()), {0});
  PacketBytes condensed{7, 1};
  std::array<Diff, kDiffValues> diffs;
  std::uint32_t kernels = 0;
  for (unsigned type = 0; type < 256; ++type) {
    condensed[0] = static_cast<std::uint8_t>(type);
    CHECK(decode(condensed, diffs, kernels).ok() == (type == 7));
  }
  CHECK_THROWS_AS(encode(KernelDispatch{}, PacketType::barrier_and), CheckFailed);
  CHECK_THROWS_AS(encode(BarrierPacket{}, PacketType::kernel_dispatch), CheckFailed);
}

TEST_CASE("a kernel dispatch lies in its bytes as in the HSA specification", "[packet][PKT-03][PKT-05]") {
  PacketBytes bytes = counting();
  bytes[0] = 2;
  bytes[1] = 0x0B;
  zero(bytes, {10, 11});
  zero(bytes, {48, 55});
  KernelDispatch packet;
  REQUIRE(decode(bytes, packet).ok());
  const DispatchFields& f = packet.fields;
  CHECK(f.synch_scopes == 0x0B);
  CHECK(f.setup == 0x0403);
  CHECK(f.workgroup == std::array<std::uint16_t, 3>{0x0605, 0x0807, 0x0A09});
  CHECK(f.grid == std::array<std::uint32_t, 3>{0x100F0E0D, 0x14131211, 0x18171615});
  CHECK(f.private_segment == 0x1C1B1A19);
  CHECK(f.group_segment == 0x201F1E1D);
  CHECK(f.kernel_object == 0x2827262524232221);
  CHECK(f.kernarg == 0x302F2E2D2C2B2A29);
  CHECK(f.completion_signal == 0x403F3E3D3C3B3A39);
  CHECK(encode(packet) == bytes);
  bytes[0] = 6;
  for (unsigned entry = 0; entry < 8; ++entry) {
    bytes[10] = static_cast<std::uint8_t>(entry);
    REQUIRE(decode(bytes, packet).ok());
    CHECK(packet.reserved0 == entry);
    CHECK(packet.fields == f);
    CHECK(encode(packet, PacketType::reference_dispatch) == bytes);
  }
}

TEST_CASE("barrier and agent packets lie in their bytes as in the HSA specification", "[packet][PKT-02]") {
  PacketBytes bytes{3, 0x15};
  for (std::size_t i = 8; i < 48; ++i) bytes[i] = static_cast<std::uint8_t>(i % 8 == 0 ? 0x20 : i);
  bytes[56] = 0x61;
  bytes[63] = 0xFF;
  BarrierPacket barrier;
  REQUIRE(decode(bytes, barrier).ok());
  CHECK(barrier.scopes == SynchScopes{true, FenceScope::system, FenceScope::system});
  CHECK(barrier.signals == std::array<std::uint64_t, 5>{0x0F0E0D0C0B0A0920, 0x1716151413121120, 0x1F1E1D1C1B1A1920,
                                                        0x2726252423222120, 0x2F2E2D2C2B2A2920});
  CHECK(barrier.completion_signal == 0xFF00000000000061);
  CHECK(encode(barrier, PacketType::barrier_and) == bytes);
  bytes[0] = 5;
  CHECK(encode(barrier, PacketType::barrier_or) == bytes);

  bytes = counting();
  bytes[0] = 4;
  bytes[1] = 0;
  zero(bytes, {4, 7});
  zero(bytes, {48, 55});
  bytes[56] = 0x40;
  AgentDispatch agent;
  REQUIRE(decode(bytes, agent).ok());
  CHECK(agent.function == 0x0403);
  CHECK(agent.return_address == 0x100F0E0D0C0B0A09);
  CHECK(agent.arguments ==
        std::array<std::uint64_t, 4>{0x1817161514131211, 0x201F1E1D1C1B1A19, 0x2827262524232221, 0x302F2E2D2C2B2A29});
  CHECK(agent.completion_signal == 0x403F3E3D3C3B3A40);
  CHECK(encode(agent) == bytes);
}

TEST_CASE("a vendor packet lies in its bytes as documented", "[packet][PKT-02]") {
  PacketBytes bytes{0, 0x09, 1};
  const auto put = [&bytes](std::size_t at, std::uint64_t value) { oracle::set_number(bytes, at, 8, value); };
  put(8, 0x8000'0000'0000'1234);
  put(16, 0x5678);
  put(24, 0x100);
  put(56, 0x61);
  VendorPacket packet;
  REQUIRE(decode(bytes, packet).ok());
  CHECK(packet.scopes == SynchScopes{true, FenceScope::none, FenceScope::agent});
  CHECK(packet.format == VendorFormat::copy);
  CHECK(packet.from == 0x8000'0000'0000'1234);
  CHECK(packet.to == 0x5678);
  CHECK(packet.bytes == 0x100);
  CHECK(packet.completion_signal == 0x61);
  CHECK(encode(packet) == bytes);
  bytes = PacketBytes{0, 0, 2, 0, 0xEF, 0xBE, 0xAD, 0xDE};
  put(16, 0x40);
  put(24, 0x44);
  REQUIRE(decode(bytes, packet).ok());
  CHECK(packet.format == VendorFormat::fill);
  CHECK(packet.value == 0xDEADBEEF);
  CHECK(encode(packet) == bytes);
  bytes = PacketBytes{0, 0, 3};
  put(24, kMaxHold);
  REQUIRE(decode(bytes, packet).ok());
  CHECK(packet.format == VendorFormat::hold);
  CHECK(packet.bytes == 1'000'000'000'000);
}

TEST_CASE("every reserved bit that is set is a bad format", "[packet][PKT-09]") {
  check_reserved<KernelDispatch>(good_dispatch(PacketType::kernel_dispatch), {{10, 11}, {48, 55}});
  check_reserved<KernelDispatch>(good_dispatch(PacketType::reference_dispatch), {{48, 55}});
  check_reserved<BarrierPacket>(encode(BarrierPacket{}, PacketType::barrier_and), {{2, 7}, {48, 55}});
  check_reserved<BarrierPacket>(encode(good_barrier(), PacketType::barrier_or), {{2, 7}, {48, 55}});
  check_reserved<AgentDispatch>(encode(AgentDispatch{}), {{4, 7}, {48, 55}});
  VendorPacket vendor = good_copy();
  check_reserved<VendorPacket>(encode(vendor), {{3, 3}, {4, 7}, {32, 55}});
  vendor = {};
  vendor.format = VendorFormat::fill;
  check_reserved<VendorPacket>(encode(vendor), {{3, 3}, {8, 15}, {32, 55}});
  vendor.format = VendorFormat::hold;
  check_reserved<VendorPacket>(encode(vendor), {{3, 3}, {4, 23}, {32, 55}});
}

// That the table of a machine has it, the decoder sees.
TEST_CASE("a reference packet names an entry that some table can have", "[packet][PKT-05][PKT-09][PKT-13]") {
  PacketBytes bytes = good_dispatch(PacketType::reference_dispatch);
  for (unsigned entry = 0; entry < 0x10000; entry = entry < 600 ? entry + 1 : entry * 2) {
    bytes[10] = static_cast<std::uint8_t>(entry);
    bytes[11] = static_cast<std::uint8_t>(entry >> 8);
    CHECK(status_of<KernelDispatch>(bytes) == (entry < 32 ? HsaStatus::success : HsaStatus::invalid_argument));
  }
}

TEST_CASE("signals of barrier, agent and vendor packets are aligned", "[packet][PKT-09]") {
  const auto check = [](auto good, std::size_t at, auto encode_it) {
    for (std::uint64_t handle = 0; handle < 128; ++handle) {
      PacketBytes bytes = encode_it(good);
      oracle::set_number(bytes, at, 8, handle);
      // Bit 0 asks for an interrupt, bit 1 for time stamps: the record has 64 bytes then.
      const bool aligned = handle % 32 < 2 || handle % 64 == 2 || handle % 64 == 3;
      CHECK(status_of<decltype(good)>(bytes) == (aligned ? HsaStatus::success : HsaStatus::invalid_signal));
    }
  };
  for (const std::size_t at : {8, 16, 24, 32, 40, 56}) {
    check(good_barrier(), at, [](const BarrierPacket& p) { return encode(p, PacketType::barrier_or); });
  }
  check(AgentDispatch{}, 56, [](const AgentDispatch& p) { return encode(p); });
  check(good_copy(), 56, [](const VendorPacket& p) { return encode(p); });
}

TEST_CASE("null handles: a barrier-AND has them satisfied, a barrier-OR not", "[packet][PKT-14]") {
  for (std::uint32_t which = 0; which < 32; ++which) {
    BarrierPacket packet;
    for (std::size_t i = 0; i < 5; ++i) packet.signals[i] = (which >> i & 1U) * 64;
    CHECK(status_of<BarrierPacket>(encode(packet, PacketType::barrier_and)) == HsaStatus::success);
    const HsaStatus wanted = which == 0 ? HsaStatus::invalid_argument : HsaStatus::success;
    CHECK(status_of<BarrierPacket>(encode(packet, PacketType::barrier_or)) == wanted);
  }
}

TEST_CASE("every reason has a number and a text of its own", "[packet][PKT-14]") {
  std::map<unsigned, std::string> texts;
#define HEDDLE_REASON(name, number, text)    \
  CHECK(texts.emplace(number, text).second); \
  CHECK(std::string(reason_text(Reason::name)) == (text));
  HEDDLE_REASONS(HEDDLE_REASON)
#undef HEDDLE_REASON
  std::set<std::string> different;
  for (const auto& [number, text] : texts) CHECK(different.insert(text).second);
  CHECK(texts.at(0) == "none");
  CHECK(texts.at(26) == "kernarg is not aligned to 16 bytes");
  CHECK(std::string(reason_text(static_cast<Reason>(0xFFFF))) == "unknown reason");
}

TEST_CASE("what is wrong with copies, fills and holds", "[packet][PKT-09]") {
  const auto status = [](VendorFormat format, std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
    VendorPacket packet;
    packet.format = format;
    packet.from = from;
    packet.to = to;
    packet.bytes = bytes;
    return status_of<VendorPacket>(encode(packet));
  };
  const std::uint64_t host = std::uint64_t{1} << 63;
  const auto good = HsaStatus::success;
  const auto argument = HsaStatus::invalid_argument;
  const auto copy = VendorFormat::copy;
  CHECK(status(copy, 100, 200, 100) == good);
  CHECK(status(copy, 200, 100, 100) == good);
  CHECK(status(copy, 100, 200, 101) == argument);
  CHECK(status(copy, 200, 100, 101) == argument);
  CHECK(status(copy, 100, 100, 1) == argument);
  CHECK(status(copy, 100, 100, 0) == good);
  CHECK(status(copy, 100, host + 100, 1000) == good);
  CHECK(status(copy, host - 8, 0, 8) == good);
  CHECK(status(copy, host - 8, 0, 9) == argument);
  CHECK(status(copy, 0, host - 8, 9) == argument);
  CHECK(status(copy, ~std::uint64_t{7}, 0, 8) == good);
  CHECK(status(copy, ~std::uint64_t{7}, 0, 9) == argument);
  CHECK(status(copy, 0, ~std::uint64_t{0}, 2) == argument);
  const auto fill = VendorFormat::fill;
  CHECK(status(fill, 0, 8, 12) == good);
  for (const std::uint64_t odd : {1, 2, 3}) {
    CHECK(status(fill, 0, 8 + odd, 12) == argument);
    CHECK(status(fill, 0, 8, 12 + odd) == argument);
  }
  CHECK(status(fill, 0, host - 8, 12) == argument);
  CHECK(status(VendorFormat::hold, 0, 0, kMaxHold) == good);
  CHECK(status(VendorFormat::hold, 0, 0, kMaxHold + 1) == argument);
  PacketBytes bytes = encode(good_copy());
  for (unsigned format = 0; format < 256; ++format) {
    if (format >= 1 && format <= 3) continue;
    bytes[2] = static_cast<std::uint8_t>(format);
    CHECK(status_of<VendorPacket>(bytes) == HsaStatus::invalid_packet_format);
  }
}

TEST_CASE("status codes are those of the HSA runtime", "[packet][PKT-09]") {
  const std::vector<std::pair<HsaStatus, unsigned>> codes{
      {HsaStatus::success, 0},
      {HsaStatus::error, 0x1000},
      {HsaStatus::invalid_argument, 0x1001},
      {HsaStatus::invalid_allocation, 0x1003},
      {HsaStatus::invalid_signal, 0x1006},
      {HsaStatus::invalid_queue, 0x1007},
      {HsaStatus::out_of_resources, 0x1008},
      {HsaStatus::invalid_packet_format, 0x1009},
      {HsaStatus::incompatible_arguments, 0x100D},
      {HsaStatus::invalid_code_object, 0x1010},
      {HsaStatus::exception, 0x1016},
  };
  std::vector<std::string> texts;
  for (const auto& [status, code] : codes) {
    CHECK(static_cast<unsigned>(status) == code);
    texts.emplace_back(status_text(status));
    CHECK(std::count(texts.begin(), texts.end(), texts.back()) == 1);
  }
  CHECK(std::string(status_text(HsaStatus::invalid_packet_format)) == "invalid packet format");
  CHECK(std::string(status_text(static_cast<HsaStatus>(0x1234))) == "unknown status");
}

}  // namespace arch_aql_packet_test
