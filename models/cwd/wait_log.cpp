#include "cwd/wait_log.h"

#include <fmt/format.h>

namespace heddle::cwd {

const char* wait_key(WaitReason reason) {
  static constexpr const char* kKeys[kWaitReasons] = {"none",        "free_slots",  "cga_ids", "flush",
                                                      "gpu_barrier", "memory_slot", "credits", "local_memory",
                                                      "behind",      "pool",        "evicted", "tpc_mask"};
  return kKeys[static_cast<std::size_t>(reason)];
}

const char* wait_text(WaitReason reason) {
  static constexpr const char* kTexts[kWaitReasons] = {
      "nothing",
      "no room: too few free slots",
      "no CGA id or barrier slot on a GPC with room",
      "its own CGAs are being flushed",
      "no GPU_CGA barrier",
      "no CGA memory slot",
      "no TPC credit",
      "no local-memory block",
      "behind a task that waits",
      "no place in the pools of a GPC with room",
      "evicted from the task table",
      "no room on the TPCs of its subcontext",
  };
  return kTexts[static_cast<std::size_t>(reason)];
}

WaitLog::WaitLog(const CwdContext& context, std::uint32_t slots, std::function<std::string(std::uint32_t)> name)
    : context_(context), name_(std::move(name)), waits_(slots) {
  for (std::size_t i = 1; i < kWaitReasons; ++i) {
    const auto reason = static_cast<WaitReason>(i);
    cycles_[i] = &context.observation.stats.counter(
        fmt::format("{}.wait.{}", context.stat_prefix, wait_key(reason)), "task cycles",
        fmt::format("time that tasks with CTAs left waited: {}", wait_text(reason)));
  }
}

void WaitLog::set(std::uint32_t slot, WaitReason reason) {
  Wait& wait = waits_[slot];
  if (wait.reason == reason) return;
  const Cycle now = context_.now();
  if (wait.reason != WaitReason::none && now > wait.since) {
    cycles_[static_cast<std::size_t>(wait.reason)]->add(now - wait.since);
    if (on_end_) on_end_(slot, wait.reason, now - wait.since);
    if (context_.timeline() != nullptr) {
      if (wait.track.group == 0) wait.track = context_.track(fmt::format("waits in slot {}", slot));
      context_.draw(wait.track, wait.since, fmt::format("{}: {}", name_(slot), wait_text(wait.reason)));
    }
  }
  wait.reason = reason;
  wait.since = now;
}

void WaitLog::reset() {
  for (Wait& wait : waits_) wait.reason = WaitReason::none;
}

}  // namespace heddle::cwd
