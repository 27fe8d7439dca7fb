// Distributed shared memory: bandwidth by pattern, latencies, cluster barriers with a late CTA.
// Usage: dsmem PART FOLDER, PART one of bandwidth, latency, barrier. See ../dsmem.md.
#include "../clusters/measure.h"

namespace {

constexpr int kSms = 132;
constexpr int kShared = 200 * 1024;  // so that an SM holds one CTA
constexpr u64 kGiveUp = 400000000ULL;

__device__ __forceinline__ unsigned clock32() {
  unsigned value;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(value)::"memory");
  return value;
}

__device__ __forceinline__ unsigned own_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// The address that `address` has in CTA `rank` of the cluster.
__device__ __forceinline__ unsigned of_rank(unsigned address, unsigned rank) {
  unsigned value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(value) : "r"(address), "r"(rank));
  return value;
}

__device__ __forceinline__ void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
  arrive();
  wait();
}

__device__ __forceinline__ unsigned cluster_size() {
  unsigned value;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(value));
  return value;
}

template <typename... P, typename... A>
void launch(void (*kernel)(P...), int grid, int threads, int cluster, A... arguments) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = kShared;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
  CHECK(cudaDeviceSynchronize());
}

// How many clusters are resident with one CTA per SM, as measured (../clusters.md).
int clusters_at_once(int size) {
  if (size == 1) return 132;
  if (size == 2) return 66;
  if (size == 4) return 30;
  if (size == 8) return 15;
  return 7;
}

// ---- bandwidth ----

enum Pattern : int { kOwn, kPair, kRing, kFar, kBroadcast, kAllToAll, kPatterns };
const char* const kPattern[] = {"own", "pair", "ring", "far", "broadcast", "all_to_all"};
enum Access : int { kLoad, kStore, kBulk, kAccesses };
const char* const kAccess[] = {"load", "store", "bulk"};
constexpr int kRepeats = 22;         // the first is not counted
constexpr unsigned kBuffer = 65536;  // bytes read or written in each CTA
constexpr int kPasses = 16;          // over the buffer, in each repeat

struct Bout {
  u64 clock0, clock1, timer0, timer1;
  unsigned sm, rank;
};

__device__ __forceinline__ unsigned target_of(int pattern, unsigned rank, unsigned size, unsigned turn) {
  if (pattern == kPair) return rank ^ 1U;
  if (pattern == kRing) return (rank + 1) % size;
  if (pattern == kFar) return (rank + size / 2) % size;
  if (pattern == kBroadcast) return 0;
  if (pattern == kAllToAll) return (rank + 1 + turn % (size - 1)) % size;
  return rank;
}

