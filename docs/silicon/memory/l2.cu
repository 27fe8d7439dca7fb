// Latency and bandwidth of the L2, by SM, line and working set. Usage: l2 PART FOLDER, PART one of touch, chase,
// bandwidth. See ../l2.md for what is measured and what came out. In the tables of kCg and kWeak only the first touch
// counts: ptxas makes one load of the eight that follow each other on a line. The first, and all of kFenced, kSys,
// kAtom and kChain, are as written.
#include <map>
#include <numeric>
#include <random>

#include "../clusters/measure.h"

namespace {

constexpr int kSms = 132;
constexpr int kShared = 200 * 1024;     // dynamic shared memory, so that an SM holds one CTA
constexpr u64 kGiveUp = 4000000000ULL;  // cycles after which a wait is given up

__device__ __forceinline__ unsigned clock32() {
  unsigned value;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(value)::"memory");
  return value;
}

__device__ __forceinline__ unsigned acquire(const unsigned* p) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(p) : "memory");
  return value;
}

__device__ __forceinline__ void release(unsigned* p, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}

__device__ __forceinline__ void linger() {
  const u64 start = clock_now();
  while (clock_now() - start < 40000) {
  }
}

enum Op : int { kCg, kWeak, kFenced, kSys, kAtom, kChain, kWrite, kOps };

template <int op>
__device__ __forceinline__ unsigned load(char* p) {
  unsigned v = 0;
  if (op == kCg || op == kChain) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  if (op == kWeak) asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  if (op == kFenced) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  if (op == kSys) asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  if (op == kAtom) asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(v) : "l"(p), "r"(0) : "memory");
  return v;
}

// ---- touch: single loads of single lines ----

constexpr int kLines = 256;
constexpr int kTouches = 8;

struct Step {
  int sm;
  int op;
  int out;  // which table, or -1
};

__device__ __forceinline__ char* line_of(char* base, int line) { return base + line * 4096 + (line * 7 % 32) * 128; }

template <int op>
__device__ void touches(char* base, unsigned short* table, unsigned sink) {
  load<op>(base + (3 << 19));  // another line of the page, for the translation
  for (int line = 0; line < kLines; ++line) {
    char* p = line_of(base, line);
    for (int i = 0; i < kTouches; ++i) {
      if (op == kFenced) __threadfence();
      unsigned cycles;
      if (op == kChain) {
        unsigned v = load<op>(p);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(sink), "r"(v) : "memory");
        const unsigned start = clock32();
        for (int j = 0; j < 16; ++j) v = load<op>(p + v);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(sink), "r"(v) : "memory");
        cycles = (clock32() - start) / 16;
      } else {
        const unsigned start = clock32();
        const unsigned v = load<op>(p);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(sink), "r"(v) : "memory");
        cycles = clock32() - start;
      }
      table[line * kTouches + i] = static_cast<unsigned short>(cycles < 65535 ? cycles : 65535);
    }
  }
}

// The steps are taken one after the other, each by one thread of the SM that it names.
__global__ void touch(const Step* steps, int count, char* base, unsigned short* out, unsigned* token) {
  __shared__ unsigned short table[kLines * kTouches];
  __shared__ unsigned sink_word;
  if (threadIdx.x != 0) return;
  const unsigned sink = static_cast<unsigned>(__cvta_generic_to_shared(&sink_word));
  const int me = static_cast<int>(sm_id());
  for (int i = 0; i < count; ++i) {
    if (steps[i].sm != me) continue;
    const u64 begin = clock_now();
    while (acquire(token) != static_cast<unsigned>(i)) {
      __nanosleep(1000);
      if (clock_now() - begin > kGiveUp) return;
    }
    const int op = steps[i].op;
    if (op == kWrite) {
      for (int line = 0; line < kLines; ++line) *reinterpret_cast<volatile unsigned*>(line_of(base, line)) = 0;
    }
    if (op == kCg) touches<kCg>(base, table, sink);
    if (op == kWeak) touches<kWeak>(base, table, sink);
    if (op == kFenced) touches<kFenced>(base, table, sink);
    if (op == kSys) touches<kSys>(base, table, sink);
    if (op == kAtom) touches<kAtom>(base, table, sink);
    if (op == kChain) touches<kChain>(base, table, sink);
    if (steps[i].out >= 0) {
      unsigned short* const to = out + static_cast<size_t>(steps[i].out) * kLines * kTouches;
      for (int j = 0; j < kLines * kTouches; ++j) to[j] = table[j];
    }
    __threadfence();
    release(token, static_cast<unsigned>(i + 1));
  }
  linger();
}

