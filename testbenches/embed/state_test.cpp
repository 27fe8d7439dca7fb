// A quiet device is saved, and another one goes on where it was (HST-08); through the public headers alone.
#include <algorithm>
#include <fstream>
#include <functional>
#include <heddle/gpu.h>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "support/embed_host.h"
#include "support/sim_fixture.h"

namespace embed_state_test {

using namespace heddle::test;

namespace {

constexpr std::uint32_t kNumbers = 1024;
constexpr const char* kKernels = R"(heddle: 1
name: kernels
memory:
  - {name: numbers, bytes: 4096, init: {pattern: i, type: u32}}
kernels:
  - name: step
    grid: 4
    block: 256
    program:
      - let: {i: cta.x * block.x + thread.x}
      - load: {to: n, type: u32, at: numbers + 4 * i}
      - store: {value: 3 * n + i, type: u32, at: numbers + 4 * i}
  - name: slow
    grid: 1
    block: 32
    cycles: 100000
submit:
  - {kernel: step, stream: s}
  - {kernel: slow, stream: s}
)";

// What `steps` kernels leave.
std::vector<std::uint32_t> expected(int steps) {
  std::vector<std::uint32_t> numbers(kNumbers);
  for (std::uint32_t i = 0; i < kNumbers; ++i) {
    numbers[i] = i;
    for (int s = 0; s < steps; ++s) numbers[i] = 3 * numbers[i] + i;
  }
  return numbers;
}

std::vector<std::uint32_t> numbers_of(const heddle::Gpu& gpu, const heddle::Contents& contents) {
  std::vector<std::uint32_t> numbers(kNumbers);
  REQUIRE(gpu.read_memory(contents.region("numbers").address, numbers.data(), 4 * kNumbers));
  return numbers;
}

heddle::GpuOptions timed(heddle::Timing timing) {
  heddle::GpuOptions options = small();
  options.timing = timing;
  return options;
}

void settle() { sc_core::wait(20, sc_core::SC_US); }

// A machine with a host, in a simulation of its own.
struct Bench {
  explicit Bench(const heddle::GpuOptions& options, std::function<void(Host&, Bench&)> software)
      : gpu("gpu0", options),
        contents(gpu.load(write_file("state.yaml", kKernels))),
        host("host", gpu, [this, software = std::move(software)](Host& h) {
          software(h, *this);
          done = true;
          sc_core::sc_stop();
        }) {}

  void run() {
    sc_core::sc_start();
    REQUIRE(done);
  }
  void step(Host& h) { REQUIRE(h.launch(contents.kernel("step"), contents.kernel("step").object) == 0); }

