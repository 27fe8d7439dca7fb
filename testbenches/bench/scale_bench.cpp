// What a machine costs by its size: CPU time and memory of its construction, and CPU time of a CTA and of a line of the
// L2, in activations of a bare SC_METHOD.
//
//   heddle_scale_bench [--slices S] [--ctas] [--lines] [GPCSxSMS ...]   a row for each machine, h100-sxm but for its
//   shape heddle_scale_bench --once GPCSxSMS                                  construction alone, and nothing else: for
//   callgrind
//
// Every machine is built in a process of its own, so that its memory is its own.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "bench/bare_events.h"
#include "bench/speed_programs.h"
#include "support/large_machine.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;

struct Size {
  std::uint32_t gpcs = 0;
  std::uint32_t sms = 0;  // of a GPC
};

struct Options {
  std::uint32_t slices = 0;  // 0: the preset's
  bool ctas = false;
  bool lines = false;
  bool once = false;
  bool leave = false;
  std::vector<Size> sizes;
};

// Resident memory of this process in MiB.
double resident() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long all = 0;
  long pages = 0;
  const int read = std::fscanf(file, "%ld %ld", &all, &pages);
  std::fclose(file);
  return read == 2 ? static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20) : 0;
}

// Of the last of so many equal pieces of work: the first ones touch what has never been touched.
template <class Work>
double seconds_of(int times, Work&& work) {
  double seconds = 0;
  for (int i = 0; i < times; ++i) {
    const double begin = bench::cpu_seconds();
    work();
    const double its = bench::cpu_seconds() - begin;
    seconds = i == 0 || its < seconds ? its : seconds;
  }
  return seconds;
}

void measure(const Size& size, const Options& options) {
  const double bare = 1 / bench::bare_events_per_second(1'000'000);
  const double before = resident();
  test::SimFixture sim;
  std::vector<std::string> sets;
  if (options.slices != 0) sets.push_back(fmt::format("gpu.l2.slices={}", options.slices));
  const double begin = bench::cpu_seconds();
  auto lab = std::make_unique<test::GpuLab>(test::large_machine(size.gpcs, size.sms, sets));
  const double built = bench::cpu_seconds();
  const double memory = resident() - before;
  test::start();
  const double started = bench::cpu_seconds();
  const std::uint32_t sms = size.gpcs * size.sms;
  fmt::print("| {} x {} | {} | {:.2f} s | {:.2f} s | {:.0f} MiB | {:.0f} KiB |", size.gpcs, size.sms, sms,
             built - begin, started - built, memory, memory * 1024 / sms);
  std::uint32_t operation = 0;
  if (options.ctas) {
    for (const std::uint32_t per_sm : {1U, 64U}) {
      const std::uint64_t ctas = std::uint64_t{sms} * per_sm;
      std::uint64_t events = 0;
      const double seconds = seconds_of(3, [&] {
        const std::uint64_t first = lab->gpu.domain().events_executed();
        lab->submit(test::kernel_packet(operation++, 0, {static_cast<std::uint32_t>(ctas), 1, 1}, {32, 1, 1}));
        test::run_until_idle();
        events = lab->gpu.domain().events_executed() - first;
      });
      fmt::print(" {:.1f} ({:.2f}) |", seconds / static_cast<double>(ctas) / bare,
                 static_cast<double>(events) / static_cast<double>(ctas));
    }
  }
  if (options.lines) {
    bench::StreamReads::Range range;
    range.bytes = std::uint64_t{16} << 20;
    range.warps = std::uint64_t{sms} * 16;
    const auto program = std::make_shared<bench::StreamReads>(32, std::uint8_t{4}, range);
    std::uint64_t events = 0;
    auto packet = lab->packet(program, {sms, 1, 1}, {512, 1, 1});
    const double seconds = seconds_of(3, [&] {
      const std::uint64_t first = lab->gpu.domain().events_executed();
      packet.operation = operation++;
      lab->submit(packet);
      test::run_until_idle();
      events = lab->gpu.domain().events_executed() - first;
    });
    const double lines = 32.0 * static_cast<double>(range.warps);
    fmt::print(" {:.1f} ({:.2f}) |", seconds / lines / bare, static_cast<double>(events) / lines);
  }
  if (options.ctas || options.lines) fmt::print(" {:.0f} MiB |", resident() - before);
  if (options.leave) {
    fmt::print("\n");
    std::fflush(stdout);
    _exit(0);
  }
  const double ended = bench::cpu_seconds();
  lab.reset();
  fmt::print(" {:.2f} s |\n", bench::cpu_seconds() - ended);
}

void in_own_process(const Size& size, const Options& options) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    int status = 0;
    try {
      measure(size, options);
    } catch (const std::exception& error) {
      fmt::print(stderr, "heddle_scale_bench: {}\n", error.what());
      status = 2;
    }
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw std::runtime_error(fmt::format("the machine of {} x {} failed", size.gpcs, size.sms));
}

Options read(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--ctas") {
      options.ctas = true;
    } else if (text == "--lines") {
      options.lines = true;
    } else if (text == "--once") {
      options.once = true;
    } else if (text == "--leave") {
      options.leave = true;
    } else if (text == "--slices" && i + 1 < argc) {
      options.slices = static_cast<std::uint32_t>(std::stoul(argv[++i]));
    } else {
      const std::size_t cross = text.find('x');
      if (cross == std::string::npos) throw std::invalid_argument("what is " + text + "? A machine is GPCSxSMS");
      options.sizes.push_back({static_cast<std::uint32_t>(std::stoul(text)),
                               static_cast<std::uint32_t>(std::stoul(text.substr(cross + 1)))});
    }
  }
  if (options.sizes.empty()) options.sizes = {{1, 16}, {8, 18}, {64, 18}, {64, 64}, {556, 18}, {160, 64}};
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = read(argc, argv);
    if (options.once) {
      measure(options.sizes.front(), options);
      return 0;
    }
    fmt::print("| shape | SMs | construction | to the first event | memory | per SM |{}{}{}{}\n",
               options.ctas ? " CTA, one per SM | CTA, 64 per SM |" : "", options.lines ? " line |" : "",
               options.ctas || options.lines ? " memory then |" : "", options.leave ? "" : " destruction |");
    for (const Size& size : options.sizes) in_own_process(size, options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "heddle_scale_bench: {}\n", error.what());
    return 2;
  }
}
