// Broken exports: refused with file, table, row, reason and remedy, or imported; nothing else.
#include <filesystem>
#include <iostream>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "import/kineto_text.h"
#include "import/nsys_export.h"
#include "support/random.h"

namespace import_nsys_error_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;
using Catch::StartsWith;

namespace {

NsysExport rich() {
  NsysExport file;
  file.call(0, 1).call(2'000, 2).call(4'000, 3);
  file.kernel(10'000, 20'000, 1).kernel(21'000, 30'000, 2, "clusterX = 2, clusterY = 1, clusterZ = 1");
  file.copy(31'000, 32'000, 3).fill(33'000, 34'000).record(7, 2, 5, 6).wait(3'000, 9, 3, 5, 6);
  file.sql("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 132, 32, 64, 1024, 65536, 1, 2, 3)");
  file.sql("INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (7, 144, 1, 0)");
  file.sql("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 144)");
  return file;
}

// After one statement that breaks something.
std::string after(const std::string& statement) { return refusal(rich().sql(statement)); }

std::string kernel_with(const std::string& set) {
  return after("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET " + set + " WHERE rowid = 2");
}

}  // namespace

TEST_CASE("a wrong value is refused with file, table, row and remedy", "[workload][INP-07]") {
  CHECK(refusal(rich()).empty());
  CHECK_THAT(kernel_with("start = 'soon'"),
             StartsWith("t.sqlite: CUPTI_ACTIVITY_KIND_KERNEL, row 2: \"start\" is \"soon\", expected an integer") &&
                 Contains("export the recording again"));
  struct Case {
    const char* set;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {"end = 20999", "it ends 1 ns before it starts"},
      {"end = 2000000000000021000", "it lasts 2000000000 s"},
      {"start = 1.5", "\"start\" is 1.5, expected an integer"},
      {"start = -9223372036854775807", "\"start\" is -9223372036854775807"},
      {"end = x'00'", "\"end\" is binary data"},
      {"deviceId = -1", "\"deviceId\" is -1, expected an integer from 0 to 65535"},
      {"deviceId = 'gpu'", "\"deviceId\" is \"gpu\""},
      {"contextId = -1", "\"contextId\" is -1"},
      {"streamId = 'seven'", "\"streamId\" is \"seven\""},
      {"correlationId = 'x'", "\"correlationId\" is \"x\""},
      {"globalPid = -5", "\"globalPid\" is -5"},
      {"registersPerThread = 5000", "\"registersPerThread\" is 5000"},
      {"gridX = 0", "\"gridX\" is 0, expected an integer from 1 to 2147483647"},
      {"gridX = -3", "\"gridX\" is -3"},
      {"gridY = 70000", "\"gridY\" is 70000, expected an integer from 1 to 65535"},
      {"gridX = 2147483647, gridY = 65535, gridZ = 65535, clusterX = 0, clusterY = 0, clusterZ = 0",
       "more than 2^48 CTAs"},
      {"blockX = 2048", "\"blockX\" is 2048"},
      {"blockX = 1024, blockY = 2", "the block has 2048 threads, of at most 1024"},
      {"blockZ = 0", "\"blockZ\" is 0"},
      {"staticSharedMemory = -1", "\"staticSharedMemory\" is -1"},
      {"dynamicSharedMemory = 99999999", "\"dynamicSharedMemory\" is 99999999"},
      {"localMemoryPerThread = 'much'", "\"localMemoryPerThread\" is \"much\""},
      {"clusterX = 'two'", "\"clusterX\" is \"two\""},
      {"clusterX = -2", "\"clusterX\" is -2"},
      {"clusterX = 4", "the cluster: the GPC_CGA's x of 4 does not divide the grid's x of 6"},
      {"clusterY = 0", "the cluster: the GPC_CGA's y is 0"},
      {"maxActiveClusters = -1", "\"maxActiveClusters\" is -1"},
      {"clusterSchedulingPolicy = 'spread'", "\"clusterSchedulingPolicy\" is \"spread\""},
      {"demangledName = 99", "its name has the id 99, which StringIds does not have"},
      {"demangledName = 'gemm'", "\"demangledName\" is \"gemm\""},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.set);
    CHECK_THAT(kernel_with(wrong.set),
               StartsWith("t.sqlite: CUPTI_ACTIVITY_KIND_KERNEL, row 2: ") && Contains(wrong.reason));
  }
}

