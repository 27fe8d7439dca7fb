#include <iostream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "import/kineto_text.h"
#include "support/random.h"

namespace import_kineto_error_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;

namespace {

const std::string kGrid = R"("grid":[4,1,1],"block":[128,1,1])";

// A kernel with one field of its event or args replaced.
std::string broken(const std::string& from, const std::string& to) {
  std::string event = kernel("sgemm", 7, "100", "5", 1, kGrid + R"(,"shared memory":0,"registers per thread":8)");
  const std::size_t at = event.find(from);
  REQUIRE(at != std::string::npos);
  return trace({event.replace(at, from.size(), to)});
}

std::string rich_trace() {
  const std::string wait =
      R"({"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":0,"tid":9,"ts":102.5,"dur":1,)"
      R"("args":{"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":2,"stream":9,"correlation":3}})";
  return trace({call("cudaLaunchKernel", "90.5", 1, R"("cbid":211)"), kernel("a", 7, "100.001", "5.25", 1),
                call("cudaEventRecord", "101", 2), call("cudaStreamWaitEvent", "102", 3), wait,
                call("cudaLaunchKernel", "104", 4), kernel("b", 9, "140.125", "17", 4),
                kernel("bare", 9, "160", "2", 5, ""),
                R"({"ph":"X","cat":"gpu_memset","name":"m","pid":0,"tid":9,"ts":170,"dur":2,"args":{"bytes":4}})",
                R"({"ph":"M","name":"process_name","args":{"name":"python","list":[1,{"a":null}]}})"});
}

}  // namespace

TEST_CASE("a wrong field is refused with file, byte, event and remedy", "[workload][INP-07]") {
  CHECK(error_of(broken("sgemm", "sgemm")).empty());
  const std::string message = error_of(broken("\"ts\":100", "\"ts\":\"soon\""));
  CHECK_THAT(message, Catch::StartsWith("trace.json: byte ") && Contains("event 0 (\"sgemm\")") &&
                          Contains("\"ts\" is \"soon\", expected microseconds") && Contains("record it again"));
  struct Case {
    const char* from;
    const char* to;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {"\"ts\":100,", "", "\"ts\" is absent"},
      {"\"ts\":100", "\"ts\":true", "\"ts\" is a boolean"},
      {"\"ts\":100", "\"ts\":[1]", "\"ts\" is an object or array"},
      {"\"ts\":100", "\"ts\":9e15", "\"ts\" is 9e15"},
      {"\"dur\":5", "\"dur\":-3", "\"dur\" is -3, expected 0 to"},
      {"\"dur\":5", "\"dur\":2e12", "\"dur\" is 2e12, expected 0 to"},
      {"\"dur\":5,", "", "\"dur\" is absent"},
      {"\"name\":\"sgemm\"", "\"name\":7", "\"name\" is 7, expected a text"},
      {"\"device\":0", "\"device\":-1", "\"device\" is -1"},
      {"\"device\":0", "\"device\":\"gpu\"", "\"device\" is \"gpu\""},
      {"\"stream\":7", "\"stream\":[7]", "\"stream\" is an object or array"},
      {"\"correlation\":1", "\"correlation\":1.5", "\"correlation\" is 1.5"},
      {"\"registers per thread\":8", "\"registers per thread\":-8", "\"registers per thread\" is -8"},
      {"\"registers per thread\":8", "\"registers per thread\":99999", "\"registers per thread\" is 99999"},
      {"\"shared memory\":0", "\"shared memory\":\"much\"", "\"shared memory\" is \"much\""},
      {"[4,1,1]", "[4,1]", "\"grid\" has 2 elements, expected 3"},
      {"[4,1,1]", "[4,1,1,1]", "\"grid\" has 4 elements, expected 3"},
      {"[4,1,1]", "[]", "\"grid\" has 0 elements, expected 3"},
      {"[4,1,1]", "[4,0,1]", "\"grid\" is [4, 0, 1], expected extents from 1"},
      {"[4,1,1]", "[4,-1,1]", "\"grid\" is [4, -1, 1]"},
      {"[4,1,1]", "[4,1,5000000000]", "\"grid\" is [4, 1, 5000000000]"},
      {"[4,1,1]", "[4,70000,1]", "\"grid\" is [4, 70000, 1], of at most [2147483647, 65535, 65535]"},
      {"[4,1,1]", "[2147483647,65535,65535]", "more than 2^48 CTAs"},
      {"[4,1,1]", "[4,\"x\",1]", "\"grid\" is not an array of 3 integers"},
      {"[4,1,1]", "[4,[1],1]", "\"grid\" is not an array of 3 integers"},
      {"[4,1,1]", "\"all\"", "\"grid\" is not an array of 3 integers"},
      {"[4,1,1]", "{\"x\":4}", "\"grid\" is not an array of 3 integers"},
      {"[128,1,1]", "[0,1,1]", "\"block\" is [0, 1, 1]"},
      {"[128,1,1]", "[2048,1,1]", "\"block\" is [2048, 1, 1]"},
      {"[128,1,1]", "[128,16,1]", "2048 threads, of at most 1024"},
      {",\"block\":[128,1,1]", "", "has a grid but no block"}};
  for (const Case& wrong : cases) {
    CAPTURE(wrong.to);
    CHECK_THAT(error_of(broken(wrong.from, wrong.to)), Contains(wrong.reason) && Contains("byte "));
  }
}

