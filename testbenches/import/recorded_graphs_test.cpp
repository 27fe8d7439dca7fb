// Launches of graphs, kernels of a stream that overlap, and cooperative launches in recordings.
#include <algorithm>

#include <catch2/catch.hpp>

#include "import/kineto_text.h"

namespace import_recorded_graphs_test {

using namespace heddle;
using namespace heddle::test;
using workload::Workload;

namespace {

using After = std::vector<std::size_t>;

bool has_note(const Workload& workload, const std::string& text) {
  return std::any_of(workload.warnings.begin(), workload.warnings.end(),
                     [&text](const std::string& note) { return note.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("what one call launches as a graph is one operation of its stream", "[workload][INP-13]") {
  const Workload workload =
      import_text(trace({kernel("before", 7, "90.000", "5.000", 1), kernel("a", 7, "100.000", "10.000", 2),
                         kernel("b", 7, "110.000", "20.000", 2), kernel("c", 7, "112.000", "10.000", 2),
                         kernel("d", 7, "131.000", "5.000", 2), kernel("behind", 7, "140.000", "5.000", 3),
                         call("cudaLaunchKernel", "10.000", 1), call("cudaGraphLaunch", "20.000", 2),
                         call("cudaLaunchKernel", "30.000", 3)}))[0];
  REQUIRE(workload.ops.size() == 6);
  CHECK_FALSE(workload.ops[0].graph);
  CHECK_FALSE(workload.ops[5].graph);
  CHECK(workload.ops[1].graph->after.empty());
  CHECK(workload.ops[2].graph->after == After{1});
  CHECK(workload.ops[3].graph->after == After{1});  // it ran beside b
  CHECK(workload.ops[4].graph->after == After{2});  // which ended last before it
  CHECK_FALSE(workload.ops[3].graph->last);
  CHECK(workload.ops[4].graph->last);
  for (const workload::Op& op : workload.ops) {
    CHECK_FALSE(op.programmatic);
    CHECK_FALSE(op.not_before);
  }
  CHECK(has_note(workload, "1 launches of graphs, with 4 operations"));
}

TEST_CASE("nodes of a graph on other streams come to the stream of its launch", "[workload][INP-13]") {
  const Workload workload =
      import_text(trace({kernel("a", 7, "100.000", "10.000", 2), kernel("left", 20, "110.500", "20.000", 2),
                         kernel("right", 21, "110.600", "30.000", 2), kernel("join", 7, "141.000", "5.000", 2),
                         kernel("behind", 7, "150.000", "5.000", 3), call("cudaGraphLaunch", "20.000", 2),
                         call("cudaLaunchKernel", "30.000", 3)}))[0];
  REQUIRE(workload.ops.size() == 5);
  for (const workload::Op& op : workload.ops) CHECK(workload.streams[op.stream].name == "7");
  CHECK(workload.ops[1].graph->after == After{0});
  CHECK(workload.ops[2].graph->after == After{0});
  CHECK(workload.ops[3].graph->after == After{0, 2});
  CHECK(workload.ops[3].graph->last);
}

TEST_CASE("a graph among which others lie stays single operations", "[workload][INP-13]") {
  const Workload workload =
      import_text(trace({kernel("a", 7, "100.000", "10.000", 2), kernel("other", 7, "120.000", "5.000", 1),
                         kernel("b", 7, "130.000", "10.000", 2), call("cudaLaunchKernel", "10.000", 1),
                         call("cudaGraphLaunch", "20.000", 2)}))[0];
  for (const workload::Op& op : workload.ops) CHECK_FALSE(op.graph);
  CHECK(has_note(workload, "1 launches of graphs stay single operations"));
  const Workload streams =
      import_text(trace({kernel("a", 7, "100.000", "10.000", 2), kernel("b", 8, "110.000", "10.000", 2),
                         kernel("other", 8, "120.000", "5.000", 1), call("cudaLaunchKernel", "30.000", 1),
                         call("cudaGraphLaunch", "20.000", 2)}))[0];
  for (const workload::Op& op : streams.ops) CHECK_FALSE(op.graph);
}

TEST_CASE("a graph of which parts are not recorded stays single operations", "[workload][INP-13]") {
  const auto second = [](const std::string& start) {
    return import_text(trace({kernel("a", 7, "100.000", "10.000", 2), kernel("b", 7, start, "10.000", 2),
                              call("cudaGraphLaunch", "20.000", 2)}))[0];
  };
  CHECK(second("125.000").ops[1].graph);
  const Workload late = second("125.001");
  CHECK_FALSE(late.ops[0].graph);
  CHECK_FALSE(late.ops[1].graph);
  CHECK(has_note(late, "1 launches of graphs stay single operations"));
}

TEST_CASE("kernels of a stream that overlap may start before the one before them has ended", "[workload][INP-13]") {
  const Workload workload =
      import_text(trace({kernel("a", 7, "100.000", "10.000", 1), kernel("b", 7, "109.000", "10.000", 2),
                         kernel("c", 7, "118.999", "10.000", 3), kernel("d", 8, "120.000", "5.000", 4),
                         call("cudaLaunchKernel", "10.000", 1), call("cudaLaunchKernelExC", "20.000", 2),
                         call("cudaLaunchKernel", "30.000", 3), call("cudaLaunchKernel", "40.000", 4)}))[0];
  REQUIRE(workload.ops.size() == 4);
  CHECK_FALSE(workload.ops[0].programmatic);
  CHECK(workload.ops[1].programmatic);
  CHECK_FALSE(workload.ops[2].programmatic);  // a nanosecond, by which recorders round
  CHECK_FALSE(workload.ops[3].programmatic);  // of another stream
  CHECK(has_note(workload, "1 kernels begin before the kernel ahead of them in their stream has ended"));
}

TEST_CASE("a cooperative launch is one", "[workload][INP-13]") {
  const Workload workload =
      import_text(trace({kernel("plain", 7, "100", "10", 1), kernel("together", 7, "120", "10", 2),
                         call("cudaLaunchKernel", "10", 1), call("cudaLaunchCooperativeKernel", "20", 2)}))[0];
  CHECK_FALSE(workload.ops[0].kernel.cooperative);
  CHECK(workload.ops[1].kernel.cooperative);
}

}  // namespace import_recorded_graphs_test
