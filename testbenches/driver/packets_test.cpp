// Builders of the host library against the model's encoders and decoders: two implementations of one layout.
#include <algorithm>
#include <array>
#include <string>

#include <catch2/catch.hpp>

#include "arch/aql_diff.h"
#include "arch/kernel_object.h"
#include "common/error.h"
#include "driver/dispatches.h"

namespace heddle::test::driver_packets_test {
namespace {

arch::SynchScopes scopes_of(std::uint8_t raw) {
  arch::SynchScopes scopes;
  REQUIRE(arch::decode(scopes, raw).ok());
  return scopes;
}

TEST_CASE("kernel and reference dispatches have the bytes of the model", "[driver][PKT-03][PKT-05]") {
  HEDDLE_RANDOM(dice);
  Random random(dice.next());
  for (int round = 0; round < 2000; ++round) {
    const heddle_dispatch dispatch = random_dispatch(random);
    heddle_packet packet;
    heddle_packet_kernel(&packet, &dispatch);
    CHECK(bytes_of(packet) == arch::encode(arch::KernelDispatch{as_model(dispatch), 0, 0}));
    const std::uint32_t entry = random.below(32);
    REQUIRE(heddle_packet_reference(&packet, &dispatch, entry) == HEDDLE_OK);
    const arch::KernelDispatch wanted{as_model(dispatch), static_cast<std::uint16_t>(entry), 0};
    CHECK(bytes_of(packet) == arch::encode(wanted, arch::PacketType::reference_dispatch));
    arch::KernelDispatch decoded;
    CHECK(arch::decode(bytes_of(packet), decoded).ok());
    CHECK(decoded.fields == as_model(dispatch));
  }
  heddle_packet packet;
  const heddle_dispatch dispatch{};
  CHECK(heddle_packet_reference(&packet, &dispatch, HEDDLE_MOST_ENTRIES) == HEDDLE_INVALID);
}

TEST_CASE("offsets of a kernel dispatch are those of the HSA specification", "[driver][PKT-03]") {
  heddle_dispatch dispatch{};
  dispatch.scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_AGENT, HEDDLE_FENCE_SYSTEM);
  dispatch.setup = 3;
  for (std::uint16_t i = 0; i < 3; ++i) {
    dispatch.workgroup[i] = static_cast<std::uint16_t>(0x1110 + i);
    dispatch.grid[i] = 0x22222220U + i;
  }
  dispatch.private_segment = 0x33333333;
  dispatch.group_segment = 0x44444444;
  dispatch.kernel_object = 0x5555555555555555;
  dispatch.kernarg = 0x6666666666666660;
  dispatch.completion_signal = 0x7777777777777760;
  heddle_packet packet;
  heddle_packet_kernel(&packet, &dispatch);
  const std::array<std::uint8_t, 64> wanted = {
      0x02, 0x13, 0x03, 0x00, 0x10, 0x11, 0x11, 0x11, 0x12, 0x11, 0x00, 0x00, 0x20, 0x22, 0x22, 0x22,
      0x21, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x33, 0x33, 0x33, 0x33, 0x44, 0x44, 0x44, 0x44,
      0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x60, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x60, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77, 0x77};
  CHECK(std::equal(wanted.begin(), wanted.end(), std::begin(packet.bytes)));
}

TEST_CASE("barrier, agent and vendor packets have the bytes of the model", "[driver][PKT-02]") {
  HEDDLE_RANDOM(dice);
  Random random(dice.next());
  for (int round = 0; round < 1000; ++round) {
    const std::uint8_t scopes = random_scopes(random);
    const std::uint64_t signal = random.next();
    heddle_packet packet;

    arch::BarrierPacket barrier{scopes_of(scopes), {}, signal};
    const std::uint32_t count = random.below(6);
    for (std::uint32_t i = 0; i < count; ++i) barrier.signals[i] = random.next();
    const bool any = random.chance(50);
    REQUIRE(heddle_packet_barrier(&packet, any ? HEDDLE_PACKET_BARRIER_OR : HEDDLE_PACKET_BARRIER_AND, scopes,
                                  barrier.signals.data(), count, signal) == HEDDLE_OK);
    CHECK(bytes_of(packet) ==
          arch::encode(barrier, any ? arch::PacketType::barrier_or : arch::PacketType::barrier_and));

    arch::AgentDispatch agent;
    agent.scopes = scopes_of(scopes);
    agent.function = static_cast<std::uint16_t>(random.next());
    agent.return_address = random.next();
    for (std::uint64_t& argument : agent.arguments) argument = random.next();
    agent.completion_signal = signal;
    heddle_agent ours{scopes, agent.function, agent.return_address, {}, signal};
    std::copy(agent.arguments.begin(), agent.arguments.end(), std::begin(ours.arguments));
    heddle_packet_agent(&packet, &ours);
    CHECK(bytes_of(packet) == arch::encode(agent));
    heddle_agent read{};
    REQUIRE(heddle_packet_read_agent(&packet, &read) == HEDDLE_OK);
    CHECK((read.scopes == scopes && read.function == agent.function && read.completion_signal == signal));
    CHECK((read.return_address == agent.return_address && read.arguments[3] == agent.arguments[3]));

    arch::VendorPacket vendor;
    vendor.scopes = scopes_of(scopes);
    vendor.completion_signal = signal;
    vendor.from = random.next();
    vendor.to = random.next();
    vendor.bytes = random.next();
    heddle_packet_copy(&packet, scopes, vendor.from, vendor.to, vendor.bytes, signal);
    CHECK(bytes_of(packet) == arch::encode(vendor));
    CHECK(heddle_packet_read_agent(&packet, &read) == HEDDLE_INVALID);
    vendor.format = arch::VendorFormat::fill;
    vendor.from = 0;
    vendor.value = static_cast<std::uint32_t>(random.next());
    heddle_packet_fill(&packet, scopes, vendor.to, vendor.bytes, vendor.value, signal);
    CHECK(bytes_of(packet) == arch::encode(vendor));
    vendor = {vendor.scopes, arch::VendorFormat::hold, 0, 0, 0, random.below(1'000'000), signal};
    heddle_packet_hold(&packet, scopes, vendor.bytes, signal);
    CHECK(bytes_of(packet) == arch::encode(vendor));
  }
  heddle_packet packet;
  const std::array<std::uint64_t, 6> six{};
  CHECK(heddle_packet_barrier(&packet, HEDDLE_PACKET_BARRIER_AND, 0, six.data(), 6, 0) == HEDDLE_INVALID);
  CHECK(heddle_packet_barrier(&packet, HEDDLE_PACKET_INVALID, 0, six.data(), 1, 0) == HEDDLE_INVALID);
  heddle_packet_invalid(&packet);
  CHECK(arch::type_of(bytes_of(packet)) == arch::PacketType::invalid);
}

TEST_CASE("the condensed packet of the specification, half-word by half-word", "[driver][PKT-06]") {
  heddle_condensed condensed;
  heddle_condensed_init(&condensed);
  heddle_dispatch values{};
  values.completion_signal = 0x0bad'feed'beef'dead;
  values.kernarg = 0xface'deed'5678'1234;
  REQUIRE(heddle_condensed_append(&condensed, 4, 0x1000, &values) == HEDDLE_OK);
  REQUIRE(heddle_condensed_append(&condensed, 6, 0x0800, &values) == HEDDLE_OK);
  const std::array<std::uint16_t, 12> wanted = {0x0207, 0x8004, 0xdead, 0xbeef, 0xfeed, 0x0bad,
                                                0x4006, 0x1234, 0x5678, 0xdeed, 0xface, 0};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    CHECK((condensed.packet.bytes[2 * i] | condensed.packet.bytes[2 * i + 1] << 8) == wanted[i]);
  }
  CHECK(condensed.half_words == 10);
}