__global__ void flush(const uint4* data, size_t count, unsigned* sink) {
  unsigned sum = 0;
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x) {
    const uint4 v = __ldcg(data + i);
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345) *sink = sum;
}

struct Flusher {
  static constexpr size_t kCount = (size_t{256} << 20) / sizeof(uint4);
  Device<uint4> data{kCount};
  Device<unsigned> sink{1};
  void operator()() {
    flush<<<kSms * 2, 1024>>>(data.get(), kCount, sink.get());
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
};

// Memory that begins on a boundary of 2 MiB.
struct Pages {
  explicit Pages(size_t bytes) : memory(bytes + (size_t{2} << 20)) {
    const size_t mask = (size_t{2} << 20) - 1;
    base = reinterpret_cast<char*>((reinterpret_cast<size_t>(memory.get()) + mask) & ~mask);
  }
  Device<char> memory;
  char* base;
};

class Toucher {
 public:
  Toucher() : pages_(size_t{2} << 20) {
    CHECK(cudaFuncSetAttribute(touch, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  }
  // Tables of 256 lines × 8 touches.
  std::vector<unsigned short> run(const std::vector<Step>& steps, int tables) {
    Device<Step> list(steps.size());
    Device<unsigned short> out(static_cast<size_t>(tables) * kLines * kTouches);
    Device<unsigned> token(64);
    CHECK(cudaMemcpy(list.get(), steps.data(), steps.size() * sizeof(Step), cudaMemcpyHostToDevice));
    touch<<<kSms, 32, kShared>>>(list.get(), static_cast<int>(steps.size()), pages_.base, out.get(), token.get());
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    if (token.read(1)[0] != steps.size()) throw std::runtime_error("not all steps were taken");
    return out.read(static_cast<size_t>(tables) * kLines * kTouches);
  }

 private:
  Pages pages_;
};

// ---- which SMs belong together ----

__global__ void clocks(u64* out) {
  const u64 clock = clock_now();
  const u64 timer = timer_now();
  if (threadIdx.x == 0) {
    out[sm_id() * 2] = clock;
    out[sm_id() * 2 + 1] = timer;
  }
  linger();
}

struct Machine {
  std::vector<std::vector<int>> gpcs;  // by the SMs' clocks; the largest first
  std::vector<int> gpc = std::vector<int>(kSms);
  std::vector<int> side = std::vector<int>(kSms);
  std::vector<double> atom = std::vector<double>(kSms);
  int first_of_side(int s) const {
    for (int sm = 0; sm < kSms; ++sm) {
      if (side[static_cast<size_t>(sm)] == s) return sm;
    }
    throw std::runtime_error("one side only");
  }
};

Machine find_machine(Toucher& toucher) {
  Machine machine;
  CHECK(cudaFuncSetAttribute(clocks, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  Device<u64> out(kSms * 2);
  for (int i = 0; i < 3; ++i) clocks<<<kSms, 32, kShared>>>(out.get());
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  const std::vector<u64> read = out.read(kSms * 2);
  std::vector<double> offsets;
  for (int sm = 0; sm < kSms; ++sm) {
    const size_t i = static_cast<size_t>(sm) * 2;
    const double offset = static_cast<double>(static_cast<long long>(read[i] - read[0])) -
                          1.98 * static_cast<double>(static_cast<long long>(read[i + 1] - read[1]));
    size_t g = 0;
    while (g < offsets.size() && std::fabs(offsets[g] - offset) > 1000) ++g;
    if (g == offsets.size()) {
      offsets.push_back(offset);
      machine.gpcs.emplace_back();
    }
    machine.gpcs[g].push_back(sm);
  }
  std::stable_sort(machine.gpcs.begin(), machine.gpcs.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  for (size_t g = 0; g < machine.gpcs.size(); ++g) {
    for (const int sm : machine.gpcs[g]) machine.gpc[static_cast<size_t>(sm)] = static_cast<int>(g);
  }
  // Sides: atomics are done where the line is at home. Two SMs are on the same side if the same lines are slow.
  std::vector<Step> steps;
  for (int sm = 0; sm < kSms; ++sm) steps.push_back({sm, kAtom, sm});
  const auto table = toucher.run(steps, kSms);
  std::vector<std::vector<double>> least(kSms);
  for (int sm = 0; sm < kSms; ++sm) {
    auto& mine = least[static_cast<size_t>(sm)];
    for (int line = 0; line < kLines; ++line) {
      const auto* t = &table[(static_cast<size_t>(sm) * kLines + static_cast<size_t>(line)) * kTouches];
      mine.push_back(*std::min_element(t, t + kTouches));
    }
    const double average = mean(mine);
    machine.atom[static_cast<size_t>(sm)] = average;
    double sum = 0;
    for (int line = 0; line < kLines; ++line) {
      mine[static_cast<size_t>(line)] -= average;
      sum += mine[static_cast<size_t>(line)] * least[0][static_cast<size_t>(line)];
    }
    machine.side[static_cast<size_t>(sm)] = sum > 0 ? 0 : 1;
  }
  return machine;
}

void write_machine(const Machine& machine, const std::string& folder) {
  File file(folder + "/machine.csv");
  file.print("sm,gpc,side,atomic\n");
  for (size_t sm = 0; sm < kSms; ++sm) {
    file.print("%zu,%d,%d,%.0f\n", sm, machine.gpc[sm], machine.side[sm], machine.atom[sm]);
  }
}

void touch_part(const std::string& folder) {
  Toucher toucher;
  const Machine machine = find_machine(toucher);
  write_machine(machine, folder);
  Flusher flusher;
  std::FILE* const raw = std::fopen((folder + "/touch.bin").c_str(), "wb");
  File index(folder + "/touch.txt");
  int tables = 0;
  const auto keep = [&](const char* name, const std::vector<unsigned short>& data, const std::vector<int>& sms) {
    std::fwrite(data.data(), 2, data.size(), raw);
    for (const int sm : sms) index.print("%d %s %d\n", tables++, name, sm);
  };
  std::vector<int> all(kSms);
  std::iota(all.begin(), all.end(), 0);
  const int w0 = machine.first_of_side(0);
  const int w1 = machine.first_of_side(1);
  // kept: written once by w0, then read by SM after SM, twice round
  const auto kept = [&](const char* name, int op, bool twice) {
    part(name, [&] {
      std::vector<Step> steps = {{w0, kWrite, -1}};
      std::vector<int> sms;
      for (int round = 0; round < (twice ? 2 : 1); ++round) {
        for (int sm = 0; sm < kSms; ++sm) {
          steps.push_back({sm, op, static_cast<int>(sms.size())});
          sms.push_back(sm);
        }
      }
      keep(name, toucher.run(steps, static_cast<int>(sms.size())), sms);
    });
  };
  // fresh: written again before each SM's turn
  const auto fresh = [&](const char* name, int op, int writer) {
    part(name, [&] {
      std::vector<Step> steps;
      for (int sm = 0; sm < kSms; ++sm) {
        steps.push_back({writer < 0 ? sm : writer, kWrite, -1});
        steps.push_back({sm, op, sm});
      }
      keep(name, toucher.run(steps, kSms), all);
    });
  };
  // cold: first evicted, by reads of 256 MiB
  const auto cold = [&](const char* name, int op) {
    part(name, [&] {
      for (int sm = 0; sm < kSms; sm += 6) {
        flusher();
        keep(name, toucher.run({{sm, op, 0}}, 1), {sm});
      }
    });
  };
  // handed: cold, read by `a`, then by `b`, then by `a` again
  const auto handed = [&](const char* name, int op) {
    part(name, [&] {
      for (const int other : {w1, w0 + 1}) {
        flusher();
        keep(name, toucher.run({{w0, op, 0}, {other, op, 1}, {w0, op, 2}}, 3), {w0, other, w0});
      }
    });
  };
  kept("kept_cg", kCg, true);
  kept("kept_weak", kWeak, true);
  kept("kept_fenced", kFenced, false);
  kept("kept_sys", kSys, false);
  kept("atom", kAtom, false);
  kept("chain_cg", kChain, false);
  fresh("fresh0_cg", kCg, w0);
  fresh("fresh1_cg", kCg, w1);
  fresh("self_cg", kCg, -1);
  fresh("fresh0_weak", kWeak, w0);
  fresh("fresh1_weak", kWeak, w1);
  fresh("fresh0_fenced", kFenced, w0);
  cold("cold_cg", kCg);
  cold("cold_weak", kWeak);
  handed("handed_cg", kCg);
  handed("handed_weak", kWeak);
  std::fclose(raw);
}

// ---- chase: dependent loads through a working set, in random order ----

constexpr int kSegments = 32;
constexpr int kBins = 256;  // of 8 cycles

__global__ void scatter(char* base, const unsigned* order, unsigned lines) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += gridDim.x * blockDim.x) {
    const unsigned next = order[i + 1 == lines ? 0 : i + 1];
    *reinterpret_cast<u64*>(base + size_t{order[i]} * 128) = reinterpret_cast<u64>(base + size_t{next} * 128);
  }
}

template <bool weak>
__device__ __forceinline__ u64 follow(u64 p) {
  u64 v;
  if (weak) {
    asm volatile("ld.global.L1::no_allocate.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  } else {
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  }
  return v;
}

template <bool weak>
__global__ void chase(int sm, char* base, unsigned lines, unsigned* segments, unsigned* bins, unsigned timed,
                      u64* sink) {
  __shared__ unsigned table[kBins];
  __shared__ u64 sink_word;
  if (static_cast<int>(sm_id()) != sm) {
    linger();
    return;
  }
  if (threadIdx.x != 0) return;
  const unsigned word = static_cast<unsigned>(__cvta_generic_to_shared(&sink_word));
  for (int i = 0; i < kBins; ++i) table[i] = 0;
  u64 p = reinterpret_cast<u64>(base);
  for (unsigned i = 0; i < lines; ++i) p = follow<weak>(p);
  asm volatile("st.shared.u64 [%0], %1;" ::"r"(word), "l"(p) : "memory");
  for (int s = 0; s < kSegments; ++s) {
    const u64 start = clock_now();
#pragma unroll 8
    for (unsigned i = 0; i < lines / kSegments; ++i) p = follow<weak>(p);
    asm volatile("st.shared.u64 [%0], %1;" ::"r"(word), "l"(p) : "memory");
    segments[s] = static_cast<unsigned>((clock_now() - start) * 100 / (lines / kSegments));
  }
  for (unsigned i = 0; i < timed; ++i) {
    const unsigned start = clock32();
    p = follow<weak>(p);
    asm volatile("st.shared.u64 [%0], %1;" ::"r"(word), "l"(p) : "memory");
    const unsigned bin = (clock32() - start) / 8;
    ++table[bin < kBins ? bin : kBins - 1];
  }
  for (int i = 0; i < kBins; ++i) bins[i] = table[i];
  *sink = p;
}

void chase_part(const std::string& folder) {
  Toucher toucher;
  const Machine machine = find_machine(toucher);
  const size_t most = size_t{200} << 20;
  Pages pages(most);
  Device<unsigned> order(most / 128);
  Device<unsigned> segments(kSegments);
  Device<unsigned> bins(kBins);
  Device<u64> sink(1);
  Flusher flusher;
  CHECK(cudaFuncSetAttribute(chase<false>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  CHECK(cudaFuncSetAttribute(chase<true>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  File file(folder + "/chase.csv");
  File histogram(folder + "/chase_histogram.csv");
  file.print("load,sm,side,mib,median,min,max\n");
  histogram.print("load,sm,mib,counts of 8 cycles each as bin:count\n");
  const std::vector<int> fine = {1,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 21,  22,  23, 24,
                                 25, 26, 27, 28, 29, 30, 31, 32, 34, 36, 38, 40,  42,  44, 46,
                                 48, 50, 52, 54, 56, 58, 60, 64, 72, 80, 96, 128, 160, 200};
  const std::vector<int> coarse = {1, 8, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 64, 96};
  const auto one = [&](bool weak, int sm, const std::vector<int>& sizes) {
    part("chase", [&] {
      for (const int mib : sizes) {
        const unsigned lines = static_cast<unsigned>(mib) * 8192;
        std::vector<unsigned> host(lines);
        std::iota(host.begin(), host.end(), 0U);
        std::mt19937 random(static_cast<unsigned>(mib));
        std::shuffle(host.begin() + 1, host.end(), random);
        CHECK(cudaMemcpy(order.get(), host.data(), lines * sizeof(unsigned), cudaMemcpyHostToDevice));
        scatter<<<kSms, 1024>>>(pages.base, order.get(), lines);
        flusher();
        const unsigned timed = std::min(lines, 300000U);
        if (weak) {
          chase<true><<<kSms, 32, kShared>>>(sm, pages.base, lines, segments.get(), bins.get(), timed, sink.get());
        } else {
          chase<false><<<kSms, 32, kShared>>>(sm, pages.base, lines, segments.get(), bins.get(), timed, sink.get());
        }
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        std::vector<double> values;
        for (const unsigned value : segments.read(kSegments)) values.push_back(value / 100.0);
        file.print("%s,%d,%d,%d,%.1f,%.1f,%.1f\n", weak ? "weak" : "cg", sm, machine.side[static_cast<size_t>(sm)], mib,
                   median(values), minimum(values), *std::max_element(values.begin(), values.end()));
        histogram.print("%s,%d,%d", weak ? "weak" : "cg", sm, mib);
        const auto counts = bins.read(kBins);
        for (size_t i = 0; i < counts.size(); ++i) {
          if (counts[i] > timed / 1000) histogram.print(",%zu:%u", i, counts[i]);
        }
        histogram.print("\n");
      }
    });
  };
  one(false, machine.first_of_side(0), fine);
  one(true, machine.first_of_side(0), fine);
  one(false, machine.first_of_side(1), coarse);
}

// ---- bandwidth ----

constexpr int kRepeats = 22;  // the first is not counted
constexpr size_t kChunk = 128 * 1024;
enum Traffic : int { kRead, kReadWeak, kStore, kMixed };
const char* const kTraffic[] = {"read", "read_weak", "write", "mixed"};

struct Bout {
  u64 clock0, clock1, timer0, timer1;
};

__device__ __forceinline__ bool meet(unsigned* counter, unsigned target) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(counter, 1U);
    const u64 begin = clock_now();
    while (acquire(counter) < target) {
      if (clock_now() - begin > kGiveUp) break;
    }
  }
  __syncthreads();
  return true;
}

template <int traffic>
__global__ void __launch_bounds__(1024, 1)
    traffic_kernel(const int* rank_of, int ranks, char* base, unsigned chunks, unsigned each, bool together,
                   Bout* bouts, unsigned* counter, unsigned* sink) {
  const int rank = rank_of[sm_id()];
  if (rank < 0) {
    linger();
    return;
  }
  unsigned sum = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    meet(counter, static_cast<unsigned>(ranks * (repeat + 1)));
    const u64 timer0 = timer_now();
    const u64 clock0 = clock_now();
    const unsigned mine = repeat == 0 ? chunks : each;
    for (unsigned i = 0; i < mine; ++i) {
      const unsigned chunk =
          (together || repeat == 0 ? i + static_cast<unsigned>(rank) * 7
                                   : i * static_cast<unsigned>(ranks) + static_cast<unsigned>(rank)) %
          chunks;
      char* const p = base + chunk * kChunk + threadIdx.x * 16;
      uint4 v[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        char* const q = p + j * 16384;
        const bool stores = traffic == kStore || (traffic == kMixed && (j & 1) != 0);
        if (stores) {
          asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(q), "r"(i), "r"(i), "r"(i), "r"(i) : "memory");
        } else if (traffic == kReadWeak) {
          asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w)
                       : "l"(q)
                       : "memory");
        } else {
          asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w)
                       : "l"(q)
                       : "memory");
        }
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const bool stores = traffic == kStore || (traffic == kMixed && (j & 1) != 0);
        if (!stores) sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
      }
    }
    if (traffic == kStore || traffic == kMixed) __threadfence();
    if (sum == 0x12345678) *sink = sum;
    __syncthreads();
    const u64 clock1 = clock_now();
    const u64 timer1 = timer_now();
    if (threadIdx.x == 0) bouts[rank * kRepeats + repeat] = {clock0, clock1, timer0, timer1};
  }
}

void bandwidth_part(const std::string& folder) {
  Toucher toucher;
  const Machine machine = find_machine(toucher);
  write_machine(machine, folder);
  Pages pages(size_t{128} << 20);
  Device<int> rank_of(kSms);
  Device<Bout> bouts(kSms * kRepeats);
  Device<unsigned> counter(64);
  Device<unsigned> sink(1);
  void (*const kernels[])(const int*, int, char*, unsigned, unsigned, bool, Bout*, unsigned*, unsigned*) = {
      traffic_kernel<kRead>, traffic_kernel<kReadWeak>, traffic_kernel<kStore>, traffic_kernel<kMixed>};
  for (const auto kernel : kernels) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  }
  File file(folder + "/bandwidth.csv");
  file.print("set,sms,mib,order,traffic,bytes_per_cycle,best,gb_per_s,per_sm,slowest_sm,fastest_sm,ghz\n");
  const auto measure = [&](const std::string& name, const std::vector<int>& sms, int mib, bool together, int traffic) {
    part("bandwidth", [&] {
      std::vector<int> ranks(kSms, -1);
      for (size_t i = 0; i < sms.size(); ++i) ranks[static_cast<size_t>(sms[i])] = static_cast<int>(i);
      CHECK(cudaMemcpy(rank_of.get(), ranks.data(), kSms * sizeof(int), cudaMemcpyHostToDevice));
      counter.clear();
      bouts.clear();
      const int n = static_cast<int>(sms.size());
      const unsigned chunks = static_cast<unsigned>(mib) * 8;
      const unsigned each = 64;
      kernels[traffic]<<<kSms, 1024, kShared>>>(rank_of.get(), n, pages.base, chunks, each, together, bouts.get(),
                                                counter.get(), sink.get());
      CHECK(cudaGetLastError());
      CHECK(cudaDeviceSynchronize());
      if (counter.read(1)[0] != static_cast<unsigned>(n * kRepeats)) throw std::runtime_error("SMs are missing");
      const auto read = bouts.read(static_cast<size_t>(n) * kRepeats);
      std::vector<double> rates;
      std::vector<double> slow;
      std::vector<double> fast;
      std::vector<double> clocks;
      const double bytes = static_cast<double>(each) * kChunk;
      std::vector<double> ghz;
      for (int r = 0; r < n; ++r) {
        const Bout& a = read[static_cast<size_t>(r) * kRepeats];
        const Bout& b = read[static_cast<size_t>(r) * kRepeats + kRepeats - 1];
        ghz.push_back(static_cast<double>(b.clock1 - a.clock0) / static_cast<double>(b.timer1 - a.timer0));
      }
      const double clock = median(ghz);
      for (int repeat = 1; repeat < kRepeats; ++repeat) {
        u64 first = ~0ULL;
        u64 last = 0;
        double least = 1e30;
        double most = 0;
        for (int r = 0; r < n; ++r) {
          const Bout& bout = read[static_cast<size_t>(r) * kRepeats + static_cast<size_t>(repeat)];
          first = std::min(first, bout.timer0);
          last = std::max(last, bout.timer1);
          const double cycles = static_cast<double>(bout.clock1 - bout.clock0);
          least = std::min(least, cycles);
          most = std::max(most, cycles);
        }
        rates.push_back(bytes * n / (static_cast<double>(last - first) * clock));
        slow.push_back(bytes / most);
        fast.push_back(bytes / least);
      }
      const double rate = median(rates);
      file.print("%s,%d,%d,%s,%s,%.1f,%.1f,%.0f,%.2f,%.2f,%.2f,%.3f\n", name.c_str(), n, mib,
                 together ? "shared" : "disjoint", kTraffic[traffic], rate,
                 *std::max_element(rates.begin(), rates.end()), rate * clock, rate / n, median(slow), median(fast),
                 clock);
    });
  };
  const auto& gpcs = machine.gpcs;
  std::vector<std::pair<std::string, std::vector<int>>> sets;
  const auto take = [](const std::vector<int>& from, size_t count, size_t step) {
    std::vector<int> result;
    for (size_t i = 0; i < from.size() && result.size() < count; i += step) result.push_back(from[i]);
    return result;
  };
  for (const size_t n : {1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18}) {
    if (n <= gpcs[0].size()) sets.emplace_back("gpc0 first " + std::to_string(n), take(gpcs[0], n, 1));
  }
  for (const size_t n : {2, 3, 4, 6, 8, 9}) {
    if (2 * n <= gpcs[0].size()) sets.emplace_back("gpc0 TPCs " + std::to_string(n), take(gpcs[0], n, 2));
  }
  for (size_t g = 1; g < gpcs.size(); ++g) sets.emplace_back("gpc" + std::to_string(g), gpcs[g]);
  std::vector<size_t> by_side[2];
  for (size_t g = 0; g < gpcs.size(); ++g) by_side[machine.side[static_cast<size_t>(gpcs[g][0])]].push_back(g);
  const auto join = [&](const std::vector<size_t>& which, size_t count, size_t step) {
    std::vector<int> result;
    for (const size_t g : which) {
      const auto some = take(gpcs[g], count, step);
      result.insert(result.end(), some.begin(), some.end());
    }
    return result;
  };
  std::vector<size_t> every(gpcs.size());
  std::iota(every.begin(), every.end(), size_t{0});
  if (by_side[0].size() >= 2 && by_side[1].size() >= 2) {
    sets.emplace_back("2 GPCs of side 0", join({by_side[0][0], by_side[0][1]}, 99, 1));
    sets.emplace_back("2 GPCs of side 1", join({by_side[1][0], by_side[1][1]}, 99, 1));
    sets.emplace_back("2 GPCs of both sides", join({by_side[0][0], by_side[1][0]}, 99, 1));
    sets.emplace_back("4 GPCs of both sides",
                      join({by_side[0][0], by_side[0][1], by_side[1][0], by_side[1][1]}, 99, 1));
  }
  sets.emplace_back("all GPCs of side 0", join(by_side[0], 99, 1));
  sets.emplace_back("all GPCs of side 1", join(by_side[1], 99, 1));
  for (const size_t n : {1, 2, 4, 6, 8, 10, 12, 14})
    sets.emplace_back(std::to_string(n) + " of each GPC", join(every, n, 1));
  for (const size_t n : {1, 2, 4, 6, 99}) {
    sets.emplace_back((n == 99 ? "all" : std::to_string(n)) + " TPCs of each GPC one SM", join(every, n, 2));
  }
  sets.emplace_back("all", join(every, 99, 1));
  for (int traffic = 0; traffic < 4; ++traffic) {
    for (const auto& [name, sms] : sets) measure(name, sms, 16, false, traffic);
  }
  const std::vector<int> all = join(every, 99, 1);
  for (int traffic = 0; traffic < 4; ++traffic) {
    for (const int mib : {2, 4, 8, 12, 16, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48, 56, 64, 96, 128}) {
      measure("all", all, mib, true, traffic);
      if (mib != 16) measure("all", all, mib, false, traffic);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::printf("usage: l2 touch|chase|bandwidth FOLDER\n");
    return 2;
  }
  const std::string name = arguments[1];
  const std::string folder = arguments[2];
  return part(name.c_str(), [&] {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    if (properties.multiProcessorCount != kSms) throw std::runtime_error("not 132 SMs");
    std::printf("%s, L2 %d bytes\n", properties.name, properties.l2CacheSize);
    warm_up(50);
    if (name == "touch")
      touch_part(folder);
    else if (name == "chase")
      chase_part(folder);
    else if (name == "bandwidth")
      bandwidth_part(folder);
    else
      throw std::runtime_error("no such part");
  });
}
