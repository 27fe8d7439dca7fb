// What the packet processor tells the checker of races about packets (PKT-14): the rules of hsa.h, with kernels and
// copies that write and read one word.
#include <array>
#include <set>
#include <string>

#include <fmt/format.h>

#include "arch/race_checker.h"
#include "packet/packet_bench.h"

namespace packet_processor_order_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::arch::FenceScope;
using heddle::arch::MissingSync;
using heddle::arch::PacketType;
using heddle::packet::CondensedOrder;
using heddle::packet::PacketParams;
using heddle::protocol::QueueEvent;
using namespace heddle::test;

namespace {

using Found = std::set<std::string>;  // "writer > reader: what is missing"

constexpr std::uint64_t kWord = 0x5000;
constexpr std::uint64_t kOther = 0x5400;
constexpr std::uint32_t kReader = 8;  // number of an object; those of writers are smaller
constexpr std::array<FenceScope, 3> kScopes{FenceScope::none, FenceScope::agent, FenceScope::system};

std::string race(const std::string& writer, const std::string& reader, MissingSync missing) {
  constexpr std::array<const char*, 5> kNames{"order", "release", "wider release", "acquire", "wider acquire"};
  return fmt::format("{} > {}: {}", writer, reader, kNames[static_cast<std::size_t>(missing)]);
}

std::uint8_t scopes(bool barrier, FenceScope acquire, FenceScope release) {
  return arch::encode(arch::SynchScopes{barrier, acquire, release});
}

// Kernels that are called "write …" write the word when they start, those called "read …" read it.
struct Watched : PacketBench {
  explicit Watched(const PacketParams& params = {}) : PacketBench(params) {
    observation.races = &checker;
    tasks.duration = [this](const FakeTasks::Kernel& kernel) {
      const std::uint64_t operation = kernel.packet.operation;
      const auto nobody = [] { return std::string("nobody"); };
      const arch::LineBytes word = arch::LineBytes::range(0, 4);
      if (kernel.label.find("write") == 0) checker.writes(operation, {kWord}, word, false, nobody);
      if (kernel.label.find("read") == 0) checker.reads(operation, {kWord}, word, nobody);
      return Cycle{5000};
    };
  }
  ~Watched() { observation.races = nullptr; }

  arch::DispatchFields writer(std::uint8_t scopes, std::uint64_t signal = 0, std::uint32_t number = 0) {
    arch::DispatchFields fields = fields_of(object(fmt::format("write {}", number), number), signal);
    fields.synch_scopes = scopes;
    return fields;
  }
  arch::DispatchFields reader(std::uint8_t scopes, std::uint64_t signal = 0) {
    arch::DispatchFields fields = fields_of(object("read", kReader), signal);
    fields.synch_scopes = scopes;
    return fields;
  }
  // By the first words of their names.
  Found found() const {
    Found all;
    const auto plain = [](const std::string& name) { return name.substr(0, name.find(" (")); };
    for (const arch::Race& race : checker.races()) {
      all.insert(packet_processor_order_test::race(plain(race.writer), plain(race.reader), race.missing));
    }
    return all;
  }

  arch::RaceChecker checker{{true, 64}, false, observation.stats, "gpu0", [](const arch::Race&) {}};
};

arch::PacketBytes plain(const arch::DispatchFields& fields) { return arch::encode(arch::KernelDispatch{fields, 0, 0}); }

const FenceScope kNone = FenceScope::none;
const FenceScope kAgent = FenceScope::agent;
const FenceScope kSystem = FenceScope::system;

}  // namespace

TEST_CASE("packets of one queue hand over what barrier bit, release and acquire say", "[packet][PKT-14]") {
  for (const bool barrier : {false, true}) {
    for (const FenceScope release : kScopes) {
      for (const FenceScope acquire : kScopes) {
        CAPTURE(barrier, int(release), int(acquire));
        Watched bench;
        Producer queue(bench, 0);
        queue.write(plain(bench.writer(scopes(false, kNone, release))));
        queue.write(plain(bench.reader(scopes(barrier, acquire, kNone))));
        queue.ring(1);
        REQUIRE(bench.settle());
        Found expected;
        if (!barrier) {
          expected.insert(race("write 0", "read", MissingSync::order));
        } else if (release == kNone) {
          expected.insert(race("write 0", "read", MissingSync::release));
        } else if (acquire == kNone) {
          expected.insert(race("write 0", "read", MissingSync::acquire));
        }
        CHECK(bench.found() == expected);
        // Nothing is kept of packets that are complete.
        CHECK(bench.checker.order().past_of(0, 0) == nullptr);
        CHECK(bench.checker.order().past_of(0, 1) == nullptr);
      }
    }
  }
}

