#include "import/nsys_host.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace heddle::import {

using namespace workload;
namespace {

constexpr const char* kCalls = "CUPTI_ACTIVITY_KIND_RUNTIME";
constexpr const char* kSynchronizations = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
constexpr const char* kEventRecords = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
constexpr const char* kStreams = "TARGET_INFO_CUDA_STREAM";

constexpr std::int64_t kNoStream = std::numeric_limits<std::uint32_t>::max();  // "of the context", not a stream
constexpr std::int64_t kStreamWaitEvent = 2;                                   // ENUM_CUPTI_SYNC_TYPE
constexpr std::int64_t kMaxPriority = 1'000;

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
    if (wait.stream.stream == kNoStream) continue;
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
    if (id.correlation != 0) calls_.push_back({id, std::nullopt});
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
    const NsysCallId id{nsys_process(scan.integer(kTid, 0)), scan.integer(kId)};
    const auto at =
        std::lower_bound(calls_.begin(), calls_.end(), id, [](const Call& a, const NsysCallId& b) { return a.id < b; });
    const Nanoseconds begin = scan.integer(kTime, -kMaxNsysTime, kMaxNsysTime);
    if (at == calls_.end() || !(at->id == id)) continue;
    at->begin = std::min(begin, at->begin.value_or(begin));
  }
}

std::optional<Nanoseconds> NsysHost::call(const NsysCallId& id) const {
  const auto at =
      std::lower_bound(calls_.begin(), calls_.end(), id, [](const Call& a, const NsysCallId& b) { return a.id < b; });
  return at != calls_.end() && at->id == id ? at->begin : std::nullopt;
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

}  // namespace heddle::import
