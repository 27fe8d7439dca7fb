#include "import/nsys_host.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "import/byte_source.h"
#include "import/dependencies.h"
#include "import/named_ranges.h"
#include "import/nsys_tables.h"
#include "import/recordings.h"

namespace heddle::import {

using namespace workload;
namespace {

constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* kSynchronizations = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
constexpr const char* kEventRecords = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
constexpr const char* kStreams = "TARGET_INFO_CUDA_STREAM";

constexpr std::int64_t kContextStream = std::numeric_limits<std::uint32_t>::max();  // "of the context", not a stream
constexpr std::int64_t kStreamWaitEvent = 2;                                        // ENUM_CUPTI_SYNC_TYPE
constexpr std::int64_t kMaxPriority = 1'000;

// By ENUM_CUDA_MEMCPY_OPER, in the words of Kineto.
constexpr std::array<const char*, 11> kCopyNames = {"Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA",
                                                    "Memcpy AtoH", "Memcpy AtoA", "Memcpy AtoD", "Memcpy DtoA",
                                                    "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};

// The operations of one device become a workload.
class NsysBuilder {
 public:
  NsysBuilder(const NsysTables& tables, const NamedRanges& ranges, int device, std::vector<std::size_t> ops,
              std::string file, std::string name)
      : tables_(tables), ranges_(ranges), order_(std::move(ops)), file_(std::move(file)) {
    workload_.name = std::move(name);
    workload_.format = "nsys";
    workload_.warnings = tables.warnings;
    workload_.device = tables.device(device);
  }

  Workload build() {
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      const NsysOp& left = tables_.ops[a];
      const NsysOp& right = tables_.ops[b];
      return std::tie(left.start, left.call.correlation, a) < std::tie(right.start, right.call.correlation, b);
    });
    origin_ = tables_.ops[order_.front()].start;
    workload_.origin = origin_;
    if (workload_.device.sms == 0) {
      workload_.warnings.push_back(
          fmt::format("The recording does not say what device {} is (TARGET_INFO_GPU).", workload_.device.id));
    }
    for (const std::size_t index : order_) {
      const NsysStreamId& id = tables_.ops[index].stream;
      processes_.insert(id.process);
      contexts_.insert({id.process, id.context});
    }
    std::vector<HostMoment> launches;
    launches.reserve(order_.size());
    workload_.ops.reserve(order_.size());
    for (const std::size_t index : order_) {
      const NsysOp& op = tables_.ops[index];
      const std::optional<Nanoseconds> call = tables_.host().call(op.call);
      launches.push_back(call ? HostMoment{relative(op, *call), sequence(op.call)} : HostMoment{});
      workload_.ops.push_back(convert(op, call));
    }
    ranges_.fill(workload_, range_launches());
    form_graphs(workload_, graph_launches());
    const std::vector<StreamWait> waits = link_waits();
    derive_dependencies(workload_, launches, waits);
    return std::move(workload_);
  }

 private:
  static std::uint64_t sequence(const NsysCallId& call) { return static_cast<std::uint64_t>(call.correlation); }