// Every thread loads or stores 16 bytes at a time. In `broadcast`, rank 0 takes no part (load: all read rank 0; store
// and bulk: all write rank 0).
template <int access>
__global__ void __launch_bounds__(1024, 1) move(int pattern, Bout* bouts, unsigned* sink) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ __align__(8) u64 barrier;
  const unsigned rank = cluster_rank();
  const unsigned size = cluster_size();
  const unsigned base = own_address(memory);
  const unsigned mine = base + threadIdx.x * 16;
  const unsigned bar = own_address(&barrier);
  for (unsigned i = threadIdx.x; i < 2 * kBuffer / 4; i += blockDim.x) reinterpret_cast<unsigned*>(memory)[i] = i;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
  __syncthreads();
  const bool takes_part = pattern != kBroadcast || rank != 0;
  // How many bytes of bulk copies this CTA receives in a turn.
  const unsigned senders = pattern == kBroadcast ? (rank == 0 ? size - 1 : 0) : 1;
  unsigned sum = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    cluster_sync();
    const u64 timer0 = timer_now();
    const u64 clock0 = clock_now();
    if (access == kBulk) {
      // Copies of 16 KiB, a turn of them at a time; the receiver's mbarrier counts the bytes of all turns.
      if (threadIdx.x == 0) {
        if (senders > 0) {
          asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(senders * kBuffer)
                       : "memory");
        }
        for (unsigned pass = 0; takes_part && pass < kBuffer / 16384; ++pass) {
          const unsigned to = target_of(pattern, rank, size, static_cast<unsigned>(repeat));
          asm volatile(
              "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                  of_rank(base + kBuffer + pass * 16384, to)),
              "r"(base + pass * 16384), "r"(16384), "r"(of_rank(bar, to))
              : "memory");
        }
        if (senders > 0) {
          const u64 begin = clock_now();
          unsigned done = 0;
          while (done == 0 && clock_now() - begin < kGiveUp) {
            asm volatile(
                "{ .reg .pred p; mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, "
                "1, 0, p; }"
                : "=r"(done)
                : "r"(bar), "r"(repeat & 1)
                : "memory");
          }
        }
      }
      __syncthreads();
    } else if (takes_part) {
#pragma unroll 1
      for (unsigned pass = 0; pass < kPasses; ++pass) {
        const unsigned p = of_rank(mine, target_of(pattern, rank, size, pass + threadIdx.x / 32));
        unsigned a[4], b[4], c[4], d[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (access == kLoad) {
            asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(a[j]), "=r"(b[j]), "=r"(c[j]), "=r"(d[j])
                         : "r"(p + j * 16384)
                         : "memory");
          } else {
            asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(p + j * 16384), "r"(pass)
                         : "memory");
          }
        }
        if (access == kLoad) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sum ^= a[j] ^ b[j] ^ c[j] ^ d[j];
        }
      }
    }
    if (sum == 0x12345678) *sink = sum;
    __syncthreads();
    if (access == kStore) cluster_sync();  // stores are performed then
    const u64 clock1 = clock_now();
    const u64 timer1 = timer_now();
    if (threadIdx.x == 0) bouts[blockIdx.x * kRepeats + repeat] = {clock0, clock1, timer0, timer1, sm_id(), rank};
  }
  cluster_sync();
}

void bandwidth_part(const std::string& folder) {
  File file(folder + "/dsmem_bandwidth.csv");
  file.print(
      "access,pattern,size,clusters,per_cta_median,per_cta_slowest,per_cta_fastest,per_cluster,total,gb_per_s,ghz\n");
  Device<Bout> bouts(kSms * kRepeats);
  Device<unsigned> sink(1);
  void (*const kernels[])(int, Bout*, unsigned*) = {move<kLoad>, move<kStore>, move<kBulk>};
  for (int access = 0; access < kAccesses; ++access) {
    for (int pattern = 0; pattern < kPatterns; ++pattern) {
      for (const int size : {2, 4, 8, 16}) {
        for (const bool full : {false, true}) {
          part(kAccess[access], [&] {
            const int clusters = full ? clusters_at_once(size) : 1;
            const int ctas = clusters * size;
            launch(kernels[access], ctas, 1024, size, pattern, bouts.get(), sink.get());
            const auto read = bouts.read(static_cast<size_t>(ctas) * kRepeats);
            const double bytes = static_cast<double>(kBuffer) * (access == kBulk ? 1 : kPasses);
            std::vector<double> rates;
            std::vector<double> totals;
            std::vector<double> ghz;
            for (int repeat = 1; repeat < kRepeats; ++repeat) {
              double total = 0;
              for (int c = 0; c < ctas; ++c) {
                const Bout& bout = read[static_cast<size_t>(c) * kRepeats + static_cast<size_t>(repeat)];
                if (pattern == kBroadcast && bout.rank == 0 && access == kLoad) continue;
                const double cycles = static_cast<double>(bout.clock1 - bout.clock0);
                if (pattern == kBroadcast && access != kLoad) {
                  // Known when all is there: at rank 0.
                  if (bout.rank != 0) continue;
                  rates.push_back(bytes / cycles);
                  total += bytes * (size - 1) / cycles;
                  continue;
                }
                rates.push_back(bytes / cycles);
                total += bytes / cycles;
              }
              totals.push_back(total);
            }
            for (int c = 0; c < ctas; ++c) {
              const Bout& a = read[static_cast<size_t>(c) * kRepeats];
              const Bout& b = read[static_cast<size_t>(c) * kRepeats + kRepeats - 1];
              ghz.push_back(static_cast<double>(b.clock1 - a.clock0) / static_cast<double>(b.timer1 - a.timer0));
            }
            std::sort(rates.begin(), rates.end());
            const double total = median(totals);
            const double clock = median(ghz);
            file.print("%s,%s,%d,%d,%.2f,%.2f,%.2f,%.1f,%.0f,%.0f,%.3f\n", kAccess[access], kPattern[pattern], size,
                       clusters, median(rates), rates.front(), rates.back(), total / clusters, total, total * clock,
                       clock);
          });
        }
      }
    }
  }
}

