#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "import/kineto_text.h"

namespace import_kineto_import_test {

using namespace heddle;
using namespace heddle::test;
using workload::OpKind;
using workload::Workload;

TEST_CASE("a trace of 2021 and one of today become the same workload", "[workload][INP-01][INP-02]") {
  const std::string old_style =
      R"({"traceName": "old.json", "traceEvents": [
      {"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":"stream 7","ts":1000,"dur":20,
       "args":{"queued":0,"device":0,"context":1,"stream":7,"correlation":5,"external id":9,
               "Registers Per Thread":32,"shared memory":1024,"grid":[3,2,1],"block":[64,2,1]}},
      {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":1,"tid":"9","ts":990,"dur":5,
       "args":{"cbid":211,"correlation":5,"external id":9}},
      {"ph":"X","cat":"Operator","name":"aten::add","pid":1,"tid":"9","ts":980,"dur":30,"args":{"a":[1,{"b":[2]}]}},
      {"name":"process_name","ph":"M","ts":990,"pid":0,"tid":0,"args":{"name":"python"}}],
      "deviceProperties": [)" +
      kA100 + "]}";
  const std::string new_style =
      trace({kernel("k", 7, "1000.000", "20.000", 5,
                    R"("registers per thread":32,"shared memory":1024,"grid":[3,2,1],"block":[64,2,1])"),
             call("cudaLaunchKernel", "990.000", 5)});
  for (const std::string& text : {old_style, new_style}) {
    const std::vector<Workload> workloads = import_text(text);
    REQUIRE(workloads.size() == 1);
    const Workload& workload = workloads[0];
    CHECK(workload.format == "kineto");
    CHECK(workload.name == "trace.json");
    REQUIRE(workload.ops.size() == 1);
    REQUIRE(workload.streams.size() == 1);
    CHECK(workload.streams[0].name == "7");
    const workload::Op& op = workload.ops[0];
    CHECK(op.kernel.name == "k");
    CHECK(op.kernel.grid == arch::Dim3{3, 2, 1});
    CHECK(op.kernel.block == arch::Dim3{64, 2, 1});
    CHECK(op.kernel.registers_per_thread == 32);
    CHECK(op.kernel.shared_bytes == 1024);
    CHECK(op.enqueue == -10'000);
    CHECK(op.recorded->start == 0);
    CHECK(op.recorded->duration == 20'000);
    CHECK(workload.warnings.empty());
  }
  CHECK(import_text(old_style)[0].timings.resolution == 1'000);
  CHECK(import_text(new_style)[0].timings.resolution == 1);  // by notation: its recorder could have written more
}

TEST_CASE("times keep every nanosecond", "[workload][INP-01]") {
  const Workload workload = import_text(trace(
      {kernel("a", 7, "3743411222894.405", "3.679", 1), kernel("b", 7, "3743411222898.085", "0.001", 2),
       call("cudaLaunchKernel", "3743411222890.001", 1), call("cudaLaunchKernel", "\"3743411222891.002\"", 2)}))[0];
  REQUIRE(workload.ops.size() == 2);
  CHECK(workload.ops[0].enqueue == -4'404);
  CHECK(workload.ops[0].recorded->duration == 3'679);
  CHECK(workload.ops[1].enqueue == -3'403);
  CHECK(workload.ops[1].recorded->start == 3'680);
  CHECK(workload.ops[1].recorded->duration == 1);
}

TEST_CASE("the recorded machine follows from deviceProperties", "[workload][INP-10]") {
  const workload::DeviceInfo a100 = import_text(trace({kernel("k", 7, "1", "1", 0)}))[0].device;
  CHECK(a100.name == "NVIDIA A100-SXM4-80GB");
  CHECK(a100.sms == 108);
  CHECK(a100.warp_size == 32);
  CHECK(a100.max_threads_per_sm == 2048);
  CHECK(a100.max_threads_per_cta == 1024);
  CHECK(a100.registers_per_sm == 65536);
  CHECK(a100.shared_bytes_per_sm == 167936);
  CHECK(a100.max_shared_bytes_per_cta == 166912);
  const workload::DeviceInfo mi300x = import_text(trace({kernel("k", 7, "1", "1", 0)}, kMi300x))[0].device;
  CHECK(mi300x.warp_size == 64);
  CHECK(mi300x.registers_per_sm == 65536);
  CHECK(mi300x.shared_bytes_per_sm == 65536);
  CHECK(mi300x.max_shared_bytes_per_cta == 65536);
  const Workload bare = import_text(R"({"traceEvents":[)" + kernel("k", 7, "1", "1", 0) + "]}")[0];
  CHECK(bare.device.sms == 0);
  REQUIRE_FALSE(bare.warnings.empty());
  CHECK_THAT(bare.warnings[0], Catch::Contains("how many SMs"));
}

TEST_CASE("every device of a trace is a workload of its own", "[workload][INP-06]") {
  const std::string shape = R"("grid":[1,1,1],"block":[32,1,1])";
  const std::vector<Workload> workloads =
      import_text(trace({kernel("late", 7, "500", "5", 2, shape, 3), kernel("one", 7, "100", "5", 1, shape, 1),
                         kernel("two", 9, "120", "5", 3, shape, 1)}));
  REQUIRE(workloads.size() == 2);
  CHECK(workloads[0].device.id == 1);
  CHECK(workloads[0].ops.size() == 2);
  CHECK(workloads[0].streams.size() == 2);
  CHECK(workloads[1].device.id == 3);
  REQUIRE(workloads[1].ops.size() == 1);
  CHECK(workloads[1].ops[0].recorded->start == 0);  // each counts from its own first operation
  CHECK(workloads[1].streams[0].name == "7");
}

TEST_CASE("the only device of the table is the only one of the events, whatever its number",
          "[workload][INP-04][INP-10]") {
  const Workload workload = import_text(trace({kernel("a", 7, "100", "5", 0, "", 2)}, kMi300x))[0];
  CHECK(workload.device.id == 2);
  CHECK(workload.device.name == "AMD Instinct MI300X");
  CHECK(workload.ops[0].grid_assumed);
  CHECK(workload.ops[0].kernel.grid == arch::Dim3{304, 1, 1});
  CHECK_THAT(workload.warnings[0],
             Catch::Contains("of device 2, and the only device that the recording describes is 0"));
  // Not where another is meant, or may be.
  const std::vector<Workload> two = import_text(
      trace({kernel("a", 7, "100", "5", 0), kernel("b", 7, "110", "5", 0, R"("grid":[4,1,1],"block":[128,1,1])", 2)},
            kMi300x));
  REQUIRE(two.size() == 2);
  CHECK(two[1].device.sms == 0);
  const Workload other = import_text(trace({kernel("a", 7, "100", "5", 0, R"("grid":[4,1,1],"block":[128,1,1])", 2)},
                                           kMi300x + "," + kMi300x.substr(0, 6) + "1" + kMi300x.substr(7)))[0];
  CHECK(other.device.sms == 0);
}

TEST_CASE("an operation without launch call starts at its recorded start", "[workload][INP-03]") {
  const Workload workload = import_text(
      trace({kernel("before", 7, "100", "5", 1), kernel("none", 7, "110", "5", 0), call("cudaGraphLaunch", "112", 9),
             kernel("graph", 7, "120", "5", 9), kernel("graph", 7, "126", "5", 9)}))[0];
  REQUIRE(workload.ops.size() == 4);
  for (const std::size_t i : {0U, 1U}) {
    CHECK_FALSE(workload.ops[i].enqueue.has_value());
    CHECK(workload.ops[i].not_before == workload.ops[i].recorded->start);
  }
  for (const std::size_t i : {2U, 3U}) {  // one graph launch has many kernels
    CHECK(workload.ops[i].enqueue == 12'000);
    CHECK_FALSE(workload.ops[i].not_before.has_value());
  }
  REQUIRE(workload.warnings.size() == 2);
  CHECK_THAT(workload.warnings[1], Catch::StartsWith("2 of 4 operations have no launch call"));
}

TEST_CASE("ROCm grids count workgroups or work-items by the launch call", "[workload][INP-04]") {
  const std::string shape = R"("grid":[1000,3,1],"block":[256,1,1])";
  const auto imported = [&](const std::string& launch) {
    return import_text(trace({kernel("k", 0, "100", "5", 1, shape), call(launch, "90", 1)}, kMi300x))[0].ops[0].kernel;
  };
  CHECK(imported("hipLaunchKernel").grid == arch::Dim3{1000, 3, 1});
  CHECK(imported("hipExtLaunchKernel").grid == arch::Dim3{1000, 3, 1});
  CHECK(imported("hipExtModuleLaunchKernel").grid == arch::Dim3{4, 3, 1});
  const Workload with_call = import_text(
      trace({kernel("k", 0, "100", "5", 1, ""),
             call("hipExtModuleLaunchKernel", "90", 1, R"("grid":[512,1,1],"block":[256,1,1],"shared memory":4096)")},
            kMi300x))[0];
  CHECK(with_call.ops[0].kernel.grid == arch::Dim3{2, 1, 1});
  CHECK(with_call.ops[0].kernel.block == arch::Dim3{256, 1, 1});
  CHECK(with_call.ops[0].kernel.shared_bytes == 4096);
}

TEST_CASE("a kernel without grid fills the recorded machine once", "[workload][INP-04]") {
  const Workload workload =
      import_text(trace({kernel("bare", 0, "100", "5", 0, ""), kernel("k", 0, "110", "5", 0)}, kMi300x))[0];
  CHECK(workload.ops[0].grid_assumed);
  CHECK(workload.ops[0].kernel.grid == arch::Dim3{304, 1, 1});
  CHECK(workload.ops[0].kernel.block == arch::Dim3{256, 1, 1});
  CHECK_FALSE(workload.ops[1].grid_assumed);
  REQUIRE_FALSE(workload.warnings.empty());
  CHECK_THAT(workload.warnings[0], Catch::StartsWith("1 of 2 kernels have no grid"));
  CHECK_THAT(error_of(R"({"traceEvents":[)" + kernel("bare", 7, "1", "1", 0, "") + "]}"),
             Catch::Contains("has no grid") && Catch::Contains("deviceProperties"));
}

TEST_CASE("copies and memsets hold their place in their stream", "[workload][INP-11]") {
  const Workload workload = import_text(trace(
      {R"({"ph":"X","cat":"gpu_memset","name":"Memset","pid":0,"tid":7,"ts":130,"dur":2,)"
       R"("args":{"device":0,"stream":7,"correlation":3,"bytes":4}})",
       R"({"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7,"ts":100,"dur":12,)"
       R"("args":{"device":0,"stream":7,"correlation":1,"bytes":92928}})",
       kernel("k", 7, "115", "5", 2),
       R"({"ph":"X","cat":"Memcpy","name":"Memcpy DtoD","pid":0,"tid":"stream 7","ts":140,"dur":1,"args":{}})"}))[0];
  REQUIRE(workload.ops.size() == 4);
  CHECK(workload.kernels() == 1);
  CHECK(workload.streams.size() == 1);
  CHECK(workload.ops[0].kind == OpKind::copy);
  CHECK(workload.ops[0].bytes == 92928);
  CHECK(workload.ops[0].duration == 12'000);
  CHECK(workload.ops[0].kernel.name == "Memcpy HtoD");
  CHECK(workload.ops[1].kind == OpKind::kernel);
  CHECK(workload.ops[2].kind == OpKind::fill);
  CHECK(workload.ops[2].bytes == 4);
  CHECK(workload.ops[3].bytes == 0);
}

TEST_CASE("the recorded occupancy is usable up to 48 KiB of shared memory", "[workload][INP-02]") {
  const auto occupancy = [](const std::string& args) {
    return import_text(trace({kernel("k", 7, "1", "1", 0, args + R"("grid":[1,1,1],"block":[32,1,1])")}))[0]
        .ops[0]
        .recorded->occupancy_percent;
  };
  CHECK(occupancy(R"("shared memory":49152,"est. achieved occupancy %":25,)") == Approx(25.0));
  CHECK(occupancy(R"("shared memory":49153,"est. achieved occupancy %":0,)") < 0.0);
  CHECK(occupancy(R"("est. achieved occupancy %":12.5,)") == Approx(12.5));
  CHECK(occupancy(R"("shared memory":0,)") < 0.0);
}

TEST_CASE("equal starts keep the order of their launches", "[workload][INP-02]") {
  const Workload workload =
      import_text(trace({kernel("second", 7, "100", "0", 12), kernel("first", 7, "100", "0", 11),
                         call("cudaLaunchKernel", "90", 11), call("cudaLaunchKernel", "91", 12)}))[0];
  CHECK(workload.ops[0].kernel.name == "first");
  CHECK(workload.ops[1].kernel.name == "second");
}

TEST_CASE("a recorded stream wait becomes an edge", "[workload][INP-02]") {
  const auto wait = [](int on, int record) {
    return fmt::format(R"({{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":24,"ts":121,"dur":1,)"
                       R"("args":{{"cuda_sync_kind":"Stream Wait Event","wait_on_stream":{},"stream":24,"device":0,)"
                       R"("wait_on_cuda_event_record_corr_id":{},"correlation":6}}}})",
                       on, record);
  };
  const std::vector<std::string> events =
      {call("cudaLaunchKernel", "100", 1),    kernel("early", 20, "110", "20", 1),
       call("cudaLaunchKernel", "112", 2),    kernel("source", 20, "131", "30", 2),
       call("cudaEventRecord", "115", 3),  // after source was launched, not after it ran
       call("cudaLaunchKernel", "116", 4),    kernel("too late", 20, "162", "30", 4),
       call("cudaLaunchKernel", "118", 5),    kernel("not held", 24, "126", "9", 5),
       call("cudaStreamWaitEvent", "120", 6), call("cudaLaunchKernel", "125", 7),
       kernel("held", 24, "163", "9", 7)};
  const auto with = [&events](const std::string& event) {
    std::vector<std::string> all = events;
    all.push_back(event);
    return import_text(trace(all))[0];
  };
  const Workload workload = with(wait(20, 3));
  std::size_t edges = 0;
  for (const workload::Op& op : workload.ops) {
    edges += op.after.size();
    if (op.kernel.name != "held") continue;
    REQUIRE(op.after.size() == 1);
    CHECK(workload.ops[op.after[0].from].kernel.name == "source");
    CHECK(op.after[0].source == workload::EdgeSource::recorded);
    CHECK_FALSE(op.not_before.has_value());
  }
  CHECK(edges == 1);
  const Workload before_window = with(wait(20, 999));
  REQUIRE_FALSE(before_window.warnings.empty());
  CHECK_THAT(before_window.warnings[0], Catch::Contains("recorded before the recording began"));
  CHECK_NOTHROW(with(wait(-1, -1)));
  CHECK_NOTHROW(with(wait(77, 3)));  // a stream without operations
}

TEST_CASE("a trace is recognised by its first bytes, packed or not", "[workload][INP-01]") {
  const TempDir dir;
  const auto looks = [&dir](const std::string& bytes) { return import::looks_like_kineto(dir.write("file", bytes)); };
  CHECK(looks(trace({})));
  CHECK(looks(gzipped("\xEF\xBB\xBF\n { \n\"later\": 1}")));
  CHECK_FALSE(looks("gpu: h100-sxm\n"));
  CHECK_FALSE(looks("{gpu: h100-sxm}"));
  CHECK_FALSE(looks("[1]"));
  CHECK_FALSE(looks("SQLite format 3"));
  CHECK_FALSE(looks(""));
  CHECK_THROWS_AS(import::looks_like_kineto(dir.file("absent")), InputError);
}

}  // namespace import_kineto_import_test
