// Copy engines over their sockets.
#include "copy/copy_engines.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "copy/copy_bench.h"
#include "support/random.h"

namespace heddle::test::copy_engines_test {
namespace {

using arch::HsaStatus;
using arch::kHostWindow;
using copy::CopyParams;
using protocol::CopyDonePacket;

CopyParams params_of(std::uint32_t engines, double bandwidth, std::uint32_t outstanding, double set_up) {
  CopyParams params;
  params.engines = engines;
  params.bandwidth = bandwidth;
  params.outstanding = outstanding;
  params.set_up = set_up;
  return params;
}

void scramble_bytes(FakeMemory& memory, Random& random) {
  for (std::uint8_t& byte : memory.device) byte = static_cast<std::uint8_t>(random.next());
  for (std::uint8_t& byte : memory.host) byte = static_cast<std::uint8_t>(random.next());
}

}  // namespace

TEST_CASE("a copy's time is set-up, pace and two ways, exactly", "[copy][HST-05]") {
  // 4 lines at 64 bytes per cycle: reads in cycles 60, 62, 64, 66, each answered after 100; writes in 160 … 166.
  CopyBench bench(params_of(1, 64, 64, 50));
  bench.packets.send(10, copy_request(7, 1024, kHostWindow + 2048, 512));
  run_until_idle();
  REQUIRE(bench.packets.dones.size() == 1);
  const CopyDonePacket& done = bench.packets.dones[0];
  CHECK(done.tag == 7);
  CHECK(done.status == HsaStatus::success);
  CHECK(done.address == 0);
  CHECK(done.start == 10);
  CHECK(done.end == 266);
  REQUIRE(bench.memory.seen.size() == 8);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const FakeMemory::Seen& read = bench.memory.seen[i];
    CHECK_FALSE(read.write);
    CHECK(read.address == 1024 + i * 128);
    CHECK(read.bytes == 128);
    CHECK(read.when == 60 + i * 2);
    const FakeMemory::Seen& write = bench.memory.seen[4 + i];
    CHECK(write.write);
    CHECK(write.address == kHostWindow + 2048 + i * 128);
    CHECK(write.when == 160 + i * 2);
  }
  CHECK(bench.stat("engine0.bytes") == 512);
  CHECK(bench.stat("engine0.requests") == 1);
  CHECK(bench.stat("engine0.busy") == 256);
  CHECK(bench.stat("engine0.bandwidth") == Approx(2.0));  // 512 bytes in 256 ns
  CHECK(bench.stat("copies") == 1);
  CHECK(bench.violations() == std::vector<std::string>{});
  CHECK(bench.copies.idle());
}