// ---- latency ----

enum Signal : int { kArrive, kFlag, kAsync, kSignals };
const char* const kSignal[] = {"mbarrier", "flag", "st_async"};
constexpr int kRounds = 64;

__device__ __forceinline__ bool phase_done(unsigned bar, unsigned parity) {
  unsigned done;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(bar), "r"(parity)
      : "memory");
  return done != 0;
}

struct Mail {
  u64 barrier[2];  // [1] for the second warp of the same CTA
  unsigned flag[2];
  u64 word[2];
};

template <int signal>
__device__ __forceinline__ void notify(unsigned mail, unsigned round) {
  // mail: address of the receiver's slot; flag 16 bytes, word 24 bytes behind the barrier
  if (signal == kArrive) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mail) : "memory");
  } else if (signal == kFlag) {
    asm volatile("st.release.cluster.shared::cluster.u32 [%0], %1;" ::"r"(mail + 16), "r"(round + 1) : "memory");
  } else {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u64 [%0], %1, [%2];" ::"r"(mail + 32),
                 "l"(u64{round}), "r"(mail)
                 : "memory");
  }
}

template <int signal>
__device__ __forceinline__ bool noticed(unsigned mail, unsigned round) {
  if (signal == kFlag) {
    unsigned value;
    asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(value) : "r"(mail + 16) : "memory");
    return value == round + 1;
  }
  return phase_done(mail, round & 1);
}

template <int signal>
__device__ __forceinline__ void expect(unsigned mail) {
  if (signal == kAsync) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 8;" ::"r"(mail) : "memory");
}

// Slots of 64 bytes: slot 0 for the first warp, slot 1 for the second, which stands in where the partner is the own
// CTA. Between rank a and each other rank: a signals, the other answers. `far` of the own rank: two warps of the CTA.
template <int signal>
__global__ void __launch_bounds__(64, 1) ping(unsigned from, unsigned* out) {
  __shared__ __align__(64) unsigned char mail[2][64];
  const unsigned rank = cluster_rank();
  const unsigned size = cluster_size();
  const unsigned warp = threadIdx.x / 32;
  const unsigned here = own_address(mail[0]);
  for (unsigned other = 0; other < size; ++other) {
    if (threadIdx.x == 0) {
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned bar = here + 64 * i;
        if (other > 0) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        *reinterpret_cast<volatile unsigned*>(mail[i] + 16) = 0;
      }
    }
    __syncthreads();
    cluster_sync();
    const bool first = rank == from && threadIdx.x == 0;
    const bool second = rank == other && threadIdx.x == (other == from ? 32U : 0U);
    const unsigned my_slot = here + (other == from && warp == 1 ? 64 : 0);
    if (first || second) {
      const unsigned to = first ? of_rank(here, other) + (other == from ? 64 : 0) : of_rank(here, from);
      const u64 begin = clock_now();
      for (unsigned round = 0; round < kRounds; ++round) {
        expect<signal>(my_slot);
        const unsigned start = clock32();
        if (first) notify<signal>(to, round);
        while (!noticed<signal>(my_slot, round)) {
          if (clock_now() - begin > kGiveUp) break;
        }
        if (second) notify<signal>(to, round);
        if (first) out[other * kRounds + round] = clock32() - start;
      }
    }
    __syncthreads();
    cluster_sync();
  }
}

