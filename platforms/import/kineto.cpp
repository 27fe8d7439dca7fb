#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "import/byte_source.h"
#include "import/dependencies.h"
#include "import/kineto_json.h"
#include "import/kineto_tables.h"
#include "import/recordings.h"

namespace heddle::import {

using namespace workload;
namespace {

constexpr Nanoseconds kWholeMicroseconds = 1'000;
constexpr std::uint32_t kWavefront = 64;        // of AMD's GPUs for computing
constexpr std::uint32_t kAssumedThreads = 256;  // of a kernel without grid (INP-04): the common block size

// The operations of one device become a workload.
class KinetoBuilder {
 public:
  // `alone`: no other device has operations.
  KinetoBuilder(KinetoTables& tables, const ByteSource& source, int device, bool alone, std::vector<std::size_t> ops,
                std::string name)
      : tables_(tables),
        source_(source),
        device_(device),
        alone_(alone),
        order_(std::move(ops)),
        stream_of_(tables.streams.size()) {
    workload_.name = std::move(name);
    workload_.format = "kineto";
  }

  Workload build() {
    // Launch order decides between equal starts: with whole microseconds the second of two short operations of a
    // stream often has the start of the first.
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      const KinetoOp& left = tables_.ops[a];
      const KinetoOp& right = tables_.ops[b];
      return std::tie(left.start, left.correlation, a) < std::tie(right.start, right.correlation, b);
    });
    origin_ = tables_.ops[order_.front()].start;
    workload_.origin = origin_;
    workload_.timings.resolution = tables_.whole_microseconds ? kWholeMicroseconds : 1;
    describe_device();
    std::vector<HostMoment> launches;
    std::vector<std::optional<KinetoOperators::Index>> operators;
    launches.reserve(order_.size());
    operators.reserve(order_.size());
    workload_.ops.reserve(order_.size());
    for (const std::size_t index : order_) {
      KinetoOp& op = tables_.ops[index];
      const KinetoCall* call = tables_.call(op.correlation);
      launches.push_back(call != nullptr ? HostMoment{relative(op, call->begin), call->correlation} : HostMoment{});
      operators.push_back(operator_of(op, call));
      workload_.ops.push_back(convert(op, call));
    }
    tables_.operators.fill(workload_, operators, source_);
    tables_.ranges.fill(workload_, range_launches());
    form_graphs(workload_, graph_launches());
    if (assumed_ > 0) {
      workload_.warnings.push_back(
          fmt::format("{} of {} kernels have no grid in the recording; each is taken as {} CTAs of {} threads, one per "
                      "SM of the recorded machine.",
                      assumed_, workload_.kernels(), workload_.device.sms, kAssumedThreads));
    }
    const std::vector<StreamWait> waits = link_waits();
    derive_dependencies(workload_, launches, waits);
    return std::move(workload_);
  }

 private:
  void describe_device() {
    std::optional<DeviceInfo> info = tables_.device(device_);
    // Where a process sees some of a system's devices only, its table counts those, and the events all.
    if (!info && alone_) {
      info = tables_.only_device();
      if (info) {
        workload_.warnings.push_back(
            fmt::format("The operations are of device {}, and the only device that the recording describes is {} ({}): "
                        "they are taken for the same.",
                        device_, info->id, info->name));
      }
    }
    if (info) workload_.device = *info;
    workload_.device.id = device_;
    const auto of_hip = [this](std::size_t index) {
      const KinetoCall* call = tables_.call(tables_.ops[index].correlation);
      return call != nullptr && call->hip;
    };
    // It tells at least whose GPU it is.
    if (!info && std::any_of(order_.begin(), order_.end(), of_hip)) workload_.device.warp_size = kWavefront;
    if (workload_.device.sms == 0) {
      workload_.warnings.push_back(
          fmt::format("The recording does not say how many SMs device {} has (deviceProperties); the machine cannot "
                      "follow from it.",
                      device_));
    }
  }

