// What a launch takes: warps of a CTA, CTA after CTA, launch to first instruction, kernel after kernel.
//   launch PART FOLDER        PART: warps, turnover, rates, startup, gaps, alternate
#include <chrono>
#include <cstring>
#include <functional>
#include <utility>

#include "measure.h"

namespace {

struct Mark {
  u64 clock;  // first instruction
  u64 timer;
  u64 after_clock;  // after waiting for the kernel before, where it waits
  u64 after_timer;
  u64 end_clock;  // before the last store
  u64 end_timer;
  unsigned sm;
  unsigned rank;
};

// Never run, but the compiler has to provide the registers.
template <int kRegisters>
__device__ void take_registers(volatile float* values) {
  if constexpr (kRegisters > 0) {
    float r[kRegisters];
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) r[i] = values[i];
#pragma unroll 1
    for (int turn = 0; turn < 100; ++turn) {
#pragma unroll
      for (int i = 0; i < kRegisters; ++i) r[i] = r[i] * r[(i + 7) % kRegisters] + 1.0F;
    }
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) values[i] = r[i];
  }
}

enum Trigger { kNever, kFirst, kAfterWait };

// kDependent: waits for the kernel before it, and triggers the next one as `trigger` says.
template <int kRegisters, int kThreads, bool kDependent>
__global__ void __launch_bounds__(kThreads, 1)
    probe(Mark* marks, u64* warps, unsigned cycles, int trigger, float* registers) {
  const u64 clock = clock_now();
  const u64 timer = timer_now();
  u64 after_clock = clock;
  u64 after_timer = timer;
  if constexpr (kDependent) {
    if (trigger == kFirst) cudaTriggerProgrammaticLaunchCompletion();
    cudaGridDependencySynchronize();
    after_clock = clock_now();
    after_timer = timer_now();
    if (trigger == kAfterWait) cudaTriggerProgrammaticLaunchCompletion();
  }
  if (registers != nullptr) take_registers<kRegisters>(registers);
  if (warps != nullptr && threadIdx.x % 32 == 0) warps[blockIdx.x * 32 + threadIdx.x / 32] = clock;
  Mark* const mark = marks + blockIdx.x;
  if (threadIdx.x == 0) {
    mark->clock = clock;
    mark->timer = timer;
    mark->after_clock = after_clock;
    mark->after_timer = after_timer;
    mark->sm = sm_id();
    mark->rank = cluster_rank();
  }
  while (clock_now() - clock < cycles) {
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const u64 end_timer = timer_now();
    mark->end_clock = clock_now();
    mark->end_timer = end_timer;
  }
}

// Nothing but the two clocks and one store: the shortest kernel that can be seen.
__global__ void shortest(u64* marks) {
  const u64 clock = clock_now();
  const u64 timer = timer_now();
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    marks[0] = clock;
    marks[1] = timer;
  }
}

__global__ void nothing() {}

__global__ void hold(u64 cycles) {
  const u64 clock = clock_now();
  while (clock_now() - clock < cycles) {
  }
}

using Kernel = void (*)(Mark*, u64*, unsigned, int, float*);

template <typename K>
void prepare(K kernel) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024));
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
}

int registers_of(Kernel kernel) {
  cudaFuncAttributes attributes{};
  CHECK(cudaFuncGetAttributes(&attributes, kernel));
  return attributes.numRegs;
}

struct Config {
  unsigned ctas;
  unsigned threads;
  unsigned shared;
  unsigned cluster;
};

struct Arguments {
  Mark* marks;
  u64* warps;
  unsigned cycles;
  int trigger;
};