TEST_CASE("a long copy runs at the engine's bandwidth, or at that of its places", "[copy][HST-05]") {
  SECTION("bandwidth: 256 lines of 3.2 cycles") {
    CopyBench bench(params_of(1, 40, 1000, 0));
    bench.packets.send(0, copy_request(1, 0, kHostWindow, 32'768));
    run_until_idle();
    // The last line begins when 255 lines of 3.2 cycles have passed.
    CHECK(bench.packets.done(1).end == 816 + 200);
  }
  SECTION("places: 8 lines in every 200 cycles") {
    CopyBench bench(params_of(1, 128, 8, 0));
    bench.packets.send(0, copy_request(1, 0, kHostWindow, 32'768));
    run_until_idle();
    CHECK(bench.packets.done(1).end == 32 * 200 + 7);
    CHECK(bench.memory.most_held == 8);
  }
}

TEST_CASE("a fill only writes, and repeats its word", "[copy][HST-05]") {
  CopyBench bench(params_of(1, 64, 64, 0));
  bench.registers.send(0, fill_request(3, 124, 140, 0x4433'2211));
  run_until_idle();
  CHECK(bench.registers.done(3).status == HsaStatus::success);
  CHECK(bench.packets.dones.empty());
  for (std::uint32_t at = 0; at < 400; ++at) {
    CAPTURE(at);
    const bool inside = at >= 124 && at < 264;
    CHECK(int{bench.memory.device[at]} == (inside ? 0x11 * static_cast<int>(at % 4 + 1) : 0));
  }
  CHECK(bench.memory.seen.size() == 3);
  CHECK(bench.stat("fills") == 1);
  CHECK(bench.stat("engine0.bytes") == 140);
}

TEST_CASE("two engines copy at the same time", "[copy][HST-05]") {
  CopyBench bench(params_of(2, 64, 64, 0));
  for (std::uint32_t i = 0; i < 3; ++i) bench.packets.send(5, copy_request(i, i * 8192, kHostWindow + i * 8192, 4096));
  run_until_idle();
  CHECK(bench.packets.done(0).start == 5);
  CHECK(bench.packets.done(1).start == 5);
  CHECK(bench.packets.done(0).end == bench.packets.done(1).end);
  CHECK(bench.packets.done(2).start == bench.packets.done(0).end);
  CHECK(bench.packets.done(2).end - bench.packets.done(2).start == bench.packets.done(0).end - 5);
  CHECK(bench.stat("engine0.bytes") == 8192);
  CHECK(bench.stat("engine1.bytes") == 4096);
  CHECK(bench.stat("queue_time.max") == static_cast<double>(bench.packets.done(0).end - 5));
}

TEST_CASE("copies of an instance's subcontexts use its engines alone, and wait for no others", "[copy][PRT-11]") {
  const arch::Instances instances({{{0}, {0}, {0, 2}, 1, {}}, {{1}, {1}, {1}, 1, {}}});
  const auto request = [](std::uint32_t tag, std::uint8_t subcontext) {
    protocol::CopyRequestPacket copy = copy_request(tag, tag * 1024, kHostWindow + tag * 1024, 1024);
    copy.subcontext = subcontext;
    return copy;
  };
  CopyBench bench(params_of(4, 64, 64, 0), TimingMode::at, 0, instances);
  std::vector<protocol::ShareRefusal> refused;
  bench.copies.on_refused([&](const auto&, protocol::ShareRefusal why) { refused.push_back(why); });
  const auto assign = [&](std::uint8_t subcontext, std::uint64_t value) {
    protocol::SubcontextPacket packet;
    packet.what = protocol::SubcontextPacket::What::instance;
    packet.subcontext = subcontext;
    packet.value = value;
    bench.registers.share_out.send(packet);
  };
  start();
  assign(1, 1);
  assign(2, 2);
  assign(3, 3);  // there is no third one
  // Subcontext 1 floods; 2 and 7, which has no instance, come behind all of it.
  for (std::uint32_t i = 0; i < 12; ++i) bench.packets.send(5, request(i, 1));
  bench.packets.send(6, request(12, 2));
  bench.packets.send(6, request(13, 7));
  run_until_idle();
  REQUIRE(bench.packets.dones.size() == 14);
  CHECK(bench.packets.done(12).start == 6);
  CHECK(bench.packets.done(13).start == 6);
  for (const FakeMemory::Seen& access : bench.memory.seen) {
    CAPTURE(access.engine, access.subcontext);
    CHECK((access.subcontext == 1) == (access.engine == 0 || access.engine == 2));
    CHECK((access.subcontext == 2) == (access.engine == 1));
  }
  CHECK(refused == std::vector<protocol::ShareRefusal>{protocol::ShareRefusal::value});

  // No engine is left for those of no instance.
  CopyBench full(params_of(3, 64, 64, 0), TimingMode::at, 0, instances);
  full.packets.send(5, request(0, 7));
  run_until_idle();
  CHECK(full.packets.done(0).status == HsaStatus::error);
}

TEST_CASE("requests of two senders are taken in the order of their arrival", "[copy][HST-05]") {
  CopyBench bench(params_of(1, 64, 64, 0));
  for (std::uint32_t i = 0; i < 12; ++i) {
    // One floods, the other comes now and then.
    FakeSender& sender = i % 4 == 3 ? bench.registers : bench.packets;
    sender.send(i, fill_request(i, i * 256, 256, i));
  }
  run_until_idle();
  std::vector<CopyDonePacket> all = bench.packets.dones;
  all.insert(all.end(), bench.registers.dones.begin(), bench.registers.dones.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  REQUIRE(all.size() == 12);
  for (std::uint32_t i = 0; i < 12; ++i) CHECK(all[i].tag == i);
  CHECK(bench.registers.dones.size() == 3);
}

TEST_CASE("0 bytes, and what is refused, are answered at once", "[copy][HST-05]") {
  CopyBench bench(params_of(1, 64, 64, 50));
  bench.packets.send(0, copy_request(1, 0, kHostWindow, 4096));
  bench.packets.send(3, copy_request(2, 5, 5, 0));
  bench.packets.send(4, copy_request(3, ~std::uint64_t{0}, 0, 2));
  bench.registers.send(5, fill_request(4, 2, 4, 0));
  run_until_idle();
  REQUIRE(bench.packets.dones.size() == 3);
  CHECK(bench.packets.dones[0].tag == 2);  // though the engine was busy
  CHECK(bench.packets.done(2).status == HsaStatus::success);
  CHECK(bench.packets.done(2).start == 3);
  CHECK(bench.packets.done(2).end == 3);
  CHECK(bench.packets.done(3).status == HsaStatus::error);
  CHECK(bench.packets.done(3).address == ~std::uint64_t{0});
  CHECK(bench.packets.done(1).status == HsaStatus::success);
  CHECK(bench.registers.done(4).status == HsaStatus::invalid_argument);
  CHECK(bench.registers.done(4).address == 2);
  CHECK(bench.stat("errors") == 2);
}

TEST_CASE("an error stops further pieces; what is under way is waited for; the engine goes on", "[copy][HST-05]") {
  const bool of_write = GENERATE(false, true);
  CAPTURE(of_write);
  CopyBench bench(params_of(1, 128, 4, 0));
  Random random(3);
  scramble_bytes(bench.memory, random);
  const auto before = bench.memory.host;
  // The line at 1024 of the source, or of the destination.
  bench.memory.fails = [of_write](std::uint64_t address, bool write) {
    return write == of_write && (address & 0xFFFF) / 128 == 8;
  };
  bench.packets.send(0, copy_request(1, 0, kHostWindow, 8192));
  bench.packets.send(1, copy_request(2, 4096, kHostWindow + 4096, 128));
  run_until_idle();
  const CopyDonePacket done = bench.packets.done(1);
  CHECK(done.status == HsaStatus::error);
  CHECK(done.address == (of_write ? kHostWindow + 1024 : 1024));
  // The first 8 lines had been written; nothing from beyond the 4 places that were out.
  for (std::uint32_t at = 0; at < 8 * 128; ++at) REQUIRE(bench.memory.host[at] == bench.memory.device[at]);
  for (std::uint32_t at = 12 * 128; at < 4096; ++at) REQUIRE(bench.memory.host[at] == before[at]);
  std::uint32_t answered_late = 0;
  for (const FakeMemory::Seen& seen : bench.memory.seen) {
    if ((seen.address & 0xFFFF) >= 12 * 128 && (seen.address & 0xFFFF) < 4096) ++answered_late;
  }
  CHECK(answered_late == 0);
  CHECK(done.end >= bench.memory.seen[bench.memory.seen.size() - 3].when + 100);
  CHECK(bench.packets.done(2).status == HsaStatus::success);
  CHECK(bench.packets.done(2).start == done.end);
  CHECK(bench.stat("errors") == 1);
  CHECK(bench.copies.idle());
  CHECK(bench.violations() == std::vector<std::string>{});
}

TEST_CASE("memory that is not there, on either side, and corrupt data are errors", "[copy][HST-05]") {
  CopyBench bench(params_of(2, 64, 16, 0));
  const std::uint64_t size = FakeMemory::kBytes;
  bench.packets.send(0, copy_request(1, size - 100, kHostWindow, 400));
  bench.packets.send(0, copy_request(2, 0, kHostWindow + size, 4));
  bench.packets.send(0, fill_request(3, size, 256, 1));
  bench.packets.send(0, fill_request(4, 1024, 256, 1));
  run_until_idle();
  CHECK(bench.packets.done(1).status == HsaStatus::error);
  CHECK(bench.packets.done(1).address == size);
  CHECK(bench.packets.done(2).address == kHostWindow + size);
  CHECK(bench.packets.done(3).address == size);
  CHECK(bench.packets.done(4).status == HsaStatus::success);
  bench.memory.poisons = true;
  bench.packets.send(bench.domain.now(), copy_request(5, 300, kHostWindow, 8));
  run_until_idle();
  CHECK(bench.packets.done(5).status == HsaStatus::error);
  CHECK(bench.packets.done(5).address == 300);
}

// Against memcpy: several copies that do not touch each other, in any alignment, in memory that answers in any order
// and pushes back.
TEST_CASE("random copies and fills move what they should and nothing else", "[copy][HST-05]") {
  for (const std::uint64_t seed : seeds(150)) {
    CAPTURE(seed);
    Random random(seed);
    const TimingMode mode = random.chance(40) ? TimingMode::lt : TimingMode::at;
    const CopyParams params =
        params_of(random.between(1, 3), random.between(1, 600) / 4.0, random.between(1, 40), random.below(100));
    CopyBench bench(params, mode, random.chance(50) ? 0 : 1000);
    scramble_bytes(bench.memory, random);
    Random delays(seed);
    const std::uint32_t spread = random.between(1, 300);
    bench.memory.latency = [&delays, spread] { return Cycle{delays.between(1, spread)}; };
    bench.memory.places = random.between(1, 20);
    auto device = bench.memory.device;
    auto host = bench.memory.host;
    const auto expected = [&](std::uint64_t address) -> std::uint8_t& {
      return arch::in_host_window(address) ? host[arch::host_address(address)] : device[address];
    };
    // Sources in the lower half of each memory, destinations in slots of the upper half.
    const std::uint32_t count = random.between(1, 12);
    for (std::uint32_t i = 0; i < count; ++i) {
      FakeSender& sender = random.chance(50) ? bench.packets : bench.registers;
      const std::uint64_t to_base = (random.chance(50) ? kHostWindow : 0) + 32'768 + i * 2048;
      const std::uint64_t bytes = random.chance(10) ? 0 : random.between(1, 1500);
      if (random.chance(30)) {
        const auto value = static_cast<std::uint32_t>(random.next());
        const std::uint64_t to = to_base + random.below(100) * 4;
        sender.send(random.below(3000), fill_request(i, to, bytes / 4 * 4, value));
        for (std::uint64_t at = 0; at < bytes / 4 * 4; ++at) {
          expected(to + at) = static_cast<std::uint8_t>(value >> 8 * (at % 4));
        }
        continue;
      }
      const std::uint64_t from = (random.chance(50) ? kHostWindow : 0) + random.below(30'000);
      const std::uint64_t to = to_base + random.below(500);
      sender.send(random.below(3000), copy_request(i, from, to, bytes));
      for (std::uint64_t at = 0; at < bytes; ++at) expected(to + at) = expected(from + at);
    }
    run_until_idle();
    REQUIRE(bench.packets.dones.size() + bench.registers.dones.size() == count);
    REQUIRE(bench.memory.device == device);
    REQUIRE(bench.memory.host == host);
    REQUIRE(bench.memory.most_held <= std::min(params.outstanding, bench.memory.places));
    REQUIRE(bench.violations() == std::vector<std::string>{});
    REQUIRE(bench.copies.idle());
    WaitGraph waits;
    bench.copies.collect_waits(waits);
    REQUIRE(waits.empty());
  }
}

TEST_CASE("payloads say whose they are, and are given back", "[copy]") {
  CopyBench bench(params_of(1, 64, 64, 0));
  protocol::CopyRequestPacket request = copy_request(1, 0, kHostWindow, 256);
  request.subcontext = 5;
  bench.packets.send(0, request);
  run_until_idle();
  for (const FakeMemory::Seen& seen : bench.memory.seen) CHECK(seen.subcontext == 5);
  CHECK(bench.copies.payloads() == 0);
}

TEST_CASE("loosely timed, set-up is free and the bytes take their time", "[copy][HST-05]") {
  CopyBench bench(params_of(1, 64, 64, 50), TimingMode::lt);
  bench.packets.send(10, copy_request(7, 1024, kHostWindow + 2048, 512));
  run_until_idle();
  CHECK(bench.packets.done(7).start == 10);
  CHECK(bench.packets.done(7).end == 10 + 6 + 200);
}

TEST_CASE("a copy that waits says for what", "[copy]") {
  CopyBench bench(params_of(1, 64, 64, 0));
  bench.memory.places = 2;
  bench.packets.send(0, copy_request(1, 0, kHostWindow, 1024));
  bench.packets.send(0, copy_request(2, 0x4000, kHostWindow + 0x4000, 64));
  run_until(sc_core::sc_time(50, sc_core::SC_NS));
  WaitGraph waits;
  bench.copies.collect_waits(waits);
  CHECK(waits.size() == 2);
  CHECK(waits.chain().at(0).find("copy engine 0: copy of 1024 bytes") != std::string::npos);
  CHECK(waits.chain().at(0).find("the memory hub") != std::string::npos);
  bench.memory.places = 100;
  run_until_idle();
  CHECK(bench.packets.dones.size() == 2);
}

TEST_CASE("the timeline shows what an engine does, and its set-up", "[copy]") {
  struct Sink : TimelineSink {
    std::vector<std::string> lines;
    std::vector<std::string> slices;
    TrackId track(const std::string& group, const std::string& line) override {
      lines.push_back(group + "/" + line);
      return {0, static_cast<std::uint32_t>(lines.size())};
    }
    void slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, TimelineArgs) override {
      slices.push_back(
          fmt::format("{}: {} to {}: {}", lines.at(track.line - 1), begin / 1000, end / 1000, std::string(name)));
    }
    void counter(TrackId, Picoseconds, std::string_view, double) override {}
  } sink;
  CopyBench bench(params_of(2, 64, 64, 50));
  bench.observation.timeline = &sink;
  bench.packets.send(10, copy_request(1, 0, kHostWindow, 512));
  bench.packets.send(20, fill_request(2, 0x8000, 256, 0));
  run_until_idle();
  std::sort(sink.slices.begin(), sink.slices.end());
  CHECK(sink.slices == std::vector<std::string>{
                           "gpu0 copy engines/engine 0: 10 to 266: copy of 512 bytes",
                           "gpu0 copy engines/engine 0: 10 to 60: set-up",
                           "gpu0 copy engines/engine 1: 20 to 172: fill of 256 bytes",
                           "gpu0 copy engines/engine 1: 20 to 70: set-up",
                       });
}

TEST_CASE("a reset in mid-flight forgets all, and leaves nothing behind", "[copy][HST-05]") {
  for (const std::uint64_t seed : seeds(60)) {
    CAPTURE(seed);
    Random random(seed);
    CopyBench bench(params_of(2, 64, random.between(1, 16), random.below(60)));
    if (random.chance(30)) bench.memory.places = random.between(1, 4);
    scramble_bytes(bench.memory, random);
    for (std::uint32_t i = 0; i < 5; ++i) {
      bench.packets.send(i, copy_request(i, i * 2048 + i, kHostWindow + i * 4096 + 3 * i, 1800));
    }
    run_until(sc_core::sc_time(static_cast<double>(random.between(1, 900)), sc_core::SC_NS));
    bench.domain.reset();
    for (const auto& checker : bench.checkers) checker->forget();
    bench.packets.dones.clear();
    bench.memory.seen.clear();
    CHECK(bench.copies.idle());
    REQUIRE(bench.copies.payloads() == 0);
    bench.packets.send(0, copy_request(9, 777, kHostWindow + 33'000, 1500));
    run_until(sc_core::sc_time_stamp() + sc_core::sc_time(30, sc_core::SC_NS));
    run_until_idle();
    REQUIRE(bench.packets.dones.size() == 1);
    CHECK(bench.packets.dones[0].tag == 9);
    CHECK(bench.packets.dones[0].status == HsaStatus::success);
    CHECK(std::equal(bench.memory.device.begin() + 777, bench.memory.device.begin() + 777 + 1500,
                     bench.memory.host.begin() + 33'000));
    CHECK(bench.copies.payloads() == 0);
  }
}

}  // namespace heddle::test::copy_engines_test