TEST_CASE("condensed packets have the bytes of the model", "[driver][PKT-06]") {
  HEDDLE_RANDOM(dice);
  Random random(dice.next());
  for (int round = 0; round < 3000; ++round) {
    heddle_condensed ours;
    heddle_condensed_init(&ours);
    arch::CondensedPacket model;
    std::uint32_t used = 0;
    for (int kernel = 0; kernel < 40; ++kernel) {
      arch::Diff diff;
      diff.reference = static_cast<std::uint8_t>(random.below(8));
      diff.vector = static_cast<std::uint16_t>(random.next() & random.next() & random.next() & 0x1FFF);
      const heddle_dispatch values = random_dispatch(random);
      diff.values = as_model(values);
      const bool fits = arch::append(model, used, diff);
      CHECK((heddle_condensed_append(&ours, diff.reference, diff.vector, &values) == HEDDLE_OK) == fits);
      CHECK(heddle_diff_half_words(diff.vector) == arch::half_words_of(diff));
    }
    CHECK(bytes_of(ours.packet) == arch::encode(model));
    CHECK((ours.half_words == used && ours.kernels == model.kernels));
  }
  heddle_condensed condensed;
  heddle_condensed_init(&condensed);
  const heddle_dispatch values{};
  CHECK(heddle_condensed_append(&condensed, 8, 0, &values) == HEDDLE_INVALID);
  CHECK(heddle_condensed_append(&condensed, 0, 0x2000, &values) == HEDDLE_INVALID);
  CHECK(heddle_field_half_words(13) == 0);
}