void start(Kernel kernel, const Config& config, const Arguments& arguments, cudaStream_t stream, bool early = false) {
  cudaLaunchConfig_t launch{};
  cudaLaunchAttribute attributes[2]{};
  launch.gridDim = dim3(config.ctas);
  launch.blockDim = dim3(config.threads);
  launch.dynamicSmemBytes = config.shared;
  launch.stream = stream;
  launch.attrs = attributes;
  if (config.cluster > 0) {
    attributes[launch.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[launch.numAttrs].val.clusterDim.x = config.cluster;
    attributes[launch.numAttrs].val.clusterDim.y = 1;
    attributes[launch.numAttrs].val.clusterDim.z = 1;
    ++launch.numAttrs;
  }
  if (early) {
    attributes[launch.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[launch.numAttrs].val.programmaticStreamSerializationAllowed = 1;
    ++launch.numAttrs;
  }
  CHECK(cudaLaunchKernelEx(&launch, kernel, arguments.marks, arguments.warps, arguments.cycles, arguments.trigger,
                           static_cast<float*>(nullptr)));
}

const std::vector<std::pair<Kernel, unsigned>>& sized_kernels() {
  static const std::vector<std::pair<Kernel, unsigned>> kernels{{probe<0, 1024, false>, 1024},
                                                                {probe<44, 1024, false>, 1024},
                                                                {probe<104, 512, false>, 512},
                                                                {probe<232, 256, false>, 256}};
  return kernels;
}

constexpr unsigned kWholeShared = 227 * 1024;

// ---- warps: when the warps of a CTA start ----

void warps(const std::string& folder) {
  warm_up(50);
  File out(folder + "/warps.csv");
  out.print("registers,threads,shared,ctas,what,cycles_after_the_first_warp_by_warp\n");
  constexpr unsigned kMost = 132;
  Device<Mark> marks(kMost);
  Device<u64> clocks(kMost * 32);
  for (const auto& [kernel, most] : sized_kernels()) {
    prepare(kernel);
    for (const unsigned threads : {64U, 128U, 256U, 512U, 1024U}) {
      if (threads > most) continue;
      for (const unsigned shared : {0U, 64U * 1024, kWholeShared}) {
        for (const unsigned ctas : {1U, kMost}) {
          const unsigned count = threads / 32;
          std::vector<std::vector<double>> cycles(count);
          for (int run = -3; run < 25; ++run) {
            start(kernel, {ctas, threads, shared, 0}, {marks.get(), clocks.get(), 4000, kNever}, nullptr);
            CHECK(cudaDeviceSynchronize());
            if (run < 0) continue;
            const auto host = clocks.read(ctas * 32);
            for (unsigned cta = 0; cta < ctas; ++cta) {
              const u64* const mine = &host[cta * 32];
              const u64 first = *std::min_element(mine, mine + count);
              for (unsigned warp = 0; warp < count; ++warp) {
                cycles[warp].push_back(static_cast<double>(mine[warp] - first));
              }
            }
          }
          for (const bool least : {false, true}) {
            out.print("%d,%u,%u,%u,%s,", registers_of(kernel), threads, shared, ctas, least ? "min" : "median");
            for (const auto& warp : cycles) out.print(" %.0f", least ? minimum(warp) : median(warp));
            out.print("\n");
          }
        }
      }
    }
  }
}

// ---- turnover: from the end of a CTA to the start of the next one on that SM ----

void turnover(const std::string& folder) {
  warm_up(50);
  File out(folder + "/turnover.csv");
  out.print(
      "registers,threads,shared,cluster,gaps,min_cycles,median_cycles,mean_cycles,max_cycles,"
      "median_cycles_after_the_first_warp_by_warp\n");
  constexpr unsigned kMost = 132 * 24;
  Device<Mark> marks(kMost);
  Device<u64> clocks(kMost * 32);
  for (const auto& [kernel, most] : sized_kernels()) {
    prepare(kernel);
    for (const unsigned threads : {32U, 128U, 256U, 512U, 1024U}) {
      if (threads > most) continue;
      for (const unsigned cluster : {0U, 1U, 2U, 4U, 8U}) {
        const unsigned shared = kWholeShared;
        const unsigned ctas = 120 * 20;
        std::vector<double> gaps;
        std::vector<std::vector<double>> by_warp(threads / 32);
        for (int run = -1; run < 3; ++run) {
          start(kernel, {ctas, threads, shared, cluster}, {marks.get(), clocks.get(), 6000, kNever}, nullptr);
          CHECK(cudaDeviceSynchronize());
          if (run < 0) continue;
          const auto starts = clocks.read(ctas * 32);
          for (unsigned cta = 200; cta < ctas; ++cta) {  // not the first of an SM: the code is near
            const u64* const mine = &starts[cta * 32];
            const u64 least = *std::min_element(mine, mine + threads / 32);
            for (unsigned warp = 0; warp < threads / 32; ++warp) {
              by_warp[warp].push_back(static_cast<double>(mine[warp] - least));
            }
          }
          auto host = marks.read(ctas);
          std::sort(host.begin(), host.end(),
                    [](const Mark& a, const Mark& b) { return a.sm != b.sm ? a.sm < b.sm : a.clock < b.clock; });
          for (size_t i = 1; i < host.size(); ++i) {
            if (host[i].sm != host[i - 1].sm) continue;
            gaps.push_back(static_cast<double>(static_cast<long long>(host[i].clock - host[i - 1].end_clock)));
          }
        }
        out.print("%d,%u,%u,%u,%zu,%.0f,%.0f,%.1f,%.0f,", registers_of(kernel), threads, shared, cluster, gaps.size(),
                  minimum(gaps), median(gaps), mean(gaps),
                  gaps.empty() ? NAN : *std::max_element(gaps.begin(), gaps.end()));
        for (const auto& warp : by_warp) out.print(" %.0f", median(warp));
        out.print("\n");
      }
    }
  }
}

// ---- rates: how fast CTAs follow each other on an SM, and on the two SMs of a TPC ----

void rates(const std::string& folder) {
  warm_up(50);
  File out(folder + "/rates.csv");
  out.print(
      "registers,threads,shared,cluster,ctas_per_sm,odd_after_even_median_cycles,next_on_sm_min_cycles,"
      "next_on_sm_median_cycles,next_on_sm_mean_cycles,first_to_last_median_ns\n");
  Device<Mark> marks(132 * 32);
  for (const auto& [kernel, most] : sized_kernels()) {
    prepare(kernel);
    for (const unsigned threads : {32U, 64U, 128U, 256U, 512U, 1024U}) {
      if (threads > most) continue;
      for (const unsigned shared : {0U, kWholeShared}) {
        for (const unsigned cluster : {0U, 1U, 2U}) {
          int fit_on_sm = 0;
          CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit_on_sm, kernel, static_cast<int>(threads), shared));
          const unsigned per_sm = std::min(static_cast<unsigned>(fit_on_sm), cluster > 0 ? 8U : 32U);
          const unsigned ctas = 132 * per_sm;
          std::vector<double> odd;
          std::vector<double> next;
          std::vector<double> all;
          for (int run = -2; run < 20; ++run) {
            start(kernel, {ctas, threads, shared, cluster}, {marks.get(), nullptr, 60000, kNever}, nullptr);
            CHECK(cudaDeviceSynchronize());
            if (run < 0) continue;
            auto host = marks.read(ctas);
            u64 first = host[0].timer;
            u64 last = 0;
            for (const Mark& mark : host) {
              first = std::min(first, mark.timer);
              last = std::max(last, mark.timer);
            }
            all.push_back(static_cast<double>(last - first));
            std::sort(host.begin(), host.end(),
                      [](const Mark& a, const Mark& b) { return a.sm != b.sm ? a.sm < b.sm : a.clock < b.clock; });
            std::vector<u64> began(132, 0);
            for (size_t i = 0; i < host.size(); ++i) {
              if (i > 0 && host[i].sm == host[i - 1].sm) {
                next.push_back(static_cast<double>(host[i].clock - host[i - 1].clock));
              } else if (host[i].sm < 132) {
                began[host[i].sm] = host[i].clock;
              }
            }
            for (size_t sm = 0; sm < 132; sm += 2) {
              if (began[sm] == 0 || began[sm + 1] == 0) continue;
              odd.push_back(static_cast<double>(static_cast<long long>(began[sm + 1] - began[sm])));
            }
          }
          out.print("%d,%u,%u,%u,%u,%.0f,%.0f,%.0f,%.1f,%.0f\n", registers_of(kernel), threads, shared, cluster, per_sm,
                    median(odd), minimum(next), median(next), mean(next), median(all));
        }
      }
    }
  }
}