TEST_CASE("the host reads what a signal and a release of system scope have told it of", "[packet][PKT-14]") {
  for (const FenceScope release : kScopes) {
    for (const bool signal : {false, true}) {
      CAPTURE(int(release), signal);
      Watched bench;
      Producer queue(bench, 0);
      queue.submit(plain(bench.writer(scopes(false, kNone, release), signal ? bench.signal(0, 1) : 0)));
      REQUIRE(bench.settle());
      bench.checker.host_reads(kWord, 4);
      Found expected;
      if (!signal) {
        expected.insert(race("write 0", "the host", MissingSync::order));
      } else if (release != kSystem) {
        expected.insert(
            race("write 0", "the host", release == kNone ? MissingSync::release : MissingSync::wider_release));
      }
      CHECK(bench.found() == expected);
    }
  }
}

// Each follows when the one before it has completed, so that none needs a release inside the packet.
TEST_CASE("kernels of a condensed packet follow each other, and acquire as their entries say",
          "[packet][PKT-07][PKT-14]") {
  for (const FenceScope acquire : kScopes) {
    CAPTURE(int(acquire));
    Watched bench;
    Producer queue(bench, 0);
    queue.submit(reference_packet(0, bench.writer(scopes(true, kNone, kAgent))));
    REQUIRE(bench.settle());
    queue.submit(reference_packet(1, bench.reader(scopes(true, acquire, kNone))));
    REQUIRE(bench.settle());
    const Found expected = acquire == kNone ? Found{race("write 0", "read", MissingSync::acquire)} : Found{};
    CHECK(bench.found() == expected);
    queue.submit(condensed_packet({diff_of(0), diff_of(1), diff_of(0)}));
    REQUIRE(bench.settle());
    CHECK(bench.found() == expected);
    CHECK(bench.checker.found() == 2 * expected.size());
    CHECK(bench.names().size() == 5);
  }
}

TEST_CASE("overlapping kernels of a condensed packet have no order but their barrier bits",
          "[packet][PKT-07][PKT-14]") {
  for (const CondensedOrder order : {CondensedOrder::in_order, CondensedOrder::overlap}) {
    for (const bool barrier : {false, true}) {
      CAPTURE(static_cast<int>(order), barrier);
      PacketParams params;
      params.condensed = order;
      Watched bench(params);
      Producer queue(bench, 0);
      queue.submit(reference_packet(0, bench.writer(scopes(false, kNone, kAgent))));
      REQUIRE(bench.settle());
      queue.submit(reference_packet(1, bench.reader(scopes(true, kAgent, kAgent))));
      REQUIRE(bench.settle());
      CHECK(bench.found().empty());
      const auto with_barrier = scopes(barrier, kAgent, kAgent);
      queue.submit(
          condensed_packet({diff_of(0, {{0, scopes(true, kAgent, kAgent)}}), diff_of(1, {{0, with_barrier}})}));
      REQUIRE(bench.settle());
      const bool ordered = barrier || order == CondensedOrder::in_order;
      CHECK(bench.found() == (ordered ? Found{} : Found{race("write 0", "read", MissingSync::order)}));
    }
  }
}

TEST_CASE("the last release of a condensed packet is for all its kernels", "[packet][PKT-07][PKT-14]") {
  for (const bool released : {false, true}) {
    CAPTURE(released);
    Watched bench;
    Producer queue(bench, 0);
    queue.submit(reference_packet(0, bench.writer(scopes(true, kAgent, kAgent))));
    queue.submit(reference_packet(1, fields_of(bench.object("idle", 3))));
    REQUIRE(bench.settle());
    const auto last = scopes(false, kNone, released ? kAgent : kNone);
    queue.submit(condensed_packet({diff_of(0), diff_of(1, {{0, last}})}));
    queue.submit(plain(bench.reader(scopes(true, kAgent, kNone))));
    REQUIRE(bench.settle());
    CHECK(bench.found() == (released ? Found{} : Found{race("write 0", "read", MissingSync::release)}));
  }
}

TEST_CASE("what is behind a barrier packet is behind all whose signals that has found at 0", "[packet][PKT-14]") {
  enum class Waits { none, both, one };
  for (const Waits waits : {Waits::none, Waits::both, Waits::one}) {
    CAPTURE(static_cast<int>(waits));
    Watched bench;
    const std::uint64_t first = bench.signal(0, 1);
    const std::uint64_t second = bench.signal(1, 1);
    Producer a(bench, 0);
    Producer b(bench, 1);
    Producer c(bench, 2);
    a.submit(plain(bench.writer(scopes(false, kNone, kAgent), waits == Waits::none ? 0 : first)));
    if (waits != Waits::one) REQUIRE(bench.settle());
    if (waits == Waits::one) bench.run(2000);  // it runs still
    if (waits == Waits::one) b.submit(hold_packet(100, second));
    if (waits == Waits::both) c.write(barrier_packet(PacketType::barrier_and, {first, 0, 0}));
    if (waits == Waits::one) c.write(barrier_packet(PacketType::barrier_or, {first, second}));
    c.write(plain(bench.reader(scopes(false, kAgent, kNone))));
    c.ring(c.next() - 1);
    REQUIRE(bench.settle());
    CHECK(bench.found() == (waits == Waits::both ? Found{} : Found{race("write 0", "read", MissingSync::order)}));
  }
}

