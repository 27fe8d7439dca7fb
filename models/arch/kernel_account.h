// What each kernel has used of the machine: instructions, places of warps, bytes of the caches and of memory, matrix
// multiplies, and what its warps have waited for (CWD-48). Whoever asks is charged: each CTA belongs to a kernel, and
// requests carry its row on their way. What nobody's CTA has asked for is nobody's, the sums of row 0: write-backs,
// page walks, the front end, copy engines, hosts. The sums over all rows are the statistics of the machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace heddle {

class Labels;

enum class KernelCount : std::uint8_t {
  instructions,
  warp_cycles,
  l1_hits,
  l1_misses,
  tensor_cycles,
  tensor_operations,
  l2_requests,
  l2_hits,
  l2_bytes,
  request_bytes,
  response_bytes,
  dram_read,
  dram_written,
  fp32_cycles,
  fp64_cycles,
  int32_cycles,
  sfu_cycles,
  shared_cycles,
  atomic_cycles,
};
constexpr std::size_t kKernelCounts = 19;

struct KernelCountRow {
  KernelCount count;
  const char* key;  // in files
  const char* unit;
  const char* text;
};
// In the order of KernelCount.
inline constexpr KernelCountRow kKernelCountRows[kKernelCounts] = {
    {KernelCount::instructions, "instructions", "warp instructions", "instructions that have issued"},
    {KernelCount::warp_cycles, "warp_cycles", "warps x cycles", "resident warps, summed over time"},
    {KernelCount::l1_hits, "l1_hit_sectors", "sectors", "sectors of loads that were in the L1"},
    {KernelCount::l1_misses, "l1_miss_sectors", "sectors", "sectors of loads that were not in the L1"},
    {KernelCount::tensor_cycles, "tensor_cycles", "cycles x partitions", "in which tensor cores multiplied"},
    {KernelCount::tensor_operations, "tensor_operations", "operations", "products and sums of matrix multiplies"},
    {KernelCount::l2_requests, "l2_requests", "requests", "requests that the L2 has served"},
    {KernelCount::l2_hits, "l2_hits", "requests", "of these, served without waiting for memory"},
    {KernelCount::l2_bytes, "l2_bytes", "bytes", "sectors that reads, writes and atomics touched in the L2"},
    {KernelCount::request_bytes, "xbar_request_bytes", "bytes", "requests that entered the crossbar"},
    {KernelCount::response_bytes, "xbar_response_bytes", "bytes", "responses that entered the crossbar"},
    {KernelCount::dram_read, "dram_read_bytes", "bytes", "sectors read from memory because the kernel asked first"},
    {KernelCount::dram_written, "dram_written_bytes", "bytes", "sectors written to memory"},
    {KernelCount::fp32_cycles, "fp32_cycles", "cycles x partitions", "in which fp32 units were taken"},
    {KernelCount::fp64_cycles, "fp64_cycles", "cycles x partitions", "in which fp64 units were taken"},
    {KernelCount::int32_cycles, "int32_cycles", "cycles x partitions", "in which integer units were taken"},
    {KernelCount::sfu_cycles, "sfu_cycles", "cycles x partitions", "in which special-function units were taken"},
    {KernelCount::shared_cycles, "shared_cycles", "cycles x SMs", "in which shared memory was accessed"},
    {KernelCount::atomic_cycles, "atomic_cycles", "cycles x slices", "in which slices of the L2 changed values"},
};

enum class WarpStall : std::uint8_t {
  memory,
  scoreboard,
  tensor,
  barrier,
  cluster,
  mbarrier,
  bulk_queue,
  bulk,
  launch,
  children,
  dependency,
  occupancy,
  issue,
  fetch,
  constants,
};
constexpr std::size_t kWarpStalls = 15;

struct WarpStallRow {
  WarpStall why;
  const char* key;   // of the statistic, and in files
  const char* text;  // warps that ...
};
// In the order of WarpStall.
inline constexpr WarpStallRow kWarpStallRows[kWarpStalls] = {
    {WarpStall::memory, "memory", "waited for a load, an acknowledgement or a copy"},
    {WarpStall::scoreboard, "scoreboard", "waited for a result of a unit"},
    {WarpStall::tensor, "tensor", "waited for asynchronous matrix multiplies, or for a place behind them"},
    {WarpStall::barrier, "barrier", "waited at a barrier"},
    {WarpStall::cluster, "cluster", "waited at the barrier of their cluster"},
    {WarpStall::mbarrier, "mbarrier", "waited for a phase of an mbarrier"},
    {WarpStall::bulk_queue, "bulk_queue", "waited for a place in the queue of the TMAU"},
    {WarpStall::bulk, "bulk", "waited for groups of bulk requests, or for all of them"},
    {WarpStall::launch, "launch", "were in the middle of a launch of child tasks or its like"},
    {WarpStall::children, "children", "waited for their child tasks"},
    {WarpStall::dependency, "dependency", "waited for the end of the kernel before their own"},
    {WarpStall::occupancy, "occupancy", "waited for the distributor's answer to a query"},
    {WarpStall::issue, "issue", "could go on and waited for their turn or for a free unit"},
    {WarpStall::fetch, "fetch", "waited for instructions"},
    {WarpStall::constants, "constants", "waited for the parameters of their kernel"},
};

