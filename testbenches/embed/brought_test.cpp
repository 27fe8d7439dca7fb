// Kernels that software brings to the device as platforms take it (HST-07).
#include <array>
#include <cstdint>
#include <heddle/gpu.h>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "scenario/kernel_container.h"
#include "support/embed_host.h"
#include "support/sim_fixture.h"

namespace embed_brought_test {

using namespace heddle::test;

TEST_CASE("the device of a platform runs kernels of a file", "[embed][HST-07]") {
  const heddle::scenario::KernelContainer file = heddle::scenario::compile_kernel_text(R"(kernels:
  - name: scale
    grid: 4
    block: 64
    program:
      - load: {to: [data, factor], type: u64, at: kernarg}
      - load: {to: x, type: u32, at: data + 4 * item.x}
      - store: {value: factor * x, type: u32, at: data + 4 * item.x}
)",
                                                                                       "kernels.yaml");
  for (const heddle::Timing timing : {heddle::Timing::at, heddle::Timing::fast, heddle::Timing::lt}) {
    SimFixture sim;
    heddle::GpuOptions options = small();
    options.timing = timing;
    heddle::Gpu gpu("gpu0", options);
    constexpr std::uint64_t kArguments = 0x1000;
    constexpr std::uint64_t kKernels = 0x2000;
    constexpr std::uint64_t kData = 0x10000;
    constexpr std::uint32_t kItems = 256;
    bool done = false;
    Host host("host", gpu, [&](Host& h) {
      h.open();
      heddle_program program;
      heddle_program_kernel found;
      REQUIRE(heddle_program_open(&program, file.bytes.data(), file.bytes.size(), nullptr) == HEDDLE_OK);
      REQUIRE(heddle_program_load(&program, &h.bus, kKernels, kKernels) == HEDDLE_OK);
      REQUIRE(heddle_program_find(&program, "scale", &found) == HEDDLE_OK);
      const std::array<std::uint64_t, 2> arguments{kData, 3};
      REQUIRE(gpu.write_memory(kArguments, arguments.data(), sizeof arguments));
      std::vector<std::uint32_t> data(kItems);
      for (std::uint32_t i = 0; i < kItems; ++i) data[i] = i;
      REQUIRE(gpu.write_memory(kData, data.data(), 4 * kItems));
      heddle_dispatch dispatch;
      const std::uint64_t signal = HEDDLE_HOST_WINDOW + 0x200;
      REQUIRE(heddle_program_dispatch(&found, kArguments, signal, &dispatch) == HEDDLE_OK);
      heddle_packet packet;
      heddle_packet_kernel(&packet, &dispatch);
      REQUIRE(heddle_signal_init(&h.bus, signal, 1, 0, 0) == HEDDLE_OK);
      REQUIRE(heddle_queue_submit(&h.queue, &packet, 1, 1000, nullptr) == HEDDLE_OK);
      std::int64_t value = 1;
      REQUIRE(heddle_signal_wait(&h.bus, signal, HEDDLE_LESS, 1, 1000, &value) == HEDDLE_OK);
      CHECK(value == 0);
      REQUIRE(gpu.read_memory(kData, data.data(), 4 * kItems));
      for (std::uint32_t i = 0; i < kItems; ++i) {
        if (data[i] != 3 * i) FAIL("item " << i << " is " << data[i]);
      }
      CHECK(gpu.statistic("packet.codes") == 1);
      done = true;
      sc_core::sc_stop();
    });
    sc_core::sc_start();
    REQUIRE(done);
  }
}

}  // namespace embed_brought_test
