#include "import/nsys_tables.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "import/dependencies.h"
#include "import/kineto_json.h"

namespace heddle::import {

using namespace workload;
namespace {

constexpr const char* kKernels = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr const char* kCopies = "CUPTI_ACTIVITY_KIND_MEMCPY";
constexpr const char* kFills = "CUPTI_ACTIVITY_KIND_MEMSET";
constexpr const char* kCallTables = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* kWholeGraphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
constexpr const char* kStrings = "StringIds";
constexpr const char* kVersion = "META_DATA_EXPORT";
constexpr const char* kGpus = "TARGET_INFO_GPU";
constexpr const char* kCudaDevices = "TARGET_INFO_CUDA_DEVICE";

constexpr int kSchemaMajor = 3;
constexpr std::uint8_t kFirstUnifiedMemory = 11;  // ENUM_CUDA_MEMCPY_OPER: migrations of pages, in no stream
constexpr std::uint8_t kLastUnifiedMemory = 13;
constexpr std::int64_t kLoadBalancingPolicy = 2;   // cudaClusterSchedulingPolicyLoadBalancing
constexpr std::int64_t kCooperative = 2;           // ENUM_CUDA_KERNEL_LAUNCH_TYPE, here and below
constexpr std::int64_t kCooperativeOnSeveral = 3;  // devices

constexpr const char* kRecordKernels = "Record with `nsys profile --trace=cuda`, around code that runs on the GPU.";

// What kernels, copies and fills have in common: the first columns of each of their lists.
enum Common : std::size_t {
  kStart,
  kEnd,
  kDevice,
  kContext,
  kStream,
  kCorrelation,
  kGlobalPid,
  kGraphNode,
  kCommonColumns
};

std::vector<NsysScan::Column> with_common(std::initializer_list<NsysScan::Column> more) {
  std::vector<NsysScan::Column> columns = {{"start", true},      {"end", true},         {"deviceId", true},
                                           {"contextId", true},  {"streamId", true},    {"correlationId", false},
                                           {"globalPid", false}, {"graphNodeId", false}};
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

NsysOp read_common(const NsysScan& scan) {
  NsysOp op;
  op.row = scan.row();
  op.start = scan.integer(kStart, -kMaxNsysTime, kMaxNsysTime);
  op.duration = scan.integer(kEnd, -kMaxNsysTime, kMaxNsysTime) - op.start;
  if (op.duration < 0) {
    scan.fail(fmt::format("it ends {} ns before it starts", -op.duration));
  }
  if (op.duration > kMaxRecordedDuration) {
    scan.fail(fmt::format("it lasts {} s", op.duration / 1'000'000'000));
  }
  const std::int64_t process = nsys_process(scan.integer_or(kGlobalPid, 0, 0, kAnyNsysId));
  op.stream = {process, scan.integer(kContext, 0, kMaxNsysId), scan.integer(kStream, 0, kMaxNsysId)};
  op.call = {process, scan.integer_or(kCorrelation, 0, 0, kAnyNsysId)};
  op.of_graph = op.call.correlation != 0 && scan.integer_or(kGraphNode, 0, 0, kAnyNsysId) != 0;
  return op;
}

arch::Dim3 read_extents(const NsysScan& scan, std::size_t first, const arch::Dim3& max) {
  const auto extent = [&](std::size_t column, std::uint32_t most) {
    return static_cast<std::uint32_t>(scan.integer(column, 1, most));
  };
  return {extent(first, max.x), extent(first + 1, max.y), extent(first + 2, max.z)};
}

}  // namespace

NsysTables::NsysTables(const NsysDatabase& database) : database_(database) {
  check_version();
  read_device_numbers();
  read_kernels();
  read_names();
  read_copies();
  read_fills();
  host_.emplace(database, ops);
  read_devices();
  note_graphs();
}

void NsysTables::check_version() {
  if (!database_.has_table(kKernels)) {
    const bool nsys =
        database_.has_table(kVersion) || database_.has_table(kStrings) || database_.has_table(kCallTables);
    throw InputError(
        {database_.name()},
        nsys ? fmt::format("the recording has no kernels: there is no table {}", kKernels)
             : fmt::format("is a SQLite database, but no export of Nsight Systems: there is no table {}", kKernels),
        kRecordKernels);
  }
  std::string version;
  if (database_.has_table(kVersion)) {
    NsysScan scan(database_, kVersion, {{"name", true}, {"value", true}});
    while (scan.next()) {
      if (scan.present(0) && scan.present(1) && scan.text(0) == "EXPORT_SCHEMA_VERSION") version = scan.text(1);
    }
  }
  if (version.empty()) {
    warnings.push_back(fmt::format("The export does not say the version of its schema ({}); it is read as {}.x.",
                                   kVersion, kSchemaMajor));
    return;
  }
  int major = -1;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), major);
  if (error == std::errc() && major == kSchemaMajor && (end == version.data() + version.size() || *end == '.')) return;
  throw InputError(
      {database_.name()},
      fmt::format("{}: the schema has version {}, expected {}.x", kVersion, printable(version, 40), kSchemaMajor),
      "Export the recording with Nsight Systems 2022.1 or later: nsys export --type sqlite.");
}

void NsysTables::read_device_numbers() {
  if (!database_.has_table(kCudaDevices)) return;
  enum : std::size_t { kGpu, kCuda, kPid };
  NsysScan scan(database_, kCudaDevices, {{"gpuId", false}, {"cudaId", false}, {"pid", false}});
  constexpr auto kMost = static_cast<std::int64_t>(kMaxRecordedDevice);
  while (scan.next()) {
    if (!scan.present(kGpu) || !scan.present(kCuda) || !scan.present(kPid)) continue;
    gpu_of_[{scan.integer(kPid), scan.integer(kCuda, 0, kMost)}] = static_cast<int>(scan.integer(kGpu, 0, kMost));
  }
}

int NsysTables::device_of(Process process, std::int64_t device) const {
  const auto gpu = gpu_of_.find({nsys_pid(process), device});
  return gpu != gpu_of_.end() ? gpu->second : static_cast<int>(device);
}

void NsysTables::read_kernels() {
  enum : std::size_t {
    kDemangled = kCommonColumns,
    kShort,
    kRegisters,
    kGrid,
    kBlock = kGrid + 3,
    kStatic = kBlock + 3,
    kDynamic,
    kLocal,
    kCluster,
    kPolicy = kCluster + 3,
    kActive,
    kLaunch,
  };
  NsysScan scan(database_, kKernels,
                with_common({{"demangledName", false},
                             {"shortName", false},
                             {"registersPerThread", false},
                             {"gridX", true},
                             {"gridY", true},
                             {"gridZ", true},
                             {"blockX", true},
                             {"blockY", true},
                             {"blockZ", true},
                             {"staticSharedMemory", false},
                             {"dynamicSharedMemory", false},
                             {"localMemoryPerThread", false},
                             {"clusterX", false},
                             {"clusterY", false},
                             {"clusterZ", false},
                             {"clusterSchedulingPolicy", false},
                             {"maxActiveClusters", false},
                             {"launchType", false}}));
  constexpr auto kMaxShared = static_cast<std::int64_t>(kMaxRecordedShared);
  constexpr auto kMaxBlock = static_cast<std::uint32_t>(kMaxRecordedBlock);
  while (scan.next()) {
    NsysOp op = read_common(scan);
    op.device = device_of(op.stream.process, scan.integer(kDevice, 0, static_cast<std::int64_t>(kMaxRecordedDevice)));
    op.name = scan.present(kDemangled) ? scan.integer(kDemangled) : scan.integer(kShort);
    arch::KernelShape& kernel = op.kernel;
    kernel.registers_per_thread =
        static_cast<std::uint32_t>(scan.integer_or(kRegisters, 0, 0, static_cast<std::int64_t>(kMaxRecordedRegisters)));
    kernel.grid = read_extents(scan, kGrid, {arch::kMaxGridX, arch::kMaxGridY, arch::kMaxGridZ});
    kernel.block = read_extents(scan, kBlock, {kMaxBlock, kMaxBlock, kMaxBlock});
    if (kernel.block.count() > kMaxBlock) {
      scan.fail(fmt::format("the block has {} threads, of at most {}", kernel.block.count(), kMaxBlock));
    }
    if (kernel.grid.count() > kMaxRecordedCtas) scan.fail("the grid has more than 2^48 CTAs");
    kernel.shared_bytes = static_cast<std::uint32_t>(scan.integer_or(kStatic, 0, 0, kMaxShared) +
                                                     scan.integer_or(kDynamic, 0, 0, kMaxShared));
    kernel.local_bytes =
        static_cast<std::uint32_t>(scan.integer_or(kLocal, 0, 0, static_cast<std::int64_t>(kMaxRecordedLocal)));
    const auto extent = [&](std::size_t column) {
      return static_cast<std::uint32_t>(scan.integer_or(column, 0, 0, kMaxNsysId));
    };
    const arch::Dim3 cluster{extent(kCluster), extent(kCluster + 1), extent(kCluster + 2)};
    const std::int64_t launch = scan.integer_or(kLaunch, 0, 0, kMaxNsysId);
    kernel.cooperative = launch == kCooperative || launch == kCooperativeOnSeveral;
    // A cluster of one CTA groups nothing.
    if (cluster != arch::kNoExtents && cluster != arch::Dim3{}) {
      kernel.cluster.of(arch::CgaLevel::gpc) = cluster;
      // The default policy spreads a cluster over SMs, as the spread policy says in so many words.
      const bool shares = scan.integer_or(kPolicy, 0, 0, kMaxNsysId) == kLoadBalancingPolicy;
      kernel.cluster.mode = shares ? arch::CgaMode::load_balancing : arch::CgaMode::multicast;
      const std::string wrong =
          arch::why_malformed(kernel.grid, kernel.cluster, std::numeric_limits<std::uint32_t>::max());
      if (!wrong.empty()) scan.fail("the cluster: " + wrong);
      op.max_active_clusters = static_cast<std::uint32_t>(scan.integer_or(kActive, 0, 0, kMaxNsysId));
    }
    ops.push_back(std::move(op));
  }
  if (ops.empty()) {
    throw InputError({database_.name()}, fmt::format("{}: the recording has no kernels", kKernels), kRecordKernels);
  }
}

void NsysTables::read_names() {
  for (const NsysOp& op : ops) names_.emplace(op.name, std::string());
  std::size_t found = 0;
  NsysScan scan(database_, kStrings, {{"id", true}, {"value", true}});
  while (scan.next()) {
    const auto name = names_.find(scan.integer(0));
    if (name == names_.end()) continue;
    if (!name->second.empty()) scan.fail(fmt::format("\"id\" {} stands in two rows", name->first));
    name->second = scan.text(1);
    if (name->second.empty()) scan.fail("\"value\" is empty, and a kernel has it as its name");
    ++found;
  }
  if (found == names_.size()) return;
  for (const NsysOp& op : ops) {
    if (!names_.at(op.name).empty()) continue;
    throw InputError({database_.name()},
                     fmt::format("{}: its name has the id {}, which {} does not have", place(op), op.name, kStrings),
                     kExportAgain);
  }
}

void NsysTables::read_copies() {
  if (!database_.has_table(kCopies)) return;
  enum : std::size_t { kBytes = kCommonColumns, kKind };
  std::size_t migrations = 0;
  NsysScan scan(database_, kCopies, with_common({{"bytes", true}, {"copyKind", false}}));
  while (scan.next()) {
    NsysOp op = read_common(scan);
    op.kind = OpKind::copy;
    op.device = device_of(op.stream.process, scan.integer(kDevice, 0, static_cast<std::int64_t>(kMaxRecordedDevice)));
    op.bytes = static_cast<std::uint64_t>(scan.integer(kBytes, 0, static_cast<std::int64_t>(kMaxRecordedBytes)));
    op.copy_kind = static_cast<std::uint8_t>(scan.integer_or(kKind, 0, 0, std::numeric_limits<std::uint8_t>::max()));
    if (op.copy_kind >= kFirstUnifiedMemory && op.copy_kind <= kLastUnifiedMemory) {
      ++migrations;
    } else {
      ops.push_back(std::move(op));
    }
  }
  if (migrations > 0) {
    warnings.push_back(fmt::format(
        "{} migrations of unified memory belong to no stream and were left out; kernels may have waited for them.",
        migrations));
  }
}

void NsysTables::read_fills() {
  if (!database_.has_table(kFills)) return;
  NsysScan scan(database_, kFills, with_common({{"bytes", true}}));
  while (scan.next()) {
    NsysOp op = read_common(scan);
    op.kind = OpKind::fill;
    op.device = device_of(op.stream.process, scan.integer(kDevice, 0, static_cast<std::int64_t>(kMaxRecordedDevice)));
    op.bytes =
        static_cast<std::uint64_t>(scan.integer(kCommonColumns, 0, static_cast<std::int64_t>(kMaxRecordedBytes)));
    ops.push_back(std::move(op));
  }
}

void NsysTables::read_devices() {
  if (!database_.has_table(kGpus)) return;
  enum : std::size_t {
    kId,
    kName,
    kSms,
    kWarp,
    kWarpsPerSm,
    kThreadsPerCta,
    kRegistersPerSm,
    kSharedPerSm,
    kSharedOptin,
    kSharedPerCta,
  };
  NsysScan scan(database_, kGpus,
                {{"id", true},
                 {"name", false},
                 {"smCount", false},
                 {"threadsPerWarp", false},
                 {"maxWarpsPerSm", false},
                 {"maxThreadsPerBlock", false},
                 {"maxRegistersPerSm", false},
                 {"maxShmemPerSm", false},
                 {"maxShmemPerBlockOptin", false},
                 {"maxShmemPerBlock", false}});
  while (scan.next()) {
    DeviceInfo info;
    info.id = static_cast<int>(scan.integer(kId, 0, static_cast<std::int64_t>(kMaxRecordedDevice)));
    if (scan.present(kName)) info.name = scan.text(kName);
    const auto number = [&scan](std::size_t column, std::int64_t most, std::uint32_t absent = 0) {
      return static_cast<std::uint32_t>(scan.integer_or(column, absent, 0, most));
    };
    info.sms = number(kSms, static_cast<std::int64_t>(kMaxRecordedSms));
    info.warp_size = std::max(number(kWarp, 128, info.warp_size), 1U);
    info.max_threads_per_sm = number(kWarpsPerSm, 1 << 10) * info.warp_size;
    info.max_threads_per_cta = number(kThreadsPerCta, 1 << 16);
    info.registers_per_sm = number(kRegistersPerSm, 1 << 24);
    info.shared_bytes_per_sm = number(kSharedPerSm, 1 << 30);
    info.max_shared_bytes_per_cta = number(scan.present(kSharedOptin) ? kSharedOptin : kSharedPerCta, 1 << 30);
    devices_[info.id] = std::move(info);
  }
}

DeviceInfo NsysTables::device(int id) const {
  const auto found = devices_.find(id);
  if (found != devices_.end()) return found->second;
  DeviceInfo info;
  info.id = id;
  return info;
}

void NsysTables::note_graphs() {
  if (!database_.has_table(kWholeGraphs)) return;
  std::size_t graphs = 0;
  for (NsysScan scan(database_, kWholeGraphs, {}); scan.next();) ++graphs;
  if (graphs == 0) return;
  warnings.push_back(fmt::format(
      "{} launches of graphs are recorded as a whole, without their kernels; record with --cuda-graph-trace=node.",
      graphs));
}

std::string NsysTables::place(const NsysOp& op) {
  const char* const tables[] = {kKernels, kCopies, kFills};
  return fmt::format("{}, row {}", tables[static_cast<std::size_t>(op.kind)], op.row);
}

}  // namespace heddle::import