TEST_CASE("ROCm grids may be larger, but not without limit", "[workload][INP-07]") {
  const auto imported = [](const std::string& grid) {
    return error_of(trace({kernel("k", 0, "1", "1", 0, "\"grid\":" + grid + R"(,"block":[64,1,1])")}, kMi300x));
  };
  CHECK(imported("[4,70000,1]").empty());
  CHECK_THAT(imported("[4294967295,4294967295,4294967295]"), Contains("more than 2^48 CTAs"));
}

TEST_CASE("what is no trace is told so", "[workload][INP-07]") {
  CHECK_THAT(error_of(""), Contains("byte 0: the file is empty") && Contains("Expected a Kineto trace"));
  CHECK_THAT(error_of("{\"gpu\": \"h100\"}"),
             Contains("is JSON but has no \"traceEvents\"") && Contains("Heddle scenario"));
  CHECK_THAT(error_of("[]"), Contains("not an object at its outermost level"));
  CHECK_THAT(error_of("17"), Contains("not an object at its outermost level"));
  CHECK_THAT(error_of("{\"traceEvents\": null}"), Contains("\"traceEvents\" is a single value, not an array"));
  CHECK_THAT(error_of("{\"traceEvents\": {}}"), Contains("\"traceEvents\" is an object or array, not an array"));
  CHECK_THAT(error_of("{\"deviceProperties\": 3}"), Contains("\"deviceProperties\" is a single value"));
  CHECK_THAT(error_of("{\"traceEvents\": [{}, 5]}"), Contains("event 1 of traceEvents is a single value"));
  CHECK_THAT(error_of("{\"traceEvents\": [{\"args\":{\"grid\":null}}, []]}"), Contains("event 1 of traceEvents"));
  CHECK_THAT(error_of("{\"traceEvents\": []}"), Contains("has no GPU kernel") && Contains("ProfilerActivity.CUDA"));
  CHECK_THAT(error_of(trace({call("cudaLaunchKernel", "1", 1)})), Contains("has no GPU kernel"));
}

