// QEMU as a process, with shells in its place; and the command line that leads to it.
#include "vp/guest_process.h"

#include <iterator>
#include <sstream>

#include <catch2/catch.hpp>

#include "common/error.h"
#include "scenario/scenario.h"
#include "support/sim_fixture.h"
#include "vp/vp_setup.h"

namespace heddle::test::guest_process_test {
namespace {

using namespace heddle::vp;

TEST_CASE("QEMU gets its two sockets behind its own arguments", "[vp][HST-01]") {
  const std::vector<std::string> arguments = GuestProcess::device_arguments(7, 9);
  CHECK(arguments == std::vector<std::string>{"-chardev", "socket,id=heddle-interrupts,fd=9", "-object",
                                              "qtest,id=heddle-qtest,chardev=heddle-interrupts,log=/dev/null",
                                              "-device", "x-pci-proxy-dev,id=heddle,fd=7"});
  // A stand-in that sends a header through the socket which it was given: it is there, and leads to us.
  GuestProcess guest({"sh", "-c", R"(fd=${6##*fd=}; printf '\007\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >&$fd)", "qemu"});
  ReceivedMessage received;
  REQUIRE(guest.proxy().receive(received));
  CHECK(received.message.command == ProxyCommand::reset);
  CHECK_FALSE(guest.proxy().receive(received));  // it has ended
  const GuestEnd end = guest.wait(20);
  CHECK(end.good);
  CHECK(end.text == "the guest has ended");
}

TEST_CASE("how QEMU ended is told", "[vp][HST-01]") {
  GuestProcess failed({"sh", "-c", "exit 3"});
  const GuestEnd status = failed.wait(20);
  CHECK_FALSE(status.good);
  CHECK(status.text == "QEMU ended with status 3");
  GuestProcess killed({"sh", "-c", "kill -9 $$"});
  const GuestEnd signal = killed.wait(20);
  CHECK_FALSE(signal.good);
  CHECK(signal.text == "QEMU was ended by a signal: Killed");
  GuestProcess stubborn({"sh", "-c", "exec sleep 1000"});  // it lets both sockets be, and does not end
  const GuestEnd late = stubborn.wait(0);
  CHECK_FALSE(late.good);
  CHECK(late.text.find("has been killed") != std::string::npos);
}

TEST_CASE("a program that is not there is bad input", "[vp][HST-01]") {
  CHECK_THROWS_WITH(GuestProcess({"/no/such/qemu"}),
                    Catch::Contains("'/no/such/qemu' cannot be started: No such file") && Catch::Contains("install"));
}

std::string wrong(const std::vector<std::string>& arguments) {
  try {
    (void)read_options(arguments);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("options are read, and wrong ones named", "[vp][HST-01]") {
  const std::string line =
      "--kernels k.yaml --set gpu.timing=at --set gpu.memory=2GiB --aperture 128MiB --within 20us --seed 7 "
      "--vanish-after 9 --gpu h100-sxm --tell --reports --spread -- qemu --tell -m 1G";
  std::istringstream words(line);
  const std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
  const auto read = read_options(arguments);
  REQUIRE(read);
  CHECK(read->kernels == "k.yaml");
  CHECK(read->preset == "h100-sxm");
  CHECK(read->sets == std::vector<std::string>{"gpu.timing=at", "gpu.memory=2GiB"});
  CHECK(read->aperture == 128U << 20);
  CHECK(read->limits.within_access == sc_core::sc_time(20, sc_core::SC_US));
  CHECK(read->limits.vanish_after == 9U);
  CHECK((read->seed == 7 && read->tell && read->reports && read->spread));
  CHECK(read->command == std::vector<std::string>{"qemu", "--tell", "-m", "1G"});
  using Catch::Contains;
  CHECK_THAT(wrong({"--kernel", "k.yaml", "--", "qemu"}), Contains("did you mean --kernels?"));
  CHECK_THAT(wrong({"--", "qemu"}), Contains("--kernels is missing"));
  CHECK_THAT(wrong({"--kernels", "k.yaml"}), Contains("QEMU's command is missing"));
  CHECK_THAT(wrong({"--kernels", "k.yaml", "--"}), Contains("QEMU's command is missing"));
  CHECK_THAT(wrong({"--kernels", "k", "--aperture", "3 MiB", "--", "q"}), Contains("no power of two"));
  CHECK_THAT(wrong({"--kernels", "k", "--aperture", "4 GiB", "--", "q"}), Contains("--aperture"));
  CHECK_THAT(wrong({"--kernels", "k", "--within", "soon", "--", "q"}), Contains("--within"));
}

constexpr const char* kScenario = R"(heddle: 1
name: two
gpu: small
config: {gpu: {memory: 128 MiB}}
kernels:
  - {name: plain, grid: 1, block: 32, cycles: 5}
  - {name: b, grid: 1, block: 32, registers: 24, program: [{let: {i: thread}}, {set: {v: 1 + i, type: u32}}]}
  - {name: a, grid: 1, block: 32, registers: 32, program: [{let: {i: thread}}, {set: {v: 2 + i, type: u32}}]}
submit:
  - {kernel: plain, stream: s}
  - {kernel: a, stream: s}
  - {kernel: b, stream: s}
  - {kernel: a, stream: s}
)";

TEST_CASE("the device's programs are the scenario's kernels, in the order of their submission", "[vp][HST-01]") {
  const scenario::Scenario scenario = scenario::parse_scenario(kScenario, "two.yaml");
  const std::vector<arch::KernelRecord> kernels = kernels_of(scenario);
  REQUIRE(kernels.size() == 2);
  const gpu::GpuParams params = machine_of(scenario, "", {"gpu.timing=at"});
  CHECK(params.machine.memory == 128U << 20);
  CHECK(params.machine.timing == TimingMode::at);
  CHECK(params.mmu.enabled);
  CHECK(machine_of(scenario, "", {}).machine.timing == TimingMode::lt);
  CHECK_THROWS_WITH(machine_of(scenario, "smal", {}), Catch::Contains("small"));
  SimFixture fixture;
  GpuObservation observation("gpu0");
  gpu::Gpu gpu("gpu0", params, 1, observation);
  const std::vector<ListedKernel> listed = load_kernels(kernels, gpu);
  CHECK((listed[0].name == "a" && listed[0].program == 1 && listed[0].registers == 32));
  CHECK((listed[1].name == "b" && listed[1].program == 2 && listed[1].registers == 24));
  const scenario::Scenario none = scenario::parse_scenario(
      "heddle: 1\nname: n\nkernels:\n  - {name: plain, grid: 1, block: 32, cycles: 5}\nsubmit:\n"
      "  - {kernel: plain, stream: s}\n",
      "none.yaml");
  CHECK_THROWS_WITH(kernels_of(none), Catch::Contains("none.yaml") && Catch::Contains("no kernel with a program"));
}

TEST_CASE("the kernels of the guest have the numbers that its program knows", "[vp][HST-01]") {
  const std::vector<arch::KernelRecord> kernels =
      kernels_of(scenario::read_scenario(HEDDLE_SOURCE_DIR "/platforms/vp/guest/kernels.yaml"));
  REQUIRE(kernels.size() == 3);
  CHECK((kernels[0].name == "triple" && kernels[1].name == "count" && kernels[2].name == "stay"));
}

}  // namespace
}  // namespace heddle::test::guest_process_test
