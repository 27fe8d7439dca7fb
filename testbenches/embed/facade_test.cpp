// The device as platforms take it, through its public headers alone.
#include <fstream>
#include <functional>
#include <heddle/gpu.h>
#include <heddle/tlm_bus.h>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <tlm_utils/simple_target_socket.h>

#include "support/embed_host.h"
#include "support/sim_fixture.h"

namespace embed_facade_test {

using namespace heddle::test;

namespace {

constexpr const char* kKernels = R"(heddle: 1
name: kernels
memory:
  - {name: numbers, bytes: 4096, init: {pattern: i, type: u32}}
kernels:
  - name: double
    grid: 4
    block: 256
    program:
      - let: {i: cta.x * block.x + thread.x}
      - load: {to: n, type: u32, at: numbers + 4 * i}
      - store: {value: 2 * n, type: u32, at: numbers + 4 * i}
  - name: astray
    grid: 1
    block: 32
    shared: 256
    program:
      - store: {value: 1, type: u32, at: 1 << 40}
submit:
  - {kernel: double, stream: s}
  - {kernel: astray, stream: s}
)";

}  // namespace

TEST_CASE("kernels of a scenario run by packets, and what software does wrong is reported", "[embed][HST-08]") {
  for (const heddle::Timing timing : {heddle::Timing::at, heddle::Timing::fast, heddle::Timing::lt}) {
    SimFixture sim;
    const Reports reports;
    heddle::GpuOptions options = small();
    options.timing = timing;
    heddle::Gpu gpu("gpu0", options);
    const heddle::Contents contents = gpu.load(write_file("kernels.yaml", kKernels));
    REQUIRE(contents.kernels.size() == 2);
    CHECK(contents.kernel("astray").shared_bytes == 256);
    CHECK(contents.region("numbers").bytes == 4096);
    bool done = false;
    Host host("host", gpu, [&](Host& h) {
      h.open();
      const heddle::Kernel& twice = contents.kernel("double");
      CHECK(h.launch(twice, twice.object) == 0);
      CHECK(gpu.faults().empty());
      const heddle::Kernel& astray = contents.kernel("astray");
      CHECK(h.launch(astray, astray.object) < 0);
      REQUIRE(heddle_queue_destroy(&h.queue, 1000) == HEDDLE_OK);  // the fault has stopped it
      h.open();
      CHECK(h.launch(twice, twice.object) == 0);
      done = true;
      sc_core::sc_stop();
    });
    sc_core::sc_start();
    REQUIRE(done);
    std::vector<std::uint32_t> numbers(1024);
    REQUIRE(gpu.read_memory(contents.region("numbers").address, numbers.data(), 4096));
    bool right = true;
    for (std::uint32_t i = 0; i < 1024; ++i) right = right && numbers[i] == 4 * i;
    CHECK(right);
    REQUIRE(gpu.faults().size() == 1);
    CHECK_THAT(gpu.faults()[0], Catch::Contains("address outside memory"));
    REQUIRE(reports.of("/heddle/fault").size() == 1);
    CHECK(reports.of("/heddle/fault")[0] == "gpu0: " + gpu.faults()[0]);
    REQUIRE_FALSE(reports.of("/heddle/queue").empty());
    CHECK_THAT(reports.of("/heddle/queue").back(), Catch::Contains("queue 0"));
    CHECK(reports.of("/heddle/reset").empty());
    CHECK(gpu.statistic("gpu0.cwd.ctas_launched") == 9);
    CHECK(gpu.statistic("cwd.ctas_launched") == 9);
    gpu.reset();
    CHECK(reports.of("/heddle/reset") == std::vector<std::string>{"gpu0: reset"});
    CHECK(gpu.faults().empty());
    CHECK(gpu.idle());
    CHECK(gpu.statistic("cwd.ctas_launched") == 0);
  }
}

TEST_CASE("a copy by registers is something under way", "[embed]") {
  for (const heddle::Timing timing : {heddle::Timing::at, heddle::Timing::fast, heddle::Timing::lt}) {
    SimFixture sim;
    heddle::GpuOptions options = small();
    options.timing = timing;
    heddle::Gpu gpu("gpu0", options);
    bool done = false;
    Host host("host", gpu, [&](Host& h) {
      h.open();
      CHECK(gpu.idle());
      const auto write = [&](std::uint32_t offset, unsigned bytes, std::uint64_t value) {
        REQUIRE(h.bus.write(h.bus.context, offset, bytes, value));
      };
      write(HEDDLE_REG_COPY_TO(2), 8, 0x10000);
      write(HEDDLE_REG_COPY_BYTES(2), 8, 16U << 20);
      write(HEDDLE_REG_COPY_KIND(2), 4, HEDDLE_COPY_KIND_FILL);
      write(HEDDLE_REG_COPY_COMMAND(2), 4, HEDDLE_COPY_COMMAND_START);
      CHECK_FALSE(gpu.idle());
      unsigned looks = 0;
      while (gpu.read_register("COPY_STATE", 2) == HEDDLE_COPY_STATE_BUSY && ++looks < 100'000) {
        CHECK_FALSE(gpu.idle());
        sc_core::wait(1, sc_core::SC_US);
      }
      CHECK(gpu.read_register("COPY_STATE", 2) == HEDDLE_COPY_STATE_DONE);
      CHECK(gpu.idle());
      done = true;
      sc_core::sc_stop();
    });
    sc_core::sc_start();
    REQUIRE(done);
  }
}