  // Relative to the first operation of the device. The bound keeps every sum of times within 64 bits.
  Nanoseconds relative(const KinetoOp& op, Nanoseconds time) const {
    const Nanoseconds result = time - origin_;
    if (result > kMaxRecordedSpan || result < -kMaxRecordedSpan) {
      tables_.fail(op.place, op.name,
                   fmt::format("its time or that of its launch call lies {} s from the first operation of device {}",
                               result / 1'000'000'000, device_),
                   "The recording mixes clocks: record it again, or remove the event from the file.");
    }
    return result;
  }

  // What a graph launches is not the work of the operator around its launch.
  std::optional<KinetoOperators::Index> operator_of(const KinetoOp& op, const KinetoCall* call) const {
    if (call != nullptr && call->graph) return std::nullopt;
    const std::uint64_t number = call != nullptr && call->external != 0 ? call->external : op.external;
    const auto numbered = tables_.operators.numbered(number);
    if (numbered || call == nullptr) return numbered;
    return tables_.operators.running(call->thread, call->begin);
  }

  std::size_t stream(std::size_t file_stream) {
    std::optional<std::size_t>& index = stream_of_[file_stream];
    if (!index) {
      index = workload_.streams.size();
      workload_.streams.push_back({tables_.streams[file_stream], 0});
    }
    return *index;
  }

  Op convert(KinetoOp& from, const KinetoCall* call) {
    Op op;
    op.kind = from.kind;
    op.stream = stream(from.stream);
    if (call != nullptr) op.enqueue = relative(from, call->begin);
    op.recorded = Recorded{relative(from, from.start), from.duration, -1.0, false};
    if (from.kind == OpKind::kernel) {
      op.recorded->occupancy_percent = static_cast<double>(from.occupancy);
      op.kernel.registers_per_thread = from.registers;
      shape(from, call, op);
      if (const Communication* its = tables_.communication(from, call)) op.communication = *its;
      op.kernel.cooperative = call != nullptr && call->cooperative && !op.grid_assumed;
    } else {
      op.bytes = from.bytes;
      op.duration = from.duration;  // INP-11
      op.direction = direction_of(from.name);
    }
    op.kernel.name = std::move(from.name);
    return op;
  }

  void shape(const KinetoOp& from, const KinetoCall* call, Op& op) {
    const KinetoDims* with_call = call != nullptr && call->dims > 0 ? &tables_.dims[call->dims - 1] : nullptr;
    op.kernel.shared_bytes = from.shared.value_or(with_call != nullptr ? with_call->shared.value_or(0) : 0);
    if (!from.has_grid && with_call == nullptr) {
      if (workload_.device.sms == 0) {
        tables_.fail(from.place, from.name, "has no grid, and the recording does not say how many SMs its device has",
                     "Record it with a profiler that writes deviceProperties, or add them: "
                     "\"deviceProperties\": [{\"id\": ..., \"numSms\": ...}].");
      }
      op.grid_assumed = true;
      op.kernel.grid.x = workload_.device.sms;
      op.kernel.block.x = kAssumedThreads;
      ++assumed_;
      return;
    }
    KinetoExtents grid = from.has_grid ? from.grid : with_call->grid;
    const KinetoExtents& block = from.has_grid ? from.block : with_call->block;
    if (call != nullptr && call->work_items) {
      for (std::size_t i = 0; i < grid.size(); ++i) grid[i] = (grid[i] - 1) / block[i] + 1;  // INP-04
    }
    op.kernel.grid = {grid[0], grid[1], grid[2]};
    op.kernel.block = {block[0], block[1], block[2]};
    check_limits(from, call, op.kernel);
  }

  void check_limits(const KinetoOp& from, const KinetoCall* call, const arch::KernelRecord& kernel) const {
    const arch::Dim3& grid = kernel.grid;
    const auto text = [](const arch::Dim3& dim) { return fmt::format("[{}, {}, {}]", dim.x, dim.y, dim.z); };
    const std::uint64_t threads = std::max<std::uint64_t>(workload_.device.max_threads_per_cta, 1'024);
    if (kernel.block.count() > threads) {
      tables_.fail(
          from.place, from.name,
          fmt::format("\"block\" is {}: {} threads, of at most {}", text(kernel.block), kernel.block.count(), threads));
    }
    // ROCm counts in 32 bits in every direction; CUDA's y and z have 16 (CWD-40).
    const bool amd = (call != nullptr && call->hip) || workload_.device.warp_size == 64 ||
                     workload_.device.name.find("AMD") != std::string::npos;
    if (!amd && (grid.x > arch::kMaxGridX || grid.y > arch::kMaxGridY || grid.z > arch::kMaxGridZ)) {
      tables_.fail(from.place, from.name,
                   fmt::format("\"grid\" is {}, of at most [{}, {}, {}]", text(grid), arch::kMaxGridX, arch::kMaxGridY,
                               arch::kMaxGridZ));
    }
    const std::uint64_t plane = std::uint64_t{grid.x} * grid.y;
    if (plane > kMaxRecordedCtas || plane > kMaxRecordedCtas / grid.z) {
      tables_.fail(from.place, from.name, fmt::format("\"grid\" is {}: more than 2^48 CTAs", text(grid)));
    }
  }

  std::vector<NamedRanges::Launch> range_launches() const {
    std::vector<NamedRanges::Launch> launches;
    if (tables_.ranges.empty()) return launches;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const KinetoCall* call = tables_.call(tables_.ops[order_[i]].correlation);
      if (call != nullptr) launches.push_back({i, call->thread, call->begin});
    }
    return launches;
  }

  // By operation: the number of the graph launch that it is of. A call that is not recorded was one if it launched
  // several operations.
  std::vector<std::uint64_t> graph_launches() const {
    std::unordered_map<std::uint64_t, std::size_t> launched;
    for (const std::size_t index : order_) ++launched[tables_.ops[index].correlation];
    std::vector<std::uint64_t> launches;
    launches.reserve(order_.size());
    for (const std::size_t index : order_) {
      const std::uint64_t correlation = tables_.ops[index].correlation;
      const KinetoCall* call = tables_.call(correlation);
      const bool graph = call != nullptr ? call->graph : correlation != 0 && launched[correlation] > 1;
      launches.push_back(graph ? correlation : 0);
    }
    return launches;
  }

  // INP-02: the event was recorded by one host call and is waited for by another; both have their own correlation.
  std::vector<StreamWait> link_waits() {
    std::vector<StreamWait> waits;
    std::size_t unlinked = 0;
    for (const KinetoWait& wait : tables_.waits) {
      if (wait.device != device_) continue;
      const std::optional<std::size_t> waiting = stream_of_[wait.waiting];
      const std::optional<std::size_t> source = stream_of_[wait.source];
      if (!waiting || !source) continue;  // no operation of the recording on it
      const KinetoCall* record = tables_.call(wait.record_correlation);
      if (record == nullptr) {
        ++unlinked;
        continue;
      }
      const KinetoCall* call = tables_.call(wait.correlation);
      const Nanoseconds called = call != nullptr ? call->begin : wait.begin;
      // Times beyond the span of the operations cannot be before or after them in a meaningful way: clamp, do not wrap.
      const auto bounded = [this](Nanoseconds time) {
        return std::clamp(time, origin_ - kMaxRecordedSpan, origin_ + kMaxRecordedSpan) - origin_;
      };
      waits.push_back(
          {*waiting, {bounded(called), wait.correlation}, *source, {bounded(record->begin), record->correlation}});
    }
    if (unlinked > 0) {
      workload_.warnings.push_back(fmt::format(
          "{} stream waits name an event that was recorded before the recording began; they were ignored.", unlinked));
    }
    return waits;
  }

  KinetoTables& tables_;
  const ByteSource& source_;
  int device_;
  bool alone_;
  std::vector<std::size_t> order_;
  std::vector<std::optional<std::size_t>> stream_of_;  // by stream of the file: index into Workload::streams
  Workload workload_;
  Nanoseconds origin_ = 0;
  std::size_t assumed_ = 0;
};

std::vector<Workload> kineto_from(ByteSource& source, const std::string& name) {
  KinetoTables tables(source);
  read_kineto_json(source, tables);
  tables.finish();
  const bool any =
      std::any_of(tables.ops.begin(), tables.ops.end(), [](const KinetoOp& op) { return op.kind == OpKind::kernel; });
  if (!any) {
    throw InputError({source.name()},
                     fmt::format("{}: the trace has no GPU kernel", source.position_text(source.position())),
                     "Record with ProfilerActivity.CUDA among the activities, around code that runs on the GPU.");
  }
  std::map<int, std::vector<std::size_t>> by_device;
  for (std::size_t i = 0; i < tables.ops.size(); ++i) by_device[tables.ops[i].device].push_back(i);
  std::vector<Workload> workloads;
  for (auto& [device, ops] : by_device) {
    workloads.push_back(KinetoBuilder(tables, source, device, by_device.size() == 1, std::move(ops), name).build());
  }
  return workloads;
}

}  // namespace

bool looks_like_kineto(const std::string& path) {
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  constexpr std::string_view kSpace = " \t\r\n";
  constexpr int kMostSpace = 4096;
  const auto next = [&](std::string_view skipped) {
    for (int i = 0; i < kMostSpace; ++i) {
      const int c = source->sbumpc();
      if (c == std::streambuf::traits_type::eof()) return '\0';
      if (skipped.find(static_cast<char>(c)) == std::string_view::npos) return static_cast<char>(c);
    }
    return '\0';
  };
  if (next(std::string(kSpace) + std::string(kByteOrderMark)) != '{') return false;
  const char inside = next(kSpace);
  return inside == '"' || inside == '}' || inside == '\0';
}

std::vector<Workload> import_kineto(const std::string& path) {
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  return kineto_from(*source, std::filesystem::path(path).filename().string());
}

std::vector<Workload> import_kineto(std::istream& stream, const std::string& name) {
  const std::unique_ptr<ByteSource> source = stream_bytes(stream, name);
  return kineto_from(*source, name);
}

}  // namespace heddle::import
