// Parts of a program that it names itself while it is recorded: NVTX ranges, record_function (INP-17).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "import/nsys_database.h"
#include "workload/workload.h"

namespace heddle::import {

class NamedRanges {
 public:
  // Who can be in a range: a thread, or a whole process. Numbers that mean nothing but themselves.
  using Scope = std::int64_t;

  // From begin to end, both included, of all that the scope launches.
  void add(Scope scope, std::string name, workload::Nanoseconds begin, workload::Nanoseconds end);
  // Others that are no ranges, and that a warning will count.
  void leave_out(std::size_t ranges) { left_out_ += ranges; }
  bool empty() const { return ranges_.empty() && left_out_ == 0; }

  // A host call, in the times of the ranges: one for each scope that it is of.
  struct Launch {
    std::size_t op = 0;  // index into Workload::ops
    Scope scope = 0;
    workload::Nanoseconds when = 0;
  };
  // Fills Workload::ranges with those in which something was launched, in the order of their begin. A range is within
  // the last one of its scope that began before it and ends no earlier. Where ranges hold more than `most` launches
  // together, none is kept, and a warning says so.
  void fill(workload::Workload& workload, std::vector<Launch> launches, std::size_t most = kMostMembers) const;
  static constexpr std::size_t kMostMembers = 20'000'000;

 private:
  struct Range {
    Scope scope = 0;
    std::string name;
    workload::Nanoseconds begin = 0;
    workload::Nanoseconds end = 0;
  };

  std::vector<Range> ranges_;
  std::size_t left_out_ = 0;
};

// Those of an Nsight Systems export: push/pop ranges are of a thread (its globalTid), start/end ranges of the process
// (nsys_process_scope). Throws InputError for what is no such table.
NamedRanges read_nsys_ranges(const NsysDatabase& database);
// Of what a thread with that globalTid belongs to. No globalTid is negative.
NamedRanges::Scope nsys_process_scope(std::int64_t global_tid);

}  // namespace heddle::import
