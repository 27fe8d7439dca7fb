// Condensed packets: the specification's example bit for bit, lists of kernels there and back, what each kernel asks.
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "packet/packet_judge.h"
#include "packet/random_packet.h"
#include "packet/reference_table.h"
#include "support/random.h"

namespace packet_condensed_test {

using namespace heddle::arch;
using namespace heddle::packet;
namespace oracle = heddle::oracle;

namespace {

DispatchFields plain(std::uint64_t mark) {
  DispatchFields fields;
  fields.synch_scopes = encode(SynchScopes{false, FenceScope::agent, FenceScope::system});
  fields.setup = 1;
  fields.workgroup = {64, 1, 1};
  fields.grid = {6400, 1, 1};
  fields.kernel_object = 0x1000 * mark;
  fields.kernarg = 0x10'0000 + 0x10 * mark;
  fields.completion_signal = 0x20'0000 + 0x20 * mark;
  return fields;
}

// An entry whose kernel object tells from which packet it is.
StoredKernel stored(const DispatchFields& fields) {
  KernelObject object;
  object.duration = {fields.kernarg, fields.kernarg};
  object.name = "of an entry";
  return {fields, object, shape_of(fields, object, 0), items_of(fields)};
}

ReferenceTable full_table() {
  ReferenceTable table;
  for (std::uint32_t i = 0; i < kReferenceEntries; ++i) table.store(i, stored(plain(i + 1)));
  return table;
}

CondensedKernels expanded(const PacketBytes& bytes, const ReferenceTable& table) {
  return expand(read_diffs(bytes, {}, table.size()), DiffOf::packet, table);
}

PacketBytes packet_of(const std::vector<Diff>& diffs) {
  CondensedPacket packet;
  std::uint32_t used = 0;
  for (const Diff& diff : diffs) REQUIRE(append(packet, used, diff));
  return encode(packet);
}

Diff diff_of(unsigned reference, unsigned vector, const DispatchFields& values = {}) {
  return {static_cast<std::uint8_t>(reference), static_cast<std::uint16_t>(vector), values};
}

DispatchFields scopes(bool barrier, FenceScope acquire, FenceScope release) {
  DispatchFields fields;
  fields.synch_scopes = encode(SynchScopes{barrier, acquire, release});
  return fields;
}

// The example of the specification, as C declares it: 62 bytes of half-words behind two bytes.
PacketBytes example() {
  struct Packet {
    std::uint8_t header;
    std::uint8_t num_kernels;
    std::uint16_t diff_values[31];
  } packet{7, 2, {0x8004, 0xdead, 0xbeef, 0xfeed, 0x0bad, 0x4006, 0x1234, 0x5678, 0xdeed, 0xface}};
  static_assert(sizeof(Packet) == 64, "no gaps");
  PacketBytes bytes{};
  std::memcpy(bytes.data(), &packet, bytes.size());
  return bytes;
}

}  // namespace

TEST_CASE("the example of the specification, bit for bit", "[packet][PKT-06]") {
  Diff first = diff_of(4, 0x1000);
  first.values.completion_signal = 0x0bad'feed'beef'dead;
  Diff second = diff_of(6, 0x0800);
  second.values.kernarg = 0xface'deed'5678'1234;
  const PacketBytes bytes = packet_of({first, second});
  const std::vector<unsigned> expected{0x07, 0x02, 0x04, 0x80, 0xad, 0xde, 0xef, 0xbe, 0xed, 0xfe, 0xad,
                                       0x0b, 0x06, 0x40, 0x34, 0x12, 0x78, 0x56, 0xed, 0xde, 0xce, 0xfa};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    INFO("byte " << i);
    CHECK(bytes[i] == (i < expected.size() ? expected[i] : 0U));
  }
  if (std::uint16_t one = 1; reinterpret_cast<const char*>(&one)[0] == 1) CHECK(example() == bytes);

