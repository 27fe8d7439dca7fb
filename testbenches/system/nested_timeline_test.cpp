// What the timeline and the statistics say of nested streams that share a TMDQ (TSK-11), on the whole machine.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/gpu_observation.h"
#include "arch/kernel_object.h"
#include "support/gpu_lab.h"
#include "support/list_program.h"
#include "support/random.h"

namespace system_nested_timeline_test {

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr std::uint64_t kObjects = 0x10'0000;  // of "leaf 0", "leaf 1", …
constexpr std::uint64_t kLong = 60'000;        // cycles of a leaf: all have been launched when the first one ends

class RecordingSink : public TimelineSink {
 public:
  struct Slice {
    double begin = 0;  // ns, of which a cycle is one
    double end = 0;
    std::string name;
    std::map<std::string, std::int64_t> args;
  };
  TrackId track(const std::string& group, const std::string& line) override {
    const auto [at, inserted] = ids_.try_emplace({group, line}, names_.size());
    if (inserted) names_.push_back(group + "/" + line);
    return {1, static_cast<std::uint32_t>(at->second)};
  }
  void slice(TrackId track, Picoseconds begin, Picoseconds end, std::string_view name, TimelineArgs args) override {
    constexpr double kNs = 1000;
    Slice slice{static_cast<double>(begin) / kNs, static_cast<double>(end) / kNs, std::string(name), {}};
    for (const auto& [key, value] : args) slice.args[std::string(key)] = value;
    slices[names_.at(track.line)].push_back(slice);
  }
  void counter(TrackId, Picoseconds, std::string_view, double) override {}

  std::map<std::string, std::vector<Slice>> slices;  // by "group/line", as they came

 private:
  std::map<std::pair<std::string, std::string>, std::size_t> ids_;
  std::vector<std::string> names_;
};
using Slice = RecordingSink::Slice;

class CtaEnds final : public CtaListener {
 public:
  void cta_started(const Cta&) override {}
  void cta_ended(const Cta& cta) override { cycles[cta.task] = static_cast<double>(cta.cycle); }
  std::map<std::int64_t, double> cycles;  // by operation
};

// A GPU that draws from its first cycle on.
class DrawnGpu {
 public:
  explicit DrawnGpu(const std::vector<std::string>& sets)
      : observation(sink, ends), gpu("gpu0", preset_params("small", sets), 1, observation), host("host") {
    host.submit_out.bind(gpu.submit_in());
    gpu.done_out().bind(host.done_in);
  }
  void make_leaves(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      arch::KernelObject object;
      object.duration = {kLong, kLong};
      object.name = fmt::format("leaf {}", i);
      const arch::KernelObjectBytes bytes = arch::encode(object);
      REQUIRE(gpu.memory().write(kObjects + i * arch::kKernelObjectBytes, bytes.data(), bytes.size()));
    }
  }
  void run(const std::shared_ptr<const arch::WarpProgram>& program, std::uint32_t ctas) {
    protocol::SubmitPacket packet = kernel_packet(0, 0, {ctas, 1, 1}, {32, 1, 1});
    packet.kernel.code = gpu.add_code(program, packet.kernel);
    host.submit(1, packet);
    run_until_idle();
    REQUIRE(host.results.size() == 1);
    CHECK(gpu.log().faults().empty());
    gpu.check_quiescent();
  }
  double stat(const std::string& path) const { return observation.stats.value("gpu0." + path); }

  // Blocks make their tracks when they are built.
  struct Observed : GpuObservation {
    Observed(RecordingSink& sink, CtaEnds& ends) : GpuObservation("gpu0") {
      timeline = &sink;
      ctas = &ends;
    }
  };
  RecordingSink sink;
  CtaEnds ends;
  Observed observation;
  gpu::Gpu gpu;
  ScriptedHost host;
};

struct Leaf {
  Slice run;
  std::vector<Slice> waits;  // before it, on the line of waits
  double cta_end = 0;
};

// By number.
std::vector<Leaf> leaves(const DrawnGpu& drawn, std::uint32_t count) {
  std::vector<Leaf> result(count);
  for (const auto& [track, slices] : drawn.sink.slices) {
    const std::string line = "gpu0 nested/depth 1.";
    if (track.compare(0, line.size(), line) != 0 || track.find(" waits") != std::string::npos) continue;
    double before = 0;
    for (const Slice& run : slices) {
      REQUIRE(run.name.compare(0, 5, "leaf ") == 0);
      const std::size_t number = std::stoul(run.name.substr(5));
      REQUIRE(number < count);
      Leaf& leaf = result[number];
      REQUIRE(leaf.run.name.empty());  // it is drawn once
      leaf.run = run;
      leaf.cta_end = drawn.ends.cycles.at(run.args.at("operation"));
      for (const Slice& wait : drawn.sink.slices.at(track + " waits")) {
        if (wait.begin >= before && wait.end <= run.begin) leaf.waits.push_back(wait);
      }
      before = run.end;
    }
  }
  for (const Leaf& leaf : result) REQUIRE(!leaf.run.name.empty());
  return result;
}