// ---- startup: from the call on the host to the first instruction ----

double host_ns() {
  static const auto zero = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - zero).count();
}

struct Mailbox {
  volatile unsigned to_device;
  unsigned pad[63];
  volatile u64 timer;
};

__global__ void answer(Mailbox* box, unsigned count) {
  const u64 begin = clock_now();
  for (unsigned i = 1; i <= count; ++i) {
    while (box->to_device != i) {
      if (clock_now() - begin > 1000000000ULL) return;
    }
    box->timer = timer_now();
  }
}

struct Offset {
  double ns;  // the host's clock minus (timer − zero)
  double round_trip;
};

// The best of many round trips through a word of the host's memory.
Offset compare_clocks(Mailbox* box, u64& zero) {
  constexpr unsigned kCount = 300;
  box->to_device = 0;
  box->timer = 0;
  Mailbox* device = nullptr;
  CHECK(cudaHostGetDevicePointer(&device, box, 0));
  answer<<<1, 1>>>(device, kCount);
  CHECK(cudaGetLastError());
  Offset best{0, 1e18};
  u64 seen = 0;
  for (unsigned i = 1; i <= kCount; ++i) {
    const double before = host_ns();
    box->to_device = i;
    while (box->timer == seen) {
      if (host_ns() - before > 2e8) throw std::runtime_error("no answer from the kernel");
    }
    const double after = host_ns();
    seen = box->timer;
    if (zero == 0) zero = seen;
    // the first ones warm up; the kernel has to be there
    if (i > 20 && after - before < best.round_trip) {
      best = {(before + after) / 2 - static_cast<double>(static_cast<long long>(seen - zero)), after - before};
    }
  }
  CHECK(cudaDeviceSynchronize());
  return best;
}

