#include "import/rocprof_table.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "common/error.h"
#include "import/dependencies.h"
#include "import/kineto_json.h"

namespace heddle::import {

using namespace workload;
namespace {

constexpr std::string_view kRecordAgain =
    "The recording is damaged or of an unknown kind: record it again, or remove the line from the file.";
constexpr std::string_view kRecordKernels =
    "Record with `rocprofv3 --kernel-trace --output-format csv` and give its file ..._kernel_trace.csv.";
constexpr auto kMost64 = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

std::string lower(std::string_view text) {
  std::string result(text);
  lower_ascii(result);
  return result;
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

bool is_rocprof_header(std::string_view header) {
  const std::string names = lower(header);
  const auto has = [&names](std::string_view name) { return names.find(name) != std::string::npos; };
  if (!has(",")) return false;
  // Kernel traces; and the other traces of rocprofv3, which are refused with a better reason than "unknown".
  return has("start_timestamp") || (has("kernel_name") && (has("grid_size") || has("end_timestamp")));
}

RocprofTable::RocprofTable(ByteSource& source) : csv_(source) {
  read_header();
  while (csv_.next()) {
    if (csv_.fields().size() != titles_.size()) {
      csv_.fail(fmt::format("has {} fields, and the first line names {} columns", csv_.fields().size(), titles_.size()),
                kRecordAgain);
    }
    dispatches.push_back(read_dispatch());
  }
  if (dispatches.empty()) csv_.fail("the trace has no kernel", "Record around code that runs on the GPU.");
}

void RocprofTable::read_header() {
  if (!csv_.next()) {
    throw InputError({csv_.source_name(), 1, 0}, "the file is empty", "Copy or record it again.");
  }
  titles_ = csv_.fields();
  for (std::size_t i = 0; i < titles_.size(); ++i) {
    const std::string title = lower(titles_[i]);
    for (std::size_t column = 0; column < columns_; ++column) {
      const auto& names = kNames[column];
      if (title.empty() || std::find(names.begin(), names.end(), title) == names.end()) continue;
      if (at_[column]) {
        csv_.fail(fmt::format("columns {} and {} are both {}", *at_[column] + 1, i + 1, printable(titles_[i])),
                  "Remove one of them.");
      }
      at_[column] = i;
    }
  }
  for (std::size_t column = 0; column <= grid_z; ++column) {
    if (at_[column]) continue;
    csv_.fail(fmt::format("there is no column {}", kNames[column][0]), kRecordKernels);
  }
}

void RocprofTable::wrong(Column column, std::string_view expected) const {
  csv_.fail(fmt::format("{} is \"{}\", expected {}", title(column), printable(text(column), 60), expected),
            kRecordAgain);
}

std::uint64_t RocprofTable::integer(Column column, std::uint64_t min, std::uint64_t max) const {
  const std::optional<std::uint64_t> number = number_in(text(column));
  if (!number || *number < min || *number > max) wrong(column, fmt::format("an integer from {} to {}", min, max));
  return *number;
}

std::uint64_t RocprofTable::integer_or_none(Column column, std::uint64_t max) const {
  return present(column) ? integer(column, 0, max) : 0;
}

// "37946", or "Agent 4" and "GPU 0" of later versions.
int RocprofTable::read_agent() const {
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  std::string_view text_of = text(agent);
  for (const std::string_view word : {"agent ", "gpu "}) {
    if (lower(text_of.substr(0, word.size())) == word) text_of.remove_prefix(word.size());
  }
  const std::optional<std::uint64_t> number = number_in(text_of);
  if (!number || *number > kMost) wrong(agent, fmt::format("the number of an agent, from 0 to {}", kMost));
  return static_cast<int>(*number);
}

arch::KernelShape RocprofTable::read_shape() const {
  arch::KernelShape kernel;
  const std::array<std::uint32_t*, 3> blocks = {&kernel.block.x, &kernel.block.y, &kernel.block.z};
  const std::array<std::uint32_t*, 3> grids = {&kernel.grid.x, &kernel.grid.y, &kernel.grid.z};
  for (std::size_t i = 0; i < grids.size(); ++i) {
    const auto block_column = static_cast<Column>(block_x + i);
    const auto grid_column = static_cast<Column>(grid_x + i);
    const std::uint64_t block = integer(block_column, 1, kMaxRecordedBlock);
    const std::uint64_t items = integer(grid_column, 1, std::numeric_limits<std::uint32_t>::max());
    *blocks[i] = static_cast<std::uint32_t>(block);
    *grids[i] = static_cast<std::uint32_t>((items - 1) / block + 1);  // work-items (INP-04); the last may be partial
  }
  if (kernel.block.count() > kMaxRecordedBlock) {
    csv_.fail(fmt::format("the workgroup has {} work-items, of at most {}", kernel.block.count(), kMaxRecordedBlock),
              kRecordAgain);
  }
  const std::uint64_t plane = std::uint64_t{kernel.grid.x} * kernel.grid.y;
  if (plane > kMaxRecordedCtas || plane > kMaxRecordedCtas / kernel.grid.z) {
    csv_.fail("the grid has more than 2^48 workgroups", kRecordAgain);
  }
  // Both kinds of vector registers come from one file since CDNA 2.
  kernel.registers_per_thread = static_cast<std::uint32_t>(integer_or_none(vgprs, kMaxRecordedRegisters) +
                                                           integer_or_none(accum_vgprs, kMaxRecordedRegisters));
  kernel.shared_bytes = static_cast<std::uint32_t>(integer_or_none(lds, kMaxRecordedShared));
  kernel.local_bytes = static_cast<std::uint32_t>(integer_or_none(scratch, kMaxRecordedLocal));
  return kernel;
}

RocprofDispatch RocprofTable::read_dispatch() const {
  constexpr std::string_view kKind = "kernel_dispatch";
  if (present(kind) && lower(text(kind)) != kKind) wrong(kind, "KERNEL_DISPATCH");
  RocprofDispatch result;
  result.line = csv_.line();
  result.agent = read_agent();
  result.queue = integer(queue, 0, std::numeric_limits<std::uint64_t>::max());
  const std::uint64_t number = integer_or_none(dispatch, kMost64);
  const std::uint64_t call = integer_or_none(correlation, kMost64);
  result.order = number != 0 ? number : call;
  result.start = static_cast<Nanoseconds>(integer(start, 1, kMost64));  // 0: the recorder has no time
  result.end = static_cast<Nanoseconds>(integer(end, 1, kMost64));
  if (result.end < result.start) {
    csv_.fail(fmt::format("it ends {} ns before it starts", result.start - result.end), kRecordAgain);
  }
  if (result.end - result.start > kMaxRecordedDuration) {
    csv_.fail(fmt::format("it lasts {} s", (result.end - result.start) / 1'000'000'000), kRecordAgain);
  }
  result.name = text(name);
  if (result.name.empty()) wrong(name, "the name of a kernel");
  result.kernel = read_shape();
  return result;
}

}  // namespace heddle::import