  const CondensedKernels result = expanded(bytes, full_table());
  REQUIRE(result.result.ok());
  REQUIRE(result.kernels.size() == 2);
  DispatchFields like_4 = plain(5);
  like_4.completion_signal = 0x0bad'feed'beef'dead;
  DispatchFields like_6 = plain(7);
  like_6.kernarg = 0xface'deed'5678'1234;
  CHECK(result.kernels[0].kernel.fields == like_4);
  CHECK(result.kernels[1].kernel.fields == like_6);
  CHECK(result.kernels[0].changed == 0x1000);
  CHECK(result.kernels[1].changed == 0x0800);
  CHECK(result.kernels[1].kernel.object.duration.min == plain(7).kernarg);  // the entry's, whatever the arguments
  CHECK(result.kernels[0].signal == 0x0bad'feed'beef'dead);
  CHECK(result.kernels[1].signal == plain(7).completion_signal);
  const CondensedDiffs diffs = read_diffs(bytes, {}, 8);
  REQUIRE(diffs.result.ok());
  CHECK(diffs.entries == 0x50);
  CHECK(diffs.half_words == 10);
  CHECK(diffs.first_with(4) == 0);
  CHECK(diffs.first_with(6) == 1);
}

TEST_CASE("barrier and wide acquire are the first kernel's, release and signal the last one's",
          "[packet][PKT-06][PKT-07]") {
  ReferenceTable table;
  for (std::uint32_t i = 0; i < 3; ++i) {
    DispatchFields fields = plain(i + 1);
    fields.synch_scopes = scopes(i == 0, FenceScope::system, FenceScope::agent).synch_scopes;
    table.store(i, stored(fields));
  }
  const CondensedKernels three = expanded(packet_of({diff_of(0, 0), diff_of(1, 0), diff_of(2, 0)}), table);
  REQUIRE(three.result.ok());
  REQUIRE(three.kernels.size() == 3);
  const auto& k = three.kernels;
  CHECK(k[0].barrier);
  CHECK_FALSE(k[1].barrier);
  CHECK(k[0].acquire == FenceScope::system);
  CHECK(k[1].acquire == FenceScope::agent);  // what the kernels before it have written
  CHECK(k[2].acquire == FenceScope::agent);
  CHECK(k[0].release == FenceScope::none);
  CHECK(k[1].release == FenceScope::none);
  CHECK(k[2].release == FenceScope::agent);
  CHECK(k[0].signal == 0);
  CHECK(k[1].signal == 0);
  CHECK(k[2].signal == plain(3).completion_signal);

  const CondensedKernels one = expanded(packet_of({diff_of(0, 0)}), table);
  REQUIRE(one.kernels.size() == 1);
  CHECK(one.kernels[0].barrier);
  CHECK(one.kernels[0].acquire == FenceScope::system);
  CHECK(one.kernels[0].release == FenceScope::agent);
  CHECK(one.kernels[0].signal == plain(1).completion_signal);
}

// An acquire as well: what a diff sets is that dispatch's own ([54], [56], [0112]). The stored one has agent scope.
TEST_CASE("a kernel between the first and the last releases, signs or acquires widely only if its diff has the field",
          "[packet][PKT-06][PKT-07]") {
  const ReferenceTable table = full_table();
  DispatchFields values = scopes(true, FenceScope::system, FenceScope::agent);
  values.completion_signal = 0x4321'0020;
  for (unsigned vector = 0; vector < 0x2000; ++vector) {
    Diff diff = diff_of(2, vector, values);
    diff.values.kernarg = 0x60;
    if (half_words_of(diff) > 28) continue;
    const CondensedKernels result = expanded(packet_of({diff_of(1, 0), diff, diff_of(3, 0)}), table);
    REQUIRE(result.result.ok());
    const CondensedKernel& kernel = result.kernels[1];
    const bool own_scopes = vector % 2 == 1;
    const bool own_signal = vector >= 0x1000;
    if (kernel.release != (own_scopes ? FenceScope::agent : FenceScope::none)) FAIL("release, vector " << vector);
    if (kernel.signal != (own_signal ? 0x4321'0020 : 0)) FAIL("signal, vector " << vector);
    if (kernel.barrier != own_scopes) FAIL("barrier, vector " << vector);
    if (kernel.acquire != (own_scopes ? FenceScope::system : FenceScope::agent)) FAIL("acquire, vector " << vector);
    if (kernel.changed != vector) FAIL("what is checked again, vector " << vector);
    if (kernel.reads_object != (vector / 0x400 % 2 == 1)) FAIL("the kernel object, vector " << vector);
    if (result.kernels[0].signal != 0) FAIL("the first kernel signs");
  }
  // A diff may also ask for none.
  const CondensedKernels none = expanded(
      packet_of({diff_of(1, 0x1001, scopes(false, FenceScope::system, FenceScope::none)), diff_of(1, 0x1000)}), table);
  REQUIRE(none.kernels.size() == 2);
  CHECK(none.kernels[0].acquire == FenceScope::system);
  CHECK(none.kernels[0].release == FenceScope::none);
  CHECK(none.kernels[0].signal == 0);
  CHECK(none.kernels[1].signal == 0);
  CHECK(none.kernels[1].release == FenceScope::system);
}

TEST_CASE("diffs do not change the table", "[packet][PKT-06]") {
  const ReferenceTable table = full_table();
  DispatchFields values;
  for (std::uint32_t field = 0; field < kDispatchFields; ++field) set_field(values, field, field == 0 ? 1 : 0x1111);
  const PacketBytes bytes = packet_of({diff_of(3, 0x1FFF, values), diff_of(3, 0)});
  for (int round = 0; round < 2; ++round) {
    const CondensedKernels result = expanded(bytes, table);
    REQUIRE(result.kernels.size() == 2);
    CHECK(result.kernels[0].kernel.fields == values);
    CHECK(result.kernels[1].kernel.fields == plain(4));  // the second of the same packet, too
  }
  for (std::uint32_t i = 0; i < kReferenceEntries; ++i) CHECK(table.at(i).fields == plain(i + 1));
}

TEST_CASE("a reference to an empty entry, and which kernel it is", "[packet][PKT-05][PKT-09]") {
  for (unsigned empty = 0; empty < kReferenceEntries; ++empty) {
    ReferenceTable table;
    for (std::uint32_t i = 0; i < kReferenceEntries; ++i) {
      if (i != empty) table.store(i, stored(plain(i + 1)));
    }
    for (unsigned at = 0; at < 5; ++at) {
      std::vector<Diff> diffs(5, diff_of((empty + 1) % 8, 0));
      diffs[at].reference = static_cast<std::uint8_t>(empty);
      const CondensedKernels result = expanded(packet_of(diffs), table);
      CHECK(result.result.status == HsaStatus::invalid_argument);
      CHECK(result.bad == at);
      CHECK(result.kernels.size() == 0);
    }
    // A diff of all fields does not make up for the entry.
    CHECK(expanded(packet_of({diff_of(empty, 0x1FFF, plain(1))}), table).result.status == HsaStatus::invalid_argument);
  }
}

TEST_CASE("scopes that a diff makes up are judged", "[packet][PKT-09]") {
  const ReferenceTable table = full_table();
  for (unsigned raw = 0; raw < 256; ++raw) {
    DispatchFields values;
    values.synch_scopes = static_cast<std::uint8_t>(raw);
    const CondensedKernels result = expanded(packet_of({diff_of(0, 0), diff_of(0, 1, values), diff_of(0, 0)}), table);
    const bool exists = raw < 0x20 && (raw >> 1) % 4 < 3 && raw >> 3 < 3;
    CHECK(result.result.status == (exists ? HsaStatus::success : HsaStatus::invalid_packet_format));
    if (!exists) CHECK(result.bad == 1);
  }
}

TEST_CASE("a condensed packet of a bad format has no kernels", "[packet][PKT-09]") {
  const ReferenceTable table = full_table();
  PacketBytes bytes = packet_of({diff_of(0, 0), diff_of(1, 0)});
  const auto refused = [&](const PacketBytes& packet, std::uint32_t bad) {
    const CondensedDiffs diffs = read_diffs(packet, {}, 8);
    CHECK(diffs.count == 0);
    CHECK(diffs.bad == bad);
    const CondensedKernels result = expanded(packet, table);
    CHECK(result.bad == bad);
    return result.result.status == HsaStatus::invalid_packet_format && result.kernels.empty();
  };
  bytes[1] = 0;
  CHECK(refused(bytes, 0));
  bytes[1] = 1;
  CHECK(refused(bytes, 0));  // what follows the only kernel is not 0
  bytes[1] = 32;
  CHECK(refused(bytes, 31));
  bytes[1] = 2;
  CHECK(expanded(bytes, table).kernels.size() == 2);
  CHECK(read_diffs(bytes, {}, 8).entries == 3);
}

// Sizes are in workgroups there, all of them whole, and shared memory is all that a workgroup has.
TEST_CASE("a diff of stored information changes what it names, and that is what is checked again",
          "[packet][PKT-06][PKT-13]") {
  const DiffFormat format{DiffOf::stored, 3, 13};
  DispatchFields fields = plain(1);
  fields.private_segment = 16;
  fields.group_segment = 1024;
  KernelObject object;
  object.registers_per_thread = 32;
  object.static_shared = 512;
  object.program = 3;
  ReferenceTable table;
  table.store(0, {fields, object, shape_of(fields, object, 0), items_of(fields)});
  object.program = kNoCode;
  fields.grid[0] = 6401;  // 101 workgroups, the last one with one work-item
  table.store(1, {fields, object, shape_of(fields, object, 0), items_of(fields)});
  const auto apply = [&](std::uint32_t entry, const std::vector<std::pair<StoredField, std::uint64_t>>& values) {
    WrittenDiff diff;
    diff.reference = entry;
    for (const auto& [field, value] : values) {
      diff.vector |= 1U << static_cast<unsigned>(field);
      diff.values[static_cast<std::size_t>(field)] = value;
    }
    CondensedPacket packet;
    std::uint32_t used = 0;
    REQUIRE(append(packet, used, format, diff));
    return expand(read_diffs(encode(packet), format, 8), DiffOf::stored, table);
  };
  struct Case {
    std::vector<std::pair<StoredField, std::uint64_t>> diff;
    std::vector<unsigned> changed;  // fields of a packet; 13: registers, 14: program
    std::function<void(DispatchFields&, KernelObject&)> effect;
  };
  using F = DispatchFields;
  using K = KernelObject;
  using Stored = StoredField;
  const std::vector<Case> cases{
      {{}, {}, [](F&, K&) {}},
      {{{Stored::scopes, 0x0D}}, {0}, [](F& f, K&) { f.synch_scopes = 0x0D; }},
      {{{Stored::block_x, 32}}, {2, 5}, [](F& f, K&) { f.workgroup[0] = 32, f.grid[0] = 3200, f.setup = 3; }},
      {{{Stored::block_y, 2}}, {3, 6}, [](F& f, K&) { f.workgroup[1] = 2, f.grid[1] = 2, f.setup = 3; }},
      {{{Stored::block_z, 4}}, {4, 7}, [](F& f, K&) { f.workgroup[2] = 4, f.grid[2] = 4, f.setup = 3; }},
      {{{Stored::grid_x, 7}}, {5}, [](F& f, K&) { f.grid[0] = 448, f.setup = 3; }},
      {{{Stored::grid_x, 100}}, {}, [](F& f, K&) { f.setup = 3; }},  // as it was
      {{{Stored::grid_y, 5}}, {6}, [](F& f, K&) { f.grid[1] = 5, f.setup = 3; }},
      {{{Stored::grid_z, 6}}, {7}, [](F& f, K&) { f.grid[2] = 6, f.setup = 3; }},
      {{{Stored::block_x, 32}, {Stored::grid_x, 200}},
       {2},  // as many work-items as before
       [](F& f, K&) { f.workgroup[0] = 32, f.setup = 3; }},
      {{{Stored::grid_x, 0x03FF'FFFF}}, {5}, [](F& f, K&) { f.grid[0] = 0xFFFF'FFC0, f.setup = 3; }},
      {{{Stored::registers, 40}}, {13}, [](F&, K& k) { k.registers_per_thread = 40; }},
      {{{Stored::shared, 2048}}, {9}, [](F& f, K& k) { f.group_segment = 2048, k.static_shared = 0; }},
      {{{Stored::local, 64}}, {8}, [](F& f, K&) { f.private_segment = 64; }},
      {{{Stored::program, 9}}, {14}, [](F&, K& k) { k.program = 9; }},
      {{{Stored::kernarg, 0x4000}}, {11}, [](F& f, K&) { f.kernarg = 0x4000; }},
      {{{Stored::signal, 0x6000}}, {12}, [](F& f, K&) { f.completion_signal = 0x6000; }},
      {{{Stored::scopes, 0x0D},
        {Stored::registers, 40},
        {Stored::shared, 2048},
        {Stored::program, 9},
        {Stored::signal, 0x6000}},
       {0, 9, 12, 13, 14},
       [](F& f, K& k) {
         f.synch_scopes = 0x0D, f.group_segment = 2048, f.completion_signal = 0x6000;
         k.registers_per_thread = 40, k.static_shared = 0, k.program = 9;
       }},
  };
  for (const Case& one : cases) {
    CAPTURE(&one - cases.data());
    const CondensedKernels result = apply(0, one.diff);
    REQUIRE(result.kernels.size() == 1);
    const CondensedKernel& kernel = result.kernels[0];
    F expected = table.at(0).fields;
    K contents = table.at(0).object;
    one.effect(expected, contents);
    CHECK(kernel.kernel.fields == expected);
    CHECK(encode(kernel.kernel.object) == encode(contents));
    CHECK(kernel.kernel.object.program == contents.program);
    CHECK_FALSE(kernel.reads_object);
    FieldSet changed = 0;
    for (const unsigned field : one.changed) changed |= 1U << field;
    CHECK(kernel.changed == changed);
  }
  // With other sizes the last workgroup is as full as the rest.
  const CondensedKernels whole = apply(1, {{Stored::block_x, 32}});
  REQUIRE(whole.kernels.size() == 1);
  CHECK(whole.kernels[0].kernel.fields.grid[0] == 101 * 32);
  CHECK(apply(0, {{Stored::grid_x, 0x0400'0000}}).result.reason == Reason::grid_items);
  CHECK(apply(0, {{Stored::grid_x, 0x0400'0000}}).result.status == HsaStatus::invalid_argument);
  CHECK(apply(0, {{Stored::program, kNoCode}}).result.reason == Reason::object_program);
  CHECK(apply(1, {{Stored::program, kNoCode}}).result.ok());
  CHECK(apply(2, {}).result.reason == Reason::empty_entry);
}

TEST_CASE("what decides the barrier bit of a packet before it is decoded", "[packet][PKT-06]") {
  const auto bit = [](const PacketBytes& bytes) { return barrier_bit(bytes, {}, 8); };
  KernelDispatch plain_packet;
  CHECK_FALSE(bit(encode(plain_packet)).set);
  plain_packet.fields.synch_scopes = 1;
  CHECK(bit(encode(plain_packet)).set);
  CHECK_FALSE(bit(encode(plain_packet)).entry);
  CHECK(bit(packet_of({diff_of(5, 0x800), diff_of(6, 0)})).entry == 5U);
  const DispatchFields barrier = scopes(true, FenceScope::none, FenceScope::none);
  const DispatchFields no_barrier = scopes(false, FenceScope::system, FenceScope::none);
  CHECK(bit(packet_of({diff_of(5, 1, barrier)})).set);
  CHECK_FALSE(bit(packet_of({diff_of(5, 1, barrier)})).entry);
  CHECK_FALSE(bit(packet_of({diff_of(5, 1, no_barrier), diff_of(5, 1, barrier)})).set);
  // Of packets that are none nothing waits: they are refused at once.
  PacketBytes empty = packet_of({diff_of(5, 0)});
  empty[1] = 0;
  CHECK_FALSE(bit(empty).set);
  CHECK_FALSE(bit(empty).entry);
  CHECK_FALSE(barrier_bit(packet_of({diff_of(5, 0)}), {}, 4).entry);  // a table of four
}

// A list of kernels is what a host has: it appends one by one until a packet is full. The oracle, which shares no code
// with the model, has to find the same list in the bytes.
TEST_CASE("random lists of kernels through condensed packets and back", "[packet][PKT-06][PKT-07]") {
  HEDDLE_RANDOM(dice);
  oracle::Rng rng(dice.next());
  int kernels = 0;
  for (int round = 0; round < 4'000; ++round) {
    oracle::Table expected;
    ReferenceTable table;
    for (std::uint32_t i = 0; i < kReferenceEntries; ++i) {
      expected.entry[i].image = oracle::random_dispatch(rng, 6);
      expected.entry[i].full = true;
      KernelDispatch packet;
      REQUIRE(decode(expected.entry[i].image, packet).ok());
      table.store(i, stored(packet.fields));
    }
    CondensedPacket packet;
    std::uint32_t used = 0;
    std::vector<DispatchFields> list;
    std::vector<std::uint32_t> references;
    for (;;) {
      KernelDispatch target;
      REQUIRE(decode(oracle::random_dispatch(rng, 2), target).ok());
      Diff diff = diff_of(static_cast<unsigned>(rng.below(8)), 0, target.fields);
      for (std::uint64_t i = rng.below(4); i > 0; --i) {
        diff.vector = static_cast<std::uint16_t>(diff.vector | 1U << rng.below(13));
      }
      if (!append(packet, used, diff)) break;
      DispatchFields fields = table.at(diff.reference).fields;
      apply(diff, fields);
      list.push_back(fields);
      references.push_back(diff.reference);
    }
    if (list.empty()) continue;
    const PacketBytes bytes = encode(packet);
    const oracle::Condensed seen = oracle::condensed(bytes, expected);
    const CondensedKernels result = expanded(bytes, table);
    if (!result.result.ok() || !seen.format.none())
      FAIL("a good packet was refused: " << heddle::arch::reason_text(result.result.reason));
    if (result.kernels.size() != list.size() || seen.kernels.size() != list.size()) FAIL("kernels of round " << round);
    for (std::size_t i = 0; i < list.size(); ++i) {
      ++kernels;
      KernelDispatch from_oracle;
      oracle::Image image = seen.kernels[i].image;
      image[0] = 6;
      REQUIRE(decode(image, from_oracle).ok());
      const CondensedKernel& kernel = result.kernels[i];
      if (!(kernel.kernel.fields == list[i]) || !(from_oracle.fields == list[i])) FAIL("fields of kernel " << i);
      if (seen.kernels[i].reference != references[i]) FAIL("entry of " << i);
    }
  }
  CHECK(kernels > 12'000);
}

// The text leaves open how many entries there are, and how many bits name them and say what differs ([0105], [0113]).
TEST_CASE("random packets of every type, right and damaged, in other widths", "[packet][PKT-02][PKT-09][PKT-13]") {
  HEDDLE_RANDOM(dice);
  struct Shape {
    oracle::Widths widths;
    int rounds;
  };
  constexpr std::array<Shape, 5> kShapes{{{{3, 13, 8}, 60'000},
                                          {{4, 12, 16}, 10'000},
                                          {{2, 14, 4}, 10'000},
                                          {{5, 13, 32}, 10'000},
                                          {{8, 24, 20}, 10'000}}};
  for (const Shape& shape : kShapes) {
    CAPTURE(shape.widths.reference, shape.widths.vector);
    oracle::Rng rng(dice.next());
    oracle::Judge judge({}, shape.widths);
    for (int round = 0; round < shape.rounds; ++round) {
      if (rng.percent(1)) judge.clear_table();
      if (rng.percent(5)) {
        oracle::ObjectImage object = oracle::random_object(rng);
        if (rng.percent(50)) oracle::damage(rng, object);
        if (const char* wrong = judge.object(object); wrong != nullptr) FAIL(wrong << " differs, round " << round);
      }
      oracle::Image packet = oracle::random_packet(rng, judge.table(), shape.widths);
      for (std::uint64_t i = rng.below(3); i > 0; --i) oracle::damage(rng, packet);
      if (const char* wrong = judge.packet(packet); wrong != nullptr) FAIL(wrong << " differs, round " << round);
    }
    for (const std::size_t type : {0, 2, 3, 4, 5, 6, 7}) CHECK(judge.accepted(type) > shape.rounds / 60U);
    CHECK(judge.launches() < judge.packets());
    CHECK(judge.shaped() > shape.rounds / 10U);
  }
}

}  // namespace packet_condensed_test
