// How CTAs of CGAs begin and end on a GPC: entry in all tables, exit permission, early release, errors, flush.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "gpc/gpc_bench.h"
#include "support/random.h"

namespace gpc_exit_test {

using Catch::Contains;
using namespace heddle::test;
using heddle::Cycle;
using heddle::TimingMode;
using heddle::gpc::ExitPermission;
using Kind = heddle::protocol::ClusterOrderPacket::Kind;

namespace {

constexpr Cycle kThere = 10 + 5 + 2;    // distributor to SM, with plain()
constexpr Cycle kToGpm = 3 + 5;         // SM to GPM
constexpr Cycle kAsk = 5 + 2 + kToGpm;  // GPM to SM and back
constexpr Cycle kPermit = 3 + 2;        // SM to MPC and back
constexpr Cycle kDone = kPermit + 5;    // from the end of a CTA until its GPM hears of it

std::vector<SmScript::Order> orders(const GpcBench& bench, Kind kind) {
  std::vector<SmScript::Order> result;
  for (const auto& order : bench.script.orders) {
    if (order.packet.kind == kind) result.push_back(order);
  }
  return result;
}

}  // namespace

TEST_CASE("every SM of the GPC enters every CTA of a CGA, and no other", "[gpc][CGA-03]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    GpcParams params = plain();
    params.raster_cycles = 3;
    params.cta_broadcast = 20;
    GpcBench bench(uneven(), params, mode, 0, 4);
    bench.cwd.script = {bench.cga(4, {0b0100'0011, 0b1}, 8, 4, true, 77), bench.launch(1, 0b11, 0)};
    bench.cwd.start(0);
    run_until_idle();
    REQUIRE(bench.script.entries.size() == 4 * 8);
    std::map<std::uint32_t, std::uint32_t> seen;  // SMs by rank
    const std::vector<std::uint32_t> tpc_of{0, 0, 3, 0};
    const std::vector<std::uint32_t> sm_of{0, 1, 6, 0};
    // The raster unit of TPC 0 makes the ids of ranks 0, 1 and 3 one after another.
    const std::vector<Cycle> wait{0, 3, 0, 6};
    for (const auto& entry : bench.script.entries) {
      const std::uint32_t rank = entry.packet.rank;
      CAPTURE(rank);
      ++seen[rank];
      CHECK(entry.cycle == (mode != TimingMode::lt ? 10 + 5 + wait.at(rank) + 20 : 0));
      CHECK(entry.packet.cga_id == 0);
      CHECK(entry.packet.sequence == 77);
      CHECK(entry.packet.ctas == 4);
      CHECK(entry.packet.tpc == tpc_of.at(rank));
      CHECK(entry.packet.sm_in_tpc == sm_of.at(rank) - bench.gpc.tpcs[tpc_of.at(rank)].first_sm);
      CHECK(entry.packet.sm == sm_of.at(rank));
    }
    CHECK(seen == std::map<std::uint32_t, std::uint32_t>{{0, 8}, {1, 8}, {2, 8}, {3, 8}});
    bench.expect_idle();
  }
}

TEST_CASE("every CTA asks, and one with accesses in flight leaves when the MPC permits it", "[gpc][CGA-11]") {
  for (const bool drained : {true, false}) {
    for (const bool clustered : {true, false}) {
      CAPTURE(drained, clustered);
      GpcParams params = plain();
      params.exit_permission = drained ? ExitPermission::drained : ExitPermission::at_once;
      GpcBench bench(uneven(), params);
      bench.script.behave = [](std::uint64_t index) {
        return Behaviour{50, {}, true, index == 1 ? Cycle{200} : Cycle{0}, 0};
      };
      bench.cwd.script = {clustered ? bench.cga(0, {0b11}, 0, 2, true, 9) : bench.launch(0, 0b11, 0)};
      bench.cwd.start(0);
      run_until_idle();
      const Cycle asked = kThere + 50;
      const Cycle left = asked + (drained ? 200 : 0) + kPermit;
      const auto permits = orders(bench, Kind::permit);
      REQUIRE(permits.size() == 2);
      CHECK(permits[0].sm == 0);
      CHECK(permits[0].cycle == asked + kPermit);  // it had nothing in flight
      CHECK(permits[1].sm == 1);
      CHECK(permits[1].cycle == left);
      REQUIRE(bench.script.gone.size() == 2);
      CHECK(bench.script.gone[0].index == 0);
      CHECK(bench.script.gone[0].cycle == asked + kPermit);
      CHECK(bench.script.gone[1].cycle == left);
      // cta_complete leaves the MPC when the SM has let go of the CTA.
      CHECK(bench.cwd.completions.back().first == left + 5 + 40);
      if (clustered) {
        // The flush waits for what the exit has not waited for.
        const Cycle quiet = std::max(left + 5 + 5 + 2, asked + 200);
        REQUIRE(bench.cwd.cga_completions.size() == 1);
        CHECK(bench.cwd.cga_completions[0].first == quiet + kToGpm + 26 + 40);
      }
      bench.expect_idle();
    }
  }
}

TEST_CASE("a flush asks every SM to forget, and waits for those that hosted a CTA", "[gpc][CGA-12]") {
  GpcBench bench(uneven(), plain());
  const std::vector<Cycle> drain{9, 40, 1000, 25, 0, 1000, 1000, 1000};  // SMs 0, 1, 3 and 4 host one
  bench.script.drain = [&drain](std::uint32_t sm) { return drain[sm]; };
  bench.cwd.script = {bench.cga(0, {0b1'1011}, 0, 4, true, 9)};
  bench.cwd.start(0);
  run_until(sc_core::sc_time(kThere + 50 + kDone + 30, sc_core::SC_NS));
  heddle::WaitGraph waits;
  bench.domain.collect_waits(waits);
  CHECK(waits.size() == 2);  // TPCs 0 and 2
  CHECK(waits.chain().at(0) ==
        "operation 100 waits: for the flush of CGA 0 of GPC 5, and that for the accesses in flight of TPC 0");
  run_until_idle();
  const auto flushes = orders(bench, Kind::flush);
  REQUIRE(flushes.size() == 8);
  for (const auto& order : flushes) CHECK(order.cycle == kThere + 50 + kDone + 5 + 2);
  REQUIRE(bench.cwd.cga_completions.size() == 1);
  CHECK(bench.cwd.cga_completions[0].first == kThere + 50 + kDone + kAsk + 40 + 26 + 40);
  CHECK(bench.stat("gpm.flush_cycles.mean") == kAsk + 40 + 26);
  CHECK(bench.stat("gpm.flush_cycles.count") == 1);
  bench.expect_idle();
}

TEST_CASE("without the flush an id is free before its accesses are answered", "[gpc][CGA-12]") {
  for (const bool flush : {true, false}) {
    CAPTURE(flush);
    GpcParams params = plain();
    params.dsmem_flush = flush;
    params.cga_ids = 1;
    GpcBench bench(uneven(), params);
    bench.script.drain = [](std::uint32_t) { return Cycle{500}; };
    bench.cwd.script = {bench.cga(0, {0b11}, 0, 2, true, 1), bench.cga(0, {0b11}, 2, 2, true, 2)};
    bench.cwd.start(0);
    run_until_idle();
    const Cycle freed = kThere + 50 + kDone + (flush ? kAsk + 500 : 0) + 26;
    REQUIRE(bench.starts.size() == 4);
    CHECK(bench.starts.back().cycle == freed + 5 + 2);
    CHECK(bench.starts.back().packet.tag.cga_id == 0);
    CHECK(orders(bench, Kind::flush).size() == 16);
    CHECK(bench.cwd.cga_completions.size() == 2);
    bench.expect_idle();
  }
}

TEST_CASE("a CTA that is shorter than the broadcast of its start is not entered after its flush", "[gpc][CGA-12]") {
  for (const Cycle broadcast : {Cycle{0}, Cycle{40}, Cycle{300}}) {
    GpcParams params = plain();
    params.cta_broadcast = static_cast<std::uint32_t>(broadcast);
    GpcBench bench(uneven(), params);
    bench.duration = [](std::uint64_t) { return Cycle{1}; };
    bench.cwd.script = {bench.cga(0, {0b11}, 0, 2, true, 1), bench.cga(0, {0b11}, 2, 2, true, 2)};
    bench.cwd.start(0);
    run_until_idle();
    const Cycle done = kThere + 1 + kDone;
    const Cycle entered = 10 + 5 + broadcast + 5;
    REQUIRE(bench.cwd.cga_completions.size() == 2);
    CHECK(bench.cwd.cga_completions[0].first == std::max(done, entered) + kAsk + 26 + 40);
    bench.expect_idle();
  }
}

TEST_CASE("shared memory that is given back early is told before its CTA's completion", "[gpc][CGA-09]") {
  for (const TimingMode mode : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    GpcBench bench(uneven(), plain(), mode);
    // The first two give back equal parts and share a packet; the third another, the fourth nothing. All end together.
    bench.script.behave = [](std::uint64_t index) {
      const std::vector<std::uint32_t> bytes{1024, 1024, 4096, 0};
      return Behaviour{50, {}, true, 0, bytes.at(index)};
    };
    bench.cwd.script = {bench.cga(2, {0b1100'0110}, 0, 4, true, 9)};
    bench.cwd.start(0);
    run_until_idle();
    std::map<std::uint32_t, std::uint32_t> released;
    for (const auto& [cycle, packet] : bench.cwd.releases) {
      CHECK(cycle == (mode != TimingMode::lt ? kThere + kToGpm + 40 : 0));
      CHECK(packet.slot == 2);
      released[packet.sm] = packet.bytes;
    }
    CHECK(released == std::map<std::uint32_t, std::uint32_t>{{1, 1024}, {2, 1024}, {6, 4096}});
    std::map<std::uint64_t, std::uint32_t> completed;
    for (const auto& [cycle, packet] : bench.cwd.completions) completed[packet.sm_mask] = packet.released_shared_bytes;
    CHECK(completed == std::map<std::uint64_t, std::uint32_t>{{0b110, 1024}, {0b100'0000, 4096}, {0b1000'0000, 0}});
    bench.expect_idle();
  }
}

TEST_CASE("an error whose CTA has gone ends its task while its CGA lives, and nothing after that", "[gpc][CGA-08]") {
  GpcBench bench(uneven(), plain());
  bench.duration = [](std::uint64_t index) { return index == 0 ? Cycle{50} : Cycle{400}; };
  bench.cwd.script = {bench.cga(3, {0b11}, 0, 2, true, 9)};
  bench.cwd.start(0);
  run_until(sc_core::sc_time(200, sc_core::SC_NS));
  const heddle::protocol::CtaTag tag = bench.starts.at(0).packet.tag;
  REQUIRE(bench.cwd.completions.size() == 1);
  const Cycle sent = bench.domain.now();
  bench.sms[0]->send_trap(tag);
  run_until(sc_core::sc_time(300, sc_core::SC_NS));
  REQUIRE(bench.cwd.completions.size() == 2);
  CHECK(bench.cwd.completions[1].first == sent + kToGpm + 40);
  CHECK(bench.cwd.completions[1].second.slot == 3);
  CHECK(bench.cwd.completions[1].second.sm_mask == 0);
  CHECK(bench.cwd.completions[1].second.faulted);
  CHECK_FALSE(bench.cwd.completions[1].second.tracked);
  run_until_idle();
  REQUIRE(bench.cwd.completions.size() == 3);
  CHECK_FALSE(bench.cwd.completions[2].second.faulted);
  bench.sms[0]->send_trap(tag);  // the CGA has gone
  run_until_idle();
  // Its id is another's by now.
  bench.cwd.script.push_back(bench.cga(3, {0b11}, 2, 2, true, 10));
  bench.cwd.start(bench.domain.now() + 1);
  run_until(sc_core::sc_time(static_cast<double>(bench.domain.now() + 60), sc_core::SC_NS));
  CHECK(bench.gpm.live_cgas() == 1);
  bench.sms[0]->send_trap(tag);
  run_until_idle();
  for (std::size_t i = 3; i < bench.cwd.completions.size(); ++i) CHECK(bench.cwd.completions[i].second.sm_mask != 0);
  CHECK(bench.stat("gpm.traps") == 1);
  bench.expect_idle();
}

TEST_CASE("CTAs learn where the linear memory of their CGA lies", "[gpc][CWD-22][CGA-10]") {
  GpcBench bench(uneven(), plain());
  bench.cwd.script = {bench.cga(0, {0b11}, 0, 2, true, 1), bench.launch(1, 0b100, 0), bench.launch(2, 0b1000, 0)};
  bench.cwd.script[0].memory_slot = heddle::protocol::CgaMemorySlot(2);
  bench.cwd.script[0].subcontext = 7;
  bench.cwd.script[1].memory_slot = heddle::protocol::CgaMemorySlot(0);
  bench.cwd.start(0);
  run_until_idle();
  REQUIRE(bench.starts.size() == 4);
  for (const Start& start : bench.starts) {
    const std::vector<std::optional<std::uint64_t>> wanted{(1 << 20) + (7 * 3 + 2) * 4096, 1 << 20, std::nullopt};
    CHECK((start.packet.cga_memory == wanted.at(start.packet.tag.slot)));
  }
  CHECK(GpcBench::pool().bytes() == 64 * 3 * 4096);
  bench.cwd.script.push_back(bench.launch(1, 0b100, 1));
  bench.cwd.script.back().memory_slot = heddle::protocol::CgaMemorySlot(3);
  bench.cwd.start(bench.domain.now() + 1);
  CHECK_THROWS_WITH(sc_core::sc_start(), Contains("a CGA memory slot that does not exist"));
}

TEST_CASE("the timeline shows every CGA from its launch to the end of its flush", "[gpc][CGA-12]") {
  struct Sink : heddle::TimelineSink {
    std::vector<std::string> lines;
    std::vector<std::tuple<std::uint32_t, Cycle, Cycle, std::string>> slices;
    std::map<std::string, std::int64_t> args;  // of the last slice
    heddle::TrackId track(const std::string& group, const std::string& line) override {
      lines.push_back(group + "/" + line);
      return {1, static_cast<std::uint32_t>(lines.size())};
    }
    void slice(heddle::TrackId track, heddle::Picoseconds begin, heddle::Picoseconds end, std::string_view name,
               heddle::TimelineArgs arguments) override {
      slices.emplace_back(track.line, begin / 1000, end / 1000, std::string(name));
      args.clear();
      for (const auto& [key, value] : arguments) args[std::string(key)] = value;
    }
    void counter(heddle::TrackId, heddle::Picoseconds, std::string_view, double) override {}
  } sink;
  GpcBench bench(uneven(), plain());
  bench.observation.timeline = &sink;
  bench.observation.labels.set(104, "exchange");
  bench.script.behave = [](std::uint64_t index) { return Behaviour{50 + index * 30, {10}, true, 0, 0}; };
  bench.cwd.script = {bench.cga(4, {0b11}, 0, 2, true, 8), bench.cga(4, {0b1100}, 2, 2, true, 9)};
  bench.cwd.start(0);
  run_until_idle();
  CHECK(sink.lines == std::vector<std::string>{"gpu0 gpc5 CGAs/local id   0", "gpu0 gpc5 CGAs/local id   1"});
  const Cycle phase = kThere + 10 + kToGpm + 50 + 50 + 5 + 2;
  const auto end = [&](std::uint64_t last) { return phase + 50 + last * 30 + kDone + kAsk + 26; };
  using Slice = std::tuple<std::uint32_t, Cycle, Cycle, std::string>;
  CHECK(sink.slices == std::vector<Slice>{{1, 10, end(1), "exchange"}, {2, 10, end(3), "exchange"}});
  CHECK(sink.args == std::map<std::string, std::int64_t>{
                         {"barriers", 1}, {"ctas", 2}, {"flush_cycles", kAsk + 26}, {"sequence", 9}});
}

TEST_CASE("what SMs cannot say is caught", "[gpc][CGA-11][CGA-12]") {
  GpcBench bench(uneven(), plain());
  bench.cwd.script = {bench.cga(0, {0b11}, 0, 2, true, 1)};
  bench.cwd.start(0);
  run_until(sc_core::sc_time(30, sc_core::SC_NS));
  heddle::protocol::ClusterNoticePacket notice;
  notice.tag = bench.starts.at(0).packet.tag;
  const auto says = [&](heddle::protocol::ClusterNoticePacket::Kind kind) {
    notice.kind = kind;
    return failure_of([&] { bench.sms[0]->notice_out.send(notice); });
  };
  using Notice = heddle::protocol::ClusterNoticePacket::Kind;
  CHECK_THAT(says(Notice::drained), Contains("did not want to leave"));
  CHECK_THAT(says(Notice::flushed), Contains("who was not asked"));
  CHECK_THAT(says(Notice::entered), Contains("entered twice"));
  // An arrival counts when it has come the whole way.
  for (const std::uint32_t cga : {0U, 3U}) {
    GpcBench another(uneven(), plain());
    another.duration = [](std::uint64_t) { return Cycle{500}; };
    another.cwd.script = {another.cga(0, {0b11}, 0, 2, true, 1)};
    another.cwd.start(0);
    run_until(sc_core::sc_time(30, sc_core::SC_NS));
    notice.tag = another.starts.at(0).packet.tag;
    notice.kind = Notice::arrived;
    notice.tag.cga_id = heddle::protocol::CgaId(cga);
    for (int times = 0; times < 2; ++times) another.sms[0]->notice_out.send(notice);
    CHECK_THROWS_WITH(sc_core::sc_start(), Contains(cga == 0 ? "arrived twice" : "a CGA that does not exist"));
  }
}

}  // namespace gpc_exit_test
