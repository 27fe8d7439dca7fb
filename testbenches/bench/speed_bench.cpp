// How fast the model is: what a line of memory, an access to another CTA's shared memory and a CTA cost the computer,
// in activations of a bare SC_METHOD. docs/results/speed.md has what it prints.
//
//   heddle_speed_bench [--rounds N] [--only TEXT]   a row for each measurement whose name contains the text
//   heddle_speed_bench --list                       their names
//   heddle_speed_bench --once NAME COUNT            that much of one of them, and nothing else: for callgrind
//
// Times are CPU times, taken in turns with the bare activation; of all rounds the one with the lowest ratio counts, as
// what else the computer does can only make it higher.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/bare_events.h"
#include "bench/speed_programs.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;
using bench::Probe;

void print(const Probe& probe, std::uint32_t rounds) {
  const bench::Yardstick::Round round = bench::Yardstick().best(rounds, [&] {
    const bench::Spent spent = probe.run(probe.count);
    return static_cast<double>(spent.units) / spent.seconds;
  });
  fmt::print("| {} | {:.1f} |\n", probe.name, 1 / round.ratio());
  std::fflush(stdout);
}

int once(const std::string& name, std::uint64_t count) {
  for (const Probe& probe : bench::probes()) {
    if (probe.name != name) continue;
    fmt::print("{}\n", probe.run(count).units);
    return 0;
  }
  fmt::print(stderr, "no measurement is called '{}'; --list names them\n", name);
  return 2;
}

int measure(int argc, char** argv) {
  std::uint32_t rounds = 5;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) throw std::invalid_argument(option + " needs a value");
      return std::string(argv[++i]);
    };
    if (option == "--rounds") {
      rounds = static_cast<std::uint32_t>(std::stoul(value()));
    } else if (option == "--only") {
      only = value();
    } else if (option == "--list") {
      for (const Probe& probe : bench::probes()) fmt::print("{}\n", probe.name);
      return 0;
    } else if (option == "--once") {
      const std::string name = value();
      return once(name, std::stoull(value()));
    } else {
      throw std::invalid_argument("what is " + option + "? --rounds, --only, --list or --once");
    }
  }
  fmt::print("| what | bare activations |\n| --- | --- |\n");
  for (const Probe& probe : bench::probes()) {
    if (probe.name.find(only) != std::string::npos) print(probe, rounds);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return measure(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "heddle_speed_bench: {}\n", error.what());
    return 2;
  }
}