void startup(const std::string& folder) {
  File out(folder + "/startup.csv");
  out.print(
      "what,registers,threads,shared,ctas,cluster,runs,call_to_first_min_ns,call_to_first_median_ns,"
      "return_to_first_median_ns,first_to_last_cta_median_ns,round_trip_ns\n");
  Mailbox* box = nullptr;
  CHECK(cudaHostAlloc(&box, sizeof(Mailbox), cudaHostAllocMapped));
  constexpr unsigned kMost = 132 * 32;
  Device<Mark> marks(kMost);
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  u64 zero = 0;
  const auto measure = [&](const char* what, int registers, const Config& config, const std::function<void()>& go) {
    warm_up(20);
    const Offset before = compare_clocks(box, zero);
    std::vector<double> call;
    std::vector<double> back;
    std::vector<double> last;
    for (int run = -5; run < 60; ++run) {
      const double idle = host_ns();
      while (host_ns() - idle < 30e3) {
      }
      const double t0 = host_ns();
      go();
      const double t1 = host_ns();
      CHECK(cudaStreamSynchronize(stream));
      const auto host = marks.read(config.ctas);
      u64 first = host[0].timer;
      u64 latest = host[0].timer;
      for (const Mark& mark : host) {
        first = std::min(first, mark.timer);
        latest = std::max(latest, mark.timer);
      }
      if (run < 0) continue;
      const double at = static_cast<double>(static_cast<long long>(first - zero));
      call.push_back(at - t0);
      back.push_back(at - t1);
      last.push_back(static_cast<double>(latest - first));
    }
    const Offset after = compare_clocks(box, zero);
    const double offset = (before.ns + after.ns) / 2;
    out.print("%s,%d,%u,%u,%u,%u,%zu,%.0f,%.0f,%.0f,%.0f,%.0f\n", what, registers, config.threads, config.shared,
              config.ctas, config.cluster, call.size(), minimum(call) + offset, median(call) + offset,
              median(back) + offset, median(last), std::max(before.round_trip, after.round_trip));
    if (std::fabs(before.ns - after.ns) > 200) {
      std::printf("startup %s: the clocks drifted by %.0f ns\n", what, after.ns - before.ns);
    }
  };
  const Arguments arguments{marks.get(), nullptr, 2000, kNever};
  for (const auto& [kernel, most] : sized_kernels()) {
    prepare(kernel);
    const int registers = registers_of(kernel);
    for (const unsigned threads : {32U, 256U, 1024U}) {
      if (threads > most) continue;
      for (const unsigned shared : {0U, 64U * 1024, kWholeShared}) {
        for (const unsigned ctas : {1U, 132U, 4224U}) {
          if (ctas > 132 && (threads > 32 || shared > 0)) continue;
          if (most < 1024 && ctas > 1) continue;
          const Config config{ctas, threads, shared, 0};
          Kernel chosen = kernel;
          measure("stream", registers, config, [&, chosen] { start(chosen, config, arguments, stream); });
        }
      }
    }
  }
  Kernel small = probe<0, 1024, false>;
  for (const unsigned cluster : {1U, 2U, 4U, 8U, 16U}) {
    const Config config{16, 32, kWholeShared, cluster};
    measure("stream", registers_of(small), config, [&] { start(small, config, arguments, stream); });
  }
  for (const unsigned ctas : {1U, 132U}) {
    const Config config{ctas, 32, 0, 0};
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    start(small, config, arguments, stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphUpload(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    measure("graph", registers_of(small), config, [&] { CHECK(cudaGraphLaunch(executable, stream)); });
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
  }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(box));
}

// ---- gaps: kernel after kernel ----

constexpr int kChain = 40;

enum class Way { kStream, kGraph, kTwoStreams };

struct Variant {
  const char* name;
  Way way;
  bool dependent;  // programmatic dependent launch
  int trigger;
};

void gaps(const std::string& folder) {
  warm_up(50);
  File out(folder + "/gaps.csv");
  out.print(
      "way,ctas,threads,shared,cluster,kernel_cycles,gaps,"
      "end_to_first_min_ns,end_to_first_median_ns,end_to_first_mean_ns,"
      "end_to_past_wait_min_ns,end_to_past_wait_median_ns,end_to_past_wait_mean_ns,"
      "pitch_min_ns,pitch_median_ns,pitch_mean_ns,same_sm,cycles_min,cycles_median\n");
  const Variant variants[] = {
      {"stream", Way::kStream, false, kNever},
      {"graph", Way::kGraph, false, kNever},
      {"two streams", Way::kTwoStreams, false, kNever},
      {"dependent no trigger", Way::kStream, true, kNever},
      {"dependent trigger after wait", Way::kStream, true, kAfterWait},
      {"dependent trigger first", Way::kStream, true, kFirst},
      {"graph dependent no trigger", Way::kGraph, true, kNever},
      {"graph dependent trigger after wait", Way::kGraph, true, kAfterWait},
      {"graph dependent trigger first", Way::kGraph, true, kFirst},
  };
  const Config configs[] = {
      {1, 32, 0, 0},
      {1, 1024, 0, 0},
      {1, 32, kWholeShared, 0},
      {132, 32, 0, 0},
      {132, 32, kWholeShared, 0},
      {132, 1024, 0, 0},
      {132, 1024, kWholeShared, 0},
      {1056, 256, 0, 0},
      {132, 128, 0, 2},
      {128, 128, 0, 8},
      {112, 128, kWholeShared, 8},
  };
  Kernel plain = probe<0, 1024, false>;
  Kernel dependent = probe<0, 1024, true>;
  prepare(plain);
  prepare(dependent);
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  std::vector<cudaEvent_t> events(kChain + 1);
  for (cudaEvent_t& event : events) CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  Device<Mark> marks(static_cast<size_t>(kChain) * 1056);
  for (const Config& config : configs) {
    for (const unsigned cycles : {0U, 20000U}) {
      for (const Variant& variant : variants) {
        const auto chain = [&] {
          for (int k = 0; k < kChain; ++k) {
            const Arguments arguments{marks.get() + static_cast<size_t>(k) * config.ctas, nullptr, cycles,
                                      variant.trigger};
            cudaStream_t here = stream;
            if (variant.way == Way::kTwoStreams) {
              if (k % 2 == 1) here = other;
              if (k > 0) CHECK(cudaStreamWaitEvent(here, events[static_cast<size_t>(k - 1)], 0));
            }
            start(variant.dependent ? dependent : plain, config, arguments, here, variant.dependent && k > 0);
            if (variant.way == Way::kTwoStreams) CHECK(cudaEventRecord(events[static_cast<size_t>(k)], here));
          }
        };
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        if (variant.way == Way::kGraph) {
          CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
          chain();
          CHECK(cudaStreamEndCapture(stream, &graph));
          CHECK(cudaGraphInstantiate(&executable, graph, 0));
          CHECK(cudaGraphUpload(executable, stream));
          CHECK(cudaStreamSynchronize(stream));
        }
        std::vector<double> first;
        std::vector<double> waited;
        std::vector<double> pitch;
        std::vector<double> in_cycles;
        int same = 0;
        for (int run = -2; run < 8; ++run) {
          hold<<<1, 32, 0, stream>>>(1600000);
          CHECK(cudaGetLastError());
          if (variant.way == Way::kGraph) {
            CHECK(cudaGraphLaunch(executable, stream));
          } else {
            chain();
          }
          CHECK(cudaDeviceSynchronize());
          if (run < 0) continue;
          const auto host = marks.read(static_cast<size_t>(kChain) * config.ctas);
          u64 end_before = 0;
          u64 start_before = 0;
          for (int k = 0; k < kChain; ++k) {
            const Mark* const kernel = &host[static_cast<size_t>(k) * config.ctas];
            u64 begin = kernel[0].timer;
            u64 after = kernel[0].after_timer;
            u64 end = 0;
            for (unsigned cta = 0; cta < config.ctas; ++cta) {
              begin = std::min(begin, kernel[cta].timer);
              after = std::min(after, kernel[cta].after_timer);
              end = std::max(end, kernel[cta].end_timer);
            }
            if (k > 2) {
              const auto minus = [](u64 a, u64 b) { return static_cast<double>(static_cast<long long>(a - b)); };
              first.push_back(minus(begin, end_before));
              waited.push_back(minus(after, end_before));
              pitch.push_back(minus(begin, start_before));
              if (config.ctas == 1 && kernel[0].sm == kernel[-1].sm) {
                ++same;
                in_cycles.push_back(minus(kernel[0].clock, kernel[-1].end_clock));
              }
            }
            end_before = end;
            start_before = begin;
          }
        }
        out.print("%s,%u,%u,%u,%u,%u,%zu,%.0f,%.0f,%.1f,%.0f,%.0f,%.1f,%.0f,%.0f,%.1f,%d,%.0f,%.0f\n", variant.name,
                  config.ctas, config.threads, config.shared, config.cluster, cycles, first.size(), minimum(first),
                  median(first), mean(first), minimum(waited), median(waited), mean(waited), minimum(pitch),
                  median(pitch), mean(pitch), same, minimum(in_cycles), median(in_cycles));
        if (executable != nullptr) CHECK(cudaGraphExecDestroy(executable));
        if (graph != nullptr) CHECK(cudaGraphDestroy(graph));
      }
    }
  }
  for (cudaEvent_t event : events) CHECK(cudaEventDestroy(event));
  // the shortest kernels, one after another: what a kernel takes at least
  File pitches(folder + "/shortest.csv");
  pitches.print("kernel,way,ctas,threads,kernels,ns_per_kernel_min,ns_per_kernel_median\n");
  constexpr int kMany = 400;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  Device<u64> seen(2);
  for (const bool empty : {true, false}) {
    for (const bool graphed : {false, true}) {
      for (const unsigned ctas : {1U, 132U, 1056U}) {
        for (const unsigned threads : {32U, 1024U}) {
          const auto many = [&](int count) {
            for (int k = 0; k < count; ++k) {
              if (empty) {
                nothing<<<ctas, threads, 0, stream>>>();
              } else {
                shortest<<<ctas, threads, 0, stream>>>(seen.get());
              }
            }
            CHECK(cudaGetLastError());
          };
          cudaGraph_t graph = nullptr;
          cudaGraphExec_t executable = nullptr;
          if (graphed) {
            CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
            many(kMany);
            CHECK(cudaStreamEndCapture(stream, &graph));
            CHECK(cudaGraphInstantiate(&executable, graph, 0));
            CHECK(cudaGraphUpload(executable, stream));
            CHECK(cudaStreamSynchronize(stream));
          }
          std::vector<double> each;
          for (int run = -2; run < 20; ++run) {
            hold<<<1, 32, 0, stream>>>(4000000);
            CHECK(cudaGetLastError());
            CHECK(cudaEventRecord(begin, stream));
            if (graphed) {
              CHECK(cudaGraphLaunch(executable, stream));
            } else {
              many(kMany);
            }
            CHECK(cudaEventRecord(end, stream));
            CHECK(cudaStreamSynchronize(stream));
            float ms = 0;
            CHECK(cudaEventElapsedTime(&ms, begin, end));
            if (run >= 0) each.push_back(1e6 * static_cast<double>(ms) / kMany);
          }
          pitches.print("%s,%s,%u,%u,%d,%.1f,%.1f\n", empty ? "empty" : "two clocks", graphed ? "graph" : "stream",
                        ctas, threads, kMany, minimum(each), median(each));
          if (executable != nullptr) CHECK(cudaGraphExecDestroy(executable));
          if (graph != nullptr) CHECK(cudaGraphDestroy(graph));
        }
      }
    }
  }
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaStreamDestroy(other));
}