// What is said of a leaf that has been launched behind `ahead`, or has the TMDQ for itself.
void judge(const Leaf& leaf, const Leaf* ahead) {
  INFO(leaf.run.name);
  REQUIRE(!leaf.waits.empty());
  // Until it is in its TMDQ, or known to task management.
  const bool way = leaf.waits.front().name == "its launch is on its way";
  const std::size_t second = way ? 1 : 0;
  REQUIRE(leaf.waits.size() > second);
  const Slice& wait = leaf.waits[second];
  for (std::size_t i = ahead == nullptr ? 0 : second + 1; i < leaf.waits.size(); ++i) {
    CHECK(leaf.waits[i].name.find("behind leaf") == std::string::npos);
    CHECK(leaf.waits[i].name.find("false") == std::string::npos);
  }
  if (ahead == nullptr) {
    CHECK(way);
    CHECK(leaf.run.begin < kLong);
    return;
  }
  INFO("behind " << ahead->run.name);
  const std::int64_t stream = ahead->run.args.at("stream");
  const bool stranger = stream != leaf.run.args.at("stream");
  CHECK(wait.name == (stranger ? fmt::format("false dependency on stream {}: behind {}", stream, ahead->run.name)
                               : fmt::format("behind {} in its stream", ahead->run.name)));
  CHECK(wait.begin < ahead->run.begin + kLong);
  CHECK(wait.end >= ahead->cta_end);
  CHECK(wait.end <= ahead->cta_end + 5000);
  CHECK(leaf.run.begin >= wait.end);
}

}  // namespace

TEST_CASE("streams above the TMDQs: a wait tells behind whom, and calls it a false dependency if it is a stranger",
          "[system][timeline][TSK-07][TSK-10][TSK-11]") {
  const std::string timing = GENERATE("at", "fast", "lt");
  for (const std::uint64_t seed : seeds(8)) {
    CAPTURE(seed, timing);
    Random random(seed);
    constexpr std::uint32_t kLeaves = 14;
    const std::uint32_t tmdqs = random.between(1, 4);
    const std::uint32_t streams = tmdqs + random.between(1, 5);
    std::vector<std::uint32_t> stream_of;
    for (std::uint32_t i = 0; i < kLeaves; ++i) {  // TMDQs get streams in turn
      const std::uint32_t made = random.below(streams);
      stream_of.push_back(arch::stream_number(made % tmdqs, made / tmdqs));
    }
    auto program = std::make_shared<ListProgram>(2);
    for (std::uint32_t i = 1; i < streams; ++i) program->stream_create(0);
    program->launch_child(
        [stream_of](const Warp&, std::uint32_t lane) {
          arch::ChildLaunch launch;
          launch.kernel = kObjects + lane * arch::kKernelObjectBytes;
          launch.stream = stream_of[lane];
          return launch;
        },
        {}, [](const Warp&) { return (arch::LaneMask{1} << kLeaves) - 1; });
    program->exit();
    SimFixture fixture;
    DrawnGpu drawn({"gpu.timing=" + timing, "gpu.sm.nested.launch_instructions=12",
                    fmt::format("gpu.task.nested.tmdqs={}", tmdqs)});
    drawn.make_leaves(kLeaves);
    drawn.run(program, 1);

    const std::vector<Leaf> all = leaves(drawn, kLeaves);
    std::vector<std::string> marks;
    for (std::uint32_t i = 0; i < kLeaves; ++i) {
      CHECK(all[i].run.args.at("stream") == stream_of[i]);
      CHECK(all[i].run.args.at("tmdq") == arch::tmdq_of(stream_of[i]));
      const Leaf* ahead = nullptr;
      for (std::uint32_t j = 0; j < i; ++j) {
        if (arch::tmdq_of(stream_of[j]) == arch::tmdq_of(stream_of[i])) ahead = &all[j];
      }
      judge(all[i], ahead);
      if (ahead == nullptr || ahead->run.args.at("stream") == stream_of[i]) continue;
      marks.push_back(fmt::format("{}: stream {} waited for stream {}", all[i].run.name, stream_of[i],
                                  ahead->run.args.at("stream")));
    }
    std::vector<std::string> drawn_marks;
    if (drawn.sink.slices.count("gpu0 nested/false dependencies") != 0) {
      for (const Slice& mark : drawn.sink.slices.at("gpu0 nested/false dependencies")) drawn_marks.push_back(mark.name);
    }
    std::sort(marks.begin(), marks.end());
    std::sort(drawn_marks.begin(), drawn_marks.end());
    CHECK(drawn_marks == marks);
    CHECK(drawn.stat("task.false_dependencies") == static_cast<double>(marks.size()));
  }
}