  // Relative to the first operation of the device. The bound keeps every sum of times within 64 bits.
  Nanoseconds relative(const NsysOp& op, Nanoseconds time) const {
    const Nanoseconds result = time - origin_;
    if (result > kMaxRecordedSpan || result < -kMaxRecordedSpan) {
      throw InputError({file_},
                       fmt::format("{}: its time or that of its launch call lies {} s from the first operation of "
                                   "device {}",
                                   NsysTables::place(op), result / 1'000'000'000, workload_.device.id),
                       "The recording mixes clocks: record it again.");
    }
    return result;
  }

  std::size_t stream(const NsysStreamId& id) {
    const auto [at, added] = streams_.emplace(id, workload_.streams.size());
    if (added) workload_.streams.push_back({stream_name(id), tables_.host().priority(id)});
    return at->second;
  }

  // No longer than it takes to tell the device's streams apart.
  std::string stream_name(const NsysStreamId& id) const {
    std::string name = std::to_string(id.stream);
    if (contexts_.size() > processes_.size()) name += fmt::format(" context {}", id.context);
    if (processes_.size() > 1) name += fmt::format(" process {}", nsys_pid(id.process));
    return name;
  }

  Op convert(const NsysOp& from, std::optional<Nanoseconds> call) {
    Op op;
    op.kind = from.kind;
    op.stream = stream(from.stream);
    if (call) op.enqueue = relative(from, *call);
    op.recorded = Recorded{relative(from, from.start), from.duration, -1.0, false};
    if (from.kind == OpKind::kernel) {
      static_cast<arch::KernelShape&>(op.kernel) = from.kernel;
      op.kernel.name = tables_.name(from.name);
      op.max_active_clusters = from.max_active_clusters;
    } else {
      op.bytes = from.bytes;
      op.duration = from.duration;  // INP-11
      op.kernel.name =
          from.kind == OpKind::fill ? "Memset" : kCopyNames[from.copy_kind < kCopyNames.size() ? from.copy_kind : 0];
      op.direction = direction_of(op.kernel.name);
    }
    return op;
  }

  std::vector<NamedRanges::Launch> range_launches() const {
    std::vector<NamedRanges::Launch> launches;
    if (ranges_.empty()) return launches;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const NsysCallId& id = tables_.ops[order_[i]].call;
      const std::optional<Nanoseconds> call = tables_.host().call(id);
      if (!call) continue;
      const std::int64_t thread = tables_.host().thread(id);
      launches.push_back({i, thread, *call});
      launches.push_back({i, nsys_process_scope(thread), *call});
    }
    return launches;
  }

  // By operation: the number of the graph launch that it is of. Calls of different processes may have the same.
  std::vector<std::uint64_t> graph_launches() const {
    std::map<NsysCallId, std::uint64_t> numbers;
    std::vector<std::uint64_t> launches;
    launches.reserve(order_.size());
    for (const std::size_t index : order_) {
      const NsysOp& op = tables_.ops[index];
      launches.push_back(op.of_graph ? numbers.emplace(op.call, numbers.size() + 1).first->second : 0);
    }
    return launches;
  }

  std::vector<StreamWait> link_waits() {
    std::vector<StreamWait> waits;
    std::size_t unlinked = 0;
    for (const NsysWait& wait : tables_.host().waits()) {
      const auto waiting = streams_.find(wait.stream);
      if (waiting == streams_.end()) continue;  // no operation of this device on it
      const NsysEventRecord* record = tables_.host().record_of(wait);
      const std::optional<Nanoseconds> recorded = record != nullptr ? tables_.host().call(record->call) : std::nullopt;
      if (!recorded) {
        ++unlinked;
        continue;
      }
      const auto source = streams_.find(record->stream);
      if (source == streams_.end()) continue;
      const Nanoseconds called = tables_.host().call(wait.call).value_or(wait.begin);
      // Times beyond the span of the operations cannot be before or after them in a meaningful way: clamp, do not wrap.
      const auto bounded = [this](Nanoseconds time) {
        return std::clamp(time - origin_, -kMaxRecordedSpan, kMaxRecordedSpan);
      };
      waits.push_back({waiting->second,
                       {bounded(called), sequence(wait.call)},
                       source->second,
                       {bounded(*recorded), sequence(record->call)}});
    }
    if (unlinked > 0) {
      workload_.warnings.push_back(fmt::format(
          "{} stream waits name an event whose record is not in the recording; they were ignored.", unlinked));
    }
    return waits;
  }

  const NsysTables& tables_;
  const NamedRanges& ranges_;
  std::vector<std::size_t> order_;
  std::string file_;
  std::set<std::int64_t> processes_;
  std::set<std::pair<std::int64_t, std::int64_t>> contexts_;
  std::map<NsysStreamId, std::size_t> streams_;  // indices into Workload::streams
  Workload workload_;
  Nanoseconds origin_ = 0;
};

std::vector<Workload> nsys_from(ByteSource& source, const std::string& name) {
  const NsysDatabase database(source);
  const NsysTables tables(database);
  const NamedRanges ranges = read_nsys_ranges(database);
  std::map<int, std::vector<std::size_t>> by_device;
  for (std::size_t i = 0; i < tables.ops.size(); ++i) by_device[tables.ops[i].device].push_back(i);
  std::vector<Workload> workloads;
  for (auto& [device, ops] : by_device) {
    workloads.push_back(NsysBuilder(tables, ranges, device, std::move(ops), database.name(), name).build());
  }
  return workloads;
}

}  // namespace