TEST_CASE("condensed packets of other formats have the bytes of the model", "[driver][PKT-13]") {
  HEDDLE_RANDOM(dice);
  Random random(dice.next());
  int too_wide = 0;
  for (int round = 0; round < 2000; ++round) {
    heddle_diff_format its{random.between(1, 8), random.between(1, 24), random.chance(50)};
    const arch::DiffOf of = its.stored ? arch::DiffOf::stored : arch::DiffOf::packet;
    const arch::DiffFormat format{of, its.reference_bits, its.vector_bits};
    CHECK(heddle_diff_header(&its) == format.header_half_words());
    heddle_condensed ours;
    REQUIRE(heddle_condensed_init_as(&ours, &its) == HEDDLE_OK);
    arch::CondensedPacket model;
    std::uint32_t used = 0;
    for (int kernel = 0; kernel < 20; ++kernel) {
      arch::WrittenDiff diff;
      diff.reference = random.below(1U << std::min(5U, its.reference_bits));
      diff.vector = static_cast<std::uint32_t>(random.next() & random.next() & random.next()) &
                    ((1U << std::min(13U, its.vector_bits)) - 1);
      const heddle_dispatch dispatch = random_dispatch(random);
      heddle_kernel_object object{};
      object.program = static_cast<std::uint32_t>(random.next());
      object.registers_per_thread = random.below(random.chance(80) ? 256 : 1U << 20);
      heddle_stored stored{};
      heddle_stored_of(&stored, &dispatch, &object);
      if (random.chance(80)) stored.values[5] = stored.values[6] = random.below(65'536);
      if (random.chance(5)) stored.values[0] = 0x100;  // a byte has no room for it
      bool wide = false;
      for (std::uint32_t field = 0; field < arch::kDispatchFields; ++field) {
        diff.values[field] = its.stored ? stored.values[field] : heddle_field_get(&dispatch, field);
        const std::uint32_t half_words = its.stored ? heddle_stored_half_words(field) : heddle_field_half_words(field);
        CHECK(half_words == arch::half_words_of(of, field));
        const std::uint32_t bits = arch::bits_of_field(of, field);
        wide = wide || (diff.has(field) && bits < 64 && diff.values[field] >> bits != 0);
      }
      const auto vector = static_cast<std::uint16_t>(diff.vector);
      const heddle_status status = its.stored ? heddle_condensed_append_stored(&ours, diff.reference, vector, &stored)
                                              : heddle_condensed_append(&ours, diff.reference, vector, &dispatch);
      if (wide) {
        CHECK(status == HEDDLE_INVALID);
        CHECK_THROWS_AS(arch::append(model, used, format, diff), CheckFailed);
        ++too_wide;
      } else {
        CHECK(status == (arch::append(model, used, format, diff) ? HEDDLE_OK : HEDDLE_FULL));
      }
    }
    CHECK(bytes_of(ours.packet) == arch::encode(model));
    const heddle_dispatch none{};
    const heddle_stored nothing{};
    if (its.stored) CHECK(heddle_condensed_append(&ours, 0, 0, &none) == HEDDLE_INVALID);
    if (!its.stored) CHECK(heddle_condensed_append_stored(&ours, 0, 0, &nothing) == HEDDLE_INVALID);
  }
  CHECK(too_wide > 500);
  // A format that does not exist leaves an empty packet of the text's.
  for (const heddle_diff_format& none : {heddle_diff_format{9, 13, false}, {8, 25, false}, {40, 1, true}}) {
    heddle_condensed condensed;
    CHECK(heddle_condensed_init_as(&condensed, &none) == HEDDLE_INVALID);
    heddle_dispatch values{};
    values.kernarg = 0x1234;
    CHECK(heddle_condensed_append(&condensed, 8, 0, &values) == HEDDLE_INVALID);
    REQUIRE(heddle_condensed_append(&condensed, 7, 0x800, &values) == HEDDLE_OK);
    heddle_condensed expected;
    heddle_condensed_init(&expected);
    REQUIRE(heddle_condensed_append(&expected, 7, 0x800, &values) == HEDDLE_OK);
    CHECK(bytes_of(condensed.packet) == bytes_of(expected.packet));
  }
  // A packet is as it was when a value has been refused.
  heddle_condensed stored;
  const heddle_diff_format of_stored{3, 13, true};
  REQUIRE(heddle_condensed_init_as(&stored, &of_stored) == HEDDLE_OK);
  heddle_stored values{};
  values.values[5] = 65'537;  // workgroups in y
  CHECK(heddle_condensed_append_stored(&stored, 0, 1U << 5, &values) == HEDDLE_INVALID);
  CHECK((stored.kernels == 0 && stored.half_words == 0 && stored.packet.bytes[2] == 0));
  values.values[5] = 65'535;
  CHECK(heddle_condensed_append_stored(&stored, 0, 1U << 5, &values) == HEDDLE_OK);
  CHECK(heddle_stored_half_words(13) == 0);
}

TEST_CASE("what of a kernel a diff of stored information can change", "[driver][PKT-13]") {
  heddle_dispatch d{};
  d.setup = 2;
  d.workgroup[0] = 32;
  d.workgroup[1] = d.workgroup[2] = d.grid[2] = 1;
  d.grid[0] = 100;  // four workgroups, the last of which is partial
  d.grid[1] = 5;
  d.group_segment = 256;
  d.private_segment = 16;
  d.kernarg = 0x40;
  d.completion_signal = 0x80;
  d.scopes = 5;
  heddle_kernel_object object{};
  object.program = 3;
  object.registers_per_thread = 40;
  object.static_shared = 128;
  heddle_stored stored{};
  heddle_stored_of(&stored, &d, &object);
  const std::array<std::uint64_t, 13> values{5, 32, 1, 1, 4, 5, 1, 40, 256, 16, 3, 0x40, 0x80};
  for (std::size_t i = 0; i < 13; ++i) CHECK(stored.values[i] == values[i]);
  std::uint16_t vector = 0;
  CHECK(heddle_stored_different(&stored, &object, &stored, &object, &vector));
  CHECK(vector == 0);
  const auto vector_of = [&](const heddle_dispatch& wanted, const heddle_kernel_object& wanted_object) {
    heddle_stored other{};
    heddle_stored_of(&other, &wanted, &wanted_object);
    std::uint16_t made = 0;
    return heddle_stored_different(&other, &wanted_object, &stored, &object, &made) ? int{made} : -1;
  };
  heddle_dispatch whole = d;
  whole.grid[0] = 128;  // as many workgroups
  CHECK(vector_of(whole, object) == 0x10);
  whole.grid[0] = 160;
  CHECK(vector_of(whole, object) == 0x10);
  whole.grid[1] = 6;
  CHECK(vector_of(whole, object) == 0x30);
  heddle_dispatch partial = d;
  partial.grid[1] = 6;
  CHECK(vector_of(partial, object) == -1);
  partial.grid[1] = 5;
  partial.kernarg = 0x50;
  CHECK(vector_of(partial, object) == 0x800);
  heddle_kernel_object other = object;
  other.program = 4;
  other.registers_per_thread = 48;
  CHECK(vector_of(d, other) == 0x480);
  other.registers_per_thread = 0x1'0000;  // more than the field has
  CHECK(vector_of(d, other) == -1);
  const auto refused = [&](auto change) {
    heddle_kernel_object changed = object;
    change(changed);
    return vector_of(d, changed) == -1;
  };
  CHECK(refused([](auto& o) { o.program = 0; }));
  CHECK(refused([](auto& o) { o.threads_limit = 64; }));
  CHECK(refused([](auto& o) { o.extents[1][0] = 2; }));
  CHECK(refused([](auto& o) { o.fallbacks[0][0] = 2; }));
  CHECK(refused([](auto& o) { o.load_balancing = true; }));
  CHECK(refused([](auto& o) { o.linear_memory = true; }));
  CHECK(refused([](auto& o) { o.cooperative = true; }));
  CHECK(refused([](auto& o) { o.raster_order = HEDDLE_RASTER_HILBERT; }));
  CHECK(refused([](auto& o) { o.raster_tile[1] = 2; }));
  CHECK_FALSE(refused([](auto& o) { o.longest = 7; }));  // with a program
  CHECK_FALSE(refused([](auto& o) { o.name = "other"; }));
}

TEST_CASE("kernel objects have the bytes of the model", "[driver][PKT-12]") {
  HEDDLE_RANDOM(dice);
  Random random(dice.next());
  for (int round = 0; round < 1000; ++round) {
    arch::KernelObject model;
    heddle_kernel_object ours{};
    model.program = ours.program = random.below(10);
    model.threads_limit = ours.threads_limit = random.below(2000);
    model.registers_per_thread = ours.registers_per_thread = random.below(256);
    model.static_shared = ours.static_shared = random.below(200'000);
    model.duration.min = ours.shortest = random.next();
    model.duration.max = ours.longest = random.next();
    for (std::uint32_t level = 0; level < 4; ++level) {
      if (random.chance(50)) {
        const auto x = static_cast<std::uint16_t>(random.between(1, 65'535));
        model.cluster.extents[level] = {x, 2, 3};
        ours.extents[level][0] = x, ours.extents[level][1] = 2, ours.extents[level][2] = 3;
      }
      if (random.chance(50)) {
        model.cluster.fallback[level] = {4, 5, 6};
        ours.fallbacks[level][0] = 4, ours.fallbacks[level][1] = 5, ours.fallbacks[level][2] = 6;
      }
    }
    ours.load_balancing = random.chance(50);
    model.cluster.mode = ours.load_balancing ? arch::CgaMode::load_balancing : arch::CgaMode::multicast;
    model.cluster.linear_memory = ours.linear_memory = random.chance(50);
    if (random.chance(30)) {
      ours.raster_order = HEDDLE_RASTER_TILES;
      model.raster = {arch::RasterOrder::Kind::tiles, static_cast<std::uint8_t>(random.between(1, 255)), 7};
      ours.raster_tile[0] = model.raster.tile_x, ours.raster_tile[1] = 7;
    } else if (random.chance(30)) {
      ours.raster_order = HEDDLE_RASTER_HILBERT;
      model.raster.kind = arch::RasterOrder::Kind::hilbert;
    }
    model.name = std::string(random.below(36), 'k');
    ours.name = model.name.empty() ? nullptr : model.name.c_str();
    arch::KernelObjectBytes bytes;
    REQUIRE(heddle_kernel_object_encode(bytes.data(), &ours) == HEDDLE_OK);
    CHECK(bytes == arch::encode(model));
  }
  const std::string long_name(36, 'k');
  heddle_kernel_object object{};
  object.name = long_name.c_str();
  arch::KernelObjectBytes bytes;
  CHECK(heddle_kernel_object_encode(bytes.data(), &object) == HEDDLE_INVALID);
}

}  // namespace
}  // namespace heddle::test::driver_packets_test
