// What both programs share: checked calls, clocks, the kernel that stays, and the straight line from an SM's clock to
// the common timer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <stdexcept>
#include <string>
#include <vector>

#define CHECK(call)                                                                                     \
  do {                                                                                                  \
    const cudaError_t check_error = (call);                                                             \
    if (check_error != cudaSuccess) {                                                                   \
      throw std::runtime_error(std::string(#call) + " at line " + std::to_string(__LINE__) + ": " +     \
                               cudaGetErrorName(check_error) + ", " + cudaGetErrorString(check_error)); \
    }                                                                                                   \
  } while (false)

using u64 = unsigned long long;

__device__ __forceinline__ u64 clock_now() {
  u64 value;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(value)::"memory");
  return value;
}

__device__ __forceinline__ u64 timer_now() {
  u64 value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
  return value;
}

__device__ __forceinline__ unsigned sm_id() {
  unsigned value;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(value));
  return value;
}

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned value;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
  return value;
}

// Device memory of `count` objects.
template <typename T>
class Device {
 public:
  explicit Device(size_t count) : count_(count) {
    CHECK(cudaMalloc(&data_, count * sizeof(T)));
    clear();
  }
  ~Device() { cudaFree(data_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  T* get() const { return data_; }
  void clear() { CHECK(cudaMemset(data_, 0, count_ * sizeof(T))); }
  std::vector<T> read(size_t count) const {
    std::vector<T> host(count);
    CHECK(cudaMemcpy(host.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

class File {
 public:
  explicit File(const std::string& path) : file_(std::fopen(path.c_str(), "w")) {
    if (file_ == nullptr) throw std::runtime_error("cannot write " + path);
  }
  ~File() { std::fclose(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  void print(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(file_, format, arguments);
    va_end(arguments);
  }

 private:
  std::FILE* file_;
};

inline double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

inline double minimum(const std::vector<double>& values) {
  return values.empty() ? NAN : *std::min_element(values.begin(), values.end());
}

inline double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? NAN : sum / static_cast<double>(values.size());
}

constexpr int kEdges = 48;            // steps of the timer that a CTA notes
constexpr unsigned kEdgePause = 800;  // cycles at least between two of them

struct Stay {
  u64 clock;        // at the first instruction
  u64 timer;        // just after
  unsigned length;  // cycles until the last instruction
  unsigned sm;
  unsigned rank;
  unsigned edges;
};

// The timer stepped to `timer` between the clock's `before` and `after`; all relative to the CTA's start.
struct Edge {
  unsigned before;
  unsigned after;
  unsigned timer;
};

// Notes when and where it starts, and stays for `cycles`. Meanwhile it watches the timer.
__global__ void __launch_bounds__(1024, 2) stay(Stay* stays, Edge* edges, unsigned cycles) {
  const u64 clock = clock_now();
  const u64 timer = timer_now();
  if (threadIdx.x == 0) {
    Edge* const mine = edges + static_cast<size_t>(blockIdx.x) * kEdges;
    u64 seen = timer;
    unsigned before = 0;
    unsigned after = 0;
    unsigned noted = 0;
    unsigned count = 0;
    do {
      const u64 now = timer_now();
      after = static_cast<unsigned>(clock_now() - clock);
      if (now != seen) {
        if (count < kEdges && after - noted >= kEdgePause) {
          mine[count] = {before, after, static_cast<unsigned>(now - timer)};
          noted = after;
          ++count;
        }
        seen = now;
      }
      before = after;
    } while (after < cycles);
    stays[blockIdx.x] = {clock, timer, after, sm_id(), cluster_rank(), count};
  }
  __syncthreads();
}

// timer = origin_timer + offset + slope × (clock − origin_clock), for one SM and one launch.
struct Line {
  u64 origin_clock = 0;
  u64 origin_timer = 0;
  double offset = 0;
  double slope = 0;  // ns per cycle
  double residual = 0;
  int points = 0;
  bool valid() const { return points >= 4; }
  // ns after `zero`
  double at(u64 clock, u64 zero) const {
    return static_cast<double>(static_cast<long long>(origin_timer - zero)) + offset +
           slope * static_cast<double>(static_cast<long long>(clock - origin_clock));
  }
};

struct Point {
  u64 clock;
  u64 timer;
  double middle;   // cycles after clock: the middle of the two reads
  unsigned width;  // cycles between them
};

inline Line fit(const std::vector<Point>& points) {
  Line line;
  if (points.size() < 4) return line;
  line.origin_clock = points.front().clock;
  line.origin_timer = points.front().timer;
  double sx = 0;
  double sy = 0;
  const double n = static_cast<double>(points.size());
  std::vector<double> x;
  std::vector<double> y;
  for (const Point& point : points) {
    x.push_back(static_cast<double>(static_cast<long long>(point.clock - line.origin_clock)) + point.middle);
    y.push_back(static_cast<double>(static_cast<long long>(point.timer - line.origin_timer)));
    sx += x.back();
    sy += y.back();
  }
  double sxx = 0;
  double sxy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    sxx += (x[i] - sx / n) * (x[i] - sx / n);
    sxy += (x[i] - sx / n) * (y[i] - sy / n);
  }
  if (sxx == 0) return line;
  line.slope = sxy / sxx;
  line.offset = sy / n - line.slope * sx / n;
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double error = y[i] - line.offset - line.slope * x[i];
    squares += error * error;
  }
  line.residual = std::sqrt(squares / n);
  line.points = static_cast<int>(x.size());
  return line;
}

inline std::vector<Line> fit_sms(const std::vector<Stay>& stays, const std::vector<Edge>& edges, int sms) {
  std::vector<std::vector<Point>> points(static_cast<size_t>(sms));
  for (size_t cta = 0; cta < stays.size(); ++cta) {
    const Stay& start = stays[cta];
    if (start.sm >= static_cast<unsigned>(sms)) continue;
    for (unsigned i = 0; i < start.edges && i < kEdges; ++i) {
      const Edge& edge = edges[cta * kEdges + i];
      points[start.sm].push_back(
          {start.clock, start.timer + edge.timer, (edge.before + edge.after) / 2.0, edge.after - edge.before});
    }
  }
  std::vector<Line> lines;
  for (auto& of_sm : points) {
    unsigned least = ~0U;
    for (const Point& point : of_sm) least = std::min(least, point.width);
    const auto wide = [least](const Point& point) { return point.width > least + least / 2 + 8; };
    of_sm.erase(std::remove_if(of_sm.begin(), of_sm.end(), wide), of_sm.end());
    lines.push_back(fit(of_sm));
  }
  return lines;
}

inline void warm_up(double milliseconds) {
  Device<Stay> stays(132 * 4);
  Device<Edge> edges(132 * 4 * kEdges);
  for (double done = 0; done < milliseconds; done += 1) stay<<<132, 256>>>(stays.get(), edges.get(), 1800000);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

template <typename F>
int part(const char* name, F&& body) {
  try {
    body();
    std::printf("part %s: done\n", name);
    std::fflush(stdout);
    return 0;
  } catch (const std::exception& error) {
    std::printf("part %s: FAILED: %s\n", name, error.what());
    std::fflush(stdout);
    return 1;
  }
}