// Numbers of rows travel with requests (protocol::MemoryExtension::kernel): a row stays what it is until the end, also
// over a reset, which only takes what was counted.
class KernelAccount {
 public:
  static constexpr std::uint32_t kNobody = 0;
  static constexpr std::uint32_t kNoProgram = ~std::uint32_t{0};
  // Rows of operations of their own. Those that come later share a row by the name of their kernel, so that machines
  // with millions of launches have bounded results.
  static constexpr std::size_t kMostOperations = std::size_t{1} << 16;

  struct Row {
    std::uint32_t operation = 0;         // that its CTAs run as; of a row by name the first of them
    std::uint32_t program = kNoProgram;  // the text of its code, as arch::CodeStore numbers them
    std::string name;                    // empty: a row of one operation; else of a kernel and a program
    std::array<std::uint64_t, kKernelCounts> counts{};
    std::array<std::uint64_t, kWarpStalls> stalls{};
    std::uint64_t busiest_slice = 0;  // of atomic_cycles, those of the slice with most

    std::uint64_t of(KernelCount count) const { return counts[static_cast<std::size_t>(count)]; }
  };
  using Stalls = std::array<std::uint64_t, kWarpStalls>;  // warps x cycles

  // `labels` name operations that come when there are too many, and must outlive the calls of row_of().
  explicit KernelAccount(const Labels& labels, std::size_t most_operations = kMostOperations);

  // The row of CTAs that run as that operation. `program`: the text of their code, when the first comes; kNoProgram:
  // they have none.
  std::uint32_t row_of(std::uint32_t operation, std::uint32_t program = kNoProgram) {
    return operation == last_operation_ && last_row_ != kNobody ? last_row_ : find(operation, program);
  }
  void add(std::uint32_t row, KernelCount count, std::uint64_t amount) {
    rows_[row].counts[static_cast<std::size_t>(count)] += amount;
  }
  // A slice of the L2 changes values for it: for one line, all of them one after another in that slice.
  void atomics(std::uint32_t row, std::uint32_t slice, std::uint64_t cycles);
  // A warp has waited at the instruction with that number of the program.
  void stall(std::uint32_t row, WarpStall why, std::uint32_t pc, std::uint64_t cycles);
  void clear();

  // The first is nobody's; the others in the order in which their first CTAs came.
  const std::vector<Row>& rows() const { return rows_; }
  // By program and number of the instruction; behind the end of a program's, nobody has waited.
  const std::vector<std::vector<Stalls>>& lines() const { return lines_; }
  // The kernel that was the first to come with that program; empty: none has.
  std::string kernel_with(std::uint32_t program) const {
    return program < kernels_.size() ? kernels_[program] : std::string();
  }

 private:
  std::uint32_t find(std::uint32_t operation, std::uint32_t program);

  const Labels& labels_;
  const std::size_t most_operations_;
  std::vector<Row> rows_;
  std::vector<std::vector<Stalls>> lines_;
  std::vector<std::string> kernels_;                 // by program
  std::vector<std::vector<std::uint64_t>> atomics_;  // cycles by row and slice; rows without atomics have none
  std::uint32_t last_operation_ = 0;
  std::uint32_t last_row_ = kNobody;
  std::unordered_map<std::uint32_t, std::uint32_t> operations_;             // rows; looked up only
  std::map<std::pair<std::string, std::uint32_t>, std::uint32_t> by_name_;  // rows by kernel and program
};

// There is one: most runs are made for speed without it.
inline bool counts_kernels(const KernelAccount* account) { return __builtin_expect(account != nullptr, 0) != 0; }

// The name of a kernel in the label of an operation, which says more: its number and stream, its packet, or how many
// programs had launched before.
std::string kernel_of_label(const std::string& label);

}  // namespace heddle