TEST_CASE("a barrier packet's own release and barrier bit hand on what is before it", "[packet][PKT-14]") {
  for (const bool barrier : {false, true}) {
    for (const FenceScope release : kScopes) {
      CAPTURE(barrier, int(release));
      Watched bench;
      Producer queue(bench, 0);
      queue.write(plain(bench.writer(scopes(false, kNone, kNone))));
      arch::BarrierPacket between;
      between.scopes = {barrier, kNone, release};
      queue.write(arch::encode(between, PacketType::barrier_and));
      queue.write(plain(bench.reader(scopes(false, kAgent, kNone))));
      queue.ring(2);
      REQUIRE(bench.settle());
      Found expected;
      if (!barrier) {
        expected.insert(race("write 0", "read", MissingSync::order));
      } else if (release == kNone) {
        expected.insert(race("write 0", "read", MissingSync::release));
      }
      CHECK(bench.found() == expected);
    }
  }
}

TEST_CASE("the host has what an agent packet waited for, and hands on what it has done", "[packet][PKT-14]") {
  for (const bool barrier : {false, true}) {
    CAPTURE(barrier);
    Watched bench;
    Producer queue(bench, 0);
    bench.host.react = [&](const protocol::QueueEventPacket& event) {
      if (event.event != QueueEvent::agent) return;
      bench.checker.host_reads(kWord, 4);
      bench.checker.host_writes(kWord, 4);
    };
    queue.write(plain(bench.writer(scopes(false, kNone, kSystem))));
    queue.write(agent_packet(1, 0, barrier));
    queue.write(plain(bench.reader(scopes(true, kSystem, kNone))));
    queue.ring(2);
    bench.run(20'000);
    queue.agent_done(1);
    REQUIRE(bench.settle());
    // What the host wrote is the word that is read.
    CHECK(bench.found() == (barrier ? Found{} : Found{race("write 0", "the host", MissingSync::order)}));
  }
}

TEST_CASE("copies need an order, and whoever reads what they have written", "[packet][PKT-14][HST-05]") {
  enum class What { reads, writes, fills, host };
  for (const What what : {What::reads, What::writes, What::fills, What::host}) {
    for (const bool barrier : {false, true}) {
      CAPTURE(static_cast<int>(what), barrier);
      Watched bench;
      Producer queue(bench, 0);
      arch::VendorPacket copy;
      copy.format = what == What::fills ? arch::VendorFormat::fill : arch::VendorFormat::copy;
      if (what != What::fills) copy.from = what == What::reads ? kWord : arch::kHostWindow + kWord;
      copy.to = what == What::reads ? arch::kHostWindow + kWord : what == What::host ? kOther : kWord;
      copy.bytes = 64;
      copy.scopes = {barrier && what == What::reads, kNone, kAgent};
      if (what == What::reads) queue.write(plain(bench.writer(scopes(false, kNone, kAgent))));
      queue.write(arch::encode(copy));
      queue.write(plain(bench.reader(scopes(true, kAgent, kNone))));
      if (what != What::reads) bench.copies.duration = [] { return Cycle{3000}; };
      queue.ring(queue.next() - 1);
      REQUIRE(bench.settle());
      Found expected;
      const std::string name = fmt::format("the copy of packet {} of queue 0", what == What::reads ? 1 : 0);
      if (what == What::reads && !barrier) expected.insert(race("write 0", name, MissingSync::order));
      CHECK(bench.found() == expected);
      if (what == What::reads) continue;
      // Without a barrier bit nobody knows that the copy is over.
      queue.write(arch::encode(copy));
      queue.write(plain(bench.reader(scopes(barrier, kAgent, kNone))));
      queue.ring(queue.next() - 1);
      REQUIRE(bench.settle());
      CHECK(bench.copies.copies.size() == 2);
      const std::string second = "the copy of packet 2 of queue 0";
      const bool touches = what == What::writes || what == What::fills;
      CHECK(bench.found() == (barrier || !touches ? Found{} : Found{race(second, "read", MissingSync::order)}));
    }
  }
}

}  // namespace packet_processor_order_test
