// heddle run --trace: the file that Perfetto opens, its levels of detail, and what is chosen of it.
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "support/perfetto_trace.h"

namespace cli_trace_command_test {

using namespace heddle::test;

namespace {

const char* const kScenario = R"(heddle: 1
gpu: small
kernels:
  - {name: gemm, grid: 300, block: 512, cycles: {min: 500, max: 900}}
  - {name: softmax, grid: 200, block: 256, cycles: 300}
submit:
  - {kernel: gemm, stream: a, id: first}
  - {kernel: softmax, stream: b, after: first}
  - {kernel: gemm, stream: a, repeat: 3}
)";

using Lines = std::map<std::string, PerfettoTrace::Line>;

PerfettoTrace traced(const TempDir& dir, std::vector<std::string> more, const std::string& out) {
  more.insert(more.begin(), {"s.yaml", "--trace", "perfetto"});
  const Results results = run_well(dir, more, out);
  return PerfettoTrace(gunzipped(results.file("timeline.pftrace")));
}

std::size_t slices_of(const Lines& lines) {
  std::size_t count = 0;
  for (const auto& [name, line] : lines) count += line.slices.size();
  return count;
}

// Slices on lines of SMs; and CTAs that they stand for.
std::pair<std::size_t, std::int64_t> ctas_of(const PerfettoTrace& trace) {
  std::size_t slices = 0;
  std::int64_t ctas = 0;
  for (const auto& [group, lines] : trace.groups) {
    if (!contains(group, ".sm")) continue;
    for (const auto& [name, line] : lines) {
      slices += line.slices.size();
      for (const PerfettoTrace::Slice& slice : line.slices) {
        ctas += slice.args.count("count") == 1 ? slice.args.at("count") : 1;
      }
    }
  }
  return {slices, ctas};
}

}  // namespace

TEST_CASE("Perfetto's file says what the JSON file says", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const PerfettoTrace trace = traced(dir, {}, "a");
  const Results json = run_well(dir, {"s.yaml", "--trace", "json"}, "b");
  const nlohmann::json file = nlohmann::json::parse(gunzipped(json.file("timeline.json.gz")));
  using Told = std::multiset<std::tuple<std::string, std::uint64_t, std::string>>;
  std::map<std::int64_t, std::string> groups;
  Told expected;
  std::size_t arrows = 0;
  for (const nlohmann::json& event : file.at("traceEvents")) {
    if (event.at("name") == "process_name") groups[event.at("pid")] = event.at("args").at("name");
    if (event.at("ph") == "s") ++arrows;
    if (event.at("ph") != "X") continue;
    const auto ns = static_cast<std::uint64_t>(event.at("ts").get<double>() * 1000 + 1e-7);
    expected.emplace(groups.at(event.at("pid")), ns, event.at("name"));
  }
  Told got;
  for (const auto& [group, lines] : trace.groups) {
    for (const auto& [name, line] : lines) {
      for (const PerfettoTrace::Slice& slice : line.slices) got.emplace(group, slice.begin, slice.name);
    }
  }
  CHECK(got == expected);
  CHECK(ctas_of(trace) == std::pair<std::size_t, std::int64_t>{4 * 300 + 200, 4 * 300 + 200});
  // The edge between the streams.
  CHECK(arrows == 1);
  const Lines& streams = trace.groups.at("gpu0 streams");
  const PerfettoTrace::Slice& cause = streams.at("stream a").slices.at(0);
  const PerfettoTrace::Slice& effect = streams.at("stream b").slices.at(0);
  REQUIRE(cause.flows.size() == 1);
  CHECK(effect.ended == cause.flows);
  CHECK(effect.begin >= cause.end);
}