// Turns of the polling loop alone, and the time of chained remote loads and atomics from rank `from` to each other.
__global__ void __launch_bounds__(64, 1) remote(unsigned from, unsigned* loads, unsigned* atoms, unsigned* sms) {
  __shared__ unsigned word;
  const unsigned rank = cluster_rank();
  const unsigned size = cluster_size();
  if (threadIdx.x == 0) {
    word = 0;
    sms[rank] = sm_id();
  }
  __syncthreads();
  cluster_sync();
  if (rank == from && threadIdx.x == 0) {
    for (unsigned other = 0; other < size; ++other) {
      const unsigned p = of_rank(own_address(&word), other);
      for (int i = 0; i < 20; ++i) {
        unsigned v = 0;
        unsigned start = clock32();
#pragma unroll
        for (int j = 0; j < 16; ++j) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(p + v) : "memory");
        if (v == 77) start = 0;
        loads[other * 20 + i] = (clock32() - start) / 16;
        start = clock32();
#pragma unroll
        for (int j = 0; j < 16; ++j) {
          asm volatile("atom.relaxed.cluster.shared::cluster.add.u32 %0, [%1], %2;"
                       : "=r"(v)
                       : "r"(p + v), "r"(0)
                       : "memory");
        }
        if (v == 77) start = 0;
        atoms[other * 20 + i] = (clock32() - start) / 16;
      }
    }
  }
  cluster_sync();
}

std::vector<double> doubles(const std::vector<unsigned>& values, size_t first, size_t last) {
  std::vector<double> result;
  for (size_t i = first; i < last; ++i) result.push_back(values[i]);
  return result;
}

void latency_part(const std::string& folder) {
  File file(folder + "/dsmem_latency.csv");
  file.print("what,size,from,to,from_sm,to_sm,median,min,max\n");
  Device<unsigned> out(16 * kRounds);
  Device<unsigned> loads(16 * 20);
  Device<unsigned> atoms(16 * 20);
  Device<unsigned> sms(16);
  for (const int size : {2, 4, 8, 16}) {
    for (unsigned from = 0; from < static_cast<unsigned>(size); from += 1) {
      std::vector<unsigned> at(16);
      const auto row = [&](const char* what, unsigned to, const std::vector<double>& values) {
        file.print("%s,%d,%u,%u,%u,%u,%.0f,%.0f,%.0f\n", what, size, from, to, at[from], at[to], median(values),
                   minimum(values), *std::max_element(values.begin(), values.end()));
      };
      part("remote", [&] {
        launch(remote, size, 64, size, from, loads.get(), atoms.get(), sms.get());
        at = sms.read(16);
        const auto l = loads.read(16 * 20);
        const auto a = atoms.read(16 * 20);
        for (unsigned to = 0; to < static_cast<unsigned>(size); ++to) {
          row("load", to, doubles(l, to * 20 + 1, to * 20 + 20));
          row("atomic", to, doubles(a, to * 20 + 1, to * 20 + 20));
        }
      });
      if (from != 0 && from != static_cast<unsigned>(size) - 1) continue;
      void (*const kernels[])(unsigned, unsigned*) = {ping<kArrive>, ping<kFlag>, ping<kAsync>};
      for (int signal = 0; signal < kSignals; ++signal) {
        part(kSignal[signal], [&] {
          launch(kernels[signal], size, 64, size, from, out.get());
          const auto values = out.read(16 * kRounds);
          for (unsigned to = 0; to < static_cast<unsigned>(size); ++to) {
            row(kSignal[signal], to, doubles(values, to * kRounds + 8, (to + 1) * kRounds));
          }
        });
      }
    }
  }
}

// ---- cluster barrier with one late CTA ----

constexpr int kTries = 24;

struct Pass {
  u64 arrival, release;
};

