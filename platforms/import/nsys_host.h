// The operations of an Nsight Systems export, and the host's side of them: calls, waits between streams, priorities of
// streams.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "arch/task_record.h"
#include "import/nsys_database.h"
#include "workload/workload.h"

namespace heddle::import {

// Numbers of an export: times whose differences fit 64 bits, ids of CUDA, ids of any kind.
constexpr std::int64_t kMaxNsysTime = std::numeric_limits<std::int64_t>::max() / 2;
constexpr std::int64_t kMaxNsysId = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kAnyNsysId = std::numeric_limits<std::int64_t>::max();

// A serialized id: 8 bits hardware, 8 bits virtual machine, 24 bits process, 24 bits thread. A process is what
// globalPid and globalTid have in common: both without the thread. The last 24 bits of that are the operating system's.
constexpr int kNsysThreadBits = 24;
constexpr std::int64_t nsys_process(std::int64_t global) { return global >> kNsysThreadBits; }
constexpr std::int64_t nsys_pid(std::int64_t process) { return process & ((std::int64_t{1} << kNsysThreadBits) - 1); }

// A host call, as operations refer to it. Correlation ids count within a process.
struct NsysCallId {
  std::int64_t process = 0;  // nsys_process()
  std::int64_t correlation = 0;

  bool operator<(const NsysCallId& other) const {
    return std::tie(process, correlation) < std::tie(other.process, other.correlation);
  }
  bool operator==(const NsysCallId& other) const {
    return process == other.process && correlation == other.correlation;
  }
};

// Streams of different contexts and processes may have the same number.
struct NsysStreamId {
  std::int64_t process = 0;
  std::int64_t context = 0;
  std::int64_t stream = 0;

  bool operator<(const NsysStreamId& other) const {
    return std::tie(process, context, stream) < std::tie(other.process, other.context, other.stream);
  }
};

struct NsysOp {
  workload::OpKind kind = workload::OpKind::kernel;
  std::uint8_t copy_kind = 0;  // ENUM_CUDA_MEMCPY_OPER
  int device = 0;              // see NsysTables::device()
  NsysStreamId stream;
  workload::Nanoseconds start = 0;  // as in the file
  workload::Nanoseconds duration = 0;
  NsysCallId call;
  bool of_graph = false;  // the call launched a graph
  std::uint64_t bytes = 0;
  std::int64_t name = 0;     // a kernel's: id in StringIds
  arch::KernelShape kernel;  // without durations
  std::uint32_t max_active_clusters = 0;
  std::int64_t row = 0;  // in the table of its kind
};

// "What `stream` is given after this waits for the event": its record is another call on another stream.
struct NsysWait {
  NsysStreamId stream;
  workload::Nanoseconds begin = 0;
  NsysCallId call;
  std::int64_t event = 0;
  std::int64_t event_sync = 0;  // links the wait to one of the event's records; 0: not recorded
};

struct NsysEventRecord {
  NsysStreamId stream;
  NsysCallId call;
};

class NsysHost {
 public:
  // Reads what the operations refer to. Throws InputError.
  NsysHost(const NsysDatabase& database, const std::vector<NsysOp>& ops);

  const std::vector<NsysWait>& waits() const { return waits_; }
  // When the host made that call: the outermost one if a driver call inside has the same id; nothing if not recorded.
  std::optional<workload::Nanoseconds> call(const NsysCallId& id) const;
  // Which thread made it, as globalTid; 0: not recorded.
  std::int64_t thread(const NsysCallId& id) const;
  // The record of the event that the wait means; null if the file has none.
  const NsysEventRecord* record_of(const NsysWait& wait) const;
  // Larger is more urgent; 0 where the file does not say.
  int priority(const NsysStreamId& stream) const;

 private:
  using Process = std::int64_t;
  struct Call {
    NsysCallId id;
    std::optional<workload::Nanoseconds> begin;
    std::int64_t thread = 0;
  };
  const Call* find(const NsysCallId& id) const;

  void read_waits(const NsysDatabase& database);
  void read_event_records(const NsysDatabase& database);
  void read_calls(const NsysDatabase& database, const std::vector<NsysOp>& ops);
  void read_priorities(const NsysDatabase& database);

  std::vector<NsysWait> waits_;
  std::vector<Call> calls_;                                // those that something refers to, by id
  std::map<NsysCallId, NsysEventRecord> records_by_sync_;  // correlation: eventSyncId
  std::map<std::pair<Process, std::int64_t>, std::vector<NsysEventRecord>> records_by_event_;  // by correlation id
  std::map<NsysStreamId, int> priorities_;  // process: the operating system's id
};

}  // namespace heddle::import
