// A kernel's program that throws: the embedder's own code. The message says where, and keeps the cause.
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

#include "support/gpu_lab.h"

namespace throwing_program_test {

using namespace heddle;
using namespace heddle::test;
using Catch::Contains;

namespace {

// Warp 1 of CTA 5 throws.
std::shared_ptr<ListProgram> throwing(const std::function<void()>& what) {
  auto p = std::make_shared<ListProgram>(2);
  p->compute(arch::Unit::fp32, 20);
  p->step({arch::OpCode::compute, arch::Unit::int32, {}, {}, {}},
          [what](const arch::WarpPlace& place, arch::WarpState&, arch::Operation&) {
            if (place.cta == 5 && place.warp == 1) what();
          });
  p->exit();
  return p;
}

template <class Kind>
std::string cause_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Kind& error) {
    try {
      std::rethrow_if_nested(error);
    } catch (const std::exception& cause) {
      return cause.what();
    } catch (...) {
      return "no std::exception";
    }
  } catch (...) {
    return "another kind";
  }
  return "no cause";
}

}  // namespace

TEST_CASE("what a kernel's program throws names kernel, CTA, SM and warp, and keeps its cause", "[gpu]") {
  for (const TimingMode timing : {TimingMode::at, TimingMode::fast, TimingMode::lt}) {
    CAPTURE(timing);
    SimFixture sim;
    gpu::GpuParams params = preset_params("small");
    params.machine.timing = timing;
    GpuLab lab(params);
    const protocol::SubmitPacket packet =
        lab.packet(throwing([] { throw std::runtime_error("no coefficients"); }), {8, 1, 1}, {64, 1, 1});
    lab.observation.labels.set(packet.operation, "filter");
    lab.submit(packet);
    const std::string message = failure_of([] { run_until_idle(); });
    CHECK_THAT(message, Contains("filter, CTA 5, SM ") && Contains(", warp 1, in cycle ") &&
                            Contains(": no coefficients") && Contains("gpu0"));
    REQUIRE(lab.observation.failure);
    CHECK(cause_of<std::runtime_error>(lab.observation.failure) == "no coefficients");
  }
}

TEST_CASE("an exception of a program keeps its kind", "[gpu]") {
  const auto failure = [](const std::function<void()>& what) {
    SimFixture sim;
    GpuLab lab(preset_params("small"));
    lab.submit(throwing(what), {8, 1, 1}, {64, 1, 1});
    CHECK_THAT(failure_of([] { run_until_idle(); }), Contains("operation 0, CTA 5, SM ") && Contains(", warp 1, "));
    return lab.observation.failure;
  };
  CHECK_THAT(cause_of<CheckFailed>(failure([] { HEDDLE_CHECK(false, "seven of six"); })), Contains("seven of six"));
  CHECK_THAT(cause_of<InputError>(failure([] {
               throw InputError({"k.yaml", 3, 1}, "no such table", "name one");
             })),
             Contains("k.yaml:3:1: no such table"));
  CHECK(cause_of<std::runtime_error>(failure([] { throw 7; })) == "no std::exception");
}

}  // namespace throwing_program_test
