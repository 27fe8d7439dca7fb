// Broken traces of rocprofv3: refused with file, line, reason and remedy, or imported; nothing else.
#include <cctype>

#include <catch2/catch.hpp>

#include "import/kineto_text.h"
#include "import/rocprof_text.h"
#include "support/random.h"

namespace import_rocprof_error_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;
using Catch::StartsWith;

namespace {

std::string good() { return RocprofText().kernel(10, 20).kernel(30, 40, 2).text(); }

// The third line of good() with one field replaced.
std::string with_field(std::size_t column, const std::string& value) {
  std::string text = good();
  std::size_t at = text.rfind("\"KERNEL_DISPATCH\"");
  for (std::size_t i = 0; i < column; ++i) at = text.find(',', at) + 1;
  return text.replace(at, text.find_first_of(",\n", at) - at, value);
}

std::string without_column(const std::string& name) {
  return std::string(good()).replace(good().find(name), name.size(), "Other");
}

}  // namespace

TEST_CASE("a wrong value of rocprofv3 is refused with file, line and remedy", "[workload][INP-07]") {
  REQUIRE(rocprof_refusal(good()).empty());
  struct Case {
    std::size_t column;
    const char* value;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {0, "\"MEMORY_COPY\"", "Kind is \"MEMORY_COPY\", expected KERNEL_DISPATCH"},
      {1, "\"CPU\"", "Agent_Id is \"CPU\", expected the number of an agent"},
      {1, "-4", "Agent_Id is \"-4\""},
      {1, "4294967296", "Agent_Id is \"4294967296\""},
      {2, "two", "Queue_Id is \"two\", expected an integer from 0"},
      {5, "1.5", "Dispatch_Id is \"1.5\""},
      {7, "\"\"", "Kernel_Name is \"\", expected the name of a kernel"},
      {9, "", "Start_Timestamp is \"\", expected an integer from 1"},
      {9, "0", "Start_Timestamp is \"0\""},
      {9, "0x10", "Start_Timestamp is \"0x10\""},
      {9, "9223372036854775808", "Start_Timestamp is \"9223372036854775808\""},
      {10, "29", "it ends 1 ns before it starts"},
      {10, "2000000000000000030", "it lasts 2000000000 s"},
      {11, "-1", "LDS_Block_Size is \"-1\""},
      {11, "99999999", "LDS_Block_Size is \"99999999\", expected an integer from 0 to 16777216"},
      {12, "many", "Scratch_Size is \"many\""},
      {13, "5000", "VGPR_Count is \"5000\""},
      {14, "5000", "Accum_VGPR_Count is \"5000\""},
      {16, "0", "Workgroup_Size_X is \"0\", expected an integer from 1 to 1024"},
      {17, "17", "the workgroup has 1088 work-items, of at most 1024"},
      {18, "2048", "Workgroup_Size_Z is \"2048\""},
      {19, "0", "Grid_Size_X is \"0\", expected an integer from 1"},
      {20, "4294967296", "Grid_Size_Y is \"4294967296\""},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.column, wrong.value);
    const std::string said = rocprof_refusal(with_field(wrong.column, wrong.value));
    CHECK_THAT(said, StartsWith("t.csv:3: ") && Contains(wrong.reason) && Contains("record it again"));
  }
  const std::string huge = RocprofText().kernel(10, 20, 1, "1,1,1,4000000000,4000000000,1").text();
  CHECK_THAT(rocprof_refusal(huge), StartsWith("t.csv:2: ") && Contains("more than 2^48 workgroups"));
  const std::string apart =
      RocprofText().kernel(10, 20).kernel(200'000'000'000'000'000, 200'000'000'000'000'001).text();
  CHECK_THAT(rocprof_refusal(apart), StartsWith("t.csv:3: ") && Contains("after the first kernel of agent 4"));
}

