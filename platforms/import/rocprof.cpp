#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "import/byte_source.h"
#include "import/dependencies.h"
#include "import/recordings.h"
#include "import/rocprof_table.h"

namespace heddle::import {

using namespace workload;
namespace {

// The dispatches of one agent become a workload.
class Builder {
 public:
  Builder(std::vector<RocprofDispatch>& dispatches, std::vector<std::size_t> order, std::string file, std::string name)
      : dispatches_(dispatches), order_(std::move(order)), file_(std::move(file)) {
    workload_.name = std::move(name);
    workload_.format = "rocprof";
    workload_.device.id = dispatches_[order_.front()].agent;
    workload_.device.warp_size = 64;  // rocprofv3 is for AMD's; the preset says what it really is
  }

  Workload build() {
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      const RocprofDispatch& left = dispatches_[a];
      const RocprofDispatch& right = dispatches_[b];
      return std::tie(left.start, left.order, a) < std::tie(right.start, right.order, b);
    });
    origin_ = dispatches_[order_.front()].start;
    workload_.ops.reserve(order_.size());
    for (const std::size_t index : order_) workload_.ops.push_back(convert(dispatches_[index]));
    workload_.warnings.push_back(
        fmt::format("The recording does not say what device {} is; durations are fitted to the chosen machine.",
                    workload_.device.id));
    if (overlapping_ > 0) {
      workload_.warnings.push_back(
          fmt::format("{} kernels start before the previous one of their queue has ended, by {} ns at most; a replay "
                      "runs the kernels of a queue one after another.",
                      overlapping_, longest_overlap_));
    }
    derive_dependencies(workload_, std::vector<HostMoment>(workload_.ops.size()), {});
    measure_gap();
    return std::move(workload_);
  }

 private:
  Op convert(RocprofDispatch& from) {
    // The bound keeps every sum of times within 64 bits.
    if (from.start - origin_ > kMaxRecordedSpan) {
      throw InputError({file_, static_cast<int>(from.line)},
                       fmt::format("it starts {} s after the first kernel of agent {}",
                                   (from.start - origin_) / 1'000'000'000, from.agent),
                       "The recording mixes clocks: record it again.");
    }
    Op op;
    op.stream = stream(from);
    op.recorded = Recorded{from.start - origin_, from.end - from.start, -1.0, false};
    static_cast<arch::KernelShape&>(op.kernel) = from.kernel;
    op.kernel.name = std::move(from.name);
    return op;
  }

  std::size_t stream(const RocprofDispatch& from) {
    const auto [at, added] = streams_.emplace(from.queue, workload_.streams.size());
    if (added) {
      workload_.streams.push_back({std::to_string(from.queue), 0});
      ends_.push_back(from.end);
      return at->second;
    }
    Nanoseconds& end = ends_[at->second];
    gaps_.push_back(from.start - end);
    if (from.start < end) {
      ++overlapping_;
      longest_overlap_ = std::max(longest_overlap_, end - from.start);
    }
    end = std::max(end, from.end);
    return at->second;
  }

  // Which kernels waited for their predecessor is not recorded; those with the shortest gaps did. Too short a gap is
  // harmless: no kernel starts before its recorded start.
  void measure_gap() {
    if (gaps_.empty()) return;
    const auto quartile = gaps_.begin() + static_cast<std::ptrdiff_t>((gaps_.size() - 1) / 4);
    std::nth_element(gaps_.begin(), quartile, gaps_.end());
    workload_.timings.stream_gap = std::max<Nanoseconds>(*quartile, 0);
  }

  std::vector<RocprofDispatch>& dispatches_;
  std::vector<std::size_t> order_;
  std::string file_;
  std::unordered_map<std::uint64_t, std::size_t> streams_;  // by queue: index into Workload::streams
  std::vector<Nanoseconds> ends_;                           // latest so far, by stream
  std::vector<Nanoseconds> gaps_;                           // between kernels of a queue
  std::size_t overlapping_ = 0;
  Nanoseconds longest_overlap_ = 0;
  Workload workload_;
  Nanoseconds origin_ = 0;
};

std::vector<Workload> import_from(ByteSource& source, const std::string& name) {
  RocprofTable table(source);
  std::map<int, std::vector<std::size_t>> by_agent;
  for (std::size_t i = 0; i < table.dispatches.size(); ++i) by_agent[table.dispatches[i].agent].push_back(i);
  std::vector<Workload> workloads;
  for (auto& [agent, order] : by_agent) {
    workloads.push_back(Builder(table.dispatches, std::move(order), source.name(), name).build());
  }
  return workloads;
}

}  // namespace

bool looks_like_rocprof(const std::string& path) {
  constexpr std::size_t kLongestHeader = 4096;
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  std::string line;
  while (line.size() < kLongestHeader) {
    const int byte = source->sbumpc();
    if (byte == std::streambuf::traits_type::eof() || byte == '\n') break;
    line.push_back(static_cast<char>(byte));
  }
  return is_rocprof_header(line);
}

std::vector<Workload> import_rocprof(const std::string& path) {
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  return import_from(*source, std::filesystem::path(path).filename().string());
}

std::vector<Workload> import_rocprof(std::istream& stream, const std::string& name) {
  const std::unique_ptr<ByteSource> source = stream_bytes(stream, name);
  return import_from(*source, name);
}

}  // namespace heddle::import
