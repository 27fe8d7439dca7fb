// The figures of docs/results/clusters.md, all from one run: what it costs to reach another CTA's shared memory and to
// wait for each other, measured by programs that run on the model. They are simulated, so they are the same on every
// computer. Prints Markdown.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/memory_probes.h"
#include "support/cluster_lab.h"

int sc_main(int, char**) { return 0; }

namespace {

using namespace heddle;
using namespace heddle::probes;
using arch::CgaMode;
using arch::dsmem_address;
using arch::Order;
using arch::Space;
using test::cluster_barrier;

constexpr const char* kPreset = "h100-sxm";
constexpr std::uint32_t kLoads = 64;  // of every pair

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// The CTA of rank `source` follows pointers in each CTA's shared memory, one after the other, and notes the clock; the
// others wait. Fresh shared memory is zero: every word points to the first.
std::shared_ptr<ListProgram> pair_probe(std::uint32_t source, std::uint32_t size) {
  auto program = std::make_shared<ListProgram>(4);
  ListProgram& p = *program;
  const ListProgram::Access one = test::one_lane(Space::cluster);
  const ListProgram::Access out = test::one_lane(Space::global);
  cluster_barrier(p);
  const std::uint32_t branch = p.here();
  const std::uint32_t steps = size * 6;
  p.branch(branch + 1 + steps, [source](const Warp& warp) { return warp.place.rank != source; }, {});
  for (std::uint32_t target = 0; target < size; ++target) {
    read_clock(p, 1, {{0, 1}});
    p.loop(kLoads);
    p.load(one, 0, [target](const Warp& warp, std::uint32_t lane) { return dsmem_address(target, warp.reg(0, lane)); },
           {{0, 1}});
    p.end_loop();
    read_clock(p, 2, {{0, 1}});
    p.store(out,
            [](const Warp& warp, std::uint32_t lane) { return std::uint64_t{warp.reg(2, lane)} - warp.reg(1, lane); },
            ListProgram::linear(kOut + 4 * (std::uint64_t{source} * size + target), 0), {{1, 1}, {2, 1}});
  }
  HEDDLE_CHECK(p.here() == branch + 1 + steps, "the branch of a probe leads elsewhere");
  cluster_barrier(p);
  p.exit();
  return program;
}

using Matrix = std::vector<std::vector<double>>;  // [source][target], cycles

Matrix pair_latencies(std::uint32_t size, const std::vector<std::string>& sets = {}) {
  Matrix matrix(size, std::vector<double>(size));
  test::SimFixture sim;
  GpuLab lab(test::preset_params(kPreset, sets));
  for (std::uint32_t source = 0; source < size; ++source) {
    lab.run(pair_probe(source, size), {size, 1, 1}, {32, 1, 1}, 1024, test::clusters_of(size));
    HEDDLE_CHECK(lab.gpu.log().faults().empty(), "a probe had a fault");
    for (std::uint32_t target = 0; target < size; ++target) {
      matrix[source][target] =
          static_cast<double>(lab.read<std::uint32_t>(kOut + 4 * (source * size + target))) / kLoads;
    }
  }
  return matrix;
}

struct Spread {
  double least = 1e9;
  double most = 0;
  double mean = 0;
};

Spread remote(const Matrix& matrix) {
  Spread spread;
  std::uint32_t count = 0;
  for (std::size_t s = 0; s < matrix.size(); ++s) {
    for (std::size_t t = 0; t < matrix.size(); ++t) {
      if (s == t) continue;
      spread.least = std::min(spread.least, matrix[s][t]);
      spread.most = std::max(spread.most, matrix[s][t]);
      spread.mean += matrix[s][t];
      ++count;
    }
  }
  spread.mean /= count;
  return spread;
}

// The largest distance of a pair from c(source) + c(target), with the best c.
double deviation_from_a_sum(const Matrix& matrix) {
  const std::size_t n = matrix.size();
  // Sums over one row: (n - 2) c(s) + sum of all c.
  std::vector<double> rows(n);
  for (std::size_t s = 0; s < n; ++s) {
    for (std::size_t t = 0; t < n; ++t) rows[s] += s == t ? 0 : matrix[s][t];
  }
  const double all = std::accumulate(rows.begin(), rows.end(), 0.0) / (2.0 * static_cast<double>(n) - 2);
  double worst = 0;
  for (std::size_t s = 0; s < n; ++s) {
    for (std::size_t t = 0; t < n; ++t) {
      if (s == t) continue;
      const double sum = (rows[s] + rows[t] - 2 * all) / (static_cast<double>(n) - 2);
      worst = std::max(worst, std::abs(matrix[s][t] - sum));
    }
  }
  return worst;
}

// Cycles per repetition of what `body` adds to a program, by CTAs of one cluster.
double repeated(std::uint32_t size, std::uint32_t threads, std::uint32_t shared,
                const std::function<void(ListProgram&)>& body, const std::function<void(ListProgram&)>& before = {}) {
  test::SimFixture sim;
  GpuLab lab(test::preset_params(kPreset));
  const auto kernel = [&](std::uint64_t count) {
    auto program = std::make_shared<ListProgram>(64);
    if (before) before(*program);
    program->loop(count);
    body(*program);
    program->end_loop();
    cluster_barrier(*program);
    program->exit();
    const double cycles = lab.cycles(lab.run(program, {size, 1, 1}, {threads, 1, 1}, shared, test::clusters_of(size)));
    HEDDLE_CHECK(lab.gpu.log().faults().empty(), "a probe had a fault");
    return cycles;
  };
  const double first = kernel(100);
  return (kernel(300) - first) / 200;
}

// Bytes per cycle that one SM of a cluster gets when every CTA reads from its neighbour.
double ring(std::uint32_t size) {
  constexpr std::uint32_t kInFlight = 8;
  const double cycles = repeated(
      size, 1024, 65'536,
      [size](ListProgram& p) {
        for (std::uint16_t i = 0; i < kInFlight; ++i) {
          ListProgram::Access wide;
          wide.space = Space::cluster;
          wide.width = 16;
          p.load(wide, static_cast<std::uint16_t>(4 * i), [size, i](const Warp& warp, std::uint32_t lane) {
            return dsmem_address((warp.place.rank + 1) % size,
                                 (warp.place.warp * 2048 + 512 * (i % 4) + 16 * lane) % 65'536);
          });
        }
      },
      cluster_barrier);
  return 32.0 * kInFlight * 512 / cycles;
}

// Cycles from a remote arrival at an mbarrier to the warp that waits there: two CTAs in turn.
double signal_cycles(std::uint32_t size, std::uint32_t other) {
  const double round = repeated(
      size, 32, 1024,
      [=](ListProgram& p) {
        const auto mine = [](const Warp& warp, std::uint32_t) { return warp.count(0) % 2; };
        const auto partner = [=](const Warp& warp, std::uint32_t) {
          return dsmem_address(warp.place.rank == 0 ? other : 0, 64);
        };
        test::Sync sync;
        sync.order = Order::relaxed;
        // Rank 0 speaks first.
        sync.lanes = [](const Warp& warp) { return warp.place.rank == 0 ? 1U : 0U; };
        p.mbarrier_arrive(Space::cluster, partner, 1, 0, sync);
        sync.lanes = [=](const Warp& warp) { return warp.place.rank == 0 || warp.place.rank == other ? 1U : 0U; };
        p.mbarrier_wait(64, mine, sync);
        sync.lanes = [=](const Warp& warp) { return warp.place.rank == other ? 1U : 0U; };
        p.mbarrier_arrive(Space::cluster, partner, 1, 0, sync);
      },
      [](ListProgram& p) {
        p.mbarrier_init(64, 1);
        cluster_barrier(p);
      });
  return round / 2;
}

bool all_within = true;

void row(const std::string& what, double model, double published) {
  const bool within = model >= 0.95 * published && model <= 1.05 * published;
  all_within = all_within && within;
  print(fmt::format("| {} | {:.1f} cycles | {:.0f} cycles | {:+.1f} % |\n", what, model, published,
                    100 * (model / published - 1)));
}

// The published range is that of all pairs of 16 CTAs.
void by_size(const Matrix& of_16) {
  print(
      "\n## By cluster size\n\n| CTAs | remote load: least | mean | most | cluster barrier, 128 threads | 1,024 "
      "threads "
      "|\n| --- | --- | --- | --- | --- | --- |\n");
  double barrier = 0;
  for (const std::uint32_t size : {2U, 4U, 8U, 16U}) {
    const Spread its = remote(size == 16 ? of_16 : pair_latencies(size));
    const double cycles = repeated(size, 128, 0, cluster_barrier);
    print(fmt::format("| {} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:.0f} |\n", size, its.least, its.mean, its.most,
                      cycles, repeated(size, 1024, 0, cluster_barrier)));
    if (its.least < 0.95 * 180 || its.most > 1.05 * 213) all_within = false;
    if (barrier == 0) barrier = cycles;
    if (cycles < 0.95 * barrier || cycles > 1.05 * barrier) all_within = false;  // flat
  }
}

void pairs(const Matrix& matrix) {
  print("\n## Remote load by rank pair (cycles; rows: source, columns: target)\n\n|  |");
  for (std::size_t t = 0; t < matrix.size(); ++t) print(fmt::format(" {} |", t));
  print("\n| --- |");
  for (std::size_t t = 0; t < matrix.size(); ++t) print(" --- |");
  for (std::size_t s = 0; s < matrix.size(); ++s) {
    print(fmt::format("\n| **{}** |", s));
    for (const double cycles : matrix[s]) print(fmt::format(" {:.0f} |", cycles));
  }
}

void bandwidth() {
  print("\n\n## Bandwidth\n\n| CTAs | read from the neighbour, per SM | times 132 SMs |\n| --- | --- | --- |\n");
  for (const std::uint32_t size : {2U, 4U, 8U, 16U}) {
    const double bytes = ring(size);
    print(fmt::format("| {} | {:.1f} B/cycle | {:.2f} TB/s |\n", size, bytes, bytes * 132 * 1.755 / 1000));
  }
}

void signals(const Matrix& matrix) {
  print(
      "\n## Signals\n\n| from rank 0 of 16 to rank | remote load | remote mbarrier arrival until the waiting warp goes "
      "on |\n| --- | --- | --- |\n");
  for (const std::uint32_t other : {1U, 8U, 15U}) {
    print(fmt::format("| {} | {:.0f} | {:.0f} |\n", other, matrix[0][other], signal_cycles(16, other)));
  }
}

int verdict() {
  if (!all_within) std::fputs("a figure is further from its measurement than it may be\n", stderr);
  return all_within ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  const Matrix matrix = pair_latencies(16);
  const Spread spread = remote(matrix);
  double own = 0;
  for (std::size_t i = 0; i < matrix.size(); ++i) own = std::max(own, matrix[i][i]);

  print("## Model and measurement\n\n| quantity | model | published | difference |\n| --- | --- | --- | --- |\n");
  row("own shared memory by a cluster address", own, 33);
  row("remote load, 16 CTAs, nearest pair", spread.least, 180);
  row("remote load, 16 CTAs, farthest pair", spread.most, 213);
  row("remote load, 16 CTAs, mean of all pairs", spread.mean, 196);
  for (const std::uint32_t size : {2U, 4U, 8U}) {
    row(fmt::format("cluster barrier, {} CTAs of 128 threads", size), repeated(size, 128, 0, cluster_barrier), 350);
  }
  const double deviation = deviation_from_a_sum(matrix);
  print(fmt::format("\nLargest distance of a pair from c(source) + c(target): {:.2f} cycles.\n", deviation));
  if (deviation > 0.05 * spread.least) all_within = false;
  by_size(matrix);
  if (quick) return verdict();
  pairs(matrix);
  bandwidth();
  signals(matrix);
  return verdict();
}
