// What a kernel trace of rocprofv3 becomes, rule by rule.
#include <catch2/catch.hpp>

#include "import/kineto_text.h"
#include "import/recordings.h"
#include "import/rocprof_text.h"
#include "support/random.h"

namespace import_rocprof_import_test {

using namespace heddle;
using namespace heddle::test;
using arch::Dim3;
using workload::Op;
using workload::Workload;

namespace {

Workload only(const std::string& text) {
  std::vector<Workload> workloads = import_rocprof_text(text);
  REQUIRE(workloads.size() == 1);
  return std::move(workloads[0]);
}

bool warns(const Workload& workload, const std::string& part) {
  for (const std::string& warning : workload.warnings) {
    if (warning.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a kernel of rocprofv3 has its shape, its queue and its times", "[workload][INP-03][INP-04]") {
  const Workload w = only(RocprofText().kernel(63871059661491, 63871059667691, 18, "64,4,1,640,8,3", "gemm<8>").text());
  CHECK(w.format == "rocprof");
  CHECK(w.name == "t.csv");
  CHECK(w.device.id == 4);
  CHECK(w.device.name.empty());
  CHECK(w.device.sms == 0);
  CHECK(w.timings.resolution == 1);
  CHECK_FALSE(w.timings.launch_latency);
  CHECK_FALSE(w.timings.stream_gap);
  REQUIRE(w.ops.size() == 1);
  const Op& op = w.ops[0];
  CHECK(op.kernel.name == "gemm<8>");
  CHECK(op.kernel.block == Dim3{64, 4, 1});
  CHECK(op.kernel.grid == Dim3{10, 2, 3});  // Grid_Size counts work-items
  CHECK(op.kernel.registers_per_thread == 24 + 8);
  CHECK(op.kernel.shared_bytes == 2048);
  CHECK(op.kernel.local_bytes == 16);
  CHECK_FALSE(op.grid_assumed);
  CHECK(op.recorded->start == 0);
  CHECK(op.recorded->duration == 6'200);
  CHECK(op.recorded->occupancy_percent < 0);
  // No host calls: pinned to the recorded start.
  CHECK_FALSE(op.enqueue);
  CHECK(op.not_before == 0);
  REQUIRE(w.streams.size() == 1);
  CHECK(w.streams[0].name == "18");
  CHECK(warns(w, "does not say what device 4 is"));
  CHECK(warns(w, "1 of 1 operations have no launch call"));
}

TEST_CASE("a grid whose work-items do not fill the last workgroup has that workgroup", "[workload][INP-04]") {
  const Workload w = only(RocprofText().kernel(10, 20, 1, "64,2,1,65,1,1").text());
  CHECK(w.ops[0].kernel.grid == Dim3{2, 1, 1});
  // HSA counts work-items in 32 bits in every direction.
  const Workload big = only(RocprofText().kernel(10, 20, 1, "1,1,1,4294967295,1,1").text());
  CHECK(big.ops[0].kernel.grid == Dim3{4'294'967'295, 1, 1});
}

TEST_CASE("queues become streams, in order of start and dispatch", "[workload][INP-04]") {
  RocprofText text;
  text.kernel(5'000, 6'000, 20, "64,1,1,64,1,1", "late");
  text.kernel(1'000, 2'000, 18, "64,1,1,64,1,1", "first");
  text.kernel(2'000, 2'000, 18, "64,1,1,64,1,1", "short");  // same start as the next: the dispatch decides
  text.kernel(2'000, 3'500, 18, "64,1,1,64,1,1", "last");
  text.kernel(1'500, 4'000, 20, "64,1,1,64,1,1", "other");
  const Workload w = only(text.text());
  std::vector<std::string> names;
  for (const Op& op : w.ops) names.push_back(w.streams[op.stream].name + " " + op.kernel.name);
  CHECK(names == std::vector<std::string>{"18 first", "20 other", "18 short", "18 last", "20 late"});
  CHECK(w.ops[1].recorded->start == 500);
  CHECK(w.ops[0].recorded->overlaps);
  CHECK(w.ops[1].recorded->overlaps);
  CHECK_FALSE(w.ops[4].recorded->overlaps);
  for (const Op& op : w.ops) {
    CHECK(op.not_before == op.recorded->start);
    CHECK(op.after.empty());
  }
}

TEST_CASE("the stream gap is the lower quartile of the gaps in queues", "[workload][INP-04]") {
  RocprofText text;
  std::uint64_t at = 1'000;
  for (const std::uint64_t gap : {0, 100, 40, 70'000, 60, 5'000, 80, 90, 300}) {
    text.kernel(at + gap, at + gap + 1'000);
    at += gap + 1'000;
  }
  CHECK(only(text.text()).timings.stream_gap == 60);  // of 40 60 80 90 100 300 5000 70000
  // Kernels of a queue that overlap: no gap, and a note.
  const Workload w = only(RocprofText().kernel(1'000, 2'000).kernel(1'900, 3'000).kernel(2'950, 4'000).text());
  CHECK(w.timings.stream_gap == 0);
  CHECK(warns(w, "2 kernels start before the previous one of their queue has ended, by 100 ns at most"));
}

TEST_CASE("agents become devices, however they are written", "[workload][INP-06]") {
  RocprofText text;
  text.kernel(90'000, 91'000, 1, "64,1,1,64,1,1", "k", "Agent 7");
  text.kernel(10'000, 11'000, 1, "64,1,1,64,1,1", "k", "GPU 2");
  text.kernel(95'000, 96'000, 3, "64,1,1,64,1,1", "k", "7");
  const std::vector<Workload> workloads = import_rocprof_text(text.text());
  REQUIRE(workloads.size() == 2);
  CHECK(workloads[0].device.id == 2);
  CHECK(workloads[0].ops.size() == 1);
  CHECK(workloads[1].device.id == 7);
  CHECK(workloads[1].ops.size() == 2);
  CHECK(workloads[1].streams.size() == 2);
  for (const Workload& w : workloads) CHECK(w.ops[0].recorded->start == 0);
}

TEST_CASE("columns are found by name, in any order and of any version", "[workload][INP-04]") {
  const Workload w = only(
      "Grid_Size_Z,Grid_Size_Y,Grid_Size_X,Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,End_Timestamp,"
      "Start_Timestamp,kernel_name,Queue_Id,Agent_Id,Group_Segment_Size,Private_Segment_Size,Unknown,Unknown\r\n"
      "1,1,512,256,1,1,30,10,\"a \"\"b\"\", c\",3,1,4096,8,x,\"y\nz\"\r\n"
      "\r\n"
      "1,1,256,256,1,1,50,40,d,3,1,0,0,,\r\n");
  REQUIRE(w.ops.size() == 2);
  CHECK(w.ops[0].kernel.name == "a \"b\", c");
  CHECK(w.ops[0].kernel.grid == Dim3{2, 1, 1});
  CHECK(w.ops[0].kernel.shared_bytes == 4096);
  CHECK(w.ops[0].kernel.local_bytes == 8);
  CHECK(w.ops[0].kernel.registers_per_thread == 0);
  CHECK(w.ops[0].recorded->duration == 20);
  CHECK(w.ops[1].kernel.name == "d");
}

TEST_CASE("rocprofv3's traces are recognised by content, plain or packed", "[workload][INP-04]") {
  const TempDir dir;
  const std::string text = RocprofText().kernel(10, 20).text();
  const std::string plain = dir.write("trace.yaml", text);  // the name says nothing
  const std::string packed = dir.write("trace", gzipped("\xEF\xBB\xBF" + text));
  for (const std::string& path : {plain, packed}) {
    CHECK(import::looks_like_rocprof(path));
    CHECK_FALSE(import::looks_like_kineto(path));
    CHECK_FALSE(import::looks_like_nsys(path));
    const std::vector<Workload> workloads = import::import_rocprof(path);
    REQUIRE(workloads.size() == 1);
    CHECK(workloads[0].ops.size() == 1);
  }
  for (const char* other : {"", "a,b,c\n1,2,3\n", "{\"traceEvents\": []}", "heddle: 1\n", "Start_Timestamp\n"}) {
    CHECK_FALSE(import::looks_like_rocprof(dir.write("other", other)));
  }
}

TEST_CASE("random traces come back as they were written, whatever the order of their lines", "[workload][INP-04]") {
  for (const std::uint64_t number : seeds(300)) {
    CAPTURE(number);
    Random random(number);
    struct Kernel {
      std::uint64_t start, end;
      int queue;
      Dim3 block, grid;
      std::uint32_t partial;  // work-items that the last workgroup in x lacks
    };
    std::vector<Kernel> kernels;
    const std::uint32_t count = random.between(1, 40);
    for (std::uint32_t i = 0; i < count; ++i) {
      Kernel k{};
      k.start = 1'000 + 10ULL * i + random.below(10);
      k.end = k.start + random.below(500);
      k.queue = static_cast<int>(random.below(4));
      k.block = {random.between(1, 64), random.between(1, 4), random.between(1, 4)};
      k.grid = {random.between(1, 500), random.between(1, 9), random.between(1, 9)};
      k.partial = random.below(k.block.x);
      kernels.push_back(k);
    }
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i;
    random.shuffle(order);
    RocprofText text;
    for (const std::size_t i : order) {
      const Kernel& k = kernels[i];
      text.kernel(k.start, k.end, k.queue,
                  fmt::format("{},{},{},{},{},{}", k.block.x, k.block.y, k.block.z, k.block.x * k.grid.x - k.partial,
                              k.block.y * k.grid.y, k.block.z * k.grid.z),
                  fmt::format("k{}", i));
    }
    const Workload w = only(text.text());
    REQUIRE(w.ops.size() == count);
    for (std::size_t i = 0; i < count; ++i) {
      const Kernel& k = kernels[i];
      REQUIRE(w.ops[i].kernel.name == fmt::format("k{}", i));
      REQUIRE(w.ops[i].recorded->start == static_cast<std::int64_t>(k.start - kernels[0].start));
      REQUIRE(w.ops[i].recorded->duration == static_cast<std::int64_t>(k.end - k.start));
      REQUIRE(w.ops[i].kernel.grid == k.grid);
      REQUIRE(w.ops[i].kernel.block == k.block);
      REQUIRE(w.streams[w.ops[i].stream].name == std::to_string(k.queue));
    }
  }
}

}  // namespace import_rocprof_import_test
