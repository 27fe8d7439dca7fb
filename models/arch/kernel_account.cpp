#include "arch/kernel_account.h"

#include <algorithm>
#include <array>

#include "arch/gpu_observation.h"

namespace heddle {

std::string kernel_of_label(const std::string& label) {
  for (const char* more : std::array{" (operation ", " (queue ", " #"}) {
    const std::size_t end = label.rfind(more);
    if (end != std::string::npos) return label.substr(0, end);
  }
  return label;
}

KernelAccount::KernelAccount(const Labels& labels, std::size_t most_operations)
    : labels_(labels), most_operations_(most_operations), rows_(1) {}

std::uint32_t KernelAccount::find(std::uint32_t operation, std::uint32_t program) {
  last_operation_ = operation;
  const auto found = operations_.find(operation);
  if (found != operations_.end()) return last_row_ = found->second;
  const auto row = static_cast<std::uint32_t>(rows_.size());
  Row its;
  its.operation = operation;
  its.program = program;
  if (program != kNoProgram) {  // labels are gone when the kernel has ended
    if (kernels_.size() <= program) kernels_.resize(program + 1);
    if (kernels_[program].empty()) kernels_[program] = kernel_of_label(labels_.of(operation));
  }
  if (operations_.size() < most_operations_) {
    operations_.emplace(operation, row);
    rows_.push_back(its);
    return last_row_ = row;
  }
  its.name = kernel_of_label(labels_.of(operation));
  const auto [place, fresh] = by_name_.emplace(std::pair(its.name, program), row);
  if (fresh) rows_.push_back(its);
  return last_row_ = place->second;
}

void KernelAccount::atomics(std::uint32_t row, std::uint32_t slice, std::uint64_t cycles) {
  add(row, KernelCount::atomic_cycles, cycles);
  if (atomics_.size() <= row) atomics_.resize(row + 1);
  std::vector<std::uint64_t>& slices = atomics_[row];
  if (slices.size() <= slice) slices.resize(slice + 1);
  slices[slice] += cycles;
  rows_[row].busiest_slice = std::max(rows_[row].busiest_slice, slices[slice]);
}

void KernelAccount::stall(std::uint32_t row, WarpStall why, std::uint32_t pc, std::uint64_t cycles) {
  if (cycles == 0) return;
  const auto reason = static_cast<std::size_t>(why);
  Row& its = rows_[row];
  its.stalls[reason] += cycles;
  if (its.program == kNoProgram) return;
  if (lines_.size() <= its.program) lines_.resize(its.program + 1);
  std::vector<Stalls>& lines = lines_[its.program];
  if (lines.size() <= pc) lines.resize(pc + 1);
  lines[pc][reason] += cycles;
}

void KernelAccount::clear() {
  for (Row& row : rows_) {
    row.counts = {};
    row.stalls = {};
    row.busiest_slice = 0;
  }
  atomics_.clear();
  lines_.clear();
}

}  // namespace heddle
