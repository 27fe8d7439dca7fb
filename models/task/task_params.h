// Parameters of task management.
#pragma once

#include <cstdint>

#include "common/params.h"

namespace heddle::task {

struct TaskParams {
  double stream_gap = 1300;           // ns
  std::uint32_t to_cwd = 20;          // cycles
  std::uint32_t submit_queue = 1024;  // packets

  static void describe(ParamTable<TaskParams>& t) {
    t.add("stream_gap", &TaskParams::stream_gap, {Unit::ns, 0.0, 1e9},
          "from the end of an operation to the start of the next one of its stream, at least; the model's own path "
          "counts against it",
          "recordings of H100 SXM: at least 0.83 us, median 1.2 to 1.4 us");
    t.add("to_cwd", &TaskParams::to_cwd, {Unit::cycles, 0, 100'000}, "cycles from task management to the distributor",
          "assumption");
    t.add("submit_queue", &TaskParams::submit_queue, {Unit::count, 1, 1'000'000},
          "operations on their way from the host: credits. Task management itself takes in any number (TSK-02)",
          "assumption");
  }
};

}  // namespace heddle::task
