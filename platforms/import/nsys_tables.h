// What Heddle keeps of an Nsight Systems export: GPU operations, the host calls that gave them, stream waits, streams
// and devices, checked row by row (INP-05, INP-07).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "arch/kernel_record.h"
#include "import/nsys_database.h"
#include "scenario/workload.h"

namespace heddle::workload {

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
  OpKind kind = OpKind::kernel;
  std::uint8_t copy_kind = 0;  // ENUM_CUDA_MEMCPY_OPER
  int device = 0;              // see NsysTables::device()
  NsysStreamId stream;
  Nanoseconds start = 0;  // as in the file
  Nanoseconds duration = 0;
  NsysCallId call;
  std::uint64_t bytes = 0;
  std::int64_t name = 0;     // a kernel's: id in StringIds
  arch::KernelShape kernel;  // without durations
  std::uint32_t max_active_clusters = 0;
  std::int64_t row = 0;  // in the table of its kind
};

// "What `stream` is given after this waits for the event": its record is another call on another stream.
struct NsysWait {
  NsysStreamId stream;
  Nanoseconds begin = 0;
  NsysCallId call;
  std::int64_t event = 0;
  std::int64_t event_sync = 0;  // links the wait to one of the event's records; 0: not recorded
};

struct NsysEventRecord {
  NsysStreamId stream;
  NsysCallId call;
};

class NsysTables {
 public:
  // Reads everything. Throws InputError.
  explicit NsysTables(const NsysDatabase& database);

  // When the host made that call: the outermost one if a driver call inside has the same id; nothing if not recorded.
  std::optional<Nanoseconds> call(const NsysCallId& id) const;
  // The record of the event that the wait means; null if the file has none.
  const NsysEventRecord* record_of(const NsysWait& wait) const;
  // Larger is more urgent; 0 where the file does not say.
  int priority(const NsysStreamId& stream) const;
  // From TARGET_INFO_GPU. `id` is the GPU's number in the system where TARGET_INFO_CUDA_DEVICE tells it, because
  // processes may number the same GPUs differently; else what the process calls it.
  DeviceInfo device(int id) const;
  const std::string& name(std::int64_t id) const { return names_.at(id); }
  // "CUPTI_ACTIVITY_KIND_KERNEL, row 7"
  static std::string place(const NsysOp& op);

  std::vector<NsysOp> ops;
  std::vector<NsysWait> waits;
  std::vector<std::string> warnings;

 private:
  using Process = std::int64_t;
  struct Call {
    NsysCallId id;
    std::optional<Nanoseconds> begin;
  };

  void check_version();
  void read_device_numbers();
  void read_kernels();
  void read_names();
  void read_copies();
  void read_fills();
  void read_waits();
  void read_event_records();
  void read_calls();
  void read_priorities();
  void read_devices();
  void note_graphs();
  int device_of(Process process, std::int64_t device) const;

  const NsysDatabase& database_;
  std::map<std::pair<std::int64_t, std::int64_t>, int> gpu_of_;  // (operating system's process id, device) -> GPU
  std::unordered_map<std::int64_t, std::string> names_;
  std::vector<Call> calls_;                                // those that something refers to, by id
  std::map<NsysCallId, NsysEventRecord> records_by_sync_;  // correlation: eventSyncId
  std::map<std::pair<Process, std::int64_t>, std::vector<NsysEventRecord>> records_by_event_;  // by correlation id
  std::map<NsysStreamId, int> priorities_;  // process: the operating system's id
  std::map<int, DeviceInfo> devices_;
};

}  // namespace heddle::workload