TEST_CASE("a task whose stream waits for an event is drawn as waiting for it", "[system][TSK-08]") {
  const bool waits = GENERATE(false, true);
  SimFixture fixture;
  DrawnGpu drawn({"gpu.sm.nested.launch_instructions=12"});
  drawn.make_leaves(2);
  auto program = std::make_shared<ListProgram>(6);
  const auto event = [](const Warp& w, std::uint32_t) { return w.reg(2, 0) | std::uint64_t{w.reg(3, 0)} << 32; };
  const auto leaf = [](std::uint32_t number, bool own) {
    return [=](const Warp& w, std::uint32_t lane) {
      arch::ChildLaunch launch;
      launch.kernel = kObjects + number * arch::kKernelObjectBytes;
      launch.stream = own ? w.reg(4, lane) : 0;
      return launch;
    };
  };
  program->event_create(2);
  program->stream_create(4);
  program->launch_child(leaf(0, false));
  if (waits) {
    program->event(arch::OpCode::event_record, event, ListProgram::constant(0), {{2, 2}});
    program->event(arch::OpCode::stream_wait, event, ListProgram::of_register(4), {{2, 2}, {4, 1}});
  }
  program->launch_child(leaf(1, true), {{4, 1}});
  program->event(arch::OpCode::event_destroy, event, ListProgram::constant(0), {{2, 2}});
  program->exit();
  drawn.run(program, 1);
  const std::vector<Leaf> all = leaves(drawn, 2);
  CHECK((all[1].run.begin > all[0].cta_end) == waits);
  double waited = 0;
  for (const Slice& slice : all[1].waits) {
    if (slice.name == "behind an event of its stream") waited += slice.end - slice.begin;
  }
  CHECK((waited > static_cast<double>(kLong) / 2) == waits);
  // What was held back says nothing of what a launch costs.
  CHECK(drawn.observation.stats.to_json().at("gpu0.task.child_latency.count").at("value") == (waits ? 1 : 2));
}

TEST_CASE("streams of different contexts never share a TMDQ, those of one context do", "[system][TSK-07][TSK-11]") {
  const bool grid = GENERATE(false, true);
  constexpr std::uint32_t kCtas = 3;
  SimFixture fixture;
  DrawnGpu drawn({"gpu.task.nested.tmdqs=1", "gpu.sm.nested.launch_instructions=12",
                  grid ? "gpu.task.nested.shared_by=grid" : "gpu.task.nested.shared_by=cta"});
  drawn.make_leaves(2 * kCtas);
  // Each CTA launches into two streams of its own.
  auto program = std::make_shared<ListProgram>(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    program->stream_create(0);
    program->launch_child(
        [i](const Warp& w, std::uint32_t lane) {
          arch::ChildLaunch launch;
          launch.kernel = kObjects + (2 * w.place.cta + i) * arch::kKernelObjectBytes;
          launch.stream = w.reg(0, lane);
          return launch;
        },
        {{0, 1}});
  }
  program->exit();
  drawn.run(program, kCtas);
  const std::vector<Leaf> all = leaves(drawn, 2 * kCtas);
  CHECK(drawn.stat("task.false_dependencies") == (grid ? 2 * kCtas - 1 : kCtas));
  if (!grid) {
    for (std::uint32_t cta = 0; cta < kCtas; ++cta) {
      judge(all[2 * cta], nullptr);
      judge(all[2 * cta + 1], &all[2 * cta]);
    }
    return;
  }
  std::vector<const Leaf*> order;
  for (const Leaf& leaf : all) order.push_back(&leaf);
  std::sort(order.begin(), order.end(), [](const Leaf* a, const Leaf* b) { return a->run.begin < b->run.begin; });
  for (std::size_t i = 0; i < order.size(); ++i) judge(*order[i], i == 0 ? nullptr : order[i - 1]);
}

}  // namespace system_nested_timeline_test