TEST_CASE("text that is no JSON is refused with its position", "[workload][INP-07]") {
  CHECK_THAT(error_of("{\"traceEvents\": [nan]}"),
             Contains("byte 19: not valid JSON") && Contains("edited or damaged"));
  CHECK_THAT(error_of(trace({kernel("a", 7, "1", "1", 0)}) + "x"), Contains("not valid JSON"));
  CHECK_THAT(error_of("{\"traceEvents\": [{\"ts\": 1e999}]}"), Contains("not valid JSON"));
  CHECK_THAT(error_of("{\"a\": \"\xFF\"}"), Contains("not valid JSON") && Contains("UTF-8"));
  const std::string deep = "{\"a\":" + std::string(200'000, '[');
  CHECK_THAT(error_of(deep), Contains("The file ends early"));
}

TEST_CASE("absurd device properties are refused", "[workload][INP-07][INP-10]") {
  const std::string event = kernel("k", 7, "1", "1", 0);
  const auto with = [&event](const std::string& device) { return error_of(trace({event}, device)); };
  CHECK_THAT(with(R"({"id":0,"numSms":0})"), Contains("\"numSms\" is 0, expected 1 to 4096"));
  CHECK_THAT(with(R"({"id":0,"numSms":5000})"), Contains("\"numSms\" is 5000"));
  CHECK_THAT(with(R"({"id":0,"numSms":"many"})"), Contains("\"numSms\" is \"many\""));
  CHECK_THAT(with(R"({"id":0,"numSms":8,"warpSize":0})"), Contains("\"warpSize\" is 0"));
  CHECK_THAT(with(R"({"id":0,"numSms":8,"regsPerBlock":-1})"), Contains("\"regsPerBlock\" is -1"));
  CHECK_THAT(with(R"({"id":-4})"), Contains("\"id\" is -4"));
  CHECK_THAT(with("7"), Contains("entry 0 of deviceProperties is a single value"));
  CHECK(with(kA100 + R"(,{"id":5,"numSms":0})").empty());  // a device without operations
}

TEST_CASE("times that cannot belong together are refused", "[workload][INP-07]") {
  CHECK_THAT(error_of(trace({kernel("a", 7, "0", "1", 0), kernel("b", 7, "1751410836000000", "1", 0)})),
             Contains("event 1 (\"b\")") && Contains("mixes clocks"));
  CHECK_THAT(error_of(trace({kernel("a", 7, "1751410836000000", "1", 1), call("cudaLaunchKernel", "5", 1)})),
             Contains("launch call lies"));
}

TEST_CASE("a trace cut off anywhere is refused", "[workload][INP-07]") {
  const std::string text = rich_trace();
  REQUIRE(error_of(text).empty());
  for (std::size_t length = 0; length < text.size(); ++length) {
    CAPTURE(length);
    const std::string message = error_of(text.substr(0, length));
    CHECK_THAT(message, Contains(length == 0 ? "the file is empty" : "The file ends early"));
  }
}

TEST_CASE("a packed trace cut off anywhere is refused", "[workload][INP-07]") {
  const TempDir dir;
  const std::string packed = gzipped(rich_trace());
  REQUIRE_NOTHROW(import::import_kineto(dir.write("t.json.gz", packed)));
  for (std::size_t length = 0; length < packed.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_AS(import::import_kineto(dir.write("t.json.gz", packed.substr(0, length))), InputError);
  }
}

TEST_CASE("mutated traces are imported or refused, nothing else", "[workload][INP-07]") {
  const std::uint32_t seed = 20240611;
  std::cout << "mutated traces: seed " << seed << "\n";
  test::Random random(seed);
  const std::string original = rich_trace();
  const std::string alphabet = "{}[]\",:0123456789.-eE\\untfa \xFF";
  std::size_t imported = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = original;
    for (std::uint32_t changes = random.between(1, 4); changes > 0; --changes) {
      const std::size_t at = random.below(text.size());
      const char c = alphabet[random.below(alphabet.size())];
      switch (random.below(4)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, random.between(1, 3), c);
          break;
        case 2:
          text.erase(at, random.between(1, 8));
          break;
        default:
          text[at] = static_cast<char>(random.below(256));
          break;
      }
    }
    try {
      for (const workload::Workload& workload : import_text(text)) {
        ++imported;
        for (std::size_t i = 0; i < workload.ops.size(); ++i) {
          for (const workload::Edge& edge : workload.ops[i].after) REQUIRE(edge.from < i);
        }
      }
    } catch (const InputError&) {
      continue;
    } catch (const std::exception& error) {
      FAIL("round " << round << ": " << error.what() << "\n" << text);
    }
  }
  CHECK(imported > 1'000);  // the mutations are mild enough to get past the parser
}

TEST_CASE("mutated gzip data are imported or refused, nothing else", "[workload][INP-07]") {
  const std::uint32_t seed = 20240612;
  std::cout << "mutated gzip data: seed " << seed << "\n";
  test::Random random(seed);
  const TempDir dir;
  const std::string original = gzipped(rich_trace());
  for (int round = 0; round < 1'500; ++round) {
    std::string bytes = original;
    bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    try {
      import::import_kineto(dir.write("t.json.gz", bytes));
    } catch (const InputError&) {
      continue;
    } catch (const std::exception& error) {
      FAIL("round " << round << ": " << error.what());
    }
  }
}

}  // namespace import_kineto_error_test
