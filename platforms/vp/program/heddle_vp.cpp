// The program `heddle-vp`: the GPU as a PCI device of a guest in QEMU.
#include <chrono>
#include <exception>
#include <sched.h>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <systemc>

#include "common/error.h"
#include "vp/board.h"
#include "vp/guest_process.h"
#include "vp/session.h"
#include "vp/vp_setup.h"

namespace {

using namespace heddle;
using namespace heddle::vp;

void say(const std::string& text) { fmt::print(stderr, "heddle-vp: {}\n", text); }

// On the processor where it is now, with all that it starts. A way from one to another and back costs several times
// what an access takes. Where that is not allowed, it stays as it was.
void stay_here() {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<unsigned>(sched_getcpu()), &here);
  (void)sched_setaffinity(0, sizeof here, &here);
}

// Stdout is the guest's console. Errors go the way of exceptions.
void put_report(const sc_core::sc_report& report, const sc_core::sc_actions& actions) {
  if ((actions & sc_core::SC_DISPLAY) != 0) fmt::print(stderr, "{}\n", sc_core::sc_report_compose_message(report));
  sc_core::sc_report_handler::default_handler(report, actions & ~static_cast<sc_core::sc_actions>(sc_core::SC_DISPLAY));
}

void tell(const Board& board, GuestMemory& memory, double seconds) {
  const BoardTally& tally = board.tally();
  fmt::print(stderr,
             "heddle-vp: {} reads and {} writes of BARs, {} interrupts, {} bytes to and from the guest's memory, {} "
             "refused accesses there, {} of simulated time, {:.1f} s\n",
             tally.reads, tally.writes, tally.interrupts, memory.bytes_moved(), memory.refused(),
             sc_core::sc_time_stamp().to_string(), seconds);
}

int run(const VpOptions& options) {
  sc_core::sc_report_handler::set_handler(put_report);
  if (!options.reports) sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);
  const scenario::Scenario scenario = scenario::read_scenario(options.kernels);
  const std::vector<arch::KernelRecord> kernels = kernels_of(scenario);
  const gpu::GpuParams params = machine_of(scenario, options.preset, options.sets);
  if (options.aperture > params.machine.memory) {
    throw InputError(
        fmt::format("an aperture of {} bytes, and the machine has {}", options.aperture, params.machine.memory),
        "lower --aperture, or raise gpu.memory");
  }
  Board board("board", params, options.aperture, options.seed);
  for (const ListedKernel& kernel : load_kernels(kernels, board.gpu())) {
    say(fmt::format("program {} is '{}', {} registers", kernel.program, kernel.name, kernel.registers));
  }
  sc_core::sc_start(sc_core::SC_ZERO_TIME);

  if (!options.spread) stay_here();
  const auto start = std::chrono::steady_clock::now();
  GuestProcess guest(options.command);
  Session session(board, guest.proxy(), guest.qtest(), options.limits);
  try {
    session.run();
  } catch (const ProxyError& error) {
    guest.kill();
    say(fmt::format("{}; the guest has been ended", error.what()));
    return kNotUnderstood;
  } catch (const std::exception& error) {
    guest.kill();
    say(fmt::format("the device has failed, and the guest has been ended: {}", error.what()));
    return kDeviceFailed;
  }
  const GuestEnd end = guest.wait(10);
  if (options.tell) {
    tell(board, board.memory(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  say(end.text);
  return end.good ? kGuestEnded : kGuestFailed;
}

}  // namespace

// SystemC's library wants one; the session runs the simulation itself.
int sc_main(int, char**) { return 0; }

int main(int argc, char** argv) {
  try {
    const std::optional<VpOptions> options = read_options({argv + 1, argv + argc});
    return options ? run(*options) : kGuestEnded;
  } catch (const InputError& error) {
    fmt::print(stderr, "heddle-vp: {}\n", error.what());
    return kBadInput;
  } catch (const std::exception& error) {
    say(error.what());
    return kDeviceFailed;
  }
}
