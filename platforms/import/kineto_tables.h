// What Heddle keeps of a Kineto trace: GPU operations, host calls, stream waits and devices, checked one by one
// (INP-02, INP-03, INP-07).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/kineto_json.h"
#include "import/kineto_operators.h"
#include "import/named_ranges.h"
#include "workload/workload.h"

namespace heddle::import {

// Where an event is, for messages that come after reading.
struct KinetoPlace {
  std::uint64_t position = 0;
  std::size_t index = 0;
};

using KinetoExtents = std::array<std::uint32_t, 3>;

struct KinetoOp {
  workload::OpKind kind = workload::OpKind::kernel;
  bool has_grid = false;  // and block
  int device = 0;
  std::size_t stream = 0;           // index into KinetoTables::streams
  workload::Nanoseconds start = 0;  // as in the file, here and below
  workload::Nanoseconds duration = 0;
  std::uint64_t correlation = 0;  // 0: none
  std::uint64_t external = 0;     // the recorder's number of its operator; 0: none
  std::uint64_t bytes = 0;
  std::uint32_t registers = 0;
  std::optional<std::uint32_t> shared;
  float occupancy = -1.0F;
  std::uint32_t communication = 0;  // index into KinetoTables::communications plus 1; 0: none is recorded with it
  KinetoExtents grid{};
  KinetoExtents block{};
  std::string name;
  KinetoPlace place;
};

struct KinetoCall {
  std::uint64_t correlation = 0;
  std::uint64_t external = 0;  // as of an operation
  workload::Nanoseconds begin = 0;
  std::uint32_t thread = 0;  // KinetoOperators::thread()
  std::uint32_t dims = 0;    // index into KinetoTables::dims plus 1; 0: the call has none
  bool hip = false;          // of the HIP runtime
  bool work_items = false;   // its grid counts work-items, not workgroups (INP-04)
  bool graph = false;        // it launches a graph
  bool cooperative = false;
};

// Grid, block and shared memory that are with the launch call instead of the kernel (ROCm).
struct KinetoDims {
  KinetoExtents grid{};
  KinetoExtents block{};
  std::optional<std::uint32_t> shared;
};

struct KinetoWait {
  int device = 0;
  std::size_t waiting = 0;  // streams, indices into KinetoTables::streams
  std::size_t source = 0;
  workload::Nanoseconds begin = 0;
  std::uint64_t correlation = 0;         // of the call that waits; 0: none
  std::uint64_t record_correlation = 0;  // of the call that recorded the event; 0: before the window
};

class KinetoTables final : public KinetoSink {
 public:
  explicit KinetoTables(const ByteSource& source) : source_(source) {}

  void on_event(const KinetoEvent& event) override;
  void on_device(const KinetoDevice& device) override;
  // To be called once, after the last event: makes call() work.
  void finish();

  // The host call with this correlation: the outermost one if a driver call inside has the same; null if none.
  const KinetoCall* call(std::uint64_t correlation) const;
  // What is recorded of a kernel of a library of collectives, with itself or with its operator; null: nothing.
  const workload::Communication* communication(const KinetoOp& op, const KinetoCall* call) const;
  // From deviceProperties, checked; nothing if the trace does not describe the device.
  std::optional<workload::DeviceInfo> device(int id) const;
  // The device that the trace describes, if it is a single one.
  std::optional<workload::DeviceInfo> only_device() const;

  [[noreturn]] void fail(const KinetoPlace& place, std::string_view name, std::string_view what,
                         std::string_view remedy = {}) const;

  std::vector<KinetoOp> ops;
  std::vector<KinetoDims> dims;
  std::vector<KinetoWait> waits;
  std::vector<workload::Communication> communications;
  KinetoOperators operators;
  NamedRanges ranges;                // scopes: KinetoOperators::thread()
  std::vector<std::string> streams;  // names, each once
  bool whole_microseconds = true;    // every time of a GPU operation is an integer

 private:
  void add_op(const KinetoEvent& event, workload::OpKind kind);
  void add_call(const KinetoEvent& event);
  void add_wait(const KinetoEvent& event);
  void add_operator(const KinetoEvent& event);
  void add_range(const KinetoEvent& event);
  workload::Nanoseconds duration(const KinetoEvent& event) const;
  std::uint32_t add_communication(const KinetoEvent& event);
  workload::DeviceInfo describe(int id, const KinetoDevice& device) const;

  workload::Nanoseconds time(const KinetoEvent& event, const JsonValue& value, std::string_view key) const;
  std::uint64_t integer(const KinetoEvent& event, const JsonValue& value, std::string_view key,
                        std::uint64_t max) const;
  std::uint64_t correlation(const KinetoEvent& event, const JsonValue& value, std::string_view key) const;
  KinetoExtents extents(const KinetoEvent& event, const JsonDims& dims, std::string_view key, std::uint64_t max) const;
  int device_of(const KinetoEvent& event) const;
  std::optional<std::size_t> stream(const JsonValue& value);
  [[noreturn]] void wrong(const KinetoEvent& event, const JsonValue& value, std::string_view key,
                          std::string_view expected) const;

  const ByteSource& source_;
  std::vector<KinetoCall> calls_;  // by correlation, after finish()
  std::unordered_map<std::string, std::size_t> stream_ids_;
  std::map<int, KinetoDevice> devices_;
  std::unordered_map<std::uint64_t, std::uint32_t> communication_of_;  // by number of the operator: as in KinetoOp
};

}  // namespace heddle::import
