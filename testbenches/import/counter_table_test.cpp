// Counters of kernels: tables as Nsight Compute and rocprofv3 are documented to write them (no real file was at hand).
#include "import/counter_table.h"

#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "import/counter_names.h"
#include "support/random.h"

namespace import_counter_table_test {

using namespace heddle;
using namespace heddle::import;
using arch::DemandUnit;
using Catch::Contains;
using workload::KernelCounters;

namespace {

std::vector<KernelCounters> read(const std::string& text) {
  std::istringstream stream(text);
  return import_counters(stream, "t.csv");
}
std::string refusal(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

const std::string kDetailsHeader =
    R"("ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",)"
    R"("CC","Section Name","Metric Name","Metric Unit","Metric Value")"
    "\n";
std::string detail(int id, const std::string& metric, const std::string& unit, const std::string& value) {
  return "\"" + std::to_string(id) +
         R"~(","7","app","host","saxpy(int, float)","1","7","(128, 2, 1)","(64, 3, 1)","0",)~" +
         R"("9.0","Command line profiler metrics",")" + metric + "\",\"" + unit + "\",\"" + value + "\"\n";
}

const std::string kRawHeader =
    R"("ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",)"
    R"("CC","dram__bytes_read.sum","gpu__time_duration.sum","lts__t_sectors_op_read.sum")"
    "\n"
    R"("","","","","","","","","","","","Mbyte","usecond","sector")"
    "\n";
const std::string kRawRow =
    R"~("0","7","app","host","k","1","7","(256, 1, 1)","(10, 1, 1)","0","9.0","1.5","12.25","1,000")~"
    "\n";

const std::string kRocprofHeader =
    R"("Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",)"
    R"("Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","SGPR_Count","Counter_Name",)"
    R"("Counter_Value","Start_Timestamp","End_Timestamp")"
    "\n";
std::string counted(int dispatch, const std::string& counter, const std::string& value) {
  const std::string id = std::to_string(dispatch);
  return id + "," + id + R"(,1,1,7,7,1000,3,"k",256,0,0,8,32,")" + counter + "\"," + value + ",100,350\n";
}

}  // namespace

TEST_CASE("Nsight Compute's page of details", "[workload][INP-07]") {
  const auto kernels =
      read("==PROF== Connected to process 7\n==PROF== Profiling \"saxpy\": 0%\n" + kDetailsHeader +
           detail(0, "dram__bytes_read.sum", "Kbyte", "2.5") + detail(0, "gpu__time_duration.sum", "ns", "1,504") +
           detail(0, "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst", "1,000") +
           detail(0, "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum", "inst", "10") +
           detail(0, "sm__throughput.avg.pct", "%", "50") + detail(1, "dram__bytes_write.sum", "byte", "64"));
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].kernel == "saxpy(int, float)");
  CHECK(kernels[0].ctas == 192);
  CHECK(kernels[0].threads == 256);
  CHECK(kernels[0].all.of(DemandUnit::dram_read) == 2500);
  CHECK(kernels[0].all.of(DemandUnit::fp32) == 2020);
  CHECK(kernels[0].known.count() == 2);
  CHECK(kernels[1].all.of(DemandUnit::dram_write) == 64);
}

TEST_CASE("Nsight Compute's raw page", "[workload][INP-07]") {
  const auto kernels = read(kRawHeader + kRawRow);
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].all.of(DemandUnit::dram_read) == 1.5e6);
  CHECK(kernels[0].all.of(DemandUnit::l2_read) == 32'000);
  CHECK(kernels[0].ctas == 10);
}

TEST_CASE("what is counted twice is taken once", "[workload]") {
  const std::string all = detail(0, "lts__t_sectors_op_read.sum", "sector", "100");
  const std::string of_sms = detail(0, "lts__t_sectors_srcunit_tex_op_read.sum", "sector", "90");
  for (const std::string& rows : {all + of_sms, of_sms + all}) {
    CHECK(read(kDetailsHeader + rows)[0].all.of(DemandUnit::l2_read) == 90 * 32);
  }
}

