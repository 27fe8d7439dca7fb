#include "packet/completion.h"

#include "arch/byte_codec.h"

namespace heddle::packet {

using arch::FenceScope;
using arch::HsaStatus;
using Use = MemoryTag::Use;

namespace {

constexpr std::uint32_t kMailboxOffset = 8;
constexpr std::uint32_t kMailboxBytes = 12;  // address and event id
constexpr std::uint32_t kEventBytes = 4;

constexpr std::int64_t signal_value_of(HsaStatus status) { return -static_cast<std::int64_t>(status); }

}  // namespace

Completion::Completion(const StageContext& context, KernelListener& kernels, RetireListener& packets,
                       QueueSupervisor& supervisor)
    : PipelineStage(context), kernels_(kernels), retirement_(packets), supervisor_(supervisor) {}

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
  } else {
    const bool all_ran = packet.dispatched == packet.kernels.size();
    job.signal = packet.kernels.back().signal;
    if (all_ran) job.fence = packet.kernels.back().release;
  }
  start(job);
}

void Completion::finish_kernel(Packet& packet, std::uint32_t kernel) {
  const Kernel& part = packet.kernels[kernel];
  Job job = job_of(Scope::kernel, packet);
  job.kernel = kernel;
  job.fence = part.release;
  job.signal = part.signal;
  if (part.status != HsaStatus::success) job.value = signal_value_of(part.status);
  start(job);
}

void Completion::start(const Job& job) {
  const std::uint32_t number = jobs_.take();
  jobs_[number] = job;
  if (job.of == Scope::kernel && !job.asks()) return end(number);
  double ns = 0;
  if (job.fence == FenceScope::agent) ns = params().release_agent;
  if (job.fence == FenceScope::system) ns = params().release_system;
  schedule(cost(ns), kFenced, number);
}

void Completion::on_event(std::uint32_t kind, std::uint64_t argument) {
  const auto number = static_cast<std::uint32_t>(argument);
  if (kind == kFenced) return write_back(number);
  write_signal(number);
}

// A release at system scope waits for all slices; any other one has been paid for.
void Completion::write_back(std::uint32_t number) {
  if (jobs_[number].fence != FenceScope::system) return clean_up(number);
  stats().fences.add();
  memory().write_back(tag_of(Use::fence, number));
}

void Completion::clean_up(std::uint32_t number) {
  schedule(spend(work_of_clean_up(jobs_[number].signal != 0)), kCleanedUp, number);
}

void Completion::write_signal(std::uint32_t number) {
  const Job& job = jobs_[number];
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
        fail(job, HsaStatus::error, "what the caches hold cannot be written back");
        if (job.value == 0) job.value = signal_value_of(HsaStatus::error);
      }
      return clean_up(number);
    }
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
  if (ok) stats().signals.add();
  if (!ok) fail(job, HsaStatus::invalid_signal, "a completion signal cannot be written");
  if (!ok || (job.signal & arch::kSignalInterrupt) == 0) return end(number);
  memory().read(arch::signal_address(job.signal) + kMailboxOffset, kMailboxBytes, tag_of(Use::mailbox_read, number));
}

void Completion::mailbox_read(std::uint32_t number, const MemoryAnswer& answer) {
  Job& job = jobs_[number];
  const std::uint64_t mailbox = arch::get_64(answer.data, 0);
  job.event_id = arch::get_32(answer.data, 8);
  if (!answer.ok || mailbox % kEventBytes != 0) {
    fail(job, HsaStatus::invalid_signal, "a signal names no mailbox that can be written");
    return end(number);
  }
  if (mailbox == 0) return mailbox_written(number, true);
  memory().write_value(mailbox, job.event_id, kEventBytes, tag_of(Use::mailbox_write, number));
}

void Completion::mailbox_written(std::uint32_t number, bool ok) {
  const Job& job = jobs_[number];
  if (!ok) fail(job, HsaStatus::invalid_signal, "a mailbox cannot be written");
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
  if (fence_failed && packet.status == HsaStatus::success) packet.status = HsaStatus::error;
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
  retirement_.retire(packet);
}

void Completion::reject(Packet& packet) {
  const arch::HsaResult result = packet.result;
  const std::uint64_t signal = signal_of(packet);
  Job job = job_of(Scope::rejected, packet);
  job.packet = nullptr;
  packet.status = result.status;
  reporter().done(packet, packet.bad_kernel);
  supervisor_.fail(job.queue, job.index, packet.bad_kernel, result);  // the packet is gone afterwards
  if (signal == 0 || arch::signal_address(signal) % arch::kSignalAlignment != 0) return;
  job.signal = signal;
  job.value = signal_value_of(result.status);
  const std::uint32_t number = jobs_.take();
  jobs_[number] = job;
  write_signal(number);
}

void Completion::fail(const Job& job, HsaStatus status, const char* why) {
  supervisor_.fail(job.queue, job.index, 0, {status, why});
}

}  // namespace heddle::packet