TEST_CASE("reports follow SystemC's verbosity", "[embed][HST-08]") {
  SimFixture sim;
  const Reports reports;
  heddle::Gpu gpu("gpu0", small());
  sc_core::sc_report_handler::set_verbosity_level(sc_core::SC_LOW);
  gpu.reset();
  CHECK(reports.of("/heddle/reset").empty());
  sc_core::sc_report_handler::set_verbosity_level(sc_core::SC_MEDIUM);
  gpu.reset();
  CHECK(reports.of("/heddle/reset").size() == 1);
}

TEST_CASE("registers are listed as the page of registers has them", "[embed][HST-08]") {
  std::ifstream page(HEDDLE_SOURCE_DIR "/docs/registers.md");
  const std::regex row(
      R"(\| 0x([0-9a-f]+)(?: \+ 0x([0-9a-f]+) [cq])?(?: \+ 0x8 w)? \| (\w+) \| (32|64) \| (ro|rw|w1c|wo) \| .*)");
  std::map<std::string, std::vector<std::string>> rows;
  for (std::string line; std::getline(page, line);) {
    std::smatch match;
    if (std::regex_match(line, match, row)) rows[match[3]] = {match[1], match[2], match[4], match[5]};
  }
  const std::vector<heddle::RegisterInfo> registers = heddle::Gpu::registers();
  CHECK(rows.size() > 80);
  CHECK(registers.size() == rows.size());
  std::uint32_t last = 0;
  for (const heddle::RegisterInfo& reg : registers) {
    INFO(reg.name);
    REQUIRE(rows.count(reg.name) == 1);
    const std::vector<std::string>& found = rows[reg.name];
    CHECK(reg.offset == std::stoul(found[0], nullptr, 16));
    CHECK(reg.offset >= last);
    CHECK((reg.count > 1 ? reg.stride : 0) == (found[1].empty() ? 0 : std::stoul(found[1], nullptr, 16)));
    CHECK(std::to_string(reg.bits) == found[2]);
    CHECK(reg.access == found[3]);
    CHECK_FALSE(reg.description.empty());
    last = reg.offset;
  }
}

