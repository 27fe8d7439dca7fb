// Parameters of task management.
#pragma once

#include <cstdint>

#include "arch/task_record.h"
#include "common/param_fwd.h"

namespace heddle::task {

// What the streams of one thread-group context are shared by (TSK-07).
enum class ContextSharing : std::uint8_t { cta, grid };

// Device-side launches (TSK-06 to TSK-13).
struct NestedParams {
  std::uint32_t pending_launches = 2048;
  std::uint32_t contexts = 1024;
  std::uint32_t areas = 1024;
  std::uint32_t area_bytes = 32 * 1024;
  std::uint32_t tmdqs = 4;
  std::uint32_t max_depth = 24;
  ContextSharing shared_by = ContextSharing::cta;
  std::uint32_t in_flight = 16;
  std::uint32_t schedule_cycles = 100;
  std::uint32_t sm_distance = 60;
  std::uint32_t retry = 200;

  static void describe(ParamTable<NestedParams>& t);
};

struct TaskParams {
  double stream_gap = 1300;           // ns
  std::uint32_t to_cwd = 20;          // cycles
  std::uint32_t submit_queue = 1024;  // packets
  NestedParams nested;

  static void describe(ParamTable<TaskParams>& t);
};

// Where the records of device-side launches lie: they end at or below `end`, and begin at a multiple of a record's
// size. Throws InputError if there is no room for them above address 0.
arch::LaunchMemory nested_memory(const NestedParams& params, std::uint64_t end);

}  // namespace heddle::task