// All CTAs agree on a start (the SMs of a GPC have the same clock), CTA `late` waits `skew` cycles more.
__global__ void __launch_bounds__(1024, 1) skewed(unsigned late, unsigned skew, bool relaxed, Pass* passes) {
  __shared__ u64 start;
  const unsigned rank = cluster_rank();
  const unsigned size = cluster_size();
  for (int i = 0; i < kTries; ++i) {
    cluster_sync();
    if (rank == 0 && threadIdx.x < size) {
      const u64 agreed = __shfl_sync(__activemask(), clock_now() + 3000, 0);
      asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(of_rank(own_address(&start), threadIdx.x)), "l"(agreed)
                   : "memory");
    }
    __syncthreads();
    cluster_sync();
    const u64 until = start + (rank == late ? skew : 0);
    __syncthreads();
    while (clock_now() < until) {
    }
    __syncwarp();
    const u64 arrival = clock_now();
    if (relaxed) {
      asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    } else {
      arrive();
    }
    wait();
    const u64 release = clock_now();
    if (threadIdx.x == blockDim.x - 1) passes[rank * kTries + static_cast<unsigned>(i)] = {arrival, release};
    __syncthreads();
  }
}

void barrier_part(const std::string& folder) {
  File file(folder + "/dsmem_barrier.csv");
  file.print(
      "size,threads,arrive,late,skew,skew_seen,others_median,others_min,others_max,itself_median,"
      "itself_min,itself_max,first_wait\n");
  Device<Pass> passes(16 * kTries);
  const std::vector<unsigned> skews = {0,   10,  20,  30,  40,  50,  60,  80,  100, 125,  150,  175,
                                       200, 225, 250, 275, 300, 350, 400, 500, 750, 1000, 1500, 2000};
  const auto one = [&](int size, int threads, bool relaxed, unsigned late, unsigned skew) {
    part("barrier", [&] {
      launch(skewed, size, threads, size, late, skew, relaxed, passes.get());
      const auto read = passes.read(16 * kTries);
      std::vector<double> others;
      std::vector<double> itself;
      std::vector<double> seen;
      std::vector<double> first;
      for (size_t i = 4; i < kTries; ++i) {
        const Pass& last = read[late * kTries + i];
        u64 earliest = ~0ULL;
        for (unsigned rank = 0; rank < static_cast<unsigned>(size); ++rank) {
          const Pass& pass = read[rank * kTries + i];
          if (rank == late) continue;
          earliest = std::min(earliest, pass.arrival);
          others.push_back(static_cast<double>(static_cast<long long>(pass.release - last.arrival)));
          first.push_back(static_cast<double>(static_cast<long long>(pass.release - pass.arrival)));
        }
        itself.push_back(static_cast<double>(static_cast<long long>(last.release - last.arrival)));
        seen.push_back(static_cast<double>(static_cast<long long>(last.arrival - earliest)));
      }
      file.print("%d,%d,%s,%u,%u,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%.0f\n", size, threads,
                 relaxed ? "relaxed" : "release", late, skew, median(seen), median(others), minimum(others),
                 *std::max_element(others.begin(), others.end()), median(itself), minimum(itself),
                 *std::max_element(itself.begin(), itself.end()), median(first));
    });
  };
  for (const int size : {2, 4, 8, 16}) {
    for (const unsigned skew : skews) {
      one(size, 32, false, 0, skew);
      one(size, 32, false, static_cast<unsigned>(size) - 1, skew);
    }
    for (const unsigned skew : {0U, 100U, 200U, 400U, 1000U, 2000U}) {
      one(size, 32, true, 0, skew);
      one(size, 128, false, 0, skew);
      one(size, 1024, false, 0, skew);
      one(size, 1024, true, 0, skew);
    }
    for (unsigned late = 1; late + 1 < static_cast<unsigned>(size); ++late) one(size, 32, false, late, 1000);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::printf("usage: dsmem bandwidth|latency|barrier FOLDER\n");
    return 2;
  }
  const std::string name = arguments[1];
  const std::string folder = arguments[2];
  return part(name.c_str(), [&] {
    cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    std::printf("%s\n", properties.name);
    warm_up(50);
    if (name == "bandwidth")
      bandwidth_part(folder);
    else if (name == "latency")
      latency_part(folder);
    else if (name == "barrier")
      barrier_part(folder);
    else
      throw std::runtime_error("no such part");
  });
}