TEST_CASE("wrong values of the other tables are refused", "[workload][INP-07]") {
  struct Case {
    const char* statement;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {"UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = -1", "CUPTI_ACTIVITY_KIND_MEMCPY, row 1: \"bytes\" is -1"},
      {"UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET copyKind = 999", "\"copyKind\" is 999"},
      {"UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET end = 5", "CUPTI_ACTIVITY_KIND_MEMCPY, row 1: it ends 30995 ns before"},
      {"UPDATE CUPTI_ACTIVITY_KIND_MEMSET SET bytes = 'all'",
       "CUPTI_ACTIVITY_KIND_MEMSET, row 1: \"bytes\" is \"all\""},
      {"UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 'x' WHERE rowid = 3",
       "CUPTI_ACTIVITY_KIND_RUNTIME, row 3: \"start\" is \"x\""},
      {"UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = 'x' WHERE rowid = 1", "\"globalTid\" is \"x\""},
      {"UPDATE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SET streamId = -1", "SYNCHRONIZATION, row 1: \"streamId\" is -1"},
      {"UPDATE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SET syncType = 'wait'", "\"syncType\" is \"wait\""},
      {"UPDATE CUPTI_ACTIVITY_KIND_CUDA_EVENT SET eventId = 'e'", "CUDA_EVENT, row 1: \"eventId\" is \"e\""},
      {"UPDATE TARGET_INFO_CUDA_STREAM SET priority = 99999", "TARGET_INFO_CUDA_STREAM, row 1: \"priority\" is 99999"},
      {"UPDATE TARGET_INFO_GPU SET smCount = 5000", "TARGET_INFO_GPU, row 1: \"smCount\" is 5000"},
      {"UPDATE TARGET_INFO_GPU SET id = 'first'", "\"id\" is \"first\""},
      {"UPDATE TARGET_INFO_GPU SET name = 7.5, smCount = 'x'", "\"smCount\" is \"x\""},
      {"UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = -2", "TARGET_INFO_CUDA_DEVICE, row 1: \"gpuId\" is -2"},
      {"UPDATE StringIds SET value = '' WHERE id = 11", "StringIds, row 11: \"value\" is empty"},
      {"UPDATE StringIds SET value = x'41' WHERE id = 11", "StringIds, row 11: \"value\" is binary data"},
      {"DELETE FROM StringIds", "which StringIds does not have"},
      {"DROP TABLE StringIds", "has no table StringIds"},
      {"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN gridX", "there is no column gridX"},
      {"ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN bytes",
       "CUPTI_ACTIVITY_KIND_MEMCPY: there is no column bytes"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.statement);
    CHECK_THAT(after(wrong.statement), StartsWith("t.sqlite: ") && Contains(wrong.reason));
  }
}

TEST_CASE("what is no export of kernels is told so", "[workload][INP-07]") {
  CHECK_THAT(refusal(std::string()), Contains("byte 0: the file is empty"));
  CHECK_THAT(refusal(std::string(4096, 'x')), Contains("byte 0: this is no SQLite database"));
  CHECK_THAT(refusal(NsysExport("CREATE TABLE people (name TEXT);")), Contains("no export of Nsight Systems"));
  CHECK_THAT(after("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL"), Contains("no kernels") && Contains("--trace=cuda"));
  CHECK_THAT(after("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL"), Contains("no kernels") && Contains("--trace=cuda"));
  // A view could compute for ever.
  CHECK_THAT(after("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO k; CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS "
                   "WITH RECURSIVE f(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM f) SELECT * FROM k, f"),
             Contains("no kernels"));
  CHECK_THAT(after("ALTER TABLE StringIds RENAME TO s; CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT) "
                   "WITHOUT ROWID"),
             Contains("t.sqlite: ") && Contains("rowid"));
}

TEST_CASE("another version of the schema is refused by name", "[workload][INP-05][INP-07]") {
  const auto version = [](const std::string& text) {
    return after("UPDATE META_DATA_EXPORT SET value = '" + text + "' WHERE name = 'EXPORT_SCHEMA_VERSION'");
  };
  CHECK(version("3.0.0").empty());
  CHECK(version("3.99.1").empty());
  CHECK(version("3").empty());
  CHECK_THAT(version("2.7.1"), Contains("version 2.7.1, expected 3.x"));
  CHECK_THAT(version("4.0.0"), Contains("version 4.0.0, expected 3.x"));
  CHECK_THAT(version("30.1"), Contains("version 30.1"));
  CHECK_THAT(version("three"), Contains("version three"));
}

TEST_CASE("times that cannot belong together are refused in an export", "[workload][INP-07]") {
  NsysExport file;
  file.kernel(0, 10).kernel(1'000'000'000'000'000'000, 1'000'000'000'000'000'010);
  CHECK_THAT(refusal(file), Contains("CUPTI_ACTIVITY_KIND_KERNEL, row 2: ") && Contains("mixes clocks"));
  NsysExport call;
  call.kernel(1'000'000'000'000'000'000, 1'000'000'000'000'000'010, 1).call(5, 1);
  CHECK_THAT(refusal(call), Contains("CUPTI_ACTIVITY_KIND_KERNEL, row 1: ") && Contains("launch call lies"));
}

