// What an export of Nsight Systems becomes, rule by rule.
#include <catch2/catch.hpp>

#include "import/nsys_export.h"
#include "import/recordings.h"

namespace import_nsys_import_test {

using namespace heddle;
using namespace heddle::test;
using arch::CgaLevel;
using arch::CgaMode;
using arch::Dim3;
using workload::EdgeSource;
using workload::Op;
using workload::OpKind;
using workload::Workload;

namespace {

Workload only(const NsysExport& file) {
  std::vector<Workload> workloads = import_export(file);
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

TEST_CASE("a kernel of an export has its shape, its times and its call", "[workload][INP-05]") {
  NsysExport file;
  file.kernel(9'000'000'000, 9'000'002'500, 3, "gridZ = 5, blockY = 4, localMemoryPerThread = 96");
  file.call(8'999'994'000, 3);
  const Workload workload = only(file);
  CHECK(workload.format == "nsys");
  CHECK(workload.name == "t.sqlite");
  CHECK(workload.timings.resolution == 1);
  REQUIRE(workload.ops.size() == 1);
  const Op& op = workload.ops[0];
  CHECK(op.kind == OpKind::kernel);
  CHECK(op.kernel.name == "void gemm<float>(float*)");
  CHECK(op.kernel.grid == Dim3{6, 2, 5});
  CHECK(op.kernel.block == Dim3{128, 4, 1});
  CHECK(op.kernel.registers_per_thread == 64);
  CHECK(op.kernel.shared_bytes == 1024 + 512);
  CHECK(op.kernel.local_bytes == 96);
  CHECK_FALSE(op.kernel.cluster.any());
  CHECK(op.max_active_clusters == 0);
  CHECK(op.recorded->start == 0);
  CHECK(op.recorded->duration == 2'500);
  CHECK(op.recorded->occupancy_percent < 0);
  CHECK(op.enqueue == -6'000);
  CHECK_FALSE(op.not_before);
  REQUIRE(workload.streams.size() == 1);
  CHECK(workload.streams[0].name == "7");
}

TEST_CASE("recorded clusters become GPC_CGAs", "[workload][INP-05][INP-09]") {
  NsysExport file;
  file.kernel(0, 10, 0, "clusterX = 2, clusterY = 1, clusterZ = 1, maxActiveClusters = 66");
  file.kernel(20, 30, 0, "clusterX = 3, clusterY = 2, clusterZ = 1, clusterSchedulingPolicy = 1");
  file.kernel(40, 50, 0, "clusterX = 2, clusterY = 2, clusterZ = 1, clusterSchedulingPolicy = 2");
  file.kernel(60, 70, 0, "clusterX = NULL, clusterY = NULL, clusterZ = NULL, maxActiveClusters = 5");
  file.kernel(80, 90, 0, "clusterX = 1, clusterY = 1, clusterZ = 1");  // groups nothing
  file.kernel(99, 99, 0, "clusterX = 2, clusterY = 1, clusterZ = 1, clusterSchedulingPolicy = NULL");
  const Workload workload = only(file);
  REQUIRE(workload.ops.size() == 6);
  const auto cluster = [&](std::size_t i) { return workload.ops[i].kernel.cluster; };
  CHECK(cluster(0).of(CgaLevel::gpc) == Dim3{2, 1, 1});
  CHECK(cluster(0).outermost() == CgaLevel::gpc);
  CHECK(cluster(0).mode == CgaMode::multicast);
  CHECK(workload.ops[0].max_active_clusters == 66);
  CHECK(cluster(1).of(CgaLevel::gpc) == Dim3{3, 2, 1});
  CHECK(cluster(1).mode == CgaMode::multicast);
  CHECK(workload.ops[1].max_active_clusters == 0);
  CHECK(cluster(2).of(CgaLevel::gpc) == Dim3{2, 2, 1});
  CHECK(cluster(2).mode == CgaMode::load_balancing);
  CHECK_FALSE(cluster(3).any());
  CHECK(workload.ops[3].max_active_clusters == 0);
  CHECK_FALSE(cluster(4).any());
  CHECK(cluster(5).mode == CgaMode::multicast);
}

TEST_CASE("copies and memsets take their place in their stream", "[workload][INP-05][INP-11]") {
  NsysExport file;
  file.kernel(100, 200, 1).copy(10, 60, 2).copy(300, 450, 3, "copyKind = 8, bytes = 0").fill(500, 501, 4);
  file.copy(600, 601, 5, "copyKind = 77").copy(700, 701, 6, "copyKind = 11");
  const Workload workload = only(file);
  REQUIRE(workload.ops.size() == 5);
  CHECK(workload.ops[0].kind == OpKind::copy);
  CHECK(workload.ops[0].kernel.name == "Memcpy HtoD");
  CHECK(workload.ops[0].bytes == 4096);
  CHECK(workload.ops[0].duration == 50);
  CHECK(workload.ops[0].recorded->start == 0);
  CHECK(workload.ops[1].kind == OpKind::kernel);
  CHECK(workload.ops[2].kernel.name == "Memcpy DtoD");
  CHECK(workload.ops[2].bytes == 0);
  CHECK(workload.ops[3].kind == OpKind::fill);
  CHECK(workload.ops[3].kernel.name == "Memset");
  CHECK(workload.ops[3].bytes == 256);
  CHECK(workload.ops[4].kernel.name == "Memcpy");
  for (const Op& op : workload.ops) CHECK(op.stream == 0);
  CHECK(warns(workload, "1 migrations of unified memory"));
}

TEST_CASE("calls belong to a process, and the outermost counts", "[workload][INP-03][INP-05]") {
  NsysExport file;
  file.kernel(10'000, 10'010, 5);
  file.call(4'000, 5).call(3'500, 5).call(1'000, 5, 999).call(2'000, 6);
  file.kernel(20'000, 20'010, 7, "globalPid = NULL");
  file.call(15'000, 7);
  const Workload workload = only(file);
  REQUIRE(workload.ops.size() == 2);
  CHECK(workload.ops[0].enqueue == 3'500 - 10'000);
  CHECK_FALSE(workload.ops[1].enqueue);  // of no process that could have called
  CHECK(workload.ops[1].not_before == 10'000);
}

TEST_CASE("one launch of a graph has many kernels", "[workload][INP-03][INP-05]") {
  NsysExport file;
  file.call(0, 40).call(1'000, 41);
  file.kernel(5'000, 6'000, 40, "graphNodeId = 1").kernel(6'500, 7'000, 40, "graphNodeId = 2, streamId = 8");
  file.kernel(7'100, 7'200, 40, "graphNodeId = 3").kernel(8'000, 9'000, 41);
  file.sql("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1, 2), (3, 4)");
  const Workload workload = only(file);
  REQUIRE(workload.ops.size() == 4);
  for (std::size_t i = 0; i < 3; ++i) CHECK(workload.ops[i].enqueue == -5'000);
  CHECK(workload.ops[3].enqueue == -4'000);
  // They are one operation of the stream of the first.
  for (std::size_t i = 0; i < 4; ++i) CHECK(workload.streams[workload.ops[i].stream].name == "7");
  CHECK(workload.ops[0].graph->after.empty());
  CHECK(workload.ops[1].graph->after == std::vector<std::size_t>{0});
  CHECK(workload.ops[2].graph->after == std::vector<std::size_t>{0, 1});
  CHECK_FALSE(workload.ops[1].graph->last);
  CHECK(workload.ops[2].graph->last);
  CHECK_FALSE(workload.ops[3].graph);
  CHECK(warns(workload, "1 launches of graphs, with 3 operations"));
  CHECK(warns(workload, "2 launches of graphs are recorded as a whole"));
}

TEST_CASE("the type of a launch says whether it is cooperative", "[workload][INP-05][INP-13]") {
  NsysExport file;
  file.kernel(0, 10, 0, "launchType = 1").kernel(20, 30, 0, "launchType = 2").kernel(40, 50, 0, "launchType = 3");
  const Workload workload = only(file);
  CHECK_FALSE(workload.ops[0].kernel.cooperative);
  CHECK(workload.ops[1].kernel.cooperative);
  CHECK(workload.ops[2].kernel.cooperative);
}

TEST_CASE("streams of different contexts and processes are different", "[workload][INP-05]") {
  NsysExport file;
  file.kernel(0, 10).kernel(20, 30, 0, "contextId = 2");
  file.sql(fmt::format(
      "INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (7, {0}, 2, 4294967291), (7, {0}, 1, -2), (8, {0}, 1, 3)", kProcess));
  Workload workload = only(file);
  REQUIRE(workload.streams.size() == 2);
  CHECK(workload.streams[0].name == "7 context 1");
  CHECK(workload.streams[1].name == "7 context 2");
  // CUDA counts the other way, and exports write negative numbers without their sign.
  CHECK(workload.streams[0].priority == 2);
  CHECK(workload.streams[1].priority == 5);

  file.kernel(40, 50, 0, fmt::format("globalPid = {}", global_id(200)));
  workload = only(file);
  REQUIRE(workload.streams.size() == 3);
  CHECK(workload.streams[0].name == "7 context 1 process 144");
  CHECK(workload.streams[2].name == "7 context 1 process 200");
  CHECK(workload.ops[2].stream == 2);
}

TEST_CASE("every device is a workload of its own", "[workload][INP-05][INP-06][INP-10]") {
  NsysExport file;
  file.kernel(1'000, 2'000, 0, "deviceId = 1, contextId = 2").kernel(500, 700).kernel(3'000, 4'000, 0, "deviceId = 1");
  file.sql(
      "INSERT INTO TARGET_INFO_GPU VALUES (1, 'NVIDIA H100 80GB HBM3', 132, 32, 64, 1024, 65536, 233472, 49152, "
      "232448)");
  const std::vector<Workload> workloads = import_export(file);
  REQUIRE(workloads.size() == 2);
  CHECK(workloads[0].device.id == 0);
  CHECK(workloads[0].device.name.empty());
  CHECK(workloads[0].device.sms == 0);
  CHECK(warns(workloads[0], "does not say what device 0 is"));
  CHECK(workloads[0].ops.size() == 1);
  const workload::DeviceInfo& device = workloads[1].device;
  CHECK(device.id == 1);
  CHECK(device.name == "NVIDIA H100 80GB HBM3");
  CHECK(device.sms == 132);
  CHECK(device.warp_size == 32);
  CHECK(device.max_threads_per_sm == 2'048);
  CHECK(device.max_threads_per_cta == 1'024);
  CHECK(device.registers_per_sm == 65'536);
  CHECK(device.shared_bytes_per_sm == 233'472);
  CHECK(device.max_shared_bytes_per_cta == 232'448);
  CHECK_FALSE(warns(workloads[1], "does not say"));
  CHECK(workloads[1].ops.size() == 2);
  CHECK(workloads[1].ops[0].recorded->start == 0);
}

TEST_CASE("processes that number the GPUs differently", "[workload][INP-05][INP-06]") {
  // Both processes call their GPU 0.
  NsysExport file;
  file.kernel(0, 10).kernel(5, 15, 0, fmt::format("globalPid = {}", global_id(200)));
  CHECK(import_export(file).size() == 1);
  file.sql(fmt::format("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (3, 0, {}), (2, 0, 200)", kProcess));
  const std::vector<Workload> workloads = import_export(file);
  REQUIRE(workloads.size() == 2);
  CHECK(workloads[0].device.id == 2);
  CHECK(workloads[1].device.id == 3);
}

TEST_CASE("kernels of one stream may overlap", "[workload][INP-05]") {
  NsysExport file;
  file.kernel(0, 10'000, 1).kernel(7'000, 12'000, 2).kernel(8'000, 9'000, 3);
  file.call(-9'000, 1).call(-8'000, 2).call(-7'000, 3);
  const Workload workload = only(file);
  REQUIRE(workload.ops.size() == 3);
  for (const Op& op : workload.ops) {
    CHECK(op.recorded->overlaps);
    CHECK(op.after.empty());
  }
}

TEST_CASE("a stream waits for the event of another", "[workload][INP-02][INP-05]") {
  // Kernel 1 runs on stream 7, then event 33 is recorded there, and stream 9 waits for it.
  const auto file = [] {
    NsysExport result;
    result.call(0, 1).kernel(10'000, 60'000, 1).call(3'000, 2).call(5'000, 3).call(6'000, 4);
    result.kernel(61'000, 62'000, 4, "streamId = 9");
    return result;
  };
  SECTION("linked by the id of their synchronization") {
    NsysExport with = file();
    with.record(7, 2, 33, 501).record(9, 2, 33, 500).wait(5'100, 9, 3, 33, 501);
    const Workload workload = only(with);
    REQUIRE(workload.ops[1].after.size() == 1);
    CHECK(workload.ops[1].after[0].from == 0);
    CHECK(workload.ops[1].after[0].source == EdgeSource::recorded);
  }
  SECTION("without that id, the last record before the wait counts") {
    NsysExport with = file();
    with.call(7'000, 5);
    with.record(9, 5, 33, 0).record(7, 2, 33, 0).record(9, 1, 33, 0).wait(5'100, 9, 3, 33, 0);
    const Workload workload = only(with);
    REQUIRE(workload.ops[1].after.size() == 1);
    CHECK(workload.ops[1].after[0].source == EdgeSource::recorded);
  }
  SECTION("other kinds of synchronization are no edges") {
    NsysExport with = file();
    with.record(7, 2, 33, 501).wait(5'100, 9, 3, 33, 501);
    with.sql("UPDATE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SET syncType = 3");
    const Workload workload = only(with);
    REQUIRE(workload.ops[1].after.size() == 1);
    CHECK(workload.ops[1].after[0].source == EdgeSource::inferred);
  }
  SECTION("a record that is not in the file leaves what the times say") {
    NsysExport with = file();
    with.wait(5'100, 9, 3, 33, 501).wait(5'100, 9, 3, 34, 0).wait(5'100, 1234, 3, 34, 0);
    with.sql("DROP TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT");
    const Workload workload = only(with);
    REQUIRE(workload.ops[1].after.size() == 1);
    CHECK(workload.ops[1].after[0].source == EdgeSource::inferred);
    CHECK(warns(workload, "2 stream waits name an event whose record is not in the recording"));
  }
}

TEST_CASE("older and smaller exports are read as far as they go", "[workload][INP-05]") {
  NsysExport file(R"(
    CREATE TABLE StringIds (id INTEGER, value TEXT);
    CREATE TABLE cupti_activity_kind_kernel (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
      streamId INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER,
      blockZ INTEGER);
    INSERT INTO cupti_activity_kind_kernel VALUES (5, 9, 0, 1, 7, 2, 10, 1, 1, 32, 1, 1);
    INSERT INTO StringIds VALUES (1, 'other'), (2, 'tiny');)");
  const Workload workload = only(file);
  REQUIRE(workload.ops.size() == 1);
  CHECK(workload.ops[0].kernel.name == "tiny");
  CHECK(workload.ops[0].kernel.shared_bytes == 0);
  CHECK(workload.ops[0].kernel.registers_per_thread == 0);
  CHECK_FALSE(workload.ops[0].kernel.cluster.any());
  CHECK_FALSE(workload.ops[0].enqueue);
  CHECK(warns(workload, "does not say the version of its schema"));
}

}  // namespace import_nsys_import_test