TEST_CASE("registers are read without effects, and writes to them are told", "[embed][HST-08]") {
  SimFixture sim;
  heddle::Gpu gpu("gpu0", small());
  std::vector<heddle::RegisterWrite> told;
  gpu.on_register_write([&told](const heddle::RegisterWrite& write) { told.push_back(write); });
  CHECK(gpu.read_register("MAGIC") == HEDDLE_DEVICE_MAGIC);
  CHECK(gpu.read_register("MEMORY_BYTES") == gpu.memory_bytes());
  const auto refused = [&gpu](const std::string& name, std::uint32_t index, std::uint32_t word) {
    return failure_of([&] { (void)gpu.read_register(name, index, word); });
  };
  CHECK_THAT(refused("SCRACH", 0, 0), Catch::Contains("did you mean SCRATCH?"));
  CHECK_THAT(refused("MAGIC", 1, 0), Catch::Contains("there is no element 1"));
  CHECK_THAT(refused("QUEUE_STATE", 32, 0), Catch::Contains("elements 0 to 31"));
  CHECK_THAT(refused("AGENT_PACKET", 0, 8), Catch::Contains("words 0 to 7"));

  bool done = false;
  Host host("host", gpu, [&](Host& h) {
    const auto write = [&h](std::uint32_t offset, unsigned bytes, std::uint64_t value) {
      return h.bus.write(h.bus.context, offset, bytes, value);
    };
    REQUIRE(write(HEDDLE_REG_SCRATCH, 4, 0x1234));
    REQUIRE_FALSE(write(HEDDLE_REG_MAGIC, 4, 1));  // read only: not told
    REQUIRE(write(HEDDLE_REG_QUEUE_BASE(3) + 4, 4, 7));
    REQUIRE(write(HEDDLE_REG_INT_SET, 4, HEDDLE_INT_SOFTWARE_MASK));
    CHECK(gpu.read_register("INT_STATUS") == HEDDLE_INT_SOFTWARE_MASK);
    CHECK(gpu.read_register("INT_STATUS") == HEDDLE_INT_SOFTWARE_MASK);
    CHECK(gpu.read_register("SCRATCH") == 0x1234);
    CHECK(gpu.read_register("QUEUE_BASE", 3) == 0x700000000);
    CHECK(gpu.read_register("INT_SET") == 0);
    h.open();
    CHECK(gpu.read_register("QUEUE_STATE", 0) == HEDDLE_QUEUE_STATE_ACTIVE);
    REQUIRE(write(HEDDLE_REG_DOORBELL(0), 8, 5));
    done = true;
    sc_core::sc_stop();
  });
  const double accesses = gpu.statistic("host.register_accesses");
  sc_core::sc_start();
  REQUIRE(done);
  CHECK(gpu.statistic("host.register_accesses") > accesses);
  REQUIRE(told.size() > 4);
  const auto is = [](const heddle::RegisterWrite& write, const std::string& name, std::uint32_t index,
                     std::uint32_t offset, std::uint32_t bytes, std::uint64_t value) {
    return write.name == name && write.index == index && write.word == 0 && write.offset == offset &&
           write.bytes == bytes && write.value == value;
  };
  CHECK(is(told[0], "SCRATCH", 0, HEDDLE_REG_SCRATCH, 4, 0x1234));
  CHECK(is(told[1], "QUEUE_BASE", 3, HEDDLE_REG_QUEUE_BASE(3) + 4, 4, 7));
  CHECK(is(told[2], "INT_SET", 0, HEDDLE_REG_INT_SET, 4, HEDDLE_INT_SOFTWARE_MASK));
  CHECK(is(told.back(), "DOORBELL", 0, HEDDLE_REG_DOORBELL(0), 8, 5));
}

TEST_CASE("options are layers of which the later one wins", "[embed]") {
  SimFixture sim;
  const std::string first = write_file("first.yaml", "preset: small\ngpu: {memory: 512 MiB, timing: fast}\n");
  const std::string second = write_file("second.yaml", "gpu: {memory: 256 MiB}\nrun: {wall_limit: 3 s}\n");
  heddle::GpuOptions options;
  options.files = {first, second};
  const heddle::Gpu by_files("by_files", options);
  CHECK(by_files.memory_bytes() == 256U << 20);
  CHECK(by_files.read_register("SMS") == 10);
  CHECK_THAT(by_files.configuration(), Catch::Contains("timing: fast") && Catch::Contains("preset small"));
  options.settings = {"gpu.memory=128 MiB"};
  options.timing = heddle::Timing::lt;
  const heddle::Gpu by_all("by_all", options);
  CHECK(by_all.memory_bytes() == 128U << 20);
  CHECK_THAT(by_all.configuration(), Catch::Contains("timing: lt"));
  const std::vector<std::string> names = heddle::presets();
  CHECK(std::set<std::string>(names.begin(), names.end()).count("h100-sxm") == 1);

  // What was resolved is an input, and gives the same.
  heddle::GpuOptions again;
  again.files = {write_file("again.yaml", by_all.configuration())};
  const heddle::Gpu third("third", again);
  CHECK(third.memory_bytes() == 128U << 20);
  CHECK(third.read_register("SMS") == 10);
}

