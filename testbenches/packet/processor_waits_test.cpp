// What a run without progress says of the packet processor, and what it counts and draws.
#include <nlohmann/json.hpp>

#include "packet/packet_bench.h"

namespace packet_processor_waits_test {

namespace arch = heddle::arch;
namespace protocol = heddle::protocol;
using heddle::Cycle;
using heddle::TimelineArgs;
using heddle::TrackId;
using heddle::arch::PacketType;
using heddle::packet::PacketParams;
using namespace heddle::test;

namespace {

using Lines = std::vector<std::string>;

bool says(const Lines& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

// Slices by line, in the order in which they were drawn.
class Drawing : public heddle::TimelineSink {
 public:
  struct Slice {
    heddle::Picoseconds begin;
    heddle::Picoseconds end;
    std::string name;
  };
  std::vector<std::string> lines;
  std::map<std::string, std::vector<Slice>> slices;

  TrackId track(const std::string& group, const std::string& line) override {
    REQUIRE(group == "gpu0 queues");
    const auto found = std::find(lines.begin(), lines.end(), line);
    if (found == lines.end()) lines.push_back(line);
    return {0, static_cast<std::uint32_t>(std::find(lines.begin(), lines.end(), line) - lines.begin())};
  }
  void slice(TrackId track, heddle::Picoseconds begin, heddle::Picoseconds end, std::string_view name,
             TimelineArgs) override {
    slices[lines.at(track.line)].push_back({begin, end, std::string(name)});
  }
  void counter(TrackId, heddle::Picoseconds, std::string_view, double) override {}
};

}  // namespace

TEST_CASE("a run without progress says who waits for whom", "[packet][PKT-04]") {
  PacketBench bench;
  bench.tasks.held = true;
  const std::uint64_t done = bench.signal(0, 1);
  const std::uint64_t never = bench.signal(1, 3);
  Producer a(bench, 0);
  Producer b(bench, 1);
  Lines lines;
  SECTION("barrier bit, dependency signal, kernel") {
    a.write(kernel_packet(bench.object("gemm"), done));
    a.ring(0);
    b.write(barrier_packet(PacketType::barrier_and, {done}));
    b.write(kernel_packet(bench.object("gemm"), 0, true));
    b.ring(1);
    bench.run(3000);
    lines = bench.waits();
    REQUIRE(lines.size() == 4);
    CHECK(lines[0] == "packet 1 of queue 1 waits: for its turn behind packet 0 of queue 1 (barrier-AND)");
    CHECK(lines[1] == "packet 0 of queue 1 (barrier-AND) waits: for signal 0x20000 (value 1)");
    CHECK(lines[2] == "signal 0x20000 (value 1) waits: it is the completion signal of packet 0 of queue 0 (gemm)");
    CHECK(lines[3] == "packet 0 of queue 0 (gemm) waits: for the end of gemm (queue 0, packet 0)");
  }
  SECTION("a signal that nobody sets") {
    b.submit(barrier_packet(PacketType::barrier_or, {never}));
    bench.run(3000);
    lines = bench.waits();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0] == "packet 0 of queue 1 (barrier-OR) waits: for signal 0x20020 (value 3)");
  }
  SECTION("two queues wait for each other") {
    a.write(barrier_packet(PacketType::barrier_and, {never}));
    a.write(kernel_packet(bench.object("gemm"), done));
    b.write(barrier_packet(PacketType::barrier_and, {done}, never));
    a.ring(1);
    b.ring(0);
    bench.run(3000);
    lines = bench.waits();
    CHECK(says(lines, "for signal 0x20020 (value 3)"));
    CHECK(says(lines, "it is the completion signal of packet 0 of queue 1"));
    CHECK(says(lines, "for signal 0x20000 (value 1)"));
    CHECK(says(lines, "and so back to"));
  }
  SECTION("not published") {
    a.prepare(kernel_packet(bench.object("gemm")));
    a.ring(0);
    bench.run(3000);
    lines = bench.waits();
    REQUIRE(lines.size() == 1);
    CHECK(says(lines, "packet 0 of queue 0 waits: the doorbell has told of it, but its header is invalid"));
  }
  SECTION("the host holds an agent packet") {
    a.write(agent_packet(1));
    a.write(kernel_packet(bench.object("gemm"), 0, true));
    a.ring(1);
    bench.run(3000);
    lines = bench.waits();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == "packet 1 of queue 0 waits: its barrier bit is set, so for packet 0 of queue 0 (agent dispatch)");
    CHECK(lines[1] == "packet 0 of queue 0 (agent dispatch) waits: for the host");
  }
  SECTION("a kernel object that does not come") {
    std::uint32_t reads = 0;
    bench.memory.delay = [&reads] { return Cycle{reads++ == 0 ? 50U : 1'000'000U}; };
    a.submit(kernel_packet(bench.object("gemm")));
    bench.run(3000);
    lines = bench.waits();
    CHECK(lines == Lines{"packet 0 of queue 0 (kernel dispatch) waits: for an answer from memory"});
  }
  SECTION("a hold takes its time, and what follows it is none of that") {
    a.submit(hold_packet(5'000, done));
    bench.run(3000);
    CHECK(bench.waits() == Lines{"packet 0 of queue 0 (vendor) waits: for the end of its time"});
    bench.memory.delay = [] { return Cycle{1'000'000}; };
    bench.run(6000);  // its signal is being changed
    CHECK(bench.processor.open() == 1);
    CHECK(bench.waits().empty());
  }
  SECTION("a copy") {
    bench.copies.duration = [] { return Cycle{1'000'000}; };
    arch::VendorPacket copy;
    copy.from = 0x5000;
    copy.to = 0x9000;
    copy.bytes = 64;
    a.submit(arch::encode(copy));
    bench.run(3000);
    CHECK(bench.waits() == Lines{"packet 0 of queue 0 (vendor) waits: for the end of its copy"});
  }
  SECTION("a queue that was stopped") {
    arch::PacketBytes bytes = kernel_packet(bench.object("gemm"));
    bytes[4] = 0;
    a.submit(bytes);
    bench.run(3000);
    lines = bench.waits();
    REQUIRE(lines.size() == 1);
    CHECK(lines[0] == "queue 0 waits: stopped by its packet 0 (a workgroup size is 0), to be closed by the host");
  }
}

TEST_CASE("who waits for the decoder says so, before it has been taken apart and for its checks",
          "[packet][PKT-04][PKT-08]") {
  PacketParams params;
  params.step = 100;  // 2,200 cycles for the packet, 2,300 with its object
  PacketBench bench(params);
  Drawing drawing;
  bench.observation.timeline = &drawing;
  Producer a(bench, 0);
  Producer b(bench, 1);
  a.submit(kernel_packet(bench.object("gemm")));
  b.submit(kernel_packet(bench.object("gemm")));
  bench.run(1000);
  CHECK(bench.waits() == Lines{"packet 0 of queue 1 (kernel dispatch) waits: for its turn at the decoder"});
  bench.run(2000);
  CHECK(bench.waits() == Lines{"packet 0 of queue 0 (gemm) waits: for its turn at the decoder"});
  bench.run(2000);
  CHECK(bench.waits() == Lines{"packet 0 of queue 1 (gemm) waits: for its turn at the decoder"});
  REQUIRE(bench.settle());
  for (const char* line : {"queue 0 waits", "queue 1 waits"}) {
    CAPTURE(line);
    for (const auto& slice : drawing.slices[line]) CHECK(slice.name == "decoder busy");
    CHECK(drawing.slices[line].size() == (line[6] == '0' ? 1 : 2));
  }
}

TEST_CASE("who waits for memory says so, in every phase", "[packet][PKT-04][PKT-11]") {
  PacketParams params;
  params.table = heddle::packet::TablePlace::memory;
  PacketBench bench(params);
  Producer queue(bench, 0);
  REQUIRE(bench.settle());
  bench.memory.delay = [] { return Cycle{10'000}; };
  const auto expect = [&](const std::string& what) {
    CAPTURE(what);
    CHECK(bench.waits() == Lines{what});
  };
  arch::DispatchFields fields = fields_of(bench.object("gemm"));
  fields.synch_scopes = 2 << 1;
  queue.submit(reference_packet(0, fields));
  bench.run(9'000);
  expect("packet 0 of queue 0 waits: it is being read from memory");
  bench.run(10'000);
  expect("packet 0 of queue 0 (reference dispatch) waits: for an answer from memory");
  bench.run(10'000);  // its entry is being stored
  expect("packet 0 of queue 0 (gemm) waits: for an answer from memory");
  bench.run(10'000);  // its acquire
  expect("packet 0 of queue 0 (gemm) waits: for an answer from memory");
  bench.run(4'000);
  REQUIRE(bench.tasks.kernels.size() == 1);
  REQUIRE(bench.settle());
  queue.submit(condensed_packet({diff_of(0)}));
  bench.run(19'000);  // its entry is being read
  expect("packet 1 of queue 0 (condensed dispatch) waits: for an answer from memory");
  REQUIRE(bench.settle());
  // A barrier packet waits for its signals and not for memory, whatever is being read.
  queue.submit(barrier_packet(PacketType::barrier_and, {bench.signal(0, 1)}));
  bench.run(19'000);
  expect("packet 2 of queue 0 (barrier-AND) waits: for signal 0x20000 (value 0)");
}

TEST_CASE("polls are no progress, and packets are", "[packet][PKT-14]") {
  PacketBench bench;
  const std::uint64_t signal = arch::kHostWindow + 0x9000;
  bench.memory.put(signal, 1);
  Producer queue(bench, 0);
  bench.run(10);
  const std::uint64_t opened = bench.observation.progress;
  queue.submit(barrier_packet(PacketType::barrier_and, {signal}));
  bench.run(2000);
  const std::uint64_t before = bench.observation.progress;
  CHECK(before == opened + 2);  // its doorbell, and it has begun
  bench.run(20'000);
  CHECK(bench.observation.progress == before);
  CHECK(bench.memory.served > 20);
  bench.memory.put(signal, 0);
  REQUIRE(bench.settle());
  CHECK(bench.observation.progress == before + 1);  // it is complete
}

TEST_CASE("packets and errors are counted, and their phases", "[packet][PKT-08][PKT-09]") {
  PacketBench bench;
  Producer queue(bench, 0);
  const std::uint64_t signal = bench.signal(0, 9);
  queue.submit(reference_packet(1, fields_of(bench.object("k"), signal)));
  queue.submit(kernel_packet(bench.object("k")));
  queue.submit(condensed_packet({diff_of(1), diff_of(1)}));
  queue.submit(hold_packet(700));
  queue.submit(barrier_packet(PacketType::barrier_and, {}));
  arch::PacketBytes bad = kernel_packet(bench.object("k"));
  bad[10] = 1;
  queue.submit(bad);
  REQUIRE(bench.settle());
  const nlohmann::json stats = bench.observation.stats.to_json();
  const auto value = [&](const char* name) { return stats.at(std::string("gpu0.packet.") + name).at("value"); };
  CHECK(value("packets.reference") == 1);
  CHECK(value("packets.kernel") == 1);
  CHECK(value("packets.condensed") == 1);
  CHECK(value("packets.vendor") == 1);
  CHECK(value("packets.barrier_and") == 1);
  CHECK(value("packets.agent") == 0);
  CHECK(value("kernels") == 4);
  CHECK(value("signals") == 2);
  CHECK(value("errors.invalid_packet_format") == 1);
  CHECK(value("execution.count") == 4);
  CHECK(value("execution.mean") == 1000.0);
  CHECK(value("dispatch.mean") == Approx(15 * PacketParams().step));
  CHECK(value("open") == 0.0);
}

TEST_CASE("the timeline shows phases, and why queues wait", "[packet][PKT-08]") {
  PacketBench bench;
  Drawing drawing;
  bench.observation.timeline = &drawing;
  Producer queue(bench, 0);
  queue.write(kernel_packet(bench.object("a", 0), bench.signal(0, 1)));
  queue.write(kernel_packet(bench.object("b", 1)));
  queue.write(kernel_packet(bench.object("c", 2), 0, true));
  queue.ring(2);
  REQUIRE(bench.settle());
  Producer late(bench, 1);
  late.prepare(barrier_packet(PacketType::barrier_and, {bench.signal(1, 1)}));
  late.ring(0);
  bench.run(2000);
  late.publish(0);
  late.ring(0);
  bench.run(3000);
  bench.memory.put(PacketBench::kSignals + 32, 0);
  REQUIRE(bench.settle());
  const auto names = [&](const std::string& line) {
    Lines result;
    for (const auto& slice : drawing.slices[line]) result.push_back(slice.name);
    std::sort(result.begin(), result.end());
    return result;
  };
  CHECK(names("queue 0") == Lines{"decode a", "decode b", "decode c", "dispatch a", "dispatch b", "dispatch c"});
  CHECK(names("queue 0 lane 0") == Lines{"a", "c", "clean-up", "clean-up"});
  CHECK(names("queue 0 lane 1") == Lines{"b", "clean-up"});
  CHECK(names("queue 0 waits") == Lines{"barrier bit"});
  CHECK(names("queue 1 waits") == Lines{"dependency signal", "packet not published"});
  for (auto& [line, slices] : drawing.slices) {
    CAPTURE(line);
    std::sort(slices.begin(), slices.end(), [](const auto& x, const auto& y) { return x.begin < y.begin; });
    for (std::size_t i = 1; i < slices.size(); ++i) CHECK(slices[i].begin >= slices[i - 1].end);
  }
}

}  // namespace packet_processor_waits_test
