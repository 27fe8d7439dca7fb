#include "arch/code_store.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace heddle::arch {
namespace {

std::uint32_t rest(std::uint32_t items, std::uint32_t block, std::uint32_t cta) {
  const std::uint64_t before = std::uint64_t{cta} * block;
  HEDDLE_CHECK(before < items, "a CTA beyond the work-items of its grid");
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(block, items - before));
}

bool covers(std::uint32_t grid, std::uint32_t block, std::uint32_t items) {
  return block > 0 && grid == (std::uint64_t{items} + block - 1) / block;
}

}  // namespace

Dim3 Code::block_of(const Dim3& cta) const {
  if (!items.any()) return block;
  return {rest(items.items.x, block.x, cta.x), rest(items.items.y, block.y, cta.y),
          rest(items.items.z, block.z, cta.z)};
}

bool CodeStore::is(std::uint32_t code, Use use) const {
  return code != kNoCode && code <= entries_.size() && entries_[code - 1].use == use;
}

std::uint32_t CodeStore::add(std::shared_ptr<const WarpProgram> program, const KernelShape& kernel) {
  HEDDLE_CHECK(program != nullptr, "a code without a program");
  Code code{std::move(program), kernel.grid, kernel.block, kernel.shared_bytes, kernel.cluster, {}, 0, {}};
  entries_.push_back({std::move(code), Use::program});
  return static_cast<std::uint32_t>(entries_.size());
}

bool CodeStore::has(std::uint32_t code) const { return is(code, Use::program); }

const Code& CodeStore::at(std::uint32_t code) const {
  HEDDLE_CHECK(is(code, Use::program) || is(code, Use::lent), "there is no such code");
  return entries_[code - 1].code;
}

std::uint32_t CodeStore::lend(std::uint32_t program, const KernelShape& kernel, const WorkItems& items,
                              std::uint64_t kernarg) {
  HEDDLE_CHECK(has(program), "a launch of a program that nobody added");
  const Dim3& all = items.items;
  HEDDLE_CHECK(
      !items.any() || (covers(kernel.grid.x, kernel.block.x, all.x) && covers(kernel.grid.y, kernel.block.y, all.y) &&
                       covers(kernel.grid.z, kernel.block.z, all.z)),
      "a grid that does not cover its work-items");
  return enter(
      {at(program).program, kernel.grid, kernel.block, kernel.shared_bytes, kernel.cluster, items, kernarg, {}});
}

std::uint32_t CodeStore::lend(std::uint32_t program, const KernelShape& kernel, const QueueGeometry& queue) {
  HEDDLE_CHECK(has(program), "a queue task of a program that nobody added");
  HEDDLE_CHECK(queue.any(), "a queue task without a queue");
  const Dim3 row{kMaxGridX, 1, 1};
  return enter({at(program).program, row, kernel.block, kernel.shared_bytes, kernel.cluster, {}, 0, queue});
}

std::uint32_t CodeStore::enter(Code code) {
  ++lent_;
  if (free_.empty()) {
    entries_.push_back({std::move(code), Use::lent});
    return static_cast<std::uint32_t>(entries_.size());
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  entries_[number - 1] = {std::move(code), Use::lent};
  return number;
}

void CodeStore::free(std::uint32_t code) {
  entries_[code - 1] = {{}, Use::free};
  free_.push_back(code);
}

void CodeStore::give_back(std::uint32_t code) {
  HEDDLE_CHECK(is(code, Use::lent), "a code was given back that was not lent");
  free(code);
  --lent_;
}

void CodeStore::reset() {
  for (std::uint32_t code = 1; code <= entries_.size(); ++code) {
    if (is(code, Use::lent)) free(code);
  }
  lent_ = 0;
}

}  // namespace heddle::arch