TEST_CASE("what is wrong with options and files is said with place and remedy", "[embed]") {
  SimFixture sim;
  const auto message = [](const std::function<void(heddle::GpuOptions&)>& spoil) {
    heddle::GpuOptions options = small();
    spoil(options);
    try {
      const heddle::Gpu gpu(sc_core::sc_gen_unique_name("gpu"), options);
    } catch (const heddle::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(message([](auto& o) { o.preset = "smal"; }), Catch::Contains("small"));
  CHECK_THAT(message([](auto& o) { o.settings = {"gpu.memori=1 GiB"}; }),
             Catch::Contains("gpu.memori=1 GiB") && Catch::Contains("memory"));
  CHECK_THAT(message([](auto& o) { o.files = {"none.yaml"}; }), Catch::Contains("none.yaml"));
  const std::string bad = write_file("bad.yaml", "gpu:\n  clock: 1 GHz\n  memory: 3 m\n");
  CHECK_THAT(message([&bad](auto& o) { o.files = {bad}; }), Catch::Contains(bad + ":3"));
  const std::string torn = write_file("torn.yaml", "gpu:\n  l2: {slices: 7}\n");
  CHECK_THAT(message([&torn](auto& o) { o.files = {torn}; }), Catch::Contains(torn + ":2"));

  heddle::Gpu gpu("loaded", small());
  const auto refused = [&gpu](const std::string& name, const std::string& text) {
    return failure_of([&] { (void)gpu.load(write_file(name, text)); });
  };
  const std::string rest = "kernels: [{name: k, grid: 1, block: 32, cycles: 10}]\nsubmit: [{kernel: k, stream: s}]\n";
  CHECK_THAT(refused("two.yaml", "heddle: 1\nname: n\ngpus: [small, small]\n" + rest), Catch::Contains("2 GPUs"));
  CHECK_THAT(refused("load.yaml", "heddle: 1\nname: n\nload: [{sms: [0], kernel: k, ctas: 1}]\n" + rest),
             Catch::Contains("`load`"));
  CHECK_THAT(refused("syntax.yaml", "heddle: 1\nname: n\nkernel: []\n" + rest), Catch::Contains("syntax.yaml:3"));
  const std::string memory = "heddle: 1\nname: n\nmemory: [{name: a, bytes: 1000}]\n" + rest;
  CHECK(refused("once.yaml", memory).empty());
  CHECK_THAT(refused("twice.yaml", memory), Catch::Contains("at: "));
  CHECK(refused("behind.yaml", "heddle: 1\nname: n\nmemory: [{name: a, bytes: 1000, at: 2097152}]\n" + rest).empty());
  CHECK_THAT(failure_of([&gpu] { (void)gpu.statistic("cwd.ctas_lanched"); }), Catch::Contains("ctas_launched"));
  CHECK_THAT(failure_of([] { (void)heddle::Contents{}.kernel("k"); }), Catch::Contains("no kernel k"));
}

TEST_CASE("whatever is not needed may stay unbound, and devices do not know of each other", "[embed]") {
  for (int round = 0; round < 2; ++round) {  // a second simulation of the process
    SimFixture sim;
    heddle::Gpu one("one", small());
    heddle::GpuOptions options = small();
    options.settings = {"gpu.shape=[4, 4, 4]"};
    heddle::Gpu two("two", options);
    sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_US));
    CHECK(one.read_register("SMS") == 10);
    CHECK(two.read_register("SMS") == 12);
    const std::uint64_t written = 0x0123456789ABCDEF;
    std::uint64_t seen = 0;
    REQUIRE(one.write_memory(4096, &written, sizeof written));
    REQUIRE(one.read_memory(4096, &seen, sizeof seen));
    CHECK(seen == written);
    REQUIRE(two.read_memory(4096, &seen, sizeof seen));
    CHECK(seen == 0);
    CHECK_FALSE(one.read_memory(one.memory_bytes() - 4, &seen, sizeof seen));
    std::set<std::string> paths;
    for (const heddle::Statistic& statistic : two.statistics()) {
      CHECK(statistic.path.compare(0, 4, "two.") == 0);
      paths.insert(statistic.path);
    }
    CHECK(paths.count("two.cwd.ctas_launched") == 1);
  }
}

TEST_CASE("the pins are the device's: a reset by rst, an interrupt on irq", "[embed]") {
  SimFixture sim;
  const Reports reports;
  heddle::Gpu gpu("gpu0", small());
  sc_core::sc_signal<bool> irq("irq");
  sc_core::sc_signal<bool> rst("rst");
  gpu.irq.bind(irq);
  gpu.rst.bind(rst);
  bool done = false;
  Host host("host", gpu, [&](Host& h) {
    const auto write = [&h](std::uint32_t offset, std::uint64_t value) {
      return h.bus.write(h.bus.context, offset, 4, value);
    };
    REQUIRE(write(HEDDLE_REG_INT_MASK, HEDDLE_INT_SOFTWARE_MASK));
    REQUIRE(write(HEDDLE_REG_INT_SET, HEDDLE_INT_SOFTWARE_MASK));
    wait(sc_core::sc_time(1, sc_core::SC_US));
    CHECK(irq.read());
    rst.write(true);
    wait(sc_core::sc_time(1, sc_core::SC_US));
    CHECK_FALSE(irq.read());
    CHECK_FALSE(write(HEDDLE_REG_SCRATCH, 1));
    rst.write(false);
    wait(sc_core::sc_time(1, sc_core::SC_US));
    CHECK(write(HEDDLE_REG_SCRATCH, 1));
    CHECK(gpu.read_register("INT_MASK") == 0);
    done = true;
    sc_core::sc_stop();
  });
  sc_core::sc_start();
  REQUIRE(done);
  CHECK(reports.of("/heddle/reset").size() == 1);
}

}  // namespace embed_facade_test
