// Where CTAs and clusters go on an empty machine, and how many fit.
//   clusters PART FOLDER      PART: device, occupancy, map, placement, order, mix, sweep
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "measure.h"

namespace {

constexpr int kPolicies[] = {cudaClusterSchedulingPolicyDefault, cudaClusterSchedulingPolicySpread,
                             cudaClusterSchedulingPolicyLoadBalancing};
constexpr const char* kPolicyNames[] = {"default", "spread", "balance"};

struct Shape {
  const char* name;
  unsigned threads;
  unsigned shared;  // dynamic, bytes
  unsigned per_sm;  // CTAs that an SM takes
};

class Launch {
 public:
  // cluster 0: no attribute; policy 0: none
  Launch(const Shape& shape, unsigned ctas, unsigned cluster, int policy, cudaStream_t stream = nullptr) {
    config_.gridDim = dim3(ctas);
    config_.blockDim = dim3(shape.threads);
    config_.dynamicSmemBytes = shape.shared;
    config_.stream = stream;
    unsigned count = 0;
    if (cluster > 0) {
      attributes_[count].id = cudaLaunchAttributeClusterDimension;
      attributes_[count].val.clusterDim.x = cluster;
      attributes_[count].val.clusterDim.y = 1;
      attributes_[count].val.clusterDim.z = 1;
      ++count;
    }
    if (policy != cudaClusterSchedulingPolicyDefault) {
      attributes_[count].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
      attributes_[count].val.clusterSchedulingPolicyPreference = static_cast<cudaClusterSchedulingPolicy>(policy);
      ++count;
    }
    config_.attrs = attributes_;
    config_.numAttrs = count;
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  const cudaLaunchConfig_t* config() const { return &config_; }

 private:
  cudaLaunchConfig_t config_{};
  cudaLaunchAttribute attributes_[2]{};
};

void prepare_kernel() {
  CHECK(cudaFuncSetAttribute(stay, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  CHECK(cudaFuncSetAttribute(stay, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  CHECK(cudaFuncSetAttribute(stay, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
}

int sm_count() {
  int sms = 0;
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  return sms;
}

// ---- device ----

__global__ void watch_timer(u64* steps, u64* clocks, int count, u64* reads) {
  u64 seen = timer_now();
  u64 polls = 0;
  const u64 begin = clock_now();
  for (int i = 0; i < count;) {
    const u64 now = timer_now();
    ++polls;
    if (now != seen) {
      steps[i] = now;
      clocks[i] = clock_now();
      seen = now;
      ++i;
    }
    if (clock_now() - begin > 200000000ULL) break;
  }
  reads[0] = polls;
  reads[1] = clock_now() - begin;
}

void device(const std::string& folder) {
  File out(folder + "/device.txt");
  cudaDeviceProp properties{};
  CHECK(cudaGetDeviceProperties(&properties, 0));
  int driver = 0;
  int runtime = 0;
  int clock = 0;
  CHECK(cudaDriverGetVersion(&driver));
  CHECK(cudaRuntimeGetVersion(&runtime));
  CHECK(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0));
  out.print("name %s\nSMs %d\nCTAs per SM %d\nshared per SM %zu\nshared per CTA %zu\nreserved per CTA %zu\n",
            properties.name, properties.multiProcessorCount, properties.maxBlocksPerMultiProcessor,
            properties.sharedMemPerMultiprocessor, properties.sharedMemPerBlockOptin,
            properties.reservedSharedMemPerBlock);
  out.print("CUDA of driver %d\nCUDA of runtime %d\nhighest clock %d kHz\n", driver, runtime, clock);

  warm_up(200);
  constexpr int kSteps = 20000;
  Device<u64> steps(kSteps);
  Device<u64> clocks(kSteps);
  Device<u64> reads(2);
  watch_timer<<<1, 1>>>(steps.get(), clocks.get(), kSteps, reads.get());
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const auto times = steps.read(kSteps);
  const auto cycles = clocks.read(kSteps);
  const auto polls = reads.read(2);
  std::map<u64, int> histogram;
  int last = 0;
  for (int i = 1; i < kSteps && times[i] != 0; ++i) {
    ++histogram[times[i] - times[i - 1]];
    last = i;
  }
  for (const auto& [step, count] : histogram) out.print("timer step %llu ns: %d\n", step, count);
  out.print("a read of the timer and the clock: %.1f cycles\n",
            static_cast<double>(polls[1]) / static_cast<double>(polls[0]));
  if (last > 0) {
    out.print("clock, one SM busy: %.3f MHz over %.3f ms\n",
              1e3 * static_cast<double>(cycles[last] - cycles[0]) / static_cast<double>(times[last] - times[0]),
              1e-6 * static_cast<double>(times[last] - times[0]));
  }
  // the clocks of all SMs, several times
  prepare_kernel();
  const int sms = sm_count();
  File csv(folder + "/clocks.csv");
  csv.print("run,sm,mhz,cycles_ahead_of_sm0,residual_ns\n");
  const Shape shape{"s1", 32, 227 * 1024, 1};
  Device<Stay> stays(static_cast<size_t>(sms));
  Device<Edge> edges(static_cast<size_t>(sms) * kEdges);
  for (int run = 0; run < 6; ++run) {
    if (run == 3) warm_up(300);
    const Launch launch(shape, static_cast<unsigned>(sms), 0, 0);
    CHECK(cudaLaunchKernelEx(launch.config(), stay, stays.get(), edges.get(), 200000U));
    CHECK(cudaDeviceSynchronize());
    const auto host = stays.read(static_cast<size_t>(sms));
    const auto lines = fit_sms(host, edges.read(static_cast<size_t>(sms) * kEdges), sms);
    if (!lines[0].valid()) continue;
    const u64 when = lines[0].origin_timer + 20000;
    const auto clock_at = [when](const Line& line, u64 zero) {
      return static_cast<double>(static_cast<long long>(line.origin_clock - zero)) +
             (static_cast<double>(static_cast<long long>(when - line.origin_timer)) - line.offset) / line.slope;
    };
    for (int sm = 0; sm < sms; ++sm) {
      const Line& line = lines[static_cast<size_t>(sm)];
      if (!line.valid()) continue;
      const u64 zero = lines[0].origin_clock;
      csv.print("%d,%d,%.2f,%.1f,%.2f\n", run, sm, 1e3 / line.slope, clock_at(line, zero) - clock_at(lines[0], zero),
                line.residual);
    }
  }
}

// ---- occupancy ----

void occupancy(const std::string& folder) {
  prepare_kernel();
  File out(folder + "/occupancy.csv");
  out.print("limit,threads,shared,ctas_per_sm,policy,cluster,clusters\n");
  struct Limited {
    const char* limit;
    Shape shape;
  };
  const Limited all[] = {
      {"shared", {"", 32, 227 * 1024, 1}}, {"shared", {"", 32, 113 * 1024, 2}}, {"shared", {"", 32, 75 * 1024, 3}},
      {"shared", {"", 32, 56 * 1024, 4}},  {"shared", {"", 32, 27 * 1024, 8}},  {"shared", {"", 32, 13 * 1024, 16}},
      {"shared", {"", 32, 6 * 1024, 32}},  {"slots", {"", 32, 0, 32}},          {"threads", {"", 1024, 0, 2}},
      {"threads", {"", 512, 0, 4}},        {"threads", {"", 256, 0, 8}},        {"threads", {"", 128, 0, 16}},
      {"both", {"", 1024, 227 * 1024, 1}},
  };
  for (const Limited& one : all) {
    int per_sm = 0;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, stay, static_cast<int>(one.shape.threads),
                                                        one.shape.shared));
    for (int policy = 0; policy < 3; ++policy) {
      for (unsigned size = 1; size <= 16; ++size) {
        const Launch launch(one.shape, size, size, kPolicies[policy]);
        int clusters = -1;
        const cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, stay, launch.config());
        if (error != cudaSuccess) {
          std::printf("occupancy of %u: %s\n", size, cudaGetErrorName(error));
          cudaGetLastError();
        }
        out.print("%s,%u,%u,%d,%s,%u,%d\n", one.limit, one.shape.threads, one.shape.shared, per_sm,
                  kPolicyNames[policy], size, clusters);
      }
    }
  }
}

// ---- map ----

void wait_us(double us) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() < us) {
  }
}

// Clusters of many sizes beside a plain grid that keeps some SMs: which SMs ever share a cluster.
void map_sms(const std::string& folder) {
  prepare_kernel();
  warm_up(50);
  const int sms = sm_count();
  const auto n = static_cast<size_t>(sms);
  const Shape shape{"s1", 32, 227 * 1024, 1};
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  Device<Stay> blocked(n);
  Device<Edge> blocked_edges(n * kEdges);
  Device<Stay> stays(n + 32);
  Device<Edge> edges((n + 32) * kEdges);
  std::vector<std::vector<int>> together(n, std::vector<int>(n, 0));
  std::vector<std::vector<int>> together16(n, std::vector<int>(n, 0));
  std::mt19937 random(1);
  File free_file(folder + "/map_clusters.csv");
  free_file.print("blocked,size,cluster,sms\n");
  for (int run = 0; run < 900; ++run) {
    const unsigned size = 2 + static_cast<unsigned>(run) % 15;
    const unsigned keep = run < 30 ? 0 : random() % static_cast<unsigned>(sms - 2);
    const unsigned clusters = std::max(1U, (static_cast<unsigned>(sms) - keep) / size);
    if (keep > 0) {
      const Launch blocker(shape, keep, 0, 0, first);
      CHECK(cudaLaunchKernelEx(blocker.config(), stay, blocked.get(), blocked_edges.get(), 250000U));
      wait_us(25);
    }
    const Launch launch(shape, clusters * size, size, 0, second);
    CHECK(cudaLaunchKernelEx(launch.config(), stay, stays.get(), edges.get(), 40000U));
    CHECK(cudaDeviceSynchronize());
    const auto host = stays.read(clusters * size);
    for (const Stay& one : host) {
      if (one.sm >= n) throw std::runtime_error("an SM id beyond the number of SMs");
    }
    for (unsigned cluster = 0; cluster < clusters; ++cluster) {
      const bool write = run < 30 || run % 9 == 0;
      if (write) free_file.print("%u,%u,%u,", keep, size, cluster);
      for (unsigned a = 0; a < size; ++a) {
        const unsigned sm = host[cluster * size + a].sm;
        if (write) free_file.print("%s%u", a == 0 ? "" : " ", sm);
        for (unsigned b = 0; b < size; ++b) {
          ++together[sm][host[cluster * size + b].sm];
          if (size == 16) ++together16[sm][host[cluster * size + b].sm];
        }
      }
      if (write) free_file.print("\n");
    }
  }
  File matrix(folder + "/map.csv");
  matrix.print("sm,group,together_with\n");
  std::vector<int> group(n, -1);
  int groups = 0;
  for (size_t seed = 0; seed < n; ++seed) {
    if (group[seed] >= 0) continue;
    std::vector<size_t> todo{seed};
    group[seed] = groups;
    while (!todo.empty()) {
      const size_t sm = todo.back();
      todo.pop_back();
      for (size_t other = 0; other < n; ++other) {
        if (together[sm][other] > 0 && group[other] < 0) {
          group[other] = groups;
          todo.push_back(other);
        }
      }
    }
    ++groups;
  }
  for (int one = 0; one < groups; ++one) {
    std::printf("group %d:", one);
    int count = 0;
    for (size_t sm = 0; sm < n; ++sm) {
      if (group[sm] != one) continue;
      std::printf(" %zu", sm);
      ++count;
    }
    std::printf(" (%d)\n", count);
  }
  for (size_t sm = 0; sm < n; ++sm) {
    matrix.print("%zu,%d,", sm, group[sm]);
    for (size_t other = 0; other < n; ++other) {
      if (together[sm][other] > 0) matrix.print(" %zu:%d:%d", other, together[sm][other], together16[sm][other]);
    }
    matrix.print("\n");
  }
  CHECK(cudaStreamDestroy(first));
  CHECK(cudaStreamDestroy(second));
}

// ---- placement ----

void placement(const std::string& folder) {
  prepare_kernel();
  warm_up(100);
  const auto sms = static_cast<unsigned>(sm_count());
  const Shape shapes[] = {
      {"s1", 32, 227 * 1024, 1},   {"s2", 32, 113 * 1024, 2},  {"s4", 32, 56 * 1024, 4},
      {"s8", 32, 27 * 1024, 8},    {"s16", 32, 13 * 1024, 16}, {"s32", 32, 0, 32},
      {"b1", 1024, 227 * 1024, 1}, {"b2", 1024, 0, 2},         {"t8", 256, 0, 8},
  };
  const unsigned most = sms * 32 + 16;
  Device<Stay> stays(most);
  Device<Edge> edges(static_cast<size_t>(most) * kEdges);
  File out(folder + "/placement.csv");
  out.print("shape,cluster,policy,run,ctas,resident_ctas,resident_clusters,mhz,what,values\n");
  for (const Shape& shape : shapes) {
    for (unsigned size = 0; size <= 16; ++size) {
      const bool few = shape.per_sm > 2 || shape.threads > 32;
      const std::set<unsigned> chosen{0, 1, 2, 3, 4, 6, 8, 12, 16};
      if (few && chosen.count(size) == 0) continue;
      for (int policy = 0; policy < (size == 0 ? 1 : 3); ++policy) {
        const unsigned group = std::max(1U, size);
        const unsigned ctas = (sms * shape.per_sm + group - 1) / group * group;
        const int runs = shape.per_sm >= 8 ? 2 : 3;
        for (int run = -1; run < runs; ++run) {
          const Launch launch(shape, ctas, size, kPolicies[policy]);
          const cudaError_t error = cudaLaunchKernelEx(launch.config(), stay, stays.get(), edges.get(), 120000U);
          if (error != cudaSuccess) {
            std::printf("placement %s of %u, %s: %s\n", shape.name, size, kPolicyNames[policy],
                        cudaGetErrorName(error));
            cudaGetLastError();
            break;
          }
          CHECK(cudaDeviceSynchronize());
          if (run < 0) continue;
          const auto host = stays.read(ctas);
          const auto lines = fit_sms(host, edges.read(static_cast<size_t>(ctas) * kEdges), static_cast<int>(sms));
          u64 zero = host[0].timer;
          for (const Stay& one : host) {
            if (one.sm >= sms) throw std::runtime_error("an SM id beyond the number of SMs");
          }
          for (const Stay& one : host) zero = std::min(zero, one.timer);
          std::vector<double> start;
          std::vector<double> mhz;
          double first_end = 1e18;
          double first_start = 1e18;
          for (const Stay& one : host) {
            const Line& line = lines[one.sm];
            start.push_back(line.valid() ? line.at(one.clock, zero) : static_cast<double>(one.timer - zero));
            first_start = std::min(first_start, start.back());
            const double length = one.length * (line.valid() ? line.slope : 0.55);
            first_end = std::min(first_end, start.back() + length);
            if (line.valid()) mhz.push_back(1e3 / line.slope);
          }
          unsigned resident = 0;
          unsigned clusters = 0;
          for (unsigned cta = 0; cta < ctas; ++cta) {
            if (start[cta] >= first_end) continue;
            ++resident;
            if (cta % group == 0) ++clusters;
          }
          const auto head = [&](const char* what) {
            out.print("%s,%u,%s,%d,%u,%u,%u,%.1f,%s,", shape.name, size, kPolicyNames[policy], run, ctas, resident,
                      clusters, median(mhz), what);
          };
          head("sm");
          for (const Stay& one : host) out.print(" %u", one.sm);
          out.print("\n");
          head("ns");
          for (const double one : start) out.print(" %.0f", one - first_start);
          out.print("\n");
          if (run == 0 && shape.per_sm == 1) {
            head("timer");
            for (const Stay& one : host) out.print(" %llu", one.timer - zero);
            out.print("\n");
            head("rank");
            for (const Stay& one : host) out.print(" %u", one.rank);
            out.print("\n");
          }
        }
      }
    }
  }
}

// ---- order: the same grid again and again; where the next one begins ----

void order(const std::string& folder) {
  prepare_kernel();
  warm_up(50);
  File out(folder + "/order.csv");
  out.print("shape,ctas,cluster,run,sms\n");
  constexpr unsigned kMost = 400;
  Device<Stay> stays(kMost);
  Device<Edge> edges(static_cast<size_t>(kMost) * kEdges);
  const Shape shapes[] = {{"s1", 32, 227 * 1024, 1}, {"t8", 256, 0, 8}};
  struct Grid {
    unsigned ctas;
    unsigned cluster;
    int runs;
  };
  const Grid grids[] = {{1, 0, 12}, {4, 0, 12}, {16, 0, 12}, {20, 0, 12}, {64, 0, 12}, {132, 0, 12}, {264, 0, 4},
                        {1, 1, 4},  {16, 1, 4}, {2, 2, 6},   {6, 2, 6},   {40, 2, 4},  {4, 4, 6},    {12, 4, 6},
                        {60, 4, 4}, {8, 8, 6},  {24, 8, 6},  {64, 8, 4},  {16, 16, 8}, {48, 16, 8}};
  for (const Shape& shape : shapes) {
    for (const Grid& grid : grids) {
      for (int run = 0; run < grid.runs; ++run) {
        const Launch launch(shape, grid.ctas, grid.cluster, 0);
        CHECK(cudaLaunchKernelEx(launch.config(), stay, stays.get(), edges.get(), 40000U));
        CHECK(cudaDeviceSynchronize());
        out.print("%s,%u,%u,%d,", shape.name, grid.ctas, grid.cluster, run);
        for (const Stay& one : stays.read(grid.ctas)) out.print(" %u", one.sm);
        out.print("\n");
      }
    }
  }
}

// ---- mix: what fits beside a grid of clusters ----

void mix(const std::string& folder) {
  prepare_kernel();
  warm_up(50);
  File out(folder + "/mix.csv");
  out.print(
      "first_ctas,first_cluster,first_resident,second_ctas,second_cluster,second_beside_first,most_on_an_sm,run\n");
  const auto sms = static_cast<unsigned>(sm_count());
  const unsigned most = sms * 32;
  cudaStream_t one = nullptr;
  cudaStream_t two = nullptr;
  CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  Device<Stay> first(most);
  Device<Stay> second(most);
  Device<Edge> first_edges(static_cast<size_t>(most) * kEdges);
  Device<Edge> second_edges(static_cast<size_t>(most) * kEdges);
  const Shape shape{"s32", 32, 0, 32};
  struct Mix {
    unsigned first_per_sm;
    unsigned first_cluster;
    unsigned second_per_sm;
    unsigned second_cluster;
  };
  const Mix mixes[] = {{8, 1, 32, 0}, {8, 1, 8, 1},  {8, 2, 32, 0}, {4, 2, 8, 1},  {4, 2, 8, 4},
                       {24, 0, 8, 1}, {28, 0, 8, 1}, {16, 0, 8, 2}, {16, 0, 32, 0}};
  for (const Mix& mix : mixes) {
    for (int run = -1; run < 3; ++run) {
      const unsigned a = mix.first_per_sm * sms;
      const unsigned b = mix.second_per_sm * sms;
      const Launch early(shape, a, mix.first_cluster, 0, one);
      const Launch late(shape, b, mix.second_cluster, 0, two);
      CHECK(cudaLaunchKernelEx(early.config(), stay, first.get(), first_edges.get(), 400000U));
      wait_us(30);
      CHECK(cudaLaunchKernelEx(late.config(), stay, second.get(), second_edges.get(), 600000U));
      CHECK(cudaDeviceSynchronize());
      if (run < 0) continue;
      const auto firsts = first.read(a);
      const auto seconds = second.read(b);
      u64 end = ~0ULL;
      for (const Stay& stay_of : firsts) end = std::min(end, stay_of.timer + stay_of.length / 2);
      std::vector<unsigned> on_sm(sms, 0);
      unsigned resident = 0;
      unsigned beside = 0;
      for (const Stay& stay_of : firsts) {
        if (stay_of.timer >= end || stay_of.sm >= sms) continue;
        ++resident;
        ++on_sm[stay_of.sm];
      }
      for (const Stay& stay_of : seconds) {
        if (stay_of.timer >= end || stay_of.sm >= sms) continue;
        ++beside;
        ++on_sm[stay_of.sm];
      }
      out.print("%u,%u,%u,%u,%u,%u,%u,%d\n", a, mix.first_cluster, resident, b, mix.second_cluster, beside,
                *std::max_element(on_sm.begin(), on_sm.end()), run);
    }
  }
  CHECK(cudaStreamDestroy(one));
  CHECK(cudaStreamDestroy(two));
}

// ---- sweep: grids of every size up to a full machine ----

void sweep(const std::string& folder) {
  prepare_kernel();
  warm_up(50);
  File out(folder + "/sweep.csv");
  out.print("shape,cluster,clusters,sms,timer_ns\n");
  constexpr unsigned kMost = 1100;
  Device<Stay> stays(kMost);
  Device<Edge> edges(static_cast<size_t>(kMost) * kEdges);
  const auto sms = static_cast<unsigned>(sm_count());
  const Shape shapes[] = {{"s1", 32, 227 * 1024, 1}, {"s2", 32, 113 * 1024, 2}};
  for (const Shape& shape : shapes) {
    for (const unsigned cluster : {0U, 1U, 2U, 3U, 4U, 8U, 16U}) {
      const unsigned size = std::max(1U, cluster);
      const unsigned step = shape.per_sm == 1 || size > 2 ? 1 : 5;
      for (unsigned count = 1; count * size <= sms * shape.per_sm; count += step) {
        const Launch launch(shape, count * size, cluster, 0);
        CHECK(cudaLaunchKernelEx(launch.config(), stay, stays.get(), edges.get(), 30000U));
        CHECK(cudaDeviceSynchronize());
        const auto host = stays.read(count * size);
        u64 zero = host[0].timer;
        for (const Stay& one : host) zero = std::min(zero, one.timer);
        out.print("%s,%u,%u,", shape.name, cluster, count);
        for (const Stay& one : host) out.print(" %u", one.sm);
        out.print(",");
        for (const Stay& one : host) out.print(" %llu", one.timer - zero);
        out.print("\n");
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "clusters PART FOLDER\n");
    return 2;
  }
  const std::string folder = argv[2];
  const auto is = [argv](const char* name) { return std::strcmp(argv[1], name) == 0; };
  if (is("device")) return part("device", [&] { device(folder); });
  if (is("occupancy")) return part("occupancy", [&] { occupancy(folder); });
  if (is("map")) return part("map", [&] { map_sms(folder); });
  if (is("placement")) return part("placement", [&] { placement(folder); });
  if (is("order")) return part("order", [&] { order(folder); });
  if (is("mix")) return part("mix", [&] { mix(folder); });
  if (is("sweep")) return part("sweep", [&] { sweep(folder); });
  std::fprintf(stderr, "no part %s\n", argv[1]);
  return 2;
}
