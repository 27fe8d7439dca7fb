// How far `fast` is from `at` in random programs: the last table of docs/results/timings.md.
//
// usage: heddle_timing_figures [--quick] [--list]
//
//   --quick  a tenth of the programs
//   --list   every program, with both times
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/figure_page.h"
#include "support/gpu_lab.h"
#include "support/packet_lab.h"
#include "support/random_accesses.h"

namespace heddle::figures {
namespace {

using test::GpuLab;
using test::PacketLab;
using test::Random;

constexpr std::uint64_t kMemory = 4 << 20;
constexpr std::uint64_t kSpan = 512 << 10;  // of each kernel's pieces

struct Outcome {
  double us = 0;
  std::vector<std::uint8_t> memory;
  std::string what;
};

struct Kernel {
  std::uint64_t seed = 0;
  arch::Dim3 grid{1, 1, 1};
  arch::Dim3 block{1, 1, 1};
  std::uint64_t own = test::kOwn;
};

Kernel random_kernel(Random& random, std::uint64_t own) {
  Kernel kernel;
  kernel.seed = random.next();
  kernel.own = own;
  kernel.block.x = random.chance(50) ? 32 * random.between(1, 8) : random.between(1, 256);
  const std::uint64_t warps = (kernel.block.count() + 31) / 32;
  const auto most = static_cast<std::uint32_t>(kSpan / test::kPiece / warps);
  kernel.grid.x = random.between(1, std::min(most, 40U));
  return kernel;
}

std::vector<std::uint8_t> random_memory(Random& random) {
  std::vector<std::uint8_t> bytes(kMemory);
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    const auto word = static_cast<std::uint32_t>(random.next());
    std::memcpy(&bytes[i], &word, 4);
  }
  return bytes;
}

// Kernels in so many streams, each of which has its pieces to itself.
Outcome run_kernels(std::uint64_t seed, const std::string& timing, std::uint32_t kernels, std::uint32_t streams) {
  Random random(seed);
  test::SimFixture sim;
  GpuLab lab(test::preset_params("small", {"gpu.timing=" + timing}));
  const std::vector<std::uint8_t> before = random_memory(random);
  HEDDLE_CHECK(lab.gpu.memory().write(0, before.data(), before.size()), "memory is too small");
  for (std::uint32_t k = 0; k < kernels; ++k) {
    const Kernel kernel = random_kernel(random, test::kOwn + k * kSpan);
    lab.submit(test::random_accesses(kernel.seed, kernel.own), kernel.grid, kernel.block, test::kWindow * 8,
               random.below(streams));
  }
  test::run_until_idle();
  lab.gpu.check_quiescent();
  Outcome outcome;
  outcome.what = fmt::format("{} {}", kernels, kernels == 1 ? "kernel" : "kernels");
  for (const auto& [operation, done] : lab.host.results) {
    outcome.us = std::max(outcome.us, static_cast<double>(done.end) * 1e-6);
  }
  outcome.memory.resize(kMemory);
  HEDDLE_CHECK(lab.gpu.memory().read(0, outcome.memory.data(), kMemory), "memory is too small");
  return outcome;
}

// Copies and fills in one queue of packets, kernels in another one.
Outcome run_copies(std::uint64_t seed, const std::string& timing) {
  constexpr std::uint64_t kMost = 1 << 20;
  Random random(seed);
  test::SimFixture sim;
  PacketLab lab({test::preset_params("small", {"gpu.timing=" + timing})});
  lab.begin();
  PacketLab::Machine& m = lab[0];
  const std::vector<std::uint8_t> before = random_memory(random);
  HEDDLE_CHECK(m.gpu.memory().write(0, before.data(), before.size()), "memory is too small");
  const std::uint64_t host = lab.take_host(2 * kMost, 4096);
  const std::uint64_t device = lab.take_device(2 * kMost, 4096);
  HEDDLE_CHECK(lab.memory.write(host - HEDDLE_HOST_WINDOW, before.data(), 2 * kMost), "memory is too small");
  heddle_queue copies = lab.open_queue(0, 0, 64, true);
  heddle_queue kernels = lab.open_queue(0, 1, 64, true);
  const std::uint64_t done = lab.new_signal(0, true, 2);
  const std::uint8_t scopes = HEDDLE_SCOPES(true, HEDDLE_FENCE_SYSTEM, HEDDLE_FENCE_SYSTEM);
  Outcome outcome;
  std::vector<heddle_packet> moves(random.between(1, 4));
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const std::uint64_t signal = i + 1 == moves.size() ? done : 0;
    const std::uint64_t bytes = std::uint64_t{1} << random.between(12, 20);
    const std::uint64_t spare = kMost - bytes;
    const std::uint64_t from =
        spare == 0 || random.chance(50) ? 0 : random.below(static_cast<std::uint32_t>(spare / 128)) * 128;
    const std::uint64_t to =
        kMost + (spare == 0 || random.chance(50) ? 0 : random.below(static_cast<std::uint32_t>(spare / 128)) * 128);
    const bool from_host = random.chance(40);
    const bool to_host = random.chance(40);
    const bool fill = random.chance(15);
    outcome.what += fmt::format(
        "{}{} KiB {}", i == 0 ? "" : ", ", bytes >> 10,
        fill ? "fill" : fmt::format("{} to {}", from_host ? "host" : "device", to_host ? "host" : "device"));
    if (fill) {
      heddle_packet_fill(&moves[i], scopes, device + to, bytes, static_cast<std::uint32_t>(random.next()), signal);
    } else {
      heddle_packet_copy(&moves[i], scopes, (from_host ? host : device) + from, (to_host ? host : device) + to, bytes,
                         signal);
    }
  }
  std::vector<heddle_packet> dispatches(random.between(1, 2));
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    const Kernel kernel = random_kernel(random, test::kOwn + i * kSpan);
    const std::uint64_t object =
        lab.program_object(0, test::random_accesses(kernel.seed, kernel.own), "random", test::kWindow * 8);
    heddle_dispatch dispatch =
        PacketLab::dispatch(object, kernel.grid.x * kernel.block.x, static_cast<std::uint16_t>(kernel.block.x),
                            i + 1 == dispatches.size() ? done : 0);
    dispatch.group_segment = test::kWindow * 8;
    heddle_packet_kernel(&dispatches[i], &dispatch);
  }
  const double start = sc_core::sc_time_stamp().to_seconds();
  HEDDLE_CHECK(heddle_queue_submit(&copies, moves.data(), static_cast<std::uint32_t>(moves.size()), 1000, nullptr) ==
                       HEDDLE_OK &&
                   heddle_queue_submit(&kernels, dispatches.data(), static_cast<std::uint32_t>(dispatches.size()), 1000,
                                       nullptr) == HEDDLE_OK,
               "packets were not taken");
  std::int64_t value = 0;
  HEDDLE_CHECK(heddle_signal_wait(&m.bus, done, HEDDLE_LESS, 1, 1'000'000, &value) == HEDDLE_OK, "copies do not end");
  outcome.us = (sc_core::sc_time_stamp().to_seconds() - start) * 1e6;
  sc_core::sc_start(sc_core::sc_time(20, sc_core::SC_US));
  HEDDLE_CHECK(m.gpu.log().faults().empty(), "a program without races has a fault");
  outcome.memory.resize(test::kOwn + 2 * kSpan + 4 * kMost);
  std::uint8_t* to = outcome.memory.data();
  HEDDLE_CHECK(m.gpu.memory().read(0, to, test::kOwn + 2 * kSpan), "memory is too small");
  HEDDLE_CHECK(m.gpu.memory().read(device, to + test::kOwn + 2 * kSpan, 2 * kMost), "memory is too small");
  HEDDLE_CHECK(lab.memory.read(host - HEDDLE_HOST_WINDOW, to + test::kOwn + 2 * kSpan + 2 * kMost, 2 * kMost),
               "memory is too small");
  return outcome;
}