  SimFixture sim;
  heddle::Gpu gpu;
  heddle::Contents contents;
  Host host;
  bool done = false;
};

// A device that has done two steps, with an open queue.
std::string saved_after_two() {
  std::ostringstream out;
  Bench bench(small(), [&](Host& h, Bench& b) {
    h.open();
    b.step(h);
    b.step(h);
    settle();
    b.gpu.save(out);
  });
  bench.run();
  return out.str();
}

// The message with which it is refused. The device can be used then: as before, or with zeros in its memory.
std::string refusal(const std::string& file, const heddle::GpuOptions& options = small(), bool loaded = true) {
  const SimFixture sim;
  heddle::Gpu gpu("gpu0", options);
  if (loaded) (void)gpu.load(write_file("state.yaml", kKernels));
  std::istringstream in(file);
  std::vector<std::uint8_t> before(8 << 20, 1);
  REQUIRE(gpu.read_memory(0, before.data(), before.size()));
  try {
    gpu.restore(in);
  } catch (const heddle::Error& error) {
    CHECK(gpu.idle());
    CHECK(gpu.read_register("QUEUE_STATE") == HEDDLE_QUEUE_STATE_CLOSED);
    std::vector<std::uint8_t> bytes(8 << 20, 1);
    REQUIRE(gpu.read_memory(0, bytes.data(), bytes.size()));
    const bool zeros = std::count(bytes.begin(), bytes.end(), 0) == static_cast<std::ptrdiff_t>(bytes.size());
    CHECK((zeros || bytes == before));
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a restored device goes on as the saved one would have", "[embed][HST-08]") {
  using heddle::Timing;
  struct Case {
    Timing before, after;
    bool at_construction;
  };
  const Case one = GENERATE(Case{Timing::at, Timing::at, true}, Case{Timing::fast, Timing::fast, false},
                            Case{Timing::lt, Timing::lt, true}, Case{Timing::lt, Timing::at, false});
  std::ostringstream out;
  Bench first(timed(one.before), [&](Host& h, Bench& b) {
    h.open();
    b.step(h);
    b.step(h);
    settle();
    REQUIRE(h.bus.write(h.bus.context, HEDDLE_REG_SCRATCH, 4, 0x1234));
    REQUIRE(h.bus.write(h.bus.context, HEDDLE_REG_INT_MASK, 4, HEDDLE_INT_SOFTWARE_MASK));
    REQUIRE(h.bus.write(h.bus.context, HEDDLE_REG_INT_SET, 4, HEDDLE_INT_SOFTWARE_MASK));
    settle();
    b.gpu.save(out);
    std::ostringstream again;
    b.gpu.save(again);
    CHECK(again.str() == out.str());
  });
  first.run();
  CHECK(numbers_of(first.gpu, first.contents) == expected(2));

  std::istringstream in(out.str());
  Bench second(timed(one.after), [&](Host& h, Bench& b) {
    if (!one.at_construction) b.gpu.restore(in);
    settle();
    CHECK(b.gpu.irq.read());
    CHECK(b.gpu.read_register("SCRATCH") == 0x1234);
    CHECK(b.gpu.read_register("INT_PENDING") == HEDDLE_INT_SOFTWARE_MASK);
    CHECK(b.gpu.read_register("QUEUE_STATE") == HEDDLE_QUEUE_STATE_ACTIVE);
    CHECK(b.gpu.read_register("QUEUE_READ_INDEX") == 2);
    CHECK(b.gpu.statistic("cwd.ctas_launched") == 0);
    CHECK(numbers_of(b.gpu, b.contents) == expected(2));
    std::ostringstream again;
    b.gpu.save(again);
    if (one.before == one.after) CHECK(again.str() == out.str());
    b.step(h);
    b.step(h);
    CHECK(b.gpu.statistic("cwd.ctas_launched") == 8);
    CHECK(heddle_queue_destroy(&h.queue, 1000) == HEDDLE_OK);
  });
  second.host.go_on_as(first.host);
  if (one.at_construction) second.gpu.restore(in);
  second.run();
  CHECK(numbers_of(second.gpu, second.contents) == expected(4));
}

TEST_CASE("a device that is not quiet is not saved, and goes on", "[embed][HST-08]") {
  Bench bench(small(), [&](Host& h, Bench& b) {
    h.open();
    b.step(h);
    heddle_dispatch dispatch{};
    dispatch.scopes = HEDDLE_SCOPES(false, HEDDLE_FENCE_NONE, HEDDLE_FENCE_NONE);
    dispatch.setup = 1;
    dispatch.workgroup[0] = 32;
    dispatch.workgroup[1] = dispatch.workgroup[2] = 1;
    dispatch.grid[0] = 32;
    dispatch.grid[1] = dispatch.grid[2] = 1;
    dispatch.kernel_object = b.contents.kernel("slow").object;
    heddle_packet packet;
    heddle_packet_kernel(&packet, &dispatch);
    REQUIRE(heddle_queue_submit(&h.queue, &packet, 1, 1000, nullptr) == HEDDLE_OK);
    settle();
    std::ostringstream out;
    const std::string message = failure_of([&] { b.gpu.save(out); });
    CHECK_THAT(message, Catch::Contains("gpu0 is not quiet") && Catch::Contains("packets under way: 1"));
    CHECK(out.str().empty());
    b.step(h);
    CHECK(numbers_of(b.gpu, b.contents) == expected(2));
  });
  bench.run();
}

TEST_CASE("what cannot be restored is refused with its reason", "[embed][HST-08]") {
  const std::string good = saved_after_two();
  REQUIRE(refusal(good).empty());
  CHECK_THAT(refusal(""), Catch::Contains("does not begin with HDLSTATE"));
  CHECK_THAT(refusal("a text that is long enough to be one"), Catch::Contains("does not begin with HDLSTATE"));
  std::string version = good;
  version[8] = 9;
  CHECK_THAT(refusal(version), Catch::Contains("version 9 of the format, and this is version 1"));
  heddle::GpuOptions options = small();
  options.settings = {"gpu.packet.queues=16"};
  CHECK_THAT(refusal(good, options), Catch::Contains("gpu.packet.queues = 32, and this one 16"));
  options.settings = {"gpu.run_ahead=0", "gpu.timing=lt"};
  CHECK(refusal(good, options).empty());
  options.settings = {"gpu.power.governor=off", "gpu.sm.limits.warps=32"};
  CHECK_THAT(refusal(good, options), Catch::Contains("gpu.sm.limits.warps"));
  CHECK_THAT(refusal(good, small(), false), Catch::Contains("load the same files"));
  for (const std::size_t length : {std::size_t{12}, std::size_t{17}, good.size() / 2, good.size() - 1}) {
    CHECK_THAT(refusal(good.substr(0, length)), Catch::Contains("ends too early"));
  }
  for (const std::size_t at : {good.size() / 4, good.size() / 2, good.size() - 12}) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    CHECK_FALSE(refusal(damaged).empty());
    if (at == good.size() - 12) CHECK_THAT(refusal(damaged), Catch::Contains("damaged"));
  }
}

TEST_CASE("a device goes back to what it was", "[embed][HST-08]") {
  Bench bench(small(), [&](Host& h, Bench& b) {
    h.open();
    b.step(h);
    settle();
    std::stringstream file;
    b.gpu.save(file);
    const std::uint64_t far = b.gpu.memory_bytes() / 2;
    const std::uint32_t later = 7;
    REQUIRE(b.gpu.write_memory(far, &later, sizeof later));
    REQUIRE(heddle_queue_destroy(&h.queue, 1000) == HEDDLE_OK);
    b.gpu.restore(file);
    settle();
    std::uint32_t found = 1;
    REQUIRE(b.gpu.read_memory(far, &found, sizeof found));
    CHECK(found == 0);
    CHECK(numbers_of(b.gpu, b.contents) == expected(1));
    CHECK(b.gpu.read_register("QUEUE_STATE") == HEDDLE_QUEUE_STATE_ACTIVE);
    CHECK(b.gpu.read_register("QUEUE_READ_INDEX") == 1);
  });
  bench.run();
}

TEST_CASE("a restore after one that failed works, with and without loading again", "[embed][HST-08]") {
  const std::string good = saved_after_two();
  std::string damaged = good;
  damaged[good.size() - 12] = static_cast<char>(damaged[good.size() - 12] ^ 0x10);
  const bool loads_again = GENERATE(false, true);
  Bench first(small(), [&](Host& h, Bench& b) {
    h.open();
    b.step(h);
    b.step(h);
  });
  first.run();
  Bench second(small(), [&](Host& h, Bench& b) {
    for (int round = 0; round < 2; ++round) {
      std::istringstream in(damaged);
      CHECK_THAT(failure_of([&] { b.gpu.restore(in); }), Catch::Contains("damaged"));
    }
    // A file that cannot be loaded changes nothing.
    CHECK_THAT(failure_of([&] { (void)b.gpu.load("missing.yaml"); }), Catch::Contains("missing.yaml"));
    CHECK_THAT(failure_of([&] { (void)b.gpu.load(write_file("bad.yaml", "heddle: 1\nsubmit: 5\n")); }),
               Catch::Contains("bad.yaml"));
    if (loads_again) {
      const heddle::Contents again = b.gpu.load(write_file("state.yaml", kKernels));
      CHECK(again.kernel("step").object == b.contents.kernel("step").object);
      CHECK(numbers_of(b.gpu, again) == expected(0));
    }
    std::istringstream in(good);
    b.gpu.restore(in);
    settle();
    CHECK(numbers_of(b.gpu, b.contents) == expected(2));
    h.device.bus = h.bus;
    b.step(h);
    CHECK(numbers_of(b.gpu, b.contents) == expected(3));
    CHECK_THAT(failure_of([&] { (void)b.gpu.load(write_file("state.yaml", kKernels)); }), Catch::Contains("at: "));
  });
  second.host.go_on_as(first.host);
  second.run();
}

TEST_CASE("files that were loaded are compared by what is in them, and one that differs changes nothing",
          "[embed][HST-08]") {
  const std::string good = saved_after_two();
  std::string other = kKernels;
  other.replace(other.find("3 * n + i"), 9, "5 * n + i");
  const SimFixture sim;
  heddle::Gpu gpu("gpu0", small());
  const heddle::Contents contents = gpu.load(write_file("other.yaml", other));
  std::istringstream in(good);
  CHECK_THAT(failure_of([&] { gpu.restore(in); }), Catch::Contains("other.yaml is another file"));
  CHECK(numbers_of(gpu, contents) == expected(0));
}

TEST_CASE("streams that throw, and disks that are full, are told of as errors of the device", "[embed][HST-08]") {
  const std::string good = saved_after_two();
  const SimFixture sim;
  heddle::Gpu gpu("gpu0", small());
  (void)gpu.load(write_file("state.yaml", kKernels));
  std::istringstream cut(good.substr(0, good.size() / 2));
  cut.exceptions(std::ios::failbit | std::ios::badbit | std::ios::eofbit);
  CHECK_THAT(failure_of([&] { gpu.restore(cut); }), Catch::Contains("ends too early"));
  std::ostringstream closed;
  closed.setstate(std::ios::badbit);
  CHECK_THAT(failure_of([&] { gpu.save(closed); }), Catch::Contains("takes no more"));
  for (const bool throws : {false, true}) {
    std::ofstream full("/dev/full", std::ios::binary);
    if (!full) continue;  // there is no such device here
    if (throws) full.exceptions(std::ios::failbit | std::ios::badbit);
    CHECK_THAT(failure_of([&] { gpu.save(full); }), Catch::Contains("takes no more"));
  }
  std::istringstream in(good);
  in.exceptions(std::ios::failbit | std::ios::badbit | std::ios::eofbit);
  gpu.restore(in);
}

TEST_CASE("several devices follow each other in one stream", "[embed][HST-08]") {
  heddle::GpuOptions large = small();
  large.settings = {"gpu.memory=2 GiB"};
  const std::uint64_t at = 0x1234560;
  std::stringstream file;
  {
    const SimFixture sim;
    heddle::Gpu first("first", small());
    heddle::Gpu second("second", large);
    REQUIRE(first.write_memory(at, "one", 4));
    REQUIRE(second.write_memory(at + (1U << 30), "two", 4));
    first.save(file);
    second.save(file);
    file << "more";
  }
  const SimFixture sim;
  heddle::Gpu second("b", large);
  heddle::Gpu first("a", small());
  first.restore(file);
  second.restore(file);
  std::string found(4, ' ');
  REQUIRE(first.read_memory(at, found.data(), 4));
  CHECK(found == std::string("one\0", 4));
  REQUIRE(second.read_memory(at + (1U << 30), found.data(), 4));
  CHECK(found == std::string("two\0", 4));
  std::string rest;
  file >> rest;
  CHECK(rest == "more");
}

TEST_CASE("parameters are listed with what they may be, and set before elaboration", "[embed][HST-08]") {
  const SimFixture sim;
  heddle::GpuOptions options = small();
  options.settings = {"gpu.memory=256 MiB"};
  const heddle::Gpu gpu("gpu0", options);
  const std::vector<heddle::Parameter> all = gpu.parameters();
  CHECK(all.size() > 200);
  const auto found = std::find_if(all.begin(), all.end(), [](const auto& one) { return one.path == "gpu.memory"; });
  REQUIRE(found != all.end());
  CHECK(found->unit == "B");
  CHECK_FALSE(found->type.empty());
  CHECK_FALSE(found->range.empty());
  CHECK_FALSE(found->description.empty());
  CHECK(found->standard != found->value);
  CHECK_THAT(found->origin, Catch::Contains("--set"));
  CHECK(gpu.parameter("gpu.memory") == found->value);
  CHECK_THAT(failure_of([&gpu] { (void)gpu.parameter("gpu.memori"); }), Catch::Contains("did you mean gpu.memory?"));
  // A value is an input, and the list is there without a device.
  options.settings = {"gpu.memory=" + found->value};
  for (const heddle::Parameter& one : heddle::parameters(options)) {
    if (one.path == "gpu.memory") CHECK(one.value == found->value);
  }
  CHECK_THAT(failure_of([] {
               heddle::GpuOptions none;
               none.preset = "smal";
               (void)heddle::parameters(none);
             }),
             Catch::Contains("small"));
}

}  // namespace embed_state_test