NsysHost::NsysHost(const NsysDatabase& database, const std::vector<NsysOp>& ops) {
  read_waits(database);
  read_event_records(database);
  read_calls(database, ops);
  read_priorities(database);
}

void NsysHost::read_waits(const NsysDatabase& database) {
  if (!database.has_table(kSynchronizations)) return;
  enum : std::size_t { kTime, kIn, kOn, kFrom, kPid, kType, kEvent, kSync };
  NsysScan scan(database, kSynchronizations,
                {{"start", true},
                 {"contextId", true},
                 {"streamId", true},
                 {"correlationId", false},
                 {"globalPid", false},
                 {"syncType", false},
                 {"eventId", false},
                 {"eventSyncId", false}});
  while (scan.next()) {
    // The others hold up the host, which its own times show.
    if (scan.integer_or(kType, 0, 0, kMaxNsysId) != kStreamWaitEvent) continue;
    NsysWait wait;
    const std::int64_t process = nsys_process(scan.integer_or(kPid, 0, 0, kAnyNsysId));
    wait.stream = {process, scan.integer(kIn, 0, kMaxNsysId), scan.integer(kOn, 0, kMaxNsysId)};
    if (wait.stream.stream == kContextStream) continue;
    wait.begin = scan.integer(kTime, -kMaxNsysTime, kMaxNsysTime);
    wait.call = {process, scan.integer_or(kFrom, 0, 0, kAnyNsysId)};
    wait.event = scan.integer_or(kEvent, 0, 0, kAnyNsysId);
    wait.event_sync = scan.integer_or(kSync, 0, 0, kAnyNsysId);
    waits_.push_back(wait);
  }
}

void NsysHost::read_event_records(const NsysDatabase& database) {
  if (waits_.empty() || !database.has_table(kEventRecords)) return;
  enum : std::size_t { kIn, kOn, kFrom, kPid, kEvent, kSync };
  NsysScan scan(database, kEventRecords,
                {{"contextId", true},
                 {"streamId", true},
                 {"correlationId", false},
                 {"globalPid", false},
                 {"eventId", true},
                 {"eventSyncId", false}});
  while (scan.next()) {
    NsysEventRecord record;
    const std::int64_t process = nsys_process(scan.integer_or(kPid, 0, 0, kAnyNsysId));
    record.stream = {process, scan.integer(kIn, 0, kMaxNsysId), scan.integer(kOn, 0, kMaxNsysId)};
    record.call = {process, scan.integer_or(kFrom, 0, 0, kAnyNsysId)};
    const std::int64_t sync = scan.integer_or(kSync, 0, 0, kAnyNsysId);
    if (sync != 0) records_by_sync_.insert_or_assign({process, sync}, record);
    records_by_event_[{process, scan.integer(kEvent, 0, kAnyNsysId)}].push_back(record);
  }
  for (auto& [event, records] : records_by_event_) {
    std::stable_sort(records.begin(), records.end(), [](const NsysEventRecord& a, const NsysEventRecord& b) {
      return a.call.correlation < b.call.correlation;
    });
  }
}

const NsysEventRecord* NsysHost::record_of(const NsysWait& wait) const {
  if (wait.event_sync != 0) {
    const auto found = records_by_sync_.find({wait.call.process, wait.event_sync});
    if (found != records_by_sync_.end()) return &found->second;
  }
  // An event may be recorded again and again; ids of calls grow with time.
  const auto records = records_by_event_.find({wait.call.process, wait.event});
  if (records == records_by_event_.end()) return nullptr;
  const auto behind = std::lower_bound(
      records->second.begin(), records->second.end(), wait.call.correlation,
      [](const NsysEventRecord& record, std::int64_t correlation) { return record.call.correlation < correlation; });
  return behind == records->second.begin() ? nullptr : &*std::prev(behind);
}

