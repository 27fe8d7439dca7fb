// The timeline: its slices are well formed, tell the truth, and watching changes nothing.
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "gpu/machine_state.h"
#include "support/gpu_bench.h"
#include "support/gpu_lab.h"

namespace gpu_timeline_test {

using heddle::Picoseconds;
using heddle::TimelineArgs;
using heddle::TimelineSink;
using heddle::TrackId;
using heddle::protocol::SubmitKind;
using namespace heddle::test;

namespace {

class RecordingSink : public TimelineSink {
 public:
  struct Slice {
    double begin;
    double end;
    std::string name;
  };
  TrackId track(const std::string& group, const std::string& line) override {
    const auto [at, inserted] = ids_.try_emplace({group, line}, names.size());
    if (inserted) names.push_back(group + "/" + line);
    return {1, static_cast<std::uint32_t>(at->second)};
  }
  void slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, TimelineArgs) override {
    slices[names.at(track.line)].push_back({static_cast<double>(begin), static_cast<double>(end), std::string(name)});
  }
  void counter(TrackId, Picoseconds, std::string_view, double) override {}

  std::vector<std::string> names;
  std::map<std::string, std::vector<Slice>> slices;  // by track, as they came

 private:
  std::map<std::pair<std::string, std::string>, std::size_t> ids_;
};

}  // namespace

TEST_CASE("a restored machine that is shared shows its subcontexts", "[gpu][timeline][HST-08]") {
  const heddle::gpu::GpuParams params = preset_params("small");
  for (const bool shared : {false, true}) {
    CAPTURE(shared);
    std::stringstream file;
    {
      SimFixture sim;
      GpuBench bench(params);
      if (shared) {
        heddle::protocol::SubmitPacket packet;
        packet.kind = SubmitKind::share;
        packet.share.what = heddle::protocol::SubcontextPacket::What::bandwidth;
        packet.share.subcontext = 3;
        packet.share.value = 300;
        bench.host.submit(0, packet);
      }
      run_until_idle();
      bench.gpu.state().save(file);
    }
    RecordingSink sink;
    SimFixture sim;
    GpuBench bench(params, 1, "gpu0", &sink);
    run_until_idle();
    bench.gpu.state().restore(file);
    Random random(1);
    bench.feed(random_program(random, {}), 1, 300, 1000);
    run_until_idle();
    bool shown = false;
    for (const auto& [track, slices] : sink.slices)
      shown = shown || track.find("subcontexts/subcontext 0") != std::string::npos;
    CHECK(shown == shared);
  }
}

TEST_CASE("slices of a track follow each other", "[gpu][timeline]") {
  for (const std::uint64_t seed : seeds(150)) {
    CAPTURE(seed);
    Random random(seed);
    heddle::gpu::GpuParams params = random_gpu_params(random);
    if (random.chance(25)) params.machine.timing = heddle::TimingMode::lt;
    ProgramLimits limits;
    limits.oversized = true;
    const Program program = random_program(random, limits);
    Outcome dark;
    {
      SimFixture sim;
      GpuBench bench(params, seed);
      bench.feed(program, seed, 300);
      run_until_idle();
      dark = outcome_of(bench);
    }
    RecordingSink sink;
    SimFixture sim;
    GpuBench bench(params, seed, "gpu0", &sink);
    bench.feed(program, seed, 300);
    run_until_idle();
    const Outcome watched = outcome_of(bench);
    REQUIRE(watched.stats == dark.stats);
    REQUIRE(watched.edges == dark.edges);
    REQUIRE(watched.results == dark.results);

    std::size_t ctas = 0;
    std::size_t sessions = 0;
    std::size_t operations = 0;
    for (const auto& [track, slices] : sink.slices) {
      CAPTURE(track);
      double last = 0;
      for (const RecordingSink::Slice& slice : slices) {
        CAPTURE(slice.name, slice.begin, slice.end);
        REQUIRE(slice.begin <= slice.end);
        REQUIRE(slice.begin >= last);
        last = slice.end;
      }
      if (track.find("CTA slot") != std::string::npos) ctas += slices.size();
      if (track.find("gpu0 cwd/sessions") == 0) sessions += slices.size();
      if (track.find("gpu0 streams/") == 0 && track.find(" waits") == std::string::npos) operations += slices.size();
    }
    CHECK(ctas * 2 == watched.edges.size());
    CHECK(static_cast<double>(sessions) == bench.stat("cwd.sessions"));
    CHECK(operations == program.work.size());
  }
}

TEST_CASE("a stream's line tells why nothing ran", "[gpu][timeline]") {
  heddle::gpu::GpuParams params;
  params.machine.clock = 1;
  params.machine.shape = heddle::arch::Shape::from_sms_per_gpc({4});
  RecordingSink sink;
  SimFixture sim;
  GpuBench bench(params, 1, "gpu0", &sink);
  for (const auto& packet :
       {kernel_packet(0, 0, {8, 1, 1}, {32, 1, 1}, {20'000, 20'000}), kernel_packet(1, 1, {8, 1, 1}, {32, 1, 1}),
        wait_packet(2, 1, 0), kernel_packet(2, 1, {8, 1, 1}, {32, 1, 1})}) {
    bench.checker.expect(packet);
    bench.host.submit(100, packet);
  }
  const auto late = kernel_packet(3, 1, {8, 1, 1}, {32, 1, 1});
  bench.checker.expect(late);
  bench.host.submit(50'000, late);
  run_until_idle();
  std::vector<std::string> reasons;
  for (const RecordingSink::Slice& slice : sink.slices.at("gpu0 streams/stream 1 waits")) reasons.push_back(slice.name);
  // Operation 1: the other's session first. 2: the other stream, then the gap. 3: nobody had asked for it.
  const std::string way = "on its way through the distributor";
  CHECK(reasons == std::vector<std::string>{way, "other tasks first", "waits for another stream",
                                            "gap between operations", way, "not submitted yet", way});
}

}  // namespace gpu_timeline_test