TEST_CASE("protoc reads Perfetto's file, from the definitions of its fields", "[cli]") {
  if (std::system("protoc --version > /dev/null 2>&1") != 0) {  // NOLINT(cert-env33-c): of the test's own words
    WARN("protoc is missing: nobody but ourselves has read the file");
    return;
  }
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const PerfettoTrace trace = traced(dir, {}, "a");
  const std::string command = "gunzip -c < " + dir.file("a/timeline.pftrace") +
                              " | protoc --decode=perfetto.protos.Trace -I" +
                              HEDDLE_SOURCE_DIR "/testbenches/support perfetto_trace.proto > " + dir.file("text");
  REQUIRE(std::system(command.c_str()) == 0);  // NOLINT(cert-env33-c): of the test's own words
  const std::string text = read_file(dir.file("text"));
  const auto count = [&text](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  std::size_t slices = 0;
  std::size_t lines = 0;
  for (const auto& [group, its] : trace.groups) {
    slices += slices_of(its);
    lines += its.size();
  }
  CHECK(count("type: TYPE_SLICE_BEGIN") == slices);
  CHECK(count("type: TYPE_SLICE_END") == slices);
  CHECK(count("process_name: \"gpu0 streams\"") == 1);
  CHECK(count("track_descriptor {") == lines + trace.groups.size());
  CHECK(count("child_ordering: EXPLICIT") == trace.groups.size());
  CHECK(count("  terminating_flow_ids: ") == 1);
  // A field that the definitions do not have is told by its number.
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::size_t word = line.find_first_not_of(' ');
    if (word != std::string::npos) REQUIRE_FALSE(std::isdigit(static_cast<unsigned char>(line[word])));
  }
}

TEST_CASE("a timeline with fewer events has all kernels and waits, and merged CTAs", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const PerfettoTrace whole = traced(dir, {}, "a");
  const PerfettoTrace merged = traced(dir, {"--set", "run.timeline_events=300"}, "b");
  CHECK(slices_of(merged.groups.at("gpu0 streams")) == slices_of(whole.groups.at("gpu0 streams")));
  const auto [slices, ctas] = ctas_of(merged);
  CHECK(slices < 300);
  CHECK(ctas == 4 * 300 + 200);
  const Lines& sm = merged.groups.at("gpu0 gpc0.cpc0.tpc0.sm0");
  CHECK(sm.at("CTAs at once").values);
  CHECK(sm.count("CTA slot  0") == 0);
  // It is said in the file, on the terminal and on the page.
  const std::string note = merged.groups.at("timeline").at("notes").slices.at(0).name;
  CHECK(contains(note, "CTAs and other details are merged"));
  const Finished finished =
      heddle_in(dir, {"run", "s.yaml", "--trace", "perfetto", "--set", "run.timeline_events=300", "--out", "c"});
  CHECK(contains(finished.out, note));
  CHECK(contains(finished.out, "--trace-time"));
  CHECK(contains(read_file(dir.file("c/report.html")), "CTAs and other details are merged"));
}

TEST_CASE("a timeline can be that of a time, of some lines and of some kernels", "[cli]") {
  const TempDir dir;
  dir.write("s.yaml", kScenario);
  const PerfettoTrace whole = traced(dir, {}, "a");
  const PerfettoTrace::Slice& second = whole.groups.at("gpu0 streams").at("stream a").slices.at(1);
  const std::string span = fmt::format("{}ns..{}ns", second.begin + 1, second.end - 1);
  const PerfettoTrace part = traced(dir, {"--trace-time", span}, "b");
  CHECK(part.groups.at("gpu0 streams").at("stream a").slices.size() == 1);
  for (const auto& [group, lines] : part.groups) {
    for (const auto& [name, line] : lines) {
      for (const PerfettoTrace::Slice& slice : line.slices) {
        CHECK((slice.begin <= second.end && slice.end >= second.begin));
      }
    }
  }
  CHECK(ctas_of(part).first >= 300);
  CHECK(ctas_of(part).first < ctas_of(whole).first);
  const PerfettoTrace units =
      traced(dir, {"--trace-units", "stream a", "--trace-units", "*gpc1.cpc0.tpc0.sm1 CTA*"}, "c");
  std::set<std::string> groups;
  for (const auto& [group, lines] : units.groups) groups.insert(group);
  CHECK(groups.size() == 2);
  CHECK(groups.count("gpu0 streams") == 1);
  const PerfettoTrace kernels = traced(dir, {"--trace-kernels", "softmax"}, "d");
  CHECK(ctas_of(kernels).first == 200);
  CHECK(slices_of(kernels.groups.at("gpu0 streams")) == slices_of(whole.groups.at("gpu0 streams")));
}

}  // namespace cli_trace_command_test