TEST_CASE("counters of rocprofv3", "[workload][INP-04]") {
  const auto kernels = read(kRocprofHeader + counted(1, "FETCH_SIZE", "12.5") + counted(2, "FETCH_SIZE", "3") +
                            counted(1, "SQ_INSTS_VALU_MFMA_MOPS_BF16", "4") + counted(1, "SQ_WAVES", "9"));
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].ctas == 4);  // 1000 work-items in groups of 256
  CHECK(kernels[0].threads == 256);
  CHECK(kernels[0].all.of(DemandUnit::dram_read) == 12'800);
  CHECK(kernels[0].all.of(DemandUnit::tensor_f16) == 2048);
  CHECK(kernels[1].all.of(DemandUnit::dram_read) == 3072);
}

TEST_CASE("broken tables of counters are refused with line and remedy", "[workload][INP-07]") {
  CHECK_THAT(refusal(""), Contains("does not name the columns"));
  CHECK_THAT(refusal("a,b\n1,2\n"), Contains("does not name the columns") && Contains("ncu --csv"));
  CHECK_THAT(refusal(kDetailsHeader), Contains("no kernel"));
  CHECK_THAT(refusal(kDetailsHeader + detail(0, "sm__x", "%", "1")), Contains("no kernel has a counter"));
  CHECK_THAT(refusal(kDetailsHeader + "1,2\n"), Contains("t.csv:2") && Contains("has 2 fields"));
  CHECK_THAT(refusal("==PROF== \"a\" b\n==PROF==\n" + kDetailsHeader + "1,2\n"), Contains("t.csv:4"));
  CHECK_THAT(refusal(kDetailsHeader + detail(0, "dram__bytes_read.sum", "byte", "many")),
             Contains("dram__bytes_read.sum is \"many\""));
  CHECK_THAT(refusal(kDetailsHeader + detail(0, "dram__bytes_read.sum", "byte", "-1")), Contains("is \"-1\""));
  CHECK_THAT(refusal(kDetailsHeader + detail(0, "dram__bytes_read.sum", "byte", "1e300")), Contains("at most 10^15"));
  CHECK_THAT(refusal(kDetailsHeader + detail(0, "dram__bytes_read.sum", "furlong", "1")), Contains("is \"furlong\""));
  std::string wide = detail(0, "dram__bytes_read.sum", "byte", "1");
  wide.replace(wide.find("(128, 2, 1)"), 11, "(1024, 2, 1)");
  CHECK_THAT(refusal(kDetailsHeader + wide), Contains("Block Size is") && Contains("1024"));
  std::string none = detail(0, "dram__bytes_read.sum", "byte", "1");
  none.replace(none.find("(64, 3, 1)"), 10, "(64, 0, 1)");
  CHECK_THAT(refusal(kDetailsHeader + none), Contains("Grid Size is"));
  std::string column = kRocprofHeader;
  column.replace(column.find("Grid_Size"), 9, "Greatness");
  CHECK_THAT(refusal(column + counted(1, "FETCH_SIZE", "1")), Contains("there is no column Grid_Size"));
}

TEST_CASE("damaged tables of counters never crash", "[workload][INP-07]") {
  std::mt19937_64 random(test::seed());
  const std::vector<std::string> whole = {kRawHeader + kRawRow,
                                          kDetailsHeader + detail(0, "dram__bytes_read.sum", "byte", "1"),
                                          kRocprofHeader + counted(1, "FETCH_SIZE", "1")};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole[random() % whole.size()];
    for (std::uint64_t n = 1 + random() % 4; n > 0; --n) {
      const std::size_t at = random() % text.size();
      if (random() % 3 == 0) {
        text.erase(at, 1 + random() % 9);
      } else {
        text[at] = static_cast<char>(random() % 256);
      }
      if (text.empty()) break;
    }
    (void)refusal(text);
  }
}

TEST_CASE("units of profilers", "[workload]") {
  CHECK(unit_factor("Gbyte") == 1e9);
  CHECK(unit_factor("inst") == 1);
  CHECK(unit_factor("ms") == 0);  // no demand is made of times
  CHECK(unit_factor("%") == 0);
}

}  // namespace import_counter_table_test