TEST_CASE("a header that lacks a column or has one twice is refused", "[workload][INP-07]") {
  for (const char* name : {"Agent_Id", "Queue_Id", "Kernel_Name", "Start_Timestamp", "End_Timestamp",
                           "Workgroup_Size_X", "Workgroup_Size_Z", "Grid_Size_X", "Grid_Size_Y"}) {
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(std::tolower(c));
    CHECK_THAT(rocprof_refusal(without_column(name)),
               StartsWith("t.csv:1: there is no column " + lower) && Contains("rocprofv3 --kernel-trace"));
  }
  // Those that only limit occupancy or break ties may be missing.
  for (const char* name : {"Kind", "Dispatch_Id", "Correlation_Id", "LDS_Block_Size", "Scratch_Size", "SGPR_Count"}) {
    CHECK(rocprof_refusal(without_column(name)).empty());
  }
  const std::string twice = std::string(good()).replace(good().find("Thread_Id"), 9, "queue_id");
  CHECK_THAT(rocprof_refusal(twice),
             StartsWith("t.csv:1: columns 3 and 5 are both queue_id") && Contains("Remove one"));
  // Two names of one thing, of two versions.
  const std::string both = std::string(good()).replace(good().find("Stream_Id"), 9, "Group_Segment_Size");
  CHECK_THAT(rocprof_refusal(both), StartsWith("t.csv:1: columns 4 and 12 are both"));
}

TEST_CASE("a trace of rocprofv3 that is cut off, empty or no CSV is refused", "[workload][INP-07]") {
  CHECK_THAT(rocprof_refusal(""), StartsWith("t.csv:1: the file is empty"));
  CHECK_THAT(rocprof_refusal("\n\n"), StartsWith("t.csv:1: the file is empty"));
  CHECK_THAT(rocprof_refusal(RocprofText::kHeader + "\n"), Contains("the trace has no kernel"));
  CHECK_THAT(rocprof_refusal(RocprofText().kernel(10, 20).line("1,2,3").text()),
             StartsWith("t.csv:3: has 3 fields, and the first line names 22 columns"));
  CHECK_THAT(rocprof_refusal(RocprofText().line("").line("a \"quoted\" word").kernel(10, 20).text()),
             StartsWith("t.csv:3: a quote stands in the middle of a field") && Contains("quoted as a whole"));
  CHECK_THAT(rocprof_refusal(RocprofText().kernel(10, 20).line("\"opens,").text()),
             StartsWith("t.csv:3: the file ends within quotes that this line opens"));
  CHECK_THAT(rocprof_refusal("Kernel_Name,Agent_Id\ra,b\rc,d\n"),
             StartsWith("t.csv:1: a carriage return stands in the middle"));
  CHECK_THAT(rocprof_refusal(std::string(std::size_t{3} << 20, 'x')), StartsWith("t.csv:1: ") && Contains("1 MiB"));
  CHECK_THAT(rocprof_refusal(RocprofText().line('"' + std::string(std::size_t{2} << 20, '\n')).text()),
             StartsWith("t.csv:2: ") && Contains("a quote in it does not close"));
}

TEST_CASE("a trace of rocprofv3 that is cut anywhere but at a line's end is refused", "[workload][INP-07]") {
  const std::string text = good();
  for (std::size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    const std::string said = rocprof_refusal(text.substr(0, length));
    const bool whole_line = length > RocprofText::kHeader.size() + 1 && text[length - 1] == '\n';
    CHECK(said.empty() == whole_line);
  }
  const TempDir dir;
  const std::string packed = gzipped(text);
  for (std::size_t length = 1; length < packed.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_AS(import::import_rocprof(dir.write("cut.csv.gz", packed.substr(0, length))), InputError);
  }
}

TEST_CASE("changed bytes of a trace of rocprofv3 are an InputError or a workload", "[workload][INP-07]") {
  const std::string text = good();
  for (const std::uint64_t number : seeds(5'000)) {
    CAPTURE(number);
    Random random(number);
    std::string changed = text;
    for (std::uint32_t i = random.between(1, 5); i > 0; --i) {
      const std::uint32_t at = random.below(static_cast<std::uint32_t>(changed.size()));
      if (random.chance(50)) {
        changed[at] = static_cast<char>(random.below(256));
      } else {
        changed.insert(at, 1, "\",\n\r0-"[random.below(6)]);
      }
    }
    try {
      for (const workload::Workload& w : import_rocprof_text(changed)) REQUIRE_FALSE(w.ops.empty());
    } catch (const InputError&) {
      // Refused, as it should be; everything else that is thrown fails the test.
    }
  }
}

}  // namespace import_rocprof_error_test
