#include "sm/context_streams.h"

#include "common/bits.h"

namespace heddle::sm {
namespace {

using arch::MemoryStep;

std::uint64_t bit_of(std::uint32_t stream) { return std::uint64_t{1} << arch::place_of(stream); }

MemoryStep change_stream(const LaunchRun& run, const Cta& cta, std::uint32_t stream, bool lives) {
  return {MemoryStep::Kind::compare_exchange, cta.context.address + arch::context::live_streams(arch::tmdq_of(stream)),
          lives ? run.expected | bit_of(stream) : run.expected & ~bit_of(stream), run.expected};
}

}  // namespace

bool ContextStreams::is_live(std::uint32_t stream, const Cta& cta) const {
  return stream == 0 || (arch::is_stream(stream, memory_.tmdqs) && cta.context.here() && cta.context.lives(stream));
}

// Other CTAs create and destroy streams of a shared context: they are looked at each time.
bool ContextStreams::known(LaunchRun& run, const Cta& cta) const {
  if (!cta.context.here() || run.wait == arch::ChildWait::launch) return true;
  for (const std::uint64_t value : run.named) {
    const auto stream = static_cast<std::uint32_t>(value);
    const std::uint32_t tmdq = arch::tmdq_of(stream);
    if (!arch::is_stream(stream, memory_.tmdqs) || (run.looked >> tmdq & 1) != 0) continue;
    if (!memory_.shared_contexts && cta.context.is_known(tmdq)) continue;
    run.created = stream;
    return false;
  }
  return true;
}

// The TMDQ with the fewest streams, the first of them: one is shared only if none is free (TSK-11). Gives how many it
// has; kStreamsOfTmdq: none has room.
std::uint32_t ContextStreams::choose(LaunchRun& run, const Cta& cta) const {
  const auto& known = cta.context.streams.live;
  const auto found = [&run](std::uint32_t tmdq) { return run.was_found && tmdq == arch::tmdq_of(run.created); };
  // One that another warp destroys is not used again before that warp knows it.
  const auto live = [&](std::uint32_t tmdq) { return known[tmdq] | (found(tmdq) ? run.expected : 0); };
  std::uint32_t best = memory_.tmdqs;
  std::uint32_t fewest = arch::kStreamsOfTmdq;
  for (std::uint32_t tmdq = 0; tmdq < memory_.tmdqs; ++tmdq) {
    const auto there = static_cast<std::uint32_t>(bits::count(live(tmdq)) + (tmdq == 0 ? 1 : 0));
    if (there >= fewest) continue;
    fewest = there;
    best = tmdq;
  }
  if (best == memory_.tmdqs) return fewest;
  std::uint32_t place = cta.context.streams.next[best];
  while ((live(best) >> place & 1) != 0 || (best == 0 && place == 0)) place = (place + 1) % arch::kStreamsOfTmdq;
  if (!found(best)) {
    run.expected = known[best];
    run.was_found = false;
  }
  run.created = arch::stream_number(best, place);
  return fewest;
}

LaunchNext ContextStreams::create(LaunchRun& run, const Cta& cta, std::uint32_t* registers, Cycle when) {
  const std::uint32_t there = choose(run, cta);
  // Other CTAs of a shared context may have given back what this one knows as used.
  for (std::uint32_t tmdq = 0; memory_.shared_contexts && there > 0 && tmdq < memory_.tmdqs; ++tmdq) {
    if ((run.looked >> tmdq & 1) != 0) continue;
    run.created = arch::stream_number(tmdq, 0);
    return LaunchNext::to(LaunchStage::streams, when);
  }
  if (there == arch::kStreamsOfTmdq) return refused(run, registers, when);
  return LaunchNext::to(LaunchStage::create, when);
}

LaunchNext ContextStreams::refused(LaunchRun& run, std::uint32_t* registers, Cycle when) {
  stats_.nested_refused.add();
  run.begun = false;
  if (run.stopped) return LaunchNext::of(LaunchNext::Kind::drop);
  bits::for_each(run.lanes, [&](std::uint32_t lane) { put_result(run, registers, lane, arch::kNoStream); });
  return LaunchNext::of(LaunchNext::Kind::finish, when);
}

// What a step that has failed has found. The streams of a context of its own change by warps of the CTA alone: they
// count as each of these has its answer, in whatever order.
void ContextStreams::found(LaunchRun& run, Cta& cta, std::uint32_t tmdq, std::uint64_t old) const {
  run.expected = old;
  run.was_found = !memory_.shared_contexts && cta.context.is_known(tmdq);
  if (!run.was_found) cta.context.learn(tmdq, old);
}

LaunchNext ContextStreams::created(LaunchRun& run, Cta& cta, std::uint64_t old, std::uint32_t* registers, Cycle when) {
  const std::uint32_t tmdq = arch::tmdq_of(run.created);
  if (old != run.expected) {
    found(run, cta, tmdq, old);
    return create(run, cta, registers, when);
  }
  if (!cta.context.is_known(tmdq)) cta.context.learn(tmdq, old);
  cta.context.streams.live[tmdq] |= bit_of(run.created);
  cta.context.streams.next[tmdq] = static_cast<std::uint8_t>((arch::place_of(run.created) + 1) % arch::kStreamsOfTmdq);
  bits::for_each(run.lanes, [&](std::uint32_t lane) { put_result(run, registers, lane, run.created); });
  stats_.nested_streams.add();
  return LaunchNext::of(LaunchNext::Kind::finish, when);
}

// One after another. Another warp may have destroyed it meanwhile.
LaunchNext ContextStreams::destroy(LaunchRun& run, const Cta& cta, Cycle when) const {
  const auto stream = static_cast<std::uint32_t>(run.named[run.index]);
  if (!run.was_found) run.expected = cta.context.streams.live[arch::tmdq_of(stream)];
  run.was_found = false;
  run.fault_address = stream;
  const bool lives = (run.expected & bit_of(stream)) != 0;
  return LaunchNext::to(lives ? LaunchStage::destroy : LaunchStage::fault, when);
}

LaunchNext ContextStreams::destroyed(LaunchRun& run, Cta& cta, std::uint64_t old, Cycle when) {
  const auto stream = static_cast<std::uint32_t>(run.named[run.index]);
  const std::uint32_t tmdq = arch::tmdq_of(stream);
  if (old != run.expected) {
    found(run, cta, tmdq, old);
    return destroy(run, cta, when);
  }
  cta.context.streams.live[tmdq] &= ~bit_of(stream);
  if (++run.index == run.named.size()) return LaunchNext::of(LaunchNext::Kind::finish, when);
  return destroy(run, cta, when);
}

void ContextStreams::looked_at(LaunchRun& run, Cta& cta, std::uint64_t old) const {
  const std::uint32_t tmdq = arch::tmdq_of(run.created);
  cta.context.learn(tmdq, old);
  run.looked |= std::uint64_t{1} << tmdq;
}

MemoryStep ContextStreams::step(LaunchRun& run, const Cta& cta) const {
  switch (run.stage) {
    case LaunchStage::create:
      choose(run, cta);  // other warps may have created some since it was its turn
      return change_stream(run, cta, run.created, true);
    case LaunchStage::destroy:
      return change_stream(run, cta, static_cast<std::uint32_t>(run.named[run.index]), false);
    default:
      return {MemoryStep::Kind::read, cta.context.address + arch::context::live_streams(arch::tmdq_of(run.created))};
  }
}

}  // namespace heddle::sm
