// The lines of a kernel trace of rocprofv3, checked one by one (INP-04, INP-07).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/byte_source.h"
#include "workload/workload.h"

namespace heddle::import {

struct RocprofDispatch {
  std::size_t line = 0;
  int agent = 0;
  std::uint64_t queue = 0;
  std::uint64_t order = 0;          // Dispatch_Id, or else Correlation_Id: in the order of the dispatches; 0: neither
  workload::Nanoseconds start = 0;  // as in the file, here and below
  workload::Nanoseconds end = 0;
  arch::KernelShape kernel;  // the grid in workgroups
  std::string name;
};

// True where `header`, the first line of a file, names columns that rocprofv3's traces have.
bool is_rocprof_header(std::string_view header);

class RocprofTable {
 public:
  // Reads the whole file. Throws InputError.
  explicit RocprofTable(ByteSource& source);

  std::vector<RocprofDispatch> dispatches;

 private:
  // Of them, required: all up to grid_z.
  enum Column : std::size_t {
    name,
    start,
    end,
    agent,
    queue,
    block_x,
    block_y,
    block_z,
    grid_x,
    grid_y,
    grid_z,
    kind,
    dispatch,
    correlation,
    lds,
    scratch,
    vgprs,
    accum_vgprs,
    columns_
  };
  // Names in lower case; the second is that of another version.
  static constexpr std::array<std::array<std::string_view, 2>, columns_> kNames = {
      {{"kernel_name"},
       {"start_timestamp"},
       {"end_timestamp"},
       {"agent_id"},
       {"queue_id"},
       {"workgroup_size_x"},
       {"workgroup_size_y"},
       {"workgroup_size_z"},
       {"grid_size_x"},
       {"grid_size_y"},
       {"grid_size_z"},
       {"kind"},
       {"dispatch_id"},
       {"correlation_id"},
       {"lds_block_size", "group_segment_size"},
       {"scratch_size", "private_segment_size"},
       {"vgpr_count"},
       {"accum_vgpr_count"}}};

  void read_header();
  RocprofDispatch read_dispatch() const;
  bool present(Column column) const { return at_[column].has_value(); }
  const std::string& text(Column column) const { return csv_.fields()[*at_[column]]; }
  // As the header has it.
  const std::string& title(Column column) const { return titles_[*at_[column]]; }
  std::uint64_t integer(Column column, std::uint64_t min, std::uint64_t max) const;
  std::uint64_t integer_or_none(Column column, std::uint64_t max) const;
  int read_agent() const;
  arch::KernelShape read_shape() const;
  [[noreturn]] void wrong(Column column, std::string_view expected) const;

  CsvReader csv_;
  std::vector<std::string> titles_;
  std::array<std::optional<std::size_t>, columns_> at_;
};

}  // namespace heddle::import
