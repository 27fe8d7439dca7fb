#include "sm/instruction_fetch.h"

#include <algorithm>

#include "arch/kernel_object.h"
#include "arch/memory_op.h"
#include "sm/cta_table.h"
#include "sm/global_path.h"
#include "sm/warp_scheduler.h"

namespace heddle::sm {
namespace {

constexpr std::uint32_t kWays = 4;

}  // namespace

InstructionFetch::InstructionFetch(const UnitContext& context, const std::string& path, std::uint64_t begin,
                                   std::uint64_t end, const Peers& peers)
    : SmUnit(context), begin_(begin), end_(end), peers_(peers) {
  const FetchParams& fetch = params_.fetch;
  if (fetch.cache_bytes > 0) instructions_.emplace(fetch.cache_bytes / arch::kLineBytes, kWays);
  if (fetch.constant_bytes > 0) constants_.emplace(fetch.constant_bytes / arch::kLineBytes, kWays);
  if (any()) counts_.emplace(time_.observation().stats, time_.observation().prefix + "." + path);
}

void InstructionFetch::reset() {
  if (instructions_) instructions_->reset();
  if (constants_) constants_->reset();
  reads_.clear();
}

// Small memories have less than all programs take: then these lie on each other.
std::uint64_t InstructionFetch::address_of(std::uint32_t text, std::uint64_t offset) const {
  const std::uint64_t below = (std::uint64_t{text} + 1) * kTextBytes - offset % kTextBytes;
  return arch::line_of(end_ - 1 - (below - 1) % (end_ - begin_));
}

InstructionFetch::Want InstructionFetch::want(Event cache, const Warp& warp) const {
  const Cta& cta = ctas_[warp.cta];
  if (cache == kConstants) {
    const std::uint64_t line = warp.front.constants;
    const std::uint64_t key = std::uint64_t{cta.operation} * params_.fetch.constant_lines + line;
    return {cache, key, address_of(cta.code->text, kTextBytes - 1 - line * arch::kLineBytes)};
  }
  const std::uint32_t text = warp.front.runtime > 0 ? kRuntimeText : cta.code->text;
  const std::uint64_t place = warp.front.runtime > 0 ? warp.front.runtime - 1 : warp.state.pc;
  const std::uint64_t offset = place * params_.fetch.operation_bytes;
  return {cache, (text * kTextBytes + offset % kTextBytes) / arch::kLineBytes, address_of(text, offset)};
}

bool InstructionFetch::supplies(std::uint32_t slot, Cycle& from) {
  Warp& warp = warps_[slot];
  if (instructions_ && !finds(slot, kInstructions, from)) return false;
  while (constants_ && warp.front.constants < params_.fetch.constant_lines) {
    if (!finds(slot, kConstants, from)) return false;
  }
  return true;
}

bool InstructionFetch::supplies_runtime(std::uint32_t slot, std::uint32_t instruction, Cycle& from) {
  if (!instructions_) return true;
  WarpFront& front = warps_[slot].front;
  front.runtime = instruction + 1;
  if (!finds(slot, kInstructions, from)) return false;
  front.runtime = 0;
  return true;
}

bool InstructionFetch::finds(std::uint32_t slot, Event cache, Cycle& from) {
  WarpFront& front = warps_[slot].front;
  const Want its = want(cache, warps_[slot]);
  if (cache == kInstructions && front.line == its.key) return true;
  const Cycle ready = cache_of(cache).find(its.key);
  if (ready == kNever) {
    // It asks in the cycle in which it would go on, when others may have asked already.
    warps_[slot].wait = WarpWait::fetch;
    warps_[slot].since = from;
    (cache == kInstructions ? counts_->misses : counts_->constant_misses).add();
    time_.schedule(std::max(from, now()), *this, cache, std::uint64_t{++front.fetch} << 32 | slot);
    return false;
  }
  (cache == kInstructions ? counts_->hits : counts_->constant_hits).add();
  if (ready > from) {
    const Warp& warp = warps_[slot];
    waited_next(cache == kInstructions ? counts_->stall : counts_->constant_stall, warp, ready - from);
    from = ready;
  }
  if (cache == kInstructions) {
    front.line = its.key;
  } else {
    ++front.constants;
  }
  return true;
}

void InstructionFetch::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto slot = static_cast<std::uint32_t>(argument);
  const auto fetch = static_cast<std::uint32_t>(argument >> 32);
  const Warp& warp = warps_[slot];
  if (warp.wait != WarpWait::fetch || warp.front.fetch != fetch) return;  // it has been killed
  const Want its = want(static_cast<Event>(kind), warp);
  const Cycle ready = cache_of(its.cache).find(its.key);
  if (ready != kNever) return serve(slot, its, std::max(ready, now()));
  if (Read* read = under_way(its)) {
    read->waiters.push_back({slot, fetch});
    return;
  }
  const std::uint32_t lines = its.cache == kInstructions ? params_.fetch.prefetch_lines : 0;
  read(slot, its, {{slot, fetch}});
  for (Want next = its; next.key < its.key + lines;) {
    ++next.key;
    next.address += arch::kLineBytes;
    const bool outside = next.address >= end_ || next.key % (kTextBytes / arch::kLineBytes) == 0;
    if (outside) return;
    if (cache_of(next.cache).find(next.key) == kNever && under_way(next) == nullptr) read(slot, next, {});
  }
}

InstructionFetch::Read* InstructionFetch::under_way(const Want& its) {
  Read* found = nullptr;
  reads_.for_each([&](Read& read) {
    if (read.want.cache == its.cache && read.want.key == its.key) found = &read;
  });
  return found;
}

void InstructionFetch::read(std::uint32_t slot, const Want& its, std::vector<Waiter> waiters) {
  const std::uint32_t number = reads_.take();
  reads_[number] = {its, std::move(waiters)};
  const MemoryResult result = peers_.global.fetch(slot, its.address, number, now(), *this);
  if (!result.open || result.lost) arrived(number, std::max(result.arrival, now()));
}

void InstructionFetch::arrived(std::uint32_t number, Cycle when) {
  const Read read = std::move(reads_[number]);
  reads_.give_back(number);
  cache_of(read.want.cache).enter(read.want.key, when);
  for (const Waiter& waiter : read.waiters) {
    const Warp& warp = warps_[waiter.slot];
    if (warp.wait == WarpWait::fetch && warp.front.fetch == waiter.fetch) serve(waiter.slot, read.want, when);
  }
}

// What has come is the warp's, even if others take its place in the cache before the warp issues.
void InstructionFetch::serve(std::uint32_t slot, const Want& its, Cycle when) {
  WarpFront& front = warps_[slot].front;
  if (its.cache == kInstructions) {
    front.line = its.key;
  } else {
    ++front.constants;
  }
  const StallCounter& stall = its.cache == kInstructions ? counts_->stall : counts_->constant_stall;
  if (front.runtime == 0) return peers_.scheduler.resume(slot, when, stall);
  const Cycle from = std::max(warps_[slot].since, when);
  waited(stall, warps_[slot], from - warps_[slot].since);
  peers_.scheduler.give_turn(slot, from, arch::Unit::int32);
}

}  // namespace heddle::sm
