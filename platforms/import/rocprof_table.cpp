#include "import/rocprof_table.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "import/byte_source.h"
#include "import/dependencies.h"
#include "import/kineto_json.h"
#include "import/recordings.h"

namespace heddle::import {

using namespace workload;
namespace {

constexpr std::string_view kRecordTableAgain =
    "The recording is damaged or of an unknown kind: record it again, or remove the line from the file.";
constexpr std::string_view kRecordTrace =
    "Record with `rocprofv3 --kernel-trace --output-format csv` and give its file ..._kernel_trace.csv.";
constexpr auto kMost64 = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

// The dispatches of one agent become a workload.
class RocprofBuilder {
 public:
  RocprofBuilder(std::vector<RocprofDispatch>& dispatches, std::vector<std::size_t> order, std::string file,
                 std::string name)
      : dispatches_(dispatches), order_(std::move(order)), file_(std::move(file)) {
    workload_.name = std::move(name);
    workload_.format = "rocprof";
    workload_.device.id = dispatches_[order_.front()].agent;
    workload_.device.warp_size = 64;  // rocprofv3 is for AMD's; the preset says what it really is
  }

  Workload build() {
    std::sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      const RocprofDispatch& left = dispatches_[a];
      const RocprofDispatch& right = dispatches_[b];
      return std::tie(left.start, left.order, a) < std::tie(right.start, right.order, b);
    });
    origin_ = dispatches_[order_.front()].start;
    workload_.origin = origin_;
    workload_.ops.reserve(order_.size());
    for (const std::size_t index : order_) workload_.ops.push_back(convert(dispatches_[index]));
    workload_.warnings.push_back(
        fmt::format("The recording does not say what device {} is; durations are fitted to the chosen machine.",
                    workload_.device.id));
    if (overlapping_ > 0) {
      workload_.warnings.push_back(
          fmt::format("{} kernels start before the previous one of their queue has ended, by {} ns at most; a replay "
                      "runs the kernels of a queue one after another.",
                      overlapping_, longest_overlap_));
    }
    derive_dependencies(workload_, std::vector<HostMoment>(workload_.ops.size()), {});
    measure_gap();
    return std::move(workload_);
  }

 private:
  Op convert(RocprofDispatch& from) {
    // The bound keeps every sum of times within 64 bits.
    if (from.start - origin_ > kMaxRecordedSpan) {
      throw InputError({file_, static_cast<int>(from.line)},
                       fmt::format("it starts {} s after the first kernel of agent {}",
                                   (from.start - origin_) / 1'000'000'000, from.agent),
                       "The recording mixes clocks: record it again.");
    }
    Op op;
    op.stream = stream(from);
    op.recorded = Recorded{from.start - origin_, from.end - from.start, -1.0, false};
    static_cast<arch::KernelShape&>(op.kernel) = from.kernel;
    op.kernel.name = std::move(from.name);
    return op;
  }

  std::size_t stream(const RocprofDispatch& from) {
    const auto [at, added] = streams_.emplace(from.queue, workload_.streams.size());
    if (added) {
      workload_.streams.push_back({std::to_string(from.queue), 0});
      ends_.push_back(from.end);
      return at->second;
    }
    Nanoseconds& end = ends_[at->second];
    gaps_.push_back(from.start - end);
    if (from.start < end) {
      ++overlapping_;
      longest_overlap_ = std::max(longest_overlap_, end - from.start);
    }
    end = std::max(end, from.end);
    return at->second;
  }

  // Which kernels waited for their predecessor is not recorded; those with the shortest gaps did. Too short a gap is
  // harmless: no kernel starts before its recorded start.
  void measure_gap() {
    if (gaps_.empty()) return;
    const auto quartile = gaps_.begin() + static_cast<std::ptrdiff_t>((gaps_.size() - 1) / 4);
    std::nth_element(gaps_.begin(), quartile, gaps_.end());
    workload_.timings.stream_gap = std::max<Nanoseconds>(*quartile, 0);
  }

  std::vector<RocprofDispatch>& dispatches_;
  std::vector<std::size_t> order_;
  std::string file_;
  std::unordered_map<std::uint64_t, std::size_t> streams_;  // by queue: index into Workload::streams
  std::vector<Nanoseconds> ends_;                           // latest so far, by stream
  std::vector<Nanoseconds> gaps_;                           // between kernels of a queue
  std::size_t overlapping_ = 0;
  Nanoseconds longest_overlap_ = 0;
  Workload workload_;
  Nanoseconds origin_ = 0;
};

std::vector<Workload> rocprof_from(ByteSource& source, const std::string& name) {
  RocprofTable table(source);
  std::map<int, std::vector<std::size_t>> by_agent;
  for (std::size_t i = 0; i < table.dispatches.size(); ++i) by_agent[table.dispatches[i].agent].push_back(i);
  std::vector<Workload> workloads;
  for (auto& [agent, order] : by_agent) {
    workloads.push_back(RocprofBuilder(table.dispatches, std::move(order), source.name(), name).build());
  }
  return workloads;
}

}  // namespace

bool is_rocprof_header(std::string_view header) {
  const std::string names = lower_case(header);
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
                kRecordTableAgain);
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
    const std::string title = lower_case(titles_[i]);
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
    csv_.fail(fmt::format("there is no column {}", kNames[column][0]), kRecordTrace);
  }
}

void RocprofTable::wrong(Column column, std::string_view expected) const {
  csv_.fail(fmt::format("{} is \"{}\", expected {}", title(column), printable(text(column), 60), expected),
            kRecordTableAgain);
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
    if (lower_case(text_of.substr(0, word.size())) == word) text_of.remove_prefix(word.size());
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
              kRecordTableAgain);
  }
  const std::uint64_t plane = std::uint64_t{kernel.grid.x} * kernel.grid.y;
  if (plane > kMaxRecordedCtas || plane > kMaxRecordedCtas / kernel.grid.z) {
    csv_.fail("the grid has more than 2^48 workgroups", kRecordTableAgain);
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
  if (present(kind) && lower_case(text(kind)) != kKind) wrong(kind, "KERNEL_DISPATCH");
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
    csv_.fail(fmt::format("it ends {} ns before it starts", result.start - result.end), kRecordTableAgain);
  }
  if (result.end - result.start > kMaxRecordedDuration) {
    csv_.fail(fmt::format("it lasts {} s", (result.end - result.start) / 1'000'000'000), kRecordTableAgain);
  }
  result.name = text(name);
  if (result.name.empty()) wrong(name, "the name of a kernel");
  result.kernel = read_shape();
  return result;
}

using namespace workload;

bool looks_like_rocprof(const std::string& path) {
  constexpr std::size_t kLongestHeader = 4096;
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  std::string line;
  while (line.size() < kLongestHeader) {
    const int byte = source->sbumpc();
    if (byte == std::streambuf::traits_type::eof() || byte == '\n') break;
    line.push_back(static_cast<char>(byte));
  }
  return is_rocprof_header(line);
}

std::vector<Workload> import_rocprof(const std::string& path) {
  const std::unique_ptr<ByteSource> source = open_bytes(path);
  return rocprof_from(*source, std::filesystem::path(path).filename().string());
}

std::vector<Workload> import_rocprof(std::istream& stream, const std::string& name) {
  const std::unique_ptr<ByteSource> source = stream_bytes(stream, name);
  return rocprof_from(*source, name);
}

}  // namespace heddle::import