void NsysHost::read_calls(const NsysDatabase& database, const std::vector<NsysOp>& ops) {
  const auto want = [this](const NsysCallId& id) {
    if (id.correlation != 0) calls_.push_back({id, std::nullopt, 0});
  };
  for (const NsysOp& op : ops) want(op.call);
  for (const NsysWait& wait : waits_) want(wait.call);
  for (const auto& [event, records] : records_by_event_) {
    for (const NsysEventRecord& record : records) want(record.call);
  }
  std::sort(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) { return a.id < b.id; });
  calls_.erase(std::unique(calls_.begin(), calls_.end(), [](const Call& a, const Call& b) { return a.id == b.id; }),
               calls_.end());
  if (!database.has_table(kCalls)) return;
  enum : std::size_t { kTime, kTid, kId };
  NsysScan scan(database, kCalls, {{"start", true}, {"globalTid", true}, {"correlationId", true}});
  while (scan.next()) {
    if (!scan.present(kTid) || !scan.present(kId)) continue;
    const std::int64_t thread = scan.integer(kTid, 0);
    const NsysCallId id{nsys_process(thread), scan.integer(kId)};
    const auto at =
        std::lower_bound(calls_.begin(), calls_.end(), id, [](const Call& a, const NsysCallId& b) { return a.id < b; });
    const Nanoseconds begin = scan.integer(kTime, -kMaxNsysTime, kMaxNsysTime);
    if (at == calls_.end() || !(at->id == id)) continue;
    at->begin = std::min(begin, at->begin.value_or(begin));
    at->thread = thread;
  }
}

const NsysHost::Call* NsysHost::find(const NsysCallId& id) const {
  const auto at =
      std::lower_bound(calls_.begin(), calls_.end(), id, [](const Call& a, const NsysCallId& b) { return a.id < b; });
  return at != calls_.end() && at->id == id ? &*at : nullptr;
}

std::optional<Nanoseconds> NsysHost::call(const NsysCallId& id) const {
  const Call* call = find(id);
  return call != nullptr ? call->begin : std::nullopt;
}

std::int64_t NsysHost::thread(const NsysCallId& id) const {
  const Call* call = find(id);
  return call != nullptr ? call->thread : 0;
}

void NsysHost::read_priorities(const NsysDatabase& database) {
  if (!database.has_table(kStreams)) return;
  enum : std::size_t { kOn, kPid, kIn, kPriority };
  NsysScan scan(database, kStreams,
                {{"streamId", false}, {"processId", false}, {"contextId", false}, {"priority", false}});
  while (scan.next()) {
    if (!scan.present(kOn) || !scan.present(kPid) || !scan.present(kIn) || !scan.present(kPriority)) continue;
    // Exports write negative ones as 32 bits without sign. CUDA counts the other way.
    std::int64_t priority = scan.integer(kPriority, -kMaxPriority, kMaxNsysId);
    if (priority > std::numeric_limits<std::int32_t>::max()) priority -= kMaxNsysId + 1;
    if (priority < -kMaxPriority || priority > kMaxPriority) scan.fail(fmt::format("\"priority\" is {}", priority));
    priorities_[{scan.integer(kPid), scan.integer(kIn), scan.integer(kOn)}] = static_cast<int>(-priority);
  }
}

int NsysHost::priority(const NsysStreamId& stream) const {
  const auto found = priorities_.find({nsys_pid(stream.process), stream.context, stream.stream});
  return found != priorities_.end() ? found->second : 0;
}

using namespace workload;

bool looks_like_nsys(const std::string& path) {
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  std::array<char, kSqliteMagic.size()> head{};
  const std::streamsize got = source->sgetn(head.data(), static_cast<std::streamsize>(head.size()));
  return std::string_view(head.data(), static_cast<std::size_t>(got)) == kSqliteMagic;
}

std::vector<Workload> import_nsys(const std::string& path) {
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  return nsys_from(*source, std::filesystem::path(path).filename().string());
}

std::vector<Workload> import_nsys(std::istream& stream, const std::string& name) {
  const std::unique_ptr<ByteSource> source = stream_bytes(stream, name);
  return nsys_from(*source, name);
}

}  // namespace heddle::import
