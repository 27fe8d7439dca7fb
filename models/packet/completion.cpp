#include "packet/completion.h"

#include <algorithm>
#include <array>

#include "arch/byte_codec.h"
#include "arch/race_checker.h"

namespace heddle::packet {

using arch::FenceScope;
using arch::HsaStatus;
using Use = MemoryTag::Use;

namespace {

constexpr std::uint32_t kMailboxOffset = 8;
constexpr std::uint32_t kMailboxBytes = 12;  // address and event id
constexpr std::uint32_t kEventBytes = 4;
constexpr Picoseconds kPicosecondsPerTick = 1000;  // of time stamps

constexpr std::int64_t signal_value_of(HsaStatus status) { return -static_cast<std::int64_t>(status); }

}  // namespace

Completion::Completion(const StageContext& context, KernelListener& kernels, RetireListener& packets,
                       SignalListener& signals, QueueSupervisor& supervisor)
    : PipelineStage(context), kernels_(kernels), retirement_(packets), signals_(signals), supervisor_(supervisor) {}

Completion::Job Completion::job_of(Scope of, Packet& packet) {
  Job job;
  job.of = of;
  job.queue = packet.queue;
  job.index = packet.index;
  job.packet = &packet;
  return job;
}

void Completion::finish(Packet& packet) {
  Job job = job_of(Scope::packet, packet);
  job.value = packet.signal_value;
  if (packet.kernels.empty()) {
    job.signal = packet.other.signal;
    job.fence = packet.other.scopes.release;
    job.start = packet.times.started;
    job.end = packet.times.ended;
  } else {
    const bool all_ran = packet.dispatched == packet.kernels.size();
    job.signal = packet.kernels.back().signal;
    if (all_ran) job.fence = packet.kernels.back().release;
    job.start = packet.kernels.front().times.started;
    for (std::uint32_t i = 0; i < packet.dispatched; ++i) job.end = std::max(job.end, packet.kernels[i].times.ended);
  }
  start(job);
}

void Completion::finish_kernel(Packet& packet, std::uint32_t kernel) {
  const Kernel& part = packet.kernels[kernel];
  Job job = job_of(Scope::kernel, packet);
  job.kernel = kernel;
  if (part.outcome.reason != arch::Reason::inactivated) {  // the signal of one that was killed stays as it is
    job.fence = part.release;
    job.signal = part.signal;
    job.start = part.times.started;
    job.end = part.times.ended;
  }
  if (!part.outcome.ok()) job.value = signal_value_of(part.outcome.status);
  start(job);
}

void Completion::start(const Job& job) {
  const std::uint32_t number = jobs_.take();
  jobs_[number] = job;
  if (job.of == Scope::kernel && !job.asks()) {
    note_end(job);
    return end(number);
  }
  // What a kernel has written is at the L2 when it has ended (MEM-06): a release of agent scope has nothing to do. One
  // of system scope waits until all slices have written back.
  if (job.fence != FenceScope::system) return clean_up(number);
  stats().fences.add();
  memory().write_back(tag_of(Use::fence, number));
}

void Completion::on_event(std::uint32_t, std::uint64_t argument) { write_stamps(static_cast<std::uint32_t>(argument)); }

// They are there before the value tells that they are.
void Completion::write_stamps(std::uint32_t number) {
  const Job& job = jobs_[number];
  if ((job.signal & arch::kSignalTimestamps) == 0) return write_signal(number);
  const auto nanoseconds = [this](Cycle cycle) { return context_.timebase.time_of(cycle) / kPicosecondsPerTick; };
  std::array<std::uint8_t, 16> stamps{};
  arch::put_number(stamps, 0, 8, nanoseconds(job.start));
  arch::put_number(stamps, 8, 8, nanoseconds(job.end));
  memory().write(arch::signal_address(job.signal) + arch::kSignalStampsOffset, stamps.data(), stamps.size(),
                 tag_of(Use::stamps, number));
}

// For the race checker: before anybody can hear of it.
void Completion::note_end(const Job& job) {
  if (races() == nullptr || job.packet == nullptr) return;
  const Packet& packet = *job.packet;
  const bool whole = job.of == Scope::packet;
  const std::uint32_t kernel = whole ? 0 : job.kernel;
  races()->order().finishes({packet.queue, packet.index, kernel, whole}, job.fence, job.signal, packet.is_barrier());
}

void Completion::clean_up(std::uint32_t number) {
  schedule(spend(work_of_clean_up(jobs_[number].signal != 0)), kCleanedUp, number);
}

void Completion::write_signal(std::uint32_t number) {
  const Job& job = jobs_[number];
  note_end(job);
  if (job.signal == 0) return end(number);
  const std::uint64_t address = arch::signal_address(job.signal);
  if (job.value == 0) {
    memory().decrement(address, tag_of(Use::signal, number));
  } else {
    memory().write_value(address, static_cast<std::uint64_t>(job.value), 8, tag_of(Use::signal, number));
  }
}

void Completion::on_answer(const MemoryAnswer& answer) {
  const std::uint32_t number = answer.tag.slot;
  switch (answer.tag.use) {
    case Use::fence: {
      Job& job = jobs_[number];
      if (!answer.ok) {
        fail(job, HsaStatus::error, arch::Reason::write_back);
        if (job.value == 0) job.value = signal_value_of(HsaStatus::error);
      }
      return clean_up(number);
    }
    case Use::stamps:
      if (!answer.ok) fail(jobs_[number], HsaStatus::invalid_signal, arch::Reason::stamps_unwritable);
      return write_signal(number);
    case Use::signal:
      return signal_written(number, answer.ok);
    case Use::mailbox_read:
      return mailbox_read(number, answer);
    default:
      return mailbox_written(number, answer.ok);
  }
}

void Completion::signal_written(std::uint32_t number, bool ok) {
  const Job& job = jobs_[number];
  if (ok) {
    stats().signals.add();
    signals_.signal_changed(arch::signal_address(job.signal));
  }
  if (!ok) fail(job, HsaStatus::invalid_signal, arch::Reason::signal_unwritable);
  if (!ok || (job.signal & arch::kSignalInterrupt) == 0) return end(number);
  memory().read(arch::signal_address(job.signal) + kMailboxOffset, kMailboxBytes, tag_of(Use::mailbox_read, number));
}

void Completion::mailbox_read(std::uint32_t number, const MemoryAnswer& answer) {
  Job& job = jobs_[number];
  const std::uint64_t mailbox = arch::get_64(answer.data, 0);
  job.event_id = arch::get_32(answer.data, 8);
  if (!answer.ok || mailbox % kEventBytes != 0) {
    fail(job, HsaStatus::invalid_signal, arch::Reason::mailbox_address);
    return end(number);
  }
  if (mailbox == 0) return mailbox_written(number, true);
  memory().write_value(mailbox, job.event_id, kEventBytes, tag_of(Use::mailbox_write, number));
}

void Completion::mailbox_written(std::uint32_t number, bool ok) {
  const Job& job = jobs_[number];
  if (!ok) fail(job, HsaStatus::invalid_signal, arch::Reason::mailbox_unwritable);
  if (ok) interrupt(job);
  end(number);
}

void Completion::interrupt(const Job& job) {
  protocol::QueueEventPacket event = queues().event(protocol::QueueEvent::signal, job.queue, job.index);
  event.event_id = job.event_id;
  queues().tell_host(event);
}

void Completion::end(std::uint32_t number) {
  const Job job = jobs_[number];
  jobs_.give_back(number);
  if (job.of == Scope::rejected) return;
  Packet& packet = *job.packet;
  const bool fence_failed = job.value == signal_value_of(HsaStatus::error);
  if (fence_failed && packet.outcome.ok()) packet.outcome = {HsaStatus::error, arch::Reason::write_back};
  if (job.of == Scope::packet) return complete(packet);
  Kernel& kernel = packet.kernels[job.kernel];
  kernel.times.cleaned = job.asks() ? now() : kernel.times.ended;
  --packet.cleaning_up;
  reporter().done(packet, job.kernel);
  kernels_.kernel_completed(packet, job.asks());
}

void Completion::complete(Packet& packet) {
  const auto count = static_cast<std::uint32_t>(packet.kernels.size());
  packet.times.cleaned = now();
  if (count == 0) {
    reporter().done(packet, 0);
  } else if (packet.dispatched == count) {
    packet.kernels.back().times.cleaned = now();
    reporter().done(packet, count - 1);
    kernels_.kernel_completed(packet, false);
  }
  stats().count_packet(packet.type);
  if (races() != nullptr) races()->order().gone(packet.queue, packet.index);
  retirement_.retire(packet);
}

void Completion::reject(Packet& packet) {
  const arch::HsaResult result = packet.result;
  const std::uint64_t signal = signal_of(packet);
  Job job = job_of(Scope::rejected, packet);
  job.packet = nullptr;
  packet.outcome = result;
  reporter().done(packet, packet.bad_kernel);
  supervisor_.fail(job.queue, job.index, packet.bad_kernel, result);  // the packet is gone afterwards
  if (!arch::check_signal(signal).ok()) return;
  job.signal = signal;
  job.value = signal_value_of(result.status);
  const std::uint32_t number = jobs_.take();
  jobs_[number] = job;
  write_signal(number);
}

void Completion::fail(const Job& job, HsaStatus status, arch::Reason reason) {
  supervisor_.fail(job.queue, job.index, job.kernel, {status, reason});
}

}  // namespace heddle::packet