struct Kind {
  const char* name;
  std::uint32_t programs;
  Outcome (*run)(std::uint64_t seed, const std::string& timing);
};

const Kind kKinds[] = {
    {"one kernel", 600, [](std::uint64_t seed, const std::string& timing) { return run_kernels(seed, timing, 1, 1); }},
    {"kernels in streams", 200,
     [](std::uint64_t seed, const std::string& timing) {
       return run_kernels(seed, timing, 2 + static_cast<std::uint32_t>(seed % 5), 3);
     }},
    {"copies beside kernels", 200, run_copies},
};

struct Difference {
  double size = 0;  // %
  double change = 0;
  std::uint64_t seed = 0;
  double at = 0;
  std::string what;
};

double share_of(const std::vector<Difference>& sorted, double share) {
  const auto index = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[index].size;
}

void print_row(const std::string& name, std::vector<Difference>& all) {
  std::sort(all.begin(), all.end(), [](const Difference& a, const Difference& b) { return a.size < b.size; });
  print(fmt::format("| {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", name, all.size(), share_of(all, 0.5),
                    share_of(all, 0.9), all.back().size));
}

void run(bool quick, bool list) {
  print("| programs | number | median | 90 % within | worst |\n| --- | ---: | ---: | ---: | ---: |\n");
  std::vector<Difference> all;
  std::string worst;
  for (const Kind& kind : kKinds) {
    std::vector<Difference> differences;
    for (std::uint64_t seed = 1; seed <= kind.programs / (quick ? 10 : 1); ++seed) {
      const Outcome at = kind.run(seed, "at");
      const Outcome fast = kind.run(seed, "fast");
      claim(at.memory == fast.memory, fmt::format("{}, seed {}: the same memory", kind.name, seed));
      const double change = 100 * (fast.us / at.us - 1);
      differences.push_back({std::fabs(change), change, seed, at.us, at.what});
      if (list)
        print(fmt::format("{} {}: {:.3f} us, {:.3f} us, {:+.1f} % ({})\n", kind.name, seed, at.us, fast.us, change,
                          at.what));
    }
    print_row(kind.name, differences);
    for (std::size_t i = 0; i < 3 && i < differences.size(); ++i) {
      const Difference& one = differences[differences.size() - 1 - i];
      worst +=
          fmt::format("{}, seed {}: {:.3f} us, {:+.1f} % ({})\n", kind.name, one.seed, one.at, one.change, one.what);
    }
    all.insert(all.end(), differences.begin(), differences.end());
  }
  print_row("all", all);
  print("\nWorst:\n" + worst);
  claim(share_of(all, 0.5) <= 3, "the median is within 3 %");
}

}  // namespace
}  // namespace heddle::figures

int main(int argc, char** argv) {
  bool quick = false;
  bool list = false;
  for (int i = 1; i < argc; ++i) {
    quick = quick || std::strcmp(argv[i], "--quick") == 0;
    list = list || std::strcmp(argv[i], "--list") == 0;
  }
  heddle::figures::run(quick, list);
  return heddle::figures::good ? 0 : 1;
}
