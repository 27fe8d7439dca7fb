// Whose what counts: rows of operations, and of kernels where there are too many operations.
#include "arch/kernel_account.h"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "arch/gpu_observation.h"

namespace arch_kernel_account_test {

using namespace heddle;

namespace {

constexpr std::uint32_t kNone = KernelAccount::kNoProgram;

std::uint64_t all_of(const KernelAccount& account, KernelCount count) {
  std::uint64_t sum = 0;
  for (const KernelAccount::Row& row : account.rows()) sum += row.of(count);
  return sum;
}

}  // namespace

TEST_CASE("an operation has one row, from its first CTA on", "[arch][CWD-48]") {
  Labels labels("operation");
  KernelAccount account(labels);
  const std::uint32_t five = account.row_of(5, kNone);
  const std::uint32_t nine = account.row_of(9, kNone);
  CHECK(five != KernelAccount::kNobody);
  CHECK(nine != five);
  CHECK(account.row_of(5, kNone) == five);
  CHECK(account.row_of(0, kNone) != five);
  account.add(five, KernelCount::l2_bytes, 64);
  account.add(KernelAccount::kNobody, KernelCount::l2_bytes, 32);
  CHECK(account.rows()[five].operation == 5);
  CHECK(account.rows()[five].of(KernelCount::l2_bytes) == 64);
  CHECK(account.rows()[nine].of(KernelCount::l2_bytes) == 0);
  CHECK(all_of(account, KernelCount::l2_bytes) == 96);
}

TEST_CASE("beyond the rows of operations there is one of each kernel", "[arch][CWD-48]") {
  Labels labels("operation");
  constexpr std::uint32_t kOwn = 10;
  constexpr std::uint32_t kAll = 1000;
  KernelAccount account(labels, kOwn);
  for (std::uint32_t operation = 0; operation < kAll; ++operation) {
    const char* name = operation % 2 == 0 ? "even" : "odd <a, b> #1";
    labels.set(operation, fmt::format("{} (operation {}, stream main)", name, operation));
    account.add(account.row_of(operation, kNone), KernelCount::instructions, operation);
  }
  REQUIRE(account.rows().size() == 1 + kOwn + 2);
  std::uint64_t even = 0;
  std::uint64_t odd = 0;
  for (std::uint32_t operation = kOwn; operation < kAll; ++operation) (operation % 2 == 0 ? even : odd) += operation;
  CHECK(account.rows()[kOwn + 1].name == "even");
  CHECK(account.rows()[kOwn + 1].of(KernelCount::instructions) == even);
  CHECK(account.rows()[kOwn + 2].name == "odd <a, b> #1");
  CHECK(account.rows()[kOwn + 2].of(KernelCount::instructions) == odd);
  CHECK(all_of(account, KernelCount::instructions) == kAll * (kAll - 1) / 2);
}

TEST_CASE("kernels of one name with different programs have rows of their own", "[arch][CWD-48]") {
  Labels labels("operation");
  for (const std::uint32_t operation : {1, 2, 3, 4}) labels.set(operation, "k (operation 1, stream a)");
  KernelAccount account(labels, 1);
  (void)account.row_of(1, 3);
  const std::uint32_t one = account.row_of(2, 3);
  const std::uint32_t other = account.row_of(3, 5);
  CHECK(one != other);
  CHECK(account.row_of(4, 3) == one);
  account.stall(one, WarpStall::memory, 0, 7);
  account.stall(other, WarpStall::memory, 0, 9);
  REQUIRE(account.lines().size() == 6);
  CHECK(account.lines()[3].at(0)[static_cast<std::size_t>(WarpStall::memory)] == 7);
  CHECK(account.lines()[5].at(0)[static_cast<std::size_t>(WarpStall::memory)] == 9);
}

TEST_CASE("a program has the name of the kernel that came first, also when that has ended", "[arch][CWD-48]") {
  Labels labels("operation");
  labels.set(1, "first #1");
  KernelAccount account(labels);
  (void)account.row_of(1, 2);
  labels.forget(1);
  labels.set(2, "second #2");
  (void)account.row_of(2, 2);
  CHECK(account.kernel_with(2) == "first");
  CHECK(account.kernel_with(0).empty());
  CHECK(account.kernel_with(9).empty());
}

TEST_CASE("atomics limit by the slice that has most of them", "[arch][CWD-48]") {
  Labels labels("operation");
  KernelAccount account(labels);
  const std::uint32_t row = account.row_of(1);
  account.atomics(row, 2, 8);
  account.atomics(row, 0, 5);
  account.atomics(row, 2, 1);
  CHECK(account.rows()[row].of(KernelCount::atomic_cycles) == 14);
  CHECK(account.rows()[row].busiest_slice == 9);
  account.clear();
  CHECK(account.rows()[row].busiest_slice == 0);
  account.atomics(row, 0, 3);
  CHECK(account.rows()[row].busiest_slice == 3);
}

TEST_CASE("the name of a kernel is what stands in front of the rest of a label", "[arch][CWD-48]") {
  CHECK(kernel_of_label("gemm (operation 3, stream a)") == "gemm");
  CHECK(kernel_of_label("kernel (queue 1, packet 77)") == "kernel");
  CHECK(kernel_of_label("leaf #12") == "leaf");
  CHECK(kernel_of_label("operation 7") == "operation 7");
}

TEST_CASE("warps wait at lines of programs, and launches of one program at the same ones", "[arch][CWD-48]") {
  Labels labels("operation");
  KernelAccount account(labels);
  const std::uint32_t first = account.row_of(1, 3);
  const std::uint32_t second = account.row_of(2, 3);
  const std::uint32_t timed = account.row_of(3, kNone);
  account.stall(first, WarpStall::memory, 7, 100);
  account.stall(second, WarpStall::memory, 7, 20);
  account.stall(second, WarpStall::issue, 2, 5);
  account.stall(timed, WarpStall::issue, 2, 1);
  account.stall(KernelAccount::kNobody, WarpStall::issue, 2, 1);
  REQUIRE(account.lines().size() == 4);
  REQUIRE(account.lines()[3].size() == 8);
  CHECK(account.lines()[3][7][static_cast<std::size_t>(WarpStall::memory)] == 120);
  CHECK(account.lines()[3][2][static_cast<std::size_t>(WarpStall::issue)] == 5);
  CHECK(account.rows()[second].stalls[static_cast<std::size_t>(WarpStall::memory)] == 20);
  CHECK(account.rows()[timed].stalls[static_cast<std::size_t>(WarpStall::issue)] == 1);

  account.clear();
  CHECK(account.row_of(2, 3) == second);  // requests that are under way still say so
  CHECK(account.rows()[second].stalls == KernelAccount::Stalls{});
  CHECK(account.lines().empty());
}

TEST_CASE("rows of counts and of reasons stand in the order of their numbers", "[arch][CWD-48]") {
  for (std::size_t i = 0; i < kKernelCounts; ++i) CHECK(static_cast<std::size_t>(kKernelCountRows[i].count) == i);
  for (std::size_t i = 0; i < kWarpStalls; ++i) CHECK(static_cast<std::size_t>(kWarpStallRows[i].why) == i);
}

}  // namespace arch_kernel_account_test