TEST_CASE("an export cut off anywhere is refused", "[workload][INP-07]") {
  const std::string bytes = rich().bytes();
  REQUIRE(refusal(bytes).empty());
  for (std::size_t length = 0; length < bytes.size(); length += length < 200 ? 1 : 97) {
    CAPTURE(length);
    CHECK_THAT(refusal(bytes.substr(0, length)), Contains(length == 0 ? "the file is empty" : "truncated"));
  }
}

TEST_CASE("an export is read from files, plain and packed, and nothing is left beside them", "[workload][INP-05]") {
  const TempDir dir;
  const std::string bytes = rich().bytes();
  // Names that mean something in a URI.
  const std::vector<std::string> files = {dir.write("t.sqlite", bytes),
                                          dir.write("100% sure?mode=rw#a b.sqlite", bytes),
                                          dir.write("t.sqlite.gz", gzipped(bytes))};
  for (const std::string& file : files) {
    CAPTURE(file);
    CHECK(import::looks_like_nsys(file));
    const std::vector<workload::Workload> workloads = import::import_nsys(file);
    REQUIRE(workloads.size() == 1);
    CHECK(workloads[0].ops.size() == 4);
    CHECK(workloads[0].name == std::filesystem::path(file).filename().string());
  }
  const std::filesystem::path folder = std::filesystem::path(files[0]).parent_path();
  CHECK(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()) == 3);
  CHECK(read_file(files[0]) == bytes);

  // Cut off: on the disk, and in its packed form.
  const std::string cut = dir.write("cut.sqlite", bytes.substr(0, bytes.size() / 2));
  CHECK_THROWS_WITH(import::import_nsys(cut), Contains("truncated") && StartsWith(cut));
  const std::string head = dir.write("head.sqlite", bytes.substr(0, 60));
  CHECK_THROWS_WITH(import::import_nsys(head), Contains("its header is not complete"));
  const std::string packed = gzipped(bytes);
  const std::string cut_packed = dir.write("cut.sqlite.gz", packed.substr(0, packed.size() / 2));
  CHECK_THROWS_WITH(import::import_nsys(cut_packed), Contains("the gzip data are truncated"));

  CHECK_FALSE(import::looks_like_nsys(dir.write("trace.json", trace({kernel("a", 7, "1", "1", 0)}))));
  CHECK_FALSE(import::looks_like_nsys(dir.write("short", bytes.substr(0, 15))));
  CHECK_FALSE(import::looks_like_nsys(dir.write("empty", "")));
  CHECK_FALSE(import::looks_like_kineto(files[0]));
  CHECK_FALSE(import::looks_like_kineto(files[2]));
  CHECK_THROWS_AS(import::looks_like_nsys(dir.file("absent")), InputError);
  CHECK_THROWS_AS(import::import_nsys(dir.file("absent")), InputError);
}

TEST_CASE("an export in write-ahead mode is read without its log", "[workload][INP-05]") {
  std::string bytes = rich().bytes();
  bytes[18] = bytes[19] = 2;
  const TempDir dir;
  CHECK(refusal(bytes).empty());
  const std::string file = dir.write("t.sqlite", bytes);
  CHECK(import::import_nsys(file).size() == 1);
  CHECK(import::import_nsys(dir.write("t.sqlite.gz", gzipped(bytes))).size() == 1);
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  CHECK(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()) == 2);
}

TEST_CASE("mutated exports are imported or refused, nothing else", "[workload][INP-07]") {
  const std::uint32_t seed = 20240613;
  std::cout << "mutated exports: seed " << seed << "\n";
  test::Random random(seed);
  const std::string original = rich().bytes();
  std::size_t imported = 0;
  std::size_t refused = 0;
  for (int round = 0; round < 4'000; ++round) {
    std::string bytes = original;
    for (std::size_t changes = random.between(1, 6); changes > 0; --changes) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    }
    try {
      for (const workload::Workload& workload : import_bytes(bytes)) {
        REQUIRE_FALSE(workload.ops.empty());
        for (std::size_t i = 0; i < workload.ops.size(); ++i) {
          for (const workload::Edge& edge : workload.ops[i].after) REQUIRE(edge.from < i);
        }
      }
      ++imported;
    } catch (const InputError&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL("round " << round << ": " << error.what());
    }
  }
  CHECK(imported > 400);
  CHECK(refused > 100);
}

}  // namespace import_nsys_error_test
