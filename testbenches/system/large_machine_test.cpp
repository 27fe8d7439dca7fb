// Machines of up to ten thousand SMs: they run, and what a CTA and an SM cost does not grow with their number. Counters
// of the model stand for time here; heddle_scale_bench has the times.
#include "support/large_machine.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "support/gpu_bench.h"

namespace system_large_machine_test {

using namespace heddle;
using namespace heddle::test;

namespace {

// Events of the machine for each CTA of a grid of empty ones.
double events_per_cta(GpuLab& lab, std::uint32_t operation, std::uint64_t ctas) {
  const std::uint64_t before = lab.gpu.domain().events_executed();
  lab.submit(kernel_packet(operation, 0, {static_cast<std::uint32_t>(ctas), 1, 1}, {32, 1, 1}));
  run_until_idle();
  REQUIRE(lab.host.results.count(operation) == 1);
  return static_cast<double>(lab.gpu.domain().events_executed() - before) / static_cast<double>(ctas);
}

std::size_t objects_below(const std::vector<sc_core::sc_object*>& objects) {
  std::size_t count = objects.size();
  for (const sc_core::sc_object* object : objects) count += objects_below(object->get_child_objects());
  return count;
}

}  // namespace

// Its destruction alone would take minutes if SystemC had to look for every port among all of them.
TEST_CASE("ten thousand SMs run every CTA of a grid once, on all of them, and are idle then", "[system][scale]") {
  for (const auto& [gpcs, sms] : {std::pair{160U, 64U}, std::pair{556U, 18U}}) {
    CAPTURE(gpcs, sms);
    const SimFixture sim;
    GpuLab lab(large_machine(gpcs, sms));
    const std::uint32_t all = gpcs * sms;
    REQUIRE(lab.gpu.topology().sms() == all);
    CtaChecker checker(all, lab.gpu.params().sm.limits);
    lab.observation.ctas = &checker;
    // Two for each SM, of which one fits at a time, and one more.
    protocol::SubmitPacket packet = kernel_packet(0, 0, {2 * all + 1, 1, 1}, {1024, 1, 1}, {2'000, 40'000});
    packet.kernel.shared_bytes = 200 * 1024;
    checker.expect(packet);
    lab.submit(packet);
    run_until_idle();
    CHECK(checker.verdict() == std::vector<std::string>());
    std::vector<std::uint32_t> started(all);
    for (const CtaChecker::Edge& edge : checker.edges) started[edge.sm] += edge.start ? 1U : 0U;
    CHECK(*std::min_element(started.begin(), started.end()) >= 1);
    CHECK(lab.gpu.open_operations() == 0);
    lab.gpu.check_quiescent();
    lab.gpu.reset();
    lab.gpu.check_quiescent();
  }
}

TEST_CASE("a CTA costs as many events in a grid of 100,000 as in one of 1,000", "[system][scale]") {
  const SimFixture sim;
  GpuLab lab(preset_params("h100-sxm"));
  const double few = events_per_cta(lab, 0, 1'000);
  for (const std::uint64_t ctas : {std::uint64_t{10'000}, std::uint64_t{100'000}}) {
    CAPTURE(ctas, few);
    CHECK(events_per_cta(lab, static_cast<std::uint32_t>(ctas), ctas) <= 1.02 * few);
  }
}

TEST_CASE("a CTA costs as many events on 4,096 SMs as on 16, and an SM as many objects", "[system][scale]") {
  double events = 0;
  double objects = 0;
  double statistics = 0;
  for (const auto& [gpcs, sms] : {std::pair{1U, 16U}, std::pair{8U, 16U}, std::pair{64U, 16U}, std::pair{64U, 64U}}) {
    CAPTURE(gpcs, sms);
    const SimFixture sim;
    GpuLab lab(large_machine(gpcs, sms));
    const double all = gpcs * sms;
    const double its_events = events_per_cta(lab, 0, std::uint64_t{gpcs} * sms * 32);
    const double its_objects = static_cast<double>(objects_below(sc_core::sc_get_top_level_objects())) / all;
    const double its_statistics = static_cast<double>(lab.observation.stats.size()) / all;
    CAPTURE(its_events, its_objects, its_statistics);
    if (gpcs == 1) {
      events = its_events;
      objects = its_objects;
      statistics = its_statistics;
    }
    CHECK(its_events <= 1.1 * events);
    CHECK(its_objects <= objects);
    CHECK(its_statistics <= statistics);
  }
}

}  // namespace system_large_machine_test