// ---- alternate: kernel after another kernel ----

void alternate(const std::string& folder) {
  warm_up(50);
  File out(folder + "/alternate.csv");
  out.print("kernels,way,ctas,gaps,end_to_first_min_ns,end_to_first_median_ns\n");
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Device<Mark> marks(static_cast<size_t>(kChain) * 132);
  struct Pair {
    const char* name;
    Kernel kernels[2];
    int carveouts[2];
    unsigned shared[2];
  };
  const Pair pairs[] = {
      {"one function", {probe<0, 1024, false>, probe<0, 1024, false>}, {100, 100}, {0, 0}},
      {"two functions", {probe<0, 1024, false>, probe<44, 1024, false>}, {100, 100}, {0, 0}},
      {"two functions; carveout 100 and 0", {probe<0, 1024, false>, probe<44, 1024, false>}, {100, 0}, {0, 0}},
      {"two functions; shared 227 KiB and 0; carveout default",
       {probe<0, 1024, false>, probe<44, 1024, false>},
       {-1, -1},
       {kWholeShared, 0}},
  };
  for (const Pair& pair : pairs) {
    for (int i = 0; i < 2; ++i) {
      prepare(pair.kernels[i]);
      CHECK(cudaFuncSetAttribute(pair.kernels[i], cudaFuncAttributePreferredSharedMemoryCarveout, pair.carveouts[i]));
    }
    for (const bool graphed : {false, true}) {
      for (const unsigned ctas : {1U, 132U}) {
        const auto chain = [&] {
          for (int k = 0; k < kChain; ++k) {
            start(pair.kernels[k % 2], {ctas, 32, pair.shared[k % 2], 0},
                  {marks.get() + static_cast<size_t>(k) * ctas, nullptr, 4000, kNever}, stream);
          }
        };
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        if (graphed) {
          CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
          chain();
          CHECK(cudaStreamEndCapture(stream, &graph));
          CHECK(cudaGraphInstantiate(&executable, graph, 0));
          CHECK(cudaGraphUpload(executable, stream));
          CHECK(cudaStreamSynchronize(stream));
        }
        std::vector<double> first;
        for (int run = -2; run < 8; ++run) {
          hold<<<1, 32, 0, stream>>>(1600000);
          CHECK(cudaGetLastError());
          if (graphed) {
            CHECK(cudaGraphLaunch(executable, stream));
          } else {
            chain();
          }
          CHECK(cudaStreamSynchronize(stream));
          if (run < 0) continue;
          const auto host = marks.read(static_cast<size_t>(kChain) * ctas);
          u64 end_before = 0;
          for (int k = 0; k < kChain; ++k) {
            const Mark* const kernel = &host[static_cast<size_t>(k) * ctas];
            u64 begin = kernel[0].timer;
            u64 end = 0;
            for (unsigned cta = 0; cta < ctas; ++cta) {
              begin = std::min(begin, kernel[cta].timer);
              end = std::max(end, kernel[cta].end_timer);
            }
            if (k > 2) first.push_back(static_cast<double>(static_cast<long long>(begin - end_before)));
            end_before = end;
          }
        }
        out.print("%s,%s,%u,%zu,%.0f,%.0f\n", pair.name, graphed ? "graph" : "stream", ctas, first.size(),
                  minimum(first), median(first));
        if (executable != nullptr) CHECK(cudaGraphExecDestroy(executable));
        if (graph != nullptr) CHECK(cudaGraphDestroy(graph));
      }
    }
  }
  CHECK(cudaStreamDestroy(stream));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "launch PART FOLDER\n");
    return 2;
  }
  const std::string folder = argv[2];
  const auto is = [argv](const char* name) { return std::strcmp(argv[1], name) == 0; };
  if (is("warps")) return part("warps", [&] { warps(folder); });
  if (is("turnover")) return part("turnover", [&] { turnover(folder); });
  if (is("startup")) return part("startup", [&] { startup(folder); });
  if (is("gaps")) return part("gaps", [&] { gaps(folder); });
  if (is("rates")) return part("rates", [&] { rates(folder); });
  if (is("alternate")) return part("alternate", [&] { alternate(folder); });
  std::fprintf(stderr, "no part %s\n", argv[1]);
  return 2;
}
